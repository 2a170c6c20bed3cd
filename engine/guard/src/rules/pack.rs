//! Loads packs: parse, index, check.

use super::TextKind;
use super::groups::{self, Group};
use super::pattern::{Filter, Pattern};
use super::schema::{Level, Rule};
use super::structure::{self, Structure};
use super::when::Condition;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::feed::{Feed, FeedError, RECORD_FINGERPRINTS, is_feed};
use crate::language::Language;
use crate::report::{Report, Severity};

/// The built-in rules, as prepared by `build.rs`.
const BUILTIN: &str = include_str!(concat!(env!("OUT_DIR"), "/rules.json"));

/// A built-in file: its name, the digest of its content, its rules.
type Builtin = (String, Vec<u8>, Vec<Rule>);

/// Why a pack does not load.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// Invalid YAML, or not rules.
    #[error("{file}: rule {number}: {error}")]
    Syntax {
        /// File name.
        file: String,
        /// Number of the document, from 1.
        number: usize,
        /// Error of the parser.
        error: String,
    },
    /// An invalid rule.
    #[error("{file}: rule {id}: {problem}")]
    Rule {
        /// File name.
        file: String,
        /// Id of the rule.
        id: String,
        /// Problem, and how to correct it.
        problem: String,
    },
    /// An invalid line of a feed.
    #[error("{file}: line {line}: {problem}")]
    Feed {
        /// File name.
        file: String,
        /// Number of the line, from 1.
        line: usize,
        /// Problem.
        problem: String,
    },
    /// A rule that does not match its examples.
    #[error("{file}: rule {id}: {problem}:\n{example}")]
    Example {
        /// File name.
        file: String,
        /// Id of the rule.
        id: String,
        /// Problem: missing, noisy, or not readable.
        problem: String,
        /// Example.
        example: String,
    },
}

/// Rules, ready to match.
#[derive(Debug)]
pub struct Pack {
    /// All rules, in the order of the files.
    pub rules: Vec<Rule>,
    /// sha256 over the files' names and the digests of their contents, in hexadecimal; a pinned pack is
    /// compared with it.
    pub digest: String,
    files: Vec<String>,
    pub(super) compiled: Vec<Compiled>,
    /// Rules in ast-grep's form.
    pub(crate) structures: Vec<Structure>,
    pub(super) indexes: FxHashMap<Language, Index>,
    strings: Texts,
    comments: Texts,
    /// Combinations: a rule, and the alternatives of each required capability.
    pub(crate) combinations: Vec<(usize, Vec<Vec<String>>)>,
    /// Feeds, if there are any.
    pub(crate) feed: Option<Feed>,
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
    pub(super) groups: Vec<(Group, Vec<usize>)>,
}

#[derive(Debug)]
pub(super) struct Texts {
    pub(super) each: Vec<Pattern>,
    pub(super) rules: Vec<usize>,
    pub(super) filter: Filter,
}

/// A pack that is being loaded.
struct Loading {
    rules: Vec<Rule>,
    /// File of each rule.
    files: Vec<String>,
    structures: Vec<Structure>,
    feed: Option<Feed>,
    /// Number of built-in rules: their patterns are compiled on first use.
    own: usize,
    hash: Sha256,
}

impl Pack {
    /// The built-in rules. The crate's tests, not each start, check that they are valid and match their
    /// examples.
    ///
    /// # Errors
    /// [`PackError`], which the tests rule out.
    pub fn builtin() -> Result<Pack, PackError> {
        Loading::begin()?.index()
    }

