//! `hotcell learn`: runs a program in full sandboxes, and suggests a policy from what it was denied.
//!
//! Each run has all walls of `hotcell run`: it is only watched more. Nothing that is suggested is granted, but for the replay, which a
//! person agrees to where anything could leave the sandbox.

mod host_files;
mod shown;

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use hotcell_config::network::NetworkSetting;
use hotcell_config::{Configuration, RunSettings};
use hotcell_deps::{DepsError, Purpose};
use hotcell_egress::AllowList;
use hotcell_learn::{Evidence, Replay, Suggestion, suggest};
use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::policy::{Network, Stdin};
use hotcell_sandbox::profile::BindText;
use hotcell_sandbox::{BoxFuture, Engine, Limits, Running};
use hotcell_state::history::Stored;
use hotcell_state::report::{Code, ErrorReport, barred, printable};
use hotcell_state::state::StateChoice;
use hotcell_state::time::{micros_since_1970, rfc3339};
use hotcell_toolchain::Surroundings;
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::execute::{Observer, execute};
use hotcell_verbs::request::{RunRequest, RunTarget};
use hotcell_verbs::workspaces;
use tokio::runtime::Runtime;

use self::host_files::Disk;
pub use self::shown::of_runs;
use crate::args::{Common, LearnArgs};
use crate::context::{configuration, current_folder, runtime, state};
use crate::deps::Provider;
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::{exit, options, usage};

/// Maximum size of each stream of a run that is shown, in bytes.
const MAX_SHOWN_BYTES: usize = 4096;

/// Runs the command; returns its exit status.
pub fn learn(common: &Common, args: &LearnArgs) -> anyhow::Result<u8> {
    let runtime = runtime()?;
    let learnt = learnt(common, args, &runtime);
    runtime.shutdown_background();
    Ok(match learnt {
        Ok(code) => code,
        Err(report) => usage::fail(&report, common.json),
    })
}

/// The parts of all runs of one program.
struct Lesson<'a> {
    common: &'a Common,
    args: &'a LearnArgs,
    configuration: Configuration,
    choice: StateChoice,
    engine: Engine,
    runtime: &'a Runtime,
}

/// A run that has ended.
struct Ended {
    stored: Stored,
    report: RunReport,
}

impl Ended {
    fn evidence(&self) -> Evidence {
        let rows = self.report.requests.iter().flat_map(|requests| &requests.rows);
        let rows: Vec<_> = rows.map(|row| row.request.clone()).collect();
        let started = rfc3339(micros_since_1970(self.stored.started));
        Evidence::of(&self.stored.id, &started, &self.stored.command, &self.report, &rows)
    }
}

fn learnt(common: &Common, args: &LearnArgs, runtime: &Runtime) -> Result<u8, ErrorReport> {
    if args.program.is_empty() {
        return Err(ErrorReport::new(Code::Usage, "there is no program to learn from")
            .field("PROGRAM")
            .hint("name one after --: hotcell learn -- PROGRAM [ARG…]"));
    }
    shown::check_file(&args.suggest)?;
    let cwd = current_folder();
    if let Some(named) = args.workspace.as_deref().filter(|named| workspaces::is_id(named)) {
        let why = format!("{} is a stored workspace", named.display());
        return Err(ErrorReport::new(Code::InvalidValue, why).field("--workspace").hint("name a folder"));
    }
    crate::run::own_workspace(args.workspace.as_deref(), &cwd)
        .map_err(|why| ErrorReport::new(Code::Refused, why).field("--workspace"))?;
    let project = args.workspace.as_ref().map_or_else(|| cwd.clone(), |folder| cwd.join(folder));
    let configuration = configuration(common, Some(project))?;
    let choice = state(common, &configuration);
    let lesson = Lesson { common, args, configuration, choice, engine: Engine::new(), runtime };
    let mut settings = args.sandbox.settings(&cwd);
    if args.sandbox.deps {
        lesson.install(&mut settings)?;
    }
    let hosts = lesson.watch_hosts(&mut settings)?;
    let mut runs = Vec::new();
    for number in 1..=args.runs {
        let ended = lesson.run(&settings)?;
        lesson.tell(&format!("run {number} of {}", args.runs), &ended.report);
        if let Some(code) = no_evidence(&ended.report) {
            return lesson.give_up(&ended.report, code);
        }
        runs.push(ended);
    }
    if runs.iter().any(|run| run.report.missing.is_none()) && !common.quiet {
        notes::say(
            "files that it lacks cannot be watched here: not with --rw, nor without namespaces or notifications",
        );
    }
    let choices = shown::options(common, &lesson.configuration, &args.suggest);
    let evidence: Vec<_> = runs.iter().map(Ended::evidence).collect();
    let mut all = suggest(&evidence, &Disk, &choices);
    let mut code = 0;
    if !all.is_empty() {
        let can_send = !hosts.is_empty() || !all.network.is_empty() || lesson.has_secrets(&settings)?;
        all.replay = Some(if !can_send || args.replay || lesson.agreed(&all, &hosts) {
            let replayed = lesson.run(&with(&settings, &hosts, &all, &cwd)?)?;
            lesson.tell("the replay", &replayed.report);
            let again = suggest(&[replayed.evidence()], &Disk, &choices);
            let mut told = replay(&runs, &replayed, &all, &again);
            told.run = told.run.filter(|_| !args.sandbox.no_history);
            code = u8::from(told.sufficed != Some(true));
            told
        } else {
            let why = "it could send what it reads to hosts before you have read the policy: ‹replay› agrees to that";
            Replay {
                made: false,
                why_not: Some(why.to_owned()),
                run: None,
                sufficed: None,
                exit_code: None,
                still_denied: Vec::new(),
            }
        });
    }
    shown::show(common, &lesson.configuration, &args.suggest, all, code)
}

