//! Regular expressions that are compiled on first use, with a prefilter on literals.
//!
//! A pack has many patterns and most texts match none. One pass over a text finds the literals that the
//! patterns require; only patterns whose literals occur are compiled and tried. The result is the same as
//! without the filter.

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::Regex;
use regex_syntax::hir::{Class, Hir, HirKind};
use std::sync::OnceLock;

/// Maximum number of literals that are looked for by a table of all states.
const MAX_IN_TABLE: usize = 64;

/// A pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    source: String,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    /// Compiles now, or on first use if its crate's tests have `proven` that it is valid.
    ///
    /// # Errors
    /// The error of the regular expression.
    pub(super) fn of(source: String, proven: bool) -> Result<Pattern, String> {
        let pattern = Pattern { source, compiled: OnceLock::new() };
        if !proven {
            let regex = Regex::new(&pattern.source).map_err(|error| error.to_string())?;
            pattern.compiled.get_or_init(|| Some(regex));
        }
        Ok(pattern)
    }

    #[cfg(test)]
    pub(super) fn is_sound(&self) -> bool {
        self.regex().is_some()
    }

    fn regex(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| Regex::new(&self.source).ok()).as_ref()
    }

    /// Offset of the first match. An invalid pattern matches everywhere: a rule must not be lost silently.
    pub(super) fn find(&self, text: &str) -> Option<usize> {
        self.regex().map_or(Some(0), |regex| regex.find(text).map(|found| found.start()))
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex().is_none_or(|regex| regex.is_match(text))
    }
}

/// Finds the patterns of a list that can match in a text.
#[derive(Debug, Default)]
pub(super) struct Filter {
    automaton: Option<AhoCorasick>,
    /// Patterns that need each literal.
    owners: Vec<Vec<usize>>,
    /// Patterns that need no literal.
    always: Vec<usize>,
    count: usize,
}

impl Filter {
    pub(super) fn of(patterns: &[Pattern]) -> Filter {
        let mut filter = Filter { count: patterns.len(), ..Filter::default() };
        let mut literals: Vec<Vec<u8>> = Vec::new();
        for (at, pattern) in patterns.iter().enumerate() {
            let Some(needed) = regex_syntax::parse(&pattern.source).ok().as_ref().and_then(needed) else {
                filter.always.push(at);
                continue;
            };
            for literal in needed {
                match literals.iter().position(|known| *known == literal) {
                    Some(known) => filter.owners[known].push(at),
                    None => {
                        literals.push(literal);
                        filter.owners.push(vec![at]);
                    }
                }
            }
        }
        // A table of few literals is small and reads a text three times as fast; of many it takes longer to build than
        // one reading saves.
        let kind = if literals.len() <= MAX_IN_TABLE {
            AhoCorasickKind::DFA
        } else {
            AhoCorasickKind::ContiguousNFA
        };
        let automaton = AhoCorasick::builder().ascii_case_insensitive(true).kind(Some(kind)).build(&literals);
        match automaton {
            Ok(automaton) => filter.automaton = Some(automaton),
            Err(_) => filter.always = (0..patterns.len()).collect(),
        }
        filter
    }

    /// A filter that passes all patterns.
    #[cfg(test)]
    pub(super) fn none(count: usize) -> Filter {
        Filter { count, ..Filter::default() }
    }

    /// Calls `can` with each pattern that can match in `text`, in order.
    pub(super) fn candidates(&self, text: &str, can: impl FnMut(usize)) {
        let automaton = match &self.automaton {
            // Two characters that match `s` and `k` case-insensitively.
            Some(automaton) if text.is_ascii() || !text.contains(['\u{17f}', '\u{212a}']) => automaton,
            _ => return (0..self.count).for_each(can),
        };
        let mut found: Vec<usize> = Vec::new();
        for hit in automaton.find_overlapping_iter(text) {
            for owner in &self.owners[hit.pattern().as_usize()] {
                if !found.contains(owner) {
                    found.push(*owner);
                }
            }
        }
        found.extend(&self.always);
        found.sort_unstable();
        found.into_iter().for_each(can);
    }
}

