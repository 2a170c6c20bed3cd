//! Results of the attacks on a host: `hotcell.attacks/1`. Pure; [`crate::suite`] makes reports, [`text()`] and
//! [`html()`] show them.

mod html;
mod text;

use std::collections::BTreeMap;
use std::time::Duration;

use hotcell_sandbox::{Engine, doctor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::coverage::{Attack, LIST};
use crate::items::{Came, Done, Item, Options};
use crate::run::{Run, Setting};
use crate::scenarios::Said;
use crate::table::{Expect, Row};
use crate::verdict::{Proven, Shown, Verdict, shown};
use crate::words::{User, Wall};

pub use html::html;
pub use text::text;

/// Name of the report format, in its `schema` field.
pub const SCHEMA: &str = "hotcell.attacks/1";

/// Results of the attacks on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Always `hotcell.attacks/1`.
    pub schema: String,
    /// The version of hotcell.
    pub hotcell: String,
    /// Start time, RFC 3339.
    pub date: String,
    /// Facts about the host.
    pub host: Host,
    /// Users who started the sandboxes.
    pub users: Vec<User>,
    /// Total duration in milliseconds.
    pub duration_ms: u64,
    /// Number of attacks by result.
    pub summary: Summary,
    /// The requested attacks of the list, in order.
    pub attacks: Vec<AttackReport>,
}

/// Facts about a host, for the reader; no verdict depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The kernel's release.
    pub kernel: String,
    /// Machine architecture.
    pub arch: String,
    /// Probable kind of container; `null` outside of containers.
    pub container: Option<String>,
    /// User of the hotcell process.
    pub user: String,
    /// Version of Landlock; 0 where it is unavailable.
    pub landlock_abi: u32,
    /// Version of the usable cgroups; 0 without any.
    pub cgroup_version: u32,
}

impl Host {
    /// Facts about this host.
    #[must_use]
    pub fn look() -> Self {
        let engine = Engine::new();
        let doctor::HostReport { kernel, arch, container, user } = doctor::host(&engine);
        let version = |found: &Result<u32, String>| found.as_ref().copied().unwrap_or(0);
        let (landlock_abi, cgroup_version) =
            (version(&engine.host().landlock), version(&engine.host().cgroup));
        Self { kernel, arch, container, user, landlock_abi, cgroup_version }
    }
}

/// Result of an attack, or of one of its rows or tests. For an attack with several, the variant that comes
/// last here counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Nothing here can attempt it; the list has the reason.
    Never,
    /// Not applicable: this kernel has no such call, or the host lacks a requirement.
    Absent,
    /// A test that does not count defences passed, or an operation that must work does.
    Holds,
    /// Stopped, and still stopped without any single defence: at least two hold independently.
    TwoWalls,
    /// Stopped by a single defence; the list has the reason why there is no other.
    OneWall,
    /// Stopped by a single defence on this host, which lacks the others of the list.
    Thin,
    /// Not run, or not to its end.
    NotRun,
    /// Got through; or an operation that must work does not; or the row proves nothing.
    Failed,
}

impl Standing {
    /// The result in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Never => "never run",
            Self::Absent => "not here",
            Self::Holds => "holds",
            Self::TwoWalls => "two walls",
            Self::OneWall => "one wall",
            Self::Thin => "one here",
            Self::NotRun => "not run",
            Self::Failed => "FAILED",
        }
    }
}

/// Number of attacks by result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// All requested attacks.
    pub attacks: usize,
    /// Stopped by two defences or more.
    pub two_walls: usize,
    /// Stopped by one; the list has the reason.
    pub one_wall: usize,
    /// Passed a test that does not count defences, or works.
    pub holds: usize,
    /// Not applicable on this kernel or host.
    pub absent: usize,
    /// Stopped by one defence, because this host lacks the others.
    pub thin: usize,
    /// Not run for lack of time or of an arena.
    pub not_run: usize,
    /// Not testable here; the list has the reason.
    pub never: usize,
    /// Got through, or could not be judged.
    pub failed: usize,
    /// Whether something was run, all of it passed, and nothing is left to run.
    pub good: bool,
}