    /// The built-in rules followed by `files` (name, content: rules, or with the name `*.feed` a feed), and the number
    /// of the first new rule. The new ones are not checked against their examples.
    ///
    /// # Errors
    /// [`PackError`] for the first invalid file or rule.
    pub(crate) fn unproven(
        files: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(Pack, usize), PackError> {
        let mut loading = Loading::begin()?;
        for (file, text) in files {
            loading.add(&file, &text)?;
        }
        let own = loading.own;
        Ok((loading.index()?, own))
    }

    /// Examples of the `wanted` files with another result than their rule says, from this rule on. `scan` scans
    /// an example.
    pub(crate) fn failures(
        &self,
        first: usize,
        wanted: impl Fn(&str) -> bool,
        scan: fn(&Pack, Language, &str) -> Report,
    ) -> impl Iterator<Item = PackError> {
        let rules = self.rules.iter().zip(&self.files).skip(first);
        rules.filter(move |(_, file)| wanted(file)).flat_map(move |(rule, file)| {
            let found = |example: &String| {
                scan(self, rule.language, example).findings.iter().any(|f| f.rule == rule.id)
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

    pub(super) fn texts(&self, kind: TextKind) -> &Texts {
        if kind == TextKind::String { &self.strings } else { &self.comments }
    }

    /// Severity, and capability or threat, of a match.
    pub(crate) fn says(&self, rule: usize) -> (Severity, &str) {
        let rule = &self.rules[rule];
        let what = rule.metadata.threat.as_deref().or(rule.metadata.capability.as_deref()).unwrap_or("");
        (rule.severity.into(), what)
    }
}

impl Loading {
    /// Starts with the built-in rules.
    fn begin() -> Result<Loading, PackError> {
        let builtin: Vec<Builtin> = serde_json::from_str(BUILTIN).map_err(|error| PackError::Syntax {
            file: "rules.json".to_owned(),
            number: 1,
            error: error.to_string(),
        })?;
        let mut loading = Loading {
            rules: Vec::new(),
            files: Vec::new(),
            structures: Vec::new(),
            feed: None,
            own: 0,
            hash: Sha256::new(),
        };
        for (file, digest, rules) in builtin {
            loading.hashed(&file, &digest);
            loading.files.extend(rules.iter().map(|_| file.clone()));
            loading.rules.extend(rules);
        }
        loading.own = loading.rules.len();
        Ok(loading)
    }

    fn hashed(&mut self, file: &str, digest: &[u8]) {
        self.hash.update(file.as_bytes());
        self.hash.update([0]);
        self.hash.update(digest);
    }

    fn add(&mut self, file: &str, text: &str) -> Result<(), PackError> {
        self.hashed(file, &Sha256::digest(text));
        if is_feed(file) {
            let feed = self.feed.get_or_insert_default();
            feed.records |= file == RECORD_FINGERPRINTS;
            return feed.add(text).map_err(|FeedError { line, problem }| PackError::Feed {
                file: file.to_owned(),
                line,
                problem,
            });
        }
        let documents = || serde_yaml_ng::Deserializer::from_str(text);
        for (number, (document, again)) in documents().zip(documents()).enumerate() {
            let syntax = |error: serde_yaml_ng::Error| PackError::Syntax {
                file: file.to_owned(),
                number: number + 1,
                error: error.to_string(),
            };
            let value = serde_json::Value::deserialize(document).map_err(syntax)?;
            let rule = if value.get("rule").is_some() {
                let id =
                    value.get("id").and_then(serde_json::Value::as_str).unwrap_or("without an id").to_owned();
                let (rule, structure) = structure::read(value, self.rules.len())
                    .map_err(|problem| PackError::Rule { file: file.to_owned(), id, problem })?;
                self.structures.push(structure);
                rule
            } else {
                Rule::deserialize(again).map_err(syntax)?
            };
            if self.rules.iter().any(|other| other.id == rule.id) {
                return Err(bad(file, &rule, "another rule has this id"));
            }
            if rule.metadata.positive.len() < 2 || rule.metadata.benign.len() < 2 {
                return Err(bad(file, &rule, "give at least two positive and two benign examples"));
            }
            self.rules.push(rule);
            self.files.push(file.to_owned());
        }
        Ok(())
    }

    fn index(self) -> Result<Pack, PackError> {
        let Loading { rules, files, structures, feed, own, hash } = self;
        let digest = hex::encode(hash.finalize());
        let mut indexes: FxHashMap<Language, Index> = FxHashMap::default();
        let mut compiled = Vec::new();
        let (mut strings, mut comments) = (Vec::new(), Vec::new());
        let mut combinations = Vec::new();
        for (at, (rule, file)) in rules.iter().zip(&files).enumerate() {
            let wrong = |problem: String| bad(file, rule, &problem);
            let pattern = &rule.pattern;
            let all = |list: &[_]| {
                list.iter().map(|when| Condition::of(when, at < own)).collect::<Result<Vec<_>, _>>()
            };
            compiled.push(Compiled {
                when: all(&pattern.when).map_err(&wrong)?,
                unless: all(&pattern.unless).map_err(&wrong)?,
            });
            let index = indexes.entry(rule.language.rules()).or_default();
            for name in &pattern.call {
                // `@scope/package.function` is a name.
                let Some(group) = name.strip_prefix('@').filter(|group| !group.contains('/')) else {
                    index.add(name, at);
                    continue;
                };
                let group = groups::group(group, rule.language).map_err(&wrong)?;
                match index.groups.iter_mut().find(|(known, _)| std::ptr::fn_addr_eq(*known, group)) {
                    Some((_, rules)) => rules.push(at),
                    None => index.groups.push((group, vec![at])),
                }
            }
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
        }
        let texts = |list: Vec<(usize, String)>| -> Result<Texts, PackError> {
            let mut each = Vec::with_capacity(list.len());
            let at: Vec<usize> = list.iter().map(|(at, _)| *at).collect();
            for (at, text) in list {
                let pattern = Pattern::of(text, at < own).map_err(|e| bad(&files[at], &rules[at], &e))?;
                each.push(pattern);
            }
            Ok(Texts { filter: Filter::of(&each), each, rules: at })
        };
        let (strings, comments) = (texts(strings)?, texts(comments)?);
        Ok(Pack {
            digest,
            files,
            structures,
            compiled,
            indexes,
            strings,
            comments,
            combinations,
            feed,
            rules,
        })
    }
}

impl From<Level> for Severity {
    fn from(level: Level) -> Severity {
        match level {
            Level::Hint | Level::Info => Severity::Note,
            Level::Warning => Severity::Warning,
            Level::Error => Severity::Critical,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// This check is skipped at each start: `tests/pack.rs` checks the examples.
    #[test]
    fn builtin_rules_are_well_formed() {
        let pack = Pack::builtin().unwrap();
        for (at, rule) in pack.rules.iter().enumerate() {
            assert!(pack.rules[..at].iter().all(|other| other.id != rule.id), "{} twice", rule.id);
            assert!(rule.metadata.positive.len() >= 2 && rule.metadata.benign.len() >= 2, "{}", rule.id);
            let Compiled { when, unless } = &pack.compiled[at];
            assert!(when.iter().chain(unless).all(Condition::is_sound), "{}: a pattern", rule.id);
        }
        for texts in [&pack.strings, &pack.comments] {
            for (pattern, rule) in texts.each.iter().zip(&texts.rules) {
                assert!(pattern.is_sound(), "{}: a pattern", pack.rules[*rule].id);
            }
        }
    }

    #[test]
    fn prefilter_changes_no_finding() {
        let pack = Pack::builtin().unwrap();
        let mut slow = Pack::builtin().unwrap();
        for texts in [&mut slow.strings, &mut slow.comments] {
            texts.filter = Filter::none(texts.each.len());
        }
        let examples = pack
            .rules
            .iter()
            .flat_map(|r| r.metadata.positive.iter().chain(&r.metadata.benign).map(|e| (r.language, e)));
        for (language, example) in examples {
            let [filtered, all] = [&pack, &slow].map(|p| crate::scan::scan_example(p, language, example));
            assert_eq!(filtered, all, "{example}");
        }
    }
}
