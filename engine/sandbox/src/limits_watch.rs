//! Decides which limits a run has reached and which of them ends it. A pure state machine over samples.

use std::time::Duration;

use crate::outcome::{Cause, Evidence, Limit, LimitHit};
use crate::policy::Limits;
use crate::units::Bytes;

/// Sampling interval of the supervisor.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// A limit that denies ends the run when denials go on for this long.
const DENIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// A gap without denials of this length ends a series of them.
const DENIAL_GAP: Duration = Duration::from_millis(300);

/// One sample. `None` where this host cannot measure the value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Time since release.
    pub at: Duration,
    /// Current memory, without scratch.
    pub memory: Option<Bytes>,
    /// CPU time used so far.
    pub cpu: Option<Duration>,
    /// Current number of processes.
    pub processes: Option<u64>,
    /// Number of processes killed by the OOM killer so far.
    pub oom_kills: Option<u64>,
    /// Number of forks refused so far.
    pub fork_failures: Option<u64>,
    /// Usage of scratch.
    pub scratch: Option<Scratch>,
}

/// Usage of scratch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scratch {
    /// Bytes used.
    pub bytes: u64,
    /// Number of files and folders.
    pub files: u64,
    /// Whether no byte is left.
    pub bytes_full: bool,
    /// Whether no inode is left.
    pub files_full: bool,
}

/// Tracks a limit that denies: since when it has been hit without a gap.
#[derive(Clone, Copy, Debug, Default)]
struct Denying {
    since: Option<Duration>,
    last: Duration,
}

impl Denying {
    /// Processes a sample; true when denials went on for too long.
    fn look(&mut self, now: Duration, hit: bool) -> bool {
        if hit {
            self.last = now;
            let since = *self.since.get_or_insert(now);
            return now - since >= DENIAL_TIMEOUT;
        }
        if now.saturating_sub(self.last) > DENIAL_GAP {
            self.since = None;
        }
        false
    }
}

/// Watches the limits of one run.
#[derive(Debug)]
pub struct Watch {
    limits: Limits,
    hits: Vec<LimitHit>,
    forks: Denying,
    bytes: Denying,
    files: Denying,
    fork_failures: u64,
    /// Highest memory sampled.
    pub peak_memory: Option<Bytes>,
    /// Highest number of processes sampled.
    pub peak_processes: Option<u64>,
    /// Last sample of scratch.
    pub scratch: Option<Scratch>,
}

impl Watch {
    /// Starts watching a job's limits.
    pub fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            hits: Vec::new(),
            forks: Denying::default(),
            bytes: Denying::default(),
            files: Denying::default(),
            fork_failures: 0,
            peak_memory: None,
            peak_processes: None,
            scratch: None,
        }
    }

    /// Processes a sample; returns the cause if it ends the run.
    pub fn look(&mut self, seen: Seen) -> Option<Cause> {
        let now = seen.at;
        self.peak_memory = self.peak_memory.max(seen.memory);
        self.peak_processes = self.peak_processes.max(seen.processes);
        let mut cause = None;
        if seen.oom_kills.is_some_and(|n| n > 0) {
            self.hit(Limit::Memory, self.limits.memory.0, now, Evidence::Kernel);
            cause = cause.or(Some(Cause::MemoryLimit));
        }
        if seen.memory.is_some_and(|m| m > self.limits.memory) {
            self.hit(Limit::Memory, self.limits.memory.0, now, Evidence::Sampled);
            cause = cause.or(Some(Cause::MemoryLimit));
        }
        if let (Some(cpu), Some(limit)) = (seen.cpu, self.limits.cpu_time)
            && cpu >= limit
        {
            self.hit(Limit::CpuTime, micros(limit), now, Evidence::Kernel);
            cause = cause.or(Some(Cause::CpuLimit));
        }
        if let Some(failures) = seen.fork_failures {
            let more = failures > self.fork_failures;
            self.fork_failures = failures;
            if more {
                self.hit(Limit::Processes, self.limits.processes.into(), now, Evidence::Kernel);
            }
            if self.forks.look(now, more) {
                cause = cause.or(Some(Cause::ProcessLimit));
            }
        }
        if let Some(scratch) = seen.scratch {
            self.scratch = Some(scratch);
            if scratch.bytes_full {
                self.hit(Limit::Disk, self.limits.disk.0, now, Evidence::Sampled);
            }
            if scratch.files_full {
                self.hit(Limit::Files, self.limits.files, now, Evidence::Sampled);
            }
            if self.bytes.look(now, scratch.bytes_full) {
                cause = cause.or(Some(Cause::DiskLimit));
            }
            if self.files.look(now, scratch.files_full) {
                cause = cause.or(Some(Cause::FileLimit));
            }
        }
        cause
    }

    /// Records that the wall-clock time ran out.
    pub fn wall(&mut self, at: Duration) {
        self.hit(Limit::Wall, micros(self.limits.wall), at, Evidence::Kernel);
    }

    /// Records that too much was printed.
    pub fn output(&mut self, at: Duration) {
        self.hit(Limit::Output, self.limits.output.0, at, Evidence::Kernel);
    }

    /// The hits in order of time, each limit once.
    pub fn into_hits(self) -> Vec<LimitHit> {
        self.hits
    }

    /// Whether this limit was hit.
    pub fn has_hit(&self, limit: Limit) -> bool {
        self.hits.iter().any(|h| h.limit == limit)
    }

    fn hit(&mut self, limit: Limit, value: u64, at: Duration, evidence: Evidence) {
        if !self.has_hit(limit) {
            self.hits.push(LimitHit { limit, value, at_us: micros(at), evidence });
        }
    }
}

