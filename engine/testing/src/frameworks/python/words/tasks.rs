//! Tasks that run tests: scripts of hatch, pdm, rye, poe and taskipy in `pyproject.toml`, and the recipe `test` of a `justfile`. Read as
//! rules of a [`Makefile`](super::makefile), of which they are another spelling.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::Words;
use super::makefile::Makefile;
use crate::frameworks::javascript::shell;
use crate::project::Project;

/// The names of a task that runs the tests, the first that is there.
const NAMES: [&str; 7] = ["test", "tests", "unit", "unittest", "pytest", "test-all", "all-tests"];
/// hatch's environments whose scripts are looked at first.
const FIRST: [&str; 3] = ["default", "test", "hatch-test"];

/// Each task: its lines, or the tasks that it starts.
type Tasks = BTreeMap<String, Vec<Line>>;

/// One line of a task.
enum Line {
    /// A command of the shell.
    Command(String),
    /// Another task.
    Task(String),
    /// Something that is not read here, for people.
    Other(String),
}

/// Reads the project's tasks that run tests.
#[must_use]
pub fn read(project: &dyn Project) -> Vec<Words> {
    let mut all = Vec::new();
    if let Some(Ok(settings)) = super::text(project, "pyproject.toml").map(|text| text.parse::<Table>()) {
        all.extend(of_settings(&settings));
    }
    let just = ["justfile", "Justfile", ".justfile"].into_iter().find_map(|file| {
        let tasks = of_justfile(&super::text(project, file)?);
        words(file, &tasks, "recipe")
    });
    all.extend(just);
    all
}

fn of_settings(settings: &Table) -> Vec<Words> {
    let table = |path: &[&str]| -> Option<&Table> {
        path.iter().try_fold(settings, |table, name| table.get(*name)?.as_table())
    };
    let mut all = Vec::new();
    if let Some(envs) = table(&["tool", "hatch", "envs"]) {
        let named = FIRST.into_iter().filter_map(|name| Some((name, envs.get(name)?)));
        let others = envs.iter().filter(|(name, _)| !FIRST.contains(&name.as_str()));
        let others = others.map(|(name, env)| (name.as_str(), env));
        for (name, env) in named.chain(others) {
            let scripts = env.get("scripts").and_then(Value::as_table);
            let tasks: Option<Tasks> = scripts.map(|scripts| {
                let variables = variables(env.get("env-vars"));
                scripts.iter().map(|(name, task)| (name.clone(), lines(task, scripts, &variables))).collect()
            });
            all.extend(tasks.and_then(|tasks| {
                words(&format!("pyproject.toml [tool.hatch.envs.{name}]"), &tasks, "script")
            }));
        }
    }
    for (path, section) in [
        (["tool", "pdm", "scripts"], "[tool.pdm.scripts]"),
        (["tool", "rye", "scripts"], "[tool.rye.scripts]"),
        (["tool", "poe", "tasks"], "[tool.poe.tasks]"),
        (["tool", "taskipy", "tasks"], "[tool.taskipy.tasks]"),
    ] {
        let Some(scripts) = table(&path) else { continue };
        let shared = scripts.get("_").and_then(|all| all.get("env"));
        let variables = variables(shared);
        let tasks =
            scripts.iter().map(|(name, task)| (name.clone(), lines(task, scripts, &variables))).collect();
        all.extend(words(&format!("pyproject.toml {section}"), &tasks, "task"));
    }
    all
}

/// Variables of a table, as they stand in front of a command.
fn variables(table: Option<&Value>) -> String {
    let table = table.and_then(Value::as_table);
    let one = |(name, value): (&String, &Value)| {
        let text = value.as_str().map(str::to_owned).or_else(|| value.as_integer().map(|n| n.to_string()))?;
        let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        is_name.then(|| format!("{name}={} ", shell::quoted(&text)))
    };
    table.into_iter().flatten().filter_map(one).collect()
}

