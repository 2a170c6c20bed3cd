//! The whole command as the gate scans it: its arguments, its variables, its standard input and the files
//! that these execute, beside the workspace.
//!
//! Scanning goes in rounds: scanned code may execute something else that the run has (a file by its name, its
//! standard input), which is then scanned as what it is executed as, until nothing new is found.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use hotcell_guard::command::{self, As, Command, Files, Item, Node};
use hotcell_guard::{
    Artifact, Executed, Executions, Handed, HandedSource, Language, Limits, PartState, Report, Verdict,
    unread,
};
use hotcell_workspace::{Folder, Kind, Layer, Stack};
use reach::Reach;

use crate::target::Target;

/// Maximum number of rounds: longer chains of files that execute one another are not read.
const MAX_ROUNDS: usize = 8;
/// Maximum size of standard input read before a run, in bytes: what the guard parses of one file.
pub const MAX_INPUT_BYTES: usize = 4 << 20;
/// Number of bytes at a file's start that show its type.
const HEAD_BYTES: u64 = 512;

/// Standard input read before the run.
#[derive(Debug)]
pub enum Ahead {
    /// All of it.
    Whole(Vec<u8>),
    /// Not read to its end, with the reason.
    NotRead(String),
}

/// Source of standard input. Called at most once, and only when something executes the input.
pub trait Input {
    /// Reads ahead, at most [`MAX_INPUT_BYTES`] bytes; the bytes read are kept for the run.
    fn read_ahead(&mut self) -> Ahead;
}

/// Standard input of a command.
pub enum Feed<'a> {
    /// Empty.
    Nothing,
    /// Bytes that are known.
    Bytes(&'a [u8]),
    /// A stream, which is read before the run when the run executes it.
    Stream(Option<&'a mut dyn Input>),
}

/// A command before it runs.
pub struct Whole<'a> {
    /// The workspace, and the layers over it.
    pub workspace: Option<(PathBuf, Vec<PathBuf>)>,
    /// The program and its arguments; for a source, its arguments alone.
    pub argv: Vec<OsString>,
    /// Source that runs in a language.
    pub source: Option<Target>,
    /// Path of the source in the workspace, if it is there, and its language.
    pub inside: Option<(PathBuf, Language)>,
    /// Variables of the environment.
    pub env: Vec<(OsString, OsString)>,
    /// Standard input.
    pub feed: Feed<'a>,
    /// Paths of the workspace that are hidden from the run.
    pub hidden: Vec<PathBuf>,
    /// True with the user's own rules, which may ask about any argument.
    pub own_rules: bool,
    /// Shell commands that run beside it, each with its option.
    pub beside: Vec<(String, String)>,
    /// Absolute paths inside of the files that hotcell itself adds to the run.
    pub provided: Vec<String>,
}

/// Scans one target; `Err` ends the scan as a whole.
pub type Reads<'a, E> = dyn FnMut(&Target) -> Result<Report, E> + 'a;

/// Result of scanning a command.
pub struct Done {
    /// Reports on all parts.
    pub reports: Vec<Report>,
    /// Targets that a release has to name: the workspace, and each part of the command that is not `allow` by
    /// itself.
    pub targets: Vec<Target>,
}

/// The folder that a command starts in, with the changes of earlier runs.
struct View<'a> {
    stack: Option<Stack<'a>>,
    hidden: &'a [PathBuf],
    provided: &'a [String],
}

impl Files for View<'_> {
    fn node(&self, path: &Path) -> Option<Node> {
        let stack = self.stack.as_ref().filter(|_| !self.hides(path))?;
        match stack.node(path).ok()??.kind {
            Kind::Folder => Some(Node::Folder),
            Kind::Link => stack.link(path).ok().map(Node::Link),
            _ => Some(Node::File),
        }
    }

    fn head(&self, path: &Path) -> Vec<u8> {
        self.read(path, HEAD_BYTES).unwrap_or_default()
    }
}

