//! Limits of one scan. A part beyond any of them is left unread, and the verdict is `incomplete`.

use std::time::Duration;

/// Limits for scanning one file with everything inside it.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum size of a file, in bytes, that is examined at all.
    pub file_bytes: usize,
    /// Maximum size of a source, in bytes, that is parsed. No file of Python's standard library exceeds 800
    /// KiB.
    pub parse_bytes: usize,
    /// Maximum nesting of brackets that is parsed. CPython refuses more than 200.
    pub nesting: usize,
    /// Maximum length of a chain of operators or of nested blocks that is parsed (each is a level of a tree).
    pub chain: usize,
    /// Maximum number of evaluation steps.
    pub steps: u64,
    /// Time limit, wall clock.
    pub time: Duration,
    /// Maximum depth of code inside code.
    pub depth: usize,
    /// Maximum number of texts that were found inside others and are scanned, too.
    pub children: usize,
    /// Maximum total output of archives and decoders, in bytes.
    pub unpacked_bytes: usize,
    /// Maximum number of findings per part.
    pub findings: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            file_bytes: 64 << 20,
            parse_bytes: 4 << 20,
            nesting: 200,
            chain: 4_000,
            steps: 4_000_000,
            time: Duration::from_secs(4),
            depth: 6,
            children: 512,
            unpacked_bytes: 64 << 20,
            findings: 200,
        }
    }
}

/// Stack size of the parsing thread, in bytes; only the used part is touched.
pub(crate) const STACK_BYTES: usize = 256 << 20;

/// Checks that a source can be parsed by recursive descent within [`STACK_BYTES`]: returns the first violation.
///
/// Makes one pass over the bytes, recognises strings and comments only roughly, and errs on the side of
/// refusing.
pub(crate) fn too_deep(text: &str, limits: &Limits, hash_comments: bool) -> Option<&'static str> {
    let bytes = text.as_bytes();
    // The end of strings and patterns in JavaScript is a guess, above all in text between tags.
    if !hash_comments && towers(text) {
        return Some("brackets nested too deeply");
    }
    // Number of operators and words of each open bracket since its last separator: each may be a level of the
    // tree.
    let mut open: Vec<u32> = vec![0];
    let mut total = 0usize;
    let mut braces = 0usize;
    let (mut in_vain, mut most_of_pattern) = (0, MAX_PATTERN_LEN);
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        match byte {
            b'"' | b'\'' | b'`' => {
                let triple = byte != b'`' && bytes[at..].starts_with(&[byte, byte, byte]);
                let width = if triple { 3 } else { 1 };
                at += width;
                while at < bytes.len() {
                    if bytes[at] == b'\\' {
                        at += 2;
                        continue;
                    }
                    let ends =
                        if triple { bytes[at..].starts_with(&[byte, byte, byte]) } else { bytes[at] == byte };
                    if ends {
                        at += width;
                        break;
                    }
                    if bytes[at] == b'\n' && !triple && byte != b'`' {
                        break;
                    }
                    // A formatted string contains nested braces.
                    match bytes[at] {
                        b'{' => braces += 1,
                        b'}' => braces = braces.saturating_sub(1),
                        _ => {}
                    }
                    at += 1;
                }
                if braces > 8 * limits.nesting {
                    return Some("strings nested too deeply");
                }
                continue;
            }
            b'#' if hash_comments => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    at += 1;
                }
                continue;
            }
            b'/' if !hash_comments && bytes.get(at + 1) == Some(&b'/') => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    at += 1;
                }
                continue;
            }
            // A comment of several lines, as documentation is: its quotes open no strings. Only where nothing
            // else is on its first line, so that it cannot be a part of a pattern.
            b'/' if !hash_comments
                && in_vain <= MAX_VAIN_BYTES
                && bytes.get(at + 1) == Some(&b'*')
                && begins_line(&bytes[..at]) =>
            {
                let rest = &bytes[at + 2..bytes.len().min(at + 2 + MAX_COMMENT_LEN)];
                if let Some(end) = rest.windows(2).position(|pair| pair == b"*/") {
                    at += end + 3;
                } else {
                    in_vain += rest.len();
                    at += 1;
                }
            }
            b'/' if !hash_comments && operand_follows(&bytes[..at]) => {
                match pattern(&bytes[at..], most_of_pattern) {
                    Ok(size) => at += size,
                    // Searches for a missing end are expensive: a source can consist of opening slashes.
                    Err(looked) => {
                        in_vain += looked;
                        if in_vain > MAX_VAIN_BYTES {
                            most_of_pattern = REDUCED_PATTERN_LEN;
                        }
                    }
                }
            }
            b'(' | b'[' | b'{' => {
                open.push(0);
                if open.len() > limits.nesting + 1 {
                    return Some("brackets nested too deeply");
                }
            }
            b')' | b']' | b'}' if open.len() > 1 => {
                total -= open.pop().unwrap_or(0) as usize;
                // A block ends its statement; minified code has no other separator between two blocks.
                if byte == b'}' && !hash_comments && begins_statement(&bytes[at + 1..]) {
                    let last = open.len() - 1;
                    total -= std::mem::take(&mut open[last]) as usize;
                }
            }
            // Code after `else` is nested in the preceding statement.
            b';' if !hash_comments && next_word(&bytes[at + 1..]) == b"else" => {}
            b',' | b';' => {
                let last = open.len() - 1;
                total -= std::mem::take(&mut open[last]) as usize;
            }
            b'\n' if open.len() == 1 || !hash_comments => {
                let joined = at > 0 && bytes[at - 1] == b'\\';
                let last = open.len() - 1;
                if !joined && hash_comments {
                    total -= std::mem::take(&mut open[last]) as usize;
                }
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => {
                while at + 1 < bytes.len() && (bytes[at + 1].is_ascii_alphanumeric() || bytes[at + 1] == b'_')
                {
                    at += 1;
                }
                let last = open.len() - 1;
                open[last] += 1;
                total += 1;
            }
            b'+' | b'-' | b'*' | b'/' | b'%' | b'&' | b'|' | b'^' | b'~' | b'!' | b'?' | b':' | b'<'
            | b'>' | b'=' | b'.' | b'@' => {
                let last = open.len() - 1;
                open[last] += 1;
                total += 1;
            }
            _ => {}
        }
        if total > limits.chain {
            return Some("operators chained too deeply");
        }
        at += 1;
    }
    None
}

