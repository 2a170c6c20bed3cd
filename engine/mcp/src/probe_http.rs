//! Probe of a server that already runs at an address, like [`crate::probe`]: each request is a POST with the
//! entry's own headers.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use hotcell_state::report::printable;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::MAX_MESSAGE_BYTES;
use crate::probe::{Asks, ProbeError, Seen, look};

/// The header that names a session.
const SESSION: &str = "mcp-session-id";
/// The header that names the protocol's revision.
const REVISION: &str = "mcp-protocol-version";
/// Maximum number of characters shown of a refusal's body.
const MAX_BODY_CHARS: usize = 200;

/// Where a server is.
#[derive(Clone, Debug, Default)]
pub struct At {
    /// `http://` or `https://`.
    pub address: String,
    /// Headers of every request; their values may be secrets.
    pub headers: BTreeMap<String, String>,
}

/// Connects, asks, and ends the session. Blocks. Each answer may take `within`. No redirect is followed and no proxy is asked: the
/// headers are for this address alone.
///
/// # Errors
/// [`ProbeError`].
pub fn probe(at: &At, within: Duration) -> Result<Seen, ProbeError> {
    let mut talk = Talk::begin(at, within)?;
    let seen = look(&mut talk);
    talk.end();
    seen.map_err(|e| match e {
        ProbeError::NotMcp { line, .. } => talk.unreached(format!("it answered what is not MCP: {line}")),
        other => other,
    })
}

struct Talk {
    runtime: Runtime,
    client: Client,
    address: Url,
    headers: HeaderMap,
    within: Duration,
    id: u64,
}

/// An address for messages: what stands before its host or behind its path may be a secret.
fn plain(address: &Url) -> String {
    let port = address.port().map_or_else(String::new, |port| format!(":{port}"));
    printable(&format!(
        "{}://{}{port}{}",
        address.scheme(),
        address.host_str().unwrap_or_default(),
        address.path()
    ))
}

