//! The command line, as documented. Only options that have an effect are accepted.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use hotcell_config::Mode;
use hotcell_config::network::NetworkSetting;
use hotcell_config::{EnvSetting, RunSettings, SecretOption, SecretSettings, parse_layers};
use hotcell_sandbox::Bytes;
use hotcell_sandbox::profile::{BindText, LimitSettings, Span};
use hotcell_sandbox::units::parse_duration;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::request::Language;

mod approvals;
mod bench;
mod cache;
mod call;
mod doctor;
mod image;
mod init;
mod jobs;
mod mcp;
mod model;
mod receipt;
mod serve;
mod tool;
pub use approvals::ApprovalsCommand;
pub use bench::BenchArgs;
pub use cache::CacheCommand;
pub use call::{CallArgs, ReachArgs, TryArgs};
pub use doctor::DoctorArgs;
pub use image::ImageCommand;
pub use init::InitArgs;
pub use jobs::{COBERTURA, JobArgs};
pub use mcp::{
    CheckArgs, HttpAddress, InstallArgs, McpCommand, PlaceArgs, ServersCommand, UninstallArgs, WrapArgs,
};
pub use model::{AddModelArgs, AskArgs, ModelCommand, UsageArgs, UsageCommand};
pub use receipt::{KeyCommand, ReceiptCommand, VerifyArgs};
pub use serve::{ServeArgs, ServeCommand};
pub use tool::ToolCommand;

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
    for name in ["run", "test"] {
        command = command.mut_subcommand(name, |of| {
            ["json", "state", "config", "quiet", "verbose"]
                .into_iter()
                .fold(of, |of, id| of.mut_arg(id, |arg| arg.hide(true)))
        });
    }
    // Because of its many options, this page has no room for those that `run` explains.
    command.mut_subcommand("test", |of| {
        let elsewhere = |arg: &clap::Arg| arg.get_help_heading() == Some(LIMITS) || arg.get_id() == "secret";
        of.mut_args(|arg| if elsewhere(&arg) { arg.hide(true) } else { arg })
    })
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
        #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
        dir: Option<PathBuf>,
    },
}

/// Arguments of `hotcell scan`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 all allowed; 1 something at review; 3 something quarantined, or not read whole; 125 a\n\
                  path or the rules cannot be read; 130 interrupted."
)]
pub struct ScanArgs {
    /// Files or folders; - for stdin
    #[arg(value_name = "PATH", required = true, value_parser = OsStringValueParser::new().try_map(path))]
    pub paths: Vec<PathBuf>,
    /// Your own rules, in addition to those of hotcell
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub rules: Option<PathBuf>,
    /// Also read files that .gitignore lists
    #[arg(long)]
    pub no_ignore: bool,
    /// Also read virtual environments and node_modules
    #[arg(long = "include-packages", alias = "packages")]
    pub packages: bool,
    /// Quarantine what a run would refuse, for review
    #[arg(long)]
    pub quarantine: bool,
    /// Print the report as SARIF 2.1.0, for code hosts and editors
    #[arg(long, conflicts_with = "json")]
    pub sarif: bool,
    /// Read everything again, including files that have not changed
    #[arg(long)]
    pub no_cache: bool,
    /// Write a signed statement of the verdict (hotcell receipt verify)
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(path))]
    pub receipt: Option<PathBuf>,
}

/// Arguments of `hotcell quarantine …`.
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "An item is refused by `run` and `test` until it is released: one artifact, byte for byte, read under\n\
                  the rules in force, for a time and a number of runs. Exit status: 0 good, 125 refused."
)]
pub struct QuarantineArgs {
    /// Your own rules, as used for runs
    #[arg(long, global = true, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub rules: Option<PathBuf>,
    #[command(subcommand)]
    pub command: QuarantineCommand,
}

