//! Tests with a server on loopback that echoes requests, and resolvers that lie.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};

use hotcell_egress::Lookup;
use hotcell_tools::ask::Refused;

use super::*;

/// Starts a server that answers each connection by its request; returns the address.
fn server(answer: impl Fn(&str) -> String + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = vec![0; 64 << 10];
            let length = stream.read(&mut request).unwrap_or(0);
            let said = String::from_utf8_lossy(&request[..length]).into_owned();
            let _ = stream.write_all(answer(&said).as_bytes());
        }
    });
    address
}

/// A plain response.
fn plain(headers: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// Gives these answers one after the other, and repeats the last.
#[derive(Debug)]
struct Says(Vec<&'static str>, AtomicUsize);

impl Resolver for Says {
    fn resolve<'a>(&'a self, _name: &'a str) -> Lookup<'a> {
        let at = self.1.fetch_add(1, Ordering::AcqRel).min(self.0.len() - 1);
        let all = self.0[at].split_whitespace().map(|text| text.parse::<IpAddr>().unwrap()).collect();
        Box::pin(async move { Ok(all) })
    }
}

fn says(answers: &[&'static str]) -> Client {
    client(Arc::new(Says(answers.to_vec(), AtomicUsize::new(0)))).unwrap()
}

fn held(places: &[&str]) -> Held {
    let net: BTreeSet<Origin> = places.iter().map(|place| place.parse().unwrap()).collect();
    let mut held = Held { net: net.clone(), ..Held::default() };
    held.secrets.insert("T".to_owned(), net.into_iter().take(1).collect());
    held
}

fn get(url: &str, headers: &[(&str, String)]) -> Outgoing {
    let blob = |text: &String| Blob(text.clone().into_bytes());
    Outgoing {
        method: "GET".to_owned(),
        url: url.to_owned(),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), blob(value))).collect(),
        body: Blob::default(),
        timeout: Duration::from_secs(20),
    }
}

fn ask(client: &Client, held: &Held, outgoing: Outgoing, placeholders: Placeholders) -> Reply {
    let value =
        |_: &str| Ok(Some(std::sync::Arc::new(hotcell_egress::Secret::new(b"t0p-secret".to_vec()).unwrap())));
    let placeholders = tokio::sync::Mutex::new(placeholders);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(send(client, held, outgoing, &placeholders, value))
}

fn body(reply: Reply) -> String {
    match reply {
        Reply::Http { status: 200, body, .. } => String::from_utf8(body.0).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn granted_address_is_reached_others_refused() {
    let address = server(|_| plain("x-a: b\r\n", "hello"));
    let own = format!("http://{address}");
    let client = says(&["127.0.0.1"]);
    let get =
        |url: &str, places: &[&str]| ask(&client, &held(places), get(url, &[]), Placeholders::default());
    assert_eq!(body(get(&format!("{own}/a?b"), &[&own])), "hello");
    let port = address.port();
    for (url, granted) in [
        (format!("{own}/"), "http://127.0.0.1:1".to_owned()),
        (format!("http://127.0.0.2:{port}/"), own.clone()),
        (format!("https://127.0.0.1:{port}/"), own.clone()),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), own.clone()),
        ("http://169.254.169.254/latest".to_owned(), own.clone()),
        ("http://[::ffff:169.254.169.254]/".to_owned(), own.clone()),
        (format!("http://localhost:{port}/"), own.clone()),
        (format!("http://example.org@127.0.0.1:{port}/"), own.clone()),
        ("file:///etc/passwd".to_owned(), own.clone()),
    ] {
        match get(&url, &[&granted]) {
            Reply::Refused { why: Refused::Denied(_) | Refused::Invalid(_) } => {}
            other => panic!("{url}: {other:?}"),
        }
    }
    // However the address is spelled, it is the granted one.
    assert_eq!(body(get(&format!("http://0x7f.1:{port}/"), &[&own])), "hello");
}

#[test]
fn reserved_addresses_are_unreachable_despite_grant() {
    for (place, never) in [
        ("http://169.254.169.254", true),
        ("http://0.0.0.0:80", true),
        ("http://[fd00:ec2::254]", true),
        ("http://224.0.0.1", true),
        ("http://127.0.0.1:8080", false),
        ("http://[::1]:8080", false),
        ("http://10.0.0.5", false),
        ("https://example.org", false),
    ] {
        assert_eq!(unreachable(&place.parse().unwrap()).is_some(), never, "{place}");
        let url = place.parse().unwrap();
        assert_eq!(allowed(&held(&[place]), &url).is_err(), never, "{place}");
    }
}

#[test]
fn granted_name_resolving_to_host_is_refused() {
    let address = server(|_| plain("", "inside"));
    for answer in [
        "127.0.0.1",
        "::1",
        "169.254.169.254",
        "10.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::1",
        "0.0.0.0",
        "fd00:ec2::254",
        "100.64.0.1",
        "127.0.0.1 ::1",
    ] {
        let place = format!("http://inside.example:{}", address.port());
        match ask(&says(&[answer]), &held(&[&place]), get(&place, &[]), Placeholders::default()) {
            Reply::Refused { why: Refused::Unavailable(why) } => {
                assert!(why.contains("granted by its address"), "{answer}: {why}");
            }
            other => panic!("{answer}: {other:?}"),
        }
    }
}

