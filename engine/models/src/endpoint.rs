//! Endpoints: a provider's server, a model there, and where the key is.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use hotcell_egress::SecretSource;
use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::tokens::{Cost, Price, PriceTable, Tokens};
use crate::wire::Wire;

/// Maximum length of the name of an endpoint or a role.
pub const MAX_NAME_CHARS: usize = 32;

/// Kind of server. It decides the wire format, the default URL, and whether tokens cost money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// OpenAI.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Gemini.
    Gemini,
    /// DeepSeek.
    DeepSeek,
    /// OpenRouter, which states the cost of each call.
    OpenRouter,
    /// Ollama, by its OpenAI-compatible interface.
    Ollama,
    /// LM Studio.
    LmStudio,
    /// llama.cpp's server.
    LlamaCpp,
    /// vLLM.
    Vllm,
    /// Any other server with OpenAI's Chat Completions.
    Compatible,
}

/// Each provider with its name, and its URL if it has a usual one.
const PROVIDERS: [(Provider, &str, Option<&str>); 10] = [
    (Provider::OpenAi, "openai", Some("https://api.openai.com/v1")),
    (Provider::Anthropic, "anthropic", Some("https://api.anthropic.com/v1")),
    (Provider::Gemini, "gemini", Some("https://generativelanguage.googleapis.com/v1beta")),
    (Provider::DeepSeek, "deepseek", Some("https://api.deepseek.com/v1")),
    (Provider::OpenRouter, "openrouter", Some("https://openrouter.ai/api/v1")),
    (Provider::Ollama, "ollama", Some("http://127.0.0.1:11434/v1")),
    (Provider::LmStudio, "lmstudio", Some("http://127.0.0.1:1234/v1")),
    (Provider::LlamaCpp, "llamacpp", Some("http://127.0.0.1:8080/v1")),
    (Provider::Vllm, "vllm", Some("http://127.0.0.1:8000/v1")),
    (Provider::Compatible, "compatible", None),
];

/// Prompts that a model is given by loops that write code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Prompts {
    /// Instructions, sources, evidence and history.
    #[default]
    Full,
    /// A few sentences about one file. Models of a few hundred million parameters lose themselves in more.
    Short,
}

impl Prompts {
    /// Name in configuration and output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Short => "short",
        }
    }
}

impl FromStr for Prompts {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let found = [Self::Full, Self::Short].into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| EndpointError::Prompts(text.to_owned()))
    }
}

/// A model at a server. It has no key, only its source, so that it can be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// Name that the operator gave it.
    pub name: String,
    /// Kind of server.
    pub provider: Provider,
    /// Base URL, to which the paths of the interface are added: `https://api.openai.com/v1`.
    pub url: Url,
    /// Name of the model there.
    pub model: String,
    /// Source of the key; no key is sent without it.
    pub key: Option<SecretSource>,
    /// Window in tokens, input and output together, if the operator stated it.
    pub window: Option<u32>,
    /// Price that the operator declared, in place of the published one.
    pub price: Option<DeclaredPrice>,
    /// Prompts that it is given.
    pub prompts: Prompts,
}

/// A price in the operator's configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeclaredPrice {
    /// `price = "free"`
    Free,
    /// `price = { input = 0.25, cached = 0.025, output = 2 }`, dollars for a million tokens.
    Tokens(Price),
}

/// Why an endpoint is not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// An unknown provider.
    #[error("{name:?} is not a provider; {}", providers(name))]
    Provider {
        /// Name as written.
        name: String,
    },
    /// A name of an endpoint or a role.
    #[error(
        "{0:?} is not a name: up to {MAX_NAME_CHARS} lower case letters, digits, _ and -, first a letter"
    )]
    Name(String),
    /// A URL that cannot be used.
    #[error("the URL {why}: {}", shown(url))]
    Url {
        /// URL as written.
        url: String,
        /// Reason.
        why: String,
    },
    /// The URL is empty.
    #[error("the URL is empty; name one, such as http://127.0.0.1:8000/v1")]
    EmptyUrl,
    /// The provider has no usual URL.
    #[error("the provider {0} has no usual URL; name one, such as http://127.0.0.1:8000/v1")]
    NoUrl(&'static str),
    /// A key would be sent in the clear.
    #[error("a key would be sent to {0} in the clear; use https, or http to this host only")]
    ClearKey(String),
    /// A source of a key.
    #[error("{0}")]
    Key(String),
    /// No model is named.
    #[error("the name of the model is empty or longer than 256 bytes, or has a control character")]
    Model,
    /// A price.
    #[error(
        "a price is \"free\" or {{ input = DOLLARS, cached = DOLLARS, output = DOLLARS }} for a million tokens"
    )]
    Price,
    /// A window.
    #[error("a window has at least 512 tokens")]
    Window,
    /// Kind of prompts.
    #[error("prompts are full or short, and {0:?} is neither")]
    Prompts(String),
}

