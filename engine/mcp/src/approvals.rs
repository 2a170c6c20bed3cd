//! What an answer says of an approval: where it stands, and what a person types. No tool approves.

use hotcell_service::approvals::{Approval, Kind, Standing};
use hotcell_service::report::{Code, ErrorReport, printable};
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

/// The field of an answer's `_meta` with the approval that the call needs.
const META: &str = "hotcell/approval";
/// The longest sentence about what is asked, in characters.
const SENTENCE: usize = 300;

/// An approval that a call needs, as a model reads it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Needed {
    /// Its id.
    pub id: String,
    /// pending, approved or denied.
    pub state: String,
    /// What to do next.
    pub hint: String,
}

/// What is asked, in a line.
pub(crate) fn sentence(approval: &Approval) -> String {
    let line = printable(&approval.detail.sentence());
    match line.char_indices().nth(SENTENCE) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// Where it stands, and what to do next.
pub(crate) fn needed(standing: &Standing) -> Needed {
    let approval = standing.approval();
    let (id, asks) = (&approval.id, sentence(approval));
    let then = match approval.kind {
        Kind::Release => "exactly the same run works once",
        _ => "the same call works once",
    };
    let (state, hint) = match standing {
        Standing::Waits(_) => (
            "pending",
            format!(
                "a person has to approve it ({asks}): tell them to type: hotcell approvals approve {id}. Then {then}"
            ),
        ),
        Standing::Approved(_) => ("approved", format!("a person approved it ({asks}); {then}")),
        Standing::Denied(_) => {
            let said = approval.decision.as_ref().map(|word| word.reason.as_str()).unwrap_or_default();
            let said = if said.is_empty() { String::new() } else { format!(": {said}") };
            ("denied", format!("a person said no ({asks}){said}; do without it"))
        }
    };
    Needed { id: id.clone(), state: state.to_owned(), hint }
}

/// Puts it where the server and a client find it.
pub(crate) fn mark(result: &mut CallToolResult, standing: &Standing) {
    let approval = standing.approval();
    let mut meta = result.meta.take().unwrap_or_default();
    let Needed { id, state, hint } = needed(standing);
    meta.0.insert(META.to_owned(), json!({ "id": id, "kind": approval.kind, "state": state, "hint": hint }));
    result.meta = Some(meta);
}

/// Adds the same as a text.
pub(crate) fn tell(result: &mut CallToolResult, standing: &Result<Standing, ErrorReport>) {
    match standing {
        Ok(standing) => {
            result.content.push(ContentBlock::text(needed(standing).hint));
            mark(result, standing);
        }
        Err(report) => result.content.push(ContentBlock::text(format!("nobody was asked: {report}"))),
    }
}

/// An answer to a call that did nothing, because somebody has to approve it first.
pub(crate) fn refusal(standing: &Standing) -> CallToolResult {
    let report = ErrorReport::new(Code::NeedsApproval, needed(standing).hint);
    let mut result = crate::tools::refused(&report);
    mark(&mut result, standing);
    result
}

/// The id of the approval that an answer waits for.
pub(crate) fn waits(result: &CallToolResult) -> Option<String> {
    let about = result.meta.as_ref()?.0.get(META)?;
    let id = about["id"].as_str().filter(|_| about["state"] == "pending")?;
    Some(id.to_owned())
}
