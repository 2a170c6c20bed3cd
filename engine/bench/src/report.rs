//! What was measured, as `hotcell.bench/1` or as tables in Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Samples;
use crate::host::HostRow;
use crate::peers::{Peer, PeerRow};
use crate::ways::Measured;

/// The name of the form.
pub const SCHEMA: &str = "hotcell.bench/1";

/// Everything that was measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Always `hotcell.bench/1`.
    pub schema: String,
    /// The machine.
    pub host: HostRow,
    /// What was measured.
    pub rows: Vec<Row>,
    /// Other sandboxes that were looked for.
    pub peers: Vec<PeerRow>,
    /// Measured beside target.
    pub checks: Vec<Check>,
    /// Medians of what a cold run records of itself, microseconds: phases in brackets, then the marked steps.
    pub steps_us: BTreeMap<String, f64>,
    /// The same of a hot run.
    pub hot_steps_us: BTreeMap<String, f64>,
    /// Medians of the times since the request at which the floor had done a step, in order, microseconds.
    pub floor_steps_us: Vec<(String, f64)>,
    /// How much shorter the floor's median is without a step, microseconds.
    pub floor_without_us: Vec<(String, f64)>,
    /// Why there are no steps.
    pub steps_failed: Option<String>,
}

/// One thing that was measured in one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// What was done.
    pub what: String,
    /// How: `bare`, `floor`, `cold`, `hot`, `primed` or a peer's name.
    pub variant: String,
    /// How many were measured.
    pub runs: Option<u64>,
    /// Microseconds.
    pub p50_us: Option<f64>,
    /// Microseconds.
    pub p95_us: Option<f64>,
    /// Microseconds.
    pub p99_us: Option<f64>,
    /// How many a second.
    pub per_second: Option<f64>,
    /// How many times as long as the bare one of the same table.
    pub ratio_to_bare: Option<f64>,
    /// … as the floor of the same table.
    pub ratio_to_floor: Option<f64>,
    /// … as each peer of the same table.
    pub ratio_to_peers: BTreeMap<String, f64>,
    /// Memory.
    pub memory_bytes: Option<u64>,
    /// Why there is no number.
    pub failed: Option<String>,
}

impl Row {
    /// A row of times of one after the other.
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

    /// The same without a number.
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

/// One target.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// What is compared.
    pub what: String,
    /// What was measured.
    pub measured: Option<f64>,
    /// The target, with its unit.
    pub target: String,
    /// Whether it was met; what could not be measured was not.
    pub met: bool,
    /// Why nothing was measured.
    pub why: Option<String>,
}

impl Check {
    /// Holds a number against the most that it should be.
    #[must_use]
    pub fn at_most(what: &str, measured: Result<f64, String>, most: f64, unit: &str) -> Self {
        Self::new(what, measured, format!("at most {most}{unit}"), |n| n <= most)
    }

    /// Holds a number against the least that it should be.
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
    /// An empty one.
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

    /// Takes the rows of one table and fills in how they compare with each other.
    pub fn table(&mut self, mut rows: Vec<Row>) {
        let rate = |variant: &str| rows.iter().find(|r| r.variant == variant).and_then(|r| r.per_second);
        let (bare, floor) = (rate("bare"), rate("floor"));
        let peers: Vec<_> = Peer::ALL.map(Peer::name).into_iter().map(|name| (name, rate(name))).collect();
        for row in &mut rows {
            // Where nothing was done in the time there is nothing to compare.
            let ratio = |to: Option<f64>| Some(to? / row.per_second?).filter(|ratio| ratio.is_finite());
            let to_peers = peers.iter().filter_map(|(name, rate)| Some(((*name).to_owned(), ratio(*rate)?)));
            row.ratio_to_peers = to_peers.collect();
            row.ratio_to_bare = ratio(bare);
            row.ratio_to_floor = ratio(floor);
        }
        self.rows.append(&mut rows);
    }

    /// Takes a row that is compared with nothing.
    pub fn row(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Holds a number against the most that it should be.
    pub fn at_most(&mut self, what: &str, measured: f64, most: f64, unit: &str) {
        self.checks.push(Check::at_most(what, Ok(measured), most, unit));
    }

    /// Holds a number against the least that it should be.
    pub fn at_least(&mut self, what: &str, measured: f64, least: f64, unit: &str) {
        self.checks.push(Check::at_least(what, Ok(measured), least, unit));
    }

    /// Everything as Markdown tables.
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
    fn rows_of_a_table_are_compared_with_each_other() {
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
        // Nothing was done in the time.
        let mut none = row("floor", 1.0);
        none.per_second = Some(0.0);
        report.table(vec![none, row("bubblewrap", 6000.0)]);
        let none = &report.rows[4];
        assert!(none.ratio_to_floor.is_none() && none.ratio_to_peers.is_empty(), "{none:?}");
        assert!(report.markdown().contains("| w | cold | 1500 | 1500 | 1500 | 667 | 3.00 | 0.25 | - | - |"));
    }
}