/// Words for a name that is not a provider's: the nearest one, and all.
#[must_use]
pub fn providers(name: &str) -> String {
    let near = hotcell_sandbox::layer::likely(name, names());
    let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    format!("{near}there are {}", names().join(", "))
}

fn names() -> [&'static str; PROVIDERS.len()] {
    PROVIDERS.map(|(_, name, _)| name)
}

/// A URL without user name and password, which people write into it.
fn shown(url: &str) -> String {
    match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1))) {
        Some((scheme, rest)) => format!("{scheme}://…@{rest}"),
        None => url.to_owned(),
    }
}

impl Provider {
    /// Name in configuration and output.
    #[must_use]
    pub fn name(self) -> &'static str {
        PROVIDERS.iter().find(|(provider, ..)| *provider == self).map_or("", |(_, name, _)| name)
    }

    /// URL of the provider, if it has a usual one.
    #[must_use]
    pub fn usual_url(self) -> Option<&'static str> {
        PROVIDERS.iter().find(|(provider, ..)| *provider == self).and_then(|(.., url)| *url)
    }

    /// Wire format.
    #[must_use]
    pub fn wire(self) -> Wire {
        match self {
            Self::Anthropic => Wire::Anthropic,
            Self::Gemini => Wire::Gemini,
            Self::OpenAi => Wire::OpenAi { limit: "max_completion_tokens" },
            _ => Wire::OpenAi { limit: "max_tokens" },
        }
    }

    /// Tells if the provider's own server takes requests with a key only: those in the network do.
    fn wants_key(self) -> bool {
        self.usual_url().is_some_and(|url| url.starts_with("https:"))
    }

    /// Tells if the server computes on its own machine, so that tokens cost nothing there.
    fn computes_here(self) -> bool {
        matches!(self, Self::Ollama | Self::LmStudio | Self::LlamaCpp | Self::Vllm)
    }
}

