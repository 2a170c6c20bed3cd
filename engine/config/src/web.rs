//! The table `web`: the page behind a reverse proxy that signs people in. It says which socket the proxy uses, whom the page believes, who may read
//! and who may decide.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hotcell_sandbox::profile::Key;
use serde::{Deserialize, Deserializer};

/// Maximum length of a person's name, in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// The table `web` of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table web")]
pub struct WebSettings {
    /// The socket for the proxy.
    #[serde(deserialize_with = "listen")]
    pub listen: Option<WebListen>,
    /// Users whose processes may connect to a Unix socket, or addresses from which a proxy connects.
    pub proxy: Vec<String>,
    /// Address of the page in browsers: `https://HOST` or `http://HOST`, with a port where it is not the usual one.
    pub address: Option<String>,
    /// Header in which the proxy names the person.
    pub identity_header: Option<String>,
    /// Persons who may look.
    pub readers: BTreeSet<String>,
    /// Persons who may look and decide.
    pub deciders: BTreeSet<String>,
}

/// The keys of the table.
pub(crate) const KEYS: &[Key] = &[
    Key::value("listen"),
    Key::value("proxy"),
    Key::value("address"),
    Key::value("identity_header"),
    Key::value("readers"),
    Key::value("deciders"),
];

/// A socket for a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebListen {
    /// `unix:/PATH`. The kernel tells which user connects.
    Unix(PathBuf),
    /// `ADDRESS:PORT`, for a proxy on another machine.
    Tcp(SocketAddr),
}

impl FromStr for WebListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match Path::new(path).is_absolute() {
                true => Ok(Self::Unix(path.into())),
                false => Err(format!("{text:?} needs an absolute path: unix:/PATH")),
            };
        }
        let address: SocketAddr =
            text.parse().map_err(|_| format!("{text:?} is neither unix:/PATH nor ADDRESS:PORT"))?;
        if address.ip().is_loopback() {
            return Err(format!(
                "{text:?} is a loopback address, from which every user of this host could claim to be anyone: use unix:/PATH"
            ));
        }
        Ok(Self::Tcp(address))
    }
}

fn listen<'de, D: Deserializer<'de>>(from: D) -> Result<Option<WebListen>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(serde::de::Error::custom)
}

/// Whether a text can be a person's name: printable ASCII without spaces at its ends, of bounded length.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let plain = name.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && plain && name.trim() == name
}

impl WebSettings {
    /// The host of the address, with its port where it has one.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        let address = self.address.as_deref()?;
        address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"))
    }

    /// The settings, if they belong together. The error has the key and a sentence.
    pub(crate) fn checked(self) -> Result<Self, (&'static str, String)> {
        if self == Self::default() {
            return Ok(self);
        }
        let wrong = |key, why: &str| Err((key, why.to_owned()));
        let Some(listen) = &self.listen else {
            return wrong("listen", "there is no socket on which the page listens for the proxy");
        };
        if let WebListen::Tcp(_) = listen {
            if self.proxy.is_empty() {
                return wrong("proxy", "an ADDRESS:PORT needs the addresses from which the proxy connects");
            }
            if let Some(other) = self.proxy.iter().find(|text| text.parse::<IpAddr>().is_err()) {
                return Err(("proxy", format!("{other:?} is not an address, such as 10.0.0.5")));
            }
            if self.proxy.iter().any(|text| text.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())) {
                return wrong(
                    "proxy",
                    "a loopback address is every user of this host: use unix:/PATH in listen",
                );
            }
        }
        let is_host = |host: &str| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'[' | b']');
            !host.is_empty() && host.bytes().all(plain)
        };
        match self.host() {
            Some(host) if is_host(host) => {}
            _ => return wrong("address", "it is https://HOST or http://HOST, without a path"),
        }
        match &self.identity_header {
            Some(name) if is_header(name) => {}
            Some(_) => {
                return wrong(
                    "identity_header",
                    "it is the name of a header of its own, such as X-Forwarded-User",
                );
            }
            None => {
                return wrong("identity_header", "the header is missing in which the proxy names the person");
            }
        }
        if let Some(name) = self.readers.iter().chain(&self.deciders).find(|name| !is_name(name)) {
            return Err((
                "readers",
                format!("{name:?} is not a name: printable ASCII, at most {MAX_NAME_BYTES} bytes"),
            ));
        }
        if self.readers.is_empty() && self.deciders.is_empty() {
            return wrong("deciders", "nobody may read or decide: name persons in readers and deciders");
        }
        Ok(self)
    }
}

