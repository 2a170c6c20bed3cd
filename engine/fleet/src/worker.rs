//! The session with a farm's scheduler: leases come, their actions run, results go.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bazel_remote_apis::build::bazel::remote::execution::v2::ActionResult;
use bazel_remote_apis::google::rpc;
use tempfile::TempDir;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::address::Address;
use crate::bots::{
    BOT_OK, BOT_TERMINATING, BotSession, Bots, CreateBotSessionRequest, Device, Lease, Pair,
    UpdateBotSessionRequest, Worker,
};
use crate::error::{FleetError, Kind};
use crate::leases::{Held, report, step};
use crate::meter::Meter;
use crate::perform::Performer;
use crate::wire::{self, Channel, now, pack, status};

/// Time limit of one question for leases; the server waits for most of it.
const POLL_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of such a question while actions run: BuildGrid tells of a cancelled lease only in its answer to the next question, and it
/// answers after four fifths of the limit, if those are 3 s.
const BUSY_POLL_TIMEOUT: Duration = Duration::from_secs(5);
/// Minimum time limit of such a question: a server answers a second before it.
const MIN_POLL: Duration = Duration::from_secs(2);
/// Time limit of the last message of a session.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time between two signs of life while actions run; cancelled leases are noticed by them.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time between two questions to a server that does not wait.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// First pause after a failed call; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Maximum pause after a failed call.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Time without an answer after which running actions are ended, when the server did not say when the session ends.
const DEFAULT_LEASE: Duration = Duration::from_secs(60);

/// A worker.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Farm.
    pub address: Address,
    /// Name, unique in the farm.
    pub name: String,
    /// Maximum number of actions at once.
    pub jobs: usize,
    /// Counts for the operator.
    pub meter: Arc<Meter>,
}

/// An event, for the operator.
#[derive(Clone, Debug)]
pub enum Event {
    /// A session began.
    Connected,
    /// An action was started, by its lease.
    Started(String),
    /// An action ended: its lease, true if it has a result, and the message of its status.
    Ended(String, bool, String),
    /// The farm took a lease back.
    TakenBack(String),
    /// The farm does not answer, for this reason. Told once for each reason.
    Unanswered(String),
    /// The farm answers again.
    Answered,
    /// No more leases are taken.
    Draining(usize),
}

/// Result of a task: lease, status, result, and the place of its files.
type Ended = (String, rpc::Status, Option<ActionResult>, Place);
/// Place of an action's files, and the permission to have one.
type Place = (Option<TempDir>, Option<OwnedSemaphorePermit>);
/// Maximum number of places for each slot: that of the action, and that of one before, which is removed meanwhile.
const PLACES: usize = 2;

struct Session<'a> {
    options: &'a WorkerOptions,
    bots: Bots,
    name: String,
    version: String,
    lease: Duration,
    held: BTreeMap<String, Held>,
    tokens: BTreeMap<String, CancellationToken>,
    tasks: JoinSet<Ended>,
    places: Arc<Semaphore>,
    /// Removals of the places of actions that have ended.
    removals: JoinSet<()>,
    draining: bool,
}

