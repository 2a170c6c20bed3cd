//! Definitions of images: pinned packages, and the environment of programs in the image. Strict TOML, like
//! profiles: an unknown key is an error. Pure except for [`Definition::from_file`]; nothing here builds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use hotcell_sandbox::layer::{likely, named_or_all};
use hotcell_sandbox::profile::{FileError, Key, parse_strict, read_text};
use serde::Deserialize;

/// The definitions that ship with hotcell, by name. Links in the crate's folder, which `cargo package` follows, lead
/// to those of the repository.
const BUILT_IN: [(&str, &str); 8] = [
    ("python", include_str!("../definitions/python.toml")),
    ("node", include_str!("../definitions/node.toml")),
    ("go", include_str!("../definitions/go.toml")),
    ("rust", include_str!("../definitions/rust.toml")),
    ("cpp", include_str!("../definitions/cpp.toml")),
    ("java", include_str!("../definitions/java.toml")),
    ("postgres", include_str!("../definitions/postgres.toml")),
    ("angular", include_str!("../definitions/angular.toml")),
];

/// Languages that a definition can name.
const LANGUAGES: [&str; 10] =
    ["bash", "c", "cpp", "go", "java", "javascript", "python", "rust", "sql", "typescript"];

const KEYS: &[Key] = &[
    Key::value("name"),
    Key::value("description"),
    Key::value("languages"),
    Key::table("debian", &[Key::value("suite"), Key::value("packages")]),
    Key::value("pypi"),
    Key::value("npm"),
    Key::value("env"),
    Key::value("path"),
    Key::value("links"),
    Key::value("prime"),
];

/// Contents of an image.
///
/// ```
/// use hotcell_images::Definition;
/// let python = Definition::named("python").unwrap();
/// assert!(python.packages.iter().any(|p| p == "python3"));
/// assert!(Definition::named("pithon").unwrap_err().to_string().contains("\"python\""));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// Image name: lower-case letters, digits, `.`, `_` and `-`. Default: the file name without its
    /// extension.
    pub name: String,
    /// One-line description for people.
    pub description: String,
    /// Languages whose programs the image has to run: the build fails when an interpreter or compiler of one
    /// is missing.
    pub languages: BTreeSet<String>,
    /// The Debian or Ubuntu release; `None` for the host's own.
    pub suite: Option<String>,
    /// Debian packages, each `NAME` or `NAME=VERSION`. Their dependencies are included, recommendations are
    /// not.
    pub packages: Vec<String>,
    /// PyPI packages, without their dependencies.
    pub pypi: Vec<Wheel>,
    /// npm packages as `NAME@VERSION`. Their dependencies are included.
    pub npm: Vec<String>,
    /// Environment variables of programs in the image.
    pub env: BTreeMap<String, String>,
    /// Absolute folders of `PATH`, before the usual ones; a component may be `*` when exactly one folder
    /// matches.
    pub path: Vec<String>,
    /// Links that maintainer scripts would have made: path below the root, and target.
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// Modules that the image's Python imports while it waits for a job.
    pub prime: Vec<String>,
}

/// A PyPI package of a certain version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wheel {
    /// Package name.
    pub name: String,
    /// Package version.
    pub version: String,
    /// SHA-256 digests of the accepted files, 64 hexadecimal digits each; when empty, any file of the index
    /// is accepted.
    pub sha256: Vec<String>,
}

