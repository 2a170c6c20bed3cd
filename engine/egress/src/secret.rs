//! Secret values and their sources: read when they are needed, wiped after use, never printed, serialised or compared.
//!
//! This module is not for placeholders in a plugin's requests; those are in `hotcell-plugins`.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use zeroize::Zeroizing;

/// Maximum size of a secret, in bytes.
pub const MAX_SECRET_BYTES: usize = 8192;

/// A secret value. Its memory is overwritten when it is dropped. It has no `Display`, `Serialize`, `Clone` or `PartialEq`; `Debug` prints a
/// placeholder.
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes over a value, without white space at its end (files usually end with a newline).
    ///
    /// # Errors
    /// When the value is empty, longer than [`MAX_SECRET_BYTES`], or has a byte that a header cannot have (a control character).
    pub fn new(value: Vec<u8>) -> Result<Self, SecretError> {
        let mut value = Zeroizing::new(value);
        while value.last().is_some_and(u8::is_ascii_whitespace) {
            value.pop();
        }
        if value.is_empty() {
            return Err(SecretError::Empty);
        }
        if value.len() > MAX_SECRET_BYTES {
            return Err(SecretError::TooLong);
        }
        if value.iter().any(u8::is_ascii_control) {
            return Err(SecretError::ControlCharacter);
        }
        Ok(Self(value))
    }

    /// The bytes, for the one place that sends them. Each caller of this function is a place to review.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Where a secret is read from. `Display` and `FromStr` use the form of the command line and of configuration files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// `env:NAME`: a variable of hotcell's own environment.
    Env(String),
    /// `file:/PATH`: a regular file that belongs to the user and that others cannot read.
    File(PathBuf),
    /// `fd:N`: an inherited file descriptor, read once to its end.
    Fd(u32),
    /// `keyring:NAME`: a key of the type `user` in the kernel's keyrings of this session or user (keyrings(7)).
    Keyring(String),
}

/// Why a secret cannot be used. The messages never contain the value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The source has none of the known forms.
    #[error(
        "{0:?} is not a source of a secret: use env:NAME, file:/PATH, fd:N or keyring:NAME (a value itself is not accepted)"
    )]
    Form(String),
    /// The variable is not set.
    #[error("the environment variable {0} is not set")]
    NotSet(String),
    /// The file cannot be used.
    #[error("the secret's file {} cannot be used: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// The descriptor cannot be read.
    #[error("the secret's file descriptor {number} cannot be read: {source}")]
    Fd {
        /// Number of the descriptor.
        number: u32,
        /// Reason.
        source: io::Error,
    },
    /// The kernel's keyrings do not give the key.
    #[error("the key {name:?} of the kernel's keyrings cannot be read: {why}")]
    Keyring {
        /// Name of the key.
        name: String,
        /// Reason.
        why: String,
    },
    /// The value is empty.
    #[error("the secret is empty")]
    Empty,
    /// The value is too long.
    #[error("the secret is longer than {MAX_SECRET_BYTES} bytes")]
    TooLong,
    /// The value has a control character, such as a newline.
    #[error("the secret has a control character, such as a newline, in its middle")]
    ControlCharacter,
}

impl FromStr for SecretSource {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        // A literal that was given by mistake does not belong into a message.
        let form = || {
            SecretError::Form(text.split_once(':').map_or("…", |(kind, _)| kind).chars().take(12).collect())
        };
        let (kind, rest) = text.split_once(':').ok_or_else(form)?;
        match kind {
            "env" if is_variable(rest) => Ok(Self::Env(rest.to_owned())),
            "file" if Path::new(rest).is_absolute() => Ok(Self::File(rest.into())),
            "fd" => rest.parse().map(Self::Fd).map_err(|_| form()),
            "keyring" if is_key_name(rest) => Ok(Self::Keyring(rest.to_owned())),
            _ => Err(form()),
        }
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Fd(number) => write!(f, "fd:{number}"),
            Self::Keyring(name) => write!(f, "keyring:{name}"),
        }
    }
}

impl SecretSource {
    /// Reads the value.
    ///
    /// # Errors
    /// When the source is missing, unreadable or readable by others, or its value is not one for [`Secret::new`].
    pub fn read(&self) -> Result<Secret, SecretError> {
        Secret::new(self.bytes()?)
    }

