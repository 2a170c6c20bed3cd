//! Answers of sessions as JSON.

use hotcell_sessions::{Answer, InterruptResult};
use schemars::JsonSchema;
use serde::Serialize;

use super::service::NamedSession;

/// Names and versions of the formats, in the field `schema`.
pub const CELL_SCHEMA: &str = "hotcell.cell/1";
pub const NAMED_SCHEMA: &str = "hotcell.named_session/1";
pub const LIST_SCHEMA: &str = "hotcell.named_sessions/1";
pub const INTERRUPT_SCHEMA: &str = "hotcell.session_interrupt/1";

/// The answer to a cell.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CellReport<'a> {
    /// Name and version of this format.
    schema: &'static str,
    #[serde(flatten)]
    answer: &'a Answer,
}

impl<'a> CellReport<'a> {
    pub const fn of(answer: &'a Answer) -> Self {
        Self { schema: CELL_SCHEMA, answer }
    }
}

/// One named session.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NamedReport<'a> {
    /// Name and version of this format.
    schema: &'static str,
    #[serde(flatten)]
    session: &'a NamedSession,
}

impl<'a> NamedReport<'a> {
    pub const fn of(session: &'a NamedSession) -> Self {
        Self { schema: NAMED_SCHEMA, session }
    }
}

/// All named sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NamedList<'a> {
    /// Name and version of this format.
    schema: &'static str,
    /// The sessions by name.
    sessions: &'a [NamedSession],
}

impl<'a> NamedList<'a> {
    pub const fn of(sessions: &'a [NamedSession]) -> Self {
        Self { schema: LIST_SCHEMA, sessions }
    }
}

/// Whether a cell was interrupted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct InterruptReport<'a> {
    /// Name and version of this format.
    schema: &'static str,
    /// Name of the session.
    name: &'a str,
    /// Whether a cell ran and ended.
    interrupted: bool,
    /// stopped, ignored (the cell still runs) or idle (no cell runs)
    #[schemars(with = "String")]
    result: InterruptResult,
}

impl<'a> InterruptReport<'a> {
    pub fn of(name: &'a str, result: InterruptResult) -> Self {
        Self { schema: INTERRUPT_SCHEMA, name, interrupted: result == InterruptResult::Stopped, result }
    }
}
