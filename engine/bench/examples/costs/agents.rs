//! Cost of sessions of `hotcell fix` whose model replies at once: the driver beside the test runs that it makes, eight candidates beside one, and what a long
//! session leaves in memory.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use hotcell_agents::bench::Bench;
use hotcell_agents::{Driver, Ended, Limits, Rules, SessionReport, Task};
use hotcell_bench::processes::private;
use hotcell_bench::ways::micros;
use hotcell_bench::{Report, Row, Samples};
use hotcell_config::{Configuration, RunSettings};
use hotcell_models::endpoint::{Endpoint, Provider};
use hotcell_models::settings::ModelSettings;
use hotcell_sandbox::Engine;
use hotcell_state::state::StateFolder;
use hotcell_testing::{Cancel, Selection, Verdict};
use hotcell_toolchain::Surroundings;
use hotcell_verbs::test::TestOptions;
use hotcell_verbs::{ChangePolicy, TestRequest, workspaces};
use serde_json::json;

/// Answers of the long session; each repairs one function.
const ITERATIONS: u32 = 50;
/// Functions with a test each; more than answers, so that the session uses all of them.
const FUNCTIONS: u32 = 60;
/// Files of the project with many candidates.
const FILES: usize = 2000;
const CANDIDATES: u32 = 8;
const ROUNDS: u32 = 5;

/// Measures the table.
pub async fn measure(report: &mut Report) -> Result<()> {
    let work = tempfile::tempdir()?;
    let place = Place::new(&work.path().join("state"))?;
    iterations(&place, work.path(), report).await?;
    candidates(&place, work.path(), report).await
}

/// Resources that sessions share.
struct Place {
    folder: StateFolder,
    configuration: Configuration,
    models: ModelSettings,
    engine: Engine,
}

impl Place {
    fn new(state: &Path) -> Result<Self> {
        let url = replies()?;
        let endpoint = Endpoint::new("scripted", Provider::LlamaCpp, Some(&url), "scripted", None)?;
        let models = ModelSettings {
            endpoints: [("scripted".to_owned(), endpoint)].into(),
            ..ModelSettings::default()
        };
        let folder = StateFolder::open(state)?;
        Ok(Self { folder, configuration: Configuration::default(), models, engine: Engine::new() })
    }

    /// A session; returns microseconds and its report.
    async fn session(
        &self,
        project: &Path,
        candidates: u32,
        iterations: u32,
    ) -> Result<(f64, SessionReport)> {
        let store = workspaces::store(&self.folder).map_err(|e| anyhow!("{e}"))?;
        let say = |_: &str| {};
        let driver = Driver {
            folder: &self.folder,
            bench: Bench(Arc::new(store)),
            configuration: &self.configuration,
            settings: RunSettings::default(),
            engine: &self.engine,
            models: &self.models,
            around: Surroundings::of_this_process(),
            cancel: Cancel::default(),
            say: &say,
            seen: None,
        };
        let task = Task {
            kind: "fix".to_owned(),
            project: project.to_str().context("a path")?.to_owned(),
            framework: Some("unittest".to_owned()),
            filter: None,
            deps: false,
            timeout_ms: None,
            model: None,
            words: None,
            candidates,
            rules: Rules { iterations, ..Rules::default() },
            limits: Limits::default(),
            constraints: Vec::new(),
            max_output_tokens: 1024,
            seed: None,
        };
        let asked = Instant::now();
        let ended = driver.fix(task, false).await.map_err(|e| anyhow!("{e}"))?;
        let took = micros(asked);
        let Ended::Session(session) = ended else { return Err(anyhow!("there is no session")) };
        for candidate in &session.candidates {
            let tested = candidate.iterations.iter().filter(|row| row.tests.is_some()).count();
            ensure!(
                tested == iterations as usize,
                "{tested} of {iterations} answers were tested: {candidate:?}"
            );
            if let Some(workspace) = &candidate.workspace {
                driver.bench.remove(workspace);
            }
        }
        Ok((took, *session))
    }

    /// A run of the tests as a session makes it, without a session; returns microseconds.
    async fn tested(&self, project: &Path) -> Result<f64> {
        let request = TestRequest {
            coverage: false,
            kept: None,
            keep: ChangePolicy::default(),
            project: project.to_owned(),
            framework: Some("unittest".to_owned()),
            selection: Selection::default(),
            repeat: 1,
            options: TestOptions::default(),
            settings: RunSettings::default(),
        };
        let asked = Instant::now();
        let prepared = match request.prepare(&self.configuration, Surroundings::of_this_process()) {
            Ok(prepared) => prepared,
            Err(unready) => anyhow::bail!("{unready:?}"),
        };
        let tested = prepared.run(&self.engine, &Cancel::default(), |_, _| {}).await;
        let took = micros(asked);
        ensure!(tested.verdict == Verdict::Failed, "{:?}", tested.verdict);
        Ok(took)
    }
}

