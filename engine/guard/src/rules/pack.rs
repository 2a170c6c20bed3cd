//! Loading packs: parse, index, prove.

use super::TextKind;
use super::schema::{Language, Rule};
use super::when::Condition;
use crate::report::Severity;
use regex::Regex;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The rules that come with the crate, compiled in.
const BUILTIN: &[(&str, &str)] = &[
    ("python.yml", include_str!("../../rules/python.yml")),
    ("shell.yml", include_str!("../../rules/shell.yml")),
    ("javascript.yml", include_str!("../../rules/javascript.yml")),
    ("sql.yml", include_str!("../../rules/sql.yml")),
    ("rust.yml", include_str!("../../rules/rust.yml")),
    ("go.yml", include_str!("../../rules/go.yml")),
    ("c.yml", include_str!("../../rules/c.yml")),
    ("java.yml", include_str!("../../rules/java.yml")),
    ("powershell.yml", include_str!("../../rules/powershell.yml")),
    ("files.yml", include_str!("../../rules/files.yml")),
    ("text.yml", include_str!("../../rules/text.yml")),
];

/// Why a pack does not load.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// Not YAML, or not rules.
    #[error("{file}: rule {number}: {error}")]
    Syntax {
        /// Its name.
        file: String,
        /// Which document, from 1.
        number: usize,
        /// What the parser says.
        error: String,
    },
    /// A rule is not well-formed.
    #[error("{file}: rule {id}: {problem}")]
    Rule {
        /// Its name.
        file: String,
        /// The rule.
        id: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A rule does not do what its examples say.
    #[error("{file}: rule {id}: {problem}:\n{example}")]
    Example {
        /// Its name.
        file: String,
        /// The rule.
        id: String,
        /// Missing, noisy, or not readable.
        problem: String,
        /// The example.
        example: String,
    },
}

/// Rules, ready to match.
#[derive(Debug)]
pub struct Pack {
    /// All rules, in the order of the files.
    pub rules: Vec<Rule>,
    /// sha256 over the files' names and contents, in hexadecimal: what a pinned pack is compared with.
    pub digest: String,
    files: Vec<String>,
    pub(super) compiled: Vec<Compiled>,
    pub(super) indexes: FxHashMap<Language, Index>,
    strings: Texts,
    comments: Texts,
    /// Combinations: rule, and the alternatives of each capability that must be there.
    pub(crate) combinations: Vec<(usize, Vec<Vec<String>>)>,
}

#[derive(Debug, Default)]
pub(super) struct Compiled {
    pub(super) when: Vec<Condition>,
    pub(super) unless: Vec<Condition>,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) names: FxHashMap<Box<str>, Vec<usize>>,
    pub(super) methods: FxHashMap<Box<str>, Vec<usize>>,
    pub(super) prefixes: Vec<(Box<str>, Vec<usize>)>,
    pub(super) heads: FxHashSet<Box<str>>,
    pub(super) facts: FxHashMap<Box<str>, Vec<usize>>,
}

#[derive(Debug)]
pub(super) struct Texts {
    pub(super) each: Vec<Regex>,
    pub(super) rules: Vec<usize>,
}

