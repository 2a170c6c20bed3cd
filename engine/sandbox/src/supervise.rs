//! One run, from release to outcome: streams, limits, denials, and the first cause that ends the run.

mod end;
mod room;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hotcell_launcher::wire::{ASK, Step, tell};
use nix::errno::Errno;
use tokio::io::Interest;
use tokio::sync::Notify;
use tokio::time::{Instant as Tick, sleep_until};

use end::{Lost, end, signal_name};
use room::Room;

use crate::cgroup::Group;
use crate::deferred_fd::QUIET_PERIOD;
use crate::denials::{self, Denials, Listener};
use crate::limits_watch::{self, SAMPLE_INTERVAL, Scratch, Seen, Watch, micros};
use crate::names::{self, Asked};
use crate::network::{Serving, SharedProxy, Sockets};
use crate::outcome::{Cause, Layers, Limit, MissingFiles, Mount, Outcome, Timings, Usage};
use crate::plan::OWN_SCRATCH_FILES;
use crate::policy::Limits;
use crate::streams::{self, Streams};
use crate::units::Bytes;
use crate::{socket, sys};

/// Maximum time between a kill and the report of the end.
const LAST_REPORT_TIMEOUT: Duration = Duration::from_millis(1500);
/// The supervisor's handles of a sandbox.
pub struct Ends {
    /// Socket for messages of launcher and init.
    pub control: OwnedFd,
    /// The sandbox's cgroup.
    pub group: Option<Group>,
    /// Layers that were planned.
    pub layers: Layers,
    /// Mounts of the sandbox.
    pub mounts: Vec<Mount>,
    /// Index of the first mount that came with the job.
    pub first_job_mount: usize,
    /// Whether its filter tells of opened paths.
    pub watches: bool,
    /// Without a pid namespace, killing process 1 kills nothing else, so it is asked to end the tree instead.
    pub asks_for_end: bool,
}

/// The supervisor's view of the job.
pub struct Task {
    /// The job's limits.
    pub limits: Limits,
    /// Reading ends of its streams.
    pub streams: streams::Ends,
    /// The program's name, for messages.
    pub program: String,
    /// Start folder of the program, for messages.
    pub folder: String,
    /// Proxy that serves its sockets.
    pub proxy: Option<SharedProxy>,
    /// Time of the request.
    pub asked: Instant,
    /// Time when its launcher was ready.
    pub ready: Instant,
    /// Time when the job was sent.
    pub released: Instant,
    /// Earlier messages of the sandbox; empty if it was made for this run.
    pub heard: Vec<socket::Message>,
    /// CPU time of its cgroup that does not belong to this run.
    pub spent: Duration,
    /// The numbers of the mounts whose changes are wanted, with their paths inside.
    pub collects: Vec<(usize, PathBuf)>,
    /// Descriptors that the program was given: they need not be closed at once.
    pub given: Vec<OwnedFd>,
}

/// A signal to stop a run.
#[derive(Debug, Default)]
pub struct Stop {
    asked: std::sync::atomic::AtomicBool,
    bell: Notify,
}

impl Stop {
    /// Requests the end of the run.
    pub fn stop(&self) {
        self.asked.store(true, Ordering::Release);
        self.bell.notify_one();
    }

    /// Waits for a request to stop.
    pub async fn wait(&self) {
        while !self.asked.load(Ordering::Acquire) {
            self.bell.notified().await;
        }
    }
}

/// The parts of a sandbox that are left when its outcome is known; they are cleaned up after the answer.
pub struct Remains {
    /// Closing this socket makes process 1 end, so it is closed only after the answer is sent.
    pub control: OwnedFd,
    /// The socket that took the job, and descriptors that were passed to the program.
    pub given: Vec<OwnedFd>,
    /// Pidfd of process 1.
    pub pidfd: Option<OwnedFd>,
    /// The sandbox's cgroup.
    pub group: Option<Group>,
    /// The top folder of its scratch.
    pub scratch: Option<std::fs::File>,
}

/// Follows a run to its end.
pub async fn supervise(ends: Ends, task: Task, stop: Arc<Stop>) -> (Outcome, Remains) {
    let mut task = task;
    let heard = std::mem::take(&mut task.heard);
    let mut run = Run::new(ends, task);
    let failed = match run.recall(heard) {
        Ok(()) => run.follow(&stop).await.err(),
        Err(lost) => Some(lost),
    };
    run.finish(failed).await
}

