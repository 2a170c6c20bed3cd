//! Each limit of a call's requests is enforced and reported.

use std::collections::BTreeSet;
use std::net::TcpListener;

use hotcell_sandbox::Bind;
use hotcell_state::state::StateChoice;
use hotcell_tools::Origin;

use super::*;

struct Bench {
    means: Arc<BrokerState>,
    _dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = StateChoice::Named(dir.path().join("state"));
        let asker = Some((hotcell_guard::quarantine::Channel::Cli, state));
        let configuration = Configuration { asker, ..Configuration::default() };
        let plugins = Plugins::of(&configuration).unwrap();
        Self { means: Arc::new(BrokerState::new(configuration, plugins).unwrap()), _dir: dir }
    }

    /// Broker for a call with these grants and this time limit.
    fn broker(&self, held: Held, wall: Duration) -> CallBroker {
        CallBroker::new(Arc::clone(&self.means), "plugin", held, wall, None)
    }

    /// Broker for a call that may run and scan.
    fn usual(&self) -> CallBroker {
        self.broker(Held { sandbox: true, guard: true, ..Held::default() }, Duration::from_secs(60))
    }
}

/// A run that names no program, and so is refused at once.
fn none() -> Ask {
    run(Vec::new())
}

fn run(files: Vec<(String, Blob)>) -> Ask {
    let argv = if files.is_empty() { Vec::new() } else { vec!["true".to_owned()] };
    Ask::Sandbox { argv, files, stdin: None, env: Vec::new(), timeout_ms: 60_000, memory: None }
}

fn artifact(bytes: Vec<u8>, language: Option<&str>) -> Ask {
    Ask::Scan { name: "a.py".to_owned(), content: Blob(bytes), language: language.map(str::to_owned) }
}

