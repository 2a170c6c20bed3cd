//! The plugins of `plugins/`, as components, with the cases that lie beside each of them (`plugins/NAME/tests/cases.toml`) and a broker
//! that plays answers. `scripts/plugins` builds them; `HOTCELL_TEST_PLUGINS` says where they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell_tools::ask::Refused;
use hotcell_tools::{Ask, BoxFuture, Broker, CallRequest, Folder, Reply, Runtime, RuntimeOptions};
use serde::Deserialize;
use serde_json::{Value, json};

/// What lies beside a plugin.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    /// Files of the granted folder, by path. Without any, no folder is granted.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Whether the folder may be written.
    #[serde(default)]
    writable: bool,
    /// What the broker answers in all cases, after what it answers in one.
    #[serde(default)]
    replies: Vec<Play>,
    case: Vec<Case>,
}

/// One call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    tool: String,
    arguments: Value,
    /// What the answer has among others.
    expect: Option<Value>,
    /// Whether the tool says that it failed.
    #[serde(default)]
    is_error: bool,
    /// What is in the answer's text.
    #[serde(default)]
    contains: Vec<String>,
    /// What the broker answers.
    #[serde(default)]
    replies: Vec<Play>,
    /// What is in what the broker was asked, in order; other questions may be between.
    #[serde(default)]
    asked: Vec<String>,
}

/// One answer of the broker.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Play {
    /// What is in the question, as JSON.
    when: String,
    /// The answer, as a [`Reply`]; `text:` before bytes stands for their base64.
    reply: Value,
}

const PLUGINS: &[(&str, &str)] = &[
    ("code-analyzer", include_str!("../../../plugins/code-analyzer/tests/cases.toml")),
    ("data", include_str!("../../../plugins/data/tests/cases.toml")),
    ("files", include_str!("../../../plugins/files/tests/cases.toml")),
    ("github", include_str!("../../../plugins/github/tests/cases.toml")),
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

struct Played {
    replies: Vec<Play>,
    asked: Mutex<Vec<String>>,
}

impl Broker for Played {
    fn ask(&self, _: u64, ask: Ask) -> BoxFuture<'_, Reply> {
        let text = serde_json::to_string(&ask).unwrap();
        let reply = match (&ask, self.replies.iter().find(|play| text.contains(&play.when))) {
            (_, Some(play)) => serde_json::from_value(encoded(play.reply.clone())).unwrap(),
            (Ask::Progress { .. } | Ask::Log { .. }, None) => Reply::Done,
            (_, None) => Reply::Refused { why: Refused::Denied("this".into()) },
        };
        self.asked.lock().unwrap().push(text);
        Box::pin(std::future::ready(reply))
    }
}

fn encoded(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(match text.strip_prefix("text:") {
            Some(text) => STANDARD.encode(text),
            None => text,
        }),
        Value::Array(items) => items.into_iter().map(encoded).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, encoded(value))).collect(),
        other => other,
    }
}

/// Puts the folder's path where `{folder}` stands.
fn placed(value: Value, folder: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("{folder}", folder)),
        Value::Array(items) => items.into_iter().map(|item| placed(item, folder)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, placed(value, folder))).collect()
        }
        other => other,
    }
}

/// What of `want` is not in `got`: objects may have more fields, everything else is the same.
fn lacks(want: &Value, got: &Value, at: &str) -> Option<String> {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => want.iter().find_map(|(name, want)| {
            let at = format!("{at}/{name}");
            got.get(name).map_or_else(|| Some(format!("{at} is missing")), |got| lacks(want, got, &at))
        }),
        (Value::Array(want), Value::Array(got)) if want.len() == got.len() => want
            .iter()
            .zip(got)
            .enumerate()
            .find_map(|(index, (want, got))| lacks(want, got, &format!("{at}/{index}"))),
        (Value::Number(want), Value::Number(got)) if want.as_f64() == got.as_f64() => None,
        (want, got) if want == got => None,
        (want, got) => Some(format!("{at}: wanted {want}, got {got}")),
    }
}

