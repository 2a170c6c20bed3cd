//! Parses a TLS ClientHello as far as it names the server. Pure; RFC 8446, 6066 and 9849.

/// The bytes are not a valid ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Relevant parts of a ClientHello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The server name (SNI), as sent.
    pub name: Option<Vec<u8>>,
    /// Whether the ClientHello contains an encrypted inner one (ECH), which may name another server.
    pub encrypted: bool,
    /// Length of its records in bytes.
    pub length: usize,
}

/// Record type of handshake messages.
pub const HANDSHAKE: u8 = 22;
/// Record type of alerts.
pub const ALERT: u8 = 21;
/// Maximum size of a ClientHello, in bytes.
const MAX_HELLO_BYTES: usize = 16 * 1024;
/// Maximum number of records of a ClientHello. No real client uses more, and the bytes are parsed from the
/// start on each read.
const MAX_RECORDS: usize = 32;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ENCRYPTED_HELLO: u16 = 0xfe0d;

/// A server's response to a ClientHello, by its first records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server continues the handshake.
    Goes,
    /// The server requests another ClientHello (HelloRetryRequest), which may name another host.
    Again,
    /// The server ends the handshake with a fatal alert.
    Fails,
    /// The response is not TLS.
    Other,
}

/// Parses a server's first bytes; `None` when more are needed. By RFC 8446, 4.1.4, a HelloRetryRequest is a
/// ServerHello with this value as its random. Warning alerts may precede it.
#[must_use]
pub fn answer(mut records: &[u8]) -> Option<Answer> {
    const SERVER_HELLO: u8 = 2;
    const MAX_WARNINGS: usize = 4;
    const RANDOM: [u8; 32] = [
        0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
        0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
    ];
    // Record header, message header, version.
    let random = 5 + 4 + 2;
    for _ in 0..=MAX_WARNINGS {
        let kind = *records.first()?;
        if !matches!(kind, ALERT | HANDSHAKE) || records.get(1).is_some_and(|version| *version != 3) {
            return Some(Answer::Other);
        }
        let length = usize::from(u16::from_be_bytes([*records.get(3)?, *records.get(4)?]));
        if kind == HANDSHAKE {
            if *records.get(5)? != SERVER_HELLO || length < random + RANDOM.len() - 5 {
                return Some(Answer::Other);
            }
            let again = records.get(random..random + RANDOM.len())? == RANDOM;
            return Some(if again { Answer::Again } else { Answer::Goes });
        }
        match (length, *records.get(5)?) {
            (2, 1) => records = records.get(7..)?,
            (2, 2) => return Some(Answer::Fails),
            _ => return Some(Answer::Other),
        }
    }
    Some(Answer::Other)
}

/// Length of the ChangeCipherSpec record that clients may send before their second ClientHello, for
/// compatibility with middleboxes; 0 without one, and `None` when more bytes are needed.
#[must_use]
pub fn for_the_middle(records: &[u8]) -> Option<usize> {
    const CHANGE: [u8; 6] = [20, 3, 3, 0, 1, 1];
    match records.first()? {
        20 if records.len() < CHANGE.len() => None,
        20 if records.starts_with(&CHANGE) => Some(CHANGE.len()),
        _ => Some(0),
    }
}

/// Parses a ClientHello, which may be spread over several records; `None` when more bytes are needed.
///
/// # Errors
/// [`Malformed`] when the bytes are not a valid ClientHello.
pub fn hello(mut records: &[u8]) -> Result<Option<Hello>, Malformed> {
    let mut message = Vec::new();
    let all = records.len();
    for _ in 0..MAX_RECORDS {
        let needed = match message.get(..4) {
            Some([CLIENT_HELLO, a, b, c]) => {
                4 + usize::from(*a) * 65536 + usize::from(*b) * 256 + usize::from(*c)
            }
            Some(_) => return Err(Malformed),
            None => 4,
        };
        if needed > MAX_HELLO_BYTES {
            return Err(Malformed);
        }
        if message.len() >= needed && needed > 4 {
            let length = all - records.len();
            return read(&message[4..needed]).map(|hello| Some(Hello { length, ..hello }));
        }
        let Some((head, rest)) = records.split_at_checked(5) else {
            let good = records.first().is_none_or(|kind| *kind == HANDSHAKE);
            return if good { Ok(None) } else { Err(Malformed) };
        };
        let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
        // Empty records are rejected, since any number of them could be sent.
        if head[0] != HANDSHAKE || head[1] != 3 || length == 0 {
            return Err(Malformed);
        }
        let Some((body, rest)) = rest.split_at_checked(length) else { return Ok(None) };
        message.extend_from_slice(body);
        records = rest;
    }
    Err(Malformed)
}

/// Splits off bytes that are preceded by their length.
fn vector<'a>(from: &mut &'a [u8], length_bytes: usize) -> Result<&'a [u8], Malformed> {
    let (length, rest) = from.split_at_checked(length_bytes).ok_or(Malformed)?;
    let length = length.iter().fold(0, |n, b| n * 256 + usize::from(*b));
    let (vector, rest) = rest.split_at_checked(length).ok_or(Malformed)?;
    *from = rest;
    Ok(vector)
}

fn number(from: &mut &[u8]) -> Result<u16, Malformed> {
    let (number, rest) = from.split_first_chunk::<2>().ok_or(Malformed)?;
    *from = rest;
    Ok(u16::from_be_bytes(*number))
}

