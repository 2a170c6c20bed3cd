//! A program or a source as a job for the registry. The caller is not trusted: it names programs, never files
//! of the host.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use hotcell_config::network::NetworkSetting;
use hotcell_config::{Configuration, EnvSetting, RunSettings, SecretSettings};
use hotcell_egress::AllowList;
use hotcell_report::RunReport;
use hotcell_sandbox::outcome::{Cause, Output};
use hotcell_sandbox::policy::{PROJECT, Stdin};
use hotcell_sandbox::{BoxFuture, Bytes, Chunk, Limits, Running};
use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_toolchain::{Asks, Surroundings, shell_advice, shell_operator};
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::execute::{Observer, execute};
use hotcell_verbs::images::Wanted;
use hotcell_verbs::outputs::OutputPattern;
use hotcell_verbs::plantable::without_plantable;
use hotcell_verbs::request::{Language, Merged, RunRequest, RunTarget, Source};
use hotcell_verbs::upward;

use crate::jobs::figures;
use crate::jobs::returned::Returned;
use crate::limits::AskedLimits;
use crate::network_permit::{NetworkPermit, WITHDRAWN};
use crate::registry::{Live, Work};
use crate::run::{Answer, Progress, RunContext, Stream};
use crate::terminals::terminal::{self, Reader, Terminal};
use crate::workspaces::RunDir;

/// System folders from which a program may be named by its path.
const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/alternatives"];
/// Maximum size of standard input, in bytes: it is held in memory while the run waits.
const MAX_STDIN_BYTES: usize = 1 << 20;
/// Maximum size of standard error captured from a program that reports errors as text.
const CAPTURE_SIZE: Bytes = Bytes(64 << 10);
/// Maximum number of changed paths that are kept of a run whose folder is gone.
const MAX_SCRATCH_ROWS: usize = 100;
/// Maximum number of arguments, and their maximum total size in bytes.
const ARGUMENT_LIMITS: (usize, usize) = (4096, 1 << 20);

/// A request to run a program or a source.
#[derive(Debug)]
pub struct CommandRequest {
    /// Source to run: language, path in the workspace, text.
    pub source: Option<(Language, String, Vec<u8>)>,
    /// One of the operator's images.
    pub image: Option<String>,
    /// Program and its arguments; with a source, only the arguments.
    pub argv: Vec<String>,
    /// Folder that it starts in.
    pub workspace: Option<RunDir>,
    /// Treatment of the changes there; by default they are lost at the end of the run.
    pub keep: ChangePolicy,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// Standard input; may be empty.
    pub stdin: Vec<u8>,
    /// Limits.
    pub limits: AskedLimits,
    /// Hosts that it may reach, approved by a person for this run.
    pub network: Option<AllowList>,
    /// Names of the operator's secrets that it may use, approved by a person for this run.
    pub secrets: Vec<String>,
    /// Files of the run that are returned; those of a source below `/home/sandbox/outputs` are in any case.
    pub outputs: Vec<OutputPattern>,
    /// The terminal that the program gets.
    pub terminal: Option<Arc<Terminal>>,
    /// The person's approval, if it needs one.
    pub approved: Option<std::sync::Arc<crate::network_requests::Approved>>,
}

impl CommandRequest {
    /// A source in a workspace, by its path there.
    #[must_use]
    pub fn of_source(
        language: Language,
        (path, text): (String, Vec<u8>),
        args: Vec<String>,
        workspace: RunDir,
    ) -> Self {
        Self {
            source: Some((language, path, text)),
            image: None,
            argv: args,
            workspace: Some(workspace),
            keep: ChangePolicy::default(),
            env: Vec::new(),
            stdin: Vec::new(),
            limits: AskedLimits::default(),
            network: None,
            secrets: Vec::new(),
            outputs: Vec::new(),
            terminal: None,
            approved: None,
        }
    }

    /// The command in the form of the command line, for the history.
    #[must_use]
    pub fn typed(&self) -> Vec<String> {
        let source = self
            .source
            .as_ref()
            .map(|(language, path, _)| ["--lang".to_owned(), language.name().to_owned(), path.clone()]);
        source.into_iter().flatten().chain(self.argv.iter().cloned()).collect()
    }

    /// The first argument of a program that a shell would read as an operator, such as `|`. Those of a source are its author's own.
    #[must_use]
    pub fn operator(&self) -> Option<String> {
        let arguments = self.argv.iter().skip(1).map(String::as_str);
        shell_operator(arguments).filter(|_| self.source.is_none()).map(str::to_owned)
    }

