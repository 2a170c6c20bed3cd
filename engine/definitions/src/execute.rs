//! One call of a verb: its tools as soon as what they need has ended, each failure its own, then the answer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hotcell_state::ids;
use hotcell_state::time::{micros_since_1970, rfc3339};
use hotcell_tools::BoxFuture;
use serde_json::{Map, Value, json};

use crate::ask::{Asked, Means, ask};
use crate::cache::{self, Cache, Key};
use crate::definition::{Definition, Step};
use crate::inputs::Inputs;
use crate::response::{Metadata, Mode, Next, Response, SCHEMA, Status, ToolReport};
use crate::returns::{Filled, filled};
use crate::template::{Scope, Unfilled, tools_of};
use crate::tools::{Tools, missing};

/// Maximum length of a summary, in characters.
const MAX_SUMMARY_CHARS: usize = 1_000;

/// Surroundings of a call.
#[derive(Debug)]
pub struct Options {
    /// Models for the second mode, or the reason for the first one.
    pub means: Result<Means, String>,
    /// Kept results; `None` for none.
    pub cache: Option<Cache>,
}

/// End of a tool.
#[derive(Clone, Debug, PartialEq)]
enum End {
    Done { value: Value, cached: bool },
    Failed(String),
    Skipped(String),
}

/// A tool that has ended, and when it was waited for.
struct Ended {
    name: String,
    end: End,
    from: Instant,
    until: Instant,
}

