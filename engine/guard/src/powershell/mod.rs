//! PowerShell: commands by their names, whatever they are spelled like, with the values of their arguments.
//!
//! A script is walked twice in the order of its text: first to learn the values of variables, then to report.

mod effects;
mod names;
mod operation;
mod value;

use crate::context::Cx;
use crate::language::Language;
use crate::limits::towers;
use crate::report::{PartState, StepKind};
use crate::rules::TextKind;
use crate::syntax::parsed;
use crate::value::{Names, Origin, Value};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use tree_sitter::{Node, Parser};

/// Minimum number of numbers in a list that may be a program.
const MIN_PROGRAM_BYTES: usize = 256;

/// Reads a source.
pub(crate) fn read(cx: &mut Cx<'_>, source: &str) -> PartState {
    if source.len() > cx.limits.parse_bytes {
        cx.not_read("source too large to parse");
        return PartState::Skipped("source too large to parse".to_owned());
    }
    if towers(source) {
        cx.not_read("brackets nested too deeply");
        return PartState::Skipped("brackets nested too deeply".to_owned());
    }
    let mut parser = Parser::new();
    let set = parser.set_language(&tree_sitter_powershell::LANGUAGE.into());
    let Some(tree) = set.ok().and_then(|()| parsed(cx, &mut parser, source)) else {
        cx.not_read("the parser gave up");
        return PartState::Skipped("the parser gave up".to_owned());
    };
    let mut ps = PowerShell { cx, text: source, vars: FxHashMap::default(), saved: Vec::new(), emit: false };
    ps.walk(tree.root_node());
    ps.emit = true;
    ps.walk(tree.root_node());
    if tree.root_node().has_error() {
        // Pieces that the grammar does not know are still checked as text.
        crate::ingest::plain(ps.cx, source);
        ps.cx.fact(Language::PowerShell, "parse.partial", (0, 0));
        return PartState::Recovered;
    }
    PartState::Parsed
}

/// Arguments of a command.
#[derive(Default)]
struct Words {
    /// All in order, as a command line.
    all: Vec<Value>,
    /// Without parameters and their values.
    args: Vec<Value>,
    /// Parameters, in lower case and without their mark, and their values.
    named: Vec<(Rc<str>, Value)>,
    /// True when the name is put together or spelled with marks that the shell removes.
    disguised: bool,
}

struct PowerShell<'c, 'p, 's> {
    cx: &'c mut Cx<'p>,
    text: &'s str,
    vars: FxHashMap<String, Value>,
    /// Paths that were written, in lower case, and what was written.
    saved: Vec<(String, Value)>,
    emit: bool,
}

