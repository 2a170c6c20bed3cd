//! The Test Anything Protocol: version 12 as written by pgTAP, and the lines that all versions share. Any line
//! may come from a test itself.
//!
//! | module | idea |
//! | --- | --- |
//! | [`tree`] | nested documents of versions 12 to 14, as JavaScript's programs print them |
//! | [`diagnostics`] | message and place in a block of diagnostics |

pub mod diagnostics;
pub mod tree;

use std::collections::HashSet;

use crate::case::{MAX_CASES, MAX_DETAIL_BYTES, MAX_NAME_BYTES, Status};
use crate::text::clip;
use hotcell_sandbox::text::counted;

/// Beginning of the comments with which pgTAP's `finish()` compares plan and results.
const SUM: &str = "Looks like you ";

/// Result of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Description; with its number when the name is repeated, or missing.
    pub name: String,
    /// Result; a test that failed as expected is skipped.
    pub status: Status,
    /// Reason for skipping.
    pub reason: Option<String>,
    /// Comment lines that follow.
    pub details: String,
}

/// Parses line by line. A test is returned once a line follows that does not belong to it.
#[derive(Debug, Default)]
pub struct Tap {
    /// Number of planned tests.
    pub plan: Option<u64>,
    /// Reason why all are skipped.
    pub skipped: Option<String>,
    /// Number of reported tests.
    pub ran: u64,
    /// Number of errors: a second plan, a number out of order.
    pub faults: u64,
    names: HashSet<String>,
    last: Option<Point>,
}

impl Tap {
    /// Takes a line; returns the previous test if this line does not belong to it.
    pub fn line(&mut self, line: &str) -> Option<Point> {
        if let (Some(text), Some(last)) = (line.strip_prefix('#'), &mut self.last) {
            // The sum of `finish()` is of the whole file, not of its last test.
            if !text.trim_start().starts_with(SUM) && last.details.len() < MAX_DETAIL_BYTES {
                last.details.push_str(text.strip_prefix(' ').unwrap_or(text));
                last.details.push('\n');
            }
            return None;
        }
        let Some(point) = spoken(line) else {
            self.planned(line);
            return None;
        };
        let before = self.last.take();
        self.ran += 1;
        // Further tests are not read, but counted as a fault.
        if self.names.len() >= MAX_CASES {
            self.faults += 1;
            return before;
        }
        self.faults += u64::from(!point.number.is_empty() && point.number.parse() != Ok(self.ran));
        let number = self.ran;
        let mut name = if point.name.is_empty() {
            format!("test {number}")
        } else {
            clip(&point.name.replace("\\#", "#"), MAX_NAME_BYTES / 2)
        };
        if !self.names.insert(name.clone()) {
            name = format!("{name} ({number})");
        }
        let status = match point.directive {
            Some(_) => Status::Skipped,
            None if point.good => Status::Passed,
            None => Status::Failed,
        };
        let reason = point.reason().map(str::to_owned);
        self.last = Some(Point { name, status, reason, details: String::new() });
        before
    }

    /// Handles the end of the input.
    pub fn end(&mut self) -> Option<Point> {
        self.last.take()
    }

    /// The next expected test, unless all were reported.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        let done = self.plan.is_some_and(|plan| self.ran >= plan);
        (!done).then(|| format!("test {}", self.ran + 1))
    }

    /// Why the output is incomplete.
    #[must_use]
    pub fn lacks(&self) -> Option<String> {
        match self.plan {
            _ if self.skipped.is_some() && self.ran == 0 => None,
            None => Some("it has no plan: it ended before finish()".to_owned()),
            Some(plan) if plan != self.ran => {
                let were = if plan == 1 { "was" } else { "were" };
                Some(format!("{} {were} planned, and {} ran", counted(plan, "test"), self.ran))
            }
            Some(_) => None,
        }
    }

    /// `1..3`, `1..0 # SKIP why`
    fn planned(&mut self, line: &str) {
        let Some((count, why)) = plan(line) else { return };
        self.faults += u64::from(self.plan.replace(count).is_some());
        if count == 0 {
            self.skipped = Some(why.get(4..).unwrap_or_default().trim().to_owned());
        }
    }
}

/// A line about a test: `not ok 2 - name # SKIP why`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spoken<'a> {
    pub good: bool,
    /// Number, or empty text.
    pub number: &'a str,
    /// Description, with its escapes, or empty text.
    pub name: &'a str,
    /// Text of a directive: the test was skipped, or is expected to fail.
    pub directive: Option<&'a str>,
    /// Duration in milliseconds (`# time=1.5ms`).
    pub ms: Option<f64>,
    /// True when a subtest follows in braces.
    pub opens: bool,
}

impl<'a> Spoken<'a> {
    /// Reason of a directive.
    pub fn reason(&self) -> Option<&'a str> {
        let word = self.directive?;
        let text = word.trim_start_matches(|c: char| c.is_ascii_alphabetic()).trim_start_matches([':', ' ']);
        Some(text).filter(|text| !text.is_empty())
    }
}

/// Parses a line about a test.
pub(crate) fn spoken(line: &str) -> Option<Spoken<'_>> {
    spoken_by(line, false)
}

