//! Callers, and unguessable names.

use std::fmt;
use std::sync::Arc;

use crate::report::{Code, ErrorReport};

/// A caller, as distinguished by a front end: by a token, by a process. It carries no other information.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Caller(Arc<str>, bool);

impl Caller {
    /// A caller by the front end's own name for it. The name is not a secret, but is never shown to another
    /// caller.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into(), false)
    }

    /// A caller that is a single process. Other processes may have the same name, one after the other or at
    /// once: this one learns of their workspaces only if it names them.
    pub fn of_process(name: impl Into<Arc<str>>) -> Self {
        Self(name.into(), true)
    }

    /// True for a single process.
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

/// `bytes` random bytes from the kernel, in hexadecimal.
///
/// # Errors
/// A report when the kernel provides none.
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
