//! The prompt `correct`: a document, its schema and its problems, for a model to correct.

use crate::check::{MOST, Problem};

/// Message that asks for a corrected document.
pub(crate) fn message(document: &str, schema: &str, problems: &[Problem]) -> String {
    let asked = match problems {
        [] => "This JSON document matches its schema. Say so.".to_owned(),
        _ => {
            let shown = problems.iter().take(MOST);
            let lines =
                shown.map(|p| format!("- at {:?} (schema {:?}): {}\n", p.instance, p.schema, p.message));
            let more = if problems.len() > MOST { "- and more\n" } else { "" };
            format!(
                "This JSON document does not match its schema:\n{}{more}\
                 Correct the document with as few changes as possible, keep the schema as it is, and check the result \
                 with the tool `validate`.",
                lines.collect::<String>()
            )
        }
    };
    format!("{asked}\n\nDocument:\n{document}\n\nSchema:\n{schema}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_has_problems_document_and_schema() {
        let problem = |n: usize| Problem {
            instance: format!("/{n}"),
            schema: "/type".into(),
            message: "want string".into(),
        };
        for (count, has, lacks) in [
            (0, "Say so", "does not match"),
            (2, "- at \"/1\" (schema \"/type\"): want string\nCorrect", "and more"),
            (MOST + 1, "- and more\nCorrect", "/100"),
        ] {
            let problems: Vec<_> = (0..count).map(problem).collect();
            let text = message("[1]", "{\"x\": 2}", &problems);
            assert!(text.contains(has) && !text.contains(lacks), "{count}: {text}");
            assert!(text.ends_with("Document:\n[1]\n\nSchema:\n{\"x\": 2}\n"), "{text}");
        }
    }
}
