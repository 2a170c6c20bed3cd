//! `hotcell cache`: what the state folder keeps only to be faster.

use std::time::SystemTime;

use hotcell_sandbox::Bytes;
use hotcell_sandbox::text::printable;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use hotcell_state::time::rfc3339;
use hotcell_verbs::caches;
use hotcell_verbs::caches::{CacheList, Prune};

use crate::args::{CacheCommand, Common};
use crate::context::{configuration, state};
use crate::exit::printed;
use crate::terminal::notes;
use crate::{exit, usage};

/// Runs the command; its exit status.
pub fn cache(common: &Common, command: &CacheCommand) -> u8 {
    match answer(common, command) {
        Ok(code) => code,
        Err(report) => usage::fail(&report, common.json),
    }
}

fn answer(common: &Common, command: &CacheCommand) -> Result<u8, ErrorReport> {
    let wrong = |e: &dyn ToString| ErrorReport::new(Code::State, e.to_string());
    let choice = state(common, &configuration(common, None)?);
    let folder = StateFolder::open(choice.path().map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
    let done = match command {
        CacheCommand::List => caches::list(&folder),
        CacheCommand::Prune { older, most } => {
            caches::prune(&folder, Prune { older: *older, most: most.map(|most| most.0) }, SystemTime::now())
        }
        CacheCommand::Clear => caches::clear(&folder),
    };
    let done = done.map_err(|e| wrong(&e))?;
    if !done.in_use.is_empty() {
        let names: Vec<String> = done.in_use.iter().map(|entry| printable(&entry.name).to_string()).collect();
        notes::say(format!("not removed, since runs use it now: {}", names.join(", ")));
    }
    let result = if common.json {
        exit::print_json(&done)
    } else {
        if !common.quiet {
            let what = match command {
                CacheCommand::List => "kept",
                CacheCommand::Prune { .. } | CacheCommand::Clear => "removed",
            };
            notes::say(format!(
                "{what}: {} in {} ({})",
                counted(&done),
                done.folder.display(),
                Bytes(done.bytes)
            ));
        }
        exit::print_text(&table(&done))
    };
    Ok(printed(result, u8::from(!done.in_use.is_empty())))
}

fn counted(list: &CacheList) -> String {
    let number = list.entries.len();
    format!("{number} {}", if number == 1 { "entry" } else { "entries" })
}

fn table(list: &CacheList) -> String {
    let line = |entry: &caches::Entry| {
        let size = Bytes(entry.bytes).to_string();
        format!("{size:>10}  {}  {:<10}  {}\n", rfc3339(entry.used_us), entry.kind, printable(&entry.name))
    };
    list.entries.iter().map(line).collect()
}
