//! Calls of plugins' tools: facts that are checked before a call, and results or reasons.

use std::sync::Arc;

use hotcell_plugins::failures::report_of;
use hotcell_plugins::{Caller, InvokeError, Tool};
use hotcell_sandbox::layer::likely;
use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_tools::{Answer, BoxFuture, CallError, Capability};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Maximum length of a tool's own words in a reason, in characters.
const MAX_REASON_CHARS: usize = 1_000;

/// Facts about a tool that can be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Name of its plugin.
    pub plugin: String,
    /// sha256 of its component.
    pub digest: String,
    /// Grants in force.
    pub granted: Vec<String>,
    /// True where the plugin keeps an instance for each caller, so that equal calls may have different results.
    pub keeps: bool,
}

/// Tools that a verb can call.
pub trait Tools: Sync {
    /// Facts about a tool.
    ///
    /// # Errors
    /// A sentence that says why it cannot be called, and what to do.
    fn facts(&self, tool: &str) -> Result<Facts, String>;

    /// Calls a tool; dropping the future ends the call.
    fn call<'a>(&'a self, tool: &'a str, arguments: &'a str) -> BoxFuture<'a, Result<Value, String>>;
}

/// Grants that a tool lacks, as the command that gives them; `None` when it lacks none.
#[must_use]
pub fn missing(facts: &Facts, needs: &[String]) -> Option<String> {
    let same = |word: &str| word.parse::<Capability>().map(|capability| capability.to_string());
    let held: Vec<String> = facts.granted.iter().filter_map(|word| same(word).ok()).collect();
    let lacks: Vec<&str> = needs
        .iter()
        .filter(|word| same(word).is_ok_and(|word| !held.contains(&word)))
        .map(String::as_str)
        .collect();
    (!lacks.is_empty()).then(|| {
        let (plugin, lacks) = (&facts.plugin, lacks.join(" "));
        format!("{plugin} was not granted {lacks}: hotcell tool grant {plugin} {lacks}")
    })
}

/// The tools of installed plugins, called for one session.
#[derive(Clone)]
pub struct PluginTools {
    caller: Arc<Caller>,
    session: String,
    list: Vec<Tool>,
}

impl std::fmt::Debug for PluginTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginTools").field("session", &self.session).finish_non_exhaustive()
    }
}

impl PluginTools {
    /// Reads the list of tools.
    ///
    /// # Errors
    /// [`ErrorReport`] when the plugins cannot be read.
    pub async fn new(caller: Arc<Caller>, session: &str) -> Result<Self, ErrorReport> {
        let plugins = caller.plugins().clone();
        let list = tokio::task::spawn_blocking(move || plugins.list());
        let failed = |e| ErrorReport::new(Code::Internal, format!("hotcell itself failed: {e}"));
        let list = list.await.map_err(failed)??.tools;
        Ok(Self { caller, session: session.to_owned(), list })
    }

    async fn called(&self, tool: &str, arguments: &str) -> Result<Value, String> {
        let ready = self.caller.ready(tool, |_| Ok(Vec::new())).await.map_err(|e| why(tool, &e))?;
        let call =
            self.caller.call_ready(ready, arguments, &self.session, CancellationToken::new(), None).await;
        let failed = match call {
            Ok(Answer { is_error: false, value, .. }) => {
                return serde_json::from_str(value.get()).map_err(|e| format!("its answer is no JSON: {e}"));
            }
            Ok(answer) => with_denials(tool, &said(&answer), &answer.denied),
            Err(InvokeError::Call(CallError::Trap { message, denied, .. })) => {
                with_denials(tool, &format!("trapped: {}", shortened(&message)), &denied)
            }
            Err(other) => return Err(why(tool, &other)),
        };
        let beyond = self.caller.beyond(tool, arguments);
        let words = plain(&beyond.words);
        let plugin = plugin_of(tool);
        Err(match (words.is_empty(), beyond.holds_none) {
            (false, _) => {
                format!("{failed}; it may not see what was named: hotcell tool grant {plugin} {words}")
            }
            (true, true) => format!("{failed}; no folder is granted: hotcell tool grant {plugin} read=DIR"),
            _ => failed,
        })
    }
}

