//! What a guest asks of the world beyond its own memory and its granted folders, as data.
//!
//! The tool host asks, and whoever started it answers: it alone knows what was granted, and it alone has a network, secrets and a
//! sandbox. Both sides share these types; the form on the wire is JSON with bytes as base64.

use serde::{Deserialize, Serialize};

use crate::BoxFuture;

/// Answers what guests ask, each for one plugin.
pub trait Broker: Send + Sync {
    /// Answers one question of the call with this number. Dropping the future takes the question back.
    fn ask(&self, call: u64, ask: Ask) -> BoxFuture<'_, Reply>;
}

/// Bytes, on the wire as base64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blob(pub Vec<u8>);

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub enum Ask {
    /// A line for the log. Answered by [`Reply::Done`].
    Log {
        /// `debug`, `info`, `warn` or `error`.
        level: String,
        /// The text, made harmless already.
        message: String,
    },
    /// How far it is. Answered by [`Reply::Done`].
    Progress {
        /// So much.
        done: u64,
        /// Of so much.
        total: Option<u64>,
        /// In words.
        message: Option<String>,
    },
    /// A setting. Answered by [`Reply::Text`].
    Config {
        /// Its key.
        key: String,
    },
    /// A placeholder for a secret, for this call. Answered by [`Reply::Text`], or by [`Refused::NotSet`].
    Secret {
        /// Its name.
        name: String,
    },
    /// The value of a key. Answered by [`Reply::Value`].
    KvGet {
        /// The key.
        key: String,
    },
    /// Sets a key. Answered by [`Reply::Done`].
    KvSet {
        /// The key.
        key: String,
        /// Its value.
        value: Blob,
    },
    /// Removes a key. Answered by [`Reply::Done`].
    KvDelete {
        /// The key.
        key: String,
    },
    /// Keys. Answered by [`Reply::Keys`].
    KvKeys {
        /// What they begin with.
        prefix: String,
    },
    /// An HTTP request, whole. Answered by [`Reply::Http`].
    Http {
        /// `GET` and so on.
        method: String,
        /// Scheme, authority, path and query.
        url: String,
        /// Names and values, which may hold placeholders.
        headers: Vec<(String, Blob)>,
        /// The body.
        body: Blob,
        /// Milliseconds for the whole exchange.
        timeout_ms: u64,
    },
    /// A sandboxed run. Answered by [`Reply::Ran`].
    Sandbox {
        /// Program and arguments.
        argv: Vec<String>,
        /// Files in the start folder.
        files: Vec<(String, Blob)>,
        /// Standard input.
        stdin: Option<Blob>,
        /// Variables.
        env: Vec<(String, String)>,
        /// Milliseconds; at most what is left to the call.
        timeout_ms: u64,
        /// Bytes.
        memory: Option<u64>,
    },
    /// A scan. Answered by [`Reply::Scanned`].
    Scan {
        /// The artifact's name.
        name: String,
        /// The artifact.
        content: Blob,
        /// Its language, when it is known.
        language: Option<String>,
    },
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reply")]
pub enum Reply {
    /// It is done.
    Done,
    /// A text, or none.
    Text {
        /// The text.
        text: Option<String>,
    },
    /// Bytes, or none.
    Value {
        /// The bytes.
        value: Option<Blob>,
    },
    /// Names.
    Keys {
        /// In order.
        keys: Vec<String>,
    },
    /// An HTTP response, whole.
    Http {
        /// The status.
        status: u16,
        /// Names and values.
        headers: Vec<(String, Blob)>,
        /// The body.
        body: Blob,
    },
    /// How a run ended.
    Ran {
        /// As in `hotcell.outcome/1`.
        cause: String,
        /// Its exit code.
        exit_code: Option<i32>,
        /// What it printed.
        stdout: Blob,
        /// Its errors.
        stderr: Blob,
        /// Whether either was cut.
        truncated: bool,
        /// In words.
        reason: Option<String>,
        /// Milliseconds.
        wall_ms: u64,
    },
    /// What a scan found.
    Scanned {
        /// `allow`, `review`, `quarantine` or `incomplete`.
        verdict: String,
        /// The language that it was read as.
        language: Option<String>,
        /// The worst first.
        findings: Vec<Finding>,
        /// What was not read, and why.
        unread: Vec<String>,
    },
    /// Nothing was done.
    Refused {
        /// Why.
        why: Refused,
    },
}

/// One finding of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's name.
    pub rule: String,
    /// How bad it is.
    pub severity: String,
    /// What it means.
    pub message: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "refused", content = "detail")]
pub enum Refused {
    /// It was not granted: which capability, in the words of `hotcell tool grant` (`net=https://example.org:443`).
    Denied(String),
    /// It is granted, and has no value.
    NotSet,
    /// Too long, too many: which limit.
    TooMuch(String),
    /// A store is full.
    Full,
    /// The question makes no sense.
    Invalid(String),
    /// The host lacks something, or the other side failed.
    Unavailable(String),
}

impl Serialize for Blob {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use base64::Engine as _;
        to.serialize_str(&base64::engine::general_purpose::STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        use base64::Engine as _;
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text.as_bytes());
        bytes.map(Self).map_err(serde::de::Error::custom)
    }
}
