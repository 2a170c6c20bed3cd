//! The cascade: endpoints are asked in order until one replies, and the reply says why the earlier ones did not.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use hotcell_egress::Secret;
use hotcell_state::ids;
use tokio::time::Instant;

use crate::endpoint::{Endpoint, Provider};
use crate::failure::Failure;
use crate::http::Http;
use crate::message::{Message, Request, RequestError, Stop, ToolCall};
use crate::retry::{After, Backoff, share};
use crate::tokens::{Cost, PriceTable, Tokens};

/// Speaks to the endpoints of one role.
pub struct Client {
    http: Http,
    endpoints: Vec<Keyed>,
    prices: PriceTable,
    backoff: Backoff,
}

/// An endpoint with its key, which is read when the endpoint is first asked, and once: a descriptor gives it only once.
struct Keyed {
    endpoint: Endpoint,
    key: OnceLock<Result<Option<Secret>, String>>,
}

/// A model's reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Text; empty when there are only tool calls.
    pub text: String,
    /// Tool calls, each with an id.
    pub calls: Vec<ToolCall>,
    /// Reason why the model stopped.
    pub stop: Stop,
    /// Name of the endpoint that replied.
    pub endpoint: String,
    /// Kind of server.
    pub provider: Provider,
    /// Model, as the server states it, else as it is configured.
    pub model: String,
    /// Tokens, when the server counted them.
    pub tokens: Option<Tokens>,
    /// Cost.
    pub cost: Cost,
    /// Time of the attempt that succeeded.
    pub time: Duration,
    /// Attempts at this endpoint.
    pub attempts: u32,
    /// Endpoints that were asked before, and did not reply.
    pub passed_over: Vec<Tried>,
}

/// An endpoint that did not reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Name of the endpoint.
    pub endpoint: String,
    /// Kind of server.
    pub provider: Provider,
    /// Model.
    pub model: String,
    /// Number of attempts.
    pub attempts: u32,
    /// Time from the first attempt to the end of the last one.
    pub time: Duration,
    /// Reason why the last one failed.
    pub why: String,
    /// The provider may have charged for a reply that did not arrive whole.
    pub maybe_charged: bool,
    /// Its calls cost nothing.
    pub free: bool,
}

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A request that no provider accepts; none was asked.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// There is no endpoint to ask.
    #[error("no model is configured")]
    NoEndpoint,
    /// No endpoint replied.
    #[error("no model replied: {}", list(.0))]
    Unavailable(Vec<Tried>),
    /// The client cannot be made.
    #[error("{0}")]
    Client(String),
}

fn list(tried: &[Tried]) -> String {
    tried.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// `local (ollama, qwen2.5-coder:7b): HTTP 429 (too many requests), 3 attempts in 3.1 s`
impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = hotcell_state::report::printable(&self.model);
        write!(f, "{} ({}, {model}): {}", self.endpoint, self.provider, self.why)?;
        if self.attempts > 1 {
            write!(f, ", {} attempts in {:.1} s", self.attempts, self.time.as_secs_f32())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.endpoints.iter().map(|keyed| &keyed.endpoint)).finish()
    }
}

impl Reply {
    /// The reply as a message, for the next request.
    #[must_use]
    pub fn message(&self) -> Message {
        Message::Assistant { text: self.text.clone(), calls: self.calls.clone() }
    }

    /// Text, or words for a call of a tool that stands alone, to one that offered no tools: its reader says then which form was asked for, and not
    /// that the answer is empty.
    #[must_use]
    pub fn words(&self) -> String {
        match self.calls.first() {
            Some(call) if self.text.trim().is_empty() => {
                let name: String = call.name.chars().filter(char::is_ascii_graphic).take(60).collect();
                format!("(a call of the tool {name}; no tools are offered)")
            }
            _ => self.text.clone(),
        }
    }
}

impl Client {
    /// A client for these endpoints, in this order. Nothing is read or sent yet.
    ///
    /// # Errors
    /// [`ModelError::NoEndpoint`] without endpoints, [`ModelError::Client`] when TLS cannot be set up.
    pub fn new(endpoints: Vec<Endpoint>) -> Result<Self, ModelError> {
        if endpoints.is_empty() {
            return Err(ModelError::NoEndpoint);
        }
        let endpoints = endpoints.into_iter().map(|endpoint| Keyed { endpoint, key: OnceLock::new() });
        Ok(Self {
            http: Http::new().map_err(ModelError::Client)?,
            endpoints: endpoints.collect(),
            prices: PriceTable::published(),
            backoff: Backoff::default(),
        })
    }

