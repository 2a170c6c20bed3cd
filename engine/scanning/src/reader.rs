//! Scans artifacts in a sandbox: a parser of hostile bytes may crash, hang, grow or be taken over.
//!
//! A reader is another process of this program that sees only its own executable and the system's libraries,
//! has no network, and gets 512 MiB. Over standard input it receives the rules, then one artifact after the
//! other, and answers each with a line. It is replaced after a crash, a timeout or a thousand artifacts; an
//! artifact whose reader was lost counts as unread. Only the form of its answers is trusted: names and sizes
//! are filled in by the parent. A parser that was taken over could still answer `allow`: detection is triage,
//! and the sandbox that runs the artifact is the protection.

use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hotcell_guard::{
    Artifact, Called, Executed, Language, Limits, Pack, PartState, Report, Verdict, load_pack, scan, unread,
};
use hotcell_sandbox::lines::LineBuffer;
use hotcell_sandbox::outcome::Layers;
use hotcell_sandbox::{Bytes, Canceller, Chunk, Confinement, Engine, Lack, Outcome, Policy, StdinWriter};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc as queue;

/// First argument that starts this program as a reader.
pub const VERB: &str = "guard-reader";
/// Time limit per artifact: more than the scan's own limit, with a margin for slow machines.
const ARTIFACT_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 10 });
/// Time limit until a reader has loaded its rules: each of the user's own rules is tried on its examples.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Memory limit of a reader.
const MEMORY: Bytes = Bytes::mib(512);
/// Maximum number of lost readers; after that, the rest of a scan is unread.
const MAX_LOST_READERS: u32 = 16;
/// Maximum number of artifacts per process, to bound the damage that one of them can do to later ones.
const MAX_JOBS: u32 = 1000;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Sets the program that scans: one that calls [`serve`] when its first argument is [`VERB`]. Without this
/// call, artifacts are scanned in the calling process; with the feature `elsewhere` they are refused.
pub fn read_with(program: PathBuf) {
    PROGRAM.get_or_init(|| program);
}

/// The program set by [`read_with`]: hotcell's own, which is also the tool host.
pub fn program() -> Option<&'static Path> {
    PROGRAM.get().map(PathBuf::as_path)
}

/// How long a reader is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// For one scan of a program that ends soon: the sandbox's leftovers are removed after the program's end.
    OneScan,
    /// For many scans.
    Lasting,
}

/// The user's own rules: names and texts.
pub type Rules = Vec<(String, String)>;

/// Header sent before an artifact's bytes.
#[derive(Serialize, Deserialize)]
struct Head {
    name: String,
    language: Option<Language>,
    #[serde(default)]
    executed: Vec<Executed>,
    #[serde(default)]
    called: Vec<Called>,
    bytes: usize,
}

fn pack(rules: Rules) -> Result<Pack, String> {
    if rules.is_empty() { Pack::builtin() } else { load_pack(rules) }.map_err(|e| e.to_string())
}

/// Runs the reader's side until the end of its input.
///
/// # Errors
/// When a read or write of the streams fails.
pub fn serve(input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut input = io::BufReader::new(input);
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line)?;
    let ready = pack(serde_json::from_slice(&line)?);
    say(&mut output, &ready.as_ref().map(drop))?;
    let Ok(pack) = ready else { return Ok(()) };
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let head: Head = serde_json::from_slice(&line)?;
        let mut bytes = vec![0; head.bytes];
        input.read_exact(&mut bytes)?;
        let artifact = Artifact {
            name: head.name,
            bytes,
            language: head.language,
            executed: head.executed,
            called: head.called,
        };
        say(&mut output, &scan(&pack, &Limits::default(), &artifact))?;
    }
}

fn say(output: &mut impl Write, answer: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

/// The reason why no reader could be started.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unstarted {
    /// A sentence: an invalid rule, or no sandbox.
    pub why: String,
    /// Layers of its sandbox, as far as it was set up.
    pub layers: Layers,
}

impl From<String> for Unstarted {
    fn from(why: String) -> Self {
        Self { why, layers: Layers::default() }
    }
}

