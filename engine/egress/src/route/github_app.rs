//! Tokens of a GitHub App: its private key signs a short-lived statement, for which GitHub gives a token of one installation
//! (<https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app>). The key is read for each token and never sent.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::head::answer;
use super::{Binding, Trust};
use crate::program::{Fetched, ProgramError, ValueSource, moment};
use crate::secret::Secret;
use crate::stream::{Input, Rest};

/// Time for GitHub to give a token.
const DEADLINE: Duration = Duration::from_secs(10);
/// Time for GitHub to end a token.
const END_DEADLINE: Duration = Duration::from_secs(5);
/// Time before now at which a statement begins to hold, for clocks that differ.
const BEFORE: u64 = 60;
/// Time after now at which it ends; GitHub takes 10 minutes at most.
const AFTER: u64 = 540;
/// Maximum size in bytes of an answer: one with 500 repositories has about 3 MB, and one that names none about 1 KiB.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// An installation of an app, and how far its tokens reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitHubApp {
    /// Number or client ID of the app.
    pub app: String,
    /// Number of the installation.
    pub installation: u64,
    /// Host of the API, with the prefix of its paths.
    pub api: Binding,
    /// Names of repositories that tokens are for; empty for all of the installation's.
    pub repositories: Vec<String>,
    /// Permissions of tokens, such as `contents` and `read`; empty for all of the app's.
    pub permissions: BTreeMap<String, String>,
}

impl GitHubApp {
    /// Checks the words.
    ///
    /// # Errors
    /// A sentence for the first one of another form.
    pub fn check(&self) -> Result<(), String> {
        let word = |text: &str, more: &[u8]| {
            (1..=100).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
        };
        if !word(&self.app, b"-._") {
            return Err("app is the number or client ID of a GitHub App, such as 123456".to_owned());
        }
        if self.installation == 0 {
            return Err(
                "installation is a number, which stands at the end of the installation's address".to_owned()
            );
        }
        if let Some(name) = self.repositories.iter().find(|name| !word(name, b"-._")) {
            return Err(format!("repositories: {name:?} is not a repository's name without its owner"));
        }
        let level = |level: &str| matches!(level, "read" | "write" | "admin");
        match self.permissions.iter().find(|(name, value)| !word(name, b"_") || !level(value)) {
            Some((name, value)) => Err(format!(
                "permissions: {name:?} = {value:?} is not a permission with read, write or admin"
            )),
            None => Ok(()),
        }
    }
}

/// A connection in progress.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<TcpStream, String>> + Send + 'a>>;

/// The way to hosts that hotcell itself asks.
pub trait Reach: Send + Sync + fmt::Debug {
    /// Connects to a host by its name; else a sentence.
    fn connect<'a>(&'a self, name: &'a str, port: u16) -> Connecting<'a>;
}

/// Makes tokens of an installation, and ends those that it made. Clones share them; `Debug` leaves them out.
#[derive(Clone)]
pub struct Tokens {
    app: GitHubApp,
    key: ValueSource,
    roots: Option<PathBuf>,
    way: Arc<dyn Reach>,
    made: Arc<Mutex<AllMade>>,
}

/// Tokens that were made and have not been ended.
#[derive(Default)]
struct AllMade {
    tokens: Vec<Made>,
    /// Whether their run has ended: one that comes later is ended at once.
    is_closed: bool,
}

/// A token, and the time at which it ends by itself.
struct Made {
    token: Zeroizing<String>,
    expires_at: SystemTime,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("app", &self.app).field("key", &self.key).finish_non_exhaustive()
    }
}

/// Answer of the API; other keys are skipped.
#[derive(Deserialize)]
struct Token {
    token: String,
    expires_at: String,
}

#[derive(Serialize)]
struct Wanted<'a> {
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    repositories: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    permissions: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Claims<'a> {
    iat: u64,
    exp: u64,
    iss: &'a str,
}

impl Tokens {
    /// Tokens of an app whose private key is in PEM in this source. `roots`: root certificates for the API in place of the system's.
    #[must_use]
    pub fn new(app: GitHubApp, key: ValueSource, roots: Option<PathBuf>, way: Arc<dyn Reach>) -> Self {
        Self { app, key, roots, way, made: Arc::default() }
    }

    /// Whether both are for one installation, with one reach, by one key.
    pub(super) fn is_that_of(&self, other: &Self) -> bool {
        (&self.app, &self.key, &self.roots) == (&other.app, &other.key, &other.roots)
    }

