//! Routes: a path of the sandbox's proxy, `http://127.0.0.1:PORT/NAME/`, that leads over TLS to one host, with a secret in a header. The
//! program sees neither the value nor a placeholder for it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::SystemTime;

use crate::host::Host;
use crate::redact::MIN_REDACTED_BYTES;
use crate::secret::Secret;

pub mod authority;
pub mod aws;
pub mod github_app;
pub(crate) mod head;
pub(crate) mod held;
pub mod java;
pub mod reader;
pub mod records;
mod renewal;
pub mod rules;
pub mod table;
pub(crate) mod tls;
pub(crate) mod within;

pub use self::authority::RunAuthority;
use self::held::Held;
use self::renewal::Renewal;
pub use self::renewal::Supply;
use self::rules::{NormalPath, RequestRules};
pub use self::tls::Trust;

/// Port of a host that names none.
const HTTPS_PORT: u16 = 443;
/// Maximum length of a route's name, in bytes.
const MAX_NAME_LEN: usize = 32;
/// Headers that a secret cannot be put in, since they are of the connection or say where a message ends.
const NOT_FOR_SECRETS: [&str; 12] = [
    "host",
    "connection",
    "content-length",
    "content-type",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "accept-encoding",
];

/// Why a secret cannot be bound to a host. The messages never contain the value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The name has other characters than letters, digits, `-` and `_`, or is too long.
    #[error(
        "{0:?} is not a name of a secret: it has 1 to {MAX_NAME_LEN} letters, digits, - and _, and begins with a letter"
    )]
    Name(String),
    /// The host is given as a URL.
    #[error("{0:?}: a secret is only sent over TLS to a host: write HOST, HOST:PORT or HOST:PORT/PREFIX")]
    Url(String),
    /// The host is not a name.
    #[error("{text:?}: {why}")]
    Host {
        /// The host as written.
        text: String,
        /// The problem, and how to mend it.
        why: String,
    },
    /// The header cannot carry a secret.
    #[error("{0:?} is not a header for a secret; write one such as x-api-key")]
    Header(String),
    /// The value, or the password in it, is shorter than what can be looked for in answers.
    #[error(
        "the secret {0} is shorter than {MIN_REDACTED_BYTES} bytes, too short to be removed from what a host answers"
    )]
    Short(String),
    /// The value does not have the form `USER:PASSWORD`.
    #[error("the secret {0} is for basic authentication and has no colon: write USER:PASSWORD, or set user")]
    NoUser(String),
    /// The value does not have the form of AWS's keys.
    #[error(
        "the secret {0} is for AWS and not ACCESS_KEY_ID:SECRET_ACCESS_KEY, with :SESSION_TOKEN behind it for temporary keys"
    )]
    Keys(String),
    /// The root certificates cannot be read.
    #[error("the root certificates in {}: {why}", path.display())]
    Roots {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// Two secrets are for the same requests.
    #[error(
        "{0} and {1} are secrets for the same host and prefix, so a request there could be meant for either"
    )]
    Both(String, String),
}

/// The host, and the paths there, that a secret is for.
///
/// ```
/// use hotcell_egress::route::Binding;
/// let binding: Binding = "npm.example.org:8443/api/npm/".parse().unwrap();
/// assert_eq!(binding.to_string(), "npm.example.org:8443/api/npm");
/// assert!("http://npm.example.org".parse::<Binding>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Name of the host.
    pub host: String,
    /// Port; 443 unless given.
    pub port: u16,
    /// Prefix of all paths, without a slash at its end; empty for all paths of the host.
    pub prefix: String,
}

impl FromStr for Binding {
    type Err = RouteError;

    fn from_str(text: &str) -> Result<Self, RouteError> {
        if text.contains("://") {
            return Err(RouteError::Url(text.to_owned()));
        }
        let bad = |why: String| RouteError::Host { text: text.to_owned(), why };
        let at = text.find('/').unwrap_or(text.len());
        let (authority, prefix) = text.split_at(at);
        if authority.contains('*') {
            return Err(bad("a secret is for one host; write its whole name".to_owned()));
        }
        let (host, port) = Host::parse_with_port(authority.as_bytes()).map_err(|e| bad(e.to_string()))?;
        let Host::Name(host) = host else {
            let why = "a secret is for a host by its name, which its certificate proves; a rule NAME=ADDRESS:PORT of the \
                       network says where the name is";
            return Err(bad(why.to_owned()));
        };
        if prefix.contains(['%', '*']) {
            return Err(bad("a prefix is plain text such as /api/v1, without % and *".to_owned()));
        }
        if !prefix.is_empty() {
            NormalPath::parse(prefix, false).map_err(|e| bad(e.to_string()))?;
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix).to_owned();
        Ok(Self { host, port: port.unwrap_or(HTTPS_PORT), prefix })
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.authority(), self.prefix)
    }
}

