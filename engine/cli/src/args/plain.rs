//! The command line of a plain `run`, read without definitions: a program, and options that need nothing but the sandbox.
//!
//! Definitions of all options of `run` take longer to make than a process to start. What this reader does not know word for word, it
//! leaves to the whole parser, also each mistake. A test compares both.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;

use hotcell_config::network::NetworkSetting;
use hotcell_sandbox::units::parse_duration;

use super::sandbox::{mode, processors, variable};
use super::{Common, RunArgs};

/// Reads `hotcell run [OPTIONS] -- PROGRAM [ARG…]`; `None` for any other command line, and for one with another option or a mistake.
pub fn parse(words: &[OsString]) -> Option<(Common, RunArgs)> {
    let (mut common, mut args) = (Common::default(), RunArgs::default());
    let (command, rest) = words.get(1..)?.split_first()?;
    let mut options = rest.iter();
    if command != "run" {
        return None;
    }
    loop {
        let word = options.next()?;
        if word == "--" {
            break;
        }
        if switch(&mut common, &mut args, word.to_str()?).is_some() {
            continue;
        }
        let (name, value) = match word.as_bytes().iter().position(|byte| *byte == b'=') {
            Some(at) => (&word.as_bytes()[..at], OsStr::from_bytes(&word.as_bytes()[at + 1..])),
            None => (word.as_bytes(), options.next()?.as_os_str()),
        };
        // A word that begins so may be another option.
        if value.as_bytes().starts_with(b"-") {
            return None;
        }
        option(&mut args, std::str::from_utf8(name).ok()?, value)?;
    }
    args.program = options.cloned().collect();
    let is_wrong = args.program.is_empty() || common.quiet && common.verbose > 0;
    (!is_wrong).then_some((common, args))
}

/// Sets an option without a value, which stands there once.
fn switch(common: &mut Common, args: &mut RunArgs, word: &str) -> Option<()> {
    let place = match word {
        "--json" => &mut common.json,
        "--quiet" => &mut common.quiet,
        "--no-history" => &mut args.sandbox.no_history,
        "--no-daemon" | "--cold" => &mut args.cold,
        "--no-tty" | "-T" => &mut args.no_tty,
        "-v" => {
            common.verbose = common.verbose.checked_add(1)?;
            return Some(());
        }
        _ => return None,
    };
    (!std::mem::replace(place, true)).then_some(())
}

/// Sets an option with a value.
fn option(args: &mut RunArgs, name: &str, value: &OsStr) -> Option<()> {
    let (sandbox, text) = (&mut args.sandbox, value.to_str());
    let limits = &mut sandbox.limits;
    match name {
        "--env" => {
            sandbox.env.push(variable(value).ok()?);
            Some(())
        }
        "--guard" => once(&mut sandbox.guard, mode(text?).ok()),
        "--network" if text? == "none" => once(&mut sandbox.network, Some(NetworkSetting::None)),
        // By its name: a file's path would have to be looked at.
        "--profile" if !text?.contains(['/', '.']) => once(&mut sandbox.profile, Some(value.to_owned())),
        "--memory" => once(&mut limits.memory, parsed(text)),
        "--timeout" => once(&mut limits.timeout, parse_duration(text?).ok()),
        "--cpu-time" => once(&mut limits.cpu_time, parsed(text)),
        "--max-processes" | "--processes" => once(&mut limits.processes, parsed(text)),
        "--max-disk" | "--disk" => once(&mut limits.disk, parsed(text)),
        "--max-files" | "--files" => once(&mut limits.files, parsed(text)),
        "--capture" => once(&mut limits.capture, parsed(text)),
        "--max-output" | "--output" => once(&mut limits.output, parsed(text)),
        "--cpus" => once(&mut limits.cpus, processors(text?).ok()),
        "--open-files" => once(&mut limits.open_files, parsed(text)),
        _ => None,
    }
}

fn parsed<T: FromStr>(text: Option<&str>) -> Option<T> {
    text?.parse().ok()
}

