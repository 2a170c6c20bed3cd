//! Calls and literals that start a program or request an address.

use super::super::Tree;
use super::children;
use crate::hosts::{Asked, Danger};
use crate::language::Language;
use crate::rules::Call;
use crate::value::{Origin, Value};
use tree_sitter::Node;

impl Tree<'_, '_, '_> {
    /// `exec.Cmd{Path: "/bin/sh", Args: …}` is a call of `exec.Command`.
    pub(in crate::tree) fn go_literal(&mut self, node: Node<'_>) {
        let Some(kind) = node.child_by_field_name("type").filter(|_| self.is_followed()) else { return };
        if self.name_of(kind) != "os/exec.Cmd" {
            return;
        }
        let mut argv = Vec::new();
        for item in node.child_by_field_name("body").map(children).unwrap_or_default() {
            let (Some(key), Some(value)) = (item.named_child(0), item.named_child(1)) else { continue };
            let value = self.go_value(value, 0);
            match self.of(key) {
                "Path" if argv.is_empty() => argv.push(value),
                "Args" => argv = value.elements().unwrap_or(argv),
                _ => {}
            }
        }
        let at = (node.start_byte(), node.end_byte());
        let call = Call {
            names: &["os/exec.Command".into()],
            method: None,
            receiver: None,
            args: &argv,
            kwargs: &[],
            context: 0,
        };
        self.cx.call(Language::Go, &call, at);
        crate::shell::command(self.cx, &argv, at);
    }

    /// Receiver of a method, for rules.
    pub(in crate::tree) fn go_receiver(&mut self, node: Node<'_>) -> Option<Value> {
        let function = node.child_by_field_name("function").filter(|f| f.kind() == "selector_expression")?;
        let operand = function.child_by_field_name("operand").filter(|_| self.is_followed())?;
        Some(self.go_value(operand, 0))
    }

    /// Reports a request of an address whose host a client of the program, or the caller of a tool, chooses, unless it is
    /// checked where the address is requested, or where a function on its way is called.
    pub(in crate::tree) fn go_requests(&mut self, name: &str, args: &[Value], node: Node<'_>) {
        let position = match name {
            "net/http.Get" | "net/http.Head" | "net/http.Post" | "net/http.PostForm" => 0,
            "net/http.NewRequest" => 1,
            "net/http.NewRequestWithContext" => 2,
            _ => return,
        };
        let given = args.get(position).filter(|value| value.origin.has(Origin::REQUEST));
        let open = given.filter(|value| crate::rules::is_open_address(value)).cloned();
        let Some(address) = open else { return };
        let at = (node.start_byte(), node.end_byte());
        let text = self.text;
        let plain = self.plain.get_or_insert_with(|| {
            let mut root = node;
            while let Some(above) = root.parent() {
                root = above;
            }
            super::plain::program(root, text)
        });
        let mut ways = address.passed().into_iter();
        if !plain.is_checked(Asked { at, position: Some(position), danger: Danger::Host })
            && !ways.any(|at| plain.is_checked(Asked { at, position: None, danger: Danger::Host }))
        {
            self.cx.fact_with(Language::Go, "flow.address", at, &[address], 0);
        }
    }

    /// Reports a program or a library that is started from a file that was saved before.
    pub(in crate::tree) fn go_starts(&mut self, name: &str, args: &[Value], node: Node<'_>) {
        if !matches!(
            name,
            "os/exec.Command" | "os/exec.CommandContext" | "plugin.Open" | "syscall.Exec" | "os.StartProcess"
        ) {
            return;
        }
        let content = args.iter().take(3).find_map(|path| self.saved_at(path));
        if let Some(content) = content {
            let at = (node.start_byte(), node.end_byte());
            self.cx.fact_with(Language::Go, "go.saved_run", at, &[content], 0);
        }
    }
}
