//! Input of a program to its proxy: rules, requests and answers of HTTP, SOCKS, DNS queries, first messages
//! of TLS.
#![no_main]

use hotcell_egress::{AllowList, Host, dns, http, socks5, tls};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let host = Host::parse(b"a.com").expect("a host");
    for tunnel in [None, Some((&host, 80))] {
        // The next reader of a forwarded request also finds exactly one request, to the same host.
        if let Ok(Some((http::ProxyRequest::Forward(forward), _))) = http::request(bytes, tunnel) {
            match http::request(&forward.head, Some((&forward.host, forward.port))) {
                Ok(Some((http::ProxyRequest::Forward(again), used))) => {
                    assert_eq!((used, again.body), (forward.head.len(), forward.body));
                }
                // The proxy's own headers may take a head at the limits beyond them.
                Err(http::Bad::Malformed) => {}
                again => panic!("{again:?}"),
            }
        }
    }
    let _ = http::answer(bytes, false);
    let _ = http::looks_like_a_request(bytes);
    let _ = socks5::greeting(bytes);
    let _ = socks5::request(bytes);
    let _ = tls::hello(bytes);
    if let Some(question) = dns::question(bytes) {
        let answer = question.answer(dns::Answer::Addresses(&["1.2.3.4".parse().expect("an address")]));
        assert!(answer.len() <= dns::MAX_MESSAGE_BYTES + 16);
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(list) = text.parse::<AllowList>()
    {
        assert_eq!(list.to_string().parse(), Ok(list));
    }
});
