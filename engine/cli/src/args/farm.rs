//! Options for reaching a farm, of every command that speaks to one.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::path;

/// Credentials for a farm. Without them, those of `[fleet]` in the configuration are used, if it names the same server.
#[derive(Args, Clone, Debug, Default)]
pub struct FarmArgs {
    /// Root certificates (PEM) for the farm's certificate [default: the system's]
    #[arg(long, value_name = "FILE", hide = true, value_parser = OsStringValueParser::new().try_map(path))]
    pub farm_ca: Option<PathBuf>,
    /// Certificate (PEM) that this machine shows to the farm
    #[arg(long, value_name = "FILE", hide = true, requires = "farm_key", value_parser = OsStringValueParser::new().try_map(path))]
    pub farm_cert: Option<PathBuf>,
    /// Private key (PEM) of --farm-cert
    #[arg(long, value_name = "FILE", hide = true, requires = "farm_cert", value_parser = OsStringValueParser::new().try_map(path))]
    pub farm_key: Option<PathBuf>,
    /// Source of the farm's bearer token: env:VARIABLE, file:/PATH, fd:N, keyring:NAME or 'exec:/PATH ARG'
    #[arg(long, value_name = "SECRET", hide = true)]
    pub farm_token: Option<String>,
    /// Reach another machine without TLS
    #[arg(long, hide = true)]
    pub plain_grpc: bool,
}