impl FromStr for Provider {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let found = PROVIDERS.iter().find(|(_, name, _)| *name == text).map(|(provider, ..)| *provider);
        found.ok_or_else(|| EndpointError::Provider { name: text.to_owned() })
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Provider {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Endpoint {
    /// Tells if the provider refuses every request, since there is no key. Another server with its interface may take them.
    #[must_use]
    pub fn lacks_key(&self) -> bool {
        let usual = self.provider.usual_url().and_then(|url| Url::parse(url).ok());
        self.key.is_none()
            && self.provider.wants_key()
            && usual.is_some_and(|usual| usual.host() == self.url.host())
    }

    /// Why the endpoint cannot be asked for want of a key; `None` when there is one, or none is needed. A descriptor gives its key only once, and is left.
    #[must_use]
    pub fn missing_key(&self) -> Option<String> {
        match &self.key {
            None if self.lacks_key() => {
                Some(format!("{} takes requests with a key only, and none is configured", self.provider))
            }
            None | Some(SecretSource::Fd(_)) => None,
            Some(source) => source.read().err().map(|e| e.to_string()),
        }
    }

    /// An endpoint from texts of a configuration or a command line.
    ///
    /// # Errors
    /// [`EndpointError`] for the first text that is not valid.
    pub fn new(
        name: &str,
        provider: Provider,
        url: Option<&str>,
        model: &str,
        key: Option<&str>,
    ) -> Result<Self, EndpointError> {
        check_name(name)?;
        let url = match (url, provider.usual_url()) {
            (Some(url), _) => base(provider, url)?,
            (None, Some(url)) => base(provider, url)?,
            (None, None) => return Err(EndpointError::NoUrl(provider.name())),
        };
        if model.is_empty() || model.len() > 256 || model.chars().any(char::is_control) {
            return Err(EndpointError::Model);
        }
        let key = key.map(SecretSource::from_str).transpose();
        let key = key.map_err(|e| EndpointError::Key(e.to_string()))?;
        if key.is_some() && url.scheme() == "http" && !is_loopback(&url) {
            return Err(EndpointError::ClearKey(url.host_str().unwrap_or_default().to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            provider,
            url,
            model: model.to_owned(),
            key,
            window: None,
            price: None,
            prompts: Prompts::Full,
        })
    }

    /// Cost of a call: the server's own statement, else the operator's price, else that of a server on this machine, else the published one.
    #[must_use]
    pub fn cost(
        &self,
        stated: Option<crate::tokens::Money>,
        tokens: Option<Tokens>,
        table: &PriceTable,
    ) -> Cost {
        let by = |price: Price| tokens.and_then(|tokens| price.of(tokens)).map_or(Cost::Unknown, Cost::Known);
        match (stated, self.price) {
            (_, Some(DeclaredPrice::Free)) => Cost::Free,
            (_, Some(DeclaredPrice::Tokens(price))) => by(price),
            (Some(stated), None) => Cost::Known(stated),
            (None, None) if self.is_local() => Cost::Free,
            (None, None) => table.price(self.provider.name(), &self.model).map_or(Cost::Unknown, by),
        }
    }

    /// Tells if the model runs on this machine. Models of Ollama whose tag ends with `cloud` run elsewhere.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.provider.computes_here() && is_loopback(&self.url) && !self.model.ends_with("cloud")
    }

    /// URL for a completion.
    #[must_use]
    pub fn completion_url(&self) -> Url {
        match self.provider.wire() {
            Wire::OpenAi { .. } => self.below(&["chat", "completions"]),
            Wire::Anthropic => self.below(&["messages"]),
            Wire::Gemini => {
                let name = self.model.strip_prefix("models/").unwrap_or(&self.model);
                self.below(&["models", &format!("{name}:generateContent")])
            }
        }
    }

    /// URL of the list of models.
    #[must_use]
    pub fn models_url(&self) -> Url {
        self.below(&["models"])
    }

    fn below(&self, parts: &[&str]) -> Url {
        let mut url = self.url.clone();
        // An http URL always has a path; `base` took no others.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }
}

/// Checks the name of an endpoint or a role.
///
/// # Errors
/// [`EndpointError::Name`].
pub fn check_name(name: &str) -> Result<(), EndpointError> {
    let good = name.len() <= MAX_NAME_CHARS
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
    if good { Ok(()) } else { Err(EndpointError::Name(name.to_owned())) }
}

/// Reads a base URL. Without a path it is that of the interface's version (`/v1`), since people write `http://127.0.0.1:11434`.
fn base(provider: Provider, text: &str) -> Result<Url, EndpointError> {
    let bad = |why: &str| EndpointError::Url { url: text.to_owned(), why: why.to_owned() };
    if text.trim().is_empty() {
        return Err(EndpointError::EmptyUrl);
    }
    if !text.contains("://") {
        return Err(bad("does not begin with http:// or https://"));
    }
    let mut url = Url::parse(text).map_err(|e| bad(&format!("is not valid ({e})")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("has a user name or a password; a key has its own setting"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("has a query or a fragment"));
    }
    if matches!(url.path(), "" | "/") {
        url.set_path(if provider == Provider::Gemini { "/v1beta" } else { "/v1" });
    }
    Ok(url)
}

/// Tells if a URL leads to this machine: a loopback address, or the name that always is one.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Money;

    fn at(provider: Provider, url: Option<&str>, model: &str) -> Endpoint {
        Endpoint::new("a", provider, url, model, None).unwrap()
    }

    #[test]
    fn urls_are_joined_without_losing_a_part() {
        for (provider, url, want) in [
            (Provider::OpenAi, None, "https://api.openai.com/v1/chat/completions"),
            (Provider::Ollama, Some("http://127.0.0.1:11434"), "http://127.0.0.1:11434/v1/chat/completions"),
            (Provider::Compatible, Some("http://a/b/v3"), "http://a/b/v3/chat/completions"),
            (Provider::Compatible, Some("http://a/b/v3/"), "http://a/b/v3/chat/completions"),
            (Provider::Anthropic, None, "https://api.anthropic.com/v1/messages"),
            (
                Provider::Gemini,
                None,
                "https://generativelanguage.googleapis.com/v1beta/models/m%2Fx%3Fy:generateContent",
            ),
        ] {
            assert_eq!(at(provider, url, "m/x?y").completion_url().as_str(), want);
        }
        let models = at(Provider::Vllm, Some("http://localhost:8000/"), "m").models_url();
        assert_eq!(models.as_str(), "http://localhost:8000/v1/models");
    }

    #[test]
    fn endpoints_that_cannot_work_are_refused() {
        let new = |name, url, model, key| {
            Endpoint::new(name, Provider::Compatible, url, model, key).unwrap_err().to_string()
        };
        for (error, word) in [
            (new("A", Some("http://a"), "m", None), "not a name"),
            (new("", Some("http://a"), "m", None), "not a name"),
            (new("a", None, "m", None), "no usual URL"),
            (new("a", Some("ftp://a"), "m", None), "neither http nor https"),
            (new("a", Some("a b"), "m", None), "does not begin with http:// or https://"),
            (new("a", Some("localhost:8000/v1"), "m", None), "does not begin with http:// or https://"),
            (new("a", Some("http://a b"), "m", None), "not valid"),
            (new("a", Some(""), "m", None), "the URL is empty; name one"),
            (new("a", Some(" "), "m", None), "the URL is empty; name one"),
            (new("a", Some("https://me:pass@a/v1"), "m", None), "…@a/v1"),
            (new("a", Some("http://a/v1?key=1"), "m", None), "query"),
            (new("a", Some("http://a"), "", None), "name of the model"),
            (new("a", Some("http://a"), "m\n", None), "name of the model"),
            (new("a", Some("http://10.0.0.7:8000"), "m", Some("env:KEY")), "in the clear"),
            (
                new("a", Some("https://a"), "m", Some("sk-0123456789")),
                "env:NAME, file:/PATH, fd:N or keyring:NAME",
            ),
        ] {
            assert!(
                error.contains(word) && !error.contains("0123456789") && !error.contains("pass@"),
                "{error}"
            );
        }
        assert!(
            Endpoint::new("a", Provider::Compatible, Some("http://[::1]:1"), "m", Some("env:KEY")).is_ok()
        );
        let error = "olama".parse::<Provider>().unwrap_err().to_string();
        assert!(error.contains("did you mean ollama?") && error.contains("compatible"), "{error}");
    }

    #[test]
    fn keys_are_lacking_at_the_providers_own_servers_only() {
        for (provider, url, key, lacks) in [
            (Provider::Anthropic, None, None, true),
            (Provider::OpenRouter, None, None, true),
            (Provider::Gemini, None, Some("env:GEMINI_API_KEY"), false),
            (Provider::Anthropic, Some("http://127.0.0.1:8080"), None, false),
            (Provider::OpenAi, Some("https://proxy.example/v1"), None, false),
            (Provider::Ollama, None, None, false),
            (Provider::Compatible, Some("https://other.example"), None, false),
        ] {
            let endpoint = Endpoint::new("a", provider, url, "m", key).unwrap();
            assert_eq!(endpoint.lacks_key(), lacks, "{provider} {url:?}");
        }
    }

    #[test]
    fn cost_is_known_free_or_unknown() {
        let table = PriceTable::published();
        let tokens = Some(Tokens { fresh: 1000, cached: 0, output: 1000 });
        let declared = |price| Endpoint { price: Some(price), ..at(Provider::OpenAi, None, "gpt-5") };
        let price = Price { input: 1.0, cached: None, output: 1.0 };
        for (endpoint, stated, tokens, want) in [
            (at(Provider::OpenAi, None, "gpt-5"), None, tokens, Cost::Known(Money(11_250_000_000))),
            (at(Provider::OpenAi, None, "gpt-5"), None, None, Cost::Unknown),
            (at(Provider::OpenAi, None, "new-model"), None, tokens, Cost::Unknown),
            (at(Provider::OpenRouter, None, "x"), Some(Money(7)), tokens, Cost::Known(Money(7))),
            (at(Provider::OpenRouter, None, "x"), None, tokens, Cost::Unknown),
            (at(Provider::Ollama, None, "x"), None, None, Cost::Free),
            (at(Provider::Ollama, None, "x:480b-cloud"), None, tokens, Cost::Unknown),
            (at(Provider::Ollama, Some("https://other.example"), "x"), None, tokens, Cost::Unknown),
            (at(Provider::Compatible, Some("http://127.0.0.1:1"), "x"), None, tokens, Cost::Unknown),
            (declared(DeclaredPrice::Free), Some(Money(7)), tokens, Cost::Free),
            (declared(DeclaredPrice::Tokens(price)), None, tokens, Cost::Known(Money(2_000_000_000))),
        ] {
            assert_eq!(endpoint.cost(stated, tokens, &table), want, "{endpoint:?}");
        }
    }
}
