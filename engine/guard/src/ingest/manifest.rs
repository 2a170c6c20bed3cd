//! Files that name commands to run: package manifests, build files, container and workflow definitions.

use super::cluster;
use super::fields;
use super::makefile::makefile;
use super::mounts;
use super::notebook::plain;
use super::workflow;
use crate::command::git::{Runs, runs};
use crate::command::make::closing;
use crate::executed::Executed;
use crate::feed::Registry;
use crate::report::{HandedSource, PartState};
use hotcell_workspace::settings::{Setting, settings};
use serde_yaml_ng::Value as Yaml;

use crate::context::Cx;
use crate::language::Language;
use crate::rules::basename;
use crate::value::Value;

/// Maximum nesting of conditions in a package's exports.
const MAX_CONDITIONS: usize = 16;

/// Tool that takes commands from a file.
#[derive(Clone, Copy)]
enum Tool {
    Npm,
    Toml(&'static str),
    Git,
    Npmrc,
    Make,
    Cmake,
    Docker,
    Yaml,
}

/// Tool that takes commands from a file of this name.
fn by_name(name: &str) -> Option<Tool> {
    let base = basename(name).to_ascii_lowercase();
    Some(match &*base {
        "package.json" => Tool::Npm,
        "pyproject.toml" | "cargo.toml" | "mise.toml" | ".mise.toml" => Tool::Toml(""),
        "config.toml" | "config" if name.contains(".cargo/") => Tool::Toml("cargo"),
        _ if base.ends_with(".toml") || base == ".replit" => Tool::Toml("any"),
        "config" | "config.worktree" if name.contains(".git/") => Tool::Git,
        _ if base.ends_with(".gitconfig") => Tool::Git,
        ".npmrc" => Tool::Npmrc,
        "makefile" | "gnumakefile" => Tool::Make,
        _ if base.ends_with(".mk") => Tool::Make,
        _ if base == "cmakelists.txt" || base.ends_with(".cmake") => Tool::Cmake,
        _ if base == "dockerfile"
            || base == "containerfile"
            || base.ends_with(".dockerfile")
            || base.starts_with("dockerfile.") =>
        {
            Tool::Docker
        }
        _ if base.ends_with(".yml") || base.ends_with(".yaml") => Tool::Yaml,
        _ => return None,
    })
}

/// True when a tool takes commands from a file of this name.
pub(super) fn is_named(name: &str) -> bool {
    by_name(name).is_some()
}

/// Reads a file that tools take commands from; `false` for any other file.
pub(super) fn read(cx: &mut Cx<'_>, name: &str, text: &str) -> bool {
    let Some(tool) = by_name(name) else { return false };
    let (label, install) = match tool {
        Tool::Npm => ("package.json", true),
        Tool::Toml(kind) => ("toml", kind != "any"),
        Tool::Git => ("git config", false),
        Tool::Npmrc => ("npmrc", true),
        Tool::Make => ("makefile", false),
        Tool::Cmake => ("cmake", true),
        Tool::Docker => ("dockerfile", false),
        Tool::Yaml => ("yaml", false),
    };
    let workflow =
        name.contains(".github/workflows/") || basename(name).eq_ignore_ascii_case(".gitlab-ci.yml");
    cx.read_as(name, label, text, install, |cx| match tool {
        Tool::Npm => package(cx, text),
        Tool::Toml(kind) => toml(cx, text, kind),
        Tool::Git => git(cx, text),
        Tool::Npmrc => npmrc(cx, text),
        Tool::Make => makefile(cx, text),
        Tool::Cmake => cmake(cx, text),
        Tool::Docker => dockerfile(cx, text),
        Tool::Yaml => yaml(cx, name, text, workflow),
    });
    true
}

/// Place of a text in its file, if it is contained verbatim.
pub(super) fn place(text: &str, piece: &str) -> (usize, usize) {
    let line = piece.trim_start().lines().next().unwrap_or("");
    let at = if line.is_empty() { None } else { text.find(line) };
    at.map_or((0, 1), |at| (at, at + line.len()))
}

fn package(cx: &mut Cx<'_>, text: &str) -> PartState {
    let Ok(json) = serde_json::from_str::<serde_json::Value>(text) else {
        plain(cx, text);
        return PartState::Recovered;
    };
    for (name, script) in json.get("scripts").and_then(|s| s.as_object()).into_iter().flatten() {
        let Some(script) = script.as_str() else { continue };
        let at = place(text, &format!("\"{name}\""));
        cx.child(Language::Bash, script, at, &["recipe"]);
        if matches!(name.as_str(), "preinstall" | "install" | "postinstall") {
            cx.fact(Language::Text, "npm.install_script", at);
        }
    }
    if let Some(name) = json.get("name").and_then(serde_json::Value::as_str) {
        cx.package(Registry::Npm, name, || place(text, &format!("\"{name}\"")));
        tell_copied(cx, name, npm_names(&json).into_iter(), place(text, &format!("\"{name}\"")));
    }
    fields::in_package(cx, text, &json);
    // Files that Node loads from the folder, whatever their names.
    let mut files = Vec::new();
    for key in ["main", "module", "browser", "bin", "exports", "imports"] {
        json.get(key).into_iter().for_each(|value| leaves(value, 0, &mut files));
    }
    for path in files.into_iter().filter(|path| !is_no_script(path)) {
        let path = path.trim_start_matches("./");
        for path in [path.to_owned(), format!("{path}.js"), format!("{path}/index.js")] {
            cx.hand(HandedSource::File(path), Executed::As(Language::JavaScript));
        }
    }
    PartState::Parsed
}

/// Addresses of the project of a package of npm. One of several packages of a repository has a name of its own.
fn npm_names(json: &serde_json::Value) -> Vec<&str> {
    fn address(value: &serde_json::Value) -> Option<&str> {
        value.as_str().or_else(|| value.get("url")?.as_str())
    }
    let repository = json.get("repository");
    if repository.and_then(|repository| repository.get("directory")).is_some() {
        return Vec::new();
    }
    let all = [repository, json.get("homepage"), json.get("bugs")];
    all.into_iter().flatten().filter_map(address).collect()
}

/// Names of modules and addresses in a project of Python.
fn python_names(table: &toml::Table) -> Vec<&str> {
    let tool = |name: &str| table.get("tool").and_then(|tool| tool.get(name));
    let project = table.get("project");
    let mut all = Vec::new();
    let urls = project.and_then(|project| project.get("urls")).and_then(toml::Value::as_table);
    all.extend(urls.into_iter().flatten().filter_map(|(_, value)| value.as_str()));
    let poetry = tool("poetry");
    all.extend(["repository", "homepage"].iter().filter_map(|key| poetry?.get(key)?.as_str()));
    let included = poetry.and_then(|poetry| poetry.get("packages")).and_then(toml::Value::as_array);
    all.extend(included.into_iter().flatten().filter_map(|one| one.get("include")?.as_str()));
    let setuptools = tool("setuptools");
    for key in ["packages", "py-modules"] {
        let listed = setuptools.and_then(|tool| tool.get(key)).and_then(toml::Value::as_array);
        all.extend(listed.into_iter().flatten().filter_map(toml::Value::as_str));
    }
    all.extend(tool("flit").and_then(|flit| flit.get("module")?.get("name")?.as_str()));
    all
}

/// Reports a package that gives its own name in another spelling elsewhere.
fn tell_copied<'n>(cx: &mut Cx<'_>, name: &str, others: impl Iterator<Item = &'n str>, at: (usize, usize)) {
    if let Some(copied) = crate::renamed::copied(name, others) {
        cx.fact_with(Language::Text, "package.copied", at, &[Value::text(&copied)], 0);
    }
}

