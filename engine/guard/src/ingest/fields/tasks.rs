//! Commands and places of dependencies in TOML.

use super::{MAX_DEPTH, command, dependencies, quoted};
use crate::context::Cx;
use crate::ingest::manifest::place;
use toml::Value;

/// Tables whose values are commands, by the end of their path.
const TASKS: &[&str] = &[
    "tool.poe.tasks",
    "tool.taskipy.tasks",
    "tool.pdm.scripts",
    "tool.pixi.tasks",
    "tool.rye.scripts",
    "tool.uv.scripts",
    "tool.pyprojectx.aliases",
    "tasks",
    "hooks",
];
/// Names of tables with places that dependencies come from.
const SOURCES: &[&str] = &[
    "dependencies",
    "dev-dependencies",
    "build-dependencies",
    "optional-dependencies",
    "source",
    "sources",
    "index",
    "registries",
    "patch",
    "pip",
    "uv",
];

/// Reads the commands and dependencies of a file. In a file of `any` tool, fields with the usual names hold commands.
pub(in crate::ingest) fn read(cx: &mut Cx<'_>, text: &str, table: &toml::Table, any: bool) {
    walk(cx, text, &Value::Table(table.clone()), "", any, 0);
}

/// Whether a field of an unknown tool holds a command by its name: of agents, of services that build and deploy.
fn is_command(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    matches!(&*lower, "run" | "cmd" | "exec" | "notify" | "onboot" | "entrypoint")
        || lower.ends_with("command")
}

/// A command line, or a list of words, of an unknown tool, with the arguments beside it.
fn of_any(cx: &mut Cx<'_>, text: &str, beside: &toml::Table, key: &str, value: &Value) {
    let texts = |value: &Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let mut line = match value {
        Value::String(line) => line.clone(),
        list => texts(list).map(|list| quoted(&list)).unwrap_or_default(),
    };
    if line.is_empty() {
        return;
    }
    if let Some(args) = beside.get("args").and_then(texts) {
        line.push(' ');
        line.push_str(&quoted(&args));
    }
    command(cx, text, &line, key);
}

fn walk(cx: &mut Cx<'_>, text: &str, value: &Value, path: &str, any: bool, depth: usize) {
    if depth > MAX_DEPTH || !cx.tick() {
        return;
    }
    match value {
        Value::Table(table) => {
            for (key, value) in table {
                let is_task = TASKS.contains(&path)
                    || path.starts_with("tool.hatch.envs.") && path.ends_with(".scripts")
                    || path.starts_with("tool.cibuildwheel")
                        && (key.starts_with("before-") || key.ends_with("-command"));
                let poetry = path.starts_with("tool.poetry.") && path.ends_with("dependencies");
                if poetry && key != "python" {
                    cx.requirement(key, || place(text, key));
                }
                if let (Value::String(name), "project" | "tool.poetry", "name") = (value, path, &**key) {
                    cx.requirement(name, || place(text, name));
                }
                if is_task {
                    task(cx, text, value, key, 0);
                } else if any && is_command(key) {
                    of_any(cx, text, table, key, value);
                }
                if let Value::String(url) = value
                    && matches!(
                        key.as_str(),
                        "git" | "url" | "index-url" | "extra-index-url" | "registry" | "index"
                    )
                    && path.split('.').any(|part| SOURCES.contains(&part))
                {
                    dependencies::from(cx, text, url, url);
                }
                let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                walk(cx, text, value, &inner, any, depth + 1);
            }
        }
        Value::Array(list) => {
            let requires = matches!(path, "build-system.requires" | "project.dependencies")
                || path.starts_with("project.optional-dependencies.")
                || path.starts_with("dependency-groups.");
            for value in list {
                match value {
                    Value::String(line) if requires => dependencies::requirements_in(cx, text, line),
                    value => walk(cx, text, value, path, any, depth + 1),
                }
            }
        }
        _ => {}
    }
}

/// A command line, a list of them, or a table with one.
fn task(cx: &mut Cx<'_>, text: &str, value: &Value, name: &str, depth: usize) {
    match value {
        Value::String(line) => command(cx, text, line, name),
        Value::Array(list) if depth < MAX_DEPTH => {
            list.iter().for_each(|value| task(cx, text, value, name, depth + 1));
        }
        Value::Table(table) => {
            for key in ["shell", "cmd", "run", "script", "sequence"] {
                if let Some(value) = table.get(key).filter(|_| depth < MAX_DEPTH) {
                    task(cx, text, value, name, depth + 1);
                }
            }
        }
        _ => {}
    }
}
