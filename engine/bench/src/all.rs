//! The benchmark of `hotcell bench`: runs the requested parts one after the other.

use std::time::{Duration, Instant};

use hotcell_sandbox::policy::PROJECT;
use hotcell_sandbox::{Engine, Policy, temporary};
use tempfile::TempDir;

use crate::floor::{Floor, FloorFiles};
use crate::peers::{self, Peer, PeerRow};
use crate::selection::{Peers, RowName, Rows};
use crate::targets::{BIND, LOADS, OVERLAY, START, TMPFS, judge};
use crate::throughput::{self, Load, Stream};
use crate::ways::{Rounds, TRUE, Variant, Way, alternate};
use crate::{Report, Row, Trouble, host, languages, memory, steps};

/// Options of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum number of rounds of starts; each part also has a time limit. Default 300.
    pub runs: u32,
    /// Takes a fifth of the time, for a first impression.
    pub quick: bool,
    /// Rows to measure.
    pub rows: Rows,
    /// Other sandboxes to measure.
    pub peers: Peers,
}

impl Default for Options {
    fn default() -> Self {
        Self { runs: 300, quick: false, rows: Rows::default(), peers: Peers::default() }
    }
}

/// Warm-up rounds, which do not count.
const WARMUP_ROUNDS: u32 = 3;

/// Time limits and sizes of the parts.
struct Times {
    starts: Duration,
    language: Duration,
    window: Duration,
    rounds: u32,
    idle: u32,
    idle_rounds: u32,
    marks: u32,
    mark_time: Duration,
    without: Duration,
}

const USUAL_TIMES: Times = Times {
    starts: Duration::from_secs(20),
    language: Duration::from_secs(4),
    window: Duration::from_millis(350),
    rounds: 2,
    idle: 64,
    idle_rounds: 3,
    marks: 100,
    mark_time: Duration::from_secs(2),
    without: Duration::from_secs(6),
};
const QUICK_TIMES: Times = Times {
    starts: Duration::from_millis(2500),
    language: Duration::from_millis(700),
    window: Duration::from_millis(120),
    rounds: 1,
    idle: 16,
    idle_rounds: 1,
    marks: 15,
    mark_time: Duration::from_millis(300),
    without: Duration::from_millis(700),
};

/// Progress callback: the part, the number of finished steps, and their total.
pub type See<'a> = &'a mut dyn FnMut(&str, u32, u32);

/// Measures the requested parts. A part that cannot be measured becomes a row with the reason.
pub async fn bench(options: &Options, see: See<'_>) -> Report {
    let times = if options.quick { &QUICK_TIMES } else { &USUAL_TIMES };
    let rows = &options.rows;
    let mut report = Report::new(host::look());
    let peers = look_for_peers(options, &mut report, see);
    let engine = Engine::new();
    engine.keep_ready(2);
    let files = FloorFiles::new();
    if rows.has_start() {
        starts(&engine, options, times, &files, &peers, &mut report, see).await;
    }
    for language in languages::ALL.into_iter().filter(|language| rows.has(language.row)) {
        let ways = language.ways(&engine);
        let mut table = in_turn(ways.variants, options.runs, times.language, language.row.name(), see).await;
        table.extend(ways.missing);
        report.table(table);
    }
    if rows.has(RowName::Throughput) {
        throughput_rows(&peers, times, &mut report, see).await;
    }
    if rows.has(RowName::Memory) {
        let see = &mut |done, of| see("memory", done, of);
        // A separate engine, which has no idle sandboxes.
        match memory::measure(&Engine::new(), times.idle, times.idle_rounds, see).await {
            Ok(idle) => report.rows.extend(idle.rows()),
            Err(trouble) => report.row(failed(memory::IDLE, "hot", &trouble)),
        }
    }
    if rows.has(RowName::Steps)
        && let Err(trouble) = where_time_goes(&engine, options, times, &files, &mut report, see).await
    {
        report.steps_failed = Some(trouble.to_string());
    }
    report.checks = judge(&report.rows, &report.peers);
    report
}

type Found = Vec<(Peer, Vec<std::ffi::OsString>)>;

fn look_for_peers(options: &Options, report: &mut Report, see: See<'_>) -> Found {
    let wanted = |peer: &Peer| {
        options.rows.has_start() || (options.rows.has(RowName::Throughput) && *peer == Peer::Bubblewrap)
    };
    let peers: Vec<Peer> = options.peers.0.iter().copied().filter(wanted).collect();
    let of = u32::try_from(peers.len()).unwrap_or(u32::MAX);
    let mut found = Found::new();
    for (done, peer) in (1..).zip(peers) {
        let (row, command): (PeerRow, _) = peers::look_for(peer);
        report.peers.push(row);
        found.extend(command.map(|command| (peer, command)));
        see("other sandboxes", done, of);
    }
    found
}

