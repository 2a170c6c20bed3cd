//! Format of a rule. The build script includes this module, so it uses nothing else of the crate but the languages.

use serde::{Deserialize, Serialize};

use crate::language::Language;

/// Severities with ast-grep's names; `error` is a critical finding, `info` and `hint` are notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Level {
    Hint,
    Info,
    Warning,
    Error,
}

/// Fields beyond ast-grep's.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Capability of the matched code, such as `net.send`. Combinations refer to it.
    #[serde(default)]
    pub capability: Option<String>,
    /// Purpose of the matched code, such as `ransomware`, if it is plain.
    #[serde(default)]
    pub threat: Option<String>,
    /// The matched code hides its effect: together with a threat, the artifact is dangerous.
    #[serde(default)]
    pub obfuscation: bool,
    /// For example `CWE-78`.
    #[serde(default)]
    pub cwe: Option<String>,
    /// Sources that must match, at least two.
    pub positive: Vec<String>,
    /// Similar sources that must not match, at least two.
    pub benign: Vec<String>,
}

/// One rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Unique in all packs.
    pub id: String,
    /// Language that it applies to, and of its examples.
    pub language: Language,
    /// Severity of a match.
    pub severity: Level,
    /// Message for people: the finding and why it matters.
    pub message: String,
    /// Fields beyond ast-grep's.
    pub metadata: Metadata,
    /// Condition of a match.
    #[serde(rename = "match")]
    pub pattern: Match,
}

/// Condition of a match. It has exactly one of `call`, `command`, `text`, `comment`, `fact`, `all` or `any`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// Calls of these canonical names; `*.recv` is a method of any value, `pynput.*` any member of a module, `@request` a group.
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
    /// Facts found by the engine itself, such as `loop.endless`.
    #[serde(default)]
    pub fact: Vec<String>,
    /// Capabilities or threats that all occur in one file; `a|b` is either.
    #[serde(default)]
    pub all: Vec<String>,
    /// Conditions that must all hold.
    #[serde(default)]
    pub when: Vec<When>,
    /// Conditions of which none may hold.
    #[serde(default)]
    pub unless: Vec<When>,
}

/// A condition on a call, a command or a fact.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// Argument: a position, a name, `any`, `operand` (not an option), `last` (the last operand), `source` (all other operands), `stdin`,
    /// `receiver`, `-T` (the value of a command's option, by its spelling); `0|args` is the first that exists.
    #[serde(default)]
    pub arg: Option<String>,
    /// The argument belongs to one of these classes (see the guide).
    #[serde(default)]
    pub is: Vec<String>,
    /// The argument belongs to none of these classes.
    #[serde(default)]
    pub not: Vec<String>,
    /// The argument's text matches; unknown pieces are U+FFFC.
    #[serde(default)]
    pub matches: Option<String>,
    /// The argument has one of these origins.
    #[serde(default)]
    pub origin: Vec<String>,
    /// The argument is missing.
    #[serde(default)]
    pub absent: bool,
    /// The command has one of these options: `r` in any cluster, `recursive` as a long one.
    #[serde(default)]
    pub flag: Vec<String>,
    /// Context of the call: `loop`, `endless`, `walk`, `top`, `obfuscated`, `handler`, `chosen`.
    #[serde(default)]
    pub context: Vec<String>,
}
