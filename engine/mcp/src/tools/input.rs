//! Arguments of the tools. Their comments are descriptions for a model.

use std::collections::BTreeMap;

use hotcell_server::AskedLimits;
use hotcell_server::workspaces::NewFile;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_tools::mapping::bytes::decode;
use hotcell_verbs::request::Language as Known;
use schemars::JsonSchema;
use serde::Deserialize;

use super::one_of;

/// Maximum wait, in milliseconds.
pub const MAX_WAIT_MS: u64 = 600_000;

/// A programming language.
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
    /// Text of the file. Give either content or base64.
    #[serde(default)]
    #[schemars(extend("x-empty-counts" = true))]
    pub content: Option<String>,
    /// Bytes of the file in base64, for a file that is not text.
    #[serde(default)]
    #[schemars(extend("x-empty-counts" = true))]
    pub base64: Option<String>,
    /// Whether the file is executable.
    #[serde(default)]
    pub executable: bool,
}

/// Bytes that an argument has as text in `content` or in `base64`; `within` is the path of the two fields.
///
/// # Errors
/// A report when both or neither are given, or the bytes cannot be decoded.
pub fn bytes_of(
    within: &str,
    content: Option<String>,
    base64: Option<String>,
) -> Result<Vec<u8>, ErrorReport> {
    match (content, base64) {
        // A caller that has to send both fields leaves one empty.
        (Some(text), None) => Ok(text.into_bytes()),
        (Some(text), Some(empty)) if empty.is_empty() => Ok(text.into_bytes()),
        (Some(text), Some(_)) if !text.is_empty() => Err(one_of(&format!("{within}content"), "base64")),
        (_, Some(base64)) => decode(&base64).map_err(|why| {
            ErrorReport::new(Code::InvalidValue, format!("{within}base64 is not base64: {why}"))
                .field(format!("{within}base64"))
                .hint("give what is text in content")
        }),
        (None, None) => Err(one_of(&format!("{within}content"), "base64")),
    }
}

/// Converts the files of an argument.
pub fn files(files: Vec<File>) -> Result<Vec<NewFile>, ErrorReport> {
    let read = |(at, file): (usize, File)| {
        let bytes = bytes_of(&format!("files[{at}]."), file.content, file.base64)?;
        Ok(NewFile { path: file.path, bytes, executable: file.executable })
    };
    files.into_iter().enumerate().map(read).collect()
}

/// Arguments of `scan_artifact`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScanArtifact {
    /// The workspace to read. Give either workspace_id or files.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Files to read; they are not kept.
    #[serde(default)]
    pub files: Vec<File>,
}

/// Arguments of `quarantine_show`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuarantineShow {
    /// The item, or the beginning of its id.
    pub id: String,
}

/// Arguments of `quarantine_request`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuarantineRequest {
    /// The item, or the beginning of its id.
    pub id: String,
    /// Reason to run it, for the person who decides.
    pub reason: String,
}

/// Arguments of each tool that starts a run. They stand in the tools' own, which refuse unknown names by their schemas.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RunArguments {
    /// An image of the operator's.
    #[serde(default)]
    pub image: Option<String>,
    /// HOST:PORT or secret:NAME; a person approves first.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub network: Vec<String>,
    /// Globs of files to return.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub outputs: Vec<String>,
    /// At most the operator's, the default.
    #[serde(default)]
    pub limits: AskedLimits,
    /// Wait for its end, by default 25000; the run goes on.
    #[serde(default)]
    #[schemars(range(max = 600_000))]
    pub wait_ms: Option<u64>,
    /// Also layers, mounts, times, passed tests.
    #[serde(default)]
    pub verbose: bool,
    /// Repeated, it returns the same run.
    #[serde(default)]
    #[schemars(length(min = 1, max = 128))]
    pub idempotency_key: Option<String>,
}

/// Arguments of `run_code`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct RunCode {
    /// Language of the source; sql is SQLite's.
    pub language: Language,
    /// The source.
    pub code: String,
    /// Further files beside it.
    #[serde(default)]
    pub files: Vec<File>,
    /// Standard input, at most 1 MiB.
    #[serde(default)]
    pub stdin: String,
    /// The program's arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Arguments of each run.
    #[serde(flatten)]
    pub run: RunArguments,
}

