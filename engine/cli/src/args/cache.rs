//! `hotcell cache …`

use std::time::Duration;

use clap::{ArgGroup, Subcommand};
use hotcell_sandbox::Bytes;
use hotcell_sandbox::units::parse_duration;

/// Commands for data that only saves time, and is made again when it is needed.
#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// List it, the last used first
    List,
    /// Remove entries that are unused or beyond a size
    #[command(group(ArgGroup::new("which").required(true).multiple(true).args(["older", "most"])))]
    Prune {
        /// Entries unused for at least this time, such as 7d
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        older: Option<Duration>,
        /// Least recently used entries, until this size is left, such as 2G
        #[arg(long, value_name = "SIZE")]
        most: Option<Bytes>,
    },
    /// Remove all of it; not while runs go on that use it
    Clear,
}
