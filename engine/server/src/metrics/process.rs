//! Statistics of this process from the operating system.

use std::fs;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeValLike;

/// Statistics of this process; unavailable ones are `None`.
#[derive(Debug, Default)]
pub struct Process {
    /// Resident memory, in bytes.
    pub resident: Option<u64>,
    /// Number of open descriptors.
    pub descriptors: Option<u64>,
    /// Limit of open descriptors.
    pub most_descriptors: Option<u64>,
    /// Processor time, in seconds.
    pub cpu: Option<f64>,
}

impl Process {
    /// Current values.
    #[must_use]
    pub fn now() -> Self {
        let resident = fs::read_to_string("/proc/self/status").ok().and_then(|text| resident(&text));
        // One descriptor is the one that reads the folder.
        let descriptors = fs::read_dir("/proc/self/fd").ok().map(|all| all.count().saturating_sub(1) as u64);
        let most_descriptors = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft);
        let cpu = getrusage(UsageWho::RUSAGE_SELF).ok().map(|usage| {
            let spent = usage.user_time() + usage.system_time();
            #[expect(clippy::cast_precision_loss, reason = "microseconds of a process")]
            let micros = spent.num_microseconds() as f64;
            micros / 1e6
        });
        Self { resident, descriptors, most_descriptors, cpu }
    }
}

/// Resident bytes, from the text of `/proc/PID/status`.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read() {
        for (text, want) in [
            ("Name:\tx\nVmRSS:\t    1024 kB\n", Some(1 << 20)),
            ("VmRSS: x kB\n", None),
            ("VmRSS: 1\n", None),
            ("", None),
        ] {
            assert_eq!(resident(text), want, "{text}");
        }
        let now = Process::now();
        assert!(now.resident.is_some_and(|r| r > 0) && now.descriptors.is_some_and(|d| d > 0), "{now:?}");
    }
}