    /// Checks the request as far as possible before it runs.
    ///
    /// # Errors
    /// A report that names the field.
    pub fn into_work(mut self, live: &Live, caller: &Caller) -> Result<Work, ErrorReport> {
        let language = self.source.as_ref().map(|(language, ..)| *language);
        let what = match self.source {
            Some((language, path, text)) => {
                check_arguments("args", &self.argv)?;
                let arguments = self.argv.iter().map(OsString::from).collect();
                RunTarget::Source(language, Source::Inside(path.into(), text), arguments)
            }
            None => {
                check_argv(&self.argv, self.workspace.is_some())?;
                // By its path in the workspace: the host may have a folder of the same name.
                if let Ok(own) = Path::new(&self.argv[0]).strip_prefix(PROJECT) {
                    self.argv[0] = format!("./{}", own.display());
                }
                RunTarget::Program(self.argv.iter().map(OsString::from).collect())
            }
        };
        check_env(&self.env)?;
        check_stdin(&self.stdin)?;
        let mut request = RunRequest {
            kept: self.workspace.as_ref().and_then(RunDir::kept).cloned(),
            keep: self.keep,
            what,
            workspace: self.workspace.as_ref().map(RunDir::folder),
            settings: RunSettings {
                env: self.env.into_iter().map(|(n, v)| EnvSetting::Set(n.into(), v.into())).collect(),
                // Only a run of a user at the keyboard reaches hosts, except for those that such a user
                // approved.
                network: Some(self.network.map_or(NetworkSetting::None, NetworkSetting::Hosts)),
                image: self.image,
                secrets: SecretSettings { used: self.secrets, ..SecretSettings::default() },
                ..RunSettings::default()
            },
            limits: Limits::default(),
            stdin: match &self.terminal {
                Some(terminal) => Stdin::Terminal(terminal.window()),
                None if self.stdin.is_empty() => Stdin::Null,
                None => Stdin::Bytes(self.stdin),
            },
        };
        if let RunTarget::Source(Language::Python, Source::Inside(_, text), _) = &request.what {
            figures::show(live.state_folder().path(), text, &mut request.settings);
        }
        let (current, asked_under) = (live.current().clone(), live.configuration());
        let configuration = live.configuration_of(caller);
        there(&configuration, request.settings.image.as_deref())?;
        let (limits, terminal) = (self.limits, self.terminal);
        // A terminal stays on this machine.
        let has_terminal = terminal.is_some();
        let elsewhere = live.sends() && !has_terminal;
        let image = request.settings.image.clone();
        let merged = joined(&request, &limits, &configuration)?;
        let (workspace, keep, patterns) = (self.workspace, self.keep, self.outputs);
        let leave = NetworkPermit::new(self.approved, current.clone());
        // Host folders may lie on a file system that does not respond.
        let quick = language.is_none()
            && workspace.is_none()
            && leave.is_none()
            && merged.policy.job.binds.is_empty()
            && request.settings.image.is_none()
            && merged.image.is_none()
            && request.is_plain(&merged);
        let commit = configuration.user.mcp.commit.clone();
        Ok(Box::new(move |desk| {
            Box::pin(async move {
                let around = surroundings(workspace.as_ref(), &commit);
                desk.digest_files(workspace.as_ref()).await;
                let now = current.get();
                let held = leave.clone();
                let is_same = Arc::ptr_eq(&now, &asked_under);
                let (screen, cwd) = (terminal.clone(), around.cwd.clone());
                let noted = desk.clone();
                let prepare = move || {
                    let refused = |why: String| Box::new(RunReport::without_a_run(Cause::Refused, why));
                    held.named().map_err(refused)?;
                    // The operator's configuration changed while the run waited: it starts under the new one.
                    let merged = if is_same {
                        merged
                    } else {
                        let asker = configuration.asker;
                        let now = Configuration { asker, ..Configuration::clone(&now) };
                        joined(&request, &limits, &now).map_err(|report| refused(report.to_string()))?
                    };
                    if let Some(terminal) = terminal {
                        let (gate, confinement) = (merged.gate.clone(), merged.policy.shape.confinement);
                        let lines = crate::terminals::kind::of(&request);
                        terminal.read_by(Reader { request: request.clone(), gate, confinement, cwd, lines });
                    }
                    noted.state_policy(&merged);
                    let prepared = match elsewhere {
                        true => request.prepare_elsewhere(merged, around, &[], Vec::new())?,
                        false => request.prepare(merged, around)?,
                    };
                    held.still().map_err(refused).map(|()| prepared)
                };
                // Finding a program on the host takes a few dozen microseconds, no more than a thread switch
                // and back.
                let prepared =
                    if quick && is_same { Ok(prepare()) } else { tokio::task::spawn_blocking(prepare).await };
                let mut outcome = match prepared {
                    Err(e) => {
                        RunReport::without_a_run(Cause::Internal, format!("the run was not prepared: {e}"))
                    }
                    Ok(Err(outcome)) => match language {
                        Some(language) => unable(*outcome, language),
                        None => without_host_paths(*outcome, &self.argv),
                    },
                    Ok(Ok(mut prepared)) => {
                        if prepared.reads_errors() {
                            prepared.policy.job.limits.capture = CAPTURE_SIZE;
                        }
                        // A source's files are gone with its folder, which its caller has to be told.
                        let is_scratch = language.is_some() && keep == ChangePolicy::default();
                        if keep == ChangePolicy::default() && !is_scratch && patterns.is_empty() {
                            prepared.before = None;
                        }
                        let outputs =
                            (is_scratch || !patterns.is_empty()).then(|| Returned::of(patterns, is_scratch));
                        if let Some(outputs) = &outputs {
                            prepared.copy_out(outputs.request.clone());
                        }
                        desk.state_in_receipt(|facts| {
                            facts.image = image;
                            facts.image_digest = prepared.image_digest();
                            facts.guard =
                                prepared.scan.as_ref().map(|read| read.report.verdict.name().to_owned());
                        });
                        let stop = stopped(&desk, &leave);
                        let spawn = if has_terminal { &desk.pool } else { desk.spawn() };
                        let executed = execute(spawn, &mut prepared, &mut Shown(&desk, screen), stop).await;
                        if let Some(error) = executed.changes_error {
                            tracing::info!(target: "hotcell_contents", "what a run changed cannot be told: {error}");
                        }
                        let mut outcome = executed.report;
                        if let Some(outputs) = outputs {
                            outputs.keep(&desk, &mut outcome);
                        }
                        if is_scratch && let Some(changes) = &mut outcome.changes {
                            changes.truncate(MAX_SCRATCH_ROWS);
                        }
                        // The registry has the output.
                        (outcome.stdout, outcome.stderr) = (Output::default(), Output::default());
                        outcome
                    }
                };
                hotcell_review::guard::for_a_model(&mut outcome);
                drop(workspace);
                Answer::Outcome(Box::new(outcome))
            })
        }))
    }
}

