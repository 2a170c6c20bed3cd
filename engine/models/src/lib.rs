#![doc = include_str!("../README.md")]
//!
//! | module | idea |
//! | --- | --- |
//! | [`message`] | messages, tool calls, tools, requests; rules that all providers have |
//! | [`wire`] | the three formats, both ways |
//! | [`tokens`] | tokens, money, prices with a date, cost |
//! | [`endpoint`], [`settings`] | a provider's server with a model; endpoints of a role |
//! | [`retry`], [`failure`] | pauses; failures that pass by themselves |
//! | `http` | one exchange, bounded |
//! | [`client`] | the cascade |
//! | [`mod@check`] | proof of an endpoint |
//! | [`ledger`] | usage, one row for each call |
//! | [`usage_file`] | `api_usage.json` of other programs |

#![forbid(unsafe_code)]

pub mod check;
pub mod client;
pub mod endpoint;
pub mod failure;
mod http;
pub mod ledger;
pub mod message;
pub mod retry;
pub mod settings;
pub mod tokens;
pub mod usage_file;
pub mod wire;

pub use check::{Check, check};
pub use client::{Client, ModelError, Reply, Tried};
pub use endpoint::{Endpoint, EndpointError, Prompts, Provider};
pub use http::MAX_REPLY_BYTES;
pub use ledger::{Ledger, LedgerReader, Purpose};
pub use message::{Arguments, Message, Request, Stop, Tool, ToolCall};
pub use settings::{Endpoints, ModelSettings, SettingsError};
pub use tokens::{Cost, Money, Price, PriceTable, Tokens};
pub use wire::Wire;
