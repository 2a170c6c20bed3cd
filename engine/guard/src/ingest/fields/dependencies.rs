//! Places that dependencies come from: an archive or an index at an address, in lists of requirements and in
//! manifests.

use crate::context::Cx;
use crate::feed::Registry;
use crate::ingest::manifest::place;
use crate::language::Language;
use crate::value::Value;

/// Options of a list of requirements that name an index.
const INDEXES: &[&str] = &["--index-url", "--extra-index-url", "--find-links", "-i", "-f"];

/// Fields of `package.json` with dependencies: a name, and a version or the address of an archive.
const FIELDS: &[&str] = &[
    "dependencies",
    "devDependencies",
    "optionalDependencies",
    "peerDependencies",
    "overrides",
    "resolutions",
];

/// Reports where the dependencies of a `package.json` come from.
pub(in crate::ingest) fn in_package(cx: &mut Cx<'_>, text: &str, json: &serde_json::Value) {
    for key in FIELDS {
        for (name, url) in json.get(key).and_then(serde_json::Value::as_object).into_iter().flatten() {
            cx.package(Registry::Npm, name, || place(text, &format!("\"{name}\"")));
            if let Some(url) = url.as_str() {
                // `"own": "npm:name@1.2"`.
                if url.starts_with("npm:") {
                    cx.npm_package(url, || place(text, &format!("\"{name}\"")));
                }
                from(cx, text, url, &format!("\"{name}\""));
            }
        }
    }
}

/// Reports the registries of an `.npmrc`.
pub(in crate::ingest) fn in_npmrc(cx: &mut Cx<'_>, text: &str) {
    for line in text.lines() {
        if let Some((key, url)) = line.split_once('=')
            && key.trim().rsplit(':').next() == Some("registry")
        {
            from(cx, text, url, line);
        }
    }
}

/// Reads a list of requirements.
pub(super) fn requirements(cx: &mut Cx<'_>, text: &str) {
    requirements_in(cx, text, text);
}

/// Reads requirements, one a line, in a text of the file.
pub(super) fn requirements_in(cx: &mut Cx<'_>, text: &str, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(url) = source(line) {
            from(cx, text, url, line);
        }
        cx.requirement(line, || place(text, line));
    }
}

/// Address of an index or of an archive in a line.
fn source(line: &str) -> Option<&str> {
    let line = line.split(" #").next().unwrap_or(line).trim();
    if let Some(index) = INDEXES.iter().find_map(|option| {
        let rest = line.strip_prefix(option)?;
        rest.starts_with(['=', ' ', '\t']).then(|| rest.trim_start_matches(['=', ' ', '\t']))
    }) {
        return index.split_whitespace().next();
    }
    let line = line.strip_prefix("-e ").or_else(|| line.strip_prefix("--editable ")).unwrap_or(line).trim();
    let url = match line.split_once('@') {
        Some((name, url)) if !name.contains("://") => url.trim(),
        _ => line,
    };
    url.contains("://").then(|| url.split([';', ' ']).next().unwrap_or(url))
}

/// Reports where a dependency or an index comes from, if that is an address.
pub(in crate::ingest) fn from(cx: &mut Cx<'_>, text: &str, url: &str, near: &str) {
    let url = url.trim().trim_matches(['"', '\'']);
    // `git+http://h/x`, `hg+http://h/x`.
    let plain = url.split_once('+').filter(|(_, rest)| rest.contains("://")).map_or(url, |(_, rest)| rest);
    if plain.contains("://") {
        cx.fact_with(Language::Text, "dependency.from", place(text, near), &[Value::text(plain)], 0);
    }
}

#[cfg(test)]
mod tests {
    use super::source;

    #[test]
    fn sources_of_requirements() {
        for (line, want) in [
            ("--index-url http://h/simple", Some("http://h/simple")),
            ("-i http://h/simple # x", Some("http://h/simple")),
            ("--extra-index-url=https://h/s", Some("https://h/s")),
            ("a @ http://h/a.tgz ; python_version > '3'", Some("http://h/a.tgz")),
            ("-e git+http://h/a.git@v1#egg=a", Some("git+http://h/a.git@v1#egg=a")),
            ("http://user@h/a.whl", Some("http://user@h/a.whl")),
            ("a==1.0", None),
            ("-r base.txt", None),
            ("--no-index", None),
        ] {
            assert_eq!(source(line), want, "{line}");
        }
    }
}
