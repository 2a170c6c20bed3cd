//! `hotcell worker-entry`: one action of NativeLink's worker in a sandbox. The environment of this process is a client's,
//! so it starts itself again with the operator's before it reads any of it.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use hotcell_fleet::FleetError;
use hotcell_fleet::action::{arguments, environment};
use hotcell_fleet::entry::{self, End, SIDE_CHANNEL, TIMEOUT};
use hotcell_fleet::executor::{Ended, Program};
use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::{BoxFuture, Running};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::execute::Observer;
use tokio_util::sync::CancellationToken;

use crate::args::{Common, WorkerEntryArgs};
use crate::context::{configuration, current_folder, runtime};
use crate::entry_link::{COMMAND, words};
use crate::signals::interrupted;
use crate::worker::executor;
use crate::{streams, usage, worker};

/// Search path of the operator's programs.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Folder of an action's input, in the folder that NativeLink makes for it.
const WORK: &str = "work";

/// Runs the command; returns its exit status.
pub fn entry(common: &Common, args: &WorkerEntryArgs) -> anyhow::Result<u8> {
    if !args.cleared {
        return Ok(usage::fail(&again(args), common.json));
    }
    let runtime = runtime()?;
    let cwd = current_folder();
    let env: Vec<(OsString, OsString)> = args.action_env.iter().map(|pair| split(pair)).collect();
    let of = |name: &str| env.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let side_channel = of(SIDE_CHANNEL).map(|path| entry::side_channel(Path::new(&path), &cwd)).transpose();
    let side_channel = match side_channel {
        Ok(path) => path,
        Err(error) => return Ok(usage::fail(&wrong(error), common.json)),
    };
    let done = runtime.block_on(run(common, args, (&cwd, side_channel.as_deref()), &env));
    runtime.shutdown_background();
    let report = match done {
        Ok(report) => report,
        // A failure that the operator has to mend is told apart from the action's end, too.
        Err(report) => {
            let failed = RunReport::without_a_run(Cause::Internal, report.to_string());
            let code = usage::fail(&report, common.json);
            tell(side_channel.as_deref(), &entry::end(&failed));
            return Ok(code);
        }
    };
    let end = entry::end(&report);
    if !end.message.is_empty() {
        let _ = writeln!(std::io::stderr(), "hotcell: {}", end.message);
    }
    Ok(if tell(side_channel.as_deref(), &end) { end.exit_code } else { 125 })
}

/// Writes the side-channel file; false when it cannot be written.
fn tell(path: Option<&Path>, end: &End) -> bool {
    let (Some(path), Some(text)) = (path, &end.side_channel) else { return true };
    // A new file only: the name is a client's.
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = made.and_then(|mut file| file.write_all(text.as_bytes()));
    if let Err(error) = &written {
        let _ = writeln!(std::io::stderr(), "hotcell: error: {}: {error}", path.display());
    }
    written.is_ok()
}

fn wrong(error: FleetError) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, error.message)
}

fn split(pair: &OsStr) -> (OsString, OsString) {
    let bytes = pair.as_bytes();
    let at = bytes.iter().position(|b| *b == b'=').unwrap_or(bytes.len());
    let value = bytes.get(at + 1..).unwrap_or_default();
    (OsStr::from_bytes(&bytes[..at]).to_owned(), OsString::from_vec(value.to_vec()))
}

/// Starts this program again with the operator's environment; returns only if that fails.
fn again(args: &WorkerEntryArgs) -> ErrorReport {
    let refused = |why: String| ErrorReport::new(Code::Usage, why);
    let auxv = std::fs::read("/proc/self/auxv").unwrap_or_default();
    if !args.trust_environment && (auxv.is_empty() || entry::is_dynamic(&auxv)) {
        return refused(
            "this hotcell is linked dynamically: LD_PRELOAD of an action's variables would run outside of the sandbox"
                .to_owned(),
        )
        .hint("take the statically linked one of the packages, or --trust-environment where all clients are trusted");
    }
    let Ok(program) = std::env::current_exe() else {
        return refused("/proc/self/exe cannot be read".to_owned());
    };
    let words = words(std::env::args_os().collect());
    let Some(at) = words.iter().skip(1).position(|word| word == COMMAND) else {
        return refused(format!("{COMMAND} is not in the command line"));
    };
    let (before, after) = words.split_at(at + 2);
    let mut command = std::process::Command::new(program);
    // Not under the link's name, by which all words would be the action's.
    command.arg0("hotcell").args(&before[1..]).arg("--cleared");
    for (name, value) in std::env::vars_os() {
        // One word: a name may begin with a hyphen.
        let mut word = OsString::from("--action-env=");
        word.push(name);
        word.push("=");
        word.push(value);
        command.arg(word);
    }
    let home = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().map(|user| user.dir);
    command.args(after).env_clear().env("PATH", SEARCH_PATH).env("HOME", home.unwrap_or_else(|| "/".into()));
    refused(format!("hotcell cannot start itself again: {}", command.exec()))
}

