//! Receipts: making one in this process, with the state folder in memory and on a disk; a run of the program with and without one, in turn; their size; checking a
//! thousand.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hotcell_bench::ways::{TRUE, micros};
use hotcell_bench::{Report, Row, Samples};
use hotcell_config::Configuration;
use hotcell_guard::quarantine::Channel;
use hotcell_receipts::run::{RunFacts, statement};
use hotcell_receipts::{Issuer, KeyRing, KeyStore, verify};
use hotcell_report::RunReport;
use hotcell_sandbox::{Engine, Policy};
use hotcell_state::StateFolder;
use hotcell_state::state::StateChoice;
use tempfile::TempDir;

use crate::Options;

/// Receipts before the measurement: the first one makes the key and the database.
const WARMUP: u32 = 5;
/// Number of receipts that are checked together.
const CHECKED: usize = 1000;
/// Largest number of whole processes, which take some 10 ms each.
const PROCESSES: u32 = 60;

/// Measures the table.
pub async fn measure(options: &Options, report: &mut Report) -> Result<()> {
    let outcome = Engine::new().run(&Policy::new(TRUE)).await;
    let outcome = RunReport::from(outcome);
    let memory = tempfile::Builder::new().prefix("hotcell-bench-").tempdir_in("/dev/shm")?;
    let disk = tempfile::tempdir()?;
    let what = "a receipt of a run, made in this process";
    let mut rows = Vec::new();
    for (folder, place) in [(&memory, "state folder in memory"), (&disk, "state folder in TMPDIR")] {
        let (times, envelope) = issue(folder, &outcome, options.runs)?;
        rows.push((place, times, envelope));
    }
    for (place, times, _) in &rows {
        report.row(Row::of_times(what, place, times));
    }
    let (_, times, envelope) = &rows[0];
    report.at_most("a receipt of a run, state folder in memory, p50", times.median() / 1000.0, 0.3, " ms");
    #[expect(clippy::cast_precision_loss, reason = "some thousand bytes")]
    report.at_most("size of a run's receipt", envelope.len() as f64, 4096.0, " bytes");
    check(&memory, envelope, report)?;
    match crate::start::whole_process(options)? {
        Some(hotcell) => processes(&hotcell, &memory, options.runs.min(PROCESSES), report),
        None => {
            eprintln!("not measured: receipts of the whole program; name it with --hotcell");
            Ok(())
        }
    }
}

fn state(folder: &TempDir) -> std::path::PathBuf {
    folder.path().join("state")
}

/// Makes receipts; returns the times, and the last envelope.
fn issue(folder: &TempDir, outcome: &RunReport, runs: u32) -> Result<(Samples, String)> {
    let asker = Some((Channel::Cli, StateChoice::Named(state(folder))));
    let issuer = Issuer::of(&Configuration { asker, ..Configuration::default() })?;
    let json = serde_json::to_vec(outcome)?;
    let command = [TRUE.to_owned()];
    let facts = RunFacts { program: TRUE, command: &command, outcome_json: &json, ..RunFacts::default() };
    let (mut times, mut envelope) = (Samples::from_iter(Vec::new()), String::new());
    for run in 0..WARMUP + runs {
        let begin = Instant::now();
        envelope = issuer
            .issue(&format!("{run:08x}"), "0.0.0", |about| statement(outcome, &facts, Vec::new(), about))?;
        if run >= WARMUP {
            times.push(micros(begin));
        }
    }
    Ok((times, envelope))
}

/// Checks one receipt as often as a thousand have it: a signature costs no less the second time.
fn check(folder: &TempDir, envelope: &str, report: &mut Report) -> Result<()> {
    let ring: KeyRing = KeyStore::open(&StateFolder::open(&state(folder))?)?.ring()?;
    let begin = Instant::now();
    for _ in 0..CHECKED {
        verify(envelope.as_bytes(), &ring)?;
    }
    report.at_most("1,000 receipts checked in this process", begin.elapsed().as_secs_f64(), 1.0, " s");
    Ok(())
}

/// Runs the program with and without a receipt, in turn, and lets it check a thousand.
fn processes(hotcell: &Path, folder: &TempDir, runs: u32, report: &mut Report) -> Result<()> {
    let state = state(folder);
    let file = folder.path().join("receipt.json");
    // A folder that is named is checked before each run, with its database; the usual one is not.
    for (place, is_named) in [("usual state folder", false), ("--state", true)] {
        let run = |receipt: bool| -> Result<f64> {
            let mut command = Command::new(hotcell);
            command.arg("run").arg("--quiet");
            match is_named {
                true => command.arg("--state").arg(&state),
                false => {
                    command.env("XDG_STATE_HOME", folder.path().join("usual")).env_remove("HOTCELL_STATE")
                }
            };
            if receipt {
                command.arg("--receipt").arg(&file);
            }
            let begin = Instant::now();
            let status = command.args(["--", TRUE]).stdin(Stdio::null()).status()?;
            ensure!(status.success(), "{}: {status}", hotcell.display());
            Ok(micros(begin))
        };
        let (mut without, mut with) = (Samples::from_iter(Vec::new()), Samples::from_iter(Vec::new()));
        for round in 0..WARMUP + runs {
            let (one, two) = (run(false)?, run(true)?);
            if round >= WARMUP {
                without.push(one);
                with.push(two);
            }
        }
        let what = format!("hotcell run /bin/true, {place} in memory");
        report.row(Row::of_times(&what, "without a receipt", &without));
        report.row(Row::of_times(&what, "with a receipt", &with));
        let more = (with.median() - without.median()) / 1000.0;
        let what = format!("hotcell run with a receipt, {place}, more than without, p50");
        report.at_most(&what, more, 0.3, " ms");
    }
    let copies = folder.path().join("copies");
    fs::create_dir(&copies)?;
    let files: Vec<_> = (0..CHECKED).map(|number| copies.join(format!("{number}.json"))).collect();
    files.iter().try_for_each(|copy| fs::copy(&file, copy).map(drop))?;
    let begin = Instant::now();
    let status = Command::new(hotcell)
        .args(["receipt", "verify", "--state"])
        .arg(&state)
        .args(&files)
        .stdout(Stdio::null())
        .status()
        .context("receipt verify")?;
    ensure!(status.success(), "receipt verify: {status}");
    report.at_most("`hotcell receipt verify` of 1,000 receipts", begin.elapsed().as_secs_f64(), 1.0, " s");
    Ok(())
}
