//! Notices of a server about a call while it runs: output, calls of tools, changed files, tasks. On every transport they are log messages
//! (`notifications/message`) whose `data` is a text, or an object with a `type`.

use serde_json::Value;

/// Maximum length of a text, in bytes.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// Maximum number of tasks.
const MAX_TODOS: usize = 200;

/// A notice: foreign text, bounded and not escaped.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// A piece of output: a text, or `{"type": "output", "text": TEXT}`.
    Output(String),
    /// A call of a tool that the server makes: `{"type": "tool_call", "name": NAME, "arguments": {…}}`.
    ToolCall {
        /// Name of the tool.
        name: String,
        /// Its arguments.
        arguments: Value,
    },
    /// A file that the server changed: `{"type": "file_change", "path": PATH, "change": "created"}`.
    FileChange {
        /// Path, or a URI.
        path: String,
        /// Kind of the change, such as `created`, `modified` or `deleted`.
        change: String,
    },
    /// Tasks as they are now: `{"type": "todos", "todos": [{"text": TEXT, "status": STATUS}]}`.
    Todos(Vec<Todo>),
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Todo {
    /// Text.
    pub text: String,
    /// Status, such as `pending` or `completed`.
    pub status: String,
}

/// The notice in a log message; `None` for other messages.
pub(crate) fn notice(data: &Value) -> Option<Notice> {
    let text = |value: &Value| value.as_str().map(bounded);
    if let Some(text) = text(data) {
        return Some(Notice::Output(text));
    }
    match data["type"].as_str()? {
        "output" => text(&data["text"]).map(Notice::Output),
        "tool_call" => {
            let arguments = &data["arguments"];
            let is_short = arguments.to_string().len() <= MAX_TEXT_BYTES;
            let arguments = if is_short { arguments.clone() } else { Value::Null };
            text(&data["name"]).map(|name| Notice::ToolCall { name, arguments })
        }
        "file_change" => {
            let change = text(&data["change"]).unwrap_or_else(|| "modified".to_owned());
            text(&data["path"]).map(|path| Notice::FileChange { path, change })
        }
        "todos" => {
            let todo = |item: &Value| {
                let status = text(&item["status"]).unwrap_or_else(|| "pending".to_owned());
                text(&item["text"]).map(|text| Todo { text, status })
            };
            let todos = data["todos"].as_array()?.iter().take(MAX_TODOS);
            Some(Notice::Todos(todos.filter_map(todo).collect()))
        }
        _ => None,
    }
}

fn bounded(text: &str) -> String {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn notices_are_known_by_their_type() {
        let todo = |text: &str, status: &str| Todo { text: text.to_owned(), status: status.to_owned() };
        let change = |path: &str, change: &str| Notice::FileChange {
            path: path.to_owned(),
            change: change.to_owned(),
        };
        for (data, want) in [
            (json!("line"), Some(Notice::Output("line".to_owned()))),
            (json!({ "type": "output", "text": "a\u{1b}" }), Some(Notice::Output("a\u{1b}".to_owned()))),
            (
                json!({ "type": "tool_call", "name": "read", "arguments": { "a": 1 } }),
                Some(Notice::ToolCall { name: "read".to_owned(), arguments: json!({ "a": 1 }) }),
            ),
            (
                json!({ "type": "file_change", "path": "a.py", "change": "created" }),
                Some(change("a.py", "created")),
            ),
            (json!({ "type": "file_change", "path": "a.py" }), Some(change("a.py", "modified"))),
            (
                json!({ "type": "todos", "todos": [{ "text": "a", "status": "completed" }, { "text": "b" }, {}] }),
                Some(Notice::Todos(vec![todo("a", "completed"), todo("b", "pending")])),
            ),
            (json!({ "type": "todos", "todos": {} }), None),
            (json!({ "type": "other" }), None),
            (json!({ "type": "output" }), None),
            (json!({}), None),
            (json!(1), None),
        ] {
            assert_eq!(notice(&data), want, "{data}");
        }
        let Some(Notice::Output(text)) = notice(&json!("é".repeat(MAX_TEXT_BYTES))) else { panic!() };
        assert_eq!(text.len(), MAX_TEXT_BYTES);
    }
}
