//! Decisions on connections and requests by the allow-list: rules that deny come first, and a rule with conditions allows only what is seen.
//! Pure.

use crate::host::Host;
use crate::route::rules::is_method;
use crate::rule::{AllowList, Place, Rule};

/// Decision on a connection whose requests are not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tunnel {
    /// Allowed, to the host with this index.
    Open(Place),
    /// No rule is for the host and port.
    Unlisted,
    /// A rule denies it, or hides what it is for; with the reason.
    Denied(String),
}

/// Decision on a request that is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged<'a> {
    /// Allowed, by the rule with this index.
    Allowed(usize, &'a Rule),
    /// No rule is for the host and port.
    Unlisted,
    /// A rule denies it, or none of the host's allows it; with the reason.
    Denied(String),
}

impl AllowList {
    /// Judges a connection whose requests are not seen.
    #[must_use]
    pub fn tunnel(&self, host: &Host, port: u16) -> Tunnel {
        if let Some(rule) = self.rules().iter().find(|rule| rule.is_against(host, port)) {
            return Tunnel::Denied(match rule.conditions.is_none() {
                true => format!("the rule {rule}"),
                false => hidden(rule),
            });
        }
        let places = || self.for_host(host, port).map(|(_, rule, place)| (rule, place));
        let open = places().filter(|(rule, _)| rule.conditions.is_none()).map(|(_, place)| place);
        match (open.min_by_key(|place| matches!(place, Place::Resolve)), places().next()) {
            (Some(place), _) => Tunnel::Open(place),
            (None, Some((rule, _))) => Tunnel::Denied(hidden(rule)),
            (None, None) => Tunnel::Unlisted,
        }
    }

    /// Where a host is to be looked for, when a connection to it is allowed whatever is sent. A rule that names it goes before a suffix.
    #[must_use]
    pub fn find(&self, host: &Host, port: u16) -> Option<Place> {
        match self.tunnel(host, port) {
            Tunnel::Open(place) => Some(place),
            Tunnel::Unlisted | Tunnel::Denied(_) => None,
        }
    }

    /// Judges a request that is seen. `path`: without its query.
    #[must_use]
    pub fn judge(&self, host: &Host, port: u16, method: &str, path: &str) -> Judged<'_> {
        if let Some(why) = self.denies(host, port, method, path) {
            return Judged::Denied(why);
        }
        let (mut allowed, mut near) = (Vec::new(), Vec::new());
        for (number, rule, place) in self.for_host(host, port) {
            match rule.conditions.allow(method, path) {
                Ok(true) => allowed.push((number, rule, place)),
                Ok(false) if !is_method(method) => {
                    near.push(format!("{rule}: methods are in capitals, and CONNECT and TRACE never pass"));
                }
                Ok(false) => near.push(rule.to_string()),
                Err(why) => near.push(format!("{rule}: {why}")),
            }
        }
        // The rule that says where the host is, and then one that limits nothing.
        let order = |(_, rule, place): &(usize, &Rule, Place)| {
            (matches!(place, Place::Resolve), !rule.conditions.is_none())
        };
        match allowed.into_iter().min_by_key(order) {
            Some((number, rule, _)) => Judged::Allowed(number, rule),
            None if near.is_empty() => Judged::Unlisted,
            None => Judged::Denied(format!("not what its rule allows: {}", near.join(", "))),
        }
    }

    /// The reason why a rule denies a request that is seen, if one does. `path`: without its query.
    #[must_use]
    pub fn denies(&self, host: &Host, port: u16, method: &str, path: &str) -> Option<String> {
        let mut against = self.rules().iter().filter(|rule| rule.is_against(host, port));
        against.find_map(|rule| match rule.conditions.may_be(method, path) {
            Ok(true) => Some(format!("the rule {rule}")),
            Ok(false) => None,
            Err(why) => Some(format!("the rule {rule}: {why}")),
        })
    }

    /// Whether all requests to a host and port are denied by a rule.
    #[must_use]
    pub fn excludes(&self, host: &Host, port: u16) -> Option<&Rule> {
        self.rules().iter().find(|rule| rule.conditions.is_none() && rule.is_against(host, port))
    }

    /// Where a host is that a rule is for, whichever requests it allows.
    #[must_use]
    pub fn place(&self, host: &Host, port: u16) -> Option<Place> {
        let places = self.for_host(host, port).map(|(.., place)| place);
        places.min_by_key(|place| matches!(place, Place::Resolve))
    }

    /// The rule for a host and port that a connection is recorded with.
    #[must_use]
    pub fn rule_for(&self, host: &Host, port: u16) -> Option<&Rule> {
        let against = self.rules().iter().find(|rule| rule.is_against(host, port));
        let all = self.for_host(host, port);
        against.or_else(|| {
            all.min_by_key(|(_, _, place)| matches!(place, Place::Resolve)).map(|(_, rule, _)| rule)
        })
    }

    /// Where to find a name, if a rule allows it at any port.
    #[must_use]
    pub fn find_name(&self, name: &Host) -> Option<Place> {
        let allowing = self.allowing().filter(|rule| self.excludes(name, rule.port).is_none());
        let places = allowing.filter_map(|rule| rule.place(name));
        places.min_by_key(|place| matches!(place, Place::Resolve))
    }

    /// The first rule for requests at a port of HTTPS that stay hidden within TLS. `seen`: whether hotcell ends the TLS of this name and
    /// port itself.
    #[must_use]
    pub fn hidden_by_tls(&self, seen: impl Fn(&str, u16) -> bool) -> Option<&Rule> {
        let is_seen = |rule: &Rule| rule.name().is_some_and(|name| seen(name, rule.port));
        self.rules().iter().find(|rule| rule.is_behind_tls() && !is_seen(rule))
    }

    /// The rules that are for a host and port and allow something, with their numbers and where they say that the host is.
    fn for_host(&self, host: &Host, port: u16) -> impl Iterator<Item = (usize, &Rule, Place)> {
        let all = self.rules().iter().enumerate().filter(move |(_, rule)| !rule.denies && rule.port == port);
        all.filter_map(move |(number, rule)| rule.place(host).map(|place| (number, rule, place)))
    }
}

