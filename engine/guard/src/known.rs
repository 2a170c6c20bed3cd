//! Compares code and names of packages with the operator's feeds. The results are notes: they are added to the findings
//! after the verdict is decided.

use crate::context::Cx;
use crate::feed::{Likeness, Registry, fingerprint};
use crate::language::Language;
use crate::report::{Finding, Fingerprint, Severity};
use crate::rules::{Call, basename};
use crate::value::Value;

/// Maximum number of notes of a scan.
const MAX_NOTES: usize = 64;
/// Maximum number of recorded fingerprints of a scan.
const MAX_FINGERPRINTS: usize = 4096;
/// Maximum number of names that a scan compares.
const MAX_NAMES: usize = 4096;

/// Modules of Python's standard library with names that are long enough to be compared, in order.
const PYTHON_MODULES: &[&str] = &[
    "antigravity",
    "argparse",
    "array",
    "asynchat",
    "asyncio",
    "asyncore",
    "atexit",
    "audioop",
    "base64",
    "binascii",
    "bisect",
    "builtins",
    "cProfile",
    "calendar",
    "chunk",
    "cmath",
    "codecs",
    "codeop",
    "collections",
    "colorsys",
    "compileall",
    "concurrent",
    "configparser",
    "contextlib",
    "contextvars",
    "copyreg",
    "crypt",
    "ctypes",
    "curses",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "distutils",
    "doctest",
    "email",
    "encodings",
    "ensurepip",
    "errno",
    "faulthandler",
    "fcntl",
    "filecmp",
    "fileinput",
    "fnmatch",
    "fractions",
    "ftplib",
    "functools",
    "genericpath",
    "getopt",
    "getpass",
    "gettext",
    "graphlib",
    "hashlib",
    "heapq",
    "idlelib",
    "imaplib",
    "imghdr",
    "importlib",
    "inspect",
    "ipaddress",
    "itertools",
    "keyword",
    "lib2to3",
    "linecache",
    "locale",
    "logging",
    "mailbox",
    "mailcap",
    "marshal",
    "mimetypes",
    "modulefinder",
    "msilib",
    "msvcrt",
    "multiprocessing",
    "netrc",
    "nntplib",
    "ntpath",
    "nturl2path",
    "numbers",
    "opcode",
    "operator",
    "optparse",
    "ossaudiodev",
    "pathlib",
    "pickle",
    "pickletools",
    "pipes",
    "pkgutil",
    "platform",
    "plistlib",
    "poplib",
    "posix",
    "posixpath",
    "pprint",
    "profile",
    "pstats",
    "py_compile",
    "pyclbr",
    "pydoc",
    "pydoc_data",
    "pyexpat",
    "queue",
    "quopri",
    "random",
    "readline",
    "reprlib",
    "resource",
    "rlcompleter",
    "runpy",
    "sched",
    "secrets",
    "select",
    "selectors",
    "shelve",
    "shlex",
    "shutil",
    "signal",
    "smtpd",
    "smtplib",
    "sndhdr",
    "socket",
    "socketserver",
    "sqlite3",
    "sre_compile",
    "sre_constants",
    "sre_parse",
    "statistics",
    "string",
    "stringprep",
    "struct",
    "subprocess",
    "sunau",
    "symtable",
    "sysconfig",
    "syslog",
    "tabnanny",
    "tarfile",
    "telnetlib",
    "tempfile",
    "termios",
    "textwrap",
    "threading",
    "timeit",
    "tkinter",
    "token",
    "tokenize",
    "tomllib",
    "trace",
    "traceback",
    "tracemalloc",
    "turtle",
    "turtledemo",
    "types",
    "typing",
    "unicodedata",
    "unittest",
    "urllib",
    "warnings",
    "weakref",
    "webbrowser",
    "winreg",
    "winsound",
    "wsgiref",
    "xdrlib",
    "xmlrpc",
    "zipapp",
    "zipfile",
    "zipimport",
    "zoneinfo",
];
/// Modules that come with Node.js, likewise.
const NODE_MODULES: &[&str] = &[
    "assert",
    "async_hooks",
    "buffer",
    "child_process",
    "cluster",
    "console",
    "constants",
    "crypto",
    "dgram",
    "diagnostics_channel",
    "domain",
    "events",
    "http2",
    "https",
    "inspector",
    "module",
    "perf_hooks",
    "process",
    "punycode",
    "querystring",
    "readline",
    "stream",
    "string_decoder",
    "timers",
    "trace_events",
    "worker_threads",
];

impl Cx<'_> {
    /// Compares the code of a file with known fingerprints, and records its own.
    pub(crate) fn fingerprint(&mut self, path: &str, language: Language, text: &str) {
        let pack = self.pack;
        let Some(feed) = &pack.feed else { return };
        let Some(digest) = fingerprint(language, text) else { return };
        if let Some(label) = feed.label(&digest) {
            let message = format!("A feed lists the fingerprint of this code as {label:?}.");
            self.note("feed.known_code", "known.code", path.to_owned(), (0, 0, 0), message);
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
                    "install_requires" | "setup_requires" | "tests_require" => {
                        for line in value.elements().iter().flatten().take(MAX_NAMES) {
                            line.as_whole_text().into_iter().for_each(|line| self.requirement(line, || span));
                        }
                    }
                    _ => {}
                }
            }
        }
        if language == Language::Bash {
            let registry = match call.names.first().map(|name| &**name) {
                Some("npm" | "yarn" | "pnpm") => Registry::Npm,
                Some("pip" | "pip3" | "pipx") => Registry::Pypi,
                _ => return,
            };
            let mut words = call.args.iter().filter_map(Value::as_whole_text);
            if words.next().is_some_and(|verb| matches!(verb, "install" | "i" | "add")) {
                for word in words.filter(|word| !word.starts_with('-')) {
                    match registry {
                        Registry::Pypi => self.requirement(word, || span),
                        Registry::Npm => {
                            // `name@1.2`, `@scope/name@1.2`.
                            let end = word.char_indices().skip(1).find(|(_, c)| *c == '@');
                            let name = &word[..end.map_or(word.len(), |(at, _)| at)];
                            self.package(registry, name, || span);
                        }
                    }
                }
            }
        }
    }

    /// Message about a name that resembles that of a popular package and was not compared before.
    fn resemblance(&mut self, registry: Registry, name: &str) -> Option<String> {
        let pack = self.pack;
        let feed = pack.feed.as_ref()?;
        if self.known.names.len() >= MAX_NAMES
            || !registry.is_name(name)
            || !self.known.names.insert((registry, name.to_owned()))
        {
            return None;
        }
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
        if self.known.notes.len() < MAX_NOTES && !self.known.notes.contains(&note) {
            self.known.notes.push(note);
        }
    }
}

/// Package that a module is imported from; `None` for files and for modules that come with the language.
fn package_of(registry: Registry, module: &str) -> Option<&str> {
    match registry {
        Registry::Pypi => {
            let top = module.split('.').next().filter(|top| !top.is_empty())?;
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
