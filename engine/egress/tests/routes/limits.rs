//! Limits of a secret's requests, and rules of the network that hold for its host.

use hotcell_egress::limit::RequestLimits;
use hotcell_egress::route::records::Ending;
use hotcell_egress::route::rules::RequestRules;

use super::{VALUE, host, plain, proxy, route};

#[test]
fn bodies_and_requests_beyond_limits_do_not_reach_the_host() {
    let Some(host) = host(plain) else { return };
    let port = host.at.port();
    let limits = |max_body: Option<u64>, rate: &str| {
        RequestRules::default().limited(RequestLimits { max_body, rate: rate.parse().ok() })
    };
    let binding = format!("api.test:{port}");
    let routes = vec![
        route("small", &binding, limits(Some(4), "")),
        route("slow", &format!("{binding}/slow"), limits(None, "2/h")),
    ];
    let proxy = proxy(&format!("api.test={}:{port}", host.at.ip()), routes);
    let chunked = |body: &str| {
        format!(
            "POST /small/ HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{body}"
        )
    };
    let slow = "GET /slow/ HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n".to_owned();
    for (request, status) in [
        (
            "POST /small/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\nConnection: close\r\n\r\nabcd"
                .to_owned(),
            "200",
        ),
        ("POST /small/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\n\r\nabcde".to_owned(), "413"),
        (chunked("2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"), "200"),
        (chunked("2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"), "413"),
        (chunked("fffffffffff\r\nab"), "413"),
        (slow.clone(), "200"),
        (slow.clone(), "200"),
        (slow, "429"),
    ] {
        let back = proxy.ask(&request);
        assert!(back.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {back}");
        assert!(!back.contains(VALUE));
    }
    let (_, requests) = host.seen.lock().unwrap().clone();
    assert_eq!(requests.len(), 4, "{requests:?}");
    let records = proxy.serving.requests();
    assert_eq!((records.counts["small"].denied, records.counts["slow"].denied), (3, 1));
    assert!(records.rows.iter().any(|row| row.ending == Ending::Denied && row.rule.contains("more than 4")));
    let denied = proxy.serving.finish();
    assert!(denied.iter().any(|row| row.target.contains("for the secret slow: more than 2/h")), "{denied:?}");
}

#[test]
fn rules_of_the_network_hold_for_the_host_of_a_secret() {
    let Some(host) = host(plain) else { return };
    let port = host.at.port();
    let binding = format!("api.test:{port}");
    let at = format!("api.test={}:{port}", host.at.ip());
    let ask = |rules: &str, request: &str| {
        let proxy = proxy(rules, vec![route("gh", &binding, RequestRules::default())]);
        let back = proxy.ask(&format!("{request} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"));
        back.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for (rules, request, status) in [
        (at.clone(), "GET /gh/x", "200"),
        (format!("{at},!api.test:{port}"), "GET /gh/x", "403"),
        (format!("{at},!*.evil.test:{port}"), "GET /gh/x", "200"),
        (format!("{at},!DELETE api.test:{port}/"), "DELETE /gh/x", "403"),
        (format!("{at},!DELETE api.test:{port}/"), "GET /gh/x", "200"),
        (format!("{at},!api.test:{port}/x"), "GET /gh/X", "403"),
        (format!("GET {at}/y"), "GET /gh/x", "403"),
        (format!("GET {at}/y"), "GET /gh/y/z", "200"),
        (format!("{at},!{}:{port}", host.at.ip()), "GET /gh/x", "403"),
    ] {
        assert_eq!(ask(&rules, request), status, "{rules} {request}");
    }
}
