//! Commands of ninja's rules, with their variables.

use super::{MAX_PIECE, command};
use crate::context::Cx;
use crate::report::PartState;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of commands that are read.
const MAX_RULES: usize = 200;
/// Maximum nesting of variables.
const MAX_NESTED: usize = 8;
/// Maximum number of variables that are replaced in a command.
const MAX_REPLACED: usize = 1000;

type Variables<'t> = BTreeMap<&'t str, &'t str>;

/// Commands of the rules. Generated files have many; what is beyond the limit is reported.
pub(super) fn read(cx: &mut Cx<'_>, text: &str) -> PartState {
    let found = commands(&text.replace("$\n", ""));
    for line in found.iter().take(MAX_RULES) {
        command(cx, text, line, "command");
    }
    if found.len() > MAX_RULES {
        return PartState::SetAside("more commands of rules than are read".to_owned());
    }
    PartState::Parsed
}

/// Commands of the rules, and values of the edges' own variables that are commands or parts of them; at most one
/// more than are read.
fn commands(text: &str) -> Vec<String> {
    let (top, rules, edges) = parsed(text);
    let mut out = Vec::new();
    let mut begin = BTreeSet::new();
    for (rule, line) in rules.iter().filter_map(|rule| Some((rule, *rule.get("command")?))) {
        begin.extend(first_variables(line));
        push(&mut out, replaced(line, &[rule, &top]));
    }
    // Others of an edge are flags and names of files, unless they end the command that they are in.
    for edge in &edges {
        for (name, value) in edge {
            if out.len() > MAX_RULES {
                return out;
            }
            if begin.contains(name) || value.contains([';', '|', '&', '`', '(', '<', '>']) {
                push(&mut out, replaced(value, &[edge, &top]));
            }
        }
    }
    out
}

fn push(out: &mut Vec<String>, line: String) {
    if out.len() <= MAX_RULES && !line.trim().is_empty() && !out.contains(&line) {
        out.push(line);
    }
}

/// Variables of the file, of each rule, and of each edge.
fn parsed(text: &str) -> (Variables<'_>, Vec<Variables<'_>>, Vec<Variables<'_>>) {
    let (mut top, mut rules, mut edges) = (Variables::new(), Vec::new(), Vec::new());
    let mut is_rule = true;
    for line in text.lines() {
        if line.starts_with("rule ") {
            rules.push(Variables::new());
            is_rule = true;
        } else if line.starts_with("build ") {
            edges.push(Variables::new());
            is_rule = false;
        } else if let Some((name, value)) = line.split_once('=') {
            let (name, value) = (name.trim(), value.trim());
            let block = if is_rule { rules.last_mut() } else { edges.last_mut() };
            match block.filter(|_| line.starts_with([' ', '\t'])) {
                Some(block) => block.insert(name, value),
                None => top.insert(name, value),
            };
        }
    }
    (top, rules, edges)
}

/// Name of the variable at the beginning of a text behind `$`, and what is behind it.
fn variable(rest: &str) -> Option<(&str, &str)> {
    if let Some(inner) = rest.strip_prefix('{') {
        return inner.split_once('}');
    }
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"_-".contains(c)).unwrap_or(rest.len());
    (end > 0).then(|| rest.split_at(end))
}

/// Variables that begin a command of a line.
fn first_variables(line: &str) -> impl Iterator<Item = &str> {
    line.split([';', '|', '&'])
        .filter_map(|part| Some(variable(part.trim_start_matches([' ', '"', '\'']).strip_prefix('$')?)?.0))
}

/// A line with the values of its variables, by the first of the scopes that has them; others stay, as unknown
/// variables of the shell.
fn replaced(line: &str, scopes: &[&Variables<'_>]) -> String {
    expanded(line, scopes, 0, &mut 0)
}

fn expanded(line: &str, scopes: &[&Variables<'_>], depth: usize, count: &mut usize) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let escaped = after.chars().next().filter(|c| matches!(c, '$' | ' ' | ':'));
        if let Some(c) = escaped {
            out.push(c);
            rest = &after[1..];
            continue;
        }
        let found = variable(after);
        let value = found.and_then(|(name, _)| scopes.iter().find_map(|scope| scope.get(name)));
        match (found, value) {
            (Some((_, behind)), Some(value))
                if depth < MAX_NESTED && *count < MAX_REPLACED && out.len() < MAX_PIECE =>
            {
                *count += 1;
                out.push_str(&expanded(value, scopes, depth + 1, count));
                rest = behind;
            }
            _ => {
                out.push('$');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_with_their_variables() {
        for (text, want) in [
            ("rule a\n  command = cc $in -o $out\n", &["cc $in -o $out"][..]),
            ("x = id\nrule a\n  command = $x\n", &["id"]),
            ("x = id\ny = ${x} -u\nrule a\n command = sh -c '$y' $$HOME\n", &["sh -c 'id -u' $HOME"]),
            ("rule a\n  x = id\n  command = $x\n", &["id"]),
            (
                "rule a\n  command = $COMMAND\nbuild o: a i\n  COMMAND = cd x && id\n",
                &["$COMMAND", "cd x && id"],
            ),
            ("rule a\n  command = cc $FLAGS\nbuild o: a i\n  FLAGS = -O2\n", &["cc $FLAGS"]),
            ("rule a\n  command = cc $FLAGS\nbuild o: a i\n  FLAGS = -O2; id\n", &["cc $FLAGS", "-O2; id"]),
        ] {
            assert_eq!(commands(text), want, "{text}");
        }
    }

    #[test]
    fn variables_that_name_each_other_end() {
        let mut text: String = (0..40).map(|n| format!("x{n} = $x{} $x{}\n", n + 1, n + 1)).collect();
        text.push_str("x = $x\nrule a\n  command = $x0 $x\n");
        assert!(commands(&text).iter().all(|line| line.len() < 1 << 20));
    }
}