/// Runs a verb; every failure is in the response.
pub async fn execute(
    definition: &Definition,
    inputs: &Inputs,
    tools: &dyn Tools,
    options: &Options,
) -> Response {
    let (began, now) = (Instant::now(), SystemTime::now());
    let mut waits = Vec::new();
    let ends = run_tools(definition, inputs, tools, options.cache.as_ref(), &mut waits).await;
    let results: Map<String, Value> = ends
        .iter()
        .filter_map(|ended| match &ended.end {
            End::Done { value, .. } => Some((ended.name.clone(), value.clone())),
            _ => None,
        })
        .collect();
    let data: Map<String, Value> = ends.iter().map(|ended| (ended.name.clone(), raw(&ended.end))).collect();
    let scope = Scope { inputs: inputs.values(), tools: &results };
    let executed: Vec<String> =
        ends.iter().filter(|e| results.contains_key(&e.name)).map(|e| e.name.clone()).collect();
    let none_useful = results.is_empty();
    let (asked, why) = match (&definition.prompt, &options.means) {
        (None, _) => (None, "the verb has no prompt".to_owned()),
        (_, Err(why)) => (None, why.clone()),
        (Some(_), _) if none_useful => (None, "no tool has a result".to_owned()),
        (Some(prompt), Ok(means)) => match ids::random_hex(16) {
            Err(error) => (None, error.to_string()),
            Ok(nonce) => {
                let from = Instant::now();
                let asked = ask(definition, prompt, (inputs.values(), &data), means, &nonce).await;
                waits.push((from, Instant::now()));
                let why = match &asked.answer {
                    Ok(_) => "a model is configured".to_owned(),
                    Err(why) => why.clone(),
                };
                (Some(asked), why)
            }
        },
    };
    let Filled { value, defaults } = filled(definition, scope);
    let Asked { answer, model, usage } =
        asked.unwrap_or(Asked { answer: Err(String::new()), model: None, usage: None });
    let (mode, result, defaults) = match answer {
        Ok(answer) => (Mode::StandaloneAi, answer, Vec::new()),
        Err(_) => (Mode::IdeIntegrated, value.as_object().cloned().unwrap_or_default(), defaults),
    };
    let by_data = mode == Mode::IdeIntegrated;
    let next = definition.prompt.as_ref().filter(|_| by_data && !none_useful);
    let total = began.elapsed();
    let own = total.saturating_sub(union(waits));
    Response {
        schema: SCHEMA.to_owned(),
        verb: definition.verb.to_string(),
        input_params: inputs.values().clone(),
        summary: summary(definition, scope, &result, &ends),
        result,
        raw_data: by_data.then_some(data),
        next: next
            .map(|prompt| Next { task: prompt.user.trim().to_owned(), returns: definition.returns.clone() }),
        metadata: Metadata {
            mode,
            why,
            tools_executed: executed,
            tools: ends.iter().map(|ended| report(definition, ended)).collect(),
            defaults,
            llm_model: model,
            usage,
            timestamp: rfc3339(micros_since_1970(now)),
            execution_time_ms: millis(total),
            own_time_ms: (own.as_secs_f64() * 1e5).round() / 100.0,
        },
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Length of the union of intervals.
fn union(mut all: Vec<(Instant, Instant)>) -> Duration {
    all.sort();
    let (mut sum, mut end): (Duration, Option<Instant>) = (Duration::ZERO, None);
    for (from, until) in all {
        let from = end.map_or(from, |end| end.max(from));
        sum += until.saturating_duration_since(from);
        end = Some(end.map_or(until, |end| end.max(until)));
    }
    sum
}

fn raw(end: &End) -> Value {
    match end {
        End::Done { value, .. } => value.clone(),
        End::Failed(why) => json!({ "error": why }),
        End::Skipped(why) => json!({ "skipped": why }),
    }
}

fn report(definition: &Definition, ended: &Ended) -> ToolReport {
    let (status, cached, why) = match &ended.end {
        End::Done { cached, .. } => (Status::Done, *cached, None),
        End::Failed(why) => (Status::Failed, false, Some(why.clone())),
        End::Skipped(why) => (Status::Skipped, false, Some(why.clone())),
    };
    ToolReport {
        name: ended.name.clone(),
        tool: definition.tools.get(&ended.name).map(|step| step.tool.clone()).unwrap_or_default(),
        status,
        cached,
        why,
        time_ms: millis(ended.until.saturating_duration_since(ended.from)),
    }
}

/// The model's own summary, else that of the definition, else the number of results.
fn summary(definition: &Definition, scope: Scope<'_>, result: &Map<String, Value>, ends: &[Ended]) -> String {
    let of_result =
        result.get("summary").and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let of_file = || definition.summary.as_ref().and_then(|template| template.text(scope).ok());
    let failed: Vec<&str> =
        ends.iter().filter(|e| matches!(e.end, End::Failed(_))).map(|e| e.name.as_str()).collect();
    let counted = || format!("{} of {} tools have a result", scope.tools.len(), ends.len());
    let mut text: String =
        of_result.or_else(of_file).unwrap_or_else(counted).chars().take(MAX_SUMMARY_CHARS).collect();
    if !failed.is_empty() {
        text.push_str(&format!(" (failed: {})", failed.join(", ")));
    }
    text
}

async fn run_tools(
    definition: &Definition,
    inputs: &Inputs,
    tools: &dyn Tools,
    cache: Option<&Cache>,
    waits: &mut Vec<(Instant, Instant)>,
) -> Vec<Ended> {
    let deadline = Instant::now() + definition.timeout;
    let mut waiting: BTreeSet<&String> = definition.tools.keys().collect();
    let mut ended: BTreeSet<String> = BTreeSet::new();
    let mut ends: Vec<Ended> = Vec::new();
    let mut running: FuturesUnordered<BoxFuture<'_, Ended>> = FuturesUnordered::new();
    loop {
        // One that cannot be called ends at once, and others may wait for it.
        loop {
            let ready: Vec<&String> = waiting
                .iter()
                .filter(|name| {
                    let step = &definition.tools[**name];
                    let mut before = tools_of(step.arguments.places());
                    before.extend(step.after.iter().cloned());
                    before.is_subset(&ended)
                })
                .copied()
                .collect();
            if ready.is_empty() {
                break;
            }
            for name in ready {
                waiting.remove(name);
                let step = &definition.tools[name];
                let now = Instant::now();
                match prepared(step, inputs, tools, &ends) {
                    Err(end) => {
                        ended.insert(name.clone());
                        ends.push(Ended { name: name.clone(), end, from: now, until: now });
                    }
                    Ok(arguments) => {
                        let limit = step
                            .timeout
                            .unwrap_or(definition.timeout)
                            .min(deadline.saturating_duration_since(now));
                        running.push(Box::pin(one(name, step, arguments, (tools, cache), limit)));
                    }
                }
            }
        }
        let Some(next) = running.next().await else { return ends };
        waits.push((next.from, next.until));
        ended.insert(next.name.clone());
        ends.push(next);
    }
}

/// Arguments of a tool, or why it is not called.
fn prepared(step: &Step, inputs: &Inputs, tools: &dyn Tools, ends: &[Ended]) -> Result<String, End> {
    if let Some(input) = step.when.as_deref().filter(|input| inputs.get(input).is_none()) {
        return Err(End::Skipped(format!("the input {input} is not given")));
    }
    let needed = tools_of(step.arguments.places());
    for ended in ends.iter().filter(|ended| needed.contains(&ended.name)) {
        match ended.end {
            End::Done { .. } => {}
            End::Failed(_) => {
                return Err(End::Failed(format!(
                    "not called: it needs the result of {}, which failed",
                    ended.name
                )));
            }
            End::Skipped(_) => {
                return Err(End::Skipped(format!(
                    "it needs the result of {}, which was skipped",
                    ended.name
                )));
            }
        }
    }
    let facts = tools.facts(&step.tool).map_err(End::Failed)?;
    if let Some(why) = missing(&facts, &step.needs) {
        return Err(End::Failed(why));
    }
    let done = ends.iter().filter_map(|ended| match &ended.end {
        End::Done { value, .. } if needed.contains(&ended.name) => Some((ended.name.clone(), value.clone())),
        _ => None,
    });
    let results: Map<String, Value> = done.collect();
    match step.arguments.fill(Scope { inputs: inputs.values(), tools: &results }) {
        Ok(arguments) => Ok(arguments.to_string()),
        Err(why @ Unfilled::Input(_)) => Err(End::Skipped(why.to_string())),
        Err(why) => Err(End::Failed(format!("not called: {why}"))),
    }
}

async fn one(
    name: &str,
    step: &Step,
    arguments: String,
    (tools, cache): (&dyn Tools, Option<&Cache>),
    limit: Duration,
) -> Ended {
    let kept = match (step.cache, cache) {
        (Some(time), Some(cache)) => Some((time, cache)),
        _ => None,
    };
    let before = if kept.is_some() { key(step, &arguments, tools).await } else { None };
    if let (Some((_, cache)), Some(name_of_file)) = (kept, &before)
        && let Some(value) = cache.get(name_of_file, SystemTime::now())
    {
        let now = Instant::now();
        return Ended {
            name: name.to_owned(),
            end: End::Done { value, cached: true },
            from: now,
            until: now,
        };
    }
    let from = Instant::now();
    let called = tokio::time::timeout(limit, tools.call(&step.tool, &arguments)).await;
    let until = Instant::now();
    let end = match called {
        Err(_) => End::Failed(format!("it did not end within {:.1} s", limit.as_secs_f64())),
        Ok(Err(why)) => End::Failed(why),
        Ok(Ok(value)) => {
            // A file that changed during the call may have been read before or after.
            if let (Some((time, cache)), Some(before)) = (kept, before)
                && (step.files.is_empty()
                    || key(step, &arguments, tools).await.as_deref() == Some(before.as_str()))
            {
                cache.put(&before, &value, SystemTime::now(), time);
            }
            End::Done { value, cached: false }
        }
    };
    Ended { name: name.to_owned(), end, from, until }
}

/// Name of a kept result; `None` when the call is of a kind that is not kept.
async fn key(step: &Step, arguments: &str, tools: &dyn Tools) -> Option<String> {
    let facts = tools.facts(&step.tool).ok().filter(|facts| !facts.keeps)?;
    let given: Value = serde_json::from_str(arguments).ok()?;
    let mut files = Vec::new();
    for name in &step.files {
        let path =
            given.get(name).and_then(Value::as_str).map(PathBuf::from).filter(|path| path.is_absolute())?;
        files.push(digest(&path).await?);
    }
    let (component, granted) = (&facts.digest, &facts.granted[..]);
    Some(Key { component, tool: &step.tool, granted, arguments, files: &files }.name())
}

async fn digest(path: &Path) -> Option<String> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || cache::digest(&path)).await.ok().flatten()
}

#[cfg(test)]
#[path = "execute/tests.rs"]
mod tests;
