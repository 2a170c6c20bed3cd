//! Which limits a run has reached and which of them ends it. A pure state machine over samples.

use std::time::Duration;

use crate::outcome::{Cause, Evidence, Limit, LimitHit};
use crate::policy::Limits;
use crate::units::Bytes;

/// How often the supervisor looks.
pub const INTERVAL: Duration = Duration::from_millis(50);
/// A limit that denies ends the run when the denials go on for this long.
const PATIENCE: Duration = Duration::from_secs(1);
/// A gap without a denial that ends a row of them.
const PAUSE: Duration = Duration::from_millis(300);

/// What was seen at one moment. `None` where this host cannot tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Since release.
    pub at: Duration,
    /// Memory now, without scratch.
    pub memory: Option<Bytes>,
    /// CPU time so far.
    pub cpu: Option<Duration>,
    /// Processes now.
    pub processes: Option<u64>,
    /// Processes killed by the kernel for memory, so far.
    pub oom_kills: Option<u64>,
    /// Forks refused so far.
    pub fork_failures: Option<u64>,
    /// Bytes and files in scratch, and whether no more fit.
    pub scratch: Option<Scratch>,
}

/// How full scratch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scratch {
    /// Bytes used.
    pub bytes: u64,
    /// Files and folders.
    pub files: u64,
    /// No byte is left.
    pub bytes_full: bool,
    /// No file is left.
    pub files_full: bool,
}

/// A limit that denies: since when it is being hit without a pause.
#[derive(Clone, Copy, Debug, Default)]
struct Denying {
    since: Option<Duration>,
    last: Duration,
}

impl Denying {
    /// Takes one look; true when the patience is over.
    fn look(&mut self, now: Duration, hit: bool) -> bool {
        if hit {
            self.last = now;
            let since = *self.since.get_or_insert(now);
            return now - since >= PATIENCE;
        }
        if now.saturating_sub(self.last) > PAUSE {
            self.since = None;
        }
        false
    }
}

/// Watches one run.
#[derive(Debug)]
pub struct Watch {
    limits: Limits,
    hits: Vec<LimitHit>,
    forks: Denying,
    bytes: Denying,
    files: Denying,
    fork_failures: u64,
    /// The highest memory seen.
    pub peak_memory: Option<Bytes>,
    /// The most processes seen.
    pub peak_processes: Option<u64>,
    /// The last sight of scratch.
    pub scratch: Option<Scratch>,
}

impl Watch {
    /// Starts with a job's limits.
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

    /// Takes a sample; the cause that ends the run, if one does.
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

    /// Notes that the wall clock ran out.
    pub fn wall(&mut self, at: Duration) {
        self.hit(Limit::Wall, micros(self.limits.wall), at, Evidence::Kernel);
    }

    /// Notes that too much was printed.
    pub fn output(&mut self, at: Duration) {
        self.hit(Limit::Output, self.limits.output.0, at, Evidence::Kernel);
    }

    /// The hits in time order, each limit once.
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

/// Microseconds, saturating.
pub fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

/// One line for a person: which limit ended the run, with its value.
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
    fn limits_that_deny_end_the_run_only_when_it_goes_on_for_a_second() {
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
    fn a_pause_starts_the_second_anew() {
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
