//! Tests of the modules above, over a state folder.

use std::time::Duration;

use hotcell_config::AskedBy;
use hotcell_config::Configuration;
use hotcell_guard::quarantine::Channel;
use hotcell_state::report::Code;
use hotcell_state::state::{StateChoice, StateFolder};
use rusqlite::Connection;

use crate::no_plugins::no_plugins;
use crate::permission::{MAX_LIFETIME, MAX_PENDING_PER_CALLER};
use crate::quarantine::Quarantine;

use super::*;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn state(&self) -> std::path::PathBuf {
        self.0.path().join("state")
    }

    fn of(&self, channel: Channel, by: AskedBy) -> Approvals {
        let asker = Some((channel, StateChoice::Named(self.state())));
        let mut configuration = Configuration { asker, ..Configuration::default() };
        configuration.user.approvals = Some(by);
        Approvals::of(&configuration).unwrap()
    }

    fn caller(&self, name: &str) -> Approvals {
        self.of(Channel::Model(name.to_owned()), AskedBy::Cli)
    }

    fn person(&self) -> Approvals {
        self.of(Channel::Cli, AskedBy::Cli)
    }

    fn sql(&self, text: &str) {
        Connection::open(self.state().join("hotcell.db")).unwrap().execute_batch(text).unwrap();
    }

    fn problem(&self) -> Option<String> {
        let folder = StateFolder::open(&self.state()).unwrap();
        Quarantine::open(folder).unwrap().verify(None, &[no_plugins]).unwrap().problem
    }

    fn actions(&self) -> Vec<(String, String)> {
        let folder = StateFolder::open(&self.state()).unwrap();
        let log = Quarantine::open(folder).unwrap().audit(100).unwrap();
        log.entries.into_iter().map(|entry| (entry.action, entry.channel)).collect()
    }
}

/// No test here asks for a grant.
fn plugins(_: &str, _: &str, _: &[String]) -> Result<(), hotcell_state::ErrorReport> {
    unreachable!("no grant was asked for")
}

fn what(content: &str) -> ApprovalSubject {
    ApprovalSubject::Network {
        tool: "run_command".to_owned(),
        hosts: vec!["pypi.org:443".to_owned()],
        workspace: None,
        content: content.to_owned(),
        shown: "argv: [\"x\"]".to_owned(),
    }
}

fn waits(standing: RequestStatus) -> Approval {
    match standing {
        RequestStatus::Waits(approval) => approval,
        other => panic!("{other:?}"),
    }
}

#[test]
fn approval_holds_for_caller_digest_and_one_use() {
    let place = Place::new();
    let (me, you, person) = (place.caller("me"), place.caller("you"), place.person());
    assert!(person.list().unwrap().is_empty() && me.take(&what("a")).unwrap().is_none());
    let asked = waits(me.ask(&what("a"), Some("please")).unwrap());
    assert_eq!((asked.asked_by.as_str(), asked.digest.as_str(), asked.asked), ("mcp:me", "a", 1));
    assert_eq!(waits(me.ask(&what("a"), None).unwrap()).id, asked.id, "the same request");
    assert_eq!(person.show(&asked.id[..4]).unwrap().asked, 2);
    assert!(me.take(&what("a")).unwrap().is_none(), "nobody decided");
    // Only a person decides: not even the caller who asked.
    for desk in [&me, &you] {
        assert!(desk.approve(&asked.id, None, None, &plugins).is_err());
        assert!(desk.deny(&asked.id, None).is_err());
    }
    person.approve(&asked.id, Some("looked at it"), None, &plugins).unwrap();
    assert!(you.take(&what("a")).unwrap().is_none(), "another caller");
    assert!(me.take(&what("b")).unwrap().is_none(), "another digest");
    assert!(matches!(me.ask(&what("a"), None).unwrap(), RequestStatus::Approved(_)));
    assert_eq!(me.take(&what("a")).unwrap().unwrap().state, State::Used);
    assert!(me.take(&what("a")).unwrap().is_none(), "used");
    let again = person.approve(&asked.id, None, None, &plugins).unwrap_err();
    assert!(again.message.contains("it was used already; nothing was allowed"), "{again}");
    assert_ne!(waits(me.ask(&what("a"), None).unwrap()).id, asked.id, "it asks anew");
    let actions = place.actions();
    let actions: Vec<_> =
        actions.iter().map(|(action, channel)| (action.as_str(), channel.as_str())).collect();
    let want = [
        ("approval_ask", "mcp:me"),
        ("approval_approve", "cli"),
        ("approval_use", "mcp:me"),
        ("approval_ask", "mcp:me"),
    ];
    assert_eq!((actions, place.problem()), (want.to_vec(), None));
}

