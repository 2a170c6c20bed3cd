//! Differences of a server's tools and words since they were accepted, and tools that are held of servers at an address.

mod known;
mod running;

pub use known::Known;
pub use running::Pins;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use hotcell_client::Tool;
use hotcell_config::Configuration;
use hotcell_mcp::pin::{Accepted, Offered, is_words};
use hotcell_review::quarantine::QuarantineConfig;
use hotcell_state::report::{Code, ErrorReport, barred, printable};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use similar::TextDiff;

use super::servers::{ACCEPT, After, OFFERED, Server, note, read, server, write};

/// Definitions of the tools as they were accepted.
const DEFINITIONS: &str = "definitions.json";
/// Number of digits of the word that stands for what was shown. The server writes both what is shown and what could be exchanged for it, so that a
/// short word could be made to fit both.
const WORD_CHARS: usize = 40;

/// Keeps the definitions of accepted tools, for a later difference.
///
/// # Errors
/// When they cannot be written.
pub fn keep(folder: &Path, accepted: &Accepted, offered: &BTreeMap<String, Offered>) -> io::Result<()> {
    let path = folder.join(DEFINITIONS);
    let mut all: BTreeMap<String, Value> = read(&path)?.unwrap_or_default();
    all.retain(|name, _| accepted.contains_key(name));
    for (name, tool) in offered.iter().filter(|(name, tool)| accepted.get(*name) == Some(&tool.sha256)) {
        all.insert(name.clone(), tool.tool.clone());
    }
    write(&path, &all)
}

/// Former definitions of tools that are held.
///
/// # Errors
/// When they cannot be read.
pub fn before<'a>(
    folder: &Path,
    held: impl Iterator<Item = &'a String>,
) -> io::Result<BTreeMap<String, Value>> {
    let mut all: BTreeMap<String, Value> = read(&folder.join(DEFINITIONS))?.unwrap_or_default();
    Ok(held.filter_map(|name| all.remove_entry(name)).collect())
}

/// Word that stands for held tools as they are offered: acceptance with it is of these alone. Empty for none.
pub fn word(held: &BTreeMap<String, Offered>) -> String {
    if held.is_empty() {
        return String::new();
    }
    let mut digest = Sha256::new();
    for (name, tool) in held {
        digest.update(format!("{}\n{}\n", name.len(), name));
        digest.update(&tool.sha256);
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    digest[..WORD_CHARS].to_owned()
}

/// Accepts the tools of a server as it offered them last; with `shown`, only those that [`Server::shown`] stands for.
///
/// # Errors
/// [`ErrorReport`] when other tools are offered by now, or a file or the audit log cannot be written.
pub fn accept(
    configuration: &Configuration,
    folder: &Path,
    name: &str,
    shown: Option<&str>,
) -> Result<Server, ErrorReport> {
    let io =
        |e: io::Error| ErrorReport::new(Code::State, format!("the tools of {name}: {e}")).field("--state");
    // The definitions that are compared are those that are accepted: the server may be offering others meanwhile.
    let offered: BTreeMap<String, Offered> = read(&folder.join(OFFERED)).map_err(io)?.unwrap_or_default();
    let before = Known::read(folder).map_err(io)?;
    let held = offered.iter().filter(|(name, tool)| before.all.get(*name) != Some(&tool.sha256));
    let held = held.map(|(name, tool)| (name.clone(), tool.clone())).collect();
    if let Some(shown) = shown.filter(|shown| *shown != word(&held)) {
        let why = format!("what {name} offers is no longer what was shown as {}", printable(shown));
        return Err(ErrorReport::new(Code::Refused, why)
            .field("--shown")
            .hint(format!("hotcell mcp servers show {name} shows it as it is now")));
    }
    let mut accepted: Accepted =
        offered.iter().map(|(name, tool)| (name.clone(), tool.sha256.clone())).collect();
    // Words that were not there at the first start stay known as such.
    for (name, sha256) in before.all.iter().filter(|(name, _)| is_words(name)) {
        accepted.entry(name.clone()).or_insert_with(|| sha256.clone());
    }
    let config = QuarantineConfig::of(configuration)
        .ok_or_else(|| ErrorReport::new(Code::State, "there is no state folder"))?;
    note(&config, ACCEPT, name, &After { server: name, tools: Some(&accepted), grants: None, reason: None })
        .map_err(|e| ErrorReport::new(Code::State, e.to_string()))?;
    let has_tools = before.has_tools || offered.keys().any(|name| !is_words(name));
    let known = Known { all: accepted, has_tools };
    known.write(folder).map_err(io)?;
    keep(folder, &known.all, &offered).map_err(io)?;
    server(folder, name).map_err(io)
}

/// A held tool for a person: the lines that changed since it was accepted, or the whole of a new one, behind bars.
pub fn difference(name: &str, before: Option<&Value>, now: &Value) -> String {
    let mut text = String::new();
    let Some(before) = before else {
        let _ = writeln!(text, "  {} is new:", printable(name));
        return text + &barred(&pretty(now), "  | ");
    };
    let _ = writeln!(text, "  {} has changed since you accepted it:", printable(name));
    text + &barred(&lines(before, now), "  | ")
}

/// Lines that differ between two definitions, as a unified diff.
pub fn lines(before: &Value, now: &Value) -> String {
    let (old, new) = (pretty(before), pretty(now));
    let diff = TextDiff::from_lines(&old, &new);
    diff.unified_diff().context_radius(1).iter_hunks().map(|hunk| format!("{hunk}")).collect()
}

/// Text of a definition; words are shown as they are, with their lines.
fn pretty(value: &Value) -> String {
    if let Value::String(words) = value {
        return format!("{words}\n");
    }
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Names of tools that are held, of a list that a server gave. The first list is accepted, except tools with invisible characters.
///
/// # Errors
/// When the accepted tools cannot be read.
pub fn held(folder: &Path, name: &str, tools: &[Tool]) -> io::Result<Vec<String>> {
    let mut pins = Pins::open(folder, name)?;
    let definitions: Vec<&Value> = tools.iter().map(|tool| &tool.definition).collect();
    let line = pins.pass(format!("{}\n", json!({ "result": { "tools": definitions } })).into_bytes());
    pins.finish();
    let passed: Value = serde_json::from_slice(&line).unwrap_or_default();
    let passed: Vec<&str> = passed["result"]["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    let held = tools.iter().filter(|tool| !passed.contains(&tool.name.as_str()));
    Ok(held.map(|tool| tool.name.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(description: &str) -> Tool {
        let definition = json!({ "name": "a", "description": description });
        Tool { name: "a".to_owned(), definition }
    }

    #[test]
    fn changed_tools_of_an_address_are_held_with_their_difference() {
        let folder = tempfile::tempdir().unwrap();
        let of = |tools: &[Tool]| held(folder.path(), "s", tools).unwrap();
        assert!(of(&[tool("A")]).is_empty());
        assert_eq!(of(&[tool("B")]), ["a"]);
        assert!(of(&[tool("A")]).is_empty());
        assert_eq!(of(&[tool("B")]), ["a"]);
        let server = server(folder.path(), "s").unwrap();
        assert_eq!(server.shown.len(), WORD_CHARS);
        let text = difference("a", server.before.get("a"), &server.offered["a"]);
        assert!(
            text.contains("  | -  \"description\": \"A\"") && text.contains("  | +  \"description\": \"B\""),
            "{text}"
        );
    }
}
