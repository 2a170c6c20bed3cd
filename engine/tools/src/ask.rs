//! Requests of a guest for anything beyond its own memory and its granted folders, as data.
//!
//! The tool host asks, and its parent process answers: only the parent knows the grants, and only the parent
//! has a network, secrets and a sandbox. Both sides share these types; the wire format is JSON with bytes as
//! base64.

use serde::{Deserialize, Serialize};

use crate::BoxFuture;

/// Answers the questions of guests, for one plugin.
pub trait Broker: Send + Sync {
    /// Answers a question of the call with this number. Dropping the future withdraws the question.
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
        /// Text, already sanitized.
        message: String,
    },
    /// Progress of the call. Answered by [`Reply::Done`].
    Progress {
        /// Amount done so far.
        done: u64,
        /// Total amount, if known.
        total: Option<u64>,
        /// Description of the current step.
        message: Option<String>,
    },
    /// A setting. Answered by [`Reply::Text`].
    Config {
        /// Key of the setting.
        key: String,
    },
    /// The keys of settings that are granted and set. Answered by [`Reply::Keys`].
    ConfigKeys,
    /// A placeholder for a secret, for this call. Answered by [`Reply::Text`], or by [`Refused::NotSet`].
    Secret {
        /// Name of the secret.
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
        /// New value.
        value: Blob,
    },
    /// Removes a key. Answered by [`Reply::Done`].
    KvDelete {
        /// The key.
        key: String,
    },
    /// Sets a key whose value is still this. Answered by [`Reply::Done`], or by [`Reply::Value`] with what is there now.
    KvSwap {
        /// The key.
        key: String,
        /// Value as it was seen, where there was one.
        seen: Option<Blob>,
        /// New value.
        value: Blob,
    },
    /// Keys. Answered by [`Reply::Keys`].
    KvKeys {
        /// Prefix of the keys to list.
        prefix: String,
    },
    /// A complete HTTP request. Answered by [`Reply::Http`].
    Http {
        /// Method, such as `GET`.
        method: String,
        /// Scheme, authority, path and query.
        url: String,
        /// Names and values, which may hold placeholders.
        headers: Vec<(String, Blob)>,
        /// The body.
        body: Blob,
        /// Time limit for the whole exchange, in milliseconds.
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
        /// Environment variables.
        env: Vec<(String, String)>,
        /// Time limit in milliseconds; at most the time left to the call.
        timeout_ms: u64,
        /// Memory limit in bytes.
        memory: Option<u64>,
    },
    /// A scan. Answered by [`Reply::Scanned`].
    Scan {
        /// The artifact's name.
        name: String,
        /// The artifact.
        content: Blob,
        /// Language of the artifact, if known.
        language: Option<String>,
    },
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reply")]
pub enum Reply {
    /// The request was carried out.
    Done,
    /// An optional text.
    Text {
        /// The text.
        text: Option<String>,
    },
    /// An optional value.
    Value {
        /// The bytes.
        value: Option<Blob>,
    },
    /// Names.
    Keys {
        /// Keys, in order.
        keys: Vec<String>,
    },
    /// A complete HTTP response.
    Http {
        /// HTTP status code.
        status: u16,
        /// Header names and values.
        headers: Vec<(String, Blob)>,
        /// The body.
        body: Blob,
    },
    /// End of a sandboxed run.
    Ran {
        /// Cause of the end, as in `hotcell.outcome/1`.
        cause: String,
        /// Exit code of the program.
        exit_code: Option<i32>,
        /// Standard output.
        stdout: Blob,
        /// Standard error.
        stderr: Blob,
        /// Whether standard output or standard error was cut.
        truncated: bool,
        /// Reason in a sentence.
        reason: Option<String>,
        /// Wall-clock time in milliseconds.
        wall_ms: u64,
    },
    /// Result of a scan.
    Scanned {
        /// `allow`, `review`, `quarantine` or `incomplete`.
        verdict: String,
        /// Language that the artifact was read as.
        language: Option<String>,
        /// Findings, the worst first.
        findings: Vec<Finding>,
        /// Parts that were not read, each with the reason.
        unread: Vec<String>,
    },
    /// The request was refused and nothing was done.
    Refused {
        /// Reason for the refusal.
        why: Refused,
    },
}

/// One finding of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Name of the rule.
    pub rule: String,
    /// Severity of the finding.
    pub severity: String,
    /// Explanation of the finding.
    pub message: String,
    /// Line number, from 1.
    pub line: u32,
    /// Column number, from 1.
    pub column: u32,
}

/// Reasons for refusing a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "refused", content = "detail")]
pub enum Refused {
    /// Not granted. Holds the missing capability as in `hotcell tool grant` (`net=https://example.org:443`).
    Denied(String),
    /// Granted, but without a value.
    NotSet,
    /// Too long or too many. Holds the limit.
    TooMuch(String),
    /// A store is full.
    Full,
    /// The request is not valid.
    Invalid(String),
    /// The host lacks something that the request needs, or the other side failed.
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
