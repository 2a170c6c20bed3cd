//! Normalises arguments as clients send them by the tool's own input schema, before they are deserialised.
//! Frameworks with typed validation send `null` for omitted fields, and models that have to fill in every
//! field send `""`; clients whose numbers are floats send `256.0`. Any other mismatch is rejected with a
//! message that names the field and the expected value. Pure.

use hotcell_sandbox::layer::likely;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::language::meant;
use rmcp::model::JsonObject;
use serde_json::{Map, Number, Value};

use super::schema::EMPTY_COUNTS;

/// Largest integer that a float represents exactly.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
/// Maximum length of a wrong value in an error, in characters.
const MAX_VALUE_CHARS: usize = 40;
/// Maximum length of a name in an error, in characters.
const MAX_NAME_CHARS: usize = 100;

/// Removes arguments that stand for omitted ones, and converts the others to the types of the schema.
///
/// # Errors
/// A report with the field and the expected value.
pub(super) fn normal(schema: &Value, arguments: JsonObject) -> Result<JsonObject, ErrorReport> {
    object(schema, arguments, "")
}

fn wrong(field: &str, why: String) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, why).field(field)
}

fn object(schema: &Value, given: JsonObject, at: &str) -> Result<JsonObject, ErrorReport> {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|r| r == name));
    let mut read = JsonObject::new();
    for (name, value) in given {
        let shown = on_one_line(&name, MAX_NAME_CHARS);
        let field = if at.is_empty() { shown } else { format!("{at}.{shown}") };
        let Some(property) = properties.get(&name) else {
            let Some(values) = schema.get("additionalProperties").filter(|v| v.is_object()) else {
                return Err(unknown(&field, &name, properties, at));
            };
            // A name chosen by the caller, such as a variable's: the empty text is a valid value.
            if !value.is_null() {
                read.insert(name, one(values, value, &field)?);
            }
            continue;
        };
        let is_empty = value == "" && property.get(EMPTY_COUNTS).is_none();
        if !required(&name) && (value.is_null() || is_empty) {
            continue;
        }
        read.insert(name, one(property, value, &field)?);
    }
    for (name, property) in properties.iter().filter(|(name, _)| required(name)) {
        if !read.contains_key(name) {
            let field = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            let why = format!("{field} is missing; wanted is {}", wanted(property));
            return Err(wrong(&field, why));
        }
    }
    Ok(read)
}

fn unknown(field: &str, name: &str, known: &JsonObject, at: &str) -> ErrorReport {
    let whole = if at.is_empty() { "this tool".to_owned() } else { at.to_owned() };
    let report = wrong(field, format!("there is no argument {field}"));
    if known.is_empty() {
        return report.hint(format!("{whole} takes none"));
    }
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    let near = elsewhere(name, known).or_else(|| likely(name, names.iter().copied()).map(str::to_owned));
    let near = near.map(|near| format!("did you mean {near}? "));
    report.hint(format!("{}{whole} takes {}", near.unwrap_or_default(), names.join(", ")))
}

/// Names that other servers' tools give an argument, and the names here, of which a tool has at most one.
const ELSEWHERE: [(&str, &str); 22] = [
    ("command", "argv"),
    ("cmd", "argv"),
    ("program", "argv"),
    ("source", "code"),
    ("script", "code"),
    ("timeout", "timeout_seconds"),
    ("timeout_ms", "timeout_seconds"),
    ("memory", "memory_mib"),
    ("test", "filter"),
    ("input", "stdin"),
    ("cols", "columns"),
    ("width", "columns"),
    ("height", "rows"),
    ("old_string", "old"),
    ("old_str", "old"),
    ("new_string", "new"),
    ("new_str", "new"),
    ("search", "old"),
    ("find", "old"),
    ("replace", "new"),
    ("path", "filter"),
    ("snapshot", "to"),
];

/// The argument that is meant by a name that no similar one stands for: it has another name here, or lies within another argument, such as
/// `limits.timeout_seconds` or `edits[].path`.
fn elsewhere(name: &str, known: &JsonObject) -> Option<String> {
    let named = ELSEWHERE.iter().find(|(other, _)| *other == name).map(|(_, here)| *here);
    let names: Vec<&str> = named.into_iter().chain([name]).collect();
    names.iter().find_map(|name| {
        if known.contains_key(*name) {
            return Some((*name).to_owned());
        }
        known.iter().find_map(|(outer, schema)| {
            let within = |of: &Value| of["properties"].get(*name).is_some();
            let of_items = within(&schema["items"]).then(|| format!("{outer}[].{name}"));
            of_items.or_else(|| within(schema).then(|| format!("{outer}.{name}")))
        })
    })
}

