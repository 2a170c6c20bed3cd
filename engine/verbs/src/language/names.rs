//! Names of languages as people and models write them. Pure.

use super::Language;

/// Aliases of names, in lower case and without a version at the end.
const ALIASES: [(&str, &str); 22] = [
    ("py", "python"),
    ("cpython", "python"),
    ("js", "javascript"),
    ("mjs", "javascript"),
    ("cjs", "javascript"),
    ("node", "javascript"),
    ("nodejs", "javascript"),
    ("node.js", "javascript"),
    ("ecmascript", "javascript"),
    ("ts", "typescript"),
    ("sh", "bash"),
    ("shell", "bash"),
    ("shellscript", "bash"),
    ("c++", "cpp"),
    ("cxx", "cpp"),
    ("golang", "go"),
    ("rs", "rust"),
    ("sqlite", "sql"),
    ("postgres", "postgresql"),
    ("pgsql", "postgresql"),
    ("psql", "postgresql"),
    ("pg", "postgresql"),
];

/// The value among `known` ones that a word stands for: by itself, else in lower case and without spaces, without a version, or as an alias.
pub fn meant<T>(word: &str, known: impl Fn(&str) -> Option<T>) -> Option<T> {
    if let Some(exact) = known(word) {
        return Some(exact);
    }
    let plain: String = word.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_lowercase();
    let unversioned = plain.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let aliased =
        |name: &str| ALIASES.iter().find(|(alias, _)| *alias == name).and_then(|(_, name)| known(name));
    [plain.as_str(), unversioned].into_iter().find_map(|name| known(name).or_else(|| aliased(name)))
}

impl Language {
    /// The language that a name or an alias stands for, such as `py` or `Python 3`.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        meant(word, |name| Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, language)| *language))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_aliases_and_versions_are_understood() {
        for (name, language) in Language::ALL {
            for word in [name.to_owned(), name.to_uppercase(), format!(" {name} ")] {
                assert_eq!(Language::named(&word), Some(language), "{word:?}");
            }
        }
        for (alias, name) in ALIASES {
            assert_eq!(Language::named(alias).map(Language::name), Some(name), "{alias}");
        }
        for (word, want) in [
            ("Python3.12", Some(Language::Python)),
            ("Python 3", Some(Language::Python)),
            ("C++20", Some(Language::Cpp)),
            ("Node.js", Some(Language::JavaScript)),
            ("c", Some(Language::C)),
            ("pyton", None),
            ("ruby", None),
            ("", None),
            ("3", None),
        ] {
            assert_eq!(Language::named(word), want, "{word:?}");
        }
    }
}
