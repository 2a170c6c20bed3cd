//! Calls, literals and assignments that start a program, open a file or hand a request on.

use super::super::Tree;
use super::children;
use crate::hosts::Danger;
use crate::language::Language;
use crate::rules::{Call, Does, effect, given_as_option, is_fed_interpreter};
use crate::value::{HOLE, Origin, Value};
use std::rc::Rc;
use tree_sitter::Node;

/// Name under which each start of a program is reported: the program, and its arguments.
const START: &str = "os/exec.Command";

/// True for a command that was made and not started yet.
pub(super) fn is_command(value: &Value) -> bool {
    const MADE: &[&str] = &[
        "os/exec.Cmd",
        "os/exec.Command()",
        "os/exec.CommandContext()",
        "golang.org/x/sys/execabs.Command()",
        "golang.org/x/sys/execabs.CommandContext()",
    ];
    value.names.iter().any(|name| MADE.contains(&&**name))
}

/// Position of the path in a call that opens, writes, moves or deletes a file.
fn path_at(name: &str) -> Option<usize> {
    match name {
        "os.ReadFile"
        | "os.Open"
        | "os.OpenFile"
        | "os.WriteFile"
        | "os.Create"
        | "os.Remove"
        | "os.RemoveAll"
        | "os.Rename"
        | "os.ReadDir"
        | "os.Chmod"
        | "os.Truncate"
        | "io/ioutil.ReadFile"
        | "io/ioutil.WriteFile"
        | "io/ioutil.ReadDir" => Some(0),
        _ => None,
    }
}

/// Position of the path in a call that makes a file.
fn made_at(name: &str) -> Option<usize> {
    match name {
        "os.Create" | "os.OpenFile" | "os.WriteFile" | "io/ioutil.WriteFile" => Some(0),
        "os.Symlink" | "os.Link" | "os.Rename" => Some(1),
        _ => None,
    }
}

/// Danger of a path: something is known before the piece that is given, or nothing is.
fn below(path: &Value) -> Danger {
    let is_below = path.as_text().is_some_and(|text| !text.trim_matches(HOLE).is_empty());
    if is_below { Danger::Below } else { Danger::Path }
}

