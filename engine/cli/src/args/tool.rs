//! `hotcell tool …`

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;
use hotcell_tools::author::Language;

/// The commands about tools.
#[derive(Debug, Subcommand)]
pub enum ToolCommand {
    /// List tools, or those of one plugin with what they may do
    List {
        /// One plugin
        #[arg(value_name = "PLUGIN")]
        plugin: Option<String>,
    },
    /// Add a plugin, or another version of one; it holds nothing yet
    #[command(
        after_help = "SOURCE is a component (FILE.wasm), a folder with one and its plugin.toml, a URL with the digest\n\
                      (https://…#sha256=…), or oci://HOST[:PORT]/NAME[:TAG|@sha256:…]. A version that asks for more, or\n\
                      tells a model something else, waits until it is accepted."
    )]
    Add {
        /// Where it is
        #[arg(value_name = "SOURCE")]
        source: OsString,
        /// The minisign key, or its file, that has to have signed it
        #[arg(long, value_name = "FILE|BASE64")]
        key: Option<String>,
        /// The signature [default: beside the component, as NAME.wasm.minisig]
        #[arg(long, value_name = "FILE", requires = "key")]
        signature: Option<PathBuf>,
        /// It may take the place of the plugin of its name, once it is accepted
        #[arg(long)]
        replace: bool,
    },
    /// Remove a plugin, what was granted to it, and what it stored
    Remove {
        /// Its name
        plugin: String,
    },
    /// Show what a component is and can do at most, without running it
    Inspect {
        /// A plugin, or what `add` takes
        #[arg(value_name = "PLUGIN|SOURCE")]
        what: OsString,
    },
    /// Call a tool, and print what it answers
    #[command(
        after_help = "Exit status: 0 answered; 1 the tool answered with an error, as when something is not granted to it;\n\
                      124 a limit ended it; 125 it could not be called."
    )]
    Call {
        /// Its name: PLUGIN_FUNCTION
        #[arg(value_name = "NAME")]
        name: String,
        /// Its arguments: a JSON object, a file with one, or - for stdin
        #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}", hide_default_value = true)]
        args: OsString,
    },
    /// Let a plugin do something
    #[command(after_help = "CAPABILITY is one of\n  \
                      read=DIR          read a folder, which it sees under its own path\n  \
                      write=DIR         read and write it\n  \
                      net=ORIGIN        send requests to SCHEME://HOST[:PORT]\n  \
                      env=NAME          see a variable of yours\n  \
                      config=KEY        see a setting of [tools.config.PLUGIN]\n  \
                      secret=NAME       use a secret unseen: HOTCELL_SECRET_NAME, or the file secrets/NAME beside\n                    \
                                        config.toml (secret=NAME@ORIGIN: only there)\n  \
                      sandbox           run code in sandboxes\n  \
                      guard             have code scanned\n\
                      No wildcards. A plugin holds what it asks for, you grant, and [tools] of your configuration allows.")]
    Grant {
        /// The plugin
        plugin: String,
        /// What it may do
        #[arg(value_name = "CAPABILITY", required = true)]
        capabilities: Vec<String>,
    },
    /// Take back what was granted
    Revoke {
        /// The plugin
        plugin: String,
        /// What it may do no more
        #[arg(value_name = "CAPABILITY", required_unless_present = "all", conflicts_with = "all")]
        capabilities: Vec<String>,
        /// Everything
        #[arg(long)]
        all: bool,
    },
    /// Make a folder to write a plugin in
    New {
        /// The folder, called as the plugin
        #[arg(value_name = "NAME")]
        folder: PathBuf,
        /// What it is written in: rust, python or js
        #[arg(long, value_name = "LANGUAGE", default_value = "rust")]
        lang: Language,
    },
    /// Build a plugin: a component with its documentation and its manifest in it
    Build {
        /// Its folder
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,
        /// Take this component instead of compiling one
        #[arg(long, value_name = "FILE")]
        component: Option<PathBuf>,
        /// Where the component goes [default: DIR/out]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Call a plugin's component with the cases of tests/cases.toml
    #[command(
        after_help = "It has a folder with the cases' own files and nothing else; what it asks for, the cases answer.\n\
                            Exit status: 0 as expected; 1 not; 2 no cases; 125 there is no component."
    )]
    Test {
        /// Its folder
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,
        /// Where the component is [default: DIR/out]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Show what a version that waits changes; with its digest, accept it
    Accept {
        /// The plugin
        plugin: String,
        /// The first 8 digits, or more, of the digest that was shown
        #[arg(value_name = "DIGEST")]
        digest: Option<String>,
    },
}
