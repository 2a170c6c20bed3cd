//! The form of a rule. The build script reads rules by it too, so it uses nothing else of the crate.

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
    /// Rules over text, whatever it is written in.
    Text,
}

impl Language {
    /// Its name in reports.
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
    /// The language whose rules it follows: TypeScript follows JavaScript's, C++ follows C's.
    #[must_use]
    pub fn rules(self) -> Language {
        match self {
            Language::TypeScript => Language::JavaScript,
            Language::Cpp => Language::C,
            other => other,
        }
    }
}

/// Severities by their names in ast-grep; `error` is a critical finding, `info` and `hint` are notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Level {
    Hint,
    Info,
    Warning,
    Error,
}

/// Our own fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// What the matched code can do, `net.send` for example. Combinations refer to it.
    #[serde(default)]
    pub capability: Option<String>,
    /// What the matched code is for, `ransomware` for example, when that is plain.
    #[serde(default)]
    pub threat: Option<String>,
    /// Hides what it does: with a threat beside it, the artifact is dangerous.
    #[serde(default)]
    pub obfuscation: bool,
    /// `CWE-78` for example.
    #[serde(default)]
    pub cwe: Option<String>,
    /// Sources that must match, at least two.
    pub positive: Vec<String>,
    /// Near neighbours that must not, at least two.
    pub benign: Vec<String>,
}

/// One rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Unique in all packs.
    pub id: String,
    /// What its examples are written in, and what it is matched in.
    pub language: Language,
    /// How much a match says.
    pub severity: Level,
    /// For a person: what was found and why it matters.
    pub message: String,
    /// Our own fields.
    pub metadata: Metadata,
    /// What matches.
    #[serde(rename = "match")]
    pub pattern: Match,
}

/// What matches. Exactly one of `call`, `command`, `text`, `comment`, `fact`, `all` or `any` starts it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// Calls of these canonical names; `*.recv` is a method of anything, `pynput.*` whatever a module has.
    #[serde(default)]
    pub call: Vec<String>,
    /// Commands with these base names.
    #[serde(default)]
    pub command: Vec<String>,
    /// A regular expression over each string of a program, folded and decoded; never over prose in docstrings.
    #[serde(default)]
    pub text: Option<String>,
    /// A regular expression over comments and documentation.
    #[serde(default)]
    pub comment: Option<String>,
    /// What the engine itself tells, `loop.endless` for example.
    #[serde(default)]
    pub fact: Vec<String>,
    /// Capabilities or threats that all occur in the same file; `a|b` is either.
    #[serde(default)]
    pub all: Vec<String>,
    /// Conditions, which must all hold.
    #[serde(default)]
    pub when: Vec<When>,
    /// Conditions, none of which may hold.
    #[serde(default)]
    pub unless: Vec<When>,
}

/// A condition on a call, a command or a fact.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// Which argument: a position, a name, `any`, `operand` (not an option), `stdin`, `receiver`; `0|args` is the first that is there.
    #[serde(default)]
    pub arg: Option<String>,
    /// It belongs to one of these classes (see the guide).
    #[serde(default)]
    pub is: Vec<String>,
    /// It belongs to none of these classes.
    #[serde(default)]
    pub not: Vec<String>,
    /// Its text matches; unknown pieces are U+FFFC.
    #[serde(default)]
    pub matches: Option<String>,
    /// It came from one of these.
    #[serde(default)]
    pub origin: Vec<String>,
    /// It is not given.
    #[serde(default)]
    pub absent: bool,
    /// A command has one of these options: `r` in any cluster, `recursive` as a long one.
    #[serde(default)]
    pub flag: Vec<String>,
    /// Where the call stands: `loop`, `endless`, `walk`, `top`, `obfuscated`, `handler`.
    #[serde(default)]
    pub context: Vec<String>,
}
