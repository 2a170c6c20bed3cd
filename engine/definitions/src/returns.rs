//! The answer of a verb from the data of its tools. Pure.

use serde_json::{Map, Value};

use crate::definition::Definition;
use crate::schema::problems;
use crate::template::Scope;

/// Levels of a schema that defaults are made for.
const MAX_DEPTH: usize = 16;

/// Fields of an answer from the data, and the names of those that are defaults: the data has nothing for them.
#[derive(Clone, Debug, PartialEq)]
pub struct Filled {
    /// The answer.
    pub value: Value,
    /// Fields with a default of their type.
    pub defaults: Vec<String>,
}

/// Fills the answer from the data; fields for which it has nothing get a default of their type.
#[must_use]
pub fn filled(definition: &Definition, scope: Scope<'_>) -> Filled {
    let (mut value, mut defaults) = (Map::new(), Vec::new());
    let fields = definition.returns.get("properties").and_then(Value::as_object);
    for (name, schema) in fields.into_iter().flatten() {
        let template = definition.fill.iter().find(|(field, _)| field == name);
        let fits = |value: &Value| {
            // A field's schema may refer to the definitions beside it.
            let alone = serde_json::json!({
                "$defs": definition.returns.get("$defs").cloned().unwrap_or_else(|| Map::new().into()),
                "properties": { "value": schema },
            });
            problems(&alone, &serde_json::json!({ "value": value })).is_empty()
        };
        let from_data = template.and_then(|(_, template)| template.fill(scope).ok()).filter(fits);
        let of_field = from_data.unwrap_or_else(|| {
            defaults.push(name.clone());
            default_of(schema, MAX_DEPTH)
        });
        value.insert(name.clone(), of_field);
    }
    Filled { value: Value::Object(value), defaults }
}

/// The plainest value that a schema's type allows.
fn default_of(schema: &Value, depth: usize) -> Value {
    if let Some(value) = schema.get("default").or_else(|| schema.get("const")) {
        return value.clone();
    }
    if let Some(first) = schema.get("enum").and_then(|all| all.get(0)) {
        return first.clone();
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) if kinds.iter().any(|kind| kind == "null") => return Value::Null,
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        kind => kind.and_then(Value::as_str),
    };
    match kind {
        Some("string") => "".into(),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| 0.into()),
        Some("boolean") => false.into(),
        Some("array") => Value::Array(Vec::new()),
        Some("object") if depth > 0 => {
            let needed = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            let field = |name: &Value| {
                let name = name.as_str()?;
                let of = schema.get("properties").and_then(|all| all.get(name)).unwrap_or(&Value::Null);
                Some((name.to_owned(), default_of(of, depth - 1)))
            };
            Value::Object(needed.filter_map(field).collect())
        }
        Some("object") => Value::Object(Map::new()),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_come_from_data_or_are_typed_defaults() {
        let text = "name = \"a.b\"\nversion = 1\ndescription = \"x\"\n[tools.t]\ntool = \"p_f\"\n\
            [fill]\nn = \"{{tools.t.n}}\"\nwrong = \"{{tools.t.n}}\"\nabsent = \"{{tools.t.x}}\"\n\
            [returns.properties]\nn = { type = \"integer\" }\nwrong = { type = \"string\" }\nabsent = { type = \"array\" }\n\
            level = { enum = [\"low\", \"high\"] }\nsure = { type = \"boolean\" }\nmaybe = { type = [\"string\", \"null\"] }\n\
            deep = { type = \"object\", required = [\"a\"], properties = { a = { type = \"number\", minimum = 2 } } }\n";
        let definition = Definition::parse(text, "a.toml".as_ref()).unwrap();
        let (inputs, tools) = (Map::new(), json!({ "t": { "n": 5 } }));
        let scope = Scope { inputs: &inputs, tools: tools.as_object().unwrap() };
        let filled = filled(&definition, scope);
        assert_eq!(
            filled.value,
            json!({ "n": 5, "wrong": "", "absent": [], "level": "low", "sure": false, "maybe": null, "deep": { "a": 2 } })
        );
        assert!(
            !filled.defaults.contains(&"n".to_owned()) && filled.defaults.len() == 6,
            "{:?}",
            filled.defaults
        );
        assert!(problems(&definition.returns, &filled.value).is_empty());
    }
}
