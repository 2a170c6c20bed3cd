//! The history of cells that were typed: a file in the state folder, readable by its owner alone, bounded. Cells that begin with a space, and
//! those that are long, are not kept.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hotcell_sessions::Language;

/// Maximum number of cells that are remembered.
pub const MAX_ENTRIES: usize = 1000;
/// Maximum size of the file, in bytes; a larger one is written again with its last entries.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum size of a cell that is kept, in bytes.
const MAX_ENTRY_BYTES: usize = 16 << 10;

/// The history of one language.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
}

impl History {
    /// The history in a state folder, which is private.
    pub fn of(state: &Path, language: Language) -> Self {
        Self { path: state.join(format!("session-{}.history", language.name())) }
    }

    fn open(&self) -> io::Result<File> {
        let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(flags)
            .open(&self.path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        Ok(file)
    }

    /// The entries, the oldest first.
    pub fn read(&self) -> io::Result<Vec<String>> {
        let mut file = self.open()?;
        let bytes = file.metadata()?.len();
        let from = bytes.saturating_sub(MAX_FILE_BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut text = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut text)?;
        let entries = entries(&String::from_utf8_lossy(&text), from > 0);
        if from > 0 {
            let written: String = entries.iter().filter_map(|entry| line(entry)).collect();
            let new = self.path.with_extension("new");
            let _ = std::fs::remove_file(&new);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(written.as_bytes())?;
            std::fs::rename(&new, &self.path)?;
        }
        Ok(entries)
    }

    /// Adds a cell.
    pub fn add(&self, cell: &str) -> io::Result<()> {
        match line(cell) {
            Some(line) => self.open()?.write_all(line.as_bytes()),
            None => Ok(()),
        }
    }
}

/// A cell as a line of the file: a JSON text. `None` if it is not kept.
fn line(cell: &str) -> Option<String> {
    let is_kept = !cell.trim().is_empty() && !cell.starts_with(' ') && cell.len() <= MAX_ENTRY_BYTES;
    is_kept.then(|| serde_json::to_string(cell).ok()).flatten().map(|text| text + "\n")
}

/// Entries of a file, or of its end, whose first line may be cut; other lines are left out.
fn entries(text: &str, cut: bool) -> Vec<String> {
    let lines = text.lines().skip(usize::from(cut));
    let mut all: Vec<String> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
    let over = all.len().saturating_sub(MAX_ENTRIES);
    all.drain(..over);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn entries_are_whole_cells_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::of(folder.path(), Language::Python);
        for cell in ["x = 1", "def f():\n    return 'é'\n", " secret = 1", "", "\u{1b}[31m"] {
            history.add(cell).unwrap();
        }
        history.add(&"x".repeat(MAX_ENTRY_BYTES + 1)).unwrap();
        let want = ["x = 1", "def f():\n    return 'é'\n", "\u{1b}[31m"];
        assert_eq!(history.read().unwrap(), want);
        let path = folder.path().join("session-python.history");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        for number in 0..200 {
            history.add(&format!("{number}{}", "y".repeat(8 << 10))).unwrap();
        }
        let read = history.read().unwrap();
        assert!(read.len() < 200 && read.last().unwrap().starts_with("199"));
        assert!(path.metadata().unwrap().len() <= MAX_FILE_BYTES);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("other"), "kept").unwrap();
        symlink("other", folder.path().join("session-bash.history")).unwrap();
        assert!(History::of(folder.path(), Language::Bash).add("x").is_err());
        assert_eq!(std::fs::read_to_string(folder.path().join("other")).unwrap(), "kept");
    }
}