#[test]
fn rebinding_name_is_not_followed() {
    let address = server(|_| plain("", "inside"));
    let place = format!("http://moves.example:{}", address.port());
    // A public address where no server answers, followed by the host's own.
    let client = says(&["192.0.2.1 127.0.0.1", "127.0.0.1"]);
    for _ in 0..2 {
        let mut outgoing = get(&place, &[]);
        outgoing.timeout = Duration::from_millis(300);
        match ask(&client, &held(&[&place]), outgoing, Placeholders::default()) {
            Reply::Refused { why: Refused::Unavailable(_) } => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn redirect_is_returned_to_plugin() {
    let address = server(|_| {
        "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned()
    });
    let own = format!("http://{address}");
    match ask(&says(&["127.0.0.1"]), &held(&[&own]), get(&own, &[]), Placeholders::default()) {
        Reply::Http { status: 302, headers, .. } => {
            assert!(headers.iter().any(|(name, value)| name == "location" && value.0.ends_with(b"254/")));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn secret_reaches_its_origin_and_echo_is_masked() {
    // Echoes the request in its body and in a header.
    let echo = |said: &str| {
        let line = said.lines().find(|line| line.starts_with("authorization")).unwrap_or("none").to_owned();
        plain(&format!("x-echo: {line}\r\n"), said)
    };
    let (seen, own) = {
        let (sender, receiver) = std::sync::mpsc::channel();
        let address = server(move |said| {
            let _ = sender.send(said.to_owned());
            echo(said)
        });
        (receiver, format!("http://{address}"))
    };
    let elsewhere = format!("http://{}", server(echo));
    let client = says(&["127.0.0.1"]);
    let mut placeholders = Placeholders::default();
    let placeholder = placeholders.give("T").unwrap();
    let header = [
        ("authorization", format!("Bearer {placeholder}")),
        ("host", "other.example".to_owned()),
        ("X_HTTP-Method_Override", "DELETE".to_owned()),
        ("Range", "bytes=0-3".to_owned()),
        ("If_Range", "of-parts".to_owned()),
        ("Destination", "/elsewhere".to_owned()),
        ("x-own", "goes on".to_owned()),
    ];
    let mut held = held(&[&own]);
    held.net.insert(elsewhere.parse().unwrap());
    match ask(&client, &held, get(&own, &header), placeholders) {
        Reply::Http { status: 200, headers, body } => {
            let sent = seen.recv().unwrap();
            assert!(sent.contains("authorization: Bearer t0p-secret"), "{sent}");
            assert!(sent.contains("accept-encoding: identity") && !sent.contains("other.example"), "{sent}");
            for word in ["DELETE", "bytes=0-3", "of-parts", "/elsewhere"] {
                assert!(!sent.contains(word), "{word}: {sent}");
            }
            assert!(sent.contains("x-own: goes on"), "{sent}");
            let told = format!("{headers:?} {}", String::from_utf8(body.0).unwrap());
            assert!(!told.contains("t0p-secret") && told.contains("**********"), "{told}");
        }
        other => panic!("{other:?}"),
    }
    let mut placeholders = Placeholders::default();
    let placeholder = placeholders.give("T").unwrap();
    let header = [("authorization", format!("Bearer {placeholder}"))];
    let said = body(ask(&client, &held, get(&elsewhere, &header), placeholders));
    assert!(said.contains(&placeholder), "elsewhere it is a text without a meaning: {said}");
}

#[test]
fn unreadable_answer_to_secret_is_refused() {
    let own = format!("http://{}", server(|_| plain("content-encoding: gzip\r\n", "whatever")));
    let mut placeholders = Placeholders::default();
    let header = [("x-key", placeholders.give("T").unwrap())];
    match ask(&says(&["127.0.0.1"]), &held(&[&own]), get(&own, &header), placeholders) {
        Reply::Refused { why: Refused::Unavailable(why) } => assert!(why.contains("compressed")),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        body(ask(&says(&["127.0.0.1"]), &held(&[&own]), get(&own, &[]), Placeholders::default())),
        "whatever"
    );
}

#[test]
fn oversized_http_exchange_is_refused() {
    let own = format!("http://{}", server(|_| plain("", &"x".repeat(MAX_BODY_BYTES + 1))));
    let client = says(&["127.0.0.1"]);
    let ask = |outgoing| ask(&client, &held(&[&own]), outgoing, Placeholders::default());
    let header = [("x-a", "x".repeat(MAX_HEADER_BYTES))];
    let long = Outgoing { body: Blob(vec![0; MAX_BODY_BYTES + 1]), ..get(&own, &[]) };
    for outgoing in
        [get(&own, &[]), get(&own, &header), long, get(&format!("{own}/{}", "x".repeat(MAX_URL_BYTES)), &[])]
    {
        match ask(outgoing) {
            Reply::Refused { why: Refused::TooMuch(_) } => {}
            other => panic!("{other:?}"),
        }
    }
    let connect = Outgoing { method: "CONNECT".to_owned(), ..get(&own, &[]) };
    assert!(matches!(ask(connect), Reply::Refused { why: Refused::Invalid(_) }));
}
