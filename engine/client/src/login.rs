//! Login at the authorization server of an MCP server, and the tokens that come of it: `rmcp`'s OAuth 2.1 client (authorization code with PKCE,
//! dynamic registration, protected resource metadata, resource indicators), with what a server's metadata may name bound further.
//! MCP 2025-11-25, Authorization
//!
//! `rmcp` refuses other issuers than expected, metadata of another resource, redirects of metadata to other origins and of token requests to
//! anywhere, and private addresses. `judge` adds what it leaves open: plain HTTP, servers without PKCE, and endpoints that were not published.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use hotcell_egress::sealed::{SealKey, Sealed};
use hotcell_egress::secret::{Secret, SecretSource};
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationSession, CredentialStore,
    OAuthClientConfig, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::endpoint::{Endpoint, TokenSource};
use crate::error::{ClientError, foreign};
use crate::http_client::{client, innermost};

mod judge;
pub(crate) mod request;

use judge::judge;
use request::{FormerLogin, Identity, LoginRequest, union};

/// Path that the authorization server sends the browser back to.
const CALLBACK: &str = "/callback";
/// Maximum size of a browser's request, in bytes.
const MAX_REQUEST_BYTES: u64 = 16 << 10;
/// Time for a browser to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the server to challenge a request without a token.
const CHALLENGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of requests that are not the one that is waited for.
const MAX_STRAY_REQUESTS: u32 = 100;
/// Time before the end of a token at which it is renewed, in seconds. At least that of `rmcp`, so that both agree.
const RENEWED_BEFORE_S: u64 = 30;

