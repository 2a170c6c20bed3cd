//! Languages that parts are read as. The build script includes this module, so it uses nothing else of the crate.

use serde::{Deserialize, Serialize};

/// A language that parts are read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Language {
    Python,
    Bash,
    JavaScript,
    TypeScript,
    Sql,
    Go,
    Rust,
    C,
    Cpp,
    Java,
    PowerShell,
    Dockerfile,
    Yaml,
    /// Rules over text in any language.
    Text,
}

impl Language {
    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::Bash => "shell",
            Language::JavaScript => "javascript",
            Language::TypeScript => "typescript",
            Language::Sql => "sql",
            Language::Go => "go",
            Language::Rust => "rust",
            Language::C => "c",
            Language::Cpp => "cpp",
            Language::Java => "java",
            Language::PowerShell => "powershell",
            Language::Dockerfile => "dockerfile",
            Language::Yaml => "yaml",
            Language::Text => "text",
        }
    }
    /// The language whose rules apply: JavaScript's for TypeScript, C's for C++.
    #[must_use]
    pub fn rules(self) -> Language {
        match self {
            Language::TypeScript => Language::JavaScript,
            Language::Cpp => Language::C,
            other => other,
        }
    }
}
