//! The error for a command that does not exist, with the nearest one: beside it, or elsewhere among the commands.

use clap::Command;
use hotcell_sandbox::layer::likely;
use hotcell_state::report::{Code, ErrorReport};

use crate::quote::quoted;

/// Maximum number of commands elsewhere that are named for one word.
const MAX_ELSEWHERE: usize = 3;

/// The error for `word` behind the command `of`, such as `runs`, or nothing for hotcell itself. `whole` is the definition of hotcell.
pub fn unknown_command(whole: &Command, of: &str, word: &str) -> ErrorReport {
    let typed = if of.is_empty() { word.to_owned() } else { format!("{of} {word}") };
    let report =
        ErrorReport::new(Code::UnknownCommand, format!("there is no command {}", quoted(&typed))).field(word);
    let all = paths(whole);
    let beside: Vec<&str> = all.iter().filter_map(|path| beside(path, of)).collect();
    let near = nearest(&all, &beside, of, word);
    let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    match beside.is_empty() {
        true => report.hint(format!("{near}hotcell {of} has no commands below it")),
        false => report.hint(format!("{near}there are {}", beside.join(", "))),
    }
}

/// The name of a command that is one level below `of`.
fn beside<'a>(path: &'a str, of: &str) -> Option<&'a str> {
    let name = if of.is_empty() { path } else { path.strip_prefix(of)?.strip_prefix(' ')? };
    (!name.contains(' ')).then_some(name)
}

/// Names of the commands one level below `of`.
pub fn below(whole: &Command, of: &str) -> Vec<String> {
    paths(whole).iter().filter_map(|path| beside(path, of).map(str::to_owned)).collect()
}

/// All commands that help shows, such as `runs show`.
fn paths(whole: &Command) -> Vec<String> {
    fn add(command: &Command, above: &str, all: &mut Vec<String>) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let path = format!("{above}{}", sub.get_name());
            add(sub, &format!("{path} "), all);
            all.push(path);
        }
    }
    let mut all = Vec::new();
    add(whole, "", &mut all);
    all
}

/// The last word of a command.
fn last(path: &str) -> &str {
    path.rsplit(' ').next().unwrap_or(path)
}

/// The command that is meant: one beside it of a like name, one elsewhere of exactly this name, or one elsewhere of a like name. One beside it is
/// given by its name alone, others as they are typed.
fn nearest(all: &[String], beside: &[&str], of: &str, word: &str) -> Option<String> {
    if let Some(near) = likely(word, beside.iter().copied()) {
        return Some(near.to_owned());
    }
    let mut named: Vec<&String> = all.iter().filter(|path| last(path) == word).collect();
    if named.is_empty() {
        let near = likely(word, all.iter().map(|path| last(path)))?;
        named = all.iter().filter(|path| last(path) == near).collect();
    }
    // Those that share the first words are meant before the others.
    let shared = |path: &str| path.split(' ').zip(of.split(' ')).take_while(|(a, b)| a == b).count();
    let most = named.iter().map(|path| shared(path)).max()?;
    named.retain(|path| shared(path) == most);
    // The shortest first.
    named.sort_by_key(|path| path.split(' ').count());
    let typed: Vec<String> = named.iter().map(|path| format!("hotcell {path}")).collect();
    (typed.len() <= MAX_ELSEWHERE).then(|| typed.join(" or "))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn near(of: &str, word: &str) -> Option<String> {
        let hint = unknown_command(&Cli::command(), of, word).hint.unwrap();
        Some(hint.strip_prefix("did you mean ")?.split_once('?')?.0.to_owned())
    }

    #[test]
    fn nearest_command_is_found_beside_and_elsewhere() {
        for (of, word, want) in [
            ("", "rnu", Some("run")),
            ("runs", "shw", Some("show")),
            ("mcp", "call", Some("hotcell call or hotcell tool call")),
            ("", "install", Some("hotcell mcp install")),
            ("", "wrap", Some("hotcell mcp wrap")),
            ("", "grant", Some("hotcell tool grant or hotcell mcp servers grant")),
            ("", "grnat", Some("hotcell tool grant or hotcell mcp servers grant")),
            ("model", "bench", Some("hotcell bench")),
            ("mcp", "servres", Some("servers")),
            ("", "zzz", None),
            ("mcp", "", None),
        ] {
            assert_eq!(near(of, word).as_deref(), want, "{of} {word}");
        }
    }

    /// Every command is named for its own last word, typed where it does not belong, unless too many commands have that name.
    #[test]
    fn every_command_is_found_from_every_other_place() {
        let whole = Cli::command();
        let all = paths(&whole);
        assert!(all.len() > 50, "{}", all.len());
        let groups: Vec<&String> =
            all.iter().filter(|path| all.iter().any(|other| beside(other, path).is_some())).collect();
        for path in &all {
            let word = path.rsplit(' ').next().unwrap();
            for group in groups.iter().map(|group| group.as_str()).chain([""]) {
                let there: Vec<&str> = all.iter().filter_map(|other| beside(other, group)).collect();
                if there.contains(&word) || likely(word, there.iter().copied()).is_some() {
                    continue;
                }
                let namesakes = all.iter().filter(|other| other.rsplit(' ').next() == Some(word)).count();
                match near(group, word) {
                    Some(near) => {
                        assert!(near.split(" or ").all(|one| one.ends_with(word)), "{group} {word}: {near}");
                    }
                    None => assert!(namesakes > MAX_ELSEWHERE, "{group} {word}"),
                }
            }
        }
    }

    #[test]
    fn hidden_commands_are_not_named() {
        let whole = Cli::command();
        let hidden: Vec<String> =
            whole.get_subcommands().filter(|c| c.is_hide_set()).map(|c| c.get_name().to_owned()).collect();
        assert!(!hidden.is_empty());
        for word in hidden.iter().map(|name| format!("{name}x")).chain(["zzz".to_owned()]) {
            let hint = unknown_command(&whole, "", &word).hint.unwrap();
            let names: Vec<&str> = hint.split([' ', ',', '?']).collect();
            assert!(hidden.iter().all(|name| !names.contains(&name.as_str())), "{hint}");
        }
    }
}
