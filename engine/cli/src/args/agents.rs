//! `hotcell fix` and `hotcell agent …`

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use hotcell_agents::Limit;

use super::times::time_limit;
use super::{VerbCommand, path, written};

/// How much a session may try, and how: options of `hotcell fix` and `hotcell make`.
#[derive(Args, Debug)]
pub struct EffortArgs {
    /// Number of independent attempts; the best is taken
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub candidates: u32,
    /// Maximum number of tested answers, for each candidate
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub iterations: u32,
    /// Limit: 0.50$, 200000tokens, 20calls or 10m; repeatable [default: 30m]
    #[arg(long, value_name = "LIMIT")]
    pub budget: Vec<Limit>,
    /// Instructions for the models; repeatable
    #[arg(long, value_name = "TEXT")]
    pub constraint: Vec<String>,
    /// Time limit of one test run
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    pub timeout: Option<Duration>,
    /// Maximum number of output tokens of one answer
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(64..))]
    pub max_tokens: u32,
    /// Write a signed statement of the result (hotcell receipt verify)
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(written))]
    pub receipt: Option<PathBuf>,
    /// Seed, for servers that have one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..1_000_000_000))]
    pub seed: Option<i64>,
}

/// Arguments of `hotcell fix`.
#[derive(Args, Debug)]
#[command(
    after_help = "A model's code is read by the guard and run in sandboxes only. Tests and hidden files are never\n\
                  changed. Without --commit, DIR is not changed either: the diff is printed.\n\
                  Exit status: 0 the tests pass, 1 they do not, 2 no tests, 3 quarantined, 125 refused or no model."
)]
pub struct FixArgs {
    /// Project whose tests fail; models get a copy-on-write copy
    #[arg(value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub project: PathBuf,
    /// Write the change to DIR if all tests pass
    #[arg(long)]
    pub commit: bool,
    /// Only this model [default: those of the roles debugger and coder]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Framework, such as pytest or jest [default: detected]
    #[arg(long, value_name = "NAME")]
    pub framework: Option<String>,
    /// Only these tests: an id in a report, a path, or framework syntax
    #[arg(long, value_name = "WHAT")]
    pub filter: Option<String>,
    /// Install what lock files name, for the tests
    #[arg(long)]
    pub deps: bool,
    #[command(flatten)]
    pub effort: EffortArgs,
}

/// Commands of `hotcell agent`.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Commands on verbs.
    #[command(flatten)]
    Verb(VerbCommand),
    /// Commands on sessions of `hotcell fix` and `hotcell make`.
    #[command(flatten)]
    Repair(RepairCommand),
}

/// Commands on sessions of `hotcell fix` and `hotcell make`.
#[derive(Debug, Subcommand)]
pub enum RepairCommand {
    /// List sessions, the newest first
    List,
    /// Show a session: what was tried, with its evidence, cost and diff
    Show {
        /// Id of the session, or its beginning
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Go on with a session that was interrupted, or decide about one without success
    Resume(ResumeArgs),
    /// Write a session into a new folder: changes, evidence, and every event
    Export {
        /// Id of the session, or its beginning
        #[arg(value_name = "ID")]
        id: String,
        /// Folder, which must not exist
        #[arg(value_name = "DIR", value_parser = OsStringValueParser::new().try_map(written))]
        to: PathBuf,
        /// Also write receipt.json, a signed statement about these files
        #[arg(long)]
        receipt: bool,
    },
}

/// Arguments of `hotcell agent resume`.
#[derive(Args, Debug)]
#[command(
    after_help = "An interrupted session needs no option. One that ended without success goes on with higher\n\
                  limits, another model or further instructions, or it is accepted or aborted.\n\
                  Exit status: as of hotcell fix."
)]
pub struct ResumeArgs {
    /// Id of the session, or its beginning
    #[arg(value_name = "ID")]
    pub id: String,
    /// Raise the maximum number of iterations to N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50))]
    pub iterations: Option<u32>,
    /// Set a limit of the session: 1$, 400000tokens, 40calls or 20m; repeatable
    #[arg(long, value_name = "LIMIT")]
    pub budget: Vec<Limit>,
    /// Go on with this model
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Add instructions for the model; repeatable
    #[arg(long, value_name = "TEXT")]
    pub constraint: Vec<String>,
    /// Accept the best artifact as it is
    #[arg(long, conflicts_with_all = ["iterations", "budget", "model", "constraint", "abort"])]
    pub accept: bool,
    /// End the session for good
    #[arg(long, conflicts_with_all = ["iterations", "budget", "model", "constraint", "commit"])]
    pub abort: bool,
    /// Write the change to the project if all tests pass, or with --accept
    #[arg(long)]
    pub commit: bool,
    /// Write a signed statement of the result (hotcell receipt verify)
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(written))]
    pub receipt: Option<PathBuf>,
    /// Of hotcell make: write the result to this new or empty folder
    #[arg(long, value_name = "DIR", conflicts_with = "abort", value_parser = OsStringValueParser::new().try_map(written))]
    pub out: Option<PathBuf>,
}
