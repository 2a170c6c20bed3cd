//! Parses DNS questions, and writes the few kinds of answers that the stub gives. Pure; RFC 1035 and 2308.
//!
//! A name that a rule allows is answered with its checked addresses, any other name without addresses. There
//! is no other kind of answer, so a program cannot send data out by asking for names.

use std::net::IpAddr;

use crate::host::{Host, HostError};

/// Maximum size of a message in bytes; questions are much shorter.
pub const MAX_MESSAGE_BYTES: usize = 512;
/// Maximum number of addresses in an answer, which fits into 512 bytes even with a name of 253 bytes.
const MAX_ADDRESSES: usize = 8;

const HEADER_LEN: usize = 12;
const A: u16 = 1;
const AAAA: u16 = 28;
const HTTPS: u16 = 65;
const INTERNET: u16 = 1;

/// A parsed question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// The name. An invalid name is judged when the question is answered.
    pub name: Result<Host, HostError>,
    /// Record type.
    pub kind: Kind,
    message: &'a [u8],
    end: usize,
}

/// Record type of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// IPv4 addresses (A).
    V4,
    /// IPv6 addresses (AAAA).
    V6,
    /// HTTPS service parameters, which no name has here.
    Hints,
    /// Any other record type, with its number.
    Other(u16),
}

/// Answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// These addresses, those of the requested version only.
    Addresses(&'a [IpAddr]),
    /// The name does not exist (NXDOMAIN).
    NoName,
    /// The question is refused (REFUSED).
    Refused,
    /// The name could not be looked up (SERVFAIL).
    Failed,
}

/// Parses a question; `None` for an invalid message, which gets no answer.
#[must_use]
pub fn question(message: &[u8]) -> Option<Question<'_>> {
    let head: &[u8; HEADER_LEN] = message.first_chunk()?;
    let count = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    const RESPONSE_OR_OPCODE: u8 = 0b1111_1000;
    // One question, and no records except those of protocol extensions (EDNS).
    let plain = head[2] & RESPONSE_OR_OPCODE == 0 && count(4) == 1 && count(6) == 0 && count(8) == 0;
    if !plain || message.len() > MAX_MESSAGE_BYTES {
        return None;
    }
    let mut text = Vec::new();
    let mut at = HEADER_LEN;
    loop {
        let length = usize::from(*message.get(at)?);
        if length > 63 {
            return None; // a pointer, or an undefined kind of label
        }
        at += 1;
        if length == 0 {
            break;
        }
        let label = message.get(at..at + length)?;
        // A dot inside a label would split it in two.
        text.extend(label.iter().map(|b| if *b == b'.' { 0 } else { *b }));
        text.push(b'.');
        at += length;
    }
    let rest: &[u8; 4] = message.get(at..)?.first_chunk()?;
    let kind = match (u16::from_be_bytes([rest[0], rest[1]]), u16::from_be_bytes([rest[2], rest[3]])) {
        (A, INTERNET) => Kind::V4,
        (AAAA, INTERNET) => Kind::V6,
        (HTTPS, INTERNET) => Kind::Hints,
        (kind, _) => Kind::Other(kind),
    };
    text.pop();
    Some(Question { name: Host::parse(&text), kind, message, end: at + 4 })
}

