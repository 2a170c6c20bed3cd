//! The command line: parses it, calls `hotcell-verbs`, and prints. No decisions are made here.
//!
//! Two programs are made of it: [`whole`] is `hotcell`, and [`front`] is the small program that packages install in front of it.

#![forbid(unsafe_code)]

mod agent_run;
mod agents;
mod approvals;
mod args;
mod attack;
mod audit;
mod bench;
mod binaries;
mod cache;
mod context;
mod deps;
mod doctor;
mod entry_link;
mod exit;
mod fleet;
mod front;
mod image;
mod init;
mod learn;
mod man;
mod mask;
mod mcp;
mod model;
mod options;
mod outputs;
mod quarantine;
mod quote;
mod receipt;
mod remote;
mod render;
mod stdin;
mod terminal;

mod backend;
mod farm;
mod plain;
mod result_file;
mod review;
mod run;
mod runs;
mod scan;
mod schema;
mod serve;
mod session;
mod signals;
mod streams;
mod suggested;
mod systemd;
mod test;
mod test_list;
mod tool;
mod tty;
mod typed_paths;
mod unknown_command;
mod unseen;
mod usage;
mod web;
mod worker;
mod worker_entry;
mod worker_metrics;
mod workspace;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::CommandFactory;
use hotcell_scanning::{pictures, reader};
use hotcell_state::report::{Code, ErrorReport};

use crate::args::{AgentCommand, Cli, Command, FleetCommand};

pub use front::front;

/// The whole program; does not return unless it is a reader or a host of tools.
#[must_use]
pub fn whole() -> ExitCode {
    // Words of an action, behind the name of the link for NativeLink, are not those of the stages below.
    let arguments: Vec<OsString> = entry_link::words(std::env::args_os().collect());
    if let Some(code) = hotcell_proof::stage(&arguments) {
        std::process::exit(code);
    }
    match arguments.get(1) {
        Some(word) if word == reader::VERB => return read(),
        Some(word) if word == pictures::VERB => {
            return served(pictures::serve(std::io::stdin(), std::io::stdout()));
        }
        Some(word) if word == hotcell_tools::host::VERB => return host_tools(),
        _ => {}
    }
    front::answer_version(&arguments);
    if let Ok(program) = std::env::current_exe() {
        reader::read_with(program);
    }
    if arguments.len() == 1 && std::io::stdout().is_terminal() && std::io::stderr().is_terminal() {
        let code = doctor::first_page().unwrap_or_else(|error| {
            usage::fail(&ErrorReport::new(Code::Internal, format!("{error:#}")), false)
        });
        std::process::exit(code.into());
    }
    let code = match usage::parse() {
        Ok(cli) => {
            let form = match &cli.command {
                Command::Mcp(args) => args.log,
                _ => args::LogFormat::Text,
            };
            terminal::log::start(&cli.common, form);
            let json = cli.common.json;
            dispatch(cli).unwrap_or_else(|error| {
                usage::fail(&ErrorReport::new(Code::Internal, format!("{error:#}")), json)
            })
        }
        Err(code) => code,
    };
    hotcell_verbs::token_ends::wait();
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
        Command::Run(args) => match &args.remote {
            Some(farm) => remote::run(&common, &args, farm),
            None => run::run(&common, &args),
        },
        Command::Test(args) => test::test(&common, &args),
        Command::Learn(args) => learn::learn(&common, &args),
        Command::Session(args) => session::session(&common, &args),
        Command::Scan(args) => Ok(scan::scan(&common, &args)),
        Command::Quarantine(args) => Ok(quarantine::quarantine(&common, &args)),
        Command::Cache { command } => Ok(cache::cache(&common, &command)),
        Command::Approvals { command } => Ok(approvals::approvals(&common, &command)),
        Command::Audit { command } => Ok(audit::audit(&common, &command)),
        Command::Doctor(args) if args.attack => attack::attack(&common, &args),
        Command::Doctor(args) => doctor::examine(&common, args.ready.as_deref()),
        Command::Bench(args) => bench::bench(&common, &args),
        Command::Workspace { command } => Ok(workspace::workspace(&common, &command)),
        Command::Image { command } => Ok(image::image(&common, &command)),
        Command::Tool { command } => tool::tool(&common, &command),
        Command::Runs { command } => Ok(runs::runs(&common, &command)),
        Command::Model { command } => Ok(model::model(&common, &command)),
        Command::Fix(args) => Ok(agents::fix(&common, &args)),
        Command::Make(args) => Ok(agents::make::make(&common, &args)),
        Command::Review(args) => Ok(review::review(&common, &args)),
        Command::Agent { command: AgentCommand::Verb(command) } => agent_run::agent(&common, &command),
        Command::Agent { command: AgentCommand::Repair(command) } => Ok(agents::agent(&common, &command)),
        Command::Usage(args) => Ok(model::spent::spent(&common, &args)),
        Command::Receipt { command } => Ok(receipt::receipt(&common, &command)),
        Command::Schema { name } => Ok(schema::schema(&name, common.json)),
        Command::Mcp(args) => mcp::mcp(&common, args),
        Command::Init(args) => Ok(init::init(&common, &args)),
        Command::Call(args) => mcp::call::call(&common, &args),
        Command::Serve(args) => serve::serve(&common, &args),
        Command::Worker(args) => worker::worker(&common, &args),
        Command::WorkerEntry(args) => worker_entry::entry(&common, &args),
        Command::Fleet { command: FleetCommand::Status(args) } => fleet::status(&common, &args),
        Command::Web(args) => web::web(&common, &args),
        Command::Man { command, dir } => Ok(man::man(dir.as_deref(), &command, common.json)),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "hotcell", &mut text);
            Ok(exit::printed(exit::print_text(&String::from_utf8_lossy(&text)), 0))
        }
    }
}
