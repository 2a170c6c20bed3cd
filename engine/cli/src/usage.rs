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
use crate::unknown_command::{self, unknown_command};
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
    if let Some(range) = range_of(&error.to_string()) {
        return range;
    }
    match error.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow) => "is too large a number; write a smaller one".to_owned(),
        Some(IntErrorKind::NegOverflow) => "is too small a number; write a larger one".to_owned(),
        Some(_) => "is not a whole number; write one such as 8".to_owned(),
        None if error.is::<ParseFloatError>() => "is not a number; write one such as 1.5".to_owned(),
        None if error.is::<AddrParseError>() => format!("{error}; write one such as 127.0.0.1:8808"),
        None => error.to_string(),
    }
}

/// Words for a number outside of its option's range, which clap puts as `0 is not in 1..=16`; `None` for another text.
fn range_of(text: &str) -> Option<String> {
    let (value, range) = text.rsplit_once(" is not in ")?;
    let (least, most) = range.split_once("..")?;
    let (value, least): (i64, i64) = (value.parse().ok()?, least.parse().ok()?);
    let most = match most.strip_prefix('=') {
        Some(most) => most.parse().ok()?,
        None if most.is_empty() => i64::MAX,
        None => most.parse::<i64>().ok()? - 1,
    };
    // The end of a type is not a limit that a person has to know.
    Some(match value < least && (most == i64::from(u32::MAX) || most == i64::MAX) {
        true => format!("is too small; write a number of at least {least}"),
        false => format!("is out of range; write a number from {least} to {most}"),
    })
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
                Some(near) if near == option => {
                    let of = command.as_deref().unwrap_or_default();
                    format!("write it behind the command that it is for: hotcell {of} {near} …")
                }
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
            if word == "help" {
                let of = command.map(|command| format!("{command} ")).unwrap_or_default();
                return ErrorReport::new(Code::UnknownCommand, "there is no command \"help\"")
                    .field(word)
                    .hint(format!("write hotcell {of}--help; each command has a page of its own: hotcell {of}COMMAND --help"));
            }
            // The words behind the wrong one name no command above it.
            let end = words.iter().position(|typed| *typed == *word).unwrap_or(words.len());
            let of = self::command(&words[..end]).unwrap_or_default();
            unknown_command(&built(), &of, &word)
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
                _ => format!("{option} {}: {}", quoted(&value), without_value(&why, &value)),
            };
            ErrorReport::new(Code::InvalidValue, message).field(option)
        }
        ErrorKind::MissingRequiredArgument => {
            let all = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::Strings(all)) => all.iter().map(|arg| in_words(arg)).collect(),
                _ => Vec::new(),
            };
            let of = command.map(|command| format!(" {command}")).unwrap_or_default();
            let report = ErrorReport::new(Code::Usage, format!("hotcell{of} needs {}", all.join(" and ")));
            let first = all.first().and_then(|arg| arg.split(' ').next()).unwrap_or_default();
            report.field(first).hint(help)
        }
        ErrorKind::MissingSubcommand => {
            let of = command.map(|command| format!(" {command}")).unwrap_or_default();
            let known = unknown_command::below(&built(), of.trim_start());
            ErrorReport::new(Code::Usage, format!("hotcell{of} needs a command"))
                .hint(format!("there are {}", known.join(", ")))
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

/// A missing argument as it is typed: `--only TOOL,… or --all` from `<--only <TOOL,…>|--all>`, `FILE…` from `<FILE>...`.
fn in_words(argument: &str) -> String {
    let group = argument.strip_prefix("<--").and_then(|rest| rest.strip_suffix('>'));
    let plain =
        group.map_or_else(|| argument.to_owned(), |rest| format!("--{}", rest.replace("|--", " or --")));
    plain.replace("...", "…").replace(['<', '>'], "")
}

/// Removes the value's name, `--memory` from `--memory <SIZE>`, and the marks of an argument without an option: `DIR` from `[DIR]`, `FILE` from
/// `<FILE>...`.
fn name_of(argument: &str) -> String {
    if let Some(rest) = argument.strip_prefix(['<', '[']) {
        return rest.trim_end_matches("...").trim_end_matches(['>', ']']).to_owned();
    }
    argument.split([' ', '=']).next().unwrap_or(argument).to_owned()
}

/// A reason without the value before it, which the message names already: `is not a size` from `"x" is not a size`.
fn without_value<'a>(why: &'a str, value: &str) -> &'a str {
    let forms = [quoted(value), format!("{value:?}")];
    let mut rest = why;
    // A rule's error names the rule, and then the host in it, which may be the whole rule.
    while let Some(next) = forms.iter().find_map(|shown| rest.strip_prefix(shown.as_str())) {
        rest = next.trim_start_matches([':', ' ']);
    }
    rest
}

