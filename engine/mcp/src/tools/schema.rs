//! Generates schemas of tools from their types in a form that every client and framework understands: without
//! references, with a single type each, choices of words as `enum`, and required properties first. Pure.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rmcp::model::{JsonObject, Tool};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// Marks an optional text whose empty value differs from omitting it.
pub(super) const EMPTY_COUNTS: &str = "x-empty-counts";

/// Schema of a type without references, which not every client follows.
pub(super) fn whole<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12()
        .with(|s| s.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<T>()
}

/// Schema for parsing arguments of a type: the published one, with the bounds of numbers and with our marks.
pub(super) fn of_arguments<T: JsonSchema + 'static>() -> Arc<Value> {
    static ALL: OnceLock<Mutex<HashMap<TypeId, Arc<Value>>>> = OnceLock::new();
    let mut all = ALL.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let made = all.entry(TypeId::of::<T>()).or_insert_with(|| {
        let mut schema = whole::<T>().to_value();
        simplify(&mut schema);
        Arc::new(schema)
    });
    Arc::clone(made)
}

/// Schema of a type, cut below a depth: answers are self-explanatory, and models read the lists of tools.
pub(super) fn brief<T: JsonSchema>(depth: usize) -> Schema {
    let mut schema = whole::<T>().to_value();
    simplify(&mut schema);
    Schema::try_from(without_depths(&schema, depth)).unwrap_or_default()
}

fn without_depths(schema: &Value, depth: usize) -> Value {
    let mut kept = JsonObject::new();
    for key in ["type", "description", "enum", "required"] {
        if let Some(value) = schema.get(key).filter(|_| key != "required" || depth > 0) {
            kept.insert(key.to_owned(), value.clone());
        }
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(choices) = schema.get(key).and_then(Value::as_array) {
            kept.insert(key.to_owned(), choices.iter().map(|c| without_depths(c, depth)).collect());
        }
    }
    if depth > 0 {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            let properties = properties.iter().map(|(n, p)| (n.clone(), without_depths(p, depth - 1)));
            kept.insert("properties".to_owned(), Value::Object(properties.collect()));
        }
        if let Some(items) = schema.get("items") {
            kept.insert("items".to_owned(), without_depths(items, depth));
        }
    }
    Value::Object(kept)
}

/// Replaces lists of types by the one that is not null, and choices of documented words by `enum`: a null
/// argument counts as omitted, and answers omit null fields.
pub(super) fn simplify(schema: &mut Value) {
    each(schema, &mut |fields| {
        for key in ["oneOf", "anyOf"] {
            let Some(Value::Array(choices)) = fields.get(key) else { continue };
            let choices: Vec<Value> = choices.iter().filter(|c| c["type"] != "null").cloned().collect();
            if let Some(words) = words(&choices) {
                fields.shift_remove(key);
                fields.insert("type".to_owned(), json!("string"));
                fields.insert("enum".to_owned(), words);
            } else if let [Value::Object(only)] = &choices[..] {
                let only = only.clone();
                fields.shift_remove(key);
                for (name, value) in only {
                    fields.entry(name).or_insert(value);
                }
            } else {
                fields.insert(key.to_owned(), choices.into());
            }
        }
        let single = fields.get("type").and_then(Value::as_array).and_then(|types| {
            let mut others = types.iter().filter(|t| *t != "null");
            others.next().filter(|_| others.next().is_none()).cloned()
        });
        if let Some(kind) = single {
            fields.insert("type".to_owned(), kind);
        }
        if let Some(Value::Array(words)) = fields.get_mut("enum") {
            words.retain(|word| !word.is_null());
        }
        if fields.get("default").is_some_and(Value::is_null) {
            fields.shift_remove("default");
        }
    });
}

/// Leaves out defaults that say nothing, such as `{}`: frameworks that make classes of schemas warn of one that is not an object of the
/// class.
pub(super) fn without_empty_defaults(mut schema: Value) -> Value {
    each(&mut schema, &mut |fields| {
        let empty = |v: &Value| *v == json!({}) || *v == json!([]) || *v == json!("");
        if fields.get("default").is_some_and(empty) {
            fields.shift_remove("default");
        }
    });
    schema
}

