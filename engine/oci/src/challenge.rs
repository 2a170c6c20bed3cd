//! Authentication challenge of a registry: the server that gives tokens, and what to ask it for. Pure.

/// A challenge of the scheme `Bearer`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// URL of the token server.
    pub realm: String,
    /// Service that the token is for.
    pub service: Option<String>,
    /// Permissions of the token.
    pub scope: Option<String>,
}

impl Challenge {
    /// Parses `Bearer realm="…",service="…",scope="…"`; `None` for other schemes and without a realm.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, mut rest) = text.trim().split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut challenge = Self::default();
        while let Some((key, after)) = rest.split_once("=\"") {
            let (value, more) = after.split_once('"')?;
            match key.trim_matches([',', ' ']).to_ascii_lowercase().as_str() {
                "realm" => value.clone_into(&mut challenge.realm),
                "service" => challenge.service = Some(value.to_owned()),
                "scope" => challenge.scope = Some(value.to_owned()),
                _ => {}
            }
            rest = more;
        }
        (!challenge.realm.is_empty()).then_some(challenge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_challenge_is_parsed() {
        let all = |realm: &str, service: Option<&str>, scope: Option<&str>| {
            let text = |text: Option<&str>| text.map(str::to_owned);
            Some(Challenge { realm: realm.to_owned(), service: text(service), scope: text(scope) })
        };
        for (text, wanted) in [
            (
                r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#,
                all(
                    "https://auth.docker.io/token",
                    Some("registry.docker.io"),
                    Some("repository:a/b:pull,push"),
                ),
            ),
            (r#"bearer  realm="https://a.org" , error="x""#, all("https://a.org", None, None)),
            (r#"Bearer service="x""#, None),
            (r#"Bearer realm="https://a.org"#, None),
            (r#"Basic realm="https://a.org""#, None),
            ("Bearer", None),
            ("", None),
        ] {
            assert_eq!(Challenge::parse(text), wanted, "{text}");
        }
    }
}
