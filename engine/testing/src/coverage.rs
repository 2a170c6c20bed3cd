//! Which lines the tests ran, as the framework's own tool counted them: LCOV's text, Go's profiles, or gcov's JSON.
//!
//! The counts are the word of a process that the tests ran in. They are told, and decide nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hotcell_sandbox::policy::PROJECT;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Files that are told of.
const MOST_FILES: usize = 10_000;
/// Lines that are looked at, in all files together.
const MOST_LINES: usize = 5_000_000;
/// Ranges of missing lines in a file.
const MOST_RANGES: usize = 1000;

/// What a script of ours says where a program's lines are not known. It is a test's word like all of the report, so it chooses a
/// sentence and does not write one.
const MISSING: [(&str, &str); 3] = [
    (
        "missing",
        "llvm-profdata and llvm-cov are not there: `rustup component add llvm-tools`, or `apt install llvm-19`",
    ),
    (
        "unread",
        "llvm-profdata here cannot read what this compiler's programs count: `rustup component add llvm-tools`",
    ),
    (
        "silent",
        "the test programs were killed or aborted, and wrote no counts: mend what the report says of them first",
    ),
];

/// Where a framework's coverage lies, and how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Path of the file, relative to the home folder.
    pub report: PathBuf,
    /// Its form.
    pub form: Form,
}

/// Forms of coverage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// `SF:`, `DA:`, `end_of_record`; `geninfo(1)`. A line of a script of ours says why there is none.
    Lcov,
    /// A cover profile of Go, whose files begin with this module's path.
    /// <https://pkg.go.dev/golang.org/x/tools/cover>
    Go {
        /// The module's path.
        module: String,
    },
    /// JSON of gcov, one object for each file that was compiled.
    Gcov,
}

/// How much of the project the tests ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Lines that ran, of those that can, in percent; `null` where there are none.
    pub lines_percent: Option<f64>,
    /// Lines that can run.
    pub lines: u64,
    /// Those that did.
    pub covered: u64,
    /// Each file of the project, by path; at most 10,000.
    pub files: Vec<FileCoverage>,
}

/// The same of one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileCoverage {
    /// Path below the project.
    pub path: String,
    /// Lines that ran, of those that can, in percent.
    pub lines_percent: f64,
    /// Lines that can run.
    pub lines: u64,
    /// Those that did.
    pub covered: u64,
    /// First and last line of each stretch that did not run; at most 1,000.
    pub missing: Vec<(u32, u32)>,
}

impl Coverage {
    /// Adds other files.
    pub fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.covered += other.covered;
        self.lines_percent = percent(self.covered, self.lines);
        let room = MOST_FILES.saturating_sub(self.files.len());
        self.files.extend(other.files.into_iter().take(room));
    }
}

/// Lines of files, and whether they ran.
type Lines = BTreeMap<String, BTreeMap<u32, bool>>;

/// Reads a report.
///
/// # Errors
/// What is wrong with it, with the line.
pub fn parse(form: &Form, bytes: &[u8]) -> Result<Coverage, String> {
    let text =
        std::str::from_utf8(bytes).map_err(|e| format!("it is not UTF-8 at byte {}", e.valid_up_to()))?;
    let files = match form {
        Form::Lcov => lcov(text)?,
        Form::Go { module } => go(text, module)?,
        Form::Gcov => gcov(text)?,
    };
    let mut all = Coverage::default();
    for (path, lines) in files {
        let covered = lines.values().filter(|ran| **ran).count() as u64;
        all.lines += lines.len() as u64;
        all.covered += covered;
        if let Some(lines_percent) =
            percent(covered, lines.len() as u64).filter(|_| all.files.len() < MOST_FILES)
        {
            let (lines, missing) = (lines.len() as u64, stretches(&lines));
            all.files.push(FileCoverage { path, lines_percent, lines, covered, missing });
        }
    }
    all.lines_percent = percent(all.covered, all.lines);
    Ok(all)
}

/// With two decimals, and 100 only for all of them.
fn percent(covered: u64, lines: u64) -> Option<f64> {
    let rounded = (covered.saturating_mul(10_000)).checked_div(lines)?;
    Some(rounded as f64 / 100.0)
}

fn stretches(lines: &BTreeMap<u32, bool>) -> Vec<(u32, u32)> {
    let mut missing: Vec<(u32, u32)> = Vec::new();
    let mut open = false;
    for (line, ran) in lines {
        if !ran && open {
            if let Some(last) = missing.last_mut() {
                last.1 = *line;
            }
        } else if !ran && missing.len() == MOST_RANGES {
            break;
        } else if !ran {
            missing.push((*line, *line));
        }
        open = !ran;
    }
    missing
}

