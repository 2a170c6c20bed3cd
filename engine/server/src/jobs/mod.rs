//! Jobs: what a run of the service does.
//!
//! | module | idea |
//! | --- | --- |
//! | [`command`] | a program or a source |
//! | [`mod@tests`] | the tests of a project |
//! | `returned` | files that are returned |
//! | `suites` | tests in several folders, one after the other |

pub mod command;
pub mod returned;
pub(crate) mod suites;
pub mod tests;