/// The words of a choice in which each stands for itself.
fn words(choices: &[Value]) -> Option<Value> {
    let mut all = Vec::new();
    for choice in choices {
        match (choice.get("const"), choice.get("enum").and_then(Value::as_array)) {
            (Some(word @ Value::String(_)), _) => all.push(word.clone()),
            (None, Some(words)) if words.iter().all(Value::is_string) => all.extend(words.iter().cloned()),
            _ => return None,
        }
    }
    (!all.is_empty()).then(|| all.into())
}

/// Calls `change` for a schema and all schemas in it, the inner ones first.
fn each(schema: &mut Value, change: &mut impl FnMut(&mut JsonObject)) {
    let Value::Object(fields) = schema else { return };
    for (name, value) in fields.iter_mut() {
        match (name.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(all)) => {
                all.values_mut().for_each(|inner| each(inner, change));
            }
            ("oneOf" | "anyOf" | "allOf" | "prefixItems", Value::Array(all)) => {
                all.iter_mut().for_each(|inner| each(inner, change));
            }
            ("items" | "additionalProperties" | "not", inner) => each(inner, change),
            _ => {}
        }
    }
    change(fields);
}

/// Schema as published to clients. `additionalProperties` is removed because some frameworks fail on it, and
/// length limits because others would reject an empty text that stands for an omitted one. Unknown arguments
/// are rejected all the same.
pub(super) fn published(mut schema: Value) -> Arc<JsonObject> {
    simplify(&mut schema);
    each(&mut schema, &mut |fields| {
        let private = ["additionalProperties", "format", "minLength", "maxLength", "$schema", EMPTY_COUNTS];
        fields.retain(|name, _| !private.contains(&name.as_str()));
        // Every count has this minimum.
        if fields.get("minimum").and_then(Value::as_f64) == Some(0.0) {
            fields.shift_remove("minimum");
        }
        in_order(fields);
    });
    let mut object = match schema {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    };
    // The tool itself has a description.
    object.retain(|name, _| !matches!(name.as_str(), "title" | "description"));
    object.insert("type".to_owned(), json!("object"));
    object.entry("properties").or_insert_with(|| json!({}));
    Arc::new(object)
}

/// Puts required properties before the others, each in the order of the type.
fn in_order(fields: &mut JsonObject) {
    let required: Vec<Value> = fields.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_required = |name: &str| required.iter().any(|r| r == name);
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        let (first, then): (Vec<_>, Vec<_>) =
            std::mem::take(properties).into_iter().partition(|(name, _)| is_required(name));
        properties.extend(first.into_iter().chain(then));
    }
}

/// Changes the form of a schema from a plugin's author, but never its meaning.
pub(crate) fn of_a_plugin(tool: &mut Tool) {
    let input = Value::Object(tool.input_schema.as_ref().clone());
    tool.input_schema = published(input);
    if let Some(output) = &tool.output_schema {
        let mut output = Value::Object(output.as_ref().clone());
        each(&mut output, &mut |fields| {
            if fields.get("additionalProperties") == Some(&Value::Bool(false)) {
                fields.shift_remove("additionalProperties");
            }
        });
        if let Value::Object(mut output) = output {
            output.entry("type").or_insert_with(|| json!("object"));
            output.entry("properties").or_insert_with(|| json!({}));
            tool.output_schema = Some(Arc::new(output));
        }
    }
}

