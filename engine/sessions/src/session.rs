//! One session: an interpreter in a sandbox, and its cells one after the other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hotcell_config::{Configuration, RunSettings};
use hotcell_report::RunReport;
use hotcell_review::gate::Gate;
use hotcell_sandbox::policy::Confinement;
use hotcell_sandbox::{Canceller, Spawn};
use hotcell_state::ids::handle;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_toolchain::Surroundings;
use hotcell_verbs::outputs::OutputPattern;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::watch;

use crate::answer::{Answer, Ended, InterruptResult, Printed, Status, Told};
use crate::channel::{Channel, Next, Stream, Streams};
use crate::files::{self, CellFile, KeptFiles, Listed, MAX_PUT_BYTES, Seen};
use crate::language::Language;
use crate::steps::{StepKind, Steps};
use crate::uploads::Uploads;

mod closed;
mod end;
mod guarded;
mod prepare;
mod withdrawn;

use closed::{Closed, next, why};
use end::Telling;
pub use end::{SessionEnd, Witness};
use prepare::prepare;

/// Maximum size of a cell, in bytes.
pub const MAX_CELL_BYTES: usize = 1 << 20;
/// Default and maximum time of a cell.
pub const CELL_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time of a cell that a caller may ask for.
pub const MAX_CELL_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum output of a cell, in bytes; one that prints more is interrupted.
const MAX_CELL_OUTPUT: u64 = 16 << 20;
/// Maximum size of earlier cells that a cell is read together with, in bytes.
const MAX_EARLIER_BYTES: usize = 128 << 10;
/// Time for an interpreter to be there.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for all files of a cell, or for a piece of a file.
const FILES_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between an interrupt and the end of a cell that does not heed it, by the session's end.
pub const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two looks for the end of an interrupted cell.
const INTERRUPT_LOOK: Duration = Duration::from_millis(5);

/// A request for a session.
#[derive(Clone, Debug)]
pub struct Start {
    /// Language.
    pub language: Language,
    /// The configuration in force.
    pub configuration: Configuration,
    /// Settings that take precedence over it.
    pub settings: RunSettings,
    /// Where programs are looked for.
    pub around: Surroundings,
    /// Packages that `settings` show, as `NAME==VERSION`.
    pub packages: Vec<String>,
    /// Who is told its end.
    pub witness: Option<Arc<dyn Witness>>,
}

impl Start {
    /// A session as the configuration has it.
    #[must_use]
    pub fn new(language: Language, configuration: Configuration) -> Self {
        let around = Surroundings::of_this_process();
        let settings = RunSettings::default();
        Self { language, configuration, settings, around, packages: Vec::new(), witness: None }
    }
}

/// A piece of code for a session.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The code.
    pub code: String,
    /// Time after which it is interrupted.
    pub timeout: Duration,
    /// Files below the home folder that it returns.
    pub outputs: Vec<OutputPattern>,
}

impl Cell {
    /// Code with the default time.
    pub fn new(code: impl Into<String>) -> Self {
        Self { code: code.into(), timeout: CELL_TIMEOUT, outputs: Vec::new() }
    }
}

/// An interpreter in a sandbox.
#[derive(Debug)]
pub struct Session {
    /// Language.
    pub language: Language,
    /// Packages that it was given, as `NAME==VERSION`.
    pub packages: Vec<String>,
    /// Start.
    pub began: Instant,
    gate: Gate,
    confinement: Confinement,
    /// Taken by one cell at a time.
    channel: tokio::sync::Mutex<Channel>,
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
    canceller: Canceller,
    /// Why its sandbox was ended from here; the first reason counts.
    closed: Arc<OnceLock<Closed>>,
    ended: watch::Receiver<Option<Arc<Ended>>>,
    /// Number of the cell that runs; 0 for none.
    running: AtomicU64,
    cells: AtomicU64,
    used: Mutex<Instant>,
    earlier: Mutex<String>,
    seen: Mutex<Seen>,
    kept: Mutex<KeptFiles>,
    uploads: Arc<Mutex<Uploads>>,
    /// Cells and files; `None` until the interpreter was ready.
    steps: Arc<Mutex<Option<Steps>>>,
    /// Digest of its receipt, once its end was told.
    receipt: Arc<OnceLock<String>>,
    /// True when its end was told.
    told: watch::Receiver<bool>,
}

/// Reason for an interrupt.
enum Stopped {
    Deadline(Duration),
    Output,
}

