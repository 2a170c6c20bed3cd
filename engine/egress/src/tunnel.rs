//! Connections that a client opened by CONNECT or SOCKS, and checks of its first bytes: TLS with another
//! server name, or a request for another host, would reach a forbidden host through an allowed server.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::host::Host;
use crate::http::{self, Bad, ProxyRequest};
use crate::ledger::Operation;
use crate::proxy::Shared;
use crate::record::Counted;
use crate::recording::Recording;
use crate::stream::Input;
use crate::tls;

/// Classification of a client's first bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum First {
    /// The bytes name no host, and are passed on.
    Free,
    /// A ClientHello with the right host, of this length in bytes. It is passed on, and the server may
    /// request a second one.
    Tls(usize),
    /// An HTTP request.
    Http,
    /// TLS with another server or another forbidden beginning; with the reason.
    Other(String),
}

/// Beginnings of PROXY protocol headers, versions 1 and 2. A server that accepts them skips the header and
/// trusts the client address in it, so clients must not send one. See HAProxy's `proxy-protocol.txt`.
const PROXY: [&[u8]; 2] = [b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n"];

/// Classifies a client's first bytes to a port; `None` when more are needed.
fn judge(bytes: &[u8], host: &Host, port: u16) -> Option<First> {
    let first = *bytes.first()?;
    for header in PROXY {
        if bytes.starts_with(header) {
            return Some(First::Other("it begins with a header of the PROXY protocol".to_owned()));
        }
        if header.starts_with(bytes) {
            return None;
        }
    }
    // Other TLS record types, and a ClientHello in SSL 2 format: a server that tolerates them goes on to read
    // a name that was not checked.
    let record = matches!(first, 20 | 21 | 23 | 24);
    let old = first & 0x80 != 0;
    if record && bytes.len() < 2 || old && bytes.len() < 3 {
        return None;
    }
    if record && bytes[1] == 3 || old && bytes[2] == 1 {
        return Some(First::Other("it begins as TLS does, and not with a first message".to_owned()));
    }
    if first != tls::HANDSHAKE {
        // At ports of HTTP, anything else has to be a request that can be parsed.
        if http::HTTP_PORTS.contains(&port) {
            return Some(First::Http);
        }
        return http::looks_like_a_request(bytes).map(|http| if http { First::Http } else { First::Free });
    }
    let other = |what: &str| Some(First::Other(what.to_owned()));
    let hello = match tls::hello(bytes) {
        Err(tls::Malformed) => return other("its first message cannot be read"),
        Ok(None) => return None,
        Ok(Some(hello)) => hello,
    };
    let name = hello.name.as_deref().map(Host::parse);
    match (host, name) {
        _ if hello.encrypted => other("its first message hides another (ECH)"),
        (Host::Name(_), Some(Ok(named))) if named == *host => Some(First::Tls(hello.length)),
        (Host::Address(_), None) => Some(First::Tls(hello.length)),
        (_, None) => other("its TLS names no server"),
        (_, Some(Ok(named))) => other(&format!("its TLS names {named}")),
        (_, Some(Err(_))) => other("its TLS names what is no host"),
    }
}

/// Reason why a tunnel ended early.
enum End {
    Io(io::Error),
    /// A request that is rejected.
    Bad(Bad),
    /// TLS with another server or another forbidden beginning; with the reason.
    Other(String),
}

impl From<io::Error> for End {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// Classifies all bytes of a client that ended its side early. Some servers treat the end of the stream as a
/// line end.
fn judge_whole(bytes: &[u8], host: &Host, port: u16) -> First {
    let ended = || First::Other("it begins as TLS does, and ends within its first message".to_owned());
    match bytes.first() {
        None => First::Free,
        Some(_) if bytes.iter().all(|b| matches!(b, b'\r' | b'\n')) => First::Free,
        Some(&tls::HANDSHAKE) => judge(bytes, host, port).unwrap_or_else(ended),
        Some(_) => judge(&[bytes, b"\n"].concat(), host, port).unwrap_or_else(ended),
    }
}

/// Reads a client's first bytes until they can be classified.
pub async fn judged(client: &mut Input<impl AsyncRead + Unpin>, host: &Host, port: u16) -> io::Result<First> {
    loop {
        if let Some(first) = judge(client.held(), host, port) {
            return Ok(first);
        }
        if !client.more().await? {
            return Ok(judge_whole(client.held(), host, port));
        }
    }
}

/// Reason of a denied request in a tunnel, for the list of denials.
fn reason(bad: &Bad) -> String {
    match bad {
        Bad::Malformed => "what was sent is neither TLS nor a request of HTTP/1".to_owned(),
        Bad::Target => "a request was sent that names its target as one to a proxy does".to_owned(),
        Bad::OtherHost { named, .. } => format!("a request was sent whose Host header names {named}"),
        other => format!("a request was sent, and {other}"),
    }
}

impl Shared {
    /// Passes on bytes that were read from a client.
    async fn pass(
        &self,
        client: &mut Input<impl AsyncRead + Unpin>,
        length: usize,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let bytes = client.take(length);
        self.budget.spend(bytes.len())?;
        to.write_all(&bytes).await
    }

    /// Connects client and server until both have ended; their bytes are counted in `row`.
    pub async fn tunnel(
        &self,
        mut client: Input<impl AsyncRead + Unpin>,
        mut back: impl AsyncWrite + Unpin,
        mut server: TcpStream,
        (host, port): (&Host, u16),
        row: &Recording<'_>,
    ) -> io::Result<()> {
        let (answers, requests) = server.split();
        let mut requests = Counted::new(requests, row.sent());
        let mut back = Counted::new(&mut back, row.received());
        let mut answers = Input::new(answers);
        let (tell, answered) = tokio::sync::oneshot::channel();
        let there = async {
            let mut first = judged(&mut client, host, port).await?;
            if let First::Tls(length) = first {
                self.pass(&mut client, length, &mut requests).await?;
                // Sends nothing more before the server's response, which may be a HelloRetryRequest.
                let answer = answered.await.unwrap_or(tls::Answer::Other);
                if matches!(answer, tls::Answer::Fails | tls::Answer::Other) {
                    // A server that goes on reading now would take unchecked data, so only a final alert of
                    // the client is accepted, and dropped.
                    let more = !client.held().is_empty() || client.more().await?;
                    if answer == tls::Answer::Other && more && client.held()[0] != tls::ALERT {
                        let why = "it goes on after a first message of TLS that was not answered in TLS";
                        return Err(End::Other(why.to_owned()));
                    }
                    return Ok(requests.shutdown().await?);
                }
                if answer == tls::Answer::Again {
                    let before = loop {
                        match tls::for_the_middle(client.held()) {
                            Some(before) => break before,
                            None if !client.more().await? => break client.held().len(),
                            None => {}
                        }
                    };
                    self.pass(&mut client, before, &mut requests).await?;
                    first = judged(&mut client, host, port).await?;
                    if matches!(first, First::Http) || first == First::Free && !client.held().is_empty() {
                        first = First::Other("its second first message is none".to_owned());
                    }
                }
            }
            match first {
                First::Free | First::Tls(_) => {
                    client.copy(&mut requests, &self.budget).await?;
                    Ok(requests.shutdown().await?)
                }
                // One request only: the next one might name another host.
                First::Http => match client.until(|bytes| http::request(bytes, Some((host, port)))).await? {
                    Some(Ok(ProxyRequest::Forward(forward))) => {
                        self.budget.spend(forward.head.len())?;
                        requests.write_all(&forward.head).await?;
                        Ok(client.copy_body(forward.body, &mut requests, &self.budget).await?)
                    }
                    Some(Err(bad)) => Err(End::Bad(bad)),
                    _ => Err(End::Bad(Bad::Malformed)),
                },
                First::Other(why) => Err(End::Other(why)),
            }
        };
        // Starts immediately, since the server may speak first.
        let here = async {
            let answer = loop {
                match tls::answer(answers.held()) {
                    Some(answer) => break answer,
                    None if !answers.more().await? => break tls::Answer::Other,
                    None => {}
                }
            };
            // The receiver is gone, or the client did not begin with TLS.
            let _ = tell.send(answer);
            answers.copy(&mut back, &self.budget).await?;
            Ok::<(), End>(back.shutdown().await?)
        };
        match tokio::try_join!(there, here) {
            Ok(_) => Ok(()),
            Err(End::Io(e)) => Err(e),
            Err(End::Bad(bad)) => {
                row.denied(&reason(&bad));
                self.deny(Operation::Http, &format!("{host}:{port}"), Some(reason(&bad)));
                back.write_all(&http::refusal("400 Bad Request", &bad.to_string())).await?;
                back.shutdown().await
            }
            Err(End::Other(why)) => {
                row.denied(&why);
                self.deny(Operation::Tls, &format!("{host}:{port}"), Some(why));
                back.shutdown().await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::tests::client_hello;

    #[test]
    fn first_bytes() {
        let name = Host::parse(b"a.com").unwrap();
        let address = Host::parse(b"10.0.0.1").unwrap();
        let hello = |names: &[&[u8]]| client_hello(names, &[]);
        for (host, bytes, want) in [
            (&name, hello(&[b"A.com"]), Some(First::Tls(hello(&[b"A.com"]).len()))),
            (&name, hello(&[b"b.com"]), Some(First::Other("its TLS names b.com".into()))),
            (&name, hello(&[b"a.com.evil"]), Some(First::Other("its TLS names a.com.evil".into()))),
            (&name, hello(&[]), Some(First::Other("its TLS names no server".into()))),
            (&address, hello(&[]), Some(First::Tls(hello(&[]).len()))),
            (&address, hello(&[b"a.com"]), Some(First::Other("its TLS names a.com".into()))),
            (&name, hello(&[b"a.com"])[..20].to_vec(), None),
            (&name, b"\x16GETX".to_vec(), Some(First::Other("its first message cannot be read".into()))),
            (
                &name,
                b"\x15\x03\x01\0\x02\x01Z".to_vec(),
                Some(First::Other("it begins as TLS does, and not with a first message".into())),
            ),
            (
                &name,
                b"\x80\x2e\x01\x03\x01".to_vec(),
                Some(First::Other("it begins as TLS does, and not with a first message".into())),
            ),
            (&name, vec![0x15], None),
            (&name, vec![0x15, 0x70], Some(First::Free)),
            (&name, b"GET / HTTP/1.1\r\n".to_vec(), Some(First::Http)),
            (&name, b"GET\x0b/ HTTP/1.1\r\n".to_vec(), Some(First::Http)),
            (&name, b"\xa0GET / HTTP/1.1\r\n".to_vec(), Some(First::Http)),
            (&name, b"GET /\x00 HTTP/1.1\r\n".to_vec(), Some(First::Http)),
            (&name, b"GET /x\r\n".to_vec(), Some(First::Http)),
            (&name, b"GET http://b.com/\r\n".to_vec(), Some(First::Http)),
            (&name, b"SSH-2.0-x\r\n".to_vec(), Some(First::Free)),
            (&name, vec![0, 0, 0, 8], Some(First::Free)),
            (&name, Vec::new(), None),
        ] {
            assert_eq!(judge(&bytes, host, 22), want, "{bytes:?}");
        }
        for (port, bytes, want) in [
            (80, &b"SSH-2.0-x\r\n"[..], Some(First::Http)),
            (8080, b"\0", Some(First::Http)),
            (443, b"\x05\x01\0", Some(First::Http)),
            (22, b"\x05\x01\0", Some(First::Free)),
        ] {
            assert_eq!(judge(bytes, &name, port), want, "{port} {bytes:?}");
        }
        for (port, bytes, want) in [
            (80, &b""[..], First::Free),
            (22, b"GET http://b.com/", First::Http),
            (22, b"QUIT", First::Free),
            (
                22,
                &hello(&[b"a.com"])[..20],
                First::Other("it begins as TLS does, and ends within its first message".into()),
            ),
        ] {
            assert_eq!(judge_whole(bytes, &name, port), want, "{port} {bytes:?}");
        }
        let other = || Some(First::Other("it begins with a header of the PROXY protocol".to_owned()));
        for (bytes, want) in [
            (&b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\nGET / HTTP/1.1\r\nHost: b.com\r\n\r\n"[..], other()),
            (b"PROXY UNKNOWN\r\n", other()),
            (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0cGET / HTTP/1.1\r\n", other()),
            (b"PROX", None),
            (b"\r\n\r\n\0\r", None),
            (b"PROXIES\r\n", Some(First::Free)),
            (b"\r\n\r\nGET / HTTP/1.1\r\n", Some(First::Http)),
        ] {
            for port in [22, 9000] {
                assert_eq!(judge(bytes, &name, port), want, "{port} {bytes:?}");
            }
        }
        assert_eq!(judge_whole(b"\r\n\r", &name, 22), First::Free);
        let hidden = client_hello(&[b"a.com"], &[0xfe, 0x0d, 0, 1, 0]);
        assert!(matches!(judge(&hidden, &name, 443), Some(First::Other(_))));
    }
}