#[test]
fn approval_is_used_once_under_concurrency() {
    let place = Place::new();
    let asked = waits(place.caller("me").ask(&what("a"), None).unwrap());
    place.person().approve(&asked.id, None, None, &plugins).unwrap();
    let taken = std::thread::scope(|scope| {
        let take = || place.caller("me").take(&what("a")).unwrap().is_some();
        let all: Vec<_> = (0..6).map(|_| scope.spawn(take)).collect();
        all.into_iter().map(|one| one.join().unwrap()).filter(|taken| *taken).count()
    });
    assert_eq!((taken, place.problem()), (1, None));
}

#[test]
fn expired_approval_allows_no_call() {
    let place = Place::new();
    let (me, person) = (place.caller("me"), place.person());
    let asked = waits(me.ask(&what("a"), None).unwrap());
    let past = "DROP TRIGGER audit_no_update; UPDATE approvals SET expires = 1";
    person.approve(&asked.id, None, Some(Duration::from_millis(1)), &plugins).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    assert!(me.take(&what("a")).unwrap().is_none(), "expired");
    assert_eq!(person.show(&asked.id).unwrap().state, State::Expired);
    let late = person.approve(&asked.id, None, None, &plugins).unwrap_err();
    assert!(late.message.contains("it has expired; nothing was allowed"), "{late}");
    let next = waits(me.ask(&what("a"), None).unwrap());
    person.deny(&next.id, Some("no \u{1b}[31mway")).unwrap();
    let RequestStatus::Denied(denied) = me.ask(&what("a"), None).unwrap() else { panic!() };
    assert_eq!(
        (denied.id.as_str(), denied.decision.unwrap().reason.as_str()),
        (&*next.id, "no \\u{1b}[31mway")
    );
    assert!(person.approve(&next.id, None, None, &plugins).unwrap_err().message.contains("it was denied"));
    assert!(person.deny(&next.id, None).unwrap_err().message.contains("nothing to deny"));
    // An unused approval can be revoked.
    let third = waits(me.ask(&what("b"), None).unwrap());
    person.approve(&third.id, None, None, &plugins).unwrap();
    assert!(
        person.approve(&third.id, None, None, &plugins).unwrap_err().message.contains("approved already")
    );
    person.deny(&third.id, None).unwrap();
    assert!(me.take(&what("b")).unwrap().is_none());
    assert_eq!(place.problem(), None);
    for wrong in [Duration::ZERO, MAX_LIFETIME + Duration::from_secs(1)] {
        assert_eq!(
            person.approve("x", None, Some(wrong), &plugins).unwrap_err().field.as_deref(),
            Some("expires")
        );
    }
    // Changes past the log are detected.
    place.sql(past);
    assert!(place.problem().is_some());
}

#[test]
fn pending_requests_per_caller_are_limited() {
    let place = Place::new();
    let (me, person) = (place.caller("me"), place.person());
    for one in 0..MAX_PENDING_PER_CALLER {
        waits(me.ask(&what(&one.to_string()), None).unwrap());
    }
    let full = me.ask(&what("more"), None).unwrap_err();
    assert!(full.code == Code::Busy && full.to_string().contains("16 requests of yours"), "{full}");
    waits(me.ask(&what("0"), None).unwrap());
    assert_eq!(person.list().unwrap().len() as u64, MAX_PENDING_PER_CALLER);
    waits(place.caller("you").ask(&what("more"), None).unwrap());
    person.deny(&person.list().unwrap()[1].id, None).unwrap();
    waits(me.ask(&what("more"), None).unwrap());
    // A caller sees only its own requests.
    assert_eq!(
        (place.caller("you").list().unwrap().len(), place.caller("them").list().unwrap().len()),
        (1, 0)
    );
    let long = me.ask(&what("0"), Some(&"x".repeat(5000))).unwrap();
    assert_eq!(long.approval().asked, 3);
}

