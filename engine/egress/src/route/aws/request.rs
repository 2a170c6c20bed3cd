//! A request of a program's, written anew with a signature of ours: what was signed by its client is left out.

use std::time::SystemTime;

use zeroize::Zeroizing;

use super::sign::{self, Moment, Query, Request};
use super::{Keys, Scope};
use crate::http::Body;
use crate::route::Route;
use crate::route::head::{Asked, goes_on, line, opening};

/// Parameters of a client's own signature in a query, in small letters.
const OF_SIGNATURES: [&str; 7] = [
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
];
/// Header with the digest of the body.
const DIGEST: &str = "x-amz-content-sha256";
/// Headers of the program's that go on although they ask for parts: the key is not sent, so no answer repeats it in parts.
const KEPT: [&str; 2] = ["range", "if-range"];
/// Word of S3 for a body that is not signed, which TLS protects.
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// Line for the body in what is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// This one, of a body that streams: a digest that the host compares, or a word of S3.
    Line(String),
    /// The digest of a body that has to be read for it.
    Whole,
}

/// The line for a request's body.
///
/// # Errors
/// A sentence for a body in parts that are signed each, or a digest of another form.
pub fn payload(scope: &Scope, asked: &Asked) -> Result<Payload, String> {
    let mut said = asked.values(DIGEST);
    let said = match (said.next(), said.next()) {
        (None, _) => None,
        (Some(said), None) => Some(said),
        _ => return Err(format!("its header {DIGEST} is there twice")),
    };
    let is_digest =
        |text: &[u8]| text.len() == 64 && text.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match said.map(<[u8]>::trim_ascii) {
        Some(text) if is_digest(text) => Ok(Payload::Line(String::from_utf8_lossy(text).into_owned())),
        Some(text @ (b"UNSIGNED-PAYLOAD" | b"STREAMING-UNSIGNED-PAYLOAD-TRAILER")) if scope.is_s3() => {
            Ok(Payload::Line(String::from_utf8_lossy(text).into_owned()))
        }
        Some(text) if text.starts_with(b"STREAMING-") => Err(
            "its body has a signature for each part, which cannot be made anew: let the client sign the whole body or none of it \
             (AWS SDKs: request_checksum_calculation = when_required, or payload signing off)"
                .to_owned(),
        ),
        Some(b"UNSIGNED-PAYLOAD") => Ok(Payload::Whole),
        Some(_) => Err(format!("its header {DIGEST} is not a digest")),
        None if asked.body == Body::Length(0) => Ok(Payload::Line(sign::hex(&sign::sha256(b"")))),
        None if scope.is_s3() => Ok(Payload::Line(UNSIGNED.to_owned())),
        None => Ok(Payload::Whole),
    }
}

/// The line for a body that was read.
pub fn line_of(body: &[u8]) -> String {
    sign::hex(&sign::sha256(body))
}

