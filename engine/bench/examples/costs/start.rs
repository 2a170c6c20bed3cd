//! One start of `/bin/true` at a time, and `hotcell run` beside `bwrap` as whole processes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use hotcell_bench::floor::{Floor, FloorFiles};
use hotcell_bench::peers::{Peer, Place};
use hotcell_bench::targets::START;
use hotcell_bench::ways::{Measured, Rounds, TRUE, Variant, Way, alternate};
use hotcell_bench::{Report, Row, Samples};
use hotcell_sandbox::{Engine, Policy};

use crate::Options;

/// Runs before the first measurement.
const WARMUP_RUNS: u32 = 5;
/// Time limit that is never reached.
const NO_TIMEOUT: Duration = Duration::from_secs(3600);
const PROCESS: &str = "whole process";

/// Measures the table of starts.
pub async fn measure(
    engine: &Engine,
    files: &FloorFiles,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let hotcell = whole_process(options)?;
    let state = tempfile::tempdir()?;
    let bubblewrap = Peer::Bubblewrap.name();
    let mut variants = vec![
        Variant::new(START, "bare", Way::Bare),
        Variant::new(START, "floor", Way::Floor(Floor::start(files, &[])?)),
        Variant::new(START, "cold", Way::Cold(engine.clone(), Policy::new(TRUE))),
        Variant::new(START, "hot", Way::hot(engine, Policy::new(TRUE))),
        Variant::new(START, bubblewrap, Way::Command(Peer::Bubblewrap.command(&Place::look()))),
    ];
    if let Some(hotcell) = &hotcell {
        variants.push(Variant::new(PROCESS, "cold", Way::Command(hotcell_run(hotcell, state.path()))));
    }
    let rounds = Rounds { runs: options.runs, warm: WARMUP_RUNS, until: Instant::now() + NO_TIMEOUT };
    let measured = alternate(variants, rounds, &mut |_, _| {}).await;
    let mut all = Vec::new();
    for Measured { what, name, times, failed } in measured {
        match failed {
            Some(why) => bail!("{what}, {name}: {why}"),
            None => all.push((what, name, times)),
        }
    }
    let row = |(what, name, times): &(String, String, Samples)| Row::of_times(what, name, times);
    report.table(all.iter().take(5).map(row).collect());
    let [(.., bare), (.., c), (.., cold), (.., hot), (.., peer), whole @ ..] = &all[..] else {
        bail!("a variant is missing")
    };
    report.at_most("cold start / bare spawn", cold.median() / bare.median(), 2.8, " x");
    report.at_most("hot start / bare spawn", hot.median() / bare.median(), 1.25, " x");
    report.at_most("hot start, p99 / bare spawn, p50", hot.percentile(99.0) / bare.median(), 3.0, " x");
    report.at_most("hot start / bubblewrap", hot.median() / peer.median(), 0.2, " x");
    report.at_most("cold start / bubblewrap", cold.median() / peer.median(), 0.4, " x");
    report.at_most("cold start / floor", cold.median() / c.median(), 1.25, " x");
    if let [(.., whole)] = whole {
        report.table(vec![Row::of_times(PROCESS, "cold", whole), Row::of_times(PROCESS, bubblewrap, peer)]);
        report.at_most("`hotcell run` / `bwrap`", whole.median() / peer.median(), 1.0, " x");
    }
    Ok(())
}

fn hotcell_run(hotcell: &Path, state: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![hotcell.into(), "run".into(), "--state".into(), state.into()];
    words.extend(["--quiet", "--", TRUE].map(OsString::from));
    words
}

/// The executable given by the option, else the one in the folder above, where Cargo puts programs of this profile.
pub fn whole_process(options: &Options) -> Result<Option<PathBuf>> {
    if let Some(named) = &options.hotcell {
        ensure!(named.is_file(), "{}: no such file", named.display());
        return Ok(Some(named.canonicalize()?));
    }
    let this = std::env::current_exe()?;
    let built = this.parent().and_then(Path::parent).map(|folder| folder.join("hotcell"));
    Ok(built.filter(|file| file.is_file()))
}