/// Measures variants in turn, and returns their rows.
async fn in_turn(variants: Vec<Variant>, runs: u32, time: Duration, part: &str, see: See<'_>) -> Vec<Row> {
    let rounds = Rounds { runs, warm: WARMUP_ROUNDS, until: Instant::now() + time };
    let measured = alternate(variants, rounds, &mut |done, of| see(part, done, of)).await;
    measured.into_iter().map(Row::from).collect()
}

async fn starts(
    engine: &Engine,
    options: &Options,
    times: &Times,
    files: &Result<FloorFiles, Trouble>,
    peers: &Found,
    report: &mut Report,
    see: See<'_>,
) {
    let rows = &options.rows;
    let mut troubles = Vec::new();
    // Rows are compared with the bare spawn.
    let mut variants = vec![Variant::new(START, "bare", Way::Bare)];
    if rows.has(RowName::Floor) {
        let floor = files.as_ref().map_err(ToString::to_string);
        match floor.and_then(|files| Floor::start(files, &[]).map_err(|e| e.to_string())) {
            Ok(floor) => variants.push(Variant::new(START, "floor", Way::Floor(floor))),
            Err(why) => troubles.push(failed(START, "floor", &why)),
        }
    }
    if rows.has(RowName::Cold) {
        variants.push(Variant::new(START, "cold", Way::Cold(engine.clone(), Policy::new(TRUE))));
    }
    if rows.has(RowName::Hot) {
        variants.push(Variant::new(START, "hot", Way::hot(engine, Policy::new(TRUE))));
    }
    let mut folders: Vec<TempDir> = Vec::new();
    for (row, what) in [(RowName::Tmpfs, TMPFS), (RowName::Bind, BIND), (RowName::Overlay, OVERLAY)] {
        if !rows.has(row) {
            continue;
        }
        match project(row) {
            Ok(folder) => {
                let policy = match row {
                    RowName::Overlay => Policy::new(TRUE).workspace(folder.path()),
                    _ => Policy::new(TRUE).read_write(folder.path(), PROJECT),
                };
                variants.push(Variant::new(what, "hot", Way::hot(engine, policy)));
                folders.push(folder);
            }
            Err(e) => troubles.push(failed(what, "hot", &e)),
        }
    }
    for (peer, command) in peers {
        variants.push(Variant::new(START, peer.name(), Way::Command(command.clone())));
    }
    let mut table = in_turn(variants, options.runs, times.starts, "starts", see).await;
    table.append(&mut troubles);
    report.table(table);
}

/// A folder for a workspace: in memory, or in the temporary folder.
fn project(row: RowName) -> std::io::Result<TempDir> {
    let folder = match row {
        RowName::Tmpfs => tempfile::Builder::new().prefix("hotcell-bench-").tempdir_in("/dev/shm")?,
        _ => temporary::folder()?,
    };
    std::fs::write(folder.path().join("file"), b"a project of one file\n")?;
    Ok(folder)
}

async fn throughput_rows(peers: &Found, times: &Times, report: &mut Report, see: See<'_>) {
    let mut in_flight = vec![1, 2, 8];
    in_flight.extend(LOADS);
    // A separate engine that makes as many cgroups ahead as a service does.
    let engine = Engine::new();
    engine.keep_ready(64);
    let mut variants = vec![
        ("bare", Stream::bare()),
        ("cold", Stream::Cold(engine.clone())),
        ("hot", Stream::Hot(engine.clone())),
    ];
    let bubblewrap = peers.iter().find(|(peer, _)| *peer == Peer::Bubblewrap);
    variants.extend(bubblewrap.map(|(peer, words)| (peer.name(), Stream::Command(words.clone()))));
    let load = Load { in_flight, window: times.window, rounds: times.rounds };
    let mut rows = throughput::measure(&variants, &load, &mut |done, of| see("throughput", done, of)).await;
    while !rows.is_empty() {
        let rest = rows.split_off(variants.len().min(rows.len()));
        report.table(std::mem::replace(&mut rows, rest));
    }
}

async fn where_time_goes(
    engine: &Engine,
    options: &Options,
    times: &Times,
    files: &Result<FloorFiles, Trouble>,
    report: &mut Report,
    see: See<'_>,
) -> Result<(), Trouble> {
    let runs = options.runs.min(times.marks);
    let until = || Instant::now() + times.mark_time;
    see("steps of a cold run", 0, 1);
    report.steps_us = steps::cold(engine, runs, until()).await?;
    see("steps of a hot run", 0, 1);
    report.hot_steps_us = steps::hot(engine, runs, until()).await?;
    let files = files.as_ref().map_err(|trouble| Trouble::Floor(trouble.to_string()))?;
    report.floor_steps_us = steps::marks(files, runs)?;
    let until = Instant::now() + times.without;
    let see = &mut |done, of| see("steps left out", done, of);
    report.floor_without_us = steps::leave_out(files, runs, until, see)?;
    Ok(())
}

fn failed(what: &str, variant: &str, why: &impl ToString) -> Row {
    Row {
        what: what.to_owned(),
        variant: variant.to_owned(),
        failed: Some(why.to_string()),
        ..Row::default()
    }
}