struct Run {
    ends: Ends,
    limits: Limits,
    program: String,
    folder: String,
    times: [Instant; 3],
    spent: Duration,
    given: Vec<OwnedFd>,
    streams: Streams,
    pidfd: Option<OwnedFd>,
    scratch: Option<std::fs::File>,
    denials: Denials,
    proxy: Option<SharedProxy>,
    serving: Option<Box<dyn Serving>>,
    listener: Option<Listener>,
    /// Files that were asked for and missing; `None` where paths are not watched.
    missing: Option<MissingFiles>,
    /// Questions for names, where there is no network.
    asked: Option<Asked>,
    /// Set if the job was sent to the runner directly over this socket: process 1 must then be asked whether
    /// the program runs.
    direct: Option<OwnedFd>,
    watch: Watch,
    cause: Option<Cause>,
    status: Option<i32>,
    init_cpu: Duration,
    init_peak: u64,
    told_use: Option<(Bytes, Duration, u64)>,
    room: Room,
    steps: Vec<(Step, u64)>,
    running: Option<Instant>,
    ended: Option<Instant>,
}

impl Run {
    fn new(ends: Ends, task: Task) -> Self {
        Self {
            ends,
            watch: Watch::new(&task.limits),
            program: task.program,
            folder: task.folder,
            times: [task.asked, task.ready, task.released],
            spent: task.spent,
            given: task.given,
            streams: Streams::new(task.streams, task.limits.capture.0, task.limits.output.0),
            limits: task.limits,
            pidfd: None,
            scratch: None,
            denials: Denials::default(),
            proxy: task.proxy,
            serving: None,
            listener: None,
            missing: None,
            asked: None,
            direct: None,
            cause: None,
            status: None,
            init_cpu: Duration::ZERO,
            init_peak: 0,
            told_use: None,
            room: Room::default(),
            steps: Vec::new(),
            running: None,
            ended: None,
        }
    }

    /// Processes the messages that a prewarmed sandbox sent earlier. Its steps do not count towards this
    /// run's time.
    fn recall(&mut self, heard: Vec<socket::Message>) -> Result<(), Lost> {
        for message in heard {
            self.hear(Some(message))?;
        }
        self.steps.truncate(0);
        Ok(())
    }

    fn released(&self) -> Instant {
        self.times[2]
    }

    /// Follows the run until the program has ended or was killed. Fails for a sandbox that never ran or was
    /// lost.
    async fn follow(&mut self, stop: &Stop) -> Result<(), Lost> {
        // Registered only here: a run may be followed on another runtime than the one that started it.
        let control = self.ends.control.try_clone().map_err(Lost::Io)?;
        let control = sys::readiness(control).map_err(Lost::Io)?;
        let too_much = self.streams.too_much();
        tokio::pin!(too_much);
        let mut look = tokio::time::interval_at(Tick::now() + SAMPLE_INTERVAL, SAMPLE_INTERVAL);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut deadline = Tick::from_std(self.released() + self.limits.wall);
        let mut killed = false;
        let mut quiet = Tick::from_std(self.released() + QUIET_PERIOD);
        let (mut is_quiet, mut asks) = (true, self.direct.is_some());
        loop {
            tokio::select! {
                biased;
                ready = control.readable() => {
                    drop(ready.map_err(Lost::Io)?);
                    match control.try_io(Interest::READABLE, |fd| socket::receive(fd.as_fd())) {
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                        message => if self.hear(message.map_err(Lost::Io)?)? { return Ok(()) },
                    }
                }
                () = sleep_until(quiet), if is_quiet || asks => {
                    is_quiet = false;
                    self.given.clear();
                    self.direct = None;
                    if asks {
                        // A program that has ended has reported that already; ask once more if the socket was
                        // full.
                        let sent = socket::send(self.ends.control.as_fd(), ASK, &[]);
                        let full = [Errno::EAGAIN, Errno::ENOBUFS, Errno::ENOMEM].map(|errno| errno as i32);
                        asks = sent.is_err_and(|e| e.raw_os_error().is_some_and(|errno| full.contains(&errno)));
                        quiet = Tick::now() + QUIET_PERIOD;
                    }
                }
                () = sleep_until(deadline) => {
                    if killed {
                        // Process 1 had enough time to end.
                        return Err(Lost::Silent);
                    }
                    self.watch.wall(self.released().elapsed());
                    self.kill(Cause::WallLimit);
                }
                () = &mut too_much, if self.cause.is_none() => {
                    self.watch.output(self.released().elapsed());
                    self.kill(Cause::OutputLimit);
                }
                () = stop.wait(), if self.cause.is_none() => self.kill(Cause::Cancelled),
                _ = look.tick(), if self.cause.is_none() && self.running.is_some() => {
                    let seen = self.see();
                    if let Some(cause) = self.watch.look(seen) {
                        self.kill(cause);
                    }
                }
                heard = names::answer(self.asked.as_mut()), if !is_quiet => {
                    if !heard && let Some(asked) = self.asked.take() {
                        self.denials.append(asked.into_rows());
                    }
                }
                // Last: events that the program can repeat at will come after those that end it.
                heard = hear_program(self.listener.as_mut(), &mut self.denials, &mut self.streams), if !is_quiet => {
                    if !heard {
                        self.stop_listening();
                    }
                }
            }
            if self.cause.is_some() && !killed {
                killed = true;
                deadline = Tick::now() + LAST_REPORT_TIMEOUT;
            }
            // Neither source of the program consumes tokio's budget: without this call a flood would hold the
            // thread, and with it every timer and every other run.
            tokio::task::consume_budget().await;
        }
    }

