//! Runs a component's test cases, with a broker that plays back replies. Makes no real requests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::cases::{Case, Cases, Play, placed};
use super::{AuthorError, at};
use crate::ask::{Blob, Refused};
use crate::{
    Ask, BoxFuture, Broker, CallRequest, Description, Folder, Kept, Limits, Manifest, Prepared, Reply,
    Runtime,
};

/// Result of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Name of the function.
    pub tool: String,
    /// Differences from the expected result; empty if it passed.
    pub wrong: Vec<String>,
    /// Wall-clock time of the call.
    pub wall: Duration,
}

/// Runs all cases against a component, one after the other. Each has a folder below `scratch`, which must be
/// empty and is emptied again.
///
/// # Errors
/// [`AuthorError::Load`] when the component cannot be loaded, [`AuthorError::Cases`] for a case with an
/// unknown function or a file outside the folder, and [`AuthorError::Io`] when a file operation fails.
pub async fn run(
    runtime: &Runtime,
    wasm: &[u8],
    cases: &Cases,
    scratch: &Path,
) -> Result<Vec<Tried>, AuthorError> {
    let (description, prepared) = runtime.describe_and_load(wasm)?;
    run_prepared(runtime, &description, &prepared, cases, scratch).await
}

/// Like [`run`], but with a component that is loaded already.
///
/// # Errors
/// As [`run`], except [`AuthorError::Load`].
pub async fn run_prepared(
    runtime: &Runtime,
    description: &Description,
    prepared: &Prepared,
    cases: &Cases,
    scratch: &Path,
) -> Result<Vec<Tried>, AuthorError> {
    let mut all = Vec::with_capacity(cases.case.len());
    let manifest = description.manifest.as_deref();
    let manifest =
        manifest.and_then(|text| Manifest::parse(text, Path::new(crate::install::manifest::FILE)).ok());
    let session = description.handles || manifest.is_some_and(|manifest| manifest.session);
    let (kept, names, store) = (None, Vec::new(), Store::default());
    let mut trial = Trial { runtime, prepared, session, kept, names, store };
    for (number, case) in (1..).zip(&cases.case) {
        let mut named = description
            .exports
            .iter()
            .filter(|export| [&export.function, &export.path].contains(&&case.tool));
        let path = match (named.next(), named.next()) {
            (Some(only), None) => &only.path,
            (found, _) => {
                let problem = if found.is_some() {
                    "is the name of several functions: write the whole path".to_owned()
                } else {
                    let known = description.exports.iter().map(|export| export.function.as_str());
                    format!("is no function; there are {}", known.collect::<Vec<_>>().join(", "))
                };
                return Err(AuthorError::Cases {
                    message: format!("case {number}: '{}' {problem}", case.tool),
                });
            }
        };
        // The folders of an instance stay as they are.
        let folder = scratch.join(if session { 1 } else { number }.to_string());
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let folder = folder.canonicalize().map_err(at(&folder))?;
        fill(&folder, cases)?;
        let tried = trial.call(path, cases, case, &folder).await;
        if !session || number == cases.case.len() {
            fs::remove_dir_all(&folder).map_err(at(&folder))?;
        }
        all.push(tried);
    }
    Ok(all)
}

fn fill(folder: &Path, cases: &Cases) -> Result<(), AuthorError> {
    for (path, content) in &cases.files {
        let below = Path::new(path);
        if !below.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(AuthorError::Cases { message: format!("the file '{path}' is not below the folder") });
        }
        let file = folder.join(below);
        let parent = file.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(at(parent))?;
        fs::write(&file, content).map_err(at(&file))?;
    }
    Ok(())
}

/// Calls of one component, one after the other.
struct Trial<'a> {
    runtime: &'a Runtime,
    prepared: &'a Prepared,
    /// Whether all calls are made in one instance.
    session: bool,
    kept: Option<Kept>,
    /// Kept answers, by their names.
    names: Vec<(String, String)>,
    /// The plugin's small store, which needs no grant. It stays from case to case.
    store: Store,
}

/// Values by key.
type Store = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// The store's reply to a question about it; `None` for other questions.
fn stored(store: &Store, ask: &Ask) -> Option<Reply> {
    let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
    let value = |bytes: Option<&Vec<u8>>| Reply::Value { value: bytes.cloned().map(Blob) };
    Some(match ask {
        Ask::KvGet { key } => value(store.get(key)),
        Ask::KvSet { key, value } => {
            store.insert(key.clone(), value.0.clone());
            Reply::Done
        }
        Ask::KvDelete { key } => {
            store.remove(key);
            Reply::Done
        }
        Ask::KvSwap { key, seen, value: new } => {
            if store.get(key) != seen.as_ref().map(|seen| &seen.0) {
                return Some(value(store.get(key)));
            }
            store.insert(key.clone(), new.0.clone());
            Reply::Done
        }
        Ask::KvKeys { prefix } => Reply::Keys {
            keys: store.keys().filter(|key| key.starts_with(prefix.as_str())).cloned().collect(),
        },
        _ => return None,
    })
}

