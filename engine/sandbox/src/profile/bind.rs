//! Host files and folders as a person names them.

use std::path::{Path, PathBuf};

use crate::policy::Bind;

/// Error for text that does not have the form `HOST[:INSIDE]`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no host path; write HOST or HOST:/INSIDE")]
pub struct BindError(PathBuf);

/// A mount as a person writes it, `HOST[:INSIDE]`: the host's path may be relative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindText {
    host: PathBuf,
    inside: Option<PathBuf>,
}

impl BindText {
    /// Parses `HOST[:INSIDE]`. INSIDE is absolute, so the last `:/` separates the two.
    ///
    /// # Errors
    /// [`BindError`] when HOST is missing.
    pub fn parse(text: &Path) -> Result<Self, BindError> {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        let bytes = text.as_os_str().as_bytes();
        let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()));
        let colon = bytes.windows(2).rposition(|two| two == b":/");
        let (host, inside) = match colon {
            Some(at) => (path(&bytes[..at]), Some(path(&bytes[at + 1..]))),
            None => (path(bytes), None),
        };
        if host.as_os_str().is_empty() {
            return Err(BindError(text.to_owned()));
        }
        Ok(Self { host, inside })
    }

    /// The mount, with a relative host path resolved against `base`. Without INSIDE the host's path is also used
    /// inside.
    #[must_use]
    pub fn at(&self, base: &Path, writable: bool) -> Bind {
        let host = base.join(&self.host);
        let inside = self.inside.clone().unwrap_or_else(|| without_dots(&host));
        Bind { host, inside, writable, copy_on_write: false, identity: None }
    }
}

/// Parses `HOST[:INSIDE]`, with a relative HOST resolved against `base`.
///
/// # Errors
/// [`BindError`] when HOST is missing.
pub fn parse_bind(text: &Path, base: &Path, writable: bool) -> Result<Bind, BindError> {
    Ok(BindText::parse(text)?.at(base, writable))
}

/// Makes an absolute path without `.` and `..`, without looking at the file system.
fn without_dots(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}
