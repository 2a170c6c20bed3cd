//! Settings in JSON, with comments: programs that an editor or an agent starts, with their arguments and
//! variables.

use super::{MAX_DEPTH, command, quoted};
use crate::context::Cx;
use crate::ingest::manifest::{exported, place};
use crate::report::PartState;
use serde_json::{Map, Value};

/// Tool that reads a file, and so its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// `command`, with `args` and `env` beside it, at any depth: tasks, hooks, servers.
    Commands,
    /// Commands of a container for development.
    Container,
    /// Each value of `scripts` and `tasks` is a command or a list of commands.
    Scripts,
    /// Commands of services and tools that build, start or deploy a project.
    Builds,
    /// Settings of an editor: the programs of its terminals, with arguments and variables.
    Editor,
}

/// Fields of agents and editors with a command line.
const COMMANDS: &[&str] = &[
    "command",
    "bash",
    "runtimeExecutable",
    "apiKeyHelper",
    "awsAuthRefresh",
    "awsCredentialExport",
    "otelHeadersHelper",
    "discoveryCommand",
    "toolDiscoveryCommand",
    "toolCallCommand",
];
/// Fields of a container's definition with a command line.
const CONTAINER: &[&str] = &[
    "initializeCommand",
    "onCreateCommand",
    "updateContentCommand",
    "postCreateCommand",
    "postStartCommand",
    "postAttachCommand",
];
/// Fields with a command line, or a list of them, of what builds, starts or deploys a project.
const BUILDS: &[&str] = &[
    "buildCommand",
    "installCommand",
    "devCommand",
    "ignoreCommand",
    "startCommand",
    "preDeployCommand",
    "beforeBuildCommand",
    "beforeDevCommand",
    "beforeBundleCommand",
    "predeploy",
    "postdeploy",
    "exec",
    "command",
];
/// Beginning of the settings of an editor's terminals.
const TERMINAL: &str = "terminal.integrated.";

/// Reads a file.
pub(super) fn read(cx: &mut Cx<'_>, text: &str, tool: Tool) -> PartState {
    if crate::limits::towers(text) {
        cx.not_read("brackets nested too deeply");
        return PartState::Skipped("brackets nested too deeply".to_owned());
    }
    let Ok(value) = serde_json::from_str::<Value>(&plain_json(text)) else { return PartState::Recovered };
    match tool {
        Tool::Commands => walk(cx, text, &value, COMMANDS, 0),
        Tool::Container => walk(cx, text, &value, CONTAINER, 0),
        Tool::Builds => builds(cx, text, &value, 0),
        Tool::Editor => {
            walk(cx, text, &value, COMMANDS, 0);
            for (key, value) in value.as_object().into_iter().flatten() {
                if let Some(setting) = key.strip_prefix(TERMINAL) {
                    terminal(cx, text, setting, value);
                }
            }
        }
        Tool::Scripts => {
            for key in ["scripts", "tasks"] {
                for (name, script) in value.get(key).and_then(Value::as_object).into_iter().flatten() {
                    each(cx, text, script, name, 0);
                }
            }
        }
    }
    PartState::Parsed
}

fn walk(cx: &mut Cx<'_>, text: &str, value: &Value, keys: &[&str], depth: usize) {
    if depth > MAX_DEPTH || !cx.tick() {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if keys.contains(&key.as_str()) {
                    started(cx, text, map, key, value);
                }
                walk(cx, text, value, keys, depth + 1);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| walk(cx, text, value, keys, depth + 1)),
        _ => {}
    }
}

/// Commands of such fields at any depth.
fn builds(cx: &mut Cx<'_>, text: &str, value: &Value, depth: usize) {
    if depth > MAX_DEPTH || !cx.tick() {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if BUILDS.contains(&key.as_str()) {
                    each(cx, text, value, key, 0);
                }
                builds(cx, text, value, depth + 1);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| builds(cx, text, value, depth + 1)),
        _ => {}
    }
}

/// A setting of an editor's terminals: profiles by name, one profile, a shell by itself, or variables.
fn terminal(cx: &mut Cx<'_>, text: &str, setting: &str, value: &Value) {
    let Some(map) = value.as_object() else {
        if setting.starts_with("shell.") {
            each(cx, text, value, setting, 0);
        }
        return;
    };
    if setting.starts_with("env.") {
        for (name, value) in map {
            if let Some(value) = value.as_str() {
                exported(cx, name, &placeholders(value), place(text, &format!("\"{name}\"")));
            }
        }
        return;
    }
    for map in map.values().filter_map(Value::as_object).chain([map]) {
        if let Some(path) = map.get("path") {
            started(cx, text, map, "path", path);
        }
    }
}

