//! The functions of `wit/plugin.wit`.

wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use exports::local::NAME_SNAKE::tools::{Counts, Guest};

struct Plugin;
export!(Plugin);

impl Guest for Plugin {
    fn count(text: String, longest: Option<u32>) -> Result<Counts, String> {
        if text.is_empty() {
            return Err("there is no text".into());
        }
        let longest = longest.unwrap_or(u32::MAX) as usize;
        let words = text.split_whitespace().filter(|word| word.chars().count() <= longest).count();
        Ok(Counts { words: words as u32, lines: text.lines().count() as u32 })
    }
}
