//! Functions as values: which functions a call may reach through variables, fields, maps, parameters, results and method values.

use super::super::Tree;
use super::{MAX_ITEMS, children, literal};
use crate::value::Value;
use std::rc::Rc;
use tree_sitter::Node;

/// Maximum number of functions that a call is taken to reach.
const MAX_FUNCTIONS: usize = 8;
/// Maximum nesting of expressions that functions are looked for in.
const MAX_NESTING: usize = 12;
/// Maximum length of a name that a call is made of, in bytes.
const MAX_NAME: usize = 160;

/// Names of functions.
pub(super) type Functions = Vec<Rc<str>>;

/// Adds a name that is not among them.
fn add(to: &mut Functions, name: impl Into<Rc<str>>) {
    let name = name.into();
    if to.len() < MAX_FUNCTIONS && !name.is_empty() && name.len() <= MAX_NAME && !to.contains(&name) {
        to.push(name);
    }
}

pub(super) fn add_all(to: &mut Functions, names: &[Rc<str>]) {
    for name in names {
        add(to, name.clone());
    }
}

impl Tree<'_, '_, '_> {
    /// Canonical names of what a call calls: the name as it is written, those of the functions that it may hold, and those of
    /// methods of a value of a library.
    pub(in crate::tree) fn callees(&mut self, function: Node<'_>, receiver: Option<&Value>) -> Functions {
        let mut names = Vec::new();
        add(&mut names, self.name_of(function));
        let held = self.functions_of(function, receiver, 0);
        add_all(&mut names, &held);
        names
    }

    /// Functions that an expression is, or contains.
    pub(super) fn functions(&mut self, node: Node<'_>, depth: usize) -> Functions {
        self.functions_of(node, None, depth)
    }

    fn functions_of(&mut self, node: Node<'_>, receiver: Option<&Value>, depth: usize) -> Functions {
        let mut all = Vec::new();
        if depth > MAX_NESTING || !self.cx.tick() {
            return all;
        }
        match node.kind() {
            "identifier" => all = self.held_by(self.of(node), node.start_byte()),
            "selector_expression" => {
                let (Some(owner), Some(member)) =
                    (node.child_by_field_name("operand"), node.child_by_field_name("field"))
                else {
                    return all;
                };
                let member = self.of(member).to_owned();
                if self.is_package(owner) {
                    add(&mut all, self.name_of(node));
                    return all;
                }
                let owner = match receiver {
                    Some(receiver) => receiver.clone(),
                    None => self.go_value(owner, depth + 1),
                };
                let of_library: Functions =
                    owner.names.iter().filter(|name| self.is_of_library(name)).cloned().collect();
                // `reflect.ValueOf(f).Call(…)` calls what the value is.
                if self.is_reflected(&member) {
                    let called: Functions =
                        owner.names.iter().filter(|name| self.is_function(name)).cloned().collect();
                    add_all(&mut all, &called);
                }
                for name in &of_library {
                    add(&mut all, format!("{name}.{member}"));
                }
                if let Some(held) = self.go.fields.get(&member) {
                    add_all(&mut all, held);
                }
                let is_own = owner.names.iter().any(|name| self.go.types.contains(&**name));
                if (is_own || of_library.is_empty()) && self.go.params.contains_key(&member) {
                    add(&mut all, member);
                }
            }
            "call_expression" => all = self.functions_of_call(node, depth),
            "func_literal" => add(&mut all, literal(node)),
            "composite_literal" => {
                for item in node.child_by_field_name("body").map(children).unwrap_or_default() {
                    let functions = self.functions(item, depth + 1);
                    add_all(&mut all, &functions);
                }
            }
            "keyed_element" => {
                if let Some(value) = node.named_child(1) {
                    all = self.functions(value, depth + 1);
                }
            }
            "index_expression"
            | "slice_expression"
            | "type_assertion_expression"
            | "type_conversion_expression"
            | "type_instantiation_expression"
            | "unary_expression" => {
                let inner = node.child_by_field_name("operand").or_else(|| node.named_child(0));
                if let Some(inner) = inner {
                    all = self.functions(inner, depth + 1);
                }
            }
            "parenthesized_expression"
            | "expression_list"
            | "literal_element"
            | "literal_value"
            | "variadic_argument" => {
                for inner in children(node).into_iter().take(MAX_ITEMS) {
                    let functions = self.functions(inner, depth + 1);
                    add_all(&mut all, &functions);
                }
            }
            _ => {}
        }
        all
    }

    /// Functions that the result of a call is, or contains.
    fn functions_of_call(&mut self, node: Node<'_>, depth: usize) -> Functions {
        let mut all = Vec::new();
        let Some(function) = node.child_by_field_name("function") else { return all };
        let written = self.of(function);
        let keeps =
            matches!(written, "any" | "append" | "reflect.ValueOf" | "sync.OnceValue" | "sync.OnceFunc")
                || self.go.types.contains(written)
                || matches!(function.kind(), "parenthesized_expression" | "interface_type" | "function_type");
        if keeps {
            for argument in node.child_by_field_name("arguments").map(children).unwrap_or_default() {
                let functions = self.functions(argument, depth + 1);
                add_all(&mut all, &functions);
            }
            return all;
        }
        let called = self.functions(function, depth + 1);
        // A function of a library may return what calls its argument: `retry.Wrap(exec.Command)`.
        if !called.iter().any(|name| self.go.params.contains_key(&**name)) {
            for argument in node.child_by_field_name("arguments").map(children).unwrap_or_default() {
                if matches!(argument.kind(), "identifier" | "selector_expression") {
                    let functions = self.functions(argument, depth + 1);
                    add_all(&mut all, &functions);
                }
            }
        }
        for name in &called {
            if let Some(returned) = self.go.returned.get(&**name) {
                add_all(&mut all, returned);
            }
        }
        // A container gives out the functions that it was given: `registry.Get("x")`, `value.Load()`.
        if function.kind() == "selector_expression"
            && let Some(root) = self.root_of(function, 0)
        {
            let scope = self.scope_at(function.start_byte(), &root).into_owned();
            let held = self.go.held.get(&(scope, root.clone()));
            if let Some(held) = held.or_else(|| self.go.held.get(&(String::new(), root))) {
                add_all(&mut all, held);
            }
        }
        all
    }

    /// Functions that a name stands for: those that a variable holds, or the function of the file or of a package whose names
    /// are all imported.
    fn held_by(&self, name: &str, at: usize) -> Functions {
        let mut all = Vec::new();
        let mut is_known = false;
        let own = self.scope_at(at, name);
        for scope in [&*own, ""] {
            if let Some(value) = self.go.vars.get(scope).and_then(|vars| vars.get(name)) {
                is_known = true;
                for own in &value.names {
                    if self.is_function(own) {
                        add(&mut all, own.clone());
                    }
                }
            }
            if let Some(held) = self.go.held.get(&(scope.to_owned(), name.to_owned())) {
                is_known = true;
                add_all(&mut all, held);
            }
            if is_known {
                return all;
            }
        }
        if self.go.params.contains_key(name) {
            add(&mut all, name);
        } else if name.starts_with(char::is_uppercase) {
            for module in &self.stars {
                add(&mut all, format!("{module}.{name}"));
            }
        }
        all
    }

    /// Notes that a variable, or a part of it, holds functions.
    pub(super) fn holds(&mut self, target: Node<'_>, functions: &[Rc<str>]) {
        if functions.is_empty() {
            return;
        }
        if target.kind() == "selector_expression"
            && let Some(member) = target.child_by_field_name("field")
        {
            let member = self.of(member).to_owned();
            add_all(self.go.fields.entry(member).or_default(), functions);
        }
        if let Some(root) = self.root_of(target, 0).filter(|root| root != "_") {
            let key = (self.scope_of(target, &root), root);
            add_all(self.go.held.entry(key).or_default(), functions);
        }
    }

    /// Notes the functions that a literal puts into fields: `Tool{run: exec.Command}`.
    pub(super) fn learn_fields(&mut self, node: Node<'_>) {
        let kind = node.child_by_field_name("type");
        let layout = match kind {
            Some(kind) if kind.kind() == "struct_type" => self.layout(kind),
            Some(kind) => self.go.layouts.get(self.of(kind)).cloned().unwrap_or_default(),
            None => Vec::new(),
        };
        let items = node.child_by_field_name("body").map(children).unwrap_or_default();
        for (position, item) in items.into_iter().enumerate() {
            let (key, value) = match (item.kind(), item.named_child(0), item.named_child(1)) {
                ("keyed_element", Some(key), Some(value)) => (self.of(key).to_owned(), value),
                // A value without the name of its field: `Tool{exec.Command}`.
                _ => (layout.get(position).cloned().unwrap_or_default(), item),
            };
            if !key.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                continue;
            }
            let functions = self.functions(value, 0);
            if !functions.is_empty() {
                add_all(self.go.fields.entry(key).or_default(), &functions);
            }
        }
    }

    /// Names of the fields of a type, in their order.
    pub(super) fn layout(&self, kind: Node<'_>) -> Vec<String> {
        let mut all = Vec::new();
        let lists = children(kind).into_iter().filter(|node| node.kind() == "field_declaration_list");
        for field in lists.flat_map(children) {
            let mut cursor = field.walk();
            all.extend(
                field.children_by_field_name("name", &mut cursor).map(|name| self.of(name).to_owned()),
            );
        }
        all
    }

    /// True for the name of a package that no variable hides.
    pub(super) fn is_package(&self, node: Node<'_>) -> bool {
        let name = self.of(node);
        let is_variable = |scope: &str| self.go.vars.get(scope).is_some_and(|vars| vars.contains_key(name));
        node.kind() == "identifier"
            && self.names.contains_key(name)
            && !is_variable(&self.scope_at(node.start_byte(), name))
            && !is_variable("")
    }

    /// True for a name within a package that the file imports.
    pub(super) fn is_of_library(&self, name: &str) -> bool {
        let is_of = |module: &String| {
            name.strip_prefix(module.as_str()).is_some_and(|rest| rest.starts_with(['.', '(']))
        };
        self.names.values().any(is_of) || self.stars.iter().any(is_of)
    }

    /// True for a method that calls a function by reflection.
    pub(in crate::tree) fn is_reflected(&self, method: &str) -> bool {
        matches!(method, "Call" | "CallSlice") && self.names.values().any(|module| module == "reflect")
    }

    fn is_function(&self, name: &str) -> bool {
        self.go.params.contains_key(name) || self.go.literals.contains_key(name) || self.is_of_library(name)
    }
}
