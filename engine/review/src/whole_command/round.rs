//! One round of scanning: the parts of the command that are known so far, and the executions that reports list.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hotcell_guard::command::{self, As, Item};
use hotcell_guard::{Artifact, Executed, Executions, Handed, HandedSource, Language, Limits, Report};

use super::reach::Reach;
use super::{Ahead, Feed, MAX_INPUT_BYTES, View};
use crate::target::Target;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    Workspace,
    Command,
}

pub(super) struct Round<'r, 'a> {
    pub(super) view: &'r View<'r>,
    pub(super) argv: &'r [OsString],
    /// True when the first argument is a program.
    pub(super) program: bool,
    pub(super) feed: Feed<'a>,
    pub(super) input: Option<Ahead>,
    pub(super) executions: Executions,
    /// Files of the workspace that the command itself starts.
    pub(super) started: BTreeSet<String>,
    /// `started`, and files that these execute: in all of them, unread code counts.
    pub(super) run: BTreeSet<String>,
    /// Parts of the command outside the workspace, each with its report once it was scanned.
    pub(super) parts: Vec<(Target, Option<Report>)>,
    /// Names of `parts`.
    pub(super) named: BTreeSet<String>,
    /// Paths known only in part, and the files that they may lead to.
    pub(super) reach: Reach,
    /// The workspace's path on the host: a program may use it.
    pub(super) base: Option<PathBuf>,
}

impl Round<'_, '_> {
    pub(super) fn add(&mut self, part: String, bytes: Vec<u8>, executed: Option<Executed>) {
        if !self.named.insert(part.clone()) {
            return;
        }
        let artifact = Artifact::new(part, bytes);
        let artifact = match executed {
            Some(Executed::As(language)) => artifact.run_as(language),
            Some(unread) => artifact.executed_as(&[unread]),
            None => artifact,
        };
        self.parts.push((Target::Source(artifact), None));
    }

    pub(super) fn unnamed(&mut self, part: String, why: String) {
        if self.named.insert(part.clone()) {
            self.parts.push((Target::Unread(part, why), None));
        }
    }

    /// Records an item; returns true when it is new for the workspace.
    pub(super) fn take(&mut self, item: &Item) -> bool {
        match item {
            Item::Text { part, text, language: As::Makefile } => {
                // The extension gives the type.
                self.add(format!("{part}.mk"), text.clone().into_bytes(), None);
            }
            Item::Text { part, text, language } => {
                self.add(part.clone(), text.clone().into_bytes(), language.executed());
            }
            Item::Pattern { path, language } => {
                self.reach.patterns.insert((path.clone(), *language));
            }
            Item::Folder { .. } => self.reach.moves = true,
            Item::Given { path, program } => self.reach.give(path, program),
            Item::Stdin { language: As::Makefile } => self.stdin("makefile", None),
            Item::Stdin { language } => self.stdin(language.name(), language.executed()),
            Item::Unknown { part, why } => self.unnamed(part.clone(), why.clone()),
            Item::File { path, language: As::Makefile } if is_makefile(path) => {
                // The walk scans it by its own type.
                self.run.insert(path.clone());
            }
            Item::File { path, language } => {
                self.started.insert(path.clone());
                if *language == As::Read(Language::JavaScript) {
                    // For a folder, Node starts the file named by its `package.json`, which is scanned with
                    // that.
                    let below =
                        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
                    self.started.extend([below("package.json"), below("index.js")]);
                }
                return self.file(path, *language);
            }
        }
        false
    }

    pub(super) fn file(&mut self, path: &str, language: As) -> bool {
        match language {
            As::Own => false,
            As::GitSettings => {
                self.another(path, language.name(), ".gitconfig");
                false
            }
            As::Variables => self.variables(path),
            As::Makefile if is_makefile(path) => false,
            As::Makefile => {
                self.another(path, language.name(), ".mk");
                false
            }
            language => language.executed().is_some_and(|executed| self.executes(path, executed)),
        }
    }

    /// Scans a file once more, with another extension.
    pub(super) fn another(&mut self, path: &str, name: &str, ending: &str) {
        let most = Limits::default().file_bytes as u64 + 1;
        match self.view.read(Path::new(path), most) {
            Some(bytes) => self.add(format!("{path} ({name}){ending}"), bytes, None),
            None => self.unnamed(format!("{path} ({name})"), "it cannot be read".to_owned()),
        }
    }

    /// True when the command executes this file of the workspace, directly or through another one.
    pub(super) fn runs(&self, part: &str) -> bool {
        self.run.contains(part) || self.started.contains(part)
    }

    pub(super) fn executes(&mut self, path: &str, executed: Executed) -> bool {
        if self.executions.of(Path::new(path)).contains(&executed) {
            return false;
        }
        self.executions.add(Path::new(path), executed);
        true
    }

