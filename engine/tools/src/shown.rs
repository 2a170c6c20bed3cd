//! Texts of a plugin that people and models read have no character that they do not see: it could turn the order of reading round, or give
//! orders to a model which the person who grants does not read.

use std::path::Path;

use hotcell_sandbox::profile::FileError;
use hotcell_sandbox::text::hidden::hidden;
use serde_json::Value as Json;
use toml::Value as Toml;

/// Blanks of languages that are written with them, which are seen as blanks: no-break, narrow no-break and ideographic space.
const BLANKS: [char; 3] = ['\u{a0}', '\u{202f}', '\u{3000}'];

/// Checks one text.
///
/// # Errors
/// A sentence with the first character that is not seen.
pub fn check_text(text: &str) -> Result<(), String> {
    match hidden(&text.replace(BLANKS, " ")) {
        None => Ok(()),
        Some(found) => Err(format!("{found}; leave it out")),
    }
}

/// Checks every text of a manifest. One that is not TOML has no texts: parsing it says so.
///
/// # Errors
/// [`FileError`] with the key of the first text that has a character which is not seen.
pub fn check_manifest(text: &str, file: &Path) -> Result<(), FileError> {
    let Ok(table) = text.parse::<toml::Table>() else { return Ok(()) };
    in_toml(&Toml::Table(table), "").map_err(|(key, why)| FileError::of_key(file, &key, why).found_in(text))
}

fn in_toml(value: &Toml, at: &str) -> Result<(), (String, String)> {
    match value {
        Toml::String(text) => check_text(text).map_err(|why| (at.to_owned(), why)),
        Toml::Array(all) => all.iter().try_for_each(|one| in_toml(one, at)),
        Toml::Table(all) => all.iter().try_for_each(|(name, one)| {
            let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            in_toml(one, &at)
        }),
        _ => Ok(()),
    }
}

/// The first text of a component's documentation that has a character which is not seen: its path, and the reason.
pub(crate) fn first_hidden(docs: &Json) -> Option<String> {
    fn within(value: &Json, at: &str) -> Option<String> {
        match value {
            Json::String(text) => check_text(text).err().map(|why| format!("{at}: {why}")),
            Json::Array(all) => all.iter().find_map(|one| within(one, at)),
            Json::Object(all) => all.iter().find_map(|(name, one)| {
                // The key of the text itself says nothing about its place.
                let at = match (at, name.as_str()) {
                    ("", _) => name.clone(),
                    (_, "docs") => at.to_owned(),
                    _ => format!("{at}.{name}"),
                };
                within(one, &at)
            }),
            _ => None,
        }
    }
    within(docs, "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_with_unseen_characters_are_refused() {
        for (text, want) in [
            ("Adds two numbers.\nSecond line.", None),
            ("Température :\u{202f}20\u{a0}°C、\u{3000}温度 \u{26a0}\u{fe0f}", None),
            ("Adds\u{200b}", Some("character 5 is U+200B")),
            ("\u{202e}sdda", Some("character 1 is U+202E")),
            ("\u{1f44d}\u{e0041}", Some("U+E0041")),
        ] {
            match (check_text(text), want) {
                (Ok(()), None) => {}
                (Err(why), Some(part)) => assert!(why.contains(part), "{text:?}: {why}"),
                (got, _) => panic!("{text:?}: {got:?}"),
            }
        }
    }

    #[test]
    fn unseen_characters_are_found_in_every_text_of_a_manifest() {
        let manifest = |hole: &str| {
            format!(
                "[plugin]\nname = \"a\"\ndescription = \"{}\"\n[requests]\nread = \"{}\"\n\
                 net = [\"https://a.org\", {{ to = \"https://b.org\", why = \"{}\" }}]\n",
                if hole == "plugin.description" { "x\\u202e" } else { "x" },
                if hole == "requests.read" { "x\\u200b" } else { "x" },
                if hole == "requests.net.why" { "x\\U000E0041" } else { "x" },
            )
        };
        let file = Path::new("plugin.toml");
        assert_eq!(check_manifest(&manifest(""), file), Ok(()));
        assert_eq!(check_manifest("[", file), Ok(()));
        for (hole, line) in [("plugin.description", 3), ("requests.read", 5), ("requests.net.why", 6)] {
            let error = check_manifest(&manifest(hole), file).expect_err(hole);
            assert!(error.message.starts_with(&format!("{hole}: character 2 is U+")), "{error}");
            assert!(error.line == Some(line) || hole.ends_with("why"), "{error}");
        }
    }

    #[test]
    fn unseen_characters_are_found_in_documentation() {
        let docs = |text: &str| {
            json!({ "worlds": { "plugin": { "func_exports": { "add": { "docs": text } },
                "types": { "point": { "docs": "A point.", "items": { "x": text } } } } } })
        };
        assert_eq!(first_hidden(&docs("Plain.")), None);
        let found = first_hidden(&docs("Pl\u{200b}ain.")).unwrap();
        assert!(found.starts_with("worlds.plugin.func_exports.add: character 3 is U+200B"), "{found}");
    }
}
