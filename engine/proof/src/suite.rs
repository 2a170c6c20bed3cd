//! Runs everything on this host within a time limit: `hotcell doctor --attack`.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::arena::{self, Until};
use crate::driver::ROW;
use crate::items::{Came, Done, Item, MAX_ARENAS, Options};
use crate::report::{Host, Report};
use crate::run::Run;
use crate::scenarios::Said;
use crate::table::rows;
use crate::task::{Effort, Work};
use crate::verdict::{Verdict, verdict};
use crate::words::User;
use crate::{cgroups, scenarios};

/// Time reserved for the removal of the last arenas.
const TEARDOWN_RESERVE: Duration = Duration::from_secs(2);
/// Time limit of a single row or test.
const ITEM_TIMEOUT: Duration = Duration::from_secs(40);
/// Number of rows that share an arena, since making one takes as long as a row.
const MAX_ROWS_PER_ARENA: usize = 6;

/// Progress of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Number of finished rows and tests.
    pub done: usize,
    /// Total number.
    pub of: usize,
    /// Name of the row or test that finished last.
    pub name: &'a str,
    /// Whether that one passed, as far as known.
    pub good: bool,
}

/// Runs rows and tests, each in a separate arena, for each user that the caller can be. Ends soon after
/// `stop` is set.
///
/// # Errors
/// When no arena can be made for any of them; nothing hostile ran then.
pub fn prove(
    options: &Options,
    stop: &AtomicBool,
    progress: &(dyn Fn(&Progress<'_>) + Sync),
) -> io::Result<Report> {
    let start = Instant::now();
    let end = start + options.within.saturating_sub(TEARDOWN_RESERVE);
    let root = nix::unistd::geteuid().is_root();
    let users: Vec<User> = User::ALL.into_iter().filter(|user| root || *user != User::Root).collect();
    if root {
        cgroups::sweep();
    }
    for user in &users {
        let tried = arena::run(*user, Work::Nothing, Effort::Quick, Until { end, stop })?;
        if !tried.cut && !tried.errors.trim().is_empty() {
            return Err(io::Error::other(format!("no arena here: {}", tried.errors.trim())));
        }
    }
    let todo = items(&options.only, &users);
    let of = todo.len();
    let lanes = lanes(&todo).map(Mutex::new);
    let done = Mutex::new(Vec::with_capacity(of));
    std::thread::scope(|scope| {
        for worker in 0..options.at_once.clamp(1, MAX_ARENAS) {
            let (lanes, done) = (&lanes, &done);
            scope.spawn(move || {
                let order = if worker % 3 == 0 { [SLOW_LANE, QUICK_LANE] } else { [QUICK_LANE, SLOW_LANE] };
                let next = || {
                    order.into_iter().find_map(|lane| {
                        lanes[lane].lock().unwrap_or_else(PoisonError::into_inner).pop_front()
                    })
                };
                while let Some((items, user)) = next() {
                    for one in together(&items, user, end, stop) {
                        let (name, good) = (one.item.name(), one.came.is_good());
                        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                        done.push(one);
                        progress(&Progress { done: done.len(), of, name: &name, good });
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|d| (d.item.number(), matches!(d.item, Item::Test(_)), d.item.name(), d.user));
    Ok(Report::new(options, users, Host::look(), &done, start.elapsed()))
}

/// The items to run, in order.
fn items(only: &[u16], users: &[User]) -> Vec<(Item, User)> {
    let all = rows().map(Item::Row).chain(scenarios::ALL.iter().map(Item::Test));
    all.filter(|item| only.is_empty() || only.contains(&item.number()))
        .flat_map(|item| users.iter().map(move |user| (item, *user)))
        .filter(|(item, user)| !matches!(item, Item::Row(row) if !row.is_for(*user)))
        .collect()
}

/// Items that run in one arena, for one user.
type Job = (Vec<Item>, User);
const QUICK_LANE: usize = 0;
const SLOW_LANE: usize = 1;

/// Splits the items into quick jobs, which may have several rows each, and slow ones.
fn lanes(todo: &[(Item, User)]) -> [VecDeque<Job>; 2] {
    let mut lanes = [VecDeque::new(), VecDeque::new()];
    let mut open: BTreeMap<User, Vec<Item>> = BTreeMap::new();
    for (item, user) in todo {
        if item.shares().is_none() {
            lanes[if item.is_slow() { SLOW_LANE } else { QUICK_LANE }].push_back((vec![*item], *user));
            continue;
        }
        let rows = open.entry(*user).or_default();
        rows.push(*item);
        if rows.len() == MAX_ROWS_PER_ARENA {
            lanes[QUICK_LANE].push_back((std::mem::take(rows), *user));
        }
    }
    lanes[QUICK_LANE]
        .extend(open.into_iter().filter(|(_, rows)| !rows.is_empty()).map(|(user, rows)| (rows, user)));
    lanes
}

/// Runs a job. A row that fails among several is run again in a separate arena, and that result counts, since
/// another row may have interfered.
fn together(items: &[Item], user: User, end: Instant, stop: &AtomicBool) -> Vec<Done> {
    let mut runs = match items {
        [_, _, ..] if !stop.load(Ordering::Relaxed) && Instant::now() < end => {
            let names = items.iter().map(|item| item.name()).collect();
            arena::run(
                user,
                Work::Rows(names),
                Effort::Quick,
                Until { end: end.min(Instant::now() + ITEM_TIMEOUT), stop },
            )
            .map(|report| runs_of(&report))
            .unwrap_or_default()
        }
        _ => BTreeMap::new(),
    };
    let done = items.iter().map(|item| {
        let begun = Instant::now();
        if let (Item::Row(row), Some(runs)) = (*item, runs.remove(&item.name())) {
            let took = Duration::from_millis(runs.iter().map(|run| run.milliseconds).sum());
            let verdict = verdict(row, user, &runs);
            if !matches!(verdict, Verdict::Failed(_)) {
                return Done { item: *item, user, came: Came::Runs(runs, verdict), took };
            }
        }
        Done { item: *item, user, came: one(*item, user, end, stop), took: begun.elapsed() }
    });
    done.collect()
}

/// Runs of each row that finished.
fn runs_of(report: &arena::Report) -> BTreeMap<String, Vec<Run>> {
    let mut rows: Vec<(String, Vec<Run>)> = Vec::new();
    for line in &report.lines {
        match (line.strip_prefix(ROW), rows.last_mut(), serde_json::from_str(line)) {
            (Some(name), ..) => rows.push((name.to_owned(), Vec::new())),
            (None, Some((_, runs)), Ok(run)) => runs.push(run),
            _ => return BTreeMap::new(),
        }
    }
    if report.cut || !report.ended_well {
        rows.pop();
    }
    rows.into_iter().collect()
}

fn one(item: Item, user: User, end: Instant, stop: &AtomicBool) -> Came {
    if stop.load(Ordering::Relaxed) || Instant::now() >= end {
        return Came::NotRun("the time was up".to_owned());
    }
    let work = match item {
        Item::Row(row) => Work::Full(row.test_name()),
        Item::Test(test) => Work::Special(test.name.to_owned()),
    };
    let report = match arena::run(
        user,
        work,
        Effort::Quick,
        Until { end: end.min(Instant::now() + ITEM_TIMEOUT), stop },
    ) {
        Ok(report) if report.cut => return Came::NotRun("the time was up before its end".to_owned()),
        Ok(report) => report,
        Err(error) => return Came::NotRun(error.to_string()),
    };
    let silent = || Came::NotRun(format!("the arena said nothing: {}", report.errors.trim()));
    match item {
        Item::Row(row) => {
            let runs: Result<Vec<Run>, _> = report.lines.iter().map(|l| serde_json::from_str(l)).collect();
            match runs {
                Ok(runs) if !runs.is_empty() => {
                    let verdict = verdict(row, user, &runs);
                    Came::Runs(runs, verdict)
                }
                _ => silent(),
            }
        }
        Item::Test(_) => match report.lines.last().and_then(|line| serde_json::from_str(line).ok()) {
            Some(Said::Good(_)) if report.cgroups_left > 0 => {
                Came::Said(Said::Bad(format!("{} cgroups are left", report.cgroups_left)))
            }
            Some(said) => Came::Said(said),
            None => silent(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arenas_are_shared_by_independent_rows() {
        let todo = items(&[], &User::ALL);
        let [quick, slow] = lanes(&todo);
        let count = |lane: &VecDeque<Job>| lane.iter().map(|(items, _)| items.len()).sum::<usize>();
        assert_eq!(count(&quick) + count(&slow), todo.len());
        assert!(slow.iter().all(|(items, _)| items.len() == 1));
        for (items, _) in quick.iter().filter(|(items, _)| items.len() > 1) {
            assert!(items.len() <= MAX_ROWS_PER_ARENA && items.iter().all(|item| item.shares().is_some()));
        }
    }

    #[test]
    fn incomplete_rows_are_not_counted() {
        let run = Run {
            setting: crate::run::Setting::AllOn,
            ending: crate::words::Ending::Exited(0),
            survivor: false,
            in_force: Vec::new(),
            note: String::new(),
            milliseconds: 1,
        };
        let run = serde_json::to_string(&run).expect("JSON");
        let lines: Vec<String> = ["row a", &run, &run, "row b", &run].map(str::to_owned).to_vec();
        let report = |cut, ended_well| arena::Report {
            lines: lines.clone(),
            cut,
            ended_well,
            ..arena::Report::default()
        };
        let names = |report: &arena::Report| {
            runs_of(report).iter().map(|(name, runs)| format!("{name} {}", runs.len())).collect::<Vec<_>>()
        };
        assert_eq!(names(&report(false, true)), ["a 2", "b 1"]);
        assert_eq!(names(&report(true, false)), ["a 2"]);
        assert_eq!(names(&report(false, false)), ["a 2"]);
        let spoilt = arena::Report {
            lines: vec!["row a".to_owned(), "nonsense".to_owned()],
            ..arena::Report::default()
        };
        assert!(runs_of(&spoilt).is_empty());
    }

    #[test]
    fn numbers_select_rows_for_both_users() {
        let both = items(&[15, 47, 68], &User::ALL);
        let names: Vec<String> =
            both.iter().map(|(item, user)| format!("{} {}", item.name(), user.name())).collect();
        for want in ["a047_take_descriptor root", "a047_take_descriptor user", "a068_setuid_program user"] {
            assert!(names.iter().any(|n| n == want), "{want}: {names:?}");
        }
        assert!(!names.iter().any(|n| n == "a068_setuid_program root"), "it is for the ordinary user");
        assert!(names.iter().any(|n| n.starts_with("a015_")));
        assert!(items(&[141], &User::ALL).is_empty());
        assert_eq!(
            items(&[], &[User::User]).len() + rows().filter(|r| !r.is_for(User::User)).count(),
            rows().count() + scenarios::ALL.len()
        );
    }
}
