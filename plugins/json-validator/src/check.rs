//! Validates a document against a schema.

use boon::{Compiler, Draft, Schemas, UrlLoader, ValidationError};
use serde_json::Value;

/// Maximum number of problems in a report.
pub(crate) const MOST: usize = 100;
/// URL of the schema itself while it is compiled.
const OWN: &str = "hotcell:schema";

/// A problem in a document.
#[derive(Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) instance: String,
    pub(crate) schema: String,
    pub(crate) message: String,
}

/// A loader that never fetches a schema.
struct Nowhere;

impl UrlLoader for Nowhere {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("nothing is fetched; give {url} among the other schemas").into())
    }
}

/// Problems of a document; empty when it matches the schema. At most [`MOST`] plus one.
pub(crate) fn check(
    document: &str,
    schema: &str,
    others: &[(String, String)],
    draft: Draft,
    formats: bool,
) -> Result<Vec<Problem>, String> {
    let document = json("the document", document)?;
    let mut compiler = Compiler::new();
    compiler.set_default_draft(draft);
    compiler.use_loader(Box::new(Nowhere));
    if formats {
        compiler.enable_format_assertions();
    }
    compiler
        .add_resource(OWN, json("the schema", schema)?)
        .map_err(|e| format!("the schema is wrong: {e}"))?;
    for (uri, schema) in others {
        let schema = json(&format!("the schema {uri}"), schema)?;
        compiler.add_resource(uri, schema).map_err(|e| format!("the schema {uri} is wrong: {e}"))?;
    }
    let mut schemas = Schemas::new();
    let index = compiler.compile(OWN, &mut schemas).map_err(|e| format!("the schema is wrong: {e:#}"))?;
    let mut problems = Vec::new();
    if let Err(error) = schemas.validate(&document, index) {
        leaves(&error, &mut problems);
    }
    Ok(problems)
}

/// Collects the errors without causes of their own: the others only follow from them.
fn leaves(error: &ValidationError<'_, '_>, into: &mut Vec<Problem>) {
    if into.len() > MOST {
        return;
    }
    if error.causes.is_empty() {
        let schema =
            error.schema_url.strip_prefix(OWN).map_or(error.schema_url, |own| own.trim_start_matches('#'));
        into.push(Problem {
            instance: error.instance_location.to_string(),
            schema: schema.to_owned(),
            message: error.kind.to_string(),
        });
    }
    for cause in &error.causes {
        leaves(cause, into);
    }
}

fn json(what: &str, text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|e| format!("{what} is no JSON: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"object","required":["name"],"additionalProperties":false,
        "properties":{"name":{"type":"string","minLength":2},"age":{"type":"integer","minimum":0},"mail":{"format":"email"},
        "tags":{"type":"array","items":{"enum":["a","b"]}}}}"#;

    fn found(document: &str, schema: &str) -> Vec<String> {
        let problems = check(document, schema, &[], Draft::V2020_12, true).unwrap();
        problems.into_iter().map(|p| format!("{} {} {}", p.instance, p.schema, p.message)).collect()
    }

    #[test]
    fn problems_have_paths_and_reason() {
        assert!(found(r#"{"name":"ab","age":3,"tags":["a"]}"#, SCHEMA).is_empty());
        for (document, instance, schema, part) in [
            ("{}", "", "", "name"),
            ("[]", "", "", "object"),
            (r#"{"name":"a"}"#, "/name", "/properties/name", "length"),
            (r#"{"name":"ab","age":-1}"#, "/age", "/properties/age", "0"),
            (r#"{"name":"ab","tags":["a","x"]}"#, "/tags/1", "/properties/tags/items", "'a'"),
            (r#"{"name":"ab","mail":"x"}"#, "/mail", "/properties/mail", "email"),
            (r#"{"name":"ab","more":1}"#, "", "", "more"),
        ] {
            let problems = check(document, SCHEMA, &[], Draft::V2020_12, true).unwrap();
            assert_eq!(problems.len(), 1, "{document}: {problems:?}");
            assert_eq!(
                (problems[0].instance.as_str(), problems[0].schema.as_str()),
                (instance, schema),
                "{document}"
            );
            assert!(problems[0].message.contains(part), "{document}: {}", problems[0].message);
        }
        let many = format!("[{}]", vec!["1"; 500].join(","));
        assert_eq!(found(&many, r#"{"items":{"type":"string"}}"#).len(), MOST + 1);
    }

    #[test]
    fn invalid_arguments_are_explained() {
        let error =
            |document: &str, schema: &str| check(document, schema, &[], Draft::V2020_12, true).unwrap_err();
        assert!(error("{", "{}").starts_with("the document is no JSON: EOF"));
        assert!(error("1", "nope").starts_with("the schema is no JSON"));
        assert!(error("1", r#"{"type":"nope"}"#).starts_with("the schema is wrong"));
        assert!(error("1", r#"{"$ref":"https://example.org/x"}"#).contains("nothing is fetched"));
        assert!(error("1", r#"{"$ref":"file:///etc/passwd"}"#).contains("nothing is fetched"));
    }

    #[test]
    fn schemas_refer_to_others_that_are_given() {
        let others = [("https://example.org/x".to_owned(), r#"{"type":"string"}"#.to_owned())];
        let problems = check("1", r#"{"$ref":"https://example.org/x"}"#, &others, Draft::V7, false).unwrap();
        assert_eq!(problems[0].schema, "https://example.org/x#");
    }
}
