//! Rule packs: YAML files, one rule per document.
//!
//! The format is ast-grep's (`id`, `language`, `severity`, `message`, our fields under `metadata:`). A rule
//! has either ast-grep's `rule:`, which is matched on the tree, or `match:`, which refers to the results of
//! name resolution and evaluation. Every rule is checked against its own examples when its pack loads.

mod class;
mod golang;
mod groups;
mod interpreter;
mod matching;
mod network;
mod obeyed;
mod pack;
mod path;
mod pattern;
mod persist;
mod program;
mod pushes;
mod remote;
mod schema;
mod structure;
mod when;
mod words;

pub use pack::{Pack, PackError};
pub use schema::{Match, Metadata, Rule, When};

pub(crate) use class::{ADMINISTRATOR, SERVICE_TOKEN, TOKEN};
pub(crate) use golang::{Does, effect};
pub(crate) use groups::{CLOSED_ENGINE, closes_engine, opens_engine};
pub(crate) use interpreter::{is_fed_interpreter, started};
pub(crate) use matching::{Call, Spot, TextKind};
pub(crate) use network::{
    address_at, asks_model, is_open_address, is_request_of_javascript, receives, requests_address,
};
pub(crate) use path::{basename, is_home_whole, is_of_an_image, is_root_like};
pub(crate) use program::{FOUND_PROGRAM, given_as_option};
pub(crate) use pushes::{pushed_by, pushed_to};
pub(crate) use remote::{line_at, remote_of_javascript, remote_of_python};
pub(crate) use structure::{Grammar, found};
pub(crate) use when::authorises;
pub(crate) use words::{is_dump, is_secret, is_shell, names_backups};
