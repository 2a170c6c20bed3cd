//! Messages over WebSocket, one a frame of text, with the subprotocol `mcp`. MCP has no such transport of its own: this one is for servers that chose it.
//!
//! The token goes into the header of the opening request, to the endpoint's own host; redirects are not followed.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hotcell_egress::route::Trust;
use http::HeaderValue;
use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, SEC_WEBSOCKET_PROTOCOL};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, broadcast};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::endpoint::Endpoint;
use crate::error::{ClientError, foreign};
use crate::event::Event;
use crate::noise::Noise;
use crate::notes::Fault;

/// Name of the subprotocol.
const SUBPROTOCOL: &str = "mcp";

/// A connection below WebSocket.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Socket = WebSocketStream<Box<dyn Stream>>;

/// Both directions of a connection.
pub(crate) struct WebSocket {
    read: SplitStream<Socket>,
    write: Arc<Mutex<SplitSink<Socket, Message>>>,
    max_bytes: usize,
    noise: Noise,
    fault: Fault,
}

/// Opens a connection.
///
/// # Errors
/// [`ClientError`] when there is no WebSocket with this subprotocol at the address.
pub(crate) async fn connect(
    endpoint: Endpoint,
    within: Duration,
    max_bytes: usize,
    events: broadcast::Sender<Event>,
    fault: Fault,
) -> Result<WebSocket, ClientError> {
    match timeout(within, open(endpoint, max_bytes)).await {
        Ok(Ok(socket)) => {
            let (write, read) = socket.split();
            let noise = Noise::new(events, fault.clone());
            Ok(WebSocket { read, write: Arc::new(Mutex::new(write)), max_bytes, noise, fault })
        }
        Ok(Err(why)) => Err(ClientError::Lost(why)),
        Err(_) => Err(ClientError::TooLate { what: "the opening of a WebSocket", within }),
    }
}

async fn open(endpoint: Endpoint, max_bytes: usize) -> Result<Socket, String> {
    let url = endpoint.url();
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = url.port_or_known_default().unwrap_or(443);
    let tcp = match host.as_str() {
        // No name server is to be asked for what is on this machine.
        "localhost" => match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
            Ok(tcp) => Ok(tcp),
            Err(_) => TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await,
        },
        _ => TcpStream::connect((host.clone(), port)).await,
    };
    let tcp = tcp.map_err(|e| foreign(&e.to_string()))?;
    let _ = tcp.set_nodelay(true);
    let stream: Box<dyn Stream> = match url.scheme() {
        "wss" => Box::new(Trust::system().connect(tcp, &host).await.map_err(|e| foreign(&e))?),
        _ => Box::new(tcp),
    };
    let mut request = url.as_str().into_client_request().map_err(|e| foreign(&e.to_string()))?;
    request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    if let Some(token) = endpoint.token_for(url.as_str()) {
        let mut value = b"Bearer ".to_vec();
        value.extend_from_slice(token.expose());
        let mut value =
            HeaderValue::from_bytes(&value).map_err(|_| "the token does not fit a header".to_owned())?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    let config = WebSocketConfig::default().max_message_size(Some(max_bytes)).max_frame_size(Some(max_bytes));
    let opened = client_async_with_config(request, stream, Some(config)).await;
    opened.map(|(socket, _)| socket).map_err(|e| refusal(&e))
}

/// Why there is no connection, in one line.
fn refusal(error: &Error) -> String {
    match error {
        Error::Http(answer) => {
            let header = |name| {
                answer.headers().get(name).map(|value| foreign(&String::from_utf8_lossy(value.as_bytes())))
            };
            match (answer.status().as_u16(), header(LOCATION), header(CONTENT_TYPE)) {
                (401, ..) => "the server wants a token (HTTP 401), or another one than was sent".to_owned(),
                (403, ..) => "the token does not allow this (HTTP 403)".to_owned(),
                (status @ 300..=399, Some(to), _) => {
                    format!("redirected to another address (HTTP {status}), which is not followed: {to}")
                }
                (status, _, kind) => format!(
                    "the answer is not a WebSocket: HTTP {status} with {} in its place; is the address right?",
                    kind.unwrap_or_else(|| "no type".to_owned())
                ),
            }
        }
        Error::Protocol(ProtocolError::SecWebSocketSubProtocolError(_)) => {
            format!("the server does not take the subprotocol {SUBPROTOCOL}")
        }
        other => foreign(&other.to_string()),
    }
}

impl Transport<RoleClient> for WebSocket {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let write = self.write.clone();
        async move {
            let text = serde_json::to_string(&message)?;
            write.lock().await.send(Message::text(text)).await.map_err(io::Error::other)
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let frame = match self.read.next().await {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(Message::Binary(bytes))) => {
                    self.noise.push(&bytes, true)?;
                    continue;
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
                Some(Ok(Message::Close(_))) | None => {
                    self.fault.note("the server closed the connection");
                    return None;
                }
                Some(Err(Error::Capacity(CapacityError::MessageTooLong { .. }))) => {
                    self.fault
                        .note(format!("the server sent a message of more than {} bytes", self.max_bytes));
                    return None;
                }
                Some(Err(e)) => {
                    self.fault.note(format!("the server cannot be read: {}", foreign(&e.to_string())));
                    return None;
                }
            };
            match serde_json::from_str(&frame) {
                Ok(message) => {
                    self.noise.reset();
                    return Some(message);
                }
                Err(_) => self.noise.push(frame.as_bytes(), true)?,
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        if let Ok(mut write) = self.write.try_lock() {
            let _ = timeout(Duration::from_millis(200), write.close()).await;
        }
        Ok(())
    }
}
