//! `hotcell receipt …`

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use hotcell_receipts::policy::digest;
use hotcell_sandbox::units::parse_duration;

use super::path;

/// Commands on receipts.
#[derive(Debug, Subcommand)]
pub enum ReceiptCommand {
    /// Check signatures, and conditions on what they state
    #[command(
        after_help = "Without --key, the keys of this installation and those that it trusts. Exit status: 0 all good,\n\
                      1 one is not, 125 a file or a key cannot be read."
    )]
    Verify(VerifyArgs),
    /// Print what a receipt states, whether or not its key is trusted (it says which)
    Show {
        /// The receipt
        #[arg(value_name = "FILE", value_parser = OsStringValueParser::new().try_map(path))]
        file: PathBuf,
    },
    /// Keys: this installation's, and those it trusts
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Key {
        #[command(subcommand)]
        command: KeyCommand,
    },
}

/// Arguments of `hotcell receipt verify`.
#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// Receipts
    #[arg(value_name = "FILE", required = true, value_parser = OsStringValueParser::new().try_map(path))]
    pub files: Vec<PathBuf>,
    /// Only this public key (PEM); repeatable
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(path))]
    pub key: Vec<PathBuf>,
    /// Require what this file says (TOML): kinds, results, layers, images, keys
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(path))]
    pub policy: Option<PathBuf>,
    /// Require that everything passed
    #[arg(long)]
    pub passed: bool,
    /// Require that it is about this folder, as its files are now
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub folder: Option<PathBuf>,
    /// With --folder: leave out this file or folder, such as other results
    #[arg(long, value_name = "FILE", requires = "folder", value_parser = OsStringValueParser::new().try_map(path))]
    pub except: Vec<PathBuf>,
    /// Require that it is about this: sha256:…, dirHash:…, gitTree:…, gitCommit:…
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    pub subject: Option<(String, String)>,
    /// Require that it is not older than this, such as 7d
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub max_age: Option<Duration>,
}

/// Commands on keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Print this installation's public key (PEM), for others to trust
    Show,
    /// List all keys whose receipts are accepted
    List,
    /// Make a new signing key; receipts of the former one still verify here
    Rotate,
    /// Trust the key of another installation
    Trust {
        /// A name for it
        name: String,
        /// Public key (PEM)
        #[arg(value_name = "FILE", value_parser = OsStringValueParser::new().try_map(path))]
        file: PathBuf,
    },
    /// Trust a key no longer
    Distrust {
        /// Name
        name: String,
    },
}
