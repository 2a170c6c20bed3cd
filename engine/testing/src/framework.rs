//! Knowledge about one test framework, as pure functions of data; nothing here starts anything.

use std::ffi::OsString;
use std::fmt::Debug;
use std::path::PathBuf;

use crate::case::{FinalReport, ReportError};
use crate::coverage::Measured;
use crate::event::EventReader;
use crate::live::LiveLog;
use crate::project::Project;

/// Folder inside that contains hotcell's reporters, below the home folder.
pub const REPORTERS: &str = "/home/sandbox/.hotcell";
/// Folder for reports, below the home folder. It is separate from the reporters, whose folder is read-only.
pub const REPORTS: &str = ".hotcell-reports";

/// Exit code of hotcell's drivers when the framework is not installed.
pub(crate) const NOT_INSTALLED: i32 = 86;

/// Selected tests, and how to run them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// An id, a path or an expression in the framework's syntax; without it, all tests.
    pub filter: Option<String>,
    /// Stop at the first test that is not good.
    pub fail_fast: bool,
    /// Number of parallel workers; by default the framework decides.
    pub jobs: Option<u32>,
    /// True when the framework was detected, not named: the project's own test configuration then has to be
    /// followed.
    pub detected: bool,
    /// Each test in a process of its own, where a test can end the process of the others: only Go's tests do.
    pub isolated: bool,
}

/// Parts of the project's own test configuration that a run did not follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Deviations from the project's configuration, for people. None of them makes a result doubtful.
    pub notes: Vec<String>,
    /// A part that runs tests and was not followed: because of it, the run cannot pass.
    pub left: Option<String>,
    /// A part that was not built, in case many tests are skipped.
    pub unbuilt: Option<String>,
}

/// Strength of the evidence that a project uses a framework.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// There are files with names of tests.
    Shaped,
    /// Tests use the framework.
    Used,
    /// The project configures the framework.
    Configured,
}

/// Evidence that a project uses a framework.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Strength.
    pub strength: Strength,
    /// Explanation, with the file.
    pub reason: String,
}

/// Source of live events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveSource {
    /// Descriptor 3.
    Descriptor,
    /// Standard output.
    Stdout,
}

/// A file of hotcell's that the program must see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// Name below [`REPORTERS`].
    pub name: &'static str,
    /// Contents.
    pub text: &'static str,
}

/// How a framework is started and followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments. The program is a name that the caller looks up in its toolchain.
    pub argv: Vec<OsString>,
    /// Variables to add.
    pub env: Vec<(OsString, OsString)>,
    /// Files of hotcell.
    pub reporters: Vec<Reporter>,
    /// Paths of the final report, relative to the home folder.
    pub reports: Vec<PathBuf>,
    /// Source of live events.
    pub live: LiveSource,
    /// Files that seem to contain tests, with paths on the host; empty when only some tests are selected.
    pub files: Vec<String>,
}

/// Why there is no command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The framework has no such option.
    #[error("{framework} has no {option}; {hint}")]
    Unsupported {
        /// Framework.
        framework: &'static str,
        /// Option of `hotcell test`.
        option: &'static str,
        /// Advice.
        hint: &'static str,
    },
}

/// Meaning of an exit code by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitMeaning {
    /// Every test that ran is good. Some frameworks also use it when no test ran.
    AllPassed,
    /// At least one test is not good.
    SomeFailed,
    /// Tests could not be collected, if broken files were reported; otherwise the run was interrupted.
    CollectionFailed,
    /// There was nothing to run.
    NoTests,
    /// The framework, or a requested part of it, is not installed.
    NotInstalled,
    /// Another error, described in words.
    Broken(&'static str),
}

/// Ecosystem; its projects are tested by one framework of it.
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

/// A test framework.
pub trait Framework: Debug + Sync {
    /// Name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// Ecosystem of its projects.
    fn ecosystem(&self) -> Ecosystem;

    /// Evidence that a project uses it. The project is hostile; `project` limits what is read of it.
    fn detect(&self, project: &dyn Project) -> Option<Evidence>;

    /// Makes the command.
    ///
    /// # Errors
    /// [`CommandError::Unsupported`] for a selection that the framework does not support.
    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError>;

    /// Parts of the project's own test configuration that its command does not follow.
    fn followed(&self, _selection: &Selection, _project: &dyn Project) -> Followed {
        Followed::default()
    }

    /// Modules that its interpreter imports before any code of the project, for every project: a waiting
    /// interpreter may import them in advance.
    fn imports(&self) -> &'static [&'static str] {
        &[]
    }

    /// Enables coverage in a command and returns its place. `None` when the framework does not support it.
    fn cover(&self, _command: &mut Command, _project: &dyn Project) -> Option<Measured> {
        None
    }

    /// Reader of its live events.
    fn events(&self) -> Box<dyn EventReader>;

    /// Parses its final report: the bytes of [`Command::reports`], in that order. The live events tell the id
    /// of an entry if the report writes it differently.
    ///
    /// # Errors
    /// [`ReportError::Broken`] when the report is incomplete; such a run never passes.
    fn report(&self, files: &[Vec<u8>], live: &LiveLog) -> Result<FinalReport, ReportError>;

    /// True when its report may be worse than the live events: nextest also considers time, leaks and other
    /// attempts. It may never be better.
    fn overrules(&self) -> bool {
        false
    }

    /// Meaning of its exit code.
    fn exit(&self, code: i32) -> ExitMeaning;

    /// Last part of an id, for people: after the last `::`.
    fn name_of(&self, id: &str) -> String {
        id.rsplit("::").next().unwrap_or(id).to_owned()
    }

    /// Prefixes of an id that may name its file, as a path or with dots; empty when ids do not contain it.
    fn heads<'a>(&self, id: &'a str) -> Vec<&'a str>;

    /// Further files that the test of an id may lie in, where a program has several.
    fn files_of(&self, _id: &str) -> Vec<String> {
        Vec::new()
    }

    /// True when a missing report is not suspicious: nothing could be built, and that was observed.
    fn builds_nothing(&self, _live: &LiveLog) -> bool {
        false
    }

    /// Explanation of the end of its standard error, when its last lines are not enough.
    fn explain(&self, _stderr: &str) -> Option<String> {
        None
    }

    /// Standard error up to the framework's summary of a program that ended badly.
    fn of_tests<'a>(&self, stderr: &'a str) -> &'a str {
        stderr
    }

    /// True for a trimmed line of standard error that the framework itself writes, about its progress.
    fn is_own_line(&self, _line: &str) -> bool {
        false
    }

    /// Host folders with the project's dependencies, to be mounted read-only, and their paths below the home
    /// folder inside. `variable` looks up this process's environment.
    fn stores(
        &self,
        _project: &dyn Project,
        _variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Vec<(PathBuf, PathBuf)> {
        Vec::new()
    }

    /// Advice when `what` is not installed for this interpreter; `None` when it is not a part of the
    /// framework, since the name comes from the untrusted program.
    fn install(&self, what: &str, interpreter: &str) -> Option<String>;
}
