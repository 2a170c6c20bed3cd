//! `hotcell bench`: measures the cost of a sandbox on this host.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use hotcell_bench::{Report, svg};
use hotcell_state::report::{Code, ErrorReport};

use crate::args::{BenchArgs, Common};
use crate::context::runtime;
use crate::exit::printed;
use crate::render::bench;
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::{exit, usage};

/// Minimum interval between updates of a terminal's line.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Measures, and prints the results.
pub fn bench(common: &Common, args: &BenchArgs) -> anyhow::Result<u8> {
    // Opened before measuring, so that a failure is known at once.
    let picture = args.svg.as_deref().map(|path| (path, File::create(path)));
    if let Some((path, Err(error))) = &picture {
        return Ok(usage::fail(&not_written(path, error), common.json));
    }
    let mut line = Line::new(common);
    let options = args.options();
    let report = runtime()?.block_on(async {
        let see = &mut |part: &str, done, of| line.see(part, done, of);
        tokio::select! {
            report = hotcell_bench::bench(&options, see) => Some(report),
            () = interrupted() => None,
        }
    });
    line.wipe();
    let Some(report) = report else { return Ok(exit::INTERRUPTED) };
    if let Some((path, Ok(mut file))) = picture
        && let Err(error) = file.write_all(svg::picture(&report).as_bytes())
    {
        return Ok(usage::fail(&not_written(path, &error), common.json));
    }
    if report.host.is_busy() && !common.quiet && !common.json {
        let (load, processors) = (report.host.load, report.host.processors);
        notes::say(format!(
            "the machine is busy (load {load:.2} on {processors} processors): the numbers are not what it can do"
        ));
    }
    let result =
        if common.json { exit::print_json(&report) } else { exit::print_text(&bench::page(&report)) };
    Ok(printed(result, status(&report)))
}

/// Exit status: a failed measurement of hotcell is an error, that of another program is not.
fn status(report: &Report) -> u8 {
    let ours = |row: &&hotcell_bench::Row| matches!(row.variant.as_str(), "cold" | "hot");
    if report.rows.iter().filter(ours).any(|row| row.failed.is_some()) { exit::REFUSED } else { 0 }
}

fn not_written(path: &Path, error: &io::Error) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("{} cannot be written: {error}", path.display()))
        .field("--svg")
}

/// A progress line on a terminal.
struct Line {
    shown: bool,
    at: Instant,
}

impl Line {
    fn new(common: &Common) -> Self {
        Self { shown: io::stderr().is_terminal() && !common.quiet, at: Instant::now() }
    }

    fn see(&mut self, part: &str, done: u32, of: u32) {
        if self.shown && (done == 0 || self.at.elapsed() >= REDRAW_INTERVAL) {
            self.at = Instant::now();
            let _ = write!(io::stderr(), "\r\x1b[K{part}: {done} of {of}");
        }
    }

    fn wipe(&self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use hotcell_bench::host::HostRow;

    use super::*;

    #[test]
    fn failed_own_bench_row_sets_exit_status() {
        for (variant, failed, want) in [
            ("hot", false, 0),
            ("hot", true, 125),
            ("cold", true, 125),
            ("docker", true, 0),
            ("bare", true, 0),
        ] {
            let mut report = Report::new(HostRow::default());
            let failed = failed.then(|| "why".to_owned());
            report.row(hotcell_bench::Row { variant: variant.to_owned(), failed, ..Default::default() });
            assert_eq!(status(&report), want, "{variant}");
        }
    }
}
