#![doc = include_str!("../README.md")]
//!
//! | module | idea |
//! | --- | --- |
//! | [`machine`] | `step(state, event) -> (state, effects)` |
//! | [`review`], [`loops`] | facts about an artifact; the loop guard over a list of them |
//! | [`budget`] | money, tokens, calls and time, reserved and settled |
//! | [`edit`], [`paths`] | files in a model's answer; which paths may be written |
//! | [`evidence`], [`score`], [`choose`] | a test run as evidence; the score; the ladder of candidates |
//! | [`prompt`], [`text`] | prompts, and text of programs in them |
//! | [`tree`], [`mod@bench`] | the project as a model sees it; workspaces |
//! | [`spec`], [`make`] | a specification, languages and plans; tests before code, and their judgement |
//! | [`patch`] | changes as they were when they were tested |
//! | [`journal`], [`attempt`] | rows of a session; an attempt as its rows tell it |
//! | [`driver`] | carries out effects |
//! | [`suite`], [`mutants`] | tests that a model writes, which prove themselves on mutants |
//! | [`critic`] | reviews: evidence, then a model's opinion, which only takes away |
//! | [`roles`] | the four roles as functions of JSON |
//! | [`report`] | the result |

#![forbid(unsafe_code)]

pub mod attempt;
pub mod bench;
pub mod budget;
pub mod choose;
pub mod critic;
pub mod driver;
pub mod edit;
pub mod evidence;
pub mod journal;
pub mod loops;
pub mod machine;
pub mod make;
pub mod mutants;
pub mod patch;
pub mod paths;
pub mod prompt;
pub mod report;
pub mod review;
pub mod roles;
pub mod score;
pub mod spec;
pub mod suite;
pub mod text;
pub mod tree;

pub use budget::{Limit, Limits};
pub use critic::{Depth, ReviewReport, ReviewRequest, Subject};
pub use driver::{Driver, Ended};
pub use journal::{Journal, Task};
pub use machine::{Action, Phase, Rules, State, step};
pub use report::SessionReport;
pub use roles::Role;
pub use spec::{Language, Making};
