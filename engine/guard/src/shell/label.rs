//! Parts of a line that name no command, in scripts that are read line by line: patterns of `case`, and names in
//! `${…}`. Pure.

use std::ops::Range;

/// Follows where lines may begin with a pattern of `case`: after its `in`, and after `;;`.
#[derive(Debug, Default)]
pub(super) struct Labels {
    depth: usize,
    expected: bool,
    /// The pattern continues after `\\` at the end of the last line.
    open: bool,
}

impl Labels {
    /// Bytes of a line, which has text and is not a comment, that are a pattern of `case`.
    pub(super) fn of(&mut self, code: &str) -> Range<usize> {
        let code = uncommented(code);
        let first = code.split_whitespace().next().unwrap_or_default();
        let begins = first == "case";
        let from = match begins {
            true => code.find(" in ").map(|at| at + 4),
            false => (self.expected && self.depth > 0 && first != "esac").then_some(0),
        };
        self.depth += usize::from(begins);
        if first.trim_end_matches(';') == "esac" {
            self.depth = self.depth.saturating_sub(1);
        }
        self.expected = begins && code.ends_with(" in") || code.ends_with(";;") || code.ends_with(";&");
        let from = from.or(self.open.then_some(0));
        let end = from.and_then(|from| closing(&code[from..]).map(|end| from + end));
        self.open = from.is_some() && end.is_none() && code.ends_with('\\') && !code.contains('(');
        match from {
            Some(from) => from..end.unwrap_or(if self.open { code.len() } else { from }),
            None => 0..0,
        }
    }
}

/// A line without its comment and the spaces before it.
fn uncommented(code: &str) -> &str {
    let (mut quote, mut escaped, mut last) = (None, false, b' ');
    for (at, byte) in code.bytes().enumerate() {
        match (quote, byte) {
            _ if escaped => escaped = false,
            (None | Some(b'"'), b'\\') => escaped = true,
            (Some(open), _) if open == byte => quote = None,
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'#') if last.is_ascii_whitespace() => return code[..at].trim_end(),
            _ => {}
        }
        last = byte;
    }
    code
}

/// Offset of the first `)` that is neither quoted nor escaped.
fn closing(code: &str) -> Option<usize> {
    let (mut quote, mut escaped) = (None, false);
    for (at, byte) in code.bytes().enumerate() {
        match (quote, byte) {
            _ if escaped => escaped = false,
            (None | Some(b'"'), b'\\') => escaped = true,
            (Some(open), _) if open == byte => quote = None,
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'(') => return None,
            (None, b')') => return Some(at),
            _ => {}
        }
    }
    None
}

/// True when the text at this offset is the name in `${…}`.
pub(super) fn is_parameter(code: &str, at: usize) -> bool {
    let name = code.as_bytes().get(at).is_some_and(|b| b.is_ascii_alphabetic() || b"_!#".contains(b));
    name && code.get(..at).is_some_and(|before| before.ends_with("${") && !before.ends_with("\\${"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_case() {
        for (script, want) in [
            (
                "case $x in\n*ar\\ archive*) # y\nls *)\n;;\na|*b) ls;;\n*\\)c) x ;;\nesac\n*d)",
                &["*ar\\ archive*", "a|*b", "*\\)c"][..],
            ),
            ("case $x in *b) ls;; esac\n*d)", &["*b"]),
            ("case $x in\n\"a)b\"*) x;;\nesac\n;;\n*d)", &["\"a)b\"*"]),
            // Nested, and a subshell after it.
            ("case $x in\na)\ncase $y in\n*b) z;;\nesac\n;;\n*c)\nesac\n(\n*d)", &["a", "*b", "*c"]),
            // Before comments, and over several lines.
            ("case $x in #(\n*b) y;; #(\n*c) z;; # d\nesac\n*d)", &["*b", "*c"]),
            ("case $x in\n*a | \\\n*b | \\\n*c) y;;\nesac", &["*a | \\", "*b | \\", "*c"]),
            ("case $x in\n*a | \\\n*b |\n*c) y;;\nesac", &["*a | \\"]),
            ("case $x in\necho '#('\n*c) y;;\nesac", &[]),
            ("case $x in\n*a) echo ' ;; #('\n*c)", &["*a"]),
            // Without a `case`, after other lines, and with a bracket of its own.
            ("x;;\n*d)\n", &[]),
            ("case $x in\nls\n*d)\n", &[]),
            ("case $x in\n(*d)\n", &[]),
        ] {
            let mut labels = Labels::default();
            let got: Vec<&str> =
                script.lines().map(|line| &line[labels.of(line)]).filter(|text| !text.is_empty()).collect();
            assert_eq!(got, want, "{script}");
        }
        for (code, at, want) in [
            ("x=${A[B-1]}", 4, true),
            ("x=${!A*}", 4, true),
            ("x=${ b?n/c}", 4, false),
            ("x={A*}", 3, false),
            ("\\${A*}", 3, false),
            ("${", 2, false),
        ] {
            assert_eq!(is_parameter(code, at), want, "{code}");
        }
    }
}