impl Binding {
    /// `HOST`, or `HOST:PORT` where the port is not 443.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.port == HTTPS_PORT { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }
}

/// How a secret is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `Authorization: Bearer VALUE`.
    Bearer,
    /// `Authorization: Basic …` of `USER:PASSWORD`; with a user here, the value is the password.
    Basic(Option<String>),
    /// A header of this name with the value.
    Header(String),
    /// A signature with the value, which is AWS's keys.
    AwsSigV4(aws::Scope),
}

impl Scheme {
    /// The scheme of well-known hosts; [`Scheme::Bearer`] for others.
    #[must_use]
    pub fn usual(host: &str) -> Self {
        match host {
            // https://docs.anthropic.com/en/api/overview#authentication
            "api.anthropic.com" => Self::Header("x-api-key".to_owned()),
            // https://ai.google.dev/api#authentication
            "generativelanguage.googleapis.com" => Self::Header("x-goog-api-key".to_owned()),
            // Git over HTTPS takes a token as a password only.
            "github.com" => Self::Basic(Some("x-access-token".to_owned())),
            "gitlab.com" => Self::Basic(Some("oauth2".to_owned())),
            // https://pypi.org/help/#apitoken
            "pypi.org" | "upload.pypi.org" | "test.pypi.org" => Self::Basic(Some("__token__".to_owned())),
            // https://doc.rust-lang.org/cargo/reference/registry-web-api.html: the token without a scheme.
            "index.crates.io" | "crates.io" => Self::Header("authorization".to_owned()),
            _ => aws::Scope::of_host(host).map_or(Self::Bearer, Self::AwsSigV4),
        }
    }

    /// A scheme with a header of this name.
    ///
    /// # Errors
    /// [`RouteError::Header`] for a name that is not a header's, or one that a secret cannot be in.
    pub fn header(name: &str) -> Result<Self, RouteError> {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
        let lower = name.to_ascii_lowercase();
        if lower.is_empty()
            || lower.len() > 64
            || !lower.bytes().all(token)
            || NOT_FOR_SECRETS.contains(&lower.as_str())
        {
            return Err(RouteError::Header(name.chars().take(64).collect()));
        }
        Ok(Self::Header(lower))
    }
}

/// A secret bound to a host. Cheap to clone; `Debug` leaves the value out.
#[derive(Clone)]
pub struct Route(Arc<Inner>);

struct Inner {
    name: String,
    binding: Binding,
    rules: RequestRules,
    header: String,
    scheme: Scheme,
    held: RwLock<Arc<Held>>,
    renewal: OnceLock<Renewal>,
    trust: Trust,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Route({} to {})", self.0.name, self.0.binding)
    }
}

impl Route {
    /// Binds a secret. `roots`: file with root certificates (PEM) for this host in place of the system's.
    ///
    /// # Errors
    /// [`RouteError`] when the name, the header or the value is not usable, or the file cannot be read.
    pub fn new(
        name: &str,
        binding: Binding,
        scheme: &Scheme,
        secret: &Secret,
        rules: RequestRules,
        roots: Option<&Path>,
    ) -> Result<Self, RouteError> {
        check_name(name)?;
        let header = match scheme {
            Scheme::Bearer | Scheme::Basic(_) | Scheme::AwsSigV4(_) => "authorization".to_owned(),
            Scheme::Header(header) => header.clone(),
        };
        let held = RwLock::new(Arc::new(Held::new(name, scheme, secret, None)?));
        let trust = match roots {
            Some(path) => Trust::of_file(path)?,
            None => Trust::system(),
        };
        Ok(Self(Arc::new(Inner {
            name: name.to_owned(),
            binding,
            rules,
            header,
            scheme: scheme.clone(),
            held,
            renewal: OnceLock::new(),
            trust,
        })))
    }

    /// Lets the value be fetched anew shortly before it expires. The first call counts.
    #[must_use]
    pub fn renewed(self, supply: Supply, expires_at: SystemTime) -> Self {
        let _ = self.0.renewal.set(Renewal::new(supply, expires_at));
        self
    }

    /// Name of the secret, which is the first part of the path inside.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Host and prefix.
    #[must_use]
    pub fn binding(&self) -> &Binding {
        &self.0.binding
    }

    /// Rules for its requests.
    pub(crate) fn rules(&self) -> &RequestRules {
        &self.0.rules
    }

    /// Name of the header that carries the value.
    pub(crate) fn header(&self) -> &str {
        &self.0.header
    }