impl View<'_> {
    fn hides(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    fn read(&self, path: &Path, most: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let stack = self.stack.as_ref().filter(|_| !self.hides(path))?;
        stack.file(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

impl Whole<'_> {
    /// A source alone.
    #[cfg(test)]
    pub fn of_source(artifact: Artifact) -> Self {
        Self {
            workspace: None,
            argv: Vec::new(),
            source: Some(Target::Source(artifact)),
            inside: None,
            env: Vec::new(),
            feed: Feed::Nothing,
            hidden: Vec::new(),
            own_rules: false,
            beside: Vec::new(),
            provided: Vec::new(),
        }
    }

    /// True when there is nothing to scan.
    pub fn is_empty(&self) -> bool {
        self.workspace.is_none() && self.source.is_none() && !self.own_rules && self.beside.is_empty() && {
            let command = Command {
                argv: &self.argv,
                env: &self.env,
                stdin: !self.is_alone(),
                files: &command::NoFiles,
            };
            command::executed(&command).is_empty() && !command::wants_reading(&self.argv)
        }
    }

    fn is_alone(&self) -> bool {
        matches!(self.feed, Feed::Nothing)
    }

    /// Scans the command.
    pub fn read<E>(self, reads: &mut Reads<'_, E>) -> Result<Done, E> {
        let opened = self.workspace.as_ref().and_then(|(base, layers)| {
            let over =
                layers.iter().map(|layer| Folder::ours(layer)).collect::<std::io::Result<Vec<_>>>().ok()?;
            Some((Folder::open(base).ok()?, over))
        });
        let stack = opened.as_ref().map(|(base, over)| Stack::new(over.iter().map(Layer::over), base));
        let view = View { stack, hidden: &self.hidden, provided: &self.provided };
        let mut round = Round {
            view: &view,
            argv: &self.argv,
            program: self.source.is_none() && self.inside.is_none(),
            feed: self.feed,
            input: None,
            executions: Executions::default(),
            started: BTreeSet::new(),
            run: BTreeSet::new(),
            parts: Vec::new(),
            named: BTreeSet::new(),
            reach: Reach::default(),
            base: self.workspace.as_ref().map(|(base, _)| base.clone()),
        };
        self.hidden.iter().for_each(|path| round.executions.hide(path.clone()));
        if let Some((path, language)) = &self.inside {
            round.started.insert(path.to_string_lossy().into_owned());
            round.executions.add(path, Executed::As(*language));
        }
        let argv = if round.program { &self.argv[..] } else { &[] };
        let given =
            Command { argv, env: &self.env, stdin: !matches!(round.feed, Feed::Nothing), files: &view };
        let items = command::executed(&given);
        for item in &items {
            round.take(item);
        }
        for (number, (option, text)) in self.beside.iter().enumerate() {
            let argv = ["sh".into(), "-c".into(), OsString::from(text)];
            let given = Command { argv: &argv, env: &self.env, stdin: false, files: &view };
            for mut item in command::executed(&given) {
                // Makes each text a part of its own.
                if let Item::Text { part, .. } | Item::Unknown { part, .. } = &mut item {
                    *part = format!("{option} {}: {part}", number + 1);
                }
                round.take(&item);
            }
        }
        if round.program && (self.own_rules || command::wants_reading(&self.argv)) {
            let line = command::shell_line(&self.argv, &items);
            round.add("argv".to_owned(), line.into_bytes(), Some(Executed::As(Language::Bash)));
        }
        let mut source = self.source;
        let mut of_source = None;
        let mut of_workspace;
        let mut rounds = 0;
        loop {
            of_workspace = match &self.workspace {
                None => None,
                Some((base, layers)) => {
                    let executions = round.executions.clone();
                    let target = match layers.as_slice() {
                        [] => Target::Path(base.clone(), executions),
                        layers => Target::View(base.clone(), layers.to_vec(), executions),
                    };
                    let report = reads(&target)?;
                    Some((target, report))
                }
            };
            if let Some(target) = source.take() {
                of_source = Some((reads(&target)?, target));
            }
            let mut at = 0;
            // Texts found on the way are scanned in the same round.
            let mut found = false;
            if let Some((_, report)) = &of_workspace {
                round.reach.know(report);
            }
            loop {
                let before = round.state();
                found |= round.patterns();
                if let Some((report, _)) = &of_source {
                    found |= round.follow(report, From::Command);
                }
                if let Some((_, report)) = &of_workspace {
                    found |= round.follow(report, From::Workspace);
                }
                while at < round.parts.len() {
                    if round.parts[at].1.is_none() {
                        round.parts[at].1 = Some(reads(&round.parts[at].0)?);
                    }
                    at += 1;
                }
                for at in 0..round.parts.len() {
                    if let Some(report) = round.parts[at].1.take() {
                        found |= round.follow(&report, From::Command);
                        round.parts[at].1 = Some(report);
                    }
                }
                // Files that are only now known to be executed may execute others.
                if before == round.state() {
                    break;
                }
            }
            rounds += 1;
            if !found || self.workspace.is_none() {
                break;
            }
            if rounds == MAX_ROUNDS {
                let why = format!("files execute one another in more than {MAX_ROUNDS} steps");
                round.unnamed("workspace".to_owned(), why);
                let last = round.parts.len() - 1;
                round.parts[last].1 = Some(reads(&round.parts[last].0)?);
                break;
            }
        }
        if let Some((_, report)) = &of_workspace {
            round.say_given(report);
        }
        let mut done = Done { reports: Vec::new(), targets: Vec::new() };
        let mut keep = |target, report: Report, always: bool| {
            if always || report.verdict != Verdict::Allow {
                done.targets.push(target);
            }
            done.reports.push(report);
        };
        if let Some((target, report)) = of_workspace {
            keep(target, report, true);
        }
        for (target, report) in round.parts {
            let never = || unread("argv", PartState::Skipped("not read".to_owned()), Verdict::Incomplete);
            keep(target, report.unwrap_or_else(never), false);
        }
        // Kept last, so that a held item keeps its language.
        if let Some((report, target)) = of_source {
            keep(target, report, true);
        }
        Ok(done)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Workspace,
    Command,
}

struct Round<'r, 'a> {
    view: &'r View<'r>,
    argv: &'r [OsString],
    /// True when the first argument is a program.
    program: bool,
    feed: Feed<'a>,
    input: Option<Ahead>,
    executions: Executions,
    /// Files of the workspace that the command itself starts.
    started: BTreeSet<String>,
    /// `started`, and files that these execute: in all of them, unread code counts.
    run: BTreeSet<String>,
    /// Parts of the command outside the workspace, each with its report once it was scanned.
    parts: Vec<(Target, Option<Report>)>,
    /// Names of `parts`.
    named: BTreeSet<String>,
    /// Paths known only in part, and the files that they may lead to.
    reach: Reach,
    /// The workspace's path on the host: a program may use it.
    base: Option<PathBuf>,
}

impl Round<'_, '_> {
    fn add(&mut self, part: String, bytes: Vec<u8>, executed: Option<Executed>) {
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

    fn unnamed(&mut self, part: String, why: String) {
        if self.named.insert(part.clone()) {
            self.parts.push((Target::Unread(part, why), None));
        }
    }

    /// Records an item; returns true when it is new for the workspace.
    fn take(&mut self, item: &Item) -> bool {
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

    fn file(&mut self, path: &str, language: As) -> bool {
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
    fn another(&mut self, path: &str, name: &str, ending: &str) {
        let most = Limits::default().file_bytes as u64 + 1;
        match self.view.read(Path::new(path), most) {
            Some(bytes) => self.add(format!("{path} ({name}){ending}"), bytes, None),
            None => self.unnamed(format!("{path} ({name})"), "it cannot be read".to_owned()),
        }
    }

    /// True when the command executes this file of the workspace, directly or through another one.
    fn runs(&self, part: &str) -> bool {
        self.run.contains(part) || self.started.contains(part)
    }

    fn executes(&mut self, path: &str, executed: Executed) -> bool {
        if self.executions.of(Path::new(path)).contains(&executed) {
            return false;
        }
        self.executions.add(Path::new(path), executed);
        true
    }

    /// Follows the executions that a report lists; returns true when the workspace has to be scanned once
    /// more.
    fn follow(&mut self, report: &Report, from: From) -> bool {
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

    fn stdin(&mut self, name: &str, executed: Option<Executed>) {
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
    fn arguments(&mut self, executed: &Executed) -> bool {
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

mod reach;

#[cfg(test)]
mod tests;
