//! Host names as programs spell them: parsed strictly, and normalised to one spelling. Pure.
//!
//! Ambiguous spellings are rejected, not repaired: percent encodings, user information, other alphabets, NUL,
//! and IPv4 addresses in octal, hexadecimal or with fewer than four numbers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host: a name in lower case without a trailing dot, or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name of letters, digits, `-`, `_` and `.`.
    Name(String),
    /// An address; written forms of IPv6 addresses have brackets.
    Address(IpAddr),
}

/// Reason why a text is not a valid host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The text is empty.
    #[error("there is no host")]
    Empty,
    /// The name has more than 253 bytes, or a label more than 63.
    #[error("a host name has at most 253 bytes, and 63 between its dots")]
    Long,
    /// The name has an empty label, or a label with a hyphen at its start or end.
    #[error("{0:?} is no host name: a part between its dots is empty or begins or ends with a hyphen")]
    Label(String),
    /// The name has a character that no host name has.
    #[error(
        "{0:?} is no host name: it has more than letters, digits, hyphens and dots (another alphabet is written in its xn-- form)"
    )]
    Character(String),
    /// The text behind the colon is not a port.
    #[error("{0:?} has no port behind its colon: a port is a number from 1 to 65535")]
    Port(String),
    /// The name ends like an IPv4 address, but is not a valid one.
    #[error("{0:?} is no address: an IPv4 address is four decimal numbers without leading zeros")]
    Numeric(String),
    /// The text between brackets is not an IPv6 address.
    #[error("{0:?} is no IPv6 address")]
    V6(String),
}

const MAX_NAME_LEN: usize = 253;
const MAX_LABEL_LEN: usize = 63;

impl Host {
    /// Parses a host.
    ///
    /// ```
    /// use hotcell_egress::Host;
    /// assert_eq!(Host::parse(b"PyPI.org.").unwrap(), Host::parse(b"pypi.org").unwrap());
    /// assert!(Host::parse(b"0x7f.1").is_err());
    /// ```
    ///
    /// # Errors
    /// [`HostError`] for any text that two parsers could interpret differently.
    pub fn parse(text: &[u8]) -> Result<Self, HostError> {
        let said = || String::from_utf8_lossy(&text[..text.len().min(MAX_NAME_LEN)]).into_owned();
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.len() > MAX_NAME_LEN + 1 {
            return Err(HostError::Long);
        }
        if let Some(rest) = text.strip_prefix(b"[") {
            let inner = rest.strip_suffix(b"]").and_then(|inner| std::str::from_utf8(inner).ok());
            // A zone (%eth0) names an interface of the host; std rejects it as well.
            let address = inner.and_then(|inner| inner.parse::<Ipv6Addr>().ok());
            return address.map(|a| Self::Address(a.into())).ok_or_else(|| HostError::V6(said()));
        }
        let text = text.strip_suffix(b".").unwrap_or(text);
        if !text.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
            return Err(HostError::Character(said()));
        }
        let name = std::str::from_utf8(text).map_err(|_| HostError::Character(said()))?.to_ascii_lowercase();
        let last = name.rsplit('.').next().unwrap_or_default();
        // By the URL standard, a name whose last label is a number is an IPv4 address.
        let hexadecimal = last.strip_prefix("0x").is_some_and(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        if !last.is_empty() && (last.bytes().all(|b| b.is_ascii_digit()) || hexadecimal) {
            let address = name.parse::<Ipv4Addr>();
            return address.map(|a| Self::Address(a.into())).map_err(|_| HostError::Numeric(said()));
        }
        for label in name.split('.') {
            if label.is_empty() || label.starts_with('-') || label.ends_with('-') {
                return Err(HostError::Label(said()));
            }
            if label.len() > MAX_LABEL_LEN {
                return Err(HostError::Long);
            }
        }
        if name.len() > MAX_NAME_LEN { Err(HostError::Long) } else { Ok(Self::Name(name)) }
    }

    /// Parses `HOST` or `HOST:PORT`.
    ///
    /// # Errors
    /// [`HostError`], also for a port that is not a decimal number from 1 to 65535.
    pub fn parse_with_port(text: &[u8]) -> Result<(Self, Option<u16>), HostError> {
        // The colons of an IPv6 address are inside brackets.
        let after = text.iter().rposition(|b| *b == b']').map_or(0, |at| at + 1);
        let Some(colon) = text[after..].iter().position(|b| *b == b':').map(|at| after + at) else {
            return Ok((Self::parse(text)?, None));
        };
        let port = parse_port(&text[colon + 1..]);
        let port = port.ok_or_else(|| HostError::Port(String::from_utf8_lossy(text).into_owned()))?;
        Ok((Self::parse(&text[..colon])?, Some(port)))
    }
}

