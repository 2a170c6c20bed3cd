//! What hotcell knows about one test framework. All of it is a pure function of data; nothing here starts anything.

use std::ffi::OsString;
use std::fmt::Debug;
use std::path::PathBuf;

use crate::case::{FinalReport, ReportError};
use crate::coverage::Measured;
use crate::event::EventReader;
use crate::jest;
use crate::live::LiveLog;
use crate::project::Project;
use crate::{cargo, golang, gtest, java, nextest, node, pgtap};
use crate::{pytest, unittest};

/// The folder inside that holds our reporters, below the home folder.
pub const REPORTERS: &str = "/home/sandbox/.hotcell";
/// The folder in the home folder to which reports are written. Not the reporters' own: that is not writable.
pub const REPORTS: &str = ".hotcell-reports";

/// Which tests are to run, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// An id, a path or an expression, as the framework reads it; all tests without.
    pub filter: Option<String>,
    /// Stop at the first test that is not good.
    pub fail_fast: bool,
    /// This many at once; the framework's own choice without.
    pub jobs: Option<u32>,
}

/// How sure it is that a project uses a framework.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// There are files that it would take for tests.
    Shaped,
    /// Tests use it.
    Used,
    /// The project configures it.
    Configured,
}

/// Why a project seems to use a framework.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// How sure it is.
    pub strength: Strength,
    /// In words, with the file.
    pub reason: String,
}

/// Where live events come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveSource {
    /// Descriptor 3.
    Descriptor,
    /// Standard output.
    Stdout,
}

/// A file of ours that the program must see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// Its name below [`REPORTERS`].
    pub name: &'static str,
    /// What is in it.
    pub text: &'static str,
}

/// How a framework is started and followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments. The program is a name, for the caller to look up in its toolchain.
    pub argv: Vec<OsString>,
    /// Variables to add.
    pub env: Vec<(OsString, OsString)>,
    /// Our files.
    pub reporters: Vec<Reporter>,
    /// Where the final report will lie, relative to the home folder.
    pub reports: Vec<PathBuf>,
    /// Where live events come from.
    pub live: LiveSource,
    /// Files that seem to hold tests, as they are outside; none where only some tests are asked for.
    pub files: Vec<String>,
}

/// Why there is no command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The framework has nothing like this option.
    #[error("{framework} has no {option}; {hint}")]
    Unsupported {
        /// Which framework.
        framework: &'static str,
        /// The option of `hotcell test`.
        option: &'static str,
        /// What to do.
        hint: &'static str,
    },
}

/// What an exit code says by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitMeaning {
    /// Every test that ran is good. Some frameworks say so also when none ran.
    AllPassed,
    /// At least one is not.
    SomeFailed,
    /// Tests could not be collected, if broken files were reported; else the run was interrupted.
    CollectionFailed,
    /// There was nothing to run.
    NoTests,
    /// The framework, or a part of it that was asked for, is not installed.
    NotInstalled,
    /// Something else went wrong; what, in words.
    Broken(&'static str),
}

/// Projects of one ecosystem are tested by one framework of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecosystem {
    /// Python.
    Python,
    /// JavaScript and TypeScript.
    JavaScript,
    /// Rust.
    Rust,
    /// Go.
    Go,
    /// C and C++.
    Cpp,
    /// Java.
    Java,
    /// SQL.
    Sql,
}

impl Ecosystem {
    /// Every ecosystem.
    pub const ALL: [Self; 7] =
        [Self::Python, Self::JavaScript, Self::Rust, Self::Go, Self::Cpp, Self::Java, Self::Sql];
}

/// One test framework.
pub trait Framework: Debug + Sync {
    /// Its name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// The ecosystem of its projects.
    fn ecosystem(&self) -> Ecosystem;

    /// Whether a project uses it. The project is hostile; `project` bounds what is read of it.
    fn detect(&self, project: &dyn Project) -> Option<Evidence>;

    /// How it is started.
    ///
    /// # Errors
    /// [`CommandError`] for a selection that it cannot make.
    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError>;

