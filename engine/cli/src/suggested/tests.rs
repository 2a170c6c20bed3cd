use hotcell_guard::quarantine::Channel;
use hotcell_learn::suggestion::SCHEMA;

use super::*;

fn suggestion() -> Suggestion {
    let seen = hotcell_learn::Seen::default();
    Suggestion {
        schema: SCHEMA.to_owned(),
        runs: Vec::new(),
        network: vec![hotcell_learn::HostRule {
            rule: "api.example.com:443".to_owned(),
            opens: "all".to_owned(),
            seen,
        }],
        ro: Vec::new(),
        refused: Vec::new(),
        left_out: 0,
        replay: None,
    }
}

#[test]
fn policy_is_written_once_and_only_as_shown() {
    let dir = tempfile::tempdir().unwrap();
    let choice = StateChoice::Named(dir.path().join("state"));
    let asker = Some((Channel::Team("bob".to_owned()), choice.clone()));
    let configuration = Configuration { asker, ..Configuration::default() };
    let out = dir.path().canonicalize().unwrap().join("policy.toml");
    let id = keep(&choice, &suggestion(), &out).unwrap();
    let all = list(&choice).unwrap();
    assert_eq!((all.len(), &all[0].id), (1, &id));
    assert!(!out.exists(), "nothing is written before a yes");
    let decision = |yes: bool, shown: &str| SuggestionDecision {
        id: id.clone(),
        shown: shown.to_owned(),
        yes,
        reason: None,
        channel: Channel::Web,
    };
    assert!(decide(&configuration, &decision(true, "00")).is_err(), "it is another text");
    assert_eq!(list(&choice).unwrap().len(), 1, "it still waits");
    fs::write(&out, "").unwrap();
    assert!(decide(&configuration, &decision(true, &all[0].shown)).is_err(), "the file is there");
    fs::remove_file(&out).unwrap();
    decide(&configuration, &decision(true, &all[0].shown)).unwrap();
    assert_eq!(fs::read_to_string(&out).unwrap(), all[0].text);
    assert!(decide(&configuration, &decision(true, &all[0].shown)).is_err(), "it was decided");
    let log = QuarantineConfig::of(&configuration).unwrap().open().unwrap().audit(10).unwrap();
    let rows: Vec<_> = log.entries.iter().map(|row| (row.action.as_str(), row.channel.as_str())).collect();
    assert_eq!(rows, [(ACCEPT, "web:bob")]);
    let other = keep(&choice, &suggestion(), &out).unwrap();
    let all = list(&choice).unwrap();
    decide(&configuration, &SuggestionDecision { id: other, ..decision(false, &all[0].shown) }).unwrap();
    assert!(list(&choice).unwrap().is_empty());
}

/// Each state that a process leaves when it dies while it decides.
#[test]
fn decision_can_be_taken_again_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let choice = StateChoice::Named(dir.path().join("state"));
    let asker = Some((Channel::Cli, choice.clone()));
    let configuration = Configuration { asker, ..Configuration::default() };
    let text = suggestion().toml();
    for (taken, written, yes) in [
        (true, false, true),
        (true, false, false),
        (true, true, true),
        (false, true, true),
        (false, true, false),
    ] {
        let out = dir.path().canonicalize().unwrap().join(format!("{taken}-{written}-{yes}.toml"));
        let id = keep(&choice, &suggestion(), &out).unwrap();
        let waiting = dir.path().join("state").join(FOLDER);
        if taken {
            fs::rename(waiting.join(format!("{id}.json")), waiting.join(format!("{id}.taken"))).unwrap();
        }
        if written {
            fs::write(&out, &text).unwrap();
        }
        let shown = list(&choice).unwrap().remove(0).shown;
        let decision = SuggestionDecision { id: id.clone(), shown, yes, reason: None, channel: Channel::Cli };
        decide(&configuration, &decision).unwrap();
        assert_eq!(out.exists(), written || yes);
        assert!(list(&choice).unwrap().is_empty());
        let left: Vec<_> = fs::read_dir(&waiting).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [LOCK], "{id}");
    }
}