impl<'s> PowerShell<'_, '_, 's> {
    fn of(&self, node: Node<'_>) -> &'s str {
        self.text.get(node.byte_range()).unwrap_or("")
    }

    fn walk(&mut self, root: Node<'_>) {
        let mut cursor = root.walk();
        loop {
            if !self.cx.tick() {
                return;
            }
            self.see(cursor.node());
            if cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return;
                }
            }
        }
    }

    fn see(&mut self, node: Node<'_>) {
        let at = (node.start_byte(), node.end_byte());
        match node.kind() {
            "assignment_expression" => self.assigned(node),
            "foreach_statement" => {
                let mut cursor = node.walk();
                let inner: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
                let variable = inner.iter().find(|n| n.kind() == "variable");
                let list = inner.iter().find(|n| n.kind() == "pipeline");
                if let (Some(variable), Some(list)) = (variable, list) {
                    let items = self.value(*list, 0);
                    let name = names::variable(self.of(*variable));
                    self.vars.insert(name, Value::default().made_of(&items));
                }
            }
            _ if !self.emit => {}
            "comment" => {
                let text = self.of(node);
                self.cx.text(TextKind::Comment, text, at, &[]);
            }
            "verbatim_string_characters"
            | "verbatim_here_string_characters"
            | "expandable_string_literal"
            | "expandable_here_string_literal" => {
                let value = self.value(node, 0);
                if let Some(text) = value.as_text().filter(|t| t.len() >= 4).map(str::to_owned) {
                    self.cx.text(TextKind::String, &text, at, &[]);
                    self.cx.encoded(&text, at);
                }
            }
            "additive_expression" | "format_expression" | "comparison_expression"
                if node.named_child_count() >= 2
                    && node.parent().is_none_or(|p| p.kind() != node.kind() || p.named_child_count() < 2) =>
            {
                let value = self.value(node, 0);
                if let Some(text) = value.as_text().filter(|t| t.len() >= 4).map(str::to_owned) {
                    let chain = value.chain.clone();
                    self.cx.text(TextKind::String, &text, at, &chain);
                    if crate::spelled::hidden_word(&text, self.text).is_some() {
                        self.cx.fact(Language::PowerShell, "spelled", at);
                    }
                    if node.kind() == "format_expression" && is_shuffled(self.of(node)) {
                        self.cx.fact(Language::PowerShell, "ps.shuffled", at);
                    }
                }
            }
            "array_literal_expression" if node.named_child_count() >= MIN_PROGRAM_BYTES => {
                let text = self.of(node);
                let digits =
                    text.bytes().filter(|b| b.is_ascii_hexdigit() || b"x, \r\n\t".contains(b)).count();
                if digits * 100 >= text.len() * 99 {
                    self.cx.fact(Language::PowerShell, "ps.bytes", at);
                }
            }
            "command" => self.told_command(node),
            "redirection" => self.told_redirection(node),
            "invokation_expression" => self.told_method(node),
            _ => {}
        }
    }

    fn assigned(&mut self, node: Node<'_>) {
        let Some(right) = node.child_by_field_name("value") else { return };
        let mut cursor = node.walk();
        let inner: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let Some(left) = inner.iter().find(|n| n.kind() == "left_assignment_expression") else { return };
        let adds = inner.iter().any(|n| n.kind() == "assignement_operator" && self.of(*n).starts_with('+'));
        // `[byte[]] $x = …`.
        let written = self.of(*left);
        let Some(from) = written.rfind('$') else { return };
        let name = names::variable(written[from..].trim());
        if name.is_empty() || name.len() > 100 || name.contains(['.', '[', '(', ' ']) {
            return;
        }
        let value = self.value(right, 0);
        let value = match self.vars.get(&name) {
            Some(older) if adds => crate::value::concat(older, &value),
            _ => value,
        };
        let tracked = Origin(Origin::NET.0 | Origin::DECODED.0 | Origin::UNPACKED.0 | Origin::FILE.0);
        let at = (left.start_byte(), left.end_byte());
        let value = if value.origin.has(tracked) { value.stepped(StepKind::Bound, &name, at) } else { value };
        self.vars.insert(name, value);
    }

    /// Name and arguments of a command.
    fn command(&mut self, node: Node<'_>, depth: usize) -> (String, Words) {
        let mut words = Words::default();
        let Some(written) = node.child_by_field_name("command_name") else { return (String::new(), words) };
        let name = if written.kind() == "command_name_expr" {
            let value = self.value(written, depth + 1);
            words.disguised = value.origin.has(Origin::COMPUTED) || value.origin.has(Origin::DECODED);
            match value.as_whole_text() {
                Some(text) => {
                    words.disguised |= text.contains('`');
                    text.to_owned()
                }
                None => {
                    words.all.push(value);
                    String::new()
                }
            }
        } else {
            let text = self.of(written);
            words.disguised = text.trim_matches(['"', '\'']).contains(['`', '"', '\'', '^']);
            text.to_owned()
        };
        let name = names::command(&name);
        if let Some(elements) = node.child_by_field_name("command_elements") {
            let mut cursor = elements.walk();
            let inner: Vec<Node<'_>> = elements
                .named_children(&mut cursor)
                .filter(|n| !n.is_extra() && !matches!(n.kind(), "command_argument_sep" | "redirection"))
                .take(64)
                .collect();
            let mut pending: Option<Rc<str>> = None;
            let mut end = 0;
            for element in inner {
                let is_parameter = element.kind() == "command_parameter";
                let value =
                    if is_parameter { Value::text(self.of(element)) } else { self.value(element, depth + 1) };
                // Pieces without a blank between them are one word: `$env:TEMP\a.exe`.
                let is_glued = element.start_byte() == end && !is_parameter && !words.all.is_empty();
                end = element.end_byte();
                if is_glued {
                    let written = self.of(element);
                    if let Some(last) = words.all.last_mut() {
                        *last = glued(last, written, &value);
                        let whole = last.clone();
                        if let Some(last) = words.args.last_mut() {
                            *last = whole.clone();
                        }
                        if let Some((_, last)) = words.named.last_mut().filter(|_| pending.is_none()) {
                            *last = whole;
                        }
                    }
                    continue;
                }
                words.all.push(value.clone());
                if is_parameter {
                    let plain =
                        self.of(element).trim_start_matches('-').replace('`', "").to_ascii_lowercase();
                    let (plain, given) = plain.split_once(':').map_or((&*plain, None), |(p, v)| (p, Some(v)));
                    match given.filter(|v| !v.is_empty()) {
                        Some(given) => words.named.push((plain.into(), Value::text(given))),
                        None => pending = Some(plain.into()),
                    }
                } else if let Some(parameter) = pending.take() {
                    words.named.push((parameter, value.clone()));
                    words.args.push(value);
                } else {
                    words.args.push(value);
                }
            }
        }
        (name, words)
    }
}

/// A word and the piece that follows it without a blank: the end of a path, or a method of a value.
fn glued(word: &Value, written: &str, piece: &Value) -> Value {
    let lower = written.to_ascii_lowercase();
    if word.as_text().is_none() && lower.starts_with('.') {
        let fetches = ["download", "openread", "getresponse"].iter().any(|name| lower.contains(name));
        let made = Value { names: Names::new(), ..word.clone() };
        return if fetches { made.with_origin(Origin::NET) } else { made };
    }
    if lower.starts_with('(') {
        let url = piece.as_text().filter(|t| t.contains("://")).map(|t| Rc::from(format!("fetch:{t}")));
        return Value { names: url.into_iter().collect(), ..word.clone() };
    }
    crate::value::concat(word, piece)
}

/// True when a format operator puts pieces of text together in another order than they are written in.
fn is_shuffled(written: &str) -> bool {
    let template = written.split("-f").next().unwrap_or("").split("-F").next().unwrap_or("").trim();
    let inner = template.trim_matches(['"', '\'', '(', ')', ' ']);
    let numbers: Option<Vec<u32>> =
        inner.split('}').filter(|p| !p.is_empty()).map(|p| p.strip_prefix('{')?.parse().ok()).collect();
    numbers.is_some_and(|n| n.len() >= 3 && n.windows(2).any(|w| w[0] > w[1]))
}

#[cfg(test)]
mod tests {
    use super::is_shuffled;

    #[test]
    fn shuffled_formats_are_found() {
        for (written, shuffled) in [
            ("\"{2}{0}{1}\" -f 'ke-Ex','pression','Invo'", true),
            ("'{0}{1}{2}' -f $a, $b, $c", false),
            ("'{0}: {1}' -f $a, $b", false),
            ("\"{1}{0}\" -f $a, $b", false),
        ] {
            assert_eq!(is_shuffled(written), shuffled, "{written}");
        }
    }
}
