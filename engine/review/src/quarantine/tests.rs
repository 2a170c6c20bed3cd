//! The steps on a real state folder.

use std::collections::BTreeSet;
use std::path::Path;

use hotcell_guard::quarantine::Channel;
use hotcell_guard::quarantine::{Illegal, State};
use hotcell_guard::{Artifact, Language, Limits, Pack, scan};
use hotcell_state::actor::Actor;
use hotcell_state::audit;
use hotcell_state::state::StateFolder;
use rusqlite::Connection;

use crate::no_plugins::no_plugins;
use crate::target::Target;

use super::identity::identify;
use super::steps::Judged;
use super::*;

const HOSTILE: &str = "import shutil\nshutil.rmtree('/home')\n";

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn state(&self) -> std::path::PathBuf {
        self.0.path().join("state")
    }

    fn open(&self) -> Quarantine {
        Quarantine::open(StateFolder::open(&self.state()).unwrap()).unwrap()
    }

    fn sql(&self, text: &str) {
        Connection::open(self.state().join("hotcell.db")).unwrap().execute_batch(text).unwrap();
    }

    fn problem(&self) -> Option<String> {
        self.open().verify(None, &[no_plugins]).unwrap().problem
    }
}

fn me() -> Actor {
    Actor { uid: 1, name: "me".to_owned(), channel: Channel::Cli }
}

fn other() -> Actor {
    Actor { uid: 2, name: "other".to_owned(), channel: Channel::Cli }
}

fn model() -> Actor {
    Actor { uid: 1, name: "me".to_owned(), channel: Channel::Model("x".to_owned()) }
}

fn terms(now_us: i64) -> StepContext {
    let policy = "p".to_owned();
    StepContext { two_persons: false, team: BTreeSet::new(), retention: DEFAULT_RETENTION, policy, now_us }
}

fn judge(quarantine: &Quarantine, text: &str, actor: &Actor, terms: &StepContext) -> Judged {
    let artifact = Artifact::new("x.py", text).run_as(Language::Python);
    let report = scan(&Pack::builtin().unwrap(), &Limits::default(), &artifact);
    let found = identify(&[Target::Source(artifact)], &report).unwrap();
    quarantine.judge(&found, &report, actor, terms).unwrap()
}

fn hold(quarantine: &Quarantine, text: &str, actor: &Actor, terms: &StepContext) -> Item {
    match judge(quarantine, text, actor, terms) {
        Judged::Held { item, .. } => item,
        Judged::Released { item, .. } => panic!("released: {item:?}"),
    }
}

fn runs(quarantine: &Quarantine, text: &str, terms: &StepContext) -> bool {
    matches!(judge(quarantine, text, &me(), terms), Judged::Released { .. })
}

#[test]
fn repeated_refusal_counts_in_one_item() {
    let place = Place::new();
    let quarantine = place.open();
    let first = hold(&quarantine, HOSTILE, &me(), &terms(1));
    assert_eq!((first.state, first.seen, first.id.len()), (State::Held, 1, 8));
    assert_eq!(first.language.as_deref(), Some("python"));
    assert_eq!(quarantine.content(&first.files[0].sha256).unwrap(), HOSTILE.as_bytes());
    let again = hold(&quarantine, HOSTILE, &model(), &terms(2));
    assert_eq!((&again.id, again.seen), (&first.id, 2));
    assert_eq!(quarantine.audit(100).unwrap().total, 1, "nothing new was done");
    let changed = hold(&quarantine, &format!("{HOSTILE} "), &me(), &terms(3));
    assert_ne!(changed.id, first.id);
    // A model sees the items of its own channel.
    let of = |actor: &Actor| quarantine.list(Some(&actor.channel), &terms(4)).unwrap().len();
    assert_eq!((quarantine.list(None, &terms(4)).unwrap().len(), of(&model())), (2, 1));
    assert!(quarantine.show(&changed.id, Some(&model().channel), &terms(4)).is_err());
    assert_eq!(place.problem(), None);
}