/// Surroundings for the lookup: the operator's programs, among which a caller only chooses, and the workspace
/// as the base of relative paths. No setting of the operator's may lead to a place where callers can put
/// files by a commit, below one of the folders `commit`.
pub fn surroundings(workspace: Option<&RunDir>, commit: &[PathBuf]) -> Surroundings {
    let cwd = workspace.map_or_else(|| PathBuf::from("/nonexistent"), RunDir::folder);
    let around = Surroundings { cwd, asks: Asks::Caller, ..Surroundings::of_this_process() };
    without_plantable(around, commit)
}

/// Merges a request, with the caller's limits tightening the operator's.
fn joined(
    request: &RunRequest,
    limits: &AskedLimits,
    configuration: &Configuration,
) -> Result<Merged, ErrorReport> {
    let mut merged = request.merge(configuration)?;
    if matches!(request.stdin, Stdin::Terminal(_)) {
        // Times of the configuration are those of a run that ends by itself.
        let own = &mut merged.policy.job.limits;
        (own.wall, own.cpu_time, own.output) = (terminal::LIFE, Some(terminal::LIFE), terminal::MAX_OUTPUT);
    }
    merged.policy.job.limits = limits.within(&merged.policy.job.limits)?;
    // The registry keeps the output, so the outcome needs no copy.
    merged.policy.job.limits.capture = Bytes(0);
    Ok(merged)
}

/// Shows a run to those who follow it.
struct Shown<'a>(&'a RunContext, Option<Arc<Terminal>>);

