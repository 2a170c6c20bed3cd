//! A program or a source as work for the registry. Who asks is not trusted: it names programs, never files of the host.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use hotcell_egress::AllowList;
use hotcell_sandbox::outcome::{Cause, Outcome, Output};
use hotcell_sandbox::policy::{PROJECT, Stdin};
use hotcell_sandbox::toolchain::Surroundings;
use hotcell_sandbox::{Bytes, Changed, Chunk, Finished, Limits, Running};

use super::asked::AskedLimits;
use super::caller::Caller;
use super::leave::{Leave, WITHDRAWN};
use super::registry::{Live, Work};
use super::run::{Answer, Desk, Progress, Stream};
use super::workspaces::Place;
use crate::changes::Keep;
use crate::compile::Built;
use crate::config::{Configuration, EnvSetting, Merged, Settings};
use crate::images::Wanted;
use crate::network::NetworkSetting;
use crate::report::{Code, ErrorReport};
use crate::request::{Language, Prepared, RunRequest, Source, What};

/// The folders of the system, from which a program may be named by its path.
const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/alternatives"];
/// The longest standard input, in bytes: it is held in memory while the run waits.
const LONGEST_STDIN: usize = 1 << 20;
/// What is read of the errors of a program that reports them as text.
const READ: Bytes = Bytes(64 << 10);
/// The most arguments, and bytes of them.
const ARGUMENTS: (usize, usize) = (4096, 1 << 20);

/// A program or a source to run.
#[derive(Debug)]
pub struct CommandRequest {
    /// A source to run, by its path in the workspace, and its text.
    pub source: Option<(Language, String, Vec<u8>)>,
    /// An image of the operator's.
    pub image: Option<String>,
    /// The program and its arguments; only arguments where there is a source.
    pub argv: Vec<String>,
    /// The folder that it starts in.
    pub workspace: Option<Place>,
    /// What becomes of the changes there; else they are gone when it ends.
    pub keep: Keep,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// Standard input; empty for none.
    pub stdin: Vec<u8>,
    /// Limits.
    pub limits: AskedLimits,
    /// Hosts that it may reach; only what a person approved for this run.
    pub network: Option<AllowList>,
    /// What a person approved of it, where it needs that.
    pub approved: Option<std::sync::Arc<super::asking::Approved>>,
}

impl CommandRequest {
    /// A source in a workspace, by its path there.
    #[must_use]
    pub fn of_source(
        language: Language,
        (path, text): (String, Vec<u8>),
        args: Vec<String>,
        workspace: Place,
    ) -> Self {
        Self {
            source: Some((language, path, text)),
            image: None,
            argv: args,
            workspace: Some(workspace),
            keep: Keep::default(),
            env: Vec::new(),
            stdin: Vec::new(),
            limits: AskedLimits::default(),
            network: None,
            approved: None,
        }
    }

    /// The command as the command line would have it, for the history.
    #[must_use]
    pub fn typed(&self) -> Vec<String> {
        let source = self
            .source
            .as_ref()
            .map(|(language, path, _)| ["--lang".to_owned(), language.name().to_owned(), path.clone()]);
        source.into_iter().flatten().chain(self.argv.iter().cloned()).collect()
    }

