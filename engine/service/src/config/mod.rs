//! Configuration: the user's file, the project's file, the environment and the request, merged into one
//! policy.
//!
//! The order is: profile, user's file, environment, project's file, request; later ones take precedence. A
//! project's file comes with unreviewed code, so it can only tighten the earlier sources: a key that would
//! widen them is an error that names it.
//!
//! | module | idea |
//! | --- | --- |
//! | [`settings`] | settings of one source |
//! | [`sources`] | where the sources are read |
//! | [`mod@merge`] | all sources merged into one policy, a pure function |

pub mod merge;
pub mod settings;
pub mod sources;

pub use merge::{Merged, Widening, merge};
pub(crate) use settings::SECRET;
pub use settings::{EnvSetting, HotSettings, McpSettings, QuarantineSettings, Settings, parse_layers};
pub use sources::{Configuration, PROJECT_FILE, Places, ProjectFile, find_profile, of_file, of_profile};
