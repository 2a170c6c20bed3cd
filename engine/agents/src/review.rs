//! A review: measured facts about one artifact of a session.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Facts about an artifact, from its tests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// Digest of the artifact's content.
    pub artifact: String,
    /// Ids of tests that are not good.
    pub failing: BTreeSet<String>,
    /// Score, 0 to 100.
    pub score: u8,
    /// All gates are passed: the report is valid, the guard took no offence, all given tests are there and pass.
    pub accepted: bool,
}

impl Review {
    /// Order of artifacts, from bad to good.
    #[must_use]
    pub fn rank(&self) -> (bool, u8, std::cmp::Reverse<usize>) {
        (self.accepted, self.score, std::cmp::Reverse(self.failing.len()))
    }

    /// Tells if another review is of equal content with an equal result.
    #[must_use]
    pub fn is_repeat_of(&self, other: &Self) -> bool {
        self.artifact == other.artifact && self.failing == other.failing
    }
}
