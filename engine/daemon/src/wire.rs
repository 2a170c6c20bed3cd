//! The messages between client and server. Each is one packet: a letter, followed by its contents.
//!
//! Messages are short: a policy or an outcome is sent along as a sealed memfd.

/// Maximum length of a message in bytes; longer ones are invalid.
pub const MAX_MESSAGE_BYTES: usize = 32 * 1024;
/// Maximum length of a client's message in bytes.
pub const MAX_ASK_BYTES: usize = 64;

/// Length of a proof in bytes.
pub const PROOF_LEN: usize = 32;

/// Error for bytes that are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {0} bytes that is none")]
pub struct NoMessage(pub usize);

/// Message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Run the policy in the memfd sent along. Contains the secret that only a process that may inspect the
    /// server can read.
    Run([u8; PROOF_LEN]),
    /// Take the stream socket sent along for what the service offers beside runs. Contains the secret, as [`Ask::Run`].
    Attach([u8; PROOF_LEN]),
    /// Report on the run from now on, optionally with its output and events.
    Follow {
        /// Send standard output and error.
        output: bool,
        /// Send its events.
        events: bool,
    },
    /// End the run.
    Cancel,
    /// Send the server's status.
    Status,
    /// End the server.
    Stop,
}

/// Message of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell<'a> {
    /// Greeting: the protocol version, then a [`Hello`](super::Hello) as JSON.
    Hello(u32, &'a [u8]),
    /// Nothing was run; with the reason.
    No(&'a str),
    /// The program may have run, but is no longer followed; with the reason.
    Lost(&'a str),
    /// The program is running. The writing end of its standard input may be sent along.
    Started,
    /// Data on standard output.
    Stdout(&'a [u8]),
    /// Data on standard error.
    Stderr(&'a [u8]),
    /// Data on the descriptor for events.
    Events(&'a [u8]),
    /// The run has ended. The outcome is sent along as a memfd, then the descriptors listed here.
    End(Left),
    /// A [`Status`](super::Status) as JSON.
    Status(&'a [u8]),
    /// The server is ending.
    Stopping,
}

/// Descriptors that are sent at the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The home folder.
    pub home: bool,
    /// The changes of the workspace.
    pub changed: bool,
    /// The changes are the whole workspace.
    pub whole: bool,
    /// Process 1 of the sandbox, which may still be alive.
    pub init: bool,
}

impl Left {
    const BITS: [u8; 4] = [1, 2, 4, 8];

    fn encode(self) -> u8 {
        let all = [self.home, self.changed, self.whole, self.init];
        all.into_iter().zip(Self::BITS).map(|(is, bit)| if is { bit } else { 0 }).sum()
    }

    fn decode(byte: u8) -> Option<Self> {
        let [home, changed, whole, init] = Self::BITS.map(|bit| byte & bit != 0);
        // The flags about changes are only valid together with changes.
        let sound = byte < 16 && (changed || !(whole || init));
        sound.then_some(Self { home, changed, whole, init })
    }

    /// Number of descriptors, including the outcome's.
    #[must_use]
    pub fn descriptors(self) -> usize {
        1 + usize::from(self.home) + usize::from(self.changed) + usize::from(self.init)
    }
}

impl Ask {
    /// Encodes the flags.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        match self {
            Self::Run(proof) => [&b"R"[..], &proof].concat(),
            Self::Attach(proof) => [&b"A"[..], &proof].concat(),
            Self::Follow { output, events } => vec![b'F', u8::from(output), u8::from(events)],
            Self::Cancel => vec![b'C'],
            Self::Status => vec![b'I'],
            Self::Stop => vec![b'X'],
        }
    }

    /// Decodes flags from untrusted bytes.
    ///
    /// # Errors
    /// [`NoMessage`] when the bytes are not a valid message.
    pub fn decode(bytes: &[u8]) -> Result<Self, NoMessage> {
        Ok(match bytes {
            [b'R', proof @ ..] => Self::Run(proof.try_into().map_err(|_| NoMessage(bytes.len()))?),
            [b'A', proof @ ..] => Self::Attach(proof.try_into().map_err(|_| NoMessage(bytes.len()))?),
            [b'F', output @ (0 | 1), events @ (0 | 1)] => {
                Self::Follow { output: *output == 1, events: *events == 1 }
            }
            b"C" => Self::Cancel,
            b"I" => Self::Status,
            b"X" => Self::Stop,
            _ => return Err(NoMessage(bytes.len())),
        })
    }
}

impl<'a> Tell<'a> {
    /// Encodes the message.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        let with = |letter: u8, rest: &[u8]| [&[letter], rest].concat();
        match self {
            Self::Hello(protocol, json) => [&b"H"[..], &protocol.to_le_bytes(), json].concat(),
            Self::No(why) => with(b'N', why.as_bytes()),
            Self::Lost(why) => with(b'L', why.as_bytes()),
            Self::Started => vec![b'S'],
            Self::Stdout(bytes) => with(b'1', bytes),
            Self::Stderr(bytes) => with(b'2', bytes),
            Self::Events(bytes) => with(b'3', bytes),
            Self::End(left) => vec![b'E', left.encode()],
            Self::Status(json) => with(b'I', json),
            Self::Stopping => vec![b'X'],
        }
    }

    /// Decodes a message from untrusted bytes.
    ///
    /// # Errors
    /// [`NoMessage`] when the bytes are not a valid message.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, NoMessage> {
        let bad = NoMessage(bytes.len());
        let (letter, rest) = bytes.split_first().filter(|_| bytes.len() <= MAX_MESSAGE_BYTES).ok_or(bad)?;
        Ok(match (letter, rest) {
            (b'H', rest) => {
                let (protocol, json) = rest.split_first_chunk().ok_or(bad)?;
                Self::Hello(u32::from_le_bytes(*protocol), json)
            }
            (b'N', why) => Self::No(std::str::from_utf8(why).map_err(|_| bad)?),
            (b'L', why) => Self::Lost(std::str::from_utf8(why).map_err(|_| bad)?),
            (b'S', []) => Self::Started,
            (b'1', bytes) => Self::Stdout(bytes),
            (b'2', bytes) => Self::Stderr(bytes),
            (b'3', bytes) => Self::Events(bytes),
            (b'E', [left]) => Self::End(Left::decode(*left).ok_or(bad)?),
            (b'I', json) => Self::Status(json),
            (b'X', []) => Self::Stopping,
            _ => return Err(bad),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_round_trip() {
        for ask in [
            Ask::Run([7; PROOF_LEN]),
            Ask::Attach([8; PROOF_LEN]),
            Ask::Follow { output: true, events: false },
            Ask::Follow { output: false, events: true },
            Ask::Cancel,
            Ask::Status,
            Ask::Stop,
        ] {
            assert_eq!(Ask::decode(&ask.encode()), Ok(ask));
            assert!(ask.encode().len() <= MAX_ASK_BYTES);
        }
        let left = Left { home: true, changed: true, whole: false, init: true };
        assert_eq!(left.descriptors(), 4);
        for tell in [
            Tell::Hello(7, b"{}"),
            Tell::No("busy"),
            Tell::Lost("gone"),
            Tell::Started,
            Tell::Stdout(b"\0\xff"),
            Tell::Stderr(b""),
            Tell::Events(b"e"),
            Tell::End(left),
            Tell::Status(b"{}"),
            Tell::Stopping,
        ] {
            assert_eq!(Tell::decode(&tell.encode()), Ok(tell));
        }
    }

    #[test]
    fn malformed_messages_are_refused() {
        for bytes in [
            &b""[..],
            b"Z",
            b"R",
            b"RR",
            &[b'R'; PROOF_LEN],
            &[b'R'; PROOF_LEN + 2],
            b"F",
            b"F\x02\x00",
            b"F\x01",
            b"C\0",
            b"GET / HTTP/1.1\r\n",
            &[0; 4096],
        ] {
            assert_eq!(Ask::decode(bytes), Err(NoMessage(bytes.len())), "{bytes:?}");
        }
        for bytes in
            [&b""[..], b"Z", b"H123", b"N\xff", b"S ", b"E", b"E\x10", b"E\x04", b"E\x08", b"E\0\0", b"XX"]
        {
            assert_eq!(Tell::decode(bytes), Err(NoMessage(bytes.len())), "{bytes:?}");
        }
        assert!(Tell::decode(&vec![b'1'; MAX_MESSAGE_BYTES + 1]).is_err());
    }

    proptest! {
        /// Any bytes are decoded without a panic, and a valid message encodes to the same bytes.
        #[test]
        fn decoded_messages_encode_to_same_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(ask) = Ask::decode(&bytes) {
                prop_assert_eq!(ask.encode(), bytes.clone());
            }
            if let Ok(tell) = Tell::decode(&bytes) {
                prop_assert_eq!(tell.encode(), bytes);
            }
        }
    }
}
