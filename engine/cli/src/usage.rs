//! Errors on the command line: one line with advice, or `hotcell.error/1`; exit status 125, never clap's 2.

use std::ffi::OsString;
use std::io::Write;
use std::net::AddrParseError;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use hotcell_sandbox::layer::likely;
use hotcell_state::report::{Code, ErrorReport, printable_message};

use crate::args::{Cli, pages, parse_run};
use crate::context::current_folder;
use crate::options::{in_options, option};
use crate::quote::quoted;
use crate::terminal::{log, screen};
use crate::{entry_link, exit, typed_paths};

/// Parses the command line and checks its paths, or prints the error.
pub fn parse() -> Result<Cli, u8> {
    let words = entry_link::words(std::env::args_os().collect());
    if let Some((cli, matches, parser)) = parse_run(&words) {
        return checked(cli, &matches, &parser);
    }
    let mut parser = Cli::command();
    let parsed = parser.try_get_matches_from_mut(&words).and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut Cli::command()))?;
        Ok((cli, matches))
    });
    let (cli, matches) = parsed.map_err(|error| refused(&error, &words))?;
    checked(cli, &matches, &parser)
}

/// Checks the paths of a command line.
fn checked(cli: Cli, matches: &ArgMatches, parser: &clap::Command) -> Result<Cli, u8> {
    match typed_paths::check(parser, matches, &current_folder()) {
        Ok(()) => Ok(cli),
        Err(report) => Err(fail(&report, cli.common.json)),
    }
}

/// Prints help, or the error of a command line that cannot be parsed; returns the exit status.
fn refused(error: &clap::Error, words: &[OsString]) -> u8 {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let long = command(words).filter(|_| error.kind() == ErrorKind::DisplayHelp);
        let shown = match long.as_deref().and_then(|name| pages().find_subcommand_mut(name).cloned()) {
            Some(mut page) => page.print_help(),
            None => error.print(),
        };
        return match shown {
            Ok(()) => 0,
            Err(e) => exit::of_write_error(&e),
        };
    }
    let json = wants_json(words);
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand && !json {
        let _ = error.print();
        return exit::REFUSED;
    }
    fail(&report(error, words), json)
}

/// Prints a report to the right stream; returns the exit status.
pub fn fail(report: &ErrorReport, json: bool) -> u8 {
    if json {
        return match exit::print_json(&with_options(report.clone())) {
            Ok(()) => exit::REFUSED,
            Err(e) => exit::of_write_error(&e),
        };
    }
    let words = in_options(&report.to_string());
    if !log::json::say("error", &words) {
        let _ = writeln!(
            std::io::stderr(),
            "{}hotcell: error: {}",
            screen::begin_line(),
            printable_message(&words)
        );
    }
    exit::REFUSED
}

/// Shows parameters of the request as the options that set them.
fn with_options(mut report: ErrorReport) -> ErrorReport {
    if report.is_parameter {
        report.field = report.field.as_deref().map(option);
    }
    report.message = in_options(&report.message);
    report.hint = report.hint.as_deref().map(in_options);
    report
}

/// Words for an invalid value. Those of the standard library's numbers do not say which form is valid.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => "is out of range".to_owned(),
        Some(_) => "is not a whole number; write one such as 8".to_owned(),
        None if error.is::<ParseFloatError>() => "is not a number; write one such as 1.5".to_owned(),
        None if error.is::<AddrParseError>() => format!("{error}; write one such as 127.0.0.1:8808"),
        None => error.to_string(),
    }
}

/// Whether JSON was requested on a command line that cannot be parsed otherwise.
fn wants_json(words: &[OsString]) -> bool {
    words.iter().skip(1).take_while(|w| *w != "--").any(|w| w == "--json")
}

