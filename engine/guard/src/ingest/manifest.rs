//! Files that say what is to be run: package manifests, build files, container and workflow definitions.

use super::notebook::plain;
use crate::report::PartState;
use crate::rules::{Language, basename};
use crate::scan::Cx;
use serde_yaml_ng::Value as Yaml;

/// Reads a file that tools take commands from; `false` when it is none.
pub(super) fn read(cx: &mut Cx<'_>, name: &str, text: &str) -> bool {
    let base = basename(name).to_ascii_lowercase();
    let workflow = name.contains(".github/workflows/") || base == ".gitlab-ci.yml";
    match &*base {
        "package.json" => cx.read_as(name, "package.json", text, true, |cx| package(cx, text)),
        "pyproject.toml" | "cargo.toml" => cx.read_as(name, "toml", text, true, |cx| toml(cx, text, "")),
        "config.toml" | "config" if name.contains(".cargo/") => {
            cx.read_as(name, "toml", text, true, |cx| toml(cx, text, "cargo"));
        }
        ".npmrc" => cx.read_as(name, "npmrc", text, true, |cx| npmrc(cx, text)),
        "makefile" | "gnumakefile" => cx.read_as(name, "makefile", text, false, |cx| makefile(cx, text)),
        _ if base.ends_with(".mk") => cx.read_as(name, "makefile", text, false, |cx| makefile(cx, text)),
        _ if base == "cmakelists.txt" || base.ends_with(".cmake") => {
            cx.read_as(name, "cmake", text, true, |cx| cmake(cx, text));
        }
        _ if base == "dockerfile"
            || base == "containerfile"
            || base.ends_with(".dockerfile")
            || base.starts_with("dockerfile.") =>
        {
            cx.read_as(name, "dockerfile", text, false, |cx| dockerfile(cx, text));
        }
        _ if base.ends_with(".yml") || base.ends_with(".yaml") => {
            cx.read_as(name, "yaml", text, false, |cx| yaml(cx, text, workflow));
        }
        _ => return false,
    }
    true
}

/// Where a text stands in its file, as far as it stands there as it is.
fn place(text: &str, piece: &str) -> (usize, usize) {
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
    PartState::Parsed
}

fn toml(cx: &mut Cx<'_>, text: &str, kind: &str) -> PartState {
    let Ok(table) = text.parse::<toml::Table>() else {
        plain(cx, text);
        return PartState::Recovered;
    };
    if table.get("build-system").and_then(|b| b.get("backend-path")).is_some() {
        cx.fact(Language::Text, "build.own_backend", place(text, "backend-path"));
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

fn npmrc(cx: &mut Cx<'_>, text: &str) -> PartState {
    for key in ["node-options", "script-shell", "onload-script"] {
        if text.lines().any(|line| line.trim_start().starts_with(key)) {
            cx.fact(Language::Text, "build.own_program", place(text, key));
        }
    }
    plain(cx, text);
    PartState::Parsed
}

/// Recipes, and what `$(shell …)` runs while the file is read.
fn makefile(cx: &mut Cx<'_>, text: &str) -> PartState {
    let mut recipe = String::new();
    for line in text.lines().chain([""]) {
        if let Some(command) = line.strip_prefix('\t') {
            recipe.push_str(command.trim_start_matches(['@', '-', '+']));
            recipe.push('\n');
        } else if !recipe.is_empty() && !line.is_empty() || line.is_empty() && !recipe.is_empty() {
            let script = variables(&recipe);
            cx.child(Language::Bash, &script, place(text, recipe.lines().next().unwrap_or("")), &["recipe"]);
            recipe.clear();
        }
    }
    for (at, _) in text.match_indices("$(shell ") {
        let inner = &text[at + "$(shell ".len()..];
        let end = closing(inner);
        cx.child(Language::Bash, &variables(&inner[..end]), (at, at + end), &["recipe"]);
    }
    PartState::Parsed
}

/// make's variables as the shell's: `$(X)` is not a command there, `$$` is a dollar.
fn variables(recipe: &str) -> String {
    let mut out = String::with_capacity(recipe.len());
    let mut rest = recipe;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some(inner) = rest.strip_prefix(['(', '{']) {
            let end = closing(inner);
            let name = &inner[..end];
            let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            out.push_str(&if plain { format!("${{{name}}}") } else { "${MAKE_VALUE}".to_owned() });
            rest = inner.get(end + 1..).unwrap_or("");
        } else {
            out.push_str("${MAKE_VALUE}");
            rest = rest.get(rest.chars().next().map_or(0, char::len_utf8)..).unwrap_or("");
        }
    }
    out + rest
}

/// Where the bracket that was opened before closes.
fn closing(inner: &str) -> usize {
    let mut depth = 1;
    inner
        .bytes()
        .position(|byte| {
            depth += match byte {
                b'(' | b'{' => 1,
                b')' | b'}' => -1,
                _ => 0,
            };
            depth == 0
        })
        .unwrap_or(inner.len())
}

/// What is run while the build is configured.
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

/// Instructions that run something, with continuations and here-documents.
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
                cx.child(Language::Bash, &script, (start, at), &["recipe"]);
            }
            "ADD" if rest.contains("://") => cx.fact(Language::Text, "docker.add_remote", (start, at)),
            _ => {}
        }
    }
    plain(cx, text);
    PartState::Parsed
}

fn yaml(cx: &mut Cx<'_>, text: &str, workflow: bool) -> PartState {
    use serde::Deserialize;
    plain(cx, text);
    if crate::limits::towers(text) {
        cx.not_read("brackets nested too deeply");
        return PartState::Skipped("brackets nested too deeply".to_owned());
    }
    let foreign = workflow && text.contains("pull_request_target");
    let documents: Result<Vec<Yaml>, _> =
        serde_yaml_ng::Deserializer::from_str(text).map(Yaml::deserialize).collect();
    let Ok(documents) = documents else { return PartState::Recovered };
    for document in &documents {
        walk(cx, text, document, foreign, workflow, 0);
    }
    PartState::Parsed
}

/// Commands and privileges, wherever they stand: workflows, pipelines, compose files and cluster manifests alike.
fn walk(cx: &mut Cx<'_>, text: &str, value: &Yaml, foreign: bool, elsewhere: bool, depth: usize) {
    if depth > 64 || !cx.tick() {
        return;
    }
    match value {
        Yaml::Mapping(map) => {
            for (key, value) in map {
                let key = key.as_str().unwrap_or("");
                match (key, value) {
                    (
                        "run" | "script" | "before_script" | "after_script" | "command" | "entrypoint",
                        Yaml::String(script),
                    ) => command(cx, text, script, foreign, elsewhere),
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
    let mut plain = String::with_capacity(script.len());
    let mut rest = script;
    while let Some((before, after)) = rest.split_once("${{") {
        plain.push_str(before);
        plain.push_str("${EXPRESSION}");
        rest = after.split_once("}}").map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    cx.child(Language::Bash, &plain, at, &[if elsewhere { "workflow" } else { "recipe" }]);
}
