//! Compiles a source in a sandbox of its own, with the limits of compile steps. The result is the program's
//! data: copied out and bound, read-only, into the sandbox that runs it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hotcell_report::{Compile, RunReport, Severity};
use hotcell_sandbox::home::Home;
use hotcell_sandbox::outcome::{Cause, Outcome, Output};
use hotcell_sandbox::policy::{Bind, Policy};
use hotcell_sandbox::{Bytes, Finished, Spawn, temporary};
use hotcell_state::state::StateChoice;
use tempfile::TempDir;

use crate::builds;
use crate::language::{self, COMPILED, Compiler};

/// Maximum number of files in a compiler's output, and their maximum depth.
const OUTPUT_LIMITS: (usize, usize) = (10_000, 32);

/// A compile step before a run.
#[derive(Debug)]
pub struct Build {
    policy: Policy,
    compiler: Compiler,
    /// True when the compiler's output is a folder.
    folder: bool,
    /// Host folder that holds the output until the run has ended.
    kept: TempDir,
    /// State folder for the data that compilers need again.
    state: Option<StateChoice>,
}

/// Result of a compile step.
#[derive(Debug)]
pub enum Built {
    /// The program was built: the compiler's output, and the part for the outcome.
    Ready(String, Compile),
    /// No program was built: the outcome of the whole run.
    Failed(Box<RunReport>),
}

impl Build {
    pub(crate) fn new(
        policy: Policy,
        step: &language::Compile,
        state: Option<StateChoice>,
    ) -> io::Result<Self> {
        let kept = temporary::folder()?;
        // The mount needs an existing target; the output is written before it is mounted.
        if step.folder {
            fs::create_dir(kept.path().join(COMPILED))?;
        }
        Ok(Self { policy, compiler: step.compiler, folder: step.folder, kept, state })
    }

    /// Bind of the compiled program for the sandbox that runs it.
    pub fn bind(&self, home: &Path) -> Bind {
        Bind {
            host: self.host(),
            inside: home.join(COMPILED),
            writable: false,
            copy_on_write: false,
            identity: None,
        }
    }

    fn host(&self) -> PathBuf {
        self.kept.path().join(COMPILED)
    }

    /// The compiler's name, for a person who waits.
    #[must_use]
    pub fn compiler(&self) -> String {
        let program = self.policy.job.argv.first().map(PathBuf::from).unwrap_or_default();
        program.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Compiles; `stop` cancels. `say` is called before slow preparations that happen only once.
    pub async fn run(
        &self,
        engine: &dyn Spawn,
        stop: impl Future<Output = ()>,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Built {
        let Finished { mut outcome, home, .. } = self.compile(engine, stop, say).await;
        let printed: String = [&outcome.stdout, &outcome.stderr]
            .map(|stream| String::from_utf8_lossy(&stream.to_bytes()).into_owned())
            .concat();
        let said = language::read_diagnostics(self.compiler, &printed);
        let command = &self.policy.job.argv;
        let mut compile = Compile {
            command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            done: false,
            wall_us: outcome.usage.wall_us,
            diagnostics: said.diagnostics,
        };
        let accepted = outcome.success() || self.is_good_enough(&outcome, &compile);
        let collected = match (&home, accepted) {
            (Some(home), true) => self.collect(home),
            _ => Err(String::new()),
        };
        match collected {
            Ok(()) => {
                compile.done = true;
                Built::Ready(said.text, compile)
            }
            Err(why) => {
                let bytes = said.text.len() as u64;
                let truncated = outcome.stdout.truncated || outcome.stderr.truncated;
                outcome.stdout = Output::new(Vec::new(), 0);
                outcome.stderr = Output { truncated, ..Output::new(said.text.into_bytes(), bytes) };
                if outcome.usage.wall_us.is_some() {
                    let name = self.compiler();
                    outcome.reason = Some(match (outcome.reason.take(), why.as_str()) {
                        (Some(reason), _) => format!("{name}, before the program: {reason}"),
                        (None, "") => format!("{name} made no program: {}", counted(&compile)),
                        (None, why) => format!("what {name} made cannot be used: {why}"),
                    });
                }
                // A compiler that succeeds and leaves no program has failed.
                if outcome.success() {
                    (outcome.cause, outcome.exit_code) = (Cause::Refused, None);
                }
                let mut report = RunReport::from(outcome);
                report.compile = Some(compile);
                Built::Failed(Box::new(report))
            }
        }
    }

    /// `tsc` builds a program despite type errors; errors about node's types are not the program's.
    fn is_good_enough(&self, outcome: &Outcome, compile: &Compile) -> bool {
        self.compiler == Compiler::Tsc
            && outcome.cause == Cause::Exited
            && outcome.exit_code.is_some_and(|code| code <= 2)
            && !compile.diagnostics.is_empty()
            && compile.diagnostics.iter().all(|d| d.severity != Severity::Error)
    }

    async fn compile(
        &self,
        engine: &dyn Spawn,
        stop: impl Future<Output = ()>,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Finished {
        let nothing = |outcome| Finished { outcome, home: None, changed: None };
        let mut stop = std::pin::pin!(stop);
        let mut policy = self.policy.clone();
        let mut _in_use = None;
        let start = async {
            _in_use = builds::standard_library(engine, self.state.as_ref(), &mut policy, say).await;
            engine.spawn(&policy).await
        };
        let started = tokio::select! {
            biased;
            () = &mut stop => {
                return nothing(Outcome::without_a_run(Cause::Cancelled, "stopped: cancelled before it began"));
            }
            started = start => started,
        };
        match started {
            Ok(running) => {
                let canceller = running.canceller();
                let mut ending = running.finish();
                tokio::select! {
                    finished = &mut ending => finished,
                    () = stop => {
                        canceller.cancel();
                        ending.await
                    }
                }
            }
            Err(refusal) => nothing(refusal.into()),
        }
    }

    /// Copies the compiler's output. It is untrusted: only regular files, and no more bytes than the program
    /// may write.
    fn collect(&self, home: &Home) -> Result<(), String> {
        let most = self.policy.job.limits.disk;
        if !self.folder {
            return copy(home, Path::new(COMPILED), &self.host(), 0o755, most).map(drop);
        }
        let (files, deep) = OUTPUT_LIMITS;
        let mut room = most.0;
        for (path, _) in home.tree(Path::new(COMPILED), files, deep).map_err(|e| e.to_string())? {
            let to = self.kept.path().join(&path);
            to.parent().map_or(Ok(()), fs::create_dir_all).map_err(|e| e.to_string())?;
            room -= copy(home, &path, &to, 0o644, Bytes(room))?;
        }
        // The sandbox may run as another user of the host.
        open_folders(&self.host()).map_err(|e| e.to_string())
    }
}

fn counted(compile: &Compile) -> String {
    match compile.diagnostics.iter().filter(|d| d.severity == Severity::Error).count() {
        0 => "it says why above".to_owned(),
        1 => "1 error".to_owned(),
        n => format!("{n} errors"),
    }
}

/// Copies one file to a new one and returns its size.
fn copy(home: &Home, from: &Path, to: &Path, mode: u32, most: Bytes) -> Result<u64, String> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(to).map_err(|e| e.to_string())?;
    let bytes = home.copy(from, most, &mut file).map_err(|e| e.to_string())?;
    file.set_permissions(fs::Permissions::from_mode(mode)).map_err(|e| e.to_string())?;
    Ok(bytes)
}

fn open_folders(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    Ok(())
}
