//! Compares `hotcell scan` with Bandit: both read Python's standard library without its tests, in turn and on
//! one processor. Findings are not compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hotcell_bench::ways::micros;
use hotcell_bench::{Report, Row, Samples};
use hotcell_guard::{Artifact, Limits, Pack, scan};

use crate::Options;

/// Name of the rows; rates are in KiB per second.
const ROW_NAME: &str = "KiB of the standard library";
/// Number of rounds; Bandit takes more than a minute for each.
const ROUNDS: usize = 3;
/// Target throughput as a multiple of Bandit's.
const TARGET: f64 = 50.0;
const PYTHON: &str = "/usr/bin/python3";

/// Measures the table.
pub fn measure(options: &Options, report: &mut Report) -> Result<()> {
    let Some(venv) = &options.bandit else {
        eprintln!(
            "left out: the guard; scripts/bench-guard makes the virtual environment that --bandit names"
        );
        return Ok(());
    };
    let hotcell =
        crate::start::whole_process(options)?.context("the guard needs the hotcell executable: --hotcell")?;
    // In memory, so that the machine's disk is not measured.
    let work = tempfile::tempdir_in("/dev/shm")?;
    let folder = work.path().join("std");
    let files = standard_library(&folder)?;
    let bytes: u64 = files.iter().map(|file| std::fs::metadata(file).map_or(0, |meta| meta.len())).sum();
    let [mut peer, mut whole, mut library] = [const { Vec::new() }; 3].map(Samples::from_iter);
    for _ in 0..ROUNDS {
        peer.push(on_one_processor(
            &venv.join("bin/bandit"),
            &["-q", "-r", "-f", "json", "-o", "/dev/null"],
            &folder,
        )?);
        whole.push(on_one_processor(&hotcell, &["scan", "--json", "--no-cache"], &folder)?);
        library.push(in_this_process(&files)?);
    }
    let mut row = |variant: &str, times: &Samples| {
        let row = Row::of_times(ROW_NAME, variant, times);
        #[allow(clippy::cast_precision_loss)]
        let rate = bytes as f64 / 1024.0 / (times.median() / 1e6);
        report.row(Row { per_second: Some(rate), ..row });
    };
    row("bandit", &peer);
    row("`hotcell scan`", &whole);
    row("library", &library);
    report.at_least("`hotcell scan` / Bandit, throughput", peer.median() / whole.median(), TARGET, " x");
    report.at_least("library / Bandit, throughput", peer.median() / library.median(), TARGET, " x");
    Ok(())
}

/// Copies the interpreter's own modules, without tests and packages; returns the copies.
fn standard_library(to: &Path) -> Result<Vec<PathBuf>> {
    let asked = Command::new(PYTHON)
        .args(["-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"])
        .output();
    let asked = asked.context(PYTHON)?;
    ensure!(asked.status.success(), "{PYTHON}: {}", String::from_utf8_lossy(&asked.stderr));
    let mut files = Vec::new();
    copy(Path::new(String::from_utf8(asked.stdout)?.trim()), to, &mut files)?;
    ensure!(files.len() > 300, "{} files are no standard library", files.len());
    Ok(files)
}

fn copy(from: &Path, to: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let text = name.to_string_lossy();
        if kind.is_dir() && !matches!(&*text, "test" | "tests" | "idlelib") && !text.ends_with("-packages") {
            copy(&entry.path(), &to.join(&name), files)?;
        } else if kind.is_file() && text.ends_with(".py") {
            std::fs::copy(entry.path(), to.join(&name))?;
            files.push(to.join(&name));
        }
    }
    Ok(())
}

/// Runs a scanner as a process on the first processor; returns microseconds. Findings do not count as a
/// failure.
fn on_one_processor(program: &Path, words: &[&str], folder: &Path) -> Result<f64> {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program).args(words).arg(folder).stdin(Stdio::null()).stdout(Stdio::null());
    let asked = Instant::now();
    let output = command.stderr(Stdio::piped()).output().context("taskset (package util-linux)")?;
    let us = micros(asked);
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code().is_some_and(|code| code <= 1), "{command:?}: {}\n{said}", output.status);
    Ok(us)
}

/// Scans the files one after the other in this process, with freshly loaded rules; returns microseconds.
fn in_this_process(files: &[PathBuf]) -> Result<f64> {
    let asked = Instant::now();
    let pack = Pack::builtin()?;
    let limits = Limits::default();
    for file in files {
        let report = scan(&pack, &limits, &Artifact::new(file.to_string_lossy(), std::fs::read(file)?));
        ensure!(
            report.coverage.bytes_seen > 0 || report.coverage.bytes_total == 0,
            "{} was not read",
            file.display()
        );
    }
    Ok(micros(asked))
}
