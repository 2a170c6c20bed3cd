//! The allow-list: which hosts and ports a program may reach. Pure.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use crate::address::{Reach, reach};
use crate::host::{Host, HostError, parse_port};

/// Maximum number of rules in a list, which is written by hand.
const MAX_RULES: usize = 256;
/// Maximum length in bytes of the part that a wildcard matches, since a program could send data to a name
/// server in it.
const MAX_PREFIX_LEN: usize = 63;

/// One host, or all hosts below a domain, at one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pattern: Pattern,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    /// This host; a name is resolved.
    Host(Host),
    /// This name at this address, without resolving it.
    At(String, IpAddr),
    /// Every name below this one.
    Below(String),
}

/// Where to find a host that a rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the address in the rule, which may be a private one.
    At(IpAddr),
    /// At the public addresses that the name resolves to.
    Resolve,
}

/// A name with an address of the rule's, for programs that know of no proxy: inside, it leads to an address of the loopback, and what
/// listens there leads to where the rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// The name.
    pub name: String,
    /// Its address inside; each name has one of its own, since two may have one port.
    pub address: Ipv4Addr,
    /// The port, inside and outside.
    pub port: u16,
}

/// Maximum number of relays in a list: each is a socket in every sandbox, handed over in one message with the
/// others.
const MAX_RELAYS: usize = 24;
/// Names that mean the sandbox itself.
const OWN_NAMES: [&str; 4] = ["localhost", "sandbox", "ip6-localhost", "ip6-loopback"];

/// Why a text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule:?}: {why}")]
pub struct RuleError {
    /// The rule as written.
    pub rule: String,
    /// The problem, and how to fix it.
    pub why: String,
}

/// The hosts and ports that a program may reach; an empty list allows none.
///
/// ```
/// use hotcell_egress::{AllowList, Host};
/// let list: AllowList = "pypi.org:443, *.pythonhosted.org:443, db.internal=10.0.0.5:5432".parse().unwrap();
/// assert!(list.find(&Host::parse(b"files.pythonhosted.org").unwrap(), 443).is_some());
/// assert!(list.find(&Host::parse(b"pythonhosted.org").unwrap(), 443).is_none());
/// assert!("pypi.org".parse::<AllowList>().unwrap_err().to_string().contains("pypi.org:443"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(Vec<Rule>);

impl FromStr for AllowList {
    type Err = RuleError;

    /// Parses `RULE,RULE…`; an empty text is the empty list.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        Self::of(text.split(',').map(str::trim))
    }
}

