//! `hotcell run --remote`: a run on a farm. The guard, and what may be sent at all, are decided here.

use std::ffi::OsStr;
use std::io::{IsTerminal, Seek};
use std::path::{Path, PathBuf};

use hotcell_config::EnvSetting;
use hotcell_fleet::client::{self, Progress, Ran, RemoteRun};
use hotcell_fleet::{Address, FleetError, Kind, action};
use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::policy::{Limits, Network, Stdin};
use hotcell_sandbox::profile::{LimitSettings, Span};
use hotcell_state::history::Stored;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::outputs::OutputRequest;
use hotcell_verbs::request::{Merged, RunRequest, RunTarget};
use hotcell_verbs::workspaces;

use crate::args::{Common, RunArgs};
use crate::context::{configuration, current_folder, runtime, state};
use crate::run::{answer, own_workspace, refused, typed, warn_unset, what};
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::{exit, options, outputs, streams, usage};

/// Runs the command on a farm; returns its exit status.
pub fn run(common: &Common, args: &RunArgs, farm: &str) -> anyhow::Result<u8> {
    let cwd = current_folder();
    let (address, request, merged, run, choice) = match begin(common, args, farm, &cwd) {
        Ok(begun) => begun,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let trees: Vec<_> = run.folder.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
    let outputs = match outputs::request(&args.output_files, &cwd, &trees) {
        Ok(outputs) => outputs,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let stored = (!args.sandbox.no_history).then(|| Stored::begin(typed(args)));
    let roots = request.workspace.iter().map(PathBuf::as_path).chain([Path::new("")]).collect::<Vec<_>>();
    let answer = |outcome: RunReport, code| {
        answer(common, &choice, stored.as_ref(), (&options::of_run(outcome), code), &roots)
    };
    let scan = match request.scan(merged, &cwd) {
        Ok(scan) => scan,
        Err(outcome) => return Ok(answer(*outcome, None)),
    };
    notes::guard(scan.as_ref(), common);
    let mut run = run;
    match starts(outputs.as_ref()) {
        Ok(starts) => run.outputs = starts,
        Err(why) => return Ok(answer(*refused(why), None)),
    }
    let runtime = runtime()?;
    let shows = !common.json && !common.quiet && (common.verbose > 0 || std::io::stderr().is_terminal());
    let mut progress = |state: Progress| {
        if shows {
            notes::say(match state {
                Progress::Sent(blobs, bytes) => format!("{address}: sent {blobs} blobs ({bytes} bytes)"),
                Progress::Queued => "queued: it waits for a worker".to_owned(),
                Progress::Executing => "running".to_owned(),
            });
        }
    };
    let ran = runtime.block_on(async {
        let stop = interrupted();
        let mut ran = client::run(&address, &run, &mut progress, stop).await?;
        if let Some(outputs) = &outputs {
            download(&mut ran, outputs).await?;
        }
        Ok::<_, FleetError>(ran)
    });
    runtime.shutdown_background();
    let Ran { mut report, stdout, stderr, .. } = match ran {
        Ok(ran) => ran,
        Err(error) => {
            let cause = if error.kind == Kind::Request { Cause::Refused } else { Cause::Internal };
            return Ok(answer(RunReport::without_a_run(cause, error.message), None));
        }
    };
    report.scan = scan.and_then(|passed| serde_json::to_value(&passed.report).ok());
    report.outputs = outputs.map(|outputs| outputs.finish());
    let printed = if common.json { Ok(()) } else { streams::print_whole(stdout, stderr, args.raw) };
    let code = printed.err().map(|error| exit::of_write_error(&error));
    Ok(answer(report, code))
}

/// Parts of a run before anything is sent.
type Begun = (Address, RunRequest, Merged, RemoteRun, hotcell_state::state::StateChoice);

fn begin(common: &Common, args: &RunArgs, farm: &str, cwd: &Path) -> Result<Begun, ErrorReport> {
    let address = Address::parse(farm, args.plain_grpc)
        .map_err(|error| ErrorReport::new(Code::InvalidValue, error.message).field("--remote"))?;
    if let Some((option, why)) = unfit(args) {
        return Err(ErrorReport::new(Code::Usage, format!("{option} with --remote: {why}"))
            .field(option)
            .hint("leave one of the two out"));
    }
    let target = what(args)?;
    let argv = match &target {
        RunTarget::Program(argv) => {
            argv.iter().map(|word| utf8(word, "the command")).collect::<Result<_, _>>()?
        }
        RunTarget::Source(..) => return Err(ErrorReport::new(Code::Usage, "--lang with --remote")),
    };
    let own = own_workspace(args.workspace.as_deref(), cwd);
    own.map_err(|why| ErrorReport::new(Code::InvalidValue, why).field("--workspace"))?;
    let folder = args.workspace.as_ref().map(|workspace| cwd.join(workspace));
    let configuration = configuration(common, Some(folder.clone().unwrap_or_else(|| cwd.to_owned())))?;
    let settings = args.sandbox.settings(cwd);
    let properties = properties(&settings.limits);
    let timeout = settings.limits.timeout;
    let request = RunRequest {
        what: target,
        workspace: args.workspace.clone(),
        kept: None,
        settings,
        limits: Limits::default(),
        stdin: Stdin::Null,
        keep: ChangePolicy::default(),
    };
    let merged = request.merge(&configuration)?;
    if merged.policy.shape.network == Network::Proxy || !merged.secrets.secrets.is_empty() {
        let why = "the configuration gives runs a network or secrets, and neither leaves this machine";
        return Err(ErrorReport::new(Code::Usage, why)
            .field("--remote")
            .hint("add --network none, or run it here"));
    }
    let (mut env, mut unset) = (Vec::new(), Vec::new());
    for setting in &merged.env {
        let (name, value) = match setting {
            EnvSetting::Set(name, value) => (name, value.clone()),
            EnvSetting::Pass(name) => match std::env::var_os(name) {
                Some(value) => (name, value),
                None => {
                    unset.push(name.clone());
                    continue;
                }
            },
        };
        env.push((utf8(name, "--env")?, utf8(&value, "--env")?));
    }
    warn_unset(&unset);
    let run = RemoteRun { argv, env, folder, outputs: Vec::new(), timeout, properties };
    Ok((address, request, merged, run, state(common, &configuration)))
}

fn utf8(word: &OsStr, what: &str) -> Result<String, ErrorReport> {
    let text = word.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        let why =
            format!("{what} is not UTF-8, which the Remote Execution API needs: {}", word.to_string_lossy());
        ErrorReport::new(Code::InvalidValue, why)
    })
}

