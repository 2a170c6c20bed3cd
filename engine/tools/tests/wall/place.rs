//! Tool hosts for tests, and the surroundings of their processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hotcell_sandbox::Bytes;
use hotcell_tools::{
    Answer, Ask, BoxFuture, Broker, CallError, Held, Hosts, HostsOptions, Limits, Plugin, Reply,
};
use tokio_util::sync::CancellationToken;

pub type Test = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()>>>);

pub const TESTS: &[Test] = &[
    ("process_sees_only_its_folders", || Box::pin(process_sees_only_its_folders())),
    ("changed_grant_needs_another_process", || Box::pin(changed_grant_needs_another_process())),
    ("plugins_without_grants_share_process", || Box::pin(plugins_without_grants_share_process())),
    ("idle_process_ends", || Box::pin(idle_process_ends())),
    ("process_is_renewed_after_thousand_calls", || Box::pin(process_is_renewed_after_thousand_calls())),
];

/// Tool hosts whose program behaves like one of the fakes, or is the real one.
pub struct Bench {
    pub dir: tempfile::TempDir,
    pub hosts: Hosts,
    pub asked: Arc<Asked>,
}

/// A broker that records its questions, and answers none or all of them.
#[derive(Default)]
pub struct Asked {
    pub texts: Mutex<Vec<String>>,
    /// Whether the broker never answers.
    pub mute: bool,
    pub dropped: Arc<Mutex<u32>>,
}

struct Noticed(Arc<Mutex<u32>>);

impl Drop for Noticed {
    fn drop(&mut self) {
        *self.0.lock().unwrap() += 1;
    }
}

impl Broker for Asked {
    fn ask(&self, _call: u64, ask: Ask) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            let noticed = Noticed(Arc::clone(&self.dropped));
            self.texts.lock().unwrap().push(format!("{ask:?}"));
            if self.mute {
                std::future::pending::<()>().await;
            }
            drop(noticed);
            Reply::Done
        })
    }
}

impl Bench {
    pub fn new(arguments: &[&str]) -> Self {
        Self::with(arguments, |_| (), Asked::default())
    }

    pub fn with(arguments: &[&str], change: impl FnOnce(&mut HostsOptions), asked: Asked) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = HostsOptions::new(std::env::current_exe().unwrap(), dir.path().join("cache"));
        options.arguments = arguments.iter().map(Into::into).collect();
        options.compile_memory = Bytes::gib(1);
        change(&mut options);
        Self { hosts: Hosts::new(options).unwrap(), dir, asked: Arc::new(asked) }
    }

    pub fn fake(what: &str) -> Self {
        Self::new(&["fake", what])
    }

    /// A plugin with these bytes and no capabilities.
    pub fn plugin(&self, name: &str, wasm: &[u8]) -> Plugin {
        let path: PathBuf = self.dir.path().join(name);
        std::fs::write(&path, wasm).unwrap();
        let digest = hotcell_tools::host::digest_of(wasm);
        let limits = Limits { wall: Duration::from_secs(5), ..Limits::default() };
        Plugin {
            name: name.to_owned(),
            digest,
            wasm: path,
            held: Held::default(),
            identities: BTreeMap::new(),
            env: Vec::new(),
            limits,
            alone: false,
            session: None,
        }
    }

    pub async fn call(&self, plugin: &Plugin, path: &str, arguments: &str) -> Result<Answer, CallError> {
        let broker = Arc::clone(&self.asked) as Arc<dyn Broker>;
        self.hosts.call(plugin, path, arguments, broker, CancellationToken::new()).await
    }

    /// Calls a tool, and returns the value of its answer.
    pub async fn value(&self, plugin: &Plugin, path: &str, arguments: &str) -> serde_json::Value {
        let answer = self.call(plugin, path, arguments).await.unwrap();
        serde_json::from_str(answer.value.get()).unwrap()
    }

    pub async fn host_error(&self, plugin: &Plugin, arguments: &str) -> String {
        match self.call(plugin, "f", arguments).await {
            Err(CallError::Host { message } | CallError::Refused { message }) => message,
            other => panic!("{other:?}"),
        }
    }
}

