//! Options of `hotcell init`.

use clap::Args;
use hotcell_clients::Client;

/// Arguments of `hotcell init`.
#[derive(Args, Debug)]
#[command(
    after_help = "The configuration explains every setting, and sets none. An existing one is left as it is. On a\n\
                  terminal you are asked for each client that is found; elsewhere the commands are printed.\n\
                  Exit status: 0 good, 125 refused."
)]
pub struct InitArgs {
    /// Replace an existing configuration, and keep a copy of it
    #[arg(long)]
    pub force: bool,
    /// Add hotcell's MCP server to these clients, and ask nothing
    #[arg(long, value_parser = super::mcp::client(), value_name = "NAME,…", value_delimiter = ',', hide_possible_values = true)]
    pub client: Vec<Client>,
}
