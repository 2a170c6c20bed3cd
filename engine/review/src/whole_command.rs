//! The whole command as the gate scans it: its arguments, its variables, its standard input and the files
//! that these execute, beside the workspace.
//!
//! Scanning goes in rounds: scanned code may execute something else that the run has (a file by its name, its
//! standard input), which is then scanned as what it is executed as, until nothing new is found.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use hotcell_guard::command::{self, Command, Files, Item, Node};
use hotcell_guard::{Executed, Executions, Language, PartState, Report, Verdict, unread};
use hotcell_workspace::{Folder, Kind, Layer, Stack};
use reach::Reach;
use round::{From, Round};

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
    pub fn of_source(artifact: hotcell_guard::Artifact) -> Self {
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

mod reach;
mod round;

#[cfg(test)]
mod tests;
