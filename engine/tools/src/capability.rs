//! Capabilities that a plugin may be granted, in the words of `hotcell tool grant`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use hotcell_sandbox::layer::likely;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// Origin that a plugin may connect to: scheme, host and port, all three exact. A host is a name or an
/// address, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// `http` or `https`.
    pub scheme: String,
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = self.host.contains(':');
        let (open, close) = if brackets { ("[", "]") } else { ("", "") };
        write!(f, "{}://{open}{}{close}:{}", self.scheme, self.host, self.port)
    }
}

/// Capabilities in force for one component: those that the request, the operator's policy and the grant all
/// allow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Held {
    /// Folders that it may read: canonical paths of the host, which the guest uses too.
    pub read: BTreeSet<PathBuf>,
    /// Folders that it may read and write.
    pub write: BTreeSet<PathBuf>,
    /// Origins that it may send HTTP requests to.
    pub net: BTreeSet<Origin>,
    /// Variables of the operator's environment that it may read.
    pub env: BTreeSet<String>,
    /// Keys of its settings that it may read.
    pub config: BTreeSet<String>,
    /// Secrets that it may use, each with the origins that it may be sent to.
    pub secrets: BTreeMap<String, BTreeSet<Origin>>,
    /// Permission to request sandboxed runs.
    pub sandbox: bool,
    /// Permission to request scans.
    pub guard: bool,
}

impl Held {
    /// Whether no capability is held at all.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// One capability, as a person writes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// `read=DIR`
    Read(PathBuf),
    /// `write=DIR`: also allows reading.
    Write(PathBuf),
    /// `net=SCHEME://HOST[:PORT]`
    Net(Origin),
    /// `env=NAME`
    Env(String),
    /// `config=KEY`
    Config(String),
    /// `secret=NAME`, for the origins that the plugin requests, or `secret=NAME@SCHEME://HOST[:PORT]`.
    Secret(String, Option<Origin>),
    /// `sandbox`
    Sandbox,
    /// `guard`
    Guard,
}

/// Reasons a text is not a valid capability or origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {why}")]
pub struct CapabilityError {
    /// Text as it was written.
    pub text: String,
    /// Description of the fault, and what to write instead.
    pub why: String,
}

/// Keywords before `=`, or alone.
const WORDS: [&str; 8] = ["read", "write", "net", "env", "config", "secret", "sandbox", "guard"];
/// Maximum length of the name of a variable, key or secret, in bytes.
const MAX_NAME_BYTES: usize = 64;

impl FromStr for Origin {
    type Err = CapabilityError;

    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        let bad = |why: String| CapabilityError { text: text.to_owned(), why };
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(bad("a place is SCHEME://HOST[:PORT], such as https://example.org".to_owned()));
        };
        if !["https", "http"].contains(&scheme) {
            return Err(bad("the scheme is http or https".to_owned()));
        }
        if rest.contains('*') {
            return Err(bad("there are no wildcards; name each host".to_owned()));
        }
        let place = rest.strip_suffix('/').unwrap_or(rest);
        if place.contains(['/', '\\', '?', '#', '@']) {
            return Err(bad("a place has no path and no user: it is SCHEME://HOST[:PORT]".to_owned()));
        }
        let url = Url::parse(text).map_err(|e| bad(format!("no place: {e}")))?;
        let origin = Self::of(&url).map_err(&bad)?;
        // The grant must be exactly what a person reads: 0x7f.1 is 127.0.0.1, and a name in another script is
        // spelled out.
        let spelled = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => place.split(':').next().unwrap_or(place),
        };
        if place.ends_with(':') || spelled.to_ascii_lowercase() != origin.host {
            return Err(bad(format!("write it as {origin}")));
        }
        Ok(origin)
    }
}

impl Origin {
    /// Origin of a URL, in the one spelling of grants.
    ///
    /// # Errors
    /// A sentence when the URL has a user or password, or a scheme, host or port that cannot be granted.
    pub fn of(url: &Url) -> Result<Self, String> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a URL has no user and no password; use a header".to_owned());
        }
        if !["https", "http"].contains(&url.scheme()) {
            return Err("the scheme is http or https".to_owned());
        }
        let host = match url.host().ok_or("it names no host")? {
            Host::Domain(name) if name.ends_with('.') => {
                return Err("the name ends with a dot; leave it out".to_owned());
            }
            // Any other character is not allowed in the name of a host (RFC 952, RFC 1123), and people see
            // the name in commands.
            Host::Domain(name) if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) => {
                return Err("a host's name has letters, digits, -, . and _".to_owned());
            }
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => match address.to_ipv4_mapped() {
                Some(v4) => return Err(format!("{address} is {v4} in a spelling of IPv6; write {v4}")),
                None => address.to_string(),
            },
        };
        match url.port_or_known_default() {
            None | Some(0) => Err("there is no port 0".to_owned()),
            Some(port) => Ok(Self { scheme: url.scheme().to_owned(), host, port }),
        }
    }
}

