//! Keys of an installation, in the folder `receipts` of its state folder: `key.pk8` signs, `retired/ID.pem` signed before, `trusted/NAME.pem` are keys of
//! others that a person named.

use std::io::{self, Read, Write};

use cap_std::fs::{Dir, MetadataExt, OpenOptions, OpenOptionsExt};
use hotcell_state::StateFolder;
use hotcell_state::state::make_private;

use crate::keys::{KeyError, KeyRing, MAX_KEY_BYTES, PublicKey, SigningKey};
use crate::nofollow;

/// Folder below the state folder.
pub(crate) const FOLDER: &str = "receipts";
const OWN: &str = "key.pk8";
const RETIRED: &str = "retired";
const TRUSTED: &str = "trusted";
/// Maximum number of keys that are read from a folder.
const MAX_KEYS: usize = 1000;
/// Maximum length of a trusted key's name.
const MAX_NAME: usize = 64;

/// Why the keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file cannot be read or written.
    #[error("the receipts' key {path}: {source}")]
    Io {
        /// Path below the state folder.
        path: String,
        /// Reason.
        source: io::Error,
    },
    /// A file holds no key.
    #[error("{path}: {source}")]
    Key {
        /// Path below the state folder.
        path: String,
        /// Reason.
        source: KeyError,
    },
    /// The name is not usable.
    #[error("{0:?} is not a name for a key: use letters, digits, '-', '_' and '.', at most {MAX_NAME}")]
    Name(String),
    /// The name is taken.
    #[error("a trusted key has the name {0:?} already; remove it first, or choose another name")]
    Taken(String),
    /// No trusted key has the name.
    #[error("no trusted key has the name {0:?}")]
    Unknown(String),
}

/// Keys of a state folder.
#[derive(Debug)]
pub struct KeyStore {
    dir: Dir,
}

impl KeyStore {
    /// Opens the store, and makes its folders.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn open(state: &StateFolder) -> Result<Self, StoreError> {
        let made = make_private(state.dir(), FOLDER).and_then(|()| nofollow::folder(state.dir(), FOLDER));
        let dir = made.map_err(|source| io_at("", source))?;
        for name in [RETIRED, TRUSTED] {
            make_private(&dir, name).map_err(|source| io_at(name, source))?;
        }
        Ok(Self { dir })
    }

    /// Opens the store if it is there.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn open_existing(state: &StateFolder) -> Result<Option<Self>, StoreError> {
        match nofollow::folder(state.dir(), FOLDER) {
            Ok(dir) => Ok(Some(Self { dir })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(io_at("", source)),
        }
    }

    /// The key that signs; it is made at the first use.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read or made.
    pub fn own(&self) -> Result<SigningKey, StoreError> {
        if let Some(key) = self.existing()? {
            return Ok(key);
        }
        let (_, pkcs8) =
            SigningKey::generate().map_err(|source| StoreError::Key { path: OWN.to_owned(), source })?;
        // Of two processes that make a key at once, one wins, and both read that one.
        write_new(&self.dir, OWN, &pkcs8, true).map_err(|source| io_at(OWN, source))?;
        self.existing()?.ok_or_else(|| io_at(OWN, io::ErrorKind::NotFound.into()))
    }

    /// The key that signs, if it was made.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read, or others could read it.
    pub fn existing(&self) -> Result<Option<SigningKey>, StoreError> {
        let bytes = match read(&self.dir, OWN, true) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(io_at(OWN, source)),
        };
        let key =
            SigningKey::parse(&bytes).map_err(|source| StoreError::Key { path: OWN.to_owned(), source })?;
        Ok(Some(key))
    }

    /// Replaces the signing key by a new one. The former one's public half stays, so that older receipts still verify.
    ///
    /// # Errors
    /// [`StoreError`] when a file cannot be read or written.
    pub fn rotate(&self) -> Result<(PublicKey, SigningKey), StoreError> {
        let former = self.own()?.public();
        let retired = nofollow::folder(&self.dir, RETIRED).map_err(|source| io_at(RETIRED, source))?;
        let name = format!("{}.pem", former.id());
        write_new(&retired, &name, former.to_pem().as_bytes(), true)
            .map_err(|source| io_at(&name, source))?;
        let (key, pkcs8) =
            SigningKey::generate().map_err(|source| StoreError::Key { path: OWN.to_owned(), source })?;
        let new = format!("{OWN}.new");
        let _ = self.dir.remove_file(&new);
        write_new(&self.dir, &new, &pkcs8, false)
            .and_then(|()| self.dir.rename(&new, &self.dir, OWN))
            .map_err(|source| io_at(OWN, source))?;
        Ok((former, key))
    }

    /// Trusts a key of another installation under a name.
    ///
    /// # Errors
    /// [`StoreError::Name`], [`StoreError::Taken`], or [`StoreError::Io`].
    pub fn trust(&self, name: &str, key: &PublicKey) -> Result<(), StoreError> {
        let file = file_name(name)?;
        let trusted = nofollow::folder(&self.dir, TRUSTED).map_err(|source| io_at(TRUSTED, source))?;
        match write_new(&trusted, &file, key.to_pem().as_bytes(), false) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(StoreError::Taken(name.to_owned())),
            other => other.map_err(|source| io_at(&file, source)),
        }
    }

    /// Trusts a key no longer.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] or [`StoreError::Io`].
    pub fn distrust(&self, name: &str) -> Result<(), StoreError> {
        let file = file_name(name)?;
        let trusted = nofollow::folder(&self.dir, TRUSTED).map_err(|source| io_at(TRUSTED, source))?;
        match trusted.remove_file(&file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(StoreError::Unknown(name.to_owned())),
            other => other.map_err(|source| io_at(&file, source)),
        }
    }

    /// All keys whose receipts are accepted: `this installation`, its retired ones, and the trusted ones by their names.
    ///
    /// # Errors
    /// [`StoreError`] when a key cannot be read.
    pub fn ring(&self) -> Result<KeyRing, StoreError> {
        let mut ring = KeyRing::default();
        if let Some(own) = self.existing()? {
            ring.add(own.public(), "this installation");
        }
        for (folder, retired) in [(RETIRED, true), (TRUSTED, false)] {
            let dir = match nofollow::folder(&self.dir, folder) {
                Ok(dir) => dir,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(io_at(folder, source)),
            };
            for entry in dir.entries().map_err(|source| io_at(folder, source))?.take(MAX_KEYS) {
                let name = entry.map_err(|source| io_at(folder, source))?.file_name();
                let Some(stem) = name.to_str().and_then(|name| name.strip_suffix(".pem")) else { continue };
                let path = format!("{folder}/{stem}.pem");
                let bytes =
                    read(&dir, &format!("{stem}.pem"), false).map_err(|source| io_at(&path, source))?;
                let key = PublicKey::from_pem(&String::from_utf8_lossy(&bytes))
                    .map_err(|source| StoreError::Key { path, source })?;
                ring.add(key, if retired { "a retired key of this installation" } else { stem });
            }
        }
        Ok(ring)
    }
}