    /// Replaces the pauses.
    #[must_use]
    pub fn with_backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// The endpoints, in the order in which they are asked.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter().map(|keyed| &keyed.endpoint)
    }

    /// Asks the endpoints, one after the other, until one replies. Each has an equal share of the time left, and is asked again only for
    /// failures that pass by themselves.
    ///
    /// # Errors
    /// [`ModelError::Request`] for a request that no provider accepts, [`ModelError::Unavailable`] with each endpoint's reason when none
    /// replied before `deadline`.
    pub async fn complete(&self, request: &Request, deadline: Instant) -> Result<Reply, ModelError> {
        request.check()?;
        let mut tried = Vec::new();
        for (at, keyed) in self.endpoints.iter().enumerate() {
            let left = self.endpoints.len() - at;
            let now = Instant::now();
            let until = now + share(deadline.saturating_duration_since(now), left);
            match self.at(keyed, request, until, left > 1).await {
                Ok(reply) => return Ok(Reply { passed_over: tried, ..reply }),
                Err(failed) => {
                    if left > 1 {
                        tracing::warn!("{failed}; the next model is asked");
                    }
                    tried.push(failed);
                }
            }
        }
        Err(ModelError::Unavailable(tried))
    }

    /// Asks one endpoint, again after failures that pass.
    async fn at(
        &self,
        keyed: &Keyed,
        request: &Request,
        until: Instant,
        has_fallback: bool,
    ) -> Result<Reply, Tried> {
        let endpoint = &keyed.endpoint;
        let began = Instant::now();
        let mut failed = 0;
        loop {
            let failure = match self.attempt(keyed, request, until).await {
                Ok(reply) => return Ok(Reply { attempts: failed + 1, ..reply }),
                Err(failure) => failure,
            };
            failed += 1;
            let after = After {
                failed,
                elapsed: began.elapsed(),
                remaining: until.saturating_duration_since(Instant::now()),
                retry_after: failure.retry_after(),
                has_fallback,
            };
            let is_over = !failure.passes() || failure.most_attempts().is_some_and(|most| failed >= most);
            let Some(pause) = self.backoff.pause(after).filter(|_| !is_over) else {
                return Err(Tried {
                    endpoint: endpoint.name.clone(),
                    provider: endpoint.provider,
                    model: endpoint.model.clone(),
                    attempts: failed,
                    time: began.elapsed(),
                    why: failure.to_string(),
                    maybe_charged: failure.maybe_charged(),
                    free: endpoint.cost(None, None, &self.prices) == Cost::Free,
                });
            };
            tracing::warn!("{}: {failure}; asked again in {:.1} s", endpoint.name, pause.as_secs_f32());
            tokio::time::sleep(pause).await;
        }
    }

    async fn attempt(&self, keyed: &Keyed, request: &Request, until: Instant) -> Result<Reply, Failure> {
        let endpoint = &keyed.endpoint;
        if let (Some(window), least) = (endpoint.window, request.least_tokens())
            && least > u64::from(window)
        {
            return Err(Failure::Window { least, window });
        }
        let wire = endpoint.provider.wire();
        let body = wire.encode(&endpoint.model, request).to_string().into_bytes();
        let began = Instant::now();
        let json = self.http.post(endpoint, keyed.key()?, body, until).await?;
        let time = began.elapsed();
        let completion = wire.reply(&json).map_err(|e| {
            let words = crate::failure::words(e.to_string().as_bytes(), keyed.key().ok().flatten());
            Failure::Reply(format!("the reply cannot be used: {words}"))
        })?;
        let mut calls = completion.calls;
        for call in calls.iter_mut().filter(|call| call.id.is_empty()) {
            call.id = ids::handle("call_").map_err(|e| Failure::Reply(e.to_string()))?;
        }
        // Each request has input, and each text output: a server that says zero does not count.
        let wrote = !completion.text.is_empty() || !calls.is_empty();
        let counts =
            |tokens: &Tokens| (tokens.fresh > 0 || tokens.cached > 0) && (tokens.output > 0 || !wrote);
        let tokens = completion.tokens.filter(counts);
        let cost = endpoint.cost(completion.cost, tokens, &self.prices);
        Ok(Reply {
            text: completion.text,
            calls,
            stop: completion.stop,
            endpoint: endpoint.name.clone(),
            provider: endpoint.provider,
            model: completion.model.unwrap_or_else(|| endpoint.model.clone()),
            tokens,
            cost,
            time,
            attempts: 1,
            passed_over: Vec::new(),
        })
    }

    /// Reads a JSON document of an endpoint by its number.
    pub(crate) async fn document(
        &self,
        at: usize,
        url: reqwest::Url,
        until: Instant,
    ) -> Result<serde_json::Value, Failure> {
        let keyed = &self.endpoints[at];
        self.http.get(&keyed.endpoint, keyed.key()?, url, until).await
    }
}

impl Keyed {
    fn key(&self) -> Result<Option<&Secret>, Failure> {
        let read = self.key.get_or_init(|| {
            self.endpoint.key.as_ref().map(|source| source.read().map_err(|e| e.to_string())).transpose()
        });
        read.as_ref().map(Option::as_ref).map_err(|why| Failure::Key(why.clone()))
    }
}
