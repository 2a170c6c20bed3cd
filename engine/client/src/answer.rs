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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
