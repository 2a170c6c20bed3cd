//! Possible values of PowerShell's expressions: texts put together, taken apart, decoded and received.

use super::operation::{
    MAX_PIECES, cast, characters, element, formatted, joined, method, range, replaced, split,
};
use super::{PowerShell, names};
use crate::value::{Const, Origin, Value, concat};
use smallvec::smallvec;
use std::rc::Rc;
use tree_sitter::Node;

/// Maximum depth of an expression that is followed.
const MAX_DEPTH: usize = 600;

impl PowerShell<'_, '_, '_> {
    pub(super) fn value(&mut self, node: Node<'_>, depth: usize) -> Value {
        if depth > MAX_DEPTH || !self.cx.tick() {
            return Value::default();
        }
        let next = depth + 1;
        match node.kind() {
            "verbatim_string_characters" => {
                let text = self.of(node);
                let inner = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')).unwrap_or(text);
                Value::text(&inner.replace("''", "'"))
            }
            "verbatim_here_string_characters" => Value::text(here(self.of(node), '\'')),
            "expandable_here_string_literal" => {
                let text = here(self.of(node), '"').to_owned();
                self.expanded(&text)
            }
            "expandable_string_literal" => {
                let text = self.of(node);
                let inner =
                    text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text).to_owned();
                self.expanded(&inner.replace("\"\"", "\""))
            }
            "generic_token" | "path_command_name_token" | "simple_name" => {
                Value::text(&self.of(node).replace('`', ""))
            }
            "decimal_integer_literal" => {
                Value::int(self.of(node).trim_end_matches(['l', 'L']).parse().unwrap_or(0))
            }
            "hexadecimal_integer_literal" => Value::int(
                i64::from_str_radix(self.of(node).trim_start_matches(['0', 'x', 'X']), 16).unwrap_or(0),
            ),
            "variable" => self.variable(self.of(node)),
            "type_literal" => Value::name(&names::type_name(self.of(node))),
            "additive_expression" | "additive_argument_expression" => self.sum(node, next),
            "format_expression" | "format_argument_expression" => match pair(node) {
                Some((template, rest)) => {
                    let (template, rest) = (self.value(template, next), self.value(rest, next));
                    formatted(&template, &rest)
                }
                None => self.only(node, next),
            },
            "comparison_expression" | "comparison_argument_expression" => self.compared(node, next),
            "multiplicative_expression" => match pair(node) {
                Some((left, right)) => {
                    let (left, right) = (self.value(left, next), self.value(right, next));
                    Value::default().made_of(&left).made_of(&right)
                }
                None => self.only(node, next),
            },
            "bitwise_expression" | "logical_expression" if node.named_child_count() >= 2 => {
                let mut sum = Value::default();
                for child in all(node).into_iter().take(MAX_PIECES) {
                    let value = self.value(child, next);
                    sum = sum.made_of(&value);
                }
                // A key is mixed in.
                if self.of(node).to_ascii_lowercase().contains("-bxor") {
                    sum = sum.with_origin(Origin::DECODED);
                }
                sum
            }
            "range_expression" | "range_argument_expression" => match pair(node) {
                Some((from, to)) => {
                    let (from, to) = (self.value(from, next).as_int(), self.value(to, next).as_int());
                    range(from, to)
                }
                None => self.only(node, next),
            },
            "array_literal_expression" | "argument_expression_list" if node.named_child_count() > 1 => {
                let mut items = Vec::new();
                for child in all(node).into_iter().take(MAX_PIECES) {
                    items.push(self.value(child, next));
                }
                Value::list(items)
            }
            "expression_with_unary_operator" => {
                let Some(inner) = last_named(node) else { return Value::default() };
                let value = self.value(inner, next);
                let sign = self.of(node).trim_start().to_ascii_lowercase();
                if sign.starts_with("-join") {
                    joined("", &value)
                } else if sign.starts_with('-') && value.as_int().is_some() {
                    Value::int(value.as_int().unwrap_or(0).saturating_neg())
                } else {
                    value
                }
            }
            "cast_expression" => {
                let to = named(node, 0).map(|n| names::type_name(self.of(n))).unwrap_or_default();
                let value = last_named(node).map_or_else(Value::default, |n| self.value(n, next));
                cast(&to, value)
            }
            "member_access" => self.member(node, next),
            "invokation_expression" => self.invoked(node, next).1,
            "element_access" => {
                let (Some(owner), Some(key)) = (named(node, 0), last_named(node)) else {
                    return Value::default();
                };
                let (owner, key) = (self.value(owner, next), self.value(key, next));
                element(&owner, &key)
            }
            "command" => self.command_value(node, next),
            "pipeline_chain" if node.named_child_count() > 1 => self.piped(node, next),
            "assignment_expression" => {
                node.child_by_field_name("value").map_or_else(Value::default, |v| self.value(v, next))
            }
            "script_block_expression" => {
                let text = self.of(node).trim().trim_start_matches('{').trim_end_matches('}').to_owned();
                Value { names: smallvec!["{}".into()], ..Value::text(&text) }
            }
            "array_expression" | "sub_expression" | "statement_list" if node.named_child_count() > 1 => {
                let mut sum = Value::default();
                for child in all(node).into_iter().take(MAX_PIECES) {
                    sum = self.value(child, next).or(&sum);
                }
                sum
            }
            _ => self.only(node, next),
        }
    }

    /// `a + b + c`, whose tree leans to the left.
    fn sum(&mut self, node: Node<'_>, depth: usize) -> Value {
        let mut rights = Vec::new();
        let mut first = node;
        while let Some((left, right)) = pair(first).filter(|_| first.kind() == node.kind()) {
            rights.push(right);
            first = left;
        }
        if rights.is_empty() {
            return self.only(node, depth);
        }
        let mut sum =
            if first.kind() == node.kind() { self.only(first, depth) } else { self.value(first, depth) };
        for right in rights.into_iter().rev() {
            let right = self.value(right, depth);
            sum = match (&sum.known, &right.known) {
                (Some(Const::List(_)), Some(Const::List(_))) => concat(&sum, &right),
                (Some(Const::List(items)), _) => {
                    let mut all = items.to_vec();
                    all.push(right);
                    Value::list(all).with_origin(sum.origin)
                }
                _ => concat(&sum, &right).with_origin(Origin::COMPUTED),
            };
        }
        sum
    }

    /// Value of a node that only wraps another one.
    fn only(&mut self, node: Node<'_>, depth: usize) -> Value {
        let mut cursor = node.walk();
        let inner: Vec<Node<'_>> =
            node.named_children(&mut cursor).filter(|n| !n.is_extra()).take(2).collect();
        match inner[..] {
            [one] => self.value(one, depth),
            _ => Value::default(),
        }
    }

    pub(super) fn variable(&self, written: &str) -> Value {
        let name = names::variable(written);
        if let Some(value) = self.vars.get(&name) {
            return value.clone();
        }
        if let Some(text) = names::automatic(&name) {
            return Value::text(text);
        }
        let origin = match &*name {
            _ if names::is_dropping_place(&name) => Origin::TEMP,
            "env:username" | "env:computername" | "env:userdomain" => Origin::HOST,
            "args" | "input" => Origin::INPUT,
            _ => Origin::default(),
        };
        if origin == Origin::TEMP {
            return Value::text(&format!("%{}%", name.trim_start_matches("env:"))).with_origin(origin);
        }
        Value::name(&format!("${name}")).with_origin(origin)
    }

    /// A text between double quotes: backticks are removed, variables replaced.
    fn expanded(&mut self, text: &str) -> Value {
        let mut out = String::new();
        let mut sum = Value::default();
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                '`' => {
                    if let Some((_, next)) = chars.next() {
                        out.push(match next {
                            'n' => '\n',
                            't' => '\t',
                            'r' => '\r',
                            other => other,
                        });
                    }
                }
                '$' => {
                    let rest = &text[at + 1..];
                    let (name, length) = interpolated(rest);
                    if length == 0 {
                        out.push(c);
                        continue;
                    }
                    let value = if name.is_empty() { Value::default() } else { self.variable(name) };
                    out.push_str(&value.text_or_hole());
                    sum = sum.made_of(&value).with_origin(Origin::COMPUTED);
                    for _ in 0..rest[..length].chars().count() {
                        chars.next();
                    }
                }
                other => out.push(other),
            }
        }
        Value::text(&out).made_of(&sum)
    }

    /// `a -replace b, c`, `a -split b`, `a -join b`.
    fn compared(&mut self, node: Node<'_>, depth: usize) -> Value {
        let Some((left, right)) = pair(node) else { return self.only(node, depth) };
        let mut cursor = node.walk();
        let operator = node
            .named_children(&mut cursor)
            .find(|n| n.kind() == "comparison_operator")
            .map(|n| self.of(n).to_ascii_lowercase())
            .unwrap_or_default();
        let (left, right) = (self.value(left, depth), self.value(right, depth));
        match operator.trim_start_matches('-') {
            "join" => joined(right.as_text().unwrap_or(""), &left),
            "replace" | "ireplace" | "creplace" => {
                let items = right.elements().filter(|_| matches!(right.known, Some(Const::List(_))));
                let (from, to) = match items.as_deref() {
                    Some([from, to, ..]) => (from.clone(), to.clone()),
                    _ => (right.clone(), Value::text("")),
                };
                replaced(&left, &from, &to)
            }
            "split" | "isplit" | "csplit" => split(&left, &right),
            _ => Value::default(),
        }
    }

    /// `owner.name`, `[type]::name`.
    fn member(&mut self, node: Node<'_>, depth: usize) -> Value {
        let (Some(owner), Some(name)) = (named(node, 0), last_named(node)) else { return Value::default() };
        let owner = self.value(owner, depth);
        let name = self.member_name(name, depth);
        // The start file for other users and hosts.
        if owner.as_text().is_some_and(|text| text.ends_with("_profile.ps1")) && name.contains("host") {
            return owner;
        }
        let names =
            owner.names.iter().filter(|n| n.len() < 160).map(|n| format!("{n}.{name}").into()).collect();
        if matches!(&*name, "content" | "rawcontent" | "value" | "invoke" | "text") {
            return Value { names, ..owner };
        }
        Value { names, ..Value::default().made_of(&owner) }
    }

    fn member_name(&mut self, node: Node<'_>, depth: usize) -> String {
        let value = self.value(node, depth);
        value
            .as_text()
            .map_or_else(|| self.of(node).to_owned(), str::to_owned)
            .replace('`', "")
            .to_ascii_lowercase()
    }

    /// Name of a called method, its result, and its arguments.
    pub(super) fn invoked(
        &mut self,
        node: Node<'_>,
        depth: usize,
    ) -> (Vec<Rc<str>>, Value, Value, Vec<Value>) {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let owner = children.first().map_or_else(Value::default, |n| self.value(*n, depth));
        let name = children
            .iter()
            .find(|n| n.kind() == "member_name")
            .map(|n| self.member_name(*n, depth))
            .unwrap_or_default();
        let mut args = Vec::new();
        if let Some(list) = children.iter().find(|n| n.kind() == "argument_list")
            && let Some(list) = list.child_by_field_name("argument_expression_list")
        {
            for argument in all(list).into_iter().take(64) {
                args.push(self.value(argument, depth));
            }
        }
        let mut names: Vec<Rc<str>> =
            owner.names.iter().filter(|n| n.len() < 160).map(|n| format!("{n}.{name}").into()).collect();
        if names.is_empty() {
            names.push(format!("?.{name}").into());
        }
        let result = method(&names, &owner, &name, &args);
        (names, result, owner, args)
    }

    /// Value that a command prints.
    fn command_value(&mut self, node: Node<'_>, depth: usize) -> Value {
        let (name, words) = self.command(node, depth);
        let sum = words
            .args
            .iter()
            .chain(words.named.iter().map(|(_, v)| v))
            .fold(Value::default(), Value::made_of);
        let origin = match &*name {
            "invoke-webrequest" | "invoke-restmethod" | "start-bitstransfer" => Origin::NET,
            "get-content" => Origin::FILE,
            "get-clipboard" => Origin::KEYS,
            "whoami" | "hostname" | "ipconfig" | "systeminfo" | "get-computerinfo" => Origin::HOST,
            _ => Origin::default(),
        };
        match &*name {
            "new-object" => {
                let what =
                    words.args.first().and_then(Value::as_text).map(names::type_name).unwrap_or_default();
                let unpacks = what.contains("compression.") || what.contains("cryptostream");
                let value =
                    Value { names: smallvec![format!("{what}()").into()], ..Value::default().made_of(&sum) };
                value.with_origin(if unpacks { Origin::UNPACKED } else { Origin::default() })
            }
            "write-output" | "out-string" | "convertto-securestring" => {
                words.args.first().cloned().unwrap_or_default()
            }
            "get-command" | "get-alias" => {
                let text = words.args.first().and_then(Value::as_text).map(str::to_owned);
                Value { known: text.map(|t| Const::Text(t.into())), ..Value::default() }
            }
            "get-variable" => match words.args.first().and_then(Value::as_text) {
                Some(name) => self.variable(name),
                None => Value::default(),
            },
            _ if origin != Origin::default() => {
                let names = words
                    .args
                    .iter()
                    .chain(words.named.iter().map(|(_, v)| v))
                    .filter_map(Value::as_text)
                    .find(|t| t.contains("://"))
                    .map(|t| format!("fetch:{t}").into())
                    .into_iter()
                    .collect();
                Value { names, ..Value::default().made_of(&sum) }.with_origin(origin)
            }
            _ => Value::default().made_of(&sum),
        }
    }

    /// Value at the end of a pipeline.
    fn piped(&mut self, node: Node<'_>, depth: usize) -> Value {
        let mut value = Value::default();
        for at in 0..node.named_child_count() {
            let Some(child) = named(node, at) else { continue };
            let text = self.of(child).to_ascii_lowercase();
            let own = self.value(child, depth);
            let first = text.trim_start();
            let maps = first.starts_with('%') || first.starts_with("foreach");
            value = if at == 0 {
                own
            } else if maps && text.contains("[char]") {
                // Numbers become letters.
                match characters(&value) {
                    Some(text) => text,
                    None => Value::default().made_of(&value).with_origin(Origin::DECODED),
                }
            } else if first.starts_with("out-string") || first.starts_with("write-output") {
                value
            } else {
                Value { names: own.names.clone(), ..Value::default().made_of(&value).made_of(&own) }
            };
        }
        value
    }
}