    /// Reads a text of several lines, such as a private key in PEM.
    ///
    /// # Errors
    /// Like [`SecretSource::read`], but control characters are accepted.
    pub fn read_text(&self) -> Result<Zeroizing<Vec<u8>>, SecretError> {
        let text = Zeroizing::new(self.bytes()?);
        match text.len() {
            0 => Err(SecretError::Empty),
            1..=MAX_SECRET_BYTES => Ok(text),
            _ => Err(SecretError::TooLong),
        }
    }

    fn bytes(&self) -> Result<Vec<u8>, SecretError> {
        match self {
            Self::Env(name) => {
                use std::os::unix::ffi::OsStringExt;
                let value = std::env::var_os(name).ok_or_else(|| SecretError::NotSet(name.clone()))?;
                Ok(value.into_vec())
            }
            Self::File(path) => {
                of_file(path).map_err(|source| SecretError::File { path: path.clone(), source })
            }
            Self::Fd(number) => {
                let failed = |source: io::Error| {
                    let source = match source.kind() {
                        io::ErrorKind::NotFound => {
                            let why = format!("it is not open here; a shell opens it with {number}<FILE");
                            io::Error::new(source.kind(), why)
                        }
                        _ => source,
                    };
                    SecretError::Fd { number: *number, source }
                };
                let file = File::open(format!("/proc/self/fd/{number}")).map_err(failed)?;
                bounded(file).map_err(failed)
            }
            Self::Keyring(name) => crate::keyring::read(name, MAX_SECRET_BYTES)
                .map_err(|why| SecretError::Keyring { name: name.clone(), why }),
        }
    }
}

/// Whether a text is the name of a key: printable ASCII without spaces, at most 200 characters.
fn is_key_name(name: &str) -> bool {
    (1..=200).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
}

/// Whether a text is the name of an environment variable: letters, digits and `_`, not first a digit.
fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A private regular file of the user's; no link is followed at its last part.
fn of_file(path: &Path) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!("belongs to user {}", metadata.uid())));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(io::Error::other("others can read it; chmod 600 it"));
    }
    bounded(file)
}

/// At most one byte more than a secret may have, so that too long a value is seen.
fn bounded(file: File) -> io::Result<Vec<u8>> {
    let mut value = Vec::with_capacity(MAX_SECRET_BYTES + 64);
    file.take(MAX_SECRET_BYTES as u64 + 64).read_to_end(&mut value)?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn source_parses_and_prints_each_form() {
        for text in ["env:GITHUB_TOKEN", "env:_x1", "file:/run/token", "fd:7", "keyring:hotcell:tokens"] {
            assert_eq!(text.parse::<SecretSource>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn source_refuses_literals_without_repeating_them() {
        for text in [
            "ghp_0123456789abcdef",
            "env:1A",
            "env:A-B",
            "env:",
            "file:token",
            "fd:x",
            "fd:-1",
            "keyring:",
            "keyring:a b",
            "bearer:ghp_0123456789",
        ] {
            let error = text.parse::<SecretSource>().unwrap_err().to_string();
            assert!(!error.contains("0123456789"), "{error}");
        }
    }

    #[test]
    fn secret_is_trimmed_checked_and_not_printed() {
        let secret = Secret::new(b"abc def\r\n".to_vec()).unwrap();
        assert_eq!(secret.expose(), b"abc def");
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert!(matches!(Secret::new(b" \n".to_vec()), Err(SecretError::Empty)));
        assert!(matches!(Secret::new(b"a\nb".to_vec()), Err(SecretError::ControlCharacter)));
        assert!(matches!(Secret::new(vec![b'a'; MAX_SECRET_BYTES + 1]), Err(SecretError::TooLong)));
        assert!(Secret::new(vec![b'a'; MAX_SECRET_BYTES]).is_ok());
    }

    #[test]
    fn file_source_wants_a_private_regular_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "value\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let source = SecretSource::File(path.clone());
        assert_eq!(source.read().unwrap().expose(), b"value");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(source.read().unwrap_err().to_string().contains("chmod 600"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::write(&path, vec![b'x'; MAX_SECRET_BYTES + 100]).unwrap();
        assert!(matches!(source.read(), Err(SecretError::TooLong)));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(SecretSource::File(link).read(), Err(SecretError::File { .. })));
        assert!(matches!(SecretSource::File(folder.path().into()).read(), Err(SecretError::File { .. })));
    }

    #[test]
    fn fd_source_reads_a_pipe_to_its_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"value\n").unwrap();
        drop(writer);
        let number = u32::try_from(reader.as_raw_fd()).unwrap();
        assert_eq!(SecretSource::Fd(number).read().unwrap().expose(), b"value");
    }
}