/// Serves a farm until `drain` resolves and its actions have ended; `hurry` ends them at once.
///
/// # Errors
/// [`FleetError`] when the farm refuses the worker.
pub async fn work(
    options: &WorkerOptions,
    channel: Channel,
    performer: Arc<Performer>,
    (drain, hurry): (impl Future<Output = ()>, impl Future<Output = ()>),
    say: &mut dyn FnMut(Event),
) -> Result<(), FleetError> {
    let mut session = Session {
        options,
        bots: Bots::new(channel),
        name: String::new(),
        version: String::new(),
        lease: DEFAULT_LEASE,
        held: BTreeMap::new(),
        tokens: BTreeMap::new(),
        tasks: JoinSet::new(),
        places: Arc::new(Semaphore::new(options.jobs.saturating_mul(PLACES).min(Semaphore::MAX_PERMITS))),
        removals: JoinSet::new(),
        draining: false,
    };
    let (mut drain, mut hurry) = (std::pin::pin!(drain), std::pin::pin!(hurry));
    let (mut heard, mut pause, mut hurried) = (Instant::now(), FIRST_PAUSE, false);
    // Why the farm did not answer, as it was told: a farm that is away for a night is one line.
    let mut unanswered = String::new();
    // Time until the next call; the pauses after it end at once when something happens here.
    let mut wait = Duration::ZERO;
    loop {
        if session.draining && session.held.is_empty() && session.tasks.is_empty() {
            session.farewell().await;
            while session.removals.join_next().await.is_some() {}
            return Ok(());
        }
        let sent: Vec<String> = session.held.keys().cloned().collect();
        let asked = Instant::now();
        let call = session.call(wait);
        let answer = tokio::select! {
            answer = call => answer,
            Some(ended) = session.tasks.join_next() => {
                let (id, status, result, place) = ended.map_err(|e| FleetError::host(format!("an action's task: {e}")))?;
                session.remove(place);
                let exit_code = result.as_ref().map(|result| result.exit_code);
                options.meter.ended(&id, Code::from(status.code), exit_code);
                say(Event::Ended(id.clone(), result.is_some(), status.message.clone()));
                session.ended(id, status, result);
                wait = Duration::ZERO;
                continue;
            }
            () = &mut drain, if !session.draining => {
                session.draining = true;
                options.meter.drains();
                say(Event::Draining(session.tasks.len()));
                wait = Duration::ZERO;
                continue;
            }
            () = &mut hurry, if session.draining && !hurried => {
                hurried = true;
                session.tokens.values().for_each(CancellationToken::cancel);
                continue;
            }
        };
        match answer {
            Ok(told) => {
                let was_away = !std::mem::take(&mut unanswered).is_empty();
                if session.name.is_empty() {
                    say(Event::Connected);
                } else if was_away {
                    say(Event::Answered);
                }
                options.meter.answered();
                (heard, pause) = (Instant::now(), FIRST_PAUSE);
                let told = session.told(told, &sent, &performer, say);
                let waited = asked.elapsed().saturating_sub(wait);
                wait = pause_after(told, waited, session.lease);
            }
            Err(status) if status.code() == Code::DeadlineExceeded && !session.name.is_empty() => {
                wait = MIN_INTERVAL;
            }
            Err(status) => {
                let error = wire::failed(&options.address.server, "the worker's session", &status);
                let is_over = error.kind != Kind::Unreachable;
                if is_over && session.name.is_empty() {
                    session.tokens.values().for_each(CancellationToken::cancel);
                    return Err(error);
                }
                if error.message != unanswered {
                    unanswered.clone_from(&error.message);
                    say(Event::Unanswered(error.message));
                }
                // The farm has given these leases to others by now.
                if is_over || heard.elapsed() > session.lease {
                    session.lose();
                }
                wait = pause;
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
    }
}

/// Time limit of a question for leases: a sign of life is due below half of the lease, also where the server waits.
/// The next one while actions run asks for those that were cancelled.
fn poll_timeout(lease: Duration, is_busy: bool) -> Duration {
    (lease / 2).clamp(MIN_POLL, if is_busy { BUSY_POLL_TIMEOUT } else { POLL_TIMEOUT })
}

/// Length of a lease that ends at this time of the farm's clock, from which this machine's may differ by any amount: two seconds at least, an hour at most.
fn lease(ends: i64, now: i64) -> Duration {
    Duration::from_secs(u64::try_from(ends.saturating_sub(now)).unwrap_or(0).clamp(2, 3600))
}

/// News of a farm's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    /// A lease was refused, which is to be reported.
    refused: bool,
    /// An action was started.
    started: bool,
    /// A result was taken by the farm.
    taken: bool,
    /// The worker has room for another action.
    room: bool,
}

/// Pause before the next question, after an answer for which the server waited this long.
fn pause_after(told: Told, waited: Duration, lease: Duration) -> Duration {
    let Told { refused, started, taken, room } = told;
    if refused || (room && (started || taken)) {
        Duration::ZERO
    } else if started || taken || waited >= MAX_INTERVAL {
        // A full worker has no question: an action that ends at once is reported with its result, and not before.
        MIN_INTERVAL
    } else {
        interval(lease)
    }
}

/// Time until the next sign of life to a server that does not wait: a third of the lease, at most a second.
fn interval(lease: Duration) -> Duration {
    (lease / 3).clamp(MIN_INTERVAL, MAX_INTERVAL)
}

impl Session<'_> {
    fn message(&self) -> BotSession {
        let pair = |key: &str, value: &str| Pair { key: key.to_owned(), value: value.to_owned() };
        let isa = std::env::consts::ARCH.replace('_', "-");
        let device = Device {
            handle: self.options.name.clone(),
            properties: vec![pair("OSFamily", "linux"), pair("ISA", &isa), pair("os", "linux")],
        };
        let worker = Worker {
            devices: vec![device],
            properties: Vec::new(),
            configs: vec![pair("capacity", &self.options.jobs.to_string())],
        };
        BotSession {
            name: self.name.clone(),
            bot_id: self.options.name.clone(),
            status: if self.draining { BOT_TERMINATING } else { BOT_OK },
            worker: Some(worker),
            leases: report(&self.held),
            expire_time: None,
            version: self.version.clone(),
        }
    }

    /// Begins or updates the session after a pause.
    fn call(
        &self,
        wait: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<BotSession, Status>> + Send + 'static>> {
        let (bots, message, parent) =
            (self.bots.clone(), self.message(), self.options.address.instance.clone());
        let limit = poll_timeout(self.lease, !self.tasks.is_empty());
        Box::pin(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            if message.name.is_empty() {
                let request = CreateBotSessionRequest { parent, bot_session: Some(message) };
                return bots.create(request, POLL_TIMEOUT).await;
            }
            let request = UpdateBotSessionRequest { name: message.name.clone(), bot_session: Some(message) };
            bots.update(request, limit).await
        })
    }

    /// Applies the farm's answer.
    fn told(
        &mut self,
        told: BotSession,
        sent: &[String],
        performer: &Arc<Performer>,
        say: &mut dyn FnMut(Event),
    ) -> Told {
        if let Some(expires) = &told.expire_time {
            self.lease = lease(expires.seconds, now().seconds);
        }
        (self.name, self.version) = (told.name, told.version);
        let room = if self.draining { 0 } else { self.options.jobs.saturating_sub(self.tasks.len()) };
        let step = step(&told.leases, &self.held, sent, room);
        for id in &step.forget {
            self.held.remove(id);
        }
        for id in step.stop {
            self.held.remove(&id);
            if let Some(token) = self.tokens.get(&id) {
                token.cancel();
            }
            self.options.meter.taken_back();
            say(Event::TakenBack(id));
        }
        let mut news = Told {
            refused: !step.refuse.is_empty(),
            started: !step.start.is_empty(),
            taken: !step.forget.is_empty(),
            room: false,
        };
        for lease in step.refuse {
            let why = "this worker takes no more actions now";
            let done = Lease { status: Some(status(Code::Unavailable, why)), ..lease };
            self.held.insert(done.id.clone(), Held::Done(done));
        }
        for lease in step.start {
            let (id, token, performer) = (lease.id.clone(), CancellationToken::new(), performer.clone());
            self.tokens.insert(id.clone(), token.clone());
            self.options.meter.begun(&id);
            say(Event::Started(id.clone()));
            let payload = lease.payload.clone();
            self.held.insert(id.clone(), Held::Running(lease));
            let places = self.places.clone();
            self.tasks.spawn(async move {
                let permit = places.acquire_owned().await.ok();
                let (status, result, place) = performer.perform(payload.as_ref(), &token).await;
                (id, status, result, (place, permit))
            });
        }
        news.room = !self.draining && self.tasks.len() < self.options.jobs;
        news
    }

    /// Removes the place of an action that has ended, while its result goes to the farm.
    fn remove(&mut self, (place, permit): Place) {
        while self.removals.try_join_next().is_some() {}
        if let Some(place) = place {
            self.removals.spawn_blocking(move || {
                drop(place);
                drop(permit);
            });
        }
    }

    /// Takes the result of a task; one of a lease that was taken back is dropped.
    fn ended(&mut self, id: String, status: rpc::Status, result: Option<ActionResult>) {
        self.tokens.remove(&id);
        if let Some(Held::Running(lease)) = self.held.get(&id) {
            let result = result.map(|result| pack("build.bazel.remote.execution.v2.ActionResult", &result));
            let done = Lease { status: Some(status), result, ..lease.clone() };
            self.held.insert(id, Held::Done(done));
        }
    }

    /// Gives up the session: its actions are ended.
    fn lose(&mut self) {
        self.tokens.values().for_each(CancellationToken::cancel);
        self.held.clear();
        self.name.clear();
        self.version.clear();
    }

    /// Tells the farm that the worker ends.
    async fn farewell(&self) {
        if !self.name.is_empty() {
            let request =
                UpdateBotSessionRequest { name: self.name.clone(), bot_session: Some(self.message()) };
            let _ = self.bots.update(request, FAREWELL_TIMEOUT).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_come_below_half_of_the_lease() {
        for seconds in [2, 3, 5, 10, 30, 60, 600, 3600] {
            let lease = Duration::from_secs(seconds);
            assert!(interval(lease) < lease / 2, "{seconds}");
            for is_busy in [false, true] {
                assert!(poll_timeout(lease, is_busy) <= (lease / 2).max(MIN_POLL), "{seconds}");
            }
            assert!(poll_timeout(lease, true) <= BUSY_POLL_TIMEOUT, "{seconds}");
        }
        assert_eq!(poll_timeout(DEFAULT_LEASE, false), POLL_TIMEOUT);
    }

    #[test]
    fn results_are_followed_by_a_question_and_starts_of_a_full_worker_are_not() {
        let lease = Duration::from_secs(10);
        let (none, long) = (Duration::ZERO, Duration::from_secs(8));
        let (old, free) = (Told::default(), Told { room: true, ..Told::default() });
        for (told, waited, want) in [
            (Told { taken: true, ..free }, none, none),
            (Told { taken: true, ..old }, none, MIN_INTERVAL),
            (Told { started: true, ..free }, none, none),
            (Told { started: true, ..old }, none, MIN_INTERVAL),
            (Told { started: true, taken: true, ..free }, none, none),
            (Told { started: true, taken: true, ..old }, none, MIN_INTERVAL),
            (Told { started: true, refused: true, ..old }, none, none),
            (Told { refused: true, ..old }, long, none),
            (free, none, MAX_INTERVAL),
            (old, none, MAX_INTERVAL),
            (free, long, MIN_INTERVAL),
            (old, long, MIN_INTERVAL),
        ] {
            assert_eq!(pause_after(told, waited, lease), want, "{told:?} {waited:?}");
        }
    }

    #[test]
    fn clocks_that_differ_make_a_short_or_a_long_lease() {
        let now = 1_800_000_000;
        for (ends, want) in [
            (now + 60, 60),
            (now + 1, 2),
            (now, 2),
            (now - 7200, 2),
            (now + 7200, 3600),
            (0, 2),
            (i64::MAX, 3600),
            (i64::MIN, 2),
        ] {
            assert_eq!(lease(ends, now), Duration::from_secs(want), "{ends}");
        }
        assert_eq!(lease(i64::MAX, i64::MIN), Duration::from_secs(3600));
    }
}
