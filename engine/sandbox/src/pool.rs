//! A pool of sandboxes made ahead in the background, each used once.
//!
//! The parts of a sandbox (namespaces, root, cgroup, filters, the two waiting processes) depend on its shape
//! alone, so it is prewarmed for shapes that were recently asked for twice. Workspace, descriptors,
//! environment and limits arrive with the job. Where jobs of a shape run an interpreter ([`crate::prime`]),
//! it is started ahead too, and waits inside for its job. Sandboxes are never returned to the pool:
//! everything that a run leaves behind is removed with its sandbox.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::engine::Spawn;
use crate::outcome::Outcome;
use crate::policy::{Policy, Shape, Stdin};
use crate::prime::{self, Prime, Runtime};
use crate::refusal::Refusal;
use crate::running::Running;
use crate::sandbox::Sandbox;
use crate::units::Bytes;
use crate::{BoxFuture, Engine, sources};

/// Back-off for a shape after a sandbox of it could not be made ahead. Meanwhile, a caller who asks for one
/// gets the reason.
const FAILURE_BACKOFF: Duration = Duration::from_secs(5);
/// Back-off after an interpreter could not be started ahead.
const PRIME_BACKOFF: Duration = Duration::from_secs(60);
/// Delay before a taken sandbox is replaced: most runs are over by then, and have the processors to
/// themselves. After a miss, the next sandbox is made at once.
const REFILL_DELAY: Duration = Duration::from_millis(4);
/// Maximum interval between searches for shapes that are no longer used.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Size of a pool, and lifetime of its sandboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Maximum number of idle sandboxes for one shape. Default 4; with 0 none is made ahead.
    pub each: usize,
    /// Maximum number of idle sandboxes for all shapes together. Default 16; at most one for each 64
    /// descriptors of this process.
    pub all: usize,
    /// Memory limit for idle sandboxes: half a megabyte for each, 12 MiB with Python, 48 MiB with Node.
    /// Default 256 MiB.
    pub memory: Bytes,
    /// Time after which a shape that is not asked for loses its sandboxes. Default 60 s.
    pub idle: Duration,
    /// Whether interpreters are started ahead as well. Default true.
    pub prime: bool,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { each: 4, all: 16, memory: Bytes::mib(256), idle: Duration::from_secs(60), prime: true }
    }
}

/// A pool of sandboxes. Cheap to clone; the sandboxes end with the last clone.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Engine,
    options: PoolOptions,
    shelves: Mutex<Shelves>,
    /// Wakes the task that makes sandboxes.
    wanted: Notify,
    served: [AtomicU64; 3],
}

/// Number of runs that a pool has served, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Runs in a sandbox that was ready.
    pub hot: u64,
    /// Runs among these that also got an interpreter that was ready.
    pub primed: u64,
    /// Runs in a sandbox that was made for the run, since none was ready.
    pub cold: u64,
}

#[derive(Debug, Default)]
struct Shelves {
    all: Vec<Shelf>,
    /// Whether a task that makes sandboxes is running.
    tended: bool,
}

impl Shelves {
    /// Whether making a sandbox of this kind failed recently.
    fn is_failing(&self, kind: &Kind, now: Instant) -> bool {
        let failed = self.all.iter().find(|shelf| shelf.kind == *kind).and_then(|shelf| shelf.failed);
        failed.is_some_and(|failed| now.saturating_duration_since(failed) < PRIME_BACKOFF)
    }
}

/// The key of interchangeable sandboxes.
#[derive(Clone, Debug, PartialEq)]
struct Kind {
    shape: Shape,
    /// The interpreter that waits in them.
    prime: Option<Prime>,
    /// Whether jobs mount nothing and have no caller at the other end of a descriptor, so that process 1 has
    /// nothing left to do when the sandboxes are ready.
    direct: bool,
}

impl Kind {
    /// Estimated memory of an idle sandbox. A high estimate, since idle sandboxes are not measured.
    fn cost(&self) -> u64 {
        match self.prime.as_ref().map(|prime| prime.runtime) {
            None => 512 << 10,
            Some(Runtime::Python) => 12 << 20,
            Some(Runtime::Node) => 48 << 20,
        }
    }
}

/// The idle sandboxes of one kind.
#[derive(Debug)]
struct Shelf {
    kind: Kind,
    ready: VecDeque<Sandbox>,
    /// Time of the last request.
    asked: Instant,
    /// Whether there was more than one request: a kind that is asked for once may never be asked for again.
    again: bool,
    /// Whether the last request found no sandbox.
    missed: bool,
    /// Time of the last failure to make one.
    failed: Option<Instant>,
}

impl Pool {
    /// Makes a pool of an engine's sandboxes. It stays empty until the same shape is asked for twice, and is
    /// filled in the background on the runtime on which the first run is spawned.
    #[must_use]
    pub fn new(engine: Engine, options: PoolOptions) -> Self {
        let options = PoolOptions { all: options.all.min(engine.idle()), ..options };
        Self(Arc::new(Inner {
            engine,
            options,
            shelves: Mutex::default(),
            wanted: Notify::new(),
            served: Default::default(),
        }))
    }

