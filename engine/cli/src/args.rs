//! The command line, as the contract says. Only what does something parses.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use hotcell_sandbox::Bytes;
use hotcell_sandbox::profile::{LimitSettings, Span, parse_bind};
use hotcell_sandbox::units::parse_duration;
use hotcell_service::changes::Keep;
use hotcell_service::config::{
    EnvSetting, HotSettings, McpSettings, QuarantineSettings, Settings, parse_layers,
};
use hotcell_service::guard::Mode;
use hotcell_service::network::NetworkSetting;
use hotcell_service::report::{Code, ErrorReport};
use hotcell_service::request::Language;
use hotcell_service::tools::ToolSettings;

mod approvals;
mod bench;
mod doctor;
mod image;
mod mcp;
mod serve;
mod tool;
pub use approvals::ApprovalsCommand;
pub use bench::BenchArgs;
pub use doctor::DoctorArgs;
pub use image::ImageCommand;
pub use mcp::{CheckArgs, HttpAddress, InstallArgs, McpCommand, PlaceArgs, UninstallArgs};
pub use serve::{ServeArgs, ServeCommand};
pub use tool::ToolCommand;

const STYLES: Styles =
    Styles::styled().header(AnsiColor::Yellow.on_default()).literal(AnsiColor::Green.on_default());

/// `hotcell`.
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

/// The definitions as their pages are shown: those of `run` and `test`, which have the most of their own, name the options
/// of every command in one line.
pub fn pages() -> clap::Command {
    let mut command = Cli::command();
    // Options of every command stand in the others only from here on.
    command.build();
    for name in ["run", "test"] {
        command = command.mut_subcommand(name, |of| {
            ["json", "state", "config", "quiet", "verbose"]
                .into_iter()
                .fold(of, |of, id| of.mut_arg(id, |arg| arg.hide(true)))
        });
    }
    command
}

/// Options of every command.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// Print one JSON object on stdout, and nothing else there
    #[arg(long, global = true)]
    pub json: bool,
    /// State folder [default: $XDG_STATE_HOME/hotcell]
    #[arg(long, global = true, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Configuration in place of $XDG_CONFIG_HOME/hotcell/config.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Say nothing on stderr but errors
    #[arg(long, global = true)]
    pub quiet: bool,
    /// Say more on stderr; twice for more
    #[arg(short = 'v', global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command or a source file in a sandbox
    Run(Box<RunArgs>),
    /// Run the tests of a project (DIR; never written), and say test by test what happened
    Test(Box<TestArgs>),
    /// Read files, folders or standard input, and say how dangerous they look
    Scan(Box<ScanArgs>),
    /// Look at what was refused, and decide
    Quarantine(QuarantineArgs),
    /// Say yes or no to what calls of agents asked for
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
    /// Say what this host can enforce, found out by trying
    Doctor(DoctorArgs),
    /// Measure what a sandbox costs here, beside a bare process and other sandboxes
    Bench(BenchArgs),
    /// Project trees that stay between runs; the original is never written but by commit
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Workspace {
        #[command(subcommand)]
        command: WorkspaceCommand,
    },
    /// What sandboxes have as their root in place of the host's /usr
    #[command(arg_required_else_help = true, disable_help_subcommand = true)]
    Image {
        #[command(subcommand)]
        command: ImageCommand,
    },
    /// Tools as components: add plugins, say what they may do, call them
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
    /// Print the JSON Schema of an output
    Schema {
        /// Its name: outcome, test_report, scan … (a wrong one lists them)
        name: String,
    },
    /// Let agents save, run and test code here: an MCP server
    Mcp(McpArgs),
    /// Keep sandboxes ready for run and test of the same user
    Serve(ServeArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// `hotcell scan`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 all allowed; 1 something at review; 3 something quarantined, or not read whole; 125 a\n\
                  path or the rules cannot be read; 130 interrupted."
)]
pub struct ScanArgs {
    /// Files or folders; - for stdin
    #[arg(value_name = "PATH", required = true, value_parser = OsStringValueParser::new().try_map(path))]
    pub paths: Vec<PathBuf>,
    /// Rules of your own, beside those that come with hotcell
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub rules: Option<PathBuf>,
    /// Read what .gitignore names, too
    #[arg(long)]
    pub no_ignore: bool,
    /// Go into virtual environments and node_modules
    #[arg(long)]
    pub packages: bool,
    /// Hold what a run would refuse, for a review
    #[arg(long)]
    pub quarantine: bool,
    /// Print the report as SARIF 2.1.0, for code hosts and editors
    #[arg(long, conflicts_with = "json")]
    pub sarif: bool,
    /// Read everything anew, also what did not change since it was read
    #[arg(long)]
    pub no_cache: bool,
}

