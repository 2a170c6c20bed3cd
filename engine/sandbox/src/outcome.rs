//! The result of a run, as the sandbox knows it: `hotcell.outcome/1` without the fields that `hotcell-report` adds. Nothing in it is guessed
//! from the program's output.

use std::collections::BTreeMap;

use base64::Engine as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layer::Layer;

/// Value of the `schema` field: name and version of this format.
pub const SCHEMA: &str = "hotcell.outcome/1";

/// Why a run ended. The first cause wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The program ended by itself.
    Exited,
    /// Ended by a signal that the program or the kernel sent; no limit was the reason.
    Signaled,
    /// Stopped at the limit of wall-clock time.
    WallLimit,
    /// Stopped at the limit of CPU time.
    CpuLimit,
    /// Stopped at the memory limit.
    MemoryLimit,
    /// Stopped because it kept asking for more processes than it may have.
    ProcessLimit,
    /// Stopped because its scratch space stayed full.
    DiskLimit,
    /// Stopped because it kept asking for more files than it may have.
    FileLimit,
    /// Stopped because it printed too much.
    OutputLimit,
    /// Cancelled by the caller.
    Cancelled,
    /// The guard quarantined the artifact; it was never executed.
    Quarantined,
    /// The policy could not be met; the program was never executed.
    Refused,
    /// There is no such program.
    NotFound,
    /// The program exists but cannot be executed.
    NotExecutable,
    /// hotcell itself failed.
    Internal,
}

impl Cause {
    /// Whether a limit ended the run.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(
            self,
            Self::WallLimit
                | Self::CpuLimit
                | Self::MemoryLimit
                | Self::ProcessLimit
                | Self::DiskLimit
                | Self::FileLimit
                | Self::OutputLimit
        )
    }
}

/// One captured output stream: the first and last half of the capture limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// The captured bytes, where they are UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The captured bytes, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Number of bytes written, whether captured or not.
    pub bytes: u64,
    /// Whether the middle is missing from the capture.
    pub truncated: bool,
}

impl Output {
    /// Makes an output from the captured bytes and the total number of bytes.
    #[must_use]
    pub fn new(kept: Vec<u8>, bytes: u64) -> Self {
        let truncated = bytes > kept.len() as u64;
        match String::from_utf8(kept) {
            Ok(text) => Self { text: Some(text), base64: None, bytes, truncated },
            Err(e) => Self {
                text: None,
                base64: Some(base64::engine::general_purpose::STANDARD.encode(e.as_bytes())),
                bytes,
                truncated,
            },
        }
    }

    /// The captured bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match (&self.text, &self.base64) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(b)) => base64::engine::general_purpose::STANDARD.decode(b).unwrap_or_default(),
            (None, None) => Vec::new(),
        }
    }
}

/// Resources used by the run; `null` where this host cannot measure them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Wall-clock time from release to the end, microseconds.
    pub wall_us: Option<u64>,
    /// CPU time of the whole tree, microseconds.
    pub cpu_us: Option<u64>,
    /// Peak memory of the whole tree, without scratch where the kernel counts it separately.
    pub peak_memory_bytes: Option<u64>,
    /// Peak number of processes and threads.
    pub peak_processes: Option<u64>,
    /// Bytes in scratch space at the end.
    pub disk_bytes: Option<u64>,
    /// Files and folders in scratch space at the end.
    pub disk_files: Option<u64>,
}

/// The limits that can be hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Memory.
    Memory,
    /// CPU time.
    CpuTime,
    /// Wall-clock time.
    Wall,
    /// Processes and threads.
    Processes,
    /// Bytes in scratch space.
    Disk,
    /// Files in scratch space.
    Files,
    /// Output.
    Output,
}

/// How the hit of a limit was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The kernel counted it.
    Kernel,
    /// The supervisor sampled it, every 50 ms.
    Sampled,
}

