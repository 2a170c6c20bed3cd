//! Options of `hotcell test` for jobs of continuous integration.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use hotcell_testing::shard::Shard;
use hotcell_verbs::test::{Beside, CacheName, Service};

use super::{path, written};

/// The options for files of coverage.
pub const LCOV: &str = "--coverage-lcov";
pub const COBERTURA: &str = "--coverage-cobertura";

/// Options for selecting and repeating tests, and for what runs beside them.
#[derive(Args, Clone, Debug)]
pub struct JobArgs {
    /// Run failed tests again up to N times; passed then is flaky
    #[arg(long, help_heading = "Jobs", value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100), hide_default_value = true, conflicts_with_all = ["repeat", "fail_fast"])]
    pub retry: u32,
    /// Only list the tests, one a line
    #[arg(long, help_heading = "Jobs", conflicts_with_all = ["shard", "retry", "repeat", "coverage", "junit", "github", "diff", "commit", "coverage_lcov", "coverage_cobertura"])]
    pub list: bool,
    /// Run only part K of N (of like time: --shard-times REPORT)
    #[arg(long, help_heading = "Jobs", value_name = "K/N", value_parser = |text: &str| text.parse::<Shard>())]
    pub shard: Option<Shard>,
    /// With --shard: parts of like time, by an earlier --json report
    #[arg(long, help_heading = "Jobs", value_name = "FILE", requires = "shard", hide = true, value_parser = OsStringValueParser::new().try_map(path))]
    pub shard_times: Option<PathBuf>,
    /// Start postgres, redis or a command first, until it answers
    #[arg(long, help_heading = "Jobs", value_name = "NAME|COMMAND", value_parser = command)]
    pub service: Vec<String>,
    /// Succeeds when --service commands answer [default: listen]
    #[arg(long, help_heading = "Jobs", value_name = "COMMAND", requires = "service", value_parser = command)]
    pub service_ready: Vec<String>,
    /// Run a command in the sandbox before the tests
    #[arg(long, help_heading = "Jobs", value_name = "COMMAND", value_parser = command)]
    pub before: Vec<String>,
    /// Run Python's tests with each: 3.10,3.12 or paths
    #[arg(long, help_heading = "Jobs", value_name = "VERSION,…", value_parser = pythons)]
    pub python: Option<Pythons>,
    /// Keep compiled parts for the next run of NAME (NAME:ro only reads)
    #[arg(long, help_heading = "Jobs", value_name = "NAME", conflicts_with_all = ["list"], value_parser = |text: &str| text.parse::<CacheName>())]
    pub cache: Option<CacheName>,
    /// For the tool that builds them: -DX_BUILD_TESTS=ON of CMake
    #[arg(long, help_heading = "Jobs", value_name = "ARG", allow_hyphen_values = true)]
    pub build_arg: Vec<String>,
    /// Hide a passed variable's value in all that hotcell writes
    #[arg(long, help_heading = "Jobs", value_name = "NAME")]
    pub mask: Vec<String>,
    /// Measure coverage, and write it as LCOV
    #[arg(long, help_heading = "Jobs", value_name = "FILE", value_parser = OsStringValueParser::new().try_map(written))]
    pub coverage_lcov: Option<PathBuf>,
    /// Measure coverage, and write it as Cobertura's XML
    #[arg(long, help_heading = "Jobs", value_name = "FILE", value_parser = OsStringValueParser::new().try_map(written))]
    pub coverage_cobertura: Option<PathBuf>,
}

impl JobArgs {
    /// Files of coverage, each with its option.
    pub fn coverage_files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let lcov = self.coverage_lcov.as_deref().map(|file| (LCOV, file));
        lcov.into_iter().chain(self.coverage_cobertura.as_deref().map(|file| (COBERTURA, file)))
    }

    /// The options for what runs beside the tests.
    pub fn beside(&self) -> Beside {
        let services = self.service.iter().filter_map(|text| text.parse::<Service>().ok());
        Beside {
            services: services.collect(),
            ready: self.service_ready.clone(),
            before: self.before.clone(),
        }
    }
}

/// The Pythons of one list.
pub type Pythons = Vec<String>;

fn pythons(text: &str) -> Result<Pythons, String> {
    hotcell_verbs::test::pythons::listed(text)
}

fn command(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("there is no command in it".to_owned()),
        _ => Ok(text.to_owned()),
    }
}
