//! The command line, as documented. Only options that have an effect are accepted.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use hotcell_agents::Role;

mod agents;
mod approvals;
mod bench;
mod cache;
mod call;
mod definitions;
mod doctor;
mod farm;
mod image;
mod init;
mod jobs;
mod lean;
mod learn;
mod make;
mod mcp;
mod model;
mod plain;
mod quarantine;
mod receipt;
mod records;
mod review;
mod run;
mod sandbox;
mod scan;
mod serve;
mod session;
mod test;
mod times;
mod tool;
mod web;
mod worker;
mod workspace;
pub use agents::{AgentCommand, EffortArgs, FixArgs, RepairCommand, ResumeArgs};
pub use approvals::ApprovalsCommand;
pub use bench::BenchArgs;
pub use cache::CacheCommand;
pub use call::{CallArgs, ReachArgs, TryArgs};
pub use definitions::{AgentRunArgs, VerbCommand};
pub use doctor::DoctorArgs;
pub use farm::FarmArgs;
pub use image::ImageCommand;
pub use init::InitArgs;
pub use jobs::{COBERTURA, JobArgs};
pub use lean::parse as parse_run;
pub use learn::{LearnArgs, SuggestArgs};
pub use make::MakeArgs;
pub use mcp::{
    AddArgs, By, CheckArgs, HttpAddress, InstallArgs, LoginArgs, McpCommand, PlaceArgs, ServersCommand,
    UninstallArgs, WrapArgs,
};
pub use model::{AddModelArgs, AskArgs, ModelCommand, UsageArgs, UsageCommand};
pub use plain::parse as parse_plain;
pub use quarantine::{QuarantineArgs, QuarantineCommand};
pub use receipt::{KeyCommand, ReceiptCommand, VerifyArgs};
pub use records::{AuditCommand, RunsCommand, SuggestedCommand};
pub use review::{DepthArg, ReviewArgs};
pub use run::{KeepArgs, RunArgs};
pub use sandbox::SandboxArgs;
pub use scan::ScanArgs;
pub use serve::{ServeArgs, ServeCommand};
pub use session::{CellArgs, SessionArgs, SessionCommand, StartArgs};
pub use test::TestArgs;
pub use tool::ToolCommand;
pub use web::WebArgs;
pub use worker::{ActionArgs, FleetCommand, FleetStatusArgs, WorkerArgs, WorkerEntryArgs};
pub use workspace::WorkspaceCommand;

const STYLES: Styles =
    Styles::styled().header(AnsiColor::Yellow.on_default()).literal(AnsiColor::Green.on_default());

/// Arguments of `hotcell`.
#[derive(Debug, Parser)]
#[command(
    name = "hotcell",
    version,
    about = "Runs code that nobody has read yet, in a sandbox, and explains how it ended.",
    after_help = "Try `hotcell run -- id`. Exit status: 0 good, 125 usage error or refusal, 130 interrupted.",
    styles = STYLES,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// The definitions as shown in help: the pages of `run` and `test`, which have the most options of their own,
/// list the options common to all commands in one line.
pub fn pages() -> clap::Command {
    let mut command = Cli::command();
    // The common options become part of the subcommands only when the command is built.
    command.build();
    for name in ["run", "test", "learn"] {
        command = command.mut_subcommand(name, |of| {
            ["json", "state", "config", "quiet", "verbose"]
                .into_iter()
                .fold(of, |of, id| of.mut_arg(id, |arg| arg.hide(true)))
        });
    }
    // Because of their many options, these pages have no room for those that `run` explains.
    let elsewhere = |arg: &clap::Arg| arg.get_help_heading() == Some(LIMITS) || arg.get_id() == "secret";
    for name in ["test", "learn"] {
        command = command
            .mut_subcommand(name, |of| of.mut_args(|arg| if elsewhere(&arg) { arg.hide(true) } else { arg }));
    }
    command
}

/// Heading of the options that limit a run.
const LIMITS: &str = "Limits";

