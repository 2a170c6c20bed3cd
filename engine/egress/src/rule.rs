//! The allow-list: which hosts and ports a program may reach. Pure.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use crate::address::{Reach, reach};
use crate::conditions::Conditions;
use crate::host::{Host, HostError, parse_port};
use crate::suffix::{SuffixOwner, suffix_within};

/// Maximum number of rules in a list, which is written by hand.
const MAX_RULES: usize = 256;
/// Maximum length in bytes of the part that a wildcard matches, since a program could send data to a name
/// server in it.
const MAX_PREFIX_LEN: usize = 63;

/// One host, or all hosts below a domain, at one port: allowed, for all requests or those with its conditions, or denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub(crate) denies: bool,
    pattern: Pattern,
    pub(crate) port: u16,
    pub(crate) conditions: Conditions,
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
        self.allowing().next().is_none()
    }

    /// The rules, as written.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.0
    }

    /// The rules that allow something.
    pub(crate) fn allowing(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter().filter(|rule| !rule.denies)
    }

    /// The list with the rules of another one that deny.
    #[must_use]
    pub fn with_denials_of(&self, other: &Self) -> Self {
        let theirs = other.0.iter().filter(|rule| rule.denies && !self.0.contains(rule));
        Self(self.0.iter().chain(theirs).cloned().collect())
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
        Self(self.allowing().filter(placed).cloned().collect())
    }

    /// Warnings for a person about rules that allow more than they seem to, a sentence each.
    #[must_use]
    pub fn notices(&self) -> Vec<String> {
        let wide = |rule: &Rule| {
            match &rule.pattern {
            Pattern::Below(name) => suffix_within(name).map(|(suffix, _)| {
                format!(
                    "{rule} allows the hosts of everybody: whoever has a name below {suffix}, which its owner gives to customers, is \
                     sent what the program sends; name one host"
                )
            }),
            Pattern::At(..) | Pattern::Host(_) => None,
        }
        };
        self.allowing().filter_map(wide).collect()
    }

    /// The relays that its rules `NAME=ADDRESS:PORT` ask for: of the first 24 of them, each name and port once.
    #[must_use]
    pub fn relays(&self) -> Vec<Relay> {
        let mut relays: Vec<Relay> = Vec::new();
        for rule in self.allowing() {
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

    /// The first rule of `other` that allows something that the rules of this list do not. Rules that deny are not compared.
    #[must_use]
    pub fn widened_by<'a>(&self, other: &'a Self) -> Option<&'a Rule> {
        let covers = |mine: &Rule, rule: &Rule| {
            mine.port == rule.port
                && mine.pattern.covers(&rule.pattern)
                && mine.conditions.cover(&rule.conditions)
        };
        other.allowing().find(|rule| !self.allowing().any(|mine| covers(mine, rule)))
    }
}

impl Rule {
    /// Where to find a host that the rule is for.
    pub(crate) fn place(&self, host: &Host) -> Option<Place> {
        self.pattern.place(host)
    }

    /// Whether a rule that denies is for this host and port. Names below a domain are, however long.
    pub(crate) fn is_against(&self, host: &Host, port: u16) -> bool {
        let matches = match (&self.pattern, host) {
            (Pattern::Below(suffix), Host::Name(name)) => {
                name.strip_suffix(suffix.as_str()).is_some_and(|front| front.ends_with('.'))
            }
            _ => self.pattern.place(host).is_some(),
        };
        self.denies && self.port == port && matches
    }

    /// Whether the rule is for a port of HTTPS, and for requests that TLS hides.
    pub(crate) fn is_behind_tls(&self) -> bool {
        matches!(self.port, 443 | 8443) && !self.conditions.is_none()
    }

    /// The name that the rule is for, if it is for one alone.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.pattern {
            Pattern::Host(Host::Name(name)) | Pattern::At(name, _) => Some(name),
            _ => None,
        }
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

/// Words for a rule that is meant to allow everything.
const ALL_HOSTS: &str = "no rule is for all hosts; name each one that is needed, such as pypi.org:443, or those below a name, such as \
                         *.example.com:443";
/// Words that other programs take for all hosts, or for the host's own network.
const WORDS_FOR_ALL: [&str; 12] = [
    "all",
    "any",
    "bridge",
    "enabled",
    "everything",
    "full",
    "host",
    "internet",
    "on",
    "public",
    "true",
    "yes",
];

