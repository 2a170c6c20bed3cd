//! Limits of one tool call. Each limit has a name of its own, so that an error says which one was reached.

use std::fmt;
use std::time::Duration;

use hotcell_sandbox::Bytes;
use serde::{Deserialize, Serialize};

/// Size of a guest's stack, in bytes. Parsers recurse deeply, so it is twice wasmtime's default.
pub(crate) const STACK_BYTES: usize = 1 << 20;

/// The limits of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// All linear memories together, and the blobs, lines and header fields of HTTP requests that the host
    /// keeps for the guest. Default: 64 MiB.
    pub memory: Bytes,
    /// Number of tables. Default: 8.
    pub tables: u32,
    /// Elements of each table. Default: 20,000; a pool holds 100,000 at most.
    pub table_elements: u32,
    /// Number of core instances. Default: 32.
    pub instances: u32,
    /// Handles that the guest may hold (`resource.new` and received ones). Default: 1,000.
    pub handles: u32,
    /// Entries of the host's table of resources: open files, streams, requests. Default: 1,000.
    pub resources: u32,
    /// Bytes of the host's own memory that one crossing from the guest may fill: an import's arguments, or
    /// the answer. Text and bytes for an import count by their length, any other element of a list as the 40
    /// bytes that a value takes; so an answer may be a `list<u8>` of 1.2 million, and a blob of any size.
    /// Default: 48 MiB.
    pub copied: Bytes,
    /// Output, both streams together. Default: 1 MiB.
    pub output: Bytes,
    /// Answer, as JSON. Default: 4 MiB.
    pub result: Bytes,
    /// Arguments, as JSON. Default: 4 MiB.
    pub arguments: Bytes,
    /// Nesting depth of answer and arguments. Default: 64.
    pub depth: u32,
    /// Wall-clock time, including sleep in the host. Default: 10 s.
    pub wall: Duration,
    /// Calls of one plugin at the same time; further ones wait. Default: 4.
    pub concurrent: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: Bytes::mib(64),
            tables: 8,
            table_elements: 20_000,
            instances: 32,
            handles: 1_000,
            resources: 1_000,
            copied: Bytes::mib(48),
            output: Bytes::mib(1),
            result: Bytes::mib(4),
            arguments: Bytes::mib(4),
            depth: 64,
            wall: Duration::from_secs(10),
            concurrent: 4,
        }
    }
}

/// Limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// [`Limits::memory`].
    Memory,
    /// [`Limits::tables`].
    Tables,
    /// [`Limits::table_elements`].
    TableElements,
    /// [`Limits::instances`].
    Instances,
    /// [`Limits::handles`].
    Handles,
    /// [`Limits::resources`].
    Resources,
    /// [`Limits::copied`].
    Copied,
    /// [`Limits::output`].
    Output,
    /// [`Limits::result`].
    Result,
    /// [`Limits::arguments`].
    Arguments,
    /// [`Limits::depth`].
    Depth,
    /// [`Limits::wall`].
    Wall,
    /// Size of the guest's stack, which the host sets.
    Stack,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Tables => "tables",
            Self::TableElements => "table elements",
            Self::Instances => "instances",
            Self::Handles => "handles",
            Self::Resources => "resources",
            Self::Copied => "copied bytes",
            Self::Output => "output",
            Self::Result => "result",
            Self::Arguments => "arguments",
            Self::Depth => "depth",
            Self::Wall => "wall clock",
            Self::Stack => "stack",
        })
    }
}