/// The result of a replay, by the runs before it.
fn replay(before: &[Ended], replayed: &Ended, all: &Suggestion, again: &Suggestion) -> Replay {
    let report = &replayed.report;
    let mut still_denied = again.beyond(all);
    // A rule that is in force and still needed did not help.
    let helpless = all.beyond(&Suggestion { network: Vec::new(), ro: Vec::new(), ..all.clone() });
    still_denied.extend(helpless.into_iter().filter(|rule| {
        again.network.iter().any(|one| one.rule == *rule) || again.ro.iter().any(|one| one.rule == *rule)
    }));
    let known = |target: &str, reason: &str| {
        all.refused.iter().any(|one| one.target == target && one.reason == reason)
    };
    let more = again.refused.iter().filter(|one| !known(&one.target, &one.reason));
    still_denied.extend(more.map(|one| format!("{} ({})", one.target, one.reason)));
    let as_before =
        before.iter().any(|run| run.report.cause == report.cause && run.report.exit_code == report.exit_code);
    let ended_well = report.cause == Cause::Exited && (report.exit_code == Some(0) || as_before);
    Replay {
        made: true,
        why_not: None,
        run: Some(replayed.stored.id.clone()),
        sufficed: Some(ended_well && still_denied.is_empty()),
        exit_code: report.exit_code,
        still_denied,
    }
}

/// The settings with a suggested policy.
fn with(
    settings: &RunSettings,
    hosts: &AllowList,
    all: &Suggestion,
    cwd: &Path,
) -> Result<RunSettings, ErrorReport> {
    let internal = |why: String| ErrorReport::new(Code::Internal, format!("the suggested policy: {why}"));
    let mut settings = settings.clone();
    let rules = hosts.rules().iter().map(ToString::to_string);
    let rules: Vec<_> = rules.chain(all.network.iter().map(|one| one.rule.clone())).collect();
    if !rules.is_empty() {
        let list = AllowList::of(rules.iter().map(String::as_str)).map_err(|e| internal(e.to_string()))?;
        settings.network = Some(NetworkSetting::Hosts(list));
    }
    for file in &all.ro {
        let bind = BindText::parse(Path::new(&file.rule)).map_err(|e| internal(e.to_string()))?;
        settings.binds.push(bind.at(cwd, false));
    }
    Ok(settings)
}

/// Exit status of a run that says nothing about what its program lacks, since it never ran or was stopped by a person.
fn no_evidence(report: &RunReport) -> Option<u8> {
    let none = matches!(
        report.cause,
        Cause::Refused
            | Cause::Quarantined
            | Cause::NotFound
            | Cause::NotExecutable
            | Cause::Internal
            | Cause::Cancelled
    );
    none.then(|| exit::of_outcome(report))
}