/// Whether a name is that of a header which has no other meaning for the page.
fn is_header(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    let taken = [
        "host",
        "origin",
        "cookie",
        "referer",
        "connection",
        "content-type",
        "content-length",
        "transfer-encoding",
    ];
    let lower = name.to_ascii_lowercase();
    !name.is_empty() && name.bytes().all(plain) && !lower.starts_with("sec-") && !taken.contains(&&*lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "address = \"https://review.example.com\"\nidentity_header = \"X-Forwarded-User\"\ndeciders = [\"bob\"]\n";

    fn parsed(text: &str) -> Result<WebSettings, String> {
        let text = format!("[web]\n{text}");
        crate::Settings::parse(&text, Path::new("/c.toml")).map(|all| all.web).map_err(|e| e.to_string())
    }

    #[test]
    fn table_names_socket_proxy_and_persons() {
        let unix = parsed(&format!("listen = \"unix:/run/w.sock\"\nproxy = [\"www-data\"]\n{REST}")).unwrap();
        assert_eq!(unix.listen, Some(WebListen::Unix("/run/w.sock".into())));
        assert_eq!(unix.host(), Some("review.example.com"));
        let tcp = parsed(&format!("listen = \"10.0.0.4:80\"\nproxy = [\"10.0.0.5\"]\n{REST}")).unwrap();
        assert_eq!(tcp.listen, Some(WebListen::Tcp("10.0.0.4:80".parse().unwrap())));
        assert_eq!(parsed("").unwrap(), WebSettings::default());
    }

    #[test]
    fn tables_that_trust_too_much_are_refused() {
        let unix = "listen = \"unix:/run/w.sock\"\n";
        for (text, word) in [
            (REST.to_owned(), "web.listen"),
            (format!("listen = \"unix:w.sock\"\n{REST}"), "absolute"),
            (format!("listen = \"127.0.0.1:80\"\nproxy = [\"10.0.0.5\"]\n{REST}"), "loopback"),
            (format!("listen = \"[::1]:80\"\nproxy = [\"10.0.0.5\"]\n{REST}"), "loopback"),
            (format!("listen = \"80\"\n{REST}"), "ADDRESS:PORT"),
            (format!("listen = \"10.0.0.4:80\"\n{REST}"), "web.proxy"),
            (format!("listen = \"10.0.0.4:80\"\nproxy = [\"proxy.lan\"]\n{REST}"), "proxy.lan"),
            (format!("listen = \"0.0.0.0:80\"\nproxy = [\"127.0.0.1\"]\n{REST}"), "loopback"),
            (
                format!("{unix}{}", REST.replace("https://review.example.com", "review.example.com")),
                "web.address",
            ),
            (format!("{unix}{}", REST.replace("example.com", "example.com/x")), "web.address"),
            (format!("{unix}{}", REST.replace("X-Forwarded-User", "Host")), "web.identity_header"),
            (format!("{unix}{}", REST.replace("X-Forwarded-User", "Sec-Fetch-Site")), "web.identity_header"),
            (format!("{unix}{}", REST.replace("X-Forwarded-User", "X User")), "web.identity_header"),
            (format!("{unix}{}", REST.replace("identity_header = \"X-Forwarded-User\"\n", "")), "is missing"),
            (format!("{unix}{}", REST.replace("[\"bob\"]", "[]")), "nobody"),
            (format!("{unix}{}", REST.replace("\"bob\"", "\"bob\\u202e\"")), "not a name"),
            (format!("{unix}{}", REST.replace("\"bob\"", "\" bob\"")), "not a name"),
            (format!("{unix}{REST}users = []\n"), "users"),
        ] {
            let error = parsed(&text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
