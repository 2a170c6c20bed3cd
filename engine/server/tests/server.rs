//! The running service, with real programs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell_config::Configuration;
use hotcell_sandbox::Engine;
use hotcell_sandbox::outcome::Cause;
use hotcell_server::workspaces::NewFile;
use hotcell_server::{
    AskedLimits, Bounds, Caller, CommandRequest, Live, Order, Phase, Run, RunDir, Stream, Workspace,
};
use hotcell_state::StateFolder;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::ChangePolicy;

struct Service {
    live: Live,
    state: tempfile::TempDir,
}

fn service(bounds: Bounds) -> Service {
    let state = tempfile::tempdir().unwrap();
    let folder = StateFolder::open(&state.path().join("state")).unwrap();
    let live = Live::open(Engine::new(), Configuration::default(), folder, bounds).unwrap();
    Service { live, state }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn request(argv: &[&str]) -> CommandRequest {
    CommandRequest {
        source: None,
        image: None,
        argv: argv.iter().map(|a| (*a).to_owned()).collect(),
        workspace: None,
        keep: ChangePolicy::default(),
        env: Vec::new(),
        stdin: Vec::new(),
        limits: AskedLimits::default(),
        network: None,
        secrets: Vec::new(),
        outputs: Vec::new(),
        terminal: None,
        approved: None,
    }
}

impl Service {
    fn order(&self, request: CommandRequest, key: Option<&str>) -> Result<Order, ErrorReport> {
        let command = request.argv.clone();
        let content = format!("{request:?}").into_bytes();
        Ok(Order {
            command,
            lane: hotcell_server::Lane::default(),
            key: key.map(str::to_owned),
            content,
            request: hotcell_server::Requested::default(),
            beside: false,
            work: request.into_work(&self.live, &me())?,
        })
    }

    fn start(&self, caller: &Caller, argv: &[&str]) -> Arc<Run> {
        self.live.start(caller, self.order(request(argv), None).unwrap()).unwrap()
    }

    async fn finish(&self, request: CommandRequest) -> Arc<Run> {
        let run = self.live.start(&me(), self.order(request, None).unwrap()).unwrap();
        run.ended().await;
        run
    }

    fn workspace(&self, files: &[(&str, &str)]) -> Workspace {
        let new = |(path, text): &(&str, &str)| NewFile {
            path: (*path).to_owned(),
            bytes: text.as_bytes().to_vec(),
            executable: false,
        };
        self.live.workspaces().create(&me(), &files.iter().map(new).collect::<Vec<_>>(), None).unwrap()
    }
}

fn me() -> Caller {
    Caller::new("me")
}

fn printed(run: &Run) -> String {
    String::from_utf8_lossy(&run.kept(Stream::Stdout).0).into_owned()
}

/// Number of host processes whose command line contains this mark.
fn marked(mark: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|e| std::fs::read(e.path().join("cmdline")).ok());
    lines.filter(|l| String::from_utf8_lossy(l).contains(mark)).count()
}

async fn until(what: &str, mut is: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what} did not come");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    begin.elapsed()
}

#[test]
fn run_ends_with_outcome_and_offset_output() {
    runtime().block_on(async {
        let service = service(Bounds::default());
        let mut request = request(&["bash", "-c", "cat; echo $A >&2; exit 3"]);
        (request.stdin, request.env) = (b"hello\n".to_vec(), vec![("A".into(), "b".into())]);
        let run = service.finish(request).await;
        let answer = run.answer().unwrap();
        assert_eq!(
            (answer.outcome().cause, answer.outcome().exit_code),
            (Cause::Exited, Some(3)),
            "{answer:?}"
        );
        assert_eq!((printed(&run).as_str(), run.state().printed), ("hello\n", [6, 2]));
        assert_eq!(run.read(Stream::Stdout, 2, 2).bytes, b"ll");
        assert_eq!(service.live.run(&me(), &run.id).unwrap().id, run.id);
        assert!(service.live.run(&Caller::new("other"), &run.id).is_err());
        service.live.close().await;
    });
}

#[test]
fn workspace_writes_are_discarded_after_run() {
    runtime().block_on(async {
        let service = service(Bounds::default());
        let workspace = service.workspace(&[("a/x.sh", "cat data; echo new >data; cat data; touch b")]);
        workspace
            .write(&[NewFile { path: "data".into(), bytes: b"old\n".to_vec(), executable: false }])
            .unwrap();
        for _ in 0..2 {
            let mut request = request(&["bash", "a/x.sh"]);
            request.workspace = Some(RunDir::Pinned(workspace.kept().unwrap()));
            let run = service.finish(request).await;
            assert_eq!(printed(&run), "old\nnew\n", "{:?}", run.answer());
        }
        assert_eq!(workspace.list(None).unwrap().len(), 3);
        service.live.workspaces().remove(&me(), &workspace.id).unwrap();
        assert!(workspace.list(None).is_err());
        service.live.close().await;
    });
}