/// A login that waits for the user's browser.
pub struct Login {
    session: AuthorizationSession,
    listener: TcpListener,
    issuer: String,
    state: String,
    /// Secret of this registration, where the server gave one.
    secret: Option<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Login {
    /// Finds the authorization server of an endpoint, registers with it if the client is new there, and opens a port on this machine for the browser.
    ///
    /// # Errors
    /// [`ClientError::Endpoint`] when the server publishes no authorization server, or one that is not used or does not take this client, and when the port
    /// is not free.
    pub async fn begin(endpoint: &Endpoint, request: &LoginRequest) -> Result<Self, ClientError> {
        let (mut manager, metadata, is_published) = found(endpoint).await?;
        judge(endpoint, &metadata, is_published, request.issuer.as_deref())?;
        let issuer = metadata.issuer.clone().unwrap_or_default();
        let reads_documents = metadata.additional_fields.get("client_id_metadata_document_supported");
        request.identity.judge(reads_documents.and_then(serde_json::Value::as_bool) == Some(true))?;
        manager.set_metadata(metadata);
        let here =
            |e: io::Error| ClientError::Endpoint(format!("port {} for the browser: {e}", request.port));
        let listener = TcpListener::bind(("127.0.0.1", request.port)).await.map_err(here)?;
        let port = listener.local_addr().map_err(here)?.port();
        let redirect = format!("http://127.0.0.1:{port}{CALLBACK}");
        let scopes = union(
            manager.select_initial_scopes(&[]).await,
            &[request.former_scopes(&issuer), &request.scopes],
        );
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let secret = match &request.identity {
            Identity::New => {
                let registered = manager.register_client("hotcell", &redirect, &scopes).await;
                registered.map_err(|e| refused(&e))?.client_secret
            }
            Identity::Registered { id, secret } => {
                let secret = secret.as_ref().map(|secret| String::from_utf8(secret.expose().to_vec()));
                let secret = secret
                    .transpose()
                    .map_err(|_| ClientError::Endpoint("the client's secret is not text".to_owned()))?;
                let mut config = OAuthClientConfig::new(id, &redirect);
                if let Some(secret) = &secret {
                    config = config.with_client_secret(secret);
                }
                manager.configure_client(config).map_err(|e| refused(&e))?;
                secret
            }
            Identity::Document(url) => {
                manager.configure_client(OAuthClientConfig::new(url, &redirect)).map_err(|e| refused(&e))?;
                None
            }
        };
        let address = manager.get_authorization_url(&scopes).await.map_err(|e| refused(&e))?;
        let session = AuthorizationSession::for_scope_upgrade(manager, address, &redirect);
        let state = parameter(session.get_authorization_url(), "state").unwrap_or_default();
        Ok(Self { session, listener, issuer, state, secret })
    }

    /// Address for the user's browser.
    #[must_use]
    pub fn address(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// Authorization server, as its metadata names itself.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Waits for the browser, and exchanges its code for tokens. The result is for [`LoggedIn`].
    ///
    /// # Errors
    /// [`ClientError::Endpoint`] when the user or the server refuses, or the answer is not of the authorization server that was asked.
    pub async fn finish(self) -> Result<Secret, ClientError> {
        for _ in 0..MAX_STRAY_REQUESTS {
            let Ok((mut stream, _)) = self.listener.accept().await else { continue };
            let asked = tokio::time::timeout(REQUEST_TIMEOUT, requested(&mut stream)).await;
            let Ok(Ok(target)) = asked else { continue };
            let address = format!("http://127.0.0.1{target}");
            // Any page of the browser can send requests here.
            let is_ours = target.split('?').next() == Some(CALLBACK)
                && parameter(&address, "state").is_some_and(|state| state == self.state);
            if !is_ours {
                answer(&mut stream, "400 Bad Request", "This is not the answer that hotcell waits for.")
                    .await;
                continue;
            }
            let exchanged = match parameter(&address, "error") {
                Some(error) => {
                    let why = parameter(&address, "error_description").unwrap_or_default();
                    Err(ClientError::Endpoint(format!(
                        "the authorization server refuses: {} {}",
                        foreign(&error),
                        foreign(&why)
                    )))
                }
                None => self.session.handle_callback_url(&address).await.map_err(|e| refused(&e)),
            };
            let said = match &exchanged {
                Ok(_) => "hotcell has its token. You can close this page.",
                Err(_) => "This did not work: see the terminal. You can close this page.",
            };
            answer(&mut stream, "200 OK", said).await;
            let tokens = exchanged?;
            let (client, _) = self.session.get_credentials().await.map_err(|e| refused(&e))?;
            let granted = self.session.auth_manager.get_current_scopes().await;
            let stored = StoredCredentials::new(client, Some(tokens), granted, Some(now()))
                .with_issuer(Some(self.issuer));
            return secret(&Kept { credentials: stored, client_secret: self.secret });
        }
        Err(ClientError::Endpoint(
            "other programs keep sending requests to the port for the browser".to_owned(),
        ))
    }
}

/// The authorization server that an endpoint's metadata name, and whether it is published.
async fn found(
    endpoint: &Endpoint,
) -> Result<(AuthorizationManager, AuthorizationMetadata, bool), ClientError> {
    if endpoint.is_web_socket() {
        return Err(ClientError::Endpoint("a login is for servers over HTTP".to_owned()));
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let manager = AuthorizationManager::new(endpoint.url().clone()).await.map_err(|e| refused(&e))?;
    let challenge = challenge(endpoint).await?;
    let resolution = manager.resolve_metadata_from_challenge(challenge.as_deref());
    let resolution = resolution.await.map_err(|e| refused(&e))?;
    Ok((manager, resolution.metadata, resolution.source.is_discovered()))
}

/// Challenge of the server to a request without a token: it may name the place of its metadata, and what to ask for.
async fn challenge(endpoint: &Endpoint) -> Result<Option<String>, ClientError> {
    let asked = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "hotcell", "version": env!("CARGO_PKG_VERSION") },
        },
    });
    let request = client(endpoint, CHALLENGE_TIMEOUT)?
        .post(endpoint.url().clone())
        .timeout(CHALLENGE_TIMEOUT)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .body(asked.to_string());
    let answer = request.send().await.map_err(|e| ClientError::Endpoint(innermost(&e)))?;
    let header = answer.headers().get("WWW-Authenticate").filter(|_| answer.status().as_u16() == 401);
    Ok(header.and_then(|header| header.to_str().ok()).map(str::to_owned))
}

/// An error of the flow, as one line; what servers say in it is escaped.
fn refused(error: &AuthError) -> ClientError {
    let why = match error {
        AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer } => format!(
            "the answer is of another authorization server than was asked: {} in place of {}",
            foreign(received_issuer),
            foreign(expected_issuer)
        ),
        AuthError::RegistrationFailed(why) if why.contains("not supported") => {
            "the authorization server registers no clients: register hotcell there yourself, and give the id (‹client=ID›), or a token".to_owned()
        }
        AuthError::AuthorizationServersUnavailable { authorization_servers, .. } => format!(
            "none of the authorization servers that the server names is used or answers: {}; those at private addresses are not asked",
            foreign(&authorization_servers.join(", "))
        ),
        error => {
            let (outer, inner) = (foreign(&error.to_string()), innermost(error));
            if outer.contains(&inner) { outer } else { format!("{outer}: {inner}") }
        }
    };
    ClientError::Endpoint(format!("the login: {why}"))
}

