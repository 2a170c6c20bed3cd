//! Packages that a caller's source imports: advice for a run that failed because one is missing. Pure.
//!
//! The advice names only what the caller's own source says, and is true of every run. A program that prints the
//! error of a missing package can bring about no other words.

use hotcell_server::Requested;
use hotcell_verbs::request::Language;

/// Maximum number of imported packages that are kept of a source, and the maximum length of their names.
const MAX_PACKAGES: usize = 100;
const MAX_NAME_BYTES: usize = 100;

/// Names of the packages that a source imports and that are not among its files; empty for languages whose
/// packages are not looked up by name.
#[must_use]
pub(crate) fn imported(language: Language, code: &str, files: &[String]) -> Vec<String> {
    let found: Vec<&str> = match language {
        Language::Python => code.lines().flat_map(python).collect(),
        Language::JavaScript | Language::TypeScript => code.lines().flat_map(javascript).collect(),
        _ => Vec::new(),
    };
    let given = |name: &str| {
        files.iter().any(|path| {
            path.strip_prefix(name).is_some_and(|rest| rest.starts_with('/') || rest.starts_with('.'))
                || path.starts_with("node_modules/")
        })
    };
    let mut names: Vec<String> = Vec::new();
    for name in found {
        let fits = !name.is_empty() && name.len() <= MAX_NAME_BYTES && names.len() < MAX_PACKAGES;
        if fits && !names.iter().any(|known| known == name) && !given(name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Whether all of a text can be part of a package's name.
fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || "_-@/.".contains(c))
}

/// Top names of a line such as `import a.b as c, d` or `from a.b import c`.
fn python(line: &str) -> Vec<&str> {
    let line = line.trim();
    let names: Vec<&str> = if let Some(rest) = line.strip_prefix("import ") {
        rest.split(',').collect()
    } else if let Some(rest) = line.strip_prefix("from ") {
        vec![rest]
    } else {
        return Vec::new();
    };
    let top = |name| str::split(str::trim_start(name), [' ', '.', ';', '#']).next().unwrap_or_default();
    names.into_iter().map(top).filter(|name| !name.is_empty() && is_name(name)).collect()
}

/// Packages of a line with `require("a")`, `from "a"`, `import "a"` or `import("a")`.
fn javascript(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for word in ["require(", "from ", "import ", "import("] {
        for (at, _) in line.match_indices(word) {
            let rest = line[at + word.len()..].trim_start();
            let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'' | '`')) else { continue };
            let Some((name, _)) = rest[1..].split_once(quote) else { continue };
            let own = name.starts_with(['.', '/', '#']) || name.starts_with("node:");
            // A scope belongs to the name, a file in the package does not.
            let parts = if name.starts_with('@') { 2 } else { 1 };
            let end = name.match_indices('/').nth(parts - 1).map_or(name.len(), |(at, _)| at);
            if !own && is_name(name) {
                found.push(&name[..end]);
            }
        }
    }
    found
}

/// The package that is missing, by the end of standard error: one of those that the source imports.
fn missing<'a>(imports: &'a [String], errors: &str) -> Option<&'a str> {
    const WORDS: [&str; 3] = [
        "ModuleNotFoundError: No module named ",
        "Error: Cannot find module ",
        "Error [ERR_MODULE_NOT_FOUND]: Cannot find package ",
    ];
    let named = errors.lines().rev().find_map(|line| {
        let rest = WORDS.iter().find_map(|word| line.strip_prefix(word))?;
        rest.strip_prefix('\'')?.split('\'').next()
    })?;
    let is = |name: &&String| {
        named.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
    };
    imports.iter().find(is).map(String::as_str)
}

/// Advice for a failed run of a source, by the end of its standard error.
#[must_use]
pub(crate) fn hint(request: &Requested, errors: &str) -> Option<String> {
    let name = missing(&request.imports, errors)?;
    Some(format!(
        "{name} is not installed here, and a run cannot install packages: do without it, send its source in files, or name \
         an image of the operator's that has it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imported_packages_are_found_in_sources() {
        let no_files: &[String] = &[];
        for (language, code, want) in [
            (Language::Python, "import requests", &["requests"][..]),
            (Language::Python, "import os, numpy.linalg as l,pandas  # x", &["os", "numpy", "pandas"]),
            (Language::Python, "  from bs4.x import y; import z", &["bs4"]),
            (Language::Python, "from . import a\nfrom .b import c\nimportant = 1\nprint('import x')", &[]),
            (Language::JavaScript, "const a = require('lodash/fp'), b = require(\"node:fs\");", &["lodash"]),
            (Language::TypeScript, "import x from '@a/b/c'\nimport 'y'\nimport z from './z'", &["@a/b", "y"]),
            (Language::JavaScript, "await import(`w`); import x from \"\u{1b}[2J\"", &["w"]),
            (Language::Go, "import \"fmt\"", &[]),
        ] {
            assert_eq!(imported(language, code, no_files), want, "{code}");
        }
        let files = ["mine.py", "pack/__init__.py"].map(str::to_owned);
        assert_eq!(imported(Language::Python, "import mine, pack.a, packs", &files), ["packs"]);
        let many: String = (0..300).map(|n| format!("import m{n}\n")).collect();
        assert_eq!(imported(Language::Python, &many, no_files).len(), MAX_PACKAGES);
    }

    #[test]
    fn advice_names_only_imports_of_the_source() {
        let imports = ["requests", "left-pad", "@a/b"].map(str::to_owned).to_vec();
        let request = Requested { imports, ..Requested::default() };
        for (errors, want) in [
            ("Traceback …\nModuleNotFoundError: No module named 'requests'\n", "requests is not installed"),
            ("ModuleNotFoundError: No module named 'requests.auth'; 'requests' is not a package", "requests"),
            ("Error: Cannot find module 'left-pad'\nRequire stack:\n…\n\nNode.js v20\n", "left-pad is not"),
            ("Error [ERR_MODULE_NOT_FOUND]: Cannot find package '@a/b' imported from x", "@a/b is not"),
            ("ModuleNotFoundError: No module named 'everything; obey'", ""),
            ("ModuleNotFoundError: No module named 'requestsx'", ""),
            ("| ModuleNotFoundError: No module named 'requests'", ""),
            ("", ""),
        ] {
            let said = hint(&request, errors).unwrap_or_default();
            assert!(if want.is_empty() { said.is_empty() } else { said.contains(want) }, "{errors}: {said}");
        }
    }
}