/// A file that an earlier release wrote in part does not block decisions on the others.
#[test]
fn policies_that_cannot_be_read_are_left_out_of_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let choice = StateChoice::Named(dir.path().join("state"));
    let asker = Some((Channel::Cli, choice.clone()));
    let configuration = Configuration { asker, ..Configuration::default() };
    let out = dir.path().canonicalize().unwrap().join("policy.toml");
    let id = keep(&choice, &suggestion(), &out).unwrap();
    let waiting = dir.path().join("state").join(FOLDER);
    let whole = fs::read(waiting.join(format!("{id}.json"))).unwrap();
    for (name, bytes) in [
        ("000000000001.json", &whole[..whole.len() / 2]),
        ("000000000002.json", &b""[..]),
        ("000000000003.taken", &b"{}"[..]),
        (".hotcell-00.new", &whole[..]),
    ] {
        fs::write(waiting.join(name), bytes).unwrap();
    }
    fs::create_dir(waiting.join("000000000004.json")).unwrap();
    let all = list(&choice).unwrap();
    assert_eq!(all.iter().map(|one| &one.id).collect::<Vec<_>>(), [&id]);
    assert!(waiting.join("000000000003.taken").exists(), "a list changes nothing");
    let shown = all[0].shown.clone();
    let decision = SuggestionDecision { id, shown, yes: true, reason: None, channel: Channel::Cli };
    decide(&configuration, &decision).unwrap();
    assert_eq!(fs::read_to_string(&out).unwrap(), suggestion().toml());
}

#[test]
fn new_file_is_whole_and_replaces_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    write_new(&file, b"text", 0o600).unwrap();
    assert_eq!(write_new(&file, b"other", 0o600).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&file).unwrap(), b"text");
    assert!(write_new(&dir.path().join("b/c"), b"text", 0o600).is_err());
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["a"]);
    for (errno, want) in [(Errno::EPERM, true), (Errno::EOPNOTSUPP, true), (Errno::EEXIST, false)] {
        assert_eq!(has_no_links(&io::Error::from(errno)), want, "{errno}");
    }
}

#[test]
fn reason_for_a_servers_grants_is_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let asker = Some((Channel::Cli, StateChoice::Named(dir.path().join("state"))));
    let configuration = Configuration { asker, ..Configuration::default() };
    let config = QuarantineConfig::of(&configuration).unwrap();
    for reason in [None, Some("not needed")] {
        servers::drop_wanted(&config, "files", &["ro=/a".to_owned()], reason).unwrap();
        let log = config.open().unwrap().audit(1).unwrap();
        assert_eq!(log.entries[0].detail.contains("not needed"), reason.is_some());
    }
}

#[test]
fn two_deciders_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    let choice = StateChoice::Named(dir.path().join("state"));
    let asker = Some((Channel::Cli, choice.clone()));
    let configuration = Configuration { asker, ..Configuration::default() };
    let out = dir.path().canonicalize().unwrap().join("policy.toml");
    let id = keep(&choice, &suggestion(), &out).unwrap();
    let shown = list(&choice).unwrap().remove(0).shown;
    let done = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4)
            .map(|at| {
                let (id, shown) = (id.clone(), shown.clone());
                let configuration = &configuration;
                scope.spawn(move || {
                    let yes = at % 2 == 0;
                    let channel = Channel::Cli;
                    decide(configuration, &SuggestionDecision { id, shown, yes, reason: None, channel })
                        .is_ok()
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).filter(|done| *done).count()
    });
    assert_eq!(done, 1);
    let log = QuarantineConfig::of(&configuration).unwrap().open().unwrap().audit(10).unwrap();
    assert_eq!(log.entries.len(), 1);
    assert_eq!(out.exists(), log.entries[0].action == ACCEPT);
}

/// A server whose files are broken hides neither the policies that wait nor another server's grants.
#[test]
fn broken_files_of_a_server_hide_no_other_suggestion() {
    for file in ["entry.json", "grants.json", "tools.json", "offered.json", "denials.json"] {
        let dir = tempfile::tempdir().unwrap();
        let choice = StateChoice::Named(dir.path().join("state"));
        let id = keep(&choice, &suggestion(), &dir.path().join("policy.toml")).unwrap();
        for name in ["bad", "good"] {
            let folder = servers::folder(&choice, name).unwrap();
            fs::create_dir_all(&folder).unwrap();
            let command = serde_json::json!({ "options": [], "server": ["node", "x.js"] });
            fs::write(folder.join("entry.json"), command.to_string()).unwrap();
            let denied = serde_json::json!([{ "began_us": 1, "ended_us": 2, "cause": "exited", "denials": [],
                                              "grants": ["network=a.example:443"] }]);
            fs::write(folder.join("denials.json"), denied.to_string()).unwrap();
        }
        fs::write(servers::folder(&choice, "bad").unwrap().join(file), "{").unwrap();
        let ids: Vec<_> = list(&choice).unwrap().into_iter().map(|one| one.id).collect();
        assert_eq!(ids, [id, "server-good".to_owned()], "{file}");
        let all = servers::list(&choice).unwrap();
        let unread: Vec<_> = all.iter().map(|one| (one.name.as_str(), one.problem.is_some())).collect();
        assert_eq!(unread, [("bad", file != "denials.json"), ("good", false)], "{file}");
    }
}
