//! `hotcell quarantine`: refused artifacts, for a person to decide.

use std::io::{self, IsTerminal};

use hotcell_guard::quarantine::State;
use hotcell_review::quarantine::{Item, Items, QuarantineService};
use hotcell_state::report::ErrorReport;

use crate::args::{Common, QuarantineArgs, QuarantineCommand};
use crate::context::{configuration, current_folder};
use crate::exit::printed;
use crate::render::quarantine;
use crate::terminal::notes;
use crate::{exit, usage};

/// Runs the command; returns its exit status.
pub fn quarantine(common: &Common, args: &QuarantineArgs) -> u8 {
    match answer(common, args) {
        Ok(code) => code,
        Err(report) => usage::fail(&report, common.json),
    }
}

fn answer(common: &Common, args: &QuarantineArgs) -> Result<u8, ErrorReport> {
    let rules = args.rules.as_ref().map(|folder| current_folder().join(folder));
    let office = QuarantineService::of(&configuration(common, None)?, rules.as_deref())?;
    let (items, words) = match &args.command {
        QuarantineCommand::List => {
            let items = office.list()?;
            // Purged items are shown by id, or with -v.
            let all = common.verbose > 0;
            let shown: Vec<&Item> = items.iter().filter(|item| all || item.state != State::Purged).collect();
            if shown.is_empty() && !common.json && !common.quiet {
                notes::say("nothing is held");
            }
            let words = quarantine::table(&shown);
            (items, words)
        }
        QuarantineCommand::Show { id } => {
            let item = office.show(id)?;
            let words = if common.json { String::new() } else { shown(&office, &item, common) };
            (vec![item], words)
        }
        QuarantineCommand::Request { id, reason } => {
            let item = office.request(id, reason)?;
            let words = format!(
                "{} is under review; a person decides: hotcell quarantine release {0} --reason TEXT, or reject\n",
                item.id
            );
            (vec![item], words)
        }
        QuarantineCommand::Release { id, reason, shown, expires, uses } => {
            let item = office.release(id, shown.as_deref(), reason, *expires, *uses)?;
            let words = quarantine::released(&item);
            (vec![item], words)
        }
        QuarantineCommand::Reject { id, reason, shown } => {
            let item = office.reject(id, shown.as_deref(), reason)?;
            let words = format!("{} is rejected: it is not run\n", item.id);
            (vec![item], words)
        }
        QuarantineCommand::Purge { id, .. } => {
            let items = office.purge(id.as_deref())?;
            let words = match &items[..] {
                [] => "nothing was old enough\n".to_owned(),
                all => all.iter().map(|item| format!("{} is purged\n", item.id)).collect(),
            };
            (items, words)
        }
    };
    let result = if common.json { exit::print_json(&Items::new(items)) } else { exit::print_text(&words) };
    Ok(printed(result, 0))
}

/// The page of an item, with the stored source lines.
fn shown(office: &QuarantineService, item: &Item, common: &Common) -> String {
    let source = |file: &str| {
        let kept = item.files.iter().find(|kept| kept.part == file && kept.not_kept.is_none())?;
        match office.content(&kept.sha256) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(why) => {
                tracing::warn!("{file}: {why}");
                None
            }
        }
    };
    let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let source: &dyn Fn(&str) -> Option<String> =
        if item.state == State::Purged { &|_: &str| None } else { &source };
    quarantine::page(item, source, colour, common.verbose > 0)
}
