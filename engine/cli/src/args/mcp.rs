//! Options of `hotcell mcp install`, `uninstall` and `check`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use hotcell_clients::Client;
use hotcell_clients::fetched::Fetcher;
use hotcell_config::network::NetworkSetting;
use hotcell_config::{EnvSetting, Mode, SecretOption};
use hotcell_sandbox::Bytes;
use hotcell_sandbox::profile::BindText;

use super::TryArgs;
use super::times::time_limit;

/// Address for HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpAddress {
    /// At this address.
    At(SocketAddr),
    /// On the socket that systemd passed.
    Passed,
}

impl FromStr for HttpAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "systemd" => Ok(Self::Passed),
            address => address
                .parse()
                .map(Self::At)
                .map_err(|e: std::net::AddrParseError| format!("{e}; write one such as 127.0.0.1:8808")),
        }
    }
}

/// Commands to set up a client.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Add this server to the configuration of a client
    #[command(
        after_help = "The entry starts this program with mcp --stdio, and with --state and --config where they are given\n\
                      here. What was in the file stays as it is, comments too, and is kept beside it as\n\
                      FILE.hotcell-backup. Links are not written through, and nothing is replaced unless --replace\n\
                      says so. Exit status: 0 done, or it was so already; 125 refused."
    )]
    Install(InstallArgs),
    /// Remove the entry again
    Uninstall(UninstallArgs),
    /// Run any MCP server on standard input and output in a sandbox
    #[command(
        override_usage = "hotcell mcp wrap [OPTIONS] -- SERVER [ARG…]",
        after_help = "Put it before the command in a client's entry. SERVER is npx PACKAGE, uvx PACKAGE, pipx run PACKAGE,\n\
                      node FILE, python3 FILE, python3 -m MODULE or a program. Packages are locked and installed once,\n\
                      from their registry alone and without running anything of them, read by the guard, and then run\n\
                      without a network. --name NAME alone starts a server again as it was started last.\n\
                      Exit status: the server's own; 124 a limit or idle; 125 refused."
    )]
    Wrap(Box<WrapArgs>),
    /// Wrapped servers: their packages, and tools that are held until you accept them
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Servers {
        #[command(subcommand)]
        command: ServersCommand,
    },
    /// Start the server as a client would, and show what it offers
    #[command(
        after_help = "Without --client it is this program. Nothing is run in a sandbox, but the server says what it could\n\
                      enforce. Exit status: 0 it answers; 125 it does not, and why."
    )]
    Check(CheckArgs),
}

/// Commands on wrapped servers.
#[derive(Debug, Subcommand)]
pub enum ServersCommand {
    /// List them
    List,
    /// Add a server, without starting it: a command for a sandbox, or a URL
    #[command(
        override_usage = "hotcell mcp servers add NAME [OPTIONS] -- SERVER [ARG…]\n       hotcell mcp servers add NAME --url URL [--token SOURCE]",
        after_help = "SERVER and the options are those of hotcell mcp wrap. hotcell mcp --servers NAME serves it with the\n\
                      others, hotcell call NAME TOOL calls it, hotcell mcp wrap --name NAME starts it alone."
    )]
    Add(Box<AddArgs>),
    /// Show one, with all that it says of what is held
    Show {
        /// Its name
        name: String,
    },
    /// Accept its tools, prompts, resources and words as it offered them last
    #[command(
        visible_alias = "pin",
        after_help = "With WHAT these alone are accepted: tools and prompts by the server's name for them or the one in\n\
                      the combined list, others as show names them. A tool or prompt that is accepted so is the one\n\
                      that is meant where another server's looks like it."
    )]
    Accept {
        /// Its name
        name: String,
        /// Tools, prompts and others to accept alone
        #[arg(value_name = "WHAT")]
        what: Vec<String>,
        /// Only if they are still those that show printed with this word
        #[arg(long, value_name = "DIGEST")]
        shown: Option<String>,
    },
    /// Start one, and list the tools that it offers, with invisible characters shown
    Try(TryArgs),
    /// Log in to a server at a URL, in a browser on this machine
    #[command(
        after_help = "The server names its authorization server (OAuth 2.1, as MCP 2025-11-25 has it). hotcell\n\
                      registers there, prints the address to open, and waits on a port of this machine. The tokens\n\
                      are kept encrypted, for this server's origin only, and renewed near their end.\n\
                      openssl rand -hex 32 makes a key."
    )]
    Login(LoginArgs),
    /// Forget the tokens of its login
    Logout {
        /// Its name
        name: String,
    },
    /// Show what its sandbox denied it the last time, and the grants that would allow that
    Denials {
        /// Its name
        name: String,
    },
    /// Grant it more, from its next start on
    #[command(
        after_help = "GRANT is ro=PATH, rw=PATH (writable on the host itself), network=HOST:PORT, env=NAME (a variable of\n\
                      yours), or, behind hotcell mcp --servers, ask=forms (it may ask the client's user) and\n\
                      ask=folders (it is told the client's folders). Grants are added to the options that the server is\n\
                      started with, and count for the package, the command or the address that has this name now, not\n\
                      for another one that takes the name."
    )]
    Grant {
        /// Its name
        name: String,
        /// Grants to add
        #[arg(value_name = "GRANT", required = true)]
        grants: Vec<String>,
    },
    /// Take grants back; options in a client's entry are changed there
    Revoke {
        /// Its name
        name: String,
        /// Grants to take back
        #[arg(value_name = "GRANT", required_unless_present = "all", conflicts_with = "all")]
        grants: Vec<String>,
        /// Take all of them back
        #[arg(long)]
        all: bool,
    },
    /// Forget its lock file, its accepted tools and its grants
    Remove {
        /// Its name
        name: String,
    },
}