impl Session {
    /// Starts an interpreter in a sandbox of `spawn`.
    ///
    /// # Errors
    /// A report when the configuration is wrong, the interpreter is missing, the sandbox was refused, or the interpreter did not begin.
    pub async fn start(spawn: &dyn Spawn, start: Start) -> Result<Self, ErrorReport> {
        let (language, packages, witness) = (start.language, start.packages.clone(), start.witness.clone());
        let prepared = tokio::task::spawn_blocking(move || prepare(start)).await.map_err(|error| {
            ErrorReport::new(Code::Internal, format!("the session was not prepared: {error}"))
        })?;
        let (prepared, gate, stated) = prepared?;
        let confinement = prepared.policy.shape.confinement;
        let began = Instant::now();
        let refused = |why: String| {
            ErrorReport::new(Code::Refused, format!("there is no session of {}: {why}", language.name()))
        };
        let mut running =
            spawn.spawn(&prepared.policy).await.map_err(|refusal| refused(refusal.to_string()))?;
        let canceller = running.canceller();
        let (Some(socket), Some(chunks)) = (running.socket(), running.output()) else {
            return Err(refused("the sandbox gave no socket".to_owned()));
        };
        let (send, ended) = watch::channel(None);
        let closed = Arc::new(OnceLock::new());
        let closed_by = Arc::clone(&closed);
        let (done, told) = watch::channel(false);
        let (steps, receipt) = (Arc::default(), Arc::default());
        let telling = Telling {
            witness,
            language,
            packages: packages.clone(),
            stated,
            steps: Arc::clone(&steps),
            receipt: Arc::clone(&receipt),
            done,
        };
        tokio::spawn(async move {
            let outcome = running.wait().await;
            // Holds folders and locks of the host until the end.
            drop(prepared);
            let (report, closed) = (RunReport::from(outcome), closed_by.get().copied());
            let ended = Ended { why: why(&report, closed), report: Some(report.clone()) };
            send.send_replace(Some(Arc::new(ended)));
            telling.tell(report, closed).await;
        });
        let socket = socket
            .set_nonblocking(true)
            .and_then(|()| tokio::net::UnixStream::from_std(socket))
            .map_err(|error| refused(error.to_string()))?;
        let (read, write) = socket.into_split();
        let mut channel = Channel::new(read, chunks);
        let mut said = Streams::new("\0");
        let is_ready = tokio::time::timeout(START_TIMEOUT, async {
            loop {
                match channel.next().await {
                    Next::Told(told) if told.op == "ready" => break true,
                    Next::Told(_) => {}
                    Next::Chunk(chunk) => said.take(&chunk, &mut |_, _| {}),
                    Next::End => break false,
                }
            }
        });
        let is_ready = is_ready.await.unwrap_or(false);
        if !is_ready {
            channel.drain(&mut said, &mut |_, _| {}).await;
        }
        let session = Self {
            language,
            packages,
            began,
            gate,
            confinement,
            channel: tokio::sync::Mutex::new(channel),
            writer: tokio::sync::Mutex::new(write),
            canceller,
            closed,
            ended,
            running: AtomicU64::new(0),
            cells: AtomicU64::new(0),
            used: Mutex::new(Instant::now()),
            earlier: Mutex::default(),
            seen: Mutex::default(),
            kept: Mutex::default(),
            uploads: Arc::default(),
            steps,
            receipt,
            told,
        };
        if is_ready {
            *session.steps.lock().unwrap_or_else(PoisonError::into_inner) = Some(Steps::default());
            return Ok(session);
        }
        let ended = session.end(Closed::Silent).await;
        let said = Printed::from(&said.stderr.kept).text;
        Err(refused(format!("{}; {}", ended.why, said.trim().chars().take(400).collect::<String>())))
    }

    /// Runs a cell, after those that were sent before it.
    pub async fn execute(&self, cell: Cell) -> Answer {
        self.execute_and_show(cell, &mut |_, _| {}).await
    }

    /// Runs a cell, and shows its output as it comes. **A future that is dropped leaves the cell running**; its result is not that of the
    /// next one.
    pub async fn execute_and_show(&self, cell: Cell, show: &mut (dyn FnMut(Stream, &[u8]) + Send)) -> Answer {
        let mut channel = self.channel.lock().await;
        self.execute_in(&mut channel, cell, show).await
    }

