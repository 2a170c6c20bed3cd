//! Format of hotcell's scripts that start test programs: the tests of a program before any of them runs, how
//! it ended, and its report. The same lines arrive live on standard output and, as the final report, in a
//! file. Both may be forged by a test.

use std::collections::HashMap;

use crate::case::{MAX_CASES, MAX_NAME_BYTES, MAX_TEXT_BYTES, ReportError};
use crate::text::Budget;

/// One line of a script: its kind, the program, and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark<'a> {
    /// `program`, `version`, `test`, `start`, `logged`, `log`, `file` or `end`; `broken`, `missing` and
    /// `done` do not concern a program.
    pub kind: &'a str,
    /// Unique path or number of the program.
    pub program: &'a str,
    /// Further text.
    pub rest: &'a str,
}

/// Parses a line of a script.
#[must_use]
pub fn mark(line: &str) -> Option<Mark<'_>> {
    let mut parts = line.strip_prefix("@hotcell\t")?.splitn(3, '\t');
    Some(Mark { kind: parts.next()?, program: parts.next()?, rest: parts.next().unwrap_or_default() })
}

/// Report on one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// See [`Mark::program`].
    pub program: String,
    /// Tests that it listed.
    pub tests: Vec<String>,
    /// True when it can list its tests; otherwise, without tests, it is a single test.
    pub lists: bool,
    /// Lines of the log written by the program itself; `None` when it cannot write one.
    pub log: Option<Vec<String>>,
    /// Unchanged report written by the program itself; the preceding line gives its length in bytes.
    pub file: Option<Vec<u8>>,
    /// Exit code, once it ended; the rest of the line tells if it ended normally.
    pub end: Option<(i32, String)>,
}