/// One limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitHit {
    /// The limit.
    pub limit: Limit,
    /// Configured value: bytes, microseconds or a count.
    pub value: u64,
    /// Time of the hit, in microseconds after release.
    pub at_us: u64,
    /// How the hit was detected.
    pub evidence: Evidence,
}

/// An operation that the program attempted and that was denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Denial {
    /// `seccomp`, `landlock` or `network`.
    pub layer: String,
    /// The system call, or the kind of request to a proxy: `connect`, `http`, `dns`, `tls`.
    pub operation: String,
    /// The arguments, or the address.
    pub target: String,
    /// The error that the program got, such as `EPERM`; `not observed` where the call was let through to fail
    /// later, as network calls are; `denied by the proxy` for denials of a sandbox's proxy; `there is no network` for names that a
    /// sandbox without one asked for.
    pub errno: String,
    /// Number of times.
    pub count: u64,
}

/// The state of one layer in a run: `"on"`, `"off"`, or `"unavailable: reason"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub enum LayerState {
    /// In force, as read back from the kernel.
    On,
    /// Not requested.
    #[default]
    Off,
    /// Requested, but this host does not offer it; with the reason.
    Unavailable(String),
}

impl From<LayerState> for String {
    fn from(state: LayerState) -> Self {
        match state {
            LayerState::On => "on".into(),
            LayerState::Off => "off".into(),
            LayerState::Unavailable(why) => format!("unavailable: {why}"),
        }
    }
}

impl From<String> for LayerState {
    fn from(text: String) -> Self {
        match text.as_str() {
            "on" => Self::On,
            "off" => Self::Off,
            other => Self::Unavailable(other.strip_prefix("unavailable: ").unwrap_or(other).to_owned()),
        }
    }
}

/// The layers that were in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layers {
    /// State by layer; complete ([`Layer::ALL`]) once a run was planned.
    #[serde(flatten)]
    pub states: BTreeMap<Layer, LayerState>,
    /// The Landlock version in force; 0 for none.
    pub landlock_abi: u32,
    /// The cgroup version in force: 2, 1, or 0 for none.
    pub cgroup_version: u32,
    /// Whether calls denied by seccomp are reported in `denials`. They are denied even where they cannot be
    /// reported.
    #[serde(default)]
    pub notifications: LayerState,
}

impl Layers {
    /// Whether this layer was in force.
    #[must_use]
    pub fn is_on(&self, layer: Layer) -> bool {
        self.states.get(&layer) == Some(&LayerState::On)
    }
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mount {
    /// Path inside (bytes that are not UTF-8 are replaced).
    pub inside: String,
    /// `system`, `scratch`, `proc`, `device`, `devpts`, `mqueue`, `workspace`, `bind`, `toolchain` or `copy`.
    pub kind: String,
    /// Whether the program may write there.
    pub writable: bool,
}

/// Duration of each phase, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timings {
    /// Waiting for a launcher.
    pub queue: u64,
    /// From the request until a sandbox is ready.
    pub setup: u64,
    /// From release until the kernel is asked to execute the program, or a waiting interpreter has its job.
    pub exec: u64,
    /// The program itself.
    pub run: u64,
    /// Reading the remaining output and files after the end.
    pub collect: u64,
    /// Waiting until the process tree is gone; 0 when that happened after the answer.
    pub teardown: u64,
    /// Total.
    pub total: u64,
    /// Steps of the set-up, as reported by the launcher and init.
    pub steps: BTreeMap<String, u64>,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Always `hotcell.outcome/1`.
    pub schema: String,
    /// Why the run ended.
    pub cause: Cause,
    /// One line for a person: why the run ended, or what to do when it was refused. `null` for a plain exit.
    pub reason: Option<String>,
    /// The program's exit code, if it exited by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended the program.
    pub signal: Option<String>,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// Resources used.
    pub usage: Usage,
    /// Limits that were reached, in order of time.
    pub limits_hit: Vec<LimitHit>,
    /// Operations that were denied; at most 200 rows.
    pub denials: Vec<Denial>,
    /// False where a layer cannot report everything that it denied.
    pub denials_complete: bool,
    /// Requests through the proxy, and those that hotcell sent with secrets that the program does not hold; `null`
    /// where the run had neither.
    #[serde(default)]
    pub requests: Option<Requests>,
    /// Files that the program asked for and that are not there inside; absent where that is not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingFiles>,
    /// Layers that were in force.
    pub layers: Layers,
    /// Mounts of the sandbox.
    pub mounts: Vec<Mount>,
    /// Duration of each phase, in microseconds.
    pub timings_us: Timings,
}