impl From<&str> for Unstarted {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

impl From<Outcome> for Unstarted {
    fn from(outcome: Outcome) -> Self {
        let why = outcome.reason.unwrap_or_else(|| "the reader ended".to_owned());
        Self { why, layers: outcome.layers }
    }
}

/// Client of a reader process, or a scanner in this process.
#[derive(Debug)]
pub struct Reader {
    how: How,
    count: Arc<Count>,
}

#[derive(Debug)]
enum How {
    #[cfg(not(feature = "elsewhere"))]
    Here(Box<Pack>),
    Elsewhere(Option<queue::UnboundedSender<Ask>>, Option<JoinHandle<()>>),
}

/// Statistics of a reader's processes.
#[derive(Debug, Default)]
struct Count {
    started: AtomicU32,
    lost: AtomicU32,
    /// Processes that ended while idle.
    died: AtomicU32,
}

/// An artifact, and the channel for its report.
type Ask = (Artifact, mpsc::Sender<Report>);

impl Reader {
    /// Starts a reader. Of several confinements, the first that this host allows is used.
    ///
    /// # Errors
    /// [`Unstarted`]: an invalid rule, or no sandbox.
    pub fn start(rules: Rules, confinements: &[Confinement], span: Span) -> Result<Self, Unstarted> {
        match PROGRAM.get() {
            Some(program) => Self::elsewhere(program, &rules, confinements, span),
            #[cfg(not(feature = "elsewhere"))]
            None => Ok(Self { how: How::Here(Box::new(pack(rules)?)), count: Arc::default() }),
            #[cfg(feature = "elsewhere")]
            None => {
                drop(rules);
                Err("there is no program that scans; install the whole package again".into())
            }
        }
    }

    fn elsewhere(
        program: &Path,
        rules: &Rules,
        confinements: &[Confinement],
        span: Span,
    ) -> Result<Self, Unstarted> {
        let policies: Vec<Policy> = confinements.iter().map(|c| policy(program, *c)).collect();
        let rules = serde_json::to_vec(rules).map_err(|e| e.to_string())?;
        let (asks, asked) = queue::unbounded_channel();
        let (ready, begun) = mpsc::channel();
        let count = Arc::<Count>::default();
        let start = Start { policies, rules, span, count: Arc::clone(&count) };
        let thread = std::thread::Builder::new()
            .name("guard".to_owned())
            .spawn(move || attend(&start, asked, &ready))
            .map_err(|e| format!("a thread cannot be had: {e}"))?;
        let reader = Self { how: How::Elsewhere(Some(asks), Some(thread)), count };
        begun.recv().unwrap_or_else(|_| Err("its thread ended".into()))?;
        Ok(reader)
    }

    /// True when one of its processes crashed, hung or sent an invalid answer during a scan.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.count.lost.load(Ordering::Acquire) > 0
    }

    /// Number of processes that it has started.
    #[must_use]
    pub fn processes(&self) -> u32 {
        self.count.started.load(Ordering::Acquire)
    }

    /// Scans one artifact. Parts that cannot be read are in the report.
    pub fn read(&self, artifact: &Artifact) -> Report {
        let ask = |asks: &queue::UnboundedSender<Ask>| {
            let (answer, answered) = mpsc::channel();
            asks.send((artifact.clone(), answer)).ok()?;
            answered.recv().ok()
        };
        match &self.how {
            #[cfg(not(feature = "elsewhere"))]
            How::Here(pack) => scan(pack, &Limits::default(), artifact),
            How::Elsewhere(asks, _) => {
                asks.as_ref().and_then(ask).unwrap_or_else(|| lost(artifact, "the reader is gone"))
            }
        }
    }
}

impl Drop for Reader {
    #[cfg_attr(feature = "elsewhere", allow(irrefutable_let_patterns))]
    fn drop(&mut self) {
        if let How::Elsewhere(asks, thread) = &mut self.how {
            drop(asks.take());
            if let Some(thread) = thread.take() {
                // A panic was reported already.
                let _ = thread.join();
            }
        }
    }
}

/// Report about an artifact whose reader was lost: nothing of it was read.
#[must_use]
pub fn lost(artifact: &Artifact, why: &str) -> Report {
    let mut report = unread(&artifact.name, PartState::Skipped(why.to_owned()), Verdict::Incomplete);
    report.coverage.bytes_total = artifact.bytes.len() as u64;
    report
}

