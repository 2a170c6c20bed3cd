//! Tools that continue behind a task: the tasks extension as the suite needs it, on the library's own task
//! manager. The product's tasks are its runs.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, CreateTaskResult, InputRequest,
    InputRequiredResult, InputResponses, JsonObject,
};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::{Value, json};

use crate::input::form;

/// The tools and their arguments.
pub const TOOLS: [(&str, &[&str]); 7] = [
    ("greet", &["name"]),
    ("slow_compute", &["seconds", "label"]),
    ("failing_job", &[]),
    ("protocol_error_job", &[]),
    ("confirm_delete", &["filename"]),
    ("multi_input", &[]),
    ("test_tool_with_task", &[]),
];
/// Tools that cannot be answered without a task.
const REQUIRED: [&str; 2] = ["failing_job", "test_tool_with_task"];

fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn question(message: &str, field: &str, kind: &str) -> Result<InputRequest, ErrorData> {
    serde_json::from_value(form(message, field, kind))
        .map_err(|e| ErrorData::internal_error(e.to_string(), None))
}

/// Sleeps, unless it is cancelled first.
async fn sleep(context: &TaskContext, time: Duration) -> Result<(), TaskExit> {
    tokio::select! {
        () = context.cancelled() => Err(TaskExit::Cancelled),
        () = tokio::time::sleep(time) => Ok(()),
    }
}

/// Work of a tool behind a task.
async fn work(name: String, arguments: JsonObject, context: TaskContext) -> Result<CallToolResult, TaskExit> {
    match name.as_str() {
        "slow_compute" => {
            let seconds = arguments.get("seconds").and_then(Value::as_f64).unwrap_or(1.0);
            sleep(&context, Duration::from_secs_f64(seconds.clamp(0.0, 600.0))).await?;
            Ok(text("computed"))
        }
        "failing_job" => {
            sleep(&context, Duration::from_secs(1)).await?;
            Ok(CallToolResult::error(vec![ContentBlock::text("the job failed")]))
        }
        "protocol_error_job" => Err(ErrorData::internal_error("the job broke", None).into()),
        "confirm_delete" => {
            let answer =
                context.request_input("confirm", question("Delete it?", "confirm", "boolean")?).await?;
            Ok(text(format!("confirmed: {answer}")))
        }
        "multi_input" => {
            let ask = |key: &'static str| {
                let context = context.clone();
                async move { context.request_input(key, question(key, "value", "string")?).await }
            };
            let (first, second) = tokio::join!(ask("first"), ask("second"));
            Ok(text(format!("{} {}", first?, second?)))
        }
        "test_tool_with_task" => {
            sleep(&context, Duration::from_millis(200)).await?;
            let name = arguments.get("user_name").and_then(Value::as_str).unwrap_or_default();
            Ok(text(format!("Hello, {name}!")))
        }
        _ => Err(ErrorData::invalid_params("there is no tool of that name", None).into()),
    }
}

/// Answer of a tool; `None` for other tools.
pub async fn call(
    tasks: &TaskManager,
    name: &str,
    mut arguments: JsonObject,
    responses: &InputResponses,
    client: Option<&ClientCapabilities>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    TOOLS.iter().find(|(tool, _)| *tool == name)?;
    if name == "greet" {
        let name = arguments.get("name").and_then(Value::as_str).unwrap_or_default();
        return Some(Ok(text(format!("Hello, {name}!")).into()));
    }
    let knows = client.is_some_and(ClientCapabilities::supports_tasks);
    if REQUIRED.contains(&name) && !knows {
        let wanted = ClientCapabilities::builder().enable_tasks().build();
        return Some(Err(ErrorData::missing_required_client_capability(wanted)));
    }
    if name == "test_tool_with_task" {
        let Some(given) = responses.get("user_name") else {
            let asked = question("What is your name?", "name", "string").map(|question| {
                let questions = [("user_name".to_owned(), question)].into();
                InputRequiredResult::from_input_requests(questions).into()
            });
            return Some(asked);
        };
        arguments.insert("user_name".to_owned(), given["content"]["name"].clone());
    }
    if !knows {
        // As a call that is answered when it is done.
        let seconds = arguments.get("seconds").and_then(Value::as_f64).unwrap_or(0.0);
        tokio::time::sleep(Duration::from_secs_f64(seconds.clamp(0.0, 60.0))).await;
        return Some(Ok(text("computed").into()));
    }
    let name = name.to_owned();
    let task = tasks.spawn(TaskOptions::new(), move |context| Box::pin(work(name, arguments, context)));
    Some(Ok(CreateTaskResult::new(task).into()))
}

/// A schema of these arguments.
pub fn schema(arguments: &[&str]) -> Value {
    let of = |name: &&str| {
        let kind = if *name == "seconds" { "number" } else { "string" };
        ((*name).to_owned(), json!({ "type": kind }))
    };
    let properties: JsonObject = arguments.iter().map(of).collect();
    json!({ "type": "object", "properties": properties })
}
