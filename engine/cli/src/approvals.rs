//! `hotcell approvals`: what calls asked for, for a person who decides.

use hotcell_service::Approvals;
use hotcell_service::approvals::{Approval, ApprovalList, State};
use hotcell_service::report::ErrorReport;

use crate::args::{ApprovalsCommand, Common};
use crate::{approvals_text, configuration, exit, notes, printed, usage};

/// Runs the command; its exit status.
pub fn approvals(common: &Common, command: &ApprovalsCommand) -> u8 {
    match answer(common, command) {
        Ok(code) => code,
        Err(report) => usage::fail(&report, common.json),
    }
}

fn answer(common: &Common, command: &ApprovalsCommand) -> Result<u8, ErrorReport> {
    let desk = Approvals::of(&configuration(common, None)?)?;
    let (approvals, words) = match command {
        ApprovalsCommand::List => {
            let all = desk.list()?;
            // What is over is asked for by its id, or with -v.
            let counts =
                |one: &&Approval| common.verbose > 0 || matches!(one.state, State::Pending | State::Approved);
            let shown: Vec<&Approval> = all.iter().filter(counts).collect();
            if shown.is_empty() && !common.json && !common.quiet {
                notes::say("nobody asks for anything");
            }
            let words = approvals_text::table(&shown);
            (all, words)
        }
        ApprovalsCommand::Show { id } => {
            let approval = desk.show(id)?;
            let words = approvals_text::page(&approval);
            (vec![approval], words)
        }
        ApprovalsCommand::Approve { id, reason, expires } => {
            let approval = desk.approve(id, reason.as_deref(), *expires)?;
            let words = approvals_text::approved(&approval);
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
