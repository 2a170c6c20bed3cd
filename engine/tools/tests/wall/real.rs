//! Components in the real tool host.

use std::time::{Duration, Instant};

use hotcell_sandbox::Confinement;
use hotcell_sandbox::FileId;
use hotcell_tools::cache::{Cache, DEFAULT_CACHE_BYTES};
use hotcell_tools::{Answer, CallError, Hosts, HostsOptions, Limit, LoadError, Plugin};

use crate::place::{Asked, Bench, Test};

pub const TESTS: &[Test] = &[
    ("component_works_in_confined_process", || Box::pin(component_works_in_confined_process())),
    ("component_works_in_landlock_only_process", || Box::pin(component_works_in_landlock_only_process())),
    ("questions_cross_process_boundary", || Box::pin(questions_cross_process_boundary())),
    ("guest_sees_its_folders_and_variables", || Box::pin(guest_sees_its_folders_and_variables())),
    ("limits_hold_in_confined_process", || Box::pin(limits_hold_in_confined_process())),
    ("calls_run_side_by_side", || Box::pin(calls_run_side_by_side())),
    ("call_permits_survive_process_replacement", || Box::pin(call_permits_survive_process_replacement())),
    ("computing_guest_is_cancelled", || Box::pin(computing_guest_is_cancelled())),
    ("cached_component_is_loaded_without_compiler", || {
        Box::pin(cached_component_is_loaded_without_compiler())
    }),
    ("altered_compiled_code_is_recompiled", || Box::pin(altered_compiled_code_is_recompiled())),
    ("code_of_other_build_is_recompiled", || Box::pin(code_of_other_build_is_recompiled())),
    ("compiler_time_is_limited", || Box::pin(compiler_time_is_limited())),
    ("invalid_component_is_refused", || Box::pin(invalid_component_is_refused())),
];

