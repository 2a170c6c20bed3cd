//! Entries and words of a server that are accepted, in its folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::Path;

use hotcell_mcp::pin::{Accepted, Kind};

use crate::mcp::servers::{ACCEPTED, read, write};

/// Accepted words of a server about itself. A file of their own: they come before the first list of tools, and a server may have no tools.
const WORDS: &str = "words.json";
/// Accepted prompts, resources and templates: a list of a kind that is not in it was not accepted yet, as with pins of versions that had no such file.
const SERVED: &str = "served.json";

/// File that is locked while the others are changed.
const LOCK: &str = ".pins.lock";

/// Locks the pins in a folder until the file is dropped: a change reads them, and writes them, while no other process does. Waits for another one.
///
/// # Errors
/// When the file cannot be made or locked.
pub fn lock(folder: &Path) -> io::Result<File> {
    fs::create_dir_all(folder)?;
    let file = File::options().create(true).truncate(false).write(true).open(folder.join(LOCK))?;
    file.lock()?;
    Ok(file)
}

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

    /// Writes them in the place of those that are there. The caller holds [`lock`] since it read them.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let words = self.of(None);
        if !words.is_empty() {
            write(&folder.join(WORDS), &words)?;
        }
        let served = self.lists.iter().filter(|kind| **kind != Kind::Tool);
        let served: BTreeMap<&str, Accepted> =
            served.map(|kind| (kind.list(), self.of(Some(*kind)))).collect();
        if !served.is_empty() {
            write(&folder.join(SERVED), &served)?;
        }
        match self.lists.contains(&Kind::Tool) {
            true => write(&folder.join(ACCEPTED), &self.of(Some(Kind::Tool))),
            false => Ok(()),
        }
    }

    /// Adds words of a first introduction to those that are accepted by now, which stay as they are. The caller holds [`lock`].
    ///
    /// # Errors
    /// When the file cannot be read or written; nothing is added then.
    pub fn add_words(&mut self, folder: &Path, words: Accepted) -> io::Result<()> {
        let path = folder.join(WORDS);
        let mut all: Accepted = read(&path)?.unwrap_or_default();
        for (key, sha256) in words {
            all.entry(key).or_insert(sha256);
        }
        write(&path, &all)?;
        self.take(None, all);
        Ok(())
    }

    /// Adds entries of a first list to those that are accepted by now, and takes those of other processes over; whether they were added. They are not where
    /// another process, or a person, accepted such a list meanwhile. The caller holds [`lock`].
    ///
    /// # Errors
    /// When the file cannot be read or written; nothing is added then.
    pub fn add_list(&mut self, folder: &Path, kind: Kind, entries: Accepted) -> io::Result<bool> {
        let path = folder.join(if kind == Kind::Tool { ACCEPTED } else { SERVED });
        let mut served = BTreeMap::<String, Accepted>::new();
        let now: Option<Accepted> = if kind == Kind::Tool {
            read(&path)?
        } else {
            served = read(&path)?.unwrap_or_default();
            served.remove(kind.list())
        };
        // A list that this process knows is its own: a further page of it follows.
        let is_own = now.is_none() || self.lists.contains(&kind);
        let mut all = now.unwrap_or_default();
        if is_own {
            for (key, sha256) in entries {
                all.entry(key).or_insert(sha256);
            }
            if kind == Kind::Tool {
                write(&path, &all)?;
            } else {
                served.insert(kind.list().to_owned(), all.clone());
                write(&path, &served)?;
            }
        }
        self.take(Some(kind), all);
        self.lists.insert(kind);
        Ok(is_own)
    }

    /// Those of a kind, or words.
    fn of(&self, kind: Option<Kind>) -> Accepted {
        let own = self.all.iter().filter(|(key, _)| Kind::of(key) == kind);
        own.map(|(key, sha256)| (key.clone(), sha256.clone())).collect()
    }

    /// Replaces those of a kind, or words, with what a file has of it.
    fn take(&mut self, kind: Option<Kind>, all: Accepted) {
        self.all.retain(|key, _| Kind::of(key) != kind);
        self.all.extend(all.into_iter().filter(|(key, _)| Kind::of(key) == kind));
    }

    /// Number of accepted entries of a kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.all.keys().filter(|key| Kind::of(key) == Some(kind)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_list_of_two_processes_at_one_moment_is_that_of_one() {
        for kind in Kind::ALL {
            let folder = tempfile::tempdir().unwrap();
            let of = |own: &str| Accepted::from([(kind.key(own), own.to_owned())]);
            let (mut first, mut second) = (Known::default(), Known::default());
            assert!(first.add_list(folder.path(), kind, of("a:")).unwrap());
            assert!(!second.add_list(folder.path(), kind, of("b:")).unwrap());
            assert!(first.add_list(folder.path(), kind, of("c:")).unwrap(), "its second page");
            second.add_words(folder.path(), [("(name)".to_owned(), "n".to_owned())].into()).unwrap();
            first.add_words(folder.path(), [("(name)".to_owned(), "other".to_owned())].into()).unwrap();
            let mut all = of("a:");
            all.extend(of("c:"));
            all.insert("(name)".to_owned(), "n".to_owned());
            assert_eq!(Known::read(folder.path()).unwrap().all, all);
            assert_eq!((&first.all, first.lists), (&all, [kind].into()));
        }
    }
}
