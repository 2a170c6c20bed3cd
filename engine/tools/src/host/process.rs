//! One confined process that runs calls, seen from its parent, which sends it messages and distrusts its
//! answers.

use std::fs::File;
use std::io::Seek;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hotcell_sandbox::{Engine, Outcome, Policy};
use tokio::sync::{Notify, oneshot};

use super::HostsOptions;
use super::checked::check;
use super::link::{Cut, Link};
use super::start::{Ender, Started, epitaph, last};

pub use super::table::End;
use super::table::{Asking, MAX_ASKED_BYTES, State, Table, Underway, Why};
use super::waiting::{Call, Waiting};
use crate::ask::Refused;
use crate::protocol::{
    FromHost, Incoming, MAX_OPEN_QUESTIONS, MAX_QUESTION_BYTES, Setting, ToHost, Violation, longest_answer,
};
use crate::questions::Questions;
use crate::{Answer, Ask, CallError, Limit, LoadError, Reply};

/// Time after a call's own limit for the process to report that it was reached.
const GRACE_PERIOD: Duration = Duration::from_secs(1);

/// A process that runs calls.
pub struct Process {
    link: Arc<Link>,
    stop: Ender,
    table: Mutex<Table>,
    /// Wakes the listener when the process has to end.
    retired: Notify,
    /// Wakes tasks that wait for the process to end.
    buried: Notify,
    longest: AtomicUsize,
    /// Time limit for loading a plugin.
    patience: Duration,
    /// Time that it took until it was ready.
    pub took: Duration,
}

/// The process takes no more calls; another one has to.
#[derive(Debug)]
pub struct Gone;

