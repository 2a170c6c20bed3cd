use super::answer::{linked, moved};
use super::*;
use crate::route::rules::RequestRules;
use crate::route::{Binding, Scheme};
use crate::secret::Secret;
use proptest::prelude::*;

const VALUE: &str = "t0p-s3cret/value";

fn route(binding: &str, scheme: &Scheme) -> Route {
    let secret = Secret::new(VALUE.as_bytes().to_vec()).unwrap();
    let binding: Binding = binding.parse().unwrap();
    Route::new("gh", binding, scheme, &secret, RequestRules::default(), None).unwrap()
}

fn asked(text: &str) -> Result<Asked, Wrong> {
    request(text.as_bytes(), Authority::Loopback(888)).map(|found| {
        let (asked, used) = found.unwrap_or_else(|| panic!("unfinished: {text}"));
        assert_eq!(used, text.find("\r\n\r\n").unwrap() + 4);
        asked
    })
}

fn sent(route: &Route, text: &str) -> String {
    let asked = asked(text).unwrap();
    let path = path_at(route, split_name(&asked.path).1);
    String::from_utf8(for_host(route, &route.held(), &asked, &path).to_vec()).unwrap()
}

#[test]
fn head_for_the_host_has_our_host_and_the_secret_once() {
    let head = sent(
        &route("api.test:8443/v1", &Scheme::Bearer),
        "POST /gh/models?x=1 HTTP/1.1\r\nHost: 127.0.0.1:888\r\nAuthorization: Bearer mine\r\nauthorization: Basic x\r\n\
         AUTHORIZATION : no\r\n\r\n".replace("AUTHORIZATION : no\r\n", "").as_str(),
    );
    assert_eq!(
        head,
        format!(
            "POST /v1/models?x=1 HTTP/1.1\r\nHost: api.test:8443\r\nAccept-Encoding: identity\r\nContent-Length: 0\r\n\
             authorization: Bearer {VALUE}\r\n\r\n"
        )
    );
    let head = sent(
        &route("api.test", &Scheme::header("X-Acme-Key").unwrap()),
        "GET /gh HTTP/1.1\r\nHost: localhost:888\r\nx-acme-key: a\r\nX_Acme_Key: b\r\nX-API-Key: c\r\nCookie: d\r\n\
         Connection: keep-alive, X-Kept-Not\r\nX-Kept-Not: e\r\nX-Forwarded-Host: f\r\nX-HTTP-Method-Override: DELETE\r\n\
         X-Original-URL: /admin\r\nDestination: /admin\r\nRange: bytes=0-1\r\nAccept-Encoding: gzip\r\nProxy-Authorization: g\r\nUpgrade: h2c\r\n\
         TE: trailers\r\nTrailer: x\r\nX-Kept: yes\r\n\r\n",
    );
    assert_eq!(
        head,
        format!(
            "GET / HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: identity\r\nX-Kept: yes\r\nx-acme-key: {VALUE}\r\n\r\n"
        )
    );
}

