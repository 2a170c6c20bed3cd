//! Configuration: the user's file, the project's file, the environment and the request, joined into one policy.
//!
//! The order: profile, user's file, environment, project's file, request; the later wins. A project's own file comes
//! with code that nobody has read, so it can only tighten what stands before it: a key that would widen it is an
//! error that names it.
//!
//! | module | idea |
//! | --- | --- |
//! | [`settings`] | what one source says |
//! | [`sources`] | where it is read |
//! | [`mod@merge`] | all of them as one policy, which is pure |

pub mod merge;
pub mod settings;
pub mod sources;

pub use merge::{Merged, Widening, merge};
pub(crate) use settings::SECRET;
pub use settings::{EnvSetting, HotSettings, McpSettings, QuarantineSettings, Settings, parse_layers};
pub use sources::{Configuration, PROJECT_FILE, Places, ProjectFile, find_profile, of_file, of_profile};
