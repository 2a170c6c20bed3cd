//! Answers of tools.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// Answer of a tool. A tool that reports an error (`result::err`) has answered too.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer<V = Box<RawValue>> {
    /// Whether the tool reports an error.
    pub is_error: bool,
    /// Value, as JSON text that its output schema describes: an object. For an error, `{"error": …}` with the
    /// error's own value.
    pub value: V,
    /// Standard output, as far as it is kept.
    pub stdout: String,
    /// Standard error, as far as it is kept.
    pub stderr: String,
    /// Denied capabilities, in the words of `hotcell tool grant`, each once, at most 32.
    pub denied: Vec<String>,
    /// Microseconds from the instance's start to its end.
    pub wall_us: u64,
    /// Peak size of all its memories together, in bytes.
    pub peak_memory: u64,
}

impl Answer<String> {
    /// Parses the value as JSON.
    ///
    /// # Errors
    /// When the value is not valid JSON.
    pub fn read(self) -> serde_json::Result<Answer> {
        let Self { is_error, value, stdout, stderr, denied, wall_us, peak_memory } = self;
        let value = RawValue::from_string(value)?;
        Ok(Answer { is_error, value, stdout, stderr, denied, wall_us, peak_memory })
    }
}

/// True for the value of an error that gives no reason: null, a text of blanks, a list of such values, an object without fields.
#[must_use]
pub fn is_without_reason(error: &Value) -> bool {
    match error {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.iter().all(is_without_reason),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn error_without_words_gives_no_reason() {
        for (error, want) in [
            (json!(null), true),
            (json!(""), true),
            (json!(" \n\t\u{a0}"), true),
            (json!([]), true),
            (json!(["", null]), true),
            (json!({}), true),
            (json!("no"), false),
            (json!(["", "no"]), false),
            (json!({ "code": null }), false),
            (json!(0), false),
            (json!(false), false),
        ] {
            assert_eq!(is_without_reason(&error), want, "{error}");
        }
    }
}
