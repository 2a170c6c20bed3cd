//! Options of `hotcell bench`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use hotcell_bench::{Options, Peers, Rows};

/// Arguments of `hotcell bench`.
#[derive(Args, Debug)]
#[command(
    after_help = "Rows: bare, floor, cold, hot, tmpfs, bind, overlay, python, node, throughput, memory, steps. Peers:\n\
                  bubblewrap, nsjail, firejail, unshare, podman, docker, sandlock; nothing is installed or pulled.\n\
                  A target that is missed is printed and changes nothing. Exit status: 0 measured; 125 a row of\n\
                  hotcell itself could not be; 130 interrupted."
)]
pub struct BenchArgs {
    /// Maximum rounds of starts; each part also has a time limit [default: 300]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: Option<u32>,
    /// Take a quarter of the time, for a first impression
    #[arg(long)]
    pub quick: bool,
    /// Measure only these rows (names with commas between them)
    #[arg(long, value_name = "ROWS", value_parser = Rows::parse)]
    pub only: Option<Rows>,
    /// Other sandboxes to compare with, or none [default: those on PATH]
    #[arg(long, value_name = "PEERS|none", value_parser = Peers::parse)]
    pub peers: Option<Peers>,
    /// Draw where the time goes, as an SVG picture
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(super::written))]
    pub svg: Option<PathBuf>,
}

impl BenchArgs {
    /// The options of the measurement.
    pub fn options(&self) -> Options {
        let usual = Options::default();
        Options {
            runs: self.runs.unwrap_or(usual.runs),
            quick: self.quick,
            rows: self.only.clone().unwrap_or_default(),
            peers: self.peers.clone().unwrap_or_default(),
        }
    }
}