/// Reason why a definition cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// No definition that ships with hotcell has this name.
    #[error(
        "there is no image definition {name:?}; {} (a file is given with a slash, as ./mine.toml)",
        named_or_all(*nearest, Definition::names())
    )]
    Unknown {
        /// Name as the user gave it.
        name: String,
        /// The existing name that is like it.
        nearest: Option<&'static str>,
    },
    /// The file cannot be read or parsed.
    #[error(transparent)]
    File(#[from] FileError),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    name: Option<String>,
    description: String,
    languages: BTreeSet<String>,
    debian: WrittenDebian,
    pypi: Vec<String>,
    npm: Vec<String>,
    env: BTreeMap<String, String>,
    path: Vec<String>,
    links: BTreeMap<String, String>,
    prime: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenDebian {
    suite: Option<String>,
    packages: Vec<String>,
}

impl Definition {
    /// Names of the definitions that ship with hotcell.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The definition of this name that ships with hotcell.
    ///
    /// # Errors
    /// [`DefinitionError::Unknown`] with the nearest name when there is no such definition.
    pub fn named(name: &str) -> Result<Self, DefinitionError> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((known, text)) => Ok(Self::parse(text, Path::new(known))?),
            None => {
                let nearest = likely(name, Self::names());
                Err(DefinitionError::Unknown { name: name.to_owned(), nearest })
            }
        }
    }

    /// Reads a definition from a file.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a valid definition.
    pub fn from_file(path: &Path) -> Result<Self, FileError> {
        Self::parse(&read_text(path)?, path)
    }

    /// Parses a definition. `file` is for messages; its name is the image's default name.
    ///
    /// # Errors
    /// [`FileError`] with the line, and the nearest key when a key is unknown.
    pub fn parse(text: &str, file: &Path) -> Result<Self, FileError> {
        let written: Written = parse_strict(text, file, KEYS)?;
        let bad = |key: &str, message: String| FileError::of_key(file, key, message).found_in(text);
        let stem = || file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = written.name.unwrap_or_else(stem);
        check_name(&name).map_err(|e| bad("name", e))?;
        for language in &written.languages {
            if !LANGUAGES.contains(&language.as_str()) {
                let all = LANGUAGES.join(", ");
                return Err(bad("languages", format!("{language:?} is not one of {all}")));
            }
        }
        if let Some(suite) = &written.debian.suite {
            check_suite(suite).map_err(|e| bad("debian.suite", e))?;
        }
        if written.debian.packages.is_empty() {
            return Err(bad(
                "debian",
                "packages names none; an image begins with Debian packages".to_owned(),
            ));
        }
        for package in &written.debian.packages {
            check_package(package).map_err(|e| bad("debian.packages", e))?;
        }
        let wheels: Result<Vec<Wheel>, String> = written.pypi.iter().map(|text| wheel(text)).collect();
        let pypi = wheels.map_err(|e| bad("pypi", e))?;
        let mut seen = BTreeSet::new();
        if let Some(twice) = pypi.iter().find(|w| !seen.insert(same_name(&w.name))) {
            return Err(bad("pypi", format!("{} is named twice", twice.name)));
        }
        for package in &written.npm {
            check_npm(package).map_err(|e| bad("npm", e))?;
        }
        for (name, value) in &written.env {
            check_variable(name, value).map_err(|e| bad("env", e))?;
        }
        for folder in &written.path {
            check_folder(folder).map_err(|e| bad("path", e))?;
        }
        for module in &written.prime {
            check_module(module).map_err(|e| bad("prime", e))?;
        }
        if !written.prime.is_empty() && !written.languages.contains("python") {
            return Err(bad(
                "prime",
                "only a Python waits with modules, and languages does not name python".to_owned(),
            ));
        }
        let links: Result<BTreeMap<PathBuf, PathBuf>, String> =
            written.links.iter().map(|(from, to)| link(from, to)).collect();
        Ok(Self {
            name,
            description: written.description,
            languages: written.languages,
            suite: written.debian.suite,
            packages: written.debian.packages,
            pypi,
            npm: written.npm,
            env: written.env,
            path: written.path,
            links: links.map_err(|e| bad("links", e))?,
            prime: written.prime,
        })
    }
}

fn made_of(text: &str, more: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || more.as_bytes().contains(&b))
}

fn begins_well(text: &str) -> bool {
    text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
}

fn check_name(name: &str) -> Result<(), String> {
    let lower = !name.bytes().any(|b| b.is_ascii_uppercase());
    match begins_well(name) && lower && made_of(name, "._-") && name.len() <= 64 {
        true => Ok(()),
        false => Err(format!("{name:?} is not a name of up to 64 of a-z, 0-9, '.', '_' and '-'")),
    }
}

fn check_suite(suite: &str) -> Result<(), String> {
    match !suite.is_empty() && suite.len() <= 32 && suite.bytes().all(|b| b.is_ascii_lowercase()) {
        true => Ok(()),
        false => Err(format!("{suite:?} is not a release's code name, such as bookworm")),
    }
}

/// Checks a package. A trailing `-` would make apt remove it.
fn check_package(package: &str) -> Result<(), String> {
    let (name, version) = package.split_once('=').map_or((package, None), |(n, v)| (n, Some(v)));
    let lower = !name.bytes().any(|b| b.is_ascii_uppercase());
    let good = begins_well(name) && lower && made_of(name, "+-.") && !name.ends_with('-') && name.len() >= 2;
    match good && version.is_none_or(|v| begins_well(v) && made_of(v, ".+:~-")) {
        true => Ok(()),
        false => Err(format!("{package:?} is not a Debian package; write NAME or NAME=VERSION")),
    }
}

