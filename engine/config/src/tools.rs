//! The table `tools` of the user's configuration: upper limits for plugins, and their settings. A project's
//! file must not have it, since it comes with unreviewed code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_sandbox::Bytes;
use hotcell_sandbox::profile::Key;
use hotcell_sandbox::units::parse_duration;
use hotcell_tools::install::grant::Policy;
use hotcell_tools::install::signature::{Key as Signer, SignatureError};
use hotcell_tools::{Limits, Origin};
use serde::{Deserialize, Deserializer};

/// The table. Unset keys allow everything that a person grants.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table tools")]
pub struct ToolSettings {
    /// Folders that may be granted, including their subfolders.
    pub folders: Option<Vec<PathBuf>>,
    /// Allow grants to write folders.
    pub write: Option<bool>,
    /// Origins that may be granted: `["https://api.github.com"]`.
    #[serde(deserialize_with = "origins")]
    pub net: Option<BTreeSet<Origin>>,
    /// Variables that may be granted.
    pub env: Option<BTreeSet<String>>,
    /// Secrets that may be granted.
    pub secrets: Option<BTreeSet<String>>,
    /// Allow grants of sandboxed runs.
    pub sandbox: Option<bool>,
    /// Maximum memory of a sandboxed run.
    pub sandbox_memory: Option<Bytes>,
    /// Allow grants of scans.
    pub guard: Option<bool>,
    /// Memory limit of a call. Default: 64 MiB.
    pub memory: Option<Bytes>,
    /// Time limit of a call, wall clock. Default: 10 s.
    #[serde(deserialize_with = "time")]
    pub timeout: Option<Duration>,
    /// Minisign key that must have signed every component, or its file, relative to the configuration's
    /// folder.
    pub signed_by: Option<String>,
    /// Settings of plugins: `[tools.config.PLUGIN]`.
    pub config: BTreeMap<String, BTreeMap<String, String>>,
}

/// The keys of the table.
pub const KEYS: &[Key] = &[
    Key::value("folders"),
    Key::value("write"),
    Key::value("net"),
    Key::value("env"),
    Key::value("secrets"),
    Key::value("sandbox"),
    Key::value("sandbox_memory"),
    Key::value("guard"),
    Key::value("memory"),
    Key::value("timeout"),
    Key::value("signed_by"),
    Key::value("config"),
];

fn origins<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BTreeSet<Origin>>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let read: Result<_, _> = texts.iter().map(|text| text.parse::<Origin>()).collect();
    read.map(Some).map_err(serde::de::Error::custom)
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text).map(Some).map_err(serde::de::Error::custom)
}

impl ToolSettings {
    /// Resolves relative paths against a folder.
    #[must_use]
    pub fn from_folder(mut self, base: &Path) -> Self {
        // Grants contain canonical paths, so these are canonical, too.
        let real = |folder: PathBuf| {
            let folder = base.join(folder);
            folder.canonicalize().unwrap_or(folder)
        };
        self.folders = self.folders.map(|all| all.into_iter().map(real).collect());
        // A text that is not a key is a file beside the configuration, never one of the working folder.
        self.signed_by = self.signed_by.map(|named| match Signer::is_key(&named) {
            true => named,
            false => base.join(named).to_string_lossy().into_owned(),
        });
        self
    }

    /// The policy for grants; `own` are folders that are never granted.
    #[must_use]
    pub fn policy(&self, own: Vec<PathBuf>) -> Policy {
        let usual = Policy::default();
        Policy {
            folders: self.folders.clone(),
            write: self.write.unwrap_or(usual.write),
            net: self.net.clone(),
            env: self.env.clone(),
            secrets: self.secrets.clone(),
            sandbox: self.sandbox.unwrap_or(usual.sandbox),
            guard: self.guard.unwrap_or(usual.guard),
            sandbox_memory: self.sandbox_memory.unwrap_or(usual.sandbox_memory),
            own,
        }
    }

    /// The key that must have signed every component, in base64.
    ///
    /// # Errors
    /// When it is not a key, or its file cannot be read.
    pub fn required(&self) -> Result<Option<Signer>, SignatureError> {
        self.signed_by.as_deref().map(|named| Signer::parse(named, Path::new("/"))).transpose()
    }

    /// Limits of a call.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            memory: self.memory.unwrap_or(usual.memory),
            wall: self.timeout.unwrap_or(usual.wall),
            ..usual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_key_path_is_relative_to_configuration() {
        let key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
        for (named, read) in
            [("release.pub", "/etc/hotcell/release.pub"), ("/srv/a.pub", "/srv/a.pub"), (key, key)]
        {
            let settings = ToolSettings { signed_by: Some(named.to_owned()), ..ToolSettings::default() };
            assert_eq!(settings.from_folder(Path::new("/etc/hotcell")).signed_by.as_deref(), Some(read));
        }
    }
}
