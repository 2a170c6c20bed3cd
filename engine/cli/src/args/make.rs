//! `hotcell make`

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use hotcell_agents::{Language, Limit};
use hotcell_sandbox::units::parse_duration;

use super::path;

/// Arguments of `hotcell make`.
#[derive(Args, Debug)]
#[command(
    after_help = "An architect plans, a tester writes tests that have to fail on a stub and are frozen then, a coder\n\
                  writes the code and a debugger repairs it. All of it is read by the guard and run in sandboxes only.\n\
                  Exit status: 0 the tests pass (or planned), 1 they do not, 125 refused or no model."
)]
pub struct MakeArgs {
    /// File that describes the program, at most 64 KiB
    #[arg(value_name = "SPEC", value_parser = OsStringValueParser::new().try_map(path))]
    pub spec: PathBuf,
    /// Language: python or javascript
    #[arg(long, value_name = "LANG", default_value = "python", value_parser = Language::named)]
    pub lang: Language,
    /// Write code and tests to this new or empty folder if all tests pass
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub out: Option<PathBuf>,
    /// Use the tests in this folder; no tester is asked
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub tests: Option<PathBuf>,
    /// Print the plan and end; hotcell agent resume goes on from it
    #[arg(long, conflicts_with = "out")]
    pub plan_only: bool,
    /// Independent attempts at the code; the best is taken
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub candidates: u32,
    /// Maximum number of tested answers, for each candidate
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub iterations: u32,
    /// Limit: 0.50$, 200000tokens, 20calls or 10m; repeatable [default: 30m]
    #[arg(long, value_name = "LIMIT")]
    pub budget: Vec<Limit>,
    /// Only this model [default: those of architect, tester, coder and debugger]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Instructions for the models; repeatable
    #[arg(long, value_name = "TEXT")]
    pub constraint: Vec<String>,
    /// Time limit of one test run
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// Maximum number of output tokens of one answer
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(64..))]
    pub max_tokens: u32,
    /// Seed, for servers that have one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..1_000_000_000))]
    pub seed: Option<i64>,
}
