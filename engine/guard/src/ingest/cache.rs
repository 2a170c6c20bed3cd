//! Byte code caches of Python: recognised by name, in `__pycache__`, and by format.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::context::Cx;
use crate::report::{Part, PartState};

use super::{ends_in_a_zip, is_byte_code};

/// Reason why a cache is not read.
pub(crate) const WHY: &str = "kept byte code, which a run is told not to use";
/// Maximum size of a cache file, in bytes; longer files are read like any other.
const MAX_CACHE_BYTES: u64 = 16 << 20;

/// Source of a cache file according to its name: `__pycache__/MOD.TAG[.opt-N].pyc`.
pub(crate) fn source(path: &Path) -> Option<PathBuf> {
    let (folder, name) = path.parent().zip(path.file_name()?.to_str())?;
    folder.file_name().filter(|f| *f == "__pycache__")?;
    let (module, tag) = name.strip_suffix(".pyc")?.split_once('.')?;
    let tag = match tag.rsplit_once(".opt-") {
        Some((tag, level)) => {
            Some(tag).filter(|_| !level.is_empty() && level.bytes().all(|b| b.is_ascii_alphanumeric()))?
        }
        None => tag,
    };
    (!module.is_empty() && is_tag(tag)).then(|| folder.with_file_name(format!("{module}.py")))
}

/// `cpython-311`, `pypy310-pp73`, and pytest's `cpython-311-pytest-8.3.4`.
fn is_tag(tag: &str) -> bool {
    let (interpreter, by) =
        tag.split_once("-pytest-").map_or((tag, None), |(tag, version)| (tag, Some(version)));
    let letters = interpreter.len() - interpreter.trim_start_matches(|c: char| c.is_ascii_lowercase()).len();
    let number = interpreter[letters..].trim_start_matches('-');
    letters > 1
        && number.starts_with(|c: char| c.is_ascii_digit())
        && number.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && by.is_none_or(|version| version.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.'))
}

/// True when a file with such a name has the right format: marked as byte code that Python compares with its
/// source before using it, and not an archive.
pub(crate) fn has_form(file: &File) -> bool {
    let Some(size) = file.metadata().ok().map(|data| data.len()).filter(|size| *size <= MAX_CACHE_BYTES)
    else {
        return false;
    };
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0).is_ok() && is_compared(&bytes)
}

fn is_compared(bytes: &[u8]) -> bool {
    // The second word: 0 means compared by time and size of the source, 3 compared by digest, 1 not compared.
    is_byte_code(bytes) && matches!(bytes[4..8], [0 | 3, 0, 0, 0]) && !ends_in_a_zip(bytes)
}

/// Notes a file of an archive that Python compares with its source before using it.
pub(super) fn note(cx: &mut Cx<'_>, name: &str, bytes: &[u8]) {
    if let Some(source) = source(Path::new(name)).filter(|_| is_compared(bytes)) {
        cx.note_cache(name, source.to_string_lossy().into_owned());
    }
}

/// Sets the byte code of an archive aside whose source was read, as in a folder.
pub(crate) fn settle(cx: &mut Cx<'_>) {
    let is_read = |part: &&Part| matches!(part.state, PartState::Parsed | PartState::Recovered);
    let read: HashSet<String> = cx.parts.iter().filter(is_read).map(|part| part.path.clone()).collect();
    let caches = std::mem::take(&mut cx.caches);
    let caches: HashSet<String> =
        caches.into_iter().filter(|(_, source)| read.contains(source)).map(|(path, _)| path).collect();
    for part in &mut cx.parts {
        if part.state == PartState::BytesOnly && part.language == "pyc" && caches.contains(&part.path) {
            part.state = PartState::SetAside(WHY.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_cache_names_are_recognised() {
        for (name, module) in [
            ("a.cpython-311.pyc", Some("a")),
            ("a.cpython-311.opt-1.pyc", Some("a")),
            ("__init__.pypy310.pyc", Some("__init__")),
            ("a.pypy310-pp73.opt-2.pyc", Some("a")),
            ("test_a.cpython-312-pytest-8.3.4.pyc", Some("test_a")),
            ("main.z.pyc", None),
            ("main.zip.pyc", None),
            ("main..pyc", None),
            ("main.pyc", None),
            (".cpython-311.pyc", None),
            ("a.cpython-311.opt-.pyc", None),
            ("a.cpython-311.x.pyc", None),
            ("a.cpython-311.py", None),
            ("a.CPYTHON-311.pyc", None),
            ("a.cpython.pyc", None),
        ] {
            let wanted = module.map(|module| PathBuf::from(format!("d/{module}.py")));
            assert_eq!(source(&Path::new("d/__pycache__").join(name)), wanted, "{name}");
            assert_eq!(source(&Path::new("d/pycache").join(name)), None, "{name}");
        }
    }

    #[test]
    fn source_checked_byte_code_is_a_cache() {
        let code = |flags: u8| [&[0xa7, 0x0d, b'\r', b'\n', flags, 0, 0, 0][..], &[0; 24]].concat();
        assert!(is_compared(&code(0)) && is_compared(&code(3)));
        for flags in (0..=255).filter(|flags| ![0, 3].contains(flags)) {
            assert!(!is_compared(&code(flags)), "{flags}");
        }
        let end = [&b"PK\x05\x06"[..], &[0; 18]].concat();
        assert!(!is_compared(&[code(0), end].concat()));
        for other in
            [&b"import os\n"[..], b"PK\x03\x04", b"", b"\xa7\x0d\r\n", b"#!/bin/sh\nid\n0123456789012345"]
        {
            assert!(!is_compared(other), "{other:?}");
        }
    }
}
