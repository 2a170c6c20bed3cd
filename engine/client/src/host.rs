//! Requests that a server sends to its client: a form for the user, and the folders that the client works in. Refused unless the caller of the client
//! answers them; a model (`sampling`) and addresses to open are never given.

use std::fmt;

use hotcell_sandbox::BoxFuture;
use rmcp::model::ClientCapabilities;
use serde_json::{Value, json};

/// Answers requests of a server.
pub trait Host: fmt::Debug + Send + Sync {
    /// Whether forms are answered. The server is told so.
    fn has_forms(&self) -> bool;

    /// Whether folders are given. The server is told so.
    fn has_folders(&self) -> bool;

    /// Asks the user with a form: the parameters of `elicitation/create`, foreign text. The result is the protocol's, with an `action`; `None` declines.
    fn form(&self, asked: Value) -> BoxFuture<'_, Option<Value>>;

    /// Folders, each an object with a `uri` and perhaps a `name`.
    fn folders(&self) -> BoxFuture<'_, Vec<Value>>;
}

/// Capabilities that a server is told.
pub(crate) fn capabilities(host: Option<&dyn Host>) -> ClientCapabilities {
    let mut all = json!({});
    if host.is_some_and(Host::has_forms) {
        all["elicitation"] = json!({ "form": {} });
    }
    if host.is_some_and(Host::has_folders) {
        all["roots"] = json!({});
    }
    serde_json::from_value(all).unwrap_or_default()
}

/// Whether a form is one for a person: it is not an address to open.
pub(crate) fn is_form(asked: &Value) -> bool {
    asked["mode"].as_str().is_none_or(|mode| mode == "form")
        && asked["message"].is_string()
        && asked["requestedSchema"].is_object()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_not_forms() {
        for (asked, want) in [
            (json!({ "message": "m", "requestedSchema": {} }), true),
            (json!({ "mode": "form", "message": "m", "requestedSchema": {} }), true),
            (
                json!({ "mode": "url", "message": "m", "url": "https://evil.example", "elicitationId": "1" }),
                false,
            ),
            (json!({ "message": "m" }), false),
            (json!({ "message": 1, "requestedSchema": {} }), false),
            (json!(null), false),
        ] {
            assert_eq!(is_form(&asked), want, "{asked}");
        }
        assert_eq!(serde_json::to_value(capabilities(None)).unwrap(), json!({}));
    }
}
