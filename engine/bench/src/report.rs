//! Results as `hotcell.bench/1` or as Markdown tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Samples;
use crate::host::HostRow;
use crate::peers::{Peer, PeerRow};
use crate::ways::Measured;

/// Name of the report format.
pub const SCHEMA: &str = "hotcell.bench/1";

/// Results of a benchmark.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Always `hotcell.bench/1`.
    pub schema: String,
    /// The machine.
    pub host: HostRow,
    /// Rows of the tables.
    pub rows: Vec<Row>,
    /// Other sandboxes that were looked for.
    pub peers: Vec<PeerRow>,
    /// Comparisons with targets.
    pub checks: Vec<Check>,
    /// Median durations of the steps of a cold run in microseconds: phases in brackets, then the marked
    /// steps.
    pub steps_us: BTreeMap<String, f64>,
    /// Like `steps_us`, for a hot run.
    pub hot_steps_us: BTreeMap<String, f64>,
    /// Median times from the request to the end of each step of the floor, in order, in microseconds.
    pub floor_steps_us: Vec<(String, f64)>,
    /// Reduction of the floor's median without a step, in microseconds.
    pub floor_without_us: Vec<(String, f64)>,
    /// Reason why there are no steps.
    pub steps_failed: Option<String>,
}

/// Result for one variant of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// Measured operation.
    pub what: String,
    /// Variant: `bare`, `floor`, `cold`, `hot`, `primed` or a peer's name.
    pub variant: String,
    /// Number of measurements.
    pub runs: Option<u64>,
    /// Median in microseconds.
    pub p50_us: Option<f64>,
    /// 95th percentile in microseconds.
    pub p95_us: Option<f64>,
    /// 99th percentile in microseconds.
    pub p99_us: Option<f64>,
    /// Rate per second.
    pub per_second: Option<f64>,
    /// Duration as a multiple of the bare variant's in the same table.
    pub ratio_to_bare: Option<f64>,
    /// Duration as a multiple of the floor's in the same table.
    pub ratio_to_floor: Option<f64>,
    /// Durations as multiples of each peer's in the same table.
    pub ratio_to_peers: BTreeMap<String, f64>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Reason why there is no number.
    pub failed: Option<String>,
}

impl Row {
    /// A row of sequential times.
    #[must_use]
    pub fn of_times(what: &str, variant: &str, times: &Samples) -> Self {
        Self {
            what: what.to_owned(),
            variant: variant.to_owned(),
            runs: Some(times.len() as u64),
            p50_us: Some(times.median()),
            p95_us: Some(times.percentile(95.0)),
            p99_us: Some(times.percentile(99.0)),
            per_second: Some(1e6 / times.median()),
            ..Self::default()
        }
    }

    /// This row without times.
    #[cfg(test)]
    pub(crate) fn without_times(self) -> Self {
        Self { what: self.what, variant: self.variant, failed: self.failed, ..Self::default() }
    }
}

impl From<Measured> for Row {
    fn from(measured: Measured) -> Self {
        let Measured { what, name, times, failed } = measured;
        let failed = failed.or_else(|| times.is_empty().then(|| "not measured".to_owned()));
        match failed {
            Some(_) => Self { what, variant: name, failed, ..Self::default() },
            None => Self::of_times(&what, &name, &times),
        }
    }
}

/// Comparison with one target.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// Compared value.
    pub what: String,
    /// Measured value.
    pub measured: Option<f64>,
    /// Target, with its unit.
    pub target: String,
    /// Whether the target was met; without a measurement it was not.
    pub met: bool,
    /// Reason why there is no measurement.
    pub why: Option<String>,
}

impl Check {
    /// Compares a value with a maximum.
    #[must_use]
    pub fn at_most(what: &str, measured: Result<f64, String>, most: f64, unit: &str) -> Self {
        Self::new(what, measured, format!("at most {most}{unit}"), |n| n <= most)
    }

    /// Compares a value with a minimum.
    #[must_use]
    pub fn at_least(what: &str, measured: Result<f64, String>, least: f64, unit: &str) -> Self {
        Self::new(what, measured, format!("at least {least}{unit}"), |n| n >= least)
    }

    fn new(what: &str, measured: Result<f64, String>, target: String, good: impl Fn(f64) -> bool) -> Self {
        let met = measured.as_ref().is_ok_and(|n| good(*n));
        let (measured, why) = match measured {
            Ok(n) => (Some(n), None),
            Err(why) => (None, Some(why)),
        };
        Self { what: what.to_owned(), measured, target, met, why }
    }
}

