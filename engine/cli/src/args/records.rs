//! Arguments of `audit` and `runs`.

use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::{SuggestArgs, written};

/// Commands of `hotcell audit …`.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check that no entry was changed, removed or inserted
    Verify {
        /// A digest printed by an earlier check, which the log must still contain
        #[arg(long = "expect-head", alias = "noted", value_name = "DIGEST", value_parser = head)]
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
        /// List its requests through the proxy instead
        #[arg(long)]
        network: bool,
        /// Write these requests to FILE as an HTTP archive (HAR 1.2)
        #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(written))]
        har: Option<PathBuf>,
    },
    /// Suggest a policy from what runs were denied (see hotcell learn)
    Suggest {
        /// Ids of the runs, or their first characters
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        #[command(flatten)]
        suggest: SuggestArgs,
    },
    /// Decide on suggested policies that wait for a person (hotcell learn --review)
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Suggested {
        #[command(subcommand)]
        command: SuggestedCommand,
    },
}

/// Commands of `hotcell runs suggested …`.
#[derive(Debug, Subcommand)]
pub enum SuggestedCommand {
    /// List them, the oldest first, and the grants that wrapped servers lacked
    List,
    /// Show one: each rule, what it opens, who wanted it, and the text of the file
    Show {
        /// Its id, or the first characters
        id: String,
    },
    /// Say yes: write its file, or add the server's grants
    Take {
        /// Its id, or the first characters
        id: String,
        /// Reason; recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Only if it is still as `show` printed it with this word
        #[arg(long, value_name = "DIGEST")]
        shown: Option<String>,
    },
    /// Say no: drop it
    Dismiss {
        /// Its id, or the first characters
        id: String,
        /// Reason; recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Only if it is still as `show` printed it with this word
        #[arg(long, value_name = "DIGEST")]
        shown: Option<String>,
    },
}

/// Parses the digest of the audit log's last entry, as `audit verify` prints it.
fn head(text: &str) -> Result<String, String> {
    let is_digest = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    match is_digest {
        true => Ok(text.to_ascii_lowercase()),
        false => {
            Err("is not a digest; write the 64 hexadecimal digits that hotcell audit verify printed"
                .to_owned())
        }
    }
}
