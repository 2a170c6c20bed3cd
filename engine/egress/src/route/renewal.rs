//! Fetches a value anew before it expires: once at a time, and not again at once after a failure.

use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Mutex;

use super::github_app::Tokens;
use crate::program::{Fetched, ProgramError, ValueSource};
use crate::secret::{Secret, SecretSource};

/// Time before its end from which a value is fetched anew, so that it does not expire on the way.
const MARGIN: Duration = Duration::from_secs(30);
/// Time after an attempt in which there is no other: a program of the sandbox decides how often is asked.
const PAUSE: Duration = Duration::from_secs(5);

/// Who gives values that expire.
#[derive(Clone, Debug)]
pub enum Supply {
    /// A source, which answers with the value itself.
    Source(ValueSource),
    /// A GitHub App, whose key the source has.
    App(Tokens),
}

impl Supply {
    /// Whether a value is kept rather than asked for again: one of a program, an app or a descriptor. The others are read when they are needed.
    #[must_use]
    pub const fn is_asked_once(&self) -> bool {
        matches!(
            self,
            Self::App(_) | Self::Source(ValueSource::Program(_) | ValueSource::Read(SecretSource::Fd(_)))
        )
    }

    /// Whether a value is given once: by a descriptor, which is read to its end.
    pub(super) const fn gives_once(&self) -> bool {
        matches!(self, Self::Source(ValueSource::Read(SecretSource::Fd(_))))
    }

    /// Whether both ask for one value: the source, or the app and its key, of one is that of the other.
    pub(super) fn is_that_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Source(one), Self::Source(other)) => one == other,
            (Self::App(one), Self::App(other)) => one.is_that_of(other),
            _ => false,
        }
    }

    /// Reads or makes a value. Blocks for 20 s at most.
    ///
    /// # Errors
    /// [`ProgramError`] when the source or the app gives no value.
    pub fn fetch(&self) -> Result<Fetched, ProgramError> {
        match self {
            Self::Source(source) => source.fetch(),
            Self::App(tokens) => tokens.fetch(),
        }
    }
}

/// The supply of a value that expires.
#[derive(Debug)]
pub struct Renewal {
    source: Supply,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    expires_at: Option<SystemTime>,
    /// The last attempt, and why it failed.
    tried: Option<(Instant, Option<String>)>,
}

impl Renewal {
    /// A value of this source that expires then.
    pub const fn new(source: Supply, expires_at: SystemTime) -> Self {
        Self { source, state: Mutex::const_new(State { expires_at: Some(expires_at), tried: None }) }
    }

    /// Fetches the value of the secret `name` if it is about to expire, and hands it to `take`.
    ///
    /// # Errors
    /// A sentence, when the value has expired and no other can be had.
    pub async fn renew(
        &self,
        name: &str,
        take: impl Fn(&Secret) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut state = self.state.lock().await;
        let within = |time: Duration| {
            let valid = |at: SystemTime| at.duration_since(SystemTime::now()).is_ok_and(|left| left > time);
            state.expires_at.is_none_or(valid)
        };
        if within(MARGIN) {
            return Ok(());
        }
        let valid = within(Duration::ZERO);
        let paused = state.tried.as_ref().filter(|(at, _)| at.elapsed() < PAUSE).map(|(_, why)| why.clone());
        let failed = match paused {
            Some(why) => why,
            None => {
                let source = self.source.clone();
                let fetched = tokio::task::spawn_blocking(move || source.fetch()).await;
                let taken = match fetched {
                    Ok(Ok(fetched)) => take(&fetched.secret).map(|()| fetched.expires_at),
                    Ok(Err(why)) => Err(why.to_string()),
                    Err(why) => Err(why.to_string()),
                };
                let failed = taken.map(|expires_at| state.expires_at = expires_at).err();
                state.tried = Some((Instant::now(), failed.clone()));
                failed
            }
        };
        let ended = state.expires_at.is_some_and(|at| at <= SystemTime::now());
        match failed {
            Some(why) if !valid => {
                Err(format!("the secret {name} has expired, and there is no other: {why}"))
            }
            None if ended => Err(format!("the secret {name} has expired, and its source gives no later one")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn source(answer: &str) -> Supply {
        let folder = std::env::temp_dir();
        Supply::Source(ValueSource::Program(vec![
            "/bin/sh".into(),
            "-c".into(),
            format!("cd {}; {answer}", folder.display()),
        ]))
    }

    #[tokio::test]
    async fn value_is_fetched_shortly_before_its_end() {
        let now = SystemTime::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let past = now - Duration::from_secs(1);
        for (answer, expires_at, fetched, word) in [
            ("echo t0p-s3cret", after(3600), 0, None),
            ("echo t0p-s3cret", after(5), 1, None),
            ("echo t0p-s3cret", past, 1, None),
            ("exit 1", after(5), 0, None),
            ("exit 1", past, 0, Some("has expired, and there is no other: /bin/sh failed")),
            (r#"echo '{"value": "t0p-s3cret", "expires_at": 1}'"#, past, 1, Some("no later one")),
        ] {
            let renewal = Renewal::new(source(answer), expires_at);
            let taken = RefCell::new(0);
            // The second time, the source is not asked again.
            for _ in 0..2 {
                let got = renewal
                    .renew("gh", |_| {
                        *taken.borrow_mut() += 1;
                        Ok(())
                    })
                    .await;
                match word {
                    Some(word) => {
                        assert!(got.as_ref().is_err_and(|why| why.contains(word)), "{answer}: {got:?}");
                    }
                    None => assert_eq!(got, Ok(()), "{answer}"),
                }
            }
            assert_eq!(*taken.borrow(), fetched, "{answer}");
        }
    }
}
