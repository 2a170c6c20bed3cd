//! Values of expressions.

use super::super::Tree;
use super::{MAX_DEPTH, MAX_ITEMS, MAX_NAME, children, literal};
use crate::language::Language;
use crate::report::StepKind;
use crate::value::{Origin, Value, concat};
use tree_sitter::Node;

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
                let own = self.go.vars.get(&self.go.function).and_then(|vars| vars.get(name));
                let of_file = || self.go.vars.get("").and_then(|vars| vars.get(name));
                own.or_else(of_file).cloned().unwrap_or_else(|| Value::name(name))
            }
            "call_expression" => self.go_call(node, depth),
            "selector_expression" | "binary_expression" if super::super::is_writing_mode(self.of(node)) => {
                Value::name("O_WRONLY")
            }
            "selector_expression" => {
                let name = self.name_of(node);
                match &*name {
                    "os.Args" | "os.Stdin" => self.source(Origin::INPUT, &name, node),
                    _ => {
                        let owner = field("operand").map(|inner| self.go_value(inner, depth + 1));
                        let value = Value::name(&name);
                        owner.map_or_else(|| value.clone(), |owner| value.clone().made_of(&owner))
                    }
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
                concat(&left, &right).made_of(&left).made_of(&right)
            }
            "composite_literal" => match field("body") {
                Some(body) => {
                    let items: Vec<Value> = children(body)
                        .into_iter()
                        .take(MAX_ITEMS)
                        .map(|item| {
                            let inner = item.child_by_field_name("value").unwrap_or(item);
                            self.go_value(inner, depth + 1)
                        })
                        .collect();
                    Value::list(items)
                }
                None => Value::default(),
            },
            "index_expression" | "slice_expression" | "type_assertion_expression" | "unary_expression" => {
                let inner = field("operand").or_else(|| node.named_child(0));
                inner.map_or_else(Value::default, |inner| {
                    let value = self.go_value(inner, depth + 1);
                    if node.kind() == "unary_expression" { value } else { Value::default().made_of(&value) }
                })
            }
            "type_conversion_expression" => {
                field("operand").map_or_else(Value::default, |inner| self.go_value(inner, depth + 1))
            }
            "func_literal" => Value::name(&literal(node)),
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

    /// Canonical name of an expression; empty for a long one, as a chain of calls is.
    pub(super) fn name_of(&self, node: Node<'_>) -> String {
        let text = self.of(node);
        if text.len() > MAX_NAME { String::new() } else { self.canonical(text) }
    }

    /// True for programs whose values are followed.
    pub(in crate::tree) fn is_followed(&self) -> bool {
        self.language == Language::Go
    }
}