    async fn execute_in(
        &self,
        channel: &mut Channel,
        cell: Cell,
        show: &mut (dyn FnMut(Stream, &[u8]) + Send),
    ) -> Answer {
        if let Some(ended) = self.ended() {
            let cells = self.cells();
            return self.died(cells, cells, &ended);
        }
        let number = self.cells.fetch_add(1, Ordering::Relaxed) + 1;
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.begin_step(StepKind::Cell, &[cell.code.as_bytes()]);
        let answer = self.execute_next(channel, number, cell, show).await;
        self.end_step(answer.result.status.name());
        answer
    }

    fn begin_step(&self, kind: StepKind, input: &[&[u8]]) {
        if let Some(steps) = &mut *self.steps.lock().unwrap_or_else(PoisonError::into_inner) {
            steps.begin(kind, input);
        }
    }

    fn end_step(&self, status: &'static str) {
        if let Some(steps) = &mut *self.steps.lock().unwrap_or_else(PoisonError::into_inner) {
            steps.end(status);
        }
    }

    async fn execute_next(
        &self,
        channel: &mut Channel,
        number: u64,
        cell: Cell,
        show: &mut (dyn FnMut(Stream, &[u8]) + Send),
    ) -> Answer {
        if cell.code.len() > MAX_CELL_BYTES {
            let why = format!(
                "the cell has {} bytes, of which at most {MAX_CELL_BYTES} are allowed; put data into files",
                cell.code.len()
            );
            return Answer::new(Status::Refused, number, Some(why));
        }
        if let Err(why) = self.read(&cell.code).await {
            return Answer::new(Status::Refused, number, Some(why));
        }
        let (Ok(nonce), Ok(mark)) = (handle(""), handle("\0")) else {
            return Answer::new(
                Status::Refused,
                number,
                Some("the kernel gives no random numbers".to_owned()),
            );
        };
        let mark = format!("{mark}\n");
        channel.drop_late();
        let began = Instant::now();
        self.running.store(number, Ordering::SeqCst);
        let message = serde_json::json!({ "op": "cell", "id": number, "nonce": nonce, "mark": mark, "code": cell.code, "list": !cell.outputs.is_empty() });
        let mut streams = Streams::new(&mark);
        let told = if self.send(&message).await.is_ok() {
            self.follow(channel, (&nonce, cell.timeout), &mut streams, show).await
        } else {
            Err(Closed::Silent)
        };
        self.running.store(0, Ordering::SeqCst);
        let mut answer = match told {
            Ok((mut told, stopped)) => {
                channel.drain(&mut streams, show).await;
                let listed = std::mem::take(&mut told.files);
                let mut answer = told.into_answer(number);
                answer.result.note = stopped.map(|stopped| match stopped {
                    Stopped::Deadline(time) => {
                        format!("interrupted after {} s; the state is still there", time.as_secs_f64())
                    }
                    Stopped::Output => {
                        format!(
                            "interrupted after {MAX_CELL_OUTPUT} bytes of output; the state is still there"
                        )
                    }
                });
                self.take_files(channel, &listed, &cell.outputs, &mut answer).await;
                answer
            }
            Err(closed) => {
                let ended = self.end(closed).await;
                channel.drain(&mut streams, show).await;
                self.died(number, number.saturating_sub(1), &ended)
            }
        };
        (answer.stdout, answer.stderr) = ((&streams.stdout.kept).into(), (&streams.stderr.kept).into());
        answer.wall = began.elapsed();
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        answer
    }