    /// Checks what can be checked before it runs.
    ///
    /// # Errors
    /// A report that names the field.
    pub fn into_work(mut self, live: &Live, caller: &Caller) -> Result<Work, ErrorReport> {
        let language = self.source.as_ref().map(|(language, ..)| *language);
        let what = match self.source {
            Some((language, path, text)) => {
                check_arguments(&self.argv)?;
                let arguments = self.argv.iter().map(OsString::from).collect();
                What::Source(language, Source::Inside(path.into(), text), arguments)
            }
            None => {
                check_argv(&self.argv)?;
                // By its place in the workspace: the host may have a folder of the same name.
                if let Ok(own) = Path::new(&self.argv[0]).strip_prefix(PROJECT) {
                    self.argv[0] = format!("./{}", own.display());
                }
                What::Program(self.argv.iter().map(OsString::from).collect())
            }
        };
        check_env(&self.env)?;
        check_stdin(&self.stdin)?;
        let request = RunRequest {
            kept: self.workspace.as_ref().and_then(Place::kept).cloned(),
            keep: self.keep,
            what,
            workspace: self.workspace.as_ref().map(Place::folder),
            settings: Settings {
                env: self.env.into_iter().map(|(n, v)| EnvSetting::Set(n.into(), v.into())).collect(),
                // Nobody who is not at the keyboard reaches a host, but for what somebody there approved.
                network: Some(self.network.map_or(NetworkSetting::None, NetworkSetting::Hosts)),
                image: self.image,
                ..Settings::default()
            },
            limits: Limits::default(),
            stdin: if self.stdin.is_empty() { Stdin::Null } else { Stdin::Bytes(self.stdin) },
        };
        let (current, asked_under) = (live.current().clone(), live.configuration());
        let configuration = live.configuration_of(caller);
        there(&configuration, request.settings.image.as_deref())?;
        let limits = self.limits;
        let merged = joined(&request, &limits, &configuration)?;
        let (workspace, keep) = (self.workspace, self.keep);
        let leave = Leave::new(self.approved, current.clone());
        // Folders of the host may lie in a file system that does not answer.
        let quick = language.is_none()
            && workspace.is_none()
            && leave.is_none()
            && merged.policy.job.binds.is_empty()
            && request.settings.image.is_none()
            && merged.image.is_none();
        Ok(Box::new(move |desk| {
            Box::pin(async move {
                let around = surroundings(workspace.as_ref());
                let now = current.get();
                let held = leave.clone();
                let is_same = Arc::ptr_eq(&now, &asked_under);
                let prepare = move || {
                    let refused = |why: String| Box::new(Outcome::without_a_run(Cause::Refused, why));
                    held.named().map_err(refused)?;
                    // It waited, and the operator's configuration became another: it begins under that.
                    let merged = if is_same {
                        merged
                    } else {
                        let asker = configuration.asker;
                        let now = Configuration { asker, ..Configuration::clone(&now) };
                        joined(&request, &limits, &now).map_err(|report| refused(report.to_string()))?
                    };
                    let prepared = request.prepare(merged, around)?;
                    held.still().map_err(refused).map(|()| prepared)
                };
                // A program of the host is found in a few dozen microseconds, which another thread and back takes too.
                let prepared =
                    if quick && is_same { Ok(prepare()) } else { tokio::task::spawn_blocking(prepare).await };
                let mut outcome = match prepared {
                    Err(e) => {
                        Outcome::without_a_run(Cause::Internal, format!("the run was not prepared: {e}"))
                    }
                    Ok(Err(outcome)) => match language {
                        Some(language) => unable(*outcome, language),
                        None => without_host_paths(*outcome, &self.argv),
                    },
                    Ok(Ok(mut prepared)) => {
                        if prepared.reads_errors() {
                            prepared.policy.job.limits.capture = READ;
                        }
                        let (mut outcome, changed) = perform(&desk, &prepared, &leave).await;
                        prepared.sign(&mut outcome);
                        // The registry has them.
                        (outcome.stdout, outcome.stderr) = (Output::default(), Output::default());
                        if let Some(before) = prepared.before.take().filter(|_| keep != Keep::default()) {
                            let success = outcome.success();
                            if let Err(error) = before.collect(changed, &mut outcome, success).await {
                                tracing::info!(target: "hotcell_contents", "what a run changed cannot be told: {error}");
                            }
                        }
                        outcome
                    }
                };
                crate::guard::for_a_model(&mut outcome);
                drop(workspace);
                Answer::Outcome(Box::new(outcome))
            })
        }))
    }
}

/// The lookup's side: the operator's programs, and the workspace as the folder that paths count from.
pub(super) fn surroundings(workspace: Option<&Place>) -> Surroundings {
    let cwd = workspace.map_or_else(|| PathBuf::from("/nonexistent"), Place::folder);
    Surroundings { cwd, ..Surroundings::of_this_process() }
}

/// The policy of a request, where none of the caller's limits is wider than the operator's.
fn joined(
    request: &RunRequest,
    limits: &AskedLimits,
    configuration: &Configuration,
) -> Result<Merged, ErrorReport> {
    let mut merged = request.merge(configuration)?;
    merged.policy.job.limits = limits.within(&merged.policy.job.limits)?;
    // The registry keeps the output; nobody needs the outcome's own copy.
    merged.policy.job.limits.capture = Bytes(0);
    Ok(merged)
}

async fn perform(desk: &Desk, prepared: &Prepared, leave: &Leave) -> (Outcome, Option<Changed>) {
    let mut compiled = None;
    if let Some(build) = &prepared.build {
        desk.progressed(Progress {
            message: format!("{} compiles", build.compiler()),
            ..Progress::default()
        });
        let mut say = |what: &str| {
            desk.progressed(Progress { message: what.to_owned(), ..Progress::default() });
        };
        match build.run(desk.pool.engine(), desk.cancelled(), &mut say).await {
            Built::Ready(printed, compile) => {
                desk.wrote(Stream::Stderr, printed.as_bytes());
                compiled = Some(compile);
            }
            Built::Failed(outcome) => {
                desk.wrote(Stream::Stderr, &outcome.stderr.to_bytes());
                return (*outcome, None);
            }
        }
    }
    let started = tokio::select! {
        biased;
        () = desk.cancelled() => return (super::run::never_ran(), None),
        started = desk.pool.spawn(&prepared.policy) => started,
    };
    let (mut outcome, changed): (Outcome, _) = match started {
        Ok(running) => follow(desk, running, leave.withdrawn()).await,
        Err(refusal) => (refusal.into(), None),
    };
    outcome.compile = compiled;
    (outcome, changed)
}