/// Two who decide at once, and a page that is old: each decision is on what was shown.
#[test]
fn decision_is_refused_on_what_was_not_shown() {
    let place = Place::new();
    let quarantine = place.open();
    let day = (DEFAULT_RELEASE_LIFETIME, 1);
    let shown = hold(&quarantine, HOSTILE, &me(), &terms(1)).shown;
    let id = &quarantine.list(None, &terms(1)).unwrap()[0].id;
    let now = |us| quarantine.show(id, None, &terms(us)).unwrap();
    assert_eq!(now(1).shown, shown);
    // A caller that is refused again, or asks, changes nothing that a person decides on.
    hold(&quarantine, HOSTILE, &model(), &terms(2));
    quarantine.request(id, "please", &model(), &terms(2)).unwrap();
    assert_eq!(now(3).shown, shown);
    let stale = |done: Result<Item, QuarantineError>| {
        let error = done.unwrap_err();
        assert!(matches!(error, QuarantineError::NotAsShown { .. }), "{error}");
        error.to_string()
    };
    quarantine.reject_as_shown(id, Some(&shown), "no", &me(), &terms(4)).unwrap();
    let why = stale(quarantine.release_as_shown(id, Some(&shown), "yes", day, &me(), &terms(5)));
    assert!(why.contains("rejected now, by ") && !runs(&quarantine, HOSTILE, &terms(6)), "{why}");
    let rejected = now(6).shown;
    quarantine.release_as_shown(id, Some(&rejected), "yes", day, &me(), &terms(7)).unwrap();
    stale(quarantine.reject_as_shown(id, Some(&rejected), "no", &me(), &terms(8)));
    assert!(runs(&quarantine, HOSTILE, &terms(9)));
    let other_rules = StepContext { policy: "q".to_owned(), ..terms(9) };
    let seen = now(9).shown;
    stale(quarantine.release_as_shown(id, Some(&seen), "yes", day, &me(), &other_rules));
    assert_eq!(place.problem(), None);
}

#[test]
fn release_binds_artifact_policy_time_and_runs() {
    let place = Place::new();
    let quarantine = place.open();
    let id = hold(&quarantine, HOSTILE, &me(), &terms(1)).id;
    let day = (DEFAULT_RELEASE_LIFETIME, 2);
    quarantine.release(&id, "looked at it", day, &me(), &terms(10)).unwrap();
    assert!(!runs(&quarantine, &format!("{HOSTILE}#"), &terms(11)), "one byte");
    assert!(runs(&quarantine, HOSTILE, &terms(11)));
    assert!(runs(&quarantine, HOSTILE, &terms(12)));
    assert!(!runs(&quarantine, HOSTILE, &terms(13)), "used up");
    quarantine.release(&id, "again", day, &me(), &terms(20)).unwrap();
    let over = 20 + i64::try_from(DEFAULT_RELEASE_LIFETIME.as_micros()).unwrap();
    assert_eq!(quarantine.show(&id, None, &terms(over - 1)).unwrap().state, State::Released);
    let item = quarantine.show(&id, None, &terms(over)).unwrap();
    assert_eq!((item.state, item.release.unwrap().ended.as_deref()), (State::Held, Some("it has expired")));
    assert!(!runs(&quarantine, HOSTILE, &terms(over)), "expired");
    quarantine.release(&id, "again", day, &me(), &terms(30)).unwrap();
    assert!(!runs(&quarantine, HOSTILE, &StepContext { policy: "q".to_owned(), ..terms(31) }), "other rules");
    assert!(!runs(&quarantine, HOSTILE, &terms(32)), "and it is over then");
    quarantine.release(&id, "again", day, &me(), &terms(40)).unwrap();
    quarantine.reject(&id, "no", &me(), &terms(41)).unwrap();
    assert!(!runs(&quarantine, HOSTILE, &terms(42)), "taken back");
    assert_eq!(place.problem(), None);
}

#[test]
fn same_bytes_in_another_language_are_separate() {
    let place = Place::new();
    let quarantine = place.open();
    let of = |language| {
        let artifact = Artifact::new("x", HOSTILE).run_as(language);
        let report = scan(&Pack::builtin().unwrap(), &Limits::default(), &artifact);
        let found = identify(&[Target::Source(artifact)], &report).unwrap();
        quarantine.judge(&found, &report, &me(), &terms(1)).unwrap()
    };
    let Judged::Held { item, .. } = of(Language::Python) else { panic!() };
    quarantine.release(&item.id, "as Python", (DEFAULT_RELEASE_LIFETIME, 1), &me(), &terms(2)).unwrap();
    assert!(matches!(of(Language::Bash), Judged::Held { .. }));
    assert!(matches!(of(Language::Python), Judged::Released { .. }));
}

