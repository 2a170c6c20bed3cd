//! Makefiles: recipes in every syntax, the shell that runs them, commands run while the file is read, and
//! included files.
//!
//! Names assembled at run time are known in part: a hole replaces the rest.

use std::collections::BTreeMap;

use super::manifest::{exported, place};
use crate::command::make::{calls, closing, variables};
use crate::context::Cx;
use crate::executed::Executed;
use crate::language::Language;
use crate::report::{HandedSource, PartState};
use crate::rules::basename;
use crate::value::HOLE;

/// Maximum depth of nested values.
const MAX_VALUE_DEPTH: usize = 8;
/// Maximum size of an expanded value, in bytes.
const MAX_VALUE: usize = 4096;
/// Maximum nesting of texts that `$(eval …)` turns into rules.
const MAX_EVALS: usize = 4;

/// Reads a makefile.
pub(super) fn makefile(cx: &mut Cx<'_>, text: &str) -> PartState {
    read(cx, text, 0)
}

fn read(cx: &mut Cx<'_>, text: &str, depth: usize) -> PartState {
    let known = values(text);
    included(cx, text, &known);
    let shell = shell(cx, text, &known);
    let prefixes = prefixes(text);
    let is_recipe = |line: &str| line.starts_with('\t') || line.starts_with(prefixes.as_slice());
    let run = |cx: &mut Cx<'_>, recipe: &str, whole: &str| {
        let script = variables(recipe);
        let at = place(text, whole);
        cx.child(Language::Bash, &script, at, &["recipe"]);
        if let Some(language) = shell.filter(|language| *language != Language::Bash) {
            cx.child(language, &script, at, &["recipe"]);
        }
    };
    let mut recipe = String::new();
    for line in text.lines().chain([""]) {
        if is_recipe(line) {
            let mut chars = line.chars();
            chars.next();
            recipe.push_str(chars.as_str().trim_start_matches(['@', '-', '+']));
            recipe.push('\n');
        } else if !recipe.is_empty() {
            run(cx, &recipe, recipe.lines().next().unwrap_or(""));
            recipe.clear();
        }
    }
    // The value may be a recipe, or rules.
    for body in defined(text) {
        run(cx, body, body);
        if depth < MAX_EVALS && body.lines().any(|line| line.starts_with('\t') || line.contains(':')) {
            read(cx, body, depth + 1);
        }
    }
    // `target: needs ; recipe`, and `NAME != command`.
    for line in text.lines().filter(|line| !line.starts_with('#') && !is_recipe(line)) {
        let rule = line.split_once(':').filter(|(_, rest)| !rest.starts_with('='));
        let recipe = rule.and_then(|(_, rest)| rest.split_once(';')).map(|(_, recipe)| recipe);
        let command =
            line.split_once("!=").filter(|(name, _)| !name.trim().contains(' ')).map(|(_, command)| command);
        for script in [recipe, command].into_iter().flatten() {
            run(cx, script.trim_start_matches(['@', '-', '+', ' ']), line);
        }
    }
    calls(text, "shell", |at, inner| {
        cx.child(Language::Bash, &variables(inner), (at, at + inner.len()), &["recipe"]);
    });
    evaluated(cx, text, depth);
    if depth == 0 {
        for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("export ")) {
            if let Some((name, value)) = line.split_once('=') {
                exported(cx, name.trim_end_matches([':', '?', '+', ' ']), value.trim(), place(text, line));
            }
        }
        if let Some(line) = fetched_rules(text) {
            cx.fact(Language::Text, "make.fetched", place(text, line));
        }
    }
    PartState::Parsed
}

/// Line that makes rules out of what a command fetched: `$(X)` or `$(eval $(X))` for `X := $(shell curl …)`, an
/// included file that a recipe fetches.
fn fetched_rules(text: &str) -> Option<&str> {
    let fetches = |value: &str| {
        value
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .any(|word| matches!(word, "curl" | "wget"))
    };
    let mut names = Vec::new();
    let mut targets = Vec::new();
    let mut target = "";
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if line.starts_with('\t') {
            if fetches(line) && !target.is_empty() {
                targets.push(target);
            }
            continue;
        }
        if let Some((name, value)) = line.split_once('=') {
            let run = name.ends_with('!') || value.contains("$(shell ") || value.contains("${shell ");
            if run && fetches(value) {
                names.push(name.trim_end_matches([':', '?', '+', '!', ' ']).trim());
            }
        }
        target = line
            .split_once(':')
            .filter(|(_, rest)| !rest.starts_with('='))
            .map_or("", |(name, _)| name.trim());
    }
    let of_name = |line: &str| {
        let line = line.trim();
        names.iter().any(|name| {
            [format!("$({name})"), format!("${{{name}}}")].iter().any(|used| {
                line == used || line.strip_prefix("$(eval ").is_some_and(|rest| rest.starts_with(&**used))
            })
        })
    };
    text.lines().filter(|line| !line.starts_with('\t')).find(|line| {
        let included = line
            .trim_start()
            .split_once([' ', '\t'])
            .filter(|(word, _)| matches!(*word, "include" | "-include" | "sinclude"));
        of_name(line)
            || included.is_some_and(|(_, files)| files.split_whitespace().any(|file| targets.contains(&file)))
    })
}

