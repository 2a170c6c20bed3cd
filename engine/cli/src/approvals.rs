//! `hotcell approvals`: requests of callers, for a person to decide.

use hotcell_plugins::grant_check;
use hotcell_review::Approvals;
use hotcell_review::approvals::{Approval, ApprovalList, State};
use hotcell_state::report::ErrorReport;

use crate::args::{ApprovalsCommand, Common};
use crate::context::configuration;
use crate::exit::printed;
use crate::render::approvals;
use crate::terminal::notes;
use crate::{exit, usage};

/// Runs the command; returns its exit status.
pub fn approvals(common: &Common, command: &ApprovalsCommand) -> u8 {
    match answer(common, command) {
        Ok(code) => code,
        Err(report) => usage::fail(&report, common.json),
    }
}

fn answer(common: &Common, command: &ApprovalsCommand) -> Result<u8, ErrorReport> {
    if let Some(done) = crate::binaries::answer(common, command) {
        return done;
    }
    let configuration = configuration(common, None)?;
    let desk = Approvals::of(&configuration)?;
    let (approvals, words) = match command {
        // Answered above.
        ApprovalsCommand::AllowBinary { .. }
        | ApprovalsCommand::Binaries
        | ApprovalsCommand::ForgetBinary { .. } => (Vec::new(), String::new()),
        ApprovalsCommand::List => {
            let all = desk.list()?;
            // Closed requests are shown by id, or with -v.
            let counts =
                |one: &&Approval| common.verbose > 0 || matches!(one.state, State::Pending | State::Approved);
            let shown: Vec<&Approval> = all.iter().filter(counts).collect();
            if shown.is_empty() && !common.json && !common.quiet {
                notes::say("nobody asks for anything");
            }
            let words = approvals::table(&shown);
            (all, words)
        }
        ApprovalsCommand::Show { id, all } => {
            let approval = desk.show(id)?;
            let words = approvals::page(&approval, *all);
            (vec![approval], words)
        }
        ApprovalsCommand::Approve { id, reason, expires } => {
            let approval = desk.approve(id, reason.as_deref(), *expires, &grant_check(&configuration))?;
            let words = approvals::approved(&approval);
            (vec![approval], words)
        }
        ApprovalsCommand::Deny { id, reason } => {
            let approval = desk.deny(id, reason.as_deref())?;
            let words = format!("{} is denied: the same call is refused for a day\n", approval.id);
            (vec![approval], words)
        }
    };
    let result =
        if common.json { exit::print_json(&ApprovalList::new(approvals)) } else { exit::print_text(&words) };
    Ok(printed(result, 0))
}
