//! `--remote` of `hotcell run`, and what `hotcell test` shares with it: a farm in place of sandboxes here. The guard, and what may be sent at all, are
//! decided on this machine.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell_config::Configuration;
use hotcell_fleet::client::Progress;
use hotcell_fleet::elsewhere::{Say, Sending, Wants};
use hotcell_fleet::known::DIGESTS;
use hotcell_fleet::{Elsewhere, Farm, action};
use hotcell_report::RunReport;
use hotcell_sandbox::policy::{Limits, Network, Stdin};
use hotcell_sandbox::profile::{LimitSettings, Span};
use hotcell_state::history::Stored;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_toolchain::Surroundings;
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::execute::execute;
use hotcell_verbs::outputs::OutputRequest;
use hotcell_verbs::request::{Merged, RunRequest, RunTarget, Source};
use hotcell_verbs::workspaces;

use crate::args::{Common, FarmArgs, RunArgs, SandboxArgs};
use crate::context::{configuration, current_folder, runtime, state};
use crate::run::{Passed, answer, own_workspace, refused, source, typed, warn_unset, what};
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::{exit, options, outputs, usage};

/// Runs the command on a farm; returns its exit status.
pub fn run(common: &Common, args: &RunArgs, farm: &str) -> anyhow::Result<u8> {
    let cwd = current_folder();
    let (request, merged, configuration) = match begin(common, args, &cwd) {
        Ok(begun) => begun,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let choice = state(common, &configuration);
    let trees: Vec<_> =
        request.workspace.iter().filter_map(|folder| cwd.join(folder).canonicalize().ok()).collect();
    let opened = outputs::request(&args.output_files, &cwd, &trees).and_then(|outputs| {
        let limits = args.sandbox.limits.settings();
        let sending = sending(&limits, args.cached, outputs.as_ref())?;
        Ok((farm_of(common, farm, &args.farm, &configuration, sending)?, outputs))
    });
    let (elsewhere, outputs) = match opened {
        Ok(opened) => opened,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let stored = (!args.sandbox.no_history).then(|| Stored::begin(typed(args)));
    let roots = request.workspace.iter().map(PathBuf::as_path).chain([Path::new("")]).collect::<Vec<_>>();
    let answer = |outcome: RunReport, code| {
        answer(common, &choice, stored.as_ref(), (&options::of_run(outcome), code), &roots)
    };
    let around = Surroundings::of_this_process();
    let mut prepared = match request.prepare_elsewhere(merged, around, &[], Vec::new()) {
        Ok(prepared) => prepared,
        Err(outcome) => return Ok(answer(*outcome, None)),
    };
    warn_unset(&prepared.unset);
    if outputs.is_some() && request.workspace.is_none() {
        let why = "--output-files with --remote: a farm returns files of a workspace only; name one with --workspace";
        return Ok(answer(*refused(why.to_owned()), None));
    }
    if let Some(outputs) = outputs {
        prepared.copy_out(outputs);
    }
    notes::guard(prepared.scan.as_ref(), common);
    let runtime = runtime()?;
    let mut passed = Passed::output_only(common, args.raw);
    let stop = async {
        interrupted().await;
        None
    };
    let executed = runtime.block_on(execute(&elsewhere, &mut prepared, &mut passed, stop));
    runtime.shutdown_background();
    let mut code = passed.written.err().map(|error| exit::of_write_error(&error));
    if executed.abandoned {
        code = Some(exit::INTERRUPTED);
    }
    let mut report = executed.report;
    // Of the changes only the files that were asked for are known.
    report.changes = None;
    Ok(answer(report, code))
}

fn begin(
    common: &Common,
    args: &RunArgs,
    cwd: &Path,
) -> Result<(RunRequest, Merged, Configuration), ErrorReport> {
    if let Some((option, why)) = unfit(args) {
        return Err(refusal(option, why));
    }
    let target = match what(args)? {
        RunTarget::Source(language, Source::Text(_), arguments) => {
            RunTarget::Source(language, Source::Text(source()?), arguments)
        }
        other => other,
    };
    let own = own_workspace(args.workspace.as_deref(), cwd);
    own.map_err(|why| ErrorReport::new(Code::InvalidValue, why).field("--workspace"))?;
    let project = args.workspace.as_ref().map_or_else(|| cwd.to_owned(), |workspace| cwd.join(workspace));
    let configuration = configuration(common, Some(project))?;
    if configuration.user.receipts.always {
        return Err(refusal("--receipt", RECEIPT));
    }
    let request = RunRequest {
        what: target,
        workspace: args.workspace.clone(),
        kept: None,
        settings: args.sandbox.settings(cwd),
        limits: Limits::default(),
        stdin: Stdin::Null,
        keep: ChangePolicy::default(),
    };
    let merged = request.merge(&configuration)?;
    check_merged(&merged)?;
    Ok((request, merged, configuration))
}

/// Refuses a run that would leave this machine with a network or secrets, or without the image of the configuration.
pub fn check_merged(merged: &Merged) -> Result<(), ErrorReport> {
    let refuse = |why: &str, hint: &str| {
        Err(ErrorReport::new(Code::Usage, why).field("--remote").hint(format!("{hint}, or run it here")))
    };
    if merged.policy.shape.network == Network::Proxy || !merged.secrets.secrets.is_empty() {
        return refuse(
            "the configuration gives runs a network or secrets, and neither leaves this machine",
            "add --network none",
        );
    }
    if merged.image.is_some() {
        return refuse(
            "the configuration gives runs an image, and the operator of a worker chooses that",
            "take image out of the configuration",
        );
    }
    Ok(())
}

/// The farm of an option, in place of sandboxes here.
pub fn farm_of(
    common: &Common,
    named: &str,
    args: &FarmArgs,
    configuration: &Configuration,
    sending: Sending,
) -> Result<Elsewhere, ErrorReport> {
    let address = crate::farm::address(named, "--remote", args, configuration)?;
    let shown = address.to_string();
    let farm = Farm::configured(address, &configuration.user.fleet)
        .map_err(|error| ErrorReport::new(Code::InvalidValue, error.message).field("--remote"))?;
    let shows = !common.json && !common.quiet && (common.verbose > 0 || std::io::stderr().is_terminal());
    let say: Say = Arc::new(move |state: &Progress| match state {
        Progress::Sent(blobs, bytes) => notes::say(format!("{shown}: sent {blobs} blobs ({bytes} bytes)")),
        Progress::Queued => notes::say("queued: it waits for a worker"),
        Progress::Executing => notes::say("running"),
        Progress::Output(_) => {}
    });
    let digests = state(common, configuration).path().ok().map(|state| state.join(DIGESTS));
    Ok(Elsewhere::new(farm, sending, shows.then_some(say)).keeping(digests))
}

/// The farm of the configuration, for runs of a server's callers: each has the limits of its own policy.
pub fn of_configuration(configuration: &Configuration) -> Result<Elsewhere, ErrorReport> {
    let wrong = |report: ErrorReport| report.field("fleet");
    let address = crate::farm::address(crate::farm::CONFIGURED, "fleet", &FarmArgs::default(), configuration)
        .map_err(wrong)?;
    let farm = Farm::configured(address, &configuration.user.fleet)
        .map_err(|error| ErrorReport::new(Code::Configuration, error.message).field("fleet"))?;
    Ok(Elsewhere::new(farm, Sending { limits_of_policy: true, ..Sending::default() }, None))
}

/// How runs are sent, by the options.
pub fn sending(
    limits: &LimitSettings,
    cached: bool,
    outputs: Option<&OutputRequest>,
) -> Result<Sending, ErrorReport> {
    let mut starts = Vec::new();
    let mut wants = None;
    if let Some(outputs) = outputs {
        outputs.of_workspace();
        starts = outputs.starts().map_err(|pattern| {
            let why = format!(
                "--output-files {pattern}: a farm returns files below the folder that the program starts in only"
            );
            ErrorReport::new(Code::Usage, why).field("--output-files")
        })?;
        let outputs = outputs.clone();
        wants = Some(Wants(Arc::new(move |path: &Path| outputs.wants(path))));
    }
    let properties = properties(limits);
    let timeout = limits.timeout;
    Ok(Sending { properties, timeout, cached, outputs: starts, wants, ..Sending::default() })
}

/// Refusal of an option beside `--remote`.
pub fn refusal(option: &str, why: &str) -> ErrorReport {
    ErrorReport::new(Code::Usage, format!("{option} with --remote: {why}"))
        .field(option)
        .hint("leave one of the two out")
}

const POLICY: &str = "the operator of the worker decides that";
pub const RECEIPT: &str = "a receipt, also one of receipts.always, states what this machine saw; workers sign receipts of their own";
pub const CHANGES: &str = "changes stay on the farm; name files with --output-files";

/// The option that a farm cannot fulfil, and the reason.
fn unfit(args: &RunArgs) -> Option<(&'static str, &'static str)> {
    let is_kept = args.workspace.as_deref().is_some_and(workspaces::is_id);
    let has_input = args.stdin.as_ref().is_some_and(|word| word != "null");
    let rows = [
        (args.tty || args.idle.is_some(), "--tty", "a farm has no terminals"),
        (
            has_input,
            "--stdin",
            "the Remote Execution API has no standard input; put it into a file of the workspace",
        ),
        (is_kept, "--workspace", "a workspace that is kept belongs to this machine"),
        (args.receipt.is_some(), "--receipt", RECEIPT),
        (args.keep.diff, "--diff", CHANGES),
        (args.keep.commit || args.keep.allow_protected, "--commit", CHANGES),
    ];
    rows.into_iter()
        .find(|(given, ..)| *given)
        .map(|(_, option, why)| (option, why))
        .or_else(|| unfit_for_sandbox(&args.sandbox))
}

/// The option about the sandbox that a farm cannot fulfil, and the reason.
pub fn unfit_for_sandbox(sandbox: &SandboxArgs) -> Option<(&'static str, &'static str)> {
    const HERE: &str = "it names something of this machine, which a worker does not have";
    let limits = sandbox.limits.settings();
    let rows = [
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
