//! Possible values of PowerShell's expressions: texts put together, taken apart, decoded and received.

use super::{PowerShell, names};
use crate::decode;
use crate::value::{Const, HOLE, Origin, Value, concat};
use std::rc::Rc;
use tree_sitter::Node;

/// Maximum depth of an expression that is followed.
const MAX_DEPTH: usize = 600;
/// Maximum number of pieces that a text is made of.
const MAX_PIECES: usize = 65_536;

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
                Value { names: vec!["{}".into()], ..Value::text(&text) }
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
                    Value { names: vec![format!("{what}()").into()], ..Value::default().made_of(&sum) };
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

fn last_named(node: Node<'_>) -> Option<Node<'_>> {
    named(node, node.named_child_count().checked_sub(1)?)
}

/// Two operands of a binary expression.
fn pair(node: Node<'_>) -> Option<(Node<'_>, Node<'_>)> {
    (node.named_child_count() >= 2).then(|| Some((named(node, 0)?, last_named(node)?)))?
}

fn range(from: Option<i64>, to: Option<i64>) -> Value {
    let (Some(from), Some(to)) = (from, to) else { return Value::default() };
    if from.abs_diff(to) > 16_384 {
        return Value::default();
    }
    let items = if from <= to { (from..=to).collect::<Vec<_>>() } else { (to..=from).rev().collect() };
    Value::list(items.into_iter().map(Value::int).collect())
}

/// `'{1}{0}' -f 'a', 'b'`.
fn formatted(template: &Value, rest: &Value) -> Value {
    let items = match &rest.known {
        Some(Const::List(items)) => items.to_vec(),
        _ => vec![rest.clone()],
    };
    let sum = Value::default().made_of(template).made_of(rest).with_origin(Origin::COMPUTED);
    let Some(text) = template.as_text() else { return sum };
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((number, behind)) = after.split_once('}') else {
            out.push('{');
            rest = after;
            continue;
        };
        let at = number.split([':', ',']).next().and_then(|n| n.trim().parse::<usize>().ok());
        match at.and_then(|at| items.get(at)) {
            Some(item) => out.push_str(&item.text_or_hole()),
            None => out.push(HOLE),
        }
        rest = behind;
    }
    out.push_str(rest);
    Value::text(&out).made_of(&sum)
}

fn joined(between: &str, value: &Value) -> Value {
    let Some(items) = value.elements().filter(|_| !matches!(value.known, Some(Const::Text(_)))) else {
        return value.clone();
    };
    let texts: Vec<String> = items.iter().map(Value::text_or_hole).collect();
    Value { chain: value.chain.clone(), ..Value::text(&texts.join(between)) }
        .made_of(value)
        .with_origin(Origin::COMPUTED)
}

fn replaced(text: &Value, from: &Value, to: &Value) -> Value {
    let (Some(whole), Some(from), Some(to)) = (text.as_text(), from.as_text(), to.as_text()) else {
        return Value::default().made_of(text);
    };
    if from.is_empty() || whole.len().saturating_mul(to.len().max(1)) > 4 << 20 {
        return text.clone();
    }
    let from = from.replace('\\', "");
    Value { chain: text.chain.clone(), ..Value::text(&whole.replace(&from, to)) }
        .made_of(text)
        .with_origin(Origin::COMPUTED)
}

fn split(text: &Value, by: &Value) -> Value {
    let (Some(whole), Some(by)) = (text.as_text(), by.as_text()) else {
        return Value::default().made_of(text);
    };
    let by = by.replace('\\', "");
    if by.is_empty() {
        return Value::default().made_of(text);
    }
    Value::list(whole.split(&by).take(MAX_PIECES).map(Value::text).collect()).made_of(text)
}

/// `[char]65`, `[char[]](65, 66)`, `[string]`, `[int]`.
fn cast(to: &str, value: Value) -> Value {
    match to {
        "char" => match value.as_int().and_then(|n| u32::try_from(n).ok()).and_then(char::from_u32) {
            Some(c) => Value::text(c.encode_utf8(&mut [0; 4])).with_origin(Origin::COMPUTED),
            None => characters(&value).map_or(value, |text| {
                Value::list(text.elements().unwrap_or_default()).with_origin(Origin::DECODED)
            }),
        },
        "string" => joined(" ", &value),
        "int" | "byte" | "int32" | "convert" => match value.as_text().and_then(number) {
            Some(n) => Value::int(n),
            None => value,
        },
        _ => value,
    }
}

fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.trim().parse().ok(),
    }
}

/// Text of a list of numbers of characters.
fn characters(value: &Value) -> Option<Value> {
    let items = value.elements().filter(|_| matches!(value.known, Some(Const::List(_))))?;
    let text: Option<String> = items
        .iter()
        .map(|item| item.as_int().or_else(|| item.as_text().and_then(number)))
        .map(|n| n.and_then(|n| u32::try_from(n).ok()).and_then(char::from_u32))
        .collect();
    Some(Value::text(&text?).decoded_by("characters", value))
}