/// A file's path below the project; `None` for what is not of it.
fn of_project(path: &str) -> Option<String> {
    let path = Path::new(path);
    let below = if path.is_absolute() { path.strip_prefix(PROJECT).ok()? } else { path };
    let below = below.strip_prefix(".").unwrap_or(below);
    let plain = below.components().all(|c| matches!(c, std::path::Component::Normal(_)));
    (plain && below != Path::new("")).then(|| below.to_string_lossy().into_owned())
}

/// Lines may still be added.
struct Room(usize);

impl Room {
    fn take(&mut self, lines: usize) -> Result<(), String> {
        self.0 = self
            .0
            .checked_sub(lines)
            .ok_or_else(|| format!("it has more than {MOST_LINES} lines of code"))?;
        Ok(())
    }
}

fn lcov(text: &str) -> Result<Lines, String> {
    let mut files = Lines::new();
    let mut room = Room(MOST_LINES);
    let mut now: Option<String> = None;
    let mut none = None;
    for (at, row) in text.lines().enumerate() {
        let broken = |why: &str| format!("line {} {why}", at + 1);
        if let Some(word) = row.strip_prefix("@hotcell\t") {
            none = MISSING.iter().find(|(known, _)| *known == word).map_or(none, |(_, why)| Some(*why));
        } else if let Some(path) = row.strip_prefix("SF:") {
            now = of_project(path);
            if let Some(path) = &now {
                room.take(1)?;
                files.entry(path.clone()).or_default();
            }
        } else if row == "end_of_record" {
            now = None;
        } else if let Some((rest, path)) = row.strip_prefix("DA:").zip(now.as_ref()) {
            let mut numbers = rest.split(',');
            let line = numbers.next().and_then(|n| n.parse().ok()).ok_or_else(|| broken("names no line"))?;
            let hits: u64 =
                numbers.next().and_then(|n| n.parse().ok()).ok_or_else(|| broken("counts nothing"))?;
            room.take(1)?;
            *files.entry(path.clone()).or_default().entry(line).or_default() |= hits > 0;
        }
    }
    match (now, none) {
        (Some(_), _) => Err("it ends within a file".to_owned()),
        // Of several programs those count of which something is known.
        (None, Some(why)) if files.is_empty() => Err(why.to_owned()),
        _ => Ok(files),
    }
}

/// `NAME:LINE.COLUMN,LINE.COLUMN STATEMENTS COUNT`
fn go(text: &str, module: &str) -> Result<Lines, String> {
    let mut files = Lines::new();
    let mut room = Room(MOST_LINES);
    for (at, row) in text.lines().enumerate().filter(|(_, row)| !row.starts_with("mode: ")) {
        let read = || -> Option<(&str, u32, u32, bool)> {
            let (file, rest) = row.rsplit_once(':')?;
            let mut words = rest.split(' ');
            let (from, to) = words.next()?.split_once(',')?;
            let line = |place: &str| place.split_once('.').and_then(|(line, _)| line.parse().ok());
            let count: u64 = words.nth(1)?.parse().ok()?;
            Some((file, line(from)?, line(to)?, count > 0))
        };
        let (file, from, to, ran) = read().ok_or_else(|| format!("line {} is no block", at + 1))?;
        let below = file.strip_prefix(module).map_or(file, |rest| rest.trim_start_matches('/'));
        let Some(path) = of_project(below) else { continue };
        room.take((to.max(from) - from) as usize + 1)?;
        let lines = files.entry(path).or_default();
        for line in from..=to.max(from) {
            *lines.entry(line).or_default() |= ran;
        }
    }
    Ok(files)
}

/// What was compiled into one file, with all that it includes.
/// <https://gcc.gnu.org/onlinedocs/gcc/Invoking-Gcov.html>
#[derive(Deserialize)]
struct Compiled {
    files: Vec<CompiledFile>,
}

#[derive(Deserialize)]
struct CompiledFile {
    file: String,
    lines: Vec<CompiledLine>,
}

#[derive(Deserialize)]
struct CompiledLine {
    line_number: u32,
    count: f64,
}