/// Parses a port: a decimal number from 1 to 65535, without sign or leading zeros.
pub(crate) fn parse_port(text: &[u8]) -> Option<u16> {
    if text.first()? == &b'0' || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(v4)) => v4.fmt(f),
            Self::Address(IpAddr::V6(v6)) => write!(f, "[{v6}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn host_spellings_are_normalised() {
        for (text, want) in [
            ("a.com", Some("a.com")),
            ("A.Com.", Some("a.com")),
            ("xn--bcher-kva.example", Some("xn--bcher-kva.example")),
            ("_dmarc.a.com", Some("_dmarc.a.com")),
            ("localhost", Some("localhost")),
            ("93.184.216.34", Some("93.184.216.34")),
            ("93.184.216.34.", Some("93.184.216.34")),
            ("[2606:4700:0:0::1111]", Some("[2606:4700::1111]")),
            ("[::ffff:1.2.3.4]", Some("[::ffff:1.2.3.4]")),
            ("3com.com", Some("3com.com")),
            ("", None),
            (".", None),
            ("a..com", None),
            (".a.com", None),
            ("a.com..", None),
            ("-a.com", None),
            ("a-.com", None),
            ("user@a.com", None),
            ("a.com@evil.com", None),
            ("a%2ecom", None),
            ("a.com\0.evil.com", None),
            ("a.com/", None),
            ("a com", None),
            ("a\tb", None),
            ("bücher.example", None),
            ("ａ.com", None),
            ("127.1", None),
            ("2130706433", None),
            ("0x7f000001", None),
            ("0x7f.0.0.0x1", None),
            ("0177.0.0.1", None),
            ("127.0.0.01", None),
            ("1.2.3.4.5", None),
            ("256.1.1.1", None),
            ("a.1", None),
            ("a.0x1f", None),
            ("0x", None),
            ("::1", None),
            ("[::1", None),
            ("[fe80::1%eth0]", None),
            ("[1.2.3.4]", None),
        ] {
            let got = Host::parse(text.as_bytes()).ok().map(|h| h.to_string());
            assert_eq!(got.as_deref(), want, "{text:?}");
        }
        let label = "a".repeat(64);
        assert_eq!(Host::parse(format!("{label}.com").as_bytes()), Err(HostError::Long));
        assert!(Host::parse(format!("{}.com", &label[1..]).as_bytes()).is_ok());
        assert_eq!(Host::parse("a.".repeat(127).as_bytes()).map(|h| h.to_string().len()), Ok(253));
        assert_eq!(Host::parse("a.".repeat(128).as_bytes()), Err(HostError::Long));
    }

    #[test]
    fn ports_are_plain_numbers() {
        for (text, want) in [
            ("a.com:443", Some(("a.com", Some(443)))),
            ("a.com", Some(("a.com", None))),
            ("[::1]:65535", Some(("[::1]", Some(65535)))),
            ("[::1]", Some(("[::1]", None))),
            ("a.com:", None),
            ("a.com:0", None),
            ("a.com:0443", None),
            ("a.com:+443", None),
            ("a.com:65536", None),
            ("a.com:443:443", None),
            ("a.com:4 3", None),
            ("::1:443", None),
            ("[::1]x:1", None),
        ] {
            let got = Host::parse_with_port(text.as_bytes()).ok().map(|(h, p)| (h.to_string(), p));
            assert_eq!(got, want.map(|(h, p)| (h.to_owned(), p)), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn host_display_round_trips(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(host) = Host::parse(&bytes) {
                prop_assert_eq!(Host::parse(host.to_string().as_bytes()), Ok(host));
            }
            let _ = Host::parse_with_port(&bytes);
        }

        #[test]
        fn host_name_display_round_trips(text in "[a-zA-Z0-9_.-]{1,24}") {
            if let Ok(host) = Host::parse(text.as_bytes()) {
                prop_assert_eq!(Host::parse(host.to_string().as_bytes()), Ok(host));
            }
        }
    }
}