/// Rules made by `$(eval …)`. Definitions in this file are read where they are; assembled text is not read.
fn evaluated(cx: &mut Cx<'_>, text: &str, depth: usize) {
    let mut all = Vec::new();
    calls(text, "eval", |_, inner| all.push(inner.to_owned()));
    for inner in all {
        let called = inner
            .strip_prefix("$(call ")
            .or_else(|| inner.strip_prefix("${call "))
            .map(|rest| rest.split([',', ')', '}']).next().unwrap_or("").trim());
        let is_defined = called.is_some_and(|name| {
            text.lines().any(|line| {
                line.trim_start()
                    .strip_prefix("define ")
                    .is_some_and(|rest| rest.split([' ', '=']).next() == Some(name))
            })
        });
        if is_defined {
            continue;
        }
        if depth < MAX_EVALS && !inner.contains('$') {
            read(cx, &inner, depth + 1);
        } else if inner.contains("$$")
            || inner.contains("(file ")
            || inner.contains("(shell ")
            || called.is_some()
            || !inner.contains('=')
        {
            // Rules known only when make runs.
            cx.hand(HandedSource::Text, Executed::Unread("makefile".to_owned()));
        }
    }
}

/// Bodies of `define NAME … endef`.
fn defined(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut begins: Option<usize> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let word = line.split_whitespace().next().unwrap_or("");
        match (word, begins) {
            ("define", None) => begins = Some(at + line.len()),
            ("override", None) if line.contains("define ") => begins = Some(at + line.len()),
            ("endef", Some(from)) => {
                out.push(&text[from..at]);
                begins = None;
            }
            _ => {}
        }
        at += line.len();
    }
    // A definition without an end extends to the end of the file.
    out.extend(begins.map(|from| &text[from..]));
    out
}

/// Characters that begin a recipe, when the file sets another than tab.
fn prefixes(text: &str) -> Vec<char> {
    let values = text.lines().filter_map(|line| line.trim_start().strip_prefix(".RECIPEPREFIX"));
    values
        .filter_map(|rest| rest.split_once('=').and_then(|(_, value)| value.trim_start().chars().next()))
        .collect()
}

/// Language of the shell that the file sets for its recipes; a program of the project is reported as
/// executed.
fn shell(cx: &mut Cx<'_>, text: &str, known: &BTreeMap<String, String>) -> Option<Language> {
    let mut found = None;
    let names_shell = |line: &&str| {
        let line = line.trim_start().trim_start_matches("override ").trim_start_matches("export ");
        // Also for a single target: `all: SHELL = x`.
        let name =
            line.split_once('=').map(|(name, _)| name.trim_end_matches([':', '?', '+', '!', ' ', '\t']));
        name.and_then(|name| name.split([':', ' ', '\t']).next_back()) == Some("SHELL")
    };
    for line in text.lines().filter(names_shell) {
        let value = line.split_once('=').map_or("", |(_, value)| value.trim());
        let value = expand(value, known, 0);
        // `SHELL = /bin/bash -c '…'`
        if value.contains(" -c ") {
            cx.child(Language::Bash, &value, place(text, line), &["recipe"]);
        }
        let mut words = value.split_whitespace();
        let mut program = words.next().unwrap_or("");
        if basename(program) == "env" {
            program = words.find(|word| !word.starts_with('-') && !word.contains('=')).unwrap_or("");
        }
        let base = basename(program).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        match base {
            "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "" if !program.starts_with('.') => {}
            "python" | "pypy" => found = Some(Language::Python),
            "node" | "nodejs" => found = Some(Language::JavaScript),
            _ if program.contains('/') && !program.starts_with("/usr/") && !program.starts_with("/bin/") => {
                cx.hand(HandedSource::Program(program.to_owned()), Executed::As(Language::Bash));
            }
            _ => cx.hand(HandedSource::Text, Executed::Unread(base.to_owned())),
        }
        // Arguments of the program run in it: `SHELL = /usr/bin/env ./x`.
        for word in words.filter(|word| word.contains('/')) {
            cx.hand(HandedSource::Program(word.to_owned()), Executed::As(Language::Bash));
        }
    }
    found
}