/// Parses a line of a program whose directives are `bare`: `ok 1 - name # SKIP`, `not ok 1 - name # TODO`, without a reason.
pub(crate) fn spoken_by(line: &str, bare: bool) -> Option<Spoken<'_>> {
    let (good, rest) = match (line.strip_prefix("ok"), line.strip_prefix("not ok")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return None,
    };
    if !(rest.is_empty() || rest.starts_with(' ')) {
        return None;
    }
    let rest = rest.trim();
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = match rest.split_at(digits) {
        (number, rest) if rest.is_empty() || rest.starts_with(' ') => (number, rest.trim_start()),
        _ => ("", rest),
    };
    let told = |word: &str| match bare {
        true => word == if good { "SKIP" } else { "TODO" },
        false => is_directive(word),
    };
    let braced = rest.strip_suffix('{').filter(|rest| rest.is_empty() || rest.ends_with(' '));
    let (mut text, mut directive, mut ms) = (braced.unwrap_or(rest).trim_end(), None, None);
    while let Some((before, word)) = text.rsplit_once(" # ").or_else(|| Some(("", text.strip_prefix("# ")?)))
    {
        let time = word.strip_prefix("time=").and_then(duration);
        if ms.is_none() && directive.is_none() && time.is_some() {
            ms = time;
        } else if told(word) {
            directive = Some(word);
        } else {
            break;
        }
        text = before.trim_end();
        if directive.is_some() {
            break;
        }
    }
    let name = text.strip_prefix('-').unwrap_or(text).trim();
    Some(Spoken { good, number, name, directive, ms, opens: braced.is_some() })
}

/// `1..3`, `1..0 # SKIP why`: the number of tests, and the comment.
pub(crate) fn plan(line: &str) -> Option<(u64, &str)> {
    let rest = line.strip_prefix("1..")?;
    let (count, why) = rest.split_once('#').unwrap_or((rest, ""));
    Some((count.trim().parse().ok()?, why.trim()))
}

/// True for `SKIP`, `skipped: why`, `TODO later` and the like.
fn is_directive(text: &str) -> bool {
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    ["skip", "skipped", "todo"].contains(&text[..end].to_ascii_lowercase().as_str())
}

/// `1.5ms`, `2s`: milliseconds.
fn duration(text: &str) -> Option<f64> {
    let (number, factor) = match text.strip_suffix("ms") {
        Some(number) => (number, 1.0),
        None => (text.strip_suffix('s')?, 1000.0),
    };
    let number: f64 = number.parse().ok()?;
    Some(number * factor).filter(|ms| (0.0..1e12).contains(ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str) -> (Vec<Point>, Tap) {
        let mut tap = Tap::default();
        let mut points: Vec<_> = text.lines().filter_map(|line| tap.line(line)).collect();
        points.extend(tap.end());
        (points, tap)
    }

    #[test]
    fn complete_tap_file_is_read() {
        let (points, tap) = all(
            "1..7\nok 1 - adds\nnot ok 2 - fails\n# Failed test 2: \"fails\"\n#         have: 1\n    ok 1 - inner\n\
                                 ok 3 - adds\nok 4 # SKIP slow\nnot ok 5 - later # TODO when it is there\n# Failed (TODO) test 5\nok 6\nokay\nok 7 - the # of rows\n",
        );
        let got: Vec<_> = points.iter().map(|p| (p.name.as_str(), p.status, p.reason.as_deref())).collect();
        let want = [
            ("adds", Status::Passed, None),
            ("fails", Status::Failed, None),
            ("adds (3)", Status::Passed, None),
            ("test 4", Status::Skipped, Some("slow")),
            ("later", Status::Skipped, Some("when it is there")),
            ("test 6", Status::Passed, None),
            ("the # of rows", Status::Passed, None),
        ];
        assert_eq!(got, want);
        assert_eq!(points[1].details, "Failed test 2: \"fails\"\n        have: 1\n");
        assert_eq!((tap.faults, tap.lacks(), tap.next()), (0, None, None));
    }

    #[test]
    fn incomplete_tap_is_reported() {
        for (text, lacks, faults) in [
            ("", Some("it has no plan"), 0),
            ("1..2\nok 1\n", Some("2 tests were planned, and 1 ran"), 0),
            ("1..1\nok 1\nok 2\n", Some("1 test was planned, and 2 ran"), 0),
            ("1..0 # SKIP no such server\n", None, 0),
            ("1..1\n1..1\nok 1\n", None, 1),
            ("ok 2\n1..1\n", None, 1),
        ] {
            let (_, tap) = all(text);
            assert_eq!(tap.faults, faults, "{text}");
            assert_eq!(tap.lacks().is_some(), lacks.is_some(), "{text}");
            assert!(tap.lacks().unwrap_or_default().starts_with(lacks.unwrap_or_default()), "{text}");
        }
    }

    #[test]
    fn sum_of_file_belongs_to_no_test() {
        for (text, details) in [
            (
                "1..3\nok 1\nnot ok 2 - t\n# Failed test 2: \"t\"\n# Looks like you planned 3 tests but ran 2\n",
                "Failed test 2: \"t\"\n",
            ),
            ("1..1\nnot ok 1 - t\n# Looks like you failed 1 test of 1\n", ""),
            (
                "1..1\nnot ok 1 - t\n#   have: Looks like you\n# Looks like rain\n",
                "  have: Looks like you\nLooks like rain\n",
            ),
        ] {
            assert_eq!(all(text).0.last().unwrap().details, details, "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_tap_causes_no_panic(text in "(ok|not ok| |#|1|\\.\\.|-|SKIP|todo|é|\n){0,40}") {
            let _ = all(&text);
        }
    }
}