/// Collects the texts in a value with nested conditions.
fn leaves<'v>(value: &'v serde_json::Value, depth: usize, out: &mut Vec<&'v str>) {
    match value {
        serde_json::Value::String(text) => out.push(text),
        serde_json::Value::Array(all) if depth < MAX_CONDITIONS => {
            all.iter().for_each(|value| leaves(value, depth + 1, out));
        }
        serde_json::Value::Object(all) if depth < MAX_CONDITIONS => {
            all.values().for_each(|value| leaves(value, depth + 1, out));
        }
        _ => {}
    }
}

/// True when Node loads a file of this name as data or types, or not as JavaScript.
fn is_no_script(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    [".json", ".d.ts", ".d.mts", ".d.cts", ".css", ".wasm", ".node"].iter().any(|end| lower.ends_with(end))
}

fn toml(cx: &mut Cx<'_>, text: &str, kind: &str) -> PartState {
    let Ok(table) = text.parse::<toml::Table>() else {
        plain(cx, text);
        return PartState::Recovered;
    };
    if table.get("build-system").and_then(|b| b.get("backend-path")).is_some() {
        cx.fact(Language::Text, "build.own_backend", place(text, "backend-path"));
    }
    fields::read_toml(cx, text, &table, kind == "any");
    let named =
        |section: Option<&toml::Value>| section.and_then(|one| one.get("name")?.as_str().map(str::to_owned));
    let poetry = table.get("tool").and_then(|tool| tool.get("poetry"));
    if let Some(name) = named(table.get("project")).or_else(|| named(poetry)) {
        tell_copied(cx, &name, python_names(&table).into_iter(), place(text, &name));
    }
    // A compiler of the project's own, by rustup.
    if table.get("toolchain").and_then(|chain| chain.get("path")).is_some() {
        cx.fact(Language::Text, "build.own_program", place(text, "path"));
    }
    // A build script of another name, and the sources that Cargo compiles whatever they are called.
    let package = table.get("package").and_then(|package| package.get("build"));
    if let Some(path) = package.and_then(toml::Value::as_str) {
        cx.hand(HandedSource::File(path.to_owned()), Executed::As(Language::Rust));
    }
    if kind == "cargo" {
        let build = table.get("build").and_then(|b| b.as_table()).into_iter().flatten();
        let targets = table
            .get("target")
            .and_then(|t| t.as_table())
            .into_iter()
            .flatten()
            .filter_map(|(_, t)| t.as_table())
            .flatten();
        for (key, _) in build.chain(targets).filter(|(key, _)| {
            matches!(
                key.as_str(),
                "rustc" | "rustc-wrapper" | "rustc-workspace-wrapper" | "rustdoc" | "runner" | "linker"
            )
        }) {
            cx.fact(Language::Text, "build.own_program", place(text, key));
        }
    }
    plain(cx, text);
    PartState::Parsed
}

