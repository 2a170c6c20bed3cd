//! `hotcell approvals`: requests of callers, for a person to decide.

use hotcell_plugins::grant_check;
use hotcell_review::Approvals;
use hotcell_review::approvals::{Approval, ApprovalList, State};
use hotcell_state::report::{Code, ErrorReport};

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
        ApprovalsCommand::Approve { id, reason, shown, expires } => {
            let id = &as_shown(&desk, id, shown.as_deref())?;
            let approval = desk.approve(id, reason.as_deref(), *expires, &grant_check(&configuration))?;
            let words = approvals::approved(&approval);
            (vec![approval], words)
        }
        ApprovalsCommand::Deny { id, reason, shown } => {
            let id = &as_shown(&desk, id, shown.as_deref())?;
            let approval = desk.deny(id, reason.as_deref())?;
            let words = format!("{} is denied: the same call is refused for a day\n", approval.id);
            (vec![approval], words)
        }
    };
    let result =
        if common.json { exit::print_json(&ApprovalList::new(approvals)) } else { exit::print_text(&words) };
    Ok(printed(result, 0))
}

/// Whole id of a request, whose digest has to be the one that was shown. Neither ever changes; decided requests are refused by the step.
fn as_shown(desk: &Approvals, id: &str, shown: Option<&str>) -> Result<String, ErrorReport> {
    let Some(shown) = shown else { return Ok(id.to_owned()) };
    let request = desk.show(id)?;
    if !request.digest.eq_ignore_ascii_case(shown) {
        let why =
            format!("{} is not the request that was shown: its sha256 is {}", request.id, request.digest);
        return Err(ErrorReport::new(Code::Refused, why)
            .field("--shown")
            .hint(format!("hotcell approvals show {} shows it", request.id)));
    }
    Ok(request.id)
}
