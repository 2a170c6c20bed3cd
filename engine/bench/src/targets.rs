//! Compares measured values with targets. Pure: a value that was requested and could not be measured counts
//! as a miss, with the reason.

use crate::languages;
use crate::memory::IDLE;
use crate::peers::{Peer, PeerRow};
use crate::report::{Check, Row};
use crate::throughput;

/// Label of the rows for starts.
pub const START: &str = "start of /bin/true";
/// Label for starts with a workspace in memory.
pub const TMPFS: &str = "… tmpfs workspace";
/// Label for starts with a writable folder of the host.
pub const BIND: &str = "… bound workspace";
/// Label for starts with a copy-on-write workspace.
pub const OVERLAY: &str = "… overlay workspace";
/// Numbers of runs in flight that have a target.
pub const LOADS: [usize; 2] = [16, 64];

/// Maximum ratio of a start's median to the bare median, by label and variant.
const STARTS: [(&str, &str, f64); 4] = [
    (START, "hot start / bare", 1.25),
    (TMPFS, "hot start, tmpfs workspace / bare", 1.3),
    (BIND, "hot start, bound workspace / bare", 1.3),
    (OVERLAY, "hot start, overlay workspace / bare", 1.6),
];
/// Maximum memory of an idle sandbox, in bytes.
const MAX_MEMORY_BYTES: f64 = 0.6 * 1024.0 * 1024.0;

