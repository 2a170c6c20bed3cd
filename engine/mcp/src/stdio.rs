//! MCP on standard input and output: one caller, the process that started us. Ends with its input.

use hotcell_service::live::tokens::NOT_TOKENS;
use hotcell_service::live::{Caller, Live};
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use tokio_util::sync::CancellationToken;

use crate::lines::Lines;
use crate::{LAST_WORDS, LONGEST_MESSAGE, Server};

/// Serves until standard input ends or `stop` resolves; then every run is ended.
///
/// # Errors
/// A sentence when the protocol could not begin.
pub async fn serve(live: Live, stop: impl Future<Output = ()>) -> Result<(), String> {
    let (input, output) = rmcp::transport::stdio_pipes();
    // Plugins are read again when their files change, whether or not a client listens.
    let _changes = live.tools().map(hotcell_service::tools::Caller::changes);
    let (over, token) = (CancellationToken::new(), CancellationToken::new());
    let transport = Lines::new(input, output, LONGEST_MESSAGE, over.clone());
    let server = Server::for_one(live.clone(), Caller::of_process(NOT_TOKENS[0]));
    let served = async {
        match serve_server_with_ct(server, transport, token.clone()).await {
            Ok(running) => running.waiting().await.map(drop).map_err(|e| format!("the server failed: {e}")),
            // Nobody had anything to say.
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
            Err(e) => Err(format!("the client did not begin as MCP says: {e}")),
        }
    };
    let end = async {
        tokio::select! {
            () = over.cancelled() => {}
            () = stop => {}
        }
        // The requests that wait for a run are answered by its end, and then the transport closes.
        live.close().await;
        token.cancel();
    };
    let ended = {
        let (mut served, mut end) = (std::pin::pin!(served), std::pin::pin!(end));
        tokio::select! {
            ended = &mut served => ended,
            // A client that does not read is not waited for.
            () = &mut end => tokio::time::timeout(LAST_WORDS, served).await.unwrap_or(Ok(())),
        }
    };
    live.close().await;
    ended
}