/// `hotcell quarantine …`
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "An item is refused by `run` and `test` until it is released: one artifact, byte for byte, read under\n\
                  the rules in force, for a time and a number of runs. Exit status: 0 good, 125 refused."
)]
pub struct QuarantineArgs {
    /// Rules of your own, as runs have them
    #[arg(long, global = true, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub rules: Option<PathBuf>,
    #[command(subcommand)]
    pub command: QuarantineCommand,
}

/// The steps of an item.
#[derive(Debug, Subcommand)]
pub enum QuarantineCommand {
    /// List what is held, what was refused last first
    List,
    /// Show an item: what was found, where, and who said what
    Show {
        /// Its id, or the beginning of it
        id: String,
    },
    /// Ask for a release
    Request {
        /// Its id, or the beginning of it
        id: String,
        /// Why; it stays in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Let it run
    Release {
        /// Its id, or the beginning of it
        id: String,
        /// Why; it stays in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// How long it may [default: 1d]
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        expires: Option<Duration>,
        /// How often it may [default: 1]
        #[arg(long, allow_negative_numbers = true, value_name = "N")]
        uses: Option<u32>,
    },
    /// Say no, or take a release back
    Reject {
        /// Its id, or the beginning of it
        id: String,
        /// Why; it stays in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Remove what is kept of an item; that it was here stays known
    Purge {
        /// Its id, or the beginning of it
        #[arg(required_unless_present = "expired", conflicts_with = "expired")]
        id: Option<String>,
        /// Of all that nobody cared for long enough
        #[arg(long)]
        expired: bool,
    },
}

/// `hotcell audit …`
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check that nothing was changed, taken out or put in
    Verify {
        /// A digest that an earlier check printed: it has to be in the log still
        #[arg(long, value_name = "DIGEST")]
        noted: Option<String>,
    },
    /// List the last entries, the newest last
    List {
        /// How many
        #[arg(long, value_name = "N", default_value_t = 50)]
        last: u32,
    },
}

/// `hotcell workspace …`
#[derive(Debug, Subcommand)]
pub enum WorkspaceCommand {
    /// Make one: empty, over a folder, or from an archive or bundle; prints its id
    Create {
        /// A folder, which stays as it is
        #[arg(value_name = "DIR", conflicts_with_all = ["archive", "bundle"], value_parser = OsStringValueParser::new().try_map(path))]
        folder: Option<PathBuf>,
        /// A tar (also compressed) or zip archive
        #[arg(long, value_name = "FILE", conflicts_with = "bundle")]
        archive: Option<PathBuf>,
        /// What `git bundle create` wrote
        #[arg(long, value_name = "FILE")]
        bundle: Option<PathBuf>,
    },
    /// List workspaces, or the files of one
    List {
        /// One of them
        id: Option<String>,
    },
    /// Write a file from standard input
    Write {
        /// The workspace
        id: String,
        /// Path below it
        path: PathBuf,
        /// The file can be executed
        #[arg(long)]
        executable: bool,
    },
    /// Print a file
    Read {
        /// The workspace
        id: String,
        /// Path below it
        path: PathBuf,
    },
    /// Delete a file or folder in the workspace
    Delete {
        /// The workspace
        id: String,
        /// Path below it
        path: PathBuf,
    },
    /// Print what it changed
    Diff {
        /// The workspace
        id: String,
    },
    /// Take its changes over into the folder that it was made from
    Commit {
        /// The workspace
        id: String,
        /// Also files that your other tools run or believe (.git/hooks, .vscode …)
        #[arg(long)]
        allow_protected: bool,
    },
    /// Forget its changes
    Discard {
        /// The workspace
        id: String,
        /// Only those since this snapshot
        #[arg(long, value_name = "SNAPSHOT")]
        to: Option<String>,
    },
    /// Keep its present state under a name
    Snapshot {
        /// The workspace
        id: String,
        /// The name
        name: String,
    },
    /// Make another that begins where this one is; prints its id
    Fork {
        /// The workspace
        id: String,
    },
    /// Write its files as a tar archive
    Export {
        /// The workspace
        id: String,
        /// A new file [default: stdout]
        file: Option<PathBuf>,
    },
    /// Remove it; the folder that it was made from stays
    Remove {
        /// The workspace
        id: String,
    },
}

/// `hotcell runs …`
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// List the runs, newest first
    List,
    /// Print the outcome of a run
    Show {
        /// Its id, or the beginning of it
        id: String,
    },
}

/// `hotcell run`.
#[derive(Args, Debug)]
#[command(
    override_usage = "hotcell run [OPTIONS] -- PROGRAM [ARG…]\n       hotcell run [OPTIONS] --lang LANG FILE|- [-- ARG…]",
    after_help = "Also: --json, --state DIR, --config FILE, --quiet, -v (see hotcell --help)\n\
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
    #[arg(long)]
    pub cold: bool,
    #[command(flatten)]
    pub keep: KeepArgs,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
    /// The source, with --lang
    #[arg(value_name = "FILE", hide = true)]
    pub file: Option<OsString>,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", last = true, hide = true)]
    pub program: Vec<OsString>,
}

