//! Address of a farm: `grpc://HOST:PORT[/INSTANCE]`, with TLS `grpcs://`. Pure.

use std::fmt;
use std::net::IpAddr;

use crate::access::Access;
use crate::error::FleetError;

/// Words of resource names, which an instance name must not contain. See `remote_execution.proto`.
const RESERVED: [&str; 8] = [
    "blobs",
    "uploads",
    "actions",
    "actionResults",
    "operations",
    "capabilities",
    "compressed-blobs",
    "logstreams",
];

/// Address of a farm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `HOST:PORT`.
    pub server: String,
    /// Name of the instance; may be empty.
    pub instance: String,
    /// TLS is spoken.
    pub tls: bool,
    /// Credentials.
    pub access: Access,
}

impl Address {
    /// Parses an address. Without `plain`, the permission to send to other machines without TLS, only this machine is
    /// reached.
    ///
    /// # Errors
    /// [`FleetError`] of a wrong request, with the part that is wrong.
    pub fn parse(text: &str, plain: bool) -> Result<Self, FleetError> {
        let bad = |why: &str| {
            FleetError::request(format!(
                "{text:?} {why}; write grpcs://HOST:PORT/INSTANCE, or grpc:// without TLS, such as grpc://127.0.0.1:50051/main"
            ))
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad("is not the address of a farm"))?;
        let tls = match scheme {
            "grpc" => false,
            "grpcs" => true,
            _ => return Err(bad("has a scheme that is neither grpc nor grpcs")),
        };
        if rest.chars().any(|c| c.is_whitespace() || c.is_control() || "?#@\\".contains(c)) {
            return Err(bad("has a character that an address cannot have"));
        }
        let (server, instance) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = server.rsplit_once(':').ok_or_else(|| bad("has no port"))?;
        if port.parse::<u16>().ok().is_none_or(|port| port == 0) {
            return Err(bad("has no valid port"));
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() || (bare.contains(':') && bare == host) {
            return Err(bad("has no valid host"));
        }
        let instance = instance.strip_suffix('/').unwrap_or(instance);
        if !instance.is_empty() && instance.split('/').any(|part| part.is_empty() || RESERVED.contains(&part))
        {
            return Err(bad("has an instance name that the protocol does not allow"));
        }
        if !tls && !plain && !is_this_machine(bare) {
            return Err(FleetError::request(format!(
                "{bare} is another machine, and grpc:// sends everything unencrypted; write grpcs://, or say ‹plain_grpc› if the network between is yours"
            )));
        }
        let (server, instance) = (server.to_owned(), instance.to_owned());
        Ok(Self { server, instance, tls, access: Access::default() })
    }

    /// The address with credentials.
    ///
    /// # Errors
    /// [`FleetError`] of a wrong request: certificates without TLS, or a token that would be sent unencrypted to another machine.
    pub fn with(mut self, access: Access) -> Result<Self, FleetError> {
        if !self.tls && (access.ca.is_some() || access.certificate.is_some() || access.key.is_some()) {
            return Err(FleetError::request(format!(
                "{self} speaks no TLS, so certificates mean nothing; write grpcs://"
            )));
        }
        if !self.tls && access.token.is_some() && !is_this_machine(self.host()) {
            return Err(FleetError::request(format!(
                "{self} speaks no TLS, so anyone on the way could read the token; write grpcs://"
            )));
        }
        self.access = access;
        Ok(self)
    }

    /// The host, without brackets and port.
    #[must_use]
    pub fn host(&self) -> &str {
        let host = self.server.rsplit_once(':').map_or(self.server.as_str(), |(host, _)| host);
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// True when both are the same server, reached in the same way.
    #[must_use]
    pub fn is_same_server(&self, other: &Self) -> bool {
        self.tls == other.tls && self.server == other.server
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grpc{}://{}/{}", if self.tls { "s" } else { "" }, self.server, self.instance)
    }
}

/// True for loopback addresses and `localhost`.
fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_part_by_part() {
        for (text, plain, want) in [
            ("grpc://127.0.0.1:50051/main", false, Ok(("127.0.0.1:50051", "main"))),
            ("grpc://127.0.0.1:50051", false, Ok(("127.0.0.1:50051", ""))),
            ("grpc://[::1]:80/a/b/", false, Ok(("[::1]:80", "a/b"))),
            ("grpc://localhost:1/x", false, Ok(("localhost:1", "x"))),
            ("grpc://farm.example:1/x", true, Ok(("farm.example:1", "x"))),
            ("grpc://farm.example:1/x", false, Err("‹plain_grpc›")),
            ("grpc://127.0.0.1.example:1/x", false, Err("‹plain_grpc›")),
            ("grpcs://farm.example:8980/main", false, Ok(("farm.example:8980", "main"))),
            ("http://127.0.0.1:1/x", true, Err("scheme")),
            ("127.0.0.1:1", true, Err("not the address")),
            ("grpc://127.0.0.1/x", true, Err("no port")),
            ("grpc://127.0.0.1:0/x", true, Err("port")),
            ("grpc://127.0.0.1:99999/x", true, Err("port")),
            ("grpc://:1/x", true, Err("host")),
            ("grpc://::1:1/x", true, Err("host")),
            ("grpc://u@127.0.0.1:1/x", true, Err("character")),
            ("grpc://127.0.0.1:1/x?y", true, Err("character")),
            ("grpc://127.0.0.1:1/a//b", true, Err("instance")),
            ("grpc://127.0.0.1:1/a/blobs", true, Err("instance")),
        ] {
            match (Address::parse(text, plain), want) {
                (Ok(is), Ok((server, instance))) => {
                    assert_eq!((is.server.as_str(), is.instance.as_str()), (server, instance), "{text}");
                }
                (Err(is), Err(why)) => assert!(is.message.contains(why), "{text}: {is}"),
                (is, _) => panic!("{text}: {is:?}"),
            }
        }
    }

    #[test]
    fn credentials_are_not_sent_in_the_clear() {
        let token = || Access { token: Some("env:T".parse().unwrap()), ..Access::default() };
        let ca = || Access { ca: Some("/ca.pem".into()), ..Access::default() };
        for (text, access, good) in [
            ("grpcs://farm.example:1/x", token(), true),
            ("grpc://127.0.0.1:1/x", token(), true),
            ("grpc://[::1]:1/x", token(), true),
            ("grpc://farm.example:1/x", token(), false),
            ("grpcs://farm.example:1/x", ca(), true),
            ("grpc://127.0.0.1:1/x", ca(), false),
        ] {
            assert_eq!(Address::parse(text, true).unwrap().with(access).is_ok(), good, "{text}");
        }
        let at = |text| Address::parse(text, true).unwrap();
        assert!(at("grpcs://a:1/x").is_same_server(&at("grpcs://a:1/y")));
        assert!(!at("grpcs://a:1/x").is_same_server(&at("grpc://a:1/x")));
        assert!(!at("grpcs://a:1/x").is_same_server(&at("grpcs://a:2/x")));
    }
}