/// Head for the host, with a signature of this time. `payload`: the line for the body.
pub fn head(
    route: &Route,
    (keys, scope): (&Keys, &Scope),
    asked: &Asked,
    path: &str,
    payload: &str,
    now: SystemTime,
) -> Zeroizing<Vec<u8>> {
    let moment = Moment::of(now);
    let skipped = |name: &str| OF_SIGNATURES.contains(&name.to_ascii_lowercase().as_str());
    let query = Query::read(asked.query.as_deref().unwrap_or_default(), skipped);
    let sent = query.sent();
    let mut own: Vec<(String, Vec<u8>)> = vec![
        ("host".to_owned(), route.binding().authority().into_bytes()),
        ("x-amz-date".to_owned(), moment.text().as_bytes().to_vec()),
    ];
    if scope.is_s3() || asked.values(DIGEST).next().is_some() {
        own.push((DIGEST.to_owned(), payload.as_bytes().to_vec()));
    }
    let is_ours = |name: &str| {
        let name = name.to_ascii_lowercase().replace('_', "-");
        [DIGEST, "x-amz-date", "x-amz-security-token", "date"].contains(&name.as_str())
    };
    let kept = asked.headers().filter(|(name, _)| goes_on(name, "authorization", &KEPT) && !is_ours(name));
    let kept: Vec<&(String, Vec<u8>)> = kept.collect();
    let mut signed = own.clone();
    if let Some(token) = &keys.token {
        signed.push(("x-amz-security-token".to_owned(), token.to_vec()));
    }
    for (name, value) in &kept {
        let name = name.to_ascii_lowercase();
        if name.starts_with("x-amz-") || matches!(name.as_str(), "content-type" | "content-md5") {
            signed.push((name, value.clone()));
        }
    }
    let request = Request { method: &asked.method, path, query: &query, headers: &signed, payload };
    let authorization = sign::authorization(&request, keys, scope, &moment);
    let opened = opening(route, asked, path, Some(sent.as_str()).filter(|sent| !sent.is_empty()));
    let mut head = Zeroizing::new(opened.into_bytes());
    // Room for all, so that no copy of the token stays behind when the buffer grows.
    let of =
        |headers: &mut dyn Iterator<Item = (usize, usize)>| headers.map(|(a, b)| a + b + 4).sum::<usize>();
    let length = of(&mut kept.iter().map(|(name, value)| (name.len(), value.len())))
        + of(&mut signed.iter().map(|(name, value)| (name.len(), value.len())));
    head.reserve_exact(length + authorization.len() + 64);
    for (name, value) in kept {
        line(&mut head, name.as_bytes(), value);
    }
    for (name, value) in own.iter().skip(1) {
        line(&mut head, name.as_bytes(), value);
    }
    if let Some(token) = &keys.token {
        line(&mut head, b"x-amz-security-token", token);
    }
    line(&mut head, b"authorization", authorization.as_bytes());
    head.extend_from_slice(b"\r\n");
    // A copy of the token stood in what was signed.
    signed.into_iter().for_each(|(_, value)| drop(Zeroizing::new(value)));
    head
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::route::head::{Authority, request};
    use crate::route::rules::RequestRules;
    use crate::route::{Binding, Scheme};
    use crate::secret::Secret;

    const VALUE: &str = "ASIAEXAMPLE:wJalrXUtnFEMI/K7MDENG+b:IQoJb3JpZ2luX2Vj//8=";

    fn asked(text: &str) -> Asked {
        request(text.as_bytes(), Authority::Host("s3.eu-west-1.amazonaws.com", 443)).unwrap().unwrap().0
    }

    fn sent(service: &str, more: &str) -> String {
        let scope = Scope::new("eu-west-1", service).unwrap();
        let binding: Binding = "s3.eu-west-1.amazonaws.com".parse().unwrap();
        let secret = Secret::new(VALUE.as_bytes().to_vec()).unwrap();
        let scheme = Scheme::AwsSigV4(scope.clone());
        let route = Route::new("aws", binding, &scheme, &secret, RequestRules::default(), None).unwrap();
        let keys = Keys::of("aws", &secret).ok().unwrap();
        let asked = asked(&format!("{more}\r\nHost: s3.eu-west-1.amazonaws.com\r\n\r\n"));
        let Ok(Payload::Line(line)) = payload(&scope, &asked) else { panic!("{more}") };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160);
        let head = head(&route, (&keys, &scope), &asked, &asked.path, &line, now);
        String::from_utf8(head.to_vec()).unwrap()
    }

    #[test]
    fn signature_of_the_program_is_left_out() {
        let head = sent(
            "s3",
            "GET /b/k?list-type=2&X-Amz-Signature=0&x-amz-credential=a HTTP/1.1\r\nAuthorization: AWS4-HMAC-SHA256 mine\r\n\
             X-Amz-Date: 19700101T000000Z\r\nDate: mine\r\nX_Amz_Date: mine\r\nX-Amz-Security-Token: mine\r\nX-Amz-Meta-A: b\r\nRange: bytes=0-9\r\nCookie: c",
        );
        let (first, rest) = head.split_once("\r\n").unwrap();
        assert_eq!(first, "GET /b/k?list-type=2 HTTP/1.1");
        let mut lines: Vec<&str> = rest.trim_end().split("\r\n").collect();
        let authorization = lines.pop().unwrap();
        assert_eq!(
            lines,
            [
                "Host: s3.eu-west-1.amazonaws.com",
                "Accept-Encoding: identity",
                "X-Amz-Meta-A: b",
                "Range: bytes=0-9",
                "x-amz-date: 20150830T123600Z",
                "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                "x-amz-security-token: IQoJb3JpZ2luX2Vj//8=",
            ]
        );
        let begin = "authorization: AWS4-HMAC-SHA256 Credential=ASIAEXAMPLE/20150830/eu-west-1/s3/aws4_request, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-security-token, Signature=";
        assert!(authorization.starts_with(begin), "{authorization}");
        assert!(!head.contains("wJalrXUtnFEMI") && !head.contains("mine"), "{head}");
        // Other services have no line with a digest.
        assert!(!sent("sqs", "GET / HTTP/1.1").contains("x-amz-content-sha256"));
    }

    #[test]
    fn bodies_are_signed_whole_or_not() {
        let digest = "a".repeat(64);
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let line = |text: &str| Ok(Payload::Line(text.to_owned()));
        for (service, body, said, want) in [
            ("s3", 0, None, line(empty)),
            ("s3", 9, None, line(UNSIGNED)),
            ("s3", 9, Some(digest.as_str()), line(&digest)),
            ("s3", 9, Some("UNSIGNED-PAYLOAD"), line(UNSIGNED)),
            ("s3", 9, Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER"), line("STREAMING-UNSIGNED-PAYLOAD-TRAILER")),
            ("s3", 9, Some("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), Err("signature for each part")),
            ("s3", 9, Some("nonsense"), Err("not a digest")),
            ("s3", 9, Some("a\r\nX-Amz-Content-Sha256: b"), Err("twice")),
            ("sqs", 9, None, Ok(Payload::Whole)),
            ("sqs", 9, Some("UNSIGNED-PAYLOAD"), Ok(Payload::Whole)),
            ("sqs", 9, Some(digest.as_str()), line(&digest)),
            ("sqs", 0, None, line(empty)),
        ] {
            let said = said.map(|said| format!("X-Amz-Content-Sha256: {said}\r\n")).unwrap_or_default();
            let asked = asked(&format!(
                "POST / HTTP/1.1\r\nHost: s3.eu-west-1.amazonaws.com\r\nContent-Length: {body}\r\n{said}\r\n"
            ));
            let got = payload(&Scope::new("eu-west-1", service).unwrap(), &asked);
            match want {
                Ok(want) => assert_eq!(got, Ok(want), "{service} {body} {said}"),
                Err(word) => assert!(got.clone().is_err_and(|why| why.contains(word)), "{said}: {got:?}"),
            }
        }
    }
}
