//! Interpreters that read their program from standard input.

use super::path::basename;
use crate::value::{Const, Value};

/// True when a program is an interpreter that reads its program from standard input.
pub(crate) fn is_fed_interpreter(program: &Value) -> bool {
    let words: Vec<&str> = match &program.known {
        Some(Const::List(items)) => items.iter().map(|item| item.as_text().unwrap_or("?")).collect(),
        Some(Const::Text(text)) => text.split_whitespace().collect(),
        _ => return false,
    };
    let Some((first, rest)) = words.split_first() else { return false };
    let base = basename(first).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let base = base.strip_suffix(".exe").unwrap_or(base);
    let known = matches!(
        base,
        "sh" | "bash"
            | "zsh"
            | "dash"
            | "ksh"
            | "python"
            | "node"
            | "perl"
            | "ruby"
            | "pwsh"
            | "powershell"
            | "php"
    );
    // With `-c`, `-e` or `-m`, or with a script, standard input is data.
    known
        && rest
            .iter()
            .all(|word| word.starts_with('-') && !matches!(*word, "-c" | "-e" | "-m" | "--eval" | "-Command"))
}

/// Words of a command line that it starts: the program, and for one that starts other programs or scripts, all
/// its arguments.
pub(crate) fn started(words: &[String]) -> &[String] {
    let Some(first) = words.first() else { return words };
    let lower = basename(first).to_ascii_lowercase();
    let base = lower.strip_suffix(".exe").unwrap_or(&lower);
    let base = base.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let starts = matches!(
        base,
        "sh" | "bash"
            | "zsh"
            | "dash"
            | "ksh"
            | "python"
            | "pythonw"
            | "node"
            | "perl"
            | "ruby"
            | "php"
            | "pwsh"
            | "powershell"
            | "cmd"
            | "sudo"
            | "env"
            | "nohup"
            | "setsid"
            | "start"
            | "wscript"
            | "cscript"
            | "rundll"
            | "regsvr"
            | "msiexec"
            | "mshta"
            | "java"
            | "open"
            | "xdg-open"
            | "source"
            | "exec"
            | "wine"
    );
    if starts { words } else { &words[..1] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_start_their_arguments() {
        for (words, found) in [
            (&["./a.sh", "b.sh"][..], &["./a.sh"][..]),
            (&["python3.11", "a.py"], &["python3.11", "a.py"]),
            (&["rundll32.exe", "a.dll"], &["rundll32.exe", "a.dll"]),
            (&["git", "add", "a.py"], &["git"]),
            (&[], &[]),
        ] {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            assert_eq!(started(&words), found, "{words:?}");
        }
    }

    #[test]
    fn interpreters_without_a_program_read_one() {
        for (words, fed) in [
            (&["bash"][..], true),
            (&["/bin/sh", "-s"], true),
            (&["python3", "-"], true),
            (&["python3", "-u"], true),
            (&["python3", "-c", "x"], false),
            (&["python3", "a.py"], false),
            (&["bash", "-c", "x"], false),
            (&["cat"], false),
            (&[], false),
        ] {
            let list = Value::list(words.iter().map(|w| Value::text(w)).collect());
            assert_eq!(is_fed_interpreter(&list), fed, "{words:?}");
        }
    }
}
