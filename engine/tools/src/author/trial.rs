//! Runs a component's test cases, with a broker that plays back replies. Makes no real requests.

use std::fs;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::cases::{Case, Cases, Play, placed};
use super::{AuthorError, at};
use crate::ask::Refused;
use crate::{Ask, BoxFuture, Broker, CallRequest, Description, Folder, Limits, Prepared, Reply, Runtime};

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
    for (number, case) in (1..).zip(&cases.case) {
        let mut named = description
            .exports
            .iter()
            .filter(|export| [&export.function, &export.path].contains(&&case.tool));
        let path = match (named.next(), named.next()) {
            (Some(only), None) => &only.path,
            (found, _) => {
                let problem = if found.is_some() {
                    "is the name of several functions: write the whole path"
                } else {
                    "is no function"
                };
                return Err(AuthorError::Cases {
                    message: format!("case {number}: '{}' {problem}", case.tool),
                });
            }
        };
        let folder = scratch.join(number.to_string());
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let folder = folder.canonicalize().map_err(at(&folder))?;
        fill(&folder, cases)?;
        let tried = call(runtime, prepared, path, cases, case, &folder).await;
        fs::remove_dir_all(&folder).map_err(at(&folder))?;
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

async fn call(
    runtime: &Runtime,
    prepared: &crate::Prepared,
    path: &str,
    cases: &Cases,
    case: &Case,
    folder: &Path,
) -> Tried {
    let place = folder.to_string_lossy();
    let replies = case.replies.iter().chain(&cases.replies).cloned().collect();
    let broker = Arc::new(Played { replies, asked: Mutex::default() });
    let arguments = placed(&case.arguments, &place).to_string();
    let mut request = CallRequest::new(path, &arguments, broker.clone());
    // The tests do not depend on the speed of the machine.
    request.limits = Limits { wall: Duration::from_secs(60), ..Limits::default() };
    if !cases.files.is_empty() {
        request.folders.push(Folder { path: folder.to_owned(), writable: cases.writable, identity: None });
    }
    let outcome = runtime.call(prepared, request).await;
    let asked = broker.asked.lock().unwrap_or_else(PoisonError::into_inner);
    let wall = outcome.as_ref().map_or(Duration::ZERO, |answer| Duration::from_micros(answer.wall_us));
    Tried { tool: case.tool.clone(), wrong: case.judge(&outcome, &asked, &place), wall }
}

/// A broker without capabilities that plays back replies.
struct Played {
    replies: Vec<Play>,
    asked: Mutex<Vec<String>>,
}

impl Broker for Played {
    fn ask(&self, _: u64, ask: Ask) -> BoxFuture<'_, Reply> {
        let text = serde_json::to_string(&ask).unwrap_or_default();
        let reply = match (&ask, self.replies.iter().find(|play| text.contains(&play.when))) {
            (_, Some(play)) => serde_json::from_value(encoded(&play.reply)).unwrap_or_else(|error| {
                Reply::Refused { why: Refused::Invalid(format!("the case's reply is none: {error}")) }
            }),
            (Ask::Progress { .. } | Ask::Log { .. }, None) => Reply::Done,
            (_, None) => Reply::Refused { why: Refused::Denied("not in these cases".into()) },
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
