//! Values of expressions: variables, members, literals, sums.

use super::super::Tree;
use super::calls::first_of;
use super::requests::{HOSTED, joined, of_address};
use super::sinks::is_command;
use super::{MAX_DEPTH, MAX_ITEMS, MAX_NAME, children, literal};
use crate::language::Language;
use crate::report::StepKind;
use crate::value::{Origin, Value, concat};
use std::rc::Rc;
use tree_sitter::Node;

/// Maximum number of names that a value gets from the value that it belongs to.
const MAX_NAMES: usize = 6;

impl Tree<'_, '_, '_> {
    /// Value of an expression.
    pub(in crate::tree) fn go_value(&mut self, node: Node<'_>, depth: usize) -> Value {
        if depth > MAX_DEPTH || !self.cx.tick() {
            return Value::default();
        }
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "identifier" => {
                let name = self.of(node);
                let scope = self.scope_at(node.start_byte(), name);
                let known = |scope: &str| self.go.vars.get(scope).and_then(|vars| vars.get(name));
                known(&scope).or_else(|| known("")).cloned().unwrap_or_else(|| Value::name(name))
            }
            "call_expression" => self.go_call(node, depth),
            "selector_expression" | "binary_expression" if super::super::is_writing_mode(self.of(node)) => {
                Value::name("O_WRONLY")
            }
            "selector_expression" => {
                let name = self.name_of(node);
                match &*name {
                    "os.Args" | "os.Stdin" => self.source(Origin::INPUT, &name, node),
                    _ => self.member(node, &name, depth),
                }
            }
            "binary_expression" => {
                let (Some(left), Some(right)) = (field("left"), field("right")) else {
                    return Value::default();
                };
                if field("operator").is_none_or(|operator| self.of(operator) != "+") {
                    return self.value(node, depth);
                }
                let (left, right) = (self.go_value(left, depth + 1), self.go_value(right, depth + 1));
                joined(&left, &right, concat(&left, &right).made_of(&left).made_of(&right))
            }
            "composite_literal" => self.composite(node, depth),
            "index_expression" if self.first_argument(node).is_some() => {
                self.first_argument(node).unwrap_or_default()
            }
            "index_expression" | "slice_expression" | "type_assertion_expression" | "unary_expression" => {
                let inner = field("operand").or_else(|| node.named_child(0));
                inner.map_or_else(Value::default, |inner| {
                    let value = self.go_value(inner, depth + 1);
                    match node.kind() {
                        "unary_expression" | "type_assertion_expression" => value,
                        "slice_expression" => {
                            Value { names: value.names.clone(), ..Value::default() }.made_of(&value)
                        }
                        _ => self.element_of(&value),
                    }
                })
            }
            "type_conversion_expression" => {
                field("operand").map_or_else(Value::default, |inner| self.go_value(inner, depth + 1))
            }
            "func_literal" => Value::name(&literal(node)),
            "keyed_element" => {
                node.named_child(1).map_or_else(Value::default, |inner| self.go_value(inner, depth + 1))
            }
            "expression_list" | "parenthesized_expression" | "literal_element" | "variadic_argument" => {
                let all = children(node);
                let mut values = all.into_iter().take(MAX_ITEMS).map(|one| self.go_value(one, depth + 1));
                let first = values.next().unwrap_or_default();
                let rest: Vec<Value> = values.collect();
                rest.iter().fold(first, Value::made_of)
            }
            _ => self.value(node, depth),
        }
    }

    pub(super) fn source(&self, origin: Origin, name: &str, node: Node<'_>) -> Value {
        let at = (node.start_byte(), node.end_byte());
        Value::name(name).with_origin(origin).stepped(StepKind::Source, name, at)
    }

    /// Value of a member of a package or of a value.
    fn member(&mut self, node: Node<'_>, name: &str, depth: usize) -> Value {
        let Some(operand) = node.child_by_field_name("operand") else { return Value::name(name) };
        if self.is_package(operand) {
            return Value::name(name);
        }
        let owner = self.go_value(operand, depth + 1);
        let field = node.child_by_field_name("field").map_or("", |field| self.of(field)).to_owned();
        // Arguments of a command that was made before.
        if field == "Args" && is_command(&owner) && owner.elements().is_some() {
            return Value { names: Value::name("Args").names, ..owner };
        }
        let mut value = Value::name(name).made_of(&owner);
        for own in &owner.names {
            if self.is_of_library(own) && value.names.len() < MAX_NAMES && own.len() < MAX_NAME {
                value.names.push(format!("{own}.{field}").into());
            }
        }
        for held in [self.go.fields.get(&field), self.go.field_types.get(&field)].into_iter().flatten() {
            value.names.extend(held.iter().take(MAX_NAMES).cloned());
        }
        if owner.is_named(HOSTED) {
            value.names.push(HOSTED.into());
        }
        if value.origin.has(Origin::REQUEST) {
            return of_address(value, &field, self.of(operand));
        }
        let is_entry = |name: &Rc<str>| {
            (name.starts_with("archive/zip") || name.starts_with("archive/tar"))
                && !name.contains("Writer")
                && !name.contains("FileInfoHeader")
        };
        if matches!(&*field, "Name" | "Linkname") && owner.names.iter().any(is_entry) {
            let at = (node.start_byte(), node.end_byte());
            return value.with_origin(Origin::ENTRY).stepped(StepKind::Source, &field, at);
        }
        value
    }

    /// Value of `args[0]`, for a parameter that takes all further arguments.
    fn first_argument(&self, node: Node<'_>) -> Option<Value> {
        let (operand, index) = (node.child_by_field_name("operand")?, node.child_by_field_name("index")?);
        if self.of(index) != "0" || operand.kind() != "identifier" {
            return None;
        }
        let name = self.of(operand);
        let scope = self.scope_at(node.start_byte(), name);
        self.go.vars.get(&*scope)?.get(&first_of(name)).cloned()
    }

    /// Value of a literal of a type with its elements.
    fn composite(&mut self, node: Node<'_>, depth: usize) -> Value {
        let Some(body) = node.child_by_field_name("body") else { return Value::default() };
        let kind = node.child_by_field_name("type").and_then(|kind| self.type_of(kind));
        let is_address = kind.as_deref() == Some("net/url.URL");
        let mut is_open = false;
        let mut items = Vec::new();
        for item in children(body).into_iter().take(MAX_ITEMS) {
            let value = self.go_value(item, depth + 1);
            if item.named_child(0).is_some_and(|key| self.of(key) == "Host") {
                is_open = value.origin.has(Origin::REQUEST);
            }
            items.push(value);
        }
        let mut value = Value::list(items);
        if let Some(kind) = kind {
            value.names.push(kind.as_str().into());
        }
        if is_address && !is_open {
            value.names.push(HOSTED.into());
        }
        value
    }

    /// Value of an element of a list or a map.
    pub(super) fn element_of(&self, whole: &Value) -> Value {
        let mut value = Value::default().made_of(whole);
        // A path that matches a pattern.
        if whole.origin.has(Origin::TREE) && whole.as_text().is_some() {
            value.known.clone_from(&whole.known);
        }
        for name in &whole.names {
            if self.is_of_library(name) && name.len() < MAX_NAME {
                value.names.push(format!("{name}[]").into());
            }
        }
        for name in whole.elements().iter().flatten().take(MAX_ITEMS).flat_map(|item| &item.names) {
            if self.is_of_library(name) && value.names.len() < MAX_NAMES && !value.names.contains(name) {
                value.names.push(name.clone());
            }
        }
        value
    }

    /// Canonical name of an expression; empty for a long one, as a chain of calls is.
    pub(super) fn name_of(&self, node: Node<'_>) -> String {
        let text = self.of(node);
        if text.len() > MAX_NAME {
            return String::new();
        }
        let plain: String = super::super::without_comments(text).split_whitespace().collect();
        self.canonical(&plain)
    }

    /// True for programs whose values are followed.
    pub(in crate::tree) fn is_followed(&self) -> bool {
        self.language == Language::Go
    }
}