/// Included files, by the known part of their names.
fn included(cx: &mut Cx<'_>, text: &str, known: &BTreeMap<String, String>) {
    let joined = text.replace("\\\n", " ");
    for line in joined.lines() {
        let Some(("include" | "-include" | "sinclude", files)) = line.trim_start().split_once([' ', '\t'])
        else {
            continue;
        };
        let files = files.split(" #").next().unwrap_or(files);
        for file in expand(files, known, 0).split_whitespace().take_while(|word| !word.starts_with('#')) {
            cx.hand(HandedSource::Makefile(file.to_owned()), Executed::As(Language::Bash));
        }
    }
}

/// Values of names, from their assignments.
fn values(text: &str) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for line in text.replace("\\\n", " ").lines().filter(|line| !line.starts_with(['\t', '#'])) {
        let Some((name, value)) = line.split_once('=') else { continue };
        let adds = name.ends_with('+');
        let name = name.trim_end_matches([':', '?', '+']).trim();
        let name = name.trim_start_matches("export ").trim_start_matches("override ").trim();
        if name.is_empty() || name.contains([' ', '\t', ':', '$', '!']) {
            continue;
        }
        let value = value.split(" #").next().unwrap_or(value).trim();
        let entry = all.entry(name.to_owned()).or_default();
        // Of several values each is possible: together they form one list of words.
        if adds || !entry.is_empty() {
            entry.push(' ');
        }
        entry.push_str(value);
    }
    all
}

/// Expands names in a text; unknown values become a hole.
fn expand(text: &str, known: &BTreeMap<String, String>, depth: usize) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let inner = match rest.strip_prefix(['(', '{']) {
            Some(inner) => {
                let end = closing(inner);
                rest = inner.get(end + 1..).unwrap_or("");
                &inner[..end]
            }
            None => {
                let one = rest.chars().next().map_or(0, char::len_utf8);
                let inner = &rest[..one];
                rest = &rest[one..];
                inner
            }
        };
        out.push_str(&value(inner, known, depth));
        if out.len() > MAX_VALUE {
            return HOLE.to_string();
        }
    }
    out.push_str(rest);
    out
}

fn value(inner: &str, known: &BTreeMap<String, String>, depth: usize) -> String {
    let hole = HOLE.to_string();
    if depth >= MAX_VALUE_DEPTH {
        return hole;
    }
    let any = |pattern: &str| expand(pattern, known, depth + 1).replace('%', &hole);
    if let Some(value) = known.get(inner) {
        return expand(value, known, depth + 1);
    }
    if let Some(pattern) = inner.strip_prefix("wildcard ") {
        return expand(pattern.trim(), known, depth + 1);
    }
    if let Some((_, to)) = inner.strip_prefix("patsubst ").and_then(|rest| rest.split_once(',')) {
        return any(to.split(',').next().unwrap_or(to).trim());
    }
    if let Some((ending, _)) = inner.strip_prefix("addsuffix ").and_then(|rest| rest.split_once(',')) {
        return format!("{hole}{}", any(ending.trim()));
    }
    // `$(OBJECTS:.o=.d)`.
    if let Some((_, change)) = inner.split_once(':')
        && let Some((_, to)) = change.split_once('=')
        && !inner.contains(' ')
    {
        let to = any(to);
        return if to.contains(HOLE) { to } else { format!("{hole}{to}") };
    }
    hole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makefile_variables_expand_as_far_as_known() {
        let known = values("A := d\nB = $(A)/x.mk\nS = a.c b.c\nS += c.c\n");
        for (text, want) in [
            ("$(B)", "d/x.mk".to_owned()),
            ("${A}/y", "d/y".to_owned()),
            ("$(C)/y", format!("{HOLE}/y")),
            ("$(wildcard $(A)/*.mk)", "d/*.mk".to_owned()),
            ("$(S:.c=.d)", format!("{HOLE}.d")),
            ("$(patsubst %.c,out/%.d,$(S))", format!("out/{HOLE}.d")),
            ("$$x", "$x".to_owned()),
            ("$(S)", "a.c b.c c.c".to_owned()),
        ] {
            assert_eq!(expand(text, &known, 0), want, "{text}");
        }
        assert_eq!(expand("$(A)", &values("A = $(A)"), 0), HOLE.to_string());
    }

    #[test]
    fn rules_out_of_what_was_fetched_are_known() {
        for (text, want) in [
            ("X := $(shell curl -s http://h/m)\n$(X)\n", Some("$(X)")),
            ("Y != wget -qO- http://h/m\n$(eval $(Y))\n", Some("$(eval $(Y))")),
            ("include f.mk\nf.mk:\n\tcurl -so $@ http://h/m\n", Some("include f.mk")),
            ("V := $(shell curl -s http://h/version)\nall:\n\techo $(V)\n", None),
            ("include f.mk\nf.mk:\n\tsed s/a/b/ f.in >$@\n", None),
            ("# $(X)\nX := $(shell curl http://h)\nX2 = $(X)\n", None),
        ] {
            assert_eq!(fetched_rules(text), want, "{text}");
        }
    }
}
