//! Authorization servers that are used, by their metadata. Pure.

use hotcell_egress::suffix::public_suffix;
use reqwest::Url;
use rmcp::transport::auth::AuthorizationMetadata;

use crate::endpoint::{Endpoint, is_loopback};
use crate::error::{ClientError, foreign};

/// Decides whether an authorization server is used. Pure. `named`: the issuer that the user or an earlier login named.
///
/// # Errors
/// [`ClientError::Endpoint`] with what its metadata lack or name.
pub(super) fn judge(
    endpoint: &Endpoint,
    metadata: &AuthorizationMetadata,
    is_published: bool,
    named: Option<&str>,
) -> Result<(), ClientError> {
    let wrong = |why: String| Err(ClientError::Endpoint(why));
    if !is_published {
        return wrong(
            "the server publishes no authorization server; if it wants a token, give it one".to_owned(),
        );
    }
    let Some(issuer) = &metadata.issuer else {
        return wrong("the authorization server does not name itself (issuer)".to_owned());
    };
    let is_named = named.is_some_and(|named| named.trim_end_matches('/') == issuer.trim_end_matches('/'));
    if let Some(named) = named.filter(|_| !is_named) {
        let shown = foreign(issuer);
        return wrong(format!(
            "the server names the authorization server {shown}, and not {named}; nothing was sent"
        ));
    }
    let here = is_loopback(endpoint.url());
    let own_site = Url::parse(issuer).ok().as_ref().and_then(Url::host_str).map(site).map(str::to_owned);
    let named = [
        ("issuer", Some(issuer)),
        ("authorization_endpoint", Some(&metadata.authorization_endpoint)),
        ("token_endpoint", Some(&metadata.token_endpoint)),
        ("registration_endpoint", metadata.registration_endpoint.as_ref()),
    ];
    for (name, address) in named.into_iter().filter_map(|(name, address)| Some((name, address?))) {
        let shown = foreign(address);
        let Ok(url) = Url::parse(address) else {
            return wrong(format!("the authorization server's {name} is not an address: {shown}"));
        };
        let is_safe = url.scheme() == "https" || here && url.scheme() == "http" && is_loopback(&url);
        if !is_safe || !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return wrong(format!(
                "the authorization server's {name} is not used: {shown} is not a plain https address"
            ));
        }
        // A server that names its own issuer, the page of another one and its own place for codes would get that one's codes (mix-up).
        if !is_named && url.host_str().map(site) != own_site.as_deref() {
            let issuer = foreign(issuer);
            return wrong(format!(
                "the authorization server {issuer} has its {name} at another site: {shown}; if you know that they belong together, name it: ‹issuer={issuer}›"
            ));
        }
    }
    let methods = metadata.code_challenge_methods_supported.as_deref().unwrap_or_default();
    if !methods.iter().any(|method| method == "S256") {
        return wrong("the authorization server does not announce PKCE with S256, without which a stolen code is a token".to_owned());
    }
    Ok(())
}

