//! Arguments of `web`.

use clap::Args;

/// Arguments of `hotcell web`.
#[derive(Args, Debug)]
#[command(
    after_help = "The page is on loopback, at a random name below .localhost, until Ctrl-C. Each link works once; on a\n\
                  terminal, Enter prints new ones. Decisions are in the audit log with the channel web.\n\
                  Exit status: 0 ended, 125 refused."
)]
pub struct WebArgs {
    /// Port [default: any that is free]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Do not open the page in a browser
    #[arg(long)]
    pub no_open: bool,
    /// Serve a team behind its proxy, as the table web of the configuration says
    #[arg(long, conflicts_with_all = ["port", "no_open", "read_only"])]
    pub team: bool,
    /// Make links for reading only: nothing can be decided on the page
    #[arg(long)]
    pub read_only: bool,
}