    /// Ends the whole tree. The first cause is kept.
    fn kill(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
        if self.ends.asks_for_end {
            let _ = socket::send(self.ends.control.as_fd(), b"end", &[]);
        } else if let Some(pidfd) = &self.pidfd {
            let _ = sys::signal_process(pidfd.as_fd(), nix::libc::SIGKILL);
        }
        if let Some(group) = &self.ends.group {
            group.kill();
        }
    }

    /// Handles a message; returns true when the program has ended.
    fn hear(&mut self, message: Option<socket::Message>) -> Result<bool, Lost> {
        let Some(mut message) = message else {
            // Process 1 ended without a message: it was killed with the sandbox, or by the kernel's OOM
            // killer.
            return if self.cause.is_some() { Ok(true) } else { Err(Lost::Silent) };
        };
        let mut fds = std::mem::take(&mut message.fds).into_iter();
        let said = message.tell().map_err(Lost::Io)?;
        self.steps.extend(said.steps());
        match said.kind {
            tell::BORN => {
                self.pidfd = fds.next();
                let mut sockets: Vec<OwnedFd> = fds.collect();
                if let [_] = sockets.as_slice() {
                    let socket = sockets.pop();
                    let asked = |socket| Asked::new(socket, self.released(), self.limits.cpus);
                    self.asked = socket.map(asked);
                } else if let (Some(proxy), Some(sockets)) =
                    (self.proxy.take(), Sockets::of(sockets.into_iter()))
                {
                    // Without a proxy they are closed here: nothing listens.
                    self.serving = Some(proxy.serve(sockets).map_err(Lost::Io)?);
                }
                // The run was stopped before process 1 existed, when without a cgroup there was nothing to
                // kill.
                if let Some(cause) = self.cause {
                    self.kill(cause);
                }
            }
            tell::READY => {
                let has_listener = said.a == 1;
                if said.b == 1 {
                    // If possible, the job was already sent on this socket. Keep it open: closing it would
                    // take time that the program needs now.
                    self.direct = fds.next();
                }
                let mut rest: Vec<OwnedFd> = fds.collect();
                if has_listener && let Some(listener) = rest.pop() {
                    self.listener =
                        Some(Listener::new(listener, self.released(), self.limits.cpus, self.ends.watches));
                }
                if let Some(scratch) = rest.pop() {
                    self.scratch = Some(scratch.into());
                }
            }
            tell::RUNNING => {
                self.running = Some(instant(said.c));
                let jobs = self.ends.mounts.iter_mut().skip(self.ends.first_job_mount);
                for (number, mount) in jobs.enumerate() {
                    if said.b >> number & 1 == 1 {
                        "copy".clone_into(&mut mount.kind);
                    }
                }
                if let Some(group) = &mut self.ends.group {
                    group.close_join();
                }
            }
            tell::ENDED => {
                self.ended = Some(Instant::now());
                // The start of the program was not reported separately.
                let ran = said.steps().find(|(step, _)| *step == Step::Exec);
                self.running = self.running.or_else(|| ran.map(|(_, at)| instant(at)));
                self.status = Some(i32::try_from(said.a).unwrap_or(0));
                self.init_cpu = Duration::from_micros(said.b);
                self.init_peak = said.c;
                return Ok(true);
            }
            tell::USE => self.told_use = Some((Bytes(said.a), Duration::from_micros(said.b), said.c)),
            tell::FAILED => return Err(Lost::Failed(crate::launcher::failure(said.a, said.b, said.c))),
            _ => {}
        }
        Ok(false)
    }

