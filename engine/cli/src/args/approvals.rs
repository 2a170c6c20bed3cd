//! `hotcell approvals …`

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use hotcell_sandbox::units::parse_duration;

/// Commands on requests of callers, for a person to decide.
#[derive(Debug, Subcommand)]
pub enum ApprovalsCommand {
    /// List pending requests, the newest first; with -v also closed ones
    List,
    /// Show a request: exactly what is asked, by whom, for which digest
    Show {
        /// Id of the request, or its first characters
        id: String,
        /// Show all of it, however long it is
        #[arg(long)]
        all: bool,
    },
    /// Approve a request: exactly this call works once
    Approve {
        /// Id of the request, or its first characters
        id: String,
        /// Reason; recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Only if its sha256 is this one, as `show` printed it
        #[arg(long, value_name = "DIGEST")]
        shown: Option<String>,
        /// Time for which the approval is valid [default: 1d]
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        expires: Option<Duration>,
    },
    /// Let machine code of a file, or of all below a folder, run unread in your runs
    AllowBinary {
        /// A file or a folder
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        /// Why; it stays in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// List machine code that may run unread: allowed, or written by an earlier run
    Binaries,
    /// Take that back
    ForgetBinary {
        /// The beginning of its digest (at least 8 digits), or a file or folder
        #[arg(required = true, value_name = "DIGEST|PATH")]
        which: Vec<PathBuf>,
    },
    /// Say no, or take back a yes that was not used
    Deny {
        /// Id of the request, or its first characters
        id: String,
        /// Reason; the caller is told, and it is recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Only if its sha256 is this one, as `show` printed it
        #[arg(long, value_name = "DIGEST")]
        shown: Option<String>,
    },
}
