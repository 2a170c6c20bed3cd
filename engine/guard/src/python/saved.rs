//! Files that a program writes and then starts, imports or loads, and programs that it gives to an
//! interpreter's standard input.

use super::call::Named;
use super::{Python, model};
use crate::language::Language;
use crate::report::StepKind;
use crate::value::{Const, HOLE, Origin, Value};
use std::rc::Rc;

/// Maximum number of written files that are remembered.
const MAX_SAVED: usize = 256;
/// Minimum number of letters and digits of a path by which it is recognised.
const MIN_KNOWN: usize = 3;

/// A file that was written.
pub(super) struct Saved {
    path: String,
    content: Value,
}

/// Form of a path by which two mentions of it are compared; `None` if too little of it is known.
fn key(path: &Value) -> Option<String> {
    if let Some(text) = path.as_text() {
        let text = text.trim_start_matches("./").replace('\\', "/");
        let known = text.chars().filter(|c| *c != HOLE && c.is_ascii_alphanumeric()).count();
        return (known >= MIN_KNOWN).then_some(text);
    }
    // A file whose name is made when the program runs.
    path.names
        .iter()
        .find(|name| name.starts_with("tempfile."))
        .map(|name| name.trim_end_matches(".name").to_string())
}

/// Path of an open file.
fn path_of(file: &Value) -> Option<&Value> {
    match &file.known {
        Some(Const::List(items)) if file.is_named("open()") => items.first(),
        _ => None,
    }
}

/// Language that a file with such a name is written in.
fn language(path: &str) -> Option<Language> {
    Some(match path.rsplit_once('.')?.1 {
        "py" | "pyw" => Language::Python,
        "sh" | "bash" => Language::Bash,
        "js" | "mjs" | "cjs" => Language::JavaScript,
        "ps1" => Language::PowerShell,
        _ => return None,
    })
}

/// Language of a text that its first line gives to an interpreter.
fn interpreted(text: &str) -> Option<Language> {
    let first = text.strip_prefix("#!")?.lines().next()?;
    let mut words = first.split_whitespace().map(crate::rules::basename).skip_while(|word| *word == "env");
    let program = words.next()?;
    Some(match program {
        _ if program.starts_with("python") => Language::Python,
        "node" => Language::JavaScript,
        "sh" | "bash" | "dash" | "zsh" | "ash" => Language::Bash,
        _ => return None,
    })
}

/// Words of the command lines that a value is: a list, or a text with several.
fn command_lines(value: &Value) -> Vec<Vec<String>> {
    match &value.known {
        Some(Const::List(items)) if !value.is_named("open()") => {
            vec![items.iter().take(16).map(|item| key(item).unwrap_or_default()).collect()]
        }
        Some(Const::Text(text)) => text
            .split([';', '&', '|', '\n'])
            .take(64)
            .map(|line| {
                let words = line.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
                words.map(|word| word.trim_start_matches("./").to_owned()).collect::<Vec<String>>()
            })
            .chain(key(value).map(|whole| vec![whole]))
            .collect(),
        _ => key(value).map(|whole| vec![vec![whole]]).unwrap_or_default(),
    }
}

