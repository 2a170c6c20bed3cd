//! `hotcell review`

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use hotcell_agents::Limit;

use super::path;
use super::times::time_limit;

/// Arguments of `hotcell review`.
#[derive(Args, Debug)]
#[command(
    after_help = "The guard reads everything, tests run in a sandbox, and a score is computed from that. A model of\n\
                  the role reviewer then names defects, each with a line that exists; they only take points away.\n\
                  Exit status: 0 nothing at review or above, 1 findings, 125 refused, 130 interrupted."
)]
pub struct ReviewArgs {
    /// Project, source file or archive; it is not changed
    #[arg(value_name = "PATH", value_parser = OsStringValueParser::new().try_map(path))]
    pub path: PathBuf,
    /// quick: nothing runs; comprehensive: with coverage
    #[arg(long, value_enum, value_name = "DEPTH", default_value = "standard", hide_possible_values = true)]
    pub depth: DepthArg,
    /// Only this model [default: those of the role reviewer]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Limit: 0.50$, 200000tokens, 20calls or 10m; repeatable [default: 30m]
    #[arg(long, value_name = "LIMIT")]
    pub budget: Vec<Limit>,
    /// Framework, such as pytest or jest [default: detected]
    #[arg(long, value_name = "NAME")]
    pub framework: Option<String>,
    /// Time limit of the tests
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    pub timeout: Option<Duration>,
}

/// Depth of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DepthArg {
    /// Nothing runs
    Quick,
    /// Tests run
    Standard,
    /// Coverage is measured as well
    #[value(alias = "deep")]
    Comprehensive,
}