/// Follows a run to its end, or until what it was given is `withdrawn`.
async fn follow(
    desk: &Desk,
    mut running: Running,
    withdrawn: impl Future<Output = ()>,
) -> (Outcome, Option<Changed>) {
    let canceller = running.canceller();
    let chunks = running.output();
    let reading = async {
        let Some(mut chunks) = chunks else { return };
        while let Some(chunk) = chunks.recv().await {
            match chunk {
                Chunk::Stdout(bytes) => desk.wrote(Stream::Stdout, &bytes),
                Chunk::Stderr(bytes) => desk.wrote(Stream::Stderr, &bytes),
            }
        }
    };
    let ending = async {
        let mut ending = running.finish();
        tokio::select! {
            finished = &mut ending => finished,
            () = desk.cancelled() => {
                canceller.cancel();
                ending.await
            }
            () = withdrawn => {
                canceller.cancel();
                let mut finished = ending.await;
                if finished.outcome.cause == Cause::Cancelled {
                    finished.outcome.reason = Some(WITHDRAWN.to_owned());
                }
                finished
            }
        }
    };
    let ((), Finished { outcome, changed, .. }) = tokio::join!(reading, ending);
    (outcome, changed)
}

/// What the caller is told where a language cannot be run, without a folder of the host.
fn unable(mut outcome: Outcome, language: Language) -> Outcome {
    // It was the guard's reader that could not work.
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

/// What the caller is told where a lookup failed: its own words, and no folder of the host.
pub(super) fn without_host_paths(mut outcome: Outcome, argv: &[String]) -> Outcome {
    if outcome.scan.is_some() {
        return outcome;
    }
    if let Some(reason) = &outcome.reason {
        tracing::info!(target: "hotcell_contents", "a run was not prepared: {reason}");
    }
    let program = argv.first().map_or("", String::as_str);
    outcome.reason = Some(match outcome.cause {
        Cause::NotFound => format!(
            "there is no program {program:?}; name one that is installed on this host, or a file of the workspace"
        ),
        Cause::NotExecutable => {
            format!("{program:?} cannot be executed; start it with its interpreter, such as python3 or bash")
        }
        Cause::Refused => {
            format!("{program:?} needs parts of the host that a sandbox must not see; use another program")
        }
        _ => return outcome,
    });
    outcome
}

/// Whether the operator has an image of this name.
pub(super) fn there(configuration: &Configuration, image: Option<&str>) -> Result<(), ErrorReport> {
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

/// What may be wrong with arguments, whoever gets them.
fn check_arguments(argv: &[String]) -> Result<(), ErrorReport> {
    let bad =
        |why: String, hint: &str| Err(ErrorReport::new(Code::InvalidValue, why).field("argv").hint(hint));
    let bytes: usize = argv.iter().map(String::len).sum();
    if argv.len() > ARGUMENTS.0 || bytes > ARGUMENTS.1 {
        let (most, long) = ARGUMENTS;
        return bad(
            format!(
                "argv has {} texts of {bytes} bytes; allowed is 1 to {most} texts of at most {long} bytes",
                argv.len()
            ),
            "put what is long into a file or into stdin",
        );
    }
    if argv.iter().any(|a| a.contains('\0')) {
        return bad("argv contains a zero byte".to_owned(), "leave it out");
    }
    Ok(())
}

fn check_argv(argv: &[String]) -> Result<(), ErrorReport> {
    let bad =
        |why: String, hint: &str| Err(ErrorReport::new(Code::InvalidValue, why).field("argv").hint(hint));
    let Some(program) = argv.first().filter(|p| !p.is_empty()) else {
        return bad("argv names no program".to_owned(), "give at least one text that is not empty");
    };
    check_arguments(argv)?;
    if program.contains('/') {
        let path = Path::new(program);
        let inside =
            path.is_relative() || SYSTEM.iter().chain(&[PROJECT]).any(|folder| path.starts_with(folder));
        if !inside || path.components().any(|c| c == Component::ParentDir) {
            return bad(
                format!("the program {program:?} is not a path inside the sandbox"),
                "name a program without a folder, such as python3, or a file of the workspace, such as ./run.sh",
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
    if env.len() > ARGUMENTS.0 || bytes > ARGUMENTS.1 {
        return Err(ErrorReport::new(
            Code::InvalidValue,
            format!("env has {} variables of {bytes} bytes", env.len()),
        )
        .field("env")
        .hint(format!("at most {} of {} bytes", ARGUMENTS.0, ARGUMENTS.1)));
    }
    Ok(())
}

fn check_stdin(stdin: &[u8]) -> Result<(), ErrorReport> {
    if stdin.len() <= LONGEST_STDIN {
        return Ok(());
    }
    let why = format!("stdin has {} bytes; allowed is at most {LONGEST_STDIN}", stdin.len());
    Err(ErrorReport::new(Code::InvalidValue, why).field("stdin").hint("put what is long into a file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_inside_only() {
        let check = |argv: &[&str]| check_argv(&argv.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>());
        for good in ["python3", "./run.sh", "bin/x", "/usr/bin/env", "/bin/true", "/home/sandbox/project/x"] {
            assert!(check(&[good]).is_ok(), "{good}");
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
        assert!(check(&vec!["x"; ARGUMENTS.0 + 1]).is_err());
    }
}