#[test]
fn wrong_ids_name_the_nearest() {
    let place = Place::new();
    let none = place.person().show("ab").unwrap_err();
    assert!(none.code == Code::UnknownName && none.to_string().contains("nothing was asked for"), "{none}");
    let id = waits(place.caller("me").ask(&what("a"), None).unwrap()).id;
    let mut wrong = id.clone();
    wrong.replace_range(7.., if id.ends_with('0') { "1" } else { "0" });
    let person = place.person();
    let like = format!("did you mean {id}");
    let unlike = "approvals list shows";
    let long = "é".repeat(2000);
    for (wrong, hint) in [(&*wrong, &*like), ("", unlike), ("%", unlike), ("'; --", unlike), (&*long, unlike)]
    {
        for error in [person.show(wrong).map(drop), person.approve(wrong, None, None, &plugins).map(drop)] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
    assert_eq!(person.show(&id).unwrap().state, State::Pending);
    assert!(person.approve(&id, Some("  "), None, &plugins).unwrap_err().field.as_deref() == Some("reason"));
}

#[test]
fn elicitation_needs_operator_setting_and_same_caller() {
    let place = Place::new();
    let asked = waits(place.caller("me").ask(&what("a"), None).unwrap());
    assert!(place.caller("me").through_the_client().is_none(), "the default is the command line");
    let forged = place.of(Channel::Elicited("me".to_owned()), AskedBy::Cli);
    assert!(forged.approve(&asked.id, None, None, &plugins).unwrap_err().message.contains("elicitation"));
    let of = |name: &str| place.of(Channel::Model(name.to_owned()), AskedBy::Elicitation);
    let other = of("you").through_the_client().unwrap();
    assert!(other.approve(&asked.id, None, None, &plugins).is_err(), "another caller's is not there");
    let mine = of("me").through_the_client().unwrap();
    // Only the latest ticket is valid, and only once.
    let first = mine.ticket(&asked.id).unwrap();
    let second = mine.ticket(&asked.id).unwrap();
    assert!(mine.redeem(&asked.id, &first).is_err());
    mine.redeem(&asked.id, &second).unwrap();
    assert!(mine.redeem(&asked.id, &second).is_err());
    mine.approve(&asked.id, None, None, &plugins).unwrap();
    assert!(mine.ticket(&asked.id).is_err(), "it is decided");
    assert!(of("me").take(&what("a")).unwrap().is_some());
    let channels: Vec<_> = place.actions().into_iter().map(|(_, channel)| channel).collect();
    assert_eq!(channels, ["mcp:me", "elicitation:me", "mcp:me"]);
}

#[test]
fn older_database_gains_approvals_table() {
    let place = Place::new();
    let folder = StateFolder::open(&place.state()).unwrap();
    let database = Connection::open(folder.database()).unwrap();
    for form in [
        include_str!("../../../state/src/database/runs.sql"),
        include_str!("../../../state/src/database/quarantine.sql"),
    ] {
        database.execute_batch(form).unwrap();
    }
    database.execute_batch(include_str!("../../../state/src/database/tools.sql")).unwrap();
    database.pragma_update(None, "user_version", 3).unwrap();
    drop(database);
    let person = place.person();
    assert!(person.list().unwrap().is_empty() && person.show("ab").is_err());
    let read = Quarantine::open_to_read(folder).unwrap().unwrap();
    assert_eq!(read.verify(None, &[no_plugins]).unwrap().problem, None);
    waits(place.caller("me").ask(&what("a"), None).unwrap());
    assert_eq!((person.list().unwrap().len(), place.problem()), (1, None));
}

#[test]
fn active_approvals_precede_thousand_expired_ones() {
    let place = Place::new();
    let (caller, person) = (place.caller("agent"), place.person());
    let pending = waits(caller.ask(&what("a"), None).unwrap());
    let given = waits(caller.ask(&what("b"), None).unwrap());
    person.approve(&given.id, None, None, &plugins).unwrap();
    // Newer ones, all of them used.
    place.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
         INSERT INTO approvals (id, kind, asked_by, ask, digest, what, asked, created, expires, state)
         SELECT printf('f%07x', i), kind, asked_by, ask, digest, what, 1, created + i, expires, 'used'
         FROM approvals, n WHERE state = 'approved'",
    );
    let listed = person.list().unwrap();
    let states: Vec<State> = listed.iter().map(|one| one.state).collect();
    assert_eq!((listed.len(), &states[..3]), (1000, &[State::Approved, State::Pending, State::Used][..]));
    assert_eq!(caller.list().unwrap()[1].id, pending.id);
    assert!(caller.take(&what("a")).unwrap().is_none(), "nobody said yes");
    let taken = caller.take_where(|row| row.what == what("b")).unwrap().unwrap();
    assert_eq!(taken.id, given.id);
    assert!(caller.take(&what("b")).unwrap().is_none(), "once");
}