impl FromStr for Capability {
    type Err = CapabilityError;

    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        let bad = |why: String| CapabilityError { text: text.to_owned(), why };
        let (word, value) = match text.split_once('=') {
            Some((word, value)) => (word, Some(value)),
            None => (text, None),
        };
        let value = match (word, value) {
            ("sandbox", None) => return Ok(Self::Sandbox),
            ("guard", None) => return Ok(Self::Guard),
            ("sandbox" | "guard", Some(_)) => return Err(bad(format!("{word} takes no value"))),
            (word, _) if !WORDS.contains(&word) => {
                let near =
                    likely(word, WORDS).map(|near| format!("did you mean {near}? ")).unwrap_or_default();
                return Err(bad(format!(
                    "{near}there are read=DIR, write=DIR, net=SCHEME://HOST:PORT, env=NAME, config=KEY, \
                     secret=NAME, sandbox and guard"
                )));
            }
            (word, None | Some("")) => {
                return Err(bad(format!("{word} needs a value, as {word}={}", example(word))));
            }
            (_, Some(value)) => value,
        };
        let within = |e: CapabilityError| bad(e.why);
        match word {
            "read" | "write" => {
                if value.contains(['*', '?']) {
                    return Err(bad("there are no wildcards; name a folder".to_owned()));
                }
                let path = PathBuf::from(value);
                Ok(if word == "read" { Self::Read(path) } else { Self::Write(path) })
            }
            "net" => value.parse().map(Self::Net).map_err(within),
            "env" => {
                let name = variable(value).map_err(bad)?;
                // Those variables hold secrets of other plugins and of hotcell.
                if name.starts_with("HOTCELL_") {
                    return Err(bad("hotcell's own variables are given to nobody".to_owned()));
                }
                Ok(Self::Env(name))
            }
            "config" => key(value).map(Self::Config).map_err(bad),
            _ => {
                let (name, to) = match value.split_once('@') {
                    Some((name, to)) => (name, Some(to.parse().map_err(within)?)),
                    None => (value, None),
                };
                Ok(Self::Secret(variable(name).map_err(bad)?, to))
            }
        }
    }
}

fn example(word: &str) -> &'static str {
    match word {
        "read" | "write" => "DIR",
        "net" => "https://example.org",
        "config" => "KEY",
        _ => "NAME",
    }
}

/// Checks the name of a variable or secret.
///
/// # Errors
/// A sentence that says what is wrong when the name is not valid.
pub fn variable(name: &str) -> Result<String, String> {
    let starts = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if !starts || name.len() > MAX_NAME_BYTES || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    {
        return Err(format!(
            "{name:?} is no name: letters, digits and _, at most {MAX_NAME_BYTES}, and no digit in front; there are no wildcards"
        ));
    }
    Ok(name.to_owned())
}

/// Checks the key of a setting.
///
/// # Errors
/// A sentence that says what is wrong when the key is not valid.
pub fn key(name: &str) -> Result<String, String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(allowed) {
        return Err(format!(
            "{name:?} is no key: letters, digits, _, - and ., at most {MAX_NAME_BYTES}; there are no wildcards"
        ));
    }
    Ok(name.to_owned())
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path) => write!(f, "read={}", path.display()),
            Self::Write(path) => write!(f, "write={}", path.display()),
            Self::Net(origin) => write!(f, "net={origin}"),
            Self::Env(name) => write!(f, "env={name}"),
            Self::Config(key) => write!(f, "config={key}"),
            Self::Secret(name, None) => write!(f, "secret={name}"),
            Self::Secret(name, Some(to)) => write!(f, "secret={name}@{to}"),
            Self::Sandbox => f.write_str("sandbox"),
            Self::Guard => f.write_str("guard"),
        }
    }
}

impl Held {
    /// The capabilities as a list, in a fixed order. A secret is listed once for each origin.
    #[must_use]
    pub fn capabilities(&self) -> Vec<Capability> {
        let secrets = self.secrets.iter().flat_map(|(name, to)| {
            to.iter().map(|origin| Capability::Secret(name.clone(), Some(origin.clone())))
        });
        let read = self.read.iter().cloned().map(Capability::Read);
        let mut all: Vec<Capability> = read.collect();
        all.extend(self.write.iter().cloned().map(Capability::Write));
        all.extend(self.net.iter().cloned().map(Capability::Net));
        all.extend(self.env.iter().cloned().map(Capability::Env));
        all.extend(self.config.iter().cloned().map(Capability::Config));
        all.extend(secrets);
        all.extend(self.sandbox.then_some(Capability::Sandbox));
        all.extend(self.guard.then_some(Capability::Guard));
        all
    }

