//! Walks that learn: values of variables, parameters and results of a program's own functions.

use super::super::Tree;
use super::{MAX_DEPTH, children, literal, merged, stepped};
use crate::report::StepKind;
use crate::value::{Origin, Value};
use tree_sitter::Node;

/// Types of parameters that hold what a client of a server, or the caller of a tool, sends.
const REQUESTS: &[&str] = &[
    "http.Request",
    "gin.Context",
    "echo.Context",
    "fiber.Ctx",
    "fasthttp.RequestCtx",
    "mcp.CallToolRequest",
    "mcp.GetPromptRequest",
    "mcp.ReadResourceRequest",
];

impl Tree<'_, '_, '_> {
    /// A walk that learns.
    pub(in crate::tree) fn learnt(&mut self, node: Node<'_>) {
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "function_declaration" | "method_declaration" => {
                self.enters(node);
                if let Some(list) = field("parameters") {
                    self.parameters(list, true);
                }
            }
            "func_literal" => {
                if let Some(list) = field("parameters") {
                    let names = self.parameters(list, false);
                    self.go.literals.insert(literal(node), (self.go.function.clone(), names));
                }
            }
            // A channel holds what is sent to it.
            "send_statement" => {
                if let (Some(channel), Some(sent)) = (field("channel"), field("value")) {
                    let value = Value::default().made_of(&self.go_value(sent, 0));
                    self.hold(channel, value);
                }
            }
            "receive_statement" => {
                if let (Some(left), Some(right)) = (field("left"), field("right")) {
                    self.assigned(left, right);
                }
            }
            "var_declaration" | "const_declaration"
                if node.parent().is_some_and(|above| above.kind() == "source_file") =>
            {
                self.go.function.clear();
            }
            "short_var_declaration" | "assignment_statement" => {
                if let (Some(left), Some(right)) = (field("left"), field("right")) {
                    self.assigned(left, right);
                }
            }
            "var_spec" | "const_spec" => {
                if let Some(right) = field("value") {
                    let mut cursor = node.walk();
                    let names: Vec<Node<'_>> = node.children_by_field_name("name", &mut cursor).collect();
                    self.bind_names(&names, right);
                }
            }
            "range_clause" => {
                if let (Some(left), Some(right)) = (field("left"), field("right")) {
                    let value = Value::default().made_of(&self.go_value(right, 0));
                    for name in children(left) {
                        self.hold(name, value.clone());
                    }
                }
            }
            "return_statement" => {
                let value = node.named_child(0).map(|list| self.go_value(list, 0)).unwrap_or_default();
                let function = self.go.function.clone();
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

    fn parameters(&mut self, list: Node<'_>, is_named: bool) -> Vec<String> {
        let mut names = Vec::new();
        let mut of_tool = false;
        let of_method = list.parent().is_some_and(|above| above.kind() == "method_declaration");
        let mut behind_context = false;
        for parameter in
            children(list).into_iter().filter(|node| node.kind().ends_with("parameter_declaration"))
        {
            let kind = parameter.child_by_field_name("type").map_or("", |kind| self.of(kind));
            let is_request = REQUESTS.iter().any(|name| kind.trim_start_matches('*').ends_with(name));
            // Behind the request of a tool are its decoded arguments.
            let is_argument = of_tool && !kind.ends_with("Context");
            of_tool |= is_request && kind.contains("mcp.");
            // A method of a service of gRPC: `(ctx context.Context, req *pb.RunRequest)`.
            let is_message = kind.starts_with('*') && kind.contains('.') && kind.ends_with("Request");
            let is_request = is_request || is_argument || of_method && behind_context && is_message;
            behind_context = kind == "context.Context";
            let is_listening = matches!(kind, "net.Listener" | "net.PacketConn");
            let mut cursor = parameter.walk();
            for name in parameter.children_by_field_name("name", &mut cursor) {
                names.push(self.of(name).to_owned());
                if is_listening {
                    self.hold(name, Value::name("net.Listen()"));
                }
                if is_request {
                    let at = (name.start_byte(), name.end_byte());
                    let value = Value::default().with_origin(Origin::REQUEST);
                    self.hold(name, value.stepped(StepKind::Source, self.of(name), at));
                }
            }
        }
        if is_named {
            let function = self.go.function.clone();
            self.go.params.insert(function, names.clone());
        }
        names
    }

    pub(super) fn assigned(&mut self, left: Node<'_>, right: Node<'_>) {
        let names = children(left);
        self.bind_names(&names, right);
    }

    /// Binds names to a list of expressions, or to the results of one.
    fn bind_names(&mut self, names: &[Node<'_>], right: Node<'_>) {
        let values = if right.kind() == "expression_list" { children(right) } else { vec![right] };
        if values.len() == names.len() {
            for (name, value) in names.iter().zip(values) {
                let value = self.go_value(value, 0);
                self.hold(*name, value);
            }
            return;
        }
        let value = values.first().map(|value| self.go_value(*value, 0)).unwrap_or_default();
        for name in names {
            if !matches!(self.of(*name), "_" | "err" | "ok") {
                self.hold(*name, value.clone());
            }
        }
    }

    /// Adds a value to those of a variable, or of the variable that a target belongs to.
    pub(super) fn hold(&mut self, target: Node<'_>, value: Value) {
        let Some(name) = self.root_of(target, 0) else { return };
        if name == "_" {
            return;
        }
        let at = (target.start_byte(), target.end_byte());
        let value = stepped(value, StepKind::Bound, &name, at);
        let vars = self.go.vars.entry(self.go.function.clone()).or_default();
        let whole = target.kind() == "identifier";
        match vars.get_mut(&name) {
            Some(older) if whole => *older = merged(value, older),
            // A member or an element of it.
            Some(older) => *older = std::mem::take(older).made_of(&value),
            None if whole => drop(vars.insert(name, value)),
            None => drop(vars.insert(name, Value::default().made_of(&value))),
        }
    }

    /// Variable that an expression belongs to: `x`, `x.y`, `x[0]`, `&x`, `*x`, `x[:]`.
    fn root_of(&self, node: Node<'_>, depth: usize) -> Option<String> {
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
