//! Cost of the guard's scans: a 16 KiB artifact with a running scanner process, and a tree whose reports are
//! cached.

use std::fmt::Write;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hotcell_bench::ways::micros;
use hotcell_bench::{Report, Row, Samples};
use hotcell_guard::{Artifact, Limits, Verdict, Walk, merge, scan_path};
use hotcell_sandbox::Confinement;
use hotcell_scanning::reader;
use hotcell_scanning::session::ScanState;

use crate::Options;

/// Size of the artifact in bytes.
const BYTES: usize = 16 * 1024;
/// Number of files in the tree.
const FILES: usize = 10_000;

/// Measures the table.
pub fn measure(options: &Options, report: &mut Report) -> Result<()> {
    let hotcell =
        crate::start::whole_process(options)?.context("the guard needs the hotcell executable: --hotcell")?;
    reader::read_with(hotcell);
    let work = tempfile::tempdir()?;
    warm(work.path(), options.runs, report)?;
    tree(work.path(), report)
}

/// Scans a new artifact each time; includes cache look-up, process boundary and cache update.
fn warm(work: &std::path::Path, runs: u32, report: &mut Report) -> Result<()> {
    let reading = ScanState::lasting(&work.join("warm"));
    let mut times = Samples::default();
    for number in 0..=runs {
        let artifact = Artifact::new("task.py", source(number as usize, BYTES));
        let begin = Instant::now();
        let mut scan = reading.begin(Vec::new(), &[Confinement::Namespaces]);
        let verdict = scan.read(&artifact).verdict;
        scan.end().map_err(anyhow::Error::msg)?;
        ensure!(verdict == Verdict::Allow, "{verdict:?}");
        // The first scan starts the scanner process.
        if number > 0 {
            times.push(micros(begin));
        }
    }
    reading.close();
    report.row(Row::of_times("guard_warm", "16 KiB", &times));
    report.at_most("guard, 16 KiB warm, p50", times.median() / 1000.0, 3.0, " ms");
    report.at_most("guard, 16 KiB warm, p99", times.percentile(99.0) / 1000.0, 25.0, " ms");
    Ok(())
}

fn tree(work: &std::path::Path, report: &mut Report) -> Result<()> {
    let folder = work.join("tree");
    for number in 0..FILES {
        let sub = folder.join(format!("{}", number / 100));
        std::fs::create_dir_all(&sub)?;
        std::fs::write(sub.join(format!("m{number}.py")), source(number, 2048))?;
    }
    let reading = ScanState::once(&work.join("once"));
    let walk = Walk { gitignore: false, packages: false, executed: None };
    let limits = Limits::default();
    for what in ["guard, 10,000 files, first", "guard, 10,000 files, unchanged"] {
        let begin = Instant::now();
        let mut scan = reading.begin(Vec::new(), &[Confinement::Namespaces]);
        let read = scan_path(&limits, &folder, walk, &mut |file| scan.read(file), &mut |_| ())?;
        scan.end().map_err(anyhow::Error::msg)?;
        ensure!(merge("", [read]).verdict == Verdict::Allow, "a file is not allowed");
        let time = micros(begin);
        report.row(Row::of_times(what, "tree", &std::iter::once(time).collect()));
        if what.ends_with("unchanged") {
            report.at_most(what, time / 1000.0, 1000.0, " ms");
        }
    }
    Ok(())
}

/// Ordinary Python of about this size in bytes, different for each number.
fn source(number: usize, bytes: usize) -> String {
    let mut text = format!("\"\"\"Module {number}.\"\"\"\n\nimport json\nfrom pathlib import Path\n\n");
    let mut at = 0;
    while text.len() < bytes {
        let _ = write!(
            text,
            "\ndef load_{at}(path, limit={number}):\n    # The newest first.\n    rows = json.loads(Path(path).read_text())\n    \
             return sorted((row for row in rows if row[\"size\"] > limit), key=lambda row: row[\"at\"])\n\n\n\
             class Table{at}:\n    def __init__(self, rows):\n        self.rows = list(rows)\n\n    \
             def total(self):\n        return sum(row.get(\"size\", {at}) for row in self.rows)\n\n"
        );
        at += 1;
    }
    text
}