/// Result of one numbered attack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttackReport {
    /// Number in the list, 1 to 149.
    pub number: u16,
    /// The attempted attack.
    pub title: String,
    /// Result.
    pub standing: Standing,
    /// Reason why nothing attempted it; `null` where something did.
    pub why: Option<String>,
    /// Results of programs, each also run with defences knocked out.
    pub rows: Vec<RowReport>,
    /// Results of special tests.
    pub tests: Vec<TestReport>,
    /// Tests of other suites of the project, as `file::name`. They are not run here.
    pub elsewhere: Vec<String>,
}

/// Result of a row for one user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RowReport {
    /// Name of the row, with its number.
    pub name: String,
    /// User who started the sandboxes.
    pub user: User,
    /// Result.
    pub standing: Standing,
    /// Reason why fewer than two defences hold.
    pub why: Option<String>,
    /// Reason why the attack could not be shown to get through where nothing stops it; `null` where that was
    /// shown.
    pub unproven: Option<String>,
    /// The row's defences by name, with the result without each; `always` where a defence cannot be switched
    /// off.
    pub walls: BTreeMap<String, Without>,
    /// Result without a sandbox.
    pub bare: Option<Seen>,
    /// Result with all defences.
    pub all_on: Option<Seen>,
    /// Result without all of its defences that can be switched off.
    pub all_out: Option<Seen>,
    /// Duration in milliseconds.
    pub duration_ms: u64,
}

/// Result of a special test for one user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestReport {
    /// Name of the test, with its number.
    pub name: String,
    /// User who started the sandboxes.
    pub user: User,
    /// Result.
    pub standing: Standing,
    /// Message of the test.
    pub said: String,
    /// Duration in milliseconds.
    pub duration_ms: u64,
}

/// Result of an attack in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// The attack got through.
    Through,
    /// The attack was stopped, or an operation that must work worked.
    Stopped,
    /// There is no such call or file.
    Absent,
    /// The attack could not be attempted.
    Untried,
}

/// Result of an attack without one defence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Without {
    /// The attack was still stopped: another defence holds.
    Stopped,
    /// The attack got through: only this defence stopped it.
    Through,
    /// The attack could not be attempted.
    Untried,
    /// No policy switches this defence off.
    Always,
    /// The attack was not run without this defence.
    NotRun,
}

impl From<&Shown> for Seen {
    fn from(shown: &Shown) -> Self {
        match shown {
            Shown::Through => Self::Through,
            Shown::Stopped => Self::Stopped,
            Shown::Absent => Self::Absent,
            Shown::Missing(_) | Shown::Refused(_) | Shown::Broken(_) => Self::Untried,
        }
    }
}

impl Report {
    pub(crate) fn new(
        options: &Options,
        users: Vec<User>,
        host: Host,
        done: &[Done],
        took: Duration,
    ) -> Self {
        let asked = LIST.iter().filter(|a| options.only.is_empty() || options.only.contains(&a.number));
        let attacks: Vec<AttackReport> = asked.map(|attack| attack_report(attack, done)).collect();
        Self {
            schema: SCHEMA.to_owned(),
            hotcell: env!("CARGO_PKG_VERSION").to_owned(),
            date: options.date.clone(),
            host,
            users,
            duration_ms: milliseconds(took),
            summary: Summary::of(&attacks),
            attacks,
        }
    }
}

