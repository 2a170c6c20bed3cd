//! Interception: TLS to a host with a secret ends in the proxy; all other TLS passes unread.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use hotcell_egress::Egress;
use hotcell_egress::route::rules::RequestRules;
use hotcell_egress::route::{Route, RunAuthority};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{Host, Proxy, VALUE, echo, host, pki, plain, route, serving};

/// A proxy that intercepts the connections of these routes, and a certificate to trust.
pub(super) fn intercepting(list: &str, routes: Vec<Route>) -> (Proxy, CertificateDer<'static>) {
    let authority = RunAuthority::new(&routes).unwrap();
    let root = authority.certificate().to_vec().into();
    (serving(&Egress::new(list.parse().unwrap()).routes(routes).intercept(authority)), root)
}

fn list(host: &Host) -> String {
    format!("api.test={}:{}", host.at.ip(), host.at.port())
}

impl Proxy {
    /// A tunnel to a place.
    pub(super) fn tunnel(&self, place: &str) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(format!("CONNECT {place} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
        stream
    }

    /// Sends bytes within TLS with this name in a tunnel to a place; `HOST` stands for the place. Returns all that comes back, or why TLS
    /// failed.
    fn ask_within(
        &self,
        place: &str,
        name: &str,
        root: &CertificateDer<'static>,
        text: &str,
    ) -> Result<String, String> {
        let mut roots = RootCertStore::empty();
        roots.add(root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut tls = StreamOwned::new(client, self.tunnel(place));
        if let Err(error) = tls.write_all(text.replace("HOST", place).as_bytes()) {
            // The proxy closes the connection after it has reported the client's alert and read its end.
            tls.sock.shutdown(Shutdown::Write).unwrap();
            let _ = tls.sock.read_to_end(&mut Vec::new());
            return Err(error.to_string());
        }
        let mut back = Vec::new();
        let _ = tls.read_to_end(&mut back);
        Ok(String::from_utf8_lossy(&back).into_owned())
    }
}

#[test]
fn intercepted_requests_have_the_secret_and_answers_have_not() {
    let Some(host) = host(echo) else { return };
    let place = format!("api.test:{}", host.at.port());
    let (proxy, root) =
        intercepting(&list(&host), vec![route("gh", &format!("{place}/v1"), RequestRules::default())]);
    let one = "GET /v1/a HTTP/1.1\r\nHost: HOST\r\nAuthorization: mine\r\nCookie: a=b\r\n\r\n";
    let two = "POST /v1/b?q=1 HTTP/1.1\r\nHost: HOST\r\nConnection: close, authorization\r\nContent-Length: 3\r\n\r\nabc";
    let back = proxy.ask_within(&place, "api.test", &root, &format!("{one}{two}")).unwrap();
    assert_eq!(back.matches("HTTP/1.1 200 ").count(), 2, "{back}");
    assert_eq!(back.matches(&"*".repeat(VALUE.len())).count(), 6, "{back}");
    assert!(!back.contains(VALUE) && !back.contains("mine"), "{back}");
    let (connections, requests) = host.seen.lock().unwrap().clone();
    assert_eq!(connections, 1, "the connection to the host is kept");
    let head = format!("Host: {place}\r\nAccept-Encoding: identity\r\nauthorization: Bearer {VALUE}\r\n\r\n");
    assert_eq!(requests[0], format!("GET /v1/a HTTP/1.1\r\n{head}"));
    assert!(requests[1].starts_with("POST /v1/b?q=1 ") && requests[1].ends_with("abc"), "{requests:?}");
    let counts = &proxy.serving.requests().counts["gh"];
    assert_eq!((counts.requests, counts.denied, counts.failed, counts.sent), (2, 0, 0, 3));
}

#[test]
fn smuggled_and_foreign_requests_within_tls_reach_no_host() {
    let Some(host) = host(plain) else { return };
    let place = format!("api.test:{}", host.at.port());
    let rules = RequestRules::new(&["GET".to_owned()], &[], &["/v1/keys".to_owned()], false).unwrap();
    let (proxy, root) = intercepting(&list(&host), vec![route("gh", &format!("{place}/v1"), rules)]);
    let h = "Host: HOST\r\n";
    for (request, status) in [
        ("GET /v1/ HTTP/1.1\r\nHost: evil.test\r\n\r\n".to_owned(), "421"),
        ("GET /v1/ HTTP/1.1\r\nHost: api.test\r\n\r\n".to_owned(), "421"),
        (format!("GET /v1/ HTTP/1.1\r\n{h}Host: evil.test\r\n\r\n"), "421"),
        ("GET /v1/ HTTP/1.1\r\n\r\n".to_owned(), "421"),
        (format!("GET https://evil.test/v1/ HTTP/1.1\r\n{h}\r\n"), "400"),
        (format!("GET https://HOST/v1/ HTTP/1.1\r\n{h}\r\n"), "400"),
        (format!("GET /v1/ HTTP/1.1\r\n{h}:authority: evil.test\r\n\r\n"), "400"),
        (format!("POST /v1/ HTTP/1.1\r\n{h}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), "400"),
        (
            format!(
                "POST /v1/ HTTP/1.1\r\n{h}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
            "400",
        ),
        (format!("GET /v1/ HTTP/1.1\r\n{h}X: a\r\n Authorization: b\r\n\r\n"), "400"),
        (format!("GET /v1/ HTTP/1.1\r\n{h}Authorization : b\r\n\r\n"), "400"),
        (format!("TRACE /v1/ HTTP/1.1\r\n{h}\r\n"), "400"),
        (format!("CONNECT evil.test:443 HTTP/1.1\r\n{h}\r\n"), "400"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), "400"),
        (format!("GET /v1/ HTTP/1.1\r\n{h}Upgrade: websocket\r\nConnection: upgrade\r\n\r\n"), "501"),
        (format!("POST /v1/ HTTP/1.1\r\n{h}\r\n"), "403"),
        (format!("GET /v1/k%65ys HTTP/1.1\r\n{h}\r\n"), "403"),
        (format!("GET /v2/ HTTP/1.1\r\n{h}\r\n"), "403"),
        (format!("GET /v1/../v2/ HTTP/1.1\r\n{h}\r\n"), "403"),
        (format!("GET /v1//x HTTP/1.1\r\n{h}\r\n"), "403"),
    ] {
        let back = proxy.ask_within(&place, "api.test", &root, &request).unwrap();
        assert!(back.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {back}");
        assert!(!back.contains(VALUE));
    }
    // TLS with another name than that of the tunnel, no TLS at all, and a request to the proxy instead of a tunnel.
    assert!(proxy.ask_within(&place, "evil.test", &root, "GET / HTTP/1.1\r\n\r\n").is_err());
    let mut bare = proxy.tunnel(&place);
    bare.write_all(format!("GET /v1/ HTTP/1.1\r\nHost: {place}\r\n\r\n").as_bytes()).unwrap();
    let mut back = String::new();
    let _ = bare.read_to_string(&mut back);
    assert!(back.starts_with("HTTP/1.1 400") && back.contains("only sent over TLS"), "{back}");
    let back = proxy.ask(&format!("GET http://{place}/v1/ HTTP/1.1\r\nHost: {place}\r\n\r\n"));
    assert!(back.starts_with("HTTP/1.1 403") && back.contains("use https"), "{back}");
    assert_eq!(host.seen.lock().unwrap().clone(), (0, Vec::<String>::new()));
    let denied = proxy.serving.finish();
    let told = |word: &str| denied.iter().any(|row| row.target.contains(word));
    for word in
        ["its TLS names evil.test", "its Host header is missing", "GET /v2/: the path is below", "use https"]
    {
        assert!(told(word), "{word}: {denied:?}");
    }
}

#[test]
fn hosts_without_a_binding_stay_tunnels() {
    fn closing(_: &str) -> Vec<u8> {
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 7\r\n\r\nreached".to_vec()
    }
    let Some(host) = host(closing) else { return };
    let place = format!("api.test:{}", host.at.port());
    // The secret is for another port of the host.
    let (proxy, root) =
        intercepting(&list(&host), vec![route("gh", "api.test:4430", RequestRules::default())]);
    let own = CertificateDer::from_pem_file(pki("root.pem")).unwrap();
    let request = "GET / HTTP/1.1\r\nHost: HOST\r\nAuthorization: mine\r\nConnection: close\r\n\r\n";
    let back = proxy.ask_within(&place, "api.test", &own, request).unwrap();
    assert!(back.ends_with("reached"), "{back}");
    assert!(proxy.ask_within(&place, "api.test", &root, request).is_err());
    assert!(host.seen.lock().unwrap().1[0].contains("Authorization: mine"));
    // A program that does not trust the run's authority gets nothing, and is told so in the report.
    assert!(proxy.ask_within("api.test:4430", "api.test", &own, request).is_err());
    let denied = proxy.serving.finish();
    assert!(denied.iter().any(|row| row.target.contains("does not accept the certificate")), "{denied:?}");
}
