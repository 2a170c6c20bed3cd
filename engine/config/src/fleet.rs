//! The table `fleet`: the farm that runs are sent to, how it is reached, and what its workers have to prove.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_egress::program::ValueSource;
use hotcell_sandbox::profile::Key;
use serde::{Deserialize, Deserializer};

/// Longest time in a farm's queue that may be set: a week.
const MAX_QUEUE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The table `fleet` of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table fleet")]
pub struct FleetSettings {
    /// Address of the farm: `grpcs://HOST:PORT/INSTANCE`. `--remote fleet` names it; its credentials are sent to no other.
    pub address: Option<String>,
    /// Reach another machine by `grpc://`, without TLS.
    pub plain: bool,
    /// Root certificates (PEM) for the farm's certificate. Default: those of the system.
    pub ca: Option<PathBuf>,
    /// Certificate (PEM) that this machine shows to the farm.
    pub certificate: Option<PathBuf>,
    /// Private key (PEM) of that certificate.
    pub key: Option<PathBuf>,
    /// Source of the bearer token.
    #[serde(deserialize_with = "source")]
    pub token: Option<ValueSource>,
    /// Runs of callers of an MCP server are sent to the farm.
    pub mcp: bool,
    /// Maximum time in the farm's queue. Default: one hour.
    #[serde(deserialize_with = "time")]
    pub queue: Option<Duration>,
    /// A result needs a receipt of its worker, signed by a key of `trusted_keys`.
    pub require_receipts: bool,
    /// Public keys (PEM) of workers whose receipts are accepted.
    pub trusted_keys: Vec<PathBuf>,
}

/// The keys of the table.
pub(crate) const KEYS: &[Key] = &[
    Key::value("address"),
    Key::value("plain"),
    Key::value("ca"),
    Key::value("certificate"),
    Key::value("key"),
    Key::value("token"),
    Key::value("mcp"),
    Key::value("queue"),
    Key::value("require_receipts"),
    Key::value("trusted_keys"),
];

impl FleetSettings {
    /// The settings of a file in this folder: relative paths are resolved against it. The error has the key, and a sentence without any value.
    pub(crate) fn below(self, base: &Path) -> Result<Self, (&'static str, String)> {
        let wrong = |key, why: &str| Err((key, why.to_owned()));
        match (&self.address, &self.certificate, &self.key) {
            (None, ..) if self != Self::default() => {
                return wrong("address", "there is no address of the farm that the table is for");
            }
            (_, Some(_), None) => return wrong("certificate", "the certificate needs its key"),
            (_, None, Some(_)) => return wrong("key", "the key needs its certificate"),
            _ => {}
        }
        if self.require_receipts && self.trusted_keys.is_empty() {
            return wrong("require_receipts", "there are no trusted_keys that a receipt could be signed by");
        }
        Ok(Self {
            ca: self.ca.map(|file| base.join(file)),
            certificate: self.certificate.map(|file| base.join(file)),
            key: self.key.map(|file| base.join(file)),
            trusted_keys: self.trusted_keys.iter().map(|file| base.join(file)).collect(),
            ..self
        })
    }
}

fn source<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ValueSource>, D::Error> {
    let parsed = String::deserialize(from)?.parse::<ValueSource>();
    parsed.map(Some).map_err(|_| {
        serde::de::Error::custom(
            "it is env:VARIABLE, file:/PATH, fd:NUMBER, keyring:NAME or exec:/PATH; a token itself is not accepted",
        )
    })
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    let time = hotcell_sandbox::units::parse_duration(&text).map_err(serde::de::Error::custom)?;
    if time.is_zero() || time > MAX_QUEUE {
        return Err(serde::de::Error::custom("it is a time of at most 7 days, such as 30m"));
    }
    Ok(Some(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn read(text: &str) -> Result<FleetSettings, String> {
        let text = format!("[fleet]\n{text}");
        Settings::parse(&text, Path::new("/etc/hotcell/config.toml"))
            .map(|s| s.fleet)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn table_is_relative_to_its_file() {
        let is = read(
            "address = \"grpcs://farm:8980/main\"\nca = \"ca.pem\"\ncertificate = \"me.pem\"\nkey = \"/k/me.key\"\n\
             token = \"exec:/usr/bin/token farm\"\nmcp = true\nqueue = \"30m\"\ntrusted_keys = [\"w.pem\"]\nrequire_receipts = true",
        )
        .unwrap();
        assert_eq!(is.ca.as_deref(), Some(Path::new("/etc/hotcell/ca.pem")));
        assert_eq!(is.key.as_deref(), Some(Path::new("/k/me.key")));
        assert_eq!(is.token.unwrap().to_string(), "exec:/usr/bin/token farm");
        assert_eq!(is.queue, Some(Duration::from_secs(1800)));
        assert_eq!(is.trusted_keys, [PathBuf::from("/etc/hotcell/w.pem")]);
        assert!(is.mcp && is.require_receipts && !is.plain);
    }

    #[test]
    fn wrong_tables_are_named_without_values() {
        for (text, words) in [
            ("ca = \"x\"", "no address"),
            ("address = \"grpcs://f:1\"\ncertificate = \"x\"", "needs its key"),
            ("address = \"grpcs://f:1\"\nkey = \"x\"", "needs its certificate"),
            ("address = \"grpcs://f:1\"\ntoken = \"s3cr3t-value\"", "itself is not accepted"),
            ("address = \"grpcs://f:1\"\nqueue = \"9d\"", "at most 7 days"),
            ("address = \"grpcs://f:1\"\nqueue = \"0s\"", "at most 7 days"),
            ("address = \"grpcs://f:1\"\nrequire_receipts = true", "no trusted_keys"),
            ("adress = \"grpcs://f:1\"", "address"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(words) && !error.contains("s3cr3t"), "{text}: {error}");
        }
    }
}
