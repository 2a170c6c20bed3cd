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

fn github(request: &str) -> Vec<u8> {
    let (status, body) = match request.split(' ').nth(1).unwrap_or_default() {
        "/api/v3/app/installations/78/access_tokens" => {
            ("201 Created", r#"{"token":"ghs_0123456789","expires_at":"2001-09-09T01:46:40Z","x":1}"#)
        }
        "/api/v3/app/installations/79/access_tokens" => ("201 Created", r#"{"token":"ghs_0123456789"}"#),
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
        Tokens::new(app, source, Some(pki("root.pem")), Arc::new(Way::new(list, None))).fetch()
    };
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
    // Without a rule that names the address, it is one of this host.
    let why = tokens(78, &AllowList::default()).unwrap_err().to_string();
    assert!(why.contains("it has no address") || why.contains("it is at"), "{why}");
}
