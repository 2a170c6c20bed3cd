//! `hotcell model …` and `hotcell usage`

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use hotcell_models::endpoint::DeclaredPrice;
use hotcell_models::ledger::By;
use hotcell_models::{Price, Prompts};

use super::times::time_limit;
use super::{path, written};

/// Commands on language models.
#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// Add a model to your configuration file
    #[command(
        after_help = "Providers: openai, anthropic, gemini, deepseek, openrouter, ollama, lmstudio, llamacpp, vllm, and\n\
                      compatible for other servers with OpenAI's Chat Completions; without --provider it is NAME.\n\
                      A local server needs no key: hotcell model add ollama\n\
                      Others: hotcell model add openai --model gpt-5-mini --key env:OPENAI_API_KEY\n\
                      Calls are tried in the order in which models were added to a role."
    )]
    Add(Box<AddModelArgs>),
    /// List the models, and their order for each role
    List,
    /// Ask each model: its list of models, one word, and its window
    #[command(after_help = "Exit status: 0 all good, 1 one is not, 125 there is no such model.")]
    Check {
        /// Only this model
        name: Option<String>,
        /// Prove that a prompt of this many tokens is read whole (costs that many)
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(512..=2_000_000))]
        window: Option<u32>,
        /// Time limit for each model [default: 60s]
        #[arg(long, value_name = "TIME", value_parser = time_limit)]
        timeout: Option<Duration>,
    },
    /// Remove a model from your configuration file
    Remove {
        /// Name of the model
        name: String,
    },
    /// Ask a question, and print the reply; recorded in the ledger (hotcell usage)
    #[command(
        after_help = "Exit status: 0 a complete reply; 1 one that is empty, cut or a refusal; 125 no model replied."
    )]
    Ask(Box<AskArgs>),
}

/// Arguments of `hotcell model add`.
#[derive(Args, Debug)]
pub struct AddModelArgs {
    /// A name for it, or the provider
    pub name: String,
    /// Kind of server [default: NAME]
    #[arg(long)]
    pub provider: Option<String>,
    /// URL of the server [default: the provider's]
    #[arg(long)]
    pub url: Option<String>,
    /// Model there [default: the only one that the server lists]
    #[arg(long)]
    pub model: Option<String>,
    /// Source of the key: env:, file:, fd: or keyring:; never the key itself
    #[arg(long, value_name = "SECRET")]
    pub key: Option<String>,
    /// Window in tokens; larger requests are not sent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(512..))]
    pub window: Option<u32>,
    /// Dollars per million tokens: IN,OUT or IN,CACHED,OUT; or free
    #[arg(long, value_name = "PRICE", value_parser = price)]
    pub price: Option<DeclaredPrice>,
    /// Prompts: full, or short for very small models
    #[arg(long, value_name = "KIND", default_value = "full")]
    pub prompts: Prompts,
    /// Use it for this role; repeatable [default: default]
    #[arg(long)]
    pub role: Vec<String>,
    /// Replace a model of this name
    #[arg(long)]
    pub replace: bool,
}

/// Arguments of `hotcell model ask`.
#[derive(Args, Debug)]
pub struct AskArgs {
    /// The question; - for stdin
    #[arg(value_name = "PROMPT")]
    pub prompt: String,
    /// Role whose models are asked, in their order
    #[arg(long, default_value = "default", conflicts_with = "model")]
    pub role: String,
    /// Only this model
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Instructions before the question
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Maximum number of output tokens, reasoning included
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: u32,
    /// Temperature [default: the provider's]
    #[arg(long, value_name = "NUMBER", value_parser = temperature)]
    pub temperature: Option<f64>,
    /// Seed, for servers that have one
    #[arg(long, value_name = "N")]
    pub seed: Option<i64>,
    /// Session, for the ledger
    #[arg(long, value_name = "TEXT")]
    pub session: Option<String>,
    /// Iteration within the session, for the ledger
    #[arg(long, value_name = "N", requires = "session")]
    pub iteration: Option<u32>,
    /// Time limit for all attempts together
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = time_limit)]
    pub timeout: Duration,
}

/// Arguments of `hotcell usage`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "Costs that are not known are counted, not guessed. Days are in UTC."
)]
pub struct UsageArgs {
    #[command(subcommand)]
    pub command: Option<UsageCommand>,
    /// Count by role, session, iteration, model or day
    #[arg(long, value_name = "WHAT", hide_possible_values = true, value_enum, default_value_t = Key::Model)]
    pub by: Key,
    /// Only this session
    #[arg(long, value_name = "TEXT")]
    pub session: Option<String>,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// Commands on the ledger of usage.
#[derive(Debug, Subcommand)]
pub enum UsageCommand {
    /// Add the calls in an api_usage.json of another program; again adds none twice
    Import {
        /// The file
        #[arg(value_name = "FILE", value_parser = OsStringValueParser::new().try_map(path))]
        file: PathBuf,
    },
    /// Add the calls that an api_usage.json lacks to it, or make it
    Export {
        /// The file
        #[arg(value_name = "FILE", value_parser = OsStringValueParser::new().try_map(written))]
        file: PathBuf,
    },
}

/// Keys of `hotcell usage --by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Key {
    Role,
    Session,
    Iteration,
    Model,
    Day,
}

impl From<Key> for By {
    fn from(key: Key) -> Self {
        match key {
            Key::Role => Self::Role,
            Key::Session => Self::Session,
            Key::Iteration => Self::Iteration,
            Key::Model => Self::Model,
            Key::Day => Self::Day,
        }
    }
}

fn price(text: &str) -> Result<DeclaredPrice, String> {
    const FORM: &str = "is not free, IN,OUT or IN,CACHED,OUT in dollars per million tokens, such as 0.25,2";
    if text == "free" {
        return Ok(DeclaredPrice::Free);
    }
    let numbers = text.split(',').map(str::parse).collect::<Result<Vec<f64>, _>>();
    let price = match numbers.map_err(|_| FORM)?[..] {
        [input, output] => Price { input, cached: None, output },
        [input, cached, output] => Price { input, cached: Some(cached), output },
        _ => return Err(FORM.to_owned()),
    };
    if price.is_valid() { Ok(DeclaredPrice::Tokens(price)) } else { Err(FORM.to_owned()) }
}

fn temperature(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=2.0).contains(number));
    number.ok_or_else(|| "is not a number from 0 to 2".to_owned())
}