impl Observer for Shown<'_> {
    fn compiles(&mut self, compiler: &str) {
        self.prepares(&format!("{compiler} compiles"));
    }

    fn prepares(&mut self, what: &str) {
        self.0.progressed(Progress { message: what.to_owned(), ..Progress::default() });
    }

    fn compiler_printed(&mut self, printed: &str) {
        self.0.wrote(Stream::Stderr, printed.as_bytes());
    }

    fn follow<'a>(&'a mut self, running: &mut Running) -> BoxFuture<'a, ()> {
        let chunks = running.output();
        if let Some(terminal) = &self.1 {
            terminal.attach(running);
        }
        Box::pin(async move {
            let Some(mut chunks) = chunks else { return };
            while let Some(chunk) = chunks.recv().await {
                match chunk {
                    Chunk::Stdout(bytes) => {
                        self.0.wrote(Stream::Stdout, &bytes);
                        if let Some(terminal) = &self.1 {
                            terminal.printed(&bytes).await;
                        }
                    }
                    Chunk::Stderr(bytes) => self.0.wrote(Stream::Stderr, &bytes),
                }
            }
            if let Some(terminal) = &self.1 {
                terminal.detach();
            }
        })
    }
}

/// Resolves when the run is cancelled, or when the operator withdraws its network.
async fn stopped(desk: &RunContext, leave: &NetworkPermit) -> Option<&'static str> {
    tokio::select! {
        biased;
        () = desk.cancelled() => None,
        () = leave.withdrawn() => Some(WITHDRAWN),
    }
}

/// Outcome for a caller when a language cannot be run, without host paths.
fn unable(mut outcome: RunReport, language: Language) -> RunReport {
    // The guard's reader failed.
    if outcome.scan.is_some() {
        return outcome;
    }
    if let Some(reason) = &outcome.reason {
        tracing::info!(target: "hotcell_contents", "a source was not prepared: {reason}");
    }
    outcome.reason = Some(format!(
        "this host has nothing that can run {}; use another language, or ask its operator to install it",
        language.name()
    ));
    outcome
}

/// Outcome for a caller when a lookup failed: with the caller's own words, and without host paths.
pub fn without_host_paths(mut outcome: RunReport, argv: &[String]) -> RunReport {
    if outcome.scan.is_some() {
        return outcome;
    }
    if let Some(reason) = &outcome.reason {
        tracing::info!(target: "hotcell_contents", "a run was not prepared: {reason}");
    }
    let program = argv.first().map_or("", String::as_str);
    outcome.reason = Some(match outcome.cause {
        Cause::NotFound => {
            let advice = shell_advice(program)
                .unwrap_or("name one that is installed on this host, or a file of the workspace");
            format!("there is no program {program:?}; {advice}")
        }
        Cause::NotExecutable => {
            format!("{program:?} cannot be executed; start it with its interpreter, such as python3 or bash")
        }
        Cause::Refused => {
            // The answer does not tell if the path exists.
            format!(
                "{program:?} leads to parts of the host that its operator has not named; use a program that is installed there, by its \
                 name, or ask the operator to add the folder to `toolchains` in the configuration"
            )
        }
        _ => return outcome,
    });
    outcome
}

/// Checks that the operator has an image of this name.
pub fn there(configuration: &Configuration, image: Option<&str>) -> Result<(), ErrorReport> {
    let Some(name) = image else { return Ok(()) };
    let wanted =
        configuration.asker.as_ref().map(|(_, state)| Wanted { name: name.to_owned(), state: state.clone() });
    match wanted.map(|wanted| wanted.hold()) {
        Some(Ok(_)) => Ok(()),
        missing => {
            tracing::info!(target: "hotcell_contents", "an image was asked for: {missing:?}");
            Err(ErrorReport::new(Code::UnknownName, format!("there is no image {name:?}"))
                .field("image")
                .hint("leave it out, or ask the operator, who has hotcell image list, build and import"))
        }
    }
}

/// Checks arguments, of programs and sources alike; `field` is their name in the request.
fn check_arguments(field: &'static str, argv: &[String]) -> Result<(), ErrorReport> {
    let bad =
        |why: String, hint: &str| Err(ErrorReport::new(Code::InvalidValue, why).field(field).hint(hint));
    let bytes: usize = argv.iter().map(String::len).sum();
    if argv.len() > ARGUMENT_LIMITS.0 || bytes > ARGUMENT_LIMITS.1 {
        let (most, long) = ARGUMENT_LIMITS;
        return bad(
            format!(
                "{field} has {} texts of {bytes} bytes; allowed are at most {most} texts and {long} bytes",
                argv.len()
            ),
            "put what is long into a file or into stdin",
        );
    }
    if argv.iter().any(|a| a.contains('\0')) {
        return bad(format!("{field} contains a zero byte"), "leave it out");
    }
    Ok(())
}

