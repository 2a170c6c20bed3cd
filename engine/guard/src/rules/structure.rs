//! Rules in ast-grep's own form: `rule:` with `constraints` and `utils`, matched on the syntax tree.
//!
//! The matcher is called for each node, instead of ast-grep's scanner, which would obey `ast-grep-ignore` in
//! the scanned code.

use super::schema::{Level, Match, Metadata, Rule};
use ast_grep_config::{GlobalRules, RuleConfig, RuleCore, SerializableRuleConfig};
use ast_grep_core::matcher::{MatcherExt, Pattern, PatternBuilder, PatternError};
use ast_grep_core::tree_sitter::{LanguageExt, StrDoc, TSLanguage};
use ast_grep_core::{Language as Syntax, Node};
use globset::{Glob, GlobBuilder, GlobSet};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::ops::Range;

use crate::language::Language;

/// A tree-sitter grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Grammar {
    Python,
    Bash,
    JavaScript,
    TypeScript,
    Tsx,
    Go,
    Rust,
    C,
    Cpp,
    Java,
    PowerShell,
}

impl Grammar {
    /// Grammar for a part in this language; `None` when there is no grammar for it.
    pub(crate) fn of(language: Language, path: &str) -> Option<Grammar> {
        Some(match language {
            Language::Python => Grammar::Python,
            Language::Bash => Grammar::Bash,
            Language::JavaScript => Grammar::JavaScript,
            Language::TypeScript if path.ends_with(".tsx") => Grammar::Tsx,
            Language::TypeScript => Grammar::TypeScript,
            Language::Go => Grammar::Go,
            Language::Rust => Grammar::Rust,
            Language::C => Grammar::C,
            Language::Cpp => Grammar::Cpp,
            Language::Java => Grammar::Java,
            Language::PowerShell => Grammar::PowerShell,
            Language::Sql | Language::Dockerfile | Language::Yaml | Language::Text => return None,
        })
    }

    /// Language and grammars by ast-grep's name, in lower case; the first grammar has to accept the rule, the
    /// others use it if they accept it.
    fn named(name: &str) -> Option<(Language, &'static [Grammar])> {
        Some(match name.to_ascii_lowercase().as_str() {
            "python" | "py" => (Language::Python, &[Grammar::Python]),
            "bash" => (Language::Bash, &[Grammar::Bash]),
            "javascript" | "js" | "jsx" => {
                (Language::JavaScript, &[Grammar::JavaScript, Grammar::TypeScript, Grammar::Tsx])
            }
            "typescript" | "ts" => (Language::TypeScript, &[Grammar::TypeScript, Grammar::Tsx]),
            "tsx" => (Language::TypeScript, &[Grammar::Tsx, Grammar::TypeScript]),
            "go" | "golang" => (Language::Go, &[Grammar::Go]),
            "rust" | "rs" => (Language::Rust, &[Grammar::Rust]),
            "c" => (Language::C, &[Grammar::C, Grammar::Cpp]),
            "cpp" | "c++" | "cc" | "cxx" => (Language::Cpp, &[Grammar::Cpp]),
            "java" => (Language::Java, &[Grammar::Java]),
            "powershell" => (Language::PowerShell, &[Grammar::PowerShell]),
            _ => return None,
        })
    }
}

impl Syntax for Grammar {
    /// Replaces `$NAME` by an identifier of the grammar.
    fn pre_process_pattern<'q>(&self, query: &'q str) -> Cow<'q, str> {
        let sigil = self.expando_char();
        if sigil == '$' {
            return Cow::Borrowed(query);
        }
        let mut out = String::with_capacity(query.len() + 8);
        let mut rest = query;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let after = rest[at..].trim_start_matches('$');
            let count = rest.len() - at - after.len();
            let named = after.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
            out.extend(std::iter::repeat_n(if named || count == 3 { sigil } else { '$' }, count));
            rest = after;
        }
        out.push_str(rest);
        Cow::Owned(out)
    }
    /// The placeholder characters that ast-grep uses.
    fn expando_char(&self) -> char {
        match self {
            Grammar::C | Grammar::Cpp => '\u{10000}',
            Grammar::Go | Grammar::Python | Grammar::Rust => 'µ',
            _ => '$',
        }
    }
    fn kind_to_id(&self, kind: &str) -> u16 {
        self.get_ts_language().id_for_node_kind(kind, true)
    }
    fn field_to_id(&self, field: &str) -> Option<u16> {
        self.get_ts_language().field_id_for_name(field).map(u16::from)
    }
    fn build_pattern(&self, builder: &PatternBuilder<'_>) -> Result<Pattern, PatternError> {
        builder.build(|text| StrDoc::try_new(text, *self))
    }
}

impl LanguageExt for Grammar {
    fn get_ts_language(&self) -> TSLanguage {
        match self {
            Grammar::Python => tree_sitter_python::LANGUAGE,
            Grammar::Bash => tree_sitter_bash::LANGUAGE,
            Grammar::JavaScript => tree_sitter_javascript::LANGUAGE,
            Grammar::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
            Grammar::Tsx => tree_sitter_typescript::LANGUAGE_TSX,
            Grammar::Go => tree_sitter_go::LANGUAGE,
            Grammar::Rust => tree_sitter_rust::LANGUAGE,
            Grammar::C => tree_sitter_c::LANGUAGE,
            Grammar::Cpp => tree_sitter_cpp::LANGUAGE,
            Grammar::Java => tree_sitter_java::LANGUAGE,
            Grammar::PowerShell => tree_sitter_powershell::LANGUAGE,
        }
        .into()
    }
}

