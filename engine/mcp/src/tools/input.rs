//! What the tools take. The comments are what a model reads.

use std::collections::BTreeMap;

use base64::Engine as _;
use hotcell_service::live::AskedLimits;
use hotcell_service::live::workspaces::NewFile;
use hotcell_service::report::{Code, ErrorReport};
use hotcell_service::request::Language as Known;
use schemars::JsonSchema;
use serde::Deserialize;

use super::one_of;

/// How long a call waits for the end of its run, in milliseconds.
pub const WAIT_MS: u64 = 30_000;
/// The longest wait.
pub const LONGEST_WAIT_MS: u64 = 600_000;

const fn wait() -> u64 {
    WAIT_MS
}

/// A language.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// Python 3
    Python,
    /// Bash
    Bash,
    /// JavaScript, by node
    #[serde(rename = "javascript")]
    JavaScript,
    /// TypeScript, by tsc and node
    #[serde(rename = "typescript")]
    TypeScript,
    /// Go
    Go,
    /// Rust, edition 2021
    Rust,
    /// C
    C,
    /// C++20
    Cpp,
    /// Java
    Java,
    /// SQL, by SQLite
    Sql,
    /// SQL, by a PostgreSQL of its own
    #[serde(rename = "postgresql")]
    PostgreSql,
}

impl From<Language> for Known {
    fn from(language: Language) -> Self {
        match language {
            Language::Python => Self::Python,
            Language::Bash => Self::Bash,
            Language::JavaScript => Self::JavaScript,
            Language::TypeScript => Self::TypeScript,
            Language::Go => Self::Go,
            Language::Rust => Self::Rust,
            Language::C => Self::C,
            Language::Cpp => Self::Cpp,
            Language::Java => Self::Java,
            Language::Sql => Self::Sql,
            Language::PostgreSql => Self::PostgreSql,
        }
    }
}

/// A file to save.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Path below the folder, such as src/main.py.
    pub path: String,
    /// Its text. Give either content or base64.
    #[serde(default)]
    pub content: Option<String>,
    /// Its bytes in base64, for what is not text.
    #[serde(default)]
    pub base64: Option<String>,
    /// Whether it can be executed.
    #[serde(default)]
    pub executable: bool,
}

/// Reads the files of an argument.
pub fn files(files: Vec<File>) -> Result<Vec<NewFile>, ErrorReport> {
    let read = |(at, file): (usize, File)| {
        let bytes = match (file.content, file.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(base64)) => {
                base64::engine::general_purpose::STANDARD.decode(base64).map_err(|e| {
                    ErrorReport::new(Code::InvalidValue, format!("files[{at}].base64 is not base64: {e}"))
                        .field(format!("files[{at}].base64"))
                })?
            }
            _ => return Err(one_of(&format!("files[{at}].content"), "base64")),
        };
        Ok(NewFile { path: file.path, bytes, executable: file.executable })
    };
    files.into_iter().enumerate().map(read).collect()
}

/// `scan_artifact`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScanArtifact {
    /// The workspace to read. Give either workspace_id or files.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Files to read; nothing of them is kept.
    #[serde(default)]
    pub files: Vec<File>,
}

/// `quarantine_show`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuarantineShow {
    /// The item, or the beginning of its id.
    pub id: String,
}

/// `quarantine_request`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuarantineRequest {
    /// The item, or the beginning of its id.
    pub id: String,
    /// Why it should run, for the person who decides.
    pub reason: String,
}

/// `run_code`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCode {
    /// The language of the source.
    pub language: Language,
    /// The source.
    pub code: String,
    /// Further files, in the folder in which the program starts.
    #[serde(default)]
    pub files: Vec<File>,
    /// What the program reads from standard input, at most 1 MiB.
    #[serde(default)]
    pub stdin: String,
    /// The program's arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// An image of the operator's to run in, in place of the host's programs.
    #[serde(default)]
    pub image: Option<String>,
    /// Hosts that it may reach, each HOST:PORT, such as pypi.org:443. A person has to approve the call first.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub network: Vec<String>,
    /// Limits, at most the operator's, which are the default.
    #[serde(default)]
    pub limits: AskedLimits,
    /// How long to wait for the end, in milliseconds, 0 to 600,000. The run goes on when the time is over.
    #[serde(default = "wait")]
    #[schemars(range(max = 600_000))]
    pub wait_ms: u64,
    /// A text of yours: a second call with it gives the same run and starts nothing.
    #[serde(default)]
    #[schemars(length(min = 1, max = 128))]
    pub idempotency_key: Option<String>,
}

