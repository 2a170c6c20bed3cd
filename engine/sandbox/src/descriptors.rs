//! The limit of open descriptors of this process (`RLIMIT_NOFILE`).

use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The soft limit of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// The soft limit that this process inherited.
    pub before: u64,
    /// The soft limit now: the hard limit, if raising it succeeded.
    pub now: u64,
}

/// Linux's default soft limit, used where the limit cannot be read.
const UNKNOWN: Raised = Raised { before: 1024, now: 1024 };

/// Raises the soft limit of descriptors to the hard one, once in the lifetime of this process.
///
/// Launchers inherit the limit, and so does process 1 of each sandbox. Programs get a limit of their own,
/// below it.
pub fn raised() -> Raised {
    static RAISED: OnceLock<Raised> = OnceLock::new();
    *RAISED.get_or_init(|| {
        let Ok((before, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return UNKNOWN };
        if before < hard
            && let Err(e) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
        {
            tracing::warn!("the limit of {before} descriptors cannot be raised to {hard}: {e}");
            return Raised { before, now: before };
        }
        Raised { before, now: hard }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_descriptor_limit_is_raised_and_remembered() {
        let first = raised();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap().0, first.now);
        assert!(first.before <= first.now);
        assert_eq!(raised(), first);
    }
}
