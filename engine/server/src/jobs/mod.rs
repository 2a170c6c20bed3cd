//! Jobs: what a run of the service does.
//!
//! | module | idea |
//! | --- | --- |
//! | [`command`] | a program or a source |
//! | [`mod@tests`] | the tests of a project |
//! | `figures` | figures of Python sources |
//! | `returned` | files that are returned |
//! | `suites` | tests in several folders, one after the other |

pub mod command;
mod figures;
pub mod returned;
pub(crate) mod suites;
pub mod tests;
