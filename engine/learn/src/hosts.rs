//! Which denied host becomes a rule. Pure.

use std::net::IpAddr;

use hotcell_egress::Host;
use hotcell_egress::address::{Reach, reach};
use hotcell_sandbox::outcome::Denial;

/// Names of the metadata services of clouds.
const METADATA: [&str; 4] =
    ["metadata", "metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"];
/// Names that mean the sandbox itself.
const OWN_NAMES: [&str; 2] = ["localhost", "localhost.localdomain"];

/// Error of a denial by the proxy, which knows the host as the program named it.
const BY_PROXY: &str = "denied by the proxy";

/// Decision about a denial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostDecision {
    /// A rule, `HOST:PORT`, allows exactly this.
    Suggest(String),
    /// No rule is suggested, for this reason.
    Refuse(String),
    /// A name was looked up, and its port is not known.
    NameOnly(String),
}

/// Decides about a denial of the layer `network`. `private`: addresses in private networks may be suggested.
#[must_use]
pub fn decide(denial: &Denial, private: bool) -> HostDecision {
    let refuse = |why: &str| HostDecision::Refuse(why.to_owned());
    // A reason in brackets: the host was not denied for want of a rule.
    let (target, reason) = match denial.target.split_once(" (") {
        Some((target, reason)) => (target, Some(reason.trim_end_matches(')'))),
        None => (denial.target.as_str(), None),
    };
    if let Some(reason) = reason {
        return HostDecision::Refuse(reason.to_owned());
    }
    if target.starts_with('(') {
        return refuse("too many to be listed one by one");
    }
    if denial.operation == "dns" {
        return match Host::parse(target.as_bytes()) {
            Ok(Host::Name(name)) => match own_or_metadata(&name) {
                Some(why) => refuse(why),
                None => HostDecision::NameOnly(name),
            },
            Ok(Host::Address(_)) | Err(_) => refuse("not the name of a host"),
        };
    }
    let (host, port) = match Host::parse_with_port(target.as_bytes()) {
        Ok((host, Some(port))) => (host, port),
        Ok((Host::Name(name), None)) if own_or_metadata(&name).is_none() => {
            return HostDecision::NameOnly(name);
        }
        _ => return refuse("not a host with a port"),
    };
    // Calls by which a program goes to an address by itself are seen, and lead nowhere.
    if denial.errno != BY_PROXY {
        return refuse(
            "the program went to the address by itself, past the proxy: a rule alone does not help; a rule \
             NAME=ADDRESS:PORT does, if the program uses that name",
        );
    }
    match &host {
        Host::Name(name) => match own_or_metadata(name) {
            Some(why) => refuse(why),
            None => HostDecision::Suggest(format!("{host}:{port}")),
        },
        Host::Address(address) => match by_address(*address, private) {
            Some(why) => HostDecision::Refuse(why),
            None => HostDecision::Suggest(format!("{host}:{port}")),
        },
    }
}

fn own_or_metadata(name: &str) -> Option<&'static str> {
    if METADATA.contains(&name) {
        return Some("the name of a cloud's metadata service");
    }
    let own = OWN_NAMES.contains(&name) || name.ends_with(".localhost");
    own.then_some("a name of the sandbox itself")
}

/// Reason why an address is not suggested.
fn by_address(address: IpAddr, private: bool) -> Option<String> {
    match reach(address) {
        Reach::Public => None,
        Reach::Private(_) if private => None,
        Reach::Private(what) => Some(format!("{what}; ‹private› suggests such addresses, too")),
        Reach::Never(what) => Some(format!("{what}, which is never reached")),
    }
}

