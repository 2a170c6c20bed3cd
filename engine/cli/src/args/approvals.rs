//! `hotcell approvals …`

use std::time::Duration;

use clap::Subcommand;
use hotcell_sandbox::units::parse_duration;

/// Requests of callers, and a person's word on them.
#[derive(Debug, Subcommand)]
pub enum ApprovalsCommand {
    /// List what waits, the newest first; with -v also what is over
    List,
    /// Show a request: exactly what is asked, by whom, for which digest
    Show {
        /// Its id, or the beginning of it
        id: String,
    },
    /// Say yes: the same call works once, exactly so
    Approve {
        /// Its id, or the beginning of it
        id: String,
        /// Why; it stays in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// How long the yes counts [default: 1d]
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        expires: Option<Duration>,
    },
    /// Say no, or take back a yes that was not used
    Deny {
        /// Its id, or the beginning of it
        id: String,
        /// Why; the caller is told, and it stays in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}
