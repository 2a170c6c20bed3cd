//! `hotcell doctor --attack`: runs hostile programs against this host's sandboxes, with each layer removed in
//! turn.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use hotcell_proof::items::Options;
use hotcell_proof::report::{AttackReport, Report, Standing, Summary, html, text};
use hotcell_proof::suite::{self, Progress};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::{StateChoice, StateFolder};
use hotcell_state::time::{micros_since_1970, rfc3339};
use hotcell_web::Attacks;

use crate::args::{Common, DoctorArgs};
use crate::context::{configuration, runtime, state};
use crate::exit::printed;
use crate::mcp::servers::{read, write};
use crate::signals::interrupted;
use crate::{exit, usage};

/// Interval between progress lines without a terminal.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// Exit status when an attack got through, or was not run.
const FAILURE_STATUS: u8 = 1;

/// Runs the selected attacks and prints the results.
pub fn attack(common: &Common, args: &DoctorArgs) -> anyhow::Result<u8> {
    // Opened first, so that a failure is known before the attacks have run for a minute.
    let page = match &args.html {
        Some(path) => match std::fs::File::create(path) {
            Ok(file) => Some((path, file)),
            Err(error) => return Ok(usage::fail(&unwritable(path, &error), common.json)),
        },
        None => None,
    };
    let options = Options {
        only: args.only.clone().map(|numbers| numbers.0).unwrap_or_default(),
        within: args.within.unwrap_or(Options::default().within),
        date: rfc3339(micros_since_1970(SystemTime::now())),
        ..Options::default()
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (worker, show) = (Arc::clone(&stop), Show::new(common));
    let worker = std::thread::spawn(move || {
        let found = suite::prove(&options, &worker, &|progress| show.see(progress));
        show.end();
        found
    });
    let interrupted = runtime()?.block_on(async {
        let interrupted = interrupted();
        tokio::pin!(interrupted);
        while !worker.is_finished() {
            tokio::select! {
                () = &mut interrupted => return true,
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        }
        false
    });
    // Attacks in progress remove their arenas first.
    stop.store(interrupted, Ordering::Relaxed);
    let found = worker.join().map_err(|_| anyhow::anyhow!("the attacks came to no end"))?;
    if interrupted {
        return Ok(exit::INTERRUPTED);
    }
    let report = match found {
        Ok(report) => report,
        Err(error) => return Ok(usage::fail(&no_arena(&error), common.json)),
    };
    if let Some((path, mut file)) = page
        && let Err(error) = file.write_all(html(&report).as_bytes())
    {
        return Ok(usage::fail(&unwritable(path, &error), common.json));
    }
    if args.only.is_none()
        && let Err(error) = keep(common, &report)
    {
        tracing::warn!("the page of hotcell web does not show these attacks: {error}");
    }
    Ok(print(common, &report))
}

/// File in the state folder with the results of the last whole run.
const KEPT: &str = "attacks.json";

/// Keeps the results for the page, where there is a state folder.
fn keep(common: &Common, report: &Report) -> Result<(), ErrorReport> {
    let bad = |e: &dyn ToString| ErrorReport::new(Code::State, e.to_string());
    let choice = state(common, &configuration(common, None)?);
    let folder = StateFolder::open(choice.path().map_err(|e| bad(&e))?).map_err(|e| bad(&e))?;
    write(&folder.path().join(KEPT), report).map_err(|e| bad(&e))
}

/// The results that were kept, for the page.
///
/// # Errors
/// [`ErrorReport`] when the file cannot be read.
pub fn kept(choice: &StateChoice) -> Result<Option<Attacks>, ErrorReport> {
    let bad = |e: &dyn ToString| ErrorReport::new(Code::State, format!("{KEPT}: {}", e.to_string()));
    let Ok(folder) = choice.path() else { return Ok(None) };
    let Some(report) = read::<Report>(&folder.join(KEPT)).map_err(|e| bad(&e))? else { return Ok(None) };
    let Summary { two_walls, one_wall, holds, absent, thin, not_run, never, failed, good, .. } =
        report.summary;
    let all = [
        (Standing::Failed, failed),
        (Standing::NotRun, not_run),
        (Standing::Thin, thin),
        (Standing::TwoWalls, two_walls),
        (Standing::OneWall, one_wall),
        (Standing::Holds, holds),
        (Standing::Absent, absent),
        (Standing::Never, never),
    ];
    let counts = all.into_iter().filter(|(_, count)| *count > 0);
    let row = |one: &AttackReport| {
        let good = !matches!(one.standing, Standing::Failed | Standing::NotRun | Standing::Thin);
        let why = one.why.iter().chain(one.rows.iter().filter_map(|row| row.why.as_ref())).next();
        (
            one.number,
            one.title.clone(),
            one.standing.words().to_owned(),
            good,
            why.cloned().unwrap_or_default(),
        )
    };
    Ok(Some(Attacks {
        date: report.date,
        of: [report.hotcell, report.host.kernel],
        good,
        counts: counts.map(|(standing, count)| (standing.words().to_owned(), count)).collect(),
        rows: report.attacks.iter().map(row).collect(),
    }))
}

fn print(common: &Common, report: &Report) -> u8 {
    let code = if report.summary.good { 0 } else { FAILURE_STATUS };
    let result = if common.json {
        exit::print_json(report)
    } else {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        exit::print_text(&text(report, io::stdout().is_terminal() && !plain))
    };
    printed(result, code)
}

fn unwritable(path: &Path, error: &io::Error) -> ErrorReport {
    ErrorReport::new(Code::Usage, format!("{} cannot be written: {error}", path.display()))
        .field("--html")
        .hint("name a file in a folder that is there and that you may write")
}

fn no_arena(error: &io::Error) -> ErrorReport {
    ErrorReport::new(
        Code::Internal,
        format!("nothing was run, since nothing hostile runs outside an arena: {error}"),
    )
    .hint("an arena needs user namespaces; hotcell doctor says what this host lacks and what mends it")
}

/// Progress display for a person.
struct Show {
    terminal: bool,
    silent: bool,
    shown: std::sync::Mutex<Instant>,
}

impl Show {
    fn new(common: &Common) -> Self {
        let terminal = io::stderr().is_terminal();
        let silent = common.quiet || (common.json && !terminal);
        Self { terminal, silent, shown: std::sync::Mutex::new(Instant::now()) }
    }

    fn see(&self, progress: &Progress<'_>) {
        if self.silent {
            return;
        }
        let Progress { done, of, name, good } = progress;
        let mut err = io::stderr();
        if self.terminal {
            if !good {
                let _ = writeln!(err, "\r\x1b[K{name}: does not hold, or was not run to its end");
            }
            let _ = write!(err, "\r\x1b[K{done} of {of} · {name}");
        } else if let Ok(mut shown) = self.shown.lock()
            && shown.elapsed() >= PROGRESS_INTERVAL
        {
            *shown = Instant::now();
            let _ = writeln!(err, "hotcell: {done} of {of} rows and tests");
        }
    }

    fn end(&self) {
        if self.terminal && !self.silent {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
