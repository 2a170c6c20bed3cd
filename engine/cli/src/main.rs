//! The `hotcell` binary: parses the command line, calls `hotcell-service`, and prints. No decisions are made
//! here.

#![forbid(unsafe_code)]

mod approvals;
mod approvals_text;
mod args;
mod attack;
mod audit;
mod author;
mod bench;
mod bench_text;
mod binaries;
mod cache;
mod changes_text;
mod clients;
mod deps;
mod dev;
mod diff_text;
mod exit;
mod image;
mod log;
mod mask;
mod mcp;
mod notes;
mod pairs;
mod progress;
mod publish;
mod quarantine;
mod quarantine_text;
mod quote;
mod stdin;

mod backend;
mod reload;
mod result_file;
mod run;
mod runs;
mod scan;
mod scan_text;
mod screen;
mod serve;
mod signals;
mod streams;
mod systemd;
mod test;
mod test_list;
mod test_text;
mod tool;
mod typed_paths;
mod usage;
mod workspace;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use hotcell_config::{Configuration, Places};
use hotcell_guard::quarantine::Channel;
use hotcell_sandbox::layer::nearest;
use hotcell_sandbox::profile::Profile;
use hotcell_sandbox::{Engine, doctor};
use hotcell_scanning::reader;
use hotcell_scanning::session::ScanState;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateChoice;
use hotcell_verbs::workspaces;
use nix::sys::resource::{Resource, getrlimit};

use crate::args::{Cli, Command, Common};
use crate::signals::interrupted;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = hotcell_proof::stage(&arguments) {
        std::process::exit(code);
    }
    match std::env::args_os().nth(1) {
        Some(word) if word == reader::VERB => return read(),
        Some(word) if word == hotcell_tools::host::VERB => return host_tools(),
        _ => {}
    }
    if let Ok(program) = std::env::current_exe() {
        reader::read_with(program);
    }
    let code = match usage::parse() {
        Ok(cli) => {
            let form = match &cli.command {
                Command::Mcp(args) => args.log,
                _ => args::LogFormat::Text,
            };
            log::start(&cli.common, form);
            let json = cli.common.json;
            dispatch(cli).unwrap_or_else(|error| {
                usage::fail(&ErrorReport::new(Code::Internal, format!("{error:#}")), json)
            })
        }
        Err(code) => code,
    };
    // A thread may still be blocked on standard input: exit without waiting for it.
    std::process::exit(code.into());
}

/// Runs this program as the guard's reader, in its sandbox. An internal command, so it is not in the help.
fn read() -> ExitCode {
    served(reader::serve(std::io::stdin(), std::io::stdout()))
}

/// Exit status of a program in a sandbox.
fn served(result: std::io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hotcell: error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs this program as the host of tools, in its sandbox; not in the help either.
fn host_tools() -> ExitCode {
    served(hotcell_tools::serve())
}

fn dispatch(cli: Cli) -> anyhow::Result<u8> {
    let Cli { common, command } = cli;
    match command {
        Command::Run(args) => run::run(&common, &args),
        Command::Test(args) => test::test(&common, &args),
        Command::Scan(args) => Ok(scan::scan(&common, &args)),
        Command::Quarantine(args) => Ok(quarantine::quarantine(&common, &args)),
        Command::Cache { command } => Ok(cache::cache(&common, &command)),
        Command::Approvals { command } => Ok(approvals::approvals(&common, &command)),
        Command::Audit { command } => Ok(audit::audit(&common, &command)),
        Command::Doctor(args) if args.attack => attack::attack(&common, &args),
        Command::Doctor(_) => examine(&common),
        Command::Bench(args) => bench::bench(&common, &args),
        Command::Workspace { command } => Ok(workspace::workspace(&common, &command)),
        Command::Image { command } => Ok(image::image(&common, &command)),
        Command::Tool { command } => tool::tool(&common, &command),
        Command::Runs { command } => Ok(runs::runs(&common, &command)),
        Command::Schema { name } => Ok(schema(&name, common.json)),
        Command::Mcp(args) => mcp::mcp(&common, args),
        Command::Serve(args) => serve::serve(&common, &args),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "hotcell", &mut text);
            Ok(printed(exit::print_text(&String::from_utf8_lossy(&text)), 0))
        }
    }
}

