//! Settings of sessions: interpreters whose variables stay between calls.

use std::time::Duration;

use hotcell_sandbox::Bytes;
use hotcell_sandbox::profile::Key;
use hotcell_sandbox::units::parse_duration;
use serde::Deserialize;

/// The keys of the table `sessions`.
pub(crate) const KEYS: &[Key] = &[
    Key::value("per_caller"),
    Key::value("total"),
    Key::value("idle"),
    Key::value("life"),
    Key::value("memory"),
    Key::value("packages"),
];
/// Maximum life of a session.
const MAX_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The table `sessions` of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table sessions")]
pub struct SessionSettings {
    /// Number of sessions of one caller. Default: 4.
    pub per_caller: usize,
    /// Number of sessions of all callers. Default: 16.
    pub total: usize,
    /// Time without a cell after which a session ends. Default: 30 minutes.
    #[serde(deserialize_with = "time")]
    pub idle: Duration,
    /// Time after which a session ends in any case. Default: 4 hours.
    #[serde(deserialize_with = "time")]
    pub life: Duration,
    /// Memory of each, in place of `limits.memory`.
    pub memory: Option<Bytes>,
    /// Whether callers of a server may have packages installed from PyPI and npm. Default: no.
    pub packages: bool,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            per_caller: 4,
            total: 16,
            idle: Duration::from_secs(30 * 60),
            life: Duration::from_secs(4 * 3600),
            memory: None,
            packages: false,
        }
    }
}

fn time<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let time = parse_duration(&text).map_err(serde::de::Error::custom)?;
    if time < Duration::from_secs(1) || time > MAX_LIFE {
        return Err(serde::de::Error::custom(format!("{text:?} is not between 1s and 168h")));
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Settings;

    fn parsed(text: &str) -> Result<SessionSettings, String> {
        let parsed = Settings::parse(text, Path::new("/c.toml"));
        parsed.map(|settings| settings.sessions).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_are_taken_and_wrong_ones_explained() {
        assert_eq!(parsed(""), Ok(SessionSettings::default()));
        let all = "[sessions]\nper_caller = 1\ntotal = 2\nidle = \"90s\"\nlife = \"2h\"\nmemory = \"1G\"\npackages = true";
        let want = SessionSettings {
            per_caller: 1,
            total: 2,
            idle: Duration::from_secs(90),
            life: Duration::from_secs(7200),
            memory: Some(Bytes::gib(1)),
            packages: true,
        };
        assert_eq!(parsed(all), Ok(want));
        for (text, want) in [
            ("[sessions]\nidle = \"0s\"", "between 1s and 168h"),
            ("[sessions]\nlife = \"9000h\"", "between 1s and 168h"),
            ("[sessions]\nlive = \"1h\"", "life"),
            ("[sessions]\ntotal = -1", "expected usize"),
        ] {
            let why = parsed(text).unwrap_err();
            assert!(why.contains(want), "{why}");
        }
    }
}