/// Converts to microseconds, saturating.
pub fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

/// One line for a person: the limit that ended the run, with its value.
pub fn reason(cause: Cause, limits: &Limits) -> Option<String> {
    use crate::units::format_duration;
    Some(match cause {
        Cause::WallLimit => format!("stopped: time limit {} reached", format_duration(limits.wall)),
        Cause::CpuLimit => {
            format!(
                "stopped: CPU time limit {} reached",
                format_duration(limits.cpu_time.unwrap_or_default())
            )
        }
        Cause::MemoryLimit => format!("stopped: memory limit {} reached", limits.memory),
        Cause::ProcessLimit => {
            format!("stopped: process limit {} reached for over a second", limits.processes)
        }
        Cause::DiskLimit => format!("stopped: disk limit {} reached for over a second", limits.disk),
        Cause::FileLimit => format!("stopped: limit of {} files reached for over a second", limits.files),
        Cause::OutputLimit => format!("stopped: output limit {} reached", limits.output),
        Cause::Cancelled => "stopped: cancelled".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Seen {
        Seen { at: Duration::from_millis(ms), ..Seen::default() }
    }

    #[test]
    fn limits_that_kill_end_the_run_at_once() {
        let limits = Limits::default();
        for (seen, cause) in [
            (Seen { memory: Some(Bytes::mib(513)), ..at(50) }, Some(Cause::MemoryLimit)),
            (Seen { memory: Some(Bytes::mib(512)), ..at(50) }, None),
            (Seen { oom_kills: Some(1), ..at(50) }, Some(Cause::MemoryLimit)),
            (Seen { cpu: Some(Duration::from_secs(60)), ..at(50) }, Some(Cause::CpuLimit)),
            (Seen { cpu: Some(Duration::from_secs(59)), ..at(50) }, None),
        ] {
            assert_eq!(Watch::new(&limits).look(seen), cause, "{seen:?}");
        }
    }

    #[test]
    fn denying_limits_end_run_after_one_second() {
        let full = Scratch { bytes_full: true, ..Scratch::default() };
        let mut watch = Watch::new(&Limits::default());
        for ms in (0..1000).step_by(50) {
            assert_eq!(watch.look(Seen { scratch: Some(full), ..at(ms) }), None, "{ms}");
        }
        assert_eq!(watch.look(Seen { scratch: Some(full), ..at(1000) }), Some(Cause::DiskLimit));
        let hits = watch.into_hits();
        assert_eq!((hits.len(), hits[0].limit, hits[0].at_us), (1, Limit::Disk, 0));
    }

    #[test]
    fn pause_restarts_denial_second() {
        let mut watch = Watch::new(&Limits::default());
        let mut failures = 0;
        for ms in (0..3000).step_by(50) {
            if ms % 1000 < 500 {
                failures += 1;
            }
            assert_eq!(watch.look(Seen { fork_failures: Some(failures), ..at(ms) }), None, "{ms}");
        }
        assert!(watch.has_hit(Limit::Processes));
    }

    #[test]
    fn forks_that_keep_failing_end_the_run() {
        let mut watch = Watch::new(&Limits::default());
        let ended = (0..40u64).find_map(|n| {
            let seen = Seen { fork_failures: Some(n + 1), ..at(n * 50) };
            watch.look(seen).map(|cause| (cause, n * 50))
        });
        assert_eq!(ended, Some((Cause::ProcessLimit, 1000)));
    }
}