/// Fills a place that is empty with a value that is there.
fn once<T>(place: &mut Option<T>, value: Option<T>) -> Option<()> {
    if place.is_some() {
        return None;
    }
    *place = Some(value?);
    Some(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::{Cli, Command, parse_run};

    fn words(line: &[&str]) -> Vec<OsString> {
        ["hotcell"].iter().chain(line).map(OsString::from).collect()
    }

    /// Checks that a line which is read without definitions is read so with them; returns whether it was.
    fn agrees(line: &[&str]) -> bool {
        let words = words(line);
        let Some((common, args)) = parse(&words) else { return false };
        let (cli, ..) = parse_run(&words).unwrap_or_else(|| panic!("only one reads {line:?}"));
        let Command::Run(whole) = cli.command else { panic!("{line:?}") };
        assert_eq!(format!("{common:?} {args:?}"), format!("{:?} {whole:?}", cli.common), "{line:?}");
        true
    }

    #[test]
    fn plain_lines_are_read() {
        for (line, want) in [
            (&["run", "--", "/bin/true"][..], true),
            (&["run", "--json", "--quiet", "--", "x", "--json", "--"], true),
            (&["run", "--cold", "-T", "--no-history", "--", "x"], true),
            (&["run", "-v", "-v", "--env", "A=1=2", "--env=B", "--", "x"], true),
            (&["run", "--memory", "64M", "--timeout=3s", "--cpu-time", "none", "--", "x"], true),
            (&["run", "--profile", "strict", "--network=none", "--guard", "off", "--", "x"], true),
            (&["run", "--", "x", ""], true),
            (&["run"], false),
            (&["run", "--"], false),
            (&["run", "x"], false),
            (&["run", "--help", "--", "x"], false),
            (&["--json", "run", "--", "x"], false),
            (&["run", "--json", "--json", "--", "x"], false),
            (&["run", "--memory", "1M", "--memory", "1M", "--", "x"], false),
            (&["run", "--memory", "much", "--", "x"], false),
            (&["run", "--memory", "--", "x"], false),
            (&["run", "--quiet", "-v", "--", "x"], false),
            (&["run", "-vv", "--", "x"], false),
            (&["run", "--network", "pypi.org:443", "--", "x"], false),
            (&["run", "--network", "off", "--", "x"], false),
            (&["run", "--profile", "./strict", "--", "x"], false),
            (&["run", "--workspace", ".", "--", "x"], false),
            (&["run", "--receipt", "r.json", "--", "x"], false),
            (&["run", "--lang", "python", "x.py"], false),
            (&["scan", "--", "x"], false),
            (&[], false),
        ] {
            assert_eq!(agrees(line), want, "{line:?}");
        }
    }

    /// Each option of `run` with values of each kind, in both spellings, and each two of them.
    #[test]
    fn reader_agrees_with_definitions() {
        let mut command = Cli::command();
        command.build();
        let run = command.find_subcommand("run").expect("run is a command");
        let mut options: Vec<String> = Vec::new();
        for arg in run.get_arguments() {
            options.extend(arg.get_short().map(|short| format!("-{short}")));
            let long = arg.get_long().map(str::to_owned).into_iter();
            let others = arg.get_all_aliases().unwrap_or_default().into_iter().map(str::to_owned);
            options.extend(long.chain(others).map(|name| format!("--{name}")));
        }
        let values =
            ["1", "0", "1.5", "64M", "3s", "none", "off", "enforce", "strict", "A=1", "A", "-1", "", "x:1"];
        let mut spelt: Vec<Vec<String>> = options.iter().map(|option| vec![option.clone()]).collect();
        for option in &options {
            for value in values {
                spelt.push(vec![option.clone(), value.to_owned()]);
                spelt.push(vec![format!("{option}={value}")]);
            }
        }
        let line = |parts: &[&Vec<String>]| -> bool {
            let words: Vec<&str> = parts.iter().flat_map(|part| part.iter()).map(String::as_str).collect();
            agrees(&[&["run"], &words[..], &["--", "x", "-y"]].concat())
        };
        let alone: Vec<&Vec<String>> = spelt.iter().filter(|one| line(&[one])).collect();
        assert!((60..400).contains(&alone.len()), "{}: {alone:?}", alone.len());
        let mut pairs = 0;
        for (at, one) in alone.iter().enumerate() {
            // Others in turn: all pairs would take minutes.
            for other in alone.iter().skip(at % 7).step_by(7).chain([one]) {
                pairs += usize::from(line(&[one, other]));
            }
        }
        assert!(pairs > 300, "{pairs}");
    }
}