/// Input schema as listed for clients: without descriptions below the first level, whose names have units, and without defaults and bounds, which
/// the server applies in any case. A model pays for each word in every conversation; the book's reference has all of them.
fn lean_input(schema: &JsonObject) -> Arc<JsonObject> {
    let mut schema = Value::Object(schema.clone());
    let obvious = |value: &Value| matches!(value, Value::Bool(false)) || *value == json!(0);
    each(&mut schema, &mut |fields| {
        fields.retain(|name, value| match name.as_str() {
            "maximum" | "minimum" | "maxItems" | "minItems" => false,
            "default" => !obvious(value),
            _ => true,
        });
    });
    for property in schema["properties"].as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
        let about = property.get("description").cloned();
        each(property, &mut |fields| {
            fields.shift_remove("description");
        });
        if let (Some(about), Value::Object(fields)) = (about, property) {
            fields.insert("description".to_owned(), about);
        }
    }
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    }
}

/// Output schema as listed for clients: the fields that are always there. Others may follow; answers name them themselves.
fn lean_output(schema: &JsonObject) -> Arc<JsonObject> {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let kind = |name: &str| match schema.get("properties").and_then(|all| all[name].get("type")) {
        Some(kind) => json!({ "type": kind }),
        None => json!({}),
    };
    let properties: JsonObject = required.into_iter().map(|name| (name.to_owned(), kind(name))).collect();
    let mut lean = JsonObject::new();
    lean.insert("type".to_owned(), json!("object"));
    lean.insert("properties".to_owned(), properties.into());
    Arc::new(lean)
}

