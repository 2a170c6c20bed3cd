//! URLs of requests.

/// GitHub's own server.
pub(crate) const GITHUB: &str = "https://api.github.com";

/// A server: scheme, authority, and a path prefix for all requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Base {
    pub(crate) https: bool,
    pub(crate) authority: String,
    pub(crate) path: String,
}

impl Base {
    /// Parses the setting `base-url`.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let wrong = || format!("the setting base-url is '{url}'; it has to be like {GITHUB}");
        let (https, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(wrong()),
        };
        let (authority, path) =
            rest.split_once('/').map_or((rest, ""), |(a, p)| (a, p.trim_end_matches('/')));
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if authority.is_empty() || !authority.chars().all(plain) || path.contains(['?', '#', ' ']) {
            return Err(wrong());
        }
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Self { https, authority: authority.to_owned(), path })
    }

    /// Path of a redirect relative to this base, if it leads to the same server.
    pub(crate) fn same(&self, location: &str) -> Option<String> {
        let other = location.split_once("://").map_or(Some((None, location)), |(scheme, rest)| {
            Some((Some((scheme == "https", rest.split_once('/')?.0)), &rest[rest.find('/')?..]))
        });
        match other? {
            (Some(server), path) if server == (self.https, self.authority.as_str()) => Some(path.to_owned()),
            (None, path) if path.starts_with('/') && !path.starts_with("//") => Some(path.to_owned()),
            _ => None,
        }
        .and_then(|path| path.strip_prefix(&self.path).map(str::to_owned))
    }
}

/// Extracts `owner/name`, also from the URL of a page.
pub(crate) fn repository(given: &str) -> Result<String, String> {
    let wrong = || format!("'{given}' is no repository; it has to be like owner/name");
    let short =
        given.trim().trim_start_matches("https://github.com/").trim_end_matches('/').trim_end_matches(".git");
    let (owner, name) = short.split_once('/').ok_or_else(wrong)?;
    let fine = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        !part.is_empty() && part.len() <= 100 && part.chars().all(plain) && !part.chars().all(|c| c == '.')
    };
    if fine(owner) && fine(name) { Ok(format!("{owner}/{name}")) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_a_server_and_a_path() {
        let base = |https, authority: &str, path: &str| Base {
            https,
            authority: authority.into(),
            path: path.into(),
        };
        assert_eq!(Base::parse(GITHUB).unwrap(), base(true, "api.github.com", ""));
        assert_eq!(Base::parse("http://127.0.0.1:8080/").unwrap(), base(false, "127.0.0.1:8080", ""));
        assert_eq!(
            Base::parse("https://git.example.org/api/v3/").unwrap(),
            base(true, "git.example.org", "/api/v3")
        );
        for bad in
            ["", "api.github.com", "ftp://x", "https://", "https://a@b/", "https://a b", "https://a/x?y"]
        {
            assert!(Base::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn redirects_stay_on_the_server() {
        let base = Base::parse("https://git.example.org/api").unwrap();
        for (location, want) in [
            ("https://git.example.org/api/repositories/1", Some("/repositories/1")),
            ("/api/x", Some("/x")),
            ("https://git.example.org/other", None),
            ("http://git.example.org/api/x", None),
            ("https://evil.example.org/api/x", None),
            ("//evil.example.org/api/x", None),
            ("x", None),
        ] {
            assert_eq!(base.same(location).as_deref(), want, "{location}");
        }
    }

    #[test]
    fn repositories_are_two_plain_names() {
        for (given, want) in [
            ("a/b", Some("a/b")),
            ("https://github.com/a-1/b.c_d/", Some("a-1/b.c_d")),
            ("a/b.git", Some("a/b")),
            ("a", None),
            ("a/b/c", None),
            ("a/..", None),
            ("../b", None),
            ("a/b?x", None),
            ("a/b%2f", None),
            ("/b", None),
        ] {
            assert_eq!(repository(given).ok().as_deref(), want, "{given}");
        }
    }
}