/// Converts clap's error to hotcell's wording.
fn report(error: &clap::Error, words: &[OsString]) -> ErrorReport {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(all)) => all.first().cloned(),
        _ => None,
    };
    let argument = context(ContextKind::InvalidArg);
    let option = argument.as_deref().map(name_of).unwrap_or_default();
    let value = context(ContextKind::InvalidValue).unwrap_or_default();
    let command = command(words);
    let help = match &command {
        Some(command) => format!("see hotcell {command} --help"),
        None => "see hotcell --help".to_owned(),
    };
    match error.kind() {
        ErrorKind::UnknownArgument if negative(words, &option, command.as_deref()).is_some() => {
            let (option, number) = negative(words, &option, command.as_deref()).unwrap_or_default();
            let why = format!("{option} {}: a number here is not negative", quoted(&number));
            ErrorReport::new(Code::InvalidValue, why).field(option).hint(help)
        }
        ErrorKind::UnknownArgument if option.starts_with('-') => {
            let before = if option.starts_with("--") || command.as_deref() != Some("run") {
                String::new()
            } else {
                "write -- before the program: hotcell run -- PROGRAM; ".to_owned()
            };
            let near = near_option(&option, command.as_deref());
            if near.as_deref() == Some(option.as_str())
                && let Some(word) = argument.as_deref().filter(|word| *word != option)
            {
                return ErrorReport::new(Code::UnknownOption, format!("{} is one word", quoted(word)))
                    .field(option.clone())
                    .hint(format!("write {option} and its value as two words, or with = between them"));
            }
            let hint = match near {
                Some(near) if option.starts_with("--") => format!("did you mean {near}? {help}"),
                _ => format!("{before}{help}"),
            };
            ErrorReport::new(Code::UnknownOption, format!("there is no option {option}"))
                .field(option)
                .hint(hint)
        }
        ErrorKind::UnknownArgument if command.as_deref() == Some("run") => without_dashes(&option),
        ErrorKind::UnknownArgument
            if with_command(command.as_deref(), |c| c.get_positionals().any(clap::Arg::is_last_set)) =>
        {
            let of = command.unwrap_or_default();
            ErrorReport::new(Code::Usage, format!("{} is not an option", quoted(&option)))
                .field(option)
                .hint(format!("write -- before the program: hotcell {of} [OPTIONS] -- PROGRAM [ARG…]"))
        }
        ErrorKind::InvalidSubcommand => {
            let word = context(ContextKind::InvalidSubcommand).unwrap_or_default();
            let known = subcommands(command.as_deref());
            if word == "help" {
                let of = command.map(|command| format!("{command} ")).unwrap_or_default();
                return ErrorReport::new(Code::UnknownCommand, "there is no command \"help\"")
                    .field(word)
                    .hint(format!("write hotcell {of}--help; each command has a page of its own: hotcell {of}COMMAND --help"));
            }
            let near = likely(&word, known.iter().map(String::as_str));
            let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
            ErrorReport::new(Code::UnknownCommand, format!("there is no command {}", quoted(&word)))
                .field(word)
                .hint(format!("{near}there are {}", known.join(", ")))
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            ErrorReport::new(Code::Usage, format!("{option} needs a value")).field(option).hint(help)
        }
        ErrorKind::InvalidValue => {
            let known: Vec<String> = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(all)) => all.clone(),
                _ => Vec::new(),
            };
            let report =
                ErrorReport::new(Code::InvalidValue, format!("{option} {} is not possible", quoted(&value)))
                    .field(option);
            match likely(&value, known.iter().map(String::as_str)) {
                Some(near) => report.hint(format!("did you mean {near}? there are {}", known.join(", "))),
                None if known.is_empty() => report.hint(help),
                None => report.hint(format!("there are {}", known.join(", "))),
            }
        }
        ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map(reason).unwrap_or_default();
            // The value of a secret may have been given in place of its source.
            let message = match option.as_str() {
                "--secret" => format!("{option}: {why}"),
                _ => format!("{option} {}: {why}", quoted(&value)),
            };
            ErrorReport::new(Code::InvalidValue, message).field(option)
        }
        ErrorKind::InvalidUtf8 => {
            ErrorReport::new(Code::InvalidValue, "a name or a number on the command line is not UTF-8")
                .hint(help)
        }
        _ => {
            let text = error.render().to_string();
            // Only the first paragraph; clap lists missing arguments on lines of their own.
            let lines: Vec<&str> = text.lines().take_while(|l| !l.trim().is_empty()).map(str::trim).collect();
            let message = lines.join(" ");
            let report =
                ErrorReport::new(Code::Usage, message.strip_prefix("error: ").unwrap_or(&message)).hint(help);
            if option.is_empty() { report } else { report.field(option) }
        }
    }
}