    /// A new token, and its end. Blocks for 20 seconds at most.
    ///
    /// # Errors
    /// [`ProgramError`] when the key cannot be read, or no token be had.
    pub fn fetch(&self) -> Result<Fetched, ProgramError> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let statement = statement(&self.app.app, &self.key.fetch_text()?, now)?;
        let wanted = Wanted { repositories: &self.app.repositories, permissions: &self.app.permissions };
        let failed = |why: String| ProgramError::App(format!("{}: {why}", self.app.api.authority()));
        let asking = Asking {
            method: "POST",
            path: format!("/app/installations/{}/access_tokens", self.app.installation),
            bearer: statement,
            body: serde_json::to_string(&wanted).map_err(|e| failed(e.to_string()))?,
        };
        let (status, answer) = self.asked(asking, DEADLINE).map_err(failed)?;
        if status != 201 {
            return Err(failed(refusal(status).to_owned()));
        }
        let bad = || ProgramError::App(format!("{}: the answer has no token", self.app.api.authority()));
        let Token { token, expires_at } = serde_json::from_slice(&answer).map_err(|_| bad())?;
        let token = Zeroizing::new(token);
        let expires_at = moment(&expires_at).ok_or_else(bad)?;
        let secret = Secret::new(token.as_bytes().to_vec())?;
        let is_late = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            let now = SystemTime::now();
            made.tokens.retain(|made| made.expires_at > now);
            made.tokens.push(Made { token, expires_at });
            made.is_closed
        };
        if is_late {
            if let Err(why) = self.revoke() {
                tracing::warn!(
                    "a token came after the end of its run, was not ended, and holds for up to an hour: {why}"
                );
            }
            return Err(failed("the token came after the end of its run".to_owned()));
        }
        Ok(Fetched { secret, expires_at: Some(expires_at) })
    }

    /// Ends the tokens that were made and still hold, and those that come later as they come. Blocks for 5 seconds at most for each.
    ///
    /// # Errors
    /// A sentence for the first one that the API does not end; it ends by itself within an hour.
    pub fn revoke(&self) -> Result<(), String> {
        let made = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            made.is_closed = true;
            std::mem::take(&mut made.tokens)
        };
        let now = SystemTime::now();
        let mut ended = Ok(());
        for Made { token, .. } in made.into_iter().filter(|made| made.expires_at > now) {
            let path = "/installation/token".to_owned();
            let asking = Asking { method: "DELETE", path, bearer: token, body: String::new() };
            let answered = self.asked(asking, END_DEADLINE);
            let why = match answered {
                // One that does not hold any more is refused.
                Ok((204 | 401, _)) => continue,
                Ok((status, _)) => format!("it answers {status}"),
                Err(why) => why,
            };
            ended = ended.and(Err(format!("{}: {why}", self.app.api.authority())));
        }
        ended
    }

    /// Asks the API, and waits.
    fn asked(&self, asking: Asking, patience: Duration) -> Result<(u16, Zeroizing<Vec<u8>>), String> {
        let own = self.clone();
        // A thread of its own: callers may be within a runtime.
        let asked = std::thread::Builder::new().spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|e| e.to_string())?;
            let asked = async { timeout(patience, own.ask(&asking)).await };
            runtime.block_on(asked).unwrap_or_else(|_| Err("it did not answer in time".to_owned()))
        });
        let asked = asked.map_err(|e| format!("no thread can be had to ask it: {e}"))?;
        asked.join().unwrap_or_else(|_| Err("the request failed".to_owned()))
    }

    /// Asks the API; returns status and body of its answer.
    async fn ask(&self, asking: &Asking) -> Result<(u16, Zeroizing<Vec<u8>>), String> {
        let api = &self.app.api;
        let trust = match &self.roots {
            Some(path) => Trust::of_file(path).map_err(|e| e.to_string())?,
            None => Trust::system(),
        };
        let mut tls = trust.connect(self.way.connect(&api.host, api.port).await?, &api.host).await?;
        let Asking { method, path, bearer, body } = asking;
        let request = Zeroizing::new(format!(
            "{method} {}{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Accept: application/vnd.github+json\r\nX-GitHub-Api-Version: 2022-11-28\r\nUser-Agent: hotcell\r\n\
             Accept-Encoding: identity\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            api.prefix,
            api.authority(),
            bearer.as_str(),
            body.len()
        ));
        let broken = |e: std::io::Error| format!("the connection ended: {e}");
        tls.write_all(request.as_bytes()).await.map_err(broken)?;
        tls.flush().await.map_err(broken)?;
        let mut input = Input::new(tls);
        let head = loop {
            match input.until(|bytes| answer(bytes, false)).await.map_err(broken)? {
                Some(Ok(answer)) if answer.interim => {}
                Some(Ok(answer)) => break answer,
                _ => return Err("it sent no answer of HTTP/1".to_owned()),
            }
        };
        let (mut rest, mut all) = (Rest::from(head.body), Zeroizing::new(Vec::new()));
        while let Some(piece) = input.piece(&mut rest).await.map_err(broken)? {
            if all.len() + piece.len() > MAX_ANSWER_BYTES {
                return Err("its answer is too large".to_owned());
            }
            all.extend_from_slice(&piece);
        }
        Ok((head.status, all))
    }
}