    /// Takes the files that a cell returns, and keeps them.
    async fn take_files(
        &self,
        channel: &mut Channel,
        listed: &[Listed],
        patterns: &[OutputPattern],
        answer: &mut Answer,
    ) {
        let mut selection =
            files::select(listed, patterns, &mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        let until = tokio::time::Instant::now() + FILES_TIMEOUT;
        for (path, bytes) in std::mem::take(&mut selection.wanted) {
            let asked = serde_json::json!({ "op": "read", "path": path, "most": bytes });
            let read = self.ask(channel, asked, until).await.and_then(|told| {
                use base64::Engine as _;
                let contents = told.contents.ok_or_else(|| told.error.unwrap_or_default())?;
                let read = base64::engine::general_purpose::STANDARD.decode(contents);
                let read = read.map_err(|_| "it was not read".to_owned())?;
                match read.len() as u64 > bytes {
                    true => Err("it grew while it was read".to_owned()),
                    false => Ok(read),
                }
            });
            match read {
                Ok(read) => answer.files.push(CellFile { path, bytes: read.into() }),
                Err(why) => selection.leave(&path, why.chars().take(200).collect()),
            }
        }
        answer.left = selection.left;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        answer.files.iter().for_each(|file| kept.keep(file));
    }

    /// Asks the driver between cells.
    async fn ask(
        &self,
        channel: &mut Channel,
        mut asked: serde_json::Value,
        until: tokio::time::Instant,
    ) -> Result<Told, String> {
        let nonce = handle("").map_err(|report| report.to_string())?;
        asked["nonce"] = nonce.as_str().into();
        self.send(&asked).await.map_err(|error| format!("the interpreter takes nothing: {error}"))?;
        loop {
            match tokio::time::timeout_at(until, channel.next()).await {
                Err(_) => return Err("the interpreter gave no answer in time".to_owned()),
                Ok(Next::End) => return Err("the interpreter has ended".to_owned()),
                Ok(Next::Told(told)) if told.nonce == nonce => return Ok(told),
                Ok(Next::Told(_) | Next::Chunk(_)) => {}
            }
        }
    }

    /// Puts a piece of a file into the session, below the home folder, after the cells that were sent before; returns the file's size.
    /// The guard reads what the file is then, and cells together with it.
    ///
    /// # Errors
    /// A report for a path elsewhere, a piece that is too long, a file that the guard refuses, a full disk, and a session that has ended.
    pub async fn put(&self, path: &str, bytes: &[u8], append: bool) -> Result<u64, ErrorReport> {
        let wrong = |why: String, field: &str| ErrorReport::new(Code::InvalidValue, why).field(field);
        let path = files::put_path(path).map_err(|why| wrong(why, "path"))?;
        if bytes.len() > MAX_PUT_BYTES {
            let why = format!(
                "a piece has at most {MAX_PUT_BYTES} bytes, and this one {}; append the rest",
                bytes.len()
            );
            return Err(wrong(why, "content"));
        }
        let mut channel = self.channel.lock().await;
        if let Some(ended) = self.ended() {
            let why = format!("the session has ended: {}; {}", ended.why, next(self.closed.get().copied()));
            return Err(ErrorReport::new(Code::Refused, why).field("session_id"));
        }
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        channel.drop_late();
        self.begin_step(StepKind::Upload, &[path.as_bytes(), b"\0", bytes]);
        let put = self.put_next(&mut channel, path, bytes, append).await;
        self.end_step(if put.is_ok() { Status::Ok } else { Status::Refused }.name());
        put
    }

    async fn put_next(
        &self,
        channel: &mut Channel,
        path: &str,
        bytes: &[u8],
        append: bool,
    ) -> Result<u64, ErrorReport> {
        use base64::Engine as _;
        let staged = self.stage(path, bytes, append).await?;
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        let asked = serde_json::json!({ "op": "put", "path": path, "append": append, "data": data });
        let until = tokio::time::Instant::now() + FILES_TIMEOUT;
        let told = self.ask(channel, asked, until).await;
        if !matches!(&told, Ok(told) if told.value.is_some()) {
            self.uploads.lock().unwrap_or_else(PoisonError::into_inner).undo(&staged);
        }
        match told.map(|told| (told.value.and_then(|size| size.parse().ok()), told.error)) {
            Ok((Some(size), _)) => Ok(size),
            Ok((None, error)) => {
                let why: String = error.unwrap_or_default().chars().take(200).collect();
                Err(ErrorReport::new(Code::Refused, format!("{path} was not written: {why}")).field("path"))
            }
            Err(why) => {
                Err(ErrorReport::new(Code::Refused, format!("{path} was not written: {why}")).field("path"))
            }
        }
    }

    /// Contents of a file that a cell returned, while it is kept.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<Arc<[u8]>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(path)
    }