impl Talk {
    fn begin(at: &At, within: Duration) -> Result<Self, ProbeError> {
        let unreached = |why: String| ProbeError::Unreached { address: "the address".to_owned(), why };
        let address = Url::parse(&at.address).map_err(|e| unreached(format!("it is no URL: {e}")))?;
        if !matches!(address.scheme(), "http" | "https") {
            return Err(unreached(format!("{} is neither http nor https", printable(address.scheme()))));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &at.headers {
            let bad = || unreached(format!("its header {} is not a valid HTTP header", printable(name)));
            let name: HeaderName = name.parse().map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let _ = rustls::crypto::ring::default_provider().install_default();
        let policy = reqwest::redirect::Policy::none();
        let client = Client::builder().redirect(policy).no_proxy().build();
        let client = client.map_err(|e| unreached(e.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| unreached(e.to_string()))?;
        Ok(Self { runtime, client, address, headers, within, id: 0 })
    }

    fn unreached(&self, why: impl Into<String>) -> ProbeError {
        ProbeError::Unreached { address: plain(&self.address), why: why.into() }
    }

    fn post(&self, message: &Value) -> RequestBuilder {
        self.client
            .post(self.address.clone())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(message.to_string())
    }

    /// Ends the session, which a server may refuse.
    fn end(&mut self) {
        if self.headers.contains_key(SESSION) {
            let bye = self.client.delete(self.address.clone()).headers(self.headers.clone()).send();
            let _ = self.runtime.block_on(async { tokio::time::timeout(self.within, bye).await });
        }
    }

    async fn answer(&self, what: &str, request: &Value) -> Result<(HeaderMap, Value), ProbeError> {
        let response = self.post(request).send().await.map_err(|e| self.unreached(innermost(&e)))?;
        let (status, headers) = (response.status(), response.headers().clone());
        if !status.is_success() {
            let body = beginning(response).await;
            return Err(ProbeError::Refused {
                request: what.to_owned(),
                why: refused(status, &headers, &body),
            });
        }
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let answer = if kind.starts_with("text/event-stream") {
            self.event(response, &request["id"]).await?
        } else {
            let body = self.whole(response).await?;
            serde_json::from_slice(&body).map_err(|_| not_mcp(&body))?
        };
        Ok((headers, answer))
    }

    async fn whole(&self, mut response: Response) -> Result<Vec<u8>, ProbeError> {
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|e| self.unreached(innermost(&e)))? {
            body.extend_from_slice(&piece);
            if body.len() > MAX_MESSAGE_BYTES {
                return Err(self.unreached("its answer is longer than any is read"));
            }
        }
        Ok(body)
    }

    /// The event that has the answer; what the server says before it is for other clients.
    async fn event(&self, mut response: Response, id: &Value) -> Result<Value, ProbeError> {
        let mut body = Vec::new();
        let (mut read, mut all) = (0, 0);
        while let Some(piece) = response.chunk().await.map_err(|e| self.unreached(innermost(&e)))? {
            all += piece.len();
            if all > MAX_MESSAGE_BYTES {
                return Err(self.unreached("its answer is longer than any is read"));
            }
            body.extend_from_slice(&piece);
            while let Some(end) = body[read..].iter().position(|byte| *byte == b'\n') {
                let line = &body[read..read + end];
                read += end + 1;
                let data = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii).unwrap_or_default();
                let message = serde_json::from_slice::<Value>(data).ok();
                if let Some(message) = message.filter(|m| m["id"] == *id && m.get("method").is_none()) {
                    return Ok(message);
                }
            }
            body.drain(..read);
            read = 0;
        }
        Err(self.unreached("its stream ended before the answer"))
    }
}

impl Asks for Talk {
    fn ask(&mut self, what: &str, params: &Value) -> Result<Value, ProbeError> {
        self.id += 1;
        let method = what.split(' ').next().unwrap_or(what);
        let request = json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        let within = self.within;
        let (headers, answer) = self
            .runtime
            .block_on(async { tokio::time::timeout(within, self.answer(what, &request)).await })
            .map_err(|_| ProbeError::TooLate { request: what.to_owned(), within, stderr: String::new() })??;
        if let Some(error) = answer.get("error") {
            let why = error["message"].as_str().map_or_else(|| printable(&error.to_string()), printable);
            return Err(ProbeError::Refused { request: what.to_owned(), why });
        }
        if answer.get("result").is_none() {
            return Err(not_mcp(answer.to_string().as_bytes()));
        }
        if method == "initialize" {
            let revision = answer["result"]["protocolVersion"].as_str();
            let said =
                [(SESSION, headers.get(SESSION).cloned()), (REVISION, revision.and_then(|r| r.parse().ok()))];
            for (name, value) in said {
                if let Some(value) = value {
                    self.headers.insert(name, value);
                }
            }
        }
        Ok(answer["result"].clone())
    }

    fn tell(&mut self, message: &Value) {
        let sent = self.post(message).send();
        let _ = self.runtime.block_on(async { tokio::time::timeout(self.within, sent).await });
    }

    fn tail(&self) -> String {
        String::new()
    }
}

fn not_mcp(body: &[u8]) -> ProbeError {
    let line = printable(&String::from_utf8_lossy(body)).chars().take(MAX_BODY_CHARS).collect();
    ProbeError::NotMcp { line, stderr: String::new() }
}

/// An HTTP status in words. Pure.
fn refused(status: StatusCode, headers: &HeaderMap, body: &str) -> String {
    let hint = match status {
        StatusCode::UNAUTHORIZED if headers.contains_key("www-authenticate") => {
            ": it wants another token; a client that signs in (OAuth) may have one, which is not seen here"
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": it does not take this entry's headers",
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => ": no server of MCP is at that path",
        status if status.is_redirection() => ": it is at another address",
        _ => "",
    };
    let body = if body.is_empty() { String::new() } else { format!(" ({body})") };
    format!("HTTP {}{hint}{body}", status.as_u16())
}

/// The beginning of what was said beside a refusal.
async fn beginning(mut response: Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        body.extend_from_slice(&piece);
        if body.len() > MAX_BODY_CHARS {
            break;
        }
    }
    printable(String::from_utf8_lossy(&body).trim()).chars().take(MAX_BODY_CHARS).collect()
}

/// The reason below the layers of a library.
fn innermost(error: &reqwest::Error) -> String {
    let mut why: &dyn Error = error;
    while let Some(below) = why.source() {
        why = below;
    }
    printable(&why.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A server that answers each request by the next text, and gives the requests' heads when it has none left.
    fn server(answers: Vec<String>) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/mcp", listener.local_addr().unwrap());
        let serve = move || {
            let mut heads = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                let (mut head, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    lines.read_line(&mut line).unwrap();
                    if line.trim().is_empty() {
                        break;
                    }
                    let low = line.to_lowercase();
                    if let Some(said) = low.strip_prefix("content-length:") {
                        length = said.trim().parse().unwrap();
                    }
                    head.push_str(&low);
                }
                lines.read_exact(&mut vec![0; length]).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
                heads.push(head);
            }
            heads
        };
        (address, std::thread::spawn(serve))
    }

