//! Runs a project's tests inside and outside, in turn: `hotcell test` beside the same pytest started by hand.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use hotcell_bench::ways::micros;
use hotcell_bench::{Report, Row, Samples};
use hotcell_config::{Configuration, RunSettings};
use hotcell_sandbox::Engine;
use hotcell_testing::{Cancel, Event, Progress, Selection};
use hotcell_toolchain::Surroundings;
use hotcell_verbs::TestRequest;

use crate::Options;

/// The two kinds of suite: name, content, and number of measurements.
const SUITES: [(&str, &str, u32); 2] =
    [("suite of 30 short tests", SHORT_SUITE, 15), ("suite of some seconds", LONG_SUITE, 5)];

const SHORT_SUITE: &str = "
import pytest

@pytest.mark.parametrize('n', range(30))
def test_short(n):
    assert n + 1 > n
";

/// Computation, files, processes and threads, roughly as mixed in real test suites.
const LONG_SUITE: &str = "
import json, os, pathlib, re, subprocess, sys, threading
import pytest

@pytest.mark.parametrize('n', range(120))
def test_computes(n):
    words = {str(i): [re.sub('[aeiou]', '', f'text {i * n}')] for i in range(4000)}
    assert json.loads(json.dumps(words)) == words

@pytest.mark.parametrize('n', range(60))
def test_files(n, tmp_path):
    for i in range(100):
        (tmp_path / f'{i}.txt').write_text('x' * 1000)
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) == 100000

@pytest.mark.parametrize('n', range(30))
def test_processes(n):
    assert subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).stdout == b'1\\n'

@pytest.mark.parametrize('n', range(30))
def test_threads(n):
    threads = [threading.Thread(target=pathlib.Path('.').resolve) for _ in range(20)]
    for t in threads: t.start()
    for t in threads: t.join()
";

/// Each test fails with the time of its failure.
const FAILURE_SUITE: &str = "
import time
import pytest

@pytest.mark.parametrize('n', range(60))
def test_says_when(n):
    time.sleep(0.01)
    pytest.fail(str(time.time_ns()), pytrace=False)
";

/// Measures the table.
pub async fn measure(options: &Options, report: &mut Report) -> Result<()> {
    let Some(venv) = &options.pytest else {
        eprintln!("left out: suites; name a virtual environment with pytest by --pytest DIR");
        return Ok(());
    };
    let hotcell =
        crate::start::whole_process(options)?.context("suites need the hotcell executable: --hotcell")?;
    // In memory, as the files of a sandbox are, so that the machine's disk is not measured.
    let work = tempfile::tempdir_in("/dev/shm")?;
    for (what, text, rounds) in SUITES {
        let project = project(work.path(), what, text)?;
        let [mut outside, mut inside] = [const { Vec::new() }; 2].map(Samples::from_iter);
        for round in 0..=rounds {
            let bare = timed(by_hand(venv, &project, work.path()))?;
            let ours = timed(by_us(&hotcell, venv, &project, work.path()))?;
            // The first round compiles the byte code that Python caches beside its sources.
            if round > 0 {
                outside.push(bare);
                inside.push(ours);
            }
        }
        let (less, more) = (outside.median(), inside.median());
        report.table(vec![Row::of_times(what, "bare", &outside), Row::of_times(what, "cold", &inside)]);
        if text == SHORT_SUITE {
            report.at_most(&format!("{what}: inside - outside"), (more - less) / 1000.0, 60.0, " ms");
        } else {
            report.at_most(&format!("{what}: inside / outside"), more / less, 1.05, " x");
        }
    }
    let latencies = latencies(venv, &project(work.path(), "times", FAILURE_SUITE)?).await?;
    report.row(Row::of_times("a test's end, from the test to us", "cold", &latencies));
    report.at_most(
        "a test's end, from the test to us, p95",
        latencies.percentile(95.0) / 1000.0,
        100.0,
        " ms",
    );
    Ok(())
}

fn project(work: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let folder = work.join(name.replace(' ', "-"));
    std::fs::create_dir(&folder)?;
    std::fs::write(folder.join("test_it.py"), text)?;
    Ok(folder)
}

/// pytest as started by hand, with the report that `hotcell test` also requests.
fn by_hand(venv: &Path, project: &Path, work: &Path) -> Command {
    let mut command = Command::new(venv.join("bin/python3"));
    command.args(["-m", "pytest"]).arg(format!("--junitxml={}", work.join("bare.xml").display()));
    command.current_dir(project).env("LANG", "C.UTF-8").env("TMPDIR", work);
    command
}

fn by_us(hotcell: &Path, venv: &Path, project: &Path, work: &Path) -> Command {
    let mut command = Command::new(hotcell);
    command.args(["test", "--json", "--state"]).arg(work.join("state")).arg(project);
    command.env("PATH", path(venv));
    command
}

fn path(venv: &Path) -> String {
    format!("{}/bin:/usr/bin:/bin", venv.display())
}

/// Runs a command that must succeed; returns microseconds.
fn timed(mut command: Command) -> Result<f64> {
    let asked = std::time::Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    let us = micros(asked);
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stdout));
    Ok(us)
}

/// Measures the delay from the end of a test to its event at a follower, in microseconds.
async fn latencies(venv: &Path, project: &Path) -> Result<Samples> {
    let request = TestRequest {
        coverage: false,
        kept: None,
        keep: hotcell_verbs::ChangePolicy::default(),
        project: project.to_owned(),
        framework: Some("pytest".to_owned()),
        selection: Selection::default(),
        repeat: 1,
        options: hotcell_verbs::test::TestOptions::default(),
        settings: RunSettings::default(),
    };
    let around = Surroundings { path: Some(path(venv).into()), ..Surroundings::of_this_process() };
    let prepared = match request.prepare(&Configuration::default(), around) {
        Ok(prepared) => prepared,
        Err(unready) => anyhow::bail!("{unready:?}"),
    };
    let mut samples = Samples::from_iter(Vec::new());
    let engine = Engine::new();
    prepared
        .run(&engine, &Cancel::default(), |_, what| {
            if let Progress::Event(Event::Ended(ended)) = what {
                let digits = ended.message.as_deref().unwrap_or_default();
                let said: u64 = digits.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                samples.push(now.saturating_sub(Duration::from_nanos(said)).as_secs_f64() * 1e6);
            }
        })
        .await;
    engine.settle(Duration::from_secs(5)).await;
    ensure!(samples.len() == 60, "{} of 60 tests were seen", samples.len());
    Ok(samples)
}
