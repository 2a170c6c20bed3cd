//! The architect's answer: files with their purposes and interfaces, between plain markers. The answer is hostile text, of which only what is read
//! here is shown to other roles.
//!
//! ```text
//! PLAN_START
//! SUMMARY: one sentence
//! FILE: path/of/the/file
//! PURPOSE: one sentence
//! INTERFACE:
//! public functions and classes, one a line
//! PLAN_END
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::language::Language;
use super::stub;
use crate::paths::{self, BadPath};
use crate::text::{line, visible};

/// Maximum number of files in a plan.
pub const MAX_FILES: usize = 20;
/// Maximum size of the interface of one file, in bytes.
pub const MAX_INTERFACE_BYTES: usize = 4000;
/// Maximum length of a summary or a purpose, in characters; longer ones are shortened.
const MAX_WORDS: usize = 400;
/// Maximum length of a line that is looked at as a field.
const MAX_FIELD_BYTES: usize = 4096;

/// A plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Summary in one line.
    pub summary: String,
    /// Files, at least one.
    pub files: Vec<Planned>,
}

/// A file of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Planned {
    /// Path within the project.
    pub path: String,
    /// Purpose in one line.
    pub purpose: String,
    /// Public names, one a line; may be empty.
    pub interface: String,
}

/// Why an answer is not a plan, in words for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unplanned {
    /// The answer is empty.
    #[error("the answer is empty")]
    Empty,
    /// The answer is cut.
    #[error("the answer was cut at the limit of output; plan fewer files, in fewer words")]
    Cut,
    /// There is no plan.
    #[error("no plan was found; write PLAN_START, the plan, PLAN_END, each marker on a line of its own")]
    NoPlan,
    /// The end is missing.
    #[error("PLAN_END is missing")]
    NoEnd,
    /// The plan has no file.
    #[error("the plan has no file; write FILE: path, PURPOSE: and INTERFACE: for each")]
    NoFile,
    /// No file is a source.
    #[error("no file of the plan is a source in {0}")]
    NoSource(&'static str),
    /// Too many files.
    #[error("the plan has more than {MAX_FILES} files; plan fewer")]
    TooMany,
    /// A file twice.
    #[error("{0} is there twice")]
    Twice(String),
    /// A file that is also a folder.
    #[error("{0} is a file and a folder of another file")]
    Folder(String),
    /// A file without a purpose.
    #[error("{0} has no PURPOSE:")]
    NoPurpose(String),
    /// An interface that is too large.
    #[error("the interface of {0} is larger than {MAX_INTERFACE_BYTES} bytes; name only what others use")]
    TooLarge(String),
    /// A file that is there already.
    #[error("{0} is there already and cannot be planned")]
    Taken(String),
    /// Files of one folder with different packages.
    #[error(
        "{0} is of the package {1}, and another file of its folder of {2}; plan one package for each folder"
    )]
    Packages(String, String, String),
    /// A source of Rust elsewhere than the library expects its modules.
    #[error("{0} is not src/lib.rs, src/main.rs or src/NAME.rs with a NAME of letters, digits and _")]
    Module(String),
    /// A module that the program has beside the library.
    #[error(
        "src/main.rs has mod {0}; which is a module of the library: write use project::{0}; in its place"
    )]
    ModuleOfProgram(String),
    /// A source of Go that is not built here, or not always.
    #[error(
        "{0} is not built by Go everywhere: plan a name that does not begin with _ nor end in _ and a system or processor, no folder testdata or vendor, no //go:build, and not hotcell_stub.go"
    )]
    NotBuilt(String),
    /// A project of Rust without a library.
    #[error("src/lib.rs is missing; tests can use a library only")]
    NoLibrary,
    /// A path.
    #[error(transparent)]
    Path(#[from] BadPath),
}