impl AllowList {
    /// Parses a list of rules.
    ///
    /// # Errors
    /// [`RuleError`] for the first invalid rule.
    pub fn of<'a>(rules: impl IntoIterator<Item = &'a str>) -> Result<Self, RuleError> {
        let rules = rules.into_iter().map(str::parse).collect::<Result<Vec<Rule>, _>>()?;
        if rules.len() > MAX_RULES {
            let why = format!("a list has at most {MAX_RULES} rules; name a suffix as *.example.com:443");
            return Err(RuleError { rule: rules[MAX_RULES].to_string(), why });
        }
        Ok(Self(rules))
    }

    /// Whether the list allows nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rules, as written.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.0
    }

    /// The rules that contain an address themselves: a name at an address, or an address in a private
    /// network.
    #[must_use]
    pub fn placed(&self) -> Self {
        let placed = |rule: &&Rule| match rule.pattern {
            Pattern::At(..) => true,
            Pattern::Host(Host::Address(address)) => reach(address) != Reach::Public,
            Pattern::Host(Host::Name(_)) | Pattern::Below(_) => false,
        };
        Self(self.0.iter().filter(placed).cloned().collect())
    }

    /// The relays that its rules `NAME=ADDRESS:PORT` ask for: of the first 24 of them, each name and port once.
    #[must_use]
    pub fn relays(&self) -> Vec<Relay> {
        let mut relays: Vec<Relay> = Vec::new();
        for rule in &self.0 {
            let Pattern::At(name, _) = &rule.pattern else { continue };
            let own = OWN_NAMES.contains(&name.as_str());
            if own || relays.iter().any(|known| known.name == *name && known.port == rule.port) {
                continue;
            }
            let known = relays.iter().find(|known| known.name == *name).map(|known| known.address);
            let last = relays.iter().map(|known| known.address).max().unwrap_or(Ipv4Addr::LOCALHOST);
            let address = known.unwrap_or_else(|| Ipv4Addr::from(u32::from(last) + 1));
            relays.push(Relay { name: name.clone(), address, port: rule.port });
            if relays.len() == MAX_RELAYS {
                break;
            }
        }
        relays
    }

    /// Where a host is to be looked for, when a rule allows it at this port. A rule that names it goes before a suffix.
    #[must_use]
    pub fn find(&self, host: &Host, port: u16) -> Option<Place> {
        self.rule_for(host, port).and_then(|rule| rule.pattern.place(host))
    }

    /// The rule by which a host is found at this port, as [`AllowList::find`] finds it.
    #[must_use]
    pub fn rule_for(&self, host: &Host, port: u16) -> Option<&Rule> {
        let at_port = self.0.iter().filter(|rule| rule.port == port);
        let found = at_port.filter_map(|rule| rule.pattern.place(host).map(|place| (rule, place)));
        found.min_by_key(|(_, place)| matches!(place, Place::Resolve)).map(|(rule, _)| rule)
    }

    /// Where to find a name, if a rule allows it at any port.
    #[must_use]
    pub fn find_name(&self, name: &Host) -> Option<Place> {
        let places = self.0.iter().filter_map(|rule| rule.pattern.place(name));
        places.min_by_key(|place| matches!(place, Place::Resolve))
    }

    /// The first rule of `other` that allows something that this list does not.
    #[must_use]
    pub fn widened_by<'a>(&self, other: &'a Self) -> Option<&'a Rule> {
        let covered = |rule: &&Rule| {
            self.0.iter().any(|mine| mine.port == rule.port && mine.pattern.covers(&rule.pattern))
        };
        other.0.iter().find(|rule| !covered(rule))
    }
}

/// Whether `name` is below `suffix`.
fn below(name: &str, suffix: &str) -> bool {
    let front = name.strip_suffix(suffix).and_then(|front| front.strip_suffix('.'));
    front.is_some_and(|front| !front.is_empty() && front.len() <= MAX_PREFIX_LEN)
}

impl Pattern {
    fn place(&self, host: &Host) -> Option<Place> {
        match (self, host) {
            (Self::Host(Host::Address(mine)), Host::Address(address)) if mine == address => {
                Some(Place::At(*mine))
            }
            (Self::Host(Host::Name(mine)), Host::Name(name)) if mine == name => Some(Place::Resolve),
            (Self::At(mine, address), Host::Name(name)) if mine == name => Some(Place::At(*address)),
            (Self::Below(suffix), Host::Name(name)) if below(name, suffix) => Some(Place::Resolve),
            _ => None,
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Below(mine), Self::Below(theirs)) => mine == theirs || below(theirs, mine),
            (Self::Below(mine), Self::Host(Host::Name(theirs))) => below(theirs, mine),
            _ => self == other,
        }
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let bad = |why: String| RuleError { rule: text.to_owned(), why };
        let of_host = |e: HostError| bad(e.to_string());
        if text.is_empty() {
            return Err(bad("a rule is HOST:PORT, such as pypi.org:443".to_owned()));
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            let port = if scheme == "http" { 80 } else { 443 };
            let host = rest.split(['/', ':']).next().unwrap_or_default();
            return Err(bad(format!("a rule is no URL; write {host}:{port}")));
        }
        let after = text.rfind(']').map_or(0, |at| at + 1);
        let (left, port) = match text[after..].rfind(':').map(|at| after + at) {
            Some(colon) => {
                let port = parse_port(&text.as_bytes()[colon + 1..]);
                let port = port.ok_or_else(|| {
                    bad(format!("{:?} is no port; it is a number from 1 to 65535", &text[colon + 1..]))
                })?;
                (&text[..colon], port)
            }
            None => return Err(bad(format!("it names no port; did you mean {text}:443?"))),
        };
        if left.contains(':') && after == 0 {
            return Err(bad(format!("an IPv6 address is written in brackets, as [{left}]:{port}")));
        }
        let pattern = if let Some((name, address)) = left.split_once('=') {
            let Host::Name(name) = Host::parse(name.as_bytes()).map_err(of_host)? else {
                return Err(bad("in front of = stands a name, behind it its address".to_owned()));
            };
            let Host::Address(address) = Host::parse(address.as_bytes()).map_err(of_host)? else {
                return Err(bad("behind = stands the address of the name, such as 10.0.0.5".to_owned()));
            };
            Pattern::At(name, address)
        } else if let Some(suffix) = left.strip_prefix("*.") {
            match Host::parse(suffix.as_bytes()).map_err(of_host)? {
                Host::Name(suffix) if suffix.contains('.') => Pattern::Below(suffix),
                _ => {
                    return Err(bad(
                        "behind *. stands a name of at least two parts, such as *.example.com".to_owned()
                    ));
                }
            }
        } else if left.contains('*') {
            return Err(bad(
                "a * stands for whole parts in front of a name only, as *.example.com".to_owned()
            ));
        } else {
            Pattern::Host(Host::parse(left.as_bytes()).map_err(of_host)?)
        };
        if let Pattern::At(_, address) | Pattern::Host(Host::Address(address)) = pattern
            && let Reach::Never(what) = reach(address)
        {
            return Err(bad(format!(
                "{address} is {what}, which is never reached; let the service listen on another address"
            )));
        }
        Ok(Self { pattern, port })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Host(host) => write!(f, "{host}:{}", self.port),
            Pattern::At(name, address) => {
                write!(f, "{name}={}:{}", Host::Address(*address), self.port)
            }
            Pattern::Below(suffix) => write!(f, "*.{suffix}:{}", self.port),
        }
    }
}

