//! Fits a plugin's answer into a model's budget: its text with beginning and end, its structure with shorter
//! texts and lists that still match the promised schema. Pure.

use serde_json::{Map, Value};

use crate::text::{beginning, end};

/// Minimum length to which a text in a structure is cut, in characters; numbers written as texts are shorter.
const MIN_TEXT_CHARS: usize = 64;

/// Cuts a text to at most `budget` characters of JSON; returns the text and the number of omitted bytes.
pub(crate) fn text(text: &str, budget: usize) -> (String, usize) {
    if text.len() <= budget && beginning(text, budget) == text.len() {
        return (text.to_owned(), 0);
    }
    let head = beginning(text, budget / 2);
    let tail = (text.len() - end(text, budget / 2)).max(head);
    let omitted = tail - head;
    if omitted == 0 {
        return (text.to_owned(), 0);
    }
    (format!("{}\n({omitted} bytes are left out)\n{}", &text[..head], &text[tail..]), omitted)
}

/// Cuts a value to about `budget` characters of JSON so that it still matches its schema: long texts lose
/// their middle, long lists and maps their end. `None` when it already fits.
pub(crate) fn value(value: &Value, schema: &Value, budget: usize) -> Option<Value> {
    let size = |value: &Value| value.to_string().chars().count();
    if size(value) <= budget {
        return None;
    }
    let (mut longest, mut most) = (budget / 2, 256);
    loop {
        let shorter = shortened(value, schema, longest, most);
        if size(&shorter) <= budget || (longest <= MIN_TEXT_CHARS && most == 0) {
            return Some(shorter);
        }
        (longest, most) = ((longest / 2).max(MIN_TEXT_CHARS), most / 2);
    }
}

fn shortened(value: &Value, schema: &Value, longest: usize, most: usize) -> Value {
    let schema = chosen(value, schema);
    match value {
        Value::String(whole) if schema.get("enum").is_none() && schema.get("const").is_none() => {
            if schema.get("contentEncoding").is_some() {
                // Cuts at a group boundary, so that it can still be decoded.
                let cut = whole.len().min(longest / 4 * 4);
                return Value::String(whole.get(..cut).unwrap_or_default().to_owned());
            }
            Value::String(text(whole, longest).0)
        }
        Value::Array(items) => {
            let fixed = schema.get("prefixItems").is_some() || schema.get("minItems").is_some();
            let kept = if fixed { items.len() } else { items.len().min(most) };
            let of = |at: usize| {
                let own = schema.get("prefixItems").and_then(|all| all.get(at));
                own.or_else(|| schema.get("items")).unwrap_or(&Value::Null)
            };
            items[..kept]
                .iter()
                .enumerate()
                .map(|(at, item)| shortened(item, of(at), longest, most))
                .collect()
        }
        Value::Object(fields) => {
            let map = schema.get("additionalProperties").filter(|rest| rest.is_object());
            let kept = if map.is_some() { fields.len().min(most) } else { fields.len() };
            let of = |name: &str| {
                let own = schema.get("properties").and_then(|all| all.get(name));
                own.or(map).unwrap_or(&Value::Null)
            };
            let short =
                |(name, field): (&String, &Value)| (name.clone(), shortened(field, of(name), longest, most));
            Value::Object(fields.iter().take(kept).map(short).collect::<Map<_, _>>())
        }
        plain => plain.clone(),
    }
}

/// The alternative of a schema that this value matches.
fn chosen<'a>(value: &Value, schema: &'a Value) -> &'a Value {
    let choices = ["anyOf", "oneOf"].iter().find_map(|word| schema.get(*word)?.as_array());
    let Some(choices) = choices else { return schema };
    let fits = |choice: &&Value| {
        let ty = choice.get("type").and_then(Value::as_str);
        match value {
            Value::Null => ty == Some("null"),
            Value::Bool(_) => ty == Some("boolean"),
            Value::Number(_) => matches!(ty, Some("number" | "integer")),
            Value::String(_) => ty == Some("string") || choice.get("enum").is_some(),
            Value::Array(_) => ty == Some("array"),
            Value::Object(fields) => {
                let known = choice.get("properties").and_then(Value::as_object);
                let named = known.is_some_and(|known| fields.keys().all(|name| known.contains_key(name)));
                let tag = choice
                    .pointer("/properties/tag/const")
                    .or_else(|| choice.pointer("/properties/tag/enum/0"));
                let tagged = tag.is_none_or(|tag| fields.get("tag") == Some(tag));
                ty == Some("object")
                    && tagged
                    && (named || choice.get("additionalProperties").is_some_and(Value::is_object))
            }
        }
    };
    choices.iter().find(fits).map_or(&Value::Null, |choice| chosen(value, choice))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn long_result_is_shortened_within_schema() {
        let schema = json!({ "type": "object", "properties": {
            "text": { "type": "string" },
            "bytes": { "type": "string", "contentEncoding": "base64" },
            "list": { "type": "array", "items": { "type": "string" } },
            "pair": { "type": "array", "prefixItems": [{ "type": "string" }, { "type": "integer" }], "minItems": 2 },
            "word": { "type": "string", "enum": ["w".repeat(100)] },
            "maybe": { "anyOf": [{ "type": "string", "contentEncoding": "base64" }, { "type": "null" }] },
            "map": { "type": "object", "additionalProperties": { "type": "integer" } },
        } });
        let map: Map<String, Value> = (0..9_000).map(|n| (n.to_string(), json!(n))).collect();
        let long = json!({
            "text": "t".repeat(100_000), "bytes": "QUJD".repeat(9_000), "list": vec!["l".repeat(50); 5_000],
            "pair": ["p".repeat(9_000), 7], "word": "w".repeat(100), "maybe": "QUJD".repeat(9_000), "map": map,
        });
        let short = value(&long, &schema, 20_000).unwrap();
        assert!(short.to_string().len() <= 20_000, "{}", short.to_string().len());
        assert_eq!((short["word"].clone(), short["pair"][1].clone()), (long["word"].clone(), json!(7)));
        assert!(short["text"].as_str().unwrap().contains("bytes are left out"));
        for field in ["bytes", "maybe"] {
            let text = short[field].as_str().unwrap();
            assert!(text.len().is_multiple_of(4) && long[field].as_str().unwrap().starts_with(text));
        }
        assert_eq!(value(&short, &schema, 20_000), None);
    }

    proptest! {
        #[test]
        fn shortened_text_stays_within_budget(whole in "\\PC{0,200}|[\n\u{1}ab\u{e4}]{0,200}", budget in 2usize..100) {
            let (short, omitted) = text(&whole, budget);
            let cost = serde_json::to_string(&short).unwrap().chars().count();
            prop_assert!(omitted == 0 && short == whole || cost <= budget + 40, "{short:?}");
            prop_assert!(omitted > 0 || beginning(&whole, budget) == whole.len() || whole.len() <= budget + 4);
        }
    }
}
