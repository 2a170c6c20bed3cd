//! Suggestions as they are printed and written.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use hotcell_config::{Configuration, typed};
use hotcell_learn::protected::Own;
use hotcell_learn::{Evidence, Options, Suggestion, suggest};
use hotcell_state::report::{Code, ErrorReport};

use super::host_files::Disk;
use crate::args::{Common, SuggestArgs};
use crate::context::{configuration_file, current_folder, folder, state};
use crate::exit;
use crate::exit::printed;
use crate::options::in_options;
use crate::suggested;
use crate::terminal::notes;

/// The choices of a suggestion.
pub fn options(common: &Common, configuration: &Configuration, args: &SuggestArgs) -> Options {
    let home = folder("HOME").filter(|home| home.is_absolute());
    let state = state(common, configuration).path().ok().map(Path::to_owned);
    let settings = configuration_file(common).ok();
    let hotcell: Vec<_> = state.into_iter().chain(settings).collect();
    // As they are named, and as links lead to them.
    let real = hotcell.iter().filter_map(|path| path.canonicalize().ok()).collect::<Vec<_>>();
    let own = Own { home, hotcell: hotcell.into_iter().chain(real).collect() };
    Options { own, private: args.private, folders: args.folders }
}

/// Whether the file of the policy can be made; before anything runs.
///
/// # Errors
/// [`ErrorReport`] when there is such a file, or the path is not the user's to name.
pub fn check_file(args: &SuggestArgs) -> Result<(), ErrorReport> {
    let Some(file) = &args.file else { return Ok(()) };
    let wrong = |why: String| {
        ErrorReport::new(Code::InvalidValue, format!("--output {}: {why}", file.display())).field("--output")
    };
    let real = typed::real_from(&current_folder(), file, &[]).map_err(|why| wrong(why.to_string()))?;
    match real.symlink_metadata() {
        Ok(_) => {
            Err(wrong("it exists; a policy is only written to a new file".to_owned())
                .hint("name another file"))
        }
        Err(_) => Ok(()),
    }
}

/// Prints a suggestion, or writes it to its file; returns the exit status.
///
/// # Errors
/// [`ErrorReport`] when the file cannot be written.
pub fn show(
    common: &Common,
    configuration: &Configuration,
    args: &SuggestArgs,
    mut all: Suggestion,
    code: u8,
) -> Result<u8, ErrorReport> {
    for refused in &mut all.refused {
        refused.reason = in_options(&refused.reason);
    }
    if let Some(replay) = &mut all.replay {
        replay.why_not = replay.why_not.as_deref().map(in_options);
    }
    let text = all.toml();
    if let Some(file) = args.file.as_ref().filter(|_| args.review) {
        check_file(args)?;
        let name = || -> Result<_, ErrorReport> {
            typed::real_from(&current_folder(), file, &[]).map_err(|why| {
                ErrorReport::new(Code::InvalidValue, format!("--output {}: {why}", file.display()))
                    .field("--output")
            })
        };
        if all.is_empty() {
            notes::say("nothing is suggested, so that nothing waits for a person");
        } else {
            let id = suggested::keep(&state(common, configuration), &all, &name()?)?;
            if !common.quiet && !common.json {
                notes::say(format!(
                    "it waits as {id} for hotcell runs suggested, or the page of hotcell web; a yes writes {}",
                    file.display()
                ));
            }
        }
    } else if let Some(file) = &args.file {
        check_file(args)?;
        let wrong = |e: std::io::Error| {
            ErrorReport::new(Code::InvalidValue, format!("--output {}: {e}", file.display()))
                .field("--output")
        };
        let real = typed::real_from(&current_folder(), file, &[]).map_err(|why| {
            ErrorReport::new(Code::InvalidValue, format!("--output {}: {why}", file.display()))
                .field("--output")
        })?;
        let mut to = OpenOptions::new().write(true).create_new(true).open(real).map_err(wrong)?;
        to.write_all(text.as_bytes()).map_err(wrong)?;
        if !common.quiet && !common.json {
            notes::say(format!("written to {}; read it before you use it", file.display()));
        }
    }
    if common.json {
        return Ok(printed(exit::print_json(&all), code));
    }
    Ok(if args.file.is_some() { code } else { printed(exit::print_text(&text), code) })
}

/// A policy from runs of the history.
///
/// # Errors
/// [`ErrorReport`] when the file cannot be written.
pub fn of_runs(
    common: &Common,
    configuration: &Configuration,
    runs: &[Evidence],
    args: &SuggestArgs,
) -> Result<u8, ErrorReport> {
    check_file(args)?;
    if runs.iter().any(|run| run.missing.is_none()) && !common.quiet {
        notes::say("files that a program lacked are watched in runs of hotcell learn only");
    }
    let all = suggest(runs, &Disk, &options(common, configuration, args));
    show(common, configuration, args, all, 0)
}
