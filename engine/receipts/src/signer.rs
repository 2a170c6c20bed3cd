//! The signer that the configuration names: a key that is read once, or a program of the host.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hotcell_config::{KeySource, ReceiptSettings};
use hotcell_state::StateFolder;
use rustix::fs::OFlags;

use crate::envelope::{Envelope, PAYLOAD_TYPE, Signature, pre_authentication};
use crate::keys::{KeyError, MAX_KEY_BYTES, PublicKey, SigningKey};
use crate::program;
use crate::statement::Statement;
use crate::store::{KeyStore, StoreError};

/// Variable with the folder of a unit's credentials (systemd.exec(5)).
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// Why nothing can be signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// The keys of the state folder cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file or descriptor cannot be read.
    #[error("{from}: {source}")]
    Io {
        /// The source as it is configured, or the file of the public key.
        from: String,
        /// Reason.
        source: io::Error,
    },
    /// No key was found there.
    #[error("{from}: {source}")]
    Key {
        /// The source as it is configured, or the file of the public key.
        from: String,
        /// Reason.
        source: KeyError,
    },
    /// The unit has no credentials.
    #[error("credential:{0}: {CREDENTIALS} is not set; give it with LoadCredential= in the unit of systemd")]
    NoCredentials(String),
    /// A program signs, and no public key is named.
    #[error("a program that signs needs receipts.public_key, with which its signatures are checked")]
    NoPublicKey,
    /// The key is not the one that has to sign.
    #[error("the key of {from} has the identifier {is}, and receipts.public_key has {wanted}")]
    AnotherKey {
        /// The source as it is configured.
        from: String,
        /// Identifier of the key.
        is: String,
        /// Identifier of the wanted one.
        wanted: String,
    },
    /// A program did not sign.
    #[error(transparent)]
    Program(#[from] program::ProgramError),
    /// A program's signature is not by the key.
    #[error("{0} gave a signature that receipts.public_key does not verify, which is not used")]
    WrongSignature(String),
    /// The statement is not representable in JSON.
    #[error("the statement: {0}")]
    Json(#[from] serde_json::Error),
}

/// A signer of statements.
#[derive(Debug)]
pub enum Signer {
    /// A key in memory.
    Key(SigningKey),
    /// A program of the host, with the key that its signatures are checked with.
    Program {
        /// Program and arguments.
        words: Vec<String>,
        /// The key.
        public: PublicKey,
    },
}

impl Signer {
    /// The signer of a configuration. A key is read here and stays in memory; a descriptor is read to its end. Blocks.
    ///
    /// # Errors
    /// [`SignerError`] when the key cannot be read, others could read it, or it is not the one that is wanted.
    pub fn open(settings: &ReceiptSettings, state: &StateFolder) -> Result<Self, SignerError> {
        let wanted = settings.public_key.as_deref().map(public_key).transpose()?;
        let key = match &settings.key {
            KeySource::Program(words) => {
                let public = wanted.ok_or(SignerError::NoPublicKey)?;
                return Ok(Self::Program { words: words.clone(), public });
            }
            KeySource::State => KeyStore::open(state)?.own()?,
            KeySource::Descriptor(number) => {
                key_in(settings, File::open(format!("/proc/self/fd/{number}")).and_then(bounded))?
            }
            KeySource::Credential(name) => {
                let folder = std::env::var_os(CREDENTIALS).filter(|folder| !folder.is_empty());
                let folder = folder.ok_or_else(|| SignerError::NoCredentials(name.clone()))?;
                key_in(settings, private(&PathBuf::from(folder).join(name)))?
            }
            KeySource::File(path) => key_in(settings, private(path))?,
        };
        match wanted {
            Some(wanted) if wanted != key.public() => Err(SignerError::AnotherKey {
                from: settings.key.to_string(),
                is: key.public().id(),
                wanted: wanted.id(),
            }),
            _ => Ok(Self::Key(key)),
        }
    }

    /// The public key by which receipts of these settings are signed, where that is not the key of the state folder; `None` for that one, and for a
    /// descriptor, which is read once. Blocks.
    ///
    /// # Errors
    /// As [`Signer::open`].
    pub fn configured(
        settings: &ReceiptSettings,
        state: &StateFolder,
    ) -> Result<Option<PublicKey>, SignerError> {
        match (&settings.public_key, &settings.key) {
            (Some(file), _) => public_key(file).map(Some),
            (None, KeySource::State | KeySource::Descriptor(_)) => Ok(None),
            (None, _) => Ok(Some(Self::open(settings, state)?.public())),
        }
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        match self {
            Self::Key(key) => key.public(),
            Self::Program { public, .. } => *public,
        }
    }

    /// Signs a statement. Blocks until a program has answered.
    ///
    /// # Errors
    /// [`SignerError`] when a program fails, or its signature is not by the key.
    pub fn sign(&self, statement: &Statement) -> Result<Envelope, SignerError> {
        let (words, public) = match self {
            Self::Key(key) => return Ok(key.sign(statement)?),
            Self::Program { words, public } => (words, public),
        };
        let payload = serde_json::to_vec(statement)?;
        let signed = pre_authentication(PAYLOAD_TYPE, &payload);
        let signature = program::signature(words, &signed, program::DEADLINE)?;
        if !public.verifies(&signed, &signature) {
            return Err(SignerError::WrongSignature(words.first().cloned().unwrap_or_default()));
        }
        Ok(Envelope {
            payload_type: PAYLOAD_TYPE.to_owned(),
            payload: STANDARD.encode(&payload),
            signatures: vec![Signature { keyid: public.id(), sig: STANDARD.encode(&signature) }],
        })
    }
}

/// The private key in what was read from its source.
fn key_in(settings: &ReceiptSettings, read: io::Result<Vec<u8>>) -> Result<SigningKey, SignerError> {
    let from = || settings.key.to_string();
    let bytes = read.map_err(|source| SignerError::Io { from: from(), source })?;
    SigningKey::parse(&bytes).map_err(|source| SignerError::Key { from: from(), source })
}

/// The public key in a file of the operator's.
fn public_key(path: &Path) -> Result<PublicKey, SignerError> {
    let from = || path.display().to_string();
    let bytes =
        File::open(path).and_then(bounded).map_err(|source| SignerError::Io { from: from(), source })?;
    PublicKey::from_pem(&String::from_utf8_lossy(&bytes))
        .map_err(|source| SignerError::Key { from: from(), source })
}

/// A private regular file of this user's, or of root's; no link is followed at its last part.
fn private(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() && metadata.uid() != 0 {
        return Err(io::Error::other(format!("belongs to user {}", metadata.uid())));
    }
    // With an access list (systemd's credentials of an unprivileged unit), the group's bits are its mask; the file is root's then.
    let others = if metadata.uid() == 0 && !rustix::process::geteuid().is_root() { 0o027 } else { 0o077 };
    if metadata.mode() & others != 0 {
        return Err(io::Error::other("others can read it; chmod 600 it"));
    }
    bounded(file)
}

fn bounded(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_KEY_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_KEY_BYTES {
        return Err(io::Error::other(format!("longer than {MAX_KEY_BYTES} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::statement::Subject;
    use crate::{KeyRing, verify};

    struct Place {
        dir: tempfile::TempDir,
        state: StateFolder,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let state = StateFolder::open(&dir.path().join("state")).unwrap();
            Self { dir, state }
        }

        fn write(&self, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
            let path = self.dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        }

        fn open(&self, key: KeySource, public_key: Option<PathBuf>) -> Result<Signer, SignerError> {
            let settings = ReceiptSettings { key, public_key, ..ReceiptSettings::default() };
            Signer::open(&settings, &self.state)
        }
    }

    fn statement() -> Statement {
        Statement::new(vec![Subject::sha256("a", b"a")], "urn:x", serde_json::json!({"result": "PASSED"}))
    }

    #[test]
    fn keys_of_files_and_descriptors_sign() {
        let place = Place::new();
        let (key, pkcs8) = SigningKey::generate().unwrap();
        let file = place.write("key", &pkcs8, 0o600);
        let open = File::open(&file).unwrap();
        let number = u32::try_from(open.as_raw_fd()).unwrap();
        let public = place.write("pub.pem", key.public().to_pem().as_bytes(), 0o644);
        for source in [KeySource::File(file.clone()), KeySource::Descriptor(number)] {
            let signer = place.open(source, Some(public.clone())).unwrap();
            let json = signer.sign(&statement()).unwrap().to_json();
            assert!(verify(json.as_bytes(), &KeyRing::of([key.public()])).is_ok());
        }
        let own = place.open(KeySource::State, None).unwrap();
        let other = place.open(KeySource::File(file.clone()), None).unwrap();
        assert_ne!(own.public(), other.public());
        let error = place.open(KeySource::State, Some(public)).unwrap_err();
        assert!(matches!(error, SignerError::AnotherKey { .. }), "{error}");
        place.write("key", &pkcs8, 0o640);
        let error = place.open(KeySource::File(file.clone()), None).unwrap_err().to_string();
        assert!(error.contains("others can read it"), "{error}");
        let link = place.dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [link, place.dir.path().to_owned(), place.dir.path().join("gone")] {
            assert!(place.open(KeySource::File(path), None).is_err());
        }
        let error = place.open(KeySource::Credential("none".to_owned()), None).unwrap_err();
        assert!(matches!(error, SignerError::NoCredentials(_) | SignerError::Io { .. }), "{error}");
    }

    /// A program's answer is only used where the public key verifies it.
    #[test]
    fn program_signs_and_its_signature_is_checked() {
        let place = Place::new();
        let (key, _) = SigningKey::generate().unwrap();
        let public = place.write("pub.pem", key.public().to_pem().as_bytes(), 0o644);
        let signed = pre_authentication(PAYLOAD_TYPE, &serde_json::to_vec(&statement()).unwrap());
        let right = place.write("right", &key.sign_bytes(&signed), 0o600);
        let wrong = place.write("wrong", &key.sign_bytes(b"other"), 0o600);
        let shell = |script: String| KeySource::Program(vec!["/bin/sh".to_owned(), "-c".to_owned(), script]);
        let of = |script: String| place.open(shell(script), Some(public.clone())).unwrap().sign(&statement());
        let json = of(format!("cat >/dev/null; cat {}", right.display())).unwrap().to_json();
        assert!(verify(json.as_bytes(), &KeyRing::of([key.public()])).is_ok());
        // A program that does not read what it signs is not waited for.
        assert!(of(format!("cat {}", right.display())).is_ok());
        let error = of(format!("cat >/dev/null; cat {}", wrong.display())).unwrap_err();
        assert!(matches!(error, SignerError::WrongSignature(_)), "{error}");
        assert!(matches!(of("exit 1".to_owned()), Err(SignerError::Program(_))));
        assert!(matches!(place.open(shell("true".to_owned()), None), Err(SignerError::NoPublicKey)));
    }
}
