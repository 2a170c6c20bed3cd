//! The operator's own proxy, through which runs reach hosts: `upstream_proxy` and `upstream_proxy_auth`.

use hotcell_egress::program::ValueSource;
use hotcell_egress::upstream::{Upstream, check_place};

/// A proxy as the operator names it; it has no value of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSetting {
    /// `HOST:PORT`.
    pub place: String,
    /// Source of its credential, `USER:PASSWORD`.
    pub credential: Option<ValueSource>,
}

impl UpstreamSetting {
    /// Settings of a file's two keys. The error has the key, and a sentence without any value.
    pub(crate) fn parse(
        place: Option<String>,
        credential: Option<String>,
    ) -> Result<Option<Self>, (&'static str, String)> {
        let Some(place) = place else {
            return match credential {
                None => Ok(None),
                Some(_) => {
                    Err(("upstream_proxy_auth", "there is no upstream_proxy that it is for".to_owned()))
                }
            };
        };
        check_place(&place).map_err(|why| ("upstream_proxy", why))?;
        let source = credential.map(|text| text.parse::<ValueSource>()).transpose();
        let credential = source.map_err(|_| {
            let why = "it is env:VARIABLE, file:/PATH, fd:NUMBER, keyring:NAME or exec:/PATH; a credential itself is not accepted";
            ("upstream_proxy_auth", why.to_owned())
        })?;
        Ok(Some(Self { place, credential }))
    }

    /// The proxy with its credential, which is read now.
    ///
    /// # Errors
    /// A sentence without any value, when the source cannot be read, or its value is not `USER:PASSWORD`.
    pub fn open(&self) -> Result<Upstream, String> {
        let fetched = self.credential.as_ref().map(ValueSource::fetch).transpose();
        let fetched = fetched.map_err(|e| format!("upstream_proxy_auth: {e}"))?;
        Upstream::new(&self.place, fetched.as_ref().map(|fetched| &fetched.secret))
            .map_err(|why| format!("upstream_proxy: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_and_credential_are_read_or_named() {
        let parse = |place: Option<&str>, credential: Option<&str>| {
            UpstreamSetting::parse(place.map(str::to_owned), credential.map(str::to_owned))
        };
        assert_eq!(parse(None, None), Ok(None));
        let both = parse(Some("proxy.test:3128"), Some("env:PROXY_LOGIN")).unwrap().unwrap();
        assert_eq!((both.place.as_str(), both.credential.is_some()), ("proxy.test:3128", true));
        for (place, credential, key, word) in [
            (None, Some("env:A"), "upstream_proxy_auth", "no upstream_proxy"),
            (Some("proxy.test"), None, "upstream_proxy", "names no port"),
            (Some("https://proxy.test:1"), None, "upstream_proxy", "without TLS"),
            (Some("proxy.test:1"), Some("me:pass-word"), "upstream_proxy_auth", "not accepted"),
        ] {
            let (wrong, why) = parse(place, credential).unwrap_err();
            assert!(wrong == key && why.contains(word) && !why.contains("pass-word"), "{why}");
        }
        let unset = parse(Some("proxy.test:1"), Some("env:HOTCELL_TEST_UNSET")).unwrap().unwrap();
        assert!(unset.open().unwrap_err().contains("HOTCELL_TEST_UNSET is not set"));
    }
}