    fn http(status: &str, kind: &str, body: &str) -> String {
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\nmcp-session-id: s1\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    }

    fn look_at(address: String) -> Result<Seen, ProbeError> {
        let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer t0ken".to_owned())]);
        probe(&At { address, headers }, Duration::from_secs(10))
    }

    #[test]
    fn http_probe_sends_entry_headers_and_session() {
        let result = |id: u64, result: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        let greeting = result(
            1,
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#,
        );
        let tools = result(3, r#"{"tools":[{"name":"one"}]}"#);
        let events = format!(
            "id: 0\ndata:\n\nevent: message\r\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"x\"}}\n\ndata: {tools}\n\n"
        );
        let (address, served) = server(vec![
            http("200 OK", "application/json", &greeting),
            http("202 Accepted", "text/plain", ""),
            http("200 OK", "application/json; charset=utf-8", &result(2, "{}")),
            http("200 OK", "text/event-stream", &events),
            http("204 No Content", "text/plain", ""),
        ]);
        let seen = look_at(address).unwrap();
        assert_eq!((seen.name.as_str(), seen.tools), ("s", vec!["one".to_owned()]));
        let heads = served.join().unwrap();
        assert!(heads.iter().all(|head| head.contains("authorization: bearer t0ken")), "{heads:?}");
        assert!(!heads[0].contains(SESSION), "{}", heads[0]);
        for head in &heads[1..] {
            assert!(
                head.contains("mcp-session-id: s1") && head.contains("mcp-protocol-version: 2025-06-18"),
                "{head}"
            );
        }
        assert!(heads[4].starts_with("delete /mcp"), "{}", heads[4]);
    }

    #[test]
    fn http_probe_error_hides_secrets() {
        for (answer, want) in [
            (
                http("401 Unauthorized", "text/plain", "who?"),
                "HTTP 401: it does not take this entry's headers (who?)",
            ),
            (http("404 Not Found", "text/html", ""), "HTTP 404: no server of MCP is at that path"),
            (http("302 Found", "text/html", ""), "HTTP 302: it is at another address"),
            (http("200 OK", "text/html", "<html>\u{1b}"), "not MCP"),
            (http("200 OK", "application/json", "{}"), "not MCP"),
            (http("200 OK", "text/event-stream", "data: {}\n\n"), "ended before the answer"),
            ("nonsense\r\n\r\n".to_owned(), "cannot be used"),
        ] {
            let (address, served) = server(vec![answer]);
            let why = look_at(address.replace("/mcp", "/mcp?key=s3cret")).unwrap_err().to_string();
            assert!(why.contains(want), "{why}");
            assert!(!why.contains("s3cret") && !why.contains("t0ken") && !why.contains('\u{1b}'), "{why}");
            let _ = served.join();
        }
        for (address, want) in
            [("http://127.0.0.1:1/mcp", "refused"), ("ftp://a/", "neither http nor https"), ("a b", "no url")]
        {
            let why = look_at(address.to_owned()).unwrap_err().to_string();
            assert!(why.to_lowercase().contains(want), "{why}");
        }
        let at = At {
            address: "http://127.0.0.1:1".to_owned(),
            headers: BTreeMap::from([("a b".to_owned(), "t0ken".to_owned())]),
        };
        assert!(probe(&at, Duration::from_secs(1)).unwrap_err().to_string().contains("header a b"));
    }
}
