//! Arguments of `hotcell tool call` on the command line: `KEY=TEXT`, read according to the tool's schema, and
//! `KEY:=JSON`.

use hotcell_state::report::{Code, ErrorReport};
use serde_json::{Map, Value};

/// The arguments as a JSON object.
pub fn arguments(pairs: &[String], schema: &Value) -> Result<String, ErrorReport> {
    let mut all = Map::new();
    for pair in pairs {
        let bad = |why: String| {
            ErrorReport::new(Code::InvalidValue, format!("{pair:?}: {why}"))
                .field("KEY=TEXT")
                .hint("write path=a.txt, count:=3 or --args '{\"path\": \"a.txt\"}'")
        };
        let Some((key, text)) = pair.split_once('=') else {
            return Err(bad("it has no '='".to_owned()));
        };
        let (key, value) = match key.strip_suffix(':') {
            Some(key) => (
                key,
                serde_json::from_str(text).map_err(|e| bad(format!("what follows := is no JSON: {e}")))?,
            ),
            None => (key, read(text, schema.pointer(&pointer(key)).unwrap_or(&Value::Null))),
        };
        if key.is_empty() {
            return Err(bad("it names no argument".to_owned()));
        }
        if all.insert(key.to_owned(), value).is_some() {
            return Err(bad(format!("{key} is given twice")));
        }
    }
    Ok(Value::Object(all).to_string())
}

fn pointer(key: &str) -> String {
    format!("/properties/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Reads a text according to a schema: as JSON if the schema asks for another type than a string and the text
/// is valid, otherwise as a string.
fn read(text: &str, schema: &Value) -> Value {
    let choices = schema.get("anyOf").and_then(Value::as_array);
    let types = match choices {
        Some(choices) => choices.iter().filter_map(|choice| choice.get("type")?.as_str()).collect(),
        None => schema.get("type").and_then(Value::as_str).into_iter().collect::<Vec<_>>(),
    };
    if types.contains(&"string") || types.is_empty() && choices.is_none() {
        return Value::String(text.to_owned());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn argument_words_follow_schema_types() {
        let schema = json!({ "properties": {
            "path": { "type": "string" }, "count": { "type": "integer" }, "deep": { "type": "boolean" },
            "list": { "type": "array" }, "maybe": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
            "text": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
            "ratio": { "anyOf": [{ "type": "number" }, { "enum": ["NaN"] }] }, "a/b": { "type": "integer" },
        } });
        for (pairs, wanted) in [
            (&["path=a=b.txt", "count=3"][..], json!({ "path": "a=b.txt", "count": 3 })),
            (&["path=3", "deep=true", "list=[1]"], json!({ "path": "3", "deep": true, "list": [1] })),
            (&["maybe=null", "text=null"], json!({ "maybe": null, "text": "null" })),
            (&["ratio=NaN", "a/b=1"], json!({ "ratio": "NaN", "a/b": 1 })),
            // The tool reports the error in these.
            (&["count=many", "unknown=1"], json!({ "count": "many", "unknown": "1" })),
            (&["path:={\"a\":1}", "list="], json!({ "path": { "a": 1 }, "list": "" })),
        ] {
            let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
            let read: Value = serde_json::from_str(&arguments(&pairs, &schema).unwrap()).unwrap();
            assert_eq!(read, wanted, "{pairs:?}");
        }
        for (pairs, word) in [
            (&["path"][..], "no '='"),
            (&["count:=x"], "no JSON"),
            (&["=1"], "names no"),
            (&["a=1", "a=2"], "twice"),
        ] {
            let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
            let error = arguments(&pairs, &schema).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