/// Options common to all commands.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// Print one JSON object on stdout, and nothing else there
    #[arg(long, global = true)]
    pub json: bool,
    /// State folder [default: $XDG_STATE_HOME/hotcell]
    #[arg(long, global = true, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Configuration file [default: $XDG_CONFIG_HOME/hotcell/config.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print nothing but errors on stderr
    #[arg(long, global = true)]
    pub quiet: bool,
    /// Print more on stderr; twice for more
    #[arg(short = 'v', global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command or a source file in a sandbox
    Run(Box<RunArgs>),
    /// Run a project's tests (DIR is never written), and report test by test
    Test(Box<TestArgs>),
    /// Run a program in full sandboxes, and suggest a policy from what it was denied
    Learn(Box<LearnArgs>),
    /// Keep an interpreter in a sandbox: variables stay between cells
    Session(Box<SessionArgs>),
    /// Scan files, folders or standard input, and report how dangerous they look
    Scan(Box<ScanArgs>),
    /// Review refused artifacts, and decide
    Quarantine(QuarantineArgs),
    /// Approve or deny requests of agents
    #[command(
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "A yes is for one caller, one digest, some time and one use. Agents only ask. Exit status: 0 good,\n\
                      125 refused."
    )]
    Approvals {
        #[command(subcommand)]
        command: ApprovalsCommand,
    },
    /// Check who decided what
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Audit {
        #[command(subcommand)]
        command: AuditCommand,
    },
    /// Report what this host can enforce, determined by trying it
    Doctor(DoctorArgs),
    /// Measure the cost of a sandbox here, compared with a bare process and other sandboxes
    Bench(BenchArgs),
    /// Project trees that are kept between runs; only a commit writes to the original
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Workspace {
        #[command(subcommand)]
        command: WorkspaceCommand,
    },
    /// Images that sandboxes can have as their root instead of the host's /usr
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Image {
        #[command(subcommand)]
        command: ImageCommand,
    },
    /// Tools as components: add plugins, set their permissions, call them
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Tool {
        #[command(subcommand)]
        command: ToolCommand,
    },
    /// Show the history of runs
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Runs {
        #[command(subcommand)]
        command: RunsCommand,
    },
    /// Check signed statements of runs (--receipt), and manage the keys
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Receipt {
        #[command(subcommand)]
        command: ReceiptCommand,
    },
    /// Language models: add, check and ask them
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Model {
        #[command(subcommand)]
        command: ModelCommand,
    },
    /// Let a language model repair a project whose tests fail, judged by its tests
    Fix(Box<FixArgs>),
    /// Let language models make code from a specification: plan, tests, code, repairs
    Make(Box<MakeArgs>),
    /// Review a project or a file: guard, tests, a computed score, and a model's defects
    Review(Box<ReviewArgs>),
    /// Verbs over the tools of plugins, and sessions in which models wrote code
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Agent {
        #[command(subcommand)]
        command: AgentCommand,
    },
    /// Count tokens and cost of language models by role, session, model or day
    Usage(UsageArgs),
    /// Caches (installed dependencies, compiled code, scan results): show their sizes, make room
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Cache {
        #[command(subcommand)]
        command: CacheCommand,
    },
    /// Print the JSON Schema of an output
    Schema {
        /// Name of the output: outcome, test_report, scan … (a wrong name lists them all)
        name: String,
    },
    /// Let agents save, run and test code here: an MCP server
    Mcp(McpArgs),
    /// Write a configuration that explains every setting, and set up the MCP clients of this host
    Init(InitArgs),
    /// Call a tool of any MCP server: a wrapped one in its sandbox, or a URL
    Call(Box<CallArgs>),
    /// Keep sandboxes ready for run and test of the same user
    Serve(ServeArgs),
    /// Run the actions of a farm (Remote Execution API), each in a sandbox
    Worker(Box<WorkerArgs>),
    /// Run one action in a sandbox, for NativeLink's entrypoint
    #[command(hide = true)]
    WorkerEntry(Box<WorkerEntryArgs>),
    /// Show the state of a farm and its workers
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Fleet {
        #[command(subcommand)]
        command: FleetCommand,
    },
    /// Review and decide in a browser: what waits, what ran, what this host can enforce
    Web(WebArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page of a command, for `man -l -`
    Man {
        /// The command, such as runs show [default: hotcell itself]
        #[arg(conflicts_with = "dir")]
        command: Vec<String>,
        /// Instead, write every page into this folder
        #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(written))]
        dir: Option<PathBuf>,
    },
}

fn path(text: OsString) -> Result<PathBuf, String> {
    if text.is_empty() { Err("a path cannot be empty".to_owned()) } else { Ok(text.into()) }
}

/// Parses the path of a file or folder that is written. `-` is refused: standard output has the program's output or the report, and in other places of the
/// command line `-` is a standard stream.
fn written(text: OsString) -> Result<PathBuf, String> {
    if text == "-" { Err(crate::outputs::STANDARD_OUTPUT.to_owned()) } else { path(text) }
}

