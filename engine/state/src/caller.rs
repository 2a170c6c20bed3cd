//! Callers of a service, as front ends tell them apart.

use std::fmt;
use std::sync::Arc;

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