/// The error for `run` with a program that is not preceded by `--`.
pub fn without_dashes(word: &str) -> ErrorReport {
    ErrorReport::new(Code::Usage, format!("{} is not an option", quoted(word)))
        .field(word)
        .hint("write -- before the program: hotcell run [OPTIONS] -- PROGRAM [ARG…], or name a language with --lang")
}

/// Removes the value's name: `--memory` from `--memory <SIZE>`.
fn name_of(argument: &str) -> String {
    argument.split([' ', '=']).next().unwrap_or(argument).to_owned()
}

/// The command in these words, such as `runs show`.
fn command(words: &[OsString]) -> Option<String> {
    let mut at = Cli::command();
    at.build();
    let mut found: Vec<String> = Vec::new();
    for word in words.iter().skip(1).take_while(|w| *w != "--") {
        let Some(next) = word.to_str().and_then(|w| at.find_subcommand(w)).cloned() else { continue };
        found.push(next.get_name().to_owned());
        at = next;
    }
    (!found.is_empty()).then(|| found.join(" "))
}

fn with_command<T>(command: Option<&str>, look: impl FnOnce(&clap::Command) -> T) -> T {
    let mut at = Cli::command();
    at.build();
    for name in command.unwrap_or_default().split_whitespace() {
        if let Some(next) = at.find_subcommand(name).cloned() {
            at = next;
        }
    }
    look(&at)
}

/// The option of the command whose value is a negative number that was taken for an option, and the number as it was written.
fn negative(words: &[OsString], taken: &str, command: Option<&str>) -> Option<(String, String)> {
    taken.strip_prefix('-').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))?;
    let options = words.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str());
    let options: Vec<&str> = options.collect();
    let pair = options.windows(2).find(|pair| pair[1].starts_with(taken))?;
    let long = pair[0].strip_prefix("--")?;
    let is_meant = |arg: &clap::Arg| {
        let names = || arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default());
        arg.get_action().takes_values() && !arg.is_require_equals_set() && names().any(|name| name == long)
    };
    with_command(command, |command| command.get_arguments().any(is_meant)).then_some(())?;
    Some((pair[0].to_owned(), pair[1].to_owned()))
}

fn near_option(option: &str, command: Option<&str>) -> Option<String> {
    with_command(command, |c| {
        let known = c.get_arguments().filter_map(|a| a.get_long());
        likely(option.trim_start_matches('-'), known).map(|long| format!("--{long}"))
    })
}