/// Commands in git's settings, further settings files, and hooks.
fn git(cx: &mut Cx<'_>, text: &str) -> PartState {
    let found = settings(text.as_bytes());
    let state = if found.is_ok() { PartState::Parsed } else { PartState::Recovered };
    // A file that git itself rejects is still read line by line.
    let all = found.unwrap_or_else(|_| text.lines().filter_map(one).collect());
    for Setting { section, name, value } in all {
        let value = String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
        let at = place(text, value.split(['"', '\\']).next().unwrap_or(""));
        match runs(&section, &name, &value) {
            Some(Runs::Command(command)) => cx.child(Language::Bash, &command, at, &["recipe"]),
            Some(Runs::Hooks(files)) => {
                for path in files {
                    cx.hand(HandedSource::Program(path), Executed::As(Language::Bash));
                }
            }
            Some(Runs::Settings(path)) => {
                cx.hand(HandedSource::GitSettings(path), Executed::As(Language::Bash));
            }
            None => {}
        }
    }
    plain(cx, text);
    state
}

/// A setting in a single line of an invalid file.
fn one(line: &str) -> Option<Setting> {
    let line = line.rsplit_once(']').map_or(line, |(_, rest)| rest);
    let (name, value) = line.split_once('=')?;
    let value = value.trim().trim_matches('"').replace("\\\"", "\"");
    Some(Setting {
        section: String::new(),
        name: name.trim().to_ascii_lowercase(),
        value: Some(value.into_bytes()),
    })
}

fn npmrc(cx: &mut Cx<'_>, text: &str) -> PartState {
    for key in ["node-options", "script-shell", "onload-script"] {
        if text.lines().any(|line| line.trim_start().starts_with(key)) {
            cx.fact(Language::Text, "build.own_program", place(text, key));
        }
    }
    fields::in_npmrc(cx, text);
    plain(cx, text);
    PartState::Parsed
}

/// Commands run during configuration of the build.
fn cmake(cx: &mut Cx<'_>, text: &str) -> PartState {
    let lower = text.to_ascii_lowercase();
    for call in ["execute_process", "exec_program", "add_custom_command", "add_custom_target"] {
        for (at, _) in lower.match_indices(call) {
            let Some(inner) = text[at..].split_once('(').map(|(_, rest)| &rest[..closing(rest)]) else {
                continue;
            };
            for command in inner.split("COMMAND").skip(1) {
                let end = [
                    "WORKING_DIRECTORY",
                    "OUTPUT_VARIABLE",
                    "RESULT_VARIABLE",
                    "ERROR_VARIABLE",
                    "DEPENDS",
                    "COMMENT",
                    "VERBATIM",
                ]
                .iter()
                .filter_map(|k| command.find(k))
                .min();
                cx.child(
                    Language::Bash,
                    command[..end.unwrap_or(command.len())].trim(),
                    (at, at + call.len()),
                    &["recipe"],
                );
            }
        }
    }
    PartState::Parsed
}

