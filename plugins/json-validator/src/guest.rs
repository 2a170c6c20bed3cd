//! Functions of `wit/json-validator.wit`.

use crate::{check, correct, twice};

wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use exports::hotcell::json_validator::json_validator::{Draft, Guest, NamedSchema, Problem, Report};
use exports::hotcell::plugin::{prompts, resources};

struct Plugin;
export!(Plugin);

fn report(mut problems: Vec<check::Problem>) -> Report {
    let (valid, more) = (problems.is_empty(), problems.len() > check::MOST);
    problems.truncate(check::MOST);
    let problems =
        problems.into_iter().map(|p| Problem { instance: p.instance, schema: p.schema, message: p.message });
    Report { valid, problems: problems.collect(), more }
}

impl Guest for Plugin {
    fn validate(
        document: String,
        schema: String,
        others: Option<Vec<NamedSchema>>,
        draft: Option<Draft>,
        formats: Option<bool>,
    ) -> Result<Report, String> {
        let draft = match draft.unwrap_or(Draft::Draft2020) {
            Draft::Draft4 => boon::Draft::V4,
            Draft::Draft6 => boon::Draft::V6,
            Draft::Draft7 => boon::Draft::V7,
            Draft::Draft2019 => boon::Draft::V2019_09,
            Draft::Draft2020 => boon::Draft::V2020_12,
        };
        let others: Vec<_> = others.unwrap_or_default().into_iter().map(|o| (o.uri, o.schema)).collect();
        check::check(&document, &schema, &others, draft, formats.unwrap_or(true)).map(report)
    }

    fn parse(text: String) -> Result<Report, String> {
        twice::twice(&text).map(report).map_err(|e| e.to_string())
    }
}

/// Path of the only resource, and its text.
const MANUAL: (&str, &str) = ("manual.md", include_str!("../README.md"));

impl resources::Guest for Plugin {
    fn list() -> Result<Vec<resources::Entry>, String> {
        Ok(vec![resources::Entry {
            path: MANUAL.0.into(),
            title: Some("Manual of json-validator".into()),
            description: Some("Drafts of JSON Schema, and what is checked.".into()),
            mime_type: Some("text/markdown".into()),
        }])
    }

    fn read(path: String) -> Result<resources::Content, String> {
        match path == MANUAL.0 {
            true => Ok(resources::Content::Text(MANUAL.1.into())),
            false => Err(format!("there is no {path}; there is {}", MANUAL.0)),
        }
    }
}

impl prompts::Guest for Plugin {
    fn list() -> Result<Vec<prompts::Entry>, String> {
        let parameter = |name: &str, what: &str| prompts::Parameter {
            name: name.into(),
            description: Some(what.into()),
            required: true,
        };
        Ok(vec![prompts::Entry {
            name: "correct".into(),
            title: Some("Correct a JSON document".into()),
            description: Some("Checks a document, and asks for a corrected one.".into()),
            parameters: vec![
                parameter("document", "The document, as JSON text."),
                parameter("schema", "The schema, as JSON text."),
            ],
        }])
    }

    // The host calls it only with a name of the list, and with all required arguments.
    fn get(_: String, arguments: Vec<(String, String)>) -> Result<Vec<prompts::Message>, String> {
        let of = |name: &str| {
            let found = arguments.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str()).ok_or_else(|| format!("{name} is missing"))
        };
        let (document, schema) = (of("document")?, of("schema")?);
        let problems = check::check(document, schema, &[], boon::Draft::V2020_12, true)?;
        let text = correct::message(document, schema, &problems);
        Ok(vec![prompts::Message { role: prompts::Role::User, text }])
    }
}
