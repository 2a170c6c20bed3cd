//! The machine on which the numbers were measured.

use schemars::JsonSchema;
use serde::Serialize;

/// Facts about the machine that help to interpret the numbers.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HostRow {
    /// Name of the processor.
    pub processor: String,
    /// Number of processors.
    pub processors: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// `root` or `ordinary`.
    pub user: String,
    /// Load average of the last minute at the start of the measurement.
    pub load: f64,
}

impl HostRow {
    /// Whether other work is likely to have slowed the measurement.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // a small number
    pub fn is_busy(&self) -> bool {
        self.load > self.processors as f64 / 4.0
    }
}

/// Facts about this machine.
#[must_use]
pub fn look() -> HostRow {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let field = |name: &str| {
        let line = cpus.lines().find(|line| line.starts_with(name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    HostRow {
        processor: field("model name")
            .or_else(|| field("CPU implementer"))
            .unwrap_or_else(|| "unknown".into()),
        processors: std::thread::available_parallelism().map_or(1, Into::into),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        user: if nix::unistd::geteuid().is_root() { "root" } else { "ordinary" }.to_owned(),
        load: read("/proc/loadavg").split(' ').next().and_then(|n| n.parse().ok()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_threshold_is_quarter_of_processors() {
        for (processors, load, busy) in [(2, 0.4, false), (2, 0.6, true), (64, 3.0, false), (1, 4.0, true)] {
            assert_eq!(HostRow { processors, load, ..HostRow::default() }.is_busy(), busy, "{load}");
        }
    }
}
