//! The plugins of `plugins/` as components, run with the cases beside each of them
//! (`plugins/NAME/tests/cases.toml`) and a broker that plays back replies. `scripts/plugins` builds them;
//! `HOTCELL_TEST_PLUGINS` names their folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell_tools::author::{Cases, run};
use hotcell_tools::{
    Ask, BoxFuture, Broker, CallError, CallRequest, Folder, Limit, Manifest, Reply, Runtime, RuntimeOptions,
};
use serde_json::json;

const PLUGINS: &[(&str, &str)] = &[
    ("code-analyzer", include_str!("../../../plugins/code-analyzer/tests/cases.toml")),
    ("data", include_str!("../../../plugins/data/tests/cases.toml")),
    ("files", include_str!("../../../plugins/files/tests/cases.toml")),
    ("github", include_str!("../../../plugins/github/tests/cases.toml")),
    ("http-client", include_str!("../../../plugins/http-client/tests/cases.toml")),
    ("json-validator", include_str!("../../../plugins/json-validator/tests/cases.toml")),
    ("plot", include_str!("../../../plugins/plot/tests/cases.toml")),
    ("python-runner", include_str!("../../../plugins/python-runner/tests/cases.toml")),
    ("repo-map", include_str!("../../../plugins/repo-map/tests/cases.toml")),
    ("security-scanner", include_str!("../../../plugins/security-scanner/tests/cases.toml")),
];

fn plugins() -> Option<PathBuf> {
    let found = std::env::var_os("HOTCELL_TEST_PLUGINS").map(PathBuf::from);
    if found.is_none() {
        println!("skipped: no plugins; run scripts/plugins and set HOTCELL_TEST_PLUGINS to target/plugins");
    }
    found
}

#[tokio::test]
async fn plugins_pass_their_cases() {
    let Some(plugins) = plugins() else { return };
    let runtime = Runtime::new(&RuntimeOptions { calls: 4, ..RuntimeOptions::default() }).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    for (name, cases) in PLUGINS {
        let folder = plugins.join(name);
        let wasm = std::fs::read(folder.join(format!("{name}.wasm")))
            .unwrap_or_else(|e| panic!("{name}: {e}; run scripts/plugins"));
        let (description, _) = runtime.describe(&wasm).unwrap_or_else(|e| panic!("{name}: {e}"));
        let manifest = std::fs::read_to_string(folder.join("plugin.toml")).unwrap();
        assert_eq!(description.manifest.as_deref(), Some(manifest.as_str()), "{name} carries its manifest");
        let manifest = Manifest::parse(&manifest, &folder).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(manifest.name, *name);
        for export in &description.exports {
            assert!(!export.description.is_empty(), "{name}: {} is documented", export.path);
        }
        let cases = Cases::parse(cases).unwrap_or_else(|e| panic!("{name}: {e}"));
        let tried = run(&runtime, &wasm, &cases, &scratch.path().join(name)).await;
        let tried = tried.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(tried.len() > 2, "{name} has cases");
        for one in tried {
            assert_eq!(one.wrong, Vec::<String>::new(), "{name}: {}", one.tool);
        }
    }
}

/// The example for authors.
#[test]
fn json_validator_serves_resources_and_prompts() {
    let Some(plugins) = plugins() else { return };
    let runtime = Runtime::new(&RuntimeOptions { calls: 1, ..RuntimeOptions::default() }).unwrap();
    let wasm = std::fs::read(plugins.join("json-validator/json-validator.wasm")).unwrap();
    let (description, _) = runtime.describe(&wasm).unwrap();
    assert_eq!(
        hotcell_tools::component::serves::words(&description),
        ["resources", "prompts"],
        "run scripts/plugins"
    );
}

struct Nobody;

impl Broker for Nobody {
    fn ask(&self, _: u64, _: Ask) -> BoxFuture<'_, Reply> {
        Box::pin(async { Reply::Done })
    }
}

/// Opening the pipe waits for a writer, on a thread for files and not on one that runs guests.
#[tokio::test]
async fn read_of_silent_pipe_ends_at_deadline() {
    let Some(plugins) = plugins() else { return };
    let runtime = Runtime::new(&RuntimeOptions { calls: 2, ..RuntimeOptions::default() }).unwrap();
    let files = runtime.load(&std::fs::read(plugins.join("files/files.wasm")).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let pipe = path.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::write(path.join("file"), "here\n").unwrap();
    let call = |name: &str| {
        let path = path.clone();
        let arguments = json!({ "path": path.join(name) }).to_string();
        let mut request = CallRequest::new("hotcell:files/files@0.1.0#read", &arguments, Arc::new(Nobody));
        request.folders.push(Folder { path, writable: false, identity: None });
        request.limits.wall = Duration::from_secs(2);
        runtime.call(&files, request)
    };
    let begin = Instant::now();
    let (waits, reads) = tokio::join!(call("pipe"), call("file"));
    assert!(matches!(waits, Err(CallError::Limit { limit: Limit::Wall, .. })), "{waits:?}");
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(reads.unwrap().value.get().contains("here"), "another call goes on");
    // Lets the thread end, since the test's runtime waits for it.
    std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
}
