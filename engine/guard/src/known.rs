//! Compares code and names of packages with the operator's feeds. The results are notes: they are added to the findings
//! after the verdict is decided.

use crate::context::Cx;
use crate::feed::{Likeness, NODE_MODULES, PYTHON_MODULES, Registry, fingerprint};
use crate::language::Language;
use crate::report::{Finding, Fingerprint, Severity};
use crate::rules::{Call, basename};
use crate::value::{Const, Value};

/// Maximum number of notes of a scan.
const MAX_NOTES: usize = 64;
/// Maximum number of recorded fingerprints of a scan.
pub const MAX_FINGERPRINTS: usize = 4096;
/// Maximum number of names that a scan compares.
const MAX_NAMES: usize = 4096;

impl Cx<'_> {
    /// Compares the code of a file with known fingerprints, and records its own.
    pub(crate) fn fingerprint(&mut self, path: &str, language: Language, text: &str) {
        let pack = self.pack;
        let Some(feed) = &pack.feed else { return };
        if text.len() > self.limits.parse_bytes {
            return;
        }
        let Some(digest) = fingerprint(language, text) else { return };
        if let Some(label) = feed.label(&digest) {
            let message = format!("A feed lists the fingerprint of this code as {label:?}.");
            self.note("feed.known_code", "known.code", path.to_owned(), (0, 0, 0), message);
        }
        if !feed.records {
            return;
        }
        let own = Fingerprint {
            part: path.to_owned(),
            language: language.name().to_owned(),
            sha256: hex::encode(digest),
        };
        if self.known.fingerprints.len() < MAX_FINGERPRINTS && !self.known.fingerprints.contains(&own) {
            self.known.fingerprints.push(own);
        }
    }

    /// Compares the name of a package that the part names with popular ones. `span` finds its place, for a note.
    pub(crate) fn package(&mut self, registry: Registry, name: &str, span: impl FnOnce() -> (usize, usize)) {
        if let Some(message) = self.resemblance(registry, name) {
            let (start, end) = span();
            let place = self.locate(start, end);
            self.note("feed.similar_name", "package.similar_name", self.path(), place, message);
        }
    }

    /// Compares the package of a module that the part imports: `requests.auth`, `@scope/name/file`, `lodash/fp`.
    pub(crate) fn module(&mut self, registry: Registry, module: &str, span: (usize, usize)) {
        if self.pack.feed.is_some()
            && let Some(name) = package_of(registry, module)
        {
            self.package(registry, name, || span);
        }
    }

    /// Compares the name in a requirement of Python.
    pub(crate) fn requirement(&mut self, line: &str, span: impl FnOnce() -> (usize, usize)) {
        if let Some(name) = required(line) {
            self.package(Registry::Pypi, name, span);
        }
    }

    /// Compares the name and the requirements in the metadata of a Python package (`PKG-INFO`, `METADATA`).
    pub(crate) fn metadata(&mut self, path: &str, text: &str) {
        if self.pack.feed.is_none() || !matches!(basename(path), "PKG-INFO" | "METADATA") {
            return;
        }
        for (at, line) in text.lines().take_while(|line| !line.is_empty()).enumerate() {
            let Some((key, value)) = line.split_once(':') else { continue };
            if matches!(key, "Name" | "Requires-Dist")
                && let Some(name) = required(value)
            {
                let Some(message) = self.resemblance(Registry::Pypi, name) else { continue };
                let line = u32::try_from(at + 1).unwrap_or(u32::MAX);
                let place = (line, 1, line);
                self.note("feed.similar_name", "package.similar_name", path.to_owned(), place, message);
            }
        }
    }

    /// Compares names in a call: of `setup(name=…, install_requires=[…])`, and of `pip install` and `npm install`.
    pub(crate) fn packages_of_call(&mut self, language: Language, call: &Call<'_>, span: (usize, usize)) {
        if self.pack.feed.is_none() {
            return;
        }
        let named = |names: &[&str]| call.names.iter().any(|name| names.contains(&&**name));
        if language == Language::Python && named(&["setuptools.setup", "distutils.core.setup"]) {
            for (key, value) in call.kwargs {
                match &**key {
                    "name" => {
                        if let Some(name) = value.as_whole_text() {
                            self.package(Registry::Pypi, name, || span);
                        }
                    }
                    "install_requires" | "setup_requires" | "tests_require" => self.requires(value, span),
                    "extras_require" => {
                        if let Some(Const::Map(extras)) = &value.known {
                            extras.iter().for_each(|(_, value)| self.requires(value, span));
                        }
                    }
                    _ => {}
                }
            }
        }
        if language == Language::Bash {
            let first = call.names.first().map_or("", |name| basename(name));
            let words = call.args.iter().filter_map(Value::as_whole_text);
            let Some((registry, words)) = installed(first, words) else { return };
            for word in words {
                match registry {
                    Registry::Pypi => self.requirement(word, || span),
                    Registry::Npm => self.npm_package(word, || span),
                }
            }
        }
    }

    /// Compares the names in requirements: a list of texts, or one text with a requirement on each line.
    fn requires(&mut self, value: &Value, span: (usize, usize)) {
        let mut all = |value: &Value| {
            let lines = value.as_whole_text().into_iter().flat_map(str::lines);
            lines.take(MAX_NAMES).for_each(|line| self.requirement(line, || span));
        };
        match value.as_whole_text() {
            Some(_) => all(value),
            None => value.elements().iter().flatten().take(MAX_NAMES).for_each(all),
        }
    }

    /// Compares the name in `name@1.2`, `@scope/name@1.2` and `own@npm:name@1.2`.
    pub(crate) fn npm_package(&mut self, word: &str, span: impl FnOnce() -> (usize, usize)) {
        self.package(Registry::Npm, npm_name(word), span);
    }

    /// Message about a name that resembles that of a popular package and was not compared before.
    fn resemblance(&mut self, registry: Registry, name: &str) -> Option<String> {
        let pack = self.pack;
        let feed = pack.feed.as_ref()?;
        let own = (registry, name.to_owned());
        if !registry.is_name(name) || self.known.names.contains(&own) {
            return None;
        }
        if self.known.names.len() >= MAX_NAMES || self.known.notes.len() >= MAX_NOTES {
            self.limited();
            return None;
        }
        self.known.names.insert(own);
        let (popular, likeness) = feed.popular(registry).resembled(name)?;
        let how = match likeness {
            Likeness::OneLetter => "is one letter apart from",
            Likeness::Look => "looks like",
        };
        let registry = registry.name();
        Some(format!(
            "The package name {name} {how} {popular}, a popular package of {registry}: check which is meant."
        ))
    }

    fn note(&mut self, rule: &str, what: &str, part: String, place: (u32, u32, u32), message: String) {
        let note = Finding {
            rule: rule.to_owned(),
            severity: Severity::Note,
            capability: what.to_owned(),
            part,
            line: place.0,
            column: place.1,
            end_line: place.2,
            cwe: None,
            message,
            derived_from: Vec::new(),
            frames: Vec::new(),
        };
        if self.known.notes.contains(&note) {
            return;
        }
        if self.known.notes.len() < MAX_NOTES {
            self.known.notes.push(note);
        } else {
            self.limited();
        }
    }

    /// Notes once that a limit left something uncompared.
    fn limited(&mut self) {
        if self.known.limited {
            return;
        }
        self.known.limited = true;
        self.known.notes.push(Finding {
            rule: "feed.limit".to_owned(),
            severity: Severity::Note,
            capability: "feed.limit".to_owned(),
            part: self.path(),
            line: 0,
            column: 0,
            end_line: 0,
            cwe: None,
            message: format!(
                "Not everything was compared with the feeds: a scan compares at most {MAX_NAMES} names of packages and makes at most {MAX_NOTES} notes."
            ),
            derived_from: Vec::new(),
            frames: Vec::new(),
        });
    }
}

