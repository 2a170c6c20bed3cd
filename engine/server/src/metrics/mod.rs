//! Metrics of a service for its operator: counts and durations, never contents.
//!
//! A label is a word of hotcell's own, or the name of a tool that the operator installed; text from callers
//! never becomes a label.

pub mod process;
pub mod state;
pub mod text;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use hotcell_guard::Verdict;
use hotcell_guard::quarantine::State as ItemState;
use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;

use process::Process;
use text::{Family, Kind, Sample, number};

/// Name, kind and description of a metric. The operator's chapter lists them, too.
pub type About = (&'static str, Kind, &'static str);

/// All metrics, in order of output.
pub const ALL: [About; 24] = [
    ("hotcell_build_info", Kind::Gauge, "Always 1; the version is a label."),
    ("hotcell_runs_total", Kind::Counter, "Runs that ended, by cause."),
    (
        "hotcell_run_seconds",
        Kind::Histogram,
        "Time from the start of a run to its end, in seconds; waiting does not count.",
    ),
    ("hotcell_runs_running", Kind::Gauge, "Runs that run now."),
    ("hotcell_runs_queued", Kind::Gauge, "Runs that wait for their turn."),
    ("hotcell_runs_remembered", Kind::Gauge, "Runs that ended and are remembered."),
    ("hotcell_denials_total", Kind::Counter, "Kinds of things that sandboxes denied to runs."),
    ("hotcell_guard_verdicts_total", Kind::Counter, "Verdicts of the guard over what was to run."),
    (
        "hotcell_sandboxes_served_total",
        Kind::Counter,
        "Sandboxes that runs got: hot, primed (hot with an interpreter), cold.",
    ),
    ("hotcell_sandboxes_ready", Kind::Gauge, "Sandboxes that are ready now."),
    ("hotcell_tool_calls_total", Kind::Counter, "Calls of tools, by tool and result."),
    (
        "hotcell_tool_host_failures_total",
        Kind::Counter,
        "Processes of plugins that failed; each is started again when it is needed.",
    ),
    ("hotcell_approvals_pending", Kind::Gauge, "Approvals that wait for a person."),
    ("hotcell_quarantine_items", Kind::Gauge, "Items of the quarantine, by state."),
    ("hotcell_http_responses_total", Kind::Counter, "Responses over HTTP, by class of status."),
    ("hotcell_config_reloads_total", Kind::Counter, "Configurations that were read again, by result."),
    (
        "hotcell_config_last_reload_timestamp_seconds",
        Kind::Gauge,
        "When the configuration in force was read, in seconds since 1970.",
    ),
    (
        "hotcell_state_unreadable",
        Kind::Gauge,
        "1 when the numbers of approvals and quarantine could not be read.",
    ),
    ("process_resident_memory_bytes", Kind::Gauge, "Resident memory of the service itself, in bytes."),
    ("process_open_fds", Kind::Gauge, "Open descriptors of the service itself."),
    ("process_max_fds", Kind::Gauge, "How many descriptors it may have."),
    ("process_cpu_seconds_total", Kind::Counter, "Processor time of the service itself, in seconds."),
    ("process_start_time_seconds", Kind::Gauge, "When it started, in seconds since 1970."),
    ("hotcell_uptime_seconds", Kind::Gauge, "How long it runs, in seconds."),
];

/// Upper bounds of the buckets, in seconds.
const BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];

/// Causes and their names, in declaration order.
const CAUSES: [(Cause, &str); 15] = [
    (Cause::Exited, "exited"),
    (Cause::Signaled, "signaled"),
    (Cause::WallLimit, "wall_limit"),
    (Cause::CpuLimit, "cpu_limit"),
    (Cause::MemoryLimit, "memory_limit"),
    (Cause::ProcessLimit, "process_limit"),
    (Cause::DiskLimit, "disk_limit"),
    (Cause::FileLimit, "file_limit"),
    (Cause::OutputLimit, "output_limit"),
    (Cause::Cancelled, "cancelled"),
    (Cause::Quarantined, "quarantined"),
    (Cause::Refused, "refused"),
    (Cause::NotFound, "not_found"),
    (Cause::NotExecutable, "not_executable"),
    (Cause::Internal, "internal"),
];

