//! What a run came to: one type, `hotcell.outcome/1`. Nothing in it is guessed from what a program printed.

use std::collections::BTreeMap;

use base64::Engine as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layer::Layer;

/// The name of this form in its `schema` field.
pub const SCHEMA: &str = "hotcell.outcome/1";

/// Why a run ended. The first cause wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The program ended by itself.
    Exited,
    /// A signal that the program or the kernel sent ended it; no limit was the reason.
    Signaled,
    /// Stopped at the wall clock.
    WallLimit,
    /// Stopped at the limit of CPU time.
    CpuLimit,
    /// Stopped at the memory limit.
    MemoryLimit,
    /// Stopped because it kept asking for more processes than it may have.
    ProcessLimit,
    /// Stopped because its scratch stayed full.
    DiskLimit,
    /// Stopped because it kept asking for more files than it may have.
    FileLimit,
    /// Stopped because it printed too much.
    OutputLimit,
    /// The caller cancelled it.
    Cancelled,
    /// The guard quarantined the artifact; it never ran.
    Quarantined,
    /// The policy could not be met; it never ran.
    Refused,
    /// There is no such program.
    NotFound,
    /// The program exists and cannot be executed.
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

/// One output stream as kept: the first and last half of the capture limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// The kept bytes, where they are UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The kept bytes, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// All that was written, kept or not.
    pub bytes: u64,
    /// Whether the middle is missing.
    pub truncated: bool,
}

impl Output {
    /// From the kept bytes and the count of all.
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

    /// The kept bytes again.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match (&self.text, &self.base64) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(b)) => base64::engine::general_purpose::STANDARD.decode(b).unwrap_or_default(),
            (None, None) => Vec::new(),
        }
    }
}

/// What the run used; `null` where this host cannot measure it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Wall clock from release to the end, microseconds.
    pub wall_us: Option<u64>,
    /// CPU time of the whole tree, microseconds.
    pub cpu_us: Option<u64>,
    /// Highest memory of the whole tree, scratch left out where the kernel tells.
    pub peak_memory_bytes: Option<u64>,
    /// Most processes and threads at once.
    pub peak_processes: Option<u64>,
    /// Bytes in scratch at the end.
    pub disk_bytes: Option<u64>,
    /// Files and folders in scratch at the end.
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
    /// Wall clock.
    Wall,
    /// Processes and threads.
    Processes,
    /// Bytes on scratch.
    Disk,
    /// Files on scratch.
    Files,
    /// Output.
    Output,
}

/// How a hit was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The kernel counted it.
    Kernel,
    /// The supervisor measured it, every 50 ms.
    Sampled,
}

/// One limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitHit {
    /// Which.
    pub limit: Limit,
    /// Its value: bytes, microseconds or a count.
    pub value: u64,
    /// When, in microseconds after release.
    pub at_us: u64,
    /// How it was noticed.
    pub evidence: Evidence,
}

/// Something that the program tried and was not allowed to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Denial {
    /// `seccomp`, `landlock` or `network`.
    pub layer: String,
    /// The system call, or what a proxy was asked for: `connect`, `http`, `dns`, `tls`.
    pub operation: String,
    /// Its arguments, or the address.
    pub target: String,
    /// The error that the program got, such as `EPERM`; `not observed` where the call was let through to fail by
    /// itself, as network calls are; `denied by the proxy` for what a sandbox's proxy denied.
    pub errno: String,
    /// How often.
    pub count: u64,
}

/// The state of one layer in a run: `"on"`, `"off"`, or `"unavailable: why"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
pub enum LayerState {
    /// In force, and read back.
    On,
    /// Not asked for.
    #[default]
    Off,
    /// Asked for, and this host does not offer it.
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

/// What was in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layers {
    /// State by layer; every layer of [`Layer::ALL`] stands here once a run was planned.
    #[serde(flatten)]
    pub states: BTreeMap<Layer, LayerState>,
    /// The Landlock version in force; 0 without.
    pub landlock_abi: u32,
    /// Version of the cgroup tree in force: 2, 1, or 0 for none.
    pub cgroup_version: u32,
    /// Whether what seccomp denies is reported in `denials`. Where it cannot be, it is denied all the same.
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

/// One thing that was mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mount {
    /// Path inside (non-UTF-8 bytes replaced).
    pub inside: String,
    /// `system`, `scratch`, `proc`, `device`, `devpts`, `mqueue`, `workspace`, `bind`, `toolchain` or `copy`.
    pub kind: String,
    /// Whether the program may write there.
    pub writable: bool,
}

