//! The key of this installation: it signs data that a client carries for us between two requests.

use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cap_std::fs::{OpenOptions, OpenOptionsExt};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use nix::fcntl::{Flock, FlockArg};

/// File name in the state folder.
const FILE: &str = "approvals.key";
/// Length of the key, in bytes.
pub const KEY_LEN: usize = 32;

/// Reads the key, and creates it when it is missing.
///
/// # Errors
/// A report when others can read the file, the key is damaged, or a system call fails.
pub fn of(state: &StateFolder) -> Result<[u8; KEY_LEN], ErrorReport> {
    read(state).map_err(|e| {
        let path = state.path().join(FILE);
        ErrorReport::new(Code::State, format!("{}: {e}", path.display()))
            .parameter("state")
            .hint("remove it: a new one is made, and questions that are open are asked anew")
    })
}

fn read(state: &StateFolder) -> io::Result<[u8; KEY_LEN]> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options.custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOFOLLOW);
    let file = state.dir().open_with(FILE, &options)?.into_std();
    // Another service may start at the same time, or may have died halfway.
    let mut file = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, e)| io::Error::from(e))?;
    let about = file.metadata()?;
    if !about.is_file() || about.mode() & 0o077 != 0 {
        return Err(io::Error::other(format!("others can read it (mode {:04o})", about.mode() & 0o7777)));
    }
    let mut key = [0; KEY_LEN];
    if about.len() == 0 {
        getrandom::fill(&mut key).map_err(|e| io::Error::other(e.to_string()))?;
        file.write_all(&key)?;
        file.sync_all()?;
        return Ok(key);
    }
    if about.len() != KEY_LEN as u64 {
        return Err(io::Error::other(format!("it has {} bytes and not {KEY_LEN}", about.len())));
    }
    file.read_exact(&mut key)?;
    Ok(key)
}

/// Why a sealed text is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unopened {
    /// Not sealed here, changed, or bound to other data.
    NotOurs,
    /// Expired.
    Expired,
}

const DOMAIN: &[u8] = b"hotcell.sealed/1";

fn mac(key: &[u8; KEY_LEN], bound: &[u8], expires: &str, payload: &str) -> blake3::Hash {
    let mut mac = blake3::Hasher::new_keyed(key);
    for part in [DOMAIN, bound, expires.as_bytes(), payload.as_bytes()] {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    mac.finalize()
}

/// Seals a text: the client that carries it can read but not change it, and it opens only with the same
/// `bound`, until it expires.
#[must_use]
pub fn seal(key: &[u8; KEY_LEN], text: &str, bound: &[u8], expires_us: i64) -> String {
    let payload = URL_SAFE_NO_PAD.encode(text);
    let expires = expires_us.to_string();
    let mac = mac(key, bound, &expires, &payload);
    format!("{payload}.{expires}.{}", mac.to_hex())
}

/// Opens a sealed text.
///
/// # Errors
/// [`Unopened::NotOurs`] when it was not sealed here for `bound`, [`Unopened::Expired`] when its time is
/// over.
pub fn open(key: &[u8; KEY_LEN], sealed: &str, bound: &[u8], now_us: i64) -> Result<String, Unopened> {
    let mut parts = sealed.splitn(3, '.');
    let (Some(payload), Some(expires), Some(given)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Unopened::NotOurs);
    };
    let given = blake3::Hash::from_hex(given).map_err(|_| Unopened::NotOurs)?;
    // Hashes are compared in constant time.
    if mac(key, bound, expires, payload) != given {
        return Err(Unopened::NotOurs);
    }
    if expires.parse::<i64>().is_ok_and(|expires| now_us < expires) {
        let text = URL_SAFE_NO_PAD.decode(payload).map_err(|_| Unopened::NotOurs)?;
        return String::from_utf8(text).map_err(|_| Unopened::NotOurs);
    }
    Err(Unopened::Expired)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn sealed_token_opens_only_bound_and_unexpired() {
        let (key, other) = ([7; KEY_LEN], [8; KEY_LEN]);
        let sealed = seal(&key, "text", b"me", 100);
        assert_eq!(open(&key, &sealed, b"me", 99).as_deref(), Ok("text"));
        let later = sealed.replace(".100.", ".200.");
        let text = sealed.replacen(&URL_SAFE_NO_PAD.encode("text"), &URL_SAFE_NO_PAD.encode("tex2"), 1);
        for (key, sealed, bound, now, want) in [
            (&key, sealed.as_str(), "me", 100, Unopened::Expired),
            (&other, &sealed, "me", 99, Unopened::NotOurs),
            (&key, &sealed, "you", 99, Unopened::NotOurs),
            (&key, &later, "me", 150, Unopened::NotOurs),
            (&key, &text, "me", 99, Unopened::NotOurs),
            (&key, "", "me", 99, Unopened::NotOurs),
            (&key, "..", "me", 99, Unopened::NotOurs),
            (&key, &sealed[..sealed.len() - 1], "me", 99, Unopened::NotOurs),
            (&key, "a.b.c.d", "me", 99, Unopened::NotOurs),
        ] {
            assert_eq!(open(key, sealed, bound.as_bytes(), now), Err(want), "{sealed}");
        }
    }

    #[test]
    fn approval_key_is_created_once_with_private_mode() {
        let dir = tempfile::tempdir().unwrap();
        let open = || StateFolder::open(&dir.path().join("s")).unwrap();
        let keys: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| of(&open()).unwrap())).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0] && *key != [0; KEY_LEN]));
        let path = open().path().join(FILE);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(of(&open()).unwrap_err().message.contains("0640"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "short").unwrap();
        assert!(of(&open()).unwrap_err().message.contains("5 bytes"));
    }
}