/// Arguments of `hotcell mcp servers add`.
#[derive(Args, Debug)]
pub struct AddArgs {
    /// Its name
    #[arg(value_name = "NAME", required_unless_present = "name", conflicts_with = "name")]
    pub entry: Option<String>,
    /// Address in place of a command: https or wss
    #[arg(long, value_name = "URL", conflicts_with_all = ["ro", "rw", "network", "env", "toolchain", "profile", "memory", "idle", "guard", "server"])]
    pub url: Option<String>,
    /// Bearer token for its origin: env:NAME, file:/PATH or keyring:NAME
    #[arg(long, value_name = "SOURCE", requires = "url")]
    pub token: Option<String>,
    /// Keep the token, encrypted with the key at this source
    #[arg(long, value_name = "SOURCE", requires = "token")]
    pub seal: Option<String>,
    /// Processes that share its calls; a session stays at one [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub instances: Option<u8>,
    /// Replace the server of that name
    #[arg(long)]
    pub replace: bool,
    #[command(flatten)]
    pub wrap: WrapArgs,
}

/// Arguments of `hotcell mcp servers login`.
#[derive(Args, Debug)]
pub struct LoginArgs {
    /// Its name
    pub name: String,
    /// Key that encrypts the tokens: env:NAME, file:/PATH or keyring:NAME
    #[arg(long, value_name = "SOURCE")]
    pub seal: String,
    /// Id of a client that is registered there, or its document's address
    #[arg(long, value_name = "ID")]
    pub client: Option<String>,
    /// The authorization server's own address: no other one gets anything
    #[arg(long, value_name = "URL")]
    pub issuer: Option<String>,
    /// The client's secret: env:NAME, file:/PATH, fd:N or keyring:NAME
    #[arg(long, value_name = "SOURCE", requires_all = ["client", "issuer"])]
    pub client_secret: Option<String>,
    /// Ask for this scope too
    #[arg(long, value_name = "NAME")]
    pub right: Vec<String>,
    /// Port of 127.0.0.1 for the browser [default: any that is free]
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Time for the browser to come back
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = time_limit)]
    pub timeout: Duration,
}

/// Arguments of `hotcell mcp wrap`.
#[derive(Args, Clone, Debug)]
pub struct WrapArgs {
    /// Name for its lock file and accepted tools [default: the package's]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Show a file or folder, read-only
    #[arg(long, value_name = "HOST[:INSIDE]", value_parser = OsStringValueParser::new().try_map(|text| BindText::parse(Path::new(&text))))]
    pub ro: Vec<BindText>,
    /// Show a file or folder, writable on the host itself
    #[arg(long, value_name = "HOST[:INSIDE]", value_parser = OsStringValueParser::new().try_map(|text| BindText::parse(Path::new(&text))))]
    pub rw: Vec<BindText>,
    /// Reachable hosts (*.NAME, NAME=ADDRESS) [default: none]
    #[arg(long, value_name = "HOST:PORT,…", value_parser = super::sandbox::network)]
    pub network: Option<NetworkSetting>,
    /// Token that stays outside: NAME=env:VARIABLE@HOST (or file:, fd:)
    #[arg(long, value_name = "SECRET")]
    pub secret: Vec<SecretOption>,
    /// Set a variable, or pass one through
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = OsStringValueParser::new().try_map(|text| super::sandbox::variable(&text)))]
    pub env: Vec<EnvSetting>,
    /// Show a toolchain's folder, and put it on PATH
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(super::path))]
    pub toolchain: Vec<PathBuf>,
    /// standard, strict, landlock-only or a FILE
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<OsString>,
    /// Memory of all its processes [default: 1G]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// End it when nothing passed for this time [default: never]
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    pub idle: Option<Duration>,
    /// Read it first: enforce (the default), report (run it anyway) or off
    #[arg(long, value_name = "MODE", value_parser = super::sandbox::mode)]
    pub guard: Option<Mode>,
    /// The server and its arguments
    #[arg(value_name = "PROGRAM", last = true, hide = true)]
    pub server: Vec<String>,
}

