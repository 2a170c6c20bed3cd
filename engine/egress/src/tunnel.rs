//! A connection that a client was given by CONNECT or SOCKS, and what it may say first: TLS with another server than the
//! connection's, or a request for another host, would reach through an allowed server what is not allowed.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::host::Host;
use crate::http::{self, Asked, Bad};
use crate::ledger::Operation;
use crate::proxy::Shared;
use crate::stream::Input;
use crate::tls;

/// What a client's first bytes are.
#[derive(Debug, PartialEq, Eq)]
enum First {
    /// Nothing that names a host: goes through.
    Free,
    /// TLS with the right host, in so many bytes: they go through, and the server may ask for another first message.
    Tls(usize),
    /// A request of HTTP.
    Http,
    /// TLS with another server; whom it names.
    Other(String),
}

/// Judges a client's first bytes; `None` when more are needed.
fn judge(bytes: &[u8], host: &Host) -> Option<First> {
    let first = *bytes.first()?;
    // Other records of TLS, and a first message in the form of SSL 2: a server that bears them goes on to read a name
    // that nobody saw.
    let record = matches!(first, 20 | 21 | 23 | 24);
    let old = first & 0x80 != 0;
    if record && bytes.len() < 2 || old && bytes.len() < 3 {
        return None;
    }
    if record && bytes[1] == 3 || old && bytes[2] == 1 {
        return Some(First::Other("it begins as TLS does, and not with a first message".to_owned()));
    }
    if first != tls::HANDSHAKE {
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

/// Why a tunnel ended early.
enum End {
    Io(io::Error),
    /// A request that goes no further.
    Bad(Bad),
    /// TLS with another server; whom it names.
    Other(String),
}

impl From<io::Error> for End {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// Reads a client's first bytes until they can be judged.
async fn judged(client: &mut Input<impl AsyncRead + Unpin>, host: &Host) -> io::Result<First> {
    loop {
        if let Some(first) = judge(client.held(), host) {
            return Ok(first);
        }
        if !client.more().await? {
            return Ok(First::Free);
        }
    }
}

impl Shared {
    /// Passes on what was read of a client.
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

    /// Lets client and server talk until both have ended.
    pub async fn tunnel(
        &self,
        mut client: Input<impl AsyncRead + Unpin>,
        mut back: impl AsyncWrite + Unpin,
        mut server: TcpStream,
        host: &Host,
        port: u16,
    ) -> io::Result<()> {
        let (answers, mut requests) = server.split();
        let mut answers = Input::new(answers);
        let (tell, again) = tokio::sync::oneshot::channel();
        let there = async {
            let mut first = judged(&mut client, host).await?;
            if let First::Tls(length) = first {
                self.pass(&mut client, length, &mut requests).await?;
                // Nothing more before the server's first words: its answer may be that it wants a second first message.
                if again.await.unwrap_or(false) {
                    let before = loop {
                        match tls::for_the_middle(client.held()) {
                            Some(before) => break before,
                            None if !client.more().await? => break client.held().len(),
                            None => {}
                        }
                    };
                    self.pass(&mut client, before, &mut requests).await?;
                    first = judged(&mut client, host).await?;
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
                // One request: the next one might be for somebody else.
                First::Http => match client.until(|bytes| http::request(bytes, Some((host, port)))).await? {
                    Some(Ok(Asked::Forward(forward))) => {
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
        // From the beginning: a server may speak first.
        let here = async {
            let asks = loop {
                match tls::asks_again(answers.held()) {
                    Some(asks) => break asks,
                    None if !answers.more().await? => break false,
                    None => {}
                }
            };
            // Who waits for it has gone, or never did.
            let _ = tell.send(asks);
            answers.copy(&mut back, &self.budget).await?;
            Ok::<(), End>(back.shutdown().await?)
        };
        match tokio::try_join!(there, here) {
            Ok(_) => Ok(()),
            Err(End::Io(e)) => Err(e),
            Err(End::Bad(bad)) => self.refuse(&bad, &mut back).await,
            Err(End::Other(why)) => {
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
            (&name, b"SSH-2.0-x\r\n".to_vec(), Some(First::Free)),
            (&name, vec![0, 0, 0, 8], Some(First::Free)),
            (&name, Vec::new(), None),
        ] {
            assert_eq!(judge(&bytes, host), want, "{bytes:?}");
        }
        let hidden = client_hello(&[b"a.com"], &[0xfe, 0x0d, 0, 1, 0]);
        assert!(matches!(judge(&hidden, &name), Some(First::Other(_))));
    }
}