/// Runs the cases of a plugin; how many.
async fn check(runtime: &Runtime, folder: &Path, name: &str, cases: &str) -> usize {
    let wasm = std::fs::read(folder.join(format!("{name}.wasm")))
        .unwrap_or_else(|e| panic!("{name}: {e}; run scripts/plugins"));
    let (description, _) = runtime.describe(&wasm).unwrap_or_else(|e| panic!("{name}: {e}"));
    let manifest = std::fs::read_to_string(folder.join("plugin.toml")).unwrap();
    assert_eq!(description.manifest.as_deref(), Some(manifest.as_str()), "{name} carries its manifest");
    for export in &description.exports {
        assert!(!export.description.is_empty(), "{name}: {} is documented", export.path);
    }
    let prepared = runtime.load(&wasm).unwrap_or_else(|e| panic!("{name}: {e}"));
    let cases: Cases = toml::from_str(cases).unwrap_or_else(|e| panic!("{name}: {e}"));
    let count = cases.case.len();
    for case in cases.case {
        let granted = tempfile::tempdir().unwrap();
        let granted = granted.path().canonicalize().unwrap();
        for (path, content) in &cases.files {
            let path = granted.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let place = granted.to_str().unwrap();
        let export = description.exports.iter().find(|export| export.function == case.tool);
        let export = export.unwrap_or_else(|| panic!("{name} has no function {}", case.tool));
        let arguments = placed(case.arguments, place);
        let what = format!("{name}: {} {arguments}", case.tool);
        let replies = case.replies.iter().chain(&cases.replies).cloned().collect();
        let broker = Arc::new(Played { replies, asked: Mutex::default() });
        let mut request = CallRequest::new(&export.path, &arguments.to_string(), broker.clone());
        if !cases.files.is_empty() {
            request.folders.push(Folder { path: granted.clone(), writable: cases.writable });
        }
        // A debug build on a busy machine: what is tested is not the time.
        request.limits.wall = std::time::Duration::from_secs(120);
        let answer = runtime.call(&prepared, request).await.unwrap_or_else(|e| panic!("{what}: {e}"));
        let text = answer.value.get();
        assert_eq!(answer.is_error, case.is_error, "{what}: {text}");
        if let Some(expect) = case.expect {
            let got = serde_json::from_str(text).unwrap();
            assert_eq!(lacks(&placed(expect, place), &got, ""), None, "{what}: {text}");
        }
        for part in &case.contains {
            let part = part.replace("{folder}", place);
            assert!(text.contains(&part), "{what}: '{part}' is not in {text}");
        }
        let asked = broker.asked.lock().unwrap();
        let mut rest = asked.iter();
        for part in &case.asked {
            assert!(
                rest.any(|ask| ask.contains(part)),
                "{what}: '{part}' was not asked, or not in this order: {asked:?}"
            );
        }
    }
    count
}

#[tokio::test]
async fn every_plugin_passes_its_cases() {
    let Some(plugins) = plugins() else { return };
    let runtime = Runtime::new(&RuntimeOptions { calls: 4, ..RuntimeOptions::default() }).unwrap();
    for (name, cases) in PLUGINS {
        assert!(check(&runtime, &plugins.join(name), name, cases).await > 2, "{name} has cases");
    }
}

#[test]
fn what_is_wanted_is_looked_for_in_what_came() {
    for (want, got, wrong) in [
        (json!({"a": 1}), json!({"a": 1.0, "b": 2}), None),
        (json!({"a": [1]}), json!({"a": [1, 2]}), Some("/a: wanted [1], got [1,2]")),
        (json!({"a": [{"b": "x"}]}), json!({"a": [{"b": "y"}]}), Some("/a/0/b: wanted \"x\", got \"y\"")),
        (json!({"a": 1}), json!({}), Some("/a is missing")),
    ] {
        assert_eq!(lacks(&want, &got, "").as_deref(), wrong);
    }
}
