//! The compile step of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the source was compiled before the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compile {
    /// The compiler and its arguments, with paths inside.
    pub command: Vec<String>,
    /// Whether compilation succeeded. If `false`, nothing else ran, and the rest of the outcome is the
    /// compiler's.
    pub done: bool,
    /// Duration of compilation, in microseconds.
    pub wall_us: Option<u64>,
    /// Diagnostics of the compiler, the first 1,000.
    pub diagnostics: Vec<Diagnostic>,
}

/// One diagnostic of a compiler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostic {
    /// File of the diagnostic, relative to the workspace or by its own name; `null` for a linker's
    /// diagnostics.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column, from 1, where the compiler reports one.
    pub column: Option<u32>,
    /// Severity.
    pub severity: Severity,
    /// The compiler's own code, such as `E0308` or `-Wunused-variable`.
    pub code: Option<String>,
    /// Message text.
    pub message: String,
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No program was made.
    Error,
    /// A program was made, but may not do what was intended.
    Warning,
    /// Further information about the previous diagnostic.
    Note,
}
