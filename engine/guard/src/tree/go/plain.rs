//! A Go program in the plain form in which checks of hosts are looked for.

use crate::hosts::{At, Expr as Plain, FunctionId, Kind, MAX_NESTING, Program, Statement};
use tree_sitter::Node;

/// A program in plain form.
pub(super) fn program(root: Node<'_>, text: &str) -> Program {
    let mut lowering = Lowering { program: Program::default(), depth: 0, text };
    let body = lowering.block(root);
    lowering.program.ended(body)
}

struct Lowering<'s> {
    program: Program,
    depth: usize,
    text: &'s str,
}

type Block = Vec<Statement>;

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.named_children(&mut node.walk()).filter(|node| !node.is_extra()).collect()
}

fn at(node: Node<'_>) -> At {
    (node.start_byte(), node.end_byte())
}

impl<'s> Lowering<'s> {
    fn of(&self, node: Node<'_>) -> &'s str {
        self.text.get(node.byte_range()).unwrap_or("")
    }

    /// Statements of a node: its children, and those of a list among them.
    fn block(&mut self, node: Node<'_>) -> Block {
        let mut out = Vec::new();
        self.depth += 1;
        if self.depth <= MAX_NESTING {
            for child in children(node) {
                match child.kind() {
                    "statement_list" => out.extend(self.block(child)),
                    _ => self.statement(child, &mut out),
                }
            }
        }
        self.depth -= 1;
        out
    }

    fn part(&mut self, node: Node<'_>, field: &str) -> Block {
        node.child_by_field_name(field).map(|inner| self.block(inner)).unwrap_or_default()
    }

    fn statement(&mut self, node: Node<'_>, out: &mut Block) {
        let field = |name| node.child_by_field_name(name);
        let kind = match node.kind() {
            "function_declaration" | "method_declaration" => {
                let name = field("name").map_or("", |name| self.of(name));
                Kind::Define(self.function(node, name))
            }
            "short_var_declaration" | "assignment_statement" => {
                let (Some(left), Some(right)) = (field("left"), field("right")) else { return };
                let targets = children(left);
                // `out.URL.Host = host` is asked about like a call with the host.
                if let [target] = &targets[..]
                    && target.kind() == "selector_expression"
                {
                    let (function, value) = (self.boxed(Some(*target)), self.value(right));
                    let call = Plain::Call { function, args: vec![("".into(), value)], at: at(node) };
                    out.push(Statement { at: at(node), kind: Kind::Run(call) });
                    return;
                }
                return self.assigns(&targets, right, at(node), out);
            }
            "var_declaration" | "const_declaration" | "var_spec_list" => {
                children(node).into_iter().for_each(|spec| self.statement(spec, out));
                return;
            }
            "var_spec" | "const_spec" => {
                let mut cursor = node.walk();
                let names: Vec<Node<'_>> = node.children_by_field_name("name", &mut cursor).collect();
                if let Some(right) = field("value") {
                    self.assigns(&names, right, at(node), out);
                }
                return;
            }
            "if_statement" => {
                let mut before = Vec::new();
                if let Some(initializer) = field("initializer") {
                    self.statement(initializer, &mut before);
                }
                let Some(test) = field("condition") else { return };
                let test = self.value(test);
                let yes = self.part(node, "consequence");
                let no = match field("alternative") {
                    Some(other) if other.kind() == "if_statement" => {
                        let mut no = Vec::new();
                        self.statement(other, &mut no);
                        no
                    }
                    Some(other) => self.block(other),
                    None => Vec::new(),
                };
                before.push(Statement { at: at(node), kind: Kind::If(test, yes, no) });
                Kind::Block(before)
            }
            "for_statement" => {
                let body = self.part(node, "body");
                let range = children(node).into_iter().find(|child| child.kind() == "range_clause");
                let left = range.and_then(|range| range.child_by_field_name("left"));
                let right = range.and_then(|range| range.child_by_field_name("right"));
                let names: Vec<Box<str>> = left.map(|left| self.names(&children(left))).unwrap_or_default();
                let over = right.map_or(Plain::Other(Vec::new()), |right| self.value(right));
                let over = self.program.over(&names, over);
                Kind::Loop(names, over, body)
            }
            "expression_switch_statement" => {
                let subject = field("value");
                let mut all = Vec::new();
                for case in children(node) {
                    let body = self.block(case);
                    let test = case.child_by_field_name("value").map(|test| self.value(test));
                    let subject = subject.map(|subject| self.value(subject));
                    let kind = match (test, subject) {
                        (Some(Plain::Other(mut tests)), subject) if tests.len() == 1 => {
                            let test = tests.pop().unwrap_or(Plain::Nothing);
                            let test = match subject {
                                Some(subject) => Plain::Equal(Box::new(subject), Box::new(test)),
                                None => test,
                            };
                            Kind::If(test, body, Vec::new())
                        }
                        (Some(test), Some(subject)) => {
                            let test = Plain::In(Box::new(subject), Box::new(test));
                            Kind::If(test, body, Vec::new())
                        }
                        (Some(test), None) => Kind::If(test, body, Vec::new()),
                        (None, _) => Kind::Block(body),
                    };
                    all.push(Statement { at: at(case), kind });
                }
                Kind::Block(all)
            }
            "type_switch_statement"
            | "select_statement"
            | "block"
            | "communication_case"
            | "labeled_statement" => Kind::Block(self.block(node)),
            "return_statement" => {
                let values = node.named_child(0).map(|list| match list.kind() {
                    "expression_list" => children(list),
                    _ => vec![list],
                });
                Kind::Return(values.unwrap_or_default().into_iter().map(|one| self.value(one)).collect())
            }
            "break_statement" | "continue_statement" | "goto_statement" => Kind::Leave,
            "expression_statement" | "go_statement" | "defer_statement" => {
                let Some(inner) = node.named_child(0) else { return };
                Kind::Run(self.value(inner))
            }
            _ => return,
        };
        out.push(Statement { at: at(node), kind });
    }

    fn names(&self, nodes: &[Node<'_>]) -> Vec<Box<str>> {
        nodes.iter().filter(|node| node.kind() == "identifier").map(|node| self.of(*node).into()).collect()
    }

    fn assigns(&mut self, targets: &[Node<'_>], right: Node<'_>, at: At, out: &mut Block) {
        let values = if right.kind() == "expression_list" { children(right) } else { vec![right] };
        let names = self.names(targets);
        if values.len() == names.len() && names.len() > 1 {
            for (name, value) in names.into_iter().zip(values) {
                let value = self.value(value);
                let kind = self.program.bind(vec![name], value);
                out.push(Statement { at, kind });
            }
            return;
        }
        let value = values.first().map_or(Plain::Nothing, |value| self.value(*value));
        let kind = self.program.bind(names, value);
        out.push(Statement { at, kind });
    }

    fn function(&mut self, node: Node<'_>, name: &str) -> FunctionId {
        let mut params: Vec<Box<str>> = Vec::new();
        for parameter in node.child_by_field_name("parameters").map(children).unwrap_or_default() {
            let mut cursor = parameter.walk();
            let names: Vec<Node<'_>> = parameter.children_by_field_name("name", &mut cursor).collect();
            params.extend(names.iter().map(|name| Box::from(self.of(*name))));
        }
        let body = self.part(node, "body");
        self.program.define(name, params, body, at(node))
    }

    fn value(&mut self, node: Node<'_>) -> Plain {
        self.depth += 1;
        let plain = if self.depth > MAX_NESTING { Plain::Other(Vec::new()) } else { self.plain(node) };
        self.depth -= 1;
        plain
    }

    fn boxed(&mut self, node: Option<Node<'_>>) -> Box<Plain> {
        Box::new(node.map_or(Plain::Other(Vec::new()), |node| self.value(node)))
    }

    fn plain(&mut self, node: Node<'_>) -> Plain {
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "identifier" => Plain::Name(self.of(node).into()),
            "nil" | "false" => Plain::Nothing,
            "true" => Plain::True,
            "interpreted_string_literal" => {
                let text = self.of(node).trim_matches('"');
                Plain::Text(crate::decode::unescape(text).as_str().into())
            }
            "raw_string_literal" => Plain::Text(self.of(node).trim_matches('`').into()),
            "int_literal" => Plain::Number(self.of(node).parse().unwrap_or(i64::MAX)),
            "selector_expression" => {
                let name = field("field").map_or("", |name| self.of(name));
                Plain::Member(self.boxed(field("operand")), name.into())
            }
            "index_expression" => {
                let owner = self.boxed(field("operand"));
                match *self.boxed(field("index")) {
                    Plain::Text(key) => Plain::Member(owner, key),
                    key => Plain::Index(owner, Box::new(key)),
                }
            }
            "call_expression" => {
                let function = self.boxed(field("function"));
                let args = field("arguments").map(children).unwrap_or_default();
                let args = args.into_iter().map(|arg| ("".into(), self.value(arg))).collect();
                Plain::Call { function, args, at: at(node) }
            }
            "func_literal" => Plain::Function(self.function(node, "")),
            "unary_expression" => {
                let inner = self.boxed(field("operand"));
                match field("operator").map(|operator| self.of(operator)) {
                    Some("!") => Plain::Not(inner),
                    Some("-") => match *inner {
                        Plain::Number(number) => Plain::Number(number.saturating_neg()),
                        other => Plain::Other(vec![other]),
                    },
                    // An address of a value, and the value at an address.
                    Some("&" | "*") => *inner,
                    _ => Plain::Other(vec![*inner]),
                }
            }
            "binary_expression" => {
                let (left, right) = (self.boxed(field("left")), self.boxed(field("right")));
                match field("operator").map_or("", |operator| self.of(operator)) {
                    "==" => Plain::Equal(left, right),
                    "!=" => Plain::Not(Box::new(Plain::Equal(left, right))),
                    "&&" => Plain::And(vec![*left, *right]),
                    "||" => Plain::Or(vec![*left, *right]),
                    _ => Plain::Other(vec![*left, *right]),
                }
            }
            "parenthesized_expression" | "literal_element" => {
                node.named_child(0).map_or(Plain::Nothing, |inner| self.value(inner))
            }
            "type_assertion_expression" | "type_conversion_expression" | "slice_expression" => {
                *self.boxed(field("operand"))
            }
            "composite_literal" => {
                let items = field("body").map(children).unwrap_or_default();
                let kind = field("type").map_or("", |kind| self.of(kind));
                if kind.ends_with("http.Request") {
                    let value = |this: &mut Self, item: Node<'_>| {
                        item.named_child(1).map_or(Plain::Nothing, |value| this.value(value))
                    };
                    let args = items.into_iter().map(|item| ("".into(), value(self, item))).collect();
                    let function = Box::new(Plain::Name(kind.into()));
                    return Plain::Call { function, args, at: at(node) };
                }
                Plain::List(items.into_iter().map(|item| self.value(item)).collect())
            }
            "keyed_element" | "literal_value" | "expression_list" => {
                Plain::Other(children(node).into_iter().map(|inner| self.value(inner)).collect())
            }
            _ => Plain::Other(Vec::new()),
        }
    }
}
