//! Functions of `wit/files.wit`.

use std::fs;
use std::path::Path;

use folders::{File, failed};

use crate::{find, text};

wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use exports::hotcell::files::files::{Entry, Guest, Hit, Hits, Kind, Listing, Mode, Text, Written};
use hotcell::tool::blob::Blob;

/// Maximum number of bytes that fit into an answer as base64.
const MOST_BYTES: u64 = 2_900 << 10;

struct Plugin;
export!(Plugin);

fn write(path: &str, content: &[u8], mode: Option<Mode>) -> Result<Written, String> {
    let path = &folders::path(path)?;
    if let Some(folder) = Path::new(path).parent().filter(|folder| !folder.is_dir()) {
        fs::create_dir_all(folder).map_err(|e| failed(path, &e))?;
    }
    let created = fs::symlink_metadata(path).is_err();
    let how = match mode.unwrap_or(Mode::Replace) {
        Mode::Replace => folders::Write::Replace,
        Mode::Append => folders::Write::Append,
        Mode::Create => folders::Write::Create,
    };
    let size = folders::write(path, content, how).map_err(|e| failed(path, &e))?;
    Ok(Written { size, created })
}

impl Guest for Plugin {
    fn read(path: String, first_line: Option<u32>, lines: Option<u32>) -> Result<Text, String> {
        let path = &folders::path(&path)?;
        let open = File::open(path).map_err(|e| failed(path, &e))?;
        let size = open.size().map_err(|e| failed(path, &e))?;
        // A few lines are seldom much text.
        let size = if lines.is_some() { size } else { size.min(1 << 17) };
        let part = text::part(open, size, first_line.unwrap_or(1), lines.unwrap_or(2000));
        let part = part.map_err(|e| format!("{path}: {e}"))?;
        Ok(Text { content: part.content, first_line: part.first_line, lines: part.lines, more: part.more })
    }

    fn read_bytes(path: String, offset: Option<u64>, length: Option<u64>) -> Result<Blob, String> {
        let path = &folders::path(&path)?;
        let open = File::open(path).map_err(|e| failed(path, &e))?;
        let size = open.size().map_err(|e| failed(path, &e))?;
        let offset = offset.unwrap_or(0).min(size);
        let length = length.unwrap_or(u64::MAX).min(size - offset);
        if length > MOST_BYTES {
            return Err(format!(
                "{path}: {length} bytes are more than an answer holds; ask for at most {MOST_BYTES} with offset and length"
            ));
        }
        let bytes = open.part(offset, length).map_err(|e| failed(path, &e))?;
        Ok(Blob::new(&bytes))
    }

    fn write(path: String, content: String, mode: Option<Mode>) -> Result<Written, String> {
        write(&path, content.as_bytes(), mode)
    }

    fn write_bytes(path: String, content: Blob, mode: Option<Mode>) -> Result<Written, String> {
        write(&path, &content.bytes(), mode)
    }

    fn list(path: Option<String>, depth: Option<u32>, limit: Option<u32>) -> Result<Listing, String> {
        let Some(path) = path else {
            let entries = folders::granted()
                .into_iter()
                .map(|path| Entry { path, kind: Kind::Folder, size: None })
                .collect();
            return Ok(Listing { folder: String::new(), entries, more: false });
        };
        let folder = folders::path(&path)?;
        let limit = limit.unwrap_or(1000).min(10_000) as usize;
        let mut entries = Vec::new();
        let mut more = false;
        let mut visit = |entry: folders::Entry, _: &Path| {
            more = entries.len() == limit;
            if !more {
                let kind = match entry.kind {
                    folders::Kind::File => Kind::File,
                    folders::Kind::Folder => Kind::Folder,
                    folders::Kind::Link => Kind::Link,
                    folders::Kind::Other => Kind::Other,
                };
                entries.push(Entry { path: entry.path, kind, size: entry.size });
            }
            !more
        };
        fs::read_dir(&folder).map_err(|e| failed(&folder, &e))?;
        folders::walk(Path::new(&folder), "", depth.unwrap_or(1).clamp(1, 32), &mut visit, &|_| true)?;
        Ok(Listing { folder, entries, more })
    }

    fn search(
        path: Option<String>,
        pattern: String,
        name: Option<String>,
        limit: Option<u32>,
    ) -> Result<Hits, String> {
        let top = folders::path(&path.unwrap_or_default())?;
        fs::metadata(&top).map_err(|e| failed(&top, &e))?;
        let limit = limit.unwrap_or(100).min(2000) as usize;
        let found = find::search(Path::new(&top), &pattern, name.as_deref(), limit)?;
        let hits = found.hits.into_iter().map(|h| Hit { path: h.path, line: h.line, text: h.text }).collect();
        Ok(Hits { hits, files: found.files, unread: found.unread, more: found.more })
    }
}
