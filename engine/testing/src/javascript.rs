//! JavaScript projects: `package.json`, and how test files look.

use serde_json::Value;

use crate::project::Project;

/// How JavaScript and TypeScript files end.
const ENDINGS: [&str; 8] = [".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts"];

/// What a `package.json` says about tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    /// The script `test`.
    pub script: String,
    /// It has settings of jest.
    pub jest: bool,
    /// What it depends on, also for development.
    pub depends: Vec<String>,
}

impl Package {
    /// Of the project's folder; nothing where there is none that can be read.
    #[must_use]
    pub fn read(project: &dyn Project) -> Self {
        let bytes = project.has("package.json").then(|| project.read("package.json")).flatten();
        let Some(json) = bytes.and_then(|b| serde_json::from_slice::<Value>(&b).ok()) else {
            return Self::default();
        };
        let names = ["dependencies", "devDependencies"].into_iter().filter_map(|key| json[key].as_object());
        Self {
            script: json["scripts"]["test"].as_str().unwrap_or_default().to_owned(),
            jest: json["jest"].is_object(),
            depends: names.flat_map(|all| all.keys().cloned()).collect(),
        }
    }

    /// Whether the script `test` has this word, also as the end of a path.
    #[must_use]
    pub fn runs(&self, word: &str) -> bool {
        self.words().any(|w| w.rsplit('/').next().map(|w| w.strip_suffix(".js").unwrap_or(w)) == Some(word))
    }

    /// The words of the script `test`.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.script.split_whitespace()
    }
}

/// Whether a file is JavaScript or TypeScript; not one that only declares types.
pub(crate) fn is_script(file: &str) -> bool {
    ENDINGS.iter().any(|end| file.ends_with(end)) && !file.ends_with(".d.ts")
}

/// Whether jest takes a file for tests, as it does where nothing is configured.
#[must_use]
pub fn for_jest(file: &str) -> bool {
    let stem = file.rsplit_once('.').map_or("", |(stem, _)| stem);
    is_script(file)
        && (stem.ends_with(".test")
            || stem.ends_with(".spec")
            || file.split('/').rev().skip(1).any(|folder| folder == "__tests__"))
}

/// A pattern that matches this text only. A `::` of an id stands between titles, which are joined by spaces.
#[must_use]
pub fn pattern_of(titles: &str) -> String {
    let mut pattern = String::with_capacity(titles.len() + 8);
    pattern.push('^');
    for (i, title) in titles.split("::").enumerate() {
        if i > 0 {
            pattern.push_str("(?:::| )");
        }
        escape_into(title, &mut pattern);
    }
    pattern.push('$');
    pattern
}

/// A pattern's own text for this text.
pub fn escape_into(text: &str, pattern: &mut String) {
    for c in text.chars() {
        if r"\^$.*+?()[]{}|/".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_hold_tests() {
        for (file, want) in [
            ("a.test.js", true),
            ("a.spec.ts", true),
            ("src/__tests__/a.tsx", true),
            ("__tests__/deep/a.js", true),
            ("test/a.js", false),
            ("test.mjs", false),
            ("lib/a-test.cjs", false),
            ("a.test.d.ts", false),
            ("a.test.json", false),
            ("latest.js", false),
            ("", false),
        ] {
            assert_eq!(for_jest(file), want, "{file}");
        }
    }

    #[test]
    fn a_pattern_matches_its_titles() {
        assert_eq!(pattern_of("Cart::adds (1 + 2)"), r"^Cart(?:::| )adds \(1 \+ 2\)$");
        assert_eq!(pattern_of("a.b/c"), r"^a\.b\/c$");
    }
}