    /// Paths and sizes of the files that cells returned, while they are kept.
    #[must_use]
    pub fn files(&self) -> Vec<(String, u64)> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).list()
    }

    /// Follows a cell to its result, or to the reason for which the session has to end.
    async fn follow(
        &self,
        channel: &mut Channel,
        (nonce, timeout): (&str, Duration),
        streams: &mut Streams,
        show: &mut (dyn FnMut(Stream, &[u8]) + Send),
    ) -> Result<(Told, Option<Stopped>), Closed> {
        let mut until = tokio::time::Instant::now() + timeout;
        let mut stopped = None;
        loop {
            tokio::select! {
                next = channel.next() => match next {
                    Next::Told(told) if told.nonce == nonce => return Ok((told, stopped)),
                    // Late, or forged.
                    Next::Told(_) => {}
                    Next::Chunk(chunk) => {
                        if stopped.is_none() {
                            streams.take(&chunk, show);
                        } else {
                            streams.take(&chunk, &mut |_, _| {});
                        }
                        if stopped.is_none() && streams.bytes() > MAX_CELL_OUTPUT {
                            stopped = Some(Stopped::Output);
                            until = tokio::time::Instant::now() + INTERRUPT_TIMEOUT;
                            self.interrupt().await;
                        }
                    }
                    Next::End => return Err(Closed::Silent),
                },
                () = tokio::time::sleep_until(until) => {
                    if stopped.is_some() {
                        return Err(Closed::Unheeded);
                    }
                    stopped = Some(Stopped::Deadline(timeout));
                    until = tokio::time::Instant::now() + INTERRUPT_TIMEOUT;
                    self.interrupt().await;
                }
            }
        }
    }

    /// Interrupts the cell that runs; the state stays. Returns whether there was one.
    pub async fn interrupt(&self) -> bool {
        let id = self.running.load(Ordering::SeqCst);
        id != 0 && self.send(&serde_json::json!({ "op": "interrupt", "id": id })).await.is_ok()
    }

    /// Interrupts the cell that runs, and waits for its end for a while.
    pub async fn interrupt_and_wait(&self, most: Duration) -> InterruptResult {
        let id = self.running.load(Ordering::SeqCst);
        if !self.interrupt().await {
            return InterruptResult::Idle;
        }
        let until = Instant::now() + most;
        while self.running.load(Ordering::SeqCst) == id {
            if Instant::now() >= until {
                return InterruptResult::Ignored;
            }
            tokio::time::sleep(INTERRUPT_LOOK).await;
        }
        InterruptResult::Stopped
    }

    /// Ends the session, and waits until its processes are gone and its end was told.
    pub async fn close(&self) {
        self.end(Closed::Asked).await;
        let _ = self.told.clone().wait_for(|told| *told).await;
    }

    /// As [`Session::close`], for a session that takes its place.
    pub(crate) async fn close_for_reset(&self) {
        self.end(Closed::Reset).await;
        let _ = self.told.clone().wait_for(|told| *told).await;
    }

    /// Why it has ended; `None` while it lives.
    #[must_use]
    pub fn ended(&self) -> Option<Arc<Ended>> {
        self.ended.borrow().clone()
    }

    /// Number of cells so far, those that the guard refused included.
    #[must_use]
    pub fn cells(&self) -> u64 {
        self.cells.load(Ordering::Relaxed)
    }

    /// Whether a cell runs.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.running.load(Ordering::SeqCst) != 0
    }

    /// Time since the last cell.
    #[must_use]
    pub fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    async fn send(&self, message: &serde_json::Value) -> std::io::Result<()> {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        let mut writer = self.writer.lock().await;
        // A hostile interpreter reads nothing; without an end the session would wait for it.
        match tokio::time::timeout(START_TIMEOUT, writer.write_all(&line)).await {
            Ok(written) => written,
            Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
        }
    }

    async fn end(&self, closed: Closed) -> Arc<Ended> {
        let mut ended = self.ended.clone();
        let _ = tokio::time::timeout(closed.patience(), ended.wait_for(Option::is_some)).await;
        let _ = self.closed.set(closed);
        self.canceller.cancel();
        match ended.wait_for(Option::is_some).await {
            Ok(state) if state.is_some() => state.clone().unwrap_or_else(nothing_known),
            _ => nothing_known(),
        }
    }

    /// The answer to a cell that has no interpreter any more; `earlier` cells ran before it.
    fn died(&self, number: u64, earlier: u64, ended: &Ended) -> Answer {
        let lost = match earlier {
            0 => String::new(),
            1 => "the variables and files of its earlier cell are lost, and ".to_owned(),
            many => format!("the variables and files of its {many} earlier cells are lost, and "),
        };
        let why = format!("the session has ended: {}; {lost}{}", ended.why, next(self.closed.get().copied()));
        Answer::new(Status::Died, number, Some(why))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.canceller.cancel();
    }
}

fn nothing_known() -> Arc<Ended> {
    Arc::new(Ended { why: "its sandbox is gone".to_owned(), report: None })
}
