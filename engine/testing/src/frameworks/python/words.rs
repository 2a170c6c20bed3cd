//! A project's own configuration of its Python tests: `tox.ini` and similar files, `noxfile.py`, the target
//! `test` of a `Makefile`. Pure, and nothing is run: parts that are not certain from the text are reported as
//! not followed.
//!
//! | module | idea |
//! | --- | --- |
//! | [`command`] | one command -> what it starts |
//! | [`tox`], [`nox`], [`makefile`], [`tasks`] | where such commands stand |
//! | [`given`] | the same for the driver of one framework |

pub mod command;
pub mod given;
pub mod makefile;
pub mod nox;
pub mod tasks;
pub mod tox;

use std::collections::BTreeSet;

use crate::frameworks::javascript::Package;
use crate::frameworks::javascript::shell::Word;
use crate::project::Project;

/// Maximum number of commands followed per source.
const MAX_COMMANDS: usize = 50;
/// Placeholder for the project's folder in words and values; replaced by the driver.
pub const TOP: &str = "{hotcell:top}";
/// Placeholder for the folder in which the interpreter's packages are installed; the drivers know it (`start.py`).
pub const SITE: &str = "{hotcell:site}";

/// A test runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// pytest.
    Pytest,
    /// unittest of Python's library.
    Unittest,
    /// `manage.py test`.
    Django,
}

impl Runner {
    /// Name on hotcell's command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pytest => "pytest",
            Self::Unittest => "unittest",
            Self::Django => "django",
        }
    }
}

/// Environment of a command: its variables and its folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Variables in order; later ones replace earlier ones with the same name.
    pub variables: Vec<(String, String)>,
    /// Folder relative to the project; empty for the project itself.
    pub folder: String,
}

/// A command that starts a supported framework.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Framework.
    pub runner: Runner,
    /// Environment.
    pub place: Place,
    /// For Django, the script that starts it, relative to its folder.
    pub script: Option<String>,
    /// Arguments, without those that only name the framework.
    pub arguments: Vec<Word>,
    /// The command as written, with default arguments.
    pub words: Vec<Word>,
}

/// A command that runs tests with another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Environment.
    pub place: Place,
    /// All words of the command.
    pub words: Vec<Word>,
}

/// Configuration in one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Name for people: `tox.ini [testenv]`.
    pub source: String,
    /// Starts of supported frameworks, in order.
    pub starts: Vec<Start>,
    /// Commands that run tests with another program, in order.
    pub others: Vec<Other>,
    /// Commands that run tests with a tool of another language: `cargo test`.
    pub tools: Vec<String>,
    /// These commands, with their words and their environment.
    pub by_tools: Vec<Other>,
    /// Parts that are not followed, for people.
    pub left: Vec<String>,
}

impl Words {
    /// True when it contains commands that run tests.
    #[must_use]
    pub fn tests(&self) -> bool {
        !self.starts.is_empty() || !self.others.is_empty()
    }

    /// Commands of tools of other languages that run in a folder which holds no such project, and so no suite that hotcell
    /// would find: `cargo test --manifest-path x/Cargo.toml`. All of them when the framework was named.
    #[must_use]
    pub fn lost_tools(&self, detected: bool, project: &dyn Project) -> Vec<String> {
        let lost = |other: &&Other| !detected || !command::has_suite(&other.words, &other.place, project);
        self.by_tools.iter().filter(lost).map(|other| text_of(&other.words)).collect()
    }

    /// True when a part that is not followed seems to run tests.
    #[must_use]
    pub fn names_tests(&self) -> bool {
        self.left.iter().any(|text| text.contains("test") || text.contains("trial"))
    }

    /// Framework that is started first.
    #[must_use]
    pub fn first(&self) -> Option<Runner> {
        self.starts.first().map(|start| start.runner)
    }

    /// Classifies and adds a command.
    pub(crate) fn take(&mut self, words: &[Word], place: &Place) {
        use command::Meaning;
        let text = text_of(words);
        if self.starts.len() + self.others.len() + self.left.len() >= MAX_COMMANDS {
            return;
        }
        match command::meaning(words, place) {
            Meaning::Start(start) => self.starts.push(*start),
            Meaning::Tests => self.others.push(Other { place: place.clone(), words: words.to_vec() }),
            Meaning::Tool(name) => {
                self.tools.push(name.to_owned());
                self.by_tools.push(Other { place: place.clone(), words: words.to_vec() });
            }
            Meaning::Nothing => {}
            Meaning::Unknown => self.left.push(text),
        }
    }
}

/// Words for people.
#[must_use]
pub fn text_of(words: &[Word]) -> String {
    let all: Vec<&str> = words.iter().map(|word| word.raw.as_str()).collect();
    crate::text::clip(&all.join(" ").replace(&format!("{TOP}/"), "").replace(SITE, "site-packages"), 200)
}

/// The project's test configuration; `None` when no source has one. The first source that runs tests is used.
#[must_use]
pub fn of(project: &dyn Project) -> Option<Words> {
    let all = || {
        let first = tox::read(project).into_iter().chain(nox::read(project)).chain(makefile::read(project));
        first.chain(tasks::read(project))
    };
    all()
        .find(|words| !words.starts.is_empty())
        .or_else(|| all().find(Words::tests))
        .or_else(|| all().find(|words| words.names_tests() || !words.by_tools.is_empty()))
}

/// Tools of other languages that any of the project's sources use to run tests.
#[must_use]
pub fn tools(project: &dyn Project) -> BTreeSet<String> {
    let all = tox::read(project).into_iter().chain(nox::read(project)).chain(makefile::read(project));
    let all = all.chain(tasks::read(project));
    let mut tools: BTreeSet<String> = all.flat_map(|words| words.tools).collect();
    let package = Package::read(project);
    for (tool, command) in [("cargo", "cargo test"), ("go", "go test")] {
        tools.extend(package.script.contains(command).then(|| tool.to_owned()));
    }
    tools
}

/// The beginning of a text file.
pub(crate) fn text(project: &dyn Project, path: &str) -> Option<String> {
    let bytes = project.has(path).then(|| project.read(path)).flatten()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
#[path = "words/tests.rs"]
mod tests;