/// One of the server's own tools as it is listed for clients.
pub(super) fn lean(tool: &Tool) -> Tool {
    let mut lean = tool.clone();
    lean.input_schema = lean_input(&tool.input_schema);
    lean.output_schema = tool.output_schema.as_deref().map(lean_output);
    if let Some(hints) = &mut lean.annotations {
        // The tool has the title. Hints that say what the protocol assumes anyway are left out.
        hints.title = None;
        let reads = hints.read_only_hint == Some(true);
        hints.read_only_hint = Some(true).filter(|_| reads);
        hints.idempotent_hint = hints.idempotent_hint.filter(|is| *is && !reads);
        hints.destructive_hint = hints.destructive_hint.filter(|is| !is && !reads);
    }
    lean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(at: &str, schema: &Value, look: &mut impl FnMut(&str, &JsonObject)) {
        let Value::Object(fields) = schema else { return };
        look(at, fields);
        for (name, inner) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
            walk(&format!("{at}.{name}"), inner, look);
        }
        for inner in fields.get("items").into_iter() {
            walk(&format!("{at}[]"), inner, look);
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            for inner in fields.get(key).and_then(Value::as_array).into_iter().flatten() {
                walk(&format!("{at}.{key}"), inner, look);
            }
        }
    }

    #[test]
    fn tool_schemas_fit_all_frameworks() {
        for tool in crate::tools::all().iter().chain(crate::tools::listed()) {
            assert!("mcp__hotcell__".len() + tool.name.len() < 60, "{}", tool.name);
            let output = tool.output_schema.as_ref().map(|schema| ("out", schema));
            // A picture has no structure.
            assert!(output.is_some() || tool.name == "workspace_image", "{}", tool.name);
            for (side, schema) in [("in", &tool.input_schema)].into_iter().chain(output) {
                let schema = Value::Object(schema.as_ref().clone());
                assert_eq!(schema["type"], "object", "{} {side}", tool.name);
                assert!(schema["properties"].is_object(), "{} {side}", tool.name);
                walk(&format!("{} {side}", tool.name), &schema, &mut |at, fields| {
                    for absent in
                        ["$ref", "$defs", "oneOf", "const", "additionalProperties", "format", EMPTY_COUNTS]
                    {
                        assert!(!fields.contains_key(absent), "{at}: {absent}");
                    }
                    assert!(fields.get("type").is_none_or(Value::is_string), "{at}: {fields:?}");
                    let says_nothing =
                        |v: &Value| matches!(v, Value::Object(_) | Value::Array(_) | Value::Null);
                    assert!(!fields.get("default").is_some_and(says_nothing), "{at}: {fields:?}");
                    if fields.contains_key("enum") {
                        assert_eq!(fields["type"], "string", "{at}");
                    }
                    let required = fields.get("required").and_then(Value::as_array);
                    if let (Some(required), Some(Value::Object(properties))) =
                        (required, fields.get("properties"))
                    {
                        let first: Vec<_> = properties.keys().take(required.len()).collect();
                        assert!(required.iter().all(|r| first.iter().any(|f| r == *f)), "{at}: {first:?}");
                    }
                });
            }
        }
    }

    /// A plugin's schema has a variant, a result, an enumeration, an option and a float at once.
    #[test]
    fn plugin_schemas_fit_all_frameworks() {
        let tag = |word: &str| json!({ "type": "string", "enum": [word] });
        let closed = |properties: Value| {
            let required: Vec<String> = properties.as_object().expect("some").keys().cloned().collect();
            json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
        };
        let variant = json!({ "anyOf": [
            closed(json!({ "tag": tag("none") })),
            closed(json!({ "tag": tag("some"), "value": { "type": "integer", "minimum": 0, "maximum": 255 } })),
        ] });
        let result = json!({ "anyOf": [closed(json!({ "ok": { "type": "null" } })), closed(json!({ "err": { "type": "string" } }))] });
        let float = json!({ "anyOf": [{ "type": "number" }, { "type": "string", "enum": ["NaN", "Infinity", "-Infinity"] }] });
        let option = json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] });
        let schema = closed(json!({ "v": variant, "r": result, "f": float, "o": option, "e": tag("a") }));
        let object = |schema: &Value| Arc::new(schema.as_object().expect("an object").clone());
        let mut tool = Tool::new("a_b", "", object(&schema)).with_raw_output_schema(object(&schema));
        of_a_plugin(&mut tool);
        for schema in [&tool.input_schema, tool.output_schema.as_ref().expect("one")] {
            let schema = Value::Object(schema.as_ref().clone());
            assert!(schema["type"] == "object" && schema["properties"].is_object(), "{schema}");
            walk("a_b", &schema, &mut |at, fields| {
                for absent in ["oneOf", "const", "additionalProperties"] {
                    assert!(!fields.contains_key(absent), "{at}: {absent}");
                }
                if fields.contains_key("enum") {
                    assert_eq!(fields["type"], "string", "{at}");
                }
            });
        }
        let mut bare = Tool::new("a_c", "", object(&json!({}))).with_raw_output_schema(object(&json!({})));
        of_a_plugin(&mut bare);
        for schema in [&bare.input_schema, bare.output_schema.as_ref().expect("one")] {
            assert_eq!(Value::Object(schema.as_ref().clone()), json!({ "type": "object", "properties": {} }));
        }
    }

    #[test]
    fn tool_properties_have_expected_order() {
        let keys = |name: &str| -> Vec<String> {
            let tool = crate::tools::all().iter().find(|t| t.name == name).expect("a tool");
            tool.input_schema["properties"].as_object().expect("some").keys().take(3).cloned().collect()
        };
        assert_eq!(keys("run_code"), ["language", "code", "files"]);
        assert_eq!(keys("run_output"), ["run_id", "stream", "offset"]);
        assert_eq!(keys("workspace_write"), ["workspace_id", "files"]);
    }

    #[test]
    fn forms_are_simplified_and_mean_the_same() {
        for (from, want) in [
            (json!({ "type": ["string", "null"], "default": null }), json!({ "type": "string" })),
            (
                json!({ "oneOf": [{ "type": "string", "const": "a", "description": "A" }, { "type": "string", "enum": ["b"] }] }),
                json!({ "type": "string", "enum": ["a", "b"] }),
            ),
            (
                json!({ "description": "d", "anyOf": [{ "type": "object", "properties": {} }, { "type": "null" }] }),
                json!({ "description": "d", "type": "object", "properties": {} }),
            ),
            (
                json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }),
                json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }),
            ),
        ] {
            let mut schema = from.clone();
            simplify(&mut schema);
            assert_eq!(schema, want, "{from}");
        }
        let empty = published(json!({ "type": "object", "additionalProperties": false }));
        assert_eq!(Value::Object(empty.as_ref().clone()), json!({ "type": "object", "properties": {} }));
    }
}