    /// Adds a capability. A secret without an origin adds nothing.
    pub fn add(&mut self, capability: Capability) {
        match capability {
            Capability::Read(path) => drop(self.read.insert(path)),
            Capability::Write(path) => drop(self.write.insert(path)),
            Capability::Net(origin) => drop(self.net.insert(origin)),
            Capability::Env(name) => drop(self.env.insert(name)),
            Capability::Config(key) => drop(self.config.insert(key)),
            Capability::Secret(name, Some(to)) => drop(self.secrets.entry(name).or_default().insert(to)),
            Capability::Secret(_, None) => {}
            Capability::Sandbox => self.sandbox = true,
            Capability::Guard => self.guard = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_as_people_write_them() {
        for (text, want) in [
            ("read=/srv/data", "read=/srv/data"),
            ("write=work", "write=work"),
            ("net=https://Example.org", "net=https://example.org:443"),
            ("net=http://example.org/", "net=http://example.org:80"),
            ("net=https://example.org:8443", "net=https://example.org:8443"),
            ("net=http://127.0.0.1:8080", "net=http://127.0.0.1:8080"),
            ("net=http://[::1]:8080", "net=http://[::1]:8080"),
            ("net=https://[2001:DB8::1]", "net=https://[2001:db8::1]:443"),
            ("net=http://10.0.0.5", "net=http://10.0.0.5:80"),
            ("env=LANG", "env=LANG"),
            ("config=base-url", "config=base-url"),
            ("secret=TOKEN", "secret=TOKEN"),
            ("secret=TOKEN@https://a.org", "secret=TOKEN@https://a.org:443"),
            ("sandbox", "sandbox"),
            ("guard", "guard"),
        ] {
            let read: Capability = text.parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(read.to_string(), want);
            assert_eq!(read.to_string().parse(), Ok(read), "{want} is read again as itself");
        }
    }

    #[test]
    fn capability_mistakes_show_expected_form() {
        for (text, word) in [
            ("", "read=DIR"),
            ("reed=/x", "did you mean read?"),
            ("read", "read=DIR"),
            ("read=", "read=DIR"),
            ("read=/srv/*", "no wildcards"),
            ("net=example.org", "https://example.org"),
            ("net=ftp://example.org", "http or https"),
            ("net=https://*.example.org", "no wildcards"),
            ("net=https://example.org/path", "no path"),
            ("net=https://me@example.org", "no user"),
            ("net=https://example.org:0", "no port 0"),
            ("net=https://example.org:", "write it as https://example.org:443"),
            ("net=https://example.org.", "ends with a dot"),
            ("net=https://exa\tmple.org", "write it as https://example.org:443"),
            ("net=https://b\u{fc}cher.example", "write it as https://xn--bcher-kva.example:443"),
            ("net=https://a$(id)", "letters, digits"),
            ("net=https://", "no place"),
            ("net=https://a b", "no place"),
            ("net=https://example.org:*", "no wildcards"),
            ("net=http://[::ffff:127.0.0.1]", "spelling of IPv6"),
            ("net=http://0x7f.1", "write it as http://127.0.0.1:80"),
            ("env=A-B", "no name"),
            ("env=*", "no wildcards"),
            ("env=HOTCELL_SECRET_TOKEN", "own variables"),
            ("config=a b", "no key"),
            ("secret=a/b", "no name"),
            ("secret=A@example.org", "https://example.org"),
            ("sandbox=1", "no value"),
        ] {
            let error = text.parse::<Capability>().expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
        for unlike in ["foo=bar", "exec=/bin/sh", "=", "x"] {
            let error = unlike.parse::<Capability>().expect_err(unlike).to_string();
            assert!(error.contains("there are read=DIR") && !error.contains("did you mean"), "{error}");
        }
    }

    #[test]
    fn held_capabilities_are_listed_individually() {
        let mut held = Held::default();
        let all = [
            "read=/a",
            "write=/b",
            "net=https://a.org:443",
            "env=A",
            "config=k",
            "secret=S@https://a.org:443",
            "sandbox",
            "guard",
        ];
        for text in all {
            held.add(text.parse().unwrap());
        }
        assert_eq!(held.capabilities().iter().map(ToString::to_string).collect::<Vec<_>>(), all);
    }
}
