//! Approvals in answers: their state, and the command that a user types. No tool approves.

use std::path::Path;
use std::sync::OnceLock;

use hotcell_review::approvals::{Approval, Kind, RequestStatus};
use hotcell_state::report::{Code, ErrorReport, printable};
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

/// State folder for commands that a user types, where they would not find it themselves. A process serves one
/// state folder.
static STATE: OnceLock<String> = OnceLock::new();

/// Sets the state folder for commands that a user is told to type.
pub fn name_state(folder: &Path) {
    let text = folder.to_string_lossy();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+@:".contains(&b);
    let word = if !text.is_empty() && text.bytes().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    };
    let _ = STATE.set(word);
}

/// Command line for a user, with the state folder where it is needed.
pub(crate) fn typed(command: &str) -> String {
    match STATE.get() {
        Some(state) => format!("hotcell {command} --state {state}"),
        None => format!("hotcell {command}"),
    }
}

/// Field of an answer's `_meta` with the approval that the call needs.
const META: &str = "hotcell/approval";
/// Maximum length of the sentence about the request, in characters.
const MAX_SENTENCE_CHARS: usize = 300;

/// Approval that a call needs, for a model.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Needed {
    /// Id of the approval.
    pub id: String,
    /// pending, approved or denied.
    pub state: String,
    /// Next step.
    pub hint: String,
}

/// The request in one line.
pub(crate) fn sentence(approval: &Approval) -> String {
    let line = printable(&approval.detail.sentence());
    match line.char_indices().nth(MAX_SENTENCE_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// State of an approval, and the next step.
pub(crate) fn needed(standing: &RequestStatus) -> Needed {
    let approval = standing.approval();
    let (id, asks) = (&approval.id, sentence(approval));
    let then = match approval.kind {
        Kind::Release => "exactly the same run works once",
        _ => "the same call works once",
    };
    let (state, hint) = match standing {
        RequestStatus::Waits(_) => (
            "pending",
            format!(
                "a person has to approve it ({asks}): tell them to type: {}. Then {then}",
                typed(&format!("approvals approve {id}"))
            ),
        ),
        RequestStatus::Approved(_) => ("approved", format!("a person approved it ({asks}); {then}")),
        RequestStatus::Denied(_) => {
            let said = approval.decision.as_ref().map(|word| word.reason.as_str()).unwrap_or_default();
            let said = if said.is_empty() { String::new() } else { format!(": {said}") };
            ("denied", format!("a person said no ({asks}){said}; do without it"))
        }
    };
    Needed { id: id.clone(), state: state.to_owned(), hint }
}

/// Adds the approval to an answer's `_meta`, for the server and the client.
pub(crate) fn mark(result: &mut CallToolResult, standing: &RequestStatus) {
    let approval = standing.approval();
    let mut meta = result.meta.take().unwrap_or_default();
    let Needed { id, state, hint } = needed(standing);
    meta.0.insert(META.to_owned(), json!({ "id": id, "kind": approval.kind, "state": state, "hint": hint }));
    result.meta = Some(meta);
}

/// Adds the approval to an answer as text.
pub(crate) fn tell(result: &mut CallToolResult, standing: &Result<RequestStatus, ErrorReport>) {
    match standing {
        Ok(standing) => {
            result.content.push(ContentBlock::text(needed(standing).hint));
            mark(result, standing);
        }
        Err(report) => result.content.push(ContentBlock::text(format!("nobody was asked: {report}"))),
    }
}

/// Answer to a call that was not executed because a user has to approve it first.
pub(crate) fn refusal(standing: &RequestStatus) -> CallToolResult {
    let report = ErrorReport::new(Code::NeedsApproval, needed(standing).hint);
    let mut result = crate::reply::refused(&report);
    mark(&mut result, standing);
    result
}

/// Id of the approval that an answer waits for.
pub(crate) fn waits(result: &CallToolResult) -> Option<String> {
    let about = result.meta.as_ref()?.0.get(META)?;
    let id = about["id"].as_str().filter(|_| about["state"] == "pending")?;
    Some(id.to_owned())
}
