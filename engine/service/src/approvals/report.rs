//! A request as people and programs see it: `hotcell.approvals/1`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::state::{Kind, State};
use super::what::What;

/// The name of the form in its `schema` field.
pub const SCHEMA: &str = "hotcell.approvals/1";

/// `hotcell.approvals/1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalList {
    /// Always `hotcell.approvals/1`.
    pub schema: String,
    /// The requests, newest first.
    pub approvals: Vec<Approval>,
}

impl ApprovalList {
    /// A list of these.
    #[must_use]
    pub fn new(approvals: Vec<Approval>) -> Self {
        Self { schema: SCHEMA.to_owned(), approvals }
    }
}

/// Something that a call asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// Eight hexadecimal digits. The beginning is enough where it is the only such.
    pub id: String,
    /// What kind of thing it is.
    pub kind: Kind,
    /// The channel of whoever asked: `mcp:CALLER`.
    pub asked_by: String,
    /// sha256 of what it is for: an artifact, a component, a run with its files, changes with their bytes.
    pub digest: String,
    /// Exactly what is asked.
    pub detail: What,
    /// Why, in the words of whoever asked; null where they gave none.
    pub reason: Option<String>,
    /// How often it was asked.
    pub asked: u64,
    /// When it was asked first; RFC 3339, UTC.
    pub created: String,
    /// When it counts no more; RFC 3339, UTC.
    pub expires: String,
    /// Where it stands now.
    pub state: State,
    /// Who decided; null while nobody has.
    pub decision: Option<Decision>,
}

/// What somebody decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// User id and name.
    pub by: String,
    /// `cli` or `elicitation:CALLER`.
    pub channel: String,
    /// Why; empty where they did not say.
    pub reason: String,
    /// When; RFC 3339, UTC.
    pub time: String,
}