/// A field of a plan.
enum Field<'a> {
    Summary(&'a str),
    File(&'a str),
    Purpose(&'a str),
    Interface(&'a str),
}

/// Decoration that models put around words.
fn plain(c: char) -> bool {
    c.is_whitespace() || matches!(c, '*' | '`' | '#' | '<' | '>' | '"')
}

fn is_marker(text: &str, marker: &str) -> bool {
    text.len() <= MAX_FIELD_BYTES && text.trim_matches(plain).trim_end_matches(':') == marker
}

fn is_fence(text: &str) -> bool {
    text.trim_start().starts_with("```") || text.trim_start().starts_with("~~~")
}

/// Code beside a marker. Only marks around all of it are taken off: `Option<i64>` ends with one of those around words.
fn code(rest: &str) -> &str {
    let rest = rest.trim();
    let rest = rest.strip_prefix("**").unwrap_or(rest).trim();
    if is_fence(rest) {
        return "";
    }
    rest.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).unwrap_or(rest)
}

fn field(text: &str) -> Option<Field<'_>> {
    if text.len() > MAX_FIELD_BYTES {
        return None;
    }
    let word = text.trim_start_matches(|c| plain(c) || c == '-');
    let after = |name: &str| {
        let rest = word.strip_prefix(name)?.trim_start_matches('*');
        rest.strip_prefix(':')
    };
    let plainly = |name: &str| after(name).map(|rest| rest.trim_matches(plain));
    plainly("SUMMARY")
        .map(Field::Summary)
        .or_else(|| plainly("FILE").map(Field::File))
        .or_else(|| plainly("PURPOSE").map(Field::Purpose))
        .or_else(|| after("INTERFACE").map(|rest| Field::Interface(code(rest))))
}

/// Reads an answer; `taken` are paths that are there already. Of several plans the last one counts.
///
/// # Errors
/// [`Unplanned`].
pub fn read(answer: &str, is_cut: bool, language: Language, taken: &[String]) -> Result<Plan, Unplanned> {
    if is_cut {
        return Err(Unplanned::Cut);
    }
    if answer.trim().is_empty() {
        return Err(Unplanned::Empty);
    }
    let lines: Vec<&str> = answer.lines().collect();
    let start = lines.iter().rposition(|text| is_marker(text, "PLAN_START")).ok_or(Unplanned::NoPlan)?;
    let lines = &lines[start + 1..];
    let end = lines.iter().position(|text| is_marker(text, "PLAN_END")).ok_or(Unplanned::NoEnd)?;
    let mut plan = fields(&lines[..end])?;
    check(&plan, language, taken)?;
    stub::complete(language, &mut plan)?;
    Ok(plan)
}

/// Reads a plan of the user, who may leave out the markers around it.
///
/// # Errors
/// [`Unplanned`].
pub fn given(text: &str, language: Language, taken: &[String]) -> Result<Plan, Unplanned> {
    if text.lines().any(|line| is_marker(line, "PLAN_START")) {
        return read(text, false, language, taken);
    }
    read(&format!("PLAN_START\n{text}\nPLAN_END\n"), false, language, taken)
}

fn fields(lines: &[&str]) -> Result<Plan, Unplanned> {
    let mut plan = Plan::default();
    let mut in_interface = false;
    for text in lines {
        let found = field(text);
        match (found, plan.files.last_mut()) {
            (Some(Field::File(path)), _) => {
                if plan.files.len() >= MAX_FILES {
                    return Err(Unplanned::TooMany);
                }
                plan.files.push(Planned { path: path.to_owned(), ..Planned::default() });
                in_interface = false;
            }
            (Some(Field::Purpose(words)), Some(file)) if !in_interface || file.purpose.is_empty() => {
                file.purpose = line(words, MAX_WORDS);
                in_interface = false;
            }
            (Some(Field::Interface(words)), Some(file)) => {
                in_interface = true;
                add(file, words)?;
            }
            (Some(Field::Summary(words)), None) => plan.summary = line(words, MAX_WORDS),
            (_, Some(file)) if in_interface && !is_fence(text) => add(file, text)?,
            _ => {}
        }
    }
    for file in &mut plan.files {
        file.interface = file.interface.trim_matches('\n').trim_end().to_owned();
    }
    Ok(plan)
}

/// Adds a line to the interface.
fn add(file: &mut Planned, text: &str) -> Result<(), Unplanned> {
    if file.interface.len() + text.len() > MAX_INTERFACE_BYTES {
        return Err(Unplanned::TooLarge(line(&file.path, 100)));
    }
    if !(file.interface.is_empty() && text.trim().is_empty()) {
        file.interface.push_str(&visible(text.trim_end()));
        file.interface.push('\n');
    }
    Ok(())
}

fn check(plan: &Plan, language: Language, taken: &[String]) -> Result<(), Unplanned> {
    if plan.files.is_empty() {
        return Err(Unplanned::NoFile);
    }
    for (at, file) in plan.files.iter().enumerate() {
        let path = &file.path;
        paths::check(path)?;
        if paths::is_test(path) {
            return Err(BadPath::Test(path.clone()).into());
        }
        let others =
            || plan.files.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, file)| &file.path);
        if others().any(|other| other == path) {
            return Err(Unplanned::Twice(path.clone()));
        }
        let is_above =
            |other: &String| other.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'));
        if others().chain(taken).any(is_above) {
            return Err(Unplanned::Folder(path.clone()));
        }
        if taken.contains(path) {
            return Err(Unplanned::Taken(path.clone()));
        }
        if file.purpose.is_empty() {
            return Err(Unplanned::NoPurpose(path.clone()));
        }
    }
    if !plan.files.iter().any(|file| language.is_source(&file.path)) {
        return Err(Unplanned::NoSource(language.name()));
    }
    Ok(())
}

