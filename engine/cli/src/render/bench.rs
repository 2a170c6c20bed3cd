//! The output of `hotcell bench` for people: at most a hundred columns.

use std::collections::BTreeMap;
use std::fmt::Write;

use hotcell_bench::{Report, Row};
use hotcell_sandbox::text::printable;

/// Width of a page in columns.
const WIDTH: usize = 100;
/// Maximum number of steps shown.
const MAX_STEPS: usize = 8;

/// The whole page.
pub fn page(report: &Report) -> String {
    let h = &report.host;
    let mut out = String::new();
    line(
        &mut out,
        &format!("{} x {}, Linux {}, {}, load {:.2}", h.processors, h.processor, h.kernel, h.user, h.load),
    );
    let timed: Vec<&Row> = report.rows.iter().filter(|row| is_timed(row)).collect();
    if !timed.is_empty() {
        let hot = timed.iter().find(|row| row.variant == "hot").and_then(|row| row.p50_us);
        let _ = writeln!(
            out,
            "\n{:32} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>6}",
            "microseconds", "p50", "p95", "p99", "per s", "x bare", "x hot", "runs"
        );
        let mut what = "";
        for row in timed {
            if row.what != what && !row.what.starts_with('…') {
                what = &row.what;
                line(&mut out, what);
            }
            let name = match row.what.strip_prefix("… ") {
                Some(more) => format!("  {}, {more}", row.variant),
                None => format!("  {}", row.variant),
            };
            if let Some(why) = &row.failed {
                line(&mut out, &format!("{name:32} not measured: {why}"));
                continue;
            }
            // Only compare ways to start the same program.
            let to_hot = hot
                .filter(|_| row.what == hotcell_bench::targets::START)
                .and_then(|hot| Some(row.p50_us? / hot));
            let _ = writeln!(
                out,
                "{:32} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>6}",
                cut(&name, 32),
                number(row.p50_us, 0),
                number(row.p95_us, 0),
                number(row.p99_us, 0),
                number(row.per_second, 0),
                number(row.ratio_to_bare, 2),
                number(to_hot, 2),
                row.runs.map_or_else(|| "-".to_owned(), |n| n.to_string()),
            );
        }
    }
    rates(&mut out, &report.rows);
    for row in report.rows.iter().filter(|row| row.memory_bytes.is_some()) {
        let bytes = row.memory_bytes.unwrap_or_default();
        let first = if row.what.starts_with('…') { "" } else { "\n" };
        let _ = writeln!(out, "{first}{:32} {:>9} KiB", row.what, bytes / 1024);
    }
    let of_runs =
        |steps: &BTreeMap<String, f64>| steps.iter().map(|(n, us)| (n.clone(), *us)).collect::<Vec<_>>();
    steps(&mut out, "a cold run (its own marks, us)", of_runs(&report.steps_us));
    steps(&mut out, "a hot run (its own marks, us)", of_runs(&report.hot_steps_us));
    let knocked_out = report.floor_without_us.iter().skip(1).cloned().collect();
    steps(&mut out, "the floor is shorter without (us)", knocked_out);
    if let Some(why) = &report.steps_failed {
        line(&mut out, &format!("\nsteps not measured: {why}"));
    }
    checks(&mut out, report);
    for (number, peer) in report.peers.iter().filter(|peer| peer.missing.is_some()).enumerate() {
        let first = if number == 0 { "\n" } else { "" };
        let _ = write!(out, "{first}");
        line(&mut out, &format!("not here: {}: {}", peer.name, peer.missing.as_deref().unwrap_or_default()));
    }
    out
}

/// Whether a row is a series of single starts, or a failed measurement other than a rate.
fn is_timed(row: &Row) -> bool {
    row.p50_us.is_some() || (row.failed.is_some() && in_flight(row).is_none())
}

fn in_flight(row: &Row) -> Option<&str> {
    row.what.strip_prefix("starts, ")?.strip_suffix(" in flight")
}

/// Table of runs per second: a line for each number of concurrent runs, a column for each variant.
fn rates(out: &mut String, rows: &[Row]) {
    let mut table: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in rows {
        let Some(number) = in_flight(row) else { continue };
        match table.last_mut() {
            Some((last, rows)) if *last == number => rows.push(row),
            _ => table.push((number, vec![row])),
        }
    }
    let Some((_, first)) = table.first() else { return };
    let _ = write!(out, "\n{:32}", "runs a second, in flight");
    for row in first {
        let _ = write!(out, " {:>11}", row.variant);
    }
    out.push('\n');
    for (number_of, rows) in &table {
        let _ = write!(out, "{number_of:>32}");
        for row in rows {
            let _ = write!(out, " {:>11}", number(row.per_second, 0));
        }
        out.push('\n');
    }
    for row in rows.iter().filter(|row| in_flight(row).is_some()) {
        if let Some(why) = &row.failed {
            line(out, &format!("  {}, {}: not measured: {why}", row.what, row.variant));
        }
    }
}

