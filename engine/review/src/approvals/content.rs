//! Digests of the files that a run starts with, or that a commit changes: names, kinds, modes and bytes.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hotcell_workspace::{Change, Kind, Node, Stack};
use sha2::{Digest, Sha256};

/// Maximum number of workspace entries hashed.
pub const MAX_ENTRIES: usize = 100_000;
/// Maximum total size of these entries, in bytes: 1 GiB.
pub const MAX_TOTAL_BYTES: u64 = 1 << 30;

/// Number of bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Incremental digest.
#[derive(Debug)]
pub struct Content {
    hash: Sha256,
    left: u64,
}

impl Default for Content {
    fn default() -> Self {
        Self { hash: Sha256::new(), left: MAX_TOTAL_BYTES }
    }
}

impl Content {
    /// Adds a text with its length, so that no other sequence of texts has the same digest.
    pub fn text(&mut self, text: &[u8]) {
        self.hash.update((text.len() as u64).to_le_bytes());
        self.hash.update(text);
    }

    /// Adds everything that a view shows.
    ///
    /// # Errors
    /// When there is more than [`MAX_ENTRIES`] or [`MAX_TOTAL_BYTES`], or a file cannot be read.
    pub fn view(&mut self, view: &Stack<'_>) -> io::Result<()> {
        for (path, node) in view.walk(Path::new(""), MAX_ENTRIES)? {
            self.entry(view, &path, Some(node))?;
        }
        Ok(())
    }

    /// Adds the new state of these paths.
    ///
    /// # Errors
    /// Like [`Content::view`].
    pub fn changes<'a>(
        &mut self,
        after: &Stack<'_>,
        changes: impl Iterator<Item = &'a Change>,
    ) -> io::Result<()> {
        for change in changes {
            self.entry(after, &change.path, change.after)?;
        }
        Ok(())
    }

    fn entry(&mut self, view: &Stack<'_>, path: &Path, node: Option<Node>) -> io::Result<()> {
        self.text(path.as_os_str().as_bytes());
        let Some(node) = node else {
            self.text(b"gone");
            return Ok(());
        };
        self.text(format!("{:?} {:o}", node.kind, node.mode).as_bytes());
        match node.kind {
            Kind::File => {
                let (mut file, mut piece) = (Sha256::new(), vec![0; CHUNK_BYTES]);
                let mut reader = view.file(path)?;
                loop {
                    let read = reader.read(&mut piece)?;
                    if read == 0 {
                        break;
                    }
                    self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
                        io::Error::other(format!("it has more than {} MiB", MAX_TOTAL_BYTES >> 20))
                    })?;
                    file.update(&piece[..read]);
                }
                self.text(&file.finalize());
            }
            Kind::Link => self.text(view.link(path)?.as_os_str().as_bytes()),
            Kind::Folder | Kind::Whiteout | Kind::Special => {}
        }
        Ok(())
    }

    /// The digest, in hexadecimal.
    #[must_use]
    pub fn finish(self) -> String {
        hex::encode(self.hash.finalize())
    }
}