async fn run(
    common: &Common,
    args: &WorkerEntryArgs,
    (cwd, side_channel): (&Path, Option<&Path>),
    env: &[(OsString, OsString)],
) -> Result<RunReport, ErrorReport> {
    let stopped = interrupted();
    let configuration = configuration(common, None)?;
    let receipts = worker::receipts(&args.actions, &configuration)?;
    if receipts.is_some() {
        let why = "NativeLink has no place for a receipt";
        return Err(ErrorReport::new(Code::Usage, why).field("--receipts"));
    }
    let executor = executor(&args.actions, Some(hotcell_sandbox::Bytes(u64::MAX >> 1)), configuration)?;
    let text = |word: &OsStr, what: &str| {
        word.to_str()
            .map(str::to_owned)
            .ok_or_else(|| wrong(FleetError::request(format!("{what} is not UTF-8"))))
    };
    let (root, folder) = root(cwd, side_channel);
    let command = args.command.iter().map(|word| text(word, "the command")).collect::<Result<Vec<_>, _>>()?;
    let argv = arguments(&command, &folder).map_err(wrong)?;
    let mut limits = executor.limits().clone();
    let mut variables = Vec::new();
    for (name, value) in env {
        let (name, value) = (text(name, "a variable")?, text(value, "a variable")?);
        match name.as_str() {
            SIDE_CHANNEL => {}
            TIMEOUT => limits.wall = entry::timeout(&value, limits.wall).map_err(wrong)?,
            _ => variables.push((name, value)),
        }
    }
    let env = environment(variables.into_iter()).map_err(wrong)?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        stopped.await;
        token.cancel();
    });
    let program = Program { argv: &argv, env: &env, folder: &folder, root: &root, limits };
    let keep = ChangePolicy {
        commit: true,
        after_failure: true,
        // The folder is the action's own, and no user's project.
        allow_protected: true,
        ..ChangePolicy::default()
    };
    let Ended { report, unkept, .. } =
        executor.run(program, keep, None, &mut Passed, &stop).await.map_err(wrong)?;
    match unkept {
        Some(why) => Ok(RunReport::without_a_run(
            Cause::Internal,
            format!("the outputs of the action cannot be taken over: {why}"),
        )),
        None => Ok(report),
    }
}

/// The input root, and the start folder below it: the root is known where the side channel tells the action's folder.
fn root(cwd: &Path, side_channel: Option<&Path>) -> (PathBuf, PathBuf) {
    let root = side_channel.and_then(Path::parent).map(|folder| folder.join(WORK));
    match root.as_deref().and_then(|root| cwd.strip_prefix(root).ok().map(|below| (root, below))) {
        Some((root, below)) => (root.to_owned(), below.to_owned()),
        None => (cwd.to_owned(), PathBuf::new()),
    }
}

/// Passes output on, byte for byte: NativeLink reads it.
struct Passed;

impl Observer for Passed {
    fn compiles(&mut self, _compiler: &str) {}

    fn prepares(&mut self, _what: &str) {}

    fn compiler_printed(&mut self, _printed: &str) {}

    fn follow<'a>(&'a mut self, running: &mut Running) -> BoxFuture<'a, ()> {
        let (chunks, canceller) = (running.output(), running.canceller());
        Box::pin(async move {
            let Some(chunks) = chunks else { return };
            if let Err(error) = streams::print(chunks, canceller, true).await {
                tracing::warn!("the output of the action cannot be passed on: {error}");
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_roots_are_above_working_folders() {
        let side = Path::new("/w/a1/0123");
        for (cwd, side, root_is, below) in [
            ("/w/a1/work", Some(side), "/w/a1/work", ""),
            ("/w/a1/work/x/y", Some(side), "/w/a1/work", "x/y"),
            ("/w/a1/other", Some(side), "/w/a1/other", ""),
            ("/w/a1/work/x", None, "/w/a1/work/x", ""),
        ] {
            assert_eq!(root(Path::new(cwd), side), (root_is.into(), below.into()), "{cwd}");
        }
        assert_eq!(split(OsStr::new("A=b=c")), ("A".into(), "b=c".into()));
    }
}