/// `text[4]`, `text[-1..-9]`, `list[0]`.
fn element(owner: &Value, key: &Value) -> Value {
    let Some(items) = owner.elements() else { return Value::default().made_of(owner) };
    let count = i64::try_from(items.len()).unwrap_or(0);
    let at = |n: i64| {
        let n = if n < 0 { n + count } else { n };
        usize::try_from(n).ok().and_then(|n| items.get(n)).cloned()
    };
    match (&key.known, key.as_int()) {
        (_, Some(n)) => at(n).unwrap_or_default().with_origin(Origin::COMPUTED),
        (Some(Const::List(keys)), _) => {
            Value::list(keys.iter().filter_map(|k| at(k.as_int()?)).collect()).with_origin(Origin::COMPUTED)
        }
        _ => Value::default().made_of(owner),
    }
}

/// Result of a method.
fn method(names: &[Rc<str>], owner: &Value, name: &str, args: &[Value]) -> Value {
    let sum = args.iter().fold(Value::default().made_of(owner), Value::made_of);
    let first = args.first();
    let is = |end: &str| names.iter().any(|n| &**n == end);
    match name {
        "frombase64string" | "frombase64chararray" => first
            .and_then(|v| decode::apply("base64", v))
            .unwrap_or_else(|| Value::default().with_origin(Origin::UNPACKED).made_of(&sum)),
        "getstring" => {
            let Some(bytes) = first else { return sum };
            let wide = owner.names.iter().any(|n| n.contains("unicode"));
            match (wide, &bytes.known) {
                (true, _) => decode::apply("utf-16", bytes).unwrap_or(sum),
                (false, Some(Const::List(_))) => {
                    let raw = bytes.as_bytes().map(|b| Value::bytes(&b).decoded_by("characters", bytes));
                    raw.unwrap_or(sum)
                }
                _ => Value { names: Vec::new(), ..bytes.clone() },
            }
        }
        "getbytes" | "tostring" | "trim" | "invokereturnasis" => {
            let text = if name == "getbytes" { first.unwrap_or(owner) } else { owner };
            Value { names: Vec::new(), ..text.clone() }
        }
        "replace" if args.len() == 2 => {
            let literal = |v: &Value| v.as_text().map(|t| Value::text(&t.replace('\\', "\\\\")));
            match (literal(&args[0]), &args[1]) {
                (Some(_), to) => replaced(owner, &args[0], to),
                _ => sum,
            }
        }
        "split" => first.map_or(sum, |by| split(owner, by)),
        "tochararray" => owner.elements().map_or(sum, |items| Value::list(items).made_of(owner)),
        "tolower" | "tolowerinvariant" => match owner.as_text() {
            Some(text) => Value::text(&text.to_lowercase()).made_of(owner),
            None => sum,
        },
        "substring" => {
            let (Some(text), Some(from)) = (owner.as_text(), first.and_then(Value::as_int)) else {
                return sum;
            };
            let length =
                args.get(1).and_then(Value::as_int).map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(0));
            let from = usize::try_from(from).unwrap_or(0);
            let piece: String = text.chars().skip(from).take(length).collect();
            Value::text(&piece).made_of(owner).with_origin(Origin::COMPUTED)
        }
        "join" if is("string.join") => {
            args.get(1).map_or(sum, |list| joined(first.and_then(Value::as_text).unwrap_or(""), list))
        }
        "concat" if is("string.concat") => joined("", &Value::list(args.to_vec())),
        "format" if is("string.format") => {
            args.first().map_or(sum, |template| formatted(template, &Value::list(args[1..].to_vec())))
        }
        "downloadstring" | "downloaddata" | "openread" | "getresponse" | "getresponsestream"
        | "readtoend" | "uploadstring" | "getstringasync" | "getbytearrayasync" => {
            let net = matches!(name, "readtoend")
                || first.is_none_or(|v| v.as_text().is_none_or(|t| !t.starts_with('/')));
            let fetched = first.and_then(Value::as_text).map(|t| format!("fetch:{t}").into());
            let origin = if net && name != "readtoend" { Origin::NET } else { Origin::default() };
            Value { names: fetched.into_iter().collect(), ..sum }.with_origin(origin)
        }
        "readallbytes" | "readalltext" | "readalllines" => sum.with_origin(Origin::FILE),
        "toint32" | "toint16" | "tobyte" => {
            let base = args.get(1).and_then(Value::as_int).and_then(|n| u32::try_from(n).ok()).unwrap_or(10);
            let text = first.and_then(Value::as_text);
            match text.filter(|_| (2..=36).contains(&base)).and_then(|t| i64::from_str_radix(t, base).ok()) {
                Some(n) => Value::int(n),
                None => sum,
            }
        }
        _ => {
            let names = names.iter().map(|n| format!("{n}()").into()).collect();
            Value { names, ..sum }
        }
    }
}