/// Instructions that run commands, with continuations and here-documents.
fn dockerfile(cx: &mut Cx<'_>, text: &str) -> PartState {
    let mut at = 0;
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(first) = lines.next() {
        let start = at;
        at += first.len();
        let mut whole = first.trim().to_owned();
        while whole.ends_with('\\')
            && let Some(next) = lines.next()
        {
            at += next.len();
            whole.pop();
            whole.push_str(if next.trim_start().starts_with('#') { "\\" } else { next.trim() });
        }
        let mut words = whole.splitn(2, char::is_whitespace);
        let (mut key, mut rest) =
            (words.next().unwrap_or("").to_ascii_uppercase(), words.next().unwrap_or("").trim().to_owned());
        if key == "ONBUILD" {
            cx.fact(Language::Text, "docker.onbuild", (start, at));
            let (inner, more) = rest.split_once(char::is_whitespace).unwrap_or((&rest, ""));
            (key, rest) = (inner.to_ascii_uppercase(), more.to_owned());
        }
        match key.as_str() {
            "RUN" | "CMD" | "ENTRYPOINT" | "HEALTHCHECK" | "SHELL" => {
                while let Some(option) = rest.strip_prefix("--") {
                    if option.starts_with("mount=type=ssh") || option.starts_with("security=insecure") {
                        cx.fact(Language::Text, "docker.privileged", (start, at));
                    }
                    rest = option
                        .split_once(char::is_whitespace)
                        .map_or_else(String::new, |(_, rest)| rest.trim().to_owned());
                }
                if let Some(mark) = rest.strip_prefix("<<") {
                    let mark = mark.trim_start_matches('-').trim_matches(['"', '\'']).to_owned();
                    let mut body = String::new();
                    for line in lines.by_ref() {
                        at += line.len();
                        if line.trim() == mark {
                            break;
                        }
                        body.push_str(line);
                    }
                    rest = body;
                }
                let script = match serde_json::from_str::<Vec<String>>(&rest) {
                    Ok(words) => words
                        .iter()
                        .map(|w| format!("'{}'", w.replace('\'', "'\\''")))
                        .collect::<Vec<_>>()
                        .join(" "),
                    Err(_) => rest.trim_start_matches("CMD ").to_owned(),
                };
                // Only these run in the image that is being built; the others run in its containers, with
                // their volumes.
                let step = if key == "RUN" { "image" } else { "recipe" };
                cx.child(Language::Bash, &script, (start, at), &[step]);
            }
            "ADD" if rest.contains("://") => cx.fact(Language::Text, "docker.add_remote", (start, at)),
            _ => {}
        }
    }
    plain(cx, text);
    PartState::Parsed
}

fn yaml(cx: &mut Cx<'_>, name: &str, text: &str, workflow: bool) -> PartState {
    use serde::Deserialize;
    plain(cx, text);
    if crate::limits::towers(text) {
        cx.not_read("brackets nested too deeply");
        return PartState::Skipped("brackets nested too deeply".to_owned());
    }
    if let Some(at) = all_secrets(text).filter(|_| workflow) {
        cx.fact(Language::Text, "ci.all_secrets", at);
    }
    let documents: Result<Vec<Yaml>, _> =
        serde_yaml_ng::Deserializer::from_str(text).map(Yaml::deserialize).collect();
    let Ok(documents) = documents else { return PartState::Recovered };
    for document in &documents {
        let foreign = workflow && is_of_strangers(document, text);
        walk(cx, text, document, foreign, workflow, 0);
        if workflow {
            hands_over(cx, text, document);
        }
        if let Some(name) = cluster::open_to_everyone(document) {
            cx.fact(Language::Text, "cluster.open", place(text, name));
        }
        for near in mounts::of_whole_disk(document) {
            cx.fact(Language::Text, "container.privileged", place(text, near));
        }
    }
    fields::read_yaml(cx, name, text, &documents);
    PartState::Parsed
}

