//! Who asks, and names that nobody can guess.

use std::fmt;
use std::sync::Arc;

use crate::report::{Code, ErrorReport};

/// Whoever asks, as a front end tells callers apart: by a token, by a process. Says nothing else about them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Caller(Arc<str>, bool);

impl Caller {
    /// A caller by the front end's own name for it. It is not a secret and never shown to another caller.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into(), false)
    }

    /// A caller that is one process. Others may have the same name, one after the other or at once: of what they have made it is
    /// told nothing that it does not name.
    pub fn of_process(name: impl Into<Arc<str>>) -> Self {
        Self(name.into(), true)
    }

    /// Whether it is one process.
    #[must_use]
    pub fn is_process(&self) -> bool {
        self.1
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `bytes` random bytes of the kernel's, in hexadecimal.
///
/// # Errors
/// When the kernel gives none.
pub fn random_hex(bytes: usize) -> Result<String, ErrorReport> {
    use std::fmt::Write;
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random)
        .map_err(|e| ErrorReport::new(Code::Internal, format!("the kernel gives no random numbers: {e}")))?;
    Ok(random.iter().fold(String::with_capacity(bytes * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// An unguessable name of 128 bits.
pub(super) fn handle(prefix: &str) -> Result<String, ErrorReport> {
    Ok(format!("{prefix}{}", random_hex(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_long_and_never_the_same() {
        let all: std::collections::HashSet<_> = (0..1000).map(|_| handle("run_").unwrap()).collect();
        assert_eq!(all.len(), 1000);
        assert!(all.iter().all(|h| h.len() == 4 + 32));
    }
}
