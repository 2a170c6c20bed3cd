//! Forwards one HTTP request and its response.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::ConnectError;
use crate::http::{self, Bad, Forward, ProxyRequest};
use crate::judge::Judged;
use crate::ledger::{Operation, UNREADABLE};
use crate::limit::{Counter, RequestLimits};
use crate::proxy::Shared;
use crate::quota::OverLimit;
use crate::record::Counted;
use crate::recording::Recording;
use crate::route::records::without_values;
use crate::rule::Place;
use crate::stream::Input;

impl Shared {
    /// Serves a connection that began with neither SOCKS nor TLS: an HTTP request to the proxy.
    pub async fn http(
        self: &Arc<Self>,
        mut client: Input<impl AsyncRead + Unpin + Send>,
        mut back: impl AsyncWrite + Unpin + Send,
    ) -> io::Result<()> {
        let asked = timeout(self.limits.head, client.until(|bytes| http::request(bytes, None))).await;
        match asked.unwrap_or(Ok(None))? {
            None => Ok(()),
            Some(Err(bad)) => self.refuse(&bad, &mut back).await,
            Some(Ok(ProxyRequest::Connect(host, port))) => {
                if let Some(tls) = self.intercepts(&host, port) {
                    back.write_all(http::CONNECTED).await?;
                    return self.intercepted(client, back, tls, &host, port).await;
                }
                let row = self.record("CONNECT", &host, port, String::new());
                match self.connect(Operation::Connect, &host, port).await {
                    Ok(server) => {
                        row.connected();
                        back.write_all(http::CONNECTED).await?;
                        self.tunnel(client, back, server, (&host, port), &row).await
                    }
                    Err(error) => {
                        row.refused(&error);
                        say(&error, &mut back).await
                    }
                }
            }
            Some(Ok(ProxyRequest::Forward(forward))) => {
                if self.intercepts(&forward.host, forward.port).is_some() {
                    let error = self.without_tls(&forward.host, forward.port);
                    return say(&error, &mut back).await;
                }
                let (path, query) = match forward.target.split_once('?') {
                    Some((path, query)) => (path, Some(query)),
                    None => (forward.target.as_str(), None),
                };
                let shown = without_values(path, query);
                let row = self.record(&forward.method, &forward.host, forward.port, shown.clone());
                let limits = match self.allowed(&forward, path, &shown, &row) {
                    Ok(limits) => limits,
                    Err(Refused::Host(error)) => {
                        row.refused(&error);
                        return say(&error, &mut back).await;
                    }
                    Err(Refused::Limit(over)) => {
                        row.denied(&over.why);
                        return back.write_all(&http::refusal(over.status, &over.why)).await;
                    }
                };
                let place = self.allow.place(&forward.host, forward.port).unwrap_or(Place::Resolve);
                match self.connect_at(Operation::Http, &forward.host, forward.port, place).await {
                    Ok(server) => self.forward(client, back, server, &forward, limits, &row).await,
                    Err(error) => {
                        row.refused(&error);
                        say(&error, &mut back).await
                    }
                }
            }
        }
    }