const VERDICTS: [Verdict; 4] = [Verdict::Allow, Verdict::Review, Verdict::Incomplete, Verdict::Quarantine];
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// Maximum number of tools counted by name; further ones are `other`.
const MAX_TOOLS: usize = 512;
/// Labels for tools that do not exist, and for tools beyond the maximum.
const NO_TOOL: [&str; 2] = ["unknown", "other"];

/// Result of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Called {
    /// The call succeeded.
    Ok,
    /// The call returned an error.
    Error,
}

impl Called {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
        }
    }
}

/// Counters of a service.
#[derive(Debug)]
pub struct Metrics {
    started: SystemTime,
    runs: [AtomicU64; CAUSES.len()],
    buckets: [AtomicU64; BUCKETS.len()],
    run_count: AtomicU64,
    run_micros: AtomicU64,
    denials: AtomicU64,
    verdicts: [AtomicU64; VERDICTS.len()],
    tools: Mutex<BTreeMap<(String, Called), u64>>,
    responses: [AtomicU64; CLASSES.len()],
    reloads: [AtomicU64; 2],
    /// Time when the configuration in force was read, in seconds since 1970.
    configured: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        let started = SystemTime::now();
        Self {
            started,
            runs: Default::default(),
            buckets: Default::default(),
            run_count: AtomicU64::new(0),
            run_micros: AtomicU64::new(0),
            denials: AtomicU64::new(0),
            verdicts: Default::default(),
            tools: Mutex::default(),
            responses: Default::default(),
            reloads: Default::default(),
            configured: AtomicU64::new(since_1970(started).as_secs()),
        }
    }
}

/// Values that are collected when metrics are requested.
#[derive(Clone, Debug, Default)]
pub struct Now {
    /// Runs: running, queued, remembered.
    pub runs: [usize; 3],
    /// Sandboxes given to runs: hot, of these primed, cold.
    pub served: [u64; 3],
    /// Idle sandboxes.
    pub ready: usize,
    /// Failed processes of plugins; `None` without plugins.
    pub host_failures: Option<u64>,
    /// Pending approvals, and quarantine items by state; `None` when they cannot be read.
    pub state: Option<(u64, Vec<(ItemState, u64)>)>,
}

fn one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "counts are told as floating point numbers")]
fn float(count: u64) -> f64 {
    count as f64
}

