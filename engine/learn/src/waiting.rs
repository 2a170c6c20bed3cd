//! A suggestion as the person who decides on it sees it, on the page and on the command line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A policy that was learnt, or grants that a server lacked, which wait for a person.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Suggested {
    /// Id; an unambiguous beginning is enough.
    pub id: String,
    /// The program, or the server.
    pub title: String,
    /// Effect of a yes.
    pub allows: String,
    /// Who gets it.
    pub whom: String,
    /// Who wanted it.
    pub wanted_by: String,
    /// Since when; RFC 3339, UTC.
    pub since: String,
    /// Rules: the rule, what it opens, who wanted it and how often.
    pub rules: Vec<[String; 3]>,
    /// Things that were denied and are not suggested: the thing, and the reason.
    pub refused: Vec<[String; 2]>,
    /// Text that a yes writes, whole.
    pub text: String,
    /// Digest of all of it: a decision is about exactly this (`--shown`).
    pub shown: String,
}