/// Commands on items in the quarantine.
#[derive(Debug, Subcommand)]
pub enum QuarantineCommand {
    /// List the items, most recently refused last
    List,
    /// Show an item: findings, locations, and decisions
    Show {
        /// Id of the item, or its first characters
        id: String,
    },
    /// Ask for a release
    Request {
        /// Id of the item, or its first characters
        id: String,
        /// Reason; recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Allow the item to run
    Release {
        /// Id of the item, or its first characters
        id: String,
        /// Reason; recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Time for which it may run [default: 1d]
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        expires: Option<Duration>,
        /// Number of times that it may run [default: 1]
        #[arg(long = "max-uses", alias = "uses", allow_negative_numbers = true, value_name = "N")]
        uses: Option<u32>,
    },
    /// Reject a request, or revoke a release
    Reject {
        /// Id of the item, or its first characters
        id: String,
        /// Reason; recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Remove the stored data of an item; the record of it is kept
    Purge {
        /// Id of the item, or its first characters
        #[arg(required_unless_present = "expired", conflicts_with = "expired")]
        id: Option<String>,
        /// All items whose retention time is over
        #[arg(long)]
        expired: bool,
    },
}

/// Commands of `hotcell audit …`.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check that no entry was changed, removed or inserted
    Verify {
        /// A digest printed by an earlier check, which the log must still contain
        #[arg(long = "expect-head", alias = "noted", value_name = "DIGEST")]
        noted: Option<String>,
    },
    /// List the last entries, the newest last
    List {
        /// Number of entries
        #[arg(long, value_name = "N", default_value_t = 50)]
        last: u32,
    },
}

/// Commands of `hotcell workspace …`.
#[derive(Debug, Subcommand)]
pub enum WorkspaceCommand {
    /// Create a workspace: empty, over a folder, or from an archive or bundle; prints its id
    Create {
        /// A folder, which is never changed
        #[arg(value_name = "DIR", conflicts_with_all = ["archive", "bundle"], value_parser = OsStringValueParser::new().try_map(path))]
        folder: Option<PathBuf>,
        /// A tar (also compressed) or zip archive
        #[arg(long, value_name = "FILE", conflicts_with = "bundle")]
        archive: Option<PathBuf>,
        /// A file written by `git bundle create`
        #[arg(long, value_name = "FILE")]
        bundle: Option<PathBuf>,
    },
    /// List workspaces, or the files of one
    List {
        /// Id of a workspace
        id: Option<String>,
    },
    /// Write a file from standard input
    Write {
        /// Id of the workspace
        id: String,
        /// Path in the workspace
        path: PathBuf,
        /// Make the file executable
        #[arg(long)]
        executable: bool,
    },
    /// Print a file
    Read {
        /// Id of the workspace
        id: String,
        /// Path in the workspace
        path: PathBuf,
    },
    /// Delete a file or folder in the workspace
    Delete {
        /// Id of the workspace
        id: String,
        /// Path in the workspace
        path: PathBuf,
    },
    /// Print the changes in the workspace
    Diff {
        /// Id of the workspace
        id: String,
    },
    /// Write the changes to the folder from which the workspace was made
    Commit {
        /// Id of the workspace
        id: String,
        /// Include git's own state, and files that other tools run or trust
        #[arg(long)]
        allow_protected: bool,
    },
    /// Discard the changes in the workspace
    Discard {
        /// Id of the workspace
        id: String,
        /// Only changes since this snapshot
        #[arg(long, value_name = "SNAPSHOT")]
        to: Option<String>,
    },
    /// Store the present state under a name
    Snapshot {
        /// Id of the workspace
        id: String,
        /// Name of the snapshot
        name: String,
    },
    /// Create another workspace with the present state of this one; prints its id
    Fork {
        /// Id of the workspace
        id: String,
    },
    /// Write the files of the workspace as a tar archive
    Export {
        /// Id of the workspace
        id: String,
        /// A new file [default: stdout]
        file: Option<PathBuf>,
    },
    /// Remove a workspace; the folder from which it was made is kept
    Remove {
        /// Id of the workspace
        id: String,
    },
}

/// Commands of `hotcell runs …`.
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// List the runs, newest first
    List,
    /// Print the outcome of a run
    Show {
        /// Id of the run, or its first characters
        id: String,
        /// List its requests with secrets instead
        #[arg(long)]
        network: bool,
    },
}

