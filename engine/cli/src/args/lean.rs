//! The command line of `run` alone, parsed without the definitions of the other commands.
//!
//! All commands have some 900 arguments, whose definitions take longer to make than the rest of the way to a sandbox. What this
//! parser refuses, help too, is left to the whole one, which has the words for it.

use std::ffi::OsString;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use super::{Cli, Command, Common, RunArgs};

/// Arguments of `hotcell run`.
#[derive(Debug, Parser)]
#[command(name = "hotcell", subcommand_required = true, disable_help_subcommand = true)]
struct Lean {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: OnlyRun,
}

/// The command.
#[derive(Debug, Subcommand)]
enum OnlyRun {
    /// Run a command or a source file in a sandbox
    Run(Box<RunArgs>),
}

/// A command line that begins with `run`, its matches and the definitions they belong to; `None` for any other, and for one with a mistake.
pub fn parse(words: &[OsString]) -> Option<(Cli, ArgMatches, clap::Command)> {
    if words.get(1).is_none_or(|first| first != "run") {
        return None;
    }
    let mut parser = Lean::command();
    let matches = parser.try_get_matches_from_mut(words).ok()?;
    let Lean { common, command: OnlyRun::Run(args) } = Lean::from_arg_matches(&matches).ok()?;
    Some((Cli { common, command: Command::Run(args) }, matches, parser))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lean_parser_agrees_with_whole_one() {
        for (line, is_lean) in [
            ("run -- /bin/true", true),
            ("run --json --quiet -- sh -c exit", true),
            ("run --lang python - -- a b", true),
            ("run -v -v --state /s --config c.toml --network a:1,b:2 --workspace . --diff -- x --json", true),
            ("run --ro /a:/b --env A=1 --env B --memory 1G --timeout 3s --cpus 1.5 -t -- x", true),
            ("run --output 5M --files 7 -- x", true),
            ("run", true),
            ("run x", true),
            ("--json run -- x", false),
            ("run --help", false),
            ("run --version", false),
            ("run --no-such-option -- x", false),
            ("run --memory much -- x", false),
            ("run --quiet -v -- x", false),
            ("runs list", false),
            ("scan run", false),
            ("", false),
        ] {
            let words: Vec<OsString> =
                ["hotcell"].into_iter().chain(line.split_whitespace()).map(OsString::from).collect();
            let lean = parse(&words);
            let whole = Cli::try_parse_from(&words).ok();
            if let Some((cli, ..)) = &lean {
                assert_eq!(Some(format!("{cli:?}")), whole.map(|cli| format!("{cli:?}")), "{line}");
            }
            assert_eq!(lean.is_some(), is_lean, "{line}");
        }
    }
}
