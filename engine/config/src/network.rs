//! Reachable hosts of a run: the setting, and the proxy of `hotcell-egress` behind a sandbox's sockets.

use std::fmt;
use std::io;
use std::str::FromStr;

use hotcell_egress::route::records::{Counts, Request};
use hotcell_egress::route::{Route, RunAuthority};
use hotcell_egress::upstream::Upstream;
use hotcell_egress::{AllowList, Egress, RuleError};
use hotcell_sandbox::network::{Proxy, Relay, Serving, SharedProxy, Sockets};
use hotcell_sandbox::outcome::{Denial, ProxiedRequest, RequestCounts, RequestRow, Requests};
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};

/// Network setting as users write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkSetting {
    /// `none`: a private loopback.
    None,
    /// `off`: no internet sockets at all.
    Off,
    /// A private loopback, and these hosts through a proxy. With an empty list the proxy denies everything.
    Hosts(AllowList),
}

impl FromStr for NetworkSetting {
    type Err = RuleError;

    /// Parses `none`, `off` or `HOST:PORT,…`.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        match text {
            "none" => Ok(Self::None),
            "off" => Ok(Self::Off),
            rules => rules.parse().map(Self::Hosts),
        }
    }
}

impl fmt::Display for NetworkSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Off => f.write_str("off"),
            Self::Hosts(list) => list.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for NetworkSetting {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = NetworkSetting;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"none\", \"off\" or a list of hosts such as [\"pypi.org:443\"]")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<NetworkSetting, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<NetworkSetting, A::Error> {
                let mut rules = Vec::new();
                while let Some(rule) = list.next_element::<String>()? {
                    rules.push(rule);
                }
                let list = AllowList::of(rules.iter().map(String::as_str)).map_err(A::Error::custom)?;
                Ok(NetworkSetting::Hosts(list))
            }
        }
        from.deserialize_any(Words)
    }
}

/// Maker of a run's proxy to these hosts.
pub type MakeProxy = fn(AllowList) -> SharedProxy;

/// In place of [`proxy`], for a program without one: no sandbox starts with it.
#[must_use]
pub fn no_proxy(_allow: AllowList) -> SharedProxy {
    SharedProxy::new(Nowhere)
}

#[derive(Debug)]
struct Nowhere;

impl Proxy for Nowhere {
    fn serve(&self, _sockets: Sockets) -> io::Result<Box<dyn Serving>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this program has no proxy"))
    }
}

/// A proxy to these hosts.
#[must_use]
pub fn proxy(allow: AllowList) -> SharedProxy {
    SharedProxy::new(ToHosts(Egress::new(allow)))
}

/// A proxy to these hosts, with routes to others, of which an authority's are intercepted; through the operator's own proxy, if there is one.
#[must_use]
pub fn proxy_with(
    allow: AllowList,
    routes: Vec<Route>,
    authority: Option<RunAuthority>,
    upstream: Option<Upstream>,
) -> SharedProxy {
    let mut egress = Egress::new(allow).routes(routes);
    if let Some(authority) = authority {
        egress = egress.intercept(authority);
    }
    if let Some(upstream) = upstream {
        egress = egress.through(upstream);
    }
    SharedProxy::new(ToHosts(egress))
}

/// Relays that a sandbox needs for the names of this list that have an address.
#[must_use]
pub fn relays(allow: &AllowList) -> Vec<Relay> {
    let relay = |hotcell_egress::Relay { name, address, port }| Relay { name, address, port };
    allow.relays().into_iter().map(relay).collect()
}

#[derive(Debug)]
struct ToHosts(Egress);

impl Proxy for ToHosts {
    fn serve(&self, sockets: Sockets) -> io::Result<Box<dyn Serving>> {
        let Sockets { proxy, names, names_by_stream, relays } = sockets;
        let serving = self.0.serve(hotcell_egress::Sockets { proxy, names, names_by_stream, relays })?;
        Ok(Box::new(Served(serving)))
    }
}

struct Served(hotcell_egress::Serving);

impl Serving for Served {
    fn requests(&self) -> Option<Requests> {
        let all = self.0.requests();
        let counts = all.counts.into_iter().map(|(name, counts)| (name, counted(&counts)));
        let secrets: std::collections::BTreeMap<_, _> = counts.collect();
        let plain = (all.plain.requests > 0).then(|| counted(&all.plain));
        let rows = all.rows.into_iter().map(row).collect();
        (plain.is_some() || !secrets.is_empty()).then_some(Requests {
            secrets,
            plain,
            left_out: all.left_out,
            rows,
        })
    }

    fn finish(self: Box<Self>) -> Vec<Denial> {
        let rows = self.0.finish().into_iter().map(|denied| Denial {
            layer: "network".to_owned(),
            operation: denied.operation.name().to_owned(),
            target: denied.target,
            // The reason is from the protocol, not from a system call: 403, "not allowed by ruleset", "no
            // such name".
            errno: "denied by the proxy".to_owned(),
            count: denied.count,
        });
        rows.collect()
    }
}

const fn counted(counts: &Counts) -> RequestCounts {
    RequestCounts {
        requests: counts.requests,
        denied: counts.denied,
        failed: counts.failed,
        sent_bytes: counts.sent,
        received_bytes: counts.received,
    }
}

fn row(request: Request) -> RequestRow {
    let since = request.at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let at_us = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    let request = ProxiedRequest {
        secret: Some(request.secret).filter(|name| !name.is_empty()),
        host: request.host,
        method: request.method,
        path: request.path,
        status: request.status,
        sent_bytes: request.sent,
        received_bytes: request.received,
        ending: request.ending.name().to_owned(),
        rule: request.rule,
    };
    RequestRow { at_us, request }
}
