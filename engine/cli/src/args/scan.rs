//! Arguments of `scan`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::{path, written};

/// Arguments of `hotcell scan`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 all allowed; 1 something at review; 3 something quarantined, or not read whole; 125 a\n\
                  path or the rules cannot be read; 130 interrupted."
)]
pub struct ScanArgs {
    /// Files or folders; - for stdin
    #[arg(value_name = "PATH", required = true, value_parser = OsStringValueParser::new().try_map(path))]
    pub paths: Vec<PathBuf>,
    /// Your own rules, in addition to those of hotcell
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub rules: Option<PathBuf>,
    /// Also read files that .gitignore lists
    #[arg(long)]
    pub no_ignore: bool,
    /// Also read virtual environments and node_modules
    #[arg(long = "include-packages", alias = "packages")]
    pub packages: bool,
    /// Quarantine what a run would refuse, for review
    #[arg(long)]
    pub quarantine: bool,
    /// Print the report as SARIF 2.1.0, for code hosts and editors
    #[arg(long, conflicts_with = "json")]
    pub sarif: bool,
    /// Print fingerprints of the code, as lines for a feed
    #[arg(long, conflicts_with_all = ["sarif", "quarantine", "receipt"])]
    pub fingerprint: bool,
    /// Read everything again, including files that have not changed
    #[arg(long)]
    pub no_cache: bool,
    /// Write a signed statement of the verdict (hotcell receipt verify)
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(written))]
    pub receipt: Option<PathBuf>,
}
