//! Walks that learn: values of variables and results of a program's own functions.

use super::super::{Tree, is_outermost};
use super::functions::add_all;
use super::requests::below_host;
use super::{MAX_DEPTH, children, literal, merged, stepped};
use crate::report::StepKind;
use crate::value::{Origin, Value};
use tree_sitter::Node;

impl Tree<'_, '_, '_> {
    /// A walk that learns.
    pub(in crate::tree) fn learnt(&mut self, node: Node<'_>) {
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "function_declaration" | "method_declaration" => {
                self.enters(node);
                if let Some(list) = field("receiver") {
                    let names = self.parameters(list, false);
                    if let [name, ..] = &names[..] {
                        self.go.receivers.insert(self.go.function.clone(), name.clone());
                    }
                }
                if let Some(list) = field("parameters") {
                    self.parameters(list, true);
                }
            }
            "type_spec" | "type_alias" => {
                if let Some(name) = field("name").map(|name| self.of(name).to_owned()) {
                    if let Some(kind) = field("type").filter(|kind| kind.kind() == "struct_type") {
                        let layout = self.layout(kind);
                        self.go.layouts.insert(name.clone(), layout);
                    }
                    self.go.types.insert(name);
                }
            }
            "field_declaration" => self.learn_field(node),
            "func_literal" => {
                if let Some(list) = field("parameters") {
                    let names = self.parameters(list, false);
                    self.go.literals.insert(literal(node), names);
                }
            }
            // A channel holds what is sent to it.
            "send_statement" => {
                if let (Some(channel), Some(sent)) = (field("channel"), field("value")) {
                    let value = Value::default().made_of(&self.go_value(sent, 0));
                    self.hold(channel, value);
                    let functions = self.functions(sent, 0);
                    self.holds(channel, &functions);
                }
            }
            "receive_statement" => {
                if let (Some(left), Some(right)) = (field("left"), field("right")) {
                    self.assigned(left, right);
                }
            }
            "var_declaration" | "const_declaration" if is_outermost(node) => self.leaves(),
            "short_var_declaration" | "assignment_statement" => {
                if let (Some(left), Some(right)) = (field("left"), field("right")) {
                    self.assigned(left, right);
                }
            }
            "var_spec" | "const_spec" => {
                let mut cursor = node.walk();
                let names: Vec<Node<'_>> = node.children_by_field_name("name", &mut cursor).collect();
                let kind = field("type").and_then(|kind| self.type_of(kind));
                let value = kind.as_deref().map(Value::name).unwrap_or_default();
                if kind.is_some() || self.go.function.is_empty() {
                    names.iter().for_each(|name| self.hold(*name, value.clone()));
                }
                if let Some(right) = field("value") {
                    self.bind_names(&names, right);
                }
            }
            "composite_literal" => self.learn_fields(node),
            "range_clause" => {
                if let (Some(left), Some(right)) = (field("left"), field("right")) {
                    let whole = self.go_value(right, 0);
                    let value = self.element_of(&whole);
                    let functions = self.functions(right, 0);
                    for name in children(left) {
                        self.hold(name, value.clone());
                        self.holds(name, &functions);
                    }
                }
            }
            "return_statement" => {
                let list = node.named_child(0);
                let value = list.map(|list| self.go_value(list, 0)).unwrap_or_default();
                let functions = list.map(|list| self.functions(list, 0)).unwrap_or_default();
                let function = self.returning(node);
                add_all(self.go.returned.entry(function.clone()).or_default(), &functions);
                let value = match self.go.results.get(&function) {
                    Some(older) => merged(value, older),
                    None => value,
                };
                self.go.results.insert(function, value);
            }
            "call_expression" => self.learn_call(node),
            _ => {}
        }
    }

    /// Notes the function that the following nodes belong to.
    pub(in crate::tree) fn enters(&mut self, node: Node<'_>) {
        self.go.function = node.child_by_field_name("name").map_or("", |name| self.of(name)).to_owned();
    }

    /// Notes that the following nodes belong to no function.
    pub(in crate::tree) fn leaves(&mut self) {
        self.go.function.clear();
    }

    pub(super) fn assigned(&mut self, left: Node<'_>, right: Node<'_>) {
        let names = children(left);
        self.bind_names(&names, right);
    }

    /// Binds names to a list of expressions, or to the results of one.
    fn bind_names(&mut self, names: &[Node<'_>], right: Node<'_>) {
        let values = if right.kind() == "expression_list" { children(right) } else { vec![right] };
        if values.len() == names.len() {
            for (name, right) in names.iter().zip(values) {
                let value = self.go_value(right, 0);
                self.hold(*name, value);
                let functions = self.functions(right, 0);
                self.holds(*name, &functions);
            }
            return;
        }
        let value = values.first().map(|value| self.go_value(*value, 0)).unwrap_or_default();
        let functions = values.first().map(|value| self.functions(*value, 0)).unwrap_or_default();
        for name in names {
            if !matches!(self.of(*name), "_" | "err" | "ok") {
                self.hold(*name, value.clone());
                self.holds(*name, &functions);
            }
        }
    }

    /// Name of the function that a statement returns from: of the declaration around it, or of a function without a name.
    fn returning(&self, node: Node<'_>) -> String {
        let mut next = node.parent();
        while let Some(above) = next {
            match above.kind() {
                "func_literal" => return literal(above),
                "function_declaration" | "method_declaration" => break,
                _ => next = above.parent(),
            }
        }
        self.go.function.clone()
    }

    /// Adds a value to those of a variable, or of the variable that a target belongs to.
    pub(super) fn hold(&mut self, target: Node<'_>, value: Value) {
        let Some(name) = self.root_of(target, 0) else { return };
        if name == "_" {
            return;
        }
        let at = (target.start_byte(), target.end_byte());
        let value = stepped(value, StepKind::Bound, &name, at);
        let whole = target.kind() == "identifier";
        let field = target.child_by_field_name("field").map_or("", |field| self.of(field));
        let scope = self.scope_of(target, &name);
        let vars = self.go.vars.entry(scope).or_default();
        match vars.get_mut(&name) {
            Some(older) if whole => *older = merged(value, older),
            // A member or an element of it.
            older => {
                let before = older.map(std::mem::take).unwrap_or_default();
                let had_request = before.origin.has(Origin::REQUEST);
                let mut after = if whole { value } else { before.made_of(&value) };
                below_host(&mut after, field, had_request);
                vars.insert(name, after);
            }
        }
    }

    /// Function that a variable belongs to: an assignment does not make a new one, so it may be one of the file.
    pub(super) fn scope_of(&self, target: Node<'_>, name: &str) -> String {
        let scope = self.scope_at(target.start_byte(), name);
        let statement = target.parent().and_then(|list| list.parent());
        let assigns = statement.is_some_and(|statement| statement.kind() == "assignment_statement");
        let knows = |scope: &str| self.go.vars.get(scope).is_some_and(|vars| vars.contains_key(name));
        if assigns && !knows(&scope) && knows("") { String::new() } else { scope.into_owned() }
    }

    /// Variable that an expression belongs to: `x`, `x.y`, `x[0]`, `&x`, `*x`, `x[:]`.
    pub(super) fn root_of(&self, node: Node<'_>, depth: usize) -> Option<String> {
        if depth > MAX_DEPTH {
            return None;
        }
        match node.kind() {
            "identifier" => Some(self.of(node).to_owned()),
            "selector_expression"
            | "index_expression"
            | "slice_expression"
            | "unary_expression"
            | "parenthesized_expression" => {
                let inner = node.child_by_field_name("operand").or_else(|| node.named_child(0))?;
                self.root_of(inner, depth + 1)
            }
            _ => None,
        }
    }
}
