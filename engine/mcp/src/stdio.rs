//! MCP on standard input and output: the only caller is the parent process. Ends with its input.

use std::sync::Arc;

use hotcell_http::LAST_ANSWERS_TIMEOUT;
use hotcell_http::tokens::NOT_TOKENS;
use hotcell_server::{Caller, Live};
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use tokio_util::sync::CancellationToken;

use crate::lines::Lines;
use crate::{Combined, MAX_MESSAGE_BYTES, Server, left_results};

/// Serves until standard input ends or `stop` resolves; then every run and foreign server is ended.
///
/// # Errors
/// A message when the protocol could not be initialized.
pub async fn serve(
    live: Live,
    combined: Option<Arc<Combined>>,
    stop: impl Future<Output = ()>,
) -> Result<(), String> {
    let (input, output) = rmcp::transport::stdio_pipes();
    // Watches the plugins' files for changes, whether or not a client listens.
    let _changes = live.tools().map(hotcell_plugins::Caller::changes);
    let (over, token) = (CancellationToken::new(), CancellationToken::new());
    let transport = Lines::new(input, output, MAX_MESSAGE_BYTES, over.clone());
    let caller = Caller::of_process(NOT_TOKENS[0]);
    let server = Server::for_one(live.clone(), caller.clone()).with(combined.clone());
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
        // Requests that wait for a run are answered when it is ended, and then the transport closes.
        live.close().await;
        token.cancel();
    };
    let ended = {
        let (mut served, mut end) = (std::pin::pin!(served), std::pin::pin!(end));
        tokio::select! {
            ended = &mut served => {
                // A close that has begun goes on to its end: it waits for receipts and rows of the history.
                over.cancel();
                (&mut end).await;
                ended
            }
            // A client that does not read is given up after a time limit.
            () = &mut end => tokio::time::timeout(LAST_ANSWERS_TIMEOUT, served).await.unwrap_or(Ok(())),
        }
    };
    if let Some(combined) = combined {
        combined.close().await;
    }
    let _ = tokio::task::spawn_blocking(move || left_results::leave(&live, &caller)).await;
    ended
}
