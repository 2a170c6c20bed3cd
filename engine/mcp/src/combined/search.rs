//! `search_tools` and `call_tool`: with many foreign tools, a client is listed these two in their place, so that a model does not pay for every schema in
//! each conversation.

use std::sync::{Arc, LazyLock};

use hotcell_sandbox::unique;
use hotcell_state::report::{Code, ErrorReport};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::combined::words::{Shown, cut};
use crate::reply::refused;
use crate::text::barred;

/// Name of the tool that searches.
pub const SEARCH: &str = "search_tools";
/// Name of the tool that calls another one.
pub const CALL: &str = "call_tool";
/// Default and maximum number of tools in an answer.
const MATCHES: usize = 8;
const MAX_MATCHES: usize = 20;
/// Maximum length of a description, and of a schema, in an answer, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 2_000;
const MAX_SCHEMA_BYTES: usize = 16_000;

/// Both tools as they are listed.
pub fn listed(count: usize, servers: &[&str]) -> Vec<Tool> {
    let object = |schema: &Value| Arc::new(schema.as_object().cloned().unwrap_or_default());
    static SCHEMAS: LazyLock<[Value; 2]> = LazyLock::new(|| {
        [
            json!({ "type": "object", "required": ["query"], "properties": {
                "query": { "type": "string", "description": "Words of a task, such as: read a file" },
                "limit": { "type": "integer", "minimum": 1, "maximum": MAX_MATCHES, "description": format!("At most so many tools; {MATCHES} by default") } } }),
            json!({ "type": "object", "required": ["name"], "properties": {
                "name": { "type": "string", "description": "Name that search_tools gave" },
                "arguments": { "type": "object", "description": "Arguments by the tool's schema" } } }),
        ]
    });
    let about = format!(
        "Finds tools of other servers ({}), {count} in all, by words, with their descriptions and schemas. call_tool calls one.",
        servers.join(", ")
    );
    let hints = |title: &str| ToolAnnotations::with_title(title);
    vec![
        Tool::new(SEARCH, about, object(&SCHEMAS[0]))
            .with_annotations(hints("Search tools").read_only(true).open_world(false)),
        Tool::new(CALL, "Calls a tool that search_tools found.", object(&SCHEMAS[1]))
            .with_annotations(hints("Call a tool").open_world(true)),
    ]
}

/// Tools that fit a query best, as an answer.
pub fn search(tools: &[Shown], arguments: &JsonObject) -> CallToolResult {
    let wrong =
        |field: &str, why: &str| refused(&ErrorReport::new(Code::InvalidValue, why.to_owned()).field(field));
    let Some(query) = arguments.get("query").and_then(Value::as_str).filter(|query| !query.trim().is_empty())
    else {
        return wrong("query", "query is a text with words of the task");
    };
    let most = match arguments.get("limit") {
        None | Some(Value::Null) => MATCHES,
        Some(limit) => match limit.as_u64().and_then(|limit| usize::try_from(limit).ok()) {
            Some(limit) if (1..=MAX_MATCHES).contains(&limit) => limit,
            _ => return wrong("limit", "limit is a number from 1 to 20"),
        },
    };
    let found = best(tools, query, most);
    if found.is_empty() {
        let words = format!("no tool of {} has one of these words; try others", tools.len());
        return CallToolResult::success(vec![ContentBlock::text(words)]);
    }
    let mut content = vec![ContentBlock::text(format!("{} of {} tools:", found.len(), tools.len()))];
    for tool in found {
        let schema = Value::Object((*tool.listed.input_schema).clone()).to_string();
        let schema = match schema.len() > MAX_SCHEMA_BYTES {
            true => format!("arguments: a schema of {} bytes, too long to show", schema.len()),
            false => format!("arguments: {schema}"),
        };
        let about = cut(&tool.description, MAX_DESCRIPTION_BYTES);
        content.push(ContentBlock::text(format!(
            "{}\n{}{}",
            tool.listed.name,
            barred(about),
            barred(&schema)
        )));
    }
    CallToolResult::success(content)
}

