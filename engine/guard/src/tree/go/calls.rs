//! Calls in the walks that learn: values that they put into their arguments, hand to a function of the file, and save in files.

use super::super::Tree;
use super::functions::add_all;
use super::{TRACKED, children, merged, stepped};
use crate::report::StepKind;
use crate::value::{Origin, Value};
use std::rc::Rc;
use tree_sitter::Node;

/// Maximum number of places where a function is called that are asked about.
const MAX_SITES: usize = 8;

impl Tree<'_, '_, '_> {
    /// Learns the values that a call puts into its arguments, and those that it hands to the function that it calls.
    pub(super) fn learn_call(&mut self, node: Node<'_>) {
        let Some(function) = node.child_by_field_name("function") else { return };
        let nodes = node.child_by_field_name("arguments").map(children).unwrap_or_default();
        let at = (node.start_byte(), node.end_byte());
        let last = match function.kind() {
            "selector_expression" => function.child_by_field_name("field").map_or("", |field| self.of(field)),
            _ => self.of(function),
        };
        let receiver = function
            .child_by_field_name("operand")
            .filter(|_| function.kind() == "selector_expression")
            .map(|operand| self.go_value(operand, 0))
            .unwrap_or_default();
        let name = self.name_of(function);
        match (&*name, last) {
            // A buffer that is filled from a connection, a value that is decoded from a body.
            (_, "Read" | "ReadFull" | "Decode" | "ReadAt") if receiver.origin.has(TRACKED) => {
                if let Some(target) = nodes.first() {
                    self.hold_in(*target, &receiver);
                }
            }
            ("encoding/json.Unmarshal" | "io.ReadFull" | "fmt.Sscan" | "fmt.Sscanf" | "fmt.Fscan", _) => {
                if let [from, rest @ ..] = &nodes[..] {
                    let value = self.go_value(*from, 0);
                    if let Some(target) = rest.first() {
                        self.hold_in(*target, &value);
                    }
                }
            }
            // A buffer that is filled with a message from anyone.
            (_, "ReadFrom" | "ReadFromUDP" | "ReadFromUDPAddrPort" | "ReadMsgUDP")
                if receiver.names.iter().any(|name| is_listener(name)) =>
            {
                let message = self.source(Origin::REQUEST, "message", node);
                if let Some(target) = nodes.first() {
                    self.hold_in(*target, &message);
                }
            }
            // A buffer that is written to.
            (_, "WriteString" | "Write" | "ReadFrom") if function.kind() == "selector_expression" => {
                let written = nodes.first().map(|node| self.go_value(*node, 0)).unwrap_or_default();
                let holder = function.child_by_field_name("operand");
                if let Some(holder) = holder.filter(|_| written.origin.has(TRACKED)) {
                    self.hold_in(holder, &written);
                }
            }
            ("fmt.Fprint" | "fmt.Fprintf" | "fmt.Fprintln", _) => {
                if let [target, rest @ ..] = &nodes[..] {
                    let all: Vec<Value> = rest.iter().map(|node| self.go_value(*node, 0)).collect();
                    let written = all.iter().fold(Value::default(), Value::made_of);
                    if written.origin.has(TRACKED) {
                        self.hold_in(*target, &written);
                    }
                }
            }
            ("io.Copy", _) => {
                if let [target, from, ..] = &nodes[..] {
                    let value = self.go_value(*from, 0);
                    self.hold_in(*target, &value);
                    self.save(*target, value);
                }
            }
            ("os.WriteFile" | "io/ioutil.WriteFile", _) => {
                if let [path, content, ..] = &nodes[..] {
                    let (path, content) = (self.go_value(*path, 0), self.go_value(*content, 0));
                    if let Some(path) = file_key(&path) {
                        self.go.saved.insert(path, stepped(content, StepKind::Passed, "os.WriteFile", at));
                    }
                }
            }
            _ => {}
        }
        let callees = self.callees(function, Some(&receiver));
        self.teach(function, &receiver, &callees, &nodes, at);
        self.fills(function, &nodes);
    }

    /// Teaches functions of the file, with a name or without one, the arguments of a call.
    fn teach(
        &mut self,
        function: Node<'_>,
        receiver: &Value,
        callees: &[Rc<str>],
        nodes: &[Node<'_>],
        at: (usize, usize),
    ) {
        let is_member = function.kind() == "selector_expression";
        for name in callees {
            let literal = self.go.literals.get(&**name);
            let is_literal = literal.is_some();
            let Some(params) = literal.or_else(|| self.go.params.get(&**name)).cloned() else { continue };
            let within = name.to_string();
            let sites = self.go.sites.entry(name.to_string()).or_default();
            if sites.len() < MAX_SITES && !sites.contains(&at) {
                sites.push(at);
            }
            if is_member && let Some(own) = self.go.receivers.get(&**name).cloned() {
                self.teaches(&within, &own, receiver.clone());
            }
            for (position, param) in params.iter().enumerate() {
                let Some(first) = nodes.get(position) else { break };
                let plain = param.trim_end_matches("...");
                let value = if plain == param {
                    self.go_value(*first, 0)
                } else {
                    Value::list(nodes[position..].iter().map(|node| self.go_value(*node, 0)).collect())
                };
                if plain != param {
                    let first = self.go_value(*first, 0);
                    self.teaches(&within, &first_of(plain), first);
                }
                let value = if is_literal {
                    let at = (first.start_byte(), first.end_byte());
                    stepped(Value { known: None, ..value }, StepKind::Passed, plain, at)
                } else {
                    stepped(value, StepKind::Passed, name, at)
                };
                self.teaches(&within, plain, value);
                let functions = self.functions(*first, 0);
                if !functions.is_empty() {
                    let key = (within.clone(), plain.to_owned());
                    add_all(self.go.held.entry(key).or_default(), &functions);
                }
            }
        }
    }

    /// Adds a value to those of a variable of a function.
    fn teaches(&mut self, within: &str, name: &str, value: Value) {
        let vars = self.go.vars.entry(within.to_owned()).or_default();
        let value = match vars.remove(name) {
            Some(older) => merged(value, &older),
            None => value,
        };
        vars.insert(name.to_owned(), value);
    }

    /// Notes that a container is given functions: `registry.Register("x", exec.Command)`.
    fn fills(&mut self, function: Node<'_>, nodes: &[Node<'_>]) {
        let Some(container) = function.child_by_field_name("operand") else { return };
        if function.kind() != "selector_expression" || self.is_package(container) {
            return;
        }
        for node in nodes.iter().filter(|node| matches!(node.kind(), "identifier" | "selector_expression")) {
            let functions = self.functions(*node, 0);
            self.holds(container, &functions);
        }
    }

    fn hold_in(&mut self, target: Node<'_>, value: &Value) {
        let inner = match target.kind() {
            "unary_expression" => target.child_by_field_name("operand"),
            _ => None,
        };
        self.hold(inner.unwrap_or(target), Value::default().made_of(value));
    }

    /// Records what is copied into an open file.
    fn save(&mut self, target: Node<'_>, value: Value) {
        let open = self.go_value(target, 0);
        let path = open.names.iter().find_map(|name| name.strip_prefix("file:")).map(str::to_owned);
        if let Some(path) = path.filter(|_| value.origin.has(TRACKED)) {
            self.go.saved.insert(path, value);
        }
    }

    /// Content of a file that the program saved from elsewhere, if a value is its path.
    pub(super) fn saved_at(&self, path: &Value) -> Option<Value> {
        self.go.saved.get(&file_key(path)?).filter(|content| content.origin.has(TRACKED)).cloned()
    }
}

/// Name of the first of the arguments that a parameter with `...` takes.
pub(super) fn first_of(name: &str) -> String {
    format!("{name}[0]")
}

/// Path of a file for the table of saved files; a few known characters tell one from others: `os.TempDir() + "/a.so"`.
pub(super) fn file_key(path: &Value) -> Option<String> {
    const MIN_KNOWN: usize = 3;
    let text = path.as_text()?;
    (text.chars().filter(char::is_ascii_alphanumeric).count() >= MIN_KNOWN).then(|| text.to_owned())
}

/// True for the value of a listener, or of a socket that takes messages from anyone.
pub(super) fn is_listener(name: &str) -> bool {
    matches!(
        name,
        "net.Listen()"
            | "net.ListenTCP()"
            | "net.ListenUnix()"
            | "net.ListenPacket()"
            | "net.ListenUDP()"
            | "crypto/tls.Listen()"
            | "crypto/tls.NewListener()"
    )
}