/// Arguments of `hotcell run`.
#[derive(Args, Debug)]
#[command(
    override_usage = "hotcell run [OPTIONS] -- PROGRAM [ARG…]\n       hotcell run [OPTIONS] --lang LANG FILE|- [-- ARG…]",
    after_help = "Also: --json, --state DIR, --config FILE, --quiet, -v (see hotcell --help); --no-history\n\
                  Languages: python bash javascript typescript go rust c cpp java sql postgresql\n\
                  Exit status: the program's own; 124 a limit ended it; 125 refused; 126 cannot be executed;\n\
                  127 not found; 128+N killed by signal N; 130 interrupted."
)]
pub struct RunArgs {
    /// Compile and run a source FILE (- for stdin)
    #[arg(long, value_name = "LANG", value_parser = language(), hide_possible_values = true)]
    pub lang: Option<Language>,
    /// Start in a copy-on-write view of DIR; the original is never written
    #[arg(long, value_name = "DIR", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(path))]
    pub workspace: Option<PathBuf>,
    /// FILE, - or null [default: -, on a terminal null]
    #[arg(long, value_name = "FILE", help_heading = "What it sees")]
    pub stdin: Option<OsString>,
    /// Do not use `hotcell serve`
    #[arg(long = "no-daemon", alias = "cold")]
    pub cold: bool,
    /// Pass all output on to a terminal, not only text and colours
    #[arg(long)]
    pub raw: bool,
    /// Write a signed statement of the result (hotcell receipt verify)
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(path))]
    pub receipt: Option<PathBuf>,
    #[command(flatten)]
    pub keep: KeepArgs,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
    /// Source file, with --lang
    #[arg(value_name = "FILE", hide = true)]
    pub file: Option<OsString>,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", last = true, hide = true)]
    pub program: Vec<OsString>,
}

/// Options for the changes in a workspace.
#[derive(Args, Clone, Copy, Debug)]
pub struct KeepArgs {
    /// Print the changes in the workspace
    #[arg(long)]
    pub diff: bool,
    /// Write them to DIR if it exits with 0 (--allow-protected: all of them)
    #[arg(long)]
    pub commit: bool,
    /// With --commit: also git's own state and files that tools run (.vscode, hidden files …)
    #[arg(long, hide = true)]
    pub allow_protected: bool,
}

impl KeepArgs {
    /// The policy for changes, for the service.
    ///
    /// # Errors
    /// [`ErrorReport`] when the options contradict each other.
    pub fn keep(self, workspace: bool) -> Result<ChangePolicy, ErrorReport> {
        let Self { diff, commit, allow_protected } = self;
        let bad = |option: &str, why: &str, hint: &str| {
            Err(ErrorReport::new(Code::Usage, format!("{option} {why}")).field(option).hint(hint))
        };
        match (workspace, diff, commit, allow_protected) {
            (false, true, _, _) => bad("--diff", "needs a workspace", "name one with --workspace DIR"),
            (false, _, true, _) => bad("--commit", "needs a workspace", "name one with --workspace DIR"),
            (_, _, false, true) => {
                bad("--allow-protected", "means nothing without --commit", "add --commit or take it out")
            }
            _ => Ok(ChangePolicy { diff, commit, allow_protected, stay: false }),
        }
    }
}

/// Arguments of `hotcell test`.
#[derive(Args, Debug)]
#[command(
    after_help = "Also: --json, --state, --config, --quiet, -v, --no-daemon, --receipt; --secret, limits: run --help\n\
                  Exit status: 0 passed; 1 failed; 2 none, or contradicted; 3 quarantined; 124 limit; 125 refused."
)]
pub struct TestArgs {
    /// Project, mounted copy-on-write and never written; or a stored workspace
    #[arg(value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub project: PathBuf,
    /// Framework, such as pytest or jest [default: detected]
    #[arg(long, value_name = "NAME")]
    pub framework: Option<String>,
    /// Only these tests: an id in a report, a path, or framework syntax (-k)
    #[arg(long, value_name = "WHAT")]
    pub filter: Option<String>,
    /// Stop at the first failure
    #[arg(long)]
    pub fail_fast: bool,
    /// Measure which lines the tests run (not for every framework)
    #[arg(long)]
    pub coverage: bool,
    /// Number of parallel tests [default: the framework's, or one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: Option<u32>,
    /// Run the tests N times, and name those that fail only sometimes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), hide_default_value = true)]
    pub repeat: u32,
    /// Write the results as JUnit XML
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(path))]
    pub junit: Option<PathBuf>,
    /// Write a signed statement of the result (hotcell receipt verify)
    #[arg(long, value_name = "FILE", hide = true, value_parser = OsStringValueParser::new().try_map(path))]
    pub receipt: Option<PathBuf>,
    /// Annotate a GitHub workflow, and add to its step summary
    #[arg(long)]
    pub github: bool,
    /// Do not use `hotcell serve`
    #[arg(long = "no-daemon", alias = "cold", hide = true)]
    pub cold: bool,
    #[command(flatten)]
    pub jobs_of_ci: JobArgs,
    #[command(flatten)]
    pub keep: KeepArgs,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
}

