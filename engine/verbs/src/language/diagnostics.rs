//! Parses compiler output into diagnostics. The compilers read hostile text, so their output may contain any
//! bytes.

mod psql;

use hotcell_report::{Diagnostic, Severity};
use serde::Deserialize;

use super::{Compiler, outside_name};

/// Maximum number of diagnostics.
const MAX_DIAGNOSTICS: usize = 1000;
/// Maximum size of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

/// Parsed output of a compiler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// Diagnostics, the first 1,000, in the compiler's order.
    pub diagnostics: Vec<Diagnostic>,
    /// The output for people.
    pub text: String,
}

/// Parses a compiler's output.
#[must_use]
pub fn read(compiler: Compiler, printed: &str) -> Said {
    let mut diagnostics = Vec::new();
    let mut text = String::new();
    match compiler {
        Compiler::Rustc => {
            for line in printed.lines() {
                match serde_json::from_str::<FromRustc>(line) {
                    Ok(said) => {
                        text.push_str(said.rendered.as_deref().unwrap_or(&said.message));
                        diagnostics.extend(said.diagnostic());
                    }
                    Err(_) => {
                        text.push_str(line);
                        text.push('\n');
                    }
                }
            }
        }
        Compiler::Gnu => {
            text.push_str(printed);
            diagnostics.extend(printed.lines().filter_map(|line| gnu(line).or_else(|| without_place(line))));
        }
        Compiler::Tsc => {
            for line in printed.lines() {
                let row = tsc(line);
                // Users need not act on these, unless the program itself fails.
                if !row.as_ref().is_some_and(|d| d.code.as_deref().is_some_and(is_about_node)) {
                    text.extend([line, "\n"]);
                }
                diagnostics.extend(row);
            }
        }
        Compiler::Javac => {
            text.push_str(printed);
            javac(printed, &mut diagnostics);
        }
    }
    Said { diagnostics: kept(diagnostics), text }
}

/// Parses psql's output for this source.
#[must_use]
pub fn read_psql(printed: &str, source: &str) -> Vec<Diagnostic> {
    kept(psql::read(printed, source))
}

fn kept(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.truncate(MAX_DIAGNOSTICS);
    for diagnostic in &mut diagnostics {
        let end = diagnostic.message.floor_char_boundary(MAX_MESSAGE_BYTES);
        diagnostic.message.truncate(end);
        diagnostic.file = diagnostic.file.take().map(|file| outside_name(&file).to_owned());
    }
    diagnostics
}

/// `FILE:LINE:COLUMN: error: MESSAGE [-Wflag]`; Go omits the severity, and sometimes the column.
fn gnu(line: &str) -> Option<Diagnostic> {
    let (file, rest) = split_place(line)?;
    let (number, rest) = rest.split_once(':')?;
    let line = number.parse().ok()?;
    let (column, rest) = match rest.split_once(':') {
        Some((number, rest)) if number.parse::<u32>().is_ok() => (number.parse().ok(), rest),
        _ => (None, rest),
    };
    let rest = rest.strip_prefix(' ')?;
    let (severity, message) = [
        ("fatal error: ", Severity::Error),
        ("error: ", Severity::Error),
        ("warning: ", Severity::Warning),
        ("note: ", Severity::Note),
    ]
    .into_iter()
    .find_map(|(word, severity)| Some((severity, rest.strip_prefix(word)?)))
    .unwrap_or((Severity::Error, rest));
    let (message, code) = match message.strip_suffix(']').and_then(|m| m.rsplit_once(" [-W")) {
        Some((message, flag)) => (message, Some(format!("-W{flag}"))),
        None => (message, None),
    };
    let (file, message) = (Some(file.to_owned()), message.to_owned());
    Some(Diagnostic { file, line: Some(line), column, severity, code, message })
}

/// Splits off a file name, which ends at a colon followed by a number.
fn split_place(line: &str) -> Option<(&str, &str)> {
    let ends = line.match_indices(':').map(|(at, _)| at);
    let at = ends.take(8).find(|at| line[at + 1..].starts_with(|c: char| c.is_ascii_digit()))?;
    let file = &line[..at];
    (!file.is_empty() && !file.contains(char::is_control)).then(|| (file, &line[at + 1..]))
}

