//! Build descriptions in languages of their own: the calls in them that run a command.

use super::{MAX_COMMANDS, bounded, command, literals, piece, words};
use crate::command::make::closing;
use crate::context::Cx;

/// `<!(command)` and the lists `'action': […]` of a `.gyp` file.
pub(super) fn gyp(cx: &mut Cx<'_>, text: &str) {
    for sign in ["!(", "!@("] {
        for (at, _) in text.match_indices(sign).take(MAX_COMMANDS) {
            if !text[..at].ends_with(['<', '>', '^', '|']) {
                continue;
            }
            let inner = piece(text, at + sign.len());
            // The whole stands in quotes, in which quotes are escaped.
            let line = bounded(cx, &inner[..closing(inner)]).replace("\\\"", "\"").replace("\\'", "'");
            command(cx, text, &line, &line);
        }
    }
    for key in ["'action'", "\"action\""] {
        for (at, _) in text.match_indices(key).take(MAX_COMMANDS) {
            let rest = piece(text, at + key.len()).trim_start().trim_start_matches(':').trim_start();
            if let Some(list) = rest.strip_prefix('[') {
                words(cx, text, &in_list(list), key);
            }
        }
    }
}

/// Texts of a list up to its end.
fn in_list(list: &str) -> Vec<String> {
    let mut quote = None;
    let mut escaped = false;
    let end = list.char_indices().find(|(_, c)| {
        match (quote, *c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(mark), c) if c == mark => quote = None,
            (None, '\'' | '"') => quote = Some(*c),
            (None, ']') => return true,
            _ => {}
        }
        false
    });
    literals(&list[..end.map_or(list.len(), |(at, _)| at)])
}

/// Calls of a `meson.build` that run a program.
pub(super) fn meson(cx: &mut Cx<'_>, text: &str) {
    for call in ["run_command", "add_install_script", "add_postconf_script", "add_dist_script"] {
        for (at, _) in text.match_indices(call).take(MAX_COMMANDS) {
            let Some(inner) = piece(text, at + call.len()).trim_start().strip_prefix('(') else { continue };
            let inner = bounded(cx, &inner[..closing(inner)]);
            started(cx, text, inner, call);
        }
    }
    for (at, key) in text.match_indices("command").take(MAX_COMMANDS) {
        let rest = piece(text, at + key.len()).trim_start();
        if let Some(list) = rest.strip_prefix(':').and_then(|rest| rest.trim_start().strip_prefix('[')) {
            let end = list.find(']').unwrap_or(list.len());
            let inner = bounded(cx, &list[..end]);
            started(cx, text, inner, key);
        }
    }
}

/// Arguments of a call, the first of which may be the name of a program that was found before.
fn started(cx: &mut Cx<'_>, text: &str, inner: &str, near: &str) {
    let inner = inner.trim_start().trim_start_matches('[').trim_start();
    let mut line = literals(inner);
    let variable = inner.split([',', '.', ')', ' ', '\n', ']']).next().unwrap_or("").trim();
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if is_name(variable) && variable != "find_program" {
        let set = text.lines().find_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == variable).then_some(value)
        });
        let program = match set {
            Some(value) if value.contains("find_installation") => "python3".to_owned(),
            Some(value) => literals(value).into_iter().next().unwrap_or_else(|| variable.to_owned()),
            None => variable.to_owned(),
        };
        line.insert(0, program);
    }
    words(cx, text, &line, near);
}

/// Options of `.bazelrc` whose value is a command.
pub(super) fn bazelrc(cx: &mut Cx<'_>, text: &str) {
    for option in ["--workspace_status_command", "--run_under", "--test_wrapper", "--credential_helper"] {
        for (at, _) in text.match_indices(option).take(MAX_COMMANDS) {
            let line =
                piece(text, at + option.len()).lines().next().unwrap_or("").trim_start_matches(['=', ' ']);
            let value = match line.chars().next() {
                Some(quote @ ('"' | '\'')) => line[1..].split(quote).next().unwrap_or(""),
                _ => line.split_whitespace().next().unwrap_or(""),
            };
            command(cx, text, value, option);
        }
    }
}

/// Programs that Terraform starts on this machine: `local-exec`, and external data.
pub(super) fn terraform(cx: &mut Cx<'_>, text: &str) {
    for (mark, keys) in [("\"local-exec\"", &["command"][..]), ("\"external\"", &["program"])] {
        for (at, _) in text.match_indices(mark).take(MAX_COMMANDS) {
            let Some((_, body)) = piece(text, at).split_once('{') else { continue };
            let body = bounded(cx, &body[..closing(body)]);
            for key in keys {
                assigned(cx, text, body, key);
            }
        }
    }
}

/// `key = "…"`, `key = [ … ]`, `key = <<EOT … EOT` in a block.
fn assigned(cx: &mut Cx<'_>, text: &str, body: &str, key: &str) {
    for (at, _) in body.match_indices(key).take(4) {
        let begins = body[..at].trim_end_matches([' ', '\t']).ends_with(['\n', '{', ';'])
            || body[..at].trim().is_empty();
        let Some(value) = body[at + key.len()..].trim_start().strip_prefix('=').filter(|_| begins) else {
            continue;
        };
        let value = value.trim_start();
        if let Some(list) = value.strip_prefix('[') {
            words(cx, text, &in_list(list), key);
        } else if let Some(mark) = value.strip_prefix("<<") {
            let (mark, rest) = mark.split_once('\n').unwrap_or((mark, ""));
            let mark = mark.trim_start_matches('-').trim();
            let lines: Vec<&str> = rest.lines().take_while(|line| line.trim() != mark).collect();
            let script = super::without_expressions(&lines.join("\n"), "${", "}");
            command(cx, text, &script, lines.first().unwrap_or(&key));
        } else if let Some(line) = literals(value.split('\n').next().unwrap_or("")).first() {
            command(cx, text, &super::without_expressions(line, "${", "}"), line);
        }
    }
}
