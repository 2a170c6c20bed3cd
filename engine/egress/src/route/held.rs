//! A secret's value as it is sent, and what is masked of it in answers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::aws::{Keys, Scope};
use super::{RouteError, Scheme};
use crate::redact::{MIN_REDACTED_BYTES, Spellings};
use crate::secret::Secret;

/// Number of values that are masked: the one that is sent, and those before it, which a host may still repeat.
const MASKED: usize = 3;

/// Value of a header, or keys for a signature.
pub enum Credential {
    /// The value of a header.
    Header(Zeroizing<Vec<u8>>),
    /// A signature with these keys.
    Keys(Keys, Scope),
}

/// A value. It has no `Debug`; its memory is overwritten when it is dropped.
pub struct Held {
    credential: Credential,
    spellings: Spellings,
    /// Texts that are masked, by value, the newest first.
    texts: Vec<Vec<Zeroizing<Vec<u8>>>>,
}

impl Held {
    /// Takes the value of the secret `name`, in place of `before`.
    ///
    /// # Errors
    /// [`RouteError`] when it is too short to be masked, or has no user where one is needed.
    pub fn new(
        name: &str,
        scheme: &Scheme,
        secret: &Secret,
        before: Option<&Self>,
    ) -> Result<Self, RouteError> {
        let value = secret.expose();
        let short = || RouteError::Short(name.to_owned());
        if value.len() < MIN_REDACTED_BYTES {
            return Err(short());
        }
        let mut own = vec![Zeroizing::new(value.to_vec())];
        let header = |value: Vec<u8>| Credential::Header(Zeroizing::new(value));
        let credential = match scheme {
            Scheme::Bearer => header([b"Bearer ", value].concat()),
            Scheme::Header(_) => header(value.to_vec()),
            Scheme::AwsSigV4(scope) => {
                let keys = Keys::of(name, secret)?;
                own.extend(keys.masked().cloned());
                Credential::Keys(keys, scope.clone())
            }
            Scheme::Basic(user) => {
                let whole = match user {
                    Some(user) => Zeroizing::new([user.as_bytes(), b":", value].concat()),
                    None => Zeroizing::new(value.to_vec()),
                };
                let colon = whole.iter().position(|b| *b == b':');
                let colon = colon.ok_or_else(|| RouteError::NoUser(name.to_owned()))?;
                if whole.len() - colon - 1 < MIN_REDACTED_BYTES {
                    return Err(short());
                }
                let encoded = Zeroizing::new(STANDARD.encode(&*whole));
                own.extend([Zeroizing::new(whole[colon + 1..].to_vec()), whole]);
                header([b"Basic ", encoded.as_bytes()].concat())
            }
        };
        let mut texts = vec![own];
        texts.extend(before.into_iter().flat_map(|before| before.texts.iter().take(MASKED - 1).cloned()));
        let mut spellings = Spellings::default();
        texts.iter().flatten().for_each(|text| spellings.add(text));
        Ok(Self { credential, spellings, texts })
    }

    /// The credential, for the one place that sends it, or signs with it.
    pub const fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Region and service of signatures; `None` for a value that is sent itself.
    pub const fn signs(&self) -> Option<&Scope> {
        match &self.credential {
            Credential::Header(_) => None,
            Credential::Keys(_, scope) => Some(scope),
        }
    }

    /// Value of the header, for tests.
    #[cfg(test)]
    pub fn expose(&self) -> &[u8] {
        match &self.credential {
            Credential::Header(value) => value,
            Credential::Keys(..) => b"",
        }
    }

    /// Spellings of the value and of those before it, which are masked in what comes back.
    pub const fn spellings(&self) -> &Spellings {
        &self.spellings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_values_stay_masked_for_a_while() {
        let of = |n: usize, before: Option<&Held>| {
            let secret = Secret::new(format!("t0p-s3cret-{n}").into_bytes()).unwrap();
            Held::new("gh", &Scheme::Bearer, &secret, before).unwrap()
        };
        let mut held = of(0, None);
        for n in 1..4 {
            held = of(n, Some(&held));
        }
        assert_eq!(held.expose(), b"Bearer t0p-s3cret-3");
        let masks = |n: usize| held.spellings().mask(&mut format!("t0p-s3cret-{n}").into_bytes());
        assert_eq!([0, 1, 2, 3].map(masks), [false, true, true, true]);
    }
}
