#![doc = include_str!("../README.md")]
//!
//! | module | idea |
//! | --- | --- |
//! | [`verb`] | names: `review.analyze@v1` |
//! | [`template`] | values with `{{inputs.x}}` and `{{tools.y.z}}` |
//! | [`definition`] | a definition file, checked |
//! | [`keys`] | keys of a file that are not known |
//! | [`catalog`] | the examples and the operator's folder |
//! | [`inputs`] | values of a call, checked |
//! | [`plan`] | order of the tools |
//! | [`schema`] | the answer's schema, and answers checked |
//! | [`returns`] | an answer from the data |
//! | [`prompt`] | text for a model with the data in a block, and its answer read |
//! | [`response`] | the response, one form for both modes |
//! | [`cache`] | results that are kept for a while |
//! | [`tools`] | calls of plugins' tools |
//! | [`ask`] | a model asked within a budget |
//! | [`mod@execute`] | one call of a verb |

#![forbid(unsafe_code)]

pub mod ask;
pub mod cache;
pub mod catalog;
pub mod definition;
pub mod execute;
pub mod inputs;
pub mod keys;
pub mod plan;
pub mod prompt;
pub mod response;
pub mod returns;
pub mod schema;
pub mod template;
pub mod tools;
pub mod verb;

pub use ask::{Means, Recorder};
pub use cache::Cache;
pub use catalog::{Catalog, Source};
pub use definition::Definition;
pub use execute::{Options, execute};
pub use inputs::Inputs;
pub use response::{Mode, Response};
pub use tools::{PluginTools, Tools};
pub use verb::Verb;