#[test]
fn release_excludes_unreleasable_artifacts() {
    let place = Place::new();
    let quarantine = place.open();
    let id = hold(&quarantine, HOSTILE, &me(), &terms(1)).id;
    quarantine.release(&id, "looked at it", (DEFAULT_RELEASE_LIFETIME, 1), &me(), &terms(2)).unwrap();
    let artifact = Artifact::new("x.py", HOSTILE).run_as(Language::Python);
    let report = scan(&Pack::builtin().unwrap(), &Limits::default(), &artifact);
    let mut found = identify(&[Target::Source(artifact)], &report).unwrap();
    found.unreleasable = Some("a part of it has no digest".to_owned());
    let judged = quarantine.judge(&found, &report, &me(), &terms(3)).unwrap();
    let Judged::Held { ended, .. } = judged else { panic!("it ran") };
    assert_eq!(ended.as_deref(), Some("a part of it has no digest"));
    assert!(runs(&quarantine, HOSTILE, &terms(4)), "the use is not taken");
}

#[test]
fn quarantine_steps_are_authorised_by_channel() {
    let place = Place::new();
    let quarantine = place.open();
    let id = hold(&quarantine, HOSTILE, &model(), &terms(1)).id;
    let two = |now| StepContext { two_persons: true, ..terms(now) };
    let why = |done: Result<Item, QuarantineError>| match done {
        Err(QuarantineError::Illegal { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    let release = |actor: &Actor, terms: &StepContext| {
        quarantine.release(&id, "r", (DEFAULT_RELEASE_LIFETIME, 1), actor, terms)
    };
    assert!(matches!(why(release(&model(), &terms(2))), Illegal::NotYours { .. }));
    assert_eq!(why(release(&me(), &two(2))), Illegal::NotAsked);
    // After a model's request the user whom it works for cannot release; another request does not change
    // that.
    quarantine.request(&id, "please", &model(), &two(3)).unwrap();
    quarantine.request(&id, "please please", &other(), &two(4)).unwrap();
    assert!(matches!(why(release(&me(), &two(5))), Illegal::SamePerson(_)));
    // A changed configuration does not lift it.
    assert!(matches!(why(release(&me(), &terms(6))), Illegal::SamePerson(_)));
    assert_eq!(release(&other(), &two(7)).unwrap().state, State::Released);
    quarantine.reject(&id, "after all not", &me(), &two(8)).unwrap();
    assert!(matches!(why(quarantine.request(&id, "r", &model(), &two(9))), Illegal::NotFrom { .. }));
    // Nor does purging the item and having it refused again.
    quarantine.purge(&id, &me(), &terms(10)).unwrap();
    hold(&quarantine, HOSTILE, &me(), &terms(11));
    assert_eq!(why(release(&me(), &terms(12))), Illegal::NotAsked);
    assert_eq!(place.problem(), None);
}

/// All of a team share the user of the page's server: two persons are two names of the team.
#[test]
fn two_persons_of_a_team_are_two_names() {
    let team: BTreeSet<String> = ["alice", "bob"].map(str::to_owned).into();
    let two = |now| StepContext { two_persons: true, team: team.clone(), ..terms(now) };
    let over = |channel| Actor { uid: 900, name: "hotcell".to_owned(), channel };
    let caller = |name: &str| over(Channel::Model(name.to_owned()));
    let member = |name: &str| over(Channel::Team(name.to_owned()));
    let bob_at_home = Actor { uid: 1000, name: "bob".to_owned(), channel: Channel::Cli };
    for (asks, decides, released) in [
        (caller("alice"), member("bob"), true),
        (caller("bob"), member("bob"), false),
        (caller("stdio"), member("bob"), false),
        (caller("ci"), member("bob"), false),
        (over(Channel::Cli), member("bob"), false),
        (bob_at_home.clone(), member("bob"), false),
        (bob_at_home, member("alice"), true),
    ] {
        let place = Place::new();
        let quarantine = place.open();
        let id = hold(&quarantine, HOSTILE, &asks, &two(1)).id;
        let release = |at| quarantine.release(&id, "r", (DEFAULT_RELEASE_LIFETIME, 1), &decides, &two(at));
        assert!(release(2).is_err(), "nobody asked");
        quarantine.request(&id, "please", &asks, &two(3)).unwrap();
        let done = release(4);
        assert_eq!(done.is_ok(), released, "{asks:?} {decides:?}: {done:?}");
        if let Err(error) = done {
            assert!(matches!(error, QuarantineError::Illegal { why: Illegal::SamePerson(_), .. }), "{error}");
        }
        assert_eq!(place.problem(), None);
    }
}

/// The first requester of the item is bob; a caller's request is decided on for itself.
#[test]
fn release_for_a_caller_is_by_another_person_than_asked() {
    let team: BTreeSet<String> = ["alice", "bob"].map(str::to_owned).into();
    let two = |now| StepContext { two_persons: true, team: team.clone(), ..terms(now) };
    let over = |channel| Actor { uid: 900, name: "hotcell".to_owned(), channel };
    let caller = |name: &str| over(Channel::Model(name.to_owned()));
    let alice = over(Channel::Team("alice".to_owned()));
    for (asks, only, released) in [
        (Some("bob"), "mcp:bob", true),
        (Some("alice"), "mcp:alice", false),
        (Some("ci"), "mcp:ci", false),
        (Some("bob"), "mcp:alice", false),
        (None, "mcp:bob", false),
    ] {
        let place = Place::new();
        let quarantine = place.open();
        let item = hold(&quarantine, HOSTILE, &caller("bob"), &two(1));
        quarantine.request(&item.id, "please", &caller("bob"), &two(2)).unwrap();
        let how = (DEFAULT_RELEASE_LIFETIME, 1);
        let done = quarantine.step(|database| -> Result<Item, QuarantineError> {
            if let Some(name) = asks {
                audit::append(database, 3, &caller(name), "approval_ask", &item.sha256, &())?;
            }
            quarantine.release_for(database, &item.id, (Some(only), None), "r", how, &alice, &two(4))
        });
        assert_eq!(done.is_ok(), released, "{asks:?} {only}: {done:?}");
    }
}

#[test]
fn release_with_one_use_runs_once() {
    let place = Place::new();
    let id = hold(&place.open(), HOSTILE, &me(), &terms(1)).id;
    place.open().release(&id, "once", (DEFAULT_RELEASE_LIFETIME, 1), &me(), &terms(2)).unwrap();
    let ran = std::thread::scope(|scope| {
        let all: Vec<_> = (0..6).map(|_| scope.spawn(|| runs(&place.open(), HOSTILE, &terms(3)))).collect();
        all.into_iter().map(|run| run.join().unwrap()).filter(|ran| *ran).count()
    });
    assert_eq!(ran, 1);
    assert_eq!(place.problem(), None);
}

#[test]
fn expired_items_are_purged_and_logged() {
    let place = Place::new();
    let quarantine = place.open();
    let short = |now_us| StepContext { retention: std::time::Duration::from_secs(1), ..terms(now_us) };
    let old = hold(&quarantine, HOSTILE, &me(), &short(0));
    let object = old.files[0].sha256.clone();
    // Holding the next item purges the expired one.
    let young = hold(&quarantine, &format!("{HOSTILE}#"), &me(), &short(2_000_000));
    let item = quarantine.show(&old.id, None, &short(2_000_000)).unwrap();
    assert_eq!((item.state, item.findings.len(), item.files.len()), (State::Purged, 0, 0));
    assert!(quarantine.content(&object).is_err());
    assert!(quarantine.content(&young.files[0].sha256).is_ok());
    assert!(
        quarantine.release(&old.id, "r", (DEFAULT_RELEASE_LIFETIME, 1), &me(), &short(2_000_001)).is_err()
    );
    // Refused again, it is the same item.
    let back = hold(&quarantine, HOSTILE, &me(), &short(2_000_002));
    assert_eq!((back.id, back.state, back.seen), (old.id, State::Held, 2));
    assert!(quarantine.content(&object).is_ok());
    assert_eq!(place.problem(), None);
}

#[test]
fn changes_bypassing_audit_log_are_detected() {
    let begun = || {
        let place = Place::new();
        let quarantine = place.open();
        let id = hold(&quarantine, HOSTILE, &me(), &terms(1)).id;
        quarantine.request(&id, "please", &me(), &terms(2)).unwrap();
        quarantine.release(&id, "yes", (DEFAULT_RELEASE_LIFETIME, 1), &me(), &terms(3)).unwrap();
        assert_eq!(place.problem(), None);
        place
    };
    let off = "DROP TRIGGER audit_no_update; DROP TRIGGER audit_no_delete;";
    let on = "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT 1; END;
              CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT 1; END;";
    for (sql, word) in [
        ("UPDATE audit SET actor = '7 (nobody)' WHERE seq = 3", "entry 3 was changed"),
        ("DELETE FROM audit WHERE seq = 2", "entry 2 is missing"),
        ("DELETE FROM audit WHERE seq = 3", "was its end"),
        ("UPDATE audit SET seq = 9 WHERE seq = 3", "entry 3 is missing"),
        ("UPDATE quarantine SET release_uses = 1000", "changed past the log"),
        ("UPDATE quarantine SET state = 'held', release_uses = NULL", "changed past the log"),
        ("UPDATE quarantine SET sha256 = 'another'", "changed past the log"),
        ("UPDATE quarantine SET language = '\"bash\"'", "changed past the log"),
        ("PRAGMA foreign_keys = OFF; DELETE FROM quarantine", "is gone"),
    ] {
        let place = begun();
        place.sql(&format!("{off} {sql}; {on}"));
        let problem = place.problem().unwrap_or_default();
        assert!(problem.contains(word), "{sql}: {problem}");
    }
    let place = begun();
    place.sql(off);
    assert!(place.problem().unwrap().contains("triggers"));
    let other = format!("3 {:064x}\n", 255);
    for (file, word) in [
        (None, "is gone"),
        (Some(&*other), "made anew"),
        (Some("3 00ff\n"), "cannot be read"),
        (Some("x"), "cannot be read"),
    ] {
        let place = begun();
        let head = place.state().join("audit.head");
        std::fs::remove_file(&head).unwrap();
        if let Some(text) = file {
            std::fs::write(&head, text).unwrap();
        }
        assert!(place.problem().unwrap().contains(word));
    }
    // A process killed between a step and the file leaves an old head: not an error.
    let place = begun();
    let before = std::fs::read(place.state().join("audit.head")).unwrap();
    place.open().reject(&place.open().list(None, &terms(4)).unwrap()[0].id, "no", &me(), &terms(4)).unwrap();
    std::fs::write(place.state().join("audit.head"), before).unwrap();
    assert_eq!(place.problem(), None);
    // Through SQL alone, nothing can be changed.
    let place = begun();
    let database = Connection::open(place.state().join("hotcell.db")).unwrap();
    for sql in ["UPDATE audit SET actor = ''", "DELETE FROM audit"] {
        assert!(database.execute_batch(sql).unwrap_err().to_string().contains("only added to"));
    }
    // A forged log is detected with a head noted earlier.
    let noted = place.open().verify(None, &[no_plugins]).unwrap().head.unwrap().hash;
    assert_eq!(place.open().verify(Some(&noted), &[no_plugins]).unwrap().problem, None);
    assert!(begun().open().verify(Some(&noted), &[no_plugins]).unwrap().problem.is_some());
}

#[test]
fn ids_are_short_and_mistakes_name_the_nearest() {
    let place = Place::new();
    let quarantine = place.open();
    let error = quarantine.show("ab", None, &terms(1)).unwrap_err().to_string();
    assert!(error.contains("nothing is held"), "{error}");
    let id = hold(&quarantine, HOSTILE, &me(), &terms(1)).id;
    assert_eq!(quarantine.show(&id[..3], None, &terms(1)).unwrap().id, id);
    assert_eq!(quarantine.show(&id.to_uppercase(), None, &terms(1)).unwrap().id, id);
    let mut wrong = id.clone();
    wrong.replace_range(7.., if id.ends_with('0') { "1" } else { "0" });
    let like = format!("did you mean {id}");
    let unlike = "quarantine list shows";
    let long = "é".repeat(2000);
    for (wrong, hint) in [(&*wrong, &*like), ("", unlike), ("%", unlike), ("'; --", unlike), (&*long, unlike)]
    {
        let error = quarantine.show(wrong, None, &terms(1)).unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
    }
}

#[test]
fn first_version_database_gains_quarantine_tables() {
    let place = Place::new();
    let folder = StateFolder::open(&place.state()).unwrap();
    let database = Connection::open(folder.database()).unwrap();
    database.execute_batch(include_str!("../../../state/src/database/runs.sql")).unwrap();
    database
        .execute_batch("INSERT INTO runs VALUES (1, 'aa', 0, '[]', '\"exited\"', 0, '{}', '{}')")
        .unwrap();
    database.pragma_update(None, "user_version", 1).unwrap();
    drop(database);
    assert!(Quarantine::open_to_read(folder).unwrap().is_none());
    assert!(Path::new(&place.state()).join("hotcell.db").exists());
    hold(&place.open(), HOSTILE, &me(), &terms(1));
    let history = hotcell_state::History::open(&StateFolder::open(&place.state()).unwrap()).unwrap();
    assert_eq!(history.list().unwrap().len(), 1);
}

#[test]
fn full_disk_leaves_no_partial_item() {
    // A file in place of the folder of objects acts like a full disk, and needs no mount.
    let place = Place::new();
    let quarantine = place.open();
    std::fs::write(place.state().join("objects"), "").unwrap();
    let artifact = Artifact::new("x.py", HOSTILE);
    let report = scan(&Pack::builtin().unwrap(), &Limits::default(), &artifact);
    let found = identify(&[Target::Source(artifact)], &report).unwrap();
    assert!(quarantine.judge(&found, &report, &me(), &terms(1)).is_err());
    assert_eq!((quarantine.list(None, &terms(1)).unwrap().len(), place.problem()), (0, None));
}
