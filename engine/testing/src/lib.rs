//! Finds a project's test framework, runs its tests in a sandbox, and reports the results.
//!
//! A test run has three witnesses, all controlled by the tests: the final report, the live events, and the
//! exit code. A run passes only when all three agree on every test.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use hotcell_sandbox::{Engine, Policy};
//! use hotcell_testing::{ProjectFolder, Selection, Session, detect};
//!
//! let project = ProjectFolder::open("shop".as_ref())?;
//! let (framework, _evidence) = detect(&project).remove(0);
//! let command = framework.command(&Selection::default(), &project)?;
//! let policy = Policy::new("python3").args(&command.argv[1..]).workspace("shop");
//! let session = Session::new(framework, command, policy)?;
//! let report = session.run(Engine::shared(), &mut |_| ()).await;
//! println!("{:?}: {} passed, {} failed", report.verdict, report.totals.passed, report.totals.failed);
//! # Ok(()) }
//! ```
//!
//! | module | idea |
//! | --- | --- |
//! | [`mod@framework`] | knowledge about one framework |
//! | [`mod@frameworks`] | the frameworks, and how the one of a project is found |
//! | [`project`] | reading a hostile project to find its framework |
//! | [`build_args`] | options of the tools that build tests |
//! | [`event`], [`live`] | live events of running tests |
//! | [`case`], [`junit`], [`coverage`] | contents of final reports |
//! | [`report`] | `hotcell.test_report/1`: the verdict, several runs in one, other forms |
//! | [`chosen`], [`shard`] | commands for several tests by their ids, and for a list of them; shards of a suite |
//! | [`session`], [`suites`] | drives a run; suites in several folders |
//! | [`text`] | shortened text |

#![forbid(unsafe_code)]

pub mod build_args;
pub mod case;
pub mod chosen;
pub mod coverage;
pub mod event;
pub mod framework;
pub mod frameworks;
pub mod junit;
pub mod live;
pub mod project;
pub mod report;
pub mod session;
pub mod shard;
pub mod suites;
pub mod text;

pub use case::{Case, Status};
pub use event::Event;
pub use framework::{Command, Evidence, Followed, Framework, Selection};
pub use frameworks::{detect, framework, frameworks, rival};
pub use project::{Entry, Project, ProjectFolder, list};
pub use report::TestReport;
pub use report::verdict::Verdict;
pub use session::{Cancel, Progress, Session};
