//! `hotcell agent run` and `hotcell agent definitions`

use clap::{Args, Subcommand};

/// Commands on verbs.
#[derive(Debug, Subcommand)]
pub enum VerbCommand {
    /// Run a verb of an agent definition
    #[command(after_help = "hotcell agent run review.analyze@v1 --repo OWNER/NAME --pr-number 7\n\
                      Inputs follow the verb, as --NAME VALUE or --input NAME=VALUE.\n\
                      Without a configured model the answer is the tools' data. Exit status: 0 good; 1 a tool\n\
                      failed, or the model's answer could not be used; 125 wrong inputs, or no such verb.")]
    Run(Box<AgentRunArgs>),
    /// List the verbs, or show one with the tools that it calls
    #[command(
        after_help = "They are examples of hotcell's own, and the files of the folder in [agents] of the configuration.\n\
                      Exit status: 0; 1 a file cannot be used, or a tool cannot be called; 125 no such verb."
    )]
    Definitions {
        /// Only this one: NAME@vN, or NAME for the newest
        #[arg(value_name = "VERB")]
        verb: Option<String>,
    },
}

/// Arguments of `hotcell agent run`.
#[derive(Args, Debug)]
pub struct AgentRunArgs {
    /// The verb: NAME@vN, or NAME for the newest
    #[arg(value_name = "VERB")]
    pub verb: String,
    /// Ask no model: answer with the tools' data
    #[arg(long)]
    pub data: bool,
    /// Use no results that were kept from earlier calls
    #[arg(long)]
    pub no_cache: bool,
    /// An input; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub input: Vec<String>,
    /// Inputs, such as --repo OWNER/NAME
    #[arg(value_name = "--NAME VALUE", allow_hyphen_values = true, trailing_var_arg = true)]
    pub words: Vec<String>,
}
