#![doc = include_str!("../README.md")]
//!
//! | module | idea |
//! | --- | --- |
//! | [`evidence`] | one run, as far as it says something about what its program lacks |
//! | [`hosts`] | which denied host becomes a rule |
//! | [`files`] | which missing file becomes a rule |
//! | [`protected`] | the table of paths that never become one |
//! | [`suggestion`] | all runs merged into one policy |
//! | [`waiting`] | a suggestion as the person who decides sees it |
//! | `text` | the policy as a configuration with a comment for each line |

#![forbid(unsafe_code)]

pub mod evidence;
pub mod files;
pub mod hosts;
pub mod protected;
pub mod suggestion;
mod text;
pub mod waiting;

pub use evidence::{Evidence, Mark, Seen};
pub use files::{Found, HostFiles};
pub use suggestion::{FileRule, HostRule, Options, Refused, Replay, Suggestion, suggest};
pub use waiting::Suggested;