/// Name of the package in `name@1.2`, `@scope/name@1.2`, `own@npm:name@1.2` and `npm:name@1.2`.
fn npm_name(word: &str) -> &str {
    let word = word.split_once("npm:").map_or(word, |(_, name)| name);
    let end = word.char_indices().skip(1).find(|(_, c)| *c == '@');
    &word[..end.map_or(word.len(), |(at, _)| at)]
}

/// Registry and packages of a command that installs packages, by its program and its further words.
fn installed<'w>(program: &str, words: impl Iterator<Item = &'w str>) -> Option<(Registry, Vec<&'w str>)> {
    let mut words: Vec<&str> = words.collect();
    let mut program = program;
    // `python3 -m pip install x`, `uv pip install x`.
    if program.starts_with("python") || program == "py" {
        let at = words.iter().position(|word| *word == "-m")?;
        program = *words.get(at + 1)?;
        words.drain(..at + 2);
    } else if program == "uv"
        && let Some(at) = words.iter().position(|word| matches!(*word, "pip" | "add"))
    {
        let taken = at + usize::from(words[at] == "pip");
        words.drain(..taken);
        program = "pip";
    }
    let registry = match program {
        "npm" | "yarn" | "pnpm" => Registry::Npm,
        "pip" | "pip3" | "pipx" => Registry::Pypi,
        _ => return None,
    };
    // Options before the verb may have a value of their own: `pip --proxy x install y`.
    let verb = words.iter().position(|word| matches!(*word, "install" | "i" | "add"))?;
    let before = &words[..verb];
    let is_option = |at: usize| before[at].starts_with('-') || at > 0 && before[at - 1].starts_with('-');
    if !(0..verb).all(is_option) {
        return None;
    }
    let packages = words[verb + 1..].iter().copied().filter(|word| !word.starts_with('-'));
    Some((registry, packages.take(MAX_NAMES).collect()))
}

