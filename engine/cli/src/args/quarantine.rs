//! Arguments of `quarantine`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use hotcell_sandbox::units::parse_duration;

use super::path;

/// Arguments of `hotcell quarantine …`.
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "An item is refused by `run` and `test` until it is released: one artifact, byte for byte, read under\n\
                  the rules in force, for a time and a number of runs. Exit status: 0 good, 125 refused."
)]
pub struct QuarantineArgs {
    /// Your own rules, as used for runs
    #[arg(long, global = true, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub rules: Option<PathBuf>,
    #[command(subcommand)]
    pub command: QuarantineCommand,
}

/// Commands on items in the quarantine.
#[derive(Debug, Subcommand)]
pub enum QuarantineCommand {
    /// List the items, most recently refused last
    List,
    /// Show an item: findings, locations, and decisions
    Show {
        /// Id of the item, or its first characters
        id: String,
    },
    /// Ask for a release
    Request {
        /// Id of the item, or its first characters
        id: String,
        /// Reason; recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Allow the item to run
    Release {
        /// Id of the item, or its first characters
        id: String,
        /// Reason; recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Only if it is still as `show` printed it with this word
        #[arg(long, value_name = "DIGEST")]
        shown: Option<String>,
        /// Time for which it may run [default: 1d]
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        expires: Option<Duration>,
        /// Number of times that it may run [default: 1]
        #[arg(long = "max-uses", alias = "uses", allow_negative_numbers = true, value_name = "N")]
        uses: Option<u32>,
    },
    /// Reject a request, or revoke a release
    Reject {
        /// Id of the item, or its first characters
        id: String,
        /// Reason; recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Only if it is still as `show` printed it with this word
        #[arg(long, value_name = "DIGEST")]
        shown: Option<String>,
    },
    /// Remove the stored data of an item; the record of it is kept
    Purge {
        /// Id of the item, or its first characters
        #[arg(required_unless_present = "expired", conflicts_with = "expired")]
        id: Option<String>,
        /// All items whose retention time is over
        #[arg(long)]
        expired: bool,
    },
}