/// Lower-case literals of which every match contains at least one, in any case; `None` when none are known.
fn needed(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    if let Some(exact) = exact(hir) {
        return (!exact.is_empty()).then(|| vec![exact]);
    }
    match hir.kind() {
        HirKind::Capture(capture) => needed(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => needed(&repetition.sub),
        HirKind::Alternation(each) => {
            let each: Option<Vec<_>> = each.iter().map(needed).collect();
            Some(each?.concat())
        }
        HirKind::Concat(each) => {
            let mut sets = Vec::new();
            let mut run = Vec::new();
            for part in each {
                match exact(part) {
                    Some(bytes) => run.extend(bytes),
                    None => {
                        sets.push(vec![std::mem::take(&mut run)]);
                        sets.extend(needed(part));
                    }
                }
            }
            sets.push(vec![run]);
            // The rarest set: long literals are rare; among those long enough, fewer alternatives are better.
            let shortest = |set: &Vec<Vec<u8>>| set.iter().map(Vec::len).min().unwrap_or(0);
            sets.retain(|set| shortest(set) > 0);
            sets.into_iter().max_by_key(|set| (shortest(set).min(8), std::cmp::Reverse(set.len())))
        }
        _ => None,
    }
}

/// The text that `hir` matches exactly, ignoring case.
fn exact(hir: &Hir) -> Option<Vec<u8>> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(Vec::new()),
        HirKind::Literal(literal) => Some(literal.0.to_ascii_lowercase()),
        HirKind::Class(class) => one_letter(class).map(|letter| vec![letter]),
        HirKind::Capture(capture) => exact(&capture.sub),
        HirKind::Concat(each) => each.iter().map(exact).collect::<Option<Vec<_>>>().map(|all| all.concat()),
        _ => None,
    }
}

/// The letter of a class that consists of its two cases.
fn one_letter(class: &Class) -> Option<u8> {
    let Class::Unicode(class) = class else { return None };
    let mut letter = None;
    for range in class.ranges() {
        if range.len() > 2 {
            return None;
        }
        for c in range.start()..=range.end() {
            let folded = match c {
                '\u{17f}' => b's',
                '\u{212a}' => b'k',
                c => u8::try_from(c).ok().filter(u8::is_ascii)?.to_ascii_lowercase(),
            };
            if *letter.get_or_insert(folded) != folded {
                return None;
            }
        }
    }
    letter
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pattern_yields_required_literals() {
        for (pattern, want) in [
            ("NOPASSWD:", Some(vec!["nopasswd:"])),
            ("(?i)disk", Some(vec!["disk"])),
            (r"\bab(c|de)?\b", Some(vec!["ab"])),
            ("(foo|bar)baz+", Some(vec!["foo", "bar"])),
            ("x.{0,9}(long|longer)", Some(vec!["long", "longer"])),
            ("(a|[0-9])", None),
            ("(a)?", None),
            (r"\w+", None),
            ("", None),
        ] {
            let got = needed(&regex_syntax::parse(pattern).unwrap());
            let want =
                want.map(|all| all.into_iter().map(|l: &str| l.as_bytes().to_vec()).collect::<Vec<_>>());
            assert_eq!(got, want, "{pattern}");
        }
    }

    const PATTERNS: [&str; 8] = [
        "(?i)disk(s|full)",
        r"\bn(c|cat)\s+-e",
        "^/etc/g?shadow$",
        "(?is)locked.{0,9}(pay|btc)",
        r":\s*\(\)",
        "ä(ö|ü)",
        r"[wax+]",
        r"(?i)\.ssh[/\\]",
    ];

    proptest! {
        /// Made of the same pieces as the patterns, so that many of them match.
        #[test]
        fn literal_filter_loses_no_match(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "disk", "DiSK", "di\u{17f}\u{212a}", "s", "full", "FULL", "nc", "n", "cat", " ", "\n", "-e", "/etc/", "g",
                    "shadow", "locked", "LOC\u{212a}ED", "pay", "btc", ":", "(", ")", "ä", "ö", "Ü", "ü", "+", ".ssh", ".SSH", "/", "\\",
                ]),
                0..9,
            )
        ) {
            let text = pieces.concat();
            let patterns: Vec<Pattern> = PATTERNS.iter().map(|p| Pattern::of((*p).to_owned(), false).unwrap()).collect();
            let mut filtered = Vec::new();
            Filter::of(&patterns).candidates(&text, |at| filtered.extend(patterns[at].find(&text).map(|found| (at, found))));
            let all: Vec<_> = patterns.iter().enumerate().filter_map(|(at, p)| Some((at, p.find(&text)?))).collect();
            prop_assert_eq!(filtered, all, "{:?}", text);
        }
    }
}
