//! Feeds arbitrary bytes to both transports, for fuzzing and for a short variant of it in the tests. No tool
//! is executed, but the arguments of calls are parsed as usual.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ProtocolVersion,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, serve_server};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex, split};
use tokio_util::sync::CancellationToken;

use crate::lines::Lines;
use crate::{HttpOptions, http, server, tools};

/// Time limit for any input, with room for a busy machine.
const INPUT_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which a client checks whether it receives an endless stream.
const LISTEN_INTERVAL: Duration = Duration::from_secs(2);
/// Media type of such a stream.
const STREAM: &[u8] = b"text/event-stream";
/// Maximum length of a line here, in bytes.
const MAX_LINE_BYTES: usize = 8 << 10;
/// Buffer size between the two ends, in bytes.
const PIPE_BYTES: usize = 4 << 10;

/// A server that parses calls and does nothing.
#[derive(Clone, Copy)]
struct Nobody;

impl ServerHandler for Nobody {
    fn get_info(&self) -> ServerConfig {
        let able = ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts();
        let mut info = ServerConfig::new(able.enable_completions().enable_tasks().build());
        info.server_info = Implementation::new("nobody", "1");
        info
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        std::borrow::Cow::Borrowed(const { &server::REVISIONS })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let read = tools::understood(&request.name, request.arguments.unwrap_or_default());
        let result = match read {
            Ok(()) => CallToolResult::success(vec![ContentBlock::text("understood")]),
            Err(report) => crate::reply::refused(&report),
        };
        Ok(result.into())
    }
}

/// Output of the stdio transport for these bytes, which arrive in pieces of `piece` bytes.
///
/// # Errors
/// When the transport hangs or cannot start.
pub fn stdio(bytes: &[u8], piece: usize) -> Result<Vec<u8>, String> {
    within(async {
        let (near, far) = duplex(PIPE_BYTES);
        let (input, output) = split(far);
        let transport = Lines::new(input, output, MAX_LINE_BYTES, CancellationToken::new());
        let served = async {
            if let Ok(running) = serve_server(Nobody, transport).await {
                let _ = running.waiting().await;
            }
        };
        let (mut from, to) = split(near);
        let mut said = Vec::new();
        let (..) = tokio::join!(served, feed(to, bytes, piece), from.read_to_end(&mut said));
        said
    })
}

/// Response of the HTTP transport to these bytes on a connection, which arrive in pieces of `piece` bytes.
///
/// # Errors
/// When the transport hangs or cannot start.
pub fn http(bytes: &[u8], piece: usize) -> Result<Vec<u8>, String> {
    within(async {
        let (near, far) = duplex(PIPE_BYTES);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let options = HttpOptions { address, passed: None, tokens: None, hosts: Vec::new(), plain: false };
        let ending = CancellationToken::new();
        let app = http::app(address, &options, || Nobody, ending.clone());
        // Lets a client that has closed its sending side still receive responses.
        let mut http1 = hotcell_http::http1();
        let service = TowerToHyperService::new(app);
        let connection = http1.half_close(true).serve_connection(TokioIo::new(far), service);
        let (mut from, to) = split(near);
        // Checked while the listener still receives.
        let said = RefCell::new(Vec::<u8>::new());
        let streams = || said.borrow().windows(STREAM.len()).any(|words| words == STREAM);
        let listen = async {
            let mut heard = [0; PIPE_BYTES];
            while let Ok(length @ 1..) = from.read(&mut heard).await {
                said.borrow_mut().extend_from_slice(&heard[..length]);
            }
        };
        {
            let talk = async { tokio::join!(connection, feed(to, bytes, piece), listen) };
            let mut talk = std::pin::pin!(talk);
            // Only an event stream may be endless; anything else has to end, or counts as hanging.
            while tokio::time::timeout(LISTEN_INTERVAL, &mut talk).await.is_err() && !streams() {}
        }
        ending.cancel();
        said.take()
    })
}

async fn feed(mut to: impl AsyncWrite + Unpin, bytes: &[u8], piece: usize) {
    for piece in bytes.chunks(piece.max(1)) {
        // The other side has closed the connection.
        if to.write_all(piece).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
    let _ = to.shutdown().await;
}

fn within(work: impl Future<Output = Vec<u8>>) -> Result<Vec<u8>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    let done = runtime.block_on(async { tokio::time::timeout(INPUT_TIMEOUT, work).await });
    done.map_err(|_| format!("it does not end within {} s", INPUT_TIMEOUT.as_secs()))
}

/// Seeds for mutation: a whole conversation over stdio, and requests on a connection.
#[must_use]
pub fn seeds() -> [Vec<Vec<u8>>; 2] {
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"f","version":"1"}}}"#;
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"f","version":"1"}}"#;
    let call = |name: &str, arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{{"name":"{name}","arguments":{arguments},{meta}}}}}"#
        )
    };
    let calls = [
        call(
            "run_command",
            r#"{"argv":["true"],"limits":{"timeout_seconds":1},"network":["a.org:443"],"wait_ms":0}"#,
        ),
        call("run_code", r#"{"language":"python","code":"print(1)","files":[{"path":"a","base64":"QQ=="}]}"#),
        call("workspace_create", r#"{"files":[{"path":"a/b","content":"c","executable":true}]}"#),
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":4,"method":"tasks/get","params":{"taskId":"run_0"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":5,"result":{}}"#.to_owned(),
        r#"[1,{"jsonrpc":"1.0"}]"#.to_owned(),
    ];
    let mut spoken =
        vec![calls.join("\n").into_bytes(), format!("{hello}\n{ready}\n{}\n", calls.join("\n")).into_bytes()];
    spoken.extend(calls.iter().map(|one| format!("{hello}\r\n{ready}\n\n{one}\n").into_bytes()));
    let post = |more: &str, body: &str| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {}\r\n{more}\r\n{body}",
            body.len()
        )
        .into_bytes()
    };
    let stateless = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: run_command\r\n";
    let mut asked = vec![
        [post("", hello), post("Mcp-Session-Id: x\r\n", ready)].concat(),
        b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: x\r\n\r\n"
            .to_vec(),
        b"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: x\r\n\r\n".to_vec(),
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
            .to_vec(),
    ];
    asked.extend(calls.iter().map(|one| post(stateless, one)));
    [spoken, asked]
}