impl fmt::Display for AllowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, rule) in self.0.iter().enumerate() {
            write!(f, "{}{rule}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str) -> AllowList {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn allow_list_matches_hosts_and_ports() {
        let rules = "a.com:443,*.b.com:443,1.1.1.1:53,db.test=10.0.0.5:5432,[fd00::1]:80";
        for (host, port, want) in [
            ("a.com", 443, true),
            ("A.COM.", 443, true),
            ("a.com", 80, false),
            ("www.a.com", 443, false),
            ("evila.com", 443, false),
            ("a.com.evil", 443, false),
            ("x.b.com", 443, true),
            ("x.y.b.com", 443, true),
            ("b.com", 443, false),
            ("evilb.com", 443, false),
            ("x.b.com.evil", 443, false),
            ("1.1.1.1", 53, true),
            ("1.1.1.2", 53, false),
            ("db.test", 5432, true),
            ("10.0.0.5", 5432, false),
            ("[fd00::1]", 80, true),
            ("[fd00::2]", 80, false),
        ] {
            let found = list(rules).find(&Host::parse(host.as_bytes()).unwrap(), port);
            assert_eq!(found.is_some(), want, "{host}:{port}");
        }
        let long = format!("{}.{}.b.com", "x".repeat(40), "y".repeat(40));
        assert_eq!(list(rules).find(&Host::parse(long.as_bytes()).unwrap(), 443), None);
        assert!(list("").is_empty() && list(" ").find(&Host::parse(b"a.com").unwrap(), 443).is_none());
    }

    #[test]
    fn placed_rules_are_those_with_addresses() {
        let mixed = "a.com:443,*.b.com:443,1.1.1.1:53,a.com=1.1.1.1:443,db.test=10.0.0.5:5432,10.0.0.7:80,[fd00::1]:80";
        let placed = list("a.com=1.1.1.1:443,db.test=10.0.0.5:5432,10.0.0.7:80,[fd00::1]:80");
        assert_eq!(list(mixed).placed(), placed);
    }