impl Tree<'_, '_, '_> {
    /// Reports a call by the names of what it calls, and by its effect.
    pub(in crate::tree) fn go_called(&mut self, node: Node<'_>) {
        let Some(function) = node.child_by_field_name("function") else { return };
        let nodes = node.child_by_field_name("arguments").map(children).unwrap_or_default();
        let mut args: Vec<Value> = nodes.into_iter().map(|argument| self.go_value(argument, 0)).collect();
        let operand = function.child_by_field_name("operand");
        let operand = operand.filter(|_| function.kind() == "selector_expression");
        let receiver = operand.map(|operand| self.go_value(operand, 0));
        let names = self.callees(function, receiver.as_ref());
        let method = function.child_by_field_name("field").map_or("", |field| self.of(field));
        if self.is_reflected(method)
            && let Some(list) = args.first().and_then(Value::elements)
        {
            args = list;
        }
        let call = Call {
            names: &names,
            method: None,
            receiver: receiver.as_ref(),
            args: &args,
            kwargs: &[],
            context: 0,
        };
        self.cx.call(Language::Go, &call, (node.start_byte(), node.end_byte()));
        self.effects(&names, &args, node);
    }

    fn effects(&mut self, names: &[Rc<str>], args: &[Value], node: Node<'_>) {
        let starts = names.iter().find_map(|name| match effect(name) {
            Some((Does::Start, at)) => Some((name.clone(), at)),
            _ => None,
        });
        if let Some((name, at)) = starts {
            let mut words: Vec<Value> = args.iter().skip(at).cloned().collect();
            // `syscall.Exec(path, argv, environment)`, `os.StartProcess(path, argv, attributes)`.
            let takes_list =
                name.starts_with("syscall.") || name.starts_with("os.") || name.ends_with(".Exec");
            if takes_list && let [path, list, ..] = &words[..] {
                let rest = list.elements().unwrap_or_else(|| vec![Value::default(), list.clone()]);
                words = std::iter::once(path.clone()).chain(rest.into_iter().skip(1)).collect();
            }
            self.starts(&words, node, &*name != START);
        }
        let line = names.iter().find_map(|name| match effect(name) {
            Some((Does::Line, at)) => args.get(at),
            _ => None,
        });
        if let Some(text) = line.and_then(Value::as_text).map(str::to_owned) {
            self.cx.child(Language::Bash, &text, (node.start_byte(), node.end_byte()), &["shell"]);
        }
        self.requests(names, args, node);
        for name in names {
            self.redirects(name, args, node);
            let given = |at: Option<usize>, origin| {
                at.and_then(|at| {
                    args.get(at).filter(|value| value.origin.has(origin)).cloned().map(|v| (at, v))
                })
            };
            if let Some((at, path)) = given(path_at(name), Origin::REQUEST) {
                self.reports(node, Some(at), below(&path), "flow.path", path);
            }
            if let Some((at, path)) = given(made_at(name), Origin::ENTRY) {
                self.reports(node, Some(at), Danger::Below, "flow.entry", path);
            }
        }
    }

    /// Reports the start of a program; `is_other` where the call has another name than [`START`].
    fn starts(&mut self, words: &[Value], node: Node<'_>, is_other: bool) {
        let at = (node.start_byte(), node.end_byte());
        if is_other {
            let names = [START.into()];
            let call =
                Call { names: &names, method: None, receiver: None, args: words, kwargs: &[], context: 0 };
            self.cx.call(Language::Go, &call, at);
        }
        crate::shell::command(self.cx, words, at);
        if let Some(content) = words.iter().take(3).find_map(|path| self.saved_at(path)) {
            self.cx.fact_with(Language::Go, "go.saved_run", at, &[content], 0);
        }
        if let Some(given) = given_as_option(words, Origin::REQUEST).cloned() {
            self.reports(node, None, Danger::Option, "flow.option", given);
        }
    }

    /// `exec.Cmd{Path: "/bin/sh", Args: …}` starts a program, and `http.Request{URL: u}` is a request.
    pub(in crate::tree) fn go_literal(&mut self, node: Node<'_>) {
        let Some(kind) = node.child_by_field_name("type").filter(|_| self.is_followed()) else { return };
        let kind = self.name_of(kind);
        let mut argv = Vec::new();
        for item in node.child_by_field_name("body").map(children).unwrap_or_default() {
            let (Some(key), Some(value)) = (item.named_child(0), item.named_child(1)) else { continue };
            match (&*kind, self.of(key)) {
                ("os/exec.Cmd", "Path") if argv.is_empty() => argv.push(self.go_value(value, 0)),
                ("os/exec.Cmd", "Args") => argv = self.go_value(value, 0).elements().unwrap_or(argv),
                ("net/http.Request", "URL") => {
                    let address = self.go_value(value, 0);
                    self.passes_on(node, address);
                }
                _ => {}
            }
        }
        if kind == "os/exec.Cmd" {
            self.starts(&argv, node, true);
        }
    }

    /// True for a literal of a type of the file: `&T{…}`.
    fn is_own(&self, node: Node<'_>) -> bool {
        match node.kind() {
            "expression_list" | "unary_expression" | "parenthesized_expression" => {
                node.named_child(0).is_some_and(|inner| self.is_own(inner))
            }
            "composite_literal" => {
                node.child_by_field_name("type").is_some_and(|kind| self.go.types.contains(self.of(kind)))
            }
            _ => false,
        }
    }

    /// Assignments to a command that was made, and to the host of a request that is passed on.
    pub(in crate::tree) fn go_assignment(&mut self, node: Node<'_>) {
        let (Some(left), Some(right)) = (node.child_by_field_name("left"), node.child_by_field_name("right"))
        else {
            return;
        };
        let target = if left.kind() == "expression_list" { left.named_child(0) } else { Some(left) };
        let Some(target) = target.filter(|target| target.kind() == "selector_expression") else { return };
        let name = self.name_of(target);
        if matches!(&*name, "net/http.DefaultTransport" | "net/http.DefaultClient.Transport")
            && self.is_own(right)
        {
            self.cx.fact(Language::Go, "go.hook", (node.start_byte(), node.end_byte()));
        }
        let (Some(operand), Some(field)) =
            (target.child_by_field_name("operand"), target.child_by_field_name("field"))
        else {
            return;
        };
        let field = self.of(field);
        if !matches!(field, "Path" | "Args" | "Stdin" | "Env" | "Host" | "URL") {
            return;
        }
        let (owner, value) = (self.go_value(operand, 0), self.go_value(right, 0));
        match field {
            "Host" if self.of(operand).ends_with("URL") => self.passes_on(node, value),
            "URL" if owner.is_named("net/http.Request") => self.passes_on(node, value),
            _ if !is_command(&owner) => {}
            "Path" => self.starts(&[value], node, true),
            "Args" => {
                let words = value.elements().unwrap_or_else(|| vec![owner, value]);
                if words.first().is_some_and(|word| word.as_text().is_some()) {
                    self.starts(&words, node, true);
                }
            }
            "Stdin" if is_fed_interpreter(&owner) => {
                let program = owner.elements().and_then(|words| words.into_iter().next());
                self.starts(&[program.unwrap_or_default(), value], node, true);
            }
            "Env" => {
                let items = value.elements().unwrap_or_else(|| vec![value]);
                let names_any = |item: &&Value| {
                    let is_itself = item.names.iter().any(|name| name.ends_with(".Env"));
                    item.origin.has(Origin::REQUEST)
                        && !is_itself
                        && item.as_text().is_none_or(|text| text.starts_with(HOLE))
                };
                if let Some(item) = items.iter().find(names_any).cloned() {
                    let at = (node.start_byte(), node.end_byte());
                    self.cx.fact_with(Language::Go, "flow.environment", at, &[item], 0);
                }
            }
            _ => {}
        }
    }
}
