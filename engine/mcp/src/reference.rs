//! The tool reference of the book, generated from the schemas.

use std::fmt::Write;

use serde_json::Value;

use crate::{prompts, resources, tools};

/// The reference, in Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(
        "# MCP tools\n\nMade from the schemas by `hotcell mcp --reference`; the tests say when it is old.\n\n",
    );
    let mut answers = Vec::new();
    for tool in tools::all() {
        let hints = tool.annotations.as_ref();
        let effect = match hints.map(|h| (h.read_only_hint, h.destructive_hint)) {
            Some((Some(true), _)) => "reads only",
            Some((_, Some(true))) => "may replace or remove",
            _ => "adds only",
        };
        let about = tool.description.as_deref().unwrap_or_default();
        let _ = writeln!(text, "## {}\n\n{about} ({effect})\n", tool.name);
        table(&mut text, "argument", &Value::Object(tool.input_schema.as_ref().clone()));
        if let Some(output) = &tool.output_schema {
            match answers.iter().find(|(known, _)| *known == output) {
                Some((_, other)) => {
                    let _ = writeln!(text, "The answer has the fields of {other}.\n");
                }
                None => table(&mut text, "field of the answer", &Value::Object(output.as_ref().clone())),
            }
            answers.push((output, &tool.name));
        }
    }
    text.push_str("## Resources\n\n| URI | holds |\n| --- | --- |\n");
    for template in resources::templates() {
        let _ =
            writeln!(text, "| `{}` | {} |", template.uri_template, template.description.unwrap_or_default());
    }
    text.push_str("\n## Prompts\n\n| prompt | does | arguments |\n| --- | --- | --- |\n");
    for prompt in prompts::all() {
        let arguments = prompt.arguments.unwrap_or_default().into_iter().map(|argument| {
            let required = if argument.required == Some(true) { " (required)" } else { "" };
            format!("`{}`{required}: {}", argument.name, argument.description.unwrap_or_default())
        });
        let arguments = arguments.collect::<Vec<_>>().join("<br>");
        let about = prompt.description.unwrap_or_default();
        let _ = writeln!(text, "| `{}` | {about} | {arguments} |", prompt.name);
    }
    text
}

fn table(text: &mut String, heading: &str, schema: &Value) {
    let mut rows = Vec::new();
    walk(&mut rows, "", schema);
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "| {heading} | type | |\n| --- | --- | --- |");
    for (name, kind, about) in rows {
        let _ = writeln!(text, "| `{name}` | {kind} | {about} |");
    }
    text.push('\n');
}

/// Adds one row for each property, and for the properties of objects and lists below it.
fn walk(rows: &mut Vec<(String, String, String)>, prefix: &str, schema: &Value) {
    let required: Vec<_> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let Some(properties) = schema["properties"].as_object() else { return };
    for (name, property) in properties {
        let path = format!("{prefix}{name}");
        let mut kind = kind(property);
        if required.contains(&name.as_str()) {
            kind.push_str(", required");
        }
        let about = property["description"].as_str().unwrap_or_default();
        rows.push((path.clone(), kind, about.replace('\n', " ").replace('|', "\\|")));
        // Two levels are enough.
        if prefix.matches('.').count() < 1 {
            walk(rows, &format!("{path}."), property);
            walk(rows, &format!("{path}[]."), &property["items"]);
        }
    }
}

fn kind(property: &Value) -> String {
    let choice = |list: &Value, key: &str| {
        let all = list.as_array().into_iter().flatten();
        all.filter_map(|v| if key.is_empty() { v.as_str() } else { v[key].as_str() })
            .map(|v| format!("`{v}`"))
            .collect::<Vec<_>>()
    };
    let mut choices = choice(&property["enum"], "");
    choices.extend(choice(&property["oneOf"], "const"));
    if !choices.is_empty() {
        return choices.join(", ");
    }
    let several = property["anyOf"].as_array().into_iter().flatten();
    let several: Vec<_> = several.filter_map(|p| p["type"].as_str()).filter(|k| *k != "null").collect();
    match property["type"].as_str() {
        Some(kind) => kind.to_owned(),
        None if several.is_empty() => "any".to_owned(),
        None => format!("{} or null", several.join(" or ")),
    }
}
