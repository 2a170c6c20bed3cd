//! Decisions on the head of a request, before anything is read for it. Plain functions over data.
//!
//! Binding to loopback does not protect by itself: a page of any site can send requests there, and under a name whose
//! address it changes (DNS rebinding) even read the answers. Hence the random host name, which such a page does not
//! know, the metadata that browsers add to requests (<https://www.w3.org/TR/fetch-metadata/>), and a session.

use crate::sessions::Role;

/// Beginning of the path of a link that works once.
pub const START: &str = "/start/";
/// Files of the page itself. They have no content of anybody's.
pub const OWN_FILES: [&str; 3] = ["/style.css", "/script.js", "/icon.svg"];

/// The parts of a request's head that count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head<'a> {
    /// `GET`, `POST` …
    pub method: &'a str,
    /// Path without the query.
    pub path: &'a str,
    /// `Host`; `None` when it is missing, or is there twice.
    pub host: Option<&'a str>,
    /// `Origin`.
    pub origin: Option<&'a str>,
    /// `Sec-Fetch-Site`.
    pub site: Option<&'a str>,
    /// `Sec-Fetch-Mode`.
    pub mode: Option<&'a str>,
    /// `Sec-Fetch-Dest`.
    pub dest: Option<&'a str>,
    /// Role of the session that the cookie names; `None` without one.
    pub role: Option<Role>,
}

/// Names of the server in browsers.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// Host, such as `h0123.localhost:8080`.
    pub host: &'a str,
    /// Origin: the host with its scheme.
    pub origin: &'a str,
    /// Whether people come to it by links and sign in elsewhere, as in team mode.
    pub team: bool,
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another host: 421.
    Host,
    /// Neither reading nor a change: 405.
    Method,
    /// Sent by another site: 403.
    OtherSite,
    /// A change that no browser sent for a page of ours: 403.
    NotOurPage,
    /// No session: 401.
    NoSession,
    /// A change in a session for reading: 403.
    ReadOnly,
    /// Team mode, and the connection is not the proxy's: 403.
    NotTheProxy,
    /// A person's header where no proxy is believed: 403.
    NotATeam,
    /// The proxy names no person, or two: 401.
    NoIdentity,
    /// The person may neither read nor decide: 403.
    NoRole,
}

impl Refused {
    /// Status and message.
    #[must_use]
    pub const fn answer(self) -> (u16, &'static str) {
        match self {
            Self::Host => {
                (421, "This server answers to its own name only: open the link that hotcell web printed.")
            }
            Self::Method => (405, "Only GET and POST are answered here."),
            Self::OtherSite => {
                (403, "Another site sent this request. Type the address, or open it from this page.")
            }
            Self::NotOurPage => (
                403,
                "A change has to come from a page of this server, sent by a browser that says so (Sec-Fetch-Site, Origin).",
            ),
            Self::NoSession => (
                401,
                "There is no session, or it has ended. Open a link that hotcell web printed; each works once.",
            ),
            Self::ReadOnly => (
                403,
                "You may read here, and not decide: that needs a link for deciding, or the role of a decider.",
            ),
            Self::NotTheProxy => (
                403,
                "This socket is for the proxy that web.proxy names, and this connection is not the proxy's: nobody is believed here.",
            ),
            Self::NotATeam => (
                403,
                "A header names a person, and no proxy is believed on this socket: hotcell web --team serves the socket of the table web.",
            ),
            Self::NoIdentity => {
                (401, "The proxy has to name one person in the header of web.identity_header.")
            }
            Self::NoRole => (403, "You are neither among web.readers nor among web.deciders of this page."),
        }
    }
}

/// Decides on a request for the server with these names.
///
/// # Errors
/// [`Refused`], the first reason in this order: host, method, site, session, role.
pub fn admit(own: &Own<'_>, head: &Head<'_>) -> Result<(), Refused> {
    if !head.host.is_some_and(|host| host.eq_ignore_ascii_case(own.host)) {
        return Err(Refused::Host);
    }
    match head.method {
        "GET" | "HEAD" => {
            if !may_read(head, own.team) {
                return Err(Refused::OtherSite);
            }
            let open = OWN_FILES.contains(&head.path) || head.path.starts_with(START);
            if head.role.is_none() && !open {
                return Err(Refused::NoSession);
            }
            Ok(())
        }
        "POST" => {
            let ours = head.origin.is_some_and(|origin| origin.eq_ignore_ascii_case(own.origin));
            if head.site != Some("same-origin") || !ours {
                return Err(Refused::NotOurPage);
            }
            match head.role {
                None => Err(Refused::NoSession),
                // Everybody may end their own session.
                Some(Role::Reader) if head.path != "/leave" => Err(Refused::ReadOnly),
                Some(_) => Ok(()),
            }
        }
        _ => Err(Refused::Method),
    }
}

