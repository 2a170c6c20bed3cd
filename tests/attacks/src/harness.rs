//! The test program: one named test for each row and user, and for each special test.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hotcell_proof::arena::{self, ARENA_LIFETIME, GO_ON, Until};
use hotcell_proof::run::Run;
use hotcell_proof::scenarios::{Said, Special};
use hotcell_proof::table::{Expect, Row, rows};
use hotcell_proof::task::{Effort, Work};
use hotcell_proof::verdict::{Verdict, bare_verdict, landlock_only_verdict, verdict};
use hotcell_proof::words::User;
use hotcell_proof::{programs, scenarios};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::markdown::{Line, markdown};

type Lines = Arc<Mutex<BTreeMap<String, Line>>>;

/// Runs the tests, or the stage of an arena that the arguments request.
///
/// Besides libtest's arguments it accepts `--table`: print the table of attacks and layers after the run.
#[must_use]
pub fn main() -> i32 {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(code) = hotcell_proof::stage(&arguments) {
        return code;
    }
    let table = arguments.iter().any(|a| a == "--table");
    let mut known = Arguments::from_iter(arguments.into_iter().filter(|a| a != "--table"));
    if known.test_threads.is_none() {
        // Time and memory limits are among the tested layers: too many arenas at once disturb each other.
        known.test_threads = Some(2);
    }
    let lines = Lines::default();
    let root = nix::unistd::geteuid().is_root();
    let mut trials = Vec::new();
    for row in rows() {
        for user in User::ALL.into_iter().filter(|u| row.is_for(*u)) {
            trials.push(row_trial(row, user, root, &lines));
            if !matches!(row.expect, Expect::Ends(_)) {
                trials.push(bare_trial(row, user, root, &lines));
            }
            trials.push(landlock_only_trial(row, user, root, &lines));
        }
    }
    for test in scenarios::ALL {
        for user in User::ALL {
            trials.push(special_trial(test, user, root));
        }
    }
    let conclusion = libtest_mimic::run(&known, trials);
    if table && let Ok(lines) = lines.lock() {
        let lines: Vec<Line> = lines.values().cloned().collect();
        println!("{}", markdown(&lines));
        if std::env::var_os("HOTCELL_ATTACKS_NOTES").is_some() {
            for line in &lines {
                for run in &line.runs {
                    println!(
                        "{} {} {:?} {:?}: {}",
                        line.row.test_name(),
                        line.user.name(),
                        run.setting,
                        run.ending,
                        run.note
                    );
                }
            }
        }
    }
    conclusion.exit_code().into_code()
}

/// `ExitCode` gives no access to its number; only success or failure counts.
trait IntoCode {
    fn into_code(self) -> i32;
}
impl IntoCode for std::process::ExitCode {
    fn into_code(self) -> i32 {
        i32::from(self != Self::SUCCESS)
    }
}

/// Runs `work` in an arena; a host that cannot provide one is a named skip, never a pass.
fn in_arena(user: User, root: bool, work: Work) -> Result<Result<arena::Report, Completion>, Failed> {
    if user == User::Root && !root {
        return Ok(Err(Completion::ignored_with("needs root")));
    }
    // Not a shortcoming of the host: this very build is broken.
    programs::attack().map_err(|e| Failed::from(e.to_string()))?;
    match arena::run(
        user,
        work,
        Effort::Thorough,
        Until { end: Instant::now() + ARENA_LIFETIME, stop: &GO_ON },
    ) {
        Ok(report) => Ok(Ok(report)),
        Err(error) if std::env::var_os("HOTCELL_ATTACKS_REQUIRE_ARENA").is_some() => {
            Err(Failed::from(error.to_string()))
        }
        Err(error) => {
            Ok(Err(Completion::ignored_with(format!("without an arena nothing hostile runs: {error}"))))
        }
    }
}

/// Sort key of a row in the table.
fn key(row: &Row, user: User) -> String {
    format!("{} {}", row.test_name(), user.name())
}

fn runs(report: &arena::Report) -> Result<Vec<Run>, Failed> {
    let runs: Vec<Run> = report
        .lines
        .iter()
        .map(|line| serde_json::from_str(line).map_err(|e| Failed::from(format!("{e}: {line}"))))
        .collect::<Result<_, _>>()?;
    if runs.is_empty() {
        return Err(Failed::from(format!("the driver said nothing: {}", report.errors.trim())));
    }
    Ok(runs)
}

