//! Error of pytest itself, by its row in the report: the exception, and the project's line that raised it. Pure.

use hotcell_sandbox::policy::PROJECT;

use crate::case::MAX_NAME_BYTES;
use crate::junit::TestCase;
use crate::text::clip;

/// True for the row of such an error, which is about no test.
pub(super) fn is_internal(case: &TestCase) -> bool {
    (case.classname.as_str(), case.name.as_str(), case.message.as_deref())
        == ("pytest", "internal", Some("internal error"))
}

/// Message with the exception, and the innermost line of the project in the traceback, as file and number.
pub(super) fn raised(traceback: &str) -> (Option<String>, Option<(String, u32)>) {
    let last = traceback.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let message = last.map(|what| {
        let ends = if what == "SystemExit" || what.starts_with("SystemExit:") {
            "; code outside of the tests ends the program, and so ends pytest"
        } else {
            ""
        };
        format!("internal error: {}{ends}", clip(what, 300))
    });
    (message, traceback.lines().rev().find_map(place))
}

/// Place in the project: `  File "/home/sandbox/project/test_a.py", line 2, in <module>`.
fn place(line: &str) -> Option<(String, u32)> {
    let rest = line.trim_start().strip_prefix("File \"")?.strip_prefix(PROJECT)?.strip_prefix('/')?;
    let (file, rest) = rest.rsplit_once("\", line ")?;
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((clip(file, MAX_NAME_BYTES), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exception_and_place_are_those_of_the_project() {
        let outside =
            "  File \"/venv/lib/_pytest/assertion/rewrite.py\", line 185, in exec_module\n    exec(co)\n";
        let inside = "  File \"/home/sandbox/project/test_a.py\", line 2, in <module>\n    sys.exit(0)\n";
        let exits =
            "internal error: SystemExit: 0; code outside of the tests ends the program, and so ends pytest";
        for (text, message, at) in [
            (format!("Traceback:\n{outside}{inside}SystemExit: 0"), Some(exits), Some(("test_a.py", 2))),
            (
                format!("Traceback:\n{inside}{outside}KeyError: 'x'\n\n"),
                Some("internal error: KeyError: 'x'"),
                Some(("test_a.py", 2)),
            ),
            (format!("{outside}SystemExitish"), Some("internal error: SystemExitish"), None),
            (
                "  File \"/home/sandbox/project/a\", line 3.py\", line 4, in f\nE".to_owned(),
                Some("internal error: E"),
                Some(("a\", line 3.py", 4)),
            ),
            ("  File \"/home/sandbox/projects/a.py\", line 4\n".to_owned(), None, None),
            (String::new(), None, None),
        ] {
            let (is, place) = raised(&text);
            if message.is_some() || text.is_empty() {
                assert_eq!(is.as_deref(), message, "{text}");
            }
            assert_eq!(place.as_ref().map(|(file, line)| (file.as_str(), *line)), at, "{text}");
        }
    }
}