/// A command with the arguments and variables beside it.
fn started(cx: &mut Cx<'_>, text: &str, beside: &Map<String, Value>, key: &str, value: &Value) {
    let mut line = variables(beside.get("env").or_else(|| beside.get("environment")));
    match value {
        Value::String(program) => line.push_str(program),
        Value::Array(list) => line.push_str(&quoted(&texts(list))),
        // `{"path": …, "args": […]}`, or several commands by name.
        Value::Object(inner) => {
            for (name, value) in inner.iter().filter(|(name, _)| *name != "args" && *name != "env") {
                started(cx, text, inner, name, value);
            }
            return;
        }
        _ => return,
    }
    let arguments = ["args", "runtimeArgs", "arguments"].iter().find_map(|key| beside.get(*key)?.as_array());
    if let Some(arguments) = arguments.filter(|_| !line.is_empty()) {
        line.push(' ');
        line.push_str(&quoted(&texts(arguments)));
    }
    let line = placeholders(&line);
    // A file without `\"` contains the line as it is.
    let near = value.as_str().map_or_else(|| format!("\"{key}\""), |text| text.chars().take(40).collect());
    command(cx, text, &line, &near);
}

/// `${workspaceFolder}`, `${input:x}` and `${env:X}` of an editor, as a variable.
fn placeholders(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let (name, left) = after.split_once('}').unwrap_or((after, ""));
        if name.chars().all(|c| c.is_ascii_alphanumeric() || ":._-".contains(c)) && name.contains(':') {
            out.push_str("${VALUE}");
        } else {
            out.push_str("${");
            out.push_str(name);
            out.push('}');
        }
        rest = left;
    }
    out.push_str(rest);
    out
}

/// Variables before a command: those that are names in a shell.
fn variables(env: Option<&Value>) -> String {
    let mut out = String::new();
    for (name, value) in env.and_then(Value::as_object).into_iter().flatten() {
        let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if let Some(value) = value.as_str().filter(|_| is_name && !name.is_empty()) {
            out.push_str(&format!("{name}='{}' ", value.replace('\'', "'\\''")));
        }
    }
    out
}

/// A command, a list of commands, or an object with them.
fn each(cx: &mut Cx<'_>, text: &str, value: &Value, name: &str, depth: usize) {
    match value {
        Value::String(line) => command(cx, text, line, &format!("\"{name}\"")),
        Value::Array(list) if depth < MAX_DEPTH => {
            list.iter().for_each(|value| each(cx, text, value, name, depth + 1));
        }
        Value::Object(map) => {
            if let Some(value) = map.get("command").filter(|_| depth < MAX_DEPTH) {
                each(cx, text, value, name, depth + 1);
            }
        }
        _ => {}
    }
}

fn texts(list: &[Value]) -> Vec<String> {
    list.iter()
        .filter_map(|value| value.as_str().or_else(|| value.get("value")?.as_str()))
        .map(str::to_owned)
        .collect()
}

/// JSON without comments and without commas before a closing bracket.
fn plain_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.trim_start_matches('\u{feff}').chars().peekable();
    let mut comma = None;
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                comma = None;
                out.push(c);
                while let Some(c) = chars.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '/' if chars.peek() == Some(&'/') => while chars.next_if(|c| *c != '\n').is_some() {},
            '/' if chars.peek() == Some(&'*') => {
                chars.next();
                let mut before = ' ';
                for c in chars.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            ',' => {
                comma = Some(out.len());
                out.push(c);
            }
            '}' | ']' => {
                if let Some(at) = comma.take() {
                    out.replace_range(at..=at, " ");
                }
                out.push(c);
            }
            c => {
                if !c.is_whitespace() {
                    comma = None;
                }
                out.push(c);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_commas_go() {
        for (text, want) in [
            ("{\"a\": 1, // x\n \"b\": [1, 2,],\n}", serde_json::json!({"a": 1, "b": [1, 2]})),
            ("/* , */ {\"u\": \"http://h/*x*/,}\"}", serde_json::json!({"u": "http://h/*x*/,}"})),
            ("[\"a\\\"//\", ]", serde_json::json!(["a\"//"])),
        ] {
            assert_eq!(serde_json::from_str::<Value>(&plain_json(text)).ok(), Some(want), "{text}");
        }
    }

    #[test]
    fn placeholders_of_an_editor() {
        assert_eq!(placeholders("x ${env:HOME} ${HOME} ${input:a-b}"), "x ${VALUE} ${HOME} ${VALUE}");
    }
}
