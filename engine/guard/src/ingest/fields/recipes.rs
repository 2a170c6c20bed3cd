//! Recipes in files like makefiles.

use super::{command, without_expressions};
use crate::context::Cx;
use crate::language::Language;
use crate::rules::basename;
use crate::value::Value;

/// Recipes and captured commands of a justfile.
pub(super) fn just(cx: &mut Cx<'_>, text: &str) {
    let mut recipe = String::new();
    for line in text.lines().chain(["end"]) {
        if line.starts_with([' ', '\t']) {
            recipe.push_str(line.trim_start().trim_start_matches(['@', '-']));
            recipe.push('\n');
            continue;
        }
        if line.trim().is_empty() && !recipe.is_empty() {
            continue;
        }
        run(cx, text, &std::mem::take(&mut recipe));
        // `NAME := \`command\``.
        for captured in line.split('`').skip(1).step_by(2).filter(|_| !line.starts_with('#')) {
            command(cx, text, &without_expressions(captured, "{{", "}}"), captured);
        }
    }
}

/// A recipe: by its first line, a script of another language.
fn run(cx: &mut Cx<'_>, text: &str, recipe: &str) {
    let near = recipe.lines().next().unwrap_or("");
    let script = without_expressions(recipe, "{{", "}}");
    let language = match near.strip_prefix("#!") {
        Some(first) if first.contains("python") => Language::Python,
        Some(first) if first.contains("node") => Language::JavaScript,
        Some(first) if first.contains("pwsh") || first.contains("powershell") => Language::PowerShell,
        Some(first) if !first.contains("sh") => {
            let program = [Value::text(basename(first.split_whitespace().next_back().unwrap_or("")))];
            let at = crate::ingest::manifest::place(text, near);
            cx.fact_with(Language::Bash, "shell.unread_text", at, &program, 0);
            return;
        }
        _ => Language::Bash,
    };
    if language == Language::Bash {
        command(cx, text, &script, near);
    } else {
        let at = crate::ingest::manifest::place(text, near);
        cx.child(language, &script, at, &["recipe"]);
    }
}

/// `NAME: command` of a Procfile.
pub(super) fn procfile(cx: &mut Cx<'_>, text: &str) {
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        if let Some((_, line)) = line.split_once(':') {
            command(cx, text, line.trim(), line.trim());
        }
    }
}

/// Commands of a table of timed jobs, with a user before the command or without.
pub(super) fn cron(cx: &mut Cx<'_>, text: &str) {
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let fields = if line.starts_with('@') { 1 } else { 5 };
        let is_time = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "*/,-@?".contains(c));
        let mut rest = line;
        let mut timed = 0;
        while timed < fields
            && let Some((word, after)) = rest.split_once(char::is_whitespace)
            && is_time(word)
        {
            (rest, timed) = (after.trim_start(), timed + 1);
        }
        if timed < fields {
            continue;
        }
        // `root command`: read as both, since the file does not tell.
        let is_name = |word: &str| {
            word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b))
        };
        match rest.split_once(char::is_whitespace) {
            Some((user, line)) if is_name(user) => {
                command(cx, text, line.trim(), line.trim());
                command(cx, text, rest, rest);
            }
            _ => command(cx, text, rest, rest),
        }
    }
}
