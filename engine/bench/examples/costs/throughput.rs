//! Starts per second with sixteen in flight.

use std::time::Duration;

use anyhow::{Result, ensure};
use hotcell_bench::Report;
use hotcell_bench::peers::{Peer, Place};
use hotcell_bench::throughput::{self, Load, Stream};
use hotcell_sandbox::Engine;

const IN_FLIGHT: usize = 16;
/// Number of turns of each variant.
const ROUNDS: u32 = 3;

/// Measures the table; each variant runs in each round for as long as `runs` cold runs take on a slow
/// machine.
pub async fn measure(runs: u32, report: &mut Report) -> Result<()> {
    let engine = Engine::new();
    engine.keep_ready(IN_FLIGHT);
    let variants = [
        ("bare", Stream::bare()),
        ("cold", Stream::Cold(engine.clone())),
        ("hot", Stream::Hot(engine)),
        (Peer::Bubblewrap.name(), Stream::Command(Peer::Bubblewrap.command(&Place::look()))),
    ];
    let window = Duration::from_millis(2) * (runs / ROUNDS);
    let load = Load { in_flight: vec![IN_FLIGHT], window, rounds: ROUNDS };
    let rows = throughput::measure(&variants, &load, &mut |_, _| {}).await;
    for row in &rows {
        ensure!(row.failed.is_none(), "{}: {:?}", row.variant, row.failed);
    }
    report.table(rows);
    Ok(())
}
