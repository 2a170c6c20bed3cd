//! The supported part of SOCKS 5: no authentication, CONNECT only. Pure; RFC 1928.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::host::{Host, HostError};

/// Version, the first byte of a greeting.
pub const VERSION: u8 = 5;
/// Response to a greeting: no authentication.
pub const WELCOME: [u8; 2] = [VERSION, 0];
/// Response to a greeting that offers no supported method.
pub const NO_METHOD: [u8; 2] = [VERSION, 0xff];

/// Error in a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// The message is not SOCKS 5.
    #[error("it is no SOCKS 5")]
    Malformed,
    /// Only authenticated methods are offered.
    #[error("it offers no way without a password")]
    Method,
    /// The command is BIND or UDP ASSOCIATE, which are not supported.
    #[error("only CONNECT is possible")]
    Command,
    /// The host is not valid.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The port is 0.
    #[error("there is no port 0")]
    Port,
}

/// Parses a greeting. Returns its length, or `None` when more bytes are needed.
///
/// # Errors
/// [`Wrong::Malformed`] when the data is not SOCKS 5; [`Wrong::Method`] when no supported method is offered.
pub fn greeting(bytes: &[u8]) -> Result<Option<usize>, Wrong> {
    let Some((&[version, count], rest)) = bytes.split_first_chunk() else { return Ok(None) };
    if version != VERSION || count == 0 {
        return Err(Wrong::Malformed);
    }
    let Some(methods) = rest.get(..usize::from(count)) else { return Ok(None) };
    if methods.contains(&0) { Ok(Some(2 + methods.len())) } else { Err(Wrong::Method) }
}

/// Parses a request. Returns host, port and length, or `None` when more bytes are needed.
///
/// # Errors
/// [`Wrong`] when the request is malformed, has an unsupported command, or an invalid host or port.
pub fn request(bytes: &[u8]) -> Result<Option<(Host, u16, usize)>, Wrong> {
    const CONNECT: u8 = 1;
    let Some((&[version, command, reserved, kind], rest)) = bytes.split_first_chunk() else {
        return Ok(None);
    };
    if version != VERSION || reserved != 0 {
        return Err(Wrong::Malformed);
    }
    if command != CONNECT {
        return Err(Wrong::Command);
    }
    let (skip, length) = match kind {
        1 => (0, 4),
        3 => match rest.first() {
            Some(length) => (1, usize::from(*length)),
            None => return Ok(None),
        },
        4 => (0, 16),
        _ => return Err(Wrong::Malformed),
    };
    let Some(host) = rest.get(skip..skip + length) else { return Ok(None) };
    let Some(port) = rest.get(skip + length..skip + length + 2) else { return Ok(None) };
    let host = match kind {
        1 => Host::Address(Ipv4Addr::from(<[u8; 4]>::try_from(host).map_err(|_| Wrong::Malformed)?).into()),
        4 => Host::Address(Ipv6Addr::from(<[u8; 16]>::try_from(host).map_err(|_| Wrong::Malformed)?).into()),
        // Some clients send an address as a name, without the brackets that the parser expects.
        _ if host.contains(&b':') => Host::parse(&[b"[", host, b"]"].concat())?,
        _ => Host::parse(host)?,
    };
    match u16::from_be_bytes([port[0], port[1]]) {
        0 => Err(Wrong::Port),
        port => Ok(Some((host, port, 4 + skip + length + 2))),
    }
}

/// Replies to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // named as in the protocol
pub enum Reply {
    Connected = 0,
    NotAllowed = 2,
    HostUnreachable = 4,
    CommandNotSupported = 7,
    AddressNotSupported = 8,
}

impl Reply {
    /// Encodes the reply. The address in it is all zero, since clients do not need it.
    #[must_use]
    pub const fn bytes(self) -> [u8; 10] {
        [VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(host: &[u8], port: u16) -> Vec<u8> {
        [&[5, 1, 0, 3, u8::try_from(host.len()).unwrap()][..], host, &port.to_be_bytes()].concat()
    }

    #[test]
    fn greetings_and_requests() {
        assert_eq!(greeting(&[5, 2, 2, 0]), Ok(Some(4)));
        assert_eq!(greeting(&[5, 2, 2]), Ok(None));
        assert_eq!(greeting(&[5, 1, 2]), Err(Wrong::Method));
        assert_eq!(greeting(&[4, 1, 0]), Err(Wrong::Malformed));
        assert_eq!(greeting(&[5, 0]), Err(Wrong::Malformed));
        for (bytes, want) in [
            (name(b"A.com", 443), Ok(Some(("a.com", 443)))),
            (name(b"1.2.3.4", 80), Ok(Some(("1.2.3.4", 80)))),
            (name(b"::1", 80), Ok(Some(("[::1]", 80)))),
            (name(b"a.com\0.evil", 80), Err(())),
            (name(b"", 80), Err(())),
            (name(b"a.com", 0), Err(())),
            (vec![5, 1, 0, 1, 127, 0, 0, 1, 0, 80], Ok(Some(("127.0.0.1", 80)))),
            (vec![5, 2, 0, 1, 127, 0, 0, 1, 0, 80], Err(())),
            (vec![5, 3, 0, 1, 0, 0, 0, 0, 0, 0], Err(())),
            (vec![5, 1, 0, 9], Err(())),
            (vec![5, 1, 0, 1, 127, 0], Ok(None)),
        ] {
            let got = request(&bytes).map(|r| {
                r.map(|(host, port, used)| {
                    assert_eq!(used, bytes.len());
                    (host.to_string(), port)
                })
            });
            assert_eq!(got.map_err(drop), want.map(|w| w.map(|(h, p)| (h.to_owned(), p))), "{bytes:?}");
        }
        let whole = name(b"a.com", 443);
        assert!((0..whole.len()).all(|cut| request(&whole[..cut]) == Ok(None)));
    }

    proptest! {
        #[test]
        fn arbitrary_socks_bytes_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = greeting(&bytes);
            let _ = request(&bytes);
            let _ = request(&[&[5, 1, 0, 3], &bytes[..]].concat());
        }
    }
}
