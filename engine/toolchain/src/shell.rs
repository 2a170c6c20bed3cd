//! Words that only a shell understands, where a program is named. Pure.

/// Commands that a shell runs by itself (POSIX.1-2024, "Special Built-In Utilities", and those of bash for which there are no programs).
const BUILT_IN: [&str; 22] = [
    ".", ":", "alias", "bg", "break", "cd", "continue", "declare", "eval", "exec", "exit", "export", "fg",
    "local", "return", "set", "shift", "source", "trap", "ulimit", "unalias", "unset",
];
/// Words between commands, or between a command and a file.
const OPERATORS: [&str; 12] = ["|", "||", "&&", ";", "&", ">", ">>", "<", "<<", "2>", "2>&1", "&>"];

/// Advice about a program's name that is a line or a command of a shell, such as `ls -l`, `a && b` or `cd`. `None` for other names.
#[must_use]
pub fn shell_advice(program: &str) -> Option<&'static str> {
    if BUILT_IN.contains(&program) {
        return Some("it is a command of the shell: `bash -c LINE` runs it, with the rest of the line");
    }
    let is_line = program.contains([' ', '\t', '\n', '|', ';', '&', '<', '>', '$', '`']);
    is_line.then_some(
        "no shell reads it: give each word as an argument of its own, or the line to a shell, `bash -c LINE`",
    )
}

/// The first of these arguments that a shell would read as an operator, and a program reads as a word.
#[must_use]
pub fn shell_operator<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    arguments.into_iter().find(|word| OPERATORS.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_shell_are_told_from_names() {
        for (program, want) in [
            ("ls -l", Some("each word")),
            ("make && ./a", Some("bash -c LINE")),
            ("a|b", Some("no shell reads it")),
            ("echo $HOME", Some("no shell reads it")),
            ("cd", Some("command of the shell")),
            ("export", Some("command of the shell")),
            (".", Some("command of the shell")),
            ("ls", None),
            ("./a.sh", None),
            ("g++", None),
            ("python3.11", None),
            ("", None),
        ] {
            let advice = shell_advice(program);
            assert_eq!(advice.is_some(), want.is_some(), "{program}");
            assert!(want.is_none_or(|want| advice.unwrap().contains(want)), "{program}: {advice:?}");
        }
        for word in OPERATORS {
            assert_eq!(shell_operator(["ls", word, "wc"]), Some(word));
        }
        assert_eq!(shell_operator(["grep", "a|b", "x>y"]), None);
    }
}