#[test]
fn retained_changes_become_next_workspace_state() {
    runtime().block_on(async {
        let service = service(Bounds::default());
        let workspace = service.workspace(&[("x.sh", "echo new >>data; rm -f gone; cat data"), ("gone", "")]);
        for (keep, printed_now) in [(true, "new\n"), (true, "new\nnew\n"), (false, "new\nnew\nnew\n")] {
            let mut request = request(&["bash", "x.sh"]);
            request.workspace = Some(RunDir::Pinned(workspace.kept().unwrap()));
            request.keep = ChangePolicy { stay: keep, ..ChangePolicy::default() };
            let run = service.finish(request).await;
            let answer = run.answer().unwrap();
            assert_eq!(printed(&run), printed_now, "{answer:?}");
            assert_eq!(answer.outcome().kept.as_ref().map(|kept| kept.error.is_none()), keep.then_some(true));
        }
        let paths: Vec<_> = workspace.list(None).unwrap().into_iter().map(|e| e.path).collect();
        assert_eq!(paths, ["data", "x.sh"]);
        assert_eq!(workspace.read("data", 0, 99).unwrap().1, b"new\nnew\n");
        service.live.close().await;
    });
}

#[test]
fn concurrent_workspace_runs_are_isolated() {
    runtime().block_on(async {
        let service = service(Bounds::default());
        let workspace = service.workspace(&[("same", "old\n"), ("d/f", "f\n")]);
        let start = |script: &str| {
            let mut request = request(&["bash", "-c", script]);
            request.workspace = Some(RunDir::Pinned(workspace.kept().unwrap()));
            request.keep = ChangePolicy { stay: true, ..ChangePolicy::default() };
            service.live.start(&me(), service.order(request, None).unwrap()).unwrap()
        };
        let wait = "echo begun; sleep 1; cat same; ls";
        let one = start(&format!("{wait}; echo one >same; echo 1 >one"));
        let two = start(&format!("{wait}; echo two >same; echo 2 >two"));
        let three = start(&format!("{wait}; echo 3 >three; rm -r d"));
        for run in [&one, &two, &three] {
            until("the run", || printed(run).contains("begun")).await;
        }
        // Meanwhile it can be read, written and forked.
        let begin = Instant::now();
        assert_eq!(workspace.read("same", 0, 9).unwrap().1, b"old\n");
        workspace
            .write(&[NewFile { path: "meanwhile".into(), bytes: b"m".to_vec(), executable: false }])
            .unwrap();
        let fork = service.live.workspaces().fork(&me(), &workspace.id).unwrap();
        assert!(begin.elapsed() < Duration::from_millis(900), "{:?}", begin.elapsed());
        let mut conflicts = 0;
        for run in [&one, &two, &three] {
            run.ended().await;
            assert_eq!(printed(run), "begun\nold\nd\nsame\n");
            let answer = run.answer().unwrap();
            let kept = answer.outcome().kept.clone().unwrap();
            conflicts += usize::from(kept.conflicts == ["same"] && kept.error.is_some());
        }
        assert_eq!(conflicts, 1, "the second of those that changed the same file");
        let paths: Vec<_> = workspace.list(None).unwrap().into_iter().map(|e| e.path).collect();
        let first = if paths.contains(&"one".to_owned()) { "one" } else { "two" };
        let mut want = vec![first, "meanwhile", "same", "three"];
        want.sort_unstable();
        assert_eq!(paths, want);
        assert_eq!(workspace.read("same", 0, 9).unwrap().1, format!("{first}\n").as_bytes());
        assert_eq!(fork.list(None).unwrap().len(), 4);
        service.live.close().await;
    });
}

#[test]
fn cancel_ends_process_tree_within_200_ms() {
    runtime().block_on(async {
        let service = service(Bounds::default());
        let mark = format!("mark-{}-cancel", std::process::id());
        let script = format!(
            "setsid sleep 60 & (exec -a {mark} sleep 60) & (trap '' TERM; exec -a {mark} sleep 60) & wait"
        );
        let run = service.start(&me(), &["bash", "-c", &script]);
        until("the tree", || marked(&mark) >= 3).await;
        service.live.cancel(&run);
        let took = until("the end", || marked(&mark) == 0).await;
        assert!(took < Duration::from_millis(200), "{took:?}");
        run.ended().await;
        assert_eq!(run.answer().unwrap().outcome().cause, Cause::Cancelled);
        service.live.close().await;
    });
}

