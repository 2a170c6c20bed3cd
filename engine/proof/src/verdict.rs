//! Judges the runs of a row: a pure function, tested as a table.

use serde::{Deserialize, Serialize};

use crate::run::{ABSENT, MISSING, Run, STOPPED, Setting, THROUGH};
use crate::table::{Expect, Proof, Row};
use crate::words::{Ending, User, Wall};

/// Result of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shown {
    /// The attack got through.
    Through,
    /// The attack was stopped.
    Stopped,
    /// The kernel, or a filter, reports that there is no such call.
    Absent,
    /// A precondition is missing.
    Missing(String),
    /// The engine refuses to run without that defence.
    Refused(String),
    /// The program failed, not the attack.
    Broken(String),
}

/// Result of one run of this row.
#[must_use]
pub fn shown(row: &Row, run: &Run) -> Shown {
    if run.survivor {
        return Shown::Through;
    }
    match &run.ending {
        Ending::Exited(THROUGH) => Shown::Through,
        Ending::Exited(STOPPED) => Shown::Stopped,
        Ending::Exited(ABSENT) => Shown::Absent,
        Ending::Exited(MISSING) => Shown::Missing(run.note.clone()),
        Ending::Exited(code) => Shown::Broken(format!("exit code {code}: {}", run.note)),
        Ending::Limit(cause) if row.stopped_by.contains(&cause.as_str()) => Shown::Stopped,
        Ending::Limit(cause) if matches!(row.expect, Expect::Ends(wanted) if wanted == cause) => {
            Shown::Stopped
        }
        Ending::Limit(cause) => Shown::Broken(format!("ended by {cause}: {}", run.note)),
        Ending::Signaled(signal) if row.stopped_by.contains(&signal.as_str()) => Shown::Stopped,
        Ending::Signaled(signal) => Shown::Broken(format!("killed by {signal}: {}", run.note)),
        Ending::Refused(why) => Shown::Refused(why.clone()),
        Ending::Other(why) => Shown::Broken(why.clone()),
    }
}

/// Verdict on a row for one user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every defence holds; with how it was shown that the attack is real.
    Held(Proven),
    /// An operation that must work does.
    Works,
    /// The attack gets through, or the operation does not work, as the row declares, for this reason.
    Open(String),
    /// Nothing can be concluded here, with the reason.
    Skipped(String),
    /// The row fails, with the reasons.
    Failed(Vec<String>),
}

/// How it was shown that an attack gets through where nothing stops it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proven {
    /// The attack got through in the sandbox with all the row's defences out.
    WallsOut,
    /// The attack got through in the arena without a sandbox.
    Bare,
    /// Not shown, for this reason.
    Not(String),
}

/// Judges the `runs` of `row` when `user` starts the sandbox.
///
/// Without a layer that the row needs, nothing is concluded. With everything on the attack has to be stopped;
/// without any single defence too, unless the row gives the reason why only one defence exists, or the
/// knock-out took the others with it. With all defences out, or bare where the row says so, it has to get
/// through. A refusal to run without a defence is a failure, since the other defences were not tested.
#[must_use]
pub fn verdict(row: &Row, user: User, runs: &[Run]) -> Verdict {
    let find = |setting: Setting| runs.iter().find(|r| r.setting == setting).map(|r| shown(row, r));
    let mut failures = Vec::new();

    let Some(all_on) = find(Setting::AllOn) else {
        return Verdict::Skipped("the sandbox was not run".to_owned());
    };
    let in_force = runs.iter().find(|r| r.setting == Setting::AllOn).map_or(&[][..], |r| &r.in_force);
    if let Some(layer) = row.needs.iter().find(|layer| !in_force.contains(layer)) {
        return Verdict::Skipped(format!("says nothing without {layer}, which is not in force here"));
    }
    match row.expect {
        Expect::Works => {
            return match all_on {
                Shown::Stopped => Verdict::Works,
                Shown::Missing(why) => Verdict::Skipped(why),
                other => Verdict::Failed(vec![format!("must work, but {other:?}")]),
            };
        }
        Expect::Ends(cause) => {
            let run = runs.iter().find(|r| r.setting == Setting::AllOn);
            let ended = run.is_some_and(|r| r.ending == Ending::Limit(cause.to_owned()));
            let survivor = run.is_some_and(|r| r.survivor);
            return if ended && !survivor {
                Verdict::Works
            } else {
                Verdict::Failed(vec![format!(
                    "must end by {cause}, but {:?} survivor {survivor}",
                    run.map(|r| &r.ending)
                )])
            };
        }
        Expect::Stopped => {}
    }

    let bare = find(Setting::Bare);
    match &bare {
        Some(Shown::Absent) if !matches!(row.proof, Proof::Never(_)) => {
            return Verdict::Skipped("this kernel has no such call or file".to_owned());
        }
        Some(Shown::Missing(why)) => return Verdict::Skipped(why.clone()),
        Some(Shown::Broken(why)) => failures.push(format!("bare: {why}")),
        _ => {}
    }
    if !is_stopped(&all_on) {
        failures.push(format!("all layers on: {all_on:?}"));
    }
    for run in runs {
        let Setting::Without(wall) = run.setting else { continue };
        match shown(row, run) {
            Shown::Stopped | Shown::Absent => {}
            Shown::Through if row.single_wall.is_some() || !has_other_wall(row, user, wall, run) => {}
            other => failures.push(format!("without {wall}: {other:?}")),
        }
    }
    let proven = match row.proof_for(user) {
        Proof::Never(why) => Proven::Not(why.to_owned()),
        _ if row.kernel_stops(user) => {
            Proven::Not("the bare kernel refuses an ordinary user; proven as root".to_owned())
        }
        Proof::Bare(_) | Proof::BareAsRoot(_) => match bare {
            Some(Shown::Through) => Proven::Bare,
            other => {
                failures.push(format!("proves nothing: bare {other:?}"));
                Proven::Not(String::new())
            }
        },
        Proof::WallsOut => match find(Setting::AllOut) {
            Some(Shown::Through) => Proven::WallsOut,
            // A defence that no policy switches off still stops it, or the engine refuses to run with so few
            // layers.
            Some(Shown::Refused(_)) if bare == Some(Shown::Through) => Proven::Bare,
            Some(Shown::Stopped | Shown::Absent)
                if bare == Some(Shown::Through) && row.has_lasting_wall(user) =>
            {
                Proven::Bare
            }
            other => {
                failures.push(format!("proves nothing: all walls out {other:?}, bare {bare:?}"));
                Proven::Not(String::new())
            }
        },
    };
    if failures.is_empty() { Verdict::Held(proven) } else { Verdict::Failed(failures) }
}