/// The command in these words, such as `runs show`.
fn command(words: &[OsString]) -> Option<String> {
    let mut at = built();
    let mut found: Vec<String> = Vec::new();
    for word in words.iter().skip(1).take_while(|w| *w != "--") {
        let Some(next) = word.to_str().and_then(|w| at.find_subcommand(w)).cloned() else { continue };
        found.push(next.get_name().to_owned());
        at = next;
    }
    (!found.is_empty()).then(|| found.join(" "))
}

/// The definitions with the options that are common to all commands.
fn built() -> clap::Command {
    let mut whole = Cli::command();
    whole.build();
    whole
}

fn with_command<T>(command: Option<&str>, look: impl FnOnce(&clap::Command) -> T) -> T {
    let mut at = built();
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

#[cfg(test)]
mod tests {
    use super::*;

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
                "--max-files \"99999999999999999999\": is too large a number; write a smaller one",
            ),
            (["run", "--cpus", "two"], "--cpus \"two\": is not a number; write one such as 1.5"),
        ] {
            let words: Vec<OsString> =
                ["hotcell"].iter().chain(&words).chain(&["--", "true"]).map(OsString::from).collect();
            let error = Cli::command().try_get_matches_from(&words).unwrap_err();
            assert_eq!(report(&error, &words).to_string(), want);
        }
    }

    /// No option's range is shown in a programming language's form.
    #[test]
    fn ranges_of_numbers_are_put_in_words() {
        for (text, want) in [
            ("0 is not in 1..=16", Some("is out of range; write a number from 1 to 16")),
            ("17 is not in 1..=16", Some("is out of range; write a number from 1 to 16")),
            ("5 is not in 512..=4294967295", Some("is too small; write a number of at least 512")),
            (
                "9999999999 is not in 512..=4294967295",
                Some("is out of range; write a number from 512 to 4294967295"),
            ),
            ("-1 is not in 0..1000000000", Some("is out of range; write a number from 0 to 999999999")),
            ("0 is not in 1..", Some("is too small; write a number of at least 1")),
            ("a sentence that is not in a range", None),
            ("x is not in 1..=2", None),
        ] {
            assert_eq!(range_of(text).as_deref(), want, "{text}");
        }
        for (command, option) in options() {
            for value in ["0", "-1", "5000000000", "99999999999999999999999", "1.5", ""] {
                let mut words: Vec<OsString> = vec!["hotcell".into()];
                words.extend(command.split(' ').map(OsString::from));
                words.push(format!("--{option}={value}").into());
                let Err(error) = Cli::command().try_get_matches_from(&words) else { continue };
                let shown = report(&error, &words).to_string();
                assert!(
                    !shown.contains("..=") && !shown.contains(".. "),
                    "{command} --{option}={value}: {shown}"
                );
            }
        }
    }

    /// A slip in any option of any command is answered with an option that this command has.
    #[test]
    fn every_mistyped_option_has_a_near_one() {
        let mut checked = 0;
        for (command, option) in options().into_iter().filter(|(_, option)| option.len() > 4) {
            let mut typo = option.clone();
            typo.remove(option.len() / 2);
            let known = |long: &str| {
                with_command(Some(&command), |c| c.get_arguments().any(|arg| arg.get_long() == Some(long)))
            };
            if known(&typo) {
                continue;
            }
            let mut words: Vec<OsString> = vec!["hotcell".into()];
            words.extend(command.split(' ').map(OsString::from));
            words.push(format!("--{typo}").into());
            // A former spelling of another option.
            let Err(error) = Cli::command().try_get_matches_from(&words) else { continue };
            let shown = report(&error, &words).to_string();
            let near = shown.split_once("did you mean --").and_then(|(_, rest)| rest.split_once('?'));
            let (near, _) = near.unwrap_or_else(|| panic!("{command} --{typo}: {shown}"));
            assert!(known(near), "{command} --{typo}: {shown}");
            checked += 1;
        }
        assert!(checked > 200, "{checked}");
    }

    /// Options that take a value, with their commands.
    fn options() -> Vec<(String, String)> {
        fn add(command: &clap::Command, path: &str, all: &mut Vec<(String, String)>) {
            for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
                all.extend(arg.get_long().map(|long| (path.to_owned(), long.to_owned())));
            }
            for sub in command.get_subcommands() {
                add(sub, format!("{path} {}", sub.get_name()).trim_start(), all);
            }
        }
        let mut all = Vec::new();
        add(&built(), "", &mut all);
        all.retain(|(path, _)| !path.is_empty());
        assert!(all.len() > 200, "{}", all.len());
        all
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
            (
                &["--retry", "test", "."],
                "there is no option --retry; write it behind the command that it is for: hotcell test --retry …",
            ),
            (
                &["mcp", "call", "x"],
                "there is no command \"mcp call\"; did you mean hotcell call or hotcell tool call? there are",
            ),
            (&["zzz", "run"], "there is no command \"zzz\"; there are run, "),
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
    fn wrong_values_are_named_once() {
        for (words, want) in [
            (&["run", "--memory", "lots", "--", "true"][..], "--memory \"lots\": is not a size; "),
            (&["run", "--memory", "", "--", "true"], "--memory \"\": is not a size; "),
            (&["run", "--timeout", "soon", "--", "true"], "--timeout \"soon\": is not a time; "),
            (&["run", "--network", "0:x", "--", "true"], "--network \"0:x\": \"x\" is no port; "),
            (&["run", "--network", "pypi", "--", "true"], "--network \"pypi\": it names no port; "),
            (&["run", "--ro", "", "--", "true"], "--ro \"\": names no host path; "),
            (&["run", "--cpus", "1e30", "--", "true"], "--cpus \"1e30\": is more than 8192 processors; "),
            (&["test", ""], "DIR \"\": a path cannot be empty"),
            (&["scan", ""], "PATH \"\": a path cannot be empty"),
            (&["audit", "verify", "--expect-head", ""], "--expect-head \"\": is not a digest; "),
            (&["audit", "verify", "--expect-head", "a1"], "--expect-head \"a1\": is not a digest; "),
            (
                &["tool", "new", "--lang", "pyton", "x"],
                "--lang \"pyton\": plugins are not made in \"pyton\"; did you mean python? ",
            ),
        ] {
            let words: Vec<OsString> = ["hotcell"].iter().chain(words).map(OsString::from).collect();
            let error = Cli::command().try_get_matches_from(&words).unwrap_err();
            let shown = report(&error, &words).to_string();
            assert!(shown.starts_with(want), "{words:?}: {shown}");
        }
        // No option repeats its value before the reason.
        for (command, option) in options() {
            for value in ["x y", "=", "@", "0x"] {
                let mut words: Vec<OsString> = vec!["hotcell".into()];
                words.extend(command.split(' ').map(OsString::from));
                words.push(format!("--{option}={value}").into());
                let Err(error) = Cli::command().try_get_matches_from(&words) else { continue };
                let shown = report(&error, &words).to_string();
                let twice = format!("{0}: {0}", quoted(value));
                assert!(!shown.contains(&twice), "{command} --{option}={value}: {shown}");
            }
        }
    }

    #[test]
    fn missing_arguments_are_named_as_they_are_typed() {
        for (words, want) in [
            (&["test"][..], "hotcell test needs DIR; see hotcell test --help"),
            (&["scan"], "hotcell scan needs PATH…; see hotcell scan --help"),
            (&["runs", "show"], "hotcell runs show needs ID; see hotcell runs show --help"),
            (&["quarantine", "request"], "hotcell quarantine request needs --reason TEXT and ID; see "),
            (
                &["tool", "offer", "a"],
                "hotcell tool offer needs --only TOOL,… or --hide TOOL,… or --all; see hotcell tool offer --help",
            ),
            (&["approvals", "forget-binary"], "hotcell approvals forget-binary needs DIGEST|PATH…; see "),
            (&["runs"], "hotcell runs needs a command; there are list, show, "),
            (&["receipt", "key"], "hotcell receipt key needs a command; there are show, list, "),
            (&[], "hotcell needs a command; there are run, test, "),
        ] {
            let words: Vec<OsString> = ["hotcell"].iter().chain(words).map(OsString::from).collect();
            let mut parser = Cli::command().arg_required_else_help(false);
            let names: Vec<String> = parser.get_subcommands().map(|c| c.get_name().to_owned()).collect();
            for name in names {
                parser = parser.mut_subcommand(name, without_help);
            }
            let error = parser.try_get_matches_from(&words).unwrap_err();
            let shown = report(&error, &words).to_string();
            assert!(shown.starts_with(want), "{words:?}: {shown}");
        }
    }

    /// A command that is refused without a further one, as with `--json`.
    fn without_help(mut command: clap::Command) -> clap::Command {
        let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
        for name in names {
            command = command.mut_subcommand(name, without_help);
        }
        command.arg_required_else_help(false)
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