fn one(schema: &Value, value: Value, at: &str) -> Result<Value, ErrorReport> {
    if let Some(words) = schema["enum"].as_array() {
        return word(words, &value).ok_or_else(|| mismatch(schema, &value, at));
    }
    Ok(match (schema["type"].as_str(), value) {
        (Some("integer"), Value::Number(number)) => {
            let Some(whole) = whole(&number) else {
                return Err(mismatch(schema, &Value::Number(number), at));
            };
            in_range(schema, &whole, at)?;
            Value::Number(whole)
        }
        (Some("number"), value @ Value::Number(_))
        | (Some("boolean"), value @ Value::Bool(_))
        | (Some("string"), value @ Value::String(_))
        | (None, value) => value,
        (Some("array"), Value::Array(items)) => list(schema, items, at)?,
        (Some("object"), Value::Object(fields)) => Value::Object(object(schema, fields, at)?),
        (Some(_), value) => return Err(mismatch(schema, &value, at)),
    })
}

fn list(schema: &Value, items: Vec<Value>, at: &str) -> Result<Value, ErrorReport> {
    let of = &schema["items"];
    // An empty item of a list of objects has no meaning, so it is dropped.
    let filled = of["type"] == "object";
    let mut read = Vec::with_capacity(items.len());
    for (number, item) in items.into_iter().enumerate() {
        if filled && (item.is_null() || item == "") {
            continue;
        }
        read.push(one(of, item, &format!("{at}[{number}]"))?);
    }
    let length = read.len() as u64;
    if let Some(least) = schema["minItems"].as_u64().filter(|least| length < *least) {
        return Err(wrong(at, format!("{at} has {length} items; wanted is a list of at least {least}")));
    }
    if let Some(most) = schema["maxItems"].as_u64().filter(|most| length > *most) {
        return Err(wrong(at, format!("{at} has {length} items; wanted is a list of at most {most}")));
    }
    Ok(Value::Array(read))
}

/// Converts a whole number to an integer: `256.0` is one by JSON Schema.
fn whole(number: &Number) -> Option<Number> {
    if number.is_u64() || number.is_i64() {
        return Some(number.clone());
    }
    let float = number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() <= MAX_EXACT_INTEGER)?;
    #[allow(clippy::cast_possible_truncation)] // exact
    Some(Number::from(float as i64))
}

fn in_range(schema: &Value, number: &Number, at: &str) -> Result<(), ErrorReport> {
    let widest = match schema["format"].as_str() {
        Some("uint32") => Some(u64::from(u32::MAX)),
        Some("uint16") => Some(u64::from(u16::MAX)),
        Some("uint8") => Some(u64::from(u8::MAX)),
        _ => None,
    };
    let most = schema["maximum"].as_u64().or(widest);
    let least = schema["minimum"].as_i64().unwrap_or(i64::MIN);
    let low = number.as_i64().is_some_and(|n| n < least);
    let high = number.as_u64().is_some_and(|n| most.is_some_and(|most| n > most));
    if !low && !high {
        return Ok(());
    }
    let range = match most {
        Some(most) => format!("{least} to {most}"),
        None => format!("at least {least}"),
    };
    Err(wrong(at, format!("{at} is {number}; allowed is {range}")))
}

/// The word of a choice that a text means.
fn word(words: &[Value], said: &Value) -> Option<Value> {
    meant(said.as_str()?, |word| words.iter().find(|known| *known == word).cloned())
}

fn mismatch(schema: &Value, value: &Value, at: &str) -> ErrorReport {
    let report = wrong(at, format!("{at} is {}; wanted is {}", said(value), wanted(schema)));
    match (schema["enum"].as_array(), value.as_str()) {
        (Some(words), Some(text)) => match likely(text, words.iter().filter_map(Value::as_str)) {
            Some(near) => report.hint(format!("did you mean {near}?")),
            None => report,
        },
        (None, Some(text)) if serde_json::from_str::<Value>(text).is_ok_and(|v| !v.is_string()) => report
            .hint(match schema["type"].as_str() {
                Some("integer" | "number" | "boolean") => "send it without quotes",
                _ => "send it as JSON, not as a text that has JSON in it",
            }),
        _ => report,
    }
}

