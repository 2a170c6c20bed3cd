//! Message and place in a block of diagnostics, which is a small part of YAML. Whatever cannot be read is
//! left out; the whole block is shown as well.

use crate::case::MAX_MESSAGE_BYTES;
use crate::frameworks::javascript;
use crate::text::clip;

/// Maximum number of words in which a place is searched.
const MAX_WORDS: usize = 4_000;

/// Top-level keys and their values, in order.
#[must_use]
pub fn keys(block: &str) -> Vec<(&str, String)> {
    let mut keys: Vec<(&str, String)> = Vec::new();
    let mut lines = block.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((key, value)) = line.split_once(':') else { continue };
        if key.is_empty() || key.starts_with([' ', '-', '#', '.']) {
            continue;
        }
        let mut body: Vec<&str> = Vec::new();
        while let Some(next) = lines.next_if(|next| next.is_empty() || next.starts_with(' ')) {
            body.push(next);
        }
        let value = value.trim();
        let scalar = value.is_empty() || value.starts_with(['|', '>']);
        let first = if scalar { String::new() } else { bare(value) };
        let depth = body.iter().filter(|l| !l.is_empty()).map(|l| l.len() - l.trim_start().len()).min();
        let body: Vec<&str> = body.iter().map(|l| l.get(depth.unwrap_or(0)..).unwrap_or_default()).collect();
        let text = [&first, body.join("\n").trim_end()].map(str::to_owned).join(if first.is_empty() {
            ""
        } else {
            "\n"
        });
        keys.push((key, text.trim_end().to_owned()));
    }
    keys
}

/// A value without its quotes.
fn bare(value: &str) -> String {
    let within = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    if let Some(text) = within('\'') {
        text.replace("''", "'")
    } else if let Some(text) = within('"') {
        text.replace("\\n", "\n").replace("\\\"", "\"").replace("\\\\", "\\")
    } else {
        value.to_owned()
    }
}

/// Failure message: what was said, then what was expected and what was there, or their difference.
#[must_use]
pub fn message(block: &str) -> Option<String> {
    let keys = keys(block);
    let of = |name: &str| {
        let value = keys.iter().find(|(key, _)| *key == name).map(|(_, value)| value.trim());
        value.filter(|value| !value.is_empty())
    };
    let pair = |name: &str, other: &str| {
        let value = of(name).or_else(|| of(other))?;
        Some(format!("{name}: {value}"))
    };
    let (expected, actual) = (pair("expected", "wanted"), pair("actual", "found"));
    let mut parts: Vec<String> = of("message").map(str::to_owned).into_iter().collect();
    match of("diff").or_else(|| of("details")).or_else(|| of("values")) {
        Some(diff) => parts.push(diff.to_owned()),
        None => parts.extend(expected.into_iter().chain(actual)),
    }
    (!parts.is_empty()).then(|| clip(&parts.join("\n"), MAX_MESSAGE_BYTES))
}

/// Place of a failure in the project, whose folder inside is `top`.
#[must_use]
pub fn place(block: &str, top: &str) -> Option<(String, u32)> {
    let keys = keys(block);
    let of = |name: &str| keys.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
    if let Some(at) = of("at") {
        let parts = self::keys(at);
        let part =
            |names: [&str; 2]| parts.iter().find(|(key, _)| names.contains(key)).map(|(_, value)| value);
        if let (Some(file), Some(line)) = (part(["fileName", "file"]), part(["lineNumber", "line"]))
            && let (Some(file), Ok(line)) = (inside(file, top), line.parse())
        {
            return Some((file, line));
        }
    }
    of("at").and_then(|at| first_place(at, top)).or_else(|| first_place(of("stack")?, top))
}