/// What becomes of the changes in a workspace.
#[derive(Args, Clone, Copy, Debug)]
pub struct KeepArgs {
    /// Print what it changed in the workspace
    #[arg(long)]
    pub diff: bool,
    /// Take it over into DIR when it ends with 0 (--allow-protected: all of it)
    #[arg(long)]
    pub commit: bool,
    /// With --commit: also what other tools run (.git/hooks, .vscode …)
    #[arg(long, hide = true)]
    pub allow_protected: bool,
}

impl KeepArgs {
    /// As the service takes them.
    ///
    /// # Errors
    /// Options that mean nothing together.
    pub fn keep(self, workspace: bool) -> Result<Keep, ErrorReport> {
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
            _ => Ok(Keep { diff, commit, allow_protected, stay: false }),
        }
    }
}

/// `hotcell test`.
#[derive(Args, Debug)]
#[command(after_help = "Also: --json, --state DIR, --config FILE, --quiet, -v (see hotcell --help)\n\
                  Exit status: 0 passed; 1 failed; 2 none, or contradicted; 3 quarantined; 124 limit; 125 refused.")]
pub struct TestArgs {
    /// The project, mounted copy-on-write and never written; or a workspace that stays
    #[arg(value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub project: PathBuf,
    /// Which one, such as pytest or jest [default: what it looks like]
    #[arg(long, value_name = "NAME")]
    pub framework: Option<String>,
    /// Only these: an id of the report, a path, or what the framework takes (-k)
    #[arg(long, value_name = "WHAT")]
    pub filter: Option<String>,
    /// Stop at the first failure
    #[arg(long)]
    pub fail_fast: bool,
    /// Measure which lines the tests run (not of every framework)
    #[arg(long)]
    pub coverage: bool,
    /// Run this many at once [default: what the framework does, or one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: Option<u32>,
    /// Run them N times, and name those that fail only sometimes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), hide_default_value = true)]
    pub repeat: u32,
    /// Write the results as JUnit XML
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(path))]
    pub junit: Option<PathBuf>,
    /// Annotate a GitHub workflow, and add to its step summary
    #[arg(long)]
    pub github: bool,
    /// Do not use `hotcell serve`
    #[arg(long)]
    pub cold: bool,
    #[command(flatten)]
    pub keep: KeepArgs,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
}

/// What a sandbox shows and allows: options of every command that makes one.
#[derive(Args, Clone, Debug)]
pub struct SandboxArgs {
    /// standard, strict, landlock-only or a FILE
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<OsString>,
    /// Show a file or folder, read-only
    #[arg(long, value_name = "HOST[:INSIDE]", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(bind))]
    pub ro: Vec<PathBuf>,
    /// Show a file or folder that it may change for real
    #[arg(long, value_name = "HOST[:INSIDE]", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(bind))]
    pub rw: Vec<PathBuf>,
    /// Run in an image, not in the host's /usr (hotcell image list)
    #[arg(long, value_name = "NAME", help_heading = "What it sees")]
    pub image: Option<String>,
    /// Show a toolchain's folder, and put it on PATH
    #[arg(long, value_name = "DIR", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(path))]
    pub toolchain: Vec<PathBuf>,
    /// Set a variable, or pass one through
    #[arg(long, value_name = "NAME[=VALUE]", help_heading = "What it sees", value_parser = OsStringValueParser::new().try_map(|text| variable(&text)))]
    pub env: Vec<EnvSetting>,
    /// Hosts that it may reach (*.NAME, NAME=ADDRESS) [default: none]
    #[arg(long, value_name = "HOST:PORT,…", help_heading = "What it sees", value_parser = network)]
    pub network: Option<NetworkSetting>,
    /// Install what lock files name, once, from their registries only
    #[arg(long, help_heading = "What it sees")]
    pub deps: bool,
    /// Read it first: enforce, report (run it anyway) or off [default: enforce]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub guard: Option<Mode>,
    /// The guard's rules of your own
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(path))]
    pub rules: Option<PathBuf>,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Refuse rather than run without these layers
    #[arg(long, value_name = "LAYER,…", help_heading = "Limits", value_parser = parse_layers)]
    pub require: Vec<std::collections::BTreeSet<hotcell_sandbox::Layer>>,
}

