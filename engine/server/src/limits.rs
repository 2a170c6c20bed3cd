//! Limits that a caller requests, checked against the operator's. Pure.

use std::time::Duration;

use hotcell_sandbox::{Bytes, Limits};
use hotcell_state::report::{Code, ErrorReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of one run. Each can only be lower than the operator's limit, which is the default and is also
/// meant by 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AskedLimits {
    /// Wall-clock time, in seconds. The run is stopped when it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// CPU time of all its processes, in seconds. The run is stopped when it is used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// Memory of all its processes, in MiB. The run is stopped when it exceeds this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Processes and threads. Further ones cannot be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Data written to files, in MiB. More cannot be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mib: Option<u64>,
    /// Output of both streams together, in MiB. The run is stopped when it exceeds this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_mib: Option<u64>,
}

/// Minimum time that can be requested.
const MIN_TIMEOUT: Duration = Duration::from_millis(10);
/// Maximum number of seconds that can be converted to a time.
const MAX_SECONDS: f64 = 1e9;
const MIB: u64 = 1 << 20;

impl AskedLimits {
    /// The operator's limits, tightened by these.
    ///
    /// # Errors
    /// A report with the field and the allowed range, when a limit is out of range.
    pub fn within(&self, operator: &Limits) -> Result<Limits, ErrorReport> {
        let mut limits = operator.clone();
        // A client that must send a number for each limit sends 0 for an unset one; as a limit, 0 would be
        // useless.
        if let Some(seconds) = self.timeout_seconds.filter(|s| *s != 0.0) {
            limits.wall = time("limits.timeout_seconds", seconds, Some(operator.wall))?;
        }
        if let Some(seconds) = self.cpu_seconds.filter(|s| *s != 0.0) {
            limits.cpu_time = Some(time("limits.cpu_seconds", seconds, operator.cpu_time)?);
        }
        for (field, asked, limit) in [
            ("limits.memory_mib", self.memory_mib, &mut limits.memory),
            ("limits.disk_mib", self.disk_mib, &mut limits.disk),
            ("limits.output_mib", self.output_mib, &mut limits.output),
        ] {
            if let Some(asked) = asked.filter(|asked| *asked != 0) {
                *limit = Bytes(count(field, asked, limit.0 / MIB)?.saturating_mul(MIB));
            }
        }
        if let Some(asked) = self.processes.filter(|asked| *asked != 0) {
            let asked = count("limits.processes", asked, operator.processes.into())?;
            limits.processes = u32::try_from(asked).unwrap_or(operator.processes);
        }
        Ok(limits)
    }
}

fn count(field: &str, asked: u64, most: u64) -> Result<u64, ErrorReport> {
    if (1..=most).contains(&asked) { Ok(asked) } else { Err(out_of_range(field, asked, 1, most)) }
}

fn time(field: &str, seconds: f64, most: Option<Duration>) -> Result<Duration, ErrorReport> {
    let (least, most) = (MIN_TIMEOUT.as_secs_f64(), most.map_or(MAX_SECONDS, |m| m.as_secs_f64()));
    if seconds >= least && seconds <= most {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(out_of_range(field, readable(seconds), least.to_string(), most.to_string()))
    }
}

/// A number in the notation in which it is short: 1e300 has 301 digits otherwise.
fn readable(number: f64) -> String {
    let plain = number == 0.0 || (1e-6..1e15).contains(&number.abs());
    if plain { number.to_string() } else { format!("{number:e}") }
}

/// Error for a number out of range.
pub fn out_of_range<T: std::fmt::Display>(field: &str, asked: T, least: T, most: T) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("{field} is {asked}; allowed is {least} to {most}"))
        .field(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_limits_stay_within_operator_limits() {
        let operator = Limits::default();
        let some = AskedLimits {
            timeout_seconds: Some(1.5),
            cpu_seconds: Some(60.0),
            memory_mib: Some(512),
            processes: Some(1),
            ..AskedLimits::default()
        };
        let limits = some.within(&operator).unwrap();
        assert_eq!((limits.wall, limits.memory), (Duration::from_millis(1500), Bytes::mib(512)));
        assert_eq!(AskedLimits::default().within(&operator).unwrap(), operator);
        let zeros = AskedLimits {
            timeout_seconds: Some(0.0),
            cpu_seconds: Some(0.0),
            memory_mib: Some(0),
            processes: Some(0),
            disk_mib: Some(0),
            output_mib: Some(0),
        };
        assert_eq!(zeros.within(&operator).unwrap(), operator);

        type Change = fn(&mut AskedLimits);
        for (field, range, change) in [
            ("limits.timeout_seconds", "0.01 to 60", (|a| a.timeout_seconds = Some(60.1)) as Change),
            ("limits.timeout_seconds", "0.01 to 60", |a| a.timeout_seconds = Some(-0.5)),
            ("limits.timeout_seconds", "0.01 to 60", |a| a.timeout_seconds = Some(f64::NAN)),
            ("limits.cpu_seconds", "0.01 to 60", |a| a.cpu_seconds = Some(f64::INFINITY)),
            ("limits.memory_mib", "1 to 512", |a| a.memory_mib = Some(513)),
            ("limits.memory_mib", "1 to 512", |a| a.memory_mib = Some(u64::MAX)),
            ("limits.processes", "1 to 64", |a| a.processes = Some(65)),
            ("limits.processes", "1 to 64", |a| a.processes = Some(1 << 32)),
            ("limits.processes", "1 to 64", |a| a.processes = Some(u64::MAX)),
            ("limits.disk_mib", "1 to 256", |a| a.disk_mib = Some(257)),
            ("limits.output_mib", "1 to 64", |a| a.output_mib = Some(65)),
        ] {
            let mut asked = AskedLimits::default();
            change(&mut asked);
            let report = asked.within(&operator).unwrap_err();
            assert_eq!(report.field.as_deref(), Some(field));
            assert_eq!(report.to_string().matches(range).count(), 1, "{report}");
        }
    }
}