/// Options of every command that makes a sandbox.
#[derive(Args, Clone, Debug)]
pub struct SandboxArgs {
    /// standard, strict, landlock-only or a FILE
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<OsString>,
    /// Show a file or folder, read-only
    #[arg(long, value_name = "HOST[:INSIDE]", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(|text| BindText::parse(Path::new(&text))))]
    pub ro: Vec<BindText>,
    /// Show a file or folder, writable on the host itself
    #[arg(long, value_name = "HOST[:INSIDE]", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(|text| BindText::parse(Path::new(&text))))]
    pub rw: Vec<BindText>,
    /// Run in an image instead of the host's /usr (hotcell image list)
    #[arg(long, value_name = "NAME", help_heading = "What it sees")]
    pub image: Option<String>,
    /// Show a toolchain's folder, and put it on PATH
    #[arg(long, value_name = "DIR", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(path))]
    pub toolchain: Vec<PathBuf>,
    /// Set a variable, or pass one through
    #[arg(long, value_name = "NAME[=VALUE]", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(|text| variable(&text)))]
    pub env: Vec<EnvSetting>,
    /// Reachable hosts (*.NAME, NAME=ADDRESS) [default: none]
    #[arg(long, value_name = "HOST:PORT,…", help_heading = "What it sees", value_parser = network)]
    pub network: Option<NetworkSetting>,
    /// Token that stays outside: NAME=env:VARIABLE@HOST (or file:, fd:)
    #[arg(long, value_name = "SECRET", help_heading = "What it sees")]
    pub secret: Vec<SecretOption>,
    /// Set the base-URL variables of usual clients (OPENAI_BASE_URL, PIP_INDEX_URL, …) for these secrets
    #[arg(long, help_heading = "What it sees", hide = true)]
    pub secret_env: bool,
    /// Install packages of lock files, once, from their registries only
    #[arg(long, help_heading = "What it sees")]
    pub deps: bool,
    /// Do not record this run in the history (hotcell runs list)
    #[arg(long, hide = true)]
    pub no_history: bool,
    /// Scan it first: enforce, report (run it anyway) or off [default: enforce]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub guard: Option<Mode>,
    /// Your own rules for the guard
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub rules: Option<PathBuf>,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Refuse to run without these layers
    #[arg(long, value_name = "LAYER,…", help_heading = "Limits", value_parser = parse_layers)]
    pub require: Vec<std::collections::BTreeSet<hotcell_sandbox::Layer>>,
}

/// Limits of a run.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = LIMITS)]
pub struct LimitArgs {
    /// Memory of all processes, without scratch [default: 512M, test 2G]
    #[arg(long, allow_negative_numbers = true, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Wall-clock time [default: 60s, test 10m]
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// CPU time of all processes, or none [default: 60s, test none]
    #[arg(long, allow_negative_numbers = true, value_name = "TIME")]
    cpu_time: Option<Span>,
    /// Processes and threads [default: 64, test 512]
    #[arg(long = "max-processes", alias = "processes", allow_negative_numbers = true, value_name = "N")]
    processes: Option<u32>,
    /// Bytes written to scratch [default: 256M, test 4G]
    #[arg(long = "max-disk", alias = "disk", allow_negative_numbers = true, value_name = "SIZE")]
    disk: Option<Bytes>,
    /// Files made in scratch [default: 65536, test 1000000]
    #[arg(long = "max-files", alias = "files", allow_negative_numbers = true, value_name = "N")]
    files: Option<u64>,
    /// Captured bytes of each output stream [default: 1M, test 4M]
    #[arg(long, allow_negative_numbers = true, value_name = "SIZE")]
    capture: Option<Bytes>,
    /// Bytes of both output streams together [default: 64M, test 256M]
    #[arg(long = "max-output", alias = "output", allow_negative_numbers = true, value_name = "SIZE")]
    output: Option<Bytes>,
    /// Processors kept busy at once, such as 1.5
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    cpus: Option<f64>,
    /// Descriptors per process [default: 1024, as ordinary user 768]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    open_files: Option<u64>,
}