impl Question<'_> {
    /// Encodes an answer, with a time to live of 0 so that it is not cached.
    #[must_use]
    pub fn answer(&self, answer: Answer<'_>) -> Vec<u8> {
        let (code, addresses) = match answer {
            Answer::Addresses(addresses) => (0, addresses),
            Answer::Failed => (2, &[][..]),
            Answer::NoName => (3, &[][..]),
            Answer::Refused => (5, &[][..]),
        };
        let fits =
            |a: &&IpAddr| matches!((self.kind, a), (Kind::V4, IpAddr::V4(_)) | (Kind::V6, IpAddr::V6(_)));
        let addresses: Vec<&IpAddr> = addresses.iter().filter(fits).take(MAX_ADDRESSES).collect();
        let count = u8::try_from(addresses.len()).unwrap_or(0);
        let mut bytes = self.message[..self.end].to_vec();
        const RECURSION_DESIRED: u8 = 1;
        bytes[2] = 0x80 | bytes[2] & RECURSION_DESIRED;
        bytes[3] = 0x80 | code;
        bytes[6..HEADER_LEN].copy_from_slice(&[0, count, 0, 0, 0, 0]);
        for address in addresses {
            let (kind, octets) = match address {
                IpAddr::V4(v4) => (A, v4.octets().to_vec()),
                IpAddr::V6(v6) => (AAAA, v6.octets().to_vec()),
            };
            const NAME_OF_QUESTION: [u8; 2] = [0xc0, 12];
            bytes.extend(NAME_OF_QUESTION);
            bytes.extend(kind.to_be_bytes());
            bytes.extend(INTERNET.to_be_bytes());
            bytes.extend([0; 4]);
            bytes.extend([0, u8::try_from(octets.len()).unwrap_or(0)]);
            bytes.extend(octets);
        }
        bytes
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn ask(name: &[&[u8]], kind: u16) -> Vec<u8> {
        let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(*label);
        }
        bytes.push(0);
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1]);
        bytes
    }

    #[test]
    fn questions() {
        for (message, name, kind) in [
            (ask(&[b"A", b"com"], 1), Some("a.com"), Kind::V4),
            (ask(&[b"a", b"com"], 28), Some("a.com"), Kind::V6),
            (ask(&[b"a", b"com"], 16), Some("a.com"), Kind::Other(16)),
            (ask(&[b"a", b"com"], 255), Some("a.com"), Kind::Other(255)),
            (ask(&[b"a", b"com"], 65), Some("a.com"), Kind::Hints),
            (ask(&[b"a.com", b"evil"], 1), None, Kind::V4),
            (ask(&[b"a\0", b"com"], 1), None, Kind::V4),
            (ask(&[], 1), None, Kind::V4),
        ] {
            let question = question(&message).unwrap();
            assert_eq!(question.name.as_ref().ok().map(ToString::to_string).as_deref(), name);
            assert_eq!(question.kind, kind);
        }
        let good = ask(&[b"a", b"com"], 1);
        for (at, value) in [(2, 0x81), (2, 0x29), (5, 2), (7, 1), (9, 1), (12, 0xc0)] {
            let mut message = good.clone();
            message[at] = value;
            assert_eq!(question(&message), None, "{at} {value}");
        }
        assert!((0..good.len()).all(|cut| question(&good[..cut]).is_none()));
        assert_eq!(question(&[&good[..], &[0; 512]].concat()), None);
    }

    #[test]
    fn answers() {
        let message = ask(&[b"a", b"com"], 1);
        let question = question(&message).unwrap();
        let addresses = ["1.2.3.4".parse().unwrap(), "2606::1".parse().unwrap()];
        let answer = question.answer(Answer::Addresses(&addresses));
        assert_eq!(answer[..8], [0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1]);
        assert_eq!(answer[message.len()..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4]);
        assert_eq!(question.answer(Answer::NoName)[3], 0x83);
        assert_eq!(question.answer(Answer::Refused)[3], 0x85);
        let many = vec![addresses[1]; 40];
        let label = [b'x'; 63];
        let long = ask(&[&label, &label, &label, &label[..59]], 28);
        assert!(super::question(&long).unwrap().answer(Answer::Addresses(&many)).len() <= MAX_MESSAGE_BYTES);
    }

    proptest! {
        #[test]
        fn arbitrary_dns_bytes_cause_no_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(question) = question(&bytes) {
                let _ = question.answer(Answer::Addresses(&["1.2.3.4".parse().unwrap()]));
            }
            if bytes.len() > 12 {
                bytes[2..12].copy_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
                let _ = question(&bytes).map(|q| q.answer(Answer::NoName));
            }
        }
    }
}