    /// Takes one sample of the run's resources.
    fn see(&mut self) -> Seen {
        let before = self.see_scratch();
        let mut seen = Seen { at: self.released().elapsed(), ..Seen::default() };
        match self.ends.group.as_ref().map(Group::sample) {
            Some(Ok(sample)) => {
                // Shared memory that is not a file in scratch counts as memory. Scratch is sampled before and
                // after, since files may come or go in between, and the larger value is subtracted.
                seen.scratch = self.see_scratch();
                let files = [before, seen.scratch].into_iter().flatten().map(|s| s.bytes).max().unwrap_or(0);
                let other = sample.shmem.0.saturating_sub(files);
                let memory = Bytes(sample.memory_without_shmem.0.saturating_add(other));
                seen.memory = Some(match (sample.kernel, &self.ends.group) {
                    (Some(kernel), Some(group)) => {
                        self.room.count(group, seen.at, memory, kernel, self.limits.memory, files)
                    }
                    _ => memory,
                });
                seen.cpu = sample.cpu.map(|cpu| cpu.saturating_sub(self.spent));
                // Process 1 is in the cgroup too.
                seen.processes = Some(sample.processes_peak.unwrap_or(sample.processes).saturating_sub(1));
                seen.oom_kills = Some(sample.oom_kills);
                seen.fork_failures = Some(sample.fork_failures);
            }
            Some(Err(error)) => tracing::warn!("the cgroup of a run cannot be read: {error}"),
            None => {
                if let Some((memory, cpu, processes)) = self.told_use {
                    (seen.memory, seen.cpu, seen.processes) = (Some(memory), Some(cpu), Some(processes));
                }
            }
        }
        seen.scratch = seen.scratch.or(before);
        seen
    }

    /// Takes the final sample of a tree that has ended: it holds no memory and has no processes any more.
    fn see_the_end(&mut self) -> Seen {
        let tally = match self.ends.group.as_ref().map(Group::tally) {
            Some(Ok(tally)) => tally,
            // Process 1 has already reported its tally, where it does so, and at its end the time of all
            // processes, which may be more than the last sample.
            _ => {
                let mut seen = self.see();
                if self.ends.group.is_none() && self.status.is_some() {
                    seen.cpu = seen.cpu.max(Some(self.init_cpu));
                }
                return seen;
            }
        };
        Seen {
            at: self.released().elapsed(),
            cpu: tally.cpu.map(|cpu| cpu.saturating_sub(self.spent)),
            // Process 1 is in the cgroup too. Where the kernel records no peak, count the program itself.
            processes: Some(tally.processes_peak.map_or(1, |peak| peak.saturating_sub(1))),
            oom_kills: Some(tally.oom_kills),
            fork_failures: Some(tally.fork_failures),
            scratch: self.see_scratch(),
            ..Seen::default()
        }
    }

    fn see_scratch(&self) -> Option<Scratch> {
        let stat = nix::sys::statvfs::fstatvfs(self.scratch.as_ref()?).ok()?;
        let used = stat.blocks() - stat.blocks_free();
        Some(Scratch {
            bytes: used * stat.fragment_size(),
            files: (stat.files() - stat.files_free()).saturating_sub(OWN_SCRATCH_FILES),
            bytes_full: stat.blocks_free() == 0,
            files_full: stat.files_free() == 0,
        })
    }

    async fn finish(mut self, failed: Option<Lost>) -> (Outcome, Remains) {
        let collecting = Instant::now();
        let mut before = self.cause;
        if failed.is_some() {
            self.kill(Cause::Internal);
        }
        if self.cause.is_some() {
            self.wait_for_the_tree().await;
        }
        // The last sample covers the time between the previous one and the end.
        let seen = self.see_the_end();
        let verdict = self.watch.look(seen);
        let oom = self.watch.has_hit(Limit::Memory);
        let [stdout, stderr] = self.streams.finish().await;
        // Output of a program that ended before any of it was read.
        if self.streams.is_over() && self.cause.is_none() {
            self.watch.output(self.released().elapsed());
            before = Some(Cause::OutputLimit);
        }
        self.stop_listening();
        let refusal = match &failed {
            None => None,
            // The run was being ended: a step that failed then, such as a fork in a cgroup that is being
            // killed, is a consequence.
            Some(_) if before.is_some() => None,
            // The OOM killer killed process 1 as well.
            Some(Lost::Silent) if oom => None,
            Some(lost) => Some(lost.explain(&self.program, &self.folder)),
        };
        let (cause, exit_code, signal) = match (&refusal, before) {
            (Some(refusal), _) => (refusal.cause, None, None),
            (None, Some(cause)) => (cause, None, self.status.and_then(signal_name)),
            (None, None) => end(self.status, verdict, oom),
        };
        let reason =
            refusal.as_ref().map(|r| r.message.clone()).or_else(|| limits_watch::reason(cause, &self.limits));
        let usage = self.usage(&seen);
        let timings = self.timings(collecting);
        let mut denials = std::mem::take(&mut self.denials);
        denials.append(self.asked.take().map(Asked::into_rows).unwrap_or_default());
        let requests = self.serving.as_ref().and_then(|serving| serving.requests());
        denials.append(self.serving.take().map(Serving::finish).unwrap_or_default());
        let mut layers = self.ends.layers;
        if let Some(layer) = refusal.as_ref().and_then(|r| r.layer) {
            let why = refusal.as_ref().map(|r| r.message.clone()).unwrap_or_default();
            layers.states.insert(layer, crate::outcome::LayerState::Unavailable(why));
        }
        let outcome = Outcome {
            exit_code,
            signal,
            stdout,
            stderr,
            usage,
            limits_hit: self.watch.into_hits(),
            denials: denials.into_rows(),
            requests,
            missing: self.missing,
            // The kernel does not report accesses to missing (ENOENT) or read-only (EROFS) files, nor those
            // that Landlock refuses.
            denials_complete: false,
            layers,
            mounts: self.ends.mounts,
            timings_us: timings,
            reason,
            ..Outcome::without_a_run(cause, "")
        };
        let Ends { control, group, .. } = self.ends;
        let mut given = self.given;
        given.extend(self.direct);
        (outcome, Remains { control, given, pidfd: self.pidfd, group, scratch: self.scratch })
    }

