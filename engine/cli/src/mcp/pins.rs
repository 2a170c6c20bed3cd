//! Differences of a server's tools and words since they were accepted, and tools that are held of servers at an address.

mod known;
mod of_server;
mod offered;
mod running;

pub use known::Known;
pub use of_server::OfServer;
pub use running::Pins;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use hotcell_config::Configuration;
use hotcell_mcp::combined::shown_name;
use hotcell_mcp::pin::{Accepted, Kind, Offered, OrderReader};
use hotcell_review::quarantine::QuarantineConfig;
use hotcell_sandbox::layer::likely;
use hotcell_state::report::{Code, ErrorReport, barred, printable};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use similar::TextDiff;

use crate::quote::for_shell;

use super::servers::{ACCEPT, After, OFFERED, Server, note, read, server, write};

/// Definitions of the tools as they were accepted.
const DEFINITIONS: &str = "definitions.json";
/// Entries that a person accepted by name: of those that look like another server's, they are listed.
const MEANT: &str = "meant.json";
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

/// Accepts what a server offered last; with `shown`, only if it is still what [`Server::shown`] stands for; with names, these alone.
///
/// # Errors
/// [`ErrorReport`] when other tools are offered by now, a name is not one of them, or a file or the audit log cannot be written.
pub fn accept(
    configuration: &Configuration,
    folder: &Path,
    name: &str,
    shown: Option<&str>,
    named: &[String],
) -> Result<Server, ErrorReport> {
    let io =
        |e: io::Error| ErrorReport::new(Code::State, format!("the tools of {name}: {e}")).field("--state");
    let _lock = known::lock(folder).map_err(io)?;
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
    let keys = named.iter().map(|given| key_of(name, &offered, given));
    let keys = keys.collect::<Result<Vec<String>, _>>()?;
    let is_asked = |key: &String| named.is_empty() || keys.contains(key);
    let asked = offered.iter().filter(|(key, _)| is_asked(key));
    let mut accepted: Accepted = asked.map(|(key, one)| (key.clone(), one.sha256.clone())).collect();
    // Words that were not there at the first start stay known as such.
    let kept = before.all.iter().filter(|(key, _)| Kind::of(key).is_none() || !is_asked(key));
    for (key, sha256) in kept {
        accepted.entry(key.clone()).or_insert_with(|| sha256.clone());
    }
    let config = QuarantineConfig::of(configuration)
        .ok_or_else(|| ErrorReport::new(Code::State, "there is no state folder"))?;
    note(&config, ACCEPT, name, &After { server: name, tools: Some(&accepted), grants: None, reason: None })
        .map_err(|e| ErrorReport::new(Code::State, e.to_string()))?;
    let asked = offered.keys().filter(|key| is_asked(key)).filter_map(|key| Kind::of(key));
    let lists = before.lists.into_iter().chain(asked).collect();
    let known = Known { all: accepted, lists };
    known.write(folder).map_err(io)?;
    keep(folder, &known.all, &offered).map_err(io)?;
    if !keys.is_empty() {
        let mut all: Accepted = read(&folder.join(MEANT)).map_err(io)?.unwrap_or_default();
        all.retain(|key, sha256| known.all.get(key) == Some(sha256));
        all.extend(
            keys.iter().filter_map(|key| known.all.get_key_value(key)).map(|(k, v)| (k.clone(), v.clone())),
        );
        write(&folder.join(MEANT), &all).map_err(io)?;
    }
    server(folder, name).map_err(io)
}

/// Key of the one offered entry that a person names: by the key itself, its own name, or that under which the combined server lists it. A person saw one of them,
/// and a server could give another kind of entry the same name.
fn key_of(server: &str, offered: &BTreeMap<String, Offered>, given: &str) -> Result<String, ErrorReport> {
    if offered.contains_key(given) {
        return Ok(given.to_owned());
    }
    let names = |key: &String| -> Vec<String> {
        let Some(kind) = Kind::of(key) else { return vec![key.clone()] };
        let own = key.strip_prefix(&*kind.key("")).unwrap_or(key);
        match kind {
            Kind::Tool | Kind::Prompt => vec![shown_name(server, own), own.to_owned(), key.clone()],
            Kind::Resource | Kind::Template => vec![own.to_owned(), key.clone()],
        }
    };
    let found: Vec<&String> =
        offered.keys().filter(|key| names(key).iter().any(|name| name == given)).collect();
    if let [one] = found[..] {
        return Ok(one.clone());
    }
    if !found.is_empty() {
        let several: Vec<String> = found.iter().take(8).map(|key| for_shell(&printable(key))).collect();
        let why = format!("{:?} may be {} entries of {server}", printable(given), found.len());
        return Err(ErrorReport::new(Code::InvalidValue, why)
            .field("WHAT")
            .hint(format!("name the one that you mean: {}", several.join(", "))));
    }
    let all: Vec<String> = offered.keys().flat_map(names).collect();
    let hint = match likely(given, all.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {}?", printable(near)),
        None => format!("hotcell mcp servers show {server} names those that are held"),
    };
    let why = format!("{server} offers nothing with the name {:?}", printable(given));
    Err(ErrorReport::new(Code::UnknownName, why).field("WHAT").hint(hint))
}