fn hidden(rule: &Rule) -> String {
    format!("the rule {rule} is for some requests only, and those of a tunnel are not seen")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str) -> AllowList {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    fn host(text: &str) -> Host {
        Host::parse(text.as_bytes()).unwrap()
    }

    const RULES: &str = "*.b.com:443,!admin.b.com:443,GET|HEAD m.com:80/simple,PUT m.com:80/up body=1K,!m.com:80/simple/private,\
                         !DELETE c.com:80/,c.com:80,GET d.test=10.0.0.5:80,p.com:80/@a encoded-slash,!10.0.0.7:80,10.0.0.7:80";

    #[test]
    fn requests_are_judged_with_denials_first() {
        for (to, port, method, path, want) in [
            ("x.b.com", 443, "GET", "/", "*.b.com:443"),
            ("admin.b.com", 443, "GET", "/", "denied the rule !admin.b.com:443"),
            ("m.com", 80, "GET", "/simple/x", "GET|HEAD m.com:80/simple"),
            ("m.com", 80, "HEAD", "/simple", "GET|HEAD m.com:80/simple"),
            ("m.com", 80, "PUT", "/up/x", "PUT m.com:80/up body=1K"),
            (
                "m.com",
                80,
                "GET",
                "/",
                "denied not what its rule allows: GET|HEAD m.com:80/simple, PUT m.com:80/up body=1K",
            ),
            ("m.com", 80, "POST", "/simple/x", "denied not what"),
            ("m.com", 80, "GET", "/simplex", "denied not what"),
            ("m.com", 80, "GET", "/simple/private", "denied the rule !m.com:80/simple/private"),
            ("m.com", 80, "GET", "/simple/PRIV%61te/x", "denied the rule !m.com:80/simple/private"),
            ("m.com", 80, "GET", "/simple%2fprivate", "denied the rule !m.com:80/simple/private"),
            ("m.com", 80, "GET", "/simple/private.", "denied the rule !m.com:80/simple/private"),
            ("m.com", 80, "GET", "/simple/private%20.%20/x", "denied the rule !m.com:80/simple/private"),
            ("m.com", 80, "GET", "/simple/private%3fx", "denied the rule !m.com:80/simple/private"),
            ("m.com", 80, "GET", "/simple/private%23", "denied the rule !m.com:80/simple/private"),
            ("m.com", 80, "GET", "/simple/private.x", "GET|HEAD m.com:80/simple"),
            (
                "m.com",
                80,
                "GET",
                "/simple/../x",
                "denied the rule !m.com:80/simple/private: the path has a segment",
            ),
            ("m.com", 80, "GET", "/simple//x", "denied the rule"),
            ("m.com", 80, "GET", "/simple/%00", "denied the rule"),
            ("m.com", 81, "GET", "/simple", "unlisted"),
            ("c.com", 80, "DELETE", "/x", "denied the rule !DELETE c.com:80/"),
            ("c.com", 80, "delete", "/x", "denied the rule !DELETE c.com:80/"),
            ("c.com", 80, "Delete", "/x", "denied the rule !DELETE c.com:80/"),
            ("c.com", 80, "get", "/x", "denied not what its rule allows: c.com:80: methods are in capitals"),
            (
                "c.com",
                80,
                "TRACE",
                "/x",
                "denied not what its rule allows: c.com:80: methods are in capitals, and CONNECT",
            ),
            ("m.com", 80, "get", "/simple/x", "denied not what"),
            ("d.test", 80, "TRACK", "/", "denied not what"),
            ("c.com", 80, "GET", "/x", "c.com:80"),
            ("c.com", 80, "M-SEARCH", "/x", "c.com:80"),
            ("d.test", 80, "GET", "/x/../y", "GET d.test=10.0.0.5:80"),
            ("p.com", 80, "GET", "/@a%2Fb", "denied not what"),
            ("p.com", 80, "GET", "/@a/b%2Fc", "p.com:80/@a encoded-slash"),
            ("10.0.0.7", 80, "GET", "/", "denied the rule !10.0.0.7:80"),
            ("e.com", 80, "GET", "/", "unlisted"),
        ] {
            let rules = list(RULES);
            let got = match rules.judge(&host(to), port, method, path) {
                Judged::Allowed(_, rule) => rule.to_string(),
                Judged::Unlisted => "unlisted".to_owned(),
                Judged::Denied(why) => format!("denied {why}"),
            };
            assert!(
                got == want || want.contains("denied") && got.starts_with(want),
                "{to} {method} {path}: {got}"
            );
        }
    }

    #[test]
    fn tunnels_are_open_only_where_every_request_is_allowed() {
        for (to, port, want) in [
            ("x.b.com", 443, "open"),
            ("admin.b.com", 443, "the rule !admin.b.com:443"),
            ("m.com", 80, "is for some requests only"),
            ("c.com", 80, "is for some requests only"),
            ("d.test", 80, "is for some requests only"),
            ("10.0.0.7", 80, "the rule !10.0.0.7:80"),
            ("e.com", 80, "unlisted"),
        ] {
            let got = match list(RULES).tunnel(&host(to), port) {
                Tunnel::Open(_) => "open".to_owned(),
                Tunnel::Unlisted => "unlisted".to_owned(),
                Tunnel::Denied(why) => why,
            };
            assert!(got.contains(want), "{to}: {got}");
            assert_eq!(list(RULES).find(&host(to), port).is_some(), want == "open");
        }
        // A rule for all requests opens the tunnel, whichever others there are; a long name is denied, too.
        assert!(list("GET a.com:80,a.com:80").find(&host("a.com"), 80).is_some());
        let long = format!("{}.{}.evil.com", "x".repeat(60), "y".repeat(60));
        assert!(list("!*.evil.com:443").excludes(&host(&long), 443).is_some());
        assert!(list("!*.evil.com:443").excludes(&host("evil.com"), 443).is_none());
    }

    #[test]
    fn names_are_found_unless_every_port_is_denied() {
        let found = |rules: &str, name: &str| list(rules).find_name(&host(name)).is_some();
        assert!(found("a.com:80,!a.com:443", "a.com") && found("GET a.com:80/x", "a.com"));
        assert!(!found("a.com:80,!a.com:80", "a.com") && !found("!a.com:80", "a.com"));
        assert!(list("!a.com:80").is_empty());
    }

    #[test]
    fn rules_behind_tls_are_named_unless_it_ends_here() {
        let hidden = |rules: &str| {
            list(rules).hidden_by_tls(|name, port| (name, port) == ("api.test", 443)).map(ToString::to_string)
        };
        assert_eq!(hidden("a.com:443,!b.com:443,GET c.com:80,GET api.test:443/x"), None);
        assert_eq!(hidden("a.com:443 rate=1/s"), Some("a.com:443 rate=1/s".to_owned()));
        assert_eq!(hidden("!POST *.api.test:443"), Some("!POST *.api.test:443".to_owned()));
        assert_eq!(hidden("GET api.test:8443"), Some("GET api.test:8443".to_owned()));
    }

    proptest! {
        #[test]
        fn added_denial_never_allows_more(
            method in "GET|PUT|DELETE", path in "/[a-c/.%2Fe;]{0,8}", deny in "!((GET|PUT) )?(a|x\\.a)\\.com:80(/[a-c]{1,2}){0,2}",
            rules in "((GET|PUT) )?(a|\\*\\.a)\\.com:80(/[a-c])?",
        ) {
            let (one, both) = (list(&rules), list(&format!("{rules},{deny}")));
            for to in ["a.com", "x.a.com"] {
                let before = one.judge(&host(to), 80, &method, &path);
                let after = both.judge(&host(to), 80, &method, &path);
                prop_assert!(!matches!(after, Judged::Allowed(..)) || before == after, "{:?} {:?}", before, after);
                prop_assert!(both.find(&host(to), 80).is_none() || one.find(&host(to), 80).is_some());
            }
        }

        #[test]
        fn path_of_a_rule_is_above_what_it_allows(path in "/[a-c./%25eE;]{0,12}") {
            let list = list("GET a.com:80/a/b");
            if let Judged::Allowed(..) = list.judge(&host("a.com"), 80, "GET", &path) {
                prop_assert!(path == "/a/b" || path.contains('%') || path.starts_with("/a/b/"), "{}", path);
                prop_assert!(!path.contains("..") && !path.contains("//"), "{}", path);
            }
        }
    }
}