/// The first place in the project that a text names as `FILE:LINE` or `FILE:LINE:COLUMN`.
#[must_use]
pub fn first_place(text: &str, top: &str) -> Option<(String, u32)> {
    let words = text.split(|c: char| c.is_whitespace() || "()'\"<>".contains(c)).filter(|w| w.contains(':'));
    words.take(MAX_WORDS).find_map(|word| {
        let (rest, last) = word.trim_end_matches(':').rsplit_once(':')?;
        let (file, line) = match rest.rsplit_once(':').map(|(file, line)| (file, line.parse())) {
            Some((file, Ok(line))) => (file, line),
            _ => (rest, last.parse().ok()?),
        };
        Some((inside(file, top)?, line))
    })
}

/// A path relative to the project; `None` outside of it, and in what is installed there.
fn inside(path: &str, top: &str) -> Option<String> {
    let path = path.strip_prefix("file://").unwrap_or(path);
    let path = match path.strip_prefix(top).and_then(|rest| rest.strip_prefix('/')) {
        Some(path) => path,
        None if path.starts_with('/') => return None,
        None => path.trim_start_matches("./"),
    };
    let known =
        javascript::is_script(path) && !path.split('/').any(|part| part == ".." || part == "node_modules");
    known.then(|| clip(path, 4000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_and_places() {
        for (block, want, at) in [
            // tape
            (
                "operator: equal\nexpected: 3\nactual:   2\nat: Test.<anonymous> (/p/t1.js:2:53)\nstack: |-\n  Error: x\n      at y (/p/node_modules/tape/lib/test.js:548:48)\n",
                Some("expected: 3\nactual: 2"),
                Some(("t1.js", 2)),
            ),
            (
                "operator: deepEqual\nexpected: |-\n  { a: 2 }\nactual: |-\n  { a: 1 }\nat: <anonymous> (file:///p/t/a.mjs:9)\n",
                Some("expected: { a: 2 }\nactual: { a: 1 }"),
                Some(("t/a.mjs", 9)),
            ),
            // node-tap 16 and 21
            (
                "compare: ===\nat:\n  line: 2\n  column: 55\n  file: test/a.js\n  type: Test\ndiff: |\n  --- expected\n  +++ actual\n  -3\n  +2\n",
                Some("--- expected\n+++ actual\n-3\n+2"),
                Some(("test/a.js", 2)),
            ),
            ("at:\n  fileName: test/a.js\n  lineNumber: 7\n", None, Some(("test/a.js", 7))),
            (
                "at:\n  fileName: node_modules/a.js\n  lineNumber: 7\nstack: |\n  x (test/b.js:3:39)\n",
                None,
                Some(("test/b.js", 3)),
            ),
            // ava
            (
                "name: AssertionError\ndetails:\n  'Difference (- actual, + expected):': |-\n    - 1\n    + 2\nmessage: 'it''s'\nat: >-\n  ExecutionContext.is\n  (file:///p/node_modules/ava/lib/assert.js:309:16)\n",
                Some("it's\n'Difference (- actual, + expected):': |-\n  - 1\n  + 2"),
                None,
            ),
            ("message: \"a\\nb\"\nat: 'file:///p/test/a.js:4:29'\n", Some("a\nb"), Some(("test/a.js", 4))),
            ("wanted: 1\nfound: 2\n", Some("expected: 1\nactual: 2"), None),
            ("at: x (/etc/a.js:1:2)\nstack: ../a.js:1:2\n", None, None),
            ("", None, None),
        ] {
            assert_eq!(message(block).as_deref(), want, "{block}");
            assert_eq!(place(block, "/p"), at.map(|(file, line)| (file.to_owned(), line)), "{block}");
        }
        assert_eq!(first_place("Error\n    at /p/a.ts:12:1", "/p"), Some(("a.ts".to_owned(), 12)));
        assert_eq!(first_place("/p/a.js:3\n\nSyntaxError", "/p"), Some(("a.js".to_owned(), 3)));
    }

    proptest! {
        #[test]
        fn arbitrary_diagnostics_cause_no_panic(block in "([a-z]{0,4}|:| |\n|at|\\||'|\"|/p/a.js:1|é|-){0,40}") {
            let _ = (message(&block), place(&block, "/p"));
        }
    }
}
