//! The table `agents`: definitions of verbs, and upper limits for sessions in which models write code for callers of a server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_models::Money;
use hotcell_sandbox::profile::Key;
use hotcell_sandbox::units::parse_duration;
use serde::{Deserialize, Deserializer};

/// The keys of the table `agents`.
pub(crate) const KEYS: &[Key] = &[
    Key::value("folder"),
    Key::table(
        "limits",
        &[Key::value("dollars"), Key::value("tokens"), Key::value("calls"), Key::value("time")],
    ),
];
/// Time of a session of a caller, where the operator names no other (S2.21).
pub const SESSION_TIME: Duration = Duration::from_secs(30 * 60);
/// Maximum time of a session that an operator may allow.
const MAX_TIME: Duration = Duration::from_secs(24 * 3600);

/// The table `agents` of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table agents")]
pub struct AgentSettings {
    /// Folder with definition files of verbs. Default: only the examples that come with hotcell.
    pub folder: Option<PathBuf>,
    /// Upper limits of each session, review and suite of tests of a caller.
    pub limits: AgentLimits,
}

/// The table `agents.limits`; what is not named is not limited, but for the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table agents.limits")]
pub struct AgentLimits {
    /// Money in US dollars; 0 allows free models only.
    #[serde(deserialize_with = "money")]
    pub dollars: Option<Money>,
    /// Tokens: input that was read anew, and output.
    #[serde(deserialize_with = "count")]
    pub tokens: Option<u64>,
    /// Calls of models.
    #[serde(deserialize_with = "count")]
    pub calls: Option<u64>,
    /// Time. Default: 30 minutes.
    #[serde(deserialize_with = "time")]
    pub time: Duration,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self { dollars: None, tokens: None, calls: None, time: SESSION_TIME }
    }
}

impl AgentSettings {
    /// Resolves relative paths against a folder.
    pub(crate) fn below(mut self, base: &Path) -> Self {
        self.folder = self.folder.map(|folder| base.join(folder));
        self
    }
}

fn money<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Money>, D::Error> {
    let dollars = f64::deserialize(from)?;
    let wrong = || serde::de::Error::custom("it is an amount of dollars from 0 to 1000000, such as 0.5");
    Money::from_dollars(dollars).map(Some).ok_or_else(wrong)
}

fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    match u64::deserialize(from)? {
        0 => Err(serde::de::Error::custom(
            "0 allows no call of a model; leave the toolset agent-service out instead",
        )),
        count => Ok(Some(count)),
    }
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let time = parse_duration(&text).map_err(serde::de::Error::custom)?;
    if time < Duration::from_secs(1) || time > MAX_TIME {
        return Err(serde::de::Error::custom(format!("{text:?} is not between 1s and 24h")));
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn parsed(text: &str) -> Result<AgentSettings, String> {
        let parsed = Settings::parse(text, Path::new("/etc/hotcell/config.toml"));
        parsed.map(|settings| settings.agents).map_err(|error| error.to_string())
    }

    #[test]
    fn limits_are_read_and_wrong_ones_explained() {
        assert_eq!(parsed(""), Ok(AgentSettings::default()));
        let text = "[agents]\nfolder = \"verbs\"\n[agents.limits]\ndollars = 0.5\ntokens = 200000\ncalls = 20\ntime = \"10m\"";
        let limits = AgentLimits {
            dollars: Some(Money(500_000_000_000)),
            tokens: Some(200_000),
            calls: Some(20),
            time: Duration::from_secs(600),
        };
        assert_eq!(parsed(text), Ok(AgentSettings { folder: Some("/etc/hotcell/verbs".into()), limits }));
        assert_eq!(parsed("[agents.limits]\ndollars = 0").unwrap().limits.dollars, Some(Money(0)));
        for (line, part) in [
            ("dollars = -1.0", "an amount of dollars"),
            ("dollars = nan", "an amount of dollars"),
            ("dollars = \"1\"", "config.toml:2"),
            ("tokens = 0", "0 allows no call"),
            ("calls = 0", "0 allows no call"),
            ("calls = -1", "config.toml:2"),
            ("time = \"0s\"", "between 1s and 24h"),
            ("time = \"25h\"", "between 1s and 24h"),
            ("time = 10", "config.toml:2"),
            ("minutes = 10", "minutes"),
        ] {
            let wrong = parsed(&format!("[agents.limits]\n{line}"));
            assert!(wrong.as_ref().is_err_and(|why| why.contains(part)), "{line}: {wrong:?}");
        }
    }
}