/// Compares the rows with the targets that apply to them.
#[must_use]
pub fn judge(rows: &[Row], peers: &[PeerRow]) -> Vec<Check> {
    let mut checks = Vec::new();
    let row = |what: &str, variant: &str| rows.iter().find(|r| r.what == what && r.variant == variant);
    let time = |what: &str, variant: &str, of: fn(&Row) -> Option<f64>| match row(what, variant) {
        Some(row) => of(row).ok_or_else(|| row.failed.clone().unwrap_or_else(|| "not measured".to_owned())),
        None => Err(format!("{variant} was not measured")),
    };
    let ratio = |above: Result<f64, String>, below: Result<f64, String>| match (above, below) {
        (Ok(above), Ok(below)) if below > 0.0 => Ok(above / below),
        (Ok(_), Ok(_)) => Err("not measured".to_owned()),
        (Err(why), _) | (_, Err(why)) => Err(why),
    };
    for (what, name, most) in STARTS.into_iter().filter(|(what, ..)| row(what, "hot").is_some()) {
        let measured = ratio(time(what, "hot", |r| r.p50_us), time(START, "bare", |r| r.p50_us));
        checks.push(Check::at_most(name, measured, most, " x"));
    }
    if row(START, "hot").is_some() {
        let p99 = ratio(time(START, "hot", |r| r.p99_us), time(START, "bare", |r| r.p50_us));
        checks.push(Check::at_most("hot start, p99 / bare, p50", p99, 3.0, " x"));
        for peer in Peer::ALL.map(Peer::name).into_iter().filter(|peer| row(START, peer).is_some()) {
            let faster = ratio(time(START, peer, |r| r.p50_us), time(START, "hot", |r| r.p50_us));
            checks.push(Check::at_least(&format!("{peer} / hot start"), faster, 5.0, " x"));
        }
    }
    for language in languages::ALL.into_iter().filter(|language| row(language.what, "bare").is_some()) {
        let bare = time(language.what, "bare", |r| r.p50_us);
        let share = ratio(time(language.what, "primed", |r| r.p50_us), bare);
        let name = format!("primed {} / outside", language.row.name());
        checks.push(Check::at_most(&name, share, language.target, " x"));
    }
    let bubblewrap = Peer::Bubblewrap.name();
    let missing = peers.iter().find(|peer| peer.name == bubblewrap).and_then(|peer| peer.missing.clone());
    for what in LOADS.map(throughput::what) {
        let asked = row(&what, "hot").is_some() && peers.iter().any(|peer| peer.name == bubblewrap);
        if asked {
            let peer = match &missing {
                Some(why) => Err(why.clone()),
                None => time(&what, bubblewrap, |r| r.per_second),
            };
            let faster = ratio(time(&what, "hot", |r| r.per_second), peer);
            checks.push(Check::at_least(&format!("{what}: hot / bubblewrap"), faster, 2.0, " x"));
        }
    }
    if let Some(idle) = row(IDLE, "hot") {
        #[allow(clippy::cast_precision_loss)] // far below 2^52
        let bytes = idle.memory_bytes.map(|bytes| bytes as f64);
        let mib = bytes.map(|bytes| bytes / 1024.0 / 1024.0);
        let measured = mib.ok_or_else(|| idle.failed.clone().unwrap_or_else(|| "not measured".to_owned()));
        checks.push(Check::at_most(IDLE, measured, MAX_MEMORY_BYTES / 1024.0 / 1024.0, " MiB"));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(what: &str, variant: &str, p50: f64, p99: f64) -> Row {
        Row {
            what: what.to_owned(),
            variant: variant.to_owned(),
            p50_us: Some(p50),
            p99_us: Some(p99),
            ..Row::default()
        }
    }

    fn failed(what: &str, variant: &str) -> Row {
        Row { failed: Some("why not".to_owned()), ..start(what, variant, 0.0, 0.0) }.without_times()
    }

    fn rate(in_flight: usize, variant: &str, per_second: f64) -> Row {
        let per_second = Some(per_second);
        Row { what: throughput::what(in_flight), variant: variant.to_owned(), per_second, ..Row::default() }
    }

    #[test]
    fn targets_are_met_or_missed() {
        let bwrap = || PeerRow { name: "bubblewrap".to_owned(), ..PeerRow::default() };
        let gone = || PeerRow { missing: Some("not on PATH".to_owned()), ..bwrap() };
        let idle = |bytes| Row {
            what: IDLE.to_owned(),
            variant: "hot".to_owned(),
            memory_bytes: Some(bytes),
            ..Row::default()
        };
        let bare = || start(START, "bare", 1000.0, 1500.0);
        type Want = (&'static str, Option<f64>, bool);
        let cases: Vec<(Vec<Row>, Vec<PeerRow>, Vec<Want>)> = vec![
            (vec![bare(), start(START, "cold", 9.0, 9.0)], vec![], vec![]),
            (
                vec![bare(), start(START, "hot", 1250.0, 3001.0)],
                vec![],
                vec![("hot start / bare", Some(1.25), true), ("p99", Some(3.001), false)],
            ),
            (
                vec![
                    bare(),
                    start(TMPFS, "hot", 1300.0, 1.0),
                    start(BIND, "hot", 1310.0, 1.0),
                    failed(OVERLAY, "hot"),
                ],
                vec![],
                vec![("tmpfs", Some(1.3), true), ("bound", Some(1.31), false), ("overlay", None, false)],
            ),
            (
                vec![
                    bare(),
                    start(START, "hot", 1000.0, 1000.0),
                    start(START, "docker", 5000.0, 1.0),
                    start(START, "bubblewrap", 4900.0, 1.0),
                ],
                vec![],
                vec![
                    ("hot start / bare", Some(1.0), true),
                    ("p99", Some(1.0), true),
                    ("bubblewrap / hot", Some(4.9), false),
                    ("docker / hot", Some(5.0), true),
                ],
            ),
            (
                vec![failed(START, "bare"), failed(START, "hot")],
                vec![],
                vec![("hot start / bare", None, false), ("p99", None, false)],
            ),
            (
                vec![
                    rate(16, "hot", 400.0),
                    rate(16, "bubblewrap", 200.0),
                    rate(64, "hot", 300.0),
                    rate(64, "bubblewrap", 200.0),
                ],
                vec![bwrap()],
                vec![("16 in flight", Some(2.0), true), ("64 in flight", Some(1.5), false)],
            ),
            (vec![rate(16, "hot", 400.0)], vec![gone()], vec![("16 in flight", None, false)]),
            (vec![rate(16, "hot", 400.0)], vec![], vec![]),
            (
                vec![
                    start("python3 -c print(1)", "bare", 10_000.0, 1.0),
                    start("python3 -c print(1)", "primed", 2500.0, 1.0),
                    start("node FILE with console.log(1)", "bare", 40_000.0, 1.0),
                    failed("node FILE with console.log(1)", "primed"),
                    failed("pytest, two tests and a JUnit report", "bare"),
                ],
                vec![],
                vec![
                    ("primed python", Some(0.25), true),
                    ("primed pytest", None, false),
                    ("primed node", None, false),
                ],
            ),
            (vec![idle(629_145)], vec![], vec![("idle", Some(0.6), true)]),
            (vec![idle(700_000)], vec![], vec![("idle", Some(0.6676), false)]),
        ];
        for (rows, peers, want) in cases {
            let checks = judge(&rows, &peers);
            assert_eq!(checks.len(), want.len(), "{checks:#?}");
            for (check, (name, measured, met)) in checks.iter().zip(want) {
                assert!(check.what.contains(name), "{check:?}, not {name}");
                assert_eq!(check.met, met, "{check:?}");
                match (check.measured, measured) {
                    (Some(got), Some(want)) => assert!((got - want).abs() < 1e-3, "{check:?}"),
                    (None, None) => assert!(check.why.is_some(), "{check:?}"),
                    _ => panic!("{check:?}, not {measured:?}"),
                }
            }
        }
    }
}