/// Errors without a place: those of the linker, such as an undefined name, and those that keep a compiler
/// from reading at all.
fn without_place(line: &str) -> Option<Diagnostic> {
    let linker =
        ["undefined reference to ", "multiple definition of "].iter().find_map(|words| line.find(words));
    let at = linker.or_else(|| Some(line.find(": fatal error: ")? + ": fatal error: ".len()))?;
    Some(Diagnostic {
        file: None,
        line: None,
        column: None,
        severity: Severity::Error,
        code: None,
        message: line[at..].to_owned(),
    })
}

/// `FILE(LINE,COLUMN): error TS1005: MESSAGE`
fn tsc(line: &str) -> Option<Diagnostic> {
    let (place, rest) = line.split_once("): ")?;
    let (file, place) = place.rsplit_once('(')?;
    let (row, column) = place.split_once(',')?;
    let (kind, message) = rest.split_once(": ")?;
    let (severity, code) = kind.split_once(' ')?;
    let severity = match severity {
        "error" if is_about_node(code) => Severity::Warning,
        "error" => Severity::Error,
        "warning" => Severity::Warning,
        _ => Severity::Note,
    };
    Some(Diagnostic {
        file: Some(file.to_owned()),
        line: Some(row.parse().ok()?),
        column: Some(column.parse().ok()?),
        severity,
        code: Some(code.to_owned()),
        message: message.to_owned(),
    })
}

/// Errors that `tsc` reports for every node program when node's types are not installed: unknown names and
/// modules. The program itself shows if they exist.
fn is_about_node(code: &str) -> bool {
    ["TS2307", "TS2580", "TS2591", "TS2792"].contains(&code)
}

/// `FILE:LINE: error: MESSAGE`, the source line, and a caret below the column.
fn javac(printed: &str, into: &mut Vec<Diagnostic>) {
    for line in printed.lines() {
        if let Some(mut diagnostic) = gnu(line) {
            // `warning: [deprecation] text`
            if let Some((code, message)) =
                diagnostic.message.strip_prefix('[').and_then(|rest| rest.split_once("] "))
            {
                (diagnostic.code, diagnostic.message) = (Some(code.to_owned()), message.to_owned());
            }
            into.push(diagnostic);
        } else if let Some(caret) = line.strip_suffix('^').filter(|before| before.trim().is_empty())
            && let Some(last) = into.last_mut()
        {
            last.column.get_or_insert(u32::try_from(caret.len()).unwrap_or(u32::MAX).saturating_add(1));
        }
    }
}

/// <https://doc.rust-lang.org/rustc/json.html>
#[derive(Deserialize)]
struct FromRustc {
    message: String,
    level: String,
    code: Option<Code>,
    #[serde(default)]
    spans: Vec<Span>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: u32,
    column_start: u32,
    is_primary: bool,
}

