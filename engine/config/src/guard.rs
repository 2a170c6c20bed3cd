//! Settings of the guard.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use hotcell_sandbox::layer::likely;
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Settings of the guard, merged from all sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardSettings {
    /// Mode.
    pub mode: Mode,
    /// Folder with the user's own rules.
    pub rules: Option<PathBuf>,
    /// Required digest of these rules.
    pub digest: Option<RulesDigest>,
}

/// Action of the guard before a run, from strict to lax.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Refuses code that is quarantined or could not be read; warns about code that needs review.
    #[default]
    Enforce,
    /// Scans and reports; refuses nothing.
    Report,
    /// Scans nothing.
    Off,
}

impl Mode {
    /// Name in configuration and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Report => "report",
            Self::Off => "off",
        }
    }
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Enforce, Self::Report, Self::Off];
        all.into_iter().find(|mode| mode.name() == text).ok_or_else(|| {
            let near = likely(text, all.map(Self::name)).map(|near| format!("did you mean {near}? "));
            format!("{}there are enforce, report and off", near.unwrap_or_default())
        })
    }
}

/// Digest that pins a folder of rules: sha256, in hexadecimal, over the names and texts of its rule files in
/// the order of their names, each preceded by its length in bytes (64 bits, little-endian).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesDigest(String);

impl RulesDigest {
    /// Digest of these rules, each a file name and its text. The path of their folder does not count.
    #[must_use]
    pub fn of(rules: &[(String, String)]) -> Self {
        let mut hash = Sha256::new();
        for field in rules.iter().flat_map(|(name, text)| [name.rsplit('/').next().unwrap_or(name), text]) {
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field);
        }
        Self(hex::encode(hash.finalize()))
    }
}

impl fmt::Display for RulesDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RulesDigest {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(Self(text.to_ascii_lowercase()));
        }
        Err(format!(
            "{text:?} is not a digest, which is 64 hexadecimal digits; hotcell scan -v --rules DIR says it"
        ))
    }
}

impl<'de> Deserialize<'de> for RulesDigest {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}
