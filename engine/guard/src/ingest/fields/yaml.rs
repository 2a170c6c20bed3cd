//! Commands in YAML, by the tool that reads the file: beyond the keys that mean the same to many tools.

use super::{MAX_DEPTH, literals, quoted, without_expressions};
use crate::context::Cx;
use crate::ingest::manifest::place;
use crate::language::Language;
use crate::rules::basename;
use serde_yaml_ng::Value as Yaml;

/// Maximum number of look-ups in a value.
const MAX_LOOKUPS: usize = 16;

/// Tool that reads a file, and so its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    PreCommit,
    Taskfile,
    CloudInit,
    Ansible,
    Gitpod,
    /// A service that builds elsewhere.
    Pipeline,
}

fn tool(name: &str, text: &str, documents: &[Yaml]) -> Option<Tool> {
    let base = basename(name).to_ascii_lowercase();
    let stem = base.rsplit_once('.').map_or(&*base, |(stem, _)| stem);
    Some(match stem {
        ".pre-commit-config" | ".pre-commit-hooks" | "pre-commit-config" => Tool::PreCommit,
        "taskfile" | "taskfile.dist" => Tool::Taskfile,
        ".gitpod" => Tool::Gitpod,
        ".travis" | ".appveyor" | "appveyor" | ".drone" | ".woodpecker" | "buildspec" | ".cirrus"
        | "cloudbuild" => Tool::Pipeline,
        _ if text.starts_with("#cloud-config") => Tool::CloudInit,
        _ if documents.iter().any(is_of_ansible) => Tool::Ansible,
        _ => return None,
    })
}

/// True for a playbook or a list of tasks: a list whose elements have a module, or tasks.
fn is_of_ansible(document: &Yaml) -> bool {
    let Yaml::Sequence(list) = document else { return false };
    list.iter().filter_map(Yaml::as_mapping).any(|map| {
        map.keys().filter_map(Yaml::as_str).any(|key| {
            MODULES.contains(&key)
                || key.contains('.')
                || matches!(key, "hosts" | "tasks" | "block" | "roles" | "import_playbook")
        })
    })
}

/// Modules of Ansible that run a command.
const MODULES: &[&str] = &["shell", "command", "raw", "win_shell", "win_command", "script", "expect"];

/// Reads the commands of a file.
pub(in crate::ingest) fn read(cx: &mut Cx<'_>, name: &str, text: &str, documents: &[Yaml]) {
    if let Some(tool) = tool(name, text, documents) {
        documents.iter().for_each(|document| walk(cx, text, document, tool, 0));
    }
}

/// Reads a file of cloud-init that has no ending.
pub(super) fn cloud_init(cx: &mut Cx<'_>, text: &str) {
    if text.starts_with("#cloud-config")
        && !crate::limits::towers(text)
        && let Ok(document) = serde_yaml_ng::from_str::<Yaml>(text)
    {
        walk(cx, text, &document, Tool::CloudInit, 0);
    }
}

fn walk(cx: &mut Cx<'_>, text: &str, value: &Yaml, tool: Tool, depth: usize) {
    if depth > MAX_DEPTH || !cx.tick() {
        return;
    }
    match value {
        Yaml::Mapping(map) => {
            let of = |key: &str| map.get(key).and_then(Yaml::as_str);
            for (key, value) in map {
                let key = key.as_str().unwrap_or("");
                let runs = match tool {
                    // The entry of these is a pattern, the name of an image, or a message.
                    Tool::PreCommit => {
                        key == "entry" && !matches!(of("language"), Some("pygrep" | "docker_image" | "fail"))
                    }
                    Tool::Taskfile => {
                        matches!(key, "cmds" | "cmd" | "sh" | "status" | "preconditions" | "defer")
                    }
                    Tool::CloudInit => matches!(key, "runcmd" | "bootcmd"),
                    Tool::Gitpod => matches!(key, "init" | "before" | "prebuild"),
                    Tool::Ansible => {
                        let module = key
                            .strip_prefix("ansible.builtin.")
                            .or_else(|| key.strip_prefix("ansible.windows."));
                        MODULES.contains(&module.unwrap_or(key))
                    }
                    Tool::Pipeline => matches!(
                        key,
                        "install"
                            | "before_install"
                            | "before_script"
                            | "after_script"
                            | "after_success"
                            | "after_failure"
                            | "before_build"
                            | "build_script"
                            | "test_script"
                            | "before_test"
                            | "after_test"
                            | "deploy_script"
                            | "commands"
                            | "before_deploy"
                            | "after_deploy"
                            | "on_success"
                            | "on_failure"
                            | "on_finish"
                            | "init"
                    ),
                };
                if runs {
                    command(cx, text, value, tool, 0);
                }
                if tool == Tool::Ansible && matches!(key, "file" | "ansible.builtin.file") {
                    removed(cx, text, value);
                }
                walk(cx, text, value, tool, depth + 1);
            }
        }
        Yaml::Sequence(list) => list.iter().for_each(|value| walk(cx, text, value, tool, depth + 1)),
        Yaml::String(line) if tool == Tool::Ansible => looked_up(cx, text, line),
        Yaml::Tagged(tagged) => walk(cx, text, &tagged.value, tool, depth + 1),
        _ => {}
    }
}