impl Python<'_, '_, '_> {
    /// Remembers what a call writes, and reports what it starts of that.
    pub(super) fn saves_and_runs(
        &mut self,
        name: &str,
        object: Option<(&Value, &str)>,
        args: &[Value],
        kwargs: &[Named],
        at: (usize, usize),
    ) {
        let owner = object.map(|(owner, _)| owner);
        let method = object.map_or_else(|| name.rsplit('.').next().unwrap_or(name), |(_, method)| method);
        match (name, method) {
            ("urllib.request.urlretrieve" | "urllib.urlretrieve" | "wget.download", _) => {
                let path = args.get(1).or_else(|| {
                    kwargs.iter().find(|(k, _)| matches!(&**k, "filename" | "out")).map(|(_, v)| v)
                });
                if let Some(path) = path.cloned() {
                    let url = args
                        .first()
                        .and_then(Value::as_whole_text)
                        .map(|url| Rc::from(format!("fetch:{url}")));
                    let content = Value { names: url.into_iter().collect(), ..Value::default() };
                    self.save(
                        &path,
                        content.with_origin(Origin::NET).stepped(StepKind::Source, name, at),
                        at,
                    );
                }
            }
            ("shutil.copyfileobj", _) => {
                if let [from, to, ..] = args
                    && let Some(path) = path_of(to).cloned()
                {
                    self.save(&path, from.clone(), at);
                }
            }
            ("os.write", _) => {
                if let [to, content, ..] = args {
                    self.save(&to.clone(), content.clone(), at);
                }
            }
            (_, "write" | "writelines") => {
                if let (Some(file), Some(content)) = (owner, args.first()) {
                    let path = path_of(file).unwrap_or(file).clone();
                    self.save(&path, content.clone(), at);
                }
            }
            (_, "write_text" | "write_bytes") => {
                if let (Some(path), Some(content)) = (owner, args.first()) {
                    self.save(&path.clone(), content.clone(), at);
                }
            }
            _ => {}
        }
        if self.emit && !self.flow.saved.is_empty() {
            self.runs_saved(name, args, kwargs, at);
        }
    }

    /// Remembers the content of a file, and reads a script that its first line gives to an interpreter.
    fn save(&mut self, path: &Value, content: Value, at: (usize, usize)) {
        let script = content.as_text().and_then(|text| Some((interpreted(text)?, text)));
        if let Some((language, text)) = script.filter(|_| self.emit) {
            let chain = if content.chain.is_empty() { vec!["file"] } else { content.chain.clone() };
            self.cx.child(language, text, at, &chain);
        }
        let Some(path) = key(path) else { return };
        if self.flow.saved.len() < MAX_SAVED
            && !self.flow.saved.iter().any(|s| s.path == path && s.content.origin == content.origin)
        {
            self.flow.saved.push(Saved { path, content });
        }
    }

    fn runs_saved(&mut self, name: &str, args: &[Value], kwargs: &[Named], at: (usize, usize)) {
        let started = model::spawns(name).is_some()
            || model::sink(name).is_some_and(|(language, _)| language == Language::Bash)
            || matches!(
                name,
                "runpy.run_path"
                    | "importlib.util.spec_from_file_location"
                    | "imp.load_source"
                    | "importlib.machinery.SourceFileLoader"
                    | "importlib.import_module"
                    | "__import__"
                    | "exec"
                    | "eval"
                    | "execfile"
                    | "os.startfile"
                    | "ctypes.CDLL"
                    | "ctypes.WinDLL"
                    | "ctypes.cdll.LoadLibrary"
                    // An archive or a folder that modules are imported from.
                    | "sys.path.insert"
                    | "sys.path.append"
                    | "zipimport.zipimporter"
            );
        if !started {
            return;
        }
        let is_import = matches!(name, "importlib.import_module" | "__import__");
        let position = match model::spawns(name) {
            Some(model::Spawn::List(at) | model::Spawn::Rest(at)) => at,
            Some(model::Spawn::Python) | None => 0,
        };
        let program = kwargs.iter().find(|(k, _)| matches!(&**k, "args" | "cmd" | "command")).map(|(_, v)| v);
        let mut words: Vec<String> = Vec::new();
        let lines: Vec<Vec<String>> = args
            .iter()
            .skip(position.saturating_sub(1))
            .take(3)
            .chain(program)
            .flat_map(command_lines)
            .collect();
        for line in &lines {
            words.extend(crate::rules::started(line).iter().cloned());
        }
        for value in args.iter().take(3) {
            // `exec(open(path).read())`.
            let read = value.names.iter().filter_map(|n| n.strip_prefix("file:"));
            words.extend(read.map(|n| n.trim_end_matches(".read()").trim_start_matches("./").to_owned()));
        }
        let mentions = |saved: &Saved| {
            words.iter().any(|word| {
                if is_import {
                    let module = word.replace('.', "/");
                    let stem = saved.path.strip_suffix(".py").and_then(|stem| stem.strip_suffix(&module));
                    return stem.is_some_and(|before| before.is_empty() || before.ends_with('/'));
                }
                word == &saved.path
                    || word.ends_with(&format!("/{}", saved.path)) && !saved.path.contains(HOLE)
            })
        };
        let found: Vec<(Value, String)> = self
            .flow
            .saved
            .iter()
            .filter(|saved| mentions(saved))
            .take(4)
            .map(|saved| (saved.content.clone(), saved.path.clone()))
            .collect();
        for (content, path) in found {
            let imports = name.starts_with("sys.path.") || name == "zipimport.zipimporter";
            let fact = if imports { "saved.import" } else { "saved.run" };
            self.fact_with(fact, &[content.clone(), Value::text(&path)], at);
            if let (Some(language), Some(text)) = (language(&path), content.as_whole_text()) {
                let chain = if content.chain.is_empty() { vec!["file"] } else { content.chain.clone() };
                self.cx.child(language, text, at, &chain);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_known_by_their_first_line() {
        for (text, language) in [
            ("#!/bin/sh\nid\n", Some(Language::Bash)),
            ("#!/usr/bin/env bash\n", Some(Language::Bash)),
            ("#!/usr/bin/python3 -I\n", Some(Language::Python)),
            ("#! /usr/bin/env node\n", Some(Language::JavaScript)),
            ("#!/usr/bin/perl\n", None),
            ("#!", None),
            ("echo\n#!/bin/sh\n", None),
        ] {
            assert_eq!(interpreted(text), language, "{text}");
        }
    }

    #[test]
    fn paths_are_recognised_by_what_is_known() {
        for (path, known) in [
            (Value::text("./run.sh"), Some("run.sh")),
            (Value::text("/tmp/x.py"), Some("/tmp/x.py")),
            (Value::text("\u{fffc}/a.sh"), Some("\u{fffc}/a.sh")),
            (Value::text("\u{fffc}"), None),
            (Value::name("tempfile.mkstemp()"), Some("tempfile.mkstemp()")),
            (Value::name("tempfile.NamedTemporaryFile().name"), Some("tempfile.NamedTemporaryFile()")),
            (Value::default(), None),
        ] {
            assert_eq!(key(&path).as_deref(), known, "{path:?}");
        }
    }
}
