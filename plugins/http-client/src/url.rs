//! Addresses of requests.

/// An address in parts.
#[derive(Debug, PartialEq)]
pub(crate) struct Address<'a> {
    pub(crate) https: bool,
    pub(crate) authority: &'a str,
    pub(crate) path: String,
}

/// Takes an address apart. Whether its place was granted is decided by the host.
pub(crate) fn parse(url: &str) -> Result<Address<'_>, String> {
    let wrong = |why: &str| format!("'{}' {why}; it has to be like https://host/path", url.escape_debug());
    let (https, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return Err(wrong("is no address of http or https")),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if authority.is_empty() || !authority.chars().all(plain) {
        return Err(wrong("has no plain host"));
    }
    // The part behind # stays with the one who asks.
    let path = path.split('#').next().unwrap_or_default();
    if !path.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(wrong("has characters that have to be written as %XX"));
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok(Address { https, authority, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (url, https, authority, path) in [
            ("https://a.org", true, "a.org", "/"),
            ("http://127.0.0.1:80/x?y=1#z", false, "127.0.0.1:80", "/x?y=1"),
            ("https://a.org?x", true, "a.org", "/?x"),
            ("https://[::1]:8/", true, "[::1]:8", "/"),
        ] {
            assert_eq!(parse(url), Ok(Address { https, authority, path: path.to_owned() }), "{url}");
        }
        for url in [
            "",
            "a.org",
            "ftp://a.org",
            "https://",
            "https://u@a.org/",
            "https://a.org/a b",
            "https://a.org/\n",
            "https://ä.org/",
        ] {
            assert!(parse(url).is_err(), "{url}");
        }
    }
}
