//! Tools and words of a server that are accepted, in its folder.

use std::io;
use std::path::Path;

use hotcell_mcp::pin::{Accepted, is_words};

use crate::mcp::servers::{ACCEPTED, read, write};

/// Accepted words of a server about itself. A file of their own: they come before the first list of tools, and a server may have no tools.
const WORDS: &str = "words.json";

/// Digests that are accepted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Tools and words by name.
    pub all: Accepted,
    /// Whether a list of tools was accepted, if only an empty one.
    pub has_tools: bool,
}

impl Known {
    /// Reads them; empty for a server that never ran.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let tools: Option<Accepted> = read(&folder.join(ACCEPTED))?;
        let words: Accepted = read(&folder.join(WORDS))?.unwrap_or_default();
        let has_tools = tools.is_some();
        let tools = tools.unwrap_or_default().into_iter().filter(|(name, _)| !is_words(name));
        Ok(Self {
            all: tools.chain(words.into_iter().filter(|(name, _)| is_words(name))).collect(),
            has_tools,
        })
    }

    /// Writes them.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let (words, tools): (Accepted, Accepted) =
            self.all.clone().into_iter().partition(|(name, _)| is_words(name));
        if !words.is_empty() {
            write(&folder.join(WORDS), &words)?;
        }
        if self.has_tools { write(&folder.join(ACCEPTED), &tools) } else { Ok(()) }
    }
}
