//! A request as people and programs see it: `hotcell.approvals/1`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::permission::subject::ApprovalSubject;

use super::state::{Kind, State};

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.approvals/1";

/// List of requests in the form `hotcell.approvals/1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalList {
    /// Always `hotcell.approvals/1`.
    pub schema: String,
    /// Requests, newest first.
    pub approvals: Vec<Approval>,
}

impl ApprovalList {
    /// A list of these requests.
    #[must_use]
    pub fn new(approvals: Vec<Approval>) -> Self {
        Self { schema: SCHEMA.to_owned(), approvals }
    }
}

/// A request for a permission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// Eight hexadecimal digits. An unambiguous prefix is enough.
    pub id: String,
    /// Kind of request.
    pub kind: Kind,
    /// Channel of the caller: `mcp:CALLER`.
    pub asked_by: String,
    /// sha256 of the subject: an artifact, a component, a run with its files, changes with their bytes.
    pub digest: String,
    /// The exact subject.
    pub detail: ApprovalSubject,
    /// The caller's reason, in its own words; null when it gave none.
    pub reason: Option<String>,
    /// How often it was asked.
    pub asked: u64,
    /// Time of the first request; RFC 3339, UTC.
    pub created: String,
    /// Time when it expires; RFC 3339, UTC.
    pub expires: String,
    /// Current state.
    pub state: State,
    /// The decision; null while it is pending.
    pub decision: Option<Decision>,
}

/// A person's decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// User id and name.
    pub by: String,
    /// `cli`, `web` or `elicitation:CALLER`.
    pub channel: String,
    /// Reason; empty when none was given.
    pub reason: String,
    /// Time; RFC 3339, UTC.
    pub time: String,
}
