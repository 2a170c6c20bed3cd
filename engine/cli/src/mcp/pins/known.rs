//! Entries and words of a server that are accepted, in its folder.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use hotcell_mcp::pin::{Accepted, Kind};

use crate::mcp::servers::{ACCEPTED, read, write};

/// Accepted words of a server about itself. A file of their own: they come before the first list of tools, and a server may have no tools.
const WORDS: &str = "words.json";
/// Accepted prompts, resources and templates: a list of a kind that is not in it was not accepted yet, as with pins of versions that had no such file.
const SERVED: &str = "served.json";

/// Digests that are accepted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Entries and words by key.
    pub all: Accepted,
    /// Kinds of which a list was accepted, if only an empty one.
    pub lists: BTreeSet<Kind>,
}

impl Known {
    /// Reads them; empty for a server that never ran.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let tools: Option<Accepted> = read(&folder.join(ACCEPTED))?;
        let words: Accepted = read(&folder.join(WORDS))?.unwrap_or_default();
        let served: BTreeMap<String, Accepted> = read(&folder.join(SERVED))?.unwrap_or_default();
        let mut known = Self::default();
        known.all.extend(words.into_iter().filter(|(key, _)| Kind::of(key).is_none()));
        for kind in Kind::ALL {
            let list = if kind == Kind::Tool { tools.as_ref() } else { served.get(kind.list()) };
            let Some(list) = list else { continue };
            known.lists.insert(kind);
            let own = list.iter().filter(|(key, _)| Kind::of(key) == Some(kind));
            known.all.extend(own.map(|(key, sha256)| (key.clone(), sha256.clone())));
        }
        Ok(known)
    }

    /// Writes them.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let of = |kind: Option<Kind>| -> Accepted {
            let own = self.all.iter().filter(|(key, _)| Kind::of(key) == kind);
            own.map(|(key, sha256)| (key.clone(), sha256.clone())).collect()
        };
        let words = of(None);
        if !words.is_empty() {
            write(&folder.join(WORDS), &words)?;
        }
        let served = self.lists.iter().filter(|kind| **kind != Kind::Tool);
        let served: BTreeMap<&str, Accepted> = served.map(|kind| (kind.list(), of(Some(*kind)))).collect();
        if !served.is_empty() {
            write(&folder.join(SERVED), &served)?;
        }
        match self.lists.contains(&Kind::Tool) {
            true => write(&folder.join(ACCEPTED), &of(Some(Kind::Tool))),
            false => Ok(()),
        }
    }

    /// Number of accepted entries of a kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.all.keys().filter(|key| Kind::of(key) == Some(kind)).count()
    }
}
