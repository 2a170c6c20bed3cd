//! A server with the tools of one role alone (S0.7 to S0.11), on standard input and output. An answer is one text with JSON, as the founding document
//! has it. Ends with its input.

use std::borrow::Cow;
use std::sync::Arc;

use hotcell_agents::Role;
use hotcell_agents::roles::RoleTool;
use hotcell_http::LAST_ANSWERS_TIMEOUT;
use hotcell_state::report::{Code, ErrorReport};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::{RequestContext, ServerInitializeError, serve_server_with_ct};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::MAX_MESSAGE_BYTES;
use crate::lines::Lines;
use crate::pages;
use crate::reply::refused;
use crate::server::REVISIONS;

/// The work of a role: tool and arguments in, JSON out. It blocks.
pub type Work = Arc<dyn Fn(&str, JsonObject) -> Result<Value, ErrorReport> + Send + Sync>;

/// A server of one role.
#[derive(Clone)]
struct OfRole {
    role: Role,
    work: Work,
    /// One call at a time: a role is one worker.
    turn: Arc<Mutex<()>>,
}

impl std::fmt::Debug for OfRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OfRole({})", self.role.name())
    }
}

fn listed(tool: &RoleTool) -> Tool {
    let properties: JsonObject = tool
        .arguments
        .iter()
        .map(|one| (one.name.to_owned(), json!({ "type": one.kind, "description": one.about })))
        .collect();
    let required: Vec<&str> = tool.arguments.iter().filter(|one| one.required).map(|one| one.name).collect();
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    let hints = ToolAnnotations::new().read_only(false).destructive(false).open_world(true);
    Tool::new(tool.name, tool.about, Arc::new(schema.as_object().cloned().unwrap_or_default()))
        .with_annotations(hints)
}

impl ServerHandler for OfRole {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info =
            Implementation::new(format!("hotcell-{}", self.role.name()), env!("CARGO_PKG_VERSION"));
        info.protocol_version = ProtocolVersion::V_2025_11_25;
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(const { &REVISIONS })
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        pages::only_page(request.as_ref())?;
        Ok(ListToolsResult::with_all_items(self.role.tools().iter().map(listed).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.role.tools().iter().find(|tool| tool.name == name).map(listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _turn = self.turn.lock().await;
        let work = Arc::clone(&self.work);
        let arguments = request.arguments.unwrap_or_default();
        let done = tokio::task::spawn_blocking(move || work(&request.name, arguments)).await;
        let done = done.unwrap_or_else(|e| Err(ErrorReport::new(Code::Internal, e.to_string())));
        Ok(CallToolResponse::Complete(match done {
            Ok(value) => CallToolResult::success(vec![ContentBlock::text(value.to_string())]),
            Err(report) => refused(&report),
        }))
    }
}

/// Serves a role until standard input ends or `stop` resolves.
///
/// # Errors
/// A message when the protocol could not be initialized.
pub async fn serve(role: Role, work: Work, stop: impl Future<Output = ()>) -> Result<(), String> {
    let (input, output) = rmcp::transport::stdio_pipes();
    let (over, token) = (CancellationToken::new(), CancellationToken::new());
    let transport = Lines::new(input, output, MAX_MESSAGE_BYTES, over.clone());
    let server = OfRole { role, work, turn: Arc::default() };
    let served = async {
        match serve_server_with_ct(server, transport, token.clone()).await {
            Ok(running) => running.waiting().await.map(drop).map_err(|e| format!("the server failed: {e}")),
            // The input ended before a client sent anything.
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
            Err(e) => Err(format!("the client did not begin as MCP says: {e}")),
        }
    };
    let end = async {
        tokio::select! {
            () = over.cancelled() => {}
            () = stop => {}
        }
        token.cancel();
    };
    let (mut served, mut end) = (std::pin::pin!(served), std::pin::pin!(end));
    tokio::select! {
        ended = &mut served => ended,
        () = &mut end => tokio::time::timeout(LAST_ANSWERS_TIMEOUT, served).await.unwrap_or(Ok(())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_of_roles_cost_at_most_250_tokens() {
        for tool in Role::ALL.iter().flat_map(|role| role.tools()) {
            let text = serde_json::to_value(listed(tool)).unwrap().to_string();
            // Four characters a token, as JSON of schemas has them.
            assert!(text.len() <= 1_000, "{text}");
        }
    }
}