impl Report {
    /// An empty report.
    #[must_use]
    pub fn new(host: HostRow) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            host,
            rows: Vec::new(),
            peers: Vec::new(),
            checks: Vec::new(),
            steps_us: BTreeMap::new(),
            hot_steps_us: BTreeMap::new(),
            floor_steps_us: Vec::new(),
            floor_without_us: Vec::new(),
            steps_failed: None,
        }
    }

    /// Adds the rows of one table, and fills in their ratios.
    pub fn table(&mut self, mut rows: Vec<Row>) {
        let rate = |variant: &str| rows.iter().find(|r| r.variant == variant).and_then(|r| r.per_second);
        let (bare, floor) = (rate("bare"), rate("floor"));
        let peers: Vec<_> = Peer::ALL.map(Peer::name).into_iter().map(|name| (name, rate(name))).collect();
        for row in &mut rows {
            // No ratio when nothing was finished within the time.
            let ratio = |to: Option<f64>| Some(to? / row.per_second?).filter(|ratio| ratio.is_finite());
            let to_peers = peers.iter().filter_map(|(name, rate)| Some(((*name).to_owned(), ratio(*rate)?)));
            row.ratio_to_peers = to_peers.collect();
            row.ratio_to_bare = ratio(bare);
            row.ratio_to_floor = ratio(floor);
        }
        self.rows.append(&mut rows);
    }

    /// Adds a row that is not compared.
    pub fn row(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Adds a comparison with a maximum.
    pub fn at_most(&mut self, what: &str, measured: f64, most: f64, unit: &str) {
        self.checks.push(Check::at_most(what, Ok(measured), most, unit));
    }

    /// Adds a comparison with a minimum.
    pub fn at_least(&mut self, what: &str, measured: f64, least: f64, unit: &str) {
        self.checks.push(Check::at_least(what, Ok(measured), least, unit));
    }

    /// The report as Markdown tables.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        let h = &self.host;
        let _ = writeln!(
            out,
            "{} x {}, Linux {}, {}, load {:.2}\n",
            h.processors, h.processor, h.kernel, h.user, h.load
        );
        let number = |n: Option<f64>, digits: usize| n.map_or("-".to_owned(), |n| format!("{n:.digits$}"));
        if !self.rows.is_empty() {
            out.push_str(
                "| what | variant | p50 us | p95 us | p99 us | per second | x bare | x bubblewrap | x floor | memory KiB |\n\
                 | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
            );
        }
        for row in &self.rows {
            if let Some(why) = &row.failed {
                let _ = writeln!(out, "| {} | {} | not measured: {why} |", row.what, row.variant);
                continue;
            }
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                row.what,
                row.variant,
                number(row.p50_us, 0),
                number(row.p95_us, 0),
                number(row.p99_us, 0),
                number(row.per_second, 0),
                number(row.ratio_to_bare, 2),
                number(row.ratio_to_peers.get(Peer::Bubblewrap.name()).copied(), 2),
                number(row.ratio_to_floor, 2),
                row.memory_bytes.map_or("-".to_owned(), |b| (b / 1024).to_string()),
            );
        }
        if !self.checks.is_empty() {
            out.push_str(
                "\n| compared with the target | measured | target | met |\n| --- | ---: | --- | --- |\n",
            );
        }
        for check in &self.checks {
            let met = if check.met { "yes" } else { "no" };
            let measured = number(check.measured, 2);
            let _ = writeln!(out, "| {} | {measured} | {} | {met} |", check.what, check.target);
        }
        let of_runs = |steps: &BTreeMap<String, f64>| steps.clone().into_iter().collect();
        for (title, list) in [
            ("step of a cold run", of_runs(&self.steps_us)),
            ("step of a hot run", of_runs(&self.hot_steps_us)),
            ("the floor had done", self.floor_steps_us.clone()),
            ("the floor is shorter without", self.floor_without_us.clone()),
        ] {
            let list: Vec<(String, f64)> = list;
            if !list.is_empty() {
                let _ = writeln!(out, "\n| {title} | us |\n| --- | ---: |");
            }
            for (step, us) in list {
                let _ = writeln!(out, "| {step} | {us:.0} |");
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_rows_are_compared() {
        let row = |variant: &str, us: f64| Row::of_times("w", variant, &[us].into_iter().collect());
        let failed = Measured {
            what: "w".to_owned(),
            name: "hot".to_owned(),
            times: [1.0].into_iter().collect(),
            failed: Some("lost".to_owned()),
        };
        let mut report = Report::new(HostRow::default());
        report.table(vec![row("bare", 500.0), row("cold", 1500.0), row("bubblewrap", 6000.0), failed.into()]);
        let about = |n: Option<f64>, want: f64| n.is_some_and(|n| (n - want).abs() < 1e-9);
        let [bare, cold, peer, hot] = &report.rows[..] else { panic!("{:?}", report.rows) };
        assert!(about(bare.ratio_to_bare, 1.0) && about(cold.ratio_to_bare, 3.0));
        assert!(about(cold.ratio_to_peers.get("bubblewrap").copied(), 0.25), "{cold:?}");
        assert!(about(peer.ratio_to_bare, 12.0) && peer.ratio_to_floor.is_none());
        assert_eq!((hot.p50_us, hot.ratio_to_bare, hot.failed.as_deref()), (None, None, Some("lost")));
        // Nothing was finished within the time.
        let mut none = row("floor", 1.0);
        none.per_second = Some(0.0);
        report.table(vec![none, row("bubblewrap", 6000.0)]);
        let none = &report.rows[4];
        assert!(none.ratio_to_floor.is_none() && none.ratio_to_peers.is_empty(), "{none:?}");
        assert!(report.markdown().contains("| w | cold | 1500 | 1500 | 1500 | 667 | 3.00 | 0.25 | - | - |"));
    }
}
