//! `hotcell make`

use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use hotcell_agents::Language;

use super::{EffortArgs, path, written};

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
    /// Language: python, javascript, go or rust
    #[arg(long, value_name = "LANG", default_value = "python", value_parser = Language::named)]
    pub lang: Language,
    /// Write code and tests to this new or empty folder if all tests pass
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(written))]
    pub out: Option<PathBuf>,
    /// Use the plan in this file; no architect is asked
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(path))]
    pub plan: Option<PathBuf>,
    /// Use the tests in this folder; no tester is asked
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub tests: Option<PathBuf>,
    /// Print the plan and end; hotcell agent resume goes on from it
    #[arg(long, conflicts_with = "out")]
    pub plan_only: bool,
    /// Let each role work in a process of its own (hotcell mcp --role)
    #[arg(long, conflicts_with_all = ["plan", "tests", "plan_only", "candidates", "iterations", "budget", "model",
        "constraint", "timeout", "max_tokens", "seed", "receipt"])]
    pub processes: bool,
    /// Only this model [default: those of architect, tester, coder and debugger]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    #[command(flatten)]
    pub effort: EffortArgs,
}
