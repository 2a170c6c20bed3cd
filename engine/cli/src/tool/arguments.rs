//! Arguments of `hotcell tool call` on the command line: `KEY=TEXT`, read according to the tool's schema, and
//! `KEY:=JSON`.

use std::collections::VecDeque;

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
            None => (key, read(text, schema.pointer(&pointer(key)).unwrap_or(&Value::Null), schema)),
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

/// Maximum number of schemas that are looked at for one argument: they may name one another in circles.
const MAX_SCHEMAS: usize = 64;

/// Reads a text according to a schema: as a string where any string is allowed or nothing is said, and else as JSON, or as one of the words
/// that the schema lists. What is neither is left to the tool.
fn read(text: &str, schema: &Value, root: &Value) -> Value {
    let allowed = Allowed::by(schema, root);
    let as_text = || Value::String(text.to_owned());
    if allowed.any_text || !allowed.others || allowed.words.contains(&text) {
        return as_text();
    }
    serde_json::from_str(text).unwrap_or_else(|_| as_text())
}

/// Values that a schema allows.
#[derive(Default)]
struct Allowed<'a> {
    /// Any string.
    any_text: bool,
    /// These strings.
    words: Vec<&'a str>,
    /// Values of another type.
    others: bool,
}

impl<'a> Allowed<'a> {
    fn by(schema: &'a Value, root: &'a Value) -> Self {
        let mut allowed = Self::default();
        // The nearest first, so that a circle hides none of them.
        let mut waiting = VecDeque::from([schema]);
        for _ in 0..MAX_SCHEMAS {
            let Some(schema) = waiting.pop_front() else { break };
            allowed.add(schema);
            let named = schema.get("$ref").and_then(Value::as_str);
            waiting.extend(named.and_then(|name| root.pointer(name.strip_prefix('#')?)));
            let choices = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(key)?.as_array());
            waiting.extend(choices.flatten());
        }
        allowed
    }

    /// Adds what a schema says itself.
    fn add(&mut self, schema: &'a Value) {
        let listed =
            schema.get("enum").and_then(Value::as_array).into_iter().flatten().chain(schema.get("const"));
        let mut is_listed = false;
        for value in listed {
            is_listed = true;
            match value.as_str() {
                Some(word) => self.words.push(word),
                None => self.others = true,
            }
        }
        let types = match schema.get("type") {
            Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
            one => one.and_then(Value::as_str).into_iter().collect::<Vec<_>>(),
        };
        if !is_listed {
            self.any_text |= types.contains(&"string");
            self.others |= types.iter().any(|name| *name != "string");
        }
    }
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
            "float": { "anyOf": [{ "type": "number" }, { "type": "string", "enum": ["NaN", "Infinity"] }] },
            "null_or": { "type": ["integer", "null"] }, "text_or": { "type": ["string", "null"] },
            "one": { "oneOf": [{ "type": "integer" }, { "type": "boolean" }] }, "defined": { "$ref": "#/$defs/count" },
            "circle": { "$ref": "#/$defs/circle" }, "word": { "enum": ["1", "two"] }, "const": { "const": 1 },
        }, "$defs": { "count": { "type": "integer" }, "circle": { "anyOf": [{ "$ref": "#/$defs/circle" }, { "type": "array" }] } } });
        for (pairs, wanted) in [
            (&["path=a=b.txt", "count=3"][..], json!({ "path": "a=b.txt", "count": 3 })),
            (&["path=3", "deep=true", "list=[1]"], json!({ "path": "3", "deep": true, "list": [1] })),
            (&["maybe=null", "text=null"], json!({ "maybe": null, "text": "null" })),
            (
                &["float=1.5", "float2=1.5", "null_or=null"],
                json!({ "float": 1.5, "float2": "1.5", "null_or": null }),
            ),
            (
                &["float=NaN", "null_or=5", "text_or=5"],
                json!({ "float": "NaN", "null_or": 5, "text_or": "5" }),
            ),
            (&["one=5", "defined=5", "circle=[5]"], json!({ "one": 5, "defined": 5, "circle": [5] })),
            (&["word=1", "const=1"], json!({ "word": "1", "const": 1 })),
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