/// Arguments of `hotcell mcp`.
#[derive(Args, Debug)]
#[command(
    override_usage = "hotcell mcp [--stdio | --http ADDR] [--metrics ADDR] [OPTIONS]\n       hotcell mcp install|uninstall|check|wrap|servers [OPTIONS]",
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "hotcell mcp install --client NAME adds it to a client. Over HTTP a client sends the token of\n\
                  the file that hotcell names when it starts. Exit status: 0 at the end of standard input or by\n\
                  a signal, 125 refused."
)]
pub struct McpArgs {
    /// Use standard input and output [the default]
    #[arg(long, conflicts_with = "http")]
    pub stdio: bool,
    /// Use streamable HTTP at ADDR, such as 127.0.0.1:8808, or systemd
    #[arg(long, value_name = "ADDR")]
    pub http: Option<HttpAddress>,
    /// Accept clients without a token; on loopback only
    #[arg(long, requires = "http")]
    pub no_auth: bool,
    /// A name by which clients call this server, in addition to localhost
    #[arg(long, value_name = "HOST", requires = "http")]
    pub allow_host: Vec<String>,
    /// Listen beyond loopback without TLS
    #[arg(long, requires = "http")]
    pub plain_http: bool,
    /// Tools that are offered, such as default,guard or all
    #[arg(long, value_name = "TOOLSET,…", value_delimiter = ',')]
    pub toolsets: Vec<String>,
    /// Serve one role of make: architect, coder, tester or debugger
    #[arg(long, value_name = "ROLE", value_parser = Role::named, conflicts_with_all = ["http", "toolsets", "servers", "metrics"])]
    pub role: Option<Role>,
    /// Also serve these servers (hotcell mcp servers list), or all
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub servers: Vec<String>,
    /// Serve metrics for Prometheus at http://ADDR/metrics
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<std::net::SocketAddr>,
    /// Log as text, or as json without data sent by callers
    #[arg(long, value_enum, value_name = "FORM", default_value = "text", hide_possible_values = true)]
    pub log: LogFormat,
    /// Print the reference of the tools and end
    #[arg(long, exclusive = true)]
    pub reference: bool,
    #[command(subcommand)]
    pub command: Option<McpCommand>,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// JSON lines without data sent by callers
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn former_spellings_of_options_are_taken() {
        const DIGEST: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        for (now, former) in [
            (
                &["run", "--max-output", "64K", "--", "true"][..],
                &["run", "--output", "64K", "--", "true"][..],
            ),
            (&["run", "--max-files", "9", "--", "true"], &["run", "--files", "9", "--", "true"]),
            (&["run", "--max-processes", "9", "--", "true"], &["run", "--processes", "9", "--", "true"]),
            (&["test", "--max-disk", "9M", "."], &["test", "--disk", "9M", "."]),
            (&["run", "--no-daemon", "--", "true"], &["run", "--cold", "--", "true"]),
            (&["scan", "--include-packages", "."], &["scan", "--packages", "."]),
            (&["audit", "verify", "--expect-head", DIGEST], &["audit", "verify", "--noted", DIGEST]),
            (&["doctor", "--attack", "--timeout", "9s"], &["doctor", "--attack", "--within", "9s"]),
            (&["mcp", "check", "--timeout", "9s"], &["mcp", "check", "--within", "9s"]),
        ] {
            let parsed = |words: &[&str]| {
                let all = ["hotcell"].iter().chain(words);
                format!("{:?}", Cli::try_parse_from(all).unwrap_or_else(|e| panic!("{words:?}: {e}")))
            };
            assert_eq!(parsed(now), parsed(former));
            let option = former.iter().find(|word| !now.contains(word)).unwrap();
            let page = former.iter().take_while(|word| !word.starts_with("--"));
            let all = ["hotcell"].iter().chain(page).chain(&["--help"]);
            let help = Cli::try_parse_from(all).unwrap_err().to_string();
            assert!(!help.split_whitespace().any(|word| word == *option), "{former:?} is shown");
        }
    }

    /// The page lists every command that help shows, so that a reader who searches it for a verb finds it.
    #[test]
    fn every_command_is_on_the_page_of_the_command_line() {
        fn lines(command: &clap::Command, name: &str, table: &[(String, String)], missing: &mut Vec<String>) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                let full = format!("{name} {}", sub.get_name());
                // A row begins with the whole name, or with that of the group and lists the verb among its words.
                let here = |(row, words): &(String, String)| {
                    let is = |word: &str| word == sub.get_name();
                    row.starts_with(&format!("{full} "))
                        || row.starts_with(&format!("{name} ")) && words.split(['|', ' ', '[', ']']).any(is)
                };
                if !table.iter().any(here) {
                    missing.push(full.clone());
                }
                lines(sub, &full, table, missing);
            }
        }
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/command-line.md");
        let page = std::fs::read_to_string(page).unwrap();
        let table = page.split("```").nth(1).unwrap();
        // Columns are two spaces apart; the second one describes.
        let row = |line: &str| (format!("{line} "), line.split("  ").next().unwrap_or_default().to_owned());
        let table: Vec<_> = table.lines().filter(|line| line.starts_with("hotcell ")).map(row).collect();
        let mut missing = Vec::new();
        lines(&Cli::command(), "hotcell", &table, &mut missing);
        assert_eq!(missing, Vec::<String>::new(), "commands that docs/src/command-line.md does not list");
        let named: std::collections::BTreeSet<&str> = page
            .split_once("the JSON Schema of an output:")
            .and_then(|(_, rest)| rest.split_once("\nhotcell "))
            .map(|(names, _)| names.split([',', ' ', '\n']).filter(|name| !name.is_empty()).collect())
            .unwrap();
        let known: std::collections::BTreeSet<&str> = crate::schema::SCHEMAS.iter().copied().collect();
        assert_eq!(named, known, "names of `hotcell schema`");
    }

    #[test]
    fn help_fits_a_screen() {
        // Every page, however deep.
        fn check(page: &mut clap::Command, bad: &mut String) {
            let help = page.render_help().to_string();
            if help.lines().count() > 48 || help.lines().any(|l| l.chars().count() > 100) {
                bad.push_str(&help);
            }
            page.get_subcommands_mut().for_each(|page| check(page, bad));
        }
        let mut bad = String::new();
        pages().get_subcommands_mut().for_each(|page| check(page, &mut bad));
        assert!(bad.is_empty(), "{bad}");
    }
}