/// Whether a request that changes nothing may be answered: typed, from a page of ours, or by a program that is not a
/// browser. A start link may be followed from elsewhere (a file, a terminal in a browser), as a page and not in a frame; in team mode every
/// page may, since people come from where they signed in.
fn may_read(head: &Head<'_>, team: bool) -> bool {
    match head.site {
        None | Some("none" | "same-origin") => true,
        Some(_) => {
            (team || head.path.starts_with(START))
                && head.mode == Some("navigate")
                && head.dest == Some("document")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "h1.localhost:80";
    const OWN: Own<'static> = Own { host: HOST, origin: "http://h1.localhost:80", team: false };
    const ORIGIN: Option<&str> = Some("http://h1.localhost:80");

    fn get(path: &str) -> Head<'_> {
        Head { method: "GET", path, host: Some(HOST), role: Some(Role::Decider), ..Head::default() }
    }

    #[test]
    fn only_own_host_is_answered() {
        for (host, want) in [
            (Some(HOST), Ok(())),
            (Some("H1.LocalHost:80"), Ok(())),
            (None, Err(Refused::Host)),
            (Some(""), Err(Refused::Host)),
            (Some("h1.localhost"), Err(Refused::Host)),
            (Some("h1.localhost:81"), Err(Refused::Host)),
            (Some("h1.localhost.:80"), Err(Refused::Host)),
            (Some("localhost:80"), Err(Refused::Host)),
            (Some("127.0.0.1:80"), Err(Refused::Host)),
            (Some("[::1]:80"), Err(Refused::Host)),
            (Some("rebound.example:80"), Err(Refused::Host)),
            (Some("a.h1.localhost:80"), Err(Refused::Host)),
            (Some("h2.localhost:80"), Err(Refused::Host)),
        ] {
            assert_eq!(admit(&OWN, &Head { host, ..get("/waiting") }), want, "{host:?}");
            // Another host is refused before anything else counts.
            let post = Head { method: "POST", host, origin: ORIGIN, site: Some("same-origin"), ..get("/x") };
            assert_eq!(admit(&OWN, &post), want, "{host:?}");
        }
    }

    #[test]
    fn reading_is_for_own_pages_typed_addresses_and_programs() {
        let other = Err(Refused::OtherSite);
        for (path, site, mode, dest, want) in [
            ("/waiting", None, None, None, Ok(())),
            ("/waiting", Some("none"), Some("navigate"), Some("document"), Ok(())),
            ("/waiting", Some("same-origin"), Some("cors"), Some("empty"), Ok(())),
            ("/waiting", Some("same-site"), Some("navigate"), Some("document"), other),
            ("/waiting", Some("cross-site"), Some("navigate"), Some("document"), other),
            ("/waiting", Some("cross-site"), Some("no-cors"), Some("image"), other),
            ("/waiting", Some("x"), None, None, other),
            ("/start/abc", Some("cross-site"), Some("navigate"), Some("document"), Ok(())),
            ("/start/abc", Some("cross-site"), Some("navigate"), Some("iframe"), other),
            ("/start/abc", Some("cross-site"), Some("no-cors"), Some("image"), other),
            ("/start/abc", Some("same-site"), Some("cors"), Some("empty"), other),
            ("/starts", Some("cross-site"), Some("navigate"), Some("document"), other),
            ("/script.js", Some("cross-site"), Some("no-cors"), Some("script"), other),
        ] {
            let head = Head { site, mode, dest, ..get(path) };
            assert_eq!(admit(&OWN, &head), want, "{path} {site:?} {mode:?} {dest:?}");
        }
    }

    #[test]
    fn session_is_needed_but_for_start_and_own_files() {
        for (path, want) in [
            ("/", Err(Refused::NoSession)),
            ("/waiting", Err(Refused::NoSession)),
            ("/events", Err(Refused::NoSession)),
            ("/nowhere", Err(Refused::NoSession)),
            ("/style.css", Ok(())),
            ("/script.js", Ok(())),
            ("/style.css/x", Err(Refused::NoSession)),
            ("/start/abc", Ok(())),
        ] {
            for method in ["GET", "HEAD"] {
                let head = Head { role: None, method, ..get(path) };
                assert_eq!(admit(&OWN, &head), want, "{method} {path}");
            }
            assert!(admit(&OWN, &Head { role: Some(Role::Reader), ..get(path) }).is_ok(), "{path}");
        }
    }

    #[test]
    fn change_needs_browser_own_page_and_decider() {
        let (same, decider, page) = (Some("same-origin"), Some(Role::Decider), Refused::NotOurPage);
        for (method, path, site, origin, role, want) in [
            ("POST", "/x", same, ORIGIN, decider, Ok(())),
            ("POST", "/x", same, Some("http://H1.localhost:80"), decider, Ok(())),
            ("POST", "/x", None, ORIGIN, decider, Err(page)),
            ("POST", "/x", Some("none"), ORIGIN, decider, Err(page)),
            ("POST", "/x", Some("same-site"), ORIGIN, decider, Err(page)),
            ("POST", "/x", Some("cross-site"), ORIGIN, decider, Err(page)),
            ("POST", "/x", Some("Same-Origin"), ORIGIN, decider, Err(page)),
            ("POST", "/x", same, None, decider, Err(page)),
            ("POST", "/x", same, Some("null"), decider, Err(page)),
            ("POST", "/x", same, Some("https://h1.localhost:80"), decider, Err(page)),
            ("POST", "/x", same, Some("http://h1.localhost:81"), decider, Err(page)),
            ("POST", "/x", same, Some("http://127.0.0.1:80"), decider, Err(page)),
            ("POST", "/x", same, ORIGIN, None, Err(Refused::NoSession)),
            ("POST", "/start/a", same, ORIGIN, None, Err(Refused::NoSession)),
            ("POST", "/x", same, ORIGIN, Some(Role::Reader), Err(Refused::ReadOnly)),
            ("POST", "/leave", same, ORIGIN, Some(Role::Reader), Ok(())),
            ("PUT", "/x", same, ORIGIN, decider, Err(Refused::Method)),
            ("OPTIONS", "/x", Some("cross-site"), Some("http://a"), None, Err(Refused::Method)),
            ("post", "/x", same, ORIGIN, decider, Err(Refused::Method)),
        ] {
            let head = Head { method, path, site, origin, role, ..get(path) };
            assert_eq!(admit(&OWN, &head), want, "{method} {path} {site:?} {origin:?} {role:?}");
        }
    }

    #[test]
    fn team_is_reached_by_links_and_changed_from_its_own_pages() {
        let own = Own { host: "review.example.com", origin: "https://review.example.com", team: true };
        let host = Some("review.example.com");
        let head = Head { host, ..get("/waiting") };
        let other = Err(Refused::OtherSite);
        for (site, mode, dest, want) in [
            (Some("cross-site"), Some("navigate"), Some("document"), Ok(())),
            (Some("same-site"), Some("navigate"), Some("document"), Ok(())),
            (Some("cross-site"), Some("navigate"), Some("iframe"), other),
            (Some("cross-site"), Some("no-cors"), Some("image"), other),
            (Some("cross-site"), Some("cors"), Some("empty"), other),
        ] {
            assert_eq!(admit(&own, &Head { site, mode, dest, ..head }), want, "{site:?} {mode:?} {dest:?}");
        }
        for (origin, site, role, want) in [
            ("https://review.example.com", "same-origin", Role::Decider, Ok(())),
            ("https://review.example.com", "same-origin", Role::Reader, Err(Refused::ReadOnly)),
            ("http://review.example.com", "same-origin", Role::Decider, Err(Refused::NotOurPage)),
            ("https://review.example.com", "cross-site", Role::Decider, Err(Refused::NotOurPage)),
            ("https://evil.example", "same-origin", Role::Decider, Err(Refused::NotOurPage)),
        ] {
            let (origin, site, role) = (Some(origin), Some(site), Some(role));
            let post = Head { method: "POST", origin, site, role, ..head };
            assert_eq!(admit(&own, &post), want, "{origin:?} {site:?} {role:?}");
        }
        assert_eq!(admit(&own, &Head { host: Some("evil.example"), ..head }), Err(Refused::Host));
    }
}