/// The rules that would allow denied hosts, each once, in order of appearance. A name whose port was not seen gets the
/// port `assumed`.
#[must_use]
pub fn grantable(denials: &[Denial], assumed: u16) -> Vec<String> {
    let mut rules: Vec<String> = Vec::new();
    for denial in denials.iter().filter(|denial| denial.layer == "network") {
        // A server that is told of no proxy goes to addresses by itself; with the grant it is told of one.
        let asked = Denial { errno: BY_PROXY.to_owned(), ..denial.clone() };
        let rule = match decide(&asked, true) {
            HostDecision::Suggest(rule) => rule,
            HostDecision::NameOnly(name) => format!("{name}:{assumed}"),
            HostDecision::Refuse(_) => continue,
        };
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::evidence::tests::denial;

    #[test]
    fn decisions_by_operation_and_target() {
        let suggest = |rule: &str| Some(rule.to_owned());
        for (operation, target, want) in [
            ("connect", "pypi.org:443", suggest("pypi.org:443")),
            ("http", "Example.ORG.:80", suggest("example.org:80")),
            ("connect", "93.184.216.34:443", suggest("93.184.216.34:443")),
            ("connect", "[2606:2800:220:1::1]:443", suggest("[2606:2800:220:1::1]:443")),
            ("connect", "10.0.0.5:5432", None),
            ("connect", "127.0.0.1:80", None),
            ("connect", "169.254.169.254:80", None),
            ("http", "metadata.google.internal:80", None),
            ("http", "localhost:80", None),
            ("tls", "a.test:443 (its TLS names b.test)", None),
            ("connect", "a.test:443 (it is at 10.0.0.1, a private address)", None),
            ("connect", "a.test:443 (it is allowed, and not reached: Connection refused)", None),
            ("connect", "(others)", None),
            ("connect", "(all) (the run has used up its bytes)", None),
            ("http", "a host that cannot be read", None),
            ("connect", "*.evil.test:443", None),
            ("connect", "a=10.0.0.1:443", None),
            ("connect", "evil.test:443,other.test:443", None),
            ("connect", "\u{202e}evil:443", None),
            ("dns", "metadata", None),
        ] {
            let decided = decide(&denial("network", operation, target), false);
            let got = match &decided {
                HostDecision::Suggest(rule) => Some(rule.clone()),
                HostDecision::Refuse(why) => {
                    assert!(!why.is_empty());
                    None
                }
                HostDecision::NameOnly(name) => panic!("{name}"),
            };
            assert_eq!(got, want, "{operation} {target}: {decided:?}");
        }
        assert_eq!(
            decide(&denial("network", "dns", "api.test"), false),
            HostDecision::NameOnly("api.test".to_owned())
        );
        assert_eq!(
            decide(&denial("network", "connect", "10.0.0.5:5432"), true),
            HostDecision::Suggest("10.0.0.5:5432".to_owned())
        );
        assert_eq!(
            decide(&denial("network", "connect", "evil.test"), false),
            HostDecision::NameOnly("evil.test".to_owned())
        );
        let past = Denial { errno: "not observed".to_owned(), ..denial("network", "connect", "1.1.1.1:53") };
        assert!(matches!(decide(&past, true), HostDecision::Refuse(_)));
    }

    proptest! {
        #[test]
        fn a_rule_allows_one_host_and_port_and_nothing_private(target in ".{0,40}", operation in "connect|http|tls|dns") {
            if let HostDecision::Suggest(rule) = decide(&denial("network", &operation, &target), false) {
                let list: hotcell_egress::AllowList = rule.parse().unwrap();
                prop_assert_eq!(list.rules().len(), 1);
                prop_assert!(list.placed().is_empty() && !rule.contains(['*', '=', ',']));
                let (host, port) = Host::parse_with_port(target.as_bytes()).unwrap();
                prop_assert!(list.find(&host, port.unwrap()).is_some());
            }
        }

        #[test]
        fn names_and_ports_come_back_as_they_were_seen(name in "[a-z]{1,9}(\\.[a-z0-9]{1,5}){1,3}", port in 1_u16..) {
            let seen = format!("{name}:{port}");
            let decided = decide(&denial("network", "connect", &seen), false);
            prop_assume!(own_or_metadata(&name).is_none());
            if let HostDecision::Suggest(rule) = decided {
                prop_assert_eq!(rule, seen);
            }
        }
    }
}
