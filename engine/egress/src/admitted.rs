//! Judges a request to a host with a secret, and keeps its row: for requests of HTTP/1 and of HTTP/2 alike.

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use crate::end::End;
use crate::host::Host;
use crate::judge::Judged;
use crate::ledger::Operation;
use crate::limit::Counter;
use crate::proxy::Shared;
use crate::quota::OverLimit;
use crate::record::Moved;
use crate::route::Route;
use crate::route::aws::sources::sources;
use crate::route::head::{self, Asked, Authority};
use crate::route::records::{Ending, Request, without_values};
use crate::route::rules::Verdict;
use crate::route::within;

/// A request that the rules allow, with its row.
pub(crate) struct Admitted {
    /// Number of the route.
    pub number: usize,
    /// Path at the host.
    pub path: String,
    row: Request,
    /// Number of the row in the records, if it has one.
    at: Option<usize>,
}

/// Status and sentence of a refusal.
pub(crate) type Refusal = (&'static str, String);

impl Shared {
    /// Judges a request by the rules of its secret and of the network.
    ///
    /// # Errors
    /// Status and sentence for a request that is not allowed; its row has ended then.
    pub(crate) fn admit(&self, server: Authority<'_>, asked: &Asked) -> Result<Admitted, Refusal> {
        let (number, path) = self.chosen(server, asked)?;
        let route = &self.routes[number];
        let name = route.name();
        let mut row = self.row(route, asked, &path);
        let at = self.requests().begin(row.clone());
        let (status, why) = match head::judge(route, &asked.method, &path) {
            Verdict::Allowed(rule) => {
                match self.takes(number, asked, &path).and_then(|()| self.within(number, asked, &path)) {
                    Ok(()) => {
                        row.rule = rule;
                        return Ok(Admitted { number, path, row, at });
                    }
                    Err(refusal) => refusal,
                }
            }
            Verdict::Denied(rule) => ("403 Forbidden", rule),
        };
        (row.ending, row.rule) = (Ending::Denied, why.clone());
        let told = format!("{} {} for the secret {name}: {why}", asked.method, row.path);
        self.deny(Operation::Http, &row.host, Some(told));
        self.requests().end(at, row);
        Err((status, format!("{} of this path is not allowed for the secret {name}: {why}", asked.method)))
    }

    /// Checks the other objects that a signed request takes from, where rules judge paths.
    fn takes(&self, number: usize, asked: &Asked, path: &str) -> Result<(), Refusal> {
        let route = &self.routes[number];
        let binding = route.binding();
        let is_judged = route.rules().judges_paths() || !binding.prefix.is_empty();
        if route.held().signs().is_none() || !is_judged {
            return Ok(());
        }
        let denied = |why: String| ("403 Forbidden", why);
        for source in sources(asked, &binding.host, path).map_err(denied)? {
            within::chosen([(number, route)].into_iter(), &source.path)
                .map_err(|why| denied(why.to_string()))?;
            for method in source.methods {
                if let Verdict::Denied(rule) = head::judge(route, method, &source.path) {
                    let shown = without_values(&source.path, None);
                    return Err(denied(format!(
                        "it takes from {shown}, {method} of which is denied: {rule}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Ends the row of a request.
    pub(crate) fn ended(
        &self,
        admitted: Admitted,
        method: &str,
        ended: Result<(), &End>,
        moved: &Moved,
        status: Option<u16>,
    ) {
        let Admitted { number, mut row, at, .. } = admitted;
        (row.status, row.sent, row.received) =
            (status, moved.sent.load(Ordering::Relaxed), moved.received.load(Ordering::Relaxed));
        row.ending = match &ended {
            Ok(()) => Ending::Answered,
            Err(End::Over(_)) => Ending::Denied,
            Err(_) => Ending::Failed,
        };
        match ended {
            Err(End::Said(_, why)) => row.rule.clone_from(why),
            Err(End::Over(over)) => {
                row.rule.clone_from(&over.why);
                let name = self.routes[number].name();
                let why = format!("{method} {} for the secret {name}: {}", row.path, over.why);
                self.deny(Operation::Http, &row.host, Some(why));
            }
            Err(End::Io(error)) => row.rule = format!("the connection ended: {error}"),
            Ok(()) => {}
        }
        self.requests().end(at, row);
    }

    /// The number of the route that a request is for, and the path at its host; else status and sentence.
    fn chosen(&self, server: Authority<'_>, asked: &Asked) -> Result<(usize, String), Refusal> {
        match server {
            Authority::Loopback(_) => {
                let (name, rest) = head::split_name(&asked.path);
                if let Some(number) = self.routes.iter().position(|route| route.name() == name) {
                    return Ok((number, head::path_at(&self.routes[number], rest)));
                }
                let known: Vec<&str> = self.routes.iter().map(Route::name).collect();
                let why = "no secret of the run has that name".to_owned();
                self.deny(Operation::Http, "a secret's base URL", Some(why));
                let there = known.join(", ");
                Err(("404 Not Found", format!("no secret of this run has this name; there are: {there}")))
            }
            Authority::Host(host, port) => {
                let covered =
                    |route: &Route| self.authority.as_ref().is_some_and(|authority| authority.covers(route));
                let here = |route: &Route| {
                    let binding = route.binding();
                    binding.host == host && binding.port == port && covered(route)
                };
                let routes = self.routes.iter().enumerate().filter(|(_, route)| here(route));
                within::chosen(routes, &asked.path).map(|number| (number, asked.path.clone())).map_err(
                    |why| {
                        let shown = without_values(&asked.path, asked.query.as_deref());
                        let row = format!("{} {shown}: {why}", asked.method);
                        self.deny(Operation::Http, &format!("{host}:{port}"), Some(row));
                        (
                            "403 Forbidden",
                            format!("{} of this path is not allowed at {host}: {why}", asked.method),
                        )
                    },
                )
            }
        }
    }

    /// Checks a request by the rules of the network, which also hold for hosts of secrets, and by the limits of both; else status and
    /// sentence.
    fn within(&self, number: usize, asked: &Asked, path: &str) -> Result<(), Refusal> {
        let route = &self.routes[number];
        let binding = route.binding();
        let host = Host::Name(binding.host.clone());
        let over = |over: OverLimit| (over.status, over.why);
        match self.allow.judge(&host, binding.port, &asked.method, path) {
            Judged::Denied(why) => return Err(("403 Forbidden", why)),
            Judged::Allowed(rule, by) => {
                self.count(Counter::Rule(rule), by.conditions.limits, asked.body).map_err(over)?;
            }
            // The secret's own binding is the rule.
            Judged::Unlisted => {}
        }
        self.count(Counter::Route(number), route.rules().limits(), asked.body).map_err(over)
    }

    /// Largest body of a request that the rules of the network and of the secret allow.
    pub(crate) fn max_body(&self, number: usize, asked: &Asked, path: &str) -> Option<u64> {
        let route = &self.routes[number];
        let binding = route.binding();
        let host = Host::Name(binding.host.clone());
        let by_network = match self.allow.judge(&host, binding.port, &asked.method, path) {
            Judged::Allowed(_, rule) => rule.conditions.limits.max_body,
            Judged::Denied(_) | Judged::Unlisted => None,
        };
        by_network.into_iter().chain(route.rules().limits().max_body).min()
    }

    fn row(&self, route: &Route, asked: &Asked, path: &str) -> Request {
        let binding = route.binding();
        let mut path = without_values(path, asked.query.as_deref()).into_bytes();
        route.held().spellings().mask(&mut path);
        Request {
            at: SystemTime::now(),
            secret: route.name().to_owned(),
            host: format!("{}:{}", binding.host, binding.port),
            method: asked.method.clone(),
            path: String::from_utf8_lossy(&path).into_owned(),
            status: None,
            sent: 0,
            received: 0,
            rule: String::new(),
            ending: Ending::Unfinished,
        }
    }
}
