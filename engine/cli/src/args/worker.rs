//! Arguments of `hotcell worker`, `hotcell worker-entry` and `hotcell fleet`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use hotcell_config::{Mode, RunSettings};
use hotcell_sandbox::Bytes;
use hotcell_sandbox::profile::BindText;

use super::sandbox::{LimitArgs, mode};
use super::{FarmArgs, path};

/// Policy of the operator for the actions of a farm.
#[derive(Args, Debug)]
pub struct ActionArgs {
    /// standard, strict or a FILE
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<OsString>,
    /// Scan actions first: enforce or report [default: off]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub guard: Option<Mode>,
    /// Sign each result with this installation's key (receipt keys)
    #[arg(long)]
    pub receipts: bool,
    /// Run actions in an image instead of the host's /usr (hotcell image list)
    #[arg(long, value_name = "NAME", help_heading = "What actions see")]
    pub image: Option<String>,
    /// Show a toolchain's folder, and put it on PATH
    #[arg(long, value_name = "DIR", help_heading = "What actions see", value_parser = OsStringValueParser::new().try_map(path))]
    pub toolchain: Vec<PathBuf>,
    /// Show a file or folder, read-only
    #[arg(long, value_name = "HOST[:INSIDE]", help_heading = "What actions see", value_parser = OsStringValueParser::new().try_map(|text| BindText::parse(Path::new(&text))))]
    pub ro: Vec<BindText>,
    #[command(flatten)]
    pub limits: LimitArgs,
}

impl ActionArgs {
    /// Converts the options to settings; relative paths are resolved against `cwd`.
    pub fn settings(&self, cwd: &Path) -> RunSettings {
        RunSettings {
            profile: self.profile.clone(),
            guard: Some(self.guard.unwrap_or(Mode::Off)),
            image: self.image.clone(),
            toolchains: self.toolchain.iter().map(|folder| cwd.join(folder)).collect(),
            binds: self.ro.iter().map(|bind| bind.at(cwd, false)).collect(),
            limits: self.limits.settings(),
            ..RunSettings::default()
        }
    }
}

/// Arguments of `hotcell worker`.
#[derive(Args, Debug)]
#[command(
    disable_help_subcommand = true,
    // Refused: a worker returns all of the output.
    mut_arg("capture", |arg| arg.hide(true)),
    after_help = "Each action runs in a sandbox of its own, without a network, within these limits: a farm can only\n\
                  lower them. SIGTERM or Ctrl-C: no more actions, those that run end first; a second one stops them.\n\
                  NativeLink's entrypoint is hotcell worker-entry. Exit status: 0 ended by a signal, 125 refused."
)]
pub struct WorkerArgs {
    /// Scheduler of the farm (Remote Workers API): grpcs://HOST:PORT/NAME
    #[arg(long, value_name = "FARM", required_unless_present = "runner")]
    pub bots: Option<String>,
    /// Instead, serve Buildbarn's bb_worker at unix:PATH
    #[arg(long, value_name = "UNIX", conflicts_with_all = ["bots", "plain_grpc", "name", "cache_size"], requires = "build_directory")]
    pub runner: Option<String>,
    /// Build directory that bb_worker shares with this runner
    #[arg(long, value_name = "DIR", requires = "runner", value_parser = OsStringValueParser::new().try_map(path))]
    pub build_directory: Option<PathBuf>,
    #[command(flatten)]
    pub reach: FarmArgs,
    /// Maximum number of actions at once [default: what fits]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), conflicts_with = "runner")]
    pub jobs: Option<u16>,
    /// Memory of all actions at once [default: 3/4 of the host's]
    #[arg(long, value_name = "SIZE")]
    pub total_memory: Option<Bytes>,
    /// Blobs that are kept for later actions; 0 for none [default: 10G]
    #[arg(long, value_name = "SIZE")]
    pub cache_size: Option<Bytes>,
    /// Name, unique in the farm [default: host name and process id]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Serve /metrics for Prometheus and /status, on loopback
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<SocketAddr>,
    #[command(flatten)]
    pub actions: ActionArgs,
}

/// Arguments of `hotcell worker-entry`.
#[derive(Args, Debug)]
#[command(
    disable_help_subcommand = true,
    mut_arg("capture", |arg| arg.hide(true)),
    after_help = "For the worker of NativeLink: its entrypoint is a link named hotcell-worker-entry to a hotcell\n\
                  that is linked statically; the policy is LINK.toml beside it. Its additional_environment\n\
                  sets HOTCELL_SIDE_CHANNEL_FILE (side_channel_file) and HOTCELL_TIMEOUT_MILLIS\n\
                  (timeout_millis).\n\
                  Exit status: the action's own, 124 at a limit, 125 refused or failed here."
)]
pub struct WorkerEntryArgs {
    #[command(flatten)]
    pub actions: ActionArgs,
    /// Start although the variables, and so LD_PRELOAD, are the clients'
    #[arg(long)]
    pub trust_environment: bool,
    /// Variable of the action
    #[arg(long, value_name = "NAME=VALUE", hide = true)]
    pub action_env: Vec<OsString>,
    /// The environment is the operator's by now
    #[arg(long, hide = true)]
    pub cleared: bool,
    /// Program of the action, and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// Commands of `hotcell fleet`.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Show the queue of a farm, and the state of its hotcell workers
    #[command(
        after_help = "Queue and workers are shown where the farm lists them, as BuildGrid does. Other farms have no\n\
                      list of workers: name the addresses of their --metrics.\n\
                      Exit status: 0 all answered, 125 one did not."
    )]
    Status(FleetStatusArgs),
}

/// Arguments of `hotcell fleet status`.
#[derive(Args, Debug)]
pub struct FleetStatusArgs {
    /// Farm: grpcs://HOST:PORT/INSTANCE
    #[arg(value_name = "FARM", required_unless_present = "worker")]
    pub farm: Option<String>,
    /// A worker's address for metrics, such as 127.0.0.1:9101
    #[arg(long, value_name = "ADDR")]
    pub worker: Vec<SocketAddr>,
    #[command(flatten)]
    pub reach: FarmArgs,
}