#[test]
fn smuggled_and_foreign_requests_are_refused() {
    let host = "Host: 127.0.0.1:888\r\n";
    for (text, want) in [
        (format!("GET http://a.test/ HTTP/1.1\r\n{host}\r\n"), Wrong::Target),
        (format!("GET http://127.0.0.1:888/gh/ HTTP/1.1\r\n{host}\r\n"), Wrong::Target),
        (format!("OPTIONS * HTTP/1.1\r\n{host}\r\n"), Wrong::Target),
        (format!("CONNECT api.test:443 HTTP/1.1\r\n{host}\r\n"), Wrong::Target),
        (format!("CONNECT /gh HTTP/1.1\r\n{host}\r\n"), Wrong::Malformed),
        (format!("TRACE /gh/ HTTP/1.1\r\n{host}\r\n"), Wrong::Malformed),
        (format!("get /gh/ HTTP/1.1\r\n{host}\r\n"), Wrong::Malformed),
        ("GET /gh/ HTTP/1.1\r\n\r\n".to_owned(), Wrong::Host),
        (format!("GET /gh/ HTTP/1.1\r\n{host}{host}\r\n"), Wrong::Host),
        ("GET /gh/ HTTP/1.1\r\nHost: api.test\r\n\r\n".to_owned(), Wrong::Host),
        ("GET /gh/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".to_owned(), Wrong::Host),
        ("GET /gh/ HTTP/1.1\r\nHost: 127.0.0.1:888, api.test\r\n\r\n".to_owned(), Wrong::Host),
        (
            format!("POST /gh/ HTTP/1.1\r\n{host}Content-Length: 1\r\nContent-Length: 1\r\n\r\n"),
            Wrong::Length,
        ),
        (
            format!("POST /gh/ HTTP/1.1\r\n{host}Content-Length: 1\r\ncontent-length: 2\r\n\r\n"),
            Wrong::Length,
        ),
        (
            format!("POST /gh/ HTTP/1.1\r\n{host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Wrong::Length,
        ),
        (format!("POST /gh/ HTTP/1.1\r\n{host}Transfer-Encoding: chunked, identity\r\n\r\n"), Wrong::Length),
        (format!("POST /gh/ HTTP/1.1\r\n{host}Content-Length: +1\r\n\r\n"), Wrong::Length),
        (format!("GET /gh/ HTTP/1.1\r\n{host}X: a\r\n folded\r\n\r\n"), Wrong::Malformed),
        (format!("GET /gh/ HTTP/1.1\r\n{host}X: a\0b\r\n\r\n"), Wrong::Malformed),
        (format!("GET /gh/ HTTP/1.1\r\n{host}X : a\r\n\r\n"), Wrong::Malformed),
        (format!("GET /gh/\0 HTTP/1.1\r\n{host}\r\n"), Wrong::Malformed),
        (format!("GET /gh/ HTTP/2.0\r\n{host}\r\n"), Wrong::Malformed),
    ] {
        let read = request(text.as_bytes(), Authority::Loopback(888));
        assert_eq!(read.map(drop), Err(want), "{text:?}");
    }
}

#[test]
fn host_within_tls_is_the_one_that_connect_named() {
    let at = |port| Authority::Host("api.test", port);
    for (host, port, good) in [
        ("Host: api.test", 443, true),
        ("Host: API.Test.:443", 443, true),
        ("Host: api.test:8443", 8443, true),
        ("Host: api.test", 8443, false),
        ("Host: api.test:8443", 443, false),
        ("Host: evil.test", 443, false),
        ("Host: x.api.test", 443, false),
        ("Host: api.test.evil.test", 443, false),
        ("Host: api.test, evil.test", 443, false),
        ("Host: api.test evil.test", 443, false),
        ("Host: u@api.test", 443, false),
        ("Host: 10.0.0.1", 443, false),
        ("Host: 127.0.0.1:888", 443, false),
        ("Host:", 443, false),
        ("X: y", 443, false),
        ("Host: api.test\r\nHost: api.test", 443, false),
        ("Host: api.test\r\nhost: evil.test", 443, false),
        ("Host: evil.test\r\nHost: api.test", 443, false),
    ] {
        let got = request(format!("GET / HTTP/1.1\r\n{host}\r\n\r\n").as_bytes(), at(port));
        let want = if port == 443 { "api.test" } else { "api.test:8443" };
        match got {
            Ok(Some((asked, _))) => assert!(good && asked.base.is_none(), "{host}"),
            Err(wrong) => assert_eq!((wrong, good), (Wrong::OtherHost(want.to_owned()), false), "{host}"),
            Ok(None) => panic!("unfinished: {host}"),
        }
    }
    let host = "Host: api.test\r\n";
    for (text, want, status) in [
        (format!("GET https://api.test/ HTTP/1.1\r\n{host}\r\n"), Wrong::Absolute, "400"),
        (format!("GET https://evil.test/ HTTP/1.1\r\n{host}\r\n"), Wrong::Absolute, "400"),
        (format!("GET http://api.test/ HTTP/1.1\r\n{host}\r\n"), Wrong::Absolute, "400"),
        (format!("CONNECT evil.test:443 HTTP/1.1\r\n{host}\r\n"), Wrong::Absolute, "400"),
        (format!("OPTIONS * HTTP/1.1\r\n{host}\r\n"), Wrong::Absolute, "400"),
        (format!("GET / HTTP/1.1\r\n{host}:authority: evil.test\r\n\r\n"), Wrong::Malformed, "400"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), Wrong::Malformed, "400"),
        ("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n".to_owned(), Wrong::OtherHost("api.test".into()), "421"),
        (format!("GET / HTTP/1.1\r\n{host}Upgrade: websocket\r\n\r\n"), Wrong::Upgrade, "501"),
    ] {
        let got = request(text.as_bytes(), at(443)).map(drop).unwrap_err();
        assert!(got == want && got.status().starts_with(status), "{text:?}: {got:?}");
    }
    // HTTP/1.0 needs no Host.
    assert!(request(b"GET / HTTP/1.0\r\n\r\n", at(443)).is_ok_and(|found| found.is_some()));
}

