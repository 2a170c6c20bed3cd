//! Fixed contents: tools, resources and prompts by name.

use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, Prompt, PromptArgument, PromptMessage, Resource,
    ResourceContents, Role, Tool,
};
use serde_json::{Value, json};

/// One red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8Dwn4EIwDiqkL4KAdjrAv5UHHlsAAAAAElFTkSuQmCC";
/// A WAV file without samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

pub fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

/// Tools that only take arguments and answer; the others are in [`crate::input`] and [`crate::server`].
const PLAIN: [&str; 25] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_logging_tool",
    "test_error_handling",
    "test_tool_with_progress",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_reconnection",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "test_input_required_result_validate",
];

pub fn tools() -> Vec<Tool> {
    let mut tools: Vec<_> = PLAIN
        .iter()
        .map(|name| {
            Tool::new(*name, "A fixture of the suite", object(json!({ "type": "object", "properties": {} })))
        })
        .collect();
    for (name, argument) in [("test_sampling", "prompt"), ("test_elicitation", "message")] {
        let schema = json!({
            "type": "object", "properties": { argument: { "type": "string" } }, "required": [argument]
        });
        tools.push(Tool::new(name, "A fixture of the suite", object(schema)));
    }
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } }
        } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" }
        },
        "allOf": [ { "anyOf": [ { "required": ["phone"] }, { "required": ["email"] } ] } ],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false
    });
    tools.push(Tool::new("json_schema_2020_12_tool", "A fixture of the suite", object(schema)));
    for (name, arguments) in crate::tasks::TOOLS {
        tools.push(Tool::new(name, "A fixture of the suite", object(crate::tasks::schema(arguments))));
    }
    tools
}

/// Answer of a tool with a fixed answer.
pub fn answer(name: &str) -> Option<CallToolResult> {
    let embedded = |uri: &str, kind: &str, text: &str| {
        ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(kind))
    };
    Some(CallToolResult::success(match name {
        "test_simple_text" => vec![ContentBlock::text("This is a simple text response for testing.")],
        "test_image_content" => vec![ContentBlock::image(PNG, "image/png")],
        "test_audio_content" => vec![ContentBlock::audio(WAV, "audio/wav")],
        "test_embedded_resource" => {
            vec![embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
        }
        "test_multiple_content_types" => vec![
            ContentBlock::text("Multiple content types test:"),
            ContentBlock::image(PNG, "image/png"),
            embedded("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ],
        "test_trigger_tool_change"
        | "test_trigger_prompt_change"
        | "test_reconnection"
        | "json_schema_2020_12_tool" => {
            vec![ContentBlock::text("done")]
        }
        "test_error_handling" => {
            let text = "This tool intentionally returns an error for testing";
            return Some(CallToolResult::error(vec![ContentBlock::text(text)]));
        }
        _ => return None,
    }))
}

pub fn resources() -> Vec<Resource> {
    let resource = |uri: &str, kind: &str| {
        Resource::new(uri, uri).with_description("A fixture of the suite").with_mime_type(kind)
    };
    vec![
        resource("test://static-text", "text/plain"),
        resource("test://static-binary", "image/png"),
        resource("test://watched-resource", "text/plain"),
    ]
}

pub fn read(uri: &str) -> Option<ResourceContents> {
    Some(match uri {
        "test://static-text" | "test://watched-resource" => {
            ResourceContents::text("This is the content of the static text resource.", uri)
                .with_mime_type("text/plain")
        }
        "test://static-binary" => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let text =
                json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") }).to_string();
            ResourceContents::text(text, uri).with_mime_type("application/json")
        }
    })
}

pub fn prompts() -> Vec<Prompt> {
    let about = Some("A fixture of the suite");
    let argument = |name: &str| PromptArgument::new(name).with_description("Any text").with_required(true);
    vec![
        Prompt::new("test_simple_prompt", about, None),
        Prompt::new("test_prompt_with_arguments", about, Some(vec![argument("arg1"), argument("arg2")])),
        Prompt::new("test_prompt_with_embedded_resource", about, Some(vec![argument("resourceUri")])),
        Prompt::new("test_prompt_with_image", about, None),
        Prompt::new("test_input_required_result_prompt", about, None),
    ]
}

pub fn prompt(name: &str, arguments: &JsonObject) -> Option<Vec<PromptMessage>> {
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let said = |content| PromptMessage::new(Role::User, content);
    Some(match name {
        "test_simple_prompt" => vec![said(ContentBlock::text("This is a simple prompt for testing."))],
        "test_prompt_with_arguments" => {
            let text =
                format!("Prompt with arguments: arg1='{}', arg2='{}'", argument("arg1"), argument("arg2"));
            vec![said(ContentBlock::text(text))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource =
                ResourceContents::text("Embedded resource content for testing.", argument("resourceUri"));
            vec![
                said(ContentBlock::resource(resource.with_mime_type("text/plain"))),
                said(ContentBlock::text("Please process the embedded resource above.")),
            ]
        }
        "test_prompt_with_image" => vec![
            said(ContentBlock::image(PNG, "image/png")),
            said(ContentBlock::text("Please analyze the image above.")),
        ],
        _ => return None,
    })
}