impl Metrics {
    /// Counts a finished run; `took` is its duration, if it started.
    pub fn run_ended(&self, outcome: &RunReport, took: Option<Duration>) {
        if let Some(at) = CAUSES.iter().position(|(cause, _)| *cause == outcome.cause) {
            one(&self.runs[at]);
        }
        self.denials.fetch_add(outcome.denials.len() as u64, Ordering::Relaxed);
        let verdict = outcome.scan.as_ref().and_then(|scan| scan.get("verdict")?.as_str());
        if let Some(at) = VERDICTS.iter().position(|v| Some(v.name()) == verdict) {
            one(&self.verdicts[at]);
        }
        let Some(took) = took else { return };
        one(&self.run_count);
        self.run_micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(0), Ordering::Relaxed);
        if let Some(at) = BUCKETS.iter().position(|bound| took.as_secs_f64() <= *bound) {
            one(&self.buckets[at]);
        }
    }

    /// Counts a tool call. `None` means a name that no tool has.
    pub fn called(&self, tool: Option<&str>, how: Called) {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let [unknown, other] = NO_TOOL;
        let mut key = (tool.unwrap_or(unknown).to_owned(), how);
        if tool.is_some() && tools.len() >= MAX_TOOLS && !tools.contains_key(&key) {
            other.clone_into(&mut key.0);
        }
        *tools.entry(key).or_default() += 1;
    }

    /// Counts an HTTP response.
    pub fn responded(&self, status: u16) {
        if let Some(class) = usize::from(status / 100).checked_sub(1).and_then(|at| self.responses.get(at)) {
            one(class);
        }
    }

    /// Counts a reload of the configuration; `well` is true when the new one is in force.
    pub fn reloaded(&self, well: bool) {
        one(&self.reloads[usize::from(!well)]);
        if well {
            self.configured.store(since_1970(SystemTime::now()).as_secs(), Ordering::Relaxed);
        }
    }

    /// All metrics, for [`text::render`].
    #[must_use]
    pub fn families(&self, now: &Now) -> Vec<Family> {
        let process = Process::now();
        ALL.iter()
            .map(|&(name, kind, help)| Family {
                name,
                help,
                kind,
                samples: self.samples(name, now, &process),
            })
            .collect()
    }

    fn samples(&self, name: &str, now: &Now, process: &Process) -> Vec<Sample> {
        let plain = |value: f64| vec![Sample::new(Vec::new(), value)];
        let maybe = |value: Option<u64>| value.map_or_else(Vec::new, |value| plain(float(value)));
        let load = |counter: &AtomicU64| float(counter.load(Ordering::Relaxed));
        let by = |label: &'static str, all: &[(&str, f64)]| -> Vec<Sample> {
            all.iter().map(|(name, n)| Sample::new(vec![(label, (*name).to_owned())], *n)).collect()
        };
        match name {
            "hotcell_build_info" => {
                vec![Sample::new(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1.0)]
            }
            "hotcell_runs_total" => {
                let all: Vec<_> = CAUSES.iter().zip(&self.runs).map(|((_, n), c)| (*n, load(c))).collect();
                by("cause", &all)
            }
            "hotcell_run_seconds" => self.histogram(),
            "hotcell_runs_running" => plain(float(now.runs[0] as u64)),
            "hotcell_runs_queued" => plain(float(now.runs[1] as u64)),
            "hotcell_runs_remembered" => plain(float(now.runs[2] as u64)),
            "hotcell_denials_total" => plain(load(&self.denials)),
            "hotcell_guard_verdicts_total" => {
                let all: Vec<_> =
                    VERDICTS.iter().zip(&self.verdicts).map(|(v, c)| (v.name(), load(c))).collect();
                by("verdict", &all)
            }
            "hotcell_sandboxes_served_total" => {
                let [hot, primed, cold] = now.served.map(float);
                by("how", &[("hot", hot - primed), ("primed", primed), ("cold", cold)])
            }
            "hotcell_sandboxes_ready" => plain(float(now.ready as u64)),
            "hotcell_tool_calls_total" => {
                let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
                let sample = |((tool, how), count): (&(String, Called), &u64)| {
                    Sample::new(
                        vec![("tool", tool.clone()), ("result", how.name().to_owned())],
                        float(*count),
                    )
                };
                tools.iter().map(sample).collect()
            }
            "hotcell_tool_host_failures_total" => maybe(now.host_failures),
            "hotcell_approvals_pending" => maybe(now.state.as_ref().map(|(pending, _)| *pending)),
            "hotcell_quarantine_items" => {
                let Some((_, items)) = &now.state else { return Vec::new() };
                let all: Vec<_> = items.iter().map(|(state, n)| (state.name(), float(*n))).collect();
                by("state", &all)
            }
            "hotcell_http_responses_total" => {
                let all: Vec<_> = CLASSES.iter().zip(&self.responses).map(|(n, c)| (*n, load(c))).collect();
                by("class", &all)
            }
            "hotcell_config_reloads_total" => {
                by("result", &[("ok", load(&self.reloads[0])), ("error", load(&self.reloads[1]))])
            }
            "hotcell_config_last_reload_timestamp_seconds" => plain(load(&self.configured)),
            "hotcell_state_unreadable" => plain(if now.state.is_none() { 1.0 } else { 0.0 }),
            "process_resident_memory_bytes" => maybe(process.resident),
            "process_open_fds" => maybe(process.descriptors),
            "process_max_fds" => maybe(process.most_descriptors),
            "process_cpu_seconds_total" => process.cpu.map_or_else(Vec::new, plain),
            "process_start_time_seconds" => plain(since_1970(self.started).as_secs_f64()),
            "hotcell_uptime_seconds" => plain(self.started.elapsed().unwrap_or_default().as_secs_f64()),
            _ => Vec::new(),
        }
    }

    fn histogram(&self) -> Vec<Sample> {
        let mut sum = 0;
        let bucket = |bound: f64, count: u64| Sample {
            suffix: "_bucket",
            labels: vec![("le", number(bound))],
            value: float(count),
        };
        let mut samples: Vec<_> = BUCKETS
            .iter()
            .zip(&self.buckets)
            .map(|(bound, count)| {
                sum += count.load(Ordering::Relaxed);
                bucket(*bound, sum)
            })
            .collect();
        // Buckets are cumulative, even when a run ends meanwhile.
        let count = self.run_count.load(Ordering::Relaxed).max(sum);
        samples.push(bucket(f64::INFINITY, count));
        let seconds = float(self.run_micros.load(Ordering::Relaxed)) / 1e6;
        samples.push(Sample { suffix: "_sum", labels: Vec::new(), value: seconds });
        samples.push(Sample { suffix: "_count", labels: Vec::new(), value: float(count) });
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(metrics: &Metrics, now: &Now) -> String {
        text::render(&metrics.families(now))
    }

    #[test]
    fn causes_are_named_as_outcomes_name_them() {
        for (cause, name) in CAUSES {
            assert_eq!(serde_json::to_value(cause).unwrap(), name);
        }
    }

    #[test]
    fn metrics_count_every_event() {
        let metrics = Metrics::default();
        let mut outcome = RunReport::without_a_run(Cause::Quarantined, "x");
        outcome.scan = Some(serde_json::json!({ "verdict": "quarantine" }));
        metrics.run_ended(&outcome, None);
        let ended = RunReport::without_a_run(Cause::Exited, "x");
        for millis in [1, 30, 1_000_000] {
            metrics.run_ended(&ended, Some(Duration::from_millis(millis)));
        }
        metrics.called(Some("run_code"), Called::Ok);
        metrics.called(None, Called::Error);
        for status in [200, 204, 404, 99, 600] {
            metrics.responded(status);
        }
        metrics.reloaded(false);
        let items = vec![(ItemState::Held, 3)];
        let now = Now {
            runs: [1, 2, 3],
            served: [5, 2, 1],
            ready: 4,
            host_failures: Some(0),
            state: Some((7, items)),
        };
        let text = told(&metrics, &now);
        for (name, ..) in ALL {
            assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
        }
        for line in [
            "hotcell_runs_total{cause=\"quarantined\"} 1",
            "hotcell_runs_total{cause=\"exited\"} 3",
            "hotcell_run_seconds_bucket{le=\"0.005\"} 1",
            "hotcell_run_seconds_bucket{le=\"0.05\"} 2",
            "hotcell_run_seconds_bucket{le=\"300\"} 2",
            "hotcell_run_seconds_bucket{le=\"+Inf\"} 3",
            "hotcell_run_seconds_sum 1000.031",
            "hotcell_run_seconds_count 3",
            "hotcell_guard_verdicts_total{verdict=\"quarantine\"} 1",
            "hotcell_sandboxes_served_total{how=\"hot\"} 3",
            "hotcell_sandboxes_served_total{how=\"primed\"} 2",
            "hotcell_tool_calls_total{tool=\"run_code\",result=\"ok\"} 1",
            "hotcell_tool_calls_total{tool=\"unknown\",result=\"error\"} 1",
            "hotcell_http_responses_total{class=\"2xx\"} 2",
            "hotcell_http_responses_total{class=\"4xx\"} 1",
            "hotcell_http_responses_total{class=\"5xx\"} 0",
            "hotcell_approvals_pending 7",
            "hotcell_quarantine_items{state=\"held\"} 3",
            "hotcell_config_reloads_total{result=\"error\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        let unknown = told(&metrics, &Now::default());
        assert!(!unknown.contains("approvals_pending") && unknown.contains("hotcell_state_unreadable 1\n"));
    }

    #[test]
    fn names_of_tools_are_bounded() {
        let metrics = Metrics::default();
        (0..MAX_TOOLS * 2).for_each(|n| metrics.called(Some(&format!("t{n}")), Called::Ok));
        let text = told(&metrics, &Now::default());
        let lines = text.lines().filter(|l| l.starts_with("hotcell_tool_calls_total{")).count();
        assert_eq!(lines, MAX_TOOLS + 1);
        assert!(text.contains(&format!("tool=\"other\",result=\"ok\"}} {MAX_TOOLS}\n")));
    }
}