#[test]
fn places_in_answers_within_tls_stay_as_they_are() {
    let route = route("api.test", &Scheme::Bearer);
    let head = b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n";
    let (asked, _) = request(head, Authority::Host("api.test", 443)).unwrap().unwrap();
    let links = "Location: /there\r\nLink: <https://api.test/x>; rel=\"next\"\r\n";
    let text = format!("HTTP/1.1 302 Found\r\n{links}Set-Cookie: k={VALUE}\r\nContent-Length: 0\r\n\r\n");
    let (answer, _) = answer(text.as_bytes(), false).unwrap().unwrap();
    let head = for_client((&route, &route.held()), &asked, "/", &answer, Framing::Length(0), true);
    let head = String::from_utf8(head).unwrap();
    assert!(head.contains(links) && head.contains("Set-Cookie: k=****"), "{head}");
}

#[test]
fn paths_with_two_readings_are_refused_where_paths_matter() {
    let with_prefix = route("api.test/v1", &Scheme::Bearer);
    let without = route("api.test", &Scheme::Bearer);
    for (rest, strict, plain) in [
        ("/models", true, true),
        ("", true, true),
        ("/../admin", false, true),
        ("/%2e%2e/admin", false, true),
        ("/a%2f..%2fb", false, true),
        ("//a", false, true),
        ("/a%00", false, true),
        ("/@acme%2fpkg", false, true),
        ("/a#b", false, false),
        ("/a\\b", false, false),
        ("/ä", false, false),
    ] {
        for (route, want) in [(&with_prefix, strict), (&without, plain)] {
            let got = judge(route, "GET", &path_at(route, rest));
            assert_eq!(matches!(got, Verdict::Allowed(_)), want, "{rest} {route:?}: {got:?}");
        }
    }
    assert_eq!((path_at(&with_prefix, ""), path_at(&without, "")), ("/v1".to_owned(), "/".to_owned()));
    assert_eq!(split_name("/gh/a/b"), ("gh", "/a/b"));
    assert_eq!((split_name("/gh"), split_name("/"), split_name("//x")), (("gh", ""), ("", ""), ("", "/x")));
}

#[test]
fn places_at_the_host_become_places_of_the_route() {
    let route = route("api.test/v1", &Scheme::Bearer);
    for (place, want) in [
        ("https://api.test/v1/x?y=1#z", "http://127.0.0.1:888/gh/x?y=1#z"),
        ("https://API.test:443/v1", "http://127.0.0.1:888/gh"),
        ("/v1/x", "http://127.0.0.1:888/gh/x"),
        ("x", "http://127.0.0.1:888/gh/a/x"),
        ("../../../gh/x", "https://api.test/gh/x"),
        ("/gh/x", "https://api.test/gh/x"),
        ("/v12/x", "https://api.test/v12/x"),
        ("https://evil.test/v1/x", "https://evil.test/v1/x"),
        ("//evil.test/v1", "https://evil.test/v1"),
        ("http://api.test/v1/x", "http://api.test/v1/x"),
        ("https://api.test:444/v1/x", "https://api.test:444/v1/x"),
        ("https://api.test@evil.test/v1", "https://api.test@evil.test/v1"),
    ] {
        assert_eq!(moved(&route, "127.0.0.1:888", "/v1/a/b", place), want, "{place}");
    }
    let links = "<https://api.test/v1/x?page=2>; rel=\"next\", <https://other.test/>; rel=\"last\"";
    let want = "<http://127.0.0.1:888/gh/x?page=2>; rel=\"next\", <https://other.test/>; rel=\"last\"";
    assert_eq!(linked(&route, "127.0.0.1:888", "/v1/x", links), want);
    assert_eq!(linked(&route, "127.0.0.1:888", "/v1/x", "no < end"), "no < end");
}