    #[test]
    fn names_with_addresses_get_relays() {
        let relays = |rules: &str| {
            let each = list(rules).relays().into_iter();
            each.map(|r| format!("{}={}:{}", r.name, r.address, r.port)).collect::<Vec<_>>().join(" ")
        };
        for (rules, want) in [
            ("", ""),
            ("a.com:443,*.b.com:443,10.0.0.5:5432", ""),
            ("DB.internal.=10.0.0.5:5432", "db.internal=127.0.0.2:5432"),
            ("a=10.0.0.5:5432,b=10.0.0.6:5432", "a=127.0.0.2:5432 b=127.0.0.3:5432"),
            (
                "a=10.0.0.5:1,x.com:443,b=[fd00::1]:1,a=10.0.0.6:2",
                "a=127.0.0.2:1 b=127.0.0.3:1 a=127.0.0.2:2",
            ),
            ("a=10.0.0.5:1,a=10.0.0.6:1", "a=127.0.0.2:1"),
            ("localhost=10.0.0.5:1,a=10.0.0.5:1,sandbox=10.0.0.5:1", "a=127.0.0.2:1"),
        ] {
            assert_eq!(relays(rules), want, "{rules}");
        }
        let many = (1..40).map(|n| format!("h{n}=10.0.0.5:{n}")).collect::<Vec<_>>().join(",");
        assert_eq!(list(&many).relays().len(), MAX_RELAYS);
    }

    #[test]
    fn rule_with_address_takes_precedence() {
        let both = list("*.test.org:80,db.test.org=10.0.0.5:80");
        let name = Host::parse(b"db.test.org").unwrap();
        assert_eq!(both.find(&name, 80), Some(Place::At("10.0.0.5".parse().unwrap())));
        assert_eq!(both.find_name(&Host::parse(b"x.test.org").unwrap()), Some(Place::Resolve));
    }

    #[test]
    fn rule_mistakes_suggest_correction() {
        for (text, word) in [
            ("pypi.org", "pypi.org:443"),
            ("https://pypi.org/simple", "pypi.org:443"),
            ("http://a.com:8080/", "a.com:80"),
            ("a.com:https", "1 to 65535"),
            ("a.com:0", "1 to 65535"),
            ("a.com:443/x", "1 to 65535"),
            ("a.com:*", "1 to 65535"),
            ("*:443", "*.example.com"),
            ("*.com:443", "two parts"),
            ("a.*.com:443", "*.example.com"),
            ("*a.com:443", "*.example.com"),
            ("*.1.2.3.4:443", "two parts"),
            ("a.com:443,", "HOST:PORT"),
            ("user@a.com:443", "letters"),
            ("a%2ecom:443", "letters"),
            ("fd00::1:443", "[fd00::1]:443"),
            ("127.0.0.1:80", "another address"),
            ("169.254.169.254:80", "metadata"),
            ("[::ffff:10.0.0.1]:80", "spelling"),
            ("x=127.0.0.1:80", "loopback"),
            ("x=y:80", "10.0.0.5"),
            ("0x7f.1:80", "four decimal"),
            ("10.0.0.5=x:80", "in front of ="),
        ] {
            let error = text.parse::<AllowList>().expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
        let many = vec!["a.com:1"; MAX_RULES + 1];
        assert!(AllowList::of(many).is_err());
    }

    #[test]
    fn widening_rules_are_detected() {
        let mine = list("a.com:443,*.b.com:443,db.test=10.0.0.5:5432,10.0.0.7:80");
        for (other, widened) in [
            ("", false),
            ("a.com:443", false),
            ("x.b.com:443,*.x.b.com:443", false),
            ("db.test=10.0.0.5:5432,10.0.0.7:80", false),
            ("a.com:80", true),
            ("b.com:443", true),
            ("*.a.com:443", true),
            ("db.test=10.0.0.6:5432", true),
            ("db.test:5432", true),
            ("x.b.com=10.0.0.5:443", true),
            ("a.com:443,c.com:443", true),
        ] {
            assert_eq!(mine.widened_by(&list(other)).is_some(), widened, "{other}");
        }
        assert!(list("").widened_by(&mine).is_some());
    }

    proptest! {
        #[test]
        fn allow_list_display_round_trips(text in "[*a-c.=:0-9\\[\\], -]{0,40}") {
            if let Ok(list) = text.parse::<AllowList>() {
                prop_assert_eq!(list.to_string().parse::<AllowList>(), Ok(list.clone()));
                prop_assert_eq!(list.widened_by(&list), None);
            }
        }

        #[test]
        fn wildcard_matches_only_its_subdomains(name in "[a-z.]{1,20}", port in 1u16..1000) {
            let list = list("*.b.com:443");
            if let Ok(host) = Host::parse(name.as_bytes()) && list.find(&host, port).is_some() {
                prop_assert!(host.to_string().ends_with(".b.com") && port == 443);
            }
        }
    }
}
