//! Arguments of `audit` and `runs`.

use clap::Subcommand;

/// Commands of `hotcell audit …`.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check that no entry was changed, removed or inserted
    Verify {
        /// A digest printed by an earlier check, which the log must still contain
        #[arg(long = "expect-head", alias = "noted", value_name = "DIGEST")]
        noted: Option<String>,
    },
    /// List the last entries, the newest last
    List {
        /// Number of entries
        #[arg(long, value_name = "N", default_value_t = 50)]
        last: u32,
    },
}

/// Commands of `hotcell runs …`.
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// List the runs, newest first
    List,
    /// Print the outcome of a run
    Show {
        /// Id of the run, or its first characters
        id: String,
        /// List its requests with secrets instead
        #[arg(long)]
        network: bool,
    },
}