fn here(text: &str, quote: char) -> &str {
    let inner = text.strip_prefix('@').and_then(|t| t.strip_prefix(quote)).unwrap_or(text);
    let inner = inner.strip_suffix('@').and_then(|t| t.strip_suffix(quote)).unwrap_or(inner);
    inner.trim_matches(['\r', '\n'])
}

/// Name of a variable after `$` in a text, and its length there; an empty name for `$(…)`.
fn interpolated(rest: &str) -> (&str, usize) {
    if let Some(inner) = rest.strip_prefix('(') {
        let mut depth = 1usize;
        for (at, c) in inner.char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return ("", at + 2);
            }
        }
        return ("", rest.len());
    }
    if let Some(inner) = rest.strip_prefix('{') {
        return inner.find('}').map_or(("", 0), |end| (&inner[..end], end + 2));
    }
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
    let name = rest[..end].trim_end_matches(':');
    (name, name.len())
}

/// Named children, without looking for each from the first.
fn all(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).collect()
}

fn named<'t>(node: Node<'t>, at: usize) -> Option<Node<'t>> {
    node.named_child(u32::try_from(at).ok()?)
}

pub(super) fn last_named(node: Node<'_>) -> Option<Node<'_>> {
    named(node, node.named_child_count().checked_sub(1)?)
}

/// Two operands of a binary expression.
fn pair(node: Node<'_>) -> Option<(Node<'_>, Node<'_>)> {
    (node.named_child_count() >= 2).then(|| Some((named(node, 0)?, last_named(node)?)))?
}