/// A request to the API.
struct Asking {
    method: &'static str,
    path: String,
    bearer: Zeroizing<String>,
    body: String,
}

/// Reason for a status other than 201.
const fn refusal(status: u16) -> &'static str {
    match status {
        401 => "it refuses the app's statement (401): check app, the private key and this host's clock",
        403 => "it refuses the app (403): the installation may be suspended",
        404 => "it knows no such installation of this app (404): check installation and app",
        422 => "it does not give these repositories or permissions (422)",
        301 | 302 | 307 | 308 => "it sends elsewhere, which is not followed: name the host of the API in api",
        500..=599 => "it failed (5xx); try again later",
        _ => "it gave no token",
    }
}

/// The statement of an app, a JSON Web Token with an RS256 signature (RFC 7519, RFC 7518 3.3).
fn statement(app: &str, pem: &[u8], now: u64) -> Result<Zeroizing<String>, ProgramError> {
    let bad = |why: &str| {
        ProgramError::App(format!(
            "the app's private key {why}: the source is the .pem file that GitHub gave, with RSA of 2048 bits or more"
        ))
    };
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| bad("is not a key in PEM"))?;
    let key = match &key {
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        _ => return Err(bad("is not one of RSA")),
    };
    let key = key.map_err(|_| bad("cannot be used"))?;
    let claims = Claims { iat: now.saturating_sub(BEFORE), exp: now + AFTER, iss: app };
    let claims = serde_json::to_vec(&claims).map_err(|e| ProgramError::App(e.to_string()))?;
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let text = format!("{}.{}", encode(br#"{"alg":"RS256","typ":"JWT"}"#), encode(&claims));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
        .map_err(|_| bad("does not sign"))?;
    Ok(Zeroizing::new(format!("{text}.{}", encode(&signature))))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

    use super::*;

    fn pem(name: &str) -> Vec<u8> {
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pki").join(name)).unwrap()
    }

    fn app() -> GitHubApp {
        GitHubApp {
            app: "123456".to_owned(),
            installation: 78,
            api: "api.test".parse().unwrap(),
            repositories: vec!["app".to_owned()],
            permissions: BTreeMap::from([("contents".to_owned(), "read".to_owned())]),
        }
    }

    #[test]
    fn statement_is_signed_by_the_key_and_ends_soon() {
        for name in ["app.pkcs1.pem", "app.pkcs8.pem"] {
            let text = statement("123456", &pem(name), 1_000_000).unwrap();
            let (signed, signature) = text.rsplit_once('.').unwrap();
            let parts: Vec<serde_json::Value> = signed
                .split('.')
                .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
                .collect();
            assert_eq!(parts[0], serde_json::json!({ "alg": "RS256", "typ": "JWT" }));
            assert_eq!(parts[1], serde_json::json!({ "iat": 999_940, "exp": 1_000_540, "iss": "123456" }));
            let pair = match PrivateKeyDer::from_pem_slice(&pem(name)).unwrap() {
                PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()).unwrap(),
                PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap(),
                _ => panic!("{name}"),
            };
            let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public().as_ref());
            public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
        }
        for (text, word) in
            [(&b"t0p-s3cret"[..], "not a key in PEM"), (&pem("host.key"), "private key"), (b"", "PEM")]
        {
            let error = statement("1", text, 1).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn words_are_checked() {
        assert_eq!(app().check(), Ok(()));
        type Change = fn(&mut GitHubApp);
        let changes: [(Change, &str); 6] = [
            (|app| app.app = String::new(), "client ID"),
            (|app| app.app = "1\r\nX: y".to_owned(), "client ID"),
            (|app| app.installation = 0, "installation"),
            (|app| app.repositories = vec!["acme/app".to_owned()], "without its owner"),
            (|app| drop(app.permissions.insert("contents".to_owned(), "all".to_owned())), "read, write"),
            (|app| drop(app.permissions.insert("a b".to_owned(), "read".to_owned())), "permission"),
        ];
        for (change, word) in changes {
            let mut changed = app();
            change(&mut changed);
            let why = changed.check().unwrap_err();
            assert!(why.contains(word), "{why}");
        }
    }
}