fn read(mut body: &[u8]) -> Result<Hello, Malformed> {
    const VERSION_AND_RANDOM: usize = 34;
    body = body.get(VERSION_AND_RANDOM..).ok_or(Malformed)?;
    vector(&mut body, 1)?; // session
    vector(&mut body, 2)?; // cipher suites
    vector(&mut body, 1)?; // compressions
    let mut hello = Hello::default();
    if body.is_empty() {
        return Ok(hello);
    }
    let mut extensions = vector(&mut body, 2)?;
    while !extensions.is_empty() {
        let kind = number(&mut extensions)?;
        let mut data = vector(&mut extensions, 2)?;
        match kind {
            SERVER_NAME => {
                let mut names = vector(&mut data, 2)?;
                let (kind, rest) = names.split_first().ok_or(Malformed)?;
                names = rest;
                let name = vector(&mut names, 2)?;
                // Accepts one name only, of the one defined type: parsers could disagree about any other
                // form.
                if *kind != 0 || !names.is_empty() || !data.is_empty() || hello.name.is_some() {
                    return Err(Malformed);
                }
                hello.name = Some(name.to_vec());
            }
            ENCRYPTED_HELLO => hello.encrypted = true,
            _ => {}
        }
    }
    if body.is_empty() { Ok(hello) } else { Err(Malformed) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with_length(bytes: usize, data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        [&length[4 - bytes..], data].concat()
    }

    pub(crate) fn client_hello(names: &[&[u8]], more: &[u8]) -> Vec<u8> {
        let mut extensions = Vec::new();
        for name in names {
            let entry = [&[0][..], &with_length(2, name)].concat();
            extensions.extend([&[0, 0][..], &with_length(2, &with_length(2, &entry))].concat());
        }
        extensions.extend(more);
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0]);
        body.extend(with_length(2, &[0x13, 1]));
        body.extend(with_length(1, &[0]));
        body.extend(with_length(2, &extensions));
        let message = [&[1][..], &with_length(3, &body)].concat();
        [&[22, 3, 1][..], &with_length(2, &message)].concat()
    }

    #[test]
    fn answers_to_a_first_message() {
        let mut server = vec![22, 3, 3, 0, 90, 2, 0, 0, 86, 3, 3];
        server.extend_from_slice(&[
            0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
            0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
        ]);
        let warning = [21, 3, 3, 0, 2, 1, 112];
        assert_eq!(answer(&server), Some(Answer::Again));
        assert_eq!(answer(&[&warning[..], &server].concat()), Some(Answer::Again));
        assert_eq!(answer(&warning.repeat(9)), Some(Answer::Other));
        for cut in 0..43 {
            assert_eq!(answer(&server[..cut]), None, "{cut}");
        }
        server[20] ^= 1;
        assert_eq!(answer(&server), Some(Answer::Goes));
        for (bytes, want) in [
            (&[21, 3, 1, 0, 2, 2, 40][..], Answer::Fails),
            (&[21, 3, 1, 0, 2, 3, 40], Answer::Other),
            (&[21, 3, 1, 0, 26, 1], Answer::Other),
            (&[21, 2], Answer::Other),
            (&[22, 3, 3, 0, 90, 1], Answer::Other),
            (&[22, 3, 3, 0, 4, 2], Answer::Other),
            (&[23, 3, 3], Answer::Other),
            (b"HTTP/1.1 400 Bad Request", Answer::Other),
            (b"<", Answer::Other),
        ] {
            assert_eq!(answer(bytes), Some(want), "{bytes:?}");
        }
        for (bytes, want) in [
            (&[20, 3, 3, 0, 1, 1, 22][..], Some(6)),
            (&[20, 3, 3], None),
            (&[22], Some(0)),
            (&[20, 3, 3, 0, 1, 2], Some(0)),
            (&[], None),
        ] {
            assert_eq!(for_the_middle(bytes), want, "{bytes:?}");
        }
    }

    #[test]
    fn client_hello_yields_server_name() {
        let plain = client_hello(&[b"a.com"], &[0, 16, 0, 0]);
        assert_eq!(
            hello(&plain).unwrap().unwrap(),
            Hello { name: Some(b"a.com".to_vec()), encrypted: false, length: plain.len() }
        );
        let nameless = client_hello(&[], &[]);
        let length = nameless.len();
        assert_eq!(hello(&nameless), Ok(Some(Hello { length, ..Hello::default() })));
        let hidden = client_hello(&[b"a.com"], &[0xfe, 0x0d, 0, 1, 0]);
        assert!(hello(&hidden).unwrap().unwrap().encrypted);
        assert_eq!(hello(&client_hello(&[b"a.com", b"b.com"], &[])), Err(Malformed));
        assert_eq!(hello(b"\x16\x03\x01\x00\x00"), Err(Malformed));
        assert_eq!(hello(b"GET / HTTP/1.1\r\n"), Err(Malformed));
    }

    #[test]
    fn truncated_client_hello_is_incomplete_and_reassembled() {
        let whole = client_hello(&[b"a.com"], &[]);
        for cut in 0..whole.len() {
            assert_eq!(hello(&whole[..cut]), Ok(None), "{cut}");
        }
        for cut in 1..whole.len() - 6 {
            let (first, second) = whole[5..].split_at(cut);
            let record = |part: &[u8]| [&[22, 3, 1][..], &with_length(2, part)].concat();
            let pieces = [record(first), record(second)].concat();
            assert_eq!(hello(&pieces).unwrap().unwrap().name.as_deref(), Some(&b"a.com"[..]));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_tls_bytes_cause_no_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), at in 0usize..90, to in any::<u8>()) {
            let _ = (hello(&bytes), answer(&bytes));
            bytes = client_hello(&[b"a.com"], &[0xfe, 0x0d, 0, 1, 0]);
            let at = at % bytes.len();
            bytes[at] = to;
            let _ = hello(&bytes);
        }
    }
}