fn wheel(text: &str) -> Result<Wheel, String> {
    let bad = || {
        format!("{text:?} is not pinned; write NAME==VERSION, and --hash=sha256:DIGITS behind it if you like")
    };
    let mut words = text.split_ascii_whitespace();
    let (name, version) = words.next().and_then(|pin| pin.split_once("==")).ok_or_else(bad)?;
    let good = begins_well(name) && made_of(name, "._-") && begins_well(version) && made_of(version, ".+!_-");
    let sha256: Option<Vec<String>> = words
        .map(|word| {
            let digits = word.strip_prefix("--hash=sha256:")?;
            let whole = digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
            whole.then(|| digits.to_ascii_lowercase())
        })
        .collect();
    match (good, sha256) {
        (true, Some(sha256)) => Ok(Wheel { name: name.to_owned(), version: version.to_owned(), sha256 }),
        _ => Err(bad()),
    }
}

/// A package name, normalised as the index compares it.
#[must_use]
pub fn same_name(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

fn check_npm(text: &str) -> Result<(), String> {
    let (name, version) = text.rsplit_once('@').unwrap_or((text, ""));
    let plain = |part: &str| begins_well(part) && made_of(part, "._-");
    let named = match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| plain(scope) && plain(name)),
        None => plain(name),
    };
    let numbered = version.bytes().next().is_some_and(|b| b.is_ascii_digit())
        && version.split('.').count() >= 3
        && made_of(version, ".+-");
    match named && numbered {
        true => Ok(()),
        false => Err(format!("{text:?} is not pinned; write NAME@VERSION, such as jest@29.7.0")),
    }
}

fn check_variable(name: &str, value: &str) -> Result<(), String> {
    if name == "PATH" {
        return Err("PATH is the key path".to_owned());
    }
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    match first && made_of(name, "_") && !value.contains('\0') {
        true => Ok(()),
        false => Err(format!("{name:?} is not a variable's name")),
    }
}

fn check_module(name: &str) -> Result<(), String> {
    let is_name = |part: &str| {
        made_of(part, "_") && part.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
    };
    match name.split('.').all(is_name) && name.len() <= 200 {
        true => Ok(()),
        false => Err(format!("{name:?} is no name of a Python module, such as numpy or xml.etree")),
    }
}

fn is_below(path: &Path) -> bool {
    path.components().next().is_some() && path.components().all(|c| matches!(c, Component::Normal(_)))
}

fn check_folder(folder: &str) -> Result<(), String> {
    let below = folder.strip_prefix('/').is_some_and(|rest| is_below(Path::new(rest)));
    let plain = |part: &str| part == "*" || !part.contains('*');
    match below && folder.split('/').all(plain) && !folder.contains([':', '\0']) {
        true => Ok(()),
        false => Err(format!("{folder:?} is not an absolute folder")),
    }
}