/// Files that a program asked for by an absolute path and that are not there inside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingFiles {
    /// The first 1,000, in order of first appearance.
    pub files: Vec<MissingFile>,
    /// Number of further calls, whose files are not listed.
    pub left_out: u64,
}

/// A file that a program asked for. The program says the path, and can say anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingFile {
    /// Absolute path inside.
    pub path: String,
    /// Use that the program would have made of it, at most.
    pub wanted: FileUse,
    /// Number of calls.
    pub count: u64,
}

/// Use of a file, the greater the more it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileUse {
    /// A question whether it is there and may be used.
    Look,
    /// Reading.
    Read,
    /// Writing, or making it.
    Write,
}

/// Requests through the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// Counts by the secret's name.
    #[serde(default)]
    pub secrets: std::collections::BTreeMap<String, RequestCounts>,
    /// Counts of requests without a secret; absent where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain: Option<RequestCounts>,
    /// Requests that are only counted: the history lists the first 1,000 with secrets and the first 500 others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The listed requests; the history keeps them apart from the outcome.
    #[serde(skip)]
    pub rows: Vec<RequestRow>,
}

/// Whether a count is left out.
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Counts of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestCounts {
    /// All requests.
    pub requests: u64,
    /// Requests that a rule refused; nothing was sent.
    pub denied: u64,
    /// Requests that did not reach the host, or whose answer was not usable.
    pub failed: u64,
    /// Bytes of the requests' bodies.
    pub sent_bytes: u64,
    /// Bytes of the answers' bodies.
    pub received_bytes: u64,
}

/// A request, and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestRow {
    /// Time of the request, in microseconds since 1970.
    pub at_us: i64,
    /// The request.
    #[serde(flatten)]
    pub request: ProxiedRequest,
}

/// A request through the proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProxiedRequest {
    /// Name of the secret; `null` without one.
    pub secret: Option<String>,
    /// `HOST:PORT`.
    pub host: String,
    /// Method; `CONNECT`, `SOCKS` or `RELAY` for a connection whose content is not read.
    pub method: String,
    /// Path at the host, and the names of the query's parameters, without their values; at most 300 bytes. Empty where
    /// it is not seen.
    pub path: String,
    /// Status that the host answered with.
    pub status: Option<u16>,
    /// Bytes of the request's body; all bytes where the content is not read.
    pub sent_bytes: u64,
    /// Bytes of the answer's body, or all.
    pub received_bytes: u64,
    /// `answered`, `denied` by a rule, `failed`, or `unfinished` when the run ended.
    pub ending: String,
    /// The rule that allowed or denied the request, or why it failed.
    pub rule: String,
}

impl Outcome {
    /// An outcome for a request that never started a program.
    #[must_use]
    pub fn without_a_run(cause: Cause, reason: impl Into<String>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            cause,
            reason: Some(reason.into()),
            exit_code: None,
            signal: None,
            stdout: Output::new(Vec::new(), 0),
            stderr: Output::new(Vec::new(), 0),
            usage: Usage::default(),
            limits_hit: Vec::new(),
            denials: Vec::new(),
            denials_complete: false,
            requests: None,
            missing: None,
            layers: Layers::default(),
            mounts: Vec::new(),
            timings_us: Timings::default(),
        }
    }

    /// Whether the program exited by itself with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.cause == Cause::Exited && self.exit_code == Some(0)
    }
}