/// Package that a module is imported from; `None` for files and for modules that come with the language.
fn package_of(registry: Registry, module: &str) -> Option<&str> {
    match registry {
        Registry::Pypi => {
            let top = module.split('.').next().filter(|top| !top.is_empty() && !top.starts_with('_'))?;
            PYTHON_MODULES.binary_search(&top).is_err().then_some(top)
        }
        Registry::Npm => {
            if module.starts_with(['.', '/']) || module.contains(':') {
                return None;
            }
            let names = if module.starts_with('@') { 2 } else { 1 };
            let end = module.match_indices('/').nth(names - 1).map_or(module.len(), |(at, _)| at);
            NODE_MODULES.binary_search(&&module[..end]).is_err().then_some(&module[..end])
        }
    }
}

/// Name in a requirement: `requests[socks]>=2; python_version > '3'`.
fn required(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let end = line.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let is_requirement = rest.trim_start().is_empty()
        || rest.trim_start().starts_with(['[', '<', '>', '=', '!', '~', '(', ';', '@', ',', '#', '\\']);
    (is_requirement && name.starts_with(|c: char| c.is_ascii_alphanumeric())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_modules() {
        assert!(PYTHON_MODULES.is_sorted() && NODE_MODULES.is_sorted());
        for (registry, module, want) in [
            (Registry::Pypi, "requests.auth", Some("requests")),
            (Registry::Pypi, "urllib.request", None),
            (Registry::Pypi, "", None),
            (Registry::Pypi, "__future__", None),
            (Registry::Pypi, "_pytest.config", None),
            (Registry::Pypi, "urllib2", None),
            (Registry::Pypi, "httplib", None),
            (Registry::Pypi, "ConfigParser", None),
            (Registry::Pypi, "StringIO", None),
            (Registry::Pypi, "binhex", None),
            (Registry::Pypi, "thread", None),
            (Registry::Pypi, "urllib3.util", Some("urllib3")),
            (Registry::Npm, "lodash/fp", Some("lodash")),
            (Registry::Npm, "@types/node/fs", Some("@types/node")),
            (Registry::Npm, "@types/node", Some("@types/node")),
            (Registry::Npm, "./lodash", None),
            (Registry::Npm, "node:events", None),
            (Registry::Npm, "events", None),
            (Registry::Npm, "https://h/x.js", None),
        ] {
            assert_eq!(package_of(registry, module), want, "{module}");
        }
    }

    #[test]
    fn packages_of_commands() {
        for (line, want) in [
            ("pip install a b==1", Some((Registry::Pypi, vec!["a", "b==1"]))),
            ("pip -q install a", Some((Registry::Pypi, vec!["a"]))),
            ("pip --proxy p install a", Some((Registry::Pypi, vec!["a"]))),
            ("python3 -m pip install a", Some((Registry::Pypi, vec!["a"]))),
            ("python -I -m pip -q install a", Some((Registry::Pypi, vec!["a"]))),
            ("uv pip install a", Some((Registry::Pypi, vec!["a"]))),
            ("uv add a", Some((Registry::Pypi, vec!["a"]))),
            ("npm --silent i a", Some((Registry::Npm, vec!["a"]))),
            ("yarn add a", Some((Registry::Npm, vec!["a"]))),
            ("pip download install", None),
            ("npm run i", None),
            ("npm", None),
            ("uv run install a", None),
            ("python3 -m venv install a", None),
            ("python3 install a", None),
        ] {
            let mut words = line.split(' ');
            assert_eq!(installed(words.next().unwrap_or(""), words), want, "{line}");
        }
        for (word, want) in [
            ("a", "a"),
            ("a@1", "a"),
            ("@s/a@1", "@s/a"),
            ("@s/a", "@s/a"),
            ("b@npm:a@1", "a"),
            ("npm:@s/a@1", "@s/a"),
            ("", ""),
        ] {
            assert_eq!(npm_name(word), want, "{word}");
        }
    }

    #[test]
    fn names_in_requirements() {
        for (line, want) in [
            ("requests", Some("requests")),
            (" requests[socks]>=2; python_version > '3'", Some("requests")),
            ("zope.interface == 1 # x", Some("zope.interface")),
            ("a @ https://h/a.whl", Some("a")),
            ("requests (>=2)", Some("requests")),
            ("-r base.txt", None),
            ("https://h/a.whl", None),
            ("./a", None),
            ("a/b", None),
            ("# comment", None),
            ("", None),
        ] {
            assert_eq!(required(line), want, "{line:?}");
        }
    }
}