/// Keys of the entries that a person accepted by name and that are still as they were then.
///
/// # Errors
/// When a file cannot be read.
pub fn meant(folder: &Path) -> io::Result<BTreeSet<String>> {
    let Some(meant) = read::<Accepted>(&folder.join(MEANT))? else { return Ok(BTreeSet::new()) };
    let known = Known::read(folder)?.all;
    let still = meant.into_iter().filter(|(key, sha256)| known.get(key) == Some(sha256));
    Ok(still.map(|(key, _)| key).collect())
}

/// A held tool for a person: the lines that changed since it was accepted, or the whole of a new one, behind bars.
pub fn difference(name: &str, before: Option<&Value>, now: &Value) -> String {
    let mut text = String::new();
    if OrderReader::default().finds(now) {
        let _ = writeln!(text, "  {} has text like an order to a model", printable(name));
    }
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

/// Names or addresses of the entries that are held, of a list that a server gave. The first list is accepted, except entries with invisible characters or orders to a model.
/// A caller leaves entries out by these names: of several entries of one name all are held when one is.
///
/// # Errors
/// When the accepted ones cannot be read.
pub fn held(folder: &Path, name: &str, kind: Kind, entries: &[Value]) -> io::Result<Vec<String>> {
    let mut pins = Pins::open(folder, name)?;
    let line = pins.pass(format!("{}\n", json!({ "result": { kind.list(): entries } })).into_bytes());
    pins.finish();
    let passed: Value = serde_json::from_slice(&line).unwrap_or_default();
    let passed =
        counts(kind, passed["result"][kind.list()].as_array().map(Vec::as_slice).unwrap_or_default());
    let all = counts(kind, entries).into_iter();
    Ok(all.filter(|(own, count)| passed.get(own) != Some(count)).map(|(own, _)| own.to_owned()).collect())
}

/// Number of entries of each name or address.
fn counts(kind: Kind, entries: &[Value]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for own in entries.iter().filter_map(|one| kind.own_of(one)) {
        *counts.entry(own).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(description: &str) -> Value {
        json!({ "name": "a", "description": description })
    }

    #[test]
    fn changed_tools_of_an_address_are_held_with_their_difference() {
        let folder = tempfile::tempdir().unwrap();
        let of = |tools: &[Value]| held(folder.path(), "s", Kind::Tool, tools).unwrap();
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

    #[test]
    fn all_entries_of_a_name_are_held_when_one_is() {
        let prompt = |text: &str| json!({ "name": "a", "description": text });
        for (kind, first, then, want) in [
            (
                Kind::Resource,
                json!([]),
                json!([{ "uri": "note://a" }, { "uri": "note://a", "description": "EVIL" }, { "uri": "note://b" }]),
                vec!["note://a"],
            ),
            (Kind::Resource, json!([]), json!([{ "uri": "note://a" }, { "uri": "note://a" }]), vec![]),
            (Kind::Prompt, json!([prompt("A")]), json!([prompt("A"), prompt("EVIL")]), vec!["a"]),
            (Kind::Prompt, json!([prompt("A")]), json!([prompt("EVIL"), prompt("A")]), vec!["a"]),
            (Kind::Prompt, json!([prompt("A")]), json!([prompt("A"), prompt("A")]), vec!["a"]),
            (Kind::Prompt, json!([prompt("A")]), json!([prompt("A")]), vec![]),
            // Names that keys stand for.
            (
                Kind::Tool,
                json!([]),
                json!([{ "name": "(prompt) a" }, { "name": "(name)" }]),
                vec!["(name)", "(prompt) a"],
            ),
            (Kind::Tool, json!([{ "name": "(name)" }]), json!([]), vec![]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let of = |list: &Value| held(folder.path(), "s", kind, list.as_array().unwrap()).unwrap();
            of(&first);
            assert_eq!(of(&then), want, "{then}");
        }
    }

    #[test]
    fn a_name_stands_for_one_entry_alone() {
        let offered = |keys: &[&str]| -> BTreeMap<String, Offered> {
            let one = || Offered { sha256: String::new(), tool: Value::Null };
            keys.iter().map(|key| ((*key).to_owned(), one())).collect()
        };
        let all =
            ["look", "(prompt) look", "(prompt) greet", "(resource) files__look", "(resource) files__greet"];
        for (keys, given, want) in [
            (&all[..], "look", Ok("look")),
            (&all, "(prompt) look", Ok("(prompt) look")),
            (&all, "(resource) files__look", Ok("(resource) files__look")),
            (&all, "greet", Ok("(prompt) greet")),
            (&all, "files__look", Err("look, '(prompt) look', '(resource) files__look'")),
            (&all, "files__greet", Err("'(prompt) greet', '(resource) files__greet'")),
            (&all, "files__loook", Err("files__look")),
            (&all[1..3], "look", Ok("(prompt) look")),
            (&all[..1], "files__look", Ok("look")),
            (&["look", "files__look"], "files__look", Ok("files__look")),
            (&["(prompt) a:", "(resource) a:", "(template) a:"], "a:", Err("'(template) a:'")),
            (&["(name)"], "(name)", Ok("(name)")),
        ] {
            let got = key_of("files", &offered(keys), given);
            match want {
                Ok(key) => assert_eq!(got.expect(given), key),
                Err(hint) => {
                    let said = format!("{:?}", got.expect_err(given));
                    for one in hint.split(", ") {
                        assert!(said.contains(one), "{given}: {said}");
                    }
                }
            }
        }
    }
}