    /// The value as it is now.
    pub(crate) fn held(&self) -> Arc<Held> {
        Arc::clone(&self.0.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The value for a request that begins: fetched anew, if it is about to expire.
    ///
    /// # Errors
    /// A sentence, when it has expired and its source has no other.
    pub(crate) async fn fresh(&self) -> Result<Arc<Held>, String> {
        let Some(renewal) = self.0.renewal.get() else { return Ok(self.held()) };
        let renew = |secret: &Secret| {
            let held = self.held();
            let new =
                Held::new(&self.0.name, &self.0.scheme, secret, Some(&held)).map_err(|e| e.to_string())?;
            *self.0.held.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
            Ok(())
        };
        renewal.renew(&self.0.name, renew).await?;
        Ok(self.held())
    }

    pub(crate) fn trust(&self) -> &Trust {
        &self.0.trust
    }
}

/// Checks a name of a secret.
///
/// # Errors
/// [`RouteError::Name`] unless it has 1 to 32 letters, digits, `-` and `_`, and begins with a letter.
pub fn check_name(name: &str) -> Result<(), RouteError> {
    let letter = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    let good = name.len() <= MAX_NAME_LEN
        && name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && name.bytes().all(letter);
    if good { Ok(()) } else { Err(RouteError::Name(name.chars().take(MAX_NAME_LEN).collect())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.as_bytes().to_vec()).unwrap()
    }

    fn route(scheme: &Scheme, value: &str) -> Result<Route, RouteError> {
        let binding = "api.test".parse().unwrap();
        Route::new("gh", binding, scheme, &secret(value), RequestRules::default(), None)
    }

    #[test]
    fn bindings_are_one_host_with_a_plain_prefix() {
        for (text, want) in [
            ("api.github.com", "api.github.com"),
            ("API.github.com.", "api.github.com"),
            ("api.github.com:443", "api.github.com"),
            ("a.test:8443/v1", "a.test:8443/v1"),
            ("a.test/v1/", "a.test/v1"),
            ("a.test/", "a.test"),
            ("a.test/@acme/x", "a.test/@acme/x"),
        ] {
            assert_eq!(text.parse::<Binding>().unwrap().to_string(), want);
        }
        for (text, word) in [
            ("http://a.test", "over TLS"),
            ("https://a.test/v1", "over TLS"),
            ("*.a.test", "one host"),
            ("10.0.0.1:443", "name"),
            ("[::1]", "name"),
            ("u@a.test", "host name"),
            ("a.test:0", "from 1 to 65535"),
            ("a.test/%2e%2e", "without %"),
            ("a.test/../x", ".."),
            ("a.test//x", "two slashes"),
            ("a.test/x?y", "URL"),
            ("", "no host"),
        ] {
            let error = text.parse::<Binding>().unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn schemes_make_headers() {
        for (scheme, value, header, want) in [
            (Scheme::Bearer, "t0k3n-t0k3n", "authorization", "Bearer t0k3n-t0k3n"),
            (Scheme::Basic(None), "me:password", "authorization", "Basic bWU6cGFzc3dvcmQ="),
            (Scheme::Basic(Some("me".into())), "password", "authorization", "Basic bWU6cGFzc3dvcmQ="),
            (Scheme::header("X-API-Key").unwrap(), "t0k3n-t0k3n", "x-api-key", "t0k3n-t0k3n"),
        ] {
            let route = route(&scheme, value).unwrap();
            let held = route.held();
            assert_eq!((route.header(), held.expose()), (header, want.as_bytes()));
            assert!(!format!("{route:?}").contains(value), "{route:?}");
            let mut back = format!("x {want} y").into_bytes();
            assert!(held.spellings().mask(&mut back));
        }
        let mut password = b"the password is: password1".to_vec();
        assert!(route(&Scheme::Basic(None), "me:password1").unwrap().held().spellings().mask(&mut password));
        for (scheme, value, word) in [
            (Scheme::Bearer, "t0k3n", "shorter"),
            (Scheme::Basic(None), "user-name:pw", "shorter"),
            (Scheme::Basic(None), "no-colon-here", "USER:PASSWORD"),
        ] {
            let error = route(&scheme, value).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains(value), "{error}");
        }
        for name in ["", "host", "Content-Length", "a b", "x:y", "x\r\ny", "Connection"] {
            assert!(Scheme::header(name).is_err(), "{name:?}");
        }
        assert_eq!(Scheme::usual("api.anthropic.com"), Scheme::Header("x-api-key".into()));
        assert_eq!(Scheme::usual("evil-api.anthropic.com"), Scheme::Bearer);
    }

    #[test]
    fn names_are_words() {
        for name in ["gh", "Open_AI-2"] {
            assert!(check_name(name).is_ok());
        }
        for name in ["", "1a", "-a", "a/b", "a.b", "ä", "a b", &"x".repeat(33)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
