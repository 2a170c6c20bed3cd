//! What a sandbox costs: hotcell beside a bare spawn, beside a C program that makes the same kernel calls
//! (the floor), and beside bubblewrap, measured alternately in one run.
//!
//! It measures and compares with the targets; it judges nothing and changes nothing.

#![forbid(unsafe_code)]

mod bandit;
mod guard;
mod images;
mod inside;
mod leaks;
mod mcp;
mod start;
mod steps;
mod suite;
mod throughput;
mod tools;
mod workspace;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use hotcell_bench::floor::FloorFiles;
use hotcell_bench::{Report, host};
use hotcell_sandbox::Engine;

/// Measures what a sandbox costs.
#[derive(Debug, Parser)]
struct Options {
    /// Print one JSON object (`hotcell.bench/1`) instead of tables.
    #[arg(long)]
    json: bool,
    /// How often each row of the start-up table is measured.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(3..=100_000))]
    runs: u32,
    /// Measure only this part; may be given several times.
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// The `hotcell` executable for the whole-process row; by default the one next to this program.
    #[arg(long)]
    hotcell: Option<PathBuf>,
    /// A virtual environment with pytest, for the suites.
    #[arg(long, value_name = "DIR")]
    pytest: Option<PathBuf>,
    /// A virtual environment with Bandit, for the guard.
    #[arg(long, value_name = "DIR")]
    bandit: Option<PathBuf>,
    /// The plugins that scripts/plugins built, for the tools.
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// One start of `/bin/true` at a time.
    Start,
    /// Sixteen starts in flight.
    Throughput,
    /// What work inside costs.
    Inside,
    /// What is left after many runs.
    Leaks,
    /// A project's tests inside and outside.
    Suite,
    /// The guard's reading, by itself and beside Bandit.
    Guard,
    /// Copy-on-write workspaces.
    Workspace,
    /// Runs in images, and importing them.
    Images,
    /// Calls through the MCP server.
    Mcp,
    /// Tools as components.
    Tools,
    /// Where the time of a start goes.
    Steps,
    /// What each step of the floor costs, found by leaving it out. Not part of a run without `--only`.
    Without,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let options = Options::parse();
    let wanted = |part| match part {
        Part::Without => options.only.contains(&part),
        _ => options.only.is_empty() || options.only.contains(&part),
    };
    let mut report = Report::new(host::look());
    let floor = FloorFiles::new().context("there is no floor")?;
    if wanted(Part::Start) {
        let engine = Engine::new();
        engine.keep_ready(2);
        start::measure(&engine, &floor, &options, &mut report).await?;
    }
    if wanted(Part::Throughput) {
        throughput::measure(options.runs, &mut report).await?;
    }
    if wanted(Part::Inside) {
        inside::measure(&mut report).await?;
    }
    if wanted(Part::Leaks) {
        leaks::measure(&mut report).await?;
    }
    if wanted(Part::Suite) {
        suite::measure(&options, &mut report).await?;
    }
    if wanted(Part::Guard) {
        guard::measure(&options, &mut report)?;
        bandit::measure(&options, &mut report)?;
    }
    if wanted(Part::Workspace) {
        workspace::measure(&options, &mut report).await?;
    }
    if wanted(Part::Images) {
        images::measure(&options, &mut report).await?;
    }
    if wanted(Part::Mcp) {
        mcp::measure(&options, &mut report).await?;
    }
    if wanted(Part::Tools) {
        tools::measure(&options, &mut report).await?;
    }
    if wanted(Part::Steps) {
        steps::measure(&floor, options.runs, &mut report).await?;
    }
    if wanted(Part::Without) {
        steps::leave_out(&floor, options.runs, &mut report)?;
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.markdown());
    }
    Ok(())
}