impl Trial<'_> {
    async fn call(&mut self, path: &str, cases: &Cases, case: &Case, folder: &Path) -> Tried {
        let place = folder.to_string_lossy();
        let replies = case.replies.iter().chain(&cases.replies).cloned().collect();
        let broker = Arc::new(Played { replies, asked: Mutex::default(), store: self.store.clone() });
        let mut arguments = placed(&case.arguments, &place).to_string();
        for (name, text) in &self.names {
            // A text within JSON's quotes.
            let text = Value::from(text.as_str()).to_string();
            arguments = arguments.replace(&format!("{{{name}}}"), &text[1..text.len() - 1]);
        }
        let mut request = CallRequest::new(path, &arguments, broker.clone());
        // The tests do not depend on the speed of the machine.
        request.limits = Limits { wall: Duration::from_secs(60), ..Limits::default() };
        if !cases.files.is_empty() {
            let folder = Folder { path: folder.to_owned(), writable: cases.writable, identity: None };
            request.folders.push(folder);
        }
        let outcome = match self.session {
            true => self.runtime.call_kept(self.prepared, request, &mut self.kept).await,
            false => self.runtime.call(self.prepared, request).await,
        };
        let asked = broker.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let wall = outcome.as_ref().map_or(Duration::ZERO, |answer| Duration::from_micros(answer.wall_us));
        let mut wrong = case.judge(&outcome, &asked, &place);
        if let Some(name) = &case.keep {
            let value =
                outcome.ok().and_then(|answer| serde_json::from_str::<Value>(answer.value.get()).ok());
            match value.as_ref().and_then(|value| value["result"].as_str()) {
                Some(text) => self.names.push((name.clone(), text.to_owned())),
                None => wrong.push(format!("there is no text in result to keep as {name}")),
            }
        }
        Tried { tool: case.tool.clone(), wrong, wall }
    }
}

/// A broker without capabilities that plays back replies.
struct Played {
    replies: Vec<Play>,
    asked: Mutex<Vec<String>>,
    store: Store,
}

impl Broker for Played {
    fn ask(&self, _: u64, ask: Ask) -> BoxFuture<'_, Reply> {
        let text = serde_json::to_string(&ask).unwrap_or_default();
        let reply = match (&ask, self.replies.iter().find(|play| text.contains(&play.when))) {
            (_, Some(play)) => serde_json::from_value(encoded(&play.reply)).unwrap_or_else(|error| {
                Reply::Refused { why: Refused::Invalid(format!("the case's reply is none: {error}")) }
            }),
            (Ask::Progress { .. } | Ask::Log { .. }, None) => Reply::Done,
            (_, None) => stored(&self.store, &ask)
                .unwrap_or_else(|| Reply::Refused { why: Refused::Denied("not in these cases".into()) }),
        };
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        Box::pin(std::future::ready(reply))
    }
}

/// Converts bytes that are written as text: `text:` and then the text.
fn encoded(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(
            text.strip_prefix("text:").map_or_else(|| text.clone(), |text| STANDARD.encode(text)),
        ),
        Value::Array(items) => items.iter().map(encoded).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), encoded(value))).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_of_cases_keeps_and_swaps_values() {
        let store = Store::default();
        let ask = |ask: &Ask| serde_json::to_value(stored(&store, ask).unwrap()).unwrap();
        let (key, one, two) = (|| "a".to_owned(), || Blob(b"1".to_vec()), || Blob(b"2".to_vec()));
        let value = |blob: Option<Blob>| serde_json::to_value(Reply::Value { value: blob }).unwrap();
        assert_eq!(ask(&Ask::KvGet { key: key() }), value(None));
        assert_eq!(ask(&Ask::KvSet { key: key(), value: one() })["reply"], "done");
        assert_eq!(ask(&Ask::KvGet { key: key() }), value(Some(one())));
        assert_eq!(ask(&Ask::KvSwap { key: key(), seen: Some(two()), value: two() }), value(Some(one())));
        assert_eq!(ask(&Ask::KvSwap { key: key(), seen: Some(one()), value: two() })["reply"], "done");
        assert_eq!(ask(&Ask::KvKeys { prefix: "b".into() })["keys"], Value::Array(Vec::new()));
        assert_eq!(ask(&Ask::KvDelete { key: key() })["reply"], "done");
        assert_eq!(ask(&Ask::KvGet { key: key() }), value(None));
        assert!(stored(&store, &Ask::ConfigKeys).is_none());
    }
}
