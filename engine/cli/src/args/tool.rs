//! `hotcell tool …`

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::{OsStringValueParser, TypedValueParser};
use hotcell_tools::author::Language;

/// Commands on tools.
#[derive(Debug, Subcommand)]
pub enum ToolCommand {
    /// List tools, or those of one plugin with its permissions
    List {
        /// One plugin
        #[arg(value_name = "PLUGIN")]
        plugin: Option<String>,
    },
    /// Add a plugin, or another version of one; it has no permissions yet
    #[command(
        after_help = "SOURCE is a component (FILE.wasm), a folder with one and its plugin.toml, a URL with the digest\n\
                      (https://…#sha256=…), or oci://HOST[:PORT]/NAME[:TAG|@sha256:…]. A version that asks for more or\n\
                      tells a model something else, waits until it is accepted."
    )]
    Add {
        /// Location of the plugin
        #[arg(value_name = "SOURCE")]
        source: OsString,
        /// The key that has to have signed it: minisign's, or cosign's in PEM
        #[arg(long, value_name = "FILE|BASE64")]
        key: Option<String>,
        /// The signature [default: beside the component, as NAME.wasm.minisig]
        #[arg(long, value_name = "FILE", requires = "key")]
        signature: Option<PathBuf>,
        /// Allow replacing the plugin of the same name, once it is accepted
        #[arg(long)]
        replace: bool,
    },
    /// Remove a plugin, its permissions, and its stored data
    Remove {
        /// Name of the plugin
        plugin: String,
    },
    /// Show what a component is and can do at most, without running it
    Inspect {
        /// A plugin, or a source as for `add`
        #[arg(value_name = "PLUGIN|SOURCE")]
        what: OsString,
    },
    /// Call a tool, and print its answer
    #[command(
        after_help = "hotcell tool call files_read path=/srv/a.txt offset=1 is --args '{\"path\": …, \"offset\": 1}':\n\
                      KEY=TEXT is read as the tool's schema says, KEY:=JSON as JSON.\n\n\
                      Exit status: 0 answered; 1 the tool answered with an error, as when something is not granted to it,\n\
                      or stopped itself; 124 a limit ended it; 125 it could not be called."
    )]
    Call {
        /// Name of the tool: PLUGIN_FUNCTION
        #[arg(value_name = "NAME")]
        name: String,
        /// Arguments: a JSON object, a file with one, or - for stdin
        #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}", hide_default_value = true)]
        args: OsString,
        /// One argument by name: a text, or with := a JSON value
        #[arg(value_name = "KEY=TEXT|KEY:=JSON", conflicts_with = "args")]
        pairs: Vec<String>,
    },
    /// Grant permissions to a plugin
    #[command(after_help = "CAPABILITY is one of\n  \
                      read=DIR          read a folder, which it sees under its own path\n  \
                      write=DIR         read and write it\n  \
                      net=ORIGIN        send requests to SCHEME://HOST[:PORT]\n  \
                      env=NAME          see a variable of yours\n  \
                      config=KEY        see a setting of [tools.config.PLUGIN]\n  \
                      secret=NAME       use a secret of [secrets.NAME] of your configuration unseen\n                    \
                                        (secret=NAME@ORIGIN: only there)\n  \
                      sandbox           run code in sandboxes\n  \
                      guard             have code scanned\n\
                      No wildcards. A plugin holds what it asks for, you grant, and [tools] of your configuration allows.")]
    Grant {
        /// The plugin
        plugin: String,
        /// Permissions to grant
        #[arg(value_name = "CAPABILITY", required = true)]
        capabilities: Vec<String>,
    },
    /// Revoke permissions
    Revoke {
        /// The plugin
        plugin: String,
        /// Permissions to revoke
        #[arg(value_name = "CAPABILITY", required_unless_present = "all", conflicts_with = "all")]
        capabilities: Vec<String>,
        /// Revoke all permissions
        #[arg(long)]
        all: bool,
    },
    /// Choose which tools of a plugin callers are offered
    #[command(
        after_help = "TOOL is a tool's name, or that of its function. Each call takes the place of the choice before.\n\
                      Updates keep it: after --only a tool that is new is not offered, after --hide it is.",
        group = clap::ArgGroup::new("choice").required(true).args(["only", "hide", "all"])
    )]
    Offer {
        /// The plugin
        plugin: String,
        /// These and no other
        #[arg(long, value_name = "TOOL,…", value_delimiter = ',')]
        only: Vec<String>,
        /// All but these
        #[arg(long, value_name = "TOOL,…", value_delimiter = ',', conflicts_with = "only")]
        hide: Vec<String>,
        /// All
        #[arg(long, conflicts_with_all = ["only", "hide"])]
        all: bool,
    },
    /// Make a folder to write a plugin in
    New {
        /// The folder, named like the plugin
        #[arg(value_name = "NAME")]
        folder: PathBuf,
        /// Language: rust, python, js or c
        #[arg(long, value_name = "LANGUAGE", default_value = "rust")]
        lang: Language,
    },
    /// Build a plugin: a component that contains its documentation and its manifest
    Build {
        /// Folder of the plugin
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,
        /// Take this component instead of compiling one
        #[arg(long, value_name = "FILE")]
        component: Option<PathBuf>,
        /// Folder for the component [default: DIR/out]
        #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(super::written))]
        out: Option<PathBuf>,
    },
    /// Call a plugin's component with the cases of tests/cases.toml
    #[command(
        after_help = "It has a folder with the cases' own files and nothing else; what it asks for, the cases answer.\n\
                            Exit status: 0 as expected; 1 not; 2 no cases; 125 there is no component."
    )]
    Test {
        /// Folder of the plugin
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,
        /// Folder of the component [default: DIR/out]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Build a plugin and show what its cases come to, again whenever a file of it changes
    #[command(
        after_help = "hotcell tool dev DIR --call count text='two words' shows a call in place of the cases.\n\
                      It holds nothing. A plugin that was added from DIR/out is loaded again by every hotcell mcp.\n\
                      Exit status with --once: that of build, test or call."
    )]
    Dev {
        /// Folder
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,
        /// Build and show once
        #[arg(long)]
        once: bool,
        /// Call this function in place of the cases
        #[arg(long, value_name = "FUNCTION")]
        call: Option<String>,
        /// Arguments: a text, or with := a JSON value
        #[arg(value_name = "KEY=TEXT|KEY:=JSON", requires = "call")]
        pairs: Vec<String>,
    },
    /// Send a plugin to a registry, from which `tool add oci://…` takes it
    #[command(
        after_help = "SOURCE is a component, or a plugin's folder with what `build` made. Who may send is said by\n\
                      auths in Docker's config.json (docker login), never by credential helpers. Keys are made by\n  \
                      openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem\n  \
                      openssl pkey -in key.pem -pubout -out key.pub.pem\n\
                      and whoever adds it names the second."
    )]
    Publish {
        /// A component or a folder
        #[arg(value_name = "SOURCE")]
        source: PathBuf,
        /// Where it goes: HOST[:PORT]/NAME[:TAG]
        #[arg(value_name = "REFERENCE")]
        reference: String,
        /// Sign it with this private key (P-256, PEM), in cosign's form
        #[arg(long, value_name = "FILE")]
        sign: Option<PathBuf>,
    },
    /// Show what a version that waits changes; with its digest, accept it
    Accept {
        /// The plugin
        plugin: String,
        /// At least the first 8 digits of the digest that was shown
        #[arg(value_name = "DIGEST")]
        digest: Option<String>,
    },
}