/// Maximum length of a comment that is passed over, in bytes; a longer one is counted like code.
const MAX_COMMENT_LEN: usize = 64 << 10;

/// True when only white space precedes on a line.
fn begins_line(before: &[u8]) -> bool {
    before.iter().rev().take(256).find(|byte| !matches!(byte, b' ' | b'\t')).is_none_or(|byte| *byte == b'\n')
}

/// True when JavaScript expects a value here, so that a slash begins a pattern; false when it might be a
/// division.
fn operand_follows(before: &[u8]) -> bool {
    let before = before.trim_ascii_end();
    match before {
        [.., b'+', b'+'] | [.., b'-', b'-'] => false,
        [] => true,
        [.., last] if b"(,=:[&|?{;*%~^+-".contains(last) => true,
        _ => before.ends_with(b"return") || before.ends_with(b"typeof"),
    }
}

/// Maximum length of a pattern: tables of characters are written as one pattern.
const MAX_PATTERN_LEN: usize = 256 << 10;
/// Maximum length of a pattern after [`MAX_VAIN_BYTES`] were searched for missing ends.
const REDUCED_PATTERN_LEN: usize = 512;
const MAX_VAIN_BYTES: usize = 16 << 20;

/// Length of a pattern from its first slash to its last; `Err` with the number of bytes searched when it does
/// not end in its line, or within `most` bytes.
fn pattern(bytes: &[u8], most: usize) -> Result<usize, usize> {
    let bytes = &bytes[..bytes.len().min(most)];
    let (mut at, mut class) = (1, false);
    while let Some(byte) = bytes.get(at).filter(|byte| **byte != b'\n') {
        match byte {
            b'\\' => at += 1,
            b'[' => class = true,
            b']' => class = false,
            b'/' if !class => return Ok(at),
            _ => {}
        }
        at += 1;
    }
    Err(at)
}

