//! The long-lived process: this program's end of its streams, and its resource use.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::kinds::Place;
use crate::processes::Children;
use crate::run::surroundings;

/// A process that makes many runs through the library and is never killed.
#[derive(Debug)]
pub struct Service {
    pub pid: i32,
    orders: Option<ChildStdin>,
    reports: BufReader<ChildStdout>,
}

/// Resource use of a process while nothing runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    pub descriptors: u64,
    pub threads: u64,
    /// Resident anonymous memory, in KiB: a leak would make it grow.
    pub memory_kib: u64,
}

impl Service {
    /// Starts the service.
    pub fn start(children: &Children, place: &Place, mark: &str) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["library", mark]);
        surroundings(&mut command, place);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let (pid, mut child) = children.start(&mut command)?;
        let lost = || io::Error::other("the service has no streams");
        let orders = Some(child.stdin.take().ok_or_else(lost)?);
        let reports = BufReader::new(child.stdout.take().ok_or_else(lost)?);
        Ok(Self { pid, orders, reports })
    }

    /// Orders runs.
    pub fn order(&mut self, seed: u64, count: u64) -> io::Result<()> {
        let orders = self.orders.as_mut().ok_or_else(|| io::Error::other("the service was let go"))?;
        writeln!(orders, "{seed} {count}")
    }

    /// Waits for the report of an order.
    pub fn report(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        self.reports.read_line(&mut line)?;
        serde_json::from_str(&line).map_err(|e| io::Error::other(format!("the service said {line:?}: {e}")))
    }

    /// Folders below which it makes cgroups; empty without cgroups.
    pub fn cgroup_folders(report: &Value) -> Vec<PathBuf> {
        let folders = report["cgroup_folders"].as_array().into_iter().flatten();
        folders.filter_map(|folder| folder.as_str().map(PathBuf::from)).collect()
    }

    /// Current resource use.
    pub fn uses(&self) -> Use {
        uses(self.pid)
    }

    /// Closes its input, so that it ends.
    pub fn hang_up(&mut self) {
        self.orders = None;
    }
}

/// Current resource use of a process.
pub fn uses(pid: i32) -> Use {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |fds| fds.count() as u64);
    Use { descriptors, threads: field("Threads:"), memory_kib: field("RssAnon:") }
}

/// Slope in KiB per 1,000 runs, by least squares over `(runs, KiB)`; 0 for fewer than three points.
pub fn slope(points: &[(u64, u64)]) -> f64 {
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    let points: Vec<(f64, f64)> = points.iter().map(|(x, y)| (*x as f64 / 1000.0, *y as f64)).collect();
    if points.len() < 3 {
        return 0.0;
    }
    #[allow(clippy::cast_precision_loss)]
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let above: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let below: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    if below == 0.0 { 0.0 } else { above / below }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_is_fitted() {
        let growing = slope(&[(0, 100), (1000, 110), (2000, 120), (3000, 130)]);
        assert!((growing - 10.0).abs() < 1e-9, "{growing}");
        assert!(slope(&[(0, 5), (10, 5), (20, 5)]).abs() < 1e-9);
        assert!(slope(&[(0, 5), (10, 9)]).abs() < 1e-9);
    }
}
