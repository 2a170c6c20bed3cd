//! The table `receipts`: whether every run gets a signed statement, where it is written, and which key signs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hotcell_sandbox::profile::Key;
use serde::{Deserialize, Deserializer};

/// The table `receipts` of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table receipts")]
pub struct ReceiptSettings {
    /// Every run and test run gets a receipt, also those of callers of a server. A run whose receipt cannot be made does not start.
    pub always: bool,
    /// Folder in which receipts are written too, each as `RUN.json`. They are in the state folder in any case.
    pub folder: Option<PathBuf>,
    /// The key that signs.
    #[serde(deserialize_with = "key")]
    pub key: KeySource,
    /// Public key (PEM) that signatures have to be by. Required for a program that signs.
    pub public_key: Option<PathBuf>,
}

/// The keys of the table.
pub(crate) const KEYS: &[Key] =
    &[Key::value("always"), Key::value("folder"), Key::value("key"), Key::value("public_key")];

impl ReceiptSettings {
    /// The settings of a file in this folder: relative paths are resolved against it.
    pub(crate) fn below(self, base: &Path) -> Self {
        Self {
            folder: self.folder.map(|folder| base.join(folder)),
            public_key: self.public_key.map(|file| base.join(file)),
            ..self
        }
    }
}

/// Where the key is that signs. `Display` and `FromStr` use the form of configuration files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeySource {
    /// `state`: the key of the installation, made together with the first receipt.
    #[default]
    State,
    /// `file:/PATH`: a private file with a key (PEM or PKCS#8).
    File(PathBuf),
    /// `fd:N`: an inherited descriptor, read once to its end.
    Descriptor(u32),
    /// `credential:NAME`: a credential of the systemd unit, a file in `$CREDENTIALS_DIRECTORY` (systemd.exec(5)).
    Credential(String),
    /// `exec:/PATH ARGUMENT …`: a program of the host that signs. It gets the bytes on standard input and answers with the 64 bytes of an Ed25519
    /// signature.
    Program(Vec<String>),
}

/// A text is not a source of a key.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is not a source of a key: use state, file:/PATH, fd:N, credential:NAME, or exec:/PATH ARGUMENT … for a program that signs"
)]
pub struct NotAKeySource(String);

impl FromStr for KeySource {
    type Err = NotAKeySource;

    fn from_str(text: &str) -> Result<Self, NotAKeySource> {
        // A key itself by mistake is not printed.
        let wrong = || NotAKeySource(text.split(':').next().unwrap_or_default().chars().take(12).collect());
        if text == "state" {
            return Ok(Self::State);
        }
        let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
        match kind {
            "file" if Path::new(rest).is_absolute() => Ok(Self::File(rest.into())),
            "fd" => rest.parse().map(Self::Descriptor).map_err(|_| wrong()),
            "credential" if is_credential(rest) => Ok(Self::Credential(rest.to_owned())),
            "exec" => {
                let words: Vec<String> = rest.split_ascii_whitespace().map(str::to_owned).collect();
                match words.first() {
                    Some(program) if Path::new(program).is_absolute() => Ok(Self::Program(words)),
                    _ => Err(wrong()),
                }
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State => f.write_str("state"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Descriptor(number) => write!(f, "fd:{number}"),
            Self::Credential(name) => write!(f, "credential:{name}"),
            Self::Program(words) => write!(f, "exec:{}", words.join(" ")),
        }
    }
}

/// Whether a text is the name of a credential: one part of a path, at most 255 bytes (systemd's `credential_name_valid`).
fn is_credential(name: &str) -> bool {
    let plain = |c: char| !c.is_control() && c != '/' && c != ':';
    !name.is_empty() && name.len() <= 255 && name != "." && name != ".." && name.chars().all(plain)
}

fn key<'de, D: Deserializer<'de>>(from: D) -> Result<KeySource, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_sources_have_one_form_each() {
        for text in [
            "state",
            "file:/etc/hotcell/receipts.pem",
            "fd:3",
            "credential:hotcell.receipts",
            "exec:/usr/local/bin/sign --slot 1",
        ] {
            assert_eq!(text.parse::<KeySource>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "State",
            "file:",
            "file:key.pem",
            "fd:-1",
            "fd:x",
            "credential:",
            "credential:..",
            "credential:a/b",
            "exec:",
            "exec:sign",
            "env:KEY",
            "-----BEGIN PRIVATE KEY-----MC4CAQAwBQYDK2VwBCIEIJ1h",
        ] {
            let error = text.parse::<KeySource>().unwrap_err().to_string();
            assert!(!error.contains("MC4C"), "{error}");
        }
    }

    #[test]
    fn table_is_relative_to_its_file_and_not_for_projects() {
        let text = "[receipts]\nalways = true\nfolder = \"out\"\nkey = \"fd:3\"\npublic_key = \"k.pem\"\n";
        let settings = crate::Settings::parse(text, Path::new("/etc/hotcell/config.toml")).unwrap();
        let want = ReceiptSettings {
            always: true,
            folder: Some("/etc/hotcell/out".into()),
            key: KeySource::Descriptor(3),
            public_key: Some("/etc/hotcell/k.pem".into()),
        };
        assert_eq!(settings.receipts, want);
        let error =
            crate::Settings::parse("[receipts]\nkey = \"pem:x\"\n", Path::new("/c.toml")).unwrap_err();
        assert!(error.to_string().contains("credential:NAME"), "{error}");
    }
}
