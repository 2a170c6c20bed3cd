//! Keys of the kernel's keyrings (keyrings(7)), of the type `user`: of this session, of its user's session, and of the user.

use linux_keyutils::{KeyError, KeyRing, KeyRingIdentifier};
use zeroize::Zeroizing;

/// Reads a key by its description. The error is a sentence without the key.
pub fn read(name: &str, max_bytes: usize) -> Result<Vec<u8>, String> {
    let mut last = KeyError::KeyDoesNotExist;
    for ring in [KeyRingIdentifier::Session, KeyRingIdentifier::UserSession, KeyRingIdentifier::User] {
        let found = KeyRing::from_special_id(ring, false).and_then(|ring| ring.search(name));
        let mut value = Zeroizing::new(vec![0; max_bytes]);
        let size = match found.and_then(|key| key.read(&mut *value)) {
            Ok(size) => size,
            Err(error) => {
                last = error;
                continue;
            }
        };
        // The kernel says the key's size, of which it copies no more than fits (keyctl_read(3)).
        let value = value.get(..size).ok_or_else(|| format!("it is longer than {max_bytes} bytes"))?;
        return Ok(value.to_vec());
    }
    Err(match last {
        KeyError::KeyDoesNotExist | KeyError::KeyringDoesNotExist => {
            format!("no key has this name; keyctl padd user {name} @u <FILE makes one")
        }
        KeyError::OperationNotSupported => "this kernel has no keyrings".to_owned(),
        other => format!("{other:?}"),
    })
}
