//! What the numbers were measured on.

use serde::Serialize;

/// The machine, as far as it explains numbers.
#[derive(Clone, Debug, Serialize)]
pub struct HostRow {
    /// The processor's name.
    pub processor: String,
    /// How many of them.
    pub processors: usize,
    /// The kernel's release.
    pub kernel: String,
    /// `root` or `ordinary`.
    pub user: &'static str,
    /// Runnable tasks, averaged over the last minute, when the run began.
    pub load: f64,
}

/// Looks at this machine.
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
        user: if nix::unistd::geteuid().is_root() { "root" } else { "ordinary" },
        load: read("/proc/loadavg").split(' ').next().and_then(|n| n.parse().ok()).unwrap_or_default(),
    }
}
