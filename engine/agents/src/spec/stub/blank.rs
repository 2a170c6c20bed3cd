//! Code without its comments and quoted texts, byte for byte, so that brackets and words in it are those of the code.

/// Replaces comments and quoted texts by spaces; places stay those of the text. `'` quotes one character only, so that lifetimes stay. Go has raw texts
/// between backquotes, Rust those with `r`, and comments within comments.
#[must_use]
pub fn blank(text: &str, is_go: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match (bytes[at], bytes.get(at + 1)) {
            (b'/', Some(b'/')) => text[at..].find('\n').map_or(bytes.len(), |end| at + end),
            (b'/', Some(b'*')) => comment(bytes, at, !is_go),
            (b'"', _) => quoted(bytes, at, b'"'),
            (b'r', Some(b'"' | b'#')) if !is_go && raw(text, at) > at => raw(text, at),
            (b'`', _) if is_go => text[at + 1..].find('`').map_or(bytes.len(), |end| at + end + 2),
            (b'\'', _) if character(text, at) > at + 1 => character(text, at),
            _ => {
                at += 1;
                continue;
            }
        };
        out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    // Whole characters were replaced: each part begins and ends beside one of ASCII.
    String::from_utf8(out).unwrap_or_default()
}

/// Place after a comment between `/*` and `*/`, which may have others within it.
fn comment(bytes: &[u8], from: usize, is_nested: bool) -> usize {
    let (mut at, mut depth) = (from + 2, 1_usize);
    while at < bytes.len() {
        match bytes[at..] {
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            [b'/', b'*', ..] if is_nested => (at, depth) = (at + 2, depth + 1),
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Place after a raw text of Rust that begins with the `r` at `from`; `from` without one.
fn raw(text: &str, from: usize) -> usize {
    let before = &text[..from];
    let before = before.strip_suffix(['b', 'c']).unwrap_or(before);
    let marks = text[from + 1..].bytes().take_while(|byte| *byte == b'#').count();
    let open = from + 1 + marks;
    if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') || text.as_bytes().get(open) != Some(&b'"')
    {
        return from;
    }
    let close = format!("\"{}", "#".repeat(marks));
    text[open + 1..].find(&close).map_or(text.len(), |end| open + 1 + end + close.len())
}

/// Place after a quoted text with escapes.
fn quoted(bytes: &[u8], from: usize, quote: u8) -> usize {
    let mut at = from + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Place after a quoted character; that after the quote if it is a lifetime's.
fn character(text: &str, from: usize) -> usize {
    let mut rest = text[from + 1..].char_indices();
    match (rest.next(), rest.next()) {
        (Some((_, '\\')), _) => {
            // The line's end is not passed: a quote may be missing.
            let line = text[from + 1..].find('\n').map_or(text.len(), |end| from + 1 + end);
            quoted(&text.as_bytes()[..line], from, b'\'')
        }
        (Some(_), Some((at, '\''))) => from + 1 + at + 1,
        _ => from + 1,
    }
}

/// Place after the bracket that closes the one at `from`; `None` without one.
#[must_use]
pub fn group(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Place of the next character after spaces and tabs, and with `lines`, after ends of lines.
#[must_use]
pub fn skip(code: &str, from: usize, lines: bool) -> usize {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t' | b'\r') || lines && byte == b'\n';
    from + code.as_bytes()[from..].iter().take_while(|byte| is_space(**byte)).count()
}

/// The word at a place; empty without one.
#[must_use]
pub fn word(code: &str, from: usize) -> &str {
    let rest = &code[from..];
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    &rest[..end]
}

/// Parts between commas outside of brackets.
#[must_use]
pub fn parts(text: &str) -> Vec<&str> {
    let (mut all, mut depth, mut from) = (Vec::new(), 0_i32, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                all.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    all.push(text[from..].trim());
    all.retain(|part| !part.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn comments_and_quoted_texts_are_blank_and_lifetimes_stay() {
        for (text, want) in [
            ("a // { é\nb", "a        \nb"),
            ("a /* {\n */ b", "a     \n    b"),
            ("s(\"{\\\"\") }", "s(     ) }"),
            ("r(`{\n`)", "r(  \n )"),
            ("c('{') d('\\'') e('é')", "c(   ) d(    ) e(    )"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("it's {\nb }", "it's {\nb }"),
            ("\"open", "     "),
            ("a /* /* */ b", "a          b"),
        ] {
            assert_eq!(blank(text, true), want, "{text}");
        }
        for (text, want) in [
            ("r\"\\\" }", "     }"),
            ("r#\"{\"{\"# }", "         }"),
            ("br##\"\"#\"## }", "b          }"),
            ("(r\"{", "(   "),
            ("r#fn r#\"é\"#", "r#fn        "),
            ("var\"{\" }", "var    }"),
            ("a /* /* */ { */ b", "a               b"),
            ("a /*/ */ b", "a        b"),
            ("`{`", "`{`"),
        ] {
            assert_eq!(blank(text, false), want, "{text}");
        }
        assert_eq!(
            parts("a int, b map[string]int, func(x, y int)"),
            ["a int", "b map[string]int", "func(x, y int)"]
        );
        assert_eq!(group("f(a[(0)], {})x", 1), Some(13));
        assert_eq!((group("(", 0), group(")", 0)), (None, None));
    }

    proptest! {
        #[test]
        fn places_and_lines_stay(text in "(\"|'|`|/\\*|\\*/|//|\\\\|\n|é|r#|[a-z{}() ]){0,30}") {
            for is_go in [true, false] {
                let code = blank(&text, is_go);
                prop_assert_eq!(code.len(), text.len());
                prop_assert_eq!(code.lines().count(), text.lines().count());
            }
        }
    }
}
