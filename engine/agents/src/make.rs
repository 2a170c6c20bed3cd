//! Code from a specification: `hotcell make`. An architect plans, a tester writes tests from specification and plan, and the tests are judged on a stub
//! before a coder's work is judged by them.
//!
//! | module | idea |
//! | --- | --- |
//! | [`judge`] | tests that fail on a stub, and tests that do not |
//! | [`prompt`] | prompts of architect and tester |
//! | [`record`] | the two stages as their rows tell them |
//! | [`output`] | the folder of the result |
//! | [`report`] | the stages in a session's report |

pub mod judge;
pub mod output;
pub mod prompt;
pub mod record;
pub mod report;

pub use record::{Stage, Stages};