/// The beginning of a text, without line breaks. Invisible characters are escaped where the error is
/// written, once.
fn on_one_line(text: &str, most: usize) -> String {
    text.chars().take(most).collect::<String>().replace('\n', "\\n").replace('\r', "\\r")
}

/// Describes a value that was sent.
fn said(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => {
            let shown = on_one_line(text, MAX_VALUE_CHARS);
            let cut = if text.chars().nth(MAX_VALUE_CHARS).is_some() { "…" } else { "" };
            format!("the text \"{shown}{cut}\"")
        }
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Describes the value that a schema expects.
fn wanted(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
        return format!("one of {}", words.join(", "));
    }
    match schema["type"].as_str() {
        Some("integer") => "a whole number".to_owned(),
        Some("number") => "a number".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("string") => "a text".to_owned(),
        Some("array") => match schema["items"]["type"].as_str() {
            Some("string") => "a list of texts".to_owned(),
            Some("object") => "a list of objects".to_owned(),
            _ => "a list".to_owned(),
        },
        Some("object") => "an object".to_owned(),
        _ => "a value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::json;

    use super::super::schema::of_arguments;
    use super::super::{input, policies, terminals};
    use super::*;

    /// The schemas of all tools' arguments.
    fn schemas() -> Vec<(&'static str, Arc<Value>)> {
        vec![
            ("run_code", of_arguments::<input::RunCode>()),
            ("run_command", of_arguments::<input::RunCommand>()),
            ("run_tests", of_arguments::<input::RunTests>()),
            ("run_status", of_arguments::<input::RunStatus>()),
            ("run_output", of_arguments::<input::RunOutput>()),
            ("run_cancel", of_arguments::<input::RunCancel>()),
            ("workspace_create", of_arguments::<input::WorkspaceCreate>()),
            ("workspace_write", of_arguments::<input::WorkspaceWrite>()),
            ("workspace_edit", of_arguments::<input::WorkspaceEdit>()),
            ("workspace_read", of_arguments::<input::WorkspaceRead>()),
            ("workspace_image", of_arguments::<input::WorkspaceImage>()),
            ("workspace_list", of_arguments::<input::WorkspaceList>()),
            ("workspace_remove", of_arguments::<input::WorkspaceRemove>()),
            ("workspace_diff", of_arguments::<input::WorkspaceDiff>()),
            ("workspace_discard", of_arguments::<input::WorkspaceDiscard>()),
            ("workspace_snapshot", of_arguments::<input::WorkspaceSnapshot>()),
            ("workspace_commit", of_arguments::<input::WorkspaceNamed>()),
            ("scan_artifact", of_arguments::<input::ScanArtifact>()),
            ("quarantine_show", of_arguments::<input::QuarantineShow>()),
            ("quarantine_request", of_arguments::<input::QuarantineRequest>()),
            ("read_org_policies", of_arguments::<policies::ReadOrgPolicies>()),
            ("doctor", of_arguments::<input::Nothing>()),
        ]
    }

    fn read(schema: &Value, value: Value) -> Result<Value, ErrorReport> {
        let Value::Object(given) = value else { panic!("{value}") };
        normal(schema, given).map(Value::Object)
    }

    /// Generates a value of a schema, with or without its optional fields.
    fn good(schema: &Value) -> BoxedStrategy<Value> {
        if let Some(words) = schema["enum"].as_array() {
            return prop::sample::select(words.clone()).boxed();
        }
        match schema["type"].as_str() {
            Some("integer") => {
                let least = schema["minimum"].as_i64().unwrap_or(-5);
                (least..least + 1_000).prop_map(|n| json!(n)).boxed()
            }
            Some("number") => (1..1_000).prop_map(|n| json!(f64::from(n) / 8.0)).boxed(),
            Some("boolean") => any::<bool>().prop_map(Value::Bool).boxed(),
            Some("string") => "[a-z{}\"0-9 ]{1,8}".prop_map(Value::String).boxed(),
            Some("array") => {
                prop::collection::vec(good(&schema["items"]), 1..3).prop_map(Value::Array).boxed()
            }
            Some("object") => {
                let required = schema["required"].as_array().cloned().unwrap_or_default();
                let fields: Vec<_> = schema["properties"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(name, property)| {
                        let must = required.iter().any(|r| r == name);
                        (
                            Just(name.clone()),
                            good(property),
                            if must { Just(true).boxed() } else { any::<bool>().boxed() },
                        )
                    })
                    .collect();
                fields
                    .prop_map(|all| {
                        all.into_iter().filter(|(.., is)| *is).map(|(name, value, _)| (name, value)).collect()
                    })
                    .boxed()
            }
            _ => Just(json!(1)).boxed(),
        }
    }

    fn case() -> impl Strategy<Value = (&'static str, Arc<Value>, Value)> {
        prop::sample::select(schemas()).prop_flat_map(|(name, schema)| {
            let value = good(&schema);
            (Just(name), Just(schema), value)
        })
    }

    /// Fills in each omitted optional field with `nothing`, at any depth.
    fn filled(schema: &Value, value: &Value, nothing: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let mut all: JsonObject = fields
                    .iter()
                    .map(|(name, value)| (name.clone(), filled(&schema["properties"][name], value, nothing)))
                    .collect();
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    if nothing.is_null() || property.get(EMPTY_COUNTS).is_none() {
                        all.entry(name.clone()).or_insert_with(|| nothing.clone());
                    }
                }
                Value::Object(all)
            }
            Value::Array(items) => items.iter().map(|i| filled(&schema["items"], i, nothing)).collect(),
            plain => plain.clone(),
        }
    }

    fn floats(value: &Value) -> Value {
        match value {
            Value::Number(n) => json!(n.as_f64()),
            Value::Array(items) => items.iter().map(floats).collect(),
            Value::Object(fields) => fields.iter().map(|(n, v)| (n.clone(), floats(v))).collect(),
            plain => plain.clone(),
        }
    }

    proptest! {
        #[test]
        fn valid_arguments_are_unchanged((name, schema, value) in case()) {
            let once = read(&schema, value.clone()).map_err(|e| TestCaseError::fail(format!("{name}: {e}")))?;
            prop_assert_eq!(&once, &value, "{}", name);
            prop_assert_eq!(read(&schema, once.clone()).ok(), Some(once));
        }

        #[test]
        fn null_and_empty_text_mean_omitted((name, schema, value) in case()) {
            for nothing in [Value::Null, json!("")] {
                let said = filled(&schema, &value, &nothing);
                prop_assert_eq!(read(&schema, said).ok(), Some(value.clone()), "{} {}", name, nothing);
            }
        }

        #[test]
        fn integral_floats_are_integers((name, schema, value) in case()) {
            prop_assert_eq!(read(&schema, floats(&value)).ok(), Some(value), "{}", name);
        }

        #[test]
        fn invalid_argument_error_names_field_plainly((_, schema, value) in case(), at in any::<prop::sample::Index>(), junk in prop_oneof![
            Just(json!(-1)), Just(json!(1.5)), Just(json!("3")), Just(json!([])), Just(json!({ "x": 1 })), Just(json!(true)), Just(json!(1e300)), "\\PC{0,20}".prop_map(Value::String),
        ]) {
            let Value::Object(mut fields) = value else { panic!() };
            let names: Vec<String> = fields.keys().cloned().collect();
            if !names.is_empty() {
                fields.insert(names[at.index(names.len())].clone(), junk);
            }
            if let Err(report) = normal(&schema, fields) {
                let said = report.to_string();
                for rust in ["expected", "invalid type", "u64", "u32", "f64", "struct", "variant", "sequence", "serde", "Option", "deserialize"] {
                    prop_assert!(!said.contains(rust), "{}", said);
                }
                prop_assert!(report.field.as_ref().is_some_and(|f| !f.is_empty() && said.contains(f.as_str())), "{}", said);
            }
        }
    }

    #[test]
    fn names_of_languages_are_understood() {
        let schema = of_arguments::<input::RunCode>();
        for (said, want) in [
            ("py", "python"),
            ("python3", "python"),
            ("Python", "python"),
            ("Python 3.12", "python"),
            ("PY3", "python"),
            ("js", "javascript"),
            ("Node.js", "javascript"),
            ("node20", "javascript"),
            ("JavaScript", "javascript"),
            ("sh", "bash"),
            ("shell", "bash"),
            ("ts", "typescript"),
            ("c++", "cpp"),
            ("C++20", "cpp"),
            ("c", "c"),
            ("C17", "c"),
            ("golang", "go"),
            ("sqlite3", "sql"),
            ("Postgres", "postgresql"),
        ] {
            let got = read(&schema, json!({ "language": said, "code": "" })).unwrap();
            assert_eq!(got["language"], want, "{said}");
        }
        let report = read(&schema, json!({ "language": "cobol", "code": "" })).unwrap_err();
        assert!(report.to_string().contains("one of python, bash, javascript"), "{report}");
    }

    #[test]
    fn argument_mistakes_name_field_and_expected_form() {
        let code = |more: Value| {
            let mut all = json!({ "language": "python", "code": "" });
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            read(&of_arguments::<input::RunCode>(), all).unwrap_err()
        };
        for (more, field, word) in [
            (json!({ "wait_ms": "3" }), "wait_ms", "is the text \"3\"; wanted is a whole number"),
            (json!({ "wait_ms": 1.5 }), "wait_ms", "is 1.5; wanted is a whole number"),
            (json!({ "wait_ms": -1 }), "wait_ms", "is -1; allowed is 0 to 600000"),
            (json!({ "wait_ms": 600_001.0 }), "wait_ms", "is 600001; allowed is 0 to 600000"),
            (json!({ "wait_ms": "3" }), "wait_ms", "without quotes"),
            (json!({ "limits": "{}" }), "limits", "send it as JSON"),
            (json!({ "limits": { "memory": 1 } }), "limits.memory", "did you mean memory_mib?"),
            (json!({ "limits": { "processes": -1 } }), "limits.processes", "is -1; allowed is at least 0"),
            (json!({ "limits": { "timeout_seconds": "5" } }), "limits.timeout_seconds", "wanted is a number"),
            (json!({ "files": [{ "path": 1 }] }), "files[0].path", "is 1; wanted is a text"),
            (json!({ "files": [{ "content": "" }] }), "files[0].path", "is missing; wanted is a text"),
            (json!({ "files": "a.py" }), "files", "wanted is a list of objects"),
            (json!({ "args": [null] }), "args[0]", "is null; wanted is a text"),
            (json!({ "network": [null] }), "network[0]", "is null; wanted is a text"),
            (json!({ "code": null }), "code", "is null; wanted is a text"),
            (json!({ "sesion": 1 }), "sesion", "run_code"),
            (json!({ ("n".repeat(1 << 20)): 1 }), &*"n".repeat(MAX_NAME_CHARS), "this tool takes language"),
        ] {
            let report = code(more.clone());
            assert_eq!(report.field.as_deref(), Some(field), "{more}: {report}");
            if word != "run_code" {
                assert!(report.to_string().contains(word), "{more}: {report}");
            }
        }
        let hint = |schema: &Value, name: &str| {
            read(schema, json!({ (name): 1 })).unwrap_err().hint.unwrap_or_default()
        };
        let (command, edit) = (of_arguments::<input::RunCommand>(), of_arguments::<input::WorkspaceEdit>());
        let resize = of_arguments::<terminals::TerminalResize>();
        let tests = of_arguments::<input::RunTests>();
        for (schema, name, near) in [
            (&command, "command", "did you mean argv? "),
            (&command, "cmd", "did you mean argv? "),
            (&command, "timeout", "did you mean limits.timeout_seconds? "),
            (&command, "timeout_seconds", "did you mean limits.timeout_seconds? "),
            (&command, "memory_mib", "did you mean limits.memory_mib? "),
            (&command, "arg", "did you mean argv? "),
            (&command, "zzz", "this tool takes "),
            (&edit, "path", "did you mean edits[].path? "),
            (&edit, "command", "this tool takes "),
            (&edit, "old_string", "did you mean edits[].old? "),
            (&edit, "replace", "did you mean edits[].new? "),
            (&tests, "path", "did you mean filter? "),
            (&command, "workspaceId", "did you mean workspace_id? "),
            (&resize, "cols", "did you mean columns? "),
            (&resize, "col", "did you mean columns? "),
            (&resize, "width", "did you mean columns? "),
            (&resize, "row", "did you mean rows? "),
            (&resize, "lines", "this tool takes "),
        ] {
            assert!(hint(schema, name).starts_with(near), "{name}: {}", hint(schema, name));
        }
        let report = read(&of_arguments::<input::Nothing>(), json!({ "x": 1 })).unwrap_err();
        assert_eq!(report.to_string(), "there is no argument x; this tool takes none");
        let items = |files: Value| {
            read(&of_arguments::<input::WorkspaceWrite>(), json!({ "workspace_id": "w", "files": files }))
        };
        for files in [json!([]), json!([null]), json!([""])] {
            assert!(items(files).unwrap_err().to_string().contains("at least 1"));
        }
        let hosts = json!({ "argv": ["a", ""], "network": ["a:1"], "env": { "A": "", "B": null } });
        let read = read(&of_arguments::<input::RunCommand>(), hosts).unwrap();
        assert_eq!(read, json!({ "argv": ["a", ""], "network": ["a:1"], "env": { "A": "" } }));
    }
}
