//! What was measured, as `hotcell.bench/1` or as tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::host::HostRow;
use crate::stats::Samples;

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: &'static str,
    host: HostRow,
    rows: Vec<Row>,
    /// Measured beside target.
    checks: Vec<Check>,
    /// Medians of the steps of a cold run, by step.
    steps_us: BTreeMap<String, f64>,
    /// Medians of the times since the request at which the floor had done a step, in order.
    floor_steps_us: Vec<(String, f64)>,
    /// How much shorter the floor's median is without a step.
    floor_without_us: Vec<(String, f64)>,
}

/// One thing that was measured in one way.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// What was done.
    pub what: String,
    /// How: `bare`, `floor`, `cold` or a peer's name.
    pub variant: String,
    /// Microseconds.
    pub p50_us: Option<f64>,
    /// Microseconds.
    pub p95_us: Option<f64>,
    /// Microseconds.
    pub p99_us: Option<f64>,
    /// How many a second.
    pub per_second: Option<f64>,
    /// To the bare spawn in the same table.
    pub ratio_to_bare: Option<f64>,
    /// To bubblewrap in the same table.
    pub ratio_to_bubblewrap: Option<f64>,
    /// To the floor in the same table.
    pub ratio_to_floor: Option<f64>,
    /// Resident memory.
    pub memory_bytes: Option<u64>,
}

impl Row {
    /// A row of times of one after the other.
    pub fn of_times(what: &str, variant: &str, times: &Samples) -> Self {
        Self {
            what: what.to_owned(),
            variant: variant.to_owned(),
            p50_us: Some(times.median()),
            p95_us: Some(times.percentile(95.0)),
            p99_us: Some(times.percentile(99.0)),
            per_second: Some(1e6 / times.median()),
            ..Self::default()
        }
    }
}

#[derive(Debug, Serialize)]
struct Check {
    what: String,
    measured: f64,
    target: String,
    met: bool,
}

impl Report {
    /// An empty one.
    pub fn new(host: HostRow) -> Self {
        Self {
            schema: "hotcell.bench/1",
            host,
            rows: Vec::new(),
            checks: Vec::new(),
            steps_us: BTreeMap::new(),
            floor_steps_us: Vec::new(),
            floor_without_us: Vec::new(),
        }
    }

    /// Takes the rows of one table and fills in how they compare with each other.
    pub fn table(&mut self, mut rows: Vec<Row>) {
        let rate = |variant: &str| rows.iter().find(|r| r.variant == variant).and_then(|r| r.per_second);
        let (bare, bubblewrap, floor) = (rate("bare"), rate("bubblewrap"), rate("floor"));
        for row in &mut rows {
            let ratio = |to: Option<f64>| Some(to? / row.per_second?);
            row.ratio_to_bare = ratio(bare);
            row.ratio_to_bubblewrap = ratio(bubblewrap);
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
        let target = format!("at most {most}{unit}");
        self.checks.push(Check { what: what.to_owned(), measured, target, met: measured <= most });
    }

    /// Holds a number against the least that it should be.
    pub fn at_least(&mut self, what: &str, measured: f64, least: f64, unit: &str) {
        let target = format!("at least {least}{unit}");
        self.checks.push(Check { what: what.to_owned(), measured, target, met: measured >= least });
    }

    /// Takes the steps of a cold run.
    pub fn steps(&mut self, steps: BTreeMap<String, f64>, floor: Vec<(String, f64)>) {
        self.steps_us = steps;
        self.floor_steps_us = floor;
    }

    /// Takes what the floor saves without each step.
    pub fn without(&mut self, without: Vec<(String, f64)>) {
        self.floor_without_us = without;
    }

    /// Everything as Markdown tables.
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
                number(row.ratio_to_bubblewrap, 2),
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
            let _ = writeln!(out, "| {} | {:.2} | {} | {met} |", check.what, check.measured, check.target);
        }
        if !self.steps_us.is_empty() {
            out.push_str("\n| step of a cold run | us |\n| --- | ---: |\n");
        }
        for (step, us) in &self.steps_us {
            let _ = writeln!(out, "| {step} | {us:.0} |");
        }
        for (title, list) in [
            ("the floor had done", &self.floor_steps_us),
            ("the floor is shorter without", &self.floor_without_us),
        ] {
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
