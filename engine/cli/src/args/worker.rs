//! Arguments of `hotcell worker`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use hotcell_config::{Mode, RunSettings};
use hotcell_sandbox::profile::BindText;

use super::path;
use super::sandbox::{LimitArgs, mode};

/// Arguments of `hotcell worker`.
#[derive(Args, Debug)]
#[command(
    disable_help_subcommand = true,
    // Refused: a worker returns all of the output.
    mut_arg("capture", |arg| arg.hide(true)),
    after_help = "Each action runs in a sandbox of its own, without a network, within these limits: a farm can only\n\
                  lower them. SIGTERM or Ctrl-C: no more actions, those that run end first; a second one stops them.\n\
                  Exit status: 0 ended by a signal, 125 refused."
)]
pub struct WorkerArgs {
    /// Scheduler of the farm (Remote Workers API): grpc://HOST:PORT/INSTANCE
    #[arg(long, value_name = "FARM")]
    pub bots: String,
    /// Reach another machine without TLS
    #[arg(long)]
    pub plain_grpc: bool,
    /// Maximum number of actions at once [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Name, unique in the farm [default: host name and process id]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// standard, strict or a FILE
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<OsString>,
    /// Scan actions first: enforce or report [default: off]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub guard: Option<Mode>,
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

impl WorkerArgs {
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
