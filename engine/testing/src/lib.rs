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
//! | [`mod@framework`] | knowledge about one framework: [`pytest`], [`unittest`], [`django`] |
//! | [`mod@cargo`], [`nextest`], [`libtest`], [`golang`], [`runner`] | Rust and Go: compiled, each test program started through a hotcell script |
//! | [`gtest`], [`native`], [`programs`] | Google Test; following programs that a script starts |
//! | [`node`] | node's own runner, mocha, jasmine, karma, vitest |
//! | [`pgtap`], [`tap`] | tests in SQL; the Test Anything Protocol |
//! | [`tap_program`] | tape, node-tap, ava, and other programs in JavaScript that print TAP |
//! | [`java`] | JUnit, driven by a hotcell program in Java |
//! | [`project`], [`python`] | reading a hostile project to find its framework |
//! | [`javascript`], [`jest`], [`jest_report`] | reading JavaScript projects; jest and its report |
//! | [`build_args`] | options of the tools that build tests |
//! | [`event`], [`live`] | live events of running tests |
//! | [`case`], [`junit`] | contents of final reports |
//! | [`judge`] | three witnesses -> one verdict |
//! | [`report`], [`repeat`], [`retry`] | `hotcell.test_report/1`; several runs in one; reruns of failed tests |
//! | [`chosen`], [`shard`] | commands for several tests by their ids, and for a list of them; shards of a suite |
//! | [`session`] | drives a run |
//! | [`junit_out`], [`github`], [`coverage_out`] | a report as JUnit XML, and for a GitHub workflow; coverage as files |
//! | [`text`] | shortened text |

#![forbid(unsafe_code)]

pub mod build_args;
pub mod cargo;
pub mod case;
pub mod chosen;
pub mod coverage;
pub mod coverage_out;
pub mod django;
pub mod event;
pub mod framework;
pub mod github;
pub mod golang;
pub mod gtest;
pub mod java;
pub mod javascript;
pub mod jest;
pub mod jest_report;
pub mod judge;
pub mod junit;
pub mod junit_out;
pub mod libtest;
pub mod lines;
pub mod live;
pub mod native;
pub mod nextest;
pub mod node;
pub mod pgtap;
pub mod programs;
pub mod project;
pub mod pytest;
pub mod python;
pub mod repeat;
pub mod report;
pub mod retry;
pub mod runner;
pub mod session;
pub mod shard;
pub mod suites;
pub mod tap;
pub mod tap_program;
pub mod text;
pub mod unittest;

pub use case::{Case, Status};
pub use event::Event;
pub use framework::{
    Command, Evidence, Followed, Framework, Selection, detect, framework, frameworks, rival,
};
pub use judge::Verdict;
pub use project::{Entry, Project, ProjectFolder, list};
pub use report::TestReport;
pub use session::{Cancel, Progress, Session};