    /// Modules that its interpreter imports before anything of the project, whatever the project: one that waits for a job
    /// may have imported them.
    fn imports(&self) -> &'static [&'static str] {
        &[]
    }

    /// Has a command measure coverage too; where that will lie. `None` where the framework has nothing for it.
    fn cover(&self, _command: &mut Command, _project: &dyn Project) -> Option<Measured> {
        None
    }

    /// Reads its live events.
    fn events(&self) -> Box<dyn EventReader>;

    /// Reads its final report: the bytes of [`Command::reports`], in that order. What was seen live tells which id
    /// an entry has where the report writes it differently.
    ///
    /// # Errors
    /// [`ReportError::Broken`]; a report that is not whole never passes.
    fn report(&self, files: &[Vec<u8>], live: &LiveLog) -> Result<FinalReport, ReportError>;

    /// Whether its report may find a test worse than it was seen: nextest looks at time, leaks and other attempts too. Never better.
    fn overrules(&self) -> bool {
        false
    }

    /// What its exit code says.
    fn exit(&self, code: i32) -> ExitMeaning;

    /// The last part of an id, for people.
    fn name_of(&self, id: &str) -> String;

    /// The beginnings of an id that may name its file, as a path or with dots; none where ids do not tell.
    fn heads<'a>(&self, id: &'a str) -> Vec<&'a str>;

    /// Whether a report that was not written is no reason for doubt: nothing could be built, and that was seen.
    fn builds_nothing(&self, _live: &LiveLog) -> bool {
        false
    }

    /// What the end of its standard error means, where people need more than its last lines.
    fn explain(&self, _stderr: &str) -> Option<String> {
        None
    }

    /// Folders of this host with what the project depends on, to be shown read-only, and where below the home folder inside.
    /// `variable` is this process's environment.
    fn stores(
        &self,
        _project: &dyn Project,
        _variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Vec<(PathBuf, PathBuf)> {
        Vec::new()
    }

    /// What to do when `what` is not installed for this interpreter; none for what is not a part of the framework:
    /// `what` is the program's word.
    fn install(&self, what: &str, interpreter: &str) -> Option<String>;
}

/// Every framework, the one that goes first among equals first.
#[must_use]
pub fn frameworks() -> &'static [&'static dyn Framework] {
    &[
        &pytest::Pytest,
        &unittest::Unittest,
        &jest::Jest,
        &node::VITEST,
        &node::KARMA,
        &node::MOCHA,
        &node::JASMINE,
        &node::NODE,
        &cargo::Cargo,
        &nextest::Nextest,
        &golang::Go,
        &gtest::GoogleTest,
        &java::Junit,
        &pgtap::PgTap,
    ]
}

/// The framework of this name.
#[must_use]
pub fn framework(name: &str) -> Option<&'static dyn Framework> {
    frameworks().iter().copied().find(|f| f.name() == name)
}

/// The frameworks that a project seems to use, the likeliest first.
#[must_use]
pub fn detect(project: &dyn Project) -> Vec<(&'static dyn Framework, Evidence)> {
    let mut found: Vec<_> = frameworks().iter().filter_map(|f| Some((*f, f.detect(project)?))).collect();
    found.sort_by_key(|(_, evidence)| std::cmp::Reverse(evidence.strength));
    found
}

/// The one that goes as well as the likeliest, when that cannot be told: both are configured, or tests use both. pytest
/// runs unittest's tests too.
#[must_use]
pub fn rival<'a>(
    found: &'a [(&'static dyn Framework, Evidence)],
) -> Option<&'a (&'static dyn Framework, Evidence)> {
    let [(first, best), (second, other), ..] = found else { return None };
    let same = best.strength == other.strength && best.strength > Strength::Shaped;
    let python = (first.name(), second.name()) == ("pytest", "unittest");
    found.get(1).filter(|_| same && !python)
}

#[cfg(test)]
#[path = "framework_tests.rs"]
mod tests;
