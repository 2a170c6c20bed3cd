//! The words of `hotcell serve`.

use std::time::Duration;

use clap::{Args, Subcommand};
use hotcell_sandbox::units::parse_duration;

/// `hotcell serve`.
#[derive(Args, Debug)]
#[command(
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true,
    after_help = "For the same user only, at $XDG_RUNTIME_DIR/hotcell/serve.sock, else below\n\
                  $XDG_STATE_HOME/hotcell/serve. run and test use it unless they say --cold.\n\
                  Exit status: 0 ended, or status: it runs; 1 status: it does not; 125 refused."
)]
pub struct ServeArgs {
    /// Runs at once; one more makes its own sandbox [default: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub runs: Option<u32>,
    /// End when nobody used it for so long [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub idle_exit: Option<Duration>,
    #[command(subcommand)]
    pub command: Option<ServeCommand>,
}

/// What else can be done with it.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum ServeCommand {
    /// Say how the service is doing
    Status,
    /// End the service, and the runs that it has
    Stop,
}