/// Arguments of `run_command`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct RunCommand {
    /// The program and its arguments.
    #[schemars(length(min = 1))]
    pub argv: Vec<String>,
    /// Workspace to start in.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// Keep its changes in the workspace.
    #[serde(default)]
    pub keep: bool,
    /// Return its changes.
    #[serde(default)]
    pub diff: bool,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Standard input, at most 1 MiB.
    #[serde(default)]
    pub stdin: String,
    /// Arguments of each run.
    #[serde(flatten)]
    pub run: RunArguments,
}

/// Arguments of `run_tests`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct RunTests {
    /// The project: this or files.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// The project's files, for this call.
    #[serde(default)]
    pub files: Vec<File>,
    /// Keep its changes in the workspace.
    #[serde(default)]
    pub keep: bool,
    /// Return its changes.
    #[serde(default)]
    pub diff: bool,
    /// By default detected.
    #[serde(default)]
    pub framework: Option<String>,
    /// Id of a report, path, or expression of the framework.
    #[serde(default)]
    pub filter: Option<String>,
    /// Measure which lines the tests run.
    #[serde(default)]
    pub coverage: bool,
    /// Arguments of each run.
    #[serde(flatten)]
    pub run: RunArguments,
}

/// Arguments of `run_status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunStatus {
    /// The run.
    pub run_id: String,
    /// Wait for its end.
    #[serde(default)]
    #[schemars(range(max = 600_000))]
    pub wait_ms: u64,
    /// Also layers, mounts, times, passed tests.
    #[serde(default)]
    pub verbose: bool,
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

impl From<Stream> for hotcell_server::Stream {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Stdout => Self::Stdout,
            Stream::Stderr => Self::Stderr,
        }
    }
}

/// Arguments of `run_output`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunOutput {
    /// The run.
    pub run_id: String,
    /// Stream to read.
    pub stream: Stream,
    /// Offset of the first byte.
    #[serde(default)]
    pub offset: u64,
}

/// Arguments of `run_cancel`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunCancel {
    /// The run.
    pub run_id: String,
}

/// Arguments of `workspace_create`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceCreate {
    /// Initial files.
    #[serde(default)]
    pub files: Vec<File>,
    /// Absolute path of a host folder that the operator allows; only workspace_commit changes it.
    #[serde(default)]
    pub folder: Option<String>,
}

/// Arguments of `workspace_write`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceWrite {
    /// The workspace.
    pub workspace_id: String,
    /// The files.
    #[schemars(length(min = 1))]
    pub files: Vec<File>,
}

/// A text to find in a file, and its replacement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The file's path in the workspace.
    pub path: String,
    /// The exact text, whole lines with enough context that it occurs exactly once.
    pub old: String,
    /// The replacement; an empty text removes the old one.
    pub new: String,
    /// Replace every occurrence in the file, one or more.
    #[serde(default)]
    pub all: bool,
}

/// Arguments of `workspace_edit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceEdit {
    /// The workspace.
    pub workspace_id: String,
    /// In order, all or none. old occurs exactly once, unless all is true.
    #[schemars(length(min = 1, max = 100))]
    pub edits: Vec<Edit>,
}

/// Arguments of `workspace_read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceRead {
    /// The workspace.
    pub workspace_id: String,
    /// File in the workspace.
    pub path: String,
    /// Offset of the first byte.
    #[serde(default)]
    pub offset: u64,
}

/// `workspace_image`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceImage {
    /// The workspace.
    pub workspace_id: String,
    /// The picture's path in it.
    pub path: String,
}

/// `workspace_list`
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceList {
    /// The workspace; without it your workspaces are listed.
    #[serde(default)]
    pub workspace_id: Option<String>,
    /// A folder in the workspace.
    #[serde(default)]
    pub path: Option<String>,
}

/// Arguments of `workspace_remove`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceRemove {
    /// The workspace.
    pub workspace_id: String,
    /// A file or folder in the workspace; without it the whole workspace is removed.
    #[serde(default)]
    #[schemars(extend("x-empty-counts" = true))]
    pub path: Option<String>,
}

/// Arguments of `workspace_diff`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceDiff {
    /// The workspace.
    pub workspace_id: String,
    /// Offset of the first byte of the diff.
    #[serde(default)]
    pub offset: u64,
}

/// Arguments of `workspace_commit`, `workspace_fork` and `workspace_export`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceNamed {
    /// The workspace.
    pub workspace_id: String,
}

/// Arguments of `workspace_discard`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceDiscard {
    /// The workspace.
    pub workspace_id: String,
    /// A snapshot; without it, the beginning of the workspace: its folder as it is now, or empty.
    #[serde(default)]
    pub to: Option<String>,
}

/// Arguments of `workspace_snapshot`.
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
