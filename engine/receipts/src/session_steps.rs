//! Steps of an interpreter session, as its receipt states them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stated::Stated;

/// Steps of an interpreter session: its cells, and the pieces of files that were put in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSteps {
    /// Language.
    pub language: String,
    /// Packages that it was given, as `NAME==VERSION`.
    pub packages: Vec<String>,
    /// Number of cells, those that the guard refused included.
    pub cells: u64,
    /// Number of pieces of files.
    pub uploads: u64,
    /// Number of steps that have another status than `ok`.
    pub not_ok: u64,
    /// True if it was ended on request or by a bound of sessions, and neither by itself nor by a limit.
    pub closed: bool,
    /// SHA-256 of one line for each step: kind, `sha256` and status, with a zero byte between.
    pub steps_sha256: String,
    /// The first 32 steps.
    pub steps: Vec<SessionStep>,
}

/// One step of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionStep {
    /// `cell`, or `upload` for a piece of a file.
    pub kind: String,
    /// SHA-256 of the code of a cell; of an upload's path, a zero byte and the piece.
    pub sha256: String,
    /// `ok`, `error`, `interrupted`, `refused` (by the guard, or a file that was not written), `died` (with the session), or `lost`: its caller went away. **The
    /// interpreter says which of the first three it is**, and a hostile cell can forge that.
    pub status: String,
}

impl SessionSteps {
    /// Result that a receipt states. `succeeded`: the interpreter ended by itself with 0.
    pub(crate) fn stated(&self, succeeded: bool) -> Stated {
        let is_good = self.cells > 0 && self.not_ok == 0 && (self.closed || succeeded);
        if is_good { Stated::Passed } else { Stated::Failed }
    }
}