impl FromRustc {
    /// Summaries such as "aborting due to 2 errors" are left out.
    fn diagnostic(self) -> Option<Diagnostic> {
        let severity = match self.level.as_str() {
            "warning" => Severity::Warning,
            "note" | "help" => Severity::Note,
            "failure-note" => return None,
            _ => Severity::Error,
        };
        let span = self.spans.into_iter().find(|s| s.is_primary);
        if span.is_none() && self.code.is_none() && self.message.starts_with("aborting due to") {
            return None;
        }
        let (line, column) = (span.as_ref().map(|s| s.line_start), span.as_ref().map(|s| s.column_start));
        Some(Diagnostic {
            file: span.map(|s| s.file_name),
            line,
            column,
            severity,
            code: self.code.map(|c| c.code),
            message: self.message,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row<'a> = (Option<&'a str>, Option<u32>, Option<u32>, Severity, Option<&'a str>, &'a str);

    fn rows(said: &Said) -> Vec<Row<'_>> {
        let row = |d: &'_ Diagnostic| (d.line, d.column, d.severity);
        said.diagnostics
            .iter()
            .map(|d| {
                let (line, column, severity) = row(d);
                (d.file.as_deref(), line, column, severity, d.code.as_deref(), d.message.as_str())
            })
            .collect()
    }

    #[test]
    fn compiler_diagnostics_are_parsed() {
        use Severity::{Error, Note, Warning};
        let gcc = "/home/sandbox/main.c: In function 'main':\n\
                   /home/sandbox/main.c:3:5: warning: unused variable 'x' [-Wunused-variable]\n\
                   /home/sandbox/main.c:4:9: error: expected ';' before 'return'\n    4 |     x\n\
                   a.c:1:10: fatal error: nothing.h: No such file or directory\n\
                   b.c:2: note: here\n";
        assert_eq!(
            rows(&read(Compiler::Gnu, gcc)),
            [
                (Some("main.c"), Some(3), Some(5), Warning, Some("-Wunused-variable"), "unused variable 'x'"),
                (Some("main.c"), Some(4), Some(9), Error, None, "expected ';' before 'return'"),
                (Some("a.c"), Some(1), Some(10), Error, None, "nothing.h: No such file or directory"),
                (Some("b.c"), Some(2), None, Note, None, "here"),
            ]
        );
        let ld = "/usr/bin/ld: /tmp/cc1.o: in function `main':\nmain.c:(.text+0xa): undefined reference to `f'\n\
                  collect2: error: ld returned 1 exit status\n";
        assert_eq!(
            rows(&read(Compiler::Gnu, ld)),
            [(None, None, None, Error, None, "undefined reference to `f'")]
        );
        let go = "# command-line-arguments\n../main.go:5:2: \"fmt\" imported and not used\n";
        assert_eq!(
            rows(&read(Compiler::Gnu, go)),
            [(Some("main.go"), Some(5), Some(2), Error, None, "\"fmt\" imported and not used")]
        );
        let javac = "Main.java:3: error: ';' expected\n        int x = 1\n                 ^\n\
                     Main.java:4: warning: [deprecation] f() in A has been deprecated\n    f();\n    ^\n2 errors\n";
        assert_eq!(
            rows(&read(Compiler::Javac, javac)),
            [
                (Some("Main.java"), Some(3), Some(18), Error, None, "';' expected"),
                (
                    Some("Main.java"),
                    Some(4),
                    Some(5),
                    Warning,
                    Some("deprecation"),
                    "f() in A has been deprecated"
                ),
            ]
        );
        let tsc = "main.ts(1,5): error TS2322: Type 'string' is not assignable to type 'number'.\n\
                   main.ts(2,1): error TS2580: Cannot find name 'process'.\n";
        assert_eq!(
            rows(&read(Compiler::Tsc, tsc)),
            [
                (
                    Some("main.ts"),
                    Some(1),
                    Some(5),
                    Error,
                    Some("TS2322"),
                    "Type 'string' is not assignable to type 'number'."
                ),
                (Some("main.ts"), Some(2), Some(1), Warning, Some("TS2580"), "Cannot find name 'process'."),
            ]
        );
        let rustc = concat!(
            r#"{"message":"mismatched types","code":{"code":"E0308","explanation":null},"level":"error","#,
            r#""spans":[{"file_name":"/home/sandbox/main.rs","line_start":1,"column_start":22,"is_primary":true}],"#,
            r#""children":[],"rendered":"error[E0308]: mismatched types\n"}"#,
            "\n",
            r#"{"message":"aborting due to 1 previous error","code":null,"level":"error","spans":[],"rendered":"error: aborting\n"}"#,
            "\nno JSON\n"
        );
        let said = read(Compiler::Rustc, rustc);
        assert_eq!(
            rows(&said),
            [(Some("main.rs"), Some(1), Some(22), Error, Some("E0308"), "mismatched types")]
        );
        assert_eq!(said.text, "error[E0308]: mismatched types\nerror: aborting\nno JSON\n");
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_compiler_output_is_bounded(text in "[a-z:0-9(), {}\"é\\[\\]^\n-]{0,120}") {
            for compiler in [Compiler::Gnu, Compiler::Rustc, Compiler::Javac, Compiler::Tsc] {
                let said = read(compiler, &text);
                assert!(said.diagnostics.len() <= MAX_DIAGNOSTICS);
            }
        }
    }
}