/// Reports steps of a workflow that hand over what they should keep.
fn hands_over(cx: &mut Cx<'_>, text: &str, document: &Yaml) {
    for near in workflow::unasked_agents(document) {
        cx.fact(Language::Text, "ci.agent", place(text, near));
    }
    for path in workflow::kept(document) {
        let value = [Value::text(&workflow::plain(path))];
        cx.fact_with(Language::Text, "ci.kept", place(text, path), &value, 0);
    }
}

/// True for a workflow that a stranger's pull request starts with the secrets of the repository. A run after
/// another workflow is one, unless it names the branches, or asks for a push, as deployments do.
fn is_of_strangers(document: &Yaml, text: &str) -> bool {
    let events = document.get("on");
    let has = |name: &str| match events {
        Some(Yaml::String(event)) => event == name,
        Some(Yaml::Sequence(list)) => list.iter().any(|event| event.as_str() == Some(name)),
        Some(Yaml::Mapping(map)) => map.contains_key(name),
        _ => text.contains(name),
    };
    let dense: String = text.chars().filter(|c| !c.is_whitespace() && *c != '"').collect();
    let is_pushed = dense.contains("github.event.workflow_run.event=='push'");
    let branches = events.and_then(|events| events.get("workflow_run")?.get("branches"));
    let named = match branches {
        Some(Yaml::Sequence(list)) => {
            !list.is_empty() && list.iter().all(|branch| branch.as_str().is_some_and(|b| !b.contains('*')))
        }
        Some(Yaml::String(branch)) => !branch.contains('*'),
        _ => false,
    };
    has("pull_request_target") || has("workflow_run") && !named && !is_pushed
}

/// Place of an expression that writes out every secret of a workflow.
fn all_secrets(text: &str) -> Option<(usize, usize)> {
    text.match_indices("${{").find_map(|(at, _)| {
        let inner = text[at + 3..].split("}}").next()?;
        let dense: String =
            inner.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
        dense.contains("tojson(secrets)").then_some((at, at + 3 + inner.len()))
    })
}

/// Language of a step's script, where the step names a program for it or is a script for an action.
fn language_of_step(map: &serde_yaml_ng::Mapping) -> Option<Language> {
    let text = |key: &str| map.get(key).and_then(Yaml::as_str);
    let shell = text("shell").and_then(|shell| shell.split_whitespace().next()).map(basename);
    match shell.map(|shell| shell.trim_end_matches(".exe")) {
        Some("python" | "python3") => Some(Language::Python),
        Some("node") => Some(Language::JavaScript),
        Some("pwsh" | "powershell") => Some(Language::PowerShell),
        _ => None,
    }
}

