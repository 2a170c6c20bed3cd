//! Number of actions that fit on a machine at once, by processors and memory. Pure.

use hotcell_sandbox::{Bytes, Limits};

/// Unit in which memory is given to actions, in bytes.
pub const UNIT: u64 = 1 << 20;

/// Memory of all actions by default: three quarters of the machine's or of the worker's cgroup, whichever has less. The
/// rest is for the worker, the files that it lays, and the kernel.
#[must_use]
pub fn usual_memory(machine: Option<Bytes>, cgroup: Option<Bytes>) -> Bytes {
    let least = [machine, cgroup].into_iter().flatten().min().unwrap_or(Bytes::mib(2048));
    Bytes(least.0 / 4 * 3)
}

/// Number of actions at once by default: as many as have a processor, and their memory, each; at least one.
#[must_use]
pub fn usual_jobs(processors: usize, memory: Bytes, limits: &Limits) -> usize {
    let each = limits.cpus.filter(|cpus| *cpus > 0.0).unwrap_or(1.0);
    #[expect(clippy::cast_precision_loss, reason = "a number of processors")]
    let mut at = processors as f64 / each;
    let mut by_processors = 0;
    while at >= 1.0 && by_processors < 256 {
        (at, by_processors) = (at - 1.0, by_processors + 1);
    }
    let by_memory = usize::try_from(whole(memory) / need(limits.memory)).unwrap_or(usize::MAX);
    by_processors.min(by_memory).max(1)
}

/// Memory of all actions, in units; rounded down.
#[must_use]
pub fn whole(memory: Bytes) -> u32 {
    u32::try_from(memory.0 / UNIT).unwrap_or(u32::MAX).max(1)
}

/// Memory of one action, in units; rounded up.
#[must_use]
pub fn need(memory: Bytes) -> u32 {
    u32::try_from(memory.0.div_ceil(UNIT)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_fit_by_processors_and_by_memory() {
        for (processors, memory, each, cpus, jobs) in [
            (8, 8192, 512, None, 8),
            (8, 8192, 2048, None, 4),
            (8, 2047, 1024, None, 1),
            (8, 100, 512, None, 1),
            (8, 8192, 512, Some(2.0), 4),
            (2, 8192, 512, Some(4.0), 1),
            (2, 8192, 512, Some(0.5), 4),
            (1000, 1 << 20, 1, None, 256),
        ] {
            let limits = Limits { memory: Bytes::mib(each), cpus, ..Limits::default() };
            let got = usual_jobs(processors, Bytes::mib(memory), &limits);
            assert_eq!(got, jobs, "{processors} processors, {memory} MiB, each {each} MiB and {cpus:?}");
        }
    }

    #[test]
    fn memory_is_that_of_machine_or_cgroup() {
        let mib = |mib: u64| Some(Bytes::mib(mib));
        assert_eq!(usual_memory(mib(8192), None), Bytes::mib(6144));
        assert_eq!(usual_memory(mib(8192), mib(1024)), Bytes::mib(768));
        assert_eq!(usual_memory(None, None), Bytes::mib(1536));
        assert_eq!((need(Bytes(1)), need(Bytes::mib(3)), whole(Bytes(UNIT * 2 - 1))), (1, 3, 1));
    }
}
