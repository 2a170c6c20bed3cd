//! An item as people and programs see it: `hotcell.quarantine/1`.

use std::collections::BTreeSet;

use hotcell_guard::quarantine::{Person, State};
use hotcell_guard::{Finding, Part, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.quarantine/1";

/// List of items in the form `hotcell.quarantine/1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Items {
    /// Always `hotcell.quarantine/1`.
    pub schema: String,
    /// Items, newest first.
    pub items: Vec<Item>,
}

impl Items {
    /// A list of these items.
    #[must_use]
    pub fn new(items: Vec<Item>) -> Self {
        Self { schema: SCHEMA.to_owned(), items }
    }
}

/// A refused artifact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    /// Eight hexadecimal digits. An unambiguous prefix is enough.
    pub id: String,
    /// Digest of the artifact, as in its scan report.
    pub sha256: String,
    /// Current state, which takes the end of a release into account.
    pub state: State,
    /// The guard's verdict.
    pub verdict: Verdict,
    /// Findings, strictest first; in a list at most 20.
    pub findings: Vec<Finding>,
    /// Number of findings.
    pub findings_total: u64,
    /// Time of the first refusal; RFC 3339, UTC.
    pub submitted: String,
    /// Time when its content is removed, unless it is refused again.
    pub expires: String,
    /// Names that it was submitted under.
    pub names: Vec<String>,
    /// Size in bytes.
    pub bytes: u64,
    /// Language that it runs as, if known.
    pub language: Option<String>,
    /// Number of refusals.
    pub seen: u64,
    /// Time of the last refusal.
    pub last_seen: String,
    /// Digest of rules, version and limits that it was scanned under.
    pub policy: String,
    /// True when those are in force now.
    pub current: bool,
    /// Parts that were not read.
    pub unread: Vec<Part>,
    /// Files that need review.
    pub files: Vec<Kept>,
    /// Number of such files that are not listed.
    pub left_out: u64,
    /// Why it cannot be released; null when it can.
    pub unreleasable: Option<String>,
    /// First request for its release.
    pub request: Option<Statement>,
    /// Latest decision.
    pub decision: Option<Statement>,
    /// Latest release.
    pub release: Option<ReleaseTerms>,
    /// Word for `release --shown`: a digest of what a decision on the item depends on.
    pub shown: String,
}

/// Number of digits of [`Item::shown`]. The artifact is an enemy's, who could make two states with one short digest.
const SHOWN_CHARS: usize = 40;

impl Item {
    /// Digest of what a decision depends on. Without counts and times that change whenever a caller asks again, and without the difference
    /// between held and asked for, so that a caller cannot make each page stale. Findings and files follow from artifact and
    /// policy.
    #[must_use]
    pub fn shown_as(&self) -> String {
        let waits = matches!(self.state, State::Held | State::UnderReview);
        let state = if waits { "waits" } else { self.state.name() };
        let release = self.release.as_ref().filter(|_| !waits);
        let all = serde_json::json!([
            self.id,
            self.sha256,
            state,
            self.language,
            self.verdict,
            self.findings_total,
            self.policy,
            self.current,
            self.unreleasable,
            self.decision,
            release
        ]);
        hex::encode(Sha256::digest(all.to_string()))[..SHOWN_CHARS].to_owned()
    }
}

/// A file of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// Path in the artifact.
    pub part: String,
    /// Digest.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Why it is not kept; null when it is.
    pub not_kept: Option<String>,
}

/// A statement of a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Statement {
    /// User id and name.
    pub by: String,
    /// User id.
    pub uid: u32,
    /// `cli`, `web` or `mcp:CALLER`.
    pub channel: String,
    /// Reason.
    pub reason: String,
    /// Time; RFC 3339, UTC.
    pub time: String,
}

/// Name in the text of an actor, `UID (NAME)`; empty when it has none.
fn user_name(by: &str) -> &str {
    by.split_once(" (").and_then(|(_, name)| name.strip_suffix(')')).unwrap_or_default()
}

/// The person of a text of an actor, as the audit log has it; `None` when it is not one.
pub(super) fn person_of(by: &str, channel: &str, team: &BTreeSet<String>) -> Option<Person> {
    let uid = by.split(' ').next()?.parse().ok()?;
    Some(Person::new(uid, user_name(by), channel, team))
}

impl Statement {
    /// The person who made it; `team` are the names that may use the team's page.
    #[must_use]
    pub fn person(&self, team: &BTreeSet<String>) -> Person {
        Person::new(self.uid, user_name(&self.by), &self.channel, team)
    }
}

/// Terms of a release.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseTerms {
    /// Time when it ends; RFC 3339, UTC.
    pub expires: String,
    /// Number of runs left.
    pub uses: u32,
    /// Policy that it was made under.
    pub policy: String,
    /// Channel whose runs it is for; null for any channel.
    pub only: Option<String>,
    /// Why it is no longer valid; null while it is valid.
    pub ended: Option<String>,
}