fn too_much(answer: Result<Reply, Refused>) -> String {
    match answer {
        Err(Refused::TooMuch(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn invalid(answer: &Result<Reply, Refused>) -> bool {
    matches!(answer, Err(Refused::Invalid(_)))
}

#[test]
fn call_time_runs_from_first_question() {
    let start = Instant::now();
    let until = start + Duration::from_secs(10);
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    for (now, asked_ms, left_ms) in [
        (at(0), u64::MAX, 10_000),
        (at(0), 100, 100),
        (at(4), 60_000, 6_000),
        (at(4), 0, 1),
        (at(10), 60_000, 1),
        (at(99), 60_000, 1),
    ] {
        assert_eq!(left(until, now, asked_ms), Duration::from_millis(left_ms), "{asked_ms}");
    }
}

#[tokio::test]
async fn http_request_ends_with_call_time() {
    let bench = Bench::new();
    // Accepts connections, but never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("http://{}", silent.local_addr().unwrap());
    let net: BTreeSet<Origin> = [place.parse().unwrap()].into();
    let broker = bench.broker(Held { net, ..Held::default() }, Duration::from_millis(400));
    let begun = Instant::now();
    for most in [Duration::from_secs(3), Duration::from_millis(700)] {
        let asked = Instant::now();
        let (method, url) = ("GET".to_owned(), format!("{place}/"));
        let ask = Ask::Http { method, url, headers: Vec::new(), body: Blob::default(), timeout_ms: 60_000 };
        match broker.answer(ask).await {
            Err(Refused::Unavailable(why)) => assert!(why.contains("took too long"), "{why}"),
            Ok(Reply::Refused { why: Refused::Unavailable(why) }) => {
                assert!(why.contains("took too long"), "{why}");
            }
            other => panic!("{other:?}"),
        }
        assert!(asked.elapsed() < most, "{:?}: nothing is left for the second", asked.elapsed());
    }
    assert!(begun.elapsed() >= Duration::from_millis(400));
}

#[tokio::test]
async fn plugin_runs_share_turns_and_have_limit() {
    let bench = Bench::new();
    let broker = bench.usual();
    let taken = bench
        .means
        .turns
        .try_acquire_many(MAX_CONCURRENT_RUNS.try_into().unwrap())
        .expect("as many as there are");
    assert!(bench.means.turns.try_acquire().is_err());
    let mut waiting = Box::pin(broker.answer(none()));
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut waiting).await.is_err(), "it has no turn");
    let why = too_much(broker.answer(none()).await);
    assert!(why.contains("another run of this call"), "{why}");
    drop(taken);
    assert!(invalid(&waiting.await), "it had its turn");
    for number in 1..MAX_RUNS {
        assert!(invalid(&broker.answer(none()).await), "{number}");
    }
    let why = too_much(broker.answer(none()).await);
    assert!(why.contains("at most 16 runs"), "{why}");
    // Another call starts with fresh counts, and all permits are free again.
    assert!(invalid(&bench.usual().answer(none()).await));
    assert_eq!(bench.means.turns.available_permits(), MAX_CONCURRENT_RUNS);
}

#[tokio::test]
async fn plugin_run_files_are_bounded() {
    let bench = Bench::new();
    let broker = bench.usual();
    let many = (0..=FILE_LIMITS.0).map(|n| (format!("f{n}"), Blob::default())).collect();
    let large = vec![("a".to_owned(), Blob(vec![0; FILE_LIMITS.1])), ("b".to_owned(), Blob(vec![0]))];
    for files in [many, large] {
        let why = too_much(broker.answer(run(files)).await);
        assert!(why.contains("at most 256 files and 8388608 bytes"), "{why}");
    }
}

#[test]
fn findings_are_limited_to_most_severe() {
    let finding = |severity, line| hotcell_guard::Finding {
        rule: "rule".to_owned(),
        severity,
        capability: "any".to_owned(),
        part: "a.py".to_owned(),
        line,
        column: 1,
        end_line: line,
        cwe: None,
        message: "means this".to_owned(),
        derived_from: Vec::new(),
        frames: Vec::new(),
    };
    let light = (0..MAX_FINDINGS + 500).map(|line| finding(Severity::Note, u32::try_from(line).unwrap()));
    let told = gravest(light.chain([finding(Severity::Critical, 7)]).collect());
    assert_eq!(told.len(), MAX_FINDINGS);
    assert_eq!((told[0].severity.as_str(), told[0].line), ("critical", 7));
    assert_eq!((told[1].severity.as_str(), told[1].line), ("note", 0));
}

#[tokio::test]
async fn scans_are_limited_in_size_and_number() {
    let bench = Bench::new();
    let broker = bench.usual();
    let why = too_much(broker.answer(artifact(vec![b' '; MAX_ARTIFACT_BYTES + 1], None)).await);
    assert!(why.contains("at most 1048576 bytes"), "{why}");
    for number in 0..MAX_SCANS {
        assert!(invalid(&broker.answer(artifact(Vec::new(), Some("none"))).await), "{number}");
    }
    let why = too_much(broker.answer(artifact(Vec::new(), None)).await);
    assert!(why.contains("at most 1000 scans"), "{why}");
}

#[tokio::test]
async fn plugin_client_cache_is_bounded() {
    let bench = Bench::new();
    for number in 0..=MAX_CLIENTS {
        bench.means.client(&format!("p{number}")).unwrap();
        bench.means.client("p0").unwrap();
    }
    let kept = bench.means.clients.lock().unwrap().len();
    assert!((1..=MAX_CLIENTS).contains(&kept), "{kept}");
}

#[test]
fn plugin_run_excludes_operator_settings() {
    let mut settings = RunSettings { profile: Some("strict".into()), ..RunSettings::default() };
    settings.env.push(EnvSetting::Set("TOKEN".into(), "1".into()));
    settings.toolchains.push("/opt/x".into());
    let (host, inside) = ("/srv".into(), "/srv".into());
    settings.binds.push(Bind { host, inside, writable: true, copy_on_write: false, identity: None });
    let of_run = |run| hotcell_config::Settings { run, ..hotcell_config::Settings::default() };
    let configuration = Configuration {
        user: of_run(settings.clone()),
        environment: of_run(settings),
        ..Configuration::default()
    };
    let left = without_grants(configuration);
    for left in [left.user, left.environment] {
        assert!(left.run.env.is_empty() && left.run.toolchains.is_empty() && left.run.binds.is_empty());
        assert_eq!(left.run.profile.as_deref(), Some(std::ffi::OsStr::new("strict")), "what confines stays");
    }
}