/// Options to select an entry of a file.
#[derive(Args, Clone, Debug)]
pub struct PlaceArgs {
    /// Use the project's own file in the current folder, which others may share
    #[arg(long)]
    pub project: bool,
    /// Use another file of the same client
    #[arg(long, value_name = "FILE", conflicts_with = "project", value_parser = OsStringValueParser::new().try_map(super::path))]
    pub file: Option<PathBuf>,
    /// Name of the server in the file
    #[arg(long, value_name = "NAME", default_value = "hotcell", value_parser = name)]
    pub name: String,
}

/// Arguments of `hotcell mcp install`.
#[derive(Args, Debug)]
pub struct InstallArgs {
    /// Client, such as claude-code; a wrong name lists them all
    #[arg(long, value_parser = client(), value_name = "NAME", hide_possible_values = true)]
    pub client: Client,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Start it by npx or uvx (from their registry), or path [default: as this one]
    #[arg(long, value_name = "NAME", value_parser = by(), hide_possible_values = true)]
    pub by: Option<By>,
    /// Only print the text for the file
    #[arg(long)]
    pub print: bool,
    /// Replace another entry of that name
    #[arg(long, alias = "force", conflicts_with = "print")]
    pub replace: bool,
    /// Instead, put this other server of the client, or all, in a sandbox
    #[arg(long, value_name = "NAME", value_parser = name, conflicts_with_all = ["print", "replace", "folder", "name"])]
    pub wrap: Option<String>,
    /// Also let callers make workspaces over DIR (mcp.folders of your configuration)
    #[arg(long, value_name = "DIR", conflicts_with = "print", value_parser = OsStringValueParser::new().try_map(super::path))]
    pub folder: Option<PathBuf>,
}

/// How a client starts hotcell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The path of this program.
    Path,
    /// A program that takes it from a registry.
    Fetcher(Fetcher),
}

/// Parses how a client starts hotcell.
fn by() -> impl TypedValueParser<Value = By> {
    let all = [By::Path].into_iter().chain(Fetcher::ALL.map(By::Fetcher));
    let name = |by: By| match by {
        By::Path => "path",
        By::Fetcher(fetcher) => fetcher.name(),
    };
    PossibleValuesParser::new(all.clone().map(name))
        .try_map(move |word| all.clone().find(|by| name(*by) == word).ok_or("no such way"))
}

/// Arguments of `hotcell mcp uninstall`.
#[derive(Args, Debug)]
pub struct UninstallArgs {
    /// Client, such as claude-code; a wrong name lists them all
    #[arg(long, value_parser = client(), value_name = "NAME", hide_possible_values = true)]
    pub client: Client,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Remove even an entry that starts another program
    #[arg(long)]
    pub any: bool,
    /// Instead, take this other server of the client, or all, out of its sandbox
    #[arg(long, value_name = "NAME", value_parser = name, conflicts_with_all = ["any", "name"])]
    pub wrap: Option<String>,
}

/// Arguments of `hotcell mcp check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Client whose entry is checked [default: none, this program]
    #[arg(long, value_parser = client(), value_name = "NAME", hide_possible_values = true)]
    pub client: Option<Client>,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Time limit for each answer
    #[arg(long = "timeout", alias = "within", value_name = "TIME", default_value = "10s", value_parser = time_limit)]
    pub within: Duration,
}

/// Parses the name of a client.
pub(super) fn client() -> impl TypedValueParser<Value = Client> {
    let names = Client::ALL.map(|client| PossibleValue::new(client.name()).help(client.kind().title));
    PossibleValuesParser::new(names).try_map(|name| Client::named(&name).ok_or("no such client"))
}

/// Parses a name that every client accepts.
fn name(text: &str) -> Result<String, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
    if (1..=64).contains(&text.len()) && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("a name has 1 to 64 letters, digits, _ and -".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_the_one_word() {
        for (text, want) in [
            ("127.0.0.1:8808", Some(HttpAddress::At(([127, 0, 0, 1], 8808).into()))),
            ("systemd", Some(HttpAddress::Passed)),
            ("Systemd", None),
            ("8808", None),
            ("localhost:1", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), want, "{text}");
        }
    }

    #[test]
    fn names_that_every_client_takes() {
        for (text, good) in [
            ("hotcell", true),
            ("hot_cell-2", true),
            ("", false),
            ("a b", false),
            ("a.b", false),
            ("ä", false),
        ] {
            assert_eq!(name(text).is_ok(), good, "{text}");
        }
        assert!(name(&"a".repeat(64)).is_ok() && name(&"a".repeat(65)).is_err());
    }
}