    /// Follows the executions that a report lists; returns true when the workspace has to be scanned once
    /// more.
    pub(super) fn follow(&mut self, report: &Report, from: From) -> bool {
        let mut found = false;
        if report.coverage.executes.is_empty() {
            return false;
        }
        let mut read: HashMap<&str, Vec<&str>> = HashMap::new();
        for part in &report.coverage.parts {
            read.entry(&part.path).or_default().push(&part.language);
        }
        for handed in &report.coverage.executes {
            let Handed { part, source, executed } = handed;
            match source {
                HandedSource::File(path) => {
                    // Unread code counts where the command executes it, not where some file of the project
                    // might.
                    let runs = from == From::Command || self.runs(part);
                    if matches!(executed, Executed::Unread(_)) && !runs {
                        continue;
                    }
                    let items = self.resolve(path, part, from, &read);
                    if items.is_empty() && (from == From::Command || self.started.contains(part)) {
                        self.later(path, part);
                    }
                    for item in items {
                        if from == From::Command || self.started.contains(part) {
                            self.started.insert(item.clone());
                        }
                        if runs {
                            self.run.insert(item.clone());
                        }
                        let is_read = |languages: &Vec<&str>| languages.contains(&executed.name());
                        if !read.get(item.as_str()).is_some_and(is_read) {
                            found |= self.executes(&item, executed.clone());
                        }
                    }
                }
                HandedSource::Program(_)
                    if from == From::Workspace && !self.runs(part) && !part.contains(".git/") => {}
                HandedSource::Program(path) => {
                    let items = self.resolve(path, part, from, &read);
                    if items.is_empty() && (from == From::Command || self.started.contains(part)) {
                        self.later(path, part);
                    }
                    for path in items {
                        found |= self.program(&path);
                    }
                }
                HandedSource::Folder(_) => self.reach.moves |= from == From::Command || self.runs(part),
                HandedSource::Given(path) => {
                    if from == From::Command || self.runs(part) {
                        for path in self.resolve(path, part, from, &read) {
                            self.reach.give(&path, executed.name());
                        }
                    }
                }
                HandedSource::GitSettings(path) => {
                    for path in self.resolve(path, part, from, &read) {
                        self.file(&path, As::GitSettings);
                    }
                }
                HandedSource::Variables(path) => {
                    if from == From::Command || self.runs(part) {
                        for path in self.resolve(path, part, from, &read) {
                            found |= self.file(&path, As::Variables);
                        }
                    }
                }
                HandedSource::Text if from == From::Workspace && !self.runs(part) => {}
                HandedSource::Text if matches!(executed, Executed::As(_)) => {
                    let why = "it executes a text that is put together when it runs";
                    self.say(&format!("{part} (a text)"), why, "");
                }
                HandedSource::Text => {
                    let name = executed.name();
                    self.unnamed(format!("{part} ({name})"), format!("{name} is not read, and runs in it"));
                }
                HandedSource::Makefile(path) => {
                    let runs = from == From::Command || self.runs(part);
                    for item in self.resolve(path, part, from, &read) {
                        if runs {
                            self.run.insert(item.clone());
                        }
                        self.file(&item, As::Makefile);
                    }
                }
                HandedSource::Stdin | HandedSource::Input | HandedSource::Arguments
                    if from == From::Workspace && !self.started.contains(part) => {}
                HandedSource::Arguments => found |= self.arguments(executed),
                HandedSource::Stdin => self.stdin(executed.name(), Some(executed.clone())),
                HandedSource::Input => {
                    self.stdin(executed.name(), Some(executed.clone()));
                    found |= self.arguments(executed);
                }
            }
        }
        found
    }

    pub(super) fn stdin(&mut self, name: &str, executed: Option<Executed>) {
        let part = format!("standard input ({name})");
        if self.named.contains(&part) {
            return;
        }
        let ending = if executed.is_none() { ".mk" } else { "" };
        let most = |n: usize| format!("it is longer than {} MiB", n >> 20);
        let bytes = match &mut self.feed {
            Feed::Nothing => return,
            Feed::Bytes(bytes) => Ok(bytes.to_vec()),
            Feed::Stream(input) => {
                let input = self.input.get_or_insert_with(|| match input {
                    Some(input) => input.read_ahead(),
                    None => Ahead::NotRead("it is a stream".to_owned()),
                });
                match input {
                    Ahead::Whole(bytes) if bytes.len() <= MAX_INPUT_BYTES => Ok(bytes.clone()),
                    Ahead::Whole(_) => Err(most(MAX_INPUT_BYTES)),
                    Ahead::NotRead(why) => Err(why.clone()),
                }
            }
        };
        match bytes {
            Ok(bytes) => self.add(format!("{part}{ending}"), bytes, executed),
            Err(why) => self.unnamed(part, why),
        }
    }

    /// Arguments of a program that executes some of them: as texts, and as files that they name.
    pub(super) fn arguments(&mut self, executed: &Executed) -> bool {
        let first = usize::from(self.program);
        let words: Vec<(usize, String)> = self
            .argv
            .iter()
            .enumerate()
            .skip(first)
            .map(|(at, word)| (at, word.to_string_lossy().into_owned()))
            .filter(|(_, word)| !word.is_empty())
            .take(64)
            .collect();
        for (at, word) in &words {
            self.add(
                format!("argv[{at}] ({})", executed.name()),
                word.clone().into_bytes(),
                Some(executed.clone()),
            );
        }
        if *executed == Executed::As(Language::Bash) && words.len() > 1 {
            // Also the command line from each argument on.
            for from in 0..words.len() {
                let line: Vec<_> = words[from..].iter().map(|(_, word)| command::quote(word)).collect();
                self.add(
                    format!("argv[{}…] (shell)", words[from].0),
                    line.join(" ").into_bytes(),
                    Some(executed.clone()),
                );
            }
        }
        let mut found = false;
        for (_, word) in &words {
            if let Some(path) = command::file(self.view, word) {
                self.started.insert(path.clone());
                found |= self.executes(&path, executed.clone());
            }
        }
        found
    }
}

/// True when the walk reads a file of this name as a makefile.
fn is_makefile(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    matches!(&*name, "makefile" | "gnumakefile") || name.ends_with(".mk")
}