#[test]
fn head_for_the_client_is_without_the_value() {
    let route = route("api.test", &Scheme::Bearer);
    let asked = asked("GET /gh/ HTTP/1.1\r\nHost: 127.0.0.1:888\r\n\r\n").unwrap();
    let text = format!(
        "HTTP/1.1 302 seen {VALUE}\r\nX-Echo: Bearer {VALUE}\r\nLocation: https://evil.test/?k={}\r\nConnection: close\r\n\
         Strict-Transport-Security: x\r\nAlt-Svc: h3\r\nContent-Length: 3\r\n\r\n",
        VALUE.replace('/', "%2F")
    );
    let (answer, used) = answer(text.as_bytes(), false).unwrap().unwrap();
    assert_eq!((used, answer.status, answer.body, answer.keeps), (text.len(), 302, Body::Length(3), false));
    let head = for_client((&route, &route.held()), &asked, "/", &answer, Framing::Length(3), true);
    let masked = "*".repeat(VALUE.len());
    let want = format!(
        "HTTP/1.1 302 seen {masked}\r\nConnection: keep-alive\r\nContent-Length: 3\r\nX-Echo: Bearer {masked}\r\n\
         Location: https://evil.test/?k={masked}**\r\n\r\n"
    );
    assert_eq!(String::from_utf8(head).unwrap(), want);
    for (text, good) in [
        ("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 3\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", false),
    ] {
        assert_eq!(super::answer(text.as_bytes(), false).unwrap().unwrap().0.is_encoded, good, "{text}");
    }
    for text in [
        "HTTP/1.1 101 x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "SSH-2.0\r\n\r\n",
    ] {
        assert!(super::answer(text.as_bytes(), false).is_err(), "{text}");
    }
}

#[test]
fn first_bytes_tell_paths_from_other_requests() {
    for (bytes, want) in [
        (&b"GET /gh/"[..], Some(true)),
        (b"\r\nGET /gh/", Some(true)),
        (b"GET http://a.test/", Some(false)),
        (b"CONNECT a.test:443", Some(false)),
        (b"CONNECT /gh", Some(true)),
        (b"GET", None),
        (b"GET ", None),
        (b"", None),
        (b"G\x00T /", Some(false)),
        (b"\x16\x03\x01", Some(false)),
    ] {
        assert_eq!(is_path(bytes), want, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn arbitrary_heads_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = request(&bytes, Authority::Loopback(888));
        let _ = answer(&bytes, false);
        let _ = is_path(&bytes);
        let head = b"GET /gh/ HTTP/1.1\r\nHost: 127.0.0.1:888\r\n";
        let _ = request(&[head, &bytes[..]].concat(), Authority::Loopback(888));
    }

    #[test]
    fn accepted_host_within_tls_is_the_bound_one(
        names in proptest::collection::vec("(api.test|evil.test|API.TEST|api.test:443|[ -~]{0,12})", 0..3),
    ) {
        let lines: String = names.iter().map(|name| format!("Host: {name}\r\n")).collect();
        let text = format!("GET / HTTP/1.1\r\n{lines}\r\n");
        if let Ok(Some(_)) = request(text.as_bytes(), Authority::Host("api.test", 443)) {
            prop_assert_eq!(names.len(), 1);
            let name = names[0].trim().to_ascii_lowercase();
            let name = name.strip_suffix(":443").unwrap_or(&name);
            prop_assert_eq!(name.strip_suffix('.').unwrap_or(name), "api.test");
        }
    }

    #[test]
    fn no_header_of_the_program_stands_beside_the_secret(
        name in "[A-Za-z_-]{1,20}", value in "[ -~]{0,20}", path in "/[!-~]{0,20}",
    ) {
        let route = route("api.test/v1", &Scheme::Bearer);
        let text = format!("GET /gh{path} HTTP/1.1\r\nHost: 127.0.0.1:888\r\n{name}: {value}\r\n\r\n");
        if let Ok(Some((asked, _))) = request(text.as_bytes(), Authority::Loopback(888)) {
            let path = path_at(&route, split_name(&asked.path).1);
            if matches!(judge(&route, "GET", &path), Verdict::Allowed(_)) {
                prop_assert!(path == "/v1" || path.starts_with("/v1/"));
                let head = for_host(&route, &route.held(), &asked, &path);
                let mut headers = [httparse::EMPTY_HEADER; 16];
                let mut again = httparse::Request::new(&mut headers);
                prop_assert_eq!(again.parse(&head), Ok(httparse::Status::Complete(head.len())));
                let named = |name: &str| again.headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name)).count();
                prop_assert_eq!((named("host"), named("authorization")), (1, 1));
            }
        }
    }
}