/// The option that a farm cannot fulfil, and the reason.
fn unfit(args: &RunArgs) -> Option<(&'static str, &'static str)> {
    const HERE: &str = "it names something of this machine, which a worker does not have";
    const POLICY: &str = "the operator of the worker decides that";
    const CHANGES: &str = "changes stay on the farm; name files with --output-files";
    let sandbox = &args.sandbox;
    let limits = sandbox.limits.settings();
    let is_kept = args.workspace.as_deref().is_some_and(workspaces::is_id);
    let has_input = args.stdin.as_ref().is_some_and(|word| word != "null");
    let rows = [
        (args.lang.is_some(), "--lang", "a farm runs programs; give the interpreter as the program"),
        (args.tty || args.idle.is_some(), "--tty", "a farm has no terminals"),
        (
            has_input,
            "--stdin",
            "the Remote Execution API has no standard input; put it into a file of the workspace",
        ),
        (is_kept, "--workspace", "a workspace that is kept belongs to this machine"),
        (args.receipt.is_some(), "--receipt", "a receipt states what this machine saw"),
        (args.keep.diff, "--diff", CHANGES),
        (args.keep.commit || args.keep.allow_protected, "--commit", CHANGES),
        (sandbox.profile.is_some(), "--profile", POLICY),
        (!sandbox.require.is_empty(), "--require", POLICY),
        (sandbox.image.is_some(), "--image", POLICY),
        (!sandbox.ro.is_empty(), "--ro", HERE),
        (!sandbox.rw.is_empty(), "--rw", HERE),
        (!sandbox.toolchain.is_empty(), "--toolchain", HERE),
        (sandbox.deps, "--deps", HERE),
        (
            !matches!(sandbox.network, None | Some(hotcell_config::network::NetworkSetting::None)),
            "--network",
            "a run that may be run twice has no network",
        ),
        (!sandbox.secret.is_empty() || sandbox.secret_env, "--secret", "secrets do not leave this machine"),
        (limits.capture.is_some(), "--capture", "a farm returns all of the output"),
        (limits.cpus.is_some(), "--cpus", POLICY),
        (limits.open_files.is_some(), "--open-files", POLICY),
        (matches!(limits.cpu_time, Some(Span::Unlimited)), "--cpu-time", "a limit can only be lowered"),
    ];
    rows.into_iter().find(|(given, ..)| *given).map(|(_, option, why)| (option, why))
}

