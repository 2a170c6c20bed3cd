//! Line coverage of tests, as counted by the framework's own tool: LCOV's text, Go's profiles, or gcov's
//! JSON.
//!
//! The counts come from a process that the tests ran in. They are reported, and have no effect on the
//! verdict.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hotcell_sandbox::policy::PROJECT;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of files in a report.
const MAX_FILES: usize = 10_000;
/// Maximum number of lines examined, in all files together.
const MAX_LINES: usize = 5_000_000;
/// Maximum number of ranges of missing lines per file.
const MAX_RANGES: usize = 1000;

/// Reasons for missing coverage, reported by hotcell's scripts. Like the whole report, such a line is
/// untrusted, so it only selects a sentence.
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

/// Place and format of a framework's coverage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Path of the file, relative to the home folder.
    pub report: PathBuf,
    /// Format.
    pub form: Form,
}

/// Formats of coverage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// `SF:`, `DA:`, `end_of_record`; `geninfo(1)`. A line of hotcell's script gives the reason for missing
    /// coverage.
    Lcov,
    /// A cover profile of Go, in which file names begin with this module's path.
    /// <https://pkg.go.dev/golang.org/x/tools/cover>
    Go {
        /// Path of the module.
        module: String,
    },
    /// gcov's JSON, one object per compiled file.
    Gcov,
}

/// Line coverage of a project.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Percentage of executable lines that ran; `null` when there are no such lines.
    pub lines_percent: Option<f64>,
    /// Number of executable lines.
    pub lines: u64,
    /// Number of lines that ran.
    pub covered: u64,
    /// Files of the project, by path; at most 10,000.
    pub files: Vec<FileCoverage>,
}

/// Line coverage of one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileCoverage {
    /// Path below the project.
    pub path: String,
    /// Percentage of executable lines that ran.
    pub lines_percent: f64,
    /// Number of executable lines.
    pub lines: u64,
    /// Number of lines that ran.
    pub covered: u64,
    /// First and last line of each range that did not run; at most 1,000.
    pub missing: Vec<(u32, u32)>,
    /// Each executable line, and true if it ran: for coverage files, not for reports.
    #[serde(skip)]
    pub counted: Vec<(u32, bool)>,
}

impl Coverage {
    /// Adds the coverage of other files.
    pub fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.covered += other.covered;
        self.lines_percent = percent(self.covered, self.lines);
        let room = MAX_FILES.saturating_sub(self.files.len());
        self.files.extend(other.files.into_iter().take(room));
    }
}

/// Lines of files, each with true if it ran.
type Lines = BTreeMap<String, BTreeMap<u32, bool>>;

/// Parses a report.
///
/// # Errors
/// A sentence with the line of the error.
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
            percent(covered, lines.len() as u64).filter(|_| all.files.len() < MAX_FILES)
        {
            let (count, missing) = (lines.len() as u64, stretches(&lines));
            let counted = lines.into_iter().collect();
            all.files.push(FileCoverage { path, lines_percent, lines: count, covered, missing, counted });
        }
    }
    all.lines_percent = percent(all.covered, all.lines);
    Ok(all)
}

/// Rounded to two decimals, with 100 only for complete coverage.
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
        } else if !ran && missing.len() == MAX_RANGES {
            break;
        } else if !ran {
            missing.push((*line, *line));
        }
        open = !ran;
    }
    missing
}

/// Path of a file below the project; `None` for files outside.
fn of_project(path: &str) -> Option<String> {
    let path = Path::new(path);
    let below = if path.is_absolute() { path.strip_prefix(PROJECT).ok()? } else { path };
    let below = below.strip_prefix(".").unwrap_or(below);
    let plain = below.components().all(|c| matches!(c, std::path::Component::Normal(_)));
    (plain && below != Path::new("")).then(|| below.to_string_lossy().into_owned())
}

/// True while lines may still be added.
struct Room(usize);

impl Room {
    fn take(&mut self, lines: usize) -> Result<(), String> {
        self.0 =
            self.0.checked_sub(lines).ok_or_else(|| format!("it has more than {MAX_LINES} lines of code"))?;
        Ok(())
    }
}

fn lcov(text: &str) -> Result<Lines, String> {
    let mut files = Lines::new();
    let mut room = Room(MAX_LINES);
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
        // Programs without coverage are ignored if there are others.
        (None, Some(why)) if files.is_empty() => Err(why.to_owned()),
        _ => Ok(files),
    }
}

/// `NAME:LINE.COLUMN,LINE.COLUMN STATEMENTS COUNT`
fn go(text: &str, module: &str) -> Result<Lines, String> {
    let mut files = Lines::new();
    let mut room = Room(MAX_LINES);
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

/// One compiled file, with its includes. <https://gcc.gnu.org/onlinedocs/gcc/Invoking-Gcov.html>
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

/// A line of a header or a template counts as run if any of its instances ran.
fn gcov(text: &str) -> Result<Lines, String> {
    let mut files = Lines::new();
    let mut room = Room(MAX_LINES);
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
    fn missing_coverage_is_explained() {
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
    fn coverage_of_repeated_compilation_is_merged() {
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
    fn broken_coverage_is_error_empty_is_none() {
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
        fn arbitrary_coverage_report_is_consistent(text in "(SF:|DA:|mode: |a.go:|end_of_record|[0-9,. /\n]){0,40}") {
            for form in [Form::Lcov, Form::Go { module: "a".to_owned() }, Form::Gcov] {
                if let Ok(coverage) = parse(&form, text.as_bytes()) {
                    assert!(coverage.covered <= coverage.lines);
                    assert_eq!(coverage.lines, coverage.files.iter().map(|f| f.lines).sum::<u64>());
                }
            }
        }
    }
}