async fn process_sees_only_its_folders() {
    let bench = Bench::fake("probe");
    let folder = |name: &str| {
        let path = bench.dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        // Also for the sandbox's user.
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        path.canonicalize().unwrap()
    };
    std::fs::set_permissions(bench.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (read, write, other) = (folder("read"), folder("write"), folder("other"));
    let mut plugin = bench.plugin("probe", b"wasm");
    plugin.held.read = [read.clone(), write.clone()].into();
    plugin.held.write = [write.clone()].into();
    let arguments = serde_json::json!({ "paths": [read, write, other] }).to_string();
    let seen = bench.value(&plugin, "f", &arguments).await;
    assert_eq!(seen["looked"], serde_json::json!([[true, false], [true, true], [false, false]]), "{seen}");
    assert!(write.join("written").exists());
    assert_eq!(seen["variables"], serde_json::json!(["HOME", "LANG", "PATH", "TMPDIR"]), "{seen}");
    for no in ["tcp", "udp", "own_program_written", "etc_shadow", "root_home"] {
        assert_eq!(seen[no], false, "{no}: {seen}");
    }
    // Not even a refused connection: there is no such socket.
    assert_ne!(seen["connected"], "connection refused", "{seen}");
}

async fn changed_grant_needs_another_process() {
    let bench = Bench::fake("good");
    let mut plugin = bench.plugin("a", b"wasm");
    plugin.held.guard = true;
    assert!(bench.hosts.prepare(&plugin).await.unwrap().process.is_some());
    assert!(bench.hosts.prepare(&plugin).await.unwrap().process.is_none());
    plugin.held.sandbox = true;
    assert!(bench.hosts.prepare(&plugin).await.unwrap().process.is_some());
    let changed = bench.plugin("a", b"other wasm");
    let changed = Plugin { held: plugin.held.clone(), ..changed };
    assert!(bench.hosts.prepare(&changed).await.unwrap().process.is_some());
    let slower = Plugin { limits: Limits { wall: Duration::from_secs(6), ..Limits::default() }, ..changed };
    assert!(bench.hosts.prepare(&slower).await.unwrap().process.is_some());
    bench.hosts.close().await;
}

async fn plugins_without_grants_share_process() {
    let bench = Bench::fake("good");
    let (a, b) = (bench.plugin("a", b"wasm of a"), bench.plugin("b", b"wasm of b"));
    let first = bench.hosts.prepare(&a).await.unwrap();
    let second = bench.hosts.prepare(&b).await.unwrap();
    assert!(first.process.is_some() && first.component.is_some());
    assert!(second.process.is_none() && second.component.is_some());
    let greedy = Limits { memory: Bytes::gib(1), ..Limits::default() };
    for own in [
        Plugin { env: vec![("A".to_owned(), "b".to_owned())], ..a.clone() },
        Plugin { limits: greedy, ..a.clone() },
        Plugin { alone: true, ..a.clone() },
    ] {
        assert!(bench.hosts.prepare(&own).await.unwrap().process.is_some());
    }
}

async fn idle_process_ends() {
    let bench = Bench::with(&["fake", "good"], |o| o.idle = Duration::from_millis(50), Asked::default());
    let plugin = bench.plugin("a", b"wasm");
    let mut started = 0;
    let until = std::time::Instant::now() + Duration::from_secs(20);
    // The process is started again each time it has ended, which is not a failure.
    while started < 7 && std::time::Instant::now() < until {
        started += u32::from(bench.hosts.prepare(&plugin).await.unwrap().process.is_some());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(started, 7);
}

async fn process_is_renewed_after_thousand_calls() {
    let bench = Bench::fake("good");
    let plugin = bench.plugin("a", b"wasm");
    for number in 0..1000 {
        bench.call(&plugin, "f", "{}").await.unwrap();
        let last = number == 999;
        assert_eq!(bench.hosts.prepare(&plugin).await.unwrap().process.is_some(), last, "{number}");
    }
}