/// Parses a report.
///
/// # Errors
/// [`ReportError::Broken`] when the report is malformed.
pub fn parse(bytes: &[u8]) -> Result<Vec<Ran>, ReportError> {
    let broken = |why: &str| Err(ReportError::Broken(why.to_owned()));
    let mut room = Budget::new(MAX_TEXT_BYTES);
    let mut programs: Vec<Ran> = Vec::new();
    let mut index = HashMap::new();
    let mut count = 0;
    let mut rest = bytes;
    if rest.is_empty() {
        return broken("it is empty");
    }
    while !rest.is_empty() {
        let Some(end) = rest.iter().position(|b| *b == b'\n') else { return broken("it ends within a line") };
        let (line, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        let Ok(line) = std::str::from_utf8(line) else { return broken("it is not text") };
        let Some(mark) = mark(line) else { return broken("a line is not an entry") };
        count += 1;
        // Each listed test and each logged test has a line.
        if line.len() > MAX_NAME_BYTES || count > 3 * MAX_CASES || !room.take(line.len()) {
            return broken("it has more than is read");
        }
        if mark.kind == "done" {
            return if rest.is_empty() { Ok(programs) } else { broken("something follows its end") };
        }
        if mark.kind == "program" {
            if index.insert(mark.program, programs.len()).is_some() {
                return broken("a program comes twice");
            }
            programs.push(Ran { program: mark.program.to_owned(), ..Ran::default() });
            continue;
        }
        let Some(program) = index.get(mark.program).and_then(|at| programs.get_mut(*at)) else {
            return broken("a program is not known");
        };
        if program.end.is_some() {
            return broken("something follows a program's end");
        }
        match mark.kind {
            "test" => program.tests.push(mark.rest.to_owned()),
            "lists" => program.lists = true,
            "logged" => program.log = Some(Vec::new()),
            "log" => program.log.get_or_insert_default().push(mark.rest.to_owned()),
            "start" | "version" => {}
            "file" => {
                let size = mark.rest.trim().parse().ok().filter(|size| rest.get(*size) == Some(&b'\n'));
                let Some(size) = size.filter(|_| program.file.is_none()) else {
                    return broken("a file in it has not the size that is said");
                };
                program.file = Some(rest[..size].to_vec());
                rest = &rest[size + 1..];
            }
            "end" => {
                let (code, rest) = mark.rest.split_once(' ').unwrap_or((mark.rest, ""));
                let Ok(code) = code.parse() else { return broken("an exit code is none") };
                program.end = Some((code, rest.to_owned()));
            }
            _ => return broken("a line is not an entry"),
        }
    }
    Ok(programs)
}

/// Words of [`ending`] for a signal.
const BY_SIGNAL: &str = "ended the test program";
/// Words of [`ending`] for an exit code.
const BY_CODE: &str = "the test program ended with exit code";

/// Describes an exit code in shell convention, for people.
#[must_use]
pub fn ending(code: i32) -> String {
    match code {
        132 => format!("SIGILL {BY_SIGNAL}"),
        134 => format!("SIGABRT {BY_SIGNAL}"),
        137 => format!("SIGKILL {BY_SIGNAL}"),
        139 => format!("SIGSEGV {BY_SIGNAL}"),
        129..=192 => format!("signal {} {BY_SIGNAL}", code - 128),
        code => format!("{BY_CODE} {code}"),
    }
}

/// True for a message with the words of [`ending`]: the program's own reason is on its standard error.
#[must_use]
pub fn is_ending(message: &str) -> bool {
    message.contains(BY_SIGNAL) || message.contains(BY_CODE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn complete_runner_report_is_read() {
        let text = "@hotcell\tprogram\t/t/a-1\n@hotcell\ttest\t/t/a-1\tm::x\n@hotcell\tlogged\t/t/a-1\n@hotcell\tstart\t/t/a-1\t2\n@hotcell\tlog\t/t/a-1\tok m::x\n@hotcell\tend\t/t/a-1\t0 whole\n@hotcell\tprogram\t2\n";
        let read = parse(text.as_bytes()).unwrap();
        assert_eq!(read[0].tests, ["m::x"]);
        assert_eq!(read[0].log.as_deref(), Some(&["ok m::x".to_owned()][..]));
        assert_eq!(read[0].end, Some((0, "whole".to_owned())));
        assert_eq!(read[1], Ran { program: "2".to_owned(), ..Ran::default() });
    }

    #[test]
    fn malformed_runner_report_is_an_error() {
        for text in [
            "",
            "x\n",
            "@hotcell\tprogram\ta",
            "@hotcell\ttest\ta\tb\n",
            "@hotcell\tprogram\ta\n@hotcell\tprogram\ta\n",
            "@hotcell\tprogram\ta\n@hotcell\tend\ta\tx\n",
            "@hotcell\tprogram\ta\n@hotcell\tend\ta\t0\n@hotcell\tend\ta\t0\n",
            "@hotcell\tprogram\ta\n@hotcell\tend\ta\t0\n@hotcell\tlog\ta\tok b\n",
            "@hotcell\tprogram\ta\n@hotcell\tpraise\ta\n",
        ] {
            assert!(matches!(parse(text.as_bytes()), Err(ReportError::Broken(_))), "{text:?}");
        }
        assert!(parse(&[0xff, b'\n']).is_err());
        let long = format!("@hotcell\tprogram\t{}\n", "x".repeat(MAX_NAME_BYTES));
        assert!(parse(long.as_bytes()).is_err());
    }

    #[test]
    fn embedded_program_file_is_read_verbatim() {
        let report =
            |file: &str| parse(format!("@hotcell\tprogram\ta\n@hotcell\tfile\ta\t{file}").as_bytes());
        let read = report("18\n<a>\n@hotcell\tend\ta\n@hotcell\tend\ta\t0\n@hotcell\tdone\t-\t0\n").unwrap();
        assert_eq!(read[0].file.as_deref(), Some(&b"<a>\n@hotcell\tend\ta"[..18]));
        assert_eq!(read[0].end, Some((0, String::new())));
        for bad in [
            "3\nab\n",
            "-1\nab\n",
            "99999999999999999999\nab\n",
            "18446744073709551615\nab\n",
            "2\nab",
            "2\nab\n@hotcell\tfile\ta\t0\n\n",
            "2\nab\n@hotcell\tdone\t-\t0\n@hotcell\tend\ta\t0\n",
        ] {
            assert!(report(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_runner_report_causes_no_panic(bytes in "(@hotcell\t|program|test|end|\t|\n|0|a){0,30}") {
            let _ = parse(bytes.as_bytes());
        }
    }
}