/// A command line, a list of words or of command lines, or a mapping with one.
fn command(cx: &mut Cx<'_>, text: &str, value: &Yaml, tool: Tool, depth: usize) {
    let step = if tool == Tool::Pipeline { "workflow" } else { "recipe" };
    match value {
        Yaml::String(line) => {
            let (open, close) = if tool == Tool::Pipeline { ("${{", "}}") } else { ("{{", "}}") };
            let script = without_expressions(line, open, close);
            cx.child(Language::Bash, &script, place(text, line), &[step]);
        }
        // cloud-init: a list in the list is a command by its words.
        Yaml::Sequence(list) if tool == Tool::CloudInit && depth > 0 => {
            let words: Vec<String> = list.iter().filter_map(Yaml::as_str).map(str::to_owned).collect();
            let near = words.last().cloned().unwrap_or_default();
            cx.child(Language::Bash, &quoted(&words), place(text, &near), &[step]);
        }
        Yaml::Sequence(list) if depth < 4 => {
            // The lines of a list share variables and files.
            let lines: Option<Vec<&str>> = list.iter().map(Yaml::as_str).collect();
            match lines {
                Some(lines) if !lines.is_empty() => {
                    let script = without_expressions(&lines.join("\n"), "{{", "}}");
                    cx.child(Language::Bash, &script, place(text, lines[0]), &[step]);
                }
                _ => list.iter().for_each(|value| command(cx, text, value, tool, depth + 1)),
            }
        }
        Yaml::Mapping(map) => {
            if let Some(line) = map.get("cmd").filter(|_| tool == Tool::Ansible) {
                command(cx, text, line, tool, depth + 1);
            }
            if let Some(list) = map.get("argv").and_then(Yaml::as_sequence) {
                let words: Vec<String> = list.iter().filter_map(Yaml::as_str).map(str::to_owned).collect();
                cx.child(Language::Bash, &quoted(&words), place(text, "argv"), &[step]);
            }
        }
        _ => {}
    }
}

/// `{{ lookup('pipe', 'COMMAND') }}`: a command whose output is the value, on the machine that manages the others.
fn looked_up(cx: &mut Cx<'_>, text: &str, value: &str) {
    let found = lookups(value);
    if found.len() > MAX_LOOKUPS {
        cx.not_read("more look-ups in a value than are read");
    }
    for line in found.into_iter().take(MAX_LOOKUPS) {
        command(cx, text, &Yaml::String(line), Tool::Ansible, 0);
    }
}

/// Commands of the look-ups in a value; at most one more than are read.
fn lookups(value: &str) -> Vec<String> {
    let found = value.match_indices("pipe").filter_map(|(at, _)| {
        let before = &value[..at];
        let before = before.strip_suffix("ansible.builtin.").unwrap_or(before);
        let before = before.trim_end_matches(['\'', '"']).trim_end();
        let rest = value[at + "pipe".len()..].trim_start_matches(['\'', '"']).trim_start();
        let called = ["lookup(", "query(", "q("].iter().any(|call| before.ends_with(call));
        let line = rest.strip_prefix(',').filter(|_| called)?;
        literals(super::piece(line, 0)).into_iter().next()
    });
    found.take(MAX_LOOKUPS + 1).collect()
}

/// `file: {path: /x, state: absent}`.
fn removed(cx: &mut Cx<'_>, text: &str, value: &Yaml) {
    let Yaml::Mapping(map) = value else { return };
    let of = |key: &str| map.get(key).and_then(Yaml::as_str);
    let path = of("path").or_else(|| of("dest")).or_else(|| of("name"));
    if of("state") == Some("absent")
        && let Some(path) = path
    {
        let path = without_expressions(path, "{{", "}}");
        let line = format!("rm -rf -- \"{}\"", path.replace(['"', '`'], ""));
        cx.child(Language::Bash, &line, place(text, &path), &["recipe"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_ups_of_commands() {
        for (value, want) in [
            ("{{ lookup('pipe', 'id') }}", &["id"][..]),
            ("{{ lookup('ansible.builtin.pipe', 'id') }}", &["id"]),
            ("{{ query( \"ansible.builtin.pipe\" , \"a b\" ) }}", &["a b"]),
            ("{{ lookup('file', 'pipe') }}", &[]),
            ("{{ lookup('my.builtin.pipe', 'id') }}", &[]),
            ("a pipe, 'id'", &[]),
        ] {
            assert_eq!(lookups(value), want, "{value}");
        }
        let hidden = format!("{} {{{{ lookup('pipe', 'id') }}}}", "pipe ".repeat(100));
        assert_eq!(lookups(&hidden), ["id"]);
        assert_eq!(lookups(&"q('pipe', 'id') ".repeat(100)).len(), MAX_LOOKUPS + 1);
    }
}