/// The next word, after white space.
fn next_word(bytes: &[u8]) -> &[u8] {
    // A realistic amount of white space; more counts as the end of the word.
    let space = bytes.iter().take(64).take_while(|byte| byte.is_ascii_whitespace()).count();
    let rest = &bytes[space..];
    // No relevant word is longer.
    let size =
        rest.iter().take(16).take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')).count();
    &rest[..size]
}

/// True when the next word begins a new statement after a block of JavaScript, rather than continuing the one
/// before it.
fn begins_statement(bytes: &[u8]) -> bool {
    let word = next_word(bytes);
    const GO_ON: [&[u8]; 9] =
        [b"else", b"in", b"instanceof", b"of", b"as", b"satisfies", b"extends", b"is", b"implements"];
    word.first().is_some_and(|first| !first.is_ascii_digit()) && !GO_ON.contains(&word)
}

/// True when brackets are nested deeper than in ordinary code, counting strings and comments, too.
pub(crate) fn towers(text: &str) -> bool {
    let mut depth = 0u32;
    text.bytes().any(|byte| {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > MAX_BRACKET_DEPTH
    })
}

/// Maximum nesting of brackets, far above handwritten or generated code; a tree of a million levels takes
/// hundreds of megabytes.
const MAX_BRACKET_DEPTH: u32 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_sources_are_refused_long_ones_accepted() {
        let limits = Limits::default();
        let deep = |text: &str| too_deep(text, &limits, true).is_some();
        assert!(deep(&"(".repeat(1_000_000)));
        assert!(deep(&format!("x = {}1", "-".repeat(100_000))));
        assert!(deep(&format!("x = {}1", "not ".repeat(100_000))));
        assert!(deep(&format!("x = 1{}", "+1".repeat(100_000))));
        assert!(deep(&format!("x{}", ".y".repeat(100_000))));
        assert!(deep(&"f'{".repeat(100_000)));
        assert!(!deep(&"x = [1, 2, -3, 4.5]\n".repeat(100_000)));
        assert!(!deep(&format!("x = [{}]", "-1.5, ".repeat(100_000))));
        assert!(!deep(&"'a+b-c' # (((((\n".repeat(100_000)));
    }

    #[test]
    fn minified_scripts_are_as_deep_as_their_trees() {
        let limits = Limits::default();
        let deep = |text: &str| too_deep(text, &limits, false).is_some();
        for flat in [
            "function f(a){return a}",
            "if(a){b()}",
            "var o={a:1};",
            "a.b=function(){return 1},",
            "class A{m(){}}",
            "do{a()}while(b);",
            "try{a()}catch(e){}finally{}",
            "a=/[\"'`/]/g;b='+-*';",
            "/** It's `one */\ndeclare const a: string;\n",
            "  /*\n   * ``` it doesn't\n   */\n  a(b: string): void;\n",
        ] {
            assert!(!deep(&flat.repeat(10_000)), "{flat}");
        }
        // A table of characters in one pattern, and in several.
        for size in [400, 4_000, 40_000] {
            let table = "|\\uD83D[\\uDC00-\\uDFFF]+".repeat(size / 10);
            assert!(!deep(&format!("var a = /(?:x{table})/g, b = /[&<>\"'`]/g;\nvar c = 1;\n")), "{size}");
        }
        // Opening slashes alone, in a source of maximum size.
        let begun = std::time::Instant::now();
        assert!(!deep(&"(/[)\n".repeat(100_000)) || begun.elapsed().as_secs() < 20);
        let _ = deep(&"=/[".repeat(1_000_000));
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
        for tower in [
            "if(a){}else ",
            "if(a);else ",
            "if(a);\n  else ",
            "if(a)",
            "{} in ",
            "{} instanceof ",
            "{} as ",
            "{}.x",
            "{}+",
            "{}?",
            "a=>",
            "function(){}(",
            "x++/(",
            "<a>'{(",
        ] {
            assert!(deep(&tower.repeat(10_000)), "tower {tower}");
        }
    }
}