impl Plan {
    /// The plan in its format, for the other roles and for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = "PLAN_START\n".to_owned();
        if !self.summary.is_empty() {
            text.push_str(&format!("SUMMARY: {}\n", self.summary));
        }
        for file in &self.files {
            text.push_str(&format!("FILE: {}\nPURPOSE: {}\n", file.path, file.purpose));
            if !file.interface.is_empty() {
                text.push_str(&format!("INTERFACE:\n{}\n", file.interface));
            }
        }
        text + "PLAN_END\n"
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(answer: &str) -> Result<Plan, Unplanned> {
        read(answer, false, Language::Python, &["test_given.py".to_owned(), "sub/help.py".to_owned()])
    }

    fn files(rows: &[&str]) -> String {
        let rows: Vec<String> = rows.iter().map(|path| format!("FILE: {path}\nPURPOSE: adds\n")).collect();
        format!("PLAN_START\nSUMMARY: sums\n{}PLAN_END\n", rows.concat())
    }

    #[test]
    fn plans_are_read_as_models_write_them() {
        let want = Plan {
            summary: "sums".to_owned(),
            files: vec![Planned {
                path: "calc.py".to_owned(),
                purpose: "adds".to_owned(),
                interface: "def add(a, b)\n    adds both".to_owned(),
            }],
        };
        for answer in [
            "PLAN_START\nSUMMARY: sums\nFILE: calc.py\nPURPOSE: adds\nINTERFACE:\ndef add(a, b)\n    adds both\nPLAN_END",
            "Sure!\n```\nPLAN_START\nSUMMARY: sums\n\nFILE: calc.py\nPURPOSE: adds\nINTERFACE: def add(a, b)\n    adds both\n\nPLAN_END\n```\nDone.",
            "**PLAN_START**\n**SUMMARY:** sums\n- **FILE:** `calc.py`\n  **PURPOSE**: adds\n  INTERFACE:\n```python\ndef add(a, b)\n    adds both\n```\n**PLAN_END**\n",
            "First PLAN_START is written.\nPLAN_START\nFILE: old.py\nPURPOSE: x\nPLAN_END\nPLAN_START\r\nSUMMARY: sums\r\nFILE: calc.py\r\nPURPOSE: adds\r\nINTERFACE:\r\ndef add(a, b)\r\n    adds both\r\nPLAN_END",
        ] {
            assert_eq!(of(answer), Ok(want.clone()), "{answer}");
        }
        let odd = of("PLAN_START\nFILE: a.py\nPURPOSE: x\u{1b}[2J\u{202e}\nPLAN_END").unwrap();
        assert_eq!(odd.files[0].purpose, "x<U+001B>[2J<U+202E>");
    }

    #[test]
    fn interfaces_beside_their_marker_stay_whole() {
        for (given, want) in [
            ("INTERFACE: pub fn a() -> Option<i64>", "pub fn a() -> Option<i64>"),
            ("INTERFACE: #[derive(Debug)]", "#[derive(Debug)]"),
            ("INTERFACE: const A: &str = \"a\"", "const A: &str = \"a\""),
            ("INTERFACE: func F(a *", "func F(a *"),
            ("**INTERFACE:** `def add(a, b)`", "def add(a, b)"),
            ("**INTERFACE**: def add(a, b)  ", "def add(a, b)"),
            ("INTERFACE: ```python", ""),
            ("**INTERFACE:**", ""),
        ] {
            let plan = of(&format!("PLAN_START\nFILE: a.py\nPURPOSE: x\n{given}\nPLAN_END")).unwrap();
            assert_eq!(plan.files[0].interface, want, "{given}");
        }
    }

