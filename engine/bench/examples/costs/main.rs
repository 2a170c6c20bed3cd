//! Measures what a sandbox costs: hotcell beside a bare spawn, beside a C program that makes the same kernel
//! calls (the floor), and beside bubblewrap, measured alternately in one run.
//!
//! Results are compared with the targets. The benchmark neither fails because of them nor changes anything.

#![forbid(unsafe_code)]

mod agents;
mod bandit;
mod guard;
mod images;
mod inside;
mod leaks;
mod mcp;
mod receipts;
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
    /// Number of measurements of each row of the start-up table.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(3..=100_000))]
    runs: u32,
    /// Measure only this part; may be given several times.
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// The `hotcell` executable for the whole-process row; by default the one that was built beside it.
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
    /// Cost of work inside.
    Inside,
    /// Leftovers of many runs.
    Leaks,
    /// A project's tests inside and outside.
    Suite,
    /// Scans by the guard, and beside Bandit.
    Guard,
    /// Copy-on-write workspaces.
    Workspace,
    /// Runs in images, and importing them.
    Images,
    /// Calls through the MCP server.
    Mcp,
    /// Receipts: making one, a run with one, checking a thousand.
    Receipts,
    /// Tools as components.
    Tools,
    /// Sessions of `hotcell fix` whose model replies at once.
    Agents,
    /// Durations of the steps of a start.
    Steps,
    /// Cost of each step of the floor, measured by leaving it out. Not part of a run without `--only`.
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
    if wanted(Part::Receipts) {
        receipts::measure(&options, &mut report).await?;
    }
    if wanted(Part::Tools) {
        tools::measure(&options, &mut report).await?;
    }
    if wanted(Part::Agents) {
        agents::measure(&mut report).await?;
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