/// The problem of a text without a port. A port is suggested only for what is a rule with it.
fn without_port(text: &str, denies: bool) -> String {
    if WORDS_FOR_ALL.contains(&text.to_ascii_lowercase().as_str()) || text == "*" {
        return ALL_HOSTS.to_owned();
    }
    let with_port = format!("{text}:443");
    match Pattern::parse(&with_port, denies) {
        Ok(_) if text.contains(['.', ':']) => format!("it names no port; did you mean {with_port}?"),
        Ok(_) => "it names no port; a rule is HOST:PORT, such as pypi.org:443".to_owned(),
        Err(why) => why,
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    /// Parses `[!][METHOD|METHOD ]HOST:PORT[/PATH][ body=SIZE][ rate=NUMBER/m][ encoded-slash]`.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        let bad = |why: String| RuleError { rule: text.to_owned(), why };
        let (denies, written) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut words = written.split_ascii_whitespace().peekable();
        let first = words.next().unwrap_or_default();
        let (methods, host) = match words.peek() {
            Some(next) if !first.contains(':') && next.contains(':') => {
                (Some(first), words.next().unwrap_or_default())
            }
            _ => (None, first),
        };
        if let Some((scheme, rest)) = host.split_once("://") {
            let port = if scheme == "http" { 80 } else { 443 };
            let host = rest.split(['/', ':']).next().unwrap_or_default();
            return Err(bad(format!("a rule is no URL; write {host}:{port}")));
        }
        let (authority, path) = host.split_at(host.find('/').unwrap_or(host.len()));
        let (pattern, port) = Pattern::parse(authority, denies).map_err(bad)?;
        let conditions = Conditions::parse(methods, path, words).map_err(bad)?;
        if denies && conditions.limits != crate::limit::RequestLimits::default() {
            return Err(bad("a rule that denies has no limits; leave body and rate out".to_owned()));
        }
        Ok(Self { denies, pattern, port, conditions })
    }
}

impl Pattern {
    /// Parses `HOST:PORT` and its other forms. The error is a sentence.
    fn parse(text: &str, denies: bool) -> Result<(Self, u16), String> {
        let of_host = |e: HostError| e.to_string();
        if text.is_empty() {
            return Err("a rule is HOST:PORT, such as pypi.org:443".to_owned());
        }
        let after = text.rfind(']').map_or(0, |at| at + 1);
        let (left, port) = match text[after..].rfind(':').map(|at| after + at) {
            Some(colon) => {
                let port = parse_port(&text.as_bytes()[colon + 1..]);
                let port = port.ok_or_else(|| {
                    format!("{:?} is no port; it is a number from 1 to 65535", &text[colon + 1..])
                })?;
                (&text[..colon], port)
            }
            None => return Err(without_port(text, denies)),
        };
        if left.contains(':') && after == 0 {
            return Err(format!("an IPv6 address is written in brackets, as [{left}]:{port}"));
        }
        if left.contains('*') && left.chars().all(|c| matches!(c, '*' | '.')) {
            return Err(ALL_HOSTS.to_owned());
        }
        let pattern = if let Some((name, address)) = left.split_once('=') {
            if denies {
                return Err("a rule that denies names a host or an address, without =".to_owned());
            }
            let Host::Name(name) = Host::parse(name.as_bytes()).map_err(of_host)? else {
                return Err("in front of = stands a name, behind it its address".to_owned());
            };
            let Host::Address(address) = Host::parse(address.as_bytes()).map_err(of_host)? else {
                return Err("behind = stands the address of the name, such as 10.0.0.5".to_owned());
            };
            Self::At(name, address)
        } else if let Some(suffix) = left.strip_prefix("*.") {
            match Host::parse(suffix.as_bytes()).map_err(of_host)? {
                Host::Name(suffix) if suffix.contains('.') => Self::Below(suffix),
                _ => {
                    return Err(
                        "behind *. stands a name of at least two parts, such as *.example.com".to_owned()
                    );
                }
            }
        } else if left.contains('*') {
            return Err("a * stands for whole parts in front of a name only, as *.example.com".to_owned());
        } else {
            Self::Host(Host::parse(left.as_bytes()).map_err(of_host)?)
        };
        if denies {
            return Ok((pattern, port));
        }
        if let Self::Below(suffix) = &pattern
            && let Some((everybody, SuffixOwner::Registry)) = suffix_within(suffix)
        {
            return Err(format!(
                "everybody can register a name below {everybody}, and a program could send to any of them; name a domain, such as \
                 *.example.{suffix}:{port}"
            ));
        }
        if let Self::At(_, address) | Self::Host(Host::Address(address)) = pattern
            && let Reach::Never(what) = reach(address)
        {
            return Err(format!(
                "{address} is {what}, which is never reached; let the service listen on another address"
            ));
        }
        Ok((pattern, port))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.denies { "!" } else { "" }, self.conditions.front())?;
        match &self.pattern {
            Pattern::Host(host) => write!(f, "{host}")?,
            Pattern::At(name, address) => write!(f, "{name}={}", Host::Address(*address))?,
            Pattern::Below(suffix) => write!(f, "*.{suffix}")?,
        }
        write!(f, ":{}{}", self.port, self.conditions)
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

