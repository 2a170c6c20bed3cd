//! Arguments of `learn`, and the choices that it shares with `runs suggest`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::{SandboxArgs, path, written};

/// Arguments of `hotcell learn`.
#[derive(Args, Debug)]
#[command(
    override_usage = "hotcell learn [OPTIONS] -- PROGRAM [ARG…]",
    // The former name of --max-output would be the same as that of the policy's file.
    mut_arg("output", |arg| arg.alias(None::<&'static str>)),
    after_help = "Also: --json, --state DIR, --config FILE, --quiet, -v (see hotcell --help); limits as of run\n\
                  Each run is a full sandbox. Nothing is granted; with hosts a replay asks, or needs --replay.\n\
                  Exit status: 0 suggested, or nothing was denied; 1 the replay does not suffice; 125 refused;\n\
                  else that of the run."
)]
pub struct LearnArgs {
    /// Number of runs to merge, up to 20
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=20))]
    pub runs: u8,
    /// Start in a copy-on-write view of DIR; the original is never written
    #[arg(long, value_name = "DIR", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(path))]
    pub workspace: Option<PathBuf>,
    /// Replay even if the program can then send what it reads to hosts
    #[arg(long)]
    pub replay: bool,
    #[command(flatten)]
    pub suggest: SuggestArgs,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", last = true, hide = true)]
    pub program: Vec<OsString>,
}

/// Choices about a suggestion.
#[derive(Args, Clone, Debug)]
pub struct SuggestArgs {
    /// Write the policy to a new FILE
    #[arg(id = "policy", long = "output", value_name = "FILE", value_parser = OsStringValueParser::new().try_map(written))]
    pub file: Option<PathBuf>,
    /// A person decides (runs suggested, or hotcell web): a yes writes FILE
    #[arg(long, requires = "policy")]
    pub review: bool,
    /// Suggest the folder of three files or more, and opened folders
    #[arg(long)]
    pub folders: bool,
    /// Suggest addresses in private networks, too
    #[arg(long)]
    pub private: bool,
}