fn check_argv(argv: &[String], has_workspace: bool) -> Result<(), ErrorReport> {
    let bad =
        |why: String, hint: &str| Err(ErrorReport::new(Code::InvalidValue, why).field("argv").hint(hint));
    let Some(program) = argv.first().filter(|p| !p.is_empty()) else {
        return bad("argv names no program".to_owned(), "give at least one text that is not empty");
    };
    check_arguments("argv", argv)?;
    if program.contains('/') {
        let path = Path::new(program);
        let inside =
            path.is_relative() || SYSTEM.iter().chain(&[PROJECT]).any(|folder| path.starts_with(folder));
        let problem = match path.components().any(|c| c == Component::ParentDir) {
            true => Some(upward::problem(program)),
            false => (!inside).then(|| "is not a path inside the sandbox".to_owned()),
        };
        if let Some(problem) = problem {
            return bad(
                format!("the program {program:?} {problem}"),
                "name a program without a folder, such as python3, or a file of the workspace, such as ./run.sh",
            );
        }
        let of_workspace = path.is_relative() || path.starts_with(PROJECT);
        if of_workspace && !has_workspace {
            return bad(
                format!("argv names the file {program:?} of a workspace, and none is given"),
                "give its workspace_id, or name a program without a folder, such as python3",
            );
        }
    }
    Ok(())
}

fn check_env(env: &[(String, String)]) -> Result<(), ErrorReport> {
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(ErrorReport::new(
                Code::InvalidValue,
                format!("env has a name or value that cannot be: {name:?}"),
            )
            .field("env")
            .hint("names are not empty and have no '='; nothing has a zero byte"));
        }
    }
    let bytes: usize = env.iter().map(|(n, v)| n.len() + v.len()).sum();
    if env.len() > ARGUMENT_LIMITS.0 || bytes > ARGUMENT_LIMITS.1 {
        return Err(ErrorReport::new(
            Code::InvalidValue,
            format!("env has {} variables of {bytes} bytes", env.len()),
        )
        .field("env")
        .hint(format!("at most {} of {} bytes", ARGUMENT_LIMITS.0, ARGUMENT_LIMITS.1)));
    }
    Ok(())
}

fn check_stdin(stdin: &[u8]) -> Result<(), ErrorReport> {
    if stdin.len() <= MAX_STDIN_BYTES {
        return Ok(());
    }
    let why = format!("stdin has {} bytes; allowed is at most {MAX_STDIN_BYTES}", stdin.len());
    Err(ErrorReport::new(Code::InvalidValue, why).field("stdin").hint("put what is long into a file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_inside_only() {
        let check =
            |argv: &[&str]| check_argv(&argv.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>(), true);
        for good in ["python3", "./run.sh", "bin/x", "/usr/bin/env", "/bin/true", "/home/sandbox/project/x"] {
            assert!(check(&[good]).is_ok(), "{good}");
            let is_file = good.contains('/') && !good.starts_with("/usr") && !good.starts_with("/bin");
            let alone = check_argv(&[good.to_owned()], false).map_err(|report| report.to_string());
            assert_eq!(alone.is_err_and(|why| why.contains("workspace_id")), is_file, "{good}");
        }
        for bad in [
            "",
            "/root/x",
            "/opt/x/bin/y",
            "/tmp/x",
            "/home/sandbox/x",
            "../x",
            "a/../../x",
            "/usr/../root/x",
            "/usrx/y",
        ] {
            let report = check(&[bad]).unwrap_err();
            assert_eq!(report.field.as_deref(), Some("argv"), "{bad}");
        }
        assert!(check(&[]).is_err());
        assert!(check(&["x", "a\0b"]).is_err());
        assert!(check(&vec!["x"; ARGUMENT_LIMITS.0 + 1]).is_err());
        for arguments in [vec!["\0".to_owned()], vec!["x".to_owned(); ARGUMENT_LIMITS.0 + 1]] {
            let report = check_arguments("args", &arguments).unwrap_err();
            assert_eq!(report.field.as_deref(), Some("args"));
            assert!(report.to_string().contains("args "), "{report}");
        }
    }
}