fn subcommands(command: Option<&str>) -> Vec<String> {
    let is_shown = |c: &&clap::Command| !c.is_hide_set();
    with_command(command, |c| c.get_subcommands().filter(is_shown).map(|s| s.get_name().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_commands_are_not_named() {
        let hidden: Vec<String> = Cli::command()
            .get_subcommands()
            .filter(|command| command.is_hide_set())
            .map(|command| command.get_name().to_owned())
            .collect();
        assert!(!hidden.is_empty());
        for word in hidden.iter().map(|name| format!("{name}x")).chain(["zzz".to_owned()]) {
            let words: Vec<OsString> = ["hotcell", &word].map(OsString::from).into();
            let error = Cli::command().try_get_matches_from(&words).unwrap_err();
            let said = report(&error, &words).to_string();
            let hint = said.split_once("did you mean ").map_or("", |(_, hint)| hint);
            assert!(hidden.iter().all(|name| !hint.contains(name.as_str())), "{said}");
        }
    }

    #[test]
    fn invalid_numbers_are_explained() {
        for (words, want) in [
            (
                ["run", "--max-processes", "many"],
                "--max-processes \"many\": is not a whole number; write one such as 8",
            ),
            (
                ["run", "--open-files", "1.5"],
                "--open-files \"1.5\": is not a whole number; write one such as 8",
            ),
            (
                ["run", "--max-files", "99999999999999999999"],
                "--max-files \"99999999999999999999\": is out of range",
            ),
            (["run", "--cpus", "two"], "--cpus \"two\": is not a number; write one such as 1.5"),
        ] {
            let words: Vec<OsString> =
                ["hotcell"].iter().chain(&words).chain(&["--", "true"]).map(OsString::from).collect();
            let error = Cli::command().try_get_matches_from(&words).unwrap_err();
            assert_eq!(report(&error, &words).to_string(), want);
        }
    }

    #[test]
    fn program_without_dashes_and_bad_address_are_explained() {
        for (words, want) in [
            (
                &["mcp", "wrap", "npx"][..],
                "\"npx\" is not an option; write -- before the program: hotcell mcp wrap [OPTIONS] -- PROGRAM",
            ),
            (
                &["learn", "npm"],
                "\"npm\" is not an option; write -- before the program: hotcell learn [OPTIONS]",
            ),
            (
                &["mcp", "--http", "localhost"],
                "--http \"localhost\": invalid socket address syntax; write one such as 127.0.0.1:8808",
            ),
        ] {
            let words: Vec<OsString> = ["hotcell"].iter().chain(words).map(OsString::from).collect();
            let error = Cli::command().try_get_matches_from(&words).unwrap_err();
            let shown = report(&error, &words).to_string();
            assert!(shown.starts_with(want), "{shown}");
        }
    }

    #[test]
    fn negative_numbers_are_no_options() {
        for (words, want) in [
            (&["run", "--timeout", "-1.5s"][..], "--timeout \"-1.5s\": a number here is not negative"),
            (
                &["fix", ".", "--budget", "-1$"],
                "--budget \"-1$\": a number here is not negative; see hotcell fix",
            ),
            (&["run", "--quiet", "--processes", "-1k"], "--processes \"-1k\": a number here is not negative"),
            (&["run", "-5"], "there is no option -5"),
            // A switch, an option that has its value, one that is not there, one of another command, and a value.
            (&["run", "--quiet", "-5"], "there is no option -5"),
            (&["run", "--timeout=5s", "-1"], "there is no option -1"),
            (&["run", "--timeout", "5s", "-1"], "there is no option -1"),
            (&["runs", "list", "--budget", "-1$"], "there is no option --budget"),
            (&["run", "-1", "--timeout", "-1.5s"], "there is no option -1"),
            (&["run", "--quiet", "--timeoutt", "5"], "there is no option --timeoutt"),
        ] {
            let words: Vec<OsString> =
                ["hotcell"].iter().chain(words).chain(&["--", "true"]).map(OsString::from).collect();
            let error = Cli::command().try_get_matches_from(&words).unwrap_err();
            let shown = report(&error, &words).to_string();
            assert!(shown.starts_with(want), "{shown}");
        }
    }

    #[test]
    fn option_and_value_in_one_word_are_explained() {
        for (words, want) in [
            (
                &["test", "--retry 2", "."][..],
                "\"--retry 2\" is one word; write --retry and its value as two words",
            ),
            (
                &["test", "--filter a b", "."],
                "\"--filter a b\" is one word; write --filter and its value as two words",
            ),
            (&["test", "--retri", "2", "."], "there is no option --retri; did you mean --retry?"),
            (&["help"], "there is no command \"help\"; write hotcell --help; "),
            (&["help", "test"], "there is no command \"help\"; write hotcell test --help; "),
            (&["runs", "help"], "there is no command \"help\"; write hotcell runs --help; "),
        ] {
            let words: Vec<OsString> = ["hotcell"].iter().chain(words).map(OsString::from).collect();
            let error = Cli::command().try_get_matches_from(&words).unwrap_err();
            let shown = report(&error, &words).to_string();
            assert!(shown.starts_with(want), "{shown}");
        }
    }

    #[test]
    fn unknown_option_is_escaped_once() {
        for (word, want) in [
            ("foo", "\"foo\" is not an option"),
            ("fo\u{1b}]0", "\"fo\\u{1b}]0\" is not an option"),
            ("a\nb\\c", "\"a\\nb\\c\" is not an option"),
            ("a\" b", "\"a\\\" b\" is not an option"),
        ] {
            let shown = hotcell_state::report::printable(&without_dashes(word).to_string());
            assert!(shown.starts_with(want), "{shown}");
        }
    }
}