/// Site of a host: its registered name, one label below a public suffix. An address is its own site.
fn site(host: &str) -> &str {
    let is_address =
        host.starts_with('[') || host.rsplit('.').next().is_some_and(|last| last.parse::<u32>().is_ok());
    if is_address {
        return host;
    }
    let below: Vec<&str> =
        std::iter::successors(Some(host), |name| name.split_once('.').map(|(_, parent)| parent)).collect();
    // The outermost label is a suffix of its own.
    let suffix = below.iter().position(|name| !name.contains('.') || public_suffix(name).is_some());
    suffix.and_then(|at| at.checked_sub(1)).map_or(host, |at| below[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(change: &serde_json::Value) -> AuthorizationMetadata {
        let mut all = serde_json::json!({
            "issuer": "https://login.example.com",
            "authorization_endpoint": "https://login.example.com/authorize",
            "token_endpoint": "https://login.example.com/token",
            "registration_endpoint": "https://login.example.com/register",
            "code_challenge_methods_supported": ["S256"],
        });
        all.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn authorization_servers_are_judged_by_their_metadata() {
        use serde_json::json;
        let (far, here) = ("https://example.com/mcp", "http://127.0.0.1:1/mcp");
        for (endpoint, change, says) in [
            (far, json!({}), None),
            (here, json!({}), None),
            (here, json!({ "token_endpoint": "http://127.0.0.1:2/token" }), Some("at another site")),
            (far, json!({ "registration_endpoint": null }), None),
            // Downgrades.
            (far, json!({ "token_endpoint": "http://login.example.com/token" }), Some("token_endpoint")),
            (
                far,
                json!({ "authorization_endpoint": "http://login.example.com/a" }),
                Some("authorization_endpoint"),
            ),
            (
                far,
                json!({ "registration_endpoint": "http://login.example.com/r" }),
                Some("registration_endpoint"),
            ),
            (far, json!({ "issuer": "http://login.example.com" }), Some("issuer")),
            (here, json!({ "token_endpoint": "http://login.example.com/token" }), Some("token_endpoint")),
            (far, json!({ "token_endpoint": "http://127.0.0.1:2/token" }), Some("token_endpoint")),
            (far, json!({ "authorization_endpoint": "javascript:alert(1)" }), Some("authorization_endpoint")),
            (far, json!({ "authorization_endpoint": "file:///etc/passwd" }), Some("authorization_endpoint")),
            (
                far,
                json!({ "token_endpoint": "https://user:s3cret@login.example.com/" }),
                Some("token_endpoint"),
            ),
            (far, json!({ "token_endpoint": "no address" }), Some("not an address")),
            // Without PKCE, or a name.
            (far, json!({ "code_challenge_methods_supported": null }), Some("PKCE")),
            (far, json!({ "code_challenge_methods_supported": ["plain"] }), Some("PKCE")),
            (far, json!({ "issuer": null }), Some("does not name itself")),
        ] {
            let got = judge(&Endpoint::new(endpoint).unwrap(), &metadata(&change), true, None);
            match (&got, says) {
                (Ok(()), None) => {}
                (Err(e), Some(says)) => assert!(e.to_string().contains(says), "{change}: {e}"),
                _ => panic!("{endpoint} {change}: {got:?}"),
            }
        }
        let guessed = judge(&Endpoint::new(far).unwrap(), &metadata(&json!({})), false, None);
        assert!(guessed.unwrap_err().to_string().contains("publishes no authorization server"));
    }

    #[test]
    fn servers_of_several_sites_are_named_by_the_user() {
        let far = Endpoint::new("https://example.com/mcp").unwrap();
        let issuer = "https://login.example.com";
        let other = serde_json::json!({ "token_endpoint": "https://evil.test/token" });
        let page = serde_json::json!({ "authorization_endpoint": "https://accounts.real.test/authorize" });
        let sibling = serde_json::json!({ "token_endpoint": "https://tokens.example.com/token" });
        for (change, named, says) in [
            (&serde_json::json!({}), None, None),
            (&sibling, None, None),
            (&other, None, Some("at another site")),
            (&page, None, Some("‹issuer=https://login.example.com›")),
            (&other, Some(issuer), None),
            (&other, Some("https://login.example.com/"), None),
            (&other, Some("https://login.real.test"), Some("and not https://login.real.test")),
        ] {
            let got = judge(&far, &metadata(change), true, named);
            match (&got, says) {
                (Ok(()), None) => {}
                (Err(e), Some(says)) => assert!(e.to_string().contains(says), "{change}: {e}"),
                _ => panic!("{change} {named:?}: {got:?}"),
            }
        }
    }

    #[test]
    fn sites_are_registered_names() {
        for (host, want) in [
            ("example.com", "example.com"),
            ("a.b.example.com", "example.com"),
            ("a.example.co.uk", "example.co.uk"),
            ("co.uk", "co.uk"),
            ("me.github.io", "me.github.io"),
            ("a.me.github.io", "me.github.io"),
            ("127.0.0.1", "127.0.0.1"),
            ("10.0.0.1", "10.0.0.1"),
            ("[::1]", "[::1]"),
            ("localhost", "localhost"),
            ("a.localhost", "a.localhost"),
        ] {
            assert_eq!(site(host), want, "{host}");
        }
    }
}
