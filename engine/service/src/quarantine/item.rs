//! An item as people and programs see it: `hotcell.quarantine/1`.

use hotcell_guard::quarantine::State;
use hotcell_guard::{Finding, Part, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of the form in its `schema` field.
pub const SCHEMA: &str = "hotcell.quarantine/1";

/// `hotcell.quarantine/1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Items {
    /// Always `hotcell.quarantine/1`.
    pub schema: String,
    /// The items, newest first.
    pub items: Vec<Item>,
}

impl Items {
    /// A list of these.
    #[must_use]
    pub fn new(items: Vec<Item>) -> Self {
        Self { schema: SCHEMA.to_owned(), items }
    }
}

/// Something that was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    /// Eight hexadecimal digits. The beginning is enough where it is the only such.
    pub id: String,
    /// The artifact's digest, as in its scan report.
    pub sha256: String,
    /// Where it stands now: a release that has ended counts no more.
    pub state: State,
    /// What the guard says of it.
    pub verdict: Verdict,
    /// What was found, strictest first; in a list at most 20.
    pub findings: Vec<Finding>,
    /// How many there are.
    pub findings_total: u64,
    /// When it was refused first; RFC 3339, UTC.
    pub submitted: String,
    /// When its content goes, unless it is refused again.
    pub expires: String,
    /// The names that it came under.
    pub names: Vec<String>,
    /// Its size.
    pub bytes: u64,
    /// What it is run as, where that is known.
    pub language: Option<String>,
    /// How often it was refused.
    pub seen: u64,
    /// When it was refused last.
    pub last_seen: String,
    /// The digest of rules, version and limits that it was read under.
    pub policy: String,
    /// Whether those are in force now.
    pub current: bool,
    /// Parts that were not read.
    pub unread: Vec<Part>,
    /// Files that asked for a look.
    pub files: Vec<Kept>,
    /// Such files that are not even named.
    pub left_out: u64,
    /// Why it cannot be released; null where it can.
    pub unreleasable: Option<String>,
    /// Who asked for its release first.
    pub request: Option<Word>,
    /// Who decided last.
    pub decision: Option<Word>,
    /// What was allowed last.
    pub release: Option<Terms>,
}

/// A file of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// Its path in the artifact.
    pub part: String,
    /// Its digest.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
    /// Why it is not kept; null where it is.
    pub not_kept: Option<String>,
}

/// What somebody said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Word {
    /// User id and name.
    pub by: String,
    /// The user id.
    pub uid: u32,
    /// `cli` or `mcp:CALLER`.
    pub channel: String,
    /// Why.
    pub reason: String,
    /// When; RFC 3339, UTC.
    pub time: String,
}

/// The terms of a release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Terms {
    /// When it ends; RFC 3339, UTC.
    pub expires: String,
    /// Runs that are left.
    pub uses: u32,
    /// The policy that it was made under.
    pub policy: String,
    /// The channel whose runs it is for; null where it is for any.
    pub only: Option<String>,
    /// Why it counts no more; null while it counts.
    pub ended: Option<String>,
}
