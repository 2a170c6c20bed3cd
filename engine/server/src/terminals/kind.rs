//! Kind of the lines that a request's program takes from its terminal.

use std::ffi::{OsStr, OsString};

use hotcell_config::EnvSetting;
use hotcell_guard::Language;
use hotcell_guard::command::{self, As, Command, Item, NoFiles};
use hotcell_terminals::lines::{self, Lines};
use hotcell_verbs::request::{RunRequest, RunTarget};

/// Kind of lines of a request's program.
pub(crate) fn of(request: &RunRequest) -> Lines {
    let RunTarget::Program(argv) = &request.what else { return Lines::Code };
    let set = |setting: &EnvSetting| match setting {
        EnvSetting::Set(name, value) => Some((name.clone(), value.clone())),
        EnvSetting::Pass(_) => None,
    };
    let env: Vec<_> = request.settings.env.iter().filter_map(set).collect();
    of_command(argv, &env)
}

fn of_command(argv: &[OsString], env: &[(OsString, OsString)]) -> Lines {
    let command = Command { argv, env, stdin: true, files: &NoFiles };
    let executed = command::executed(&command);
    let texts: Vec<&str> = argv.iter().filter_map(|word| word.to_str()).collect();
    let set: Vec<(&str, &str)> = env.iter().filter_map(pair).collect();
    let own = lines::of_program(&texts, &set);
    let has_text =
        executed.iter().any(|item| matches!(item, Item::Text { language: As::Read(Language::Bash), .. }));
    let taken: Vec<As> = executed
        .into_iter()
        .filter_map(|item| match item {
            Item::Stdin { language } => Some(language),
            // A text may start the shell that reads on.
            Item::Text { language: language @ As::Read(Language::Bash), .. } => Some(language),
            _ => None,
        })
        .collect();
    match taken.as_slice() {
        [] => own,
        // A program with keys of its own around the shell that it starts.
        [As::Read(Language::Bash)] if !has_text && matches!(own, Lines::Escapes(_)) => own,
        [As::Unread("gdb script")] => Lines::Debugger,
        taken if taken.contains(&As::Read(Language::Bash)) => Lines::Shell,
        _ => Lines::Code,
    }
}

fn pair((name, value): &(OsString, OsString)) -> Option<(&str, &str)> {
    let text: fn(&OsString) -> Option<&str> = |text| OsStr::to_str(text);
    Some((text(name)?, text(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_their_kind_of_lines() {
        for (argv, want) in [
            (&["bash", "--norc"][..], Lines::Shell),
            (&["env", "A=b", "sh"], Lines::Shell),
            (&["bash", "-c", "exec python3 -i"], Lines::Shell),
            (&["linux64"], Lines::Shell),
            (&["setarch", "x86_64", "-R"], Lines::Shell),
            (&["nice", "fakeroot"], Lines::Shell),
            (&["nsenter", "-t", "1", "-m"], Lines::Shell),
            (&["unshare", "-r"], Lines::Shell),
            (&["chroot", "/"], Lines::Shell),
            (&["capsh", "--"], Lines::Shell),
            (&["sudo", "-s"], Lines::Shell),
            (&["unshare", "-r", "cat"], Lines::Answers),
            (&["python3", "-i", "-q"], Lines::Code),
            (&["python3", "-i", "x.py"], Lines::Code),
            (&["node"], Lines::Code),
            (&["sqlite3"], Lines::Code),
            (&["sqlite3", "-batch", "x.db"], Lines::Code),
            (&["gdb", "-q", "./prog"], Lines::Debugger),
            (&["python3", "quiz.py"], Lines::Answers),
            (&["npm", "init"], Lines::Answers),
            (&["cat"], Lines::Answers),
            (&["vim", "-Z", "x"], Lines::Answers),
        ] {
            let argv: Vec<OsString> = argv.iter().map(Into::into).collect();
            assert_eq!(of_command(&argv, &[]), want, "{argv:?}");
        }
        for argv in [&["vim", "x"][..], &["script", "-q", "/dev/null"], &["tmux"], &["screen"], &["su"]] {
            let argv: Vec<OsString> = argv.iter().map(Into::into).collect();
            let kind = of_command(&argv, &[]);
            assert!(matches!(kind, Lines::Escapes(_)), "{argv:?} {kind:?}");
        }
    }
}