impl Pack {
    /// The rules that come with the crate. Their examples are proven by the crate's tests, not at each start.
    ///
    /// # Errors
    /// [`PackError`], which the tests rule out.
    pub fn builtin() -> Result<Pack, PackError> {
        Pack::parse(BUILTIN.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())))
    }

    /// The crate's rules and, after them, `files` (name, content); each of the new ones must prove itself.
    ///
    /// # Errors
    /// The first thing wrong, with the file and the rule.
    pub fn with(files: impl IntoIterator<Item = (String, String)>) -> Result<Pack, PackError> {
        let own = BUILTIN.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let pack = Pack::parse(own.chain(files))?;
        let first = BUILTIN.len();
        pack.prove(|file| !BUILTIN.iter().take(first).any(|(name, _)| *name == file))?;
        Ok(pack)
    }

    /// Runs every rule over its own examples.
    ///
    /// # Errors
    /// The first rule that misses a positive example, matches a benign one, or cannot read one.
    pub fn prove(&self, wanted: impl Fn(&str) -> bool) -> Result<(), PackError> {
        self.failures(wanted).next().map_or(Ok(()), Err)
    }

    /// Every example that does not come out as its rule says.
    pub fn failures(&self, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = PackError> {
        self.rules.iter().zip(&self.files).filter(move |(_, file)| wanted(file)).flat_map(|(rule, file)| {
            let found = |example: &String| {
                crate::scan::scan_example(self, rule.language, example)
                    .findings
                    .iter()
                    .any(|f| f.rule == rule.id)
            };
            let missing =
                rule.metadata.positive.iter().filter(|e| !found(e)).map(|e| ("misses a positive example", e));
            let noisy =
                rule.metadata.benign.iter().filter(|e| found(e)).map(|e| ("matches a benign example", e));
            let wrong = |(problem, example): (&str, &String)| PackError::Example {
                file: file.clone(),
                id: rule.id.clone(),
                problem: problem.to_owned(),
                example: example.clone(),
            };
            missing.chain(noisy).map(wrong).collect::<Vec<_>>()
        })
    }

    fn parse(files: impl IntoIterator<Item = (String, String)>) -> Result<Pack, PackError> {
        let mut rules: Vec<Rule> = Vec::new();
        let mut names = Vec::new();
        let mut hash = Sha256::new();
        for (file, text) in files {
            hash.update(file.as_bytes());
            hash.update([0]);
            hash.update(text.as_bytes());
            for (number, document) in serde_yaml_ng::Deserializer::from_str(&text).enumerate() {
                let rule = Rule::deserialize(document).map_err(|error| PackError::Syntax {
                    file: file.clone(),
                    number: number + 1,
                    error: error.to_string(),
                })?;
                if rules.iter().any(|other| other.id == rule.id) {
                    return Err(bad(&file, &rule, "another rule has this id"));
                }
                if rule.metadata.positive.len() < 2 || rule.metadata.benign.len() < 2 {
                    return Err(bad(&file, &rule, "give at least two positive and two benign examples"));
                }
                rules.push(rule);
                names.push(file.clone());
            }
        }
        let digest = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Pack::index(rules, names, digest)
    }

    fn index(rules: Vec<Rule>, files: Vec<String>, digest: String) -> Result<Pack, PackError> {
        let mut indexes: FxHashMap<Language, Index> = FxHashMap::default();
        let mut compiled = Vec::new();
        let (mut strings, mut comments) = (Vec::new(), Vec::new());
        let mut combinations = Vec::new();
        for (at, (rule, file)) in rules.iter().zip(&files).enumerate() {
            let wrong = |problem: String| bad(file, rule, &problem);
            let pattern = &rule.pattern;
            let all = |list: &[_]| list.iter().map(Condition::compile).collect::<Result<Vec<_>, _>>();
            let own = Compiled {
                when: all(&pattern.when).map_err(&wrong)?,
                unless: all(&pattern.unless).map_err(&wrong)?,
            };
            let index = indexes.entry(rule.language.rules()).or_default();
            pattern.call.iter().for_each(|name| index.add(name, at));
            for name in &pattern.command {
                let name = if name == "*" { "<any>" } else { name };
                index.names.entry(name.into()).or_default().push(at);
            }
            for fact in &pattern.fact {
                index.facts.entry(fact.as_str().into()).or_default().push(at);
            }
            strings.extend(pattern.text.iter().map(|text| (at, text.clone())));
            comments.extend(pattern.comment.iter().map(|text| (at, text.clone())));
            if !pattern.all.is_empty() {
                let parts = pattern.all.iter().map(|any| any.split('|').map(str::to_owned).collect());
                combinations.push((at, parts.collect()));
            }
            compiled.push(own);
        }
        let texts = |list: Vec<(usize, String)>| -> Result<Texts, PackError> {
            let compile = |(at, text): &(usize, String)| {
                Regex::new(text).map_err(|error| bad(&files[*at], &rules[*at], &error.to_string()))
            };
            Ok(Texts {
                each: list.iter().map(compile).collect::<Result<_, _>>()?,
                rules: list.iter().map(|(at, _)| *at).collect(),
            })
        };
        let (strings, comments) = (texts(strings)?, texts(comments)?);
        Ok(Pack { digest, files, compiled, indexes, strings, comments, combinations, rules })
    }

    pub(super) fn texts(&self, kind: TextKind) -> &Texts {
        if kind == TextKind::String { &self.strings } else { &self.comments }
    }

    /// What a rule's match says: severity, capability or threat.
    pub(crate) fn says(&self, rule: usize) -> (Severity, &str) {
        let rule = &self.rules[rule];
        let what = rule.metadata.threat.as_deref().or(rule.metadata.capability.as_deref()).unwrap_or("");
        (rule.severity.into(), what)
    }
}

impl Index {
    fn add(&mut self, name: &str, rule: usize) {
        if let Some(method) = name.strip_prefix("*.") {
            self.methods.entry(method.into()).or_default().push(rule);
        } else if let Some(prefix) = name.strip_suffix('*') {
            self.heads.insert(name.split(['.', '(', '*']).next().unwrap_or(name).into());
            self.prefixes.push((prefix.into(), vec![rule]));
        } else {
            self.names.entry(name.into()).or_default().push(rule);
        }
    }
}

fn bad(file: &str, rule: &Rule, problem: &str) -> PackError {
    PackError::Rule { file: file.to_owned(), id: rule.id.clone(), problem: problem.to_owned() }
}
