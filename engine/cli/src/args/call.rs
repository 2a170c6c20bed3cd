//! Options of `hotcell call` and `hotcell mcp servers try`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::times::time_limit;

/// Options to reach a server.
#[derive(Args, Clone, Debug)]
pub struct ReachArgs {
    /// Bearer token for the origin of a URL: env:NAME, file:/PATH or fd:N
    #[arg(long, value_name = "SOURCE")]
    pub token: Option<String>,
    /// Time limit
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = time_limit)]
    pub timeout: Duration,
    /// Speak revision 2026-07-28 of MCP where the server can
    #[arg(long)]
    pub newest: bool,
}

/// Arguments of `hotcell call`.
#[derive(Args, Debug)]
#[command(
    after_help = "SERVER is one of hotcell mcp servers list, wrapped before or added, or https://… or wss://… (http://\n\
                  and ws:// on this machine). hotcell mcp servers try SERVER names its tools.\n\
                  hotcell call SERVER read path=/srv/a.txt offset=1 is --args '{\"path\": …, \"offset\": 1}':\n\
                  KEY=TEXT is read as the tool's schema says, KEY:=JSON as JSON. A call is sent once, never again.\n\n\
                  Exit status: 0 answered; 1 the tool answered with an error; 124 no answer in time; 125 it could not\n\
                  be called, or its outcome is unknown; 130 interrupted."
)]
pub struct CallArgs {
    /// Name of a wrapped server, or a URL
    #[arg(value_name = "SERVER")]
    pub server: String,
    /// Name of the tool
    #[arg(value_name = "TOOL")]
    pub tool: String,
    /// Arguments: a JSON object, a file with one, or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}", hide_default_value = true)]
    pub args: OsString,
    /// Ask this one where the ones before did not take the call
    #[arg(long = "or", value_name = "SERVER")]
    pub or: Vec<String>,
    /// Invent a labelled answer where none took the call; ends with 125
    #[arg(long)]
    pub simulate: bool,
    /// Answer the server's forms with these values over their defaults
    #[arg(long, value_name = "JSON")]
    pub form: Option<String>,
    /// One argument by name: a text, or with := a JSON value
    #[arg(value_name = "KEY=TEXT|KEY:=JSON", conflicts_with = "args")]
    pub pairs: Vec<String>,
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// Arguments of `hotcell mcp servers try`.
#[derive(Args, Debug)]
pub struct TryArgs {
    /// Name of a wrapped server, or a URL
    #[arg(value_name = "SERVER")]
    pub server: String,
    #[command(flatten)]
    pub reach: ReachArgs,
}
