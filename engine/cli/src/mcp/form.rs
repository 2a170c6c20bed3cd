//! Forms that a server asks for during `hotcell call`, answered with values that the user gave, over the form's own defaults.

use hotcell_client::Host;
use hotcell_sandbox::BoxFuture;
use hotcell_state::report::{Code, ErrorReport, barred};
use serde_json::{Map, Value, json};

use crate::terminal::notes;

/// Answers forms; gives no folders.
#[derive(Debug)]
pub struct Filled(Map<String, Value>);

impl Filled {
    /// Values as the user wrote them.
    ///
    /// # Errors
    /// [`ErrorReport`] for a text that is not a JSON object.
    pub fn parse(text: &str) -> Result<Self, ErrorReport> {
        match serde_json::from_str(text) {
            Ok(Value::Object(values)) => Ok(Self(values)),
            _ => Err(ErrorReport::new(
                Code::InvalidValue,
                "--form is not a JSON object; {} answers with the defaults",
            )
            .field("--form")),
        }
    }
}

impl Host for Filled {
    fn has_forms(&self) -> bool {
        true
    }

    fn has_folders(&self) -> bool {
        false
    }

    fn form(&self, asked: Value) -> BoxFuture<'_, Option<Value>> {
        let answer = filled(&asked["requestedSchema"], &self.0);
        notes::say(if answer.is_some() {
            "the server asks, and is answered:"
        } else {
            "the server asks, and is not answered:"
        });
        notes::write(&barred(asked["message"].as_str().unwrap_or_default(), "| "));
        Box::pin(async move { answer })
    }

    fn folders(&self) -> BoxFuture<'_, Vec<Value>> {
        Box::pin(async { Vec::new() })
    }
}

/// Answer to a form: only its own fields. `None` when a required one has neither a value nor a default.
fn filled(schema: &Value, given: &Map<String, Value>) -> Option<Value> {
    let mut content = Map::new();
    for (name, field) in schema["properties"].as_object()? {
        if let Some(value) = given.get(name).or_else(|| field.get("default")) {
            content.insert(name.clone(), value.clone());
        }
    }
    let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.all(|name| content.contains_key(name)).then(|| json!({ "action": "accept", "content": content }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_get_given_values_over_their_defaults_and_nothing_else() {
        let schema = json!({ "properties": { "a": { "default": 1 }, "b": {}, "c": { "default": true } }, "required": ["a", "b"] });
        let Filled(given) = Filled::parse(r#"{"b": "x", "c": false, "secret": "s"}"#).unwrap();
        let want = json!({ "action": "accept", "content": { "a": 1, "b": "x", "c": false } });
        assert_eq!(filled(&schema, &given), Some(want));
        assert_eq!(filled(&schema, &Map::new()), None);
        assert_eq!(filled(&json!({}), &given), None);
        for text in ["", "[]", "x", "1"] {
            assert!(Filled::parse(text).is_err(), "{text}");
        }
    }
}