/// Where the time went, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timings {
    /// Waiting for a launcher.
    pub queue: u64,
    /// From the request to a sandbox that is ready.
    pub setup: u64,
    /// From release until the kernel is asked for the program, or an interpreter that waited has its job.
    pub exec: u64,
    /// The program itself.
    pub run: u64,
    /// Reading what was left after the end.
    pub collect: u64,
    /// Waiting for the tree to be gone; 0 when that happened after the answer.
    pub teardown: u64,
    /// All of it.
    pub total: u64,
    /// The steps of the set-up, as the launcher and init saw them.
    pub steps: BTreeMap<String, u64>,
}

/// One change in a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Path below the workspace.
    pub path: String,
    /// What happened to it.
    pub kind: ChangeKind,
    /// Its size now.
    pub bytes: u64,
}

/// The kinds of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// New.
    Added,
    /// Other bytes or mode.
    Modified,
    /// Gone.
    Deleted,
    /// A file became a folder, and the like.
    TypeChanged,
}

/// Changes taken over into the original of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Commit {
    /// How many paths were taken over.
    pub done: u64,
    /// Paths that were not, and why.
    pub left: Vec<LeftOut>,
    /// Why nothing, or not all, was taken over; `null` when it was.
    pub error: Option<String>,
    /// Paths that somebody else changed since the program saw them.
    pub conflicts: Vec<String>,
}

/// A change that was not taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Path below the workspace.
    pub path: String,
    /// Why.
    pub why: String,
}

/// How the source was compiled before it ran, or did not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compile {
    /// The compiler and its arguments, as inside.
    pub command: Vec<String>,
    /// Whether it made a program. `false` is the reason why nothing else ran: the rest of the outcome is the
    /// compiler's then.
    pub done: bool,
    /// How long it took, in microseconds.
    pub wall_us: Option<u64>,
    /// What it said, the first 1,000 rows.
    pub diagnostics: Vec<Diagnostic>,
}

/// One thing that a compiler said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostic {
    /// The file, below the workspace or by its own name; `null` for what a linker says.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column, from 1, where the compiler tells.
    pub column: Option<u32>,
    /// How bad it is.
    pub severity: Severity,
    /// The compiler's own name for it, such as `E0308` or `-Wunused-variable`.
    pub code: Option<String>,
    /// What is wrong.
    pub message: String,
}

/// How bad a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// There is no program.
    Error,
    /// There is one, and it may not be what was meant.
    Warning,
    /// More about the one before.
    Note,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Always `hotcell.outcome/1`.
    pub schema: String,
    /// Why it ended.
    pub cause: Cause,
    /// One line for a person: what ended it, or what to do when it was refused. `null` for a plain exit.
    pub reason: Option<String>,
    /// The program's own exit code, when it ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<String>,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// What it used.
    pub usage: Usage,
    /// Limits that were reached, in time order.
    pub limits_hit: Vec<LimitHit>,
    /// What it tried and was not allowed to do; at most 200 rows.
    pub denials: Vec<Denial>,
    /// False where a layer cannot tell of all it denied.
    pub denials_complete: bool,
    /// What was in force.
    pub layers: Layers,
    /// What was mounted.
    pub mounts: Vec<Mount>,
    /// Where the time went.
    pub timings_us: Timings,
    /// Changes in the workspace, the first 10,000 by path; `null` where they are not collected.
    pub changes: Option<Vec<Change>>,
    /// The changes as a unified diff; `null` where it was not asked for.
    pub diff: Option<String>,
    /// What became of the changes that were to be taken over into the original; `null` where nobody asked.
    pub commit: Option<Commit>,
    /// How the source was compiled; `null` where nothing had to be.
    #[serde(default)]
    pub compile: Option<Compile>,
    /// What became of the changes that were to stay in a workspace that stays; `null` where there is none, or nobody asked.
    pub kept: Option<Commit>,
    /// The guard's report; `null` where nothing was scanned.
    pub scan: Option<serde_json::Value>,
}

impl Outcome {
    /// An outcome in which nothing ran.
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
            layers: Layers::default(),
            mounts: Vec::new(),
            timings_us: Timings::default(),
            changes: None,
            diff: None,
            commit: None,
            compile: None,
            kept: None,
            scan: None,
        }
    }

    /// Whether the program ended by itself with exit code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.cause == Cause::Exited && self.exit_code == Some(0)
    }
}