#[test]
fn noisy_caller_does_not_starve_quiet_caller() {
    runtime().block_on(async {
        let service = service(Bounds { concurrent: 2, concurrent_for_one: 1, ..Bounds::default() });
        let (noisy, quiet) = (Caller::new("noisy"), Caller::new("quiet"));
        let many: Vec<_> = (0..20).map(|_| service.start(&noisy, &["sleep", "30"])).collect();
        assert_eq!(service.live.counts(), [1, 19, 0]);
        assert_eq!(service.live.position(&many[3]), Some(3));
        let run = service.start(&quiet, &["true"]);
        assert_eq!(run.state().phase, Phase::Running, "a place is left");
        run.ended().await;
        assert_eq!(service.live.runs(&quiet).len(), 1);
        // A queued run is cancelled without starting.
        service.live.cancel(&many[19]);
        many[19].ended().await;
        assert_eq!(many[19].answer().unwrap().outcome().cause, Cause::Cancelled);
        service.live.close().await;
        assert_eq!(service.live.counts(), [0, 0, 21]);
        assert!(service.live.start(&quiet, service.order(request(&["true"]), None).unwrap()).is_err());
    });
}

#[test]
fn idempotency_key_returns_same_run() {
    runtime().block_on(async {
        let service = service(Bounds::default());
        let start = |caller: &Caller, argv: &[&str], key: &str| {
            service.live.start(caller, service.order(request(argv), Some(key)).unwrap())
        };
        let first = start(&me(), &["true"], "k").unwrap();
        assert_eq!(start(&me(), &["true"], "k").unwrap().id, first.id);
        first.ended().await;
        assert_eq!(start(&me(), &["true"], "k").unwrap().id, first.id);
        assert_eq!(start(&me(), &["false"], "k").unwrap_err().field.as_deref(), Some("idempotency_key"));
        assert_ne!(start(&Caller::new("other"), &["true"], "k").unwrap().id, first.id);
        assert!(start(&me(), &["true"], "").is_err() && start(&me(), &["true"], &"k".repeat(129)).is_err());
        service.live.close().await;
    });
}

#[test]
fn service_bounds_hold() {
    runtime().block_on(async {
        let bounds = Bounds {
            finished_for_one: 2,
            waiting_for_one: 1,
            concurrent: 1,
            output: 1000,
            ..Bounds::default()
        };
        let service = service(bounds);
        let flood = service.finish(request(&["bash", "-c", "yes | head -c 1000000"])).await;
        assert_eq!((flood.kept(Stream::Stdout).0.len(), flood.state().printed[0]), (1000, 1_000_000));
        let ids: Vec<_> =
            [service.finish(request(&["true"])).await, service.finish(request(&["true"])).await]
                .map(|r| r.id.clone())
                .into();
        let sleeper = service.start(&me(), &["sleep", "9"]);
        assert!(service.live.run(&me(), &flood.id).is_err(), "the oldest is forgotten");
        assert!(ids.iter().all(|id| service.live.run(&me(), id).is_ok()));
        let waiting = service.start(&me(), &["true"]);
        let refused =
            service.live.start(&me(), service.order(request(&["true"]), None).unwrap()).unwrap_err();
        assert_eq!(refused.code, Code::Busy);
        service.live.cancel(&sleeper);
        waiting.ended().await;
        let mut wide = request(&["true"]);
        wide.limits.memory_mib = Some(4096);
        let report = service.order(wide, None).unwrap_err();
        assert_eq!(report.field.as_deref(), Some("limits.memory_mib"));
        let mut short = request(&["sleep", "9"]);
        short.limits.timeout_seconds = Some(0.1);
        assert_eq!(service.finish(short).await.answer().unwrap().outcome().cause, Cause::WallLimit);
        service.live.close().await;
    });
}

#[test]
fn answer_names_no_host_folder() {
    runtime().block_on(async {
        let service = service(Bounds::default());
        let workspace = service.workspace(&[("plain.txt", "x")]);
        for argv in [&["no-such-program"] as &[&str], &["./plain.txt"], &["./missing"], &["/usr/bin/no-such"]]
        {
            let mut request = request(argv);
            request.workspace = Some(RunDir::Pinned(workspace.kept().unwrap()));
            let run = service.finish(request).await;
            let text = format!("{:?}", run.answer().unwrap().outcome());
            assert!(
                !text.contains(service.state.path().to_str().unwrap()) && !text.contains("searched"),
                "{text}"
            );
            assert_ne!(run.answer().unwrap().outcome().cause, Cause::Exited, "{text}");
        }
        for argv in [&["/root/x"] as &[&str], &["../x"]] {
            assert!(request(argv).into_work(&service.live, &me()).is_err());
        }
        service.live.close().await;
        assert!(Path::new(service.state.path()).join("state").exists());
    });
}