/// The lines of one task.
fn lines(task: &Value, known: &Table, above: &str) -> Vec<Line> {
    let command = |text: &str, above: &str| {
        let text = without_arguments(text);
        let first = text.split_whitespace().next().unwrap_or_default().to_owned();
        if known.contains_key(&first) { Line::Task(first) } else { Line::Command(format!("{above}{text}")) }
    };
    match task {
        Value::String(text) => text.lines().map(|line| command(line.trim(), above)).collect(),
        Value::Array(all) => all.iter().flat_map(|one| lines(one, known, above)).collect(),
        Value::Table(table) => {
            let above = format!("{above}{}", variables(table.get("env")));
            let before = ["deps", "depends", "pre"].into_iter().filter_map(|name| table.get(name));
            let before = before.flat_map(|tasks| lines(tasks, known, &above));
            let own = match ["cmd", "shell", "composite", "sequence", "chain", "ref"]
                .into_iter()
                .find_map(|name| table.get(name))
            {
                // One command by its words.
                Some(Value::Array(all)) if table.contains_key("cmd") => {
                    let words: Vec<String> =
                        all.iter().filter_map(Value::as_str).map(shell::quoted).collect();
                    vec![command(&words.join(" "), &above)]
                }
                Some(own) => lines(own, known, &above),
                None => vec![Line::Other(crate::text::clip(&task.to_string(), 200))],
            };
            before.chain(own).collect()
        }
        _ => Vec::new(),
    }
}

/// A command without the places for its caller's arguments: `{args}`, `{args:tests}`, `{posargs}`, `"$@"`.
fn without_arguments(text: &str) -> String {
    let mut out = text.replace("\"$@\"", "").replace("$@", "");
    for name in ["{args", "{posargs"] {
        while let Some(at) = out.find(name) {
            let Some(length) = out[at..].find('}') else { break };
            let inner = &out[at + name.len()..at + length];
            let default = inner.strip_prefix([':', '?']).unwrap_or_default().to_owned();
            out.replace_range(at..=at + length, &default);
        }
    }
    out.trim().to_owned()
}

/// The recipes of a justfile. Lines with values that only `just` knows are not read.
fn of_justfile(text: &str) -> Tasks {
    let mut tasks = Tasks::new();
    let mut open: Option<(String, Vec<String>)> = None;
    for line in text.replace("\\\n", " ").lines() {
        if line.starts_with([' ', '\t']) {
            let Some((name, parameters)) = &open else { continue };
            let line = line.trim().trim_start_matches(['@', '-']);
            if line.is_empty() || line.starts_with('#') && !line.starts_with("#!") {
                continue;
            }
            let mut text = line.to_owned();
            for parameter in parameters {
                for place in [format!("{{{{{parameter}}}}}"), format!("{{{{ {parameter} }}}}")] {
                    text = text.replace(&place, "");
                }
            }
            let is_unread = text.contains("{{") || text.starts_with("#!");
            let text = without_arguments(&text);
            let line = if is_unread {
                Line::Other(line.to_owned())
            } else {
                Line::Command(text.replacen("just ", "make ", usize::from(text.starts_with("just "))))
            };
            tasks.entry(name.clone()).or_default().push(line);
            continue;
        }
        open = None;
        let line = line.trim_start_matches('@');
        let Some((head, before)) = line.split_once(':').filter(|(_, rest)| !rest.starts_with('=')) else {
            continue;
        };
        let mut words = head.split_whitespace();
        let Some(name) = words.next().filter(|name| !name.starts_with(['#', '['])) else { continue };
        // Only those without a value of their own, or which may be empty.
        let parameters =
            words.filter(|word| word.starts_with('*') || word.ends_with("=\"\"") || word.ends_with("=''"));
        let parameters: Vec<String> = parameters
            .map(|word| word.trim_start_matches(['*', '$']).split('=').next().unwrap_or_default().to_owned())
            .collect();
        let before = before.split_whitespace().take_while(|word| *word != "&&" && !word.starts_with('#'));
        let before =
            before.filter(|word| !word.starts_with('(')).map(|task| Line::Task(task.to_owned())).collect();
        tasks.insert(name.to_owned(), before);
        open = Some((name.to_owned(), parameters));
    }
    tasks
}

/// Words of the first task that runs tests.
fn words(source: &str, tasks: &Tasks, kind: &str) -> Option<Words> {
    let name = NAMES.into_iter().find(|name| tasks.contains_key(*name))?;
    let mut words = Words { source: format!("{source}, {kind} {name}"), ..Words::default() };
    let mut rules = Makefile::default();
    for (name, lines) in tasks {
        let recipe = lines.iter().filter_map(|line| match line {
            Line::Command(text) => Some(text.clone()),
            Line::Task(task) => Some(format!("make {task}")),
            Line::Other(_) => None,
        });
        rules.rule(name, recipe.collect());
    }
    let left = tasks[name].iter().filter_map(|line| match line {
        Line::Other(text) => Some(text.clone()),
        Line::Command(_) | Line::Task(_) => None,
    });
    words.left.extend(left);
    rules.target(name, &mut words);
    Some(words)
}
