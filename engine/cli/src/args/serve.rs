//! Options of `hotcell serve`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::times::time_limit;

/// Arguments of `hotcell serve`.
#[derive(Args, Debug)]
#[command(
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true,
    after_help = "For the same user only, at $XDG_RUNTIME_DIR/hotcell/serve.sock, else below\n\
                  $XDG_STATE_HOME/hotcell/serve. run and test use it unless they say --no-daemon.\n\
                  Exit status: 0 ended, or status: it runs; 1 status: it does not; 125 refused."
)]
pub struct ServeArgs {
    /// Maximum concurrent runs; further ones make their own sandbox [default: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub runs: Option<u32>,
    /// End after this time without use [default: never]
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    pub idle_exit: Option<Duration>,
    #[command(subcommand)]
    pub command: Option<ServeCommand>,
}

/// Commands on a running service.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum ServeCommand {
    /// Show the status of the service
    Status,
    /// End the service and its runs
    Stop,
}
