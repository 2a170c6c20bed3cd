//! Denials of a wrapped server's runs: kept when a run ends, shown with the grants that would allow them. Several processes of one server run at a time
//! behind the combined server: runs that overlapped are shown together, so that none hides another's.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use hotcell_sandbox::outcome::{Cause, Denial, Outcome};
use hotcell_state::report::printable;
use hotcell_state::time::micros_since_1970;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mcp::servers::{read, write};
use crate::terminal::notes;

/// Value of the `schema` field of denials.
pub const DENIALS_SCHEMA: &str = "hotcell.mcp_denials/1";
/// Denials of the last runs.
const RUNS: &str = "denials.json";
/// File that is locked while they are changed.
const LOCK: &str = ".denials-lock";
/// Maximum number of runs that are kept: as many as a server can have processes.
const MAX_RUNS: usize = 16;

/// Denials of a server's last run that has ended, and of those that ran beside it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Denials {
    /// Always `hotcell.mcp_denials/1`.
    pub schema: String,
    /// Name of the server.
    pub name: String,
    /// Cause of the last run's end.
    pub cause: Cause,
    /// Denied calls and hosts.
    pub denials: Vec<Denial>,
    /// Grants that would allow denied hosts.
    pub grants: Vec<String>,
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    began_us: i64,
    ended_us: i64,
    cause: Cause,
    denials: Vec<Denial>,
    grants: Vec<String>,
}

/// Runs to keep once another one has ended: those that overlapped with it. Pure.
fn beside(mut runs: Vec<Run>, ended: Run) -> Vec<Run> {
    runs.retain(|run| run.ended_us >= ended.began_us);
    runs.push(ended);
    let gone = runs.len().saturating_sub(MAX_RUNS);
    runs.drain(..gone);
    runs
}

/// All denials of runs, each once with its number added up, and all grants. Pure.
fn joined(runs: &[Run]) -> (Vec<Denial>, Vec<String>) {
    let (mut denials, mut grants): (Vec<Denial>, Vec<String>) = (Vec::new(), Vec::new());
    for run in runs {
        for denial in &run.denials {
            let same = |known: &&mut Denial| {
                (&known.layer, &known.operation, &known.target, &known.errno)
                    == (&denial.layer, &denial.operation, &denial.target, &denial.errno)
            };
            match denials.iter_mut().find(same) {
                Some(known) => known.count += denial.count,
                None => denials.push(denial.clone()),
            }
        }
        for grant in run.grants.iter().filter(|grant| !grants.contains(grant)).collect::<Vec<_>>() {
            grants.push(grant.clone());
        }
    }
    (denials, grants)
}

/// Keeps the denials of a run that began at a time and has ended.
pub fn keep(folder: &Path, name: &str, began: SystemTime, outcome: &Outcome, grants: Vec<String>) {
    let ended = Run {
        began_us: micros_since_1970(began),
        ended_us: micros_since_1970(SystemTime::now()),
        cause: outcome.cause,
        denials: outcome.denials.clone(),
        grants,
    };
    if let Err(error) = add(folder, ended) {
        notes::say(format!("the denials of {name} cannot be kept: {error}"));
    }
}

fn add(folder: &Path, ended: Run) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let lock = fs::File::options().create(true).truncate(false).write(true).open(folder.join(LOCK))?;
    lock.lock()?;
    // A file of an earlier version, or a broken one, is replaced.
    let runs = read::<Vec<Run>>(&folder.join(RUNS)).ok().flatten().unwrap_or_default();
    write(&folder.join(RUNS), &beside(runs, ended))
}

/// File with the denials of the last runs.
pub fn file(folder: &Path) -> std::path::PathBuf {
    folder.join(RUNS)
}

/// Removes the denials of earlier runs.
pub fn forget(folder: &Path) {
    let _ = fs::remove_file(folder.join(RUNS));
}

/// Denials of the last runs; `None` when no run has ended yet.
///
/// # Errors
/// When they cannot be read.
pub fn of(folder: &Path, name: &str) -> io::Result<Option<Denials>> {
    let runs: Vec<Run> = read(&folder.join(RUNS))?.unwrap_or_default();
    let Some(last) = runs.last() else { return Ok(None) };
    let (denials, grants) = joined(&runs);
    let (schema, name) = (DENIALS_SCHEMA.to_owned(), name.to_owned());
    Ok(Some(Denials { schema, name, cause: last.cause, denials, grants }))
}

/// Denials, and the commands that would grant them.
pub fn page(kept: &Denials) -> String {
    let mut text = String::new();
    for denial in &kept.denials {
        let line =
            format!("{} {} {} ({} times)", denial.layer, denial.operation, denial.target, denial.count);
        let _ = writeln!(text, "denied    {}", printable(&line));
    }
    for grant in &kept.grants {
        let _ = writeln!(text, "to allow  hotcell mcp servers grant {} {}", kept.name, printable(grant));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(began_us: i64, ended_us: i64, targets: &[&str]) -> Run {
        let denial = |target: &&str| Denial {
            layer: "network".to_owned(),
            operation: "connect".to_owned(),
            target: (*target).to_owned(),
            errno: String::new(),
            count: 1,
        };
        let grants = targets.iter().map(|target| format!("network={target}")).collect();
        Run {
            began_us,
            ended_us,
            cause: Cause::Exited,
            denials: targets.iter().map(denial).collect(),
            grants,
        }
    }

    #[test]
    fn runs_that_overlapped_are_shown_together() {
        for (before, ended, want) in [
            (vec![], run(1, 2, &["a"]), vec![(1, 2)]),
            (vec![run(1, 5, &[])], run(2, 6, &[]), vec![(1, 5), (2, 6)]),
            (vec![run(1, 5, &[])], run(6, 7, &[]), vec![(6, 7)]),
            (vec![run(1, 5, &[]), run(1, 9, &[])], run(7, 10, &[]), vec![(1, 9), (7, 10)]),
        ] {
            let kept: Vec<_> = beside(before, ended).iter().map(|run| (run.began_us, run.ended_us)).collect();
            assert_eq!(kept, want);
        }
        let many = (0..40).map(|_| run(1, 9, &[])).collect();
        assert_eq!(beside(many, run(2, 9, &[])).len(), MAX_RUNS);
    }

    #[test]
    fn denials_of_processes_do_not_replace_each_other() {
        let folder = tempfile::tempdir().unwrap();
        assert!(of(folder.path(), "s").unwrap().is_none());
        add(folder.path(), run(1, 5, &["a:1", "b:2"])).unwrap();
        add(folder.path(), run(2, 6, &["b:2"])).unwrap();
        let kept = of(folder.path(), "s").unwrap().unwrap();
        let counts: Vec<_> = kept.denials.iter().map(|one| (one.target.as_str(), one.count)).collect();
        assert_eq!((counts, kept.grants.len()), (vec![("a:1", 1), ("b:2", 2)], 2));
        assert!(page(&kept).contains("grant s network=b:2"));
        forget(folder.path());
        assert!(of(folder.path(), "s").unwrap().is_none());
    }
}