/// A rule's structure, compiled for the grammars that accept it.
pub(crate) struct Structure {
    /// Index of the rule in the pack.
    pub(crate) rule: usize,
    each: Vec<(Grammar, RuleCore)>,
    files: Option<GlobSet>,
    ignores: Option<GlobSet>,
}

impl std::fmt::Debug for Structure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let grammars: Vec<_> = self.each.iter().map(|(grammar, _)| grammar).collect();
        f.debug_struct("Structure")
            .field("rule", &self.rule)
            .field("grammars", &grammars)
            .finish_non_exhaustive()
    }
}

impl Structure {
    /// Matcher for a part with this grammar and path.
    pub(crate) fn matcher(&self, grammar: Grammar, path: &str) -> Option<&RuleCore> {
        let tails = |set: &GlobSet| tails(path).any(|tail| set.is_match(tail));
        if self.files.as_ref().is_some_and(|set| !tails(set)) || self.ignores.as_ref().is_some_and(tails) {
            return None;
        }
        self.each.iter().find(|(own, _)| *own == grammar).map(|(_, core)| core)
    }
}

/// Byte range of a match at a node.
pub(crate) fn found(core: &RuleCore, node: &Node<'_, StrDoc<Grammar>>) -> Option<Range<usize>> {
    core.match_node(node.clone()).map(|node| node.range())
}

/// The path and its suffixes: `src/**` is meant relative to an unknown folder.
fn tails(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |rest| rest.split_once(['/', '!']).map(|(_, rest)| rest))
}

/// A pattern of `files` and `ignores`.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Name {
    Plain(String),
    #[serde(rename_all = "camelCase")]
    Full {
        glob: String,
        #[serde(default)]
        case_insensitive: bool,
    },
}

/// ast-grep's fields that hotcell needs, too.
#[derive(Deserialize)]
struct Envelope {
    id: String,
    language: String,
    severity: Level,
    message: String,
    #[serde(default)]
    note: Option<String>,
    #[serde(default)]
    files: Option<Vec<Name>>,
    #[serde(default)]
    ignores: Option<Vec<Name>>,
    metadata: Metadata,
}

/// Parses a rule with `rule:`; `at` is its index in the pack.
///
/// # Errors
/// A sentence on an unknown field or language, or ast-grep's error for an invalid rule.
pub(super) fn read(mut document: Value, at: usize) -> Result<(Rule, Structure), String> {
    if document.get("match").is_some() {
        return Err("it has rule: and match:; write two rules".to_owned());
    }
    let own = Envelope::deserialize(&document).map_err(|e| e.to_string())?;
    let (language, grammars) = Grammar::named(&own.language).ok_or_else(|| {
        format!(
            "rule: cannot be asked in {}; it can in Python, Bash, JavaScript, TypeScript, Tsx, Go, Rust, C, Cpp, Java and \
             PowerShell, and match: in the others",
            own.language
        )
    })?;
    let named = ["constraints", "utils"].iter().filter_map(|field| document[*field].as_object());
    for object in document.get("rule").into_iter().chain(named.flat_map(serde_json::Map::values)) {
        has_known_fields(object, false)?;
    }
    let mut each = Vec::new();
    for (first, grammar) in grammars.iter().enumerate().map(|(n, grammar)| (n == 0, *grammar)) {
        document["language"] = Value::String(format!("{grammar:?}"));
        match compiled(&document) {
            Ok(core) => each.push((grammar, core)),
            Err(why) if first => return Err(why),
            // A node kind that only the first grammar has.
            Err(_) => {}
        }
    }
    let structure = Structure { rule: at, each, files: globs(own.files)?, ignores: globs(own.ignores)? };
    let message = own.message.trim().to_owned();
    let message = own.note.map_or(message.clone(), |note| {
        format!("{message} {}", note.split_whitespace().collect::<Vec<_>>().join(" "))
    });
    let rule = Rule {
        id: own.id,
        language,
        severity: own.severity,
        message,
        metadata: own.metadata,
        pattern: Match::default(),
    };
    Ok((rule, structure))
}

/// Rejects unknown fields: ast-grep ignores those below `inside`, `has`, `precedes` and `follows`.
fn has_known_fields(rule: &Value, relation: bool) -> Result<(), String> {
    for (field, value) in rule.as_object().into_iter().flatten() {
        match field.as_str() {
            "inside" | "has" | "precedes" | "follows" => has_known_fields(value, true)?,
            "not" => has_known_fields(value, false)?,
            "all" | "any" => {
                value.as_array().into_iter().flatten().try_for_each(|rule| has_known_fields(rule, false))?;
            }
            "stopBy" if relation => has_known_fields(value, false)?,
            "field" if relation => {}
            "pattern" | "kind" | "regex" | "nthChild" | "range" | "matches" => {}
            _ => return Err(format!("unknown field `{field}` in a rule object")),
        }
    }
    Ok(())
}

fn compiled(document: &Value) -> Result<RuleCore, String> {
    let config = SerializableRuleConfig::<Grammar>::deserialize(document).map_err(|e| e.to_string())?;
    let config = RuleConfig::try_from(config, &GlobalRules::default()).map_err(|error| {
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    })?;
    Ok(config.matcher)
}

fn globs(names: Option<Vec<Name>>) -> Result<Option<GlobSet>, String> {
    let Some(names) = names else { return Ok(None) };
    let mut set = GlobSet::builder();
    for name in names {
        let glob = match name {
            Name::Plain(text) => Glob::new(&text),
            Name::Full { glob, case_insensitive } => {
                GlobBuilder::new(&glob).case_insensitive(case_insensitive).build()
            }
        };
        set.add(glob.map_err(|e| e.to_string())?);
    }
    set.build().map(Some).map_err(|e| e.to_string())
}
