//! Calls in the walks that learn: values that they put into their arguments, hand to a function of the file, and save in files.

use super::super::Tree;
use super::{MAX_NAME, TRACKED, children, merged, stepped};
use crate::report::StepKind;
use crate::value::{Origin, Value};
use tree_sitter::Node;

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
        self.teach_literals(function, &nodes);
        // A function of the file learns its arguments. A method with a small first letter belongs to the package.
        let is_own = function.kind() == "identifier"
            || function.kind() == "selector_expression" && last.starts_with(|c: char| c.is_ascii_lowercase());
        if let Some(params) = self.go.params.get(last).filter(|_| is_own).cloned() {
            for (param, argument) in params.iter().zip(nodes) {
                let value = self.go_value(argument, 0);
                let value = stepped(value, StepKind::Passed, last, at);
                let vars = self.go.vars.entry(last.to_owned()).or_default();
                let older = vars.get(param).cloned().unwrap_or_default();
                let value = if vars.contains_key(param) { merged(value, &older) } else { value };
                vars.insert(param.clone(), value);
            }
        }
    }

    /// Teaches functions without a name the arguments of a call: of a variable, or of an entry of a table.
    fn teach_literals(&mut self, function: Node<'_>, nodes: &[Node<'_>]) {
        if self.go.literals.is_empty()
            || self.of(function).len() > MAX_NAME && function.kind() != "func_literal"
        {
            return;
        }
        let is_entry = function.kind() == "index_expression";
        let holder = if is_entry { function.child_by_field_name("operand") } else { Some(function) };
        let Some(holder) = holder else { return };
        let value = self.go_value(holder, 0);
        let entries = if is_entry { value.elements().unwrap_or_default() } else { Vec::new() };
        let names = value.names.iter().chain(entries.iter().flat_map(|entry| &entry.names));
        let called: Vec<String> =
            names.filter(|name| self.go.literals.contains_key(&***name)).map(ToString::to_string).collect();
        for (within, params) in
            called.iter().filter_map(|name| self.go.literals.get(name).cloned()).collect::<Vec<_>>()
        {
            for (param, argument) in params.iter().zip(nodes) {
                let at = (argument.start_byte(), argument.end_byte());
                let value = Value::default().made_of(&self.go_value(*argument, 0));
                let value = stepped(value, StepKind::Passed, param, at);
                let vars = self.go.vars.entry(within.clone()).or_default();
                let older = vars.remove(param).unwrap_or_default();
                vars.insert(param.clone(), merged(value, &older));
            }
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
