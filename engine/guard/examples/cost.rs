//! Cost of scanning one path: `cost PATH` prints the verdict, the seconds and the peak memory in MiB.

use hotcell_guard::{Limits, Pack, Walk, scan, scan_path};
use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: cost PATH")?);
    let (pack, limits) = (Pack::builtin()?, Limits::default());
    let begin = Instant::now();
    let walk = Walk { gitignore: false, packages: true, executed: None };
    let report =
        scan_path(&limits, &path, walk, &mut |artifact| scan(&pack, &limits, artifact), &mut |_| {})?;
    let seconds = begin.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("");
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse()?;
    println!("{:10} {seconds:5.2} s {:4} MiB  {}", report.verdict.name(), kib / 1024, path.display());
    Ok(())
}
