//! Team mode: the page behind a reverse proxy that signs people in. The proxy names the person in a header, which counts only on its own connection.

use std::collections::BTreeSet;

use axum::http::{HeaderMap, HeaderName};
use hotcell_config::WebSettings;
use hotcell_config::web::is_name;
use hotcell_http::FromProxy;

use crate::admit::Refused;
use crate::sessions::Role;

/// Whom the page believes, and what each person may do.
#[derive(Clone, Debug)]
pub struct Team {
    /// Host of the page in browsers.
    pub host: String,
    /// Origin of the page in browsers.
    pub origin: String,
    header: HeaderName,
    readers: BTreeSet<String>,
    deciders: BTreeSet<String>,
}

impl Team {
    /// The team of a configuration; `None` where it has none.
    #[must_use]
    pub fn of(settings: &WebSettings) -> Option<Self> {
        settings.listen.as_ref()?;
        Some(Self {
            host: settings.host()?.to_owned(),
            origin: settings.address.clone()?,
            header: settings.identity_header.as_deref()?.parse().ok()?,
            readers: settings.readers.clone(),
            deciders: settings.deciders.clone(),
        })
    }

    /// Name of the person's header.
    #[must_use]
    pub const fn header(&self) -> &HeaderName {
        &self.header
    }

    /// The person of a request and their role. `from` is what the kernel says about the connection.
    ///
    /// # Errors
    /// [`Refused`] when the connection is not the proxy's, it names no person or two, or the person has no role.
    pub fn person(&self, headers: &HeaderMap, from: Option<FromProxy>) -> Result<(String, Role), Refused> {
        if from != Some(FromProxy(true)) {
            return Err(Refused::NotTheProxy);
        }
        let mut values = headers.get_all(&self.header).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return Err(Refused::NoIdentity) };
        let name = value.to_str().ok().filter(|name| is_name(name)).ok_or(Refused::NoIdentity)?;
        let role = if self.deciders.contains(name) {
            Role::Decider
        } else if self.readers.contains(name) {
            Role::Reader
        } else {
            return Err(Refused::NoRole);
        };
        Ok((name.to_owned(), role))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn person_is_believed_from_the_proxy_only() {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let team = Team {
            host: "review.example.com".to_owned(),
            origin: "https://review.example.com".to_owned(),
            header: HeaderName::from_static("x-forwarded-user"),
            readers: names(&["alice", "bob"]),
            deciders: names(&["bob"]),
        };
        let proxy = Some(FromProxy(true));
        for (values, from, want) in [
            (&["alice"][..], proxy, Ok(Role::Reader)),
            (&["bob"], proxy, Ok(Role::Decider)),
            (&["bob"], Some(FromProxy(false)), Err(Refused::NotTheProxy)),
            (&["bob"], None, Err(Refused::NotTheProxy)),
            (&[], proxy, Err(Refused::NoIdentity)),
            (&[""], proxy, Err(Refused::NoIdentity)),
            (&["bob", "alice"], proxy, Err(Refused::NoIdentity)),
            (&["bob", "bob"], proxy, Err(Refused::NoIdentity)),
            (&["Bob"], proxy, Err(Refused::NoRole)),
            (&["bob,alice"], proxy, Err(Refused::NoRole)),
            (&["eve"], proxy, Err(Refused::NoRole)),
            (&["b\u{f6}b"], proxy, Err(Refused::NoIdentity)),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(
                    "x-forwarded-user",
                    axum::http::HeaderValue::from_bytes(value.as_bytes()).unwrap(),
                );
            }
            let got = team.person(&headers, from).map(|(_, role)| role);
            assert_eq!(got, want, "{values:?} {from:?}");
        }
    }
}