/// First parameter of this name in an address.
fn parameter(address: &str, name: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

/// Target of a browser's request.
async fn requested(stream: &mut TcpStream) -> io::Result<String> {
    let mut lines = BufReader::new(stream.take(MAX_REQUEST_BYTES));
    let mut first = String::new();
    lines.read_line(&mut first).await?;
    let mut line = String::new();
    // To the end of the head: a browser that is answered before that shows an error.
    while lines.read_line(&mut line).await? > 2 {
        line.clear();
    }
    let mut words = first.split_ascii_whitespace();
    match (words.next(), words.next()) {
        (Some("GET"), Some(target)) if target.starts_with('/') => Ok(target.to_owned()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

async fn answer(stream: &mut TcpStream, status: &str, text: &str) {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\r\n",
        text.len()
    );
    // A browser that is gone does not matter: the code has come.
    let _ = stream.write_all(&[head.as_bytes(), text.as_bytes()].concat()).await;
    let _ = stream.shutdown().await;
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Tokens and registration, as they are sealed.
#[derive(Serialize, Deserialize)]
struct Kept {
    credentials: StoredCredentials,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
}

fn secret(stored: &Kept) -> Result<Secret, ClientError> {
    let text = serde_json::to_vec(stored)
        .map_err(|_| ClientError::Endpoint("the tokens cannot be written as JSON".to_owned()))?;
    Secret::new(text).map_err(|e| ClientError::Endpoint(format!("the tokens: {e}")))
}

/// Place where the sealed tokens of one login are kept.
pub trait Keeper: Send + Sync {
    /// Reads the sealed text.
    ///
    /// # Errors
    /// When it cannot be read.
    fn load(&self) -> io::Result<String>;
    /// Replaces the sealed text.
    ///
    /// # Errors
    /// When it cannot be written.
    fn save(&self, sealed: &str) -> io::Result<()>;
    /// Waits until no other process renews these tokens; it ends with the result's drop.
    ///
    /// # Errors
    /// When it cannot be waited for.
    fn lock(&self) -> io::Result<Box<dyn Send>>;
}

/// Tokens of a login: sealed where they are kept, opened and, near their end, renewed for a connection.
#[derive(Clone)]
pub struct LoggedIn {
    key: SecretSource,
    purpose: String,
    keeper: Arc<dyn Keeper>,
    /// Renewals of this process come one after the other.
    turn: Arc<Mutex<()>>,
}

impl fmt::Debug for LoggedIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggedIn").field("purpose", &self.purpose).finish_non_exhaustive()
    }
}

impl LoggedIn {
    /// Tokens that are sealed for a purpose, by [`Endpoint::purpose`].
    pub fn new(key: SecretSource, purpose: String, keeper: Arc<dyn Keeper>) -> Self {
        Self { key, purpose, keeper, turn: Arc::default() }
    }

    /// Seals tokens, and keeps them.
    ///
    /// # Errors
    /// [`ClientError::Endpoint`] when the key cannot be read or the tokens cannot be written.
    pub fn keep(&self, tokens: &Secret) -> Result<(), ClientError> {
        let of_key = |e: &dyn fmt::Display| ClientError::Endpoint(format!("the key of the tokens: {e}"));
        let key = SealKey::new(&self.key.read().map_err(|e| of_key(&e))?).map_err(|e| of_key(&e))?;
        let text = key.seal(tokens, &self.purpose).map_err(|e| of_key(&e))?;
        self.keeper.save(&text).map_err(|e| ClientError::Endpoint(format!("the tokens cannot be kept: {e}")))
    }

    /// The login whose tokens are kept; `None` when there are no tokens, or they cannot be opened.
    #[must_use]
    pub fn former(&self) -> Option<FormerLogin> {
        let StoredCredentials { client_id, granted_scopes, issuer, .. } = self.kept().ok()?.credentials;
        Some(FormerLogin { issuer: issuer?, client: client_id, scopes: granted_scopes })
    }

    fn kept(&self) -> Result<Kept, ClientError> {
        let text = self
            .keeper
            .load()
            .map_err(|e| ClientError::Endpoint(format!("the tokens cannot be read: {e}")))?;
        let opened = Sealed::new(self.key.clone(), &text, &self.purpose).open();
        let opened = opened.map_err(|e| ClientError::Endpoint(format!("the sealed tokens: {e}")))?;
        serde_json::from_slice(opened.expose()).map_err(|_| {
            ClientError::Endpoint("the sealed tokens are not of this version: log in again".to_owned())
        })
    }

    /// Token for now, renewed if it is near its end.
    async fn current(&self, endpoint: &Endpoint) -> Result<Secret, ClientError> {
        let _turn = self.turn.lock().await;
        let mut stored = self.kept()?.credentials;
        if is_ending(&stored, now()) {
            let keeper = self.keeper.clone();
            let lock = tokio::task::spawn_blocking(move || keeper.lock()).await;
            let lock = lock.map_err(io::Error::other).and_then(|lock| lock);
            let _lock = lock.map_err(|e| ClientError::Endpoint(format!("the tokens' lock: {e}")))?;
            // Another process may have renewed them meanwhile.
            stored = self.kept()?.credentials;
            if is_ending(&stored, now()) {
                stored = self.renewed(endpoint).await?;
            }
        }
        let token = Parts::of(&stored).ok_or_else(again)?.access_token;
        Secret::new(token.into_bytes()).map_err(|e| ClientError::Endpoint(format!("the token: {e}")))
    }

    async fn renewed(&self, endpoint: &Endpoint) -> Result<StoredCredentials, ClientError> {
        let (mut manager, metadata, is_published) = found(endpoint).await?;
        let issuer = self.kept()?.credentials.issuer;
        if issuer.is_some() && issuer != metadata.issuer {
            return Err(again());
        }
        judge(endpoint, &metadata, is_published, issuer.as_deref())?;
        manager.set_metadata(metadata);
        manager.set_credential_store(Store(self.clone()));
        // False when the server names another authorization server than the one that gave the tokens.
        if !manager.initialize_from_store().await.map_err(|e| refused(&e))? {
            return Err(again());
        }
        let kept = self.kept()?;
        if let Some(secret) = kept.client_secret {
            // No browser comes back to the address now.
            let config = OAuthClientConfig::new(kept.credentials.client_id, endpoint.url().as_str());
            manager.configure_client(config.with_client_secret(secret)).map_err(|e| refused(&e))?;
        }
        match manager.get_access_token().await {
            Ok(_) => self.kept().map(|kept| kept.credentials),
            Err(AuthError::AuthorizationRequired) => Err(again()),
            Err(error) => Err(refused(&error)),
        }
    }
}

impl TokenSource for LoggedIn {
    fn purpose(&self) -> &str {
        &self.purpose
    }

    fn token<'a>(&'a self, endpoint: &'a Endpoint) -> BoxFuture<'a, Result<Secret, ClientError>> {
        Box::pin(self.current(endpoint))
    }
}

/// Parts of a token response, by their names in RFC 6749, 5.1.
#[derive(Deserialize)]
struct Parts {
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

impl Parts {
    fn of(stored: &StoredCredentials) -> Option<Self> {
        let tokens = serde_json::to_value(stored.token_response.as_ref()?).ok()?;
        serde_json::from_value(tokens).ok()
    }
}

fn again() -> ClientError {
    ClientError::Endpoint("the login has ended: hotcell mcp servers login NAME begins another".to_owned())
}

/// Whether a token has to be renewed. One without an end is used until the server refuses it.
fn is_ending(stored: &StoredCredentials, now: u64) -> bool {
    let Some(parts) = Parts::of(stored) else { return true };
    match (parts.expires_in, stored.token_received_at) {
        (Some(life), Some(from)) => from.saturating_add(life) < now.saturating_add(RENEWED_BEFORE_S),
        _ => false,
    }
}

/// Sealed tokens as `rmcp` reads and replaces them.
struct Store(LoggedIn);

impl Store {
    fn failed(error: &ClientError) -> AuthError {
        AuthError::CredentialStoreError(error.to_string())
    }
}

impl CredentialStore for Store {
    fn load<'a: 'b, 'b>(&'a self) -> BoxFuture<'b, Result<Option<StoredCredentials>, AuthError>>
    where
        Self: 'b,
    {
        Box::pin(async { self.0.kept().map(|kept| Some(kept.credentials)).map_err(|e| Self::failed(&e)) })
    }

    fn save<'a: 'b, 'b>(&'a self, stored: StoredCredentials) -> BoxFuture<'b, Result<(), AuthError>>
    where
        Self: 'b,
    {
        Box::pin(async move {
            let kept = self.0.kept().map(|kept| Kept { credentials: stored, ..kept });
            let tokens = kept.and_then(|kept| secret(&kept));
            tokens.and_then(|tokens| self.0.keep(&tokens)).map_err(|e| Self::failed(&e))
        })
    }

    fn clear<'a: 'b, 'b>(&'a self) -> BoxFuture<'b, Result<(), AuthError>>
    where
        Self: 'b,
    {
        // A login ends by the user's word alone.
        Box::pin(async { Ok(()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_renewed_before_their_end() {
        for (tokens, at, want) in [
            (
                serde_json::json!({ "access_token": "a", "token_type": "bearer", "expires_in": 100 }),
                Some(1000),
                [false, false, true],
            ),
            (serde_json::json!({ "access_token": "a", "token_type": "bearer" }), Some(1000), [false; 3]),
            (
                serde_json::json!({ "access_token": "a", "token_type": "bearer", "expires_in": 100 }),
                None,
                [false; 3],
            ),
        ] {
            let tokens = serde_json::from_value(tokens).unwrap();
            let stored = StoredCredentials::new("c".to_owned(), Some(tokens), vec![], at);
            assert_eq!([1000, 1070, 1071].map(|now| is_ending(&stored, now)), want);
        }
        assert!(is_ending(&StoredCredentials::new("c".to_owned(), None, vec![], None), 0));
    }
}
