//! Other requests that a request's headers make of it.

use std::iter;

use super::{Bad, plain_name};

/// Methods and paths in headers that some servers and frameworks act on in place of the request line: `X-Original-URL` and
/// `X-Rewrite-URL` (IIS, Symfony, Zend), `X-HTTP-Method-Override` and its kin, and `Destination` of COPY and MOVE (RFC 4918, 10.3). A rule for methods or
/// paths holds for each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Methods, in capitals as servers read them.
    methods: Vec<String>,
    /// Paths without their queries.
    paths: Vec<String>,
}

impl Overrides {
    /// Maximum number of methods, and of paths: each is judged with each.
    const MAX: usize = 4;

    pub(super) fn of(method: &str, headers: &[httparse::Header<'_>]) -> Result<Self, Bad> {
        let mut all = Self::default();
        let mut destinations = Vec::new();
        for header in headers {
            let list = match plain_name(header.name).as_str() {
                "x-original-url" | "x-rewrite-url" => &mut all.paths,
                "destination" => &mut destinations,
                "x-http-method" | "x-http-method-override" | "x-method-override" => &mut all.methods,
                _ => continue,
            };
            if list.len() == Self::MAX {
                return Err(Bad::Malformed);
            }
            list.push(String::from_utf8_lossy(header.value.trim_ascii()).into_owned());
        }
        all.methods.iter_mut().for_each(|method| method.make_ascii_uppercase());
        let writes = |method: &str| matches!(method, "COPY" | "MOVE");
        if writes(method) || all.methods.iter().any(|method| writes(method)) {
            all.paths.extend(destinations.iter().map(|destination| path_of(destination).to_owned()));
        }
        if all.paths.len() > Self::MAX {
            return Err(Bad::Malformed);
        }
        for path in &mut all.paths {
            path.truncate(path.find('?').unwrap_or(path.len()));
        }
        Ok(all)
    }

    /// Every method with every path that a server may take the request for, the request's own first.
    pub(crate) fn readings<'a>(
        &'a self,
        method: &'a str,
        path: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let methods = move || iter::once(method).chain(self.methods.iter().map(String::as_str));
        iter::once(path)
            .chain(self.paths.iter().map(String::as_str))
            .flat_map(move |path| methods().map(move |method| (method, path)))
    }
}

/// Path of an address that may have a scheme and a host.
fn path_of(address: &str) -> &str {
    let is_scheme = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+.-".contains(&b))
    };
    match address.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => {
            let path = rest.find(['/', '?', '#']).map_or("", |at| &rest[at..]);
            if path.starts_with('/') { path } else { "/" }
        }
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use crate::http::{ProxyRequest, request};

    #[test]
    fn headers_that_name_another_request_are_readings_of_it() {
        let readings = |headers: &str| {
            let text = format!("POST http://a.test/x HTTP/1.1\r\nHost: a.test\r\n{headers}\r\n");
            match request(text.as_bytes(), None) {
                Ok(Some((ProxyRequest::Forward(f), _))) => Ok(f
                    .overrides
                    .readings(&f.method, "/x")
                    .map(|(m, p)| format!("{m} {p}"))
                    .collect::<Vec<_>>()),
                other => Err(format!("{other:?}")),
            }
        };
        assert_eq!(readings("X-Other: /y\r\n").unwrap(), ["POST /x"]);
        assert_eq!(readings("x_original-URL: /y?z\r\n").unwrap(), ["POST /x", "POST /y"]);
        assert_eq!(
            readings("X-Rewrite-URL: /y\r\nX-HTTP-Method-Override: delete\r\n").unwrap(),
            ["POST /x", "DELETE /x", "POST /y", "DELETE /y"]
        );
        assert!(readings(&"X-Method-Override: PUT\r\n".repeat(5)).is_err());
        assert_eq!(readings("Destination: /y\r\n").unwrap(), ["POST /x"]);
        for (destination, path) in [
            ("/y?z", "/y"),
            ("http://a.test/y", "/y"),
            ("HTTP://a.test:80/y", "/y"),
            ("http://a.test", "/"),
            ("http://a.test?/z", "/"),
            ("/y?x=://h/z", "/y"),
            ("/y/x://h/z", "/y/x://h/z"),
        ] {
            let headers = format!("X-HTTP-Method: move\r\nDestination: {destination}\r\n");
            let want = ["POST /x", "MOVE /x"].map(str::to_owned).into_iter();
            let want = want.chain([format!("POST {path}"), format!("MOVE {path}")]);
            assert_eq!(readings(&headers).unwrap(), want.collect::<Vec<_>>(), "{destination}");
        }
    }
}