/// `run_command`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCommand {
    /// The program and its arguments.
    #[schemars(length(min = 1))]
    pub argv: Vec<String>,
    /// The workspace to start in, from workspace_create.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Leave what it changes in the workspace, however it ends: the next call sees it. Needs workspace_id.
    #[serde(default)]
    pub keep: bool,
    /// Show what it changed, as changes and diff. Needs workspace_id.
    #[serde(default)]
    pub diff: bool,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// What the program reads from standard input, at most 1 MiB.
    #[serde(default)]
    pub stdin: String,
    /// An image of the operator's to run in, in place of the host's programs.
    #[serde(default)]
    pub image: Option<String>,
    /// Hosts that it may reach, each HOST:PORT, such as pypi.org:443. A person has to approve the call first.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub network: Vec<String>,
    /// Limits, at most the operator's, which are the default.
    #[serde(default)]
    pub limits: AskedLimits,
    /// How long to wait for the end, in milliseconds, 0 to 600,000. The run goes on when the time is over.
    #[serde(default = "wait")]
    #[schemars(range(max = 600_000))]
    pub wait_ms: u64,
    /// A text of yours: a second call with it gives the same run and starts nothing.
    #[serde(default)]
    #[schemars(length(min = 1, max = 128))]
    pub idempotency_key: Option<String>,
}

/// `run_tests`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunTests {
    /// The project's workspace, from workspace_create. Give either workspace_id or files.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// The project's files, for one call.
    #[serde(default)]
    pub files: Vec<File>,
    /// Leave what it changes in the workspace, however it ends: the next call sees it. Needs workspace_id.
    #[serde(default)]
    pub keep: bool,
    /// Show what it changed, as changes and diff. Needs workspace_id.
    #[serde(default)]
    pub diff: bool,
    /// pytest, unittest, jest, vitest, mocha, jasmine, karma, node, cargo, nextest, go, gtest, junit or pgtap; else what the project looks like: of
    /// several folders with tests, each.
    #[serde(default)]
    pub framework: Option<String>,
    /// Which tests: an id from an earlier report, a path or an expression, as the framework reads it; or a folder with tests.
    #[serde(default)]
    pub filter: Option<String>,
    /// Measure which lines the tests run.
    #[serde(default)]
    pub coverage: bool,
    /// An image of the operator's to run in, in place of the host's programs.
    #[serde(default)]
    pub image: Option<String>,
    /// Hosts that they may reach, each HOST:PORT, such as pypi.org:443. A person has to approve the call first.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub network: Vec<String>,
    /// Limits, at most the operator's, which are the default.
    #[serde(default)]
    pub limits: AskedLimits,
    /// How long to wait for the end, in milliseconds, 0 to 600,000. The run goes on when the time is over.
    #[serde(default = "wait")]
    #[schemars(range(max = 600_000))]
    pub wait_ms: u64,
    /// A text of yours: a second call with it gives the same run and starts nothing.
    #[serde(default)]
    #[schemars(length(min = 1, max = 128))]
    pub idempotency_key: Option<String>,
}

/// `run_status`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunStatus {
    /// The run, from the answer of run_code, run_command or run_tests.
    pub run_id: String,
    /// How long to wait for the end, in milliseconds, 0 to 600,000.
    #[serde(default)]
    #[schemars(range(max = 600_000))]
    pub wait_ms: u64,
}

/// One of a program's streams.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output
    Stdout,
    /// Standard error
    Stderr,
}

impl From<Stream> for hotcell_service::live::Stream {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Stdout => Self::Stdout,
            Stream::Stderr => Self::Stderr,
        }
    }
}

/// `run_output`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunOutput {
    /// The run.
    pub run_id: String,
    /// Which of its streams.
    pub stream: Stream,
    /// From which byte on.
    #[serde(default)]
    pub offset: u64,
}

/// `run_cancel`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCancel {
    /// The run.
    pub run_id: String,
}

/// `workspace_create`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceCreate {
    /// Files to begin with.
    #[serde(default)]
    pub files: Vec<File>,
    /// A folder of the host that it shows, an absolute path; only those that the operator allows. The folder itself changes by
    /// workspace_commit alone.
    #[serde(default)]
    pub folder: Option<String>,
}

/// `workspace_write`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceWrite {
    /// The workspace.
    pub workspace_id: String,
    /// The files.
    #[schemars(length(min = 1))]
    pub files: Vec<File>,
}

/// `workspace_read`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceRead {
    /// The workspace.
    pub workspace_id: String,
    /// The file's path in it.
    pub path: String,
    /// From which byte on.
    #[serde(default)]
    pub offset: u64,
}

/// `workspace_list`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceList {
    /// The workspace; without it your workspaces are listed.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// A folder in it.
    #[serde(default)]
    pub path: Option<String>,
}

/// `workspace_remove`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceRemove {
    /// The workspace.
    pub workspace_id: String,
    /// A file or folder in it; without it the whole workspace is removed.
    #[serde(default)]
    pub path: Option<String>,
}

/// `workspace_diff`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceDiff {
    /// The workspace.
    pub workspace_id: String,
    /// From which byte of the diff on.
    #[serde(default)]
    pub offset: u64,
}

/// `workspace_commit`, `workspace_fork`, `workspace_export`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceNamed {
    /// The workspace.
    pub workspace_id: String,
}

/// `workspace_discard`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceDiscard {
    /// The workspace.
    pub workspace_id: String,
    /// A snapshot; without it, how the workspace began: its folder as it is now, or nothing.
    #[serde(default)]
    pub to: Option<String>,
}

/// `workspace_snapshot`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceSnapshot {
    /// The workspace.
    pub workspace_id: String,
    /// A name for its present state.
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
}

/// No arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}