impl Tools for PluginTools {
    fn facts(&self, tool: &str) -> Result<Facts, String> {
        facts(&self.list, tool)
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: &'a str) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(self.called(tool, arguments))
    }
}

fn plugin_of(tool: &str) -> &str {
    tool.split('_').next().unwrap_or_default()
}

fn facts(list: &[Tool], tool: &str) -> Result<Facts, String> {
    if let Some(known) = list.iter().find(|one| one.name == tool) {
        if !known.offered {
            return Err(format!("{tool} is not offered: hotcell tool offer {} --all", known.plugin));
        }
        return Ok(Facts {
            plugin: known.plugin.clone(),
            digest: known.digest.clone(),
            granted: known.granted.clone(),
            keeps: known.session,
        });
    }
    let plugin = plugin_of(tool);
    let of_plugin = || list.iter().filter(|one| one.plugin == plugin).map(|one| one.name.as_str());
    match likely(tool, of_plugin()) {
        Some(near) => Err(format!("the plugin {plugin} has no tool {tool}; did you mean {near}?")),
        None if of_plugin().next().is_some() => {
            Err(format!("the plugin {plugin} has no tool {tool}; hotcell tool list {plugin} shows them"))
        }
        None => Err(format!(
            "the plugin {plugin} is missing: hotcell tool add target/plugins/{plugin}, after scripts/plugins {plugin}, or another source of it"
        )),
    }
}

fn why(tool: &str, error: &InvokeError) -> String {
    match error {
        InvokeError::Report(report) => report.to_string(),
        InvokeError::Call(CallError::Host { message }) => {
            // The message names files of this host.
            tracing::warn!(target: "hotcell_contents", "{tool} could not be run: {message}");
            "it could not be run on this host; hotcell's log says why".to_owned()
        }
        InvokeError::Call(error) => shortened(&report_of(error).message),
    }
}

/// The tool's own words about its failure.
fn said(answer: &Answer) -> String {
    let value: Value = serde_json::from_str(answer.value.get()).unwrap_or_default();
    match value.get("error") {
        Some(Value::String(text)) => shortened(text),
        Some(Value::Null) | None => "it says that it failed, without a reason".to_owned(),
        Some(other) => shortened(&other.to_string()),
    }
}

fn shortened(text: &str) -> String {
    printable(&text.chars().take(MAX_REASON_CHARS).collect::<String>())
}

/// Words that are grants and need no quoting in a shell: a compromised tool host could claim any denial.
fn plain(words: &[String]) -> String {
    let fine = |word: &&String| {
        word.bytes().all(|b| b.is_ascii_alphanumeric() || b"=:/@._-[]".contains(&b))
            && word.parse::<Capability>().is_ok()
    };
    words.iter().filter(fine).map(String::as_str).collect::<Vec<_>>().join(" ")
}

fn with_denials(tool: &str, said: &str, denied: &[String]) -> String {
    let denied = plain(denied);
    match denied.is_empty() {
        true => said.to_owned(),
        false => format!("{said}; it was denied {denied}: hotcell tool grant {} {denied}", plugin_of(tool)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_grants_are_named_with_their_command() {
        let facts = |granted: &[&str]| Facts {
            plugin: "github".into(),
            digest: String::new(),
            granted: granted.iter().map(|word| (*word).to_owned()).collect(),
            keeps: false,
        };
        let needs = ["net=https://api.github.com".to_owned()];
        assert_eq!(missing(&facts(&["net=https://api.github.com:443"]), &needs), None);
        assert_eq!(missing(&facts(&[]), &[]), None);
        assert_eq!(
            missing(&facts(&["guard"]), &needs).unwrap(),
            "github was not granted net=https://api.github.com: hotcell tool grant github net=https://api.github.com"
        );
        let said =
            with_denials("github_fetch-pr", "no", &["net=https://a.org:443".into(), "x; rm -rf /".into()]);
        assert_eq!(
            said,
            "no; it was denied net=https://a.org:443: hotcell tool grant github net=https://a.org:443"
        );
        assert!(super::facts(&[], "github_fetch-pr").unwrap_err().contains("hotcell tool add"));
    }
}
