//! Sessions in which models write code for callers, and reviews. Each session is bound to its caller, has a copy of a workspace as its project, and
//! runs on a thread of its own, since a driver's work is not `Send`. At most five run at once (S2.3).

mod artifact;
mod begin;
mod choices;
mod handoff;
mod limits;
mod progress;
mod projects;
mod reviews;
mod standing;
mod suites;
mod worker;

use hotcell_state::report::{Code, ErrorReport};

pub use crate::running_agents::{Agent, Agents, Chosen, MAX_AT_ONCE};
pub use artifact::ArtifactId;
pub use begin::{Specification, Taken};
pub use handoff::{HANDOFF_SCHEMA, Handoff, HandoffFile};
pub use limits::AskedLimits;
pub use progress::{Progress, Trend};
pub use standing::Standing;

/// Kind of the note that names a session's caller.
const CALLER: &str = "caller";

/// One and the same report for unknown sessions and sessions of other callers.
fn unknown() -> ErrorReport {
    ErrorReport::new(Code::UnknownName, "there is no session of that session_id")
        .field("session_id")
        .hint("get_project_status without session_id lists yours")
}