/// Limits that were given, as platform properties; hotcell's workers read them.
fn properties(limits: &LimitSettings) -> Vec<(String, String)> {
    let cpu_time = match limits.cpu_time {
        Some(Span::Of(time)) => Some(format!("{}ms", time.as_millis())),
        _ => None,
    };
    let rows = [
        ("memory", limits.memory.map(|bytes| bytes.0.to_string())),
        ("max-disk", limits.disk.map(|bytes| bytes.0.to_string())),
        ("max-output", limits.output.map(|bytes| bytes.0.to_string())),
        ("max-files", limits.files.map(|files| files.to_string())),
        ("max-processes", limits.processes.map(|processes| processes.to_string())),
        ("cpu-time", cpu_time),
    ];
    let named = |(name, value): (&str, Option<String>)| Some((format!("{}{name}", action::LIMIT), value?));
    rows.into_iter().filter_map(named).collect()
}

/// Folders that have the files asked for.
fn starts(outputs: Option<&OutputRequest>) -> Result<Vec<String>, String> {
    let Some(outputs) = outputs else { return Ok(Vec::new()) };
    outputs.of_workspace();
    outputs.starts().map_err(|pattern| {
        format!(
            "‹output_files› {pattern}: a farm returns files below the folder that the program starts in only"
        )
    })
}

/// Downloads the files that were asked for.
async fn download(ran: &mut Ran, outputs: &OutputRequest) -> Result<(), FleetError> {
    for written in std::mem::take(&mut ran.written) {
        if !outputs.wants(&written.path) {
            continue;
        }
        let unkept = |e: std::io::Error| FleetError::host(format!("{}: {e}", written.path.display()));
        let mut file = tempfile::tempfile().map_err(unkept)?;
        if written.key.size > 0 {
            ran.read(&written, &mut file).await?;
        }
        file.rewind().map_err(unkept)?;
        outputs.from_elsewhere(&written.path, Ok(file), written.key.size);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn args(words: &[&str]) -> Box<RunArgs> {
        let all =
            ["hotcell", "run", "--remote", "grpc://localhost:1/x"].iter().chain(words).chain(&["--", "true"]);
        match Cli::parse_from(all.map(OsString::from)).command {
            Command::Run(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_that_a_farm_cannot_fulfil_are_refused() {
        for words in [
            &["--network", "example.org:443"][..],
            &["--secret", "A=env:B@example.org"],
            &["--ro", "/srv"],
            &["--rw", "/srv"],
            &["--image", "x"],
            &["--toolchain", "/opt/x"],
            &["--stdin", "x"],
            &["--diff"],
            &["--commit"],
            &["--profile", "strict"],
            &["--receipt", "x"],
            &["--deps"],
            &["--cpus", "1"],
            &["--open-files", "99"],
            &["--capture", "1M"],
            &["--cpu-time", "none"],
            &["--tty"],
        ] {
            let found = unfit(&args(words)).unwrap_or_else(|| panic!("{words:?}"));
            assert_eq!(found.0, words[0]);
        }
        for words in
            [&["--env", "A=b"][..], &["--timeout", "3s"], &["--network", "none"], &["--stdin", "null"]]
        {
            assert_eq!(unfit(&args(words)), None, "{words:?}");
        }
    }

    #[test]
    fn limits_become_properties_that_workers_read() {
        let limits =
            args(&["--memory", "64M", "--max-processes", "9", "--cpu-time", "2s"]).sandbox.limits.settings();
        let properties = properties(&limits);
        let known: Vec<_> = properties.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            known,
            [("hotcell-memory", "67108864"), ("hotcell-max-processes", "9"), ("hotcell-cpu-time", "2000ms")]
        );
    }
}