    /// The engine that makes the sandboxes.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Number of idle sandboxes, of all shapes.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.0.shelves().all.iter().map(|shelf| shelf.ready.len()).sum()
    }

    /// Number of runs served so far.
    #[must_use]
    pub fn served(&self) -> Served {
        let [plain, primed, cold] = self.0.served.each_ref().map(|count| count.load(Ordering::Relaxed));
        Served { hot: plain + primed, primed, cold }
    }

    /// Like [`Engine::spawn`], but uses a prewarmed sandbox if one is ready.
    ///
    /// # Errors
    /// [`Refusal`] in the same cases as [`Engine::spawn`].
    pub fn spawn<'a>(&'a self, policy: &'a Policy) -> BoxFuture<'a, Result<Running, Refusal>> {
        Box::pin(async move {
            let asked = Instant::now();
            let mut place = Some(self.0.engine.place().await?);
            let found = sources::find(&policy.job)?;
            let shape = sources::shape_for(policy, &found);
            let count = |which: usize| self.0.served[which].fetch_add(1, Ordering::Relaxed);
            if self.0.options.each > 0 {
                let prime = if self.0.options.prime { prime::of(&shape, &policy.job, &found) } else { None };
                // Process 1 holds the program's descriptors until it is next asked for its state, so no
                // caller may be waiting for them to be closed.
                let nobody_waits =
                    matches!(policy.job.stdin, Stdin::Null | Stdin::Bytes(_)) && !policy.job.events;
                let alone = found.is_empty() && nobody_waits;
                let mut kind = Kind { shape, direct: prime.is_none() && alone, prime };
                if kind.prime.is_some() && self.0.shelves().is_failing(&kind, asked) {
                    (kind.prime, kind.direct) = (None, alone);
                }
                if let Some(mut hot) = self.take(&kind, asked) {
                    hot.slot.place = place.take();
                    // A prewarmed sandbox may have failed in the meantime; that says nothing about the next
                    // one, so fall through.
                    let started = hot.start(&policy.job, found).await;
                    // Not earlier: making the next sandbox would take a processor from this run.
                    self.0.wanted.notify_one();
                    if let Ok(running) = started {
                        count(usize::from(kind.prime.is_some()));
                        return Ok(running);
                    }
                }
            }
            count(2);
            let place = match place {
                Some(place) => place,
                None => self.0.engine.place().await?,
            };
            self.0.engine.spawn_asked(policy, asked, place).await
        })
    }

    /// Runs a job to its end. A refusal is also returned as an [`Outcome`].
    pub fn run<'a>(&'a self, policy: &'a Policy) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            match self.spawn(policy).await {
                Ok(running) => running.wait().await,
                Err(refusal) => refusal.into(),
            }
        })
    }

    /// Ends all idle sandboxes.
    pub fn clear(&self) {
        let all = std::mem::take(&mut self.0.shelves().all);
        drop(all);
    }

    /// Takes an idle sandbox if there is one, and records the request for its kind.
    fn take(&self, kind: &Kind, now: Instant) -> Option<Sandbox> {
        let mut shelves = self.0.shelves();
        let at = shelves.all.iter().position(|shelf| shelf.kind == *kind).unwrap_or_else(|| {
            let (kind, ready) = (kind.clone(), VecDeque::new());
            shelves.all.push(Shelf { kind, ready, asked: now, again: false, missed: false, failed: None });
            shelves.all.len() - 1
        });
        let shelf = &mut shelves.all[at];
        (shelf.again, shelf.asked) = (shelf.asked < now, now);
        let mut hot = None;
        while hot.is_none()
            && let Some(next) = shelf.ready.pop_front()
        {
            // A sandbox whose launcher was killed has ended.
            hot = next.is_waiting().then(|| next.asked_at(now));
        }
        shelf.missed = hot.is_none();
        if !std::mem::replace(&mut shelves.tended, true) {
            tokio::spawn(tend(Arc::downgrade(&self.0)));
        }
        drop(shelves);
        if hot.is_none() {
            self.0.wanted.notify_one();
        }
        hot
    }
}

impl Spawn for Pool {
    fn spawn<'a>(&'a self, policy: &'a Policy) -> BoxFuture<'a, Result<Running, Refusal>> {
        Self::spawn(self, policy)
    }
}