fn io_at(path: &str, source: io::Error) -> StoreError {
    StoreError::Io { path: format!("{FOLDER}/{path}"), source }
}

fn file_name(name: &str) -> Result<String, StoreError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.starts_with('.') || name.len() > MAX_NAME || !name.chars().all(fits) {
        return Err(StoreError::Name(name.chars().take(MAX_NAME).collect()));
    }
    Ok(format!("{name}.pem"))
}

/// A small regular file; with `private`, one that only its owner can read.
fn read(dir: &Dir, name: &str, private: bool) -> io::Result<Vec<u8>> {
    let file = nofollow::file(dir, name)?;
    let metadata = file.metadata()?;
    if private && metadata.mode() & 0o077 != 0 {
        return Err(io::Error::other("others can read it; chmod 600 it, or rotate the key"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_KEY_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_KEY_BYTES {
        return Err(io::Error::other(format!("longer than {MAX_KEY_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Writes a file whole under its name, which appears with all bytes or not at all; an existing one is left as it is, and with `keep` that is not an error.
pub(crate) fn write_new(dir: &Dir, name: &str, bytes: &[u8], keep: bool) -> io::Result<()> {
    let unique = hotcell_state::ids::random_hex(8).map_err(io::Error::other)?;
    let temporary = format!(".{unique}.new");
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = dir.open_with(&temporary, &options)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    // A hard link, unlike a rename, never replaces.
    let linked = written.and_then(|()| dir.hard_link(&temporary, dir, name));
    dir.remove_file(&temporary)?;
    match linked {
        Err(e) if keep && e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn store() -> (tempfile::TempDir, KeyStore) {
        let dir = tempfile::tempdir().unwrap();
        let state = StateFolder::open(&dir.path().join("state")).unwrap();
        let store = KeyStore::open(&state).unwrap();
        (dir, store)
    }

    #[test]
    fn own_key_is_made_once_and_private() {
        let (dir, store) = store();
        assert!(store.existing().unwrap().is_none());
        let first = store.own().unwrap().public();
        assert_eq!(store.own().unwrap().public(), first);
        let path = dir.path().join("state/receipts/key.pk8");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(store.own().unwrap_err().to_string().contains("others can read it"));
    }

    #[test]
    fn rotated_key_still_verifies() {
        let (_dir, store) = store();
        let (former, now) = store.rotate().unwrap();
        assert_ne!(former, now.public());
        assert_eq!(store.own().unwrap().public(), now.public());
        let ring = store.ring().unwrap();
        let names: Vec<_> = ring.iter().map(|(key, name)| (*key, name.to_owned())).collect();
        assert!(names.contains(&(former, "a retired key of this installation".to_owned())));
        assert!(names.contains(&(now.public(), "this installation".to_owned())));
    }

    #[test]
    fn trusted_keys_have_checked_names() {
        let (_dir, store) = store();
        let (key, _) = SigningKey::generate().unwrap();
        store.trust("ci-1", &key.public()).unwrap();
        assert!(matches!(store.trust("ci-1", &key.public()), Err(StoreError::Taken(_))));
        for name in ["", ".", "..", "a/b", "../x", "a b", "\u{202e}x", &"a".repeat(65)] {
            assert!(matches!(store.trust(name, &key.public()), Err(StoreError::Name(_))), "{name:?}");
        }
        assert!(store.ring().unwrap().iter().any(|(k, name)| *k == key.public() && name == "ci-1"));
        store.distrust("ci-1").unwrap();
        assert!(matches!(store.distrust("ci-1"), Err(StoreError::Unknown(_))));
        assert!(store.ring().unwrap().is_empty());
    }

    #[test]
    fn links_in_place_of_keys_are_not_followed() {
        let (dir, store) = store();
        let victim = dir.path().join("victim");
        let (_, pkcs8) = SigningKey::generate().unwrap();
        std::fs::write(&victim, pkcs8).unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join("state/receipts/key.pk8")).unwrap();
        assert!(store.own().is_err());
    }
}