/// The exit status after printing.
fn printed(result: std::io::Result<()>, code: u8) -> u8 {
    match result {
        Ok(()) => code,
        Err(e) => exit::of_write_error(&e),
    }
}

/// Maximum number of threads for file operations; tokio's default.
const MAX_FILE_THREADS: usize = 512;

/// Makes a runtime with one thread: nothing here is limited by the processor, and threads cost time at the
/// start.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    runtime_with(MAX_FILE_THREADS)
}

/// Like [`runtime`], with this maximum number of threads for file operations.
fn runtime_with(file_threads: usize) -> anyhow::Result<tokio::runtime::Runtime> {
    enough_descriptors()?;
    tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(file_threads)
        .enable_all()
        .build()
        .context("the event loop cannot be made")
}

/// Checks the limit of descriptors. One run needs 25 besides standard input, output and error; with fewer it
/// would fail halfway.
fn enough_descriptors() -> anyhow::Result<()> {
    const MIN_OPEN_FILES: u64 = 32;
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).context("RLIMIT_NOFILE")?;
    anyhow::ensure!(
        soft >= MIN_OPEN_FILES,
        "this process may have {soft} open files, and hotcell needs {MIN_OPEN_FILES}; raise `ulimit -n`"
    );
    Ok(())
}

fn folder(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}

fn current_folder() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| "/".into())
}

/// Reads the configuration; `project` is the folder whose own file is included.
fn configuration(common: &Common, project: Option<PathBuf>) -> Result<Configuration, ErrorReport> {
    let places = Places {
        named: common
            .config
            .clone()
            .or_else(|| folder("HOTCELL_CONFIG").filter(|p| !p.as_os_str().is_empty())),
        usual: Places::usual(folder("XDG_CONFIG_HOME"), folder("HOME")),
        project,
    };
    let ours = |(name, _): &(OsString, OsString)| name.as_encoded_bytes().starts_with(b"HOTCELL_");
    let mut configuration =
        Configuration::read(&places, std::env::vars_os().filter(ours), &current_folder())?;
    let state = state(common, &configuration);
    if let Ok(path) = state.path() {
        configuration.reading = ScanState::once(path);
    }
    configuration.asker = Some((Channel::Cli, state));
    Ok(configuration)
}

/// The state folder: from the option, the environment, the configuration, or the default.
fn state(common: &Common, configuration: &Configuration) -> StateChoice {
    let named = common.state.clone().or_else(|| configuration.environment.state.clone());
    match named.or_else(|| configuration.user.state.clone()) {
        Some(path) => StateChoice::Named(current_folder().join(path)),
        None => StateChoice::usual(folder("XDG_STATE_HOME"), folder("HOME")),
    }
}

/// Runs `hotcell doctor`.
fn examine(common: &Common) -> anyhow::Result<u8> {
    let mut profiles = Vec::new();
    for name in Profile::names() {
        profiles.push((name.to_owned(), Profile::named(name)?.policy().shape));
    }
    let report = runtime()?.block_on(async {
        let engine = Engine::new();
        tokio::select! {
            report = doctor::examine(&engine, &profiles) => Some(report),
            () = interrupted() => None,
        }
    });
    let Some(report) = report else { return Ok(exit::INTERRUPTED) };
    let result = if common.json {
        exit::print_json(&report)
    } else {
        use std::io::IsTerminal;
        let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        exit::print_text(&doctor::render(&report, std::io::stdout().is_terminal() && !plain))
    };
    Ok(printed(result, 0))
}