/// A server of OpenAI's form on loopback, whose answer repairs the first function that is not right in the prompt yet.
fn replies() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    thread::Builder::new().name("replies".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that left gets no answer.
            let _ = reply(&stream);
        }
    })?;
    Ok(url)
}

fn reply(mut stream: &std::net::TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body);
    // Earlier answers in the prompt have the wrong code, too; the right code is in the source or in an answer that was applied.
    let is_right = |n: &u32| body.contains(&format!("def f{n}():\\n    return {n}\\n"));
    let wrong = (0..FUNCTIONS).find(|n| !is_right(n)).unwrap_or(0);
    let answer = format!(
        "FILE_START: calc.py\n<<<<<<< SEARCH\ndef f{wrong}():\n    return -1\n=======\ndef f{wrong}():\n    return {wrong}\n>>>>>>> REPLACE\nFILE_END\n"
    );
    let answer = json!({
        "model": "scripted", "choices": [{ "message": { "content": answer }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 1000, "completion_tokens": 50 },
    })
    .to_string();
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}", answer.len())
}

/// A project whose functions return -1 from the number `good` on, each with a test.
fn project(folder: &Path, good: u32) -> Result<()> {
    fs::create_dir_all(folder)?;
    let (mut code, mut tests) =
        (String::new(), "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n".to_owned());
    for n in 0..FUNCTIONS {
        let value = if n < good { n.to_string() } else { "-1".to_owned() };
        write!(code, "def f{n}():\n    return {value}\n\n\n")?;
        write!(tests, "    def test_f{n:02}(self):\n        self.assertEqual(calc.f{n}(), {n})\n\n")?;
    }
    fs::write(folder.join("calc.py"), code)?;
    fs::write(folder.join("test_calc.py"), tests)?;
    Ok(())
}

async fn iterations(place: &Place, work: &Path, report: &mut Report) -> Result<()> {
    let (wrong, half) = (work.join("wrong"), work.join("half"));
    project(&wrong, 0)?;
    // As many tests fail as in the middle of the session.
    project(&half, ITERATIONS / 2)?;
    place.session(&wrong, 1, 1).await?;
    place.tested(&half).await?;
    let mut alone = Samples::from_iter(Vec::new());
    for _ in 0..ITERATIONS / 2 {
        alone.push(place.tested(&half).await?);
    }
    let before = private("self");
    let (took, session) = place.session(&wrong, 1, ITERATIONS).await?;
    let after = private("self");
    drop(session);
    for _ in 0..ITERATIONS / 2 {
        alone.push(place.tested(&half).await?);
    }
    // One more run than answers: that of the given code.
    let each = took / f64::from(ITERATIONS + 1);
    let what = "session of 50 iterations, replies at once";
    report.row(Row::of_times(what, "a run of the tests without a session", &alone));
    report.row(Row::of_times(what, "an iteration, mean", &Samples::from_iter([each])));
    let (Some(before), Some(after)) = (before, after) else { return Err(anyhow!("no smaps_rollup")) };
    let grown = after.saturating_sub(before);
    report.row(Row {
        what: what.to_owned(),
        variant: "private memory that the driver gained".to_owned(),
        memory_bytes: Some(grown),
        ..Row::default()
    });
    report.at_most("an iteration beside its test run", (each - alone.median()) / 1000.0, 15.0, " ms");
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    let mib = grown as f64 / f64::from(1 << 20);
    report.at_most("private memory after 50 iterations", mib, 64.0, " MiB");
    Ok(())
}

async fn candidates(place: &Place, work: &Path, report: &mut Report) -> Result<()> {
    let large = work.join("large");
    project(&large, 0)?;
    for n in 2..FILES {
        let folder = large.join(format!("part{}", n / 100));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("module{n}.py")), format!("def value():\n    return {n}\n"))?;
    }
    place.session(&large, 1, 1).await?;
    let [mut one, mut many] = [const { Vec::new() }; 2].map(Samples::from_iter);
    for _ in 0..ROUNDS {
        one.push(place.session(&large, 1, 1).await?.0);
        many.push(place.session(&large, CANDIDATES, 1).await?.0);
    }
    let what = "session over 2,000 files, replies at once";
    report.row(Row::of_times(what, "one candidate, one answer", &one));
    report.row(Row::of_times(what, "eight candidates, one answer each", &many));
    let cores = u32::try_from(thread::available_parallelism()?.get()).unwrap_or(1);
    let share = (f64::from(CANDIDATES) / f64::from(cores)).max(1.0);
    report.at_most(
        &format!("eight candidates beside one, by 8 / {cores} processors"),
        many.median() / one.median() / share,
        1.25,
        "",
    );
    Ok(())
}
