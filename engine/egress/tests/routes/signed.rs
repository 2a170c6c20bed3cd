//! Requests that are signed for the program, and tokens of an app, from a host on this machine.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hotcell_egress::program::ValueSource;
use hotcell_egress::route::aws::Scope;
use hotcell_egress::route::github_app::{GitHubApp, Tokens};
use hotcell_egress::route::rules::RequestRules;
use hotcell_egress::route::{Route, Scheme};
use hotcell_egress::{AllowList, Secret, SecretSource, Way};

use super::{Host, Proxy, host, pki, proxy};

const KEY: &str = "wJalrXUtnFEMI/K7MDENG+b";
const TOKEN: &str = "IQoJb3JpZ2luX2Vj//8=";

/// A proxy with the secret `aws` for a service at this host.
fn signing(host: &Host, service: &str) -> Proxy {
    let port = host.at.port();
    let secret = Secret::new(format!("ASIAEXAMPLE:{KEY}:{TOKEN}").into_bytes()).unwrap();
    let scheme = Scheme::AwsSigV4(Scope::new("eu-west-1", service).unwrap());
    let binding = format!("api.test:{port}").parse().unwrap();
    let rules = RequestRules::default();
    let route = Route::new("aws", binding, &scheme, &secret, rules, Some(&pki("root.pem"))).unwrap();
    proxy(&format!("api.test={}:{port}", host.at.ip()), vec![route])
}

/// Sends back the request, as if it were compressed, with the key that the host knows.
fn told(request: &str) -> Vec<u8> {
    let text = format!("{request}\n{KEY}");
    format!("HTTP/1.1 200 OK\r\nContent-Encoding: x\r\nContent-Length: {}\r\n\r\n{text}", text.len())
        .into_bytes()
}

