//! Tools and answers, as the server gives them: foreign text, which nothing here has escaped.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool that a server offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Name.
    pub name: String,
    /// Definition as a whole: title, description, schemas, hints.
    pub definition: Value,
}

impl Tool {
    /// Description; empty for a tool without one.
    #[must_use]
    pub fn description(&self) -> &str {
        self.definition["description"].as_str().unwrap_or_default()
    }

    /// JSON Schema of the arguments.
    #[must_use]
    pub fn input_schema(&self) -> &Value {
        &self.definition["inputSchema"]
    }
}

/// Answer to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Blocks of content: text, images, resources.
    pub content: Vec<Value>,
    /// Structured result, if the server gives one.
    pub structured: Option<Value>,
    /// Whether the tool says that it failed.
    pub is_error: bool,
}

impl Answer {
    /// Text blocks, each on lines of its own; other blocks by their kind and size.
    #[must_use]
    pub fn text(&self) -> String {
        let blocks = self.content.iter().map(|block| match (block["type"].as_str(), &block["text"]) {
            (Some("text"), Value::String(text)) => text.clone(),
            (kind, _) => {
                let bytes = block["data"].as_str().map_or_else(|| block.to_string().len(), str::len);
                format!("[{}, {bytes} bytes]", kind.unwrap_or("unknown"))
            }
        });
        blocks.collect::<Vec<_>>().join("\n")
    }
}

/// Tools of a page, and the cursor of the next one; `None` for what is not a list of tools. A definition that lacks what the protocol asks for, such as a
/// schema, is taken as it is: one odd tool must not hide the others.
pub(crate) fn page(mut result: Value) -> Option<(Vec<Tool>, Option<String>)> {
    let next = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    let Value::Array(tools) = result.get_mut("tools")?.take() else { return None };
    let named = |definition: Value| {
        let name = definition.get("name")?.as_str()?.to_owned();
        Some(Tool { name, definition })
    };
    Some((tools.into_iter().filter_map(named).collect(), next))
}

/// Answer of a tool; `None` for what is not one. Kinds of content that are not known are kept.
pub(crate) fn answer(mut result: Value) -> Option<Answer> {
    let structured = result.get_mut("structuredContent").map(Value::take);
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    match result.get_mut("content").map(Value::take).unwrap_or_default() {
        Value::Array(content) => Some(Answer { content, structured, is_error }),
        Value::Null if structured.is_some() => Some(Answer { content: Vec::new(), structured, is_error }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn odd_definitions_do_not_hide_others() {
        let list = json!({ "tools": [{ "name": "a", "inputSchema": {} }, { "name": "b" }, {}, 1, { "name": 2 }], "nextCursor": "n" });
        let (tools, next) = page(list).unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((names, next.as_deref()), (vec!["a", "b"], Some("n")));
        for result in [json!({}), json!({ "tools": {} }), json!(null), json!([]), json!("tools")] {
            assert_eq!(page(result.clone()), None, "{result}");
        }
    }

    #[test]
    fn answers_are_known_by_their_content() {
        let odd = json!({ "content": [{ "type": "new" }], "isError": true });
        assert!(answer(odd).is_some_and(|answer| answer.is_error && answer.content.len() == 1));
        let structured = answer(json!({ "structuredContent": null })).unwrap();
        assert_eq!((structured.content, structured.structured), (vec![], Some(Value::Null)));
        for result in [json!({}), json!({ "tools": [] }), json!({ "content": "x" }), json!(1)] {
            assert_eq!(answer(result.clone()), None, "{result}");
        }
    }

    #[test]
    fn text_of_an_answer_names_what_is_not_text() {
        let content = vec![
            json!({ "type": "text", "text": "one" }),
            json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" }),
            json!({ "type": "text", "text": "two\n" }),
            json!({}),
        ];
        let answer = Answer { content, structured: None, is_error: false };
        assert_eq!(answer.text(), "one\n[image, 4 bytes]\ntwo\n\n[unknown, 2 bytes]");
    }
}