/// Name and arguments of a call by name.
///
/// # Errors
/// [`ErrorReport`] for arguments of another form.
pub fn named(mut arguments: JsonObject) -> Result<(String, JsonObject), ErrorReport> {
    let wrong = |field: &str, why: &str| ErrorReport::new(Code::InvalidValue, why.to_owned()).field(field);
    let Some(Value::String(name)) = arguments.remove("name") else {
        return Err(wrong("name", "name is the name of a tool that search_tools gave"));
    };
    match arguments.remove("arguments") {
        None | Some(Value::Null) => Ok((name, JsonObject::new())),
        Some(Value::Object(arguments)) => Ok((name, arguments)),
        // Several models send an object as a text.
        Some(Value::String(text)) => match serde_json::from_str(&text) {
            Ok(Value::Object(_)) if unique::twice(text.as_bytes()).is_some() => {
                Err(wrong("arguments", "arguments has a key twice in an object; send it once"))
            }
            Ok(Value::Object(arguments)) => Ok((name, arguments)),
            _ => Err(wrong("arguments", "arguments is an object")),
        },
        Some(_) => Err(wrong("arguments", "arguments is an object")),
    }
}

/// The tools that fit best: words in the name count most, and a word fits one that begins with it. Pure.
fn best<'a>(tools: &'a [Shown], query: &str, most: usize) -> Vec<&'a Shown> {
    let wanted = words(query);
    let score = |tool: &Shown| {
        let (name, about) = (words(&tool.listed.name), words(&tool.description));
        let fits = |all: &[String], word: &String| match all.contains(word) {
            true => 2,
            false => usize::from(
                word.len() > 2
                    && all.iter().any(|one| {
                        one.starts_with(word.as_str()) || (one.len() > 2 && word.starts_with(one.as_str()))
                    }),
            ),
        };
        wanted.iter().map(|word| 3 * fits(&name, word) + fits(&about, word)).sum::<usize>()
    };
    let mut scored: Vec<(usize, &Shown)> =
        tools.iter().map(|tool| (score(tool), tool)).filter(|(score, _)| *score > 0).collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scored.into_iter().take(most).map(|(_, tool)| tool).collect()
}

fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(1000)
        .map(str::to_lowercase)
        .collect();
    words.sort();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use hotcell_client::Tool as Foreign;

    use super::*;
    use crate::combined::words::shown;

    #[test]
    fn tools_are_found_by_words_of_name_and_description() {
        let foreign = [
            ("read_file", "Reads a text file"),
            ("list_directory", "Lists a folder"),
            ("weather", "Forecast of a city"),
        ];
        let foreign = foreign.map(|(name, description)| Foreign {
            name: name.to_owned(),
            definition: json!({ "name": name, "description": description, "inputSchema": { "type": "object" } }),
        });
        let tools = shown("s", &foreign, 10_000);
        for (query, want) in [
            ("read a file", &["read_file", "list_directory", "weather"][..]),
            ("FORECASTS", &["weather"]),
            ("folders", &["list_directory"]),
            ("nothing", &[]),
            ("?!", &[]),
        ] {
            let found: Vec<_> = best(&tools, query, 8).iter().map(|tool| tool.own.as_str()).collect();
            assert_eq!(found, want, "{query}");
        }
    }

    #[test]
    fn calls_by_name_take_their_arguments_in_usual_forms() {
        let of = |value: Value| named(value.as_object().cloned().unwrap());
        let one = json!({ "a": 1 }).as_object().cloned().unwrap();
        for (value, want) in [
            (json!({ "name": "s__a", "arguments": { "a": 1 } }), Some(&one)),
            (json!({ "name": "s__a", "arguments": "{\"a\":1}" }), Some(&one)),
            (json!({ "name": "s__a", "arguments": "{\"a\":2,\"a\":1}" }), None),
            (json!({ "name": "s__a", "arguments": null }), Some(&JsonObject::new())),
            (json!({ "name": "s__a", "arguments": [1] }), None),
            (json!({ "name": 7 }), None),
            (json!({}), None),
        ] {
            assert_eq!(of(value.clone()).ok().map(|(_, arguments)| arguments).as_ref(), want, "{value}");
        }
    }
}
