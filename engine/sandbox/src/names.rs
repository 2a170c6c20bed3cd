//! Names that a sandbox without a network asks for: each is answered as one that does not exist, and told.
//!
//! The sandbox's loopback has one socket, at the address of the name server in its `/etc/resolv.conf`. hotcell looks
//! nothing up, so no data leaves by it; the names are the program's own words, and serve the report only.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

use nix::sys::socket::{MsgFlags, SockaddrStorage, recvfrom, sendto};
use tokio::time::sleep_until;

use crate::deferred_fd::DeferredFd;
use crate::denials::{Denials, WAKE_COST, processor_time};
use crate::outcome::Denial;
use crate::pace::Pace;

/// Maximum number of questions answered before other work gets a turn.
const BATCH: usize = 64;
/// Maximum length of a question in bytes; names have 255 at most. RFC 1035
const MAX_QUESTION_LEN: usize = 512;
const HEADER_LEN: usize = 12;

/// The socket of one run, and what was asked there.
pub struct Asked {
    socket: DeferredFd,
    pace: Pace,
    told: Denials,
}

impl Asked {
    /// Listens to the socket of a run whose job was sent at `released` and that may use `cpus` processors
    /// (`None`: all).
    pub fn new(socket: OwnedFd, released: Instant, cpus: Option<f64>) -> Self {
        Self {
            socket: DeferredFd::new(socket, released),
            pace: Pace::new(cpus, released),
            told: Denials::default(),
        }
    }

    /// The rows, in order of first appearance.
    pub fn into_rows(self) -> Vec<Denial> {
        self.told.into_rows()
    }

    fn answer_batch(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            let mut buffer = [0u8; MAX_QUESTION_LEN + 1];
            let received =
                self.socket.take(|fd| Ok(recvfrom::<SockaddrStorage>(fd.as_raw_fd(), &mut buffer)?));
            let (length, from) = match received {
                Ok(received) => received,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            };
            let reply = buffer.get(..length).filter(|_| length <= MAX_QUESTION_LEN).and_then(no_such_name);
            if let (Some((name, reply)), Some(from), Some(fd)) = (reply, from, self.socket.fd()) {
                self.told.add("network", "dns", name, "there is no network");
                let _ = sendto(fd.as_raw_fd(), &reply, &from, MsgFlags::MSG_DONTWAIT);
            }
        }
        Ok(())
    }
}

/// Answers questions that wait, at most one batch, at the run's [pace](Pace); false when the socket cannot be read. Without a
/// socket the future never completes. Cancel safe.
pub async fn answer(asked: Option<&mut Asked>) -> bool {
    let Some(asked) = asked else { return std::future::pending().await };
    if let Some(next) = asked.pace.next(Instant::now()) {
        sleep_until(next.into()).await;
    }
    if asked.socket.ready().await.is_err() {
        return false;
    }
    let began = processor_time();
    let answered = asked.answer_batch();
    asked.pace.spend(processor_time().saturating_sub(began) + WAKE_COST, Instant::now());
    answered.is_ok()
}

/// Name of a question, and the reply that no such name exists (NXDOMAIN); `None` for another message.
fn no_such_name(message: &[u8]) -> Option<(String, Vec<u8>)> {
    const RESPONSE_OR_OPCODE: u8 = 0b1111_1000;
    const RECURSION_DESIRED: u8 = 1;
    let head: &[u8; HEADER_LEN] = message.first_chunk()?;
    if head[2] & RESPONSE_OR_OPCODE != 0 || head[4..6] != [0, 1] {
        return None;
    }
    let (mut name, mut at) = (String::new(), HEADER_LEN);
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        // Longer: a pointer, or an undefined kind of label.
        let label = message.get(at..at + length).filter(|_| length < 64)?;
        name.extend(
            label.iter().map(|b| if b.is_ascii_graphic() && *b != b'.' { char::from(*b) } else { '?' }),
        );
        name.push('.');
        at += length;
    }
    name.pop();
    let mut reply = message.get(..at + 4)?.to_vec();
    reply[2] = 0x80 | head[2] & RECURSION_DESIRED;
    reply[3] = 0x83;
    reply[6..HEADER_LEN].fill(0);
    Some((name, reply))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn question(name: &[u8]) -> Vec<u8> {
        [b"\x12\x34\x01\x20\0\x01\0\0\0\0\0\x01", name, b"\0\0\x1c\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0"]
            .concat()
    }

    #[test]
    fn dns_question_is_reported_as_unknown_name() {
        for (name, want) in [
            (&b"\x04pypi\x03org"[..], Some("pypi.org")),
            (b"", Some("")),
            (b"\x03a.b\x02\x1b\xff", Some("a?b.??")),
            (b"\xc0\x0c", None),
            (b"\x40", None),
            (b"\x3fshort", None),
        ] {
            let got = no_such_name(&question(name));
            assert_eq!(got.as_ref().map(|(name, _)| name.as_str()), want, "{name:?}");
            let Some((_, reply)) = got else { continue };
            let rest = [name, b"\0\0\x1c\0\x01"].concat();
            assert_eq!(reply, [b"\x12\x34\x81\x83\0\x01\0\0\0\0\0\0", rest.as_slice()].concat());
        }
        for (at, byte) in [(2, 0x81), (2, 0x28), (5, 2), (5, 0)] {
            let mut other = question(b"\x01a");
            other[at] = byte;
            assert_eq!(no_such_name(&other), None, "{at} {byte}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_dns_bytes_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = no_such_name(&bytes);
        }
    }
}
