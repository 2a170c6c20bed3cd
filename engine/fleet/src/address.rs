//! Address of a farm: `grpc://HOST:PORT[/INSTANCE]`. Pure.

use std::fmt;
use std::net::IpAddr;

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
                "{text:?} {why}; write grpc://HOST:PORT/INSTANCE, such as grpc://127.0.0.1:50051/main"
            ))
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad("is not the address of a farm"))?;
        match scheme {
            "grpc" => {}
            "grpcs" => {
                return Err(bad("asks for TLS, which this version of hotcell does not speak to farms"));
            }
            _ => return Err(bad("has a scheme that is not grpc")),
        }
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
        if !plain && !is_this_machine(bare) {
            return Err(FleetError::request(format!(
                "{bare} is another machine, and grpc:// sends everything unencrypted; say ‹plain_grpc› if the network between is yours"
            )));
        }
        Ok(Self { server: server.to_owned(), instance: instance.to_owned() })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grpc://{}/{}", self.server, self.instance)
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
            ("grpcs://127.0.0.1:1/x", true, Err("TLS")),
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
}