impl Process {
    /// Starts a process within the options' time limit. It ends when it has been idle.
    ///
    /// # Errors
    /// As [`Started::start`].
    pub async fn start(
        engine: &Engine,
        policy: &Policy,
        options: &HostsOptions,
    ) -> Result<Arc<Self>, LoadError> {
        let HostsOptions { patience, idle, .. } = *options;
        let Started { link, mut incoming, stop, ended, took } =
            Started::start(engine, policy, patience).await?;
        let process = Arc::new(Self {
            link,
            stop,
            table: Mutex::new(Table::new()),
            retired: Notify::new(),
            buried: Notify::new(),
            longest: AtomicUsize::new(MAX_QUESTION_BYTES),
            patience,
            took,
        });
        let listener = Arc::clone(&process);
        tokio::spawn(async move {
            let cut = listener.listen(&mut incoming, idle).await;
            listener.close(&cut);
            let outcome = last(&listener.stop, ended).await;
            listener.bury(outcome.as_ref());
        });
        Ok(process)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the process ended, if it has.
    pub fn ended(&self) -> Option<End> {
        match &self.table().state {
            State::Ended(end) => Some(end.clone()),
            _ => None,
        }
    }

    /// Whether the process takes calls.
    pub fn is_open(&self) -> bool {
        matches!(self.table().state, State::Open)
    }

    /// Whether the process is about to end, so that [`Process::gone`] soon returns.
    pub fn is_ending(&self) -> bool {
        matches!(self.table().state, State::Ending(_))
    }

    /// Number of calls so far.
    pub fn served(&self) -> u64 {
        self.table().served
    }

    /// Takes no more calls; the process ends after the last running one.
    pub fn retire(&self) {
        let mut table = self.table();
        if matches!(table.state, State::Open) {
            table.state = State::Retiring;
        }
        drop(table);
        self.retired.notify_one();
    }

    /// Ends the process now, because something is wrong with it. The first reason counts.
    pub fn kill(&self, why: impl Into<String>) {
        self.end(Why::Failed(why.into()));
    }

    /// Ends the process now, because it is no longer needed.
    pub fn dismiss(&self) {
        self.end(Why::NotNeeded);
    }

    fn end(&self, why: Why) {
        let mut table = self.table();
        if matches!(table.state, State::Open | State::Retiring) {
            table.state = State::Ending(Some(why));
        }
        drop(table);
        self.stop.end();
    }

    /// Records that nothing more can be read from the process.
    fn close(&self, cut: &Cut) {
        let mut table = self.table();
        let done = table.calls.is_empty() && table.loads.is_empty();
        let why = match (&table.state, cut) {
            (State::Ending(_) | State::Ended(_), _) => return,
            (_, Cut::Broken(violation)) => Some(Why::Failed(violation.to_string())),
            (State::Retiring, Cut::Closed) if done => Some(Why::NotNeeded),
            (_, Cut::Closed) => None,
        };
        let known = why.is_some();
        table.state = State::Ending(why);
        drop(table);
        if known {
            self.stop.end();
        }
    }

    /// Waits until the process is gone.
    pub async fn gone(&self) {
        loop {
            let buried = self.buried.notified();
            if self.ended().is_some() {
                return;
            }
            buried.await;
        }
    }

    /// Loads a plugin, and returns its number for calls.
    ///
    /// # Errors
    /// [`Gone`] when the process takes nothing more. The inner error is the process's own [`LoadError`], or
    /// [`LoadError::Host`] when the file cannot be passed on, or the process ended or took too long.
    pub async fn load(
        self: &Arc<Self>,
        setting: &Setting,
        compiled: &File,
    ) -> Result<Result<u64, LoadError>, Gone> {
        let host = |message: &str| LoadError::Host { message: message.to_owned() };
        let copy = || {
            // The process reads from the file offset, which all copies of the descriptor share.
            (&mut &*compiled).rewind()?;
            compiled.try_clone()
        };
        let compiled = match copy() {
            Ok(compiled) => compiled,
            Err(e) => return Ok(Err(host(&format!("a compiled component cannot be passed on: {e}")))),
        };
        let (tell, told) = oneshot::channel();
        let plugin = {
            let mut table = self.table();
            if !matches!(table.state, State::Open) {
                return Err(Gone);
            }
            table.numbers += 1;
            let plugin = table.numbers;
            table.loads.insert(plugin, tell);
            plugin
        };
        self.longest.fetch_max(longest_answer(&setting.limits), Ordering::AcqRel);
        let message = ToHost::Load { plugin, setting: setting.clone() };
        if let Ok(frame) = message.encode() {
            // If sending fails, the process has ended, which answers the load.
            let _ = self.link.send_with(frame, compiled).await;
        }
        Ok(match tokio::time::timeout(self.patience, told).await {
            Ok(told) => told.unwrap_or_else(|_| Err(host("its process was lost"))).map(|()| plugin),
            Err(_) => {
                let why = format!("a component was not loaded within {:?}", self.patience);
                self.kill(why.clone());
                Err(host(&why))
            }
        })
    }

    /// Calls a tool of a loaded plugin. Dropping the future cancels the call.
    ///
    /// # Errors
    /// [`Gone`] when the call was not sent.
    pub async fn call(self: &Arc<Self>, call: Call<'_>) -> Result<Result<Answer, CallError>, Gone> {
        let mut waiting = self.enter(&call)?;
        let frame = match ToHost::call(waiting.number, call.plugin, call.path, call.arguments) {
            Ok(frame) => frame,
            Err(violation) => {
                waiting.forget();
                let message = violation.to_string();
                return Ok(Err(CallError::Arguments { at: String::new(), message }));
            }
        };
        let limit = call.limits.wall.saturating_add(GRACE_PERIOD);
        let answered = async {
            // If sending fails, the process has ended, which answers the call.
            let _ = self.link.send(frame).await;
            waiting.answer().await
        };
        tokio::select! {
            biased;
            answer = answered => return Ok(answer),
            () = call.cancel.cancelled() => {}
            () = tokio::time::sleep(limit) => {
                self.kill(format!("a call went on {} s after its limit", GRACE_PERIOD.as_secs()));
                return Ok(Err(CallError::Limit { limit: Limit::Wall, value: format!("{:?}", call.limits.wall) }));
            }
        }
        Ok(waiting.cancel().await)
    }

    /// Connection to the process.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Marks a call that no caller waits for: its questions are refused from now on.
    pub fn abandon(&self, call: u64) {
        if let Some(underway) = self.table().calls.get_mut(&call) {
            underway.abandoned = true;
        }
    }

    /// Removes a call that was never sent.
    pub fn forget(&self, call: u64) {
        self.table().calls.remove(&call);
    }

    fn enter(self: &Arc<Self>, call: &Call<'_>) -> Result<Waiting, Gone> {
        let (tell, told) = oneshot::channel();
        let mut table = self.table();
        if !matches!(table.state, State::Open) {
            return Err(Gone);
        }
        table.numbers += 1;
        table.served += 1;
        let number = table.numbers;
        let underway = Underway {
            answer: tell,
            broker: Arc::clone(call.broker),
            limits: call.limits.clone(),
            questions: Questions::default(),
            abandoned: false,
        };
        table.calls.insert(number, underway);
        Ok(Waiting { process: Arc::clone(self), number, told: Some(told) })
    }

    /// Listens until the process ends, has to end, or breaks the protocol.
    async fn listen(self: &Arc<Self>, incoming: &mut Incoming, idle: Duration) -> Cut {
        let mut tick = tokio::time::interval((idle / 4).max(Duration::from_millis(5)));
        loop {
            incoming.set_longest(self.longest.load(Ordering::Acquire));
            let received = tokio::select! {
                biased;
                received = self.link.receive(incoming) => received,
                () = self.retired.notified() => {
                    if self.is_done() { return Cut::Closed }
                    continue;
                }
                _ = tick.tick() => {
                    if self.is_idle(idle) { self.retire() }
                    continue;
                }
            };
            let bytes = received.as_ref().map_or(0, |frame| frame.body.len());
            match received.and_then(|frame| FromHost::decode(frame).map_err(Cut::Broken)) {
                Ok(message) => match self.take(message, bytes) {
                    Ok(()) if self.is_done() => return Cut::Closed,
                    Ok(()) => {}
                    Err(violation) => return Cut::Broken(violation),
                },
                Err(cut) => return cut,
            }
        }
    }

    fn is_done(&self) -> bool {
        let table = self.table();
        matches!(table.state, State::Retiring) && table.calls.is_empty() && table.loads.is_empty()
    }

    fn is_idle(&self, idle: Duration) -> bool {
        let table = self.table();
        table.calls.is_empty() && table.loads.is_empty() && table.last.elapsed() > idle
    }

    /// Handles one message, whose sender may be lying.
    fn take(self: &Arc<Self>, message: FromHost, bytes: usize) -> Result<(), Violation> {
        match message {
            FromHost::Done { call, result } => {
                let no_call = || Violation::new(format!("an answer to no call ({call})"));
                let limits = self.table().calls.get(&call).map(|underway| underway.limits.clone());
                let result = check(*result, &limits.ok_or_else(no_call)?)?;
                let mut table = self.table();
                let underway = table.calls.remove(&call).ok_or_else(no_call)?;
                table.last = Instant::now();
                table.drop_asks(|asking| asking.call == call);
                drop(table);
                // The caller may be gone.
                let _ = underway.answer.send(result);
                Ok(())
            }
            FromHost::Asked { ask, call, what } => self.asked(ask, call, what, bytes),
            FromHost::Withdrawn { ask } => self.table().withdraw(ask),
            FromHost::Loaded { plugin } => self.loaded(plugin, Ok(())),
            FromHost::NotLoaded { plugin, error } => self.loaded(plugin, Err(error)),
            FromHost::Ready(_) | FromHost::Compiled { .. } => Err(Violation::new("a message out of place")),
        }
    }

    fn loaded(&self, plugin: u64, how: Result<(), LoadError>) -> Result<(), Violation> {
        let load = self.table().loads.remove(&plugin);
        let load = load.ok_or_else(|| Violation::new(format!("word of no plugin ({plugin})")))?;
        // The caller may be gone.
        let _ = load.send(how);
        Ok(())
    }

    fn asked(self: &Arc<Self>, ask: u64, call: u64, what: Ask, bytes: usize) -> Result<(), Violation> {
        let mut table = self.table();
        let underway = table.calls.get_mut(&call);
        let underway = underway.ok_or_else(|| Violation::new(format!("a question of no call ({call})")))?;
        if !underway.questions.take(&what, &underway.limits) {
            return Err(Violation::new("more questions than a call may ask"));
        }
        let (broker, abandoned) = (Arc::clone(&underway.broker), underway.abandoned);
        if table.asks.len() >= MAX_OPEN_QUESTIONS || table.asks.contains_key(&ask) {
            return Err(Violation::new("too many questions, or one twice"));
        }
        let refusal = if abandoned {
            Some(Refused::Unavailable("the call was cancelled".to_owned()))
        } else if table.asked.saturating_add(bytes) > MAX_ASKED_BYTES {
            Some(Refused::TooMuch(format!("{MAX_ASKED_BYTES} bytes in all open questions")))
        } else {
            None
        };
        let process = Arc::clone(self);
        // The task looks itself up in the table, which is locked until its entry is there.
        let task = tokio::spawn(async move {
            let reply = match refusal {
                Some(why) => Reply::Refused { why },
                None => broker.ask(call, what).await,
            };
            process.reply(ask, reply).await;
        });
        table.ask(ask, Asking { call, bytes, task: task.abort_handle() });
        Ok(())
    }

    async fn reply(self: &Arc<Self>, ask: u64, reply: Reply) {
        let frame = ToHost::Replied { ask, reply }.encode().ok();
        let frame =
            frame.filter(|frame| frame.len() <= MAX_QUESTION_BYTES && self.table().replied(ask, frame.len()));
        let frame = frame.map_or_else(
            || {
                let why = Refused::TooMuch(format!(
                    "a reply of more than {MAX_QUESTION_BYTES} bytes, or {MAX_ASKED_BYTES} in all that were not read"
                ));
                ToHost::Replied { ask, reply: Reply::Refused { why } }.encode()
            },
            Ok,
        );
        if let Ok(frame) = frame {
            // The question stays in the table while its reply waits for its turn, so that unread replies
            // count. It leaves before the first byte, since the next question may follow the last one. If
            // sending fails, the process has ended.
            let _ = self.link.send_if(frame, || self.table().forget_ask(ask).is_some()).await;
        }
    }

    /// Informs all waiting tasks of the end.
    fn bury(&self, outcome: Option<&Outcome>) {
        let mut table = self.table();
        let (clean, why) = match &table.state {
            State::Ending(Some(Why::NotNeeded)) => (true, "it was not needed any more".to_owned()),
            State::Ending(Some(Why::Failed(why))) => (false, why.clone()),
            _ => (false, epitaph(outcome)),
        };
        if !clean {
            tracing::warn!(target: "hotcell_contents", "a tool host ended: {why}");
        }
        table.state = State::Ended(End { clean, why: why.clone(), at: Instant::now() });
        table.drop_asks(|_| true);
        let (calls, loads) = (std::mem::take(&mut table.calls), std::mem::take(&mut table.loads));
        drop(table);
        for underway in calls.into_values() {
            let _ = underway.answer.send(Err(CallError::Host { message: why.clone() }));
        }
        for load in loads.into_values() {
            let _ = load.send(Err(LoadError::Host { message: why.clone() }));
        }
        self.buried.notify_waiters();
    }
}
