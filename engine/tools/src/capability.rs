//! What a plugin may be allowed to do, in the words of `hotcell tool grant`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where a plugin may connect to: scheme, host and port, all three exact. A host is a name or an address, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// `http` or `https`.
    pub scheme: String,
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = self.host.contains(':');
        let (open, close) = if brackets { ("[", "]") } else { ("", "") };
        write!(f, "{}://{open}{}{close}:{}", self.scheme, self.host, self.port)
    }
}

/// What is in force for one component: the request, the operator's policy and the grant all allow it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Held {
    /// Folders that it may read; canonical paths of the host, which are its own names for them too.
    pub read: BTreeSet<PathBuf>,
    /// Folders that it may read and write.
    pub write: BTreeSet<PathBuf>,
    /// Where it may send HTTP requests to.
    pub net: BTreeSet<Origin>,
    /// Variables of the operator's environment that it sees.
    pub env: BTreeSet<String>,
    /// Keys of its settings that it sees.
    pub config: BTreeSet<String>,
    /// Secrets that it may use, each with the places that it may be sent to.
    pub secrets: BTreeMap<String, BTreeSet<Origin>>,
    /// Whether it may ask for sandboxed runs.
    pub sandbox: bool,
    /// Whether it may ask for scans.
    pub guard: bool,
}

impl Held {
    /// Whether it holds nothing at all.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
