//! Output for people, from the reports that `--json` prints.

pub(crate) mod approvals;
pub(crate) mod bench;
pub(crate) mod changes;
pub(crate) mod diff;
pub(crate) mod har;
pub(crate) mod quarantine;
pub(crate) mod scan;
pub(crate) mod tests;