impl Summary {
    fn of(attacks: &[AttackReport]) -> Self {
        let count = |wanted: Standing| attacks.iter().filter(|a| a.standing == wanted).count();
        let mut summary = Self {
            attacks: attacks.len(),
            two_walls: count(Standing::TwoWalls),
            one_wall: count(Standing::OneWall),
            holds: count(Standing::Holds),
            absent: count(Standing::Absent),
            thin: count(Standing::Thin),
            not_run: count(Standing::NotRun),
            never: count(Standing::Never),
            failed: count(Standing::Failed),
            good: false,
        };
        let held = summary.two_walls + summary.one_wall + summary.holds + summary.thin;
        summary.good = held > 0 && summary.not_run + summary.failed == 0;
        summary
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn attack_report(attack: &Attack, done: &[Done]) -> AttackReport {
    let (mut rows, mut tests) = (Vec::new(), Vec::new());
    for done in done {
        match done.item {
            Item::Row(row) if row.number == attack.number => rows.push(row_report(row, done)),
            Item::Test(test) if test.number() == attack.number => tests.push(test_report(test.name, done)),
            _ => {}
        }
    }
    let worst = rows.iter().map(|r| r.standing).chain(tests.iter().map(|t| t.standing)).max();
    let (standing, why) = match (worst, attack.not_run) {
        (Some(worst), _) => (worst, None),
        (None, Some(why)) => (Standing::Never, Some(why)),
        (None, None) => (Standing::Absent, Some("its rows are for another user")),
    };
    AttackReport {
        number: attack.number,
        title: attack.title.to_owned(),
        standing,
        why: why.map(str::to_owned),
        rows,
        tests,
        elsewhere: attack.elsewhere.iter().map(|e| format!("{}::{}", e.file, e.test)).collect(),
    }
}

fn test_report(name: &str, done: &Done) -> TestReport {
    let (standing, said) = match &done.came {
        Came::Said(Said::Good(said)) => (Standing::Holds, said.clone()),
        Came::Said(Said::Skipped(why)) => (Standing::Absent, why.clone()),
        Came::Said(Said::Bad(why)) => (Standing::Failed, why.clone()),
        Came::NotRun(why) => (Standing::NotRun, why.clone()),
        Came::Runs(..) => (Standing::Failed, "a row's runs".to_owned()),
    };
    let duration_ms = milliseconds(done.took);
    TestReport { name: name.to_owned(), user: done.user, standing, said, duration_ms }
}

fn row_report(row: &Row, done: &Done) -> RowReport {
    let (runs, verdict): (&[Run], _) = match &done.came {
        Came::Runs(runs, verdict) => (runs, Ok(verdict)),
        Came::NotRun(why) => (&[], Err(why.clone())),
        Came::Said(said) => (&[], Err(format!("{said:?}"))),
    };
    let seen = |setting: Setting| {
        runs.iter().find(|run| run.setting == setting).map(|run| shown(row, run)).as_ref().map(Seen::from)
    };
    let walls: BTreeMap<String, Without> = row
        .walls_for(done.user)
        .map(|wall| {
            let without = match (wall, seen(Setting::Without(wall))) {
                (_, Some(Seen::Through)) => Without::Through,
                (_, Some(Seen::Stopped | Seen::Absent)) => Without::Stopped,
                (_, Some(Seen::Untried)) => Without::Untried,
                (Wall::Layer(_), None) => Without::NotRun,
                (_, None) => Without::Always,
            };
            (wall.to_string(), without)
        })
        .collect();
    let unproven = match &verdict {
        Ok(Verdict::Held(Proven::Not(why))) => Some(why.clone()),
        _ => None,
    };
    let (standing, why) = match verdict {
        Err(why) => (Standing::NotRun, Some(why)),
        Ok(Verdict::Failed(why)) => (Standing::Failed, Some(why.join("; "))),
        Ok(Verdict::Skipped(why)) => (Standing::Absent, Some(why.clone())),
        Ok(Verdict::Open(why)) => (Standing::Failed, Some(why.clone())),
        Ok(Verdict::Works) => (Standing::Holds, None),
        Ok(Verdict::Held(_)) => walls_that_held(row, &walls, &lacking(row, done.user, runs)),
    };
    RowReport {
        name: row.test_name(),
        user: done.user,
        standing,
        why,
        unproven,
        walls: if row.expect == Expect::Stopped { walls } else { BTreeMap::new() },
        bare: seen(Setting::Bare),
        all_on: seen(Setting::AllOn),
        all_out: seen(Setting::AllOut),
        duration_ms: milliseconds(done.took),
    }
}

/// Layers among a row's defences that are not in force on this host.
fn lacking(row: &Row, user: User, runs: &[Run]) -> String {
    let all_on = runs.iter().find(|run| run.setting == Setting::AllOn);
    let missing = row.walls_for(user).filter(|wall| match wall {
        Wall::Layer(layer) => all_on.is_some_and(|run| !run.in_force.contains(layer)),
        Wall::Kernel | Wall::Supervisor | Wall::Launcher => false,
    });
    missing.map(|wall| wall.to_string()).collect::<Vec<_>>().join(", ")
}

/// For a row that was stopped: the result by the number of defences, and the reason why there are not more.
fn walls_that_held(
    row: &Row,
    walls: &BTreeMap<String, Without>,
    lacking: &str,
) -> (Standing, Option<String>) {
    let alone = walls.iter().find(|(_, without)| **without == Without::Through).map(|(wall, _)| wall);
    match (alone, row.single_wall) {
        (None, _) if walls.len() > 1 => (Standing::TwoWalls, None),
        (_, Some(why)) => (Standing::OneWall, Some(why.to_owned())),
        (Some(_), None) if !lacking.is_empty() => (
            Standing::Thin,
            Some(format!("{lacking} cannot be had on this host; hotcell doctor says what mends it")),
        ),
        (Some(wall), None) => {
            (Standing::Thin, Some(format!("without {wall} none of its other walls is in force on this host")))
        }
        (None, None) => (Standing::Thin, Some("the row has one wall and no reason".to_owned())),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::table::rows;
    use crate::verdict::verdict;
    use crate::words::{Ending, Layer};

    fn run(setting: Setting, code: i32, in_force: &[Layer]) -> Run {
        Run {
            setting,
            ending: Ending::Exited(code),
            survivor: false,
            in_force: in_force.to_vec(),
            note: String::new(),
            milliseconds: 1,
        }
    }

    /// Result of a row with two defences, mount_ns and landlock.
    fn came(without_mount: i32, in_force: &[Layer], user: User) -> Done {
        let row = rows().next().expect("a row");
        let without = |layer| Setting::Without(Wall::Layer(layer));
        let runs = vec![
            run(Setting::Bare, 77, &[]),
            run(Setting::AllOn, 0, in_force),
            run(without(Layer::MountNs), without_mount, in_force),
            run(without(Layer::Landlock), 0, in_force),
            run(Setting::AllOut, 77, &[]),
        ];
        let verdict = verdict(row, user, &runs);
        Done { item: Item::Row(row), user, came: Came::Runs(runs, verdict), took: Duration::from_millis(5) }
    }

    pub(crate) fn sample() -> Report {
        let options =
            Options { only: vec![1, 141], date: "2026-01-31T12:00:00Z".to_owned(), ..Options::default() };
        let host = Host { kernel: "6.18 <b>&".to_owned(), user: "root".to_owned(), ..Host::default() };
        let both = [Layer::MountNs, Layer::Landlock];
        let done = [came(0, &both, User::Root), came(77, &both, User::User)];
        Report::new(&options, User::ALL.to_vec(), host, &done, Duration::from_secs(3))
    }

    #[test]
    fn rows_determine_layers_and_attack_standing() {
        let standing = |done: Done| row_report(rows().next().expect("a row"), &done).standing;
        let both = [Layer::MountNs, Layer::Landlock];
        assert_eq!(standing(came(0, &both, User::Root)), Standing::TwoWalls);
        assert_eq!(
            standing(came(77, &both, User::Root)),
            Standing::Failed,
            "Landlock was there and did nothing"
        );
        assert_eq!(
            standing(came(77, &[Layer::MountNs], User::Root)),
            Standing::Thin,
            "there is no Landlock here"
        );
        let not_run = Done { came: Came::NotRun("late".to_owned()), ..came(0, &both, User::User) };
        assert_eq!(standing(not_run), Standing::NotRun);

        let report = sample();
        assert_eq!(report.attacks[0].standing, Standing::Failed);
        let summary = &report.summary;
        assert_eq!((summary.attacks, summary.failed, summary.never, summary.not_run), (2, 1, 1, 0));
        assert!(!summary.good);
    }

    #[test]
    fn good_summary_needs_run_and_no_failure() {
        let one = |standing| {
            let report = sample();
            let attack = AttackReport { standing, ..report.attacks[0].clone() };
            Summary::of(&[attack, report.attacks[1].clone()]).good
        };
        for (standing, good) in [
            (Standing::Absent, false),
            (Standing::Holds, true),
            (Standing::TwoWalls, true),
            (Standing::OneWall, true),
            (Standing::Thin, true),
            (Standing::NotRun, false),
            (Standing::Failed, false),
        ] {
            assert_eq!(one(standing), good, "{standing:?}");
        }
    }

    #[test]
    fn attack_report_round_trips_and_has_schema() {
        let report = sample();
        let json = serde_json::to_value(&report).expect("JSON");
        assert_eq!(json["schema"], SCHEMA);
        assert_eq!(json["attacks"][0]["rows"][0]["walls"]["landlock"], "stopped");
        assert_eq!(serde_json::from_value::<Report>(json).expect("read back"), report);
        let schema = serde_json::to_value(schemars::schema_for!(Report)).expect("a schema");
        assert!(schema["properties"].get("attacks").is_some());
    }
}
