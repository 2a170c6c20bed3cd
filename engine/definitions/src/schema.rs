//! JSON Schema of an answer: compiled without fetching anything, and answers checked. Pure.

use std::error::Error;

use boon::{Compiler, Draft, Schemas, UrlLoader, ValidationError};
use serde_json::Value;

/// Maximum number of problems that are told.
const MAX_PROBLEMS: usize = 8;
/// Name of the schema while it is compiled.
const OWN: &str = "hotcell:returns";

/// A loader that fetches nothing.
struct Nowhere;

impl UrlLoader for Nowhere {
    fn load(&self, url: &str) -> Result<Value, Box<dyn Error>> {
        Err(format!("nothing is fetched, so that $ref must not lead to {url}").into())
    }
}

/// Checks a schema, and makes it one of an object.
///
/// # Errors
/// A sentence.
pub(crate) fn check(schema: &mut Value) -> Result<(), String> {
    let fields = schema.as_object_mut().ok_or("it is a table with a JSON Schema")?;
    let kind = fields.entry("type").or_insert_with(|| "object".into());
    if *kind != "object" {
        return Err(format!("an answer is an object, so that the type is \"object\" and not {kind}"));
    }
    compiled(schema).map(drop)
}

fn compiled(schema: &Value) -> Result<(Schemas, boon::SchemaIndex), String> {
    let mut compiler = Compiler::new();
    compiler.set_default_draft(Draft::V2020_12);
    compiler.use_loader(Box::new(Nowhere));
    compiler.add_resource(OWN, schema.clone()).map_err(|e| format!("the schema is wrong: {e}"))?;
    let mut schemas = Schemas::new();
    let index = compiler.compile(OWN, &mut schemas).map_err(|e| format!("the schema is wrong: {e:#}"))?;
    Ok((schemas, index))
}

/// Problems of an answer, at most eight; none when it is as the schema wants it.
#[must_use]
pub fn problems(schema: &Value, answer: &Value) -> Vec<String> {
    let (schemas, index) = match compiled(schema) {
        Ok(compiled) => compiled,
        Err(why) => return vec![why],
    };
    let mut found = Vec::new();
    if let Err(error) = schemas.validate(answer, index) {
        leaves(&error, &mut found);
    }
    found.truncate(MAX_PROBLEMS);
    found
}

/// Collects the errors without causes of their own: the others only follow from them.
fn leaves(error: &ValidationError<'_, '_>, into: &mut Vec<String>) {
    if into.len() >= MAX_PROBLEMS {
        return;
    }
    if error.causes.is_empty() {
        let at = error.instance_location.to_string();
        let at = if at.is_empty() { "the answer".to_owned() } else { at };
        into.push(format!("{at}: {}", error.kind));
    }
    error.causes.iter().for_each(|cause| leaves(cause, into));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_checked_with_the_place_of_each_problem() {
        let schema = json!({ "type": "object", "required": ["summary"], "additionalProperties": false, "properties": {
            "summary": { "type": "string" },
            "issues": { "type": "array", "items": { "type": "object", "properties": { "severity": { "enum": ["low", "high"] } } } },
        } });
        assert_eq!(
            problems(&schema, &json!({ "summary": "", "issues": [{ "severity": "low" }] })),
            Vec::<String>::new()
        );
        for (answer, word) in [
            (json!({}), "summary"),
            (json!([]), "want object"),
            (json!({ "summary": 1 }), "/summary"),
            (json!({ "summary": "", "issues": [{}, { "severity": "bad" }] }), "/issues/1/severity"),
            (json!({ "summary": "", "more": 1 }), "more"),
        ] {
            let found = problems(&schema, &answer).join("; ");
            assert!(found.contains(word), "{answer}: {found}");
        }
        assert!(
            check(&mut json!({ "$ref": "https://example.org/x" }))
                .unwrap_err()
                .contains("nothing is fetched")
        );
    }
}
