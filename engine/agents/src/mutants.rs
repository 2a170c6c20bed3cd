//! Mutants of a source: one line with one operator changed. Pure, and for every language with operators of C's kind; operators are
//! chosen so that the result parses. Who runs tests on them leaves those out that a compiler refuses.

use std::ops::Range;

use crate::spec::stub::blank::{blank, group};

/// A mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Path.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// Change in words, such as `+ to -`.
    pub change: String,
    /// Whole text of the file.
    pub text: String,
}

/// Operators with their replacements; longer ones first. They stand between spaces, as formatters write them.
const OPERATORS: [(&str, &str); 18] = [
    (" == ", " != "),
    (" != ", " == "),
    (" <= ", " > "),
    (" >= ", " < "),
    (" < ", " >= "),
    (" > ", " <= "),
    (" && ", " || "),
    (" || ", " && "),
    (" and ", " or "),
    (" or ", " and "),
    (" + ", " - "),
    (" - ", " + "),
    (" * ", " + "),
    (" / ", " * "),
    (" % ", " * "),
    (" += ", " -= "),
    ("true", "false"),
    ("True", "False"),
];
/// Beginnings of lines without code, and of lines that only name something.
const NO_CODE: [&str; 11] =
    ["#", "//", "/*", "*", "\"\"\"", "'''", "import ", "from ", "use ", "package ", "#include"];

/// Up to `most` mutants of some files, spread over all places.
#[must_use]
pub fn mutants(files: &[(String, String)], most: usize) -> Vec<Mutant> {
    let mut places = Vec::new();
    for (at, (path, text)) in files.iter().enumerate() {
        let within = tests_within(path, text);
        let mut next = 0;
        for (number, line) in text.split_inclusive('\n').enumerate() {
            let start = next;
            next += line.len();
            if within.iter().any(|range| range.contains(&start)) {
                continue;
            }
            let code = line.trim_start();
            if NO_CODE.iter().any(|start| code.starts_with(start)) {
                continue;
            }
            let found =
                OPERATORS.iter().find_map(|(old, new)| Some((outside_strings(line, old)?, *old, *new)));
            if let Some((column, old, new)) = found {
                places.push((at, number, column, old, new));
            }
        }
    }
    let step = places.len().div_ceil(most.max(1)).max(1);
    let of = |(at, number, column, old, new): &(usize, usize, usize, &str, &str)| {
        let (path, text) = &files[*at];
        let line = |(n, line): (usize, &str)| {
            if n == *number {
                format!("{}{new}{}\n", &line[..*column], &line[column + old.len()..])
            } else {
                format!("{line}\n")
            }
        };
        Mutant {
            path: path.clone(),
            line: number + 1,
            change: format!("{} to {}", old.trim(), new.trim()),
            text: text.lines().enumerate().map(line).collect(),
        }
    };
    places.iter().step_by(step).take(most).map(of).collect()
}

/// Places of a Rust source that are there for its own tests only.
fn tests_within(path: &str, text: &str) -> Vec<Range<usize>> {
    const MARK: &str = "#[cfg(test)]";
    if !path.ends_with(".rs") || !text.contains(MARK) {
        return Vec::new();
    }
    let code = blank(text, false);
    let end = |from: usize| match code[from..].find(['{', ';']).map(|at| from + at) {
        Some(at) if code[at..].starts_with('{') => group(&code, at).unwrap_or(code.len()),
        Some(at) => at + 1,
        None => code.len(),
    };
    code.match_indices(MARK).map(|(at, _)| at..end(at + MARK.len())).collect()
}

/// Place of an operator that is not within quotes, as far as one line shows it.
fn outside_strings(line: &str, operator: &str) -> Option<usize> {
    line.match_indices(operator).map(|(at, _)| at).find(|at| {
        let before = &line[..*at];
        ['"', '\'', '`'].iter().all(|quote| before.matches(*quote).count() % 2 == 0)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mutants_change_one_operator_outside_of_strings_and_comments() {
        let file = |text: &str| ("a.py".to_owned(), text.to_owned());
        for (text, want) in [
            ("x = a + b\n", Some("x = a - b\n")),
            ("if a == b:\n", Some("if a != b:\n")),
            ("s = 'a + b'\n", None),
            ("s = 'a' + b\n", Some("s = 'a' - b\n")),
            ("# a + b\n", None),
            ("import a\n", None),
            ("return True\n", Some("return False\n")),
            ("x = 1\n", None),
        ] {
            let got = mutants(&[file(text)], 5);
            assert_eq!(got.first().map(|mutant| mutant.text.as_str()), want, "{text}");
        }
        let rust = "fn f() {\n    a + b\n}\n\n#[cfg(test)]\nmod tests {\n    fn g() {\n        a + b\n    }\n}\n\nfn h() {\n    a - b\n}\n";
        let lines = |path: &str| {
            mutants(&[(path.to_owned(), rust.to_owned())], 9).iter().map(|one| one.line).collect::<Vec<_>>()
        };
        assert_eq!((lines("src/lib.rs"), lines("a.py")), (vec![2, 13], vec![2, 8, 13]));
        let many = "x = a + b\n".repeat(100);
        let got = mutants(&[file(&many)], 4);
        let lines: Vec<usize> = got.iter().map(|mutant| mutant.line).collect();
        assert_eq!(lines, [1, 26, 51, 76]);
        assert_eq!(got[0].change, "+ to -");
    }

    proptest! {
        #[test]
        fn mutants_differ_in_one_line_and_stay_within_their_number(
            lines in proptest::collection::vec("(a|b|'| \\+ | == | and |x){0,8}", 0..30), most in 0_usize..6,
        ) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let all = mutants(&[("a".to_owned(), text.clone())], most);
            prop_assert!(all.len() <= most);
            for mutant in all {
                let changed: Vec<usize> = text.lines().zip(mutant.text.lines()).enumerate()
                    .filter(|(_, (old, new))| old != new).map(|(at, _)| at + 1).collect();
                prop_assert_eq!(changed, vec![mutant.line]);
            }
        }
    }
}