/// The part that needs no sandbox: whether the attack works alone in the arena.
#[must_use]
pub fn bare_verdict(row: &Row, user: User, bare: &Run) -> Verdict {
    match (row.expect, shown(row, bare)) {
        (Expect::Works, Shown::Stopped) => Verdict::Works,
        (Expect::Works, other) => {
            Verdict::Failed(vec![format!("must work outside of a sandbox too, but {other:?}")])
        }
        (_, Shown::Through) => Verdict::Held(Proven::Bare),
        (_, Shown::Absent) => Verdict::Skipped("this kernel has no such call or file".to_owned()),
        (_, Shown::Missing(why)) => Verdict::Skipped(why),
        (_, Shown::Stopped) if row.kernel_stops(user) => {
            Verdict::Held(Proven::Not("the bare kernel refuses an ordinary user".to_owned()))
        }
        (_, Shown::Stopped) => match row.proof {
            Proof::Never(why) => Verdict::Held(Proven::Not(why.to_owned())),
            _ => Verdict::Failed(vec![format!("proves nothing: stopped by the bare kernel: {}", bare.note)]),
        },
        (_, other) => Verdict::Failed(vec![format!("{other:?}")]),
    }
}

/// Judges a run in the confinement without namespaces. A row that declares a reason for being open there has
/// to be open, or the reason would be outdated.
#[must_use]
pub fn landlock_only_verdict(row: &Row, user: User, run: &Run) -> Verdict {
    let shown = shown(row, run);
    if let Shown::Missing(why) = shown {
        return Verdict::Skipped(why);
    }
    let holds = match row.expect {
        Expect::Ends(cause) => run.ending == Ending::Limit(cause.to_owned()) && !run.survivor,
        Expect::Stopped | Expect::Works => is_stopped(&shown),
    };
    match (row.open_for(user, &run.in_force), holds) {
        (Some(why), false) => Verdict::Open(why.to_owned()),
        (Some(why), true) => Verdict::Failed(vec![format!("holds, though it is said to be open: {why}")]),
        (None, false) => Verdict::Failed(vec![format!("without namespaces: {shown:?}")]),
        (None, true) if row.expect == Expect::Stopped => Verdict::Held(Proven::Not(String::new())),
        (None, true) => Verdict::Works,
    }
}

fn is_stopped(shown: &Shown) -> bool {
    matches!(shown, Shown::Stopped | Shown::Absent)
}