fn policy(program: &Path, confinement: Confinement) -> Policy {
    let mut policy =
        Policy::new(program).args([VERB]).read_only(program, program).stdin_piped().memory(MEMORY);
    policy.shape.confinement = confinement;
    let limits = &mut policy.job.limits;
    limits.disk = Bytes::mib(1);
    limits.capture = Bytes::kib(4);
    // These limits are for all artifacts together; each has its own time and answer limit.
    (limits.wall, limits.cpu_time, limits.output) = (Duration::from_secs(24 * 3600), None, Bytes::gib(64));
    policy
}

/// Settings for starting a reader's processes.
struct Start {
    policies: Vec<Policy>,
    rules: Vec<u8>,
    span: Span,
    count: Arc<Count>,
}

/// The thread of a reader: starts its processes, passes requests on, replaces lost processes.
fn attend(start: &Start, asks: queue::UnboundedReceiver<Ask>, ready: &mpsc::Sender<Result<(), Unstarted>>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return drop(ready.send(Err(format!("the reader has no runtime: {e}").into()))),
    };
    runtime.block_on(async {
        let engine = match start.span {
            Span::OneScan => Engine::for_one_run(),
            Span::Lasting => Engine::new(),
        };
        let mut begun = Err(Unstarted::from("no confinement was named"));
        for policy in &start.policies {
            begun = start.worker(&engine, policy).await.map(|worker| (policy, worker));
            if begun.is_ok() {
                break;
            }
        }
        match begun {
            Ok((policy, worker)) => {
                let _ = ready.send(Ok(()));
                start.answer(&engine, policy, worker, asks).await;
            }
            Err(why) => drop(ready.send(Err(why))),
        }
        match start.span {
            Span::OneScan => engine.leave(),
            Span::Lasting => drop(engine.settle(Duration::from_secs(5)).await),
        }
    });
}

impl Start {
    async fn worker(&self, engine: &Engine, policy: &Policy) -> Result<Worker, Unstarted> {
        self.count.started.fetch_add(1, Ordering::AcqRel);
        Worker::start(engine, policy, &self.rules).await
    }

    /// Answers requests until all senders are dropped.
    async fn answer(
        &self,
        engine: &Engine,
        policy: &Policy,
        first: Worker,
        mut asks: queue::UnboundedReceiver<Ask>,
    ) {
        let mut worker = Some(first);
        loop {
            let asked = tokio::select! {
                biased;
                () = death(&mut worker) => {
                    self.count.died.fetch_add(1, Ordering::AcqRel);
                    worker = None;
                    continue;
                }
                asked = asks.recv() => asked,
            };
            let Some((artifact, answer)) = asked else { break };
            if worker.is_none() && self.count.lost.load(Ordering::Acquire) < MAX_LOST_READERS {
                worker = self.worker(engine, policy).await.ok();
            }
            let report = match &mut worker {
                None => Err("the reader ended, too often".to_owned()),
                Some(worker) => worker.ask(&artifact).await,
            };
            let replaced = match &report {
                Ok(report) => {
                    !hotcell_guard::is_repeatable(report)
                        || worker.as_ref().is_some_and(|w| w.jobs >= MAX_JOBS)
                }
                Err(_) => {
                    self.count.lost.fetch_add(1, Ordering::AcqRel);
                    true
                }
            };
            let _ = answer.send(report.unwrap_or_else(|why| lost(&artifact, &why)));
            if replaced && let Some(worker) = worker.take() {
                worker.end().await;
            }
        }
        if let Some(worker) = worker {
            worker.end().await;
        }
    }
}

/// Waits for the end of an idle process.
async fn death(worker: &mut Option<Worker>) {
    match worker {
        Some(worker) => drop((&mut worker.ended).await),
        None => std::future::pending().await,
    }
}

/// Time limit for waiting until this process has free descriptors.
const DESCRIPTOR_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval between two attempts.
const DESCRIPTOR_INTERVAL: Duration = Duration::from_millis(50);

/// A scanning process.
struct Worker {
    /// Task that follows the process, ends with it, and then closes the output.
    ended: tokio::task::JoinHandle<Outcome>,
    stop: Canceller,
    input: StdinWriter,
    output: queue::Receiver<Chunk>,
    /// Bytes received after the last line.
    line: LineBuffer,
    /// Bytes that came with the end of the last line.
    rest: Vec<u8>,
    /// Number of artifacts so far.
    jobs: u32,
}

