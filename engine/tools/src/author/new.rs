//! Creates a plugin's folder: one function, its interface, a manifest and cases, which build and pass
//! unchanged.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hotcell_sandbox::layer::likely;

use super::{AuthorError, at};
use crate::install::manifest;

/// Language of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Rust, with `cargo` for `wasm32-wasip2`.
    Rust,
    /// Python, with `componentize-py`.
    Python,
    /// JavaScript, with `componentize-js`.
    JavaScript,
    /// C, by `clang`.
    C,
}

impl FromStr for Language {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "rust" => Ok(Self::Rust),
            "python" => Ok(Self::Python),
            "js" | "javascript" => Ok(Self::JavaScript),
            "c" => Ok(Self::C),
            other => {
                let near = likely(other, ["rust", "python", "js", "javascript", "c"]);
                let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
                Err(format!("plugins are not made in {other:?}; {near}there are rust, python, js and c"))
            }
        }
    }
}

/// A template's file: its path and its contents.
type Template = (&'static str, &'static str);

macro_rules! template {
    ($to:literal, $from:literal) => {
        ($to, include_str!(concat!("../../templates/", $from)))
    };
}

const COMMON: &[Template] = &[
    template!("wit/plugin.wit", "common/plugin.wit"),
    template!("plugin.toml", "common/plugin.toml"),
    template!("tests/cases.toml", "common/cases.toml"),
    ("wit/deps/hotcell-tool/tool.wit", include_str!("../../wit/hotcell/tool.wit")),
    (
        "wit/deps/hotcell-sandbox/sandbox.wit",
        include_str!("../../wit/hotcell/deps/hotcell-sandbox/sandbox.wit"),
    ),
    ("wit/deps/hotcell-plugin/plugin.wit", include_str!("../../wit/hotcell/deps/hotcell-plugin/plugin.wit")),
    ("wit/deps/hotcell-guard/guard.wit", include_str!("../../wit/hotcell/deps/hotcell-guard/guard.wit")),
];
const RUST: &[Template] = &[
    template!("Cargo.toml", "rust/Cargo.toml.in"),
    template!("src/lib.rs", "rust/src/lib.rs"),
    template!("README.md", "rust/README.md"),
    template!(".gitignore", "rust/gitignore"),
];
const PYTHON: &[Template] = &[
    template!("app.py", "python/app.py"),
    template!("requirements.txt", "python/requirements.txt"),
    template!("README.md", "python/README.md"),
    template!(".gitignore", "python/gitignore"),
];
const JAVASCRIPT: &[Template] = &[
    template!("package.json", "js/package.json"),
    template!("src/plugin.js", "js/src/plugin.js"),
    template!("README.md", "js/README.md"),
    template!(".gitignore", "js/gitignore"),
];

const C: &[Template] = &[
    template!("src/plugin.c", "c/plugin.c"),
    template!("README.md", "c/README.md"),
    template!(".gitignore", "c/gitignore"),
];

/// Words of Rust that wit-bindgen does not escape as the name of a package's module (reference, "Keywords").
const RUST_WORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

/// True for a word of WIT, which a package cannot have as its name: `local:list` does not parse.
fn is_wit_word(name: &str) -> bool {
    wit_parser::UnresolvedPackageGroup::parse("plugin.wit", &format!("package local:{name};")).is_err()
}

/// Checks that a text is valid as the name of a new plugin, which its WIT and its module in Rust have, too.
///
/// # Errors
/// A sentence that says what is wrong when the name is not valid.
pub fn check_name(name: &str) -> Result<(), String> {
    manifest::is_name(name)?;
    // WIT requires a letter at the start of each part.
    if name.split('-').any(|part| !part.starts_with(|c: char| c.is_ascii_lowercase())) {
        return Err(format!(
            "{name:?} cannot be a new plugin's name: WIT requires a small letter after each hyphen"
        ));
    }
    let language = match name {
        _ if is_wit_word(name) => "WIT",
        _ if RUST_WORDS.contains(&name) => "Rust",
        _ => return Ok(()),
    };
    Err(format!(
        "{name:?} cannot be a new plugin's name: it is a word of {language}; add another word, as in {name}-tool"
    ))
}

/// Makes the folder, which must not be there yet, and answers with its files.
///
/// # Errors
/// [`AuthorError::Name`] when the name is not valid, [`AuthorError::Exists`] when the folder exists,
/// [`AuthorError::Io`] when a file cannot be written.
pub fn create(folder: &Path, name: &str, language: Language) -> Result<Vec<PathBuf>, AuthorError> {
    check_name(name).map_err(|why| AuthorError::Name { why })?;
    if folder.exists() {
        return Err(AuthorError::Exists { path: folder.to_owned() });
    }
    let own = match language {
        Language::Rust => RUST,
        Language::Python => PYTHON,
        Language::JavaScript => JAVASCRIPT,
        Language::C => C,
    };
    let mut written = Vec::new();
    for (path, text) in own.iter().chain(COMMON) {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(at(parent))?;
        let text = text.replace("NAME_SNAKE", &name.replace('-', "_")).replace("NAME", name);
        fs::write(&path, text).map_err(at(&path))?;
        written.push(path);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_new_plugins_are_explained() {
        for (name, want) in [
            ("word-count", None),
            ("a1-b2", None),
            ("list-match", None),
            ("list", Some("a word of WIT; add another word, as in list-tool")),
            ("error-context", Some("a word of WIT")),
            ("match", Some("a word of Rust; add another word, as in match-tool")),
            ("Foo", Some("small letters")),
            ("foo_bar", Some("small letters")),
            ("", Some("small letters")),
            ("doctor", Some("taken by hotcell")),
            ("word-2", Some("after each hyphen")),
            ("word--count", Some("after each hyphen")),
            ("word-", Some("after each hyphen")),
            (&"a".repeat(33), Some("at most 32")),
        ] {
            match (check_name(name), want) {
                (Ok(()), None) => {}
                (Err(why), Some(want)) => assert!(why.contains(want), "{name}: {why}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn name_that_is_taken_makes_an_interface_that_parses() {
        // Words of both languages, alone and as a part of a name: each is refused, or its scaffold can be read.
        let wit = [
            "type", "list", "string", "record", "result", "option", "stream", "future", "resource", "import",
            "world", "map", "u8", "own",
        ];
        for word in wit.iter().chain(RUST_WORDS) {
            for name in [(*word).to_owned(), format!("{word}-x"), format!("x-{word}")] {
                let text = COMMON[0].1.replace("NAME", &name);
                let parsed = wit_parser::UnresolvedPackageGroup::parse("plugin.wit", &text);
                assert!(check_name(&name).is_err() || parsed.is_ok(), "{name}: {:?}", parsed.err());
                assert_eq!(check_name(&name).is_ok(), name.contains('-'), "{name}");
            }
        }
    }
}