impl SandboxArgs {
    /// Converts the options to settings; relative paths are resolved against `cwd`.
    pub fn settings(&self, cwd: &Path) -> RunSettings {
        let l = self.limits.clone();
        let binds = [(&self.ro, false), (&self.rw, true)]
            .into_iter()
            .flat_map(|(binds, writable)| binds.iter().map(move |bind| bind.at(cwd, writable)))
            .collect();
        RunSettings {
            secrets: SecretSettings::of_options(&self.secret, self.secret_env),
            profile: self.profile.clone(),
            network: self.network.clone(),
            proc: None,
            require: self.require.iter().flatten().copied().collect(),
            limits: LimitSettings {
                memory: l.memory,
                timeout: l.timeout,
                cpu_time: l.cpu_time,
                processes: l.processes,
                disk: l.disk,
                files: l.files,
                capture: l.capture,
                output: l.output,
                cpus: l.cpus,
                open_files: l.open_files,
            },
            env: self.env.clone(),
            image: self.image.clone(),
            binds,
            toolchains: self.toolchain.iter().map(|t| cwd.join(t)).collect(),
            guard: self.guard,
            rules: self.rules.as_ref().map(|r| cwd.join(r)),
        }
    }
}

fn language() -> impl TypedValueParser<Value = Language> {
    #[derive(Clone, Copy)]
    struct Named(Language, &'static str);
    impl ValueEnum for Named {
        fn value_variants<'a>() -> &'a [Self] {
            static ALL: [Named; Language::ALL.len()] = {
                let mut all = [Named(Language::Python, ""); Language::ALL.len()];
                let mut at = 0;
                while at < all.len() {
                    all[at] = Named(Language::ALL[at].1, Language::ALL[at].0);
                    at += 1;
                }
                all
            };
            &ALL
        }
        fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
            Some(clap::builder::PossibleValue::new(self.1))
        }
    }
    clap::builder::EnumValueParser::<Named>::new().map(|named| named.0)
}

fn mode(text: &str) -> Result<Mode, String> {
    text.parse()
}

fn network(text: &str) -> Result<NetworkSetting, String> {
    match text.parse() {
        Ok(NetworkSetting::Off) => {
            Err("off is for profiles and configuration; none is a private loopback".to_owned())
        }
        parsed => parsed.map_err(|e| e.to_string()),
    }
}

fn path(text: OsString) -> Result<PathBuf, String> {
    if text.is_empty() { Err("a path cannot be empty".to_owned()) } else { Ok(text.into()) }
}

fn variable(text: &OsStr) -> Result<EnvSetting, String> {
    let bytes = text.as_bytes();
    let (name, value) = match bytes.iter().position(|b| *b == b'=') {
        Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
        None => (bytes, None),
    };
    if name.is_empty() {
        return Err("a variable needs a name; write NAME=VALUE, or NAME to pass it through".to_owned());
    }
    let name = OsStr::from_bytes(name).to_owned();
    Ok(match value {
        Some(value) => EnvSetting::Set(name, OsString::from_vec(value.to_vec())),
        None => EnvSetting::Pass(name),
    })
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
            (&["audit", "verify", "--expect-head", "a"], &["audit", "verify", "--noted", "a"]),
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

    #[test]
    fn variables_as_people_write_them() {
        let set = |n: &str, v: &str| Some(EnvSetting::Set(n.into(), v.into()));
        for (text, want) in [
            ("A=b", set("A", "b")),
            ("A=", set("A", "")),
            ("A=b=c", set("A", "b=c")),
            ("A", Some(EnvSetting::Pass("A".into()))),
            ("=b", None),
            ("", None),
        ] {
            assert_eq!(variable(OsStr::new(text)).ok(), want, "{text}");
        }
    }
}