/// The longest steps, and always the phases (in brackets).
fn steps(out: &mut String, title: &str, mut all: Vec<(String, f64)>) {
    if all.is_empty() {
        return;
    }
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let _ = writeln!(out, "\n{title}");
    let (phases, marked): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| name.starts_with('('));
    for part in [phases, marked.into_iter().take(MAX_STEPS).collect()] {
        let mut words = String::from(" ");
        for (name, us) in part {
            let word = format!(" {} {us:.0}", name.trim_matches(['(', ')']));
            if words.chars().count() + word.chars().count() >= WIDTH {
                line(out, std::mem::replace(&mut words, String::from(" ")).trim_end());
            }
            words += &word;
            words.push(' ');
        }
        if words.len() > 1 {
            line(out, words.trim_end());
        }
    }
}

fn checks(out: &mut String, report: &Report) {
    if report.checks.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{:10} {:44} {:>10}   target", "", "compared", "measured");
    for check in &report.checks {
        let verdict = if check.met { "met" } else { "MISSED" };
        let why = check.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let measured = number(check.measured, 2);
        line(
            out,
            &format!("{verdict:10} {:44} {measured:>10}   {}{why}", cut(&check.what, 44), check.target),
        );
    }
}

fn number(n: Option<f64>, digits: usize) -> String {
    n.map_or_else(|| "-".to_owned(), |n| format!("{n:.digits$}"))
}

/// Appends one line of limited width; messages of other programs may contain anything.
fn line(out: &mut String, text: &str) {
    let (first, text) = text.strip_prefix('\n').map_or(("", text), |rest| ("\n", rest));
    let _ = writeln!(out, "{first}{}", cut(&printable(text), WIDTH));
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use hotcell_bench::host::HostRow;
    use hotcell_bench::peers::PeerRow;
    use hotcell_bench::targets::{OVERLAY, START, judge};
    use hotcell_bench::{memory, throughput};

    use super::*;

    #[test]
    fn bench_page_fits_hundred_columns_and_escapes_text() {
        let long = "no\x1b[2J right ".repeat(30);
        let mut report = Report::new(HostRow { processor: long.clone(), ..HostRow::default() });
        let row =
            |what: &str, variant: &str| Row::of_times(what, variant, &[123_456_789.0].into_iter().collect());
        let failed = |what: &str, variant: &str| Row {
            what: what.to_owned(),
            variant: variant.to_owned(),
            failed: Some(long.clone()),
            ..Row::default()
        };
        report.table(vec![
            row(START, "bare"),
            row(START, "hot"),
            row(START, "bubblewrap"),
            failed(OVERLAY, "hot"),
        ]);
        report.table(vec![failed("python3 -c print(1)", "bare")]);
        let rate = |variant: &str| Row {
            what: throughput::what(16),
            variant: variant.to_owned(),
            per_second: Some(1234.5),
            ..Row::default()
        };
        report.table(vec![
            rate("bare"),
            rate("cold"),
            failed(&throughput::what(16), "hot"),
            rate("bubblewrap"),
        ]);
        report.rows.extend(memory::Idle { processes: 1e5, resident: false, kernel: 9e5 }.rows());
        report.peers =
            vec![PeerRow { name: "docker".to_owned(), missing: Some(long.clone()), command: vec![] }];
        report.steps_us =
            (0..60).map(|n| (format!("step{n}"), 1e6)).chain([("(run)".to_owned(), 5.0)]).collect();
        report.floor_without_us = vec![("nothing".to_owned(), 9.0), ("net_ns".to_owned(), 300.0)];
        report.steps_failed = Some(long.clone());
        report.checks = judge(&report.rows, &report.peers);
        let page = page(&report);
        for line in page.lines() {
            assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
            assert!(!line.contains('\x1b'));
        }
        for part in [
            "bubblewrap",
            "hot, overlay workspace",
            "not measured: no",
            "MISSED",
            "met ",
            "1234",
            "memory of an idle sandbox",
            "net_ns 300",
            "run 5",
            "not here: docker",
            "python3 -c print(1)",
            "steps not measured",
        ] {
            assert!(page.contains(part), "no {part:?} in\n{page}");
        }
    }
}