fn link(from: &str, to: &str) -> Result<(PathBuf, PathBuf), String> {
    if !is_below(Path::new(from)) {
        return Err(format!("{from:?} is not a path below the image's root, such as usr/bin/java"));
    }
    if to.is_empty() || to.contains('\0') {
        return Err(format!("{from:?} points to nothing"));
    }
    Ok((from.into(), to.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Definition, FileError> {
        Definition::parse(text, Path::new("/d/mine.toml"))
    }

    #[test]
    fn built_in_definitions_are_valid() {
        for name in Definition::names() {
            let definition = Definition::named(name).unwrap();
            assert_eq!(definition.name, name);
            assert!(!definition.description.is_empty() && !definition.languages.is_empty(), "{name}");
        }
        assert!(Definition::named("postgre").unwrap_err().to_string().contains("\"postgres\""));
    }

    #[test]
    fn definition_mistakes_name_line_and_nearest_key() {
        let good = "[debian]\npackages = [\"dash\"]\n";
        for (text, line, word) in [
            ("pipy = []\n", Some(1), "did you mean \"pypi\""),
            ("zygote = []\n", Some(1), "unknown key \"zygote\""),
            ("[debian]\npackage = []\n", Some(2), "did you mean \"debian.packages\""),
            ("", None, "names none"),
            ("name = \"../x\"\n", Some(1), "is not a name"),
            ("name = \"X\"\n", Some(1), "is not a name"),
            ("languages = [\"pascal\"]\n", Some(1), "is not one of"),
            ("[debian]\nsuite = \"12\"\n", Some(2), "code name"),
            ("[debian]\npackages = [\"dash-\"]\n", Some(2), "is not a Debian package"),
            ("[debian]\npackages = [\"-o=x\"]\n", Some(2), "is not a Debian package"),
            ("[debian]\npackages = [\"a b\"]\n", Some(2), "is not a Debian package"),
            ("[debian]\npackages = [\"dash=1;2\"]\n", Some(2), "is not a Debian package"),
            ("[debian]\npackages = \"dash\"\n", Some(2), "sequence"),
            ("pypi = [\"pytest\"]\n", Some(1), "is not pinned"),
            ("pypi = [\"pytest>=8\"]\n", Some(1), "is not pinned"),
            ("pypi = [\"pytest==8 --hash=md5:0\"]\n", Some(1), "is not pinned"),
            ("pypi = [\"-r==1\"]\n", Some(1), "is not pinned"),
            ("pypi = [\"a.b==1\", \"A_B==1\"]\n", Some(1), "named twice"),
            ("npm = [\"jest\"]\n", Some(1), "is not pinned"),
            ("npm = [\"jest@latest\"]\n", Some(1), "is not pinned"),
            ("npm = [\"jest@29\"]\n", Some(1), "is not pinned"),
            ("npm = [\"@a@1.0.0\"]\n", Some(1), "is not pinned"),
            ("npm = [\"git+ssh://x@1.0.0\"]\n", Some(1), "is not pinned"),
            ("env = { PATH = \"/x\" }\n", Some(1), "the key path"),
            ("env = { \"A=B\" = \"x\" }\n", Some(1), "variable's name"),
            ("path = [\"bin\"]\n", Some(1), "absolute"),
            ("path = [\"/a/../b\"]\n", Some(1), "absolute"),
            ("path = [\"/a:b\"]\n", Some(1), "absolute"),
            ("path = [\"/a*/b\"]\n", Some(1), "absolute"),
            ("links = { \"/usr/bin/x\" = \"y\" }\n", Some(1), "below"),
            ("links = { \"../x\" = \"y\" }\n", Some(1), "below"),
            ("links = { x = \"\" }\n", Some(1), "nothing"),
            ("languages = [\"python\"]\nprime = [\"a-b\"]\n", Some(2), "no name of a Python module"),
            ("languages = [\"python\"]\nprime = [\"a,b\"]\n", Some(2), "no name of a Python module"),
            ("languages = [\"python\"]\nprime = [\"a.\"]\n", Some(2), "no name of a Python module"),
            ("prime = [\"numpy\"]\n", Some(1), "languages does not name python"),
        ] {
            let whole = if text.contains("[debian]") { text.to_owned() } else { format!("{text}{good}") };
            let error = parse(if line.is_none() { text } else { &whole }).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.to_string().contains(word), "{text:?}: {error}");
        }
    }

    #[test]
    fn definition_keys_are_all_read() {
        let digits = "ab".repeat(32);
        let text = format!(
            r#"
            description = "d"
            languages = ["python"]
            pypi = ["pytest==8.3.4 --hash=sha256:{digits}"]
            npm = ["jest@29.7.0", "@types/jest@29.5.1"]
            env = {{ A = "b" }}
            path = ["/usr/lib/postgresql/*/bin"]
            links = {{ "usr/bin/cc" = "gcc" }}
            prime = ["xml.etree", "_x1"]
            [debian]
            suite = "bookworm"
            packages = ["g++", "libc6=2.36-9+deb12u14"]
            "#
        );
        let got = parse(&text).unwrap();
        let want = Definition {
            name: "mine".into(),
            description: "d".into(),
            languages: ["python".into()].into(),
            suite: Some("bookworm".into()),
            packages: vec!["g++".into(), "libc6=2.36-9+deb12u14".into()],
            pypi: vec![Wheel { name: "pytest".into(), version: "8.3.4".into(), sha256: vec![digits] }],
            npm: vec!["jest@29.7.0".into(), "@types/jest@29.5.1".into()],
            env: [("A".into(), "b".into())].into(),
            path: vec!["/usr/lib/postgresql/*/bin".into()],
            links: [("usr/bin/cc".into(), "gcc".into())].into(),
            prime: vec!["xml.etree".into(), "_x1".into()],
        };
        assert_eq!(got, want);
        let named = parse("name = \"other\"\n[debian]\npackages = [\"dash\"]").unwrap();
        assert_eq!(named.name, "other");
    }
}
