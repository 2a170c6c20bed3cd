//! Types as JSON Schema: draft 2020-12, without references, and without additional properties.

use serde_json::{Map, Value, json};

use super::shape::{Field, Handle, Int, Kind, Name, Shape};

/// Largest integer that every JSON reader holds exactly: 2^53 - 1.
pub(crate) const MAX_SAFE_INTEGER: i128 = (1 << 53) - 1;
/// The largest `f32` in its shortest form, which is slightly larger when read as a double.
const F32_MAX: f64 = 3.402_823_5e38;

/// Floats that JSON has no number for.
pub(crate) const STRANGE: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Schema of an object with these properties, and no others.
pub(crate) fn object(fields: &[Field]) -> Value {
    let properties: Map<_, _> =
        fields.iter().map(|field| (field.name.clone(), documented(&field.shape, &field.doc))).collect();
    let required: Vec<_> =
        fields.iter().filter(|field| !field.shape.is_option()).map(|field| &field.name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// Schema of an answer with this value.
pub(crate) fn answer(ok: Option<&Shape>) -> Value {
    match ok {
        None => object(&[]),
        Some(shape) if matches!(shape.kind, Kind::Record(_)) => schema(shape),
        Some(shape) => closed(&[("result", schema(shape))]),
    }
}

fn schema(shape: &Shape) -> Value {
    documented(shape, "")
}

/// A schema with a description: that of the field or parameter, or else that of the type.
fn documented(shape: &Shape, doc: &str) -> Value {
    let (names, mut value): (&[Name], _) = match &shape.kind {
        Kind::Enum(names) | Kind::Flags(names) => (names, bare(shape)),
        _ => (&[], bare(shape)),
    };
    let mut text = if doc.is_empty() { shape.doc.clone() } else { doc.to_owned() };
    for name in names.iter().filter(|name| !name.doc.is_empty()) {
        let line = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!("{line}{}: {}", name.name, name.doc));
    }
    if let Kind::Handle(handle) = &shape.kind {
        let space = if text.is_empty() { "" } else { " " };
        text.push_str(&format!("{space}{}", about(handle)));
    }
    describe(&mut value, &text);
    value
}

/// Tells a model where a handle comes from, and how long it lasts.
fn about(handle: &Handle) -> String {
    let named = match handle.name.as_str() {
        "" => "A handle".to_owned(),
        name => format!("A handle of {name}"),
    };
    match handle.own {
        true => {
            format!("{named}, which tools of this plugin give and take; a call that takes it uses it up.")
        }
        false => format!("{named}, as a tool of this plugin gave it; it can be used again."),
    }
}

fn describe(value: &mut Value, text: &str) {
    if let (Value::Object(object), false) = (value, text.is_empty()) {
        object.insert("description".into(), text.into());
    }
}

fn bare(shape: &Shape) -> Value {
    match &shape.kind {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Int(int) => integer(*int),
        Kind::F32 => float(&json!({ "type": "number", "minimum": -F32_MAX, "maximum": F32_MAX })),
        Kind::F64 => float(&json!({ "type": "number" })),
        Kind::Char => json!({ "type": "string", "minLength": 1, "maxLength": 1 }),
        Kind::String | Kind::Handle(_) => json!({ "type": "string" }),
        Kind::Bytes | Kind::Blob => json!({ "type": "string", "contentEncoding": "base64" }),
        Kind::List(item) => json!({ "type": "array", "items": schema(item) }),
        Kind::Fixed(item, length) => {
            json!({ "type": "array", "items": schema(item), "minItems": length, "maxItems": length })
        }
        Kind::Map(key, value) if key.kind == Kind::String => {
            json!({ "type": "object", "additionalProperties": schema(value) })
        }
        Kind::Map(key, value) => json!({ "type": "array", "items": tuple(&[schema(key), schema(value)]) }),
        Kind::Record(fields) => object(fields),
        Kind::Tuple(items) => tuple(&items.iter().map(schema).collect::<Vec<_>>()),
        Kind::Variant(cases) => {
            let cases = cases.iter().map(|case| {
                let mut fields = vec![("tag", json!({ "type": "string", "enum": [case.name] }))];
                fields.extend(case.shape.as_ref().map(|shape| ("value", schema(shape))));
                let mut case_schema = closed(&fields);
                describe(&mut case_schema, &case.doc);
                case_schema
            });
            // No two of them fit one value: each has a tag of its own. Some frameworks do not know `oneOf`.
            json!({ "anyOf": cases.collect::<Vec<_>>() })
        }
        Kind::Enum(names) => json!({ "type": "string", "enum": plain(names) }),
        Kind::Flags(names) => {
            json!({ "type": "array", "items": { "type": "string", "enum": plain(names) }, "uniqueItems": true })
        }
        Kind::Option(inner) => {
            let inner = if inner.is_option() { closed(&[("some", schema(inner))]) } else { schema(inner) };
            let mut choices = match inner {
                Value::Object(mut inner) if inner.len() == 1 && inner.contains_key("anyOf") => {
                    inner.remove("anyOf")
                }
                other => Some(json!([other])),
            };
            if let Some(Value::Array(choices)) = &mut choices {
                choices.push(json!({ "type": "null" }));
            }
            json!({ "anyOf": choices })
        }
        Kind::Result(ok, err) => {
            let payload =
                |shape: &Option<Box<Shape>>| shape.as_deref().map_or(json!({ "type": "null" }), schema);
            json!({ "anyOf": [closed(&[("ok", payload(ok))]), closed(&[("err", payload(err))])] })
        }
    }
}

fn integer(int: Int) -> Value {
    let (min, max) = int.range();
    // Both ends are within 2^53, so they are exact in a double, and in an i64 too.
    #[allow(clippy::cast_possible_truncation)]
    let bounded =
        |min: i128, max: i128| json!({ "type": "integer", "minimum": min as i64, "maximum": max as i64 });
    if !int.wide() {
        return bounded(min, max);
    }
    // One form for all values: a reader that holds numbers as doubles changes those beyond 2^53 - 1. As an
    // argument, a small number is accepted too.
    let sign = if min < 0 { "-?" } else { "" };
    json!({ "type": "string", "pattern": format!("^{sign}[0-9]{{1,20}}$") })
}

fn float(number: &Value) -> Value {
    json!({ "anyOf": [number, { "type": "string", "enum": STRANGE }] })
}

fn tuple(items: &[Value]) -> Value {
    json!({ "type": "array", "prefixItems": items, "items": false, "minItems": items.len(), "maxItems": items.len() })
}

/// Schema of an object with exactly these properties.
fn closed(fields: &[(&str, Value)]) -> Value {
    let properties: Map<_, _> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let required: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn plain(names: &[Name]) -> Vec<&str> {
    names.iter().map(|name| name.name.as_str()).collect()
}