/// Whether another defence of the row was in force in this run: knocking out a layer removes those that
/// depend on it, and a host may lack one. A defence that no policy switches off always counts.
fn has_other_wall(row: &Row, user: User, wall: Wall, run: &Run) -> bool {
    row.walls_for(user).any(|other| match other {
        Wall::Layer(layer) => other != wall && run.in_force.contains(&layer),
        Wall::Kernel | Wall::Supervisor | Wall::Launcher => other != wall,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Probe;
    use crate::words::Layer;

    const A: Wall = Wall::Layer(Layer::MountNs);
    const B: Wall = Wall::Layer(Layer::Landlock);

    const ROW: Row = Row::attack(1, "example", Probe::C("example", &[]), &[A, B]);

    fn run(setting: Setting, code: i32) -> Run {
        Run {
            setting,
            ending: Ending::Exited(code),
            survivor: false,
            in_force: vec![Layer::MountNs, Layer::Landlock],
            note: String::new(),
            milliseconds: 0,
        }
    }

    fn all(bare: i32, on: i32, without_a: i32, without_b: i32, out: i32) -> Vec<Run> {
        vec![
            run(Setting::Bare, bare),
            run(Setting::AllOn, on),
            run(Setting::Without(A), without_a),
            run(Setting::Without(B), without_b),
            run(Setting::AllOut, out),
        ]
    }

    #[test]
    fn row_is_skipped_without_needed_layer() {
        let row = ROW.needs(&[Layer::Cgroup]);
        assert!(matches!(verdict(&row, User::Root, &all(77, 77, 0, 0, 77)), Verdict::Skipped(_)));
    }

    #[test]
    fn runs_of_an_attack() {
        let held = |v: &Verdict| matches!(v, Verdict::Held(Proven::WallsOut));
        let failed = |v: &Verdict| matches!(v, Verdict::Failed(_));
        let skipped = |v: &Verdict| matches!(v, Verdict::Skipped(_));
        type Check<'a> = &'a dyn Fn(&Verdict) -> bool;
        let table: [(&str, Vec<Run>, Check<'_>); 9] = [
            ("two walls", all(77, 0, 0, 0, 77), &held),
            ("a filter answers ENOSYS", all(77, 38, 0, 38, 77), &held),
            ("nothing stops it", all(77, 77, 77, 77, 77), &failed),
            ("one wall does nothing", all(77, 0, 77, 0, 77), &failed),
            ("proves nothing", all(77, 0, 0, 0, 0), &failed),
            ("the program is broken", all(77, 1, 0, 0, 77), &failed),
            ("the program breaks without a wall", all(77, 0, 0, 139, 77), &failed),
            ("this kernel has no such call", all(38, 0, 0, 0, 0), &skipped),
            ("a precondition is missing", all(2, 0, 0, 0, 0), &skipped),
        ];
        for (what, runs, check) in table {
            let v = verdict(&ROW, User::Root, &runs);
            assert!(check(&v), "{what}: {v:?}");
        }
    }

    #[test]
    fn surviving_process_fails_row() {
        let mut runs = all(77, 0, 0, 0, 77);
        runs[1].survivor = true;
        assert!(matches!(verdict(&ROW, User::Root, &runs), Verdict::Failed(_)));
    }

    #[test]
    fn refused_setting_proves_nothing() {
        let mut runs = all(77, 0, 0, 0, 77);
        runs[4].ending = Ending::Refused("needs mount_ns".to_owned());
        assert_eq!(verdict(&ROW, User::Root, &runs), Verdict::Held(Proven::Bare));
        runs[1].ending = Ending::Refused("landlock".to_owned());
        assert!(
            matches!(verdict(&ROW, User::Root, &runs), Verdict::Failed(_)),
            "everybody's sandbox must run"
        );
        let mut runs = all(77, 0, 0, 0, 77);
        runs[2].ending = Ending::Refused("needs mount_ns".to_owned());
        assert!(
            matches!(verdict(&ROW, User::Root, &runs), Verdict::Failed(_)),
            "the other wall was not tried"
        );
    }

    #[test]
    fn dependent_layer_is_removed_with_its_base() {
        let mut runs = all(77, 0, 77, 0, 77);
        assert!(
            matches!(verdict(&ROW, User::User, &runs), Verdict::Failed(_)),
            "the other wall was in force"
        );
        runs[2].in_force.clear();
        assert_eq!(verdict(&ROW, User::User, &runs), Verdict::Held(Proven::WallsOut));
    }

    #[test]
    fn single_layer_needs_a_reason() {
        let one = ROW.single("nothing else covers it");
        let runs = vec![
            run(Setting::Bare, 77),
            run(Setting::AllOn, 0),
            run(Setting::Without(A), 77),
            run(Setting::Without(B), 0),
            run(Setting::AllOut, 77),
        ];
        assert_eq!(verdict(&one, User::User, &runs), Verdict::Held(Proven::WallsOut));
        assert!(matches!(verdict(&ROW, User::User, &runs), Verdict::Failed(_)));
    }

    #[test]
    fn honest_example_must_work() {
        let row = Row::works(101, "example", Probe::C("example", &[]));
        assert_eq!(verdict(&row, User::User, &[run(Setting::AllOn, 0)]), Verdict::Works);
        for code in [1, 38, 77] {
            assert!(matches!(verdict(&row, User::User, &[run(Setting::AllOn, code)]), Verdict::Failed(_)));
        }
    }

    #[test]
    fn expected_limit_counts_and_another_fails() {
        let row = ROW.stopped_by(&["memory_limit"]);
        let mut runs = all(77, 0, 0, 0, 77);
        runs[1].ending = Ending::Limit("memory_limit".to_owned());
        assert_eq!(verdict(&row, User::Root, &runs), Verdict::Held(Proven::WallsOut));
        runs[1].ending = Ending::Limit("wall_limit".to_owned());
        assert!(matches!(verdict(&row, User::Root, &runs), Verdict::Failed(_)));
    }
}