/// Functions that add, echo, loop and trap.
fn tools() -> Vec<u8> {
    let text = r#"(component
        (core module $m
            (memory (export "memory") 64)
            (global $next (mut i32) (i32.const 1024))
            (func (export "realloc") (param i32 i32 i32 i32) (result i32)
                (global.get $next)
                (global.set $next (i32.add (global.get $next) (local.get 3))))
            (func (export "echo") (param i32 i32) (result i32)
                (i32.store (i32.const 8) (local.get 0))
                (i32.store (i32.const 12) (local.get 1))
                (i32.const 8))
            (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
            (func (export "spin") (loop br 0))
            (func (export "fault") (result i32) (i32.load (i32.const -16)))
            (func (export "grow") (if (i32.eq (memory.grow (i32.const 60000)) (i32.const -1)) (then unreachable)))
            (func $deep (export "deep") (call $deep)))
        (core instance $i (instantiate $m))
        (func (export "echo") (param "text" string) (result string)
            (canon lift (core func $i "echo") (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))
        (func (export "add") (param "a" u32) (param "b" u32) (result u32) (canon lift (core func $i "add")))
        (func (export "spin") (canon lift (core func $i "spin")))
        (func (export "fault") (result u32) (canon lift (core func $i "fault")))
        (func (export "grow") (canon lift (core func $i "grow")))
        (func (export "deep") (canon lift (core func $i "deep"))))"#;
    wat::parse_str(text).unwrap()
}

async fn component_works_in_confined_process() {
    works(Bench::new(&["tool-host"])).await;
}

async fn component_works_in_landlock_only_process() {
    let only = |options: &mut HostsOptions| options.confinement = Confinement::LandlockOnly;
    works(Bench::with(&["tool-host"], only, Asked::default())).await;
}

async fn works(bench: Bench) {
    let wasm = tools();
    let description = bench.hosts.describe(&wasm).await.unwrap();
    let paths: Vec<&str> = description.exports.iter().map(|export| &*export.path).collect();
    assert_eq!(paths, ["add", "deep", "echo", "fault", "grow", "spin"]);
    let plugin = bench.plugin("a", &wasm);
    assert_eq!(bench.value(&plugin, "add", r#"{"a":40,"b":2}"#).await["result"], 42);
    let long = "é\n\"".repeat(300_000);
    let arguments = serde_json::json!({ "text": long }).to_string();
    assert_eq!(bench.value(&plugin, "echo", &arguments).await["result"], *long);
    let unknown = bench.call(&plugin, "nothing", "{}").await;
    assert!(matches!(unknown, Err(CallError::Unknown { .. })), "{unknown:?}");
    let wrong = bench.call(&plugin, "add", r#"{"a":-1,"b":2}"#).await;
    assert!(matches!(&wrong, Err(CallError::Arguments { at, .. }) if at == "/a"), "{wrong:?}");
    // A fault is a signal of the processor, and the sandbox lets wasmtime handle it.
    let fault = bench.call(&plugin, "fault", "{}").await;
    assert!(matches!(fault, Err(CallError::Trap { .. })), "{fault:?}");
    assert!(bench.hosts.prepare(&plugin).await.unwrap().process.is_none(), "all of it in one process");
    bench.hosts.close().await;
}

async fn questions_cross_process_boundary() {
    let wasm = wat::parse_str(
        r#"(component
            (import "hotcell:tool/log@0.1.0" (instance $log
                (type $l (enum "debug" "info" "warn" "error"))
                (export "level" (type $level (eq $l)))
                (export "write" (func (param "level" $level) (param "message" string)))))
            (core module $memory (memory (export "memory") 1) (data (i32.const 8) "from inside"))
            (core instance $memory (instantiate $memory))
            (core func $log (canon lower (func $log "write") (memory (core memory $memory "memory"))))
            (core module $m
                (import "" "log" (func $log (param i32 i32 i32)))
                (func (export "run") (call $log (i32.const 2) (i32.const 8) (i32.const 11))))
            (core instance $i (instantiate $m (with "" (instance (export "log" (func $log))))))
            (func (export "run") (canon lift (core func $i "run"))))"#,
    )
    .unwrap();
    let bench = Bench::new(&["tool-host"]);
    bench.call(&bench.plugin("a", &wasm), "run", "{}").await.unwrap();
    let asked = bench.asked.texts.lock().unwrap().join("; ");
    assert!(asked.contains("from inside") && asked.contains("warn"), "{asked}");
}

async fn guest_sees_its_folders_and_variables() {
    // Returns the number of folders, and whether there is a first variable.
    let wasm = wat::parse_str(
        r#"(component
            (import "wasi:filesystem/types@0.2.0" (instance $types (export "descriptor" (type $d (sub resource)))))
            (alias export $types "descriptor" (type $descriptor))
            (import "wasi:filesystem/preopens@0.2.0" (instance $preopens
                (alias outer 1 $descriptor (type $o))
                (export "descriptor" (type $d (eq $o)))
                (export "get-directories" (func (result (list (tuple (own $d) string)))))))
            (import "wasi:cli/environment@0.2.0" (instance $environment
                (export "get-environment" (func (result (list (tuple string string)))))))
            (core module $memory (memory (export "memory") 1) (global $next (mut i32) (i32.const 8192))
                (func (export "realloc") (param i32 i32 i32 i32) (result i32)
                    (global.get $next)
                    (global.set $next (i32.add (global.get $next) (i32.and (i32.add (local.get 3) (i32.const 7)) (i32.const -8))))))
            (core instance $memory (instantiate $memory))
            (core func $dirs (canon lower (func $preopens "get-directories")
                (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
            (core func $env (canon lower (func $environment "get-environment")
                (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
            (core module $m
                (import "" "memory" (memory 1))
                (import "" "dirs" (func $dirs (param i32)))
                (import "" "env" (func $env (param i32)))
                (func (export "run") (result i32)
                    (call $dirs (i32.const 16))
                    (call $env (i32.const 32))
                    (i32.add (i32.mul (i32.load (i32.const 20)) (i32.const 100)) (i32.load (i32.const 36)))))
            (core instance $i (instantiate $m (with "" (instance
                (export "memory" (memory $memory "memory")) (export "dirs" (func $dirs)) (export "env" (func $env))))))
            (func (export "run") (result u32) (canon lift (core func $i "run"))))"#,
    )
    .unwrap();
    let bench = Bench::new(&["tool-host"]);
    let mut plugin = bench.plugin("a", &wasm);
    assert_eq!(bench.value(&plugin, "run", "{}").await["result"], 0);
    let folder = bench.dir.path().join("granted");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(bench.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    plugin.held.read.insert(folder.canonicalize().unwrap());
    plugin.env = vec![("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())];
    let path = folder.canonicalize().unwrap();
    plugin.identities.insert(path.clone(), FileId::of(&path).unwrap());
    assert_eq!(bench.value(&plugin, "run", "{}").await["result"], 102);
    // Another folder has its path when the process is started: the call fails, and the next one has a new
    // process.
    plugin.env.clear();
    let away = path.with_file_name("away");
    std::fs::rename(&path, &away).unwrap();
    std::fs::create_dir(&path).unwrap();
    let error = bench.call(&plugin, "run", "{}").await.unwrap_err().to_string();
    assert!(error.contains("is another now"), "{error}");
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&away, &path).unwrap();
    assert_eq!(bench.value(&plugin, "run", "{}").await["result"], 100);
}

async fn limits_hold_in_confined_process() {
    let bench = Bench::new(&["tool-host"]);
    let mut plugin = bench.plugin("a", &tools());
    let grown = bench.call(&plugin, "grow", "{}").await;
    assert!(matches!(grown, Err(CallError::Limit { limit: Limit::Memory, .. })), "{grown:?}");
    assert!(bench.hosts.prepare(&plugin).await.unwrap().process.is_none(), "that is clean");
    plugin.limits.wall = Duration::from_millis(300);
    let spun = bench.call(&plugin, "spin", "{}").await;
    assert!(matches!(spun, Err(CallError::Limit { limit: Limit::Wall, .. })), "{spun:?}");
    assert!(bench.hosts.prepare(&plugin).await.unwrap().process.is_some(), "that is not");
    let deep = bench.call(&plugin, "deep", "{}").await;
    assert!(matches!(deep, Err(CallError::Limit { limit: Limit::Stack, .. })), "{deep:?}");
    plugin.limits.arguments = hotcell_sandbox::Bytes(10);
    let long = bench.call(&plugin, "add", r#"{"a":40,"b":2}"#).await;
    assert!(matches!(long, Err(CallError::Limit { limit: Limit::Arguments, .. })), "{long:?}");
}

async fn calls_run_side_by_side() {
    let bench = Bench::new(&["tool-host"]);
    let mut plugin = bench.plugin("a", &tools());
    plugin.limits.wall = Duration::from_secs(2);
    bench.hosts.prepare(&plugin).await.unwrap();
    // All but one of the permits are taken by endless calls: the others get through.
    let spin = || bench.call(&plugin, "spin", "{}");
    let quick = async {
        let begun = Instant::now();
        for number in 0..20 {
            let sum = bench.value(&plugin, "add", &format!(r#"{{"a":{number},"b":1}}"#)).await;
            assert_eq!(sum["result"], number + 1);
        }
        begun.elapsed()
    };
    let (a, b, c, took) = tokio::join!(spin(), spin(), spin(), quick);
    assert!([a, b, c].iter().all(Result::is_err));
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// Replacing a process does not release permits that calls in the old one hold.
async fn call_permits_survive_process_replacement() {
    let bench = Bench::new(&["tool-host"]);
    let mut plugin = bench.plugin("a", &tools());
    plugin.limits.wall = Duration::from_secs(2);
    plugin.limits.concurrent = 2;
    bench.hosts.prepare(&plugin).await.unwrap();
    let begun = Instant::now();
    let spin = async |after: u64| {
        tokio::time::sleep(Duration::from_millis(after)).await;
        bench.call(&plugin, "spin", "{}").await.unwrap_err();
    };
    // The first call ends the process for new calls at 2 s, the second holds its permit until 3 s.
    tokio::join!(spin(0), spin(1000), spin(2100), spin(2100));
    assert!(begun.elapsed() > Duration::from_millis(4700), "{:?}", begun.elapsed());
}

async fn computing_guest_is_cancelled() {
    let bench = Bench::new(&["tool-host"]);
    let mut plugin = bench.plugin("a", &tools());
    plugin.limits.wall = Duration::from_secs(600);
    bench.hosts.prepare(&plugin).await.unwrap();
    let call = bench.call(&plugin, "spin", "{}");
    assert!(tokio::time::timeout(Duration::from_millis(100), call).await.is_err());
    tokio::time::sleep(Duration::from_millis(1800)).await;
    let sum: Answer = bench.call(&plugin, "add", r#"{"a":1,"b":1}"#).await.unwrap();
    assert_eq!(sum.value.get(), r#"{"result":2}"#);
}

/// Tool hosts on the same cache whose compiler has no time.
fn without_compiler(bench: &Bench) -> Hosts {
    let cache = bench.dir.path().join("cache");
    let mut options = HostsOptions::new(std::env::current_exe().unwrap(), cache);
    options.compile_time = Duration::ZERO;
    Hosts::new(options).unwrap()
}

fn cached(bench: &Bench, plugin: &Plugin) -> std::path::PathBuf {
    let mut entries = std::fs::read_dir(bench.dir.path().join("cache")).unwrap();
    let ours = |name: &std::ffi::OsStr| {
        name.to_str().is_some_and(|name| name.starts_with(&plugin.digest) && !name.contains(".said-"))
    };
    entries.find_map(|entry| entry.ok().filter(|entry| ours(&entry.file_name()))).unwrap().path()
}

async fn cached_component_is_loaded_without_compiler() {
    let bench = Bench::new(&["tool-host"]);
    let wasm = tools();
    bench.hosts.describe(&wasm).await.unwrap();
    let plugin = bench.plugin("a", &wasm);
    // The component itself is not read again.
    std::fs::remove_file(&plugin.wasm).unwrap();
    let again = without_compiler(&bench);
    assert!(again.prepare(&plugin).await.unwrap().component.is_some());
    again.close().await;
}

async fn altered_compiled_code_is_recompiled() {
    let bench = Bench::new(&["tool-host"]);
    let wasm = tools();
    bench.hosts.describe(&wasm).await.unwrap();
    let plugin = bench.plugin("a", &wasm);
    let mut bytes = std::fs::read(cached(&bench, &plugin)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    let entry = cached(&bench, &plugin);
    std::fs::write(&entry, &bytes).unwrap();
    // Tool hosts that cannot start any program do not take it either.
    let options = HostsOptions::new("/bin/false", bench.dir.path().join("cache"));
    let refused = Hosts::new(options).unwrap().prepare(&plugin).await.unwrap_err().to_string();
    assert!(refused.contains("the tool host did not start") && !entry.exists(), "{refused}");
    assert_eq!(bench.value(&plugin, "add", r#"{"a":1,"b":1}"#).await["result"], 2);
    assert_ne!(std::fs::read(cached(&bench, &plugin)).unwrap(), bytes);
}

async fn code_of_other_build_is_recompiled() {
    let bench = Bench::new(&["tool-host"]);
    let plugin = bench.plugin("a", &tools());
    let cache = Cache::open(&bench.dir.path().join("cache"), DEFAULT_CACHE_BYTES).unwrap();
    // Written by this installation, but not machine code of this build.
    cache.put(&plugin.digest, b"\x7fELF of long ago").unwrap();
    assert_eq!(bench.value(&plugin, "add", r#"{"a":1,"b":1}"#).await["result"], 2);
    assert!(std::fs::metadata(cached(&bench, &plugin)).unwrap().len() > 1000);
}

async fn compiler_time_is_limited() {
    let bench = Bench::with(&["tool-host"], |o| o.compile_time = Duration::from_millis(20), Asked::default());
    // Compilers look at every pair of some of these.
    let body = "(local.set 0 (i32.add (i32.mul (local.get 0) (i32.const 3)) (local.get 1)))".repeat(20_000);
    let functions = format!("(func (param i32 i32) {body})").repeat(4);
    let wasm = wat::parse_str(format!(
        r#"(component (core module $m {functions} (func (export "run"))) (core instance $i (instantiate $m))
            (func (export "run") (canon lift (core func $i "run"))))"#
    ))
    .unwrap();
    let error = bench.hosts.describe(&wasm).await.unwrap_err();
    assert!(
        matches!(&error, LoadError::Compile { message } if message.contains("takes more than 20ms")),
        "{error:?}"
    );
    assert_eq!(std::fs::read_dir(bench.dir.path().join("cache")).unwrap().count(), 1, "only the key");
}

async fn invalid_component_is_refused() {
    let bench = Bench::new(&["tool-host"]);
    // A core module, nothing, text, and a component that is cut off.
    let module = wat::parse_str("(module)").unwrap();
    let cut = tools()[..200].to_vec();
    for wasm in [&b""[..], b"hello", &module, &cut] {
        let error = bench.hosts.describe(wasm).await.unwrap_err();
        assert!(matches!(error, LoadError::NotAComponent { .. } | LoadError::Compile { .. }), "{error:?}");
    }
    let plugin = bench.plugin("a", &module);
    let error = bench.host_error(&plugin, "{}").await;
    assert!(error.contains("cannot be loaded"), "{error}");
}