impl Inner {
    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chooses the kind to prewarm next, and tells whether its last request was a miss. Makes room by ending
    /// sandboxes of kinds that were asked for longest ago.
    fn next(&self, now: Instant) -> Option<(Kind, bool)> {
        let mut shelves = self.shelves();
        let idle = |shelf: &mut Shelf| now.saturating_duration_since(shelf.asked) < self.options.idle;
        shelves.all.retain_mut(idle);
        shelves.all.sort_by_key(|shelf| std::cmp::Reverse(shelf.asked));
        let paused = |shelf: &Shelf| {
            // No attempt during the back-off: an interpreter that hangs costs seconds each time.
            let pause = if shelf.kind.prime.is_some() { PRIME_BACKOFF } else { FAILURE_BACKOFF };
            shelf.failed.is_some_and(|failed| now.saturating_duration_since(failed) < pause)
        };
        let lacks = |shelf: &Shelf| shelf.again && shelf.ready.len() < self.options.each && !paused(shelf);
        let at = shelves.all.iter().position(lacks)?;
        let cost = shelves.all[at].kind.cost();
        let room = |shelves: &Shelves| {
            let (mut count, mut bytes) = (0, cost);
            for shelf in &shelves.all {
                count += shelf.ready.len();
                bytes += shelf.kind.cost() * shelf.ready.len() as u64;
            }
            count < self.options.all && bytes <= self.options.memory.0
        };
        while !room(&shelves) {
            let older = shelves.all.iter_mut().skip(at + 1).rev().find(|shelf| !shelf.ready.is_empty())?;
            older.ready.pop_front();
        }
        Some((shelves.all[at].kind.clone(), shelves.all[at].missed && shelves.all[at].ready.is_empty()))
    }

    fn put(&self, kind: &Kind, made: Result<Sandbox, Refusal>) {
        let mut shelves = self.shelves();
        // The kind may have been evicted meanwhile.
        let Some(shelf) = shelves.all.iter_mut().find(|shelf| shelf.kind == *kind) else { return };
        match made {
            Ok(sandbox) => shelf.ready.push_back(sandbox),
            Err(refusal) => {
                tracing::debug!("no sandbox could be made ahead: {}", refusal.message);
                shelf.failed = Some(Instant::now());
            }
        }
    }
}

/// Makes sandboxes one after the other, as long as the pool is in use.
async fn tend(pool: Weak<Inner>) {
    let mut calm = false;
    loop {
        let Some(inner) = pool.upgrade() else { return };
        match inner.next(Instant::now()) {
            Some((_, false)) if !calm => {
                calm = true;
                drop(inner);
                tokio::time::sleep(REFILL_DELAY).await;
            }
            Some((kind, _)) => {
                let made = match inner
                    .engine
                    .make(&kind.shape, kind.prime.as_ref(), kind.direct, Instant::now())
                    .await
                {
                    Ok(sandbox) => sandbox.settled().await,
                    Err(refusal) => Err(refusal),
                };
                inner.put(&kind, made);
                calm = false;
            }
            None => {
                let wait = SWEEP_INTERVAL.min(inner.options.idle / 2).max(Duration::from_millis(10));
                let _ = tokio::time::timeout(wait, inner.wanted.notified()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a sandbox is made next for a kind that was asked for twice and whose last failure was this
    /// long ago.
    fn made_next(prime: bool, options: PoolOptions, failed: Option<Duration>) -> bool {
        let policy = Policy::new("python3").args(["-c", "1"]);
        let kind = Kind {
            shape: policy.shape.clone(),
            prime: if prime { prime::of(&policy.shape, &policy.job, &[]) } else { None },
            direct: false,
        };
        assert_eq!(kind.prime.is_some(), prime);
        let begin = Instant::now();
        let now = begin + failed.unwrap_or_default();
        let shelf = Shelf {
            kind,
            ready: VecDeque::new(),
            asked: now,
            again: true,
            missed: false,
            failed: failed.map(|_| begin),
        };
        let shelves = Mutex::new(Shelves { all: vec![shelf], tended: true });
        let inner = Inner {
            engine: Engine::new(),
            options,
            shelves,
            wanted: Notify::new(),
            served: Default::default(),
        };
        inner.next(now).is_some()
    }

    #[test]
    fn pool_backs_off_after_failure() {
        let secs = |s| Some(Duration::from_secs(s));
        for (prime, failed, want) in [
            (false, None, true),
            (false, secs(4), false),
            (false, secs(6), true),
            (true, None, true),
            (true, secs(6), false),
            (true, secs(59), false),
            (true, secs(61), true),
        ] {
            assert_eq!(made_next(prime, PoolOptions::default(), failed), want, "{prime} {failed:?}");
        }
    }

    #[test]
    fn empty_pool_budget_makes_no_sandbox() {
        let all = PoolOptions::default();
        for (options, want) in [
            (all, true),
            (PoolOptions { each: 0, ..all }, false),
            (PoolOptions { all: 0, ..all }, false),
            (PoolOptions { memory: Bytes(0), ..all }, false),
            (PoolOptions { memory: Bytes::mib(11), ..all }, false),
            (PoolOptions { memory: Bytes::mib(12), ..all }, true),
        ] {
            assert_eq!(made_next(true, options, None), want, "{options:?}");
        }
    }
}
