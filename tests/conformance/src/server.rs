//! The handler: answers the suite's requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities,
    CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock, ElicitRequestParams,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, LoggingLevel,
    LoggingMessageNotificationParam, PaginatedRequestParams, ProgressNotificationParam, PromptMessage,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceTemplate,
    Role, ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::TaskManager;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;

use crate::content;
use crate::input::{self, Next, States};
use crate::tasks;

/// Server of one session or request; all of them share their state.
#[derive(Clone, Default)]
pub struct Fixtures(Arc<States>, TaskManager);

type Context = RequestContext<RoleServer>;

fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

impl Fixtures {
    /// Tools that send notifications before they answer.
    async fn talking(&self, name: &str, context: &Context) -> Option<CallToolResult> {
        let pause = || tokio::time::sleep(Duration::from_millis(50));
        match name {
            "test_tool_with_logging" | "test_logging_tool" => {
                let stateless = context.meta.protocol_version().is_some();
                for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    // Since 2026-07-28 only clients that ask for log lines get them.
                    if !stateless || context.meta.log_level().is_some() {
                        let line = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(line));
                        let _ = context.peer.notify_logging_message(line).await;
                    }
                    pause().await;
                }
                Some(text("done"))
            }
            "test_tool_with_progress" => {
                for progress in [0.0, 50.0, 100.0] {
                    if let Some(token) = context.meta.get_progress_token() {
                        let news = ProgressNotificationParam::new(token, progress).with_total(100.0);
                        let _ = context.peer.notify_progress(news).await;
                    }
                    pause().await;
                }
                Some(text("done"))
            }
            _ => None,
        }
    }

    /// Tools that send the client a request, as before 2026-07-28.
    async fn asking(
        &self,
        name: &str,
        arguments: &HashMap<&str, &str>,
        context: &Context,
    ) -> Option<CallToolResult> {
        let failed =
            |e: &dyn std::fmt::Display| CallToolResult::error(vec![ContentBlock::text(e.to_string())]);
        if name == "test_sampling" {
            let message = json!({
                "messages": [{ "role": "user", "content": { "type": "text", "text": arguments.get("prompt") } }],
                "maxTokens": 100
            });
            let message = match serde_json::from_value(message) {
                Ok(message) => message,
                Err(e) => return Some(failed(&e)),
            };
            return Some(match context.peer.create_message(message).await {
                Ok(result) => {
                    let said = serde_json::to_value(&result).unwrap_or_default();
                    text(format!("LLM response: {}", said["content"]["text"].as_str().unwrap_or_default()))
                }
                Err(e) => failed(&e),
            });
        }
        let question = input::question(name, arguments.get("message").unwrap_or(&""))?;
        let question: ElicitRequestParams = match serde_json::from_value(question) {
            Ok(question) => question,
            Err(e) => return Some(failed(&e)),
        };
        Some(match context.peer.create_elicitation(question).await {
            Ok(result) => {
                let said = serde_json::to_value(&result).unwrap_or_default();
                let action = said["action"].as_str().unwrap_or_default();
                text(format!("Elicitation completed: action={action}, content={}", said["content"]))
            }
            Err(e) => failed(&e),
        })
    }
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .build();
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("hotcell-fixtures", "0.1.0");
        info.protocol_version = ProtocolVersion::V_2025_11_25;
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(content::tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        content::tools().into_iter().find(|t| t.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.as_ref();
        let client = context.client_capabilities();
        if name == "test_missing_capability" && client.as_ref().is_none_or(|c| c.sampling.is_none()) {
            let wanted = ClientCapabilities::builder().enable_sampling().build();
            return Err(ErrorData::missing_required_client_capability(wanted));
        }
        let responses = request.input_responses.clone().unwrap_or_default();
        let state = request.request_state.as_deref();
        if let Some(next) = input::step(name, &responses, state, client.as_ref(), &self.0) {
            return Ok(match next? {
                Next::Done(words) => text(words).into(),
                Next::Ask(asked) => asked.into(),
            });
        }
        let given = request.arguments.clone().unwrap_or_default();
        if let Some(answer) = tasks::call(&self.1, name, given, &responses, client.as_ref()).await {
            return answer;
        }
        if let Some(answer) = content::answer(name) {
            return Ok(answer.into());
        }
        if let Some(answer) = self.talking(name, &context).await {
            return Ok(answer.into());
        }
        let arguments = request.arguments.unwrap_or_default();
        let texts = arguments.iter().filter_map(|(n, v)| Some((n.as_str(), v.as_str()?))).collect();
        if let Some(answer) = self.asking(name, &texts, &context).await {
            return Ok(answer.into());
        }
        Err(ErrorData::invalid_params("there is no tool of that name", None))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(content::resources()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template =
            ResourceTemplate::new("test://template/{id}/data", "template").with_mime_type("application/json");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let missing = || {
            ErrorData::resource_not_found("there is no such resource", Some(json!({ "uri": request.uri })))
        };
        let contents = content::read(&request.uri).ok_or_else(missing)?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(content::prompts()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let responses = request.input_responses.clone().unwrap_or_default();
        let client = context.client_capabilities();
        let state = request.request_state.as_deref();
        if let Some(next) = input::step(&request.name, &responses, state, client.as_ref(), &self.0) {
            return Ok(match next? {
                Next::Done(words) => {
                    GetPromptResult::new(vec![PromptMessage::new_text(Role::User, words)]).into()
                }
                Next::Ask(asked) => asked.into(),
            });
        }
        let messages = content::prompt(&request.name, &request.arguments.unwrap_or_default());
        let missing = || ErrorData::invalid_params("there is no prompt of that name", None);
        Ok(GetPromptResult::new(messages.ok_or_else(missing)?).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: Context,
    ) -> Result<CompleteResult, ErrorData> {
        let all = ["paris", "park", "party"].map(str::to_owned);
        let fitting = all.into_iter().filter(|v| v.starts_with(&request.argument.value)).collect();
        let values =
            CompletionInfo::with_all_values(fitting).map_err(|e| ErrorData::internal_error(e, None))?;
        Ok(CompleteResult::new(values))
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn get_task(&self, request: GetTaskParams, _: Context) -> Result<GetTaskResult, ErrorData> {
        self.1.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(&self, request: UpdateTaskParams, _: Context) -> Result<(), ErrorData> {
        self.1.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: Context) -> Result<(), ErrorData> {
        self.1.cancel_task(&request.task_id)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }
}
