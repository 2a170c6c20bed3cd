//! Parts of a line that name no command, in scripts that are read line by line: patterns of `case`, and names in
//! `${…}`. Pure.

use std::ops::Range;

/// Follows where lines may begin with a pattern of `case`: after its `in`, and after `;;`.
#[derive(Debug, Default)]
pub(super) struct Labels {
    depth: usize,
    expected: bool,
}

impl Labels {
    /// Bytes of a line, which has text and is no comment, that are a pattern of `case`.
    pub(super) fn of(&mut self, code: &str) -> Range<usize> {
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
        from.and_then(|from| Some(from..from + closing(&code[from..])?)).unwrap_or(0..0)
    }
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
