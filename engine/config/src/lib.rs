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
//! | [`guard`] | the guard's mode and rules |
//! | `asked_by` | who is asked for approvals |
//! | [`tools`] | upper limits for plugins |
//! | [`secrets`] | secrets that a run uses without holding them |
//! | [`fleet`] | the farm that runs are sent to |
//! | [`web`] | team mode of the page: its socket, its proxy, who reads and who decides |
//! | [`receipts`] | signed statements of runs: when, where, by which key |
//! | [`sessions`] | settings of sessions |
//! | [`models`] | tables of language models added to a file's text, and removed |
//! | [`sources`] | where the sources are read |
//! | [`template`] | text of a new file |
//! | [`mod@merge`] | all sources merged into one policy, a pure function |

#![forbid(unsafe_code)]

pub mod agents;
mod asked_by;
pub mod fleet;
pub mod guard;
pub mod limits;
pub mod merge;
pub mod models;
pub mod network;
pub mod policies;
pub mod receipts;
pub mod secrets;
pub mod sessions;
pub mod settings;
pub mod sources;
pub mod template;
pub mod tools;
pub mod typed;
pub mod upstream;
pub mod web;

pub use agents::{AgentLimits, AgentSettings};
pub use asked_by::AskedBy;
pub use fleet::FleetSettings;
pub use guard::{GuardSettings, Mode, RulesDigest};
pub use merge::{Merged, Widening, merge, merge_with};
pub use receipts::{KeySource, ReceiptSettings};
pub use secrets::{ChosenSecrets, SecretDefinition, SecretOption, SecretSettings};
pub use sessions::SessionSettings;
pub use settings::SECRET;
pub use settings::{
    EnvSetting, McpSettings, PoolSettings, QuarantineSettings, RunSettings, Settings, parse_layers,
};
pub use sources::{Configuration, PROJECT_FILE, Places, ProjectFile, find_profile, of_file, of_profile};
pub use template::TEMPLATE;
pub use tools::ToolSettings;
pub use upstream::UpstreamSetting;
pub use web::{WebListen, WebSettings};