impl Worker {
    async fn start(engine: &Engine, policy: &Policy, rules: &[u8]) -> Result<Self, Unstarted> {
        let since = Instant::now();
        let mut running = loop {
            match engine.spawn(policy).await {
                Ok(running) => break running,
                // Readers of other calls end soon, and runs wait for descriptors too.
                Err(refusal)
                    if refusal.lacks == Some(Lack::Descriptors) && since.elapsed() < DESCRIPTOR_TIMEOUT =>
                {
                    tokio::time::sleep(DESCRIPTOR_INTERVAL).await;
                }
                Err(refusal) => return Err(Outcome::from(refusal).into()),
            }
        };
        let (input, output) = (running.stdin(), running.output());
        let (Some(input), Some(output)) = (input, output) else {
            return Err("the reader has no streams".into());
        };
        let stop = running.canceller();
        let ended = tokio::spawn(running.wait());
        let line = LineBuffer::new(MAX_ANSWER_BYTES);
        let mut worker = Self { ended, stop, input, output, line, rest: Vec::new(), jobs: 0 };
        let began = tokio::time::timeout(START_TIMEOUT, async {
            // If the process could not start, its input is closed; its outcome says why.
            let _ = worker.input.write_all(rules).await;
            let _ = worker.input.write_all(b"\n").await;
            worker.line().await
        });
        match began.await {
            Err(_) => Err("the reader did not begin in time".into()),
            Ok(Ok(line)) => {
                let told: Result<(), String> =
                    serde_json::from_slice(&line).map_err(|e| format!("the reader's first word: {e}"))?;
                told.map(|()| worker).map_err(Unstarted::from)
            }
            Ok(Err(why)) => {
                worker.stop.cancel();
                Err((&mut worker.ended).await.map_or_else(|_| why.into(), Unstarted::from))
            }
        }
    }

    async fn ask(&mut self, artifact: &Artifact) -> Result<Report, String> {
        self.jobs += 1;
        let head = Head {
            name: artifact.name.clone(),
            language: artifact.language,
            executed: artifact.executed.clone(),
            called: artifact.called.clone(),
            bytes: artifact.bytes.len(),
        };
        let mut head = serde_json::to_vec(&head).map_err(|e| e.to_string())?;
        head.push(b'\n');
        let answered = tokio::time::timeout(ARTIFACT_TIMEOUT, async {
            self.input.write_all(&head).await.map_err(|_| "the reader ended".to_owned())?;
            self.input.write_all(&artifact.bytes).await.map_err(|_| "the reader ended".to_owned())?;
            self.line().await
        });
        let line =
            answered.await.map_err(|_| format!("not read within {} s", ARTIFACT_TIMEOUT.as_secs()))??;
        let mut report: Report =
            serde_json::from_slice(&line).map_err(|e| format!("the reader's answer is no report: {e}"))?;
        report.artifact.names = vec![artifact.name.clone()];
        report.artifact.bytes = artifact.bytes.len() as u64;
        report.coverage.bytes_total = artifact.bytes.len() as u64;
        report.coverage.count();
        Ok(report)
    }

    async fn line(&mut self) -> Result<Vec<u8>, String> {
        loop {
            let (used, is_whole) = self.line.push(&self.rest);
            self.rest.drain(..used);
            if self.line.is_cut() {
                return Err("the reader's answer is too long".to_owned());
            }
            if is_whole {
                return Ok(self.line.take());
            }
            match self.output.recv().await {
                Some(Chunk::Stdout(bytes)) => self.rest = bytes,
                Some(Chunk::Stderr(_)) => {}
                None => return Err("the reader ended".to_owned()),
            }
        }
    }

