//! Addresses that a client of the program, or the caller of a tool, chooses the host of.

use super::super::Tree;
use crate::hosts::{Asked, Danger};
use crate::language::Language;
use crate::rules::{Does, effect, is_open_address};
use crate::value::{HOLE, Origin, Value};
use std::rc::Rc;
use tree_sitter::Node;

/// Name of an address whose host the program chooses, whatever else is in it.
pub(super) const HOSTED: &str = "<host of the program>";
/// Name of the host that a client asked the program itself for.
pub(super) const OWN_HOST: &str = "<own host>";

/// Adds what the sum of two texts is as an address: the first one with an unknown piece has the host.
pub(super) fn joined(left: &Value, right: &Value, mut value: Value) -> Value {
    let has_piece =
        |value: &Value| value.known.is_none() || value.as_text().is_some_and(|text| text.contains(HOLE));
    let host = if has_piece(left) { left } else { right };
    if host.is_named(HOSTED) || has_piece(host) && !host.origin.has(Origin::REQUEST) {
        value.names.push(HOSTED.into());
    } else if host.is_named(OWN_HOST) {
        value.names.push(OWN_HOST.into());
    }
    value
}

/// Value of a field of a request: its path has no host, and its host is the program's own.
pub(super) fn of_address(mut value: Value, field: &str, owner: &str) -> Value {
    match field {
        "Path" | "RawPath" if owner.ends_with("URL") => {
            value.known = Value::text(&format!("/{HOLE}")).known;
        }
        "RequestURI" => value.known = Value::text(&format!("/{HOLE}")).known,
        "Host" | "URL" => value.names.push(OWN_HOST.into()),
        _ => {}
    }
    value
}

/// Notes that the path or the query of an address was set: its host stays the program's.
pub(super) fn below_host(address: &mut Value, field: &str, had_request: bool) {
    match field {
        "Path" | "RawPath" | "RawQuery" | "Fragment" if !had_request && !address.is_named(HOSTED) => {
            address.names.push(HOSTED.into());
        }
        "Host" => address.names.retain(|name| &**name != HOSTED),
        _ => {}
    }
}

/// True for a value of a request that may name any host.
pub(super) fn is_open(value: &Value) -> bool {
    value.origin.has(Origin::REQUEST) && !value.is_named(HOSTED) && is_open_address(value)
}

impl Tree<'_, '_, '_> {
    /// Reports a request of an address, or a connection to a host, that a client of the program or the caller of a tool
    /// chooses, unless it is checked where the address is requested, or where a function on its way is called.
    pub(super) fn requests(&mut self, names: &[Rc<str>], args: &[Value], node: Node<'_>) {
        let found = names.iter().find_map(|name| match effect(name) {
            Some((Does::Request | Does::Upload, at)) => Some((at, Danger::Host)),
            Some((Does::Connect, at)) => Some((at, Danger::Peer)),
            _ => None,
        });
        let Some((position, danger)) = found else { return };
        if let Some(address) = args.get(position).filter(|value| is_open(value)).cloned() {
            self.reports(node, Some(position), danger, "flow.address", address);
        }
    }

    /// Reports the host of a request that is passed on: `out.URL.Host = in.Header.Get("X-To")`, `http.Request{URL: u}`.
    pub(super) fn passes_on(&mut self, node: Node<'_>, address: Value) {
        if is_open(&address) && !address.is_named(OWN_HOST) {
            self.reports(node, None, Danger::Host, "flow.address", address);
        }
    }

    /// Reports a page that leads to an address that comes from the request for it.
    pub(super) fn redirects(&mut self, name: &str, args: &[Value], node: Node<'_>) {
        let position = match name.rsplit_once('.') {
            Some(("net/http", "Redirect")) => 2,
            Some((owner, "Redirect")) if owner.starts_with("github.com/gofiber/fiber") => 0,
            Some((owner, "Redirect"))
                if owner.starts_with("github.com/gin-gonic/gin")
                    || owner.starts_with("github.com/labstack/echo") =>
            {
                1
            }
            _ => return,
        };
        let given = args.get(position).filter(|value| is_open(value) && !value.is_named(OWN_HOST));
        if let Some(address) = given.cloned() {
            self.reports(node, Some(position), Danger::Redirect, "flow.redirect", address);
        }
    }

    /// Reports a value at a call, unless the program checks it there, or where a function on its way is called.
    pub(super) fn reports(
        &mut self,
        node: Node<'_>,
        position: Option<usize>,
        danger: Danger,
        fact: &str,
        value: Value,
    ) {
        let at = (node.start_byte(), node.end_byte());
        if !self.is_checked(node, Asked { at, position, danger }, &value) {
            self.cx.fact_with(Language::Go, fact, at, &[value], 0);
        }
    }

    fn is_checked(&mut self, node: Node<'_>, asked: Asked, value: &Value) -> bool {
        let text = self.text;
        // A function that is given the whole of something is called where a part of it was checked.
        let sites = if asked.danger.is_path() {
            self.go.sites.get(&self.go.function).cloned().unwrap_or_default()
        } else {
            Vec::new()
        };
        let plain = self.plain.get_or_insert_with(|| {
            let mut root = node;
            while let Some(above) = root.parent() {
                root = above;
            }
            super::plain::program(root, text)
        });
        let mut passed = |at| plain.is_checked(Asked { at, position: None, ..asked });
        if value.passed().into_iter().any(&mut passed) || !sites.is_empty() && sites.into_iter().all(passed) {
            return true;
        }
        plain.is_checked(asked)
    }
}