/// A line of a header or a template counts when one of those that it became ran.
fn gcov(text: &str) -> Result<Lines, String> {
    let mut files = Lines::new();
    let mut room = Room(MOST_LINES);
    for compiled in serde_json::Deserializer::from_str(text).into_iter::<Compiled>() {
        for file in compiled.map_err(|e| e.to_string())?.files {
            let Some(path) = of_project(&file.file) else { continue };
            room.take(file.lines.len() + 1)?;
            let lines = files.entry(path).or_default();
            for line in file.lines {
                *lines.entry(line.line_number).or_default() |= line.count > 0.0;
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row<'a> = (&'a str, u64, u64, &'a [(u32, u32)]);

    fn rows(coverage: &Coverage) -> Vec<Row<'_>> {
        coverage.files.iter().map(|f| (f.path.as_str(), f.covered, f.lines, f.missing.as_slice())).collect()
    }

    #[test]
    fn lcov_of_several_runs_is_added_up() {
        let text = "TN:\nSF:/home/sandbox/project/a.py\nDA:1,1\nDA:2,0\nDA:3,0\nDA:5,0,hash\nend_of_record\n\
                    SF:b.js\nDA:1,2\nend_of_record\nSF:/usr/lib/x.py\nDA:1,1\nend_of_record\n\
                    SF:../out.js\nDA:1,1\nend_of_record\nSF:a.py\nDA:2,4\nend_of_record\n";
        let coverage = parse(&Form::Lcov, text.as_bytes()).unwrap();
        assert_eq!(rows(&coverage), [("a.py", 2, 4, &[(3, 5)][..]), ("b.js", 1, 1, &[])]);
        assert_eq!((coverage.lines_percent, coverage.files[0].lines_percent), (Some(60.0), 50.0));
    }

    #[test]
    fn why_nothing_is_known_is_said_in_words_of_ours() {
        let of = |text: &str| parse(&Form::Lcov, text.as_bytes());
        let record = "SF:a.rs\nDA:1,1\nend_of_record\n";
        assert!(of("@hotcell\tmissing\n").unwrap_err().contains("apt install llvm-19"));
        assert!(of("@hotcell\tsilent\n@hotcell\tunread\n").unwrap_err().contains("cannot read"));
        assert_eq!(of(&format!("@hotcell\tsilent\n{record}")).unwrap().lines, 1);
        assert_eq!(of("@hotcell\tall is well\n").unwrap(), Coverage::default());
    }

    #[test]
    fn blocks_of_go_become_lines() {
        let text = "mode: set\nexample.com/m/a/a.go:3.14,5.2 1 1\nexample.com/m/a/a.go:5.2,7.3 2 0\nother.org/x.go:1.1,1.2 1 1\n";
        let coverage = parse(&Form::Go { module: "example.com/m".to_owned() }, text.as_bytes()).unwrap();
        assert_eq!(rows(&coverage), [("a/a.go", 3, 5, &[(6, 7)][..]), ("other.org/x.go", 1, 1, &[])]);
    }

    #[test]
    fn what_was_compiled_twice_is_one_file() {
        let file = |name: &str, lines: &str| {
            format!(
                "{{\"gcc_version\":\"12\",\"files\":[{{\"file\":\"{name}\",\"functions\":[],\"lines\":[{lines}]}}]}}\n"
            )
        };
        let line = |number: u32, count: &str| {
            format!("{{\"line_number\":{number},\"count\":{count},\"branches\":[]}}")
        };
        let text = [
            file("src/a.h", &[line(1, "0"), line(2, "0"), line(2, "18446744073709551615")].join(",")),
            file("/home/sandbox/project/src/a.h", &[line(1, "3"), line(5, "0")].join(",")),
            file("/usr/include/c++/12/vector", &line(1, "1")),
            file("../x.cc", &line(1, "1")),
        ]
        .concat();
        let coverage = parse(&Form::Gcov, text.as_bytes()).unwrap();
        assert_eq!(rows(&coverage), [("src/a.h", 2, 3, &[(5, 5)][..])]);
    }

    #[test]
    fn what_is_broken_is_said_and_nothing_is_nothing() {
        for (form, text, why) in [
            (Form::Lcov, "SF:a\nDA:x,1\n", "line 2 names no line"),
            (Form::Lcov, "SF:a\nDA:1\n", "line 2 counts nothing"),
            (Form::Lcov, "SF:a\nDA:1,1\n", "it ends within a file"),
            (Form::Go { module: String::new() }, "mode: set\nrubbish\n", "line 2 is no block"),
            (Form::Gcov, "{\"files\":[]}{\"files\":[", "EOF"),
            (Form::Gcov, "{}", "missing field"),
            (
                Form::Gcov,
                "{\"files\":[{\"file\":\"a\",\"lines\":[{\"line_number\":-1,\"count\":1}]}]}",
                "invalid value",
            ),
            (Form::Go { module: String::new() }, "a.go:1.1,4000000000.1 1 1\n", "more than"),
        ] {
            assert!(parse(&form, text.as_bytes()).unwrap_err().contains(why), "{text}");
        }
        assert!(parse(&Form::Lcov, b"\xff").unwrap_err().contains("UTF-8"));
        assert_eq!(parse(&Form::Lcov, b"").unwrap(), Coverage::default());
    }

    proptest::proptest! {
        #[test]
        fn any_report_is_read(text in "(SF:|DA:|mode: |a.go:|end_of_record|[0-9,. /\n]){0,40}") {
            for form in [Form::Lcov, Form::Go { module: "a".to_owned() }, Form::Gcov] {
                if let Ok(coverage) = parse(&form, text.as_bytes()) {
                    assert!(coverage.covered <= coverage.lines);
                    assert_eq!(coverage.lines, coverage.files.iter().map(|f| f.lines).sum::<u64>());
                }
            }
        }
    }
}