fn complete(verdict: &Verdict, runs: &[Run]) -> Result<Completion, Failed> {
    match verdict {
        Verdict::Held(_) | Verdict::Works | Verdict::Open(_) => Ok(Completion::Completed),
        Verdict::Skipped(why) => Ok(Completion::ignored_with(why)),
        Verdict::Failed(why) => {
            let mut text = why.join("\n");
            for run in runs {
                text.push_str(&format!(
                    "\n  {:?}: {:?} survivor {} {}",
                    run.setting, run.ending, run.survivor, run.note
                ));
            }
            Err(Failed::from(text))
        }
    }
}

fn row_trial(row: &'static Row, user: User, root: bool, lines: &Lines) -> Trial {
    let lines = Arc::clone(lines);
    Trial::ignorable_test(format!("{}::{}", row.test_name(), user.name()), move || {
        let report = match in_arena(user, root, Work::Full(row.test_name()))? {
            Ok(report) => report,
            Err(skip) => return Ok(skip),
        };
        let runs = runs(&report)?;
        let verdict = verdict(row, user, &runs);
        let completion = complete(&verdict, &runs);
        if let Ok(mut lines) = lines.lock() {
            let line = lines.entry(key(row, user)).or_insert_with(|| Line::new(row, user));
            (line.runs, line.verdict) = (runs, Some(verdict));
        }
        completion
    })
}

fn bare_trial(row: &'static Row, user: User, root: bool, lines: &Lines) -> Trial {
    let lines = Arc::clone(lines);
    Trial::ignorable_test(format!("bare::{}::{}", row.test_name(), user.name()), move || {
        let report = match in_arena(user, root, Work::Bare(row.test_name()))? {
            Ok(report) => report,
            Err(skip) => return Ok(skip),
        };
        let runs = runs(&report)?;
        let Some(bare) = runs.first() else { return Err(Failed::from("no run")) };
        let verdict = bare_verdict(row, user, bare);
        let completion = complete(&verdict, &runs);
        if let Ok(mut lines) = lines.lock() {
            // If the row was run in full before, that run has more findings and stays.
            let line = lines.entry(key(row, user)).or_insert_with(|| Line::new(row, user));
            if line.verdict.is_none() {
                (line.runs, line.verdict) = (runs, Some(verdict));
            }
        }
        completion
    })
}

fn landlock_only_trial(row: &'static Row, user: User, root: bool, lines: &Lines) -> Trial {
    let lines = Arc::clone(lines);
    Trial::ignorable_test(format!("landlock_only::{}::{}", row.test_name(), user.name()), move || {
        let report = match in_arena(user, root, Work::LandlockOnly(row.test_name()))? {
            Ok(report) => report,
            Err(skip) => return Ok(skip),
        };
        let runs = runs(&report)?;
        let Some(run) = runs.first() else { return Err(Failed::from("no run")) };
        let verdict = landlock_only_verdict(row, user, run);
        let completion = complete(&verdict, &runs);
        if let Ok(mut lines) = lines.lock() {
            lines.entry(key(row, user)).or_insert_with(|| Line::new(row, user)).landlock_only = Some(verdict);
        }
        completion
    })
}

fn special_trial(test: &'static Special, user: User, root: bool) -> Trial {
    Trial::ignorable_test(format!("{}::{}", test.name, user.name()), move || {
        let report = match in_arena(user, root, Work::Special(test.name.to_owned()))? {
            Ok(report) => report,
            Err(skip) => return Ok(skip),
        };
        let Some(line) = report.lines.last() else {
            return Err(Failed::from(format!("the driver said nothing: {}", report.errors.trim())));
        };
        match serde_json::from_str(line).map_err(|e| Failed::from(format!("{e}: {line}")))? {
            Said::Good(_) if report.cgroups_left > 0 => {
                Err(Failed::from(format!("{} cgroups are left", report.cgroups_left)))
            }
            Said::Good(_) => Ok(Completion::Completed),
            Said::Skipped(why) => Ok(Completion::ignored_with(why)),
            Said::Bad(why) => Err(Failed::from(format!("{why}\n{}", report.errors.trim()).trim().to_owned())),
        }
    })
}