    /// Whatever is suggested is a rule itself.
    #[test]
    fn suggested_rules_are_rules() {
        for (text, word) in [
            ("pypi.org", "did you mean pypi.org:443?"),
            ("*.a.com", "did you mean *.a.com:443?"),
            ("10.0.0.5", "did you mean 10.0.0.5:443?"),
            ("db=10.0.0.5", "did you mean db=10.0.0.5:443?"),
            ("*", "no rule is for all hosts"),
            ("*:443", "no rule is for all hosts"),
            ("*.*", "no rule is for all hosts"),
            ("*.*:80", "no rule is for all hosts"),
            ("all", "no rule is for all hosts"),
            ("Any", "no rule is for all hosts"),
            ("pypi", "names no port; a rule is HOST:PORT"),
            ("a*b", "a * stands for whole parts"),
            ("*.com", "a name of at least two parts"),
            ("0.0.0.0", "is never reached"),
            ("ä.com", "more than letters"),
            (":443", "there is no host"),
            (".", "no host"),
            ("", "a rule is HOST:PORT"),
        ] {
            let error = AllowList::of([text]).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
        for front in
            ["", "*", "*.", "**.", "!", "a", "a.b", "*.a.b", "1.2.3.4", "127.0.0.1", "[fd00::1]", "x=1.1.1.1"]
        {
            for middle in ["", "*", ".", "-", "a.b", "all", "=", "[", "_"] {
                for end in ["", "*", ".c.d", ".com", ":", ":0", "/x"] {
                    let text = format!("{front}{middle}{end}");
                    let Err(error) = AllowList::of([text.as_str()]) else { continue };
                    let Some((_, rest)) = error.why.split_once("did you mean ") else { continue };
                    let rule = rest.trim_end_matches('?');
                    assert!(rule.parse::<Rule>().is_ok(), "{text:?}: {error}");
                }
            }
        }
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
            ("a.com:x/y", "1 to 65535"),
            ("a.com/x", "a.com:443"),
            ("get a.com:80", "\"get\" is no method"),
            ("GET|TRACE a.com:80", "never pass"),
            ("GET a.com:80/x/../y", ".."),
            ("a.com:80/x*", "without *"),
            ("a.com:80/%2e", "without *"),
            ("a.com:80 body=big", "no size"),
            ("a.com:80 rate=5", "no rate"),
            ("a.com:80 speed=5", "not \"speed=5\""),
            ("a.com:80 encoded-slash", "with a path"),
            ("!a.com:80 body=1K", "no limits"),
            ("!a=10.0.0.5:80", "without ="),
            ("!", "HOST:PORT"),
            ("*.co.uk:443", "*.example.co.uk:443"),
            ("*.x.ck:443", "everybody can register"),
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
            ("GET a.com:443/x body=1K", false),
            ("!c.com:443,!a.com:443/x", false),
        ] {
            assert_eq!(mine.widened_by(&list(other)).is_some(), widened, "{other}");
        }
        assert!(list("").widened_by(&mine).is_some());
        let some = list("GET|HEAD a.com:80/x body=2K");
        for (other, widened) in [
            ("GET a.com:80/x/y body=1K", false),
            ("GET|HEAD a.com:80/x body=2K rate=1/s", false),
            ("a.com:80/x body=1K", true),
            ("POST a.com:80/x body=1K", true),
            ("GET a.com:80/xy body=1K", true),
            ("GET a.com:80 body=1K", true),
            ("GET a.com:80/x", true),
            ("GET a.com:80/x body=1K encoded-slash", true),
            ("a.com:80", true),
        ] {
            assert_eq!(some.widened_by(&list(other)).is_some(), widened, "{other}");
        }
        let both = list("a.com:443").with_denials_of(&list("b.com:443,!x.com:443,!DELETE a.com:443"));
        assert_eq!(both, list("a.com:443,!x.com:443,!DELETE a.com:443"));
    }

    #[test]
    fn wildcards_below_the_names_of_customers_are_named() {
        let notices =
            list("*.github.io:443,*.example.com:443,!*.herokuapp.com:443,me.github.io:443").notices();
        assert_eq!(notices.len(), 1);
        assert!(notices[0].starts_with("*.github.io:443 allows the hosts of everybody"), "{notices:?}");
    }

    proptest! {
        #[test]
        fn allow_list_display_round_trips(
            text in "(!?((GET|PUT)( |\\||, ))?[*a-c.=:0-9\\[\\], -]{0,20}(:80)?(/[a-c/%2F.]{0,6})?( body=[0-9]{1,2}(K)?)?( rate=1/[sm])?( encoded-slash)?,?){1,2}",
        ) {
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
