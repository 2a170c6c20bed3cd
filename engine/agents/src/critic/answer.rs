//! A reviewing model's answer: lines of a fixed format. A defect counts only when it names a line that the model was shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::line;

/// Maximum size of an answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// Maximum number of defects and of suggestions in one answer.
const MAX_ROWS: usize = 30;
/// Maximum length of words, in characters.
const MAX_WORDS_CHARS: usize = 300;

/// Severity of a defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A remark; takes no points.
    Note,
    /// Should be mended.
    Warning,
    /// Wrong or dangerous.
    Critical,
}

/// A defect that a model names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Defect {
    /// Severity.
    pub severity: Severity,
    /// Path of the file.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// The model's words.
    pub problem: String,
    /// The model's advice, if it gave any.
    pub fix: Option<String>,
}

/// Contents of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Defects that name a line that exists.
    pub defects: Vec<Defect>,
    /// Suggestions without a place.
    pub suggestions: Vec<String>,
    /// Number of defects that name no line that exists, or are not of the form.
    pub dropped: usize,
    /// The answer has a line of the format, or says that there is no defect.
    pub usable: bool,
}

/// Reads an answer; `lines` gives the number of lines of a file that the model was shown.
#[must_use]
pub fn read(text: &str, lines: &dyn Fn(&str) -> Option<u32>) -> Answer {
    let mut answer = Answer::default();
    let text = &text[..text.floor_char_boundary(MAX_ANSWER_BYTES)];
    for row in text.lines() {
        // Lists and emphasis are how models write lines.
        let row = row.trim().trim_start_matches(['-', '*', '`', ' ']).trim_end_matches(['`', '*']);
        let mut fields = row.split('|').map(str::trim);
        match fields.next() {
            Some("DEFECT") => {
                answer.usable = true;
                let fields: Vec<&str> = fields.collect();
                match defect(&fields, lines) {
                    Some(defect) if answer.defects.contains(&defect) => {}
                    Some(defect) if answer.defects.len() < MAX_ROWS => answer.defects.push(defect),
                    _ => answer.dropped += 1,
                }
            }
            Some("SUGGESTION") => {
                answer.usable = true;
                let words = fields.collect::<Vec<_>>().join("|");
                if !words.is_empty() && answer.suggestions.len() < MAX_ROWS {
                    answer.suggestions.push(line(&words, MAX_WORDS_CHARS));
                }
            }
            Some("NONE") => answer.usable = true,
            _ => {}
        }
    }
    answer
}

fn defect(fields: &[&str], lines: &dyn Fn(&str) -> Option<u32>) -> Option<Defect> {
    let [severity, place, problem, rest @ ..] = fields else { return None };
    let severity = match severity.to_ascii_lowercase().as_str() {
        "note" => Severity::Note,
        "warning" => Severity::Warning,
        "critical" => Severity::Critical,
        _ => return None,
    };
    let (file, number) = place.trim_matches('`').rsplit_once(':')?;
    // A range begins with its first line.
    let number: u32 = number.trim().split('-').next()?.trim_start_matches(['L', 'l']).parse().ok()?;
    let file = file.trim().trim_start_matches("./");
    if problem.is_empty() || !(1..=lines(file)?).contains(&number) {
        return None;
    }
    let fix = rest.join("|");
    Some(Defect {
        severity,
        file: file.to_owned(),
        line: number,
        problem: line(problem, MAX_WORDS_CHARS),
        fix: (!fix.trim().is_empty()).then(|| line(&fix, MAX_WORDS_CHARS)),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Answer {
        read(text, &|path| (path == "src/a.py").then_some(10))
    }

    #[test]
    fn defects_count_only_with_a_line_that_exists() {
        for (row, want) in [
            ("DEFECT | critical | src/a.py:10 | divides by zero | check b", Some((Severity::Critical, 10))),
            ("DEFECT|note|src/a.py:1|x", Some((Severity::Note, 1))),
            ("- **DEFECT | Warning | ./src/a.py:L3-5 | a | b | c**", Some((Severity::Warning, 3))),
            ("`DEFECT | warning | `src/a.py:2` | a`", Some((Severity::Warning, 2))),
            ("DEFECT | critical | src/a.py:11 | after the end", None),
            ("DEFECT | critical | src/a.py:0 | before the beginning", None),
            ("DEFECT | critical | src/b.py:1 | a file that was not shown", None),
            ("DEFECT | critical | ../../etc/passwd:1 | outside", None),
            ("DEFECT | critical | src/a.py | no line", None),
            ("DEFECT | severe | src/a.py:1 | no such severity", None),
            ("DEFECT | critical | src/a.py:1 |", None),
            ("DEFECT", None),
        ] {
            let answer = of(row);
            let got = answer.defects.first().map(|defect| (defect.severity, defect.line));
            assert_eq!((got, answer.dropped), (want, usize::from(want.is_none())), "{row}");
            assert!(answer.usable);
        }
    }

    #[test]
    fn words_are_visible_and_verdicts_are_not_read() {
        let answer = of("All good, score 100.\nAPPROVED\n{\"quality_score\": 100}\n");
        assert_eq!(answer, Answer::default());
        assert!(of("NONE").usable);
        let answer = of(
            "DEFECT | note | src/a.py:1 | \u{1b}[2Jred\u{202e} | x\nSUGGESTION | a | b\nDEFECT | note | src/a.py:1 | \u{1b}[2Jred\u{202e} | x",
        );
        assert_eq!(answer.defects.len(), 1);
        assert_eq!(answer.defects[0].problem, "<U+001B>[2Jred<U+202E>");
        assert_eq!(answer.suggestions, ["a|b"]);
        let many = "DEFECT | note | src/a.py:1 | ".to_owned();
        let many: String = (0..100).map(|n| format!("{many}{n}\n")).collect();
        let answer = of(&many);
        assert_eq!((answer.defects.len(), answer.dropped), (MAX_ROWS, 100 - MAX_ROWS));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_within_its_bounds(text in "(DEFECT|\\||note|src/a.py:|[0-9]{1,3}|\\n|\\PC{0,4}){0,60}") {
            let answer = of(&text);
            prop_assert!(answer.defects.len() <= MAX_ROWS);
            prop_assert!(answer.defects.iter().all(|d| d.file == "src/a.py" && (1..=10).contains(&d.line)));
        }
    }
}