    #[test]
    fn answers_without_a_usable_plan_say_why() {
        let long = format!("PLAN_START\nFILE: a.py\nPURPOSE: x\nINTERFACE:\n{}\nPLAN_END", "x".repeat(4001));
        let many: Vec<String> = (0..21).map(|at| format!("a{at}.py")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (answer, why) in [
            ("", "is empty"),
            ("I would write a file.", "PLAN_START"),
            ("PLAN_START\nFILE: a.py\nPURPOSE: x", "PLAN_END is missing"),
            ("PLAN_START\nSUMMARY: x\nPLAN_END", "has no file"),
            ("PLAN_START\nFILE: a.py\nPLAN_END", "has no PURPOSE"),
            (&files(&["a.py", "a.py"]), "twice"),
            (&files(&["a.py", "a.py/b.py"]), "a file and a folder"),
            (&files(&["sub", "b.py"]), "a file and a folder"),
            (&files(&["sub/help.py"]), "there already"),
            (&files(&["README.md"]), "source in python"),
            (&files(&["test_given.py"]), "is a test"),
            (&files(&many), "more than 20"),
            (&long, "larger than 4000"),
        ] {
            assert!(of(answer).is_err_and(|e| e.to_string().contains(why)), "{answer:.60}: {why}");
        }
        assert_eq!(read("PLAN_START", true, Language::Python, &[]), Err(Unplanned::Cut));
        for (language, path, why) in [
            (Language::Go, "calc.rs", "source in go"),
            (Language::Rust, "calc.rs", "is not src/lib.rs"),
            (Language::Rust, "src/calc.rs", "src/lib.rs is missing"),
            (Language::Go, "calc_test.go", "is a test"),
            (Language::Go, "go.mod", "is a test, or decides"),
            (Language::Rust, "Cargo.toml", "is a test, or decides"),
        ] {
            let refused = read(&files(&[path]), false, language, &[]);
            assert!(refused.is_err_and(|e| e.to_string().contains(why)), "{path}: {why}");
        }
        let read = read(&files(&["sub/calc.go"]), false, Language::Go, &[]).unwrap();
        assert_eq!(read.files[0].interface, "package sub");
        assert_eq!(given(&read.text(), Language::Go, &[]), Ok(read));
    }

    #[test]
    fn hostile_paths_are_refused() {
        for path in [
            "../a.py",
            "/etc/a.py",
            ".git/hooks/a.py",
            ".hidden/a.py",
            "a/../b.py",
            "a\\b.py",
            "~/.ssh/../a.py",
            "conftest.py",
        ] {
            let refused = of(&files(&["calc.py", path]));
            assert!(matches!(refused, Err(Unplanned::Path(_))), "{path}: {refused:?}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused_and_its_paths_stay_inside(answer in "(PLAN_START|PLAN_END|FILE:|PURPOSE:|INTERFACE:|SUMMARY:|\n| |a.py|[./`*-]|\\PC){0,40}") {
            if let Ok(plan) = of(&answer) {
                prop_assert!(plan.files.iter().all(|file| paths::check(&file.path).is_ok() && !paths::is_test(&file.path)));
                prop_assert!((1..=MAX_FILES).contains(&plan.files.len()));
            }
        }

        #[test]
        fn plans_come_back_from_their_text(
            summary in "[a-z]{0,20}",
            rows in proptest::collection::btree_map("[a-z]{1,8}", ("[a-z]{1,20}", "[a-z]{0,9}(\n  [a-z(]{1,9}){0,3}"), 1..6),
        ) {
            let rows = rows.into_iter().map(|(name, (purpose, interface))| Planned {
                path: format!("src/x{name}.py"),
                purpose,
                interface: interface.trim_matches('\n').to_owned(),
            });
            let plan = Plan { summary, files: rows.collect() };
            prop_assert_eq!(of(&plan.text()), Ok(plan));
        }
    }
}
