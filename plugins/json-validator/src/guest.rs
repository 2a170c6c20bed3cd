//! Functions of `wit/json-validator.wit`.

use crate::{check, twice};

wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use exports::hotcell::json_validator::json_validator::{Draft, Guest, NamedSchema, Problem, Report};

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