    /// Closes the filter's descriptor, and keeps what was heard.
    fn stop_listening(&mut self) {
        if let Some(mut listener) = self.listener.take() {
            self.missing = listener.take_missing();
        }
    }

    /// Waits until the tree has ended. A killed process 1 closes its descriptors before the kernel has ended
    /// the others, but a caller who is told that a run was ended may look for them.
    async fn wait_for_the_tree(&self) {
        let gone = self.pidfd.as_ref().map(|pidfd| pidfd.try_clone().and_then(sys::readiness));
        if let Some(Ok(gone)) = gone {
            let _ = tokio::time::timeout(LAST_REPORT_TIMEOUT, gone.readable()).await;
        }
    }

    fn usage(&self, last: &Seen) -> Usage {
        let cpu = match &self.ends.group {
            Some(_) => last.cpu.or(Some(self.init_cpu)),
            None => Some(self.init_cpu.max(last.cpu.unwrap_or_default())),
        };
        let peak = self.watch.peak_memory.map_or(0, |b| b.0).max(self.init_peak);
        let wall = self.ended.unwrap_or_else(Instant::now) - self.released();
        Usage {
            wall_us: Some(micros(wall)),
            cpu_us: cpu.map(micros),
            peak_memory_bytes: (peak > 0).then_some(peak),
            peak_processes: self.watch.peak_processes.map(|n| n.max(1)),
            disk_bytes: self.watch.scratch.map(|s| s.bytes),
            disk_files: self.watch.scratch.map(|s| s.files),
        }
    }

    fn timings(&self, collecting: Instant) -> Timings {
        let [asked, ready, released] = self.times;
        let ended = self.ended.unwrap_or(collecting);
        let running = self.running.unwrap_or(ended);
        let mut steps = std::collections::BTreeMap::new();
        let mut before = None;
        for (step, at) in &self.steps {
            if let Some(before) = before {
                let us = at.saturating_sub(before) / 1000;
                *steps.entry(format!("{step:?}").to_lowercase()).or_insert(0) += us;
            }
            before = Some(*at);
        }
        Timings {
            queue: micros(ready - asked),
            setup: micros(released.saturating_duration_since(ready)),
            exec: micros(running.saturating_duration_since(released)),
            run: micros(ended.saturating_duration_since(running)),
            collect: micros(collecting.elapsed()),
            teardown: 0,
            total: micros(asked.elapsed()),
            steps,
        }
    }
}

/// Reads one piece of the program's output or answers some of the calls that its filter stops, whichever is
/// ready, at random if both are; false when no more calls will come.
async fn hear_program(listener: Option<&mut Listener>, denials: &mut Denials, streams: &mut Streams) -> bool {
    tokio::select! {
        // False: no process uses the filter any more, or its descriptor cannot be read.
        answered = denials::answer(listener, denials) => matches!(answered, Ok(true)),
        () = streams.read() => true,
    }
}

/// Converts a time reported by process 1, in nanoseconds of the clock that [`Instant`] uses.
fn instant(at: u64) -> Instant {
    let now =
        nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    let ago = now.saturating_sub(Duration::from_nanos(at));
    Instant::now().checked_sub(ago).unwrap_or_else(Instant::now)
}