    /// Ends the process.
    async fn end(self) {
        let Self { ended, stop, input, output, .. } = self;
        stop.cancel();
        // The remaining output is not read, so it must not block on it.
        drop((input, output));
        // The outcome no longer matters.
        let _ = ended.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_sandbox::outcome::LayerState;
    use hotcell_sandbox::{Layer, Refusal};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn reader_answers_each_request() {
        let mut asked = b"[]\n".to_vec();
        for text in ["print(1)\n", "import shutil\nshutil.rmtree('/home')\n"] {
            let head = Head {
                name: "x.py".to_owned(),
                language: None,
                executed: Vec::new(),
                called: Vec::new(),
                bytes: text.len(),
            };
            asked.extend(serde_json::to_vec(&head).unwrap());
            asked.push(b'\n');
            asked.extend(text.as_bytes());
        }
        let mut answered = Vec::new();
        serve(&asked[..], &mut answered).unwrap();
        let lines: Vec<&[u8]> = answered.split(|b| *b == b'\n').collect();
        assert_eq!(lines[0], br#"{"Ok":null}"#);
        let verdict = |line: &[u8]| serde_json::from_slice::<Report>(line).unwrap().verdict;
        assert_eq!([verdict(lines[1]), verdict(lines[2])], [Verdict::Allow, Verdict::Quarantine]);
        let mut refused = Vec::new();
        serve(&br#"[["a.yml","nonsense"]]"#[..], &mut refused).unwrap();
        assert!(refused.starts_with(br#"{"Err":""#));
    }

    /// Compromised readers, as shell scripts.
    #[test]
    fn failing_reader_yields_no_report() {
        let dir = tempfile::tempdir().unwrap();
        for (name, does, why) in [
            ("dies", "exit 1", "ended"),
            ("hangs", "sleep 60", "not read within"),
            ("nonsense", "echo '{}'; sleep 60", "no report"),
            ("flood", "tr '\\0' x </dev/zero", "too long"),
        ] {
            let program = script(dir.path(), &format!("read head; {does}"));
            let reader = begin(&program).unwrap();
            for _ in 0..2 {
                let report = reader.read(&Artifact::new("a.py", "print(1)\n"));
                assert_eq!(report.verdict, Verdict::Incomplete, "{name}");
                let PartState::Skipped(said) = &report.coverage.parts[0].state else { panic!("{name}") };
                assert!(said.contains(why), "{name}: {said}");
            }
            assert!(reader.has_lost());
            assert_eq!(reader.processes(), 2, "{name}");
        }
    }

    /// A program that ends had a sandbox, and one that is not there had none.
    #[test]
    fn reader_start_failure_names_its_layers() {
        let ended = begin(Path::new("/bin/false")).unwrap_err();
        assert!(ended.layers.states.values().any(|state| *state == LayerState::On), "{ended:?}");
        let refusal = Refusal { layer: Some(Layer::Landlock), ..Refusal::new("no landlock here") };
        let refused = Unstarted::from(Outcome::from(refusal));
        assert_eq!(refused.to_string(), "no landlock here");
        let states: Vec<_> = refused.layers.states.into_iter().collect();
        assert_eq!(states, [(Layer::Landlock, LayerState::Unavailable("no landlock here".to_owned()))]);
    }

    #[test]
    fn reader_is_renewed_after_thousand_artifacts() {
        let dir = tempfile::tempdir().unwrap();
        let answers = script(dir.path(), &format!("while read head; do echo '{}'; done", allow()));
        let reader = begin(&answers).unwrap();
        for number in 1..=1001 {
            let report = reader.read(&Artifact::new("a.py", ""));
            assert_eq!(report.verdict, Verdict::Allow, "{number}");
        }
        assert_eq!(reader.processes(), 2);
        assert!(!reader.has_lost());
    }

    #[test]
    fn reader_that_dies_between_artifacts_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let once = script(dir.path(), &format!("read head; echo '{}'", allow()));
        let reader = begin(&once).unwrap();
        for number in 1..=3 {
            assert_eq!(reader.read(&Artifact::new("a.py", "")).verdict, Verdict::Allow, "{number}");
            while reader.count.died.load(Ordering::Acquire) < number {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert_eq!(reader.processes(), 3);
    }

    fn begin(program: &Path) -> Result<Reader, Unstarted> {
        Reader::elsewhere(program, &Rules::new(), &[Confinement::Namespaces], Span::Lasting)
    }

    fn allow() -> String {
        serde_json::to_string(&unread("a.py", PartState::Parsed, Verdict::Allow)).unwrap()
    }

    /// A reader that accepts its rules and then runs this script.
    fn script(dir: &Path, does: &str) -> PathBuf {
        let program = dir.join("reader");
        std::fs::write(&program, format!("#!/bin/sh\nread rules; echo '{{\"Ok\":null}}'; {does}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        program
    }
}
