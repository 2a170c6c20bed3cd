//! Texts of a script that is read line by line: what stands in quotes, and bodies of here-documents. Pure.

use std::ops::Range;

/// Maximum nesting of quotes and substitutions.
const MAX_NESTING: usize = 64;

/// Surroundings of a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    /// The script itself, and `$(…)` with this many open brackets.
    Code(usize),
    Backticks,
    /// A text in double quotes that began here.
    Double(usize),
}

/// A here-document whose body begins at the next line.
struct Body {
    end: String,
    tabs: bool,
}

/// Byte ranges of a script that are texts, in order. Empty when a quote or a substitution does not end: then it is
/// not known what is a text.
pub(super) fn texts(source: &str) -> Vec<Range<usize>> {
    read(source).unwrap_or_default()
}

fn read(source: &str) -> Option<Vec<Range<usize>>> {
    let bytes = source.as_bytes();
    let mut found = Vec::new();
    let mut nesting = vec![Within::Code(0)];
    let mut bodies: Vec<Body> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let within = *nesting.last()?;
        let rest = &bytes[at..];
        let is_double = matches!(within, Within::Double(_));
        at += match rest[0] {
            b'\\' => 2,
            b'$' if rest.starts_with(b"$(") => {
                nesting.push(Within::Code(1));
                2
            }
            b'`' if within == Within::Backticks => {
                nesting.pop();
                1
            }
            b'`' => {
                nesting.push(Within::Backticks);
                1
            }
            b'"' => {
                match within {
                    Within::Double(from) => {
                        found.push(from..at);
                        nesting.pop();
                    }
                    _ => nesting.push(Within::Double(at + 1)),
                }
                1
            }
            _ if is_double => 1,
            b'\'' => {
                let length = rest[1..].iter().position(|byte| *byte == b'\'')?;
                found.push(at + 1..at + 1 + length);
                length + 2
            }
            b'#' if at == 0 || b" \t\n;|&(`".contains(&bytes[at - 1]) => {
                rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
            }
            b'<' if rest.starts_with(b"<<<") => 3,
            b'<' if rest.starts_with(b"<<") => {
                let (body, length) = here(&source[at..]);
                bodies.extend(body);
                length
            }
            b'\n' if !bodies.is_empty() => {
                let mut from = at + 1;
                for body in bodies.drain(..) {
                    if let Some((length, whole)) = length_of(source.get(from..)?, &body) {
                        found.push(from..from + length);
                        from += whole;
                    }
                }
                from - at
            }
            b'(' => {
                if let Some(Within::Code(open @ 1..)) = nesting.last_mut() {
                    *open += 1;
                }
                1
            }
            b')' => {
                match nesting.last_mut() {
                    Some(Within::Code(1)) => drop(nesting.pop()),
                    Some(Within::Code(open @ 2..)) => *open -= 1,
                    _ => {}
                }
                1
            }
            _ => 1,
        };
        if nesting.len() > MAX_NESTING {
            return None;
        }
    }
    found.sort_by_key(|range| range.start);
    (nesting == [Within::Code(0)]).then_some(found)
}

/// The here-document that `<<` begins, and the length of `<<` and its word.
fn here(text: &str) -> (Option<Body>, usize) {
    let tabs = text.starts_with("<<-");
    let begin = if tabs { 3 } else { 2 };
    let spaces = text[begin..].bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let rest = &text[begin + spaces..];
    let length = rest.bytes().take_while(|byte| !b" \t\n;|&<>()`".contains(byte)).count();
    let word = &rest[..length];
    let end: String = word.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    // `1 << 2` is not a here-document.
    let is_word = end.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match is_word {
        true => (Some(Body { end, tabs }), begin + spaces + length),
        false => (None, begin),
    }
}

/// Lengths of a body at the start of `text`, without and with the line that ends it; `None` when it does not end.
fn length_of(text: &str, body: &Body) -> Option<(usize, usize)> {
    let mut length = 0;
    for line in text.split_inclusive('\n') {
        let plain = line.trim_end_matches('\n');
        if (if body.tabs { plain.trim_start_matches('\t') } else { plain }) == body.end {
            return Some((length, length + line.len()));
        }
        length += line.len();
    }
    None
}

/// True when an offset is in one of the ranges, which are in order of their starts.
pub(super) fn is_within(ranges: &[Range<usize>], at: usize) -> bool {
    let before = ranges.partition_point(|range| range.start <= at);
    // Few texts are nested, and none contains more than some others.
    ranges[..before].iter().rev().take(MAX_NESTING).any(|range| range.contains(&at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_here_documents_are_texts() {
        for (source, want) in [
            ("a 'b c' d", &["b c"][..]),
            ("a \"b\\\" c\" d", &["b\\\" c"]),
            ("a='\nb\n'\nc", &["\nb\n"]),
            ("a \"b `c 'd'` e\"", &["b `c 'd'` e", "d"]),
            ("a \"b $(c (d) \"e\") f\"", &["b $(c (d) \"e\") f", "e"]),
            ("cat <<E\n*p = 1\nE\n*p", &["*p = 1\n"]),
            ("cat <<-'E' > x; y\n\t*p\n\tE\nz", &["\t*p\n"]),
            ("cat <<\\A <<B\na\nA\nb\nB\n", &["a\n", "b\n"]),
            ("x=`cat <<E\na'b\nE\n`", &["a'b\n"]),
            ("a # it's\nb 'c'", &["c"]),
            ("a \\'b 'c'", &["c"]),
            // No here-documents.
            ("a <<<E\nb\nE", &[]),
            ("$((1 << 2))\nb\n2", &[]),
            ("cat <<E\nb", &[]),
            ("# cat <<E\nb\nE", &[]),
            // Without an end it is not known.
            ("a 'b' \"c", &[]),
            ("a 'b' 'c", &[]),
            ("a 'b' `c", &[]),
            ("a 'b' $(c", &[]),
        ] {
            let got: Vec<&str> = texts(source).into_iter().map(|range| &source[range]).collect();
            assert_eq!(got, want, "{source:?}");
        }
        let ranges = texts("a 'b' \"c $(d) e\" f");
        for (at, want) in [(0, false), (3, true), (5, false), (7, true), (11, true), (17, false)] {
            assert_eq!(is_within(&ranges, at), want, "{at}");
        }
    }
}
