//! Tokens that a page carries from one request to the next: bound to the session, to their purpose, and to exactly what
//! was shown. They are made with a key that only this process has.

use hotcell_review::approvals::key::{self, KEY_LEN};
use hotcell_state::report::{Code, ErrorReport};

/// Purpose of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The subject was shown in this state: needed for a no.
    Seen,
    /// The subject's text was given up to a place, where the next part begins.
    Part,
    /// The subject's text was given to the end: needed for a yes.
    Read,
    /// Any other change of this session.
    Change,
}

impl Purpose {
    const fn name(self) -> &'static str {
        match self {
            Self::Seen => "seen",
            Self::Part => "part",
            Self::Read => "read",
            Self::Change => "change",
        }
    }
}

/// The key of this process.
#[derive(Clone)]
pub struct Seal([u8; KEY_LEN]);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    /// A new key.
    ///
    /// # Errors
    /// A report when the kernel provides no random numbers.
    pub fn new() -> Result<Self, ErrorReport> {
        let mut key = [0; KEY_LEN];
        getrandom::fill(&mut key).map_err(|e| {
            ErrorReport::new(Code::Internal, format!("the kernel gives no random numbers: {e}"))
        })?;
        Ok(Self(key))
    }

    /// A token for this session and subject, with a text that can be read back.
    #[must_use]
    pub fn seal(&self, session: &str, purpose: Purpose, subject: &str, text: &str) -> String {
        key::seal(&self.0, text, &bound(session, purpose, subject), i64::MAX)
    }

    /// The text of a token; `None` when it was not made here for this session, purpose and subject.
    #[must_use]
    pub fn open(&self, session: &str, purpose: Purpose, subject: &str, token: &str) -> Option<String> {
        key::open(&self.0, token, &bound(session, purpose, subject), 0).ok()
    }
}

/// The parts with their lengths, so that none can be moved into another.
fn bound(session: &str, purpose: Purpose, subject: &str) -> Vec<u8> {
    [session, purpose.name(), subject]
        .iter()
        .map(|part| format!("{}:{part},", part.len()))
        .collect::<String>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_bound_to_session_purpose_and_subject() {
        let seal = Seal::new().unwrap();
        let token = seal.seal("me", Purpose::Part, "item 1", "0.7.2");
        let other = Seal::new().unwrap();
        for (with, session, purpose, subject, token, want) in [
            (&seal, "me", Purpose::Part, "item 1", token.as_str(), Some("0.7.2")),
            (&seal, "you", Purpose::Part, "item 1", &token, None),
            (&seal, "me", Purpose::Read, "item 1", &token, None),
            (&seal, "me", Purpose::Seen, "item 1", &token, None),
            (&seal, "me", Purpose::Change, "item 1", &token, None),
            (&seal, "me", Purpose::Part, "item 2", &token, None),
            (&seal, "me", Purpose::Part, "item 1", "", None),
            (&seal, "me", Purpose::Part, "item 1", &token[1..], None),
            (&other, "me", Purpose::Part, "item 1", &token, None),
        ] {
            assert_eq!(with.open(session, purpose, subject, token).as_deref(), want, "{session} {purpose:?}");
        }
        let moved = seal.seal("m", Purpose::Part, "e", "");
        assert_eq!(seal.open("m", Purpose::Part, "", &moved), None);
    }
}
