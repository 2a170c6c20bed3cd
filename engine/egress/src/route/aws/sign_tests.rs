//! AWS's own examples: those of its test suite for Signature Version 4, and those of S3's documentation
//! (<https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html>).

use proptest::prelude::*;

use super::*;
use crate::secret::Secret;

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn keys(text: &str) -> Keys {
    Keys::of("aws", &Secret::new(text.as_bytes().to_vec()).unwrap()).ok().unwrap()
}

/// Signature and names of the headers of a request.
fn signed(
    (keys, scope, moment): (&Keys, &Scope, &str),
    (method, target): (&str, &str),
    headers: &[(&str, &str)],
    payload: &str,
) -> (String, String) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers: Vec<(String, Vec<u8>)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
    let query = Query::read(query, |_| false);
    let request = Request { method, path, query: &query, headers: &headers, payload };
    let text = authorization(&request, keys, scope, &Moment(moment.to_owned()));
    let part = |name: &str| text.split(name).nth(1).unwrap().split(',').next().unwrap().to_owned();
    (part("Signature="), part("SignedHeaders="))
}

#[test]
fn requests_of_the_suite_have_its_signatures() {
    let keys = keys("AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    let scope = Scope::new("us-east-1", "service").unwrap();
    for (method, target, want) in [
        ("GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        // get-vanilla-query-order-key-case
        (
            "GET",
            "/?Param2=value2&Param1=value1",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        // get-vanilla-utf8-query, get-utf8
        ("GET", "/?%E1%88%B4=bar", "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"),
        ("GET", "/\u{1234}", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
        // get-relative, get-slash, get-slash-dot-slash, get-relative-relative
        ("GET", "/example/..", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("GET", "//", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("GET", "/./", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (
            "GET",
            "/example1/example2/../..",
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
    ] {
        let headers = [("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")];
        let (got, names) = signed((&keys, &scope, "20150830T123600Z"), (method, target), &headers, EMPTY);
        assert_eq!((got.as_str(), names.as_str()), (want, "host;x-amz-date"), "{method} {target}");
    }
}

#[test]
fn requests_of_s3_have_the_documented_signatures() {
    let keys = keys("AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
    let scope = Scope::of_host("examplebucket.s3.amazonaws.com").unwrap();
    let put = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    let host = ("host", "examplebucket.s3.amazonaws.com");
    let time = ("x-amz-date", "20130524T000000Z");
    let digest = |payload| ("x-amz-content-sha256", payload);
    for (method, target, payload, more, want) in [
        (
            "GET",
            "/test.txt",
            EMPTY,
            vec![("range", "bytes=0-9")],
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test%24file.text",
            put,
            vec![("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")],
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET",
            "/?lifecycle",
            EMPTY,
            vec![],
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "GET",
            "/?max-keys=2&prefix=J",
            EMPTY,
            vec![],
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ] {
        let headers = [vec![host, time, digest(payload)], more].concat();
        let (got, _) = signed((&keys, &scope, "20130524T000000Z"), (method, target), &headers, payload);
        assert_eq!(got, want, "{method} {target}");
    }
}

#[test]
fn values_of_headers_are_folded_and_joined() {
    for (value, want) in [(" a   b \t c ", "a b c"), ("\"a   b\"", "\"a b\""), ("", "")] {
        assert_eq!(folded(value.as_bytes()), want.as_bytes(), "{value:?}");
    }
    let query = Query::default();
    let headers = [("x-amz-meta-b", "2"), ("host", "h"), ("x-amz-meta-b", " 1"), ("x-amz-a", "3")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    let request = Request { method: "GET", path: "/", query: &query, headers: &headers, payload: "p" };
    let (text, _) = canonical(&request, &Scope::new("r", "s").unwrap());
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "GET\n/\n\nhost:h\nx-amz-a:3\nx-amz-meta-b:2,1\n\nhost;x-amz-a;x-amz-meta-b\np"
    );
}

#[test]
fn queries_are_sent_as_they_are_signed() {
    for (text, sent, signed) in [
        ("b=2&a=1", "a=1&b=2", "a=1&b=2"),
        ("uploads", "uploads", "uploads="),
        ("a=x+y%2Bz&&A=%7e%zz", "A=~%25zz&a=x%20y%2Bz", "A=~%25zz&a=x%20y%2Bz"),
        ("p=a/b=c", "p=a%2Fb%3Dc", "p=a%2Fb%3Dc"),
        ("X-Amz-Date=1&x=2", "x=2", "x=2"),
        ("", "", ""),
    ] {
        let query = Query::read(text, |name| name == "X-Amz-Date");
        assert_eq!((query.sent(), query.joined(true)), (sent.to_owned(), signed.to_owned()), "{text}");
    }
}

#[test]
fn moments_are_in_the_calendar() {
    for (seconds, want) in [
        (0, "19700101T000000Z"),
        (951_825_600, "20000229T120000Z"),
        (1_440_938_160, "20150830T123600Z"),
        (1_795_860_000, "20261128T100000Z"),
        (4_107_542_399, "21000228T235959Z"),
    ] {
        assert_eq!(Moment::of(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).text(), want);
    }
    assert_eq!(Moment::of(SystemTime::UNIX_EPOCH - Duration::from_secs(9)).text(), "19700101T000000Z");
}

proptest! {
    #[test]
    fn queries_that_were_sent_are_read_alike(text in "[a-cA-C=&%+/ é0-9]{0,40}") {
        let query = Query::read(&text, |_| false);
        prop_assert_eq!(Query::read(&query.sent(), |_| false), query);
    }

    #[test]
    fn paths_are_one_line(path in "/[!-~é]{0,40}") {
        for text in [encoded_again(&path), encoded(&decoded(&path), true)] {
            prop_assert!(text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic()), "{}", text);

        }
    }
}