impl Lesson<'_> {
    fn install(&self, settings: &mut RunSettings) -> Result<(), ErrorReport> {
        let Some(workspace) = &self.args.workspace else {
            return Err(ErrorReport::new(Code::Usage, "--deps is for the lock files of a workspace")
                .field("--deps")
                .hint("name its folder with --workspace DIR"));
        };
        let provider = Provider {
            common: self.common,
            engine: &self.engine,
            runtime: self.runtime,
            configuration: &self.configuration,
            choice: &self.choice,
        };
        let provided = provider.provide(workspace, settings, None, Purpose::Run);
        provided.map(drop).map_err(|error| match error {
            DepsError::Wrong(report) => report,
            DepsError::Refused(outcome) => {
                ErrorReport::new(Code::Refused, outcome.reason.clone().unwrap_or_default()).field("--deps")
            }
        })
    }

    fn request(&self, settings: &RunSettings) -> RunRequest {
        RunRequest {
            what: RunTarget::Program(self.args.program.clone()),
            workspace: self.args.workspace.clone(),
            kept: None,
            settings: settings.clone(),
            limits: Limits::default(),
            stdin: Stdin::Null,
            keep: ChangePolicy::default(),
        }
    }

    /// Lets a program without a network reach a proxy that allows nothing, so that the ports that it asks for are seen. Returns the
    /// hosts that it may reach.
    fn watch_hosts(&self, settings: &mut RunSettings) -> Result<AllowList, ErrorReport> {
        let merged = self.request(settings).merge(&self.configuration)?;
        if merged.policy.shape.network == Network::Loopback {
            settings.network = Some(NetworkSetting::Hosts(AllowList::default()));
        }
        Ok(merged.hosts)
    }

    fn has_secrets(&self, settings: &RunSettings) -> Result<bool, ErrorReport> {
        Ok(!self.request(settings).merge(&self.configuration)?.secrets.secrets.is_empty())
    }

    /// Runs the program once, and records the run.
    fn run(&self, settings: &RunSettings) -> Result<Ended, ErrorReport> {
        let request = self.request(settings);
        let merged = request.merge(&self.configuration)?;
        let words = self.args.program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let stored = Stored::begin(words);
        let report = match request.prepare(merged, Surroundings::of_this_process()) {
            Err(outcome) => *outcome,
            Ok(mut prepared) => {
                crate::run::warn_unset(&prepared.unset);
                notes::guard(prepared.scan.as_ref(), self.common);
                prepared.policy.shape.watch_files = true;
                let stop = async {
                    interrupted().await;
                    None
                };
                let mut quiet = Quiet(self.common);
                self.runtime.block_on(execute(&self.engine, &mut prepared, &mut quiet, stop)).report
            }
        };
        let report = options::of_run(report);
        if !self.args.sandbox.no_history {
            crate::run::remember_or_warn(&self.choice, &stored, &report);
        }
        Ok(Ended { stored, report })
    }

    /// Tells a person how a run ended, and what it printed.
    fn tell(&self, what: &str, report: &RunReport) {
        if self.common.quiet || self.common.json {
            return;
        }
        for (name, output) in [("stdout", &report.stdout), ("stderr", &report.stderr)] {
            let bytes = output.to_bytes();
            let from = bytes.len().saturating_sub(MAX_SHOWN_BYTES);
            let text = barred(&String::from_utf8_lossy(&bytes[from..]), &format!("  {name} | "));
            let _ = io::stderr().write_all(text.as_bytes());
        }
        notes::say(format!("{what}: {}", notes::summary(report, "")));
    }

    /// Ends without a suggestion.
    fn give_up(&self, report: &RunReport, code: u8) -> Result<u8, ErrorReport> {
        let reason = report.reason.clone().unwrap_or_else(|| notes::name(report.cause));
        if code == exit::INTERRUPTED {
            return Ok(code);
        }
        let error = ErrorReport::new(Code::Refused, format!("nothing can be learnt: {reason}"));
        if code == exit::REFUSED {
            return Err(error);
        }
        usage::fail(&error, self.common.json);
        Ok(code)
    }

    /// Whether a person at a terminal agrees to a replay.
    fn agreed(&self, all: &Suggestion, hosts: &AllowList) -> bool {
        let there = io::stdin().is_terminal() && io::stderr().is_terminal();
        if !there || self.common.json || self.common.quiet {
            return false;
        }
        let mut text =
            String::from("A replay lets the program read and reach this before you have decided:\n");
        let rules = all.network.iter().map(|one| &one.rule).chain(all.ro.iter().map(|one| &one.rule));
        for rule in rules {
            text.push_str(&format!("  {}\n", printable(rule)));
        }
        if !hosts.is_empty() {
            text.push_str(&format!("  beside {}\n", printable(&hosts.to_string())));
        }
        text.push_str("It can send what it reads to these hosts. Replay? [y/N] ");
        let _ = io::stderr().write_all(text.as_bytes());
        let mut line = String::new();
        io::stdin().read_line(&mut line).is_ok_and(|_| matches!(line.trim(), "y" | "yes"))
    }
}

/// Follows a run whose output is shown afterwards.
struct Quiet<'a>(&'a Common);

impl Observer for Quiet<'_> {
    fn compiles(&mut self, _compiler: &str) {}

    fn prepares(&mut self, what: &str) {
        if !self.0.json && !self.0.quiet {
            notes::say(what);
        }
    }

    fn compiler_printed(&mut self, _printed: &str) {}

    fn follow<'a>(&'a mut self, _running: &mut Running) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}