/// Commands and privileges at any level: workflows, pipelines, compose files and cluster manifests alike.
fn walk(cx: &mut Cx<'_>, text: &str, value: &Yaml, foreign: bool, elsewhere: bool, depth: usize) {
    if depth > 64 || !cx.tick() {
        return;
    }
    match value {
        Yaml::Mapping(map) => {
            let language = language_of_step(map);
            let of_script = map.get("uses").and_then(Yaml::as_str).is_some_and(|uses| {
                uses.split('@').next().is_some_and(|action| action.ends_with("/github-script"))
            });
            for (key, value) in map {
                let key = key.as_str().unwrap_or("");
                if let (true, "with", Yaml::Mapping(with)) = (of_script, key, value) {
                    if let Some(script) = with.get("script").and_then(Yaml::as_str) {
                        let plain = without_expressions(script, "null");
                        cx.child(Language::JavaScript, &plain, place(text, script), &["workflow"]);
                    }
                    continue;
                }
                if let (Some(language), "run", Yaml::String(script)) = (language, key, value) {
                    let plain = without_expressions(script, "0");
                    cx.child(language, &plain, place(text, script), &["workflow"]);
                    continue;
                }
                if let ("env", Yaml::Mapping(variables)) = (key, value) {
                    for (name, value) in variables {
                        let (Some(name), Some(value)) = (name.as_str(), value.as_str()) else { continue };
                        exported(cx, name, value, place(text, name));
                    }
                }
                match (key, value) {
                    (
                        "run" | "script" | "before_script" | "after_script" | "command" | "entrypoint",
                        Yaml::String(script),
                    ) => command(cx, text, script, foreign, elsewhere),
                    // Of agents (`lint-cmd`), pipelines of data (`cmd`) and others.
                    (key, Yaml::String(script))
                        if key == "cmd" || key.ends_with("-cmd") || key.ends_with("_cmd") =>
                    {
                        command(cx, text, script, foreign, elsewhere);
                    }
                    ("script" | "before_script" | "after_script", Yaml::Sequence(list)) => {
                        let script: Vec<&str> = list.iter().filter_map(Yaml::as_str).collect();
                        command(cx, text, &script.join("\n"), foreign, elsewhere);
                    }
                    ("command" | "entrypoint" | "args", Yaml::Sequence(list)) => {
                        let words: Vec<String> = list
                            .iter()
                            .filter_map(Yaml::as_str)
                            .map(|w| format!("'{}'", w.replace('\'', "'\\''")))
                            .collect();
                        cx.child(
                            Language::Bash,
                            &words.join(" "),
                            place(text, list.first().and_then(Yaml::as_str).unwrap_or("")),
                            &["recipe"],
                        );
                    }
                    ("privileged" | "hostPID" | "hostNetwork" | "hostIPC", Yaml::Bool(true)) => {
                        cx.fact(Language::Text, "container.privileged", place(text, key));
                    }
                    // A stranger's code, in a workflow that has the secrets of the repository.
                    ("ref" | "repository", Yaml::String(of)) if foreign && is_foreign(of) => {
                        cx.fact(Language::Text, "ci.foreign_checkout", place(text, of));
                    }
                    ("pid" | "network_mode" | "ipc" | "userns_mode", Yaml::String(mode))
                        if mode == "host" =>
                    {
                        cx.fact(Language::Text, "container.privileged", place(text, key));
                    }
                    _ => {}
                }
                walk(cx, text, value, foreign, elsewhere, depth + 1);
            }
        }
        Yaml::Sequence(list) => {
            list.iter().for_each(|value| walk(cx, text, value, foreign, elsewhere, depth + 1));
        }
        Yaml::Tagged(tagged) => walk(cx, text, &tagged.value, foreign, elsewhere, depth + 1),
        _ => {}
    }
}

fn command(cx: &mut Cx<'_>, text: &str, script: &str, foreign: bool, elsewhere: bool) {
    let at = place(text, script);
    if script.contains("${{ github.event.") || foreign && script.contains("${{ github.head_ref") {
        cx.fact(Language::Text, if foreign { "ci.injection_foreign" } else { "ci.injection" }, at);
    }
    // The workflow's own expressions are unknown words.
    let plain = without_expressions(script, "${EXPRESSION}");
    cx.child(Language::Bash, &plain, at, &[if elsewhere { "workflow" } else { "recipe" }]);
}

/// True for an expression that names the code of a pull request, as checked out from its author.
fn is_foreign(text: &str) -> bool {
    let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    ["github.event.pull_request.head.", "github.head_ref", "refs/pull/", "github.event.workflow_run.head_"]
        .iter()
        .any(|name| dense.contains(name))
}

/// A script with another text in place of a workflow's expressions.
fn without_expressions(script: &str, by: &str) -> String {
    let mut plain = String::with_capacity(script.len());
    let mut rest = script;
    while let Some((before, after)) = rest.split_once("${{") {
        plain.push_str(before);
        plain.push_str(by);
        rest = after.split_once("}}").map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    plain
}

/// Reads a variable that makes other programs load a file, as a shell's `export`.
pub(in crate::ingest) fn exported(cx: &mut Cx<'_>, name: &str, value: &str, at: (usize, usize)) {
    let loads = match name {
        "LD_PRELOAD"
        | "LD_AUDIT"
        | "DYLD_INSERT_LIBRARIES"
        | "BASH_ENV"
        | "PYTHONSTARTUP"
        | "PROMPT_COMMAND" => !value.trim().is_empty(),
        "NODE_OPTIONS" => ["-r ", "--require", "--import", "--loader", "--experimental-loader"]
            .iter()
            .any(|option| value.contains(option)),
        "PERL5OPT" | "RUBYOPT" => value.contains("-M") || value.contains("-r"),
        _ => false,
    };
    if loads {
        let quoted = value.replace('\'', "'\\''");
        cx.child(Language::Bash, &format!("export {name}='{quoted}'"), at, &["recipe"]);
    }
}
