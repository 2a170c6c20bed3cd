//! Arguments of `test`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser};
use hotcell_verbs::test::Shards;

use super::{FarmArgs, JobArgs, KeepArgs, SandboxArgs, path, written};
use crate::outputs::OutputFiles;

/// Arguments of `hotcell test`.
#[derive(Args, Debug)]
#[command(
    after_help = "Also: --remote FARM, --shards N|auto, --json, --quiet, -v; run --help has --output-files, limits …\n\
                  Exit status: 0 passed; 1 failed; 2 none, or contradicted; 3 quarantined; 124 limit; 125 refused."
)]
pub struct TestArgs {
    /// Project, mounted copy-on-write and never written; or a stored workspace
    #[arg(value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub project: PathBuf,
    /// Framework, such as pytest or jest [default: detected]
    #[arg(long, value_name = "NAME")]
    pub framework: Option<String>,
    /// Only these tests: an id in a report, a path, or framework syntax (-k)
    #[arg(long, value_name = "WHAT", value_parser = NonEmptyStringValueParser::new())]
    pub filter: Option<String>,
    /// Stop at the first failure
    #[arg(long)]
    pub fail_fast: bool,
    /// Measure which lines the tests run (not for every framework)
    #[arg(long)]
    pub coverage: bool,
    /// Number of parallel tests [default: the framework's, or one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: Option<u32>,
    /// Run the tests N times, and name those that fail only sometimes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), hide_default_value = true)]
    pub repeat: u32,
    /// Write the results as JUnit XML
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(written))]
    pub junit: Option<PathBuf>,
    /// Write a signed statement of the result (hotcell receipt verify)
    #[arg(long, value_name = "FILE", hide = true, value_parser = OsStringValueParser::new().try_map(written))]
    pub receipt: Option<PathBuf>,
    /// Copy files that they wrote to DIR: out=coverage.xml
    #[arg(long, value_name = "DIR=GLOB", hide = true, value_parser = OutputFiles::parse)]
    pub output_files: Vec<OutputFiles>,
    /// Annotate a GitHub workflow, and add to its step summary
    #[arg(long)]
    pub github: bool,
    /// Do not use `hotcell serve`
    #[arg(long = "no-daemon", alias = "cold", hide = true)]
    pub cold: bool,
    /// Run them on a farm that speaks the Remote Execution API: grpcs://HOST:PORT/INSTANCE, or fleet for that of the configuration
    #[arg(long, value_name = "FARM", hide = true, conflicts_with_all = ["service", "before", "python", "cache"])]
    pub remote: Option<String>,
    /// With --remote: split the suite into N parts, which run at the same time; auto: by the times of an earlier run
    #[arg(long, value_name = "N|auto", hide = true, requires = "remote", conflicts_with_all = ["shard", "retry", "repeat", "list", "output_files"], value_parser = |text: &str| text.parse::<Shards>())]
    pub shards: Option<Shards>,
    /// With --remote: a result that the farm has of the same tests will do
    #[arg(long, hide = true, requires = "remote")]
    pub cached: bool,
    #[command(flatten)]
    pub farm: FarmArgs,
    #[command(flatten)]
    pub jobs_of_ci: JobArgs,
    #[command(flatten)]
    pub keep: KeepArgs,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
}