/// Outputs with a JSON Schema.
const SCHEMAS: [&str; 22] = [
    "outcome",
    "test_report",
    "test_list",
    "scan",
    "quarantine",
    "approvals",
    "binaries",
    "cache",
    "audit",
    "runs",
    "workspace",
    "workspaces",
    "images",
    "tools",
    "inspect",
    "doctor",
    "attacks",
    "bench",
    "mcp_install",
    "mcp_check",
    "serve",
    "error",
];

/// Runs `hotcell schema NAME`.
fn schema(name: &str, json: bool) -> u8 {
    let short = name.strip_prefix("hotcell.").unwrap_or(name);
    let short = short.strip_suffix("/1").unwrap_or(short);
    let (mut schema, constant) = match short {
        "outcome" => (schemars::schema_for!(hotcell_sandbox::Outcome), hotcell_sandbox::outcome::SCHEMA),
        "test_report" => {
            (schemars::schema_for!(hotcell_testing::TestReport), hotcell_testing::report::SCHEMA)
        }
        "test_list" => (schemars::schema_for!(test_list::TestList), test_list::SCHEMA),
        "scan" => (schemars::schema_for!(hotcell_guard::Report), hotcell_guard::SCHEMA),
        "quarantine" => {
            (schemars::schema_for!(hotcell_review::quarantine::Items), hotcell_review::quarantine::SCHEMA)
        }
        "approvals" => (
            schemars::schema_for!(hotcell_review::approvals::ApprovalList),
            hotcell_review::approvals::SCHEMA,
        ),
        "binaries" => {
            (schemars::schema_for!(hotcell_review::binaries::BinaryList), hotcell_review::binaries::SCHEMA)
        }
        "cache" => (schemars::schema_for!(hotcell_verbs::caches::CacheList), hotcell_verbs::caches::SCHEMA),
        "audit" => (schemars::schema_for!(hotcell_state::audit::AuditLog), hotcell_state::audit::SCHEMA),
        "runs" => (schemars::schema_for!(hotcell_state::RunList), hotcell_state::history::SCHEMA),
        "workspace" => (schemars::schema_for!(workspaces::WorkspaceReport), workspaces::SCHEMA),
        "workspaces" => (schemars::schema_for!(workspaces::WorkspaceList), workspaces::LIST_SCHEMA),
        "images" => (schemars::schema_for!(hotcell_verbs::images::ImageList), hotcell_verbs::images::SCHEMA),
        "tools" => (schemars::schema_for!(hotcell_plugins::ToolList), hotcell_plugins::report::SCHEMA),
        "inspect" => {
            (schemars::schema_for!(hotcell_plugins::Inspection), hotcell_plugins::report::INSPECT_SCHEMA)
        }
        "doctor" => (schemars::schema_for!(doctor::Doctor), doctor::SCHEMA),
        "attacks" => (schemars::schema_for!(hotcell_proof::report::Report), hotcell_proof::report::SCHEMA),
        "bench" => (schemars::schema_for!(hotcell_bench::Report), hotcell_bench::report::SCHEMA),
        "mcp_install" => (schemars::schema_for!(clients::install::Installed), clients::install::SCHEMA),
        "mcp_check" => (schemars::schema_for!(clients::check::Checked), clients::check::SCHEMA),
        "serve" => (schemars::schema_for!(serve::Served), serve::SCHEMA),
        "error" => (schemars::schema_for!(ErrorReport), hotcell_state::report::SCHEMA),
        _ => {
            let near = nearest(short, SCHEMAS).unwrap_or("outcome");
            let report =
                ErrorReport::new(Code::UnknownName, format!("there is no schema {}", quote::quoted(name)))
                    .field(name)
                    .hint(format!("did you mean {near}? there are {}", SCHEMAS.join(", ")));
            return usage::fail(&report, json);
        }
    };
    if let Some(field) = schema.pointer_mut("/properties/schema") {
        field["const"] = constant.into();
    }
    printed(exit::print_json(&schema), 0)
}