    /// Limits of the rule that allows a request.
    fn allowed(
        &self,
        forward: &Forward,
        path: &str,
        shown: &str,
        row: &Recording<'_>,
    ) -> Result<RequestLimits, Refused> {
        let (host, port) = (&forward.host, forward.port);
        let target = format!("{host}:{port}");
        let judge = |(method, path): (&str, &str)| self.allow.judge(host, port, method, path);
        let judged = judge((&forward.method, path));
        // Where the request's own method and path are allowed, those of its headers have to be, too.
        let other = matches!(judged, Judged::Allowed(..)).then(|| {
            let mut readings = forward.overrides.readings(&forward.method, path).skip(1);
            readings.find_map(|reading| match judge(reading) {
                Judged::Denied(why) => Some((reading, why)),
                Judged::Allowed(..) | Judged::Unlisted => None,
            })
        });
        if let Some(Some(((method, path), why))) = other {
            let why = format!("a header of the request makes it {method} {path}: {why}");
            return Err(Refused::Host(self.deny(Operation::Http, &target, Some(why))));
        }
        match judged {
            Judged::Unlisted => Err(Refused::Host(self.deny(Operation::Http, &target, None))),
            Judged::Denied(why) => {
                let why = format!("{} {shown}: {why}", forward.method);
                Err(Refused::Host(self.deny(Operation::Http, &target, Some(why))))
            }
            Judged::Allowed(number, rule) => {
                row.by(&rule.to_string());
                let limits = rule.conditions.limits;
                let counted = self.count(Counter::Rule(number), limits, forward.body);
                counted.map(|()| limits).map_err(|over| {
                    let why = format!("{} {shown} by the rule {rule}: {}", forward.method, over.why);
                    self.deny(Operation::Http, &target, Some(why));
                    Refused::Limit(over)
                })
            }
        }
    }

    /// Sends an error response to the client.
    pub async fn refuse(&self, bad: &Bad, back: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        match bad {
            Bad::OtherHost { to, named } => {
                self.deny(Operation::Http, to, Some(format!("its Host header names {named}")));
            }
            Bad::Host(wrong) => {
                self.deny(Operation::Http, UNREADABLE, Some(wrong.to_string()));
            }
            _ => {}
        }
        back.write_all(&http::refusal("400 Bad Request", &bad.to_string())).await
    }

    /// Forwards a request, whose head was read from `client`, and sends back the response.
    pub async fn forward(
        &self,
        mut client: Input<impl AsyncRead + Unpin>,
        mut back: impl AsyncWrite + Unpin,
        mut server: TcpStream,
        forward: &Forward,
        limits: RequestLimits,
        row: &Recording<'_>,
    ) -> io::Result<()> {
        let (answers, mut requests) = server.split();
        self.budget.spend(forward.head.len())?;
        requests.write_all(&forward.head).await?;
        let sending = async {
            let mut requests = Counted::new(&mut requests, row.sent());
            client.copy_within(forward.body, limits.max_body, &mut requests, &self.budget).await?;
            // The response ends the exchange, even if it comes before the whole request is sent.
            std::future::pending::<io::Result<()>>().await
        };
        let answering = async {
            let mut answers = Input::new(answers);
            loop {
                let read = answers.until(|bytes| http::answer(bytes, forward.is_head)).await?;
                let Some(Ok(answer)) = read else {
                    let why = format!("{} sent no answer of HTTP/1", forward.host);
                    row.failed(&why);
                    return back.write_all(&http::refusal("502 Bad Gateway", &why)).await;
                };
                self.budget.spend(answer.head.len())?;
                back.write_all(&answer.head).await?;
                if !answer.interim {
                    row.answered(answer.status);
                    let mut back = Counted::new(&mut back, row.received());
                    return answers.copy_body(answer.body, &mut back, &self.budget).await;
                }
            }
        };
        let sent = tokio::select! {
            biased;
            answered = answering => answered,
            failed = sending => failed,
        };
        if let Err(error) = &sent
            && let Some(over) = OverLimit::of(error, limits)
        {
            row.denied(&over.why);
            let why = format!("{} by its rule: {}", forward.method, over.why);
            self.deny(Operation::Http, &format!("{}:{}", forward.host, forward.port), Some(why));
        }
        back.shutdown().await?;
        sent
    }
}

/// Why a request is not forwarded.
enum Refused {
    /// No rule allows it, or one denies it.
    Host(ConnectError),
    /// Beyond the limits of its rule.
    Limit(OverLimit),
}

async fn say(error: &ConnectError, back: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let status = match error {
        ConnectError::Denied(_) => "403 Forbidden",
        ConnectError::Unreachable(_) => "502 Bad Gateway",
    };
    back.write_all(&http::refusal(status, &error.to_string())).await
}