/// Limits of a run.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Of the whole tree, without scratch [default: 512M, test 2G]
    #[arg(long, allow_negative_numbers = true, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Wall clock [default: 60s, test 10m]
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Of the whole tree; none for no limit [default: 60s, test none]
    #[arg(long, allow_negative_numbers = true, value_name = "TIME")]
    cpu_time: Option<Span>,
    /// Processes and threads [default: 64, test 512]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    processes: Option<u32>,
    /// Written to scratch [default: 256M, test 4G]
    #[arg(long, allow_negative_numbers = true, value_name = "SIZE")]
    disk: Option<Bytes>,
    /// Made in scratch [default: 65536, test 1000000]
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    files: Option<u64>,
    /// Kept of each output stream [default: 1M, test 4M]
    #[arg(long, allow_negative_numbers = true, value_name = "SIZE")]
    capture: Option<Bytes>,
    /// Of both output streams together [default: 64M, test 256M]
    #[arg(long, allow_negative_numbers = true, value_name = "SIZE")]
    output: Option<Bytes>,
    /// Processors kept busy at once, such as 1.5
    #[arg(long, allow_negative_numbers = true, value_name = "N")]
    cpus: Option<f64>,
}

impl SandboxArgs {
    /// What the options come to; relative paths count from `cwd`.
    pub fn settings(&self, cwd: &Path) -> Settings {
        let l = self.limits.clone();
        let binds = [(&self.ro, false), (&self.rw, true)]
            .into_iter()
            .flat_map(|(paths, writable)| paths.iter().filter_map(move |p| parse_bind(p, cwd, writable).ok()))
            .collect();
        Settings {
            deps_hosts: None,
            mcp: McpSettings::default(),
            tools: ToolSettings::default(),
            policies: None,
            profile: self.profile.clone(),
            state: None,
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
            },
            env: self.env.clone(),
            image: self.image.clone(),
            binds,
            toolchains: self.toolchain.iter().map(|t| cwd.join(t)).collect(),
            guard: self.guard,
            rules: self.rules.as_ref().map(|r| cwd.join(r)),
            rules_digest: None,
            approvals: None,
            quarantine: QuarantineSettings::default(),
            hot: HotSettings::default(),
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

fn bind(text: OsString) -> Result<PathBuf, String> {
    let text = PathBuf::from(text);
    match parse_bind(&text, Path::new("/"), false) {
        Ok(_) => Ok(text),
        Err(e) => Err(e.to_string()),
    }
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

/// `hotcell mcp`.
#[derive(Args, Debug)]
#[command(
    override_usage = "hotcell mcp [--stdio | --http ADDR] [--metrics ADDR] [OPTIONS]\n       hotcell mcp install|uninstall|check [OPTIONS]",
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = "hotcell mcp install --client NAME adds it to a client. Over HTTP a client sends the token of\n\
                  the file that hotcell names when it starts. Exit status: 0 at the end of standard input or by\n\
                  a signal, 125 refused."
)]
pub struct McpArgs {
    /// Speak on standard input and output [the default]
    #[arg(long, conflicts_with = "http")]
    pub stdio: bool,
    /// Speak streamable HTTP at ADDR, such as 127.0.0.1:8808, or systemd
    #[arg(long, value_name = "ADDR")]
    pub http: Option<HttpAddress>,
    /// Let everybody in without a token; on loopback only
    #[arg(long, requires = "http")]
    pub no_auth: bool,
    /// A name by which clients call this server, besides localhost
    #[arg(long, value_name = "HOST", requires = "http")]
    pub allow_host: Vec<String>,
    /// Listen beyond loopback without TLS
    #[arg(long, requires = "http")]
    pub plain_http: bool,
    /// Tell numbers for Prometheus at http://ADDR/metrics
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<std::net::SocketAddr>,
    /// Log as text, or as json without what callers sent
    #[arg(long, value_enum, value_name = "FORM", default_value = "text", hide_possible_values = true)]
    pub log: crate::log::Form,
    /// Print the reference of the tools and end
    #[arg(long, exclusive = true)]
    pub reference: bool,
    #[command(subcommand)]
    pub command: Option<McpCommand>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_fits_a_screen() {
        let mut command = pages();
        for name in [
            "run",
            "test",
            "scan",
            "workspace",
            "image",
            "tool",
            "quarantine",
            "approvals",
            "audit",
            "mcp",
            "doctor",
            "runs",
            "schema",
            "completions",
        ] {
            let help = command.find_subcommand_mut(name).unwrap().render_help().to_string();
            assert!(help.lines().count() <= 48, "{name}: {} lines", help.lines().count());
            assert!(help.lines().all(|l| l.chars().count() <= 100), "{help}");
        }
        for name in ["tool", "mcp"] {
            for page in command.find_subcommand_mut(name).unwrap().get_subcommands_mut() {
                let help = page.render_help().to_string();
                assert!(
                    help.lines().count() <= 48 && help.lines().all(|l| l.chars().count() <= 100),
                    "{help}"
                );
            }
        }
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