#[test]
fn bodies_are_read_whole_for_their_signature() {
    let Some(host) = host(told) else { return };
    let proxy = signing(&host, "sqs");
    let h = "Host: HOST\r\nConnection: close\r\nAuthorization: mine\r\n";
    let back = proxy.ask(&format!(
        "POST /aws/q HTTP/1.1\r\n{h}Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
    ));
    assert!(back.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"), "{back}");
    assert!(!back.contains(KEY) && !back.contains(TOKEN), "{back}");
    let request = host.seen.lock().unwrap().1[0].clone();
    assert!(
        request.contains("\r\nContent-Length: 7\r\n") && request.ends_with("\r\n\r\nabcdefg"),
        "{request}"
    );
    let signature = "authorization: AWS4-HMAC-SHA256 Credential=ASIAEXAMPLE/";
    assert!(request.contains(signature) && request.contains("/eu-west-1/sqs/aws4_request"), "{request}");
    for word in ["xpect", "chunked", "mine", KEY] {
        assert!(!request.contains(word), "{word}: {request}");
    }
    for (request, status) in [
        (format!("POST /aws/q HTTP/1.1\r\n{h}Content-Length: 8388609\r\n\r\n"), "413"),
        (
            format!(
                "POST /aws/q HTTP/1.1\r\n{h}Transfer-Encoding: chunked\r\n\r\n800001\r\n{}\r\n0\r\n\r\n",
                "x".repeat(8_388_609)
            ),
            "413",
        ),
        (
            format!(
                "PUT /aws/q HTTP/1.1\r\n{h}X-Amz-Content-Sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\r\nContent-Length: 1\r\n\r\na"
            ),
            "501",
        ),
        (format!("PUT /aws/q HTTP/1.1\r\n{h}X-Amz-Content-Sha256: x\r\nContent-Length: 1\r\n\r\na"), "501"),
    ] {
        let back = proxy.ask(&request);
        assert!(back.starts_with(&format!("HTTP/1.1 {status} ")), "{back}");
    }
    assert_eq!(host.seen.lock().unwrap().1.len(), 1, "nothing else was sent");
}

#[test]
fn bodies_stream_to_s3() {
    let Some(host) = host(told) else { return };
    let proxy = signing(&host, "s3");
    let body = "x".repeat(9 << 20);
    let back = proxy.ask(&format!(
        "PUT /aws/b/k HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nRange: bytes=0-1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert!(back.starts_with("HTTP/1.1 200 OK"), "{}", &back[..200]);
    let request = host.seen.lock().unwrap().1[0].clone();
    let head = request.split("\r\n\r\n").next().unwrap();
    assert!(head.contains("\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n"), "{head}");
    assert!(
        head.contains(&format!("\r\nx-amz-security-token: {TOKEN}\r\n")) && head.contains("Range"),
        "{head}"
    );
}

/// Requests by which a program tries to have something else signed than the rules allow, or something else sent than was signed; each with a
/// twin that differs in the point alone, and is sent. `sent`: text that the head of the attack has at the host, or `None` where nothing is sent.
struct Attack {
    name: &'static str,
    attack: &'static str,
    twin: &'static str,
    sent: Option<&'static str>,
}

const fn attack(name: &'static str, attack: &'static str, twin: &'static str) -> Attack {
    Attack { name, attack, twin, sent: None }
}

const ATTACKS: [Attack; 19] = [
    attack(
        "copy of another bucket's object",
        "PUT /b/k|x-amz-copy-source: /other/k",
        "PUT /b/k|x-amz-copy-source: /b/k2",
    ),
    attack("copy, escaped", "PUT /b/k|x-amz-copy-source: %6fther/k", "PUT /b/k|x-amz-copy-source: %62/k2"),
    attack(
        "copy, in another spelling",
        "PUT /b/k|X_Amz_Copy_Source: other/k",
        "PUT /b/k|X_Amz_Copy_Source: b/k2",
    ),
    attack(
        "renaming of another bucket's object",
        "PUT /b/k|x-amz-rename-source: /other/k",
        "PUT /b/k|x-amz-rename-source: /b/k2",
    ),
    attack(
        "copy by dots",
        "PUT /b/k|x-amz-copy-source: /b/../other/k",
        "PUT /b/k|x-amz-copy-source: /b/x..y",
    ),
    attack(
        "copy by an ARN",
        "PUT /b/k|x-amz-copy-source: arn:aws:s3:eu-west-1:1:accesspoint/a/object/k",
        "PUT /b/k|x-amz-copy-source: b/arn:k",
    ),
    attack(
        "copy by an escaped ARN",
        "PUT /b/k|x-amz-copy-source: %61rn:aws:s3:::a",
        "PUT /b/k|x-amz-copy-source: b/%61rn",
    ),
    attack(
        "second copy",
        "PUT /b/k|x-amz-copy-source: b/k|x-amz-copy-source: other/k",
        "PUT /b/k|x-amz-copy-source: b/k|x-amz-copy-source: b/k",
    ),
    attack("another bucket", "GET /other/k", "GET /b/k"),
    attack("another bucket by dots", "GET /b/../other/k", "GET /b/..other/k"),
    attack("another bucket by escaped dots", "GET /b/%2e%2e/other/k", "GET /b/%2e%2eother/k"),
    attack(
        "two digests",
        "PUT /b/k|x-amz-content-sha256: UNSIGNED-PAYLOAD|x-amz-content-sha256: UNSIGNED-PAYLOAD",
        "PUT /b/k|x-amz-content-sha256: UNSIGNED-PAYLOAD",
    ),
    attack(
        "body in signed parts",
        "PUT /b/k|x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "PUT /b/k|x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    ),
    attack("method in small letters", "delete /b/k", "DELETE /b/k"),
    Attack {
        sent: Some("/eu-west-1/s3/aws4_request"),
        ..attack(
            "signature for another service",
            "GET /b/k|authorization: AWS4-HMAC-SHA256 Credential=MINE/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=00",
            "GET /b/k",
        )
    },
    Attack {
        sent: Some("/eu-west-1/s3/aws4_request"),
        ..attack(
            "presigned for another region",
            "GET /b/k?X-Amz-Credential=MINE%2F20260101%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Signature=00&X-Amz-Algorithm=AWS4-HMAC-SHA256",
            "GET /b/k?x=1",
        )
    },
    Attack {
        sent: Some("/eu-west-1/s3/aws4_request"),
        ..attack(
            "date of tomorrow",
            "GET /b/k|x-amz-date: 21000101T000000Z|X_Amz_Date: 21000101T000000Z",
            "GET /b/k|x-own: 21000101T000000Z",
        )
    },
    Attack {
        sent: Some("/eu-west-1/s3/aws4_request"),
        ..attack(
            "session token of its own",
            "GET /b/k|x-amz-security-token: MINE|X_Amz_Security_Token: MINE",
            "GET /b/k|x-own: 1",
        )
    },
    Attack {
        sent: Some("/eu-west-1/s3/aws4_request"),
        ..attack("method by a header", "GET /b/k|X-HTTP-Method-Override: MINE", "GET /b/k|x-own: 1")
    },
];

#[test]
fn attacks_on_signatures_fail_and_their_twins_pass() {
    let Some(host) = host(told) else { return };
    let port = host.at.port();
    let secret = Secret::new(format!("ASIAEXAMPLE:{KEY}:{TOKEN}").into_bytes()).unwrap();
    let scheme = Scheme::AwsSigV4(Scope::new("eu-west-1", "s3").unwrap());
    let rules = RequestRules::new(&[], &["/b".to_owned()], &[], true).unwrap();
    let binding = format!("api.test:{port}").parse().unwrap();
    let route = Route::new("aws", binding, &scheme, &secret, rules, Some(&pki("root.pem"))).unwrap();
    let proxy = proxy(&format!("api.test={}:{port}", host.at.ip()), vec![route]);
    let ask = |text: &str| {
        let mut parts = text.split('|');
        let (method, path) = parts.next().unwrap().split_once(' ').unwrap();
        let headers: String = parts.map(|header| format!("{header}\r\n")).collect();
        let before = host.seen.lock().unwrap().1.len();
        let back = proxy.ask(&format!(
            "{method} /aws{path} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n{headers}\r\n"
        ));
        assert!(!back.contains(KEY) && !back.contains(TOKEN), "{text}: {back}");
        (back, host.seen.lock().unwrap().1[before..].to_vec())
    };
    for Attack { name, attack, twin, sent } in ATTACKS {
        let (back, seen) = ask(attack);
        match (sent, &seen[..]) {
            (None, []) => assert!(!back.starts_with("HTTP/1.1 200"), "{name}: {back}"),
            (Some(word), [head]) => {
                assert!(
                    head.contains(word) && !head.contains("MINE") && !head.contains("21000101"),
                    "{name}: {head}"
                );
            }
            (_, seen) => panic!("{name}: {back} {seen:?}"),
        }
        let (back, seen) = ask(twin);
        assert!(back.starts_with("HTTP/1.1 200") && seen.len() == 1, "the twin of {name}: {back} {seen:?}");
        assert!(seen[0].contains("/eu-west-1/s3/aws4_request"), "{name}: {seen:?}");
    }
}

fn github(request: &str) -> Vec<u8> {
    let (status, body) = match request.split(' ').nth(1).unwrap_or_default() {
        "/api/v3/app/installations/78/access_tokens" => {
            ("201 Created", r#"{"token":"ghs_0123456789","expires_at":"2001-09-09T01:46:40Z","x":1}"#)
        }
        "/api/v3/app/installations/79/access_tokens" => ("201 Created", r#"{"token":"ghs_0123456789"}"#),
        "/api/v3/installation/token"
            if request.contains("\r\nAuthorization: Bearer ghs_ends-0123456789\r\n") =>
        {
            ("204 No Content", "")
        }
        "/api/v3/installation/token" => ("500 Internal Server Error", ""),
        "/api/v3/app/installations/76/access_tokens" => {
            ("201 Created", r#"{"token":"ghs_ends-0123456789","expires_at":"2100-01-01T00:00:00Z"}"#)
        }
        "/api/v3/app/installations/77/access_tokens" => {
            ("201 Created", r#"{"token":"ghs_stays-0123456789","expires_at":"2100-01-01T00:00:00Z"}"#)
        }
        "/api/v3/app/installations/80/access_tokens" => ("401 Unauthorized", ""),
        "/api/v3/app/installations/81/access_tokens" => ("302 Found", ""),
        _ => ("404 Not Found", ""),
    };
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[test]
fn installation_gives_a_token_with_its_end() {
    let Some(host) = host(github) else { return };
    let port = host.at.port();
    let list: AllowList = format!("api.test={}:{port}", host.at.ip()).parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("app.pem");
    std::fs::copy(pki("app.pkcs1.pem"), &key).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let tokens = |installation: u64, list: &AllowList| {
        let app = GitHubApp {
            app: "123456".to_owned(),
            installation,
            api: format!("api.test:{port}/api/v3").parse().unwrap(),
            repositories: vec!["app".to_owned()],
            permissions: [("contents".to_owned(), "read".to_owned())].into(),
        };
        let source = ValueSource::Read(SecretSource::File(key.clone()));
        Tokens::new(app, source, Some(pki("root.pem")), Arc::new(Way::new(list, None)))
    };
    let made = tokens;
    let tokens = |installation: u64, list: &AllowList| made(installation, list).fetch();
    let fetched = tokens(78, &list).unwrap();
    assert_eq!(fetched.secret.expose(), b"ghs_0123456789");
    assert_eq!(fetched.expires_at, Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)));
    let request = host.seen.lock().unwrap().1[0].clone();
    assert!(
        request.contains("\r\nAuthorization: Bearer eyJ") && request.contains("application/vnd.github+json")
    );
    assert!(request.ends_with(r#"{"repositories":["app"],"permissions":{"contents":"read"}}"#), "{request}");
    assert!(!request.contains("PRIVATE KEY"), "{request}");
    for (installation, word) in
        [(79, "has no token"), (80, "this host's clock"), (81, "not followed"), (82, "no such installation")]
    {
        let why = tokens(installation, &list).unwrap_err().to_string();
        assert!(why.contains(word) && why.contains("api.test") && !why.contains("ghs_"), "{why}");
    }
    // A token is ended once, and one that has ended by itself not at all.
    let asked = |word: &str| host.seen.lock().unwrap().1.iter().filter(|text| text.starts_with(word)).count();
    let (ends, stays, over) = (made(76, &list), made(77, &list), made(78, &list));
    for tokens in [&ends, &stays, &over] {
        tokens.clone().fetch().unwrap();
    }
    assert!(!format!("{ends:?}").contains("ghs_"));
    assert_eq!((ends.revoke(), ends.revoke(), over.revoke()), (Ok(()), Ok(()), Ok(())));
    assert_eq!(asked("DELETE /api/v3/installation/token "), 1);
    // One that comes after the end is ended at once.
    let why = ends.clone().fetch().unwrap_err().to_string();
    assert!(why.contains("after the end of its run") && !why.contains("ghs_"), "{why}");
    assert_eq!(asked("DELETE /api/v3/installation/token "), 2);
    let why = stays.revoke().unwrap_err();
    assert!(why.contains("it answers 500") && !why.contains("ghs_"), "{why}");
    // Without a rule that names the address, it is one of this host.
    let why = tokens(78, &AllowList::default()).unwrap_err().to_string();
    assert!(why.contains("it has no address") || why.contains("it is at"), "{why}");
}
