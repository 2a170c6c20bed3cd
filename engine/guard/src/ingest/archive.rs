//! Archives: each entry is a part of its own, and a bad one never hides the others.

use crate::report::PartState;
use crate::scan::Cx;
use std::io::{Cursor, Read};

/// How deep archives in archives are followed.
const DEPTH: usize = 8;
/// Entries of all archives of an artifact together.
const ENTRIES: usize = 10_000;
/// What one entry may unpack to, in bytes for each packed one, once it is above a mebibyte.
const RATIO: usize = 200;

/// Reads what is in an archive.
pub(super) fn read(cx: &mut Cx<'_>, name: &str, kind: &str, bytes: &[u8], depth: usize) {
    if depth >= DEPTH {
        cx.note_part(name, "archive", PartState::Skipped("archives in archives, too deep".to_owned()));
        return;
    }
    match kind {
        "zip" => zip(cx, name, bytes, depth),
        "tar" => tar(cx, name, bytes, depth),
        "gzip" => stream(cx, name, flate2::read::MultiGzDecoder::new(bytes), bytes.len(), depth),
        "bzip2" => stream(cx, name, ::bzip2::read::MultiBzDecoder::new(bytes), bytes.len(), depth),
        other => cx.note_part(name, "archive", PartState::Skipped(format!("{other} is not unpacked here"))),
    }
}

/// A compressed file: what is in it has its name without the ending.
fn stream(cx: &mut Cx<'_>, name: &str, reader: impl Read, packed: usize, depth: usize) {
    let base = crate::rules::basename(name);
    let inner =
        base.rsplit_once('.').map_or(base, |(stem, end)| if end == "tgz" { "content.tar" } else { stem });
    entry(cx, &format!("{name}!{inner}"), reader, packed, depth);
}

/// Reads an entry within what is left of the limits.
fn entry(cx: &mut Cx<'_>, path: &str, reader: impl Read, packed: usize, depth: usize) {
    cx.entries += 1;
    let left = cx.limits.unpacked_bytes.saturating_sub(cx.unpacked);
    let most = left.min((packed.saturating_mul(RATIO)).max(1 << 20));
    let mut bytes = Vec::new();
    let read = reader.take(most as u64 + 1).read_to_end(&mut bytes);
    cx.unpacked += bytes.len();
    let skipped = |cx: &mut Cx<'_>, why: String| cx.note_part(path, "archive", PartState::Skipped(why));
    match read {
        Err(error) => skipped(cx, format!("cannot be unpacked: {error}")),
        Ok(_) if bytes.len() > most => skipped(cx, "unpacks to too much".to_owned()),
        Ok(_) => super::read(cx, path, &bytes, depth + 1),
    }
}

/// Whether more entries may be read; says so once when not.
fn more(cx: &mut Cx<'_>, name: &str) -> bool {
    let full = cx.entries >= ENTRIES || cx.unpacked >= cx.limits.unpacked_bytes;
    if full || cx.late() {
        cx.note_part(name, "archive", PartState::Skipped("too much in archives".to_owned()));
        return false;
    }
    true
}

fn zip(cx: &mut Cx<'_>, name: &str, bytes: &[u8], depth: usize) {
    let mut archive = match ::zip::ZipArchive::new(Cursor::new(bytes)) {
        Ok(archive) => archive,
        Err(error) => {
            cx.note_part(name, "zip", PartState::Skipped(format!("cannot be read: {error}")));
            return;
        }
    };
    for at in 0..archive.len() {
        if !more(cx, name) {
            return;
        }
        match archive.by_index(at) {
            Ok(file) if file.is_dir() => {}
            Ok(file) => {
                let own = file.name().map_or_else(|_| at.to_string(), std::borrow::Cow::into_owned);
                let path = format!("{name}!{own}");
                let packed = usize::try_from(file.compressed_size()).unwrap_or(usize::MAX);
                entry(cx, &path, file, packed, depth);
            }
            Err(error) => {
                cx.entries += 1;
                cx.note_part(
                    &format!("{name}!{at}"),
                    "zip",
                    PartState::Skipped(format!("cannot be read: {error}")),
                );
            }
        }
    }
}

fn tar(cx: &mut Cx<'_>, name: &str, bytes: &[u8], depth: usize) {
    let mut archive = ::tar::Archive::new(bytes);
    let entries = match archive.entries() {
        Ok(entries) => entries,
        Err(error) => {
            cx.note_part(name, "tar", PartState::Skipped(format!("cannot be read: {error}")));
            return;
        }
    };
    for file in entries {
        if !more(cx, name) {
            return;
        }
        match file {
            Ok(file) => {
                let path = format!("{name}!{}", String::from_utf8_lossy(&file.path_bytes()));
                let kind = file.header().entry_type();
                if kind.is_file() || kind.is_contiguous() {
                    // A tar holds its files as they are.
                    let size = usize::try_from(file.size()).unwrap_or(usize::MAX);
                    entry(cx, &path, file, size, depth);
                } else if kind.is_gnu_sparse() {
                    cx.note_part(&path, "tar", PartState::Skipped("a sparse file".to_owned()));
                }
            }
            // After a broken header there is no next one.
            Err(error) => {
                cx.note_part(name, "tar", PartState::Skipped(format!("broken: {error}")));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Artifact, Limits, Pack, Report, Verdict, scan};
    use std::io::Write;

    const HOSTILE: &[u8] = b"import shutil\nshutil.rmtree('/home')\n";

    fn read(name: &str, bytes: Vec<u8>) -> Result<Report, Box<dyn std::error::Error>> {
        Ok(scan(&Pack::builtin()?, &Limits::default(), &Artifact::new(name, bytes)))
    }

    fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        out.write_all(bytes)?;
        out.finish()
    }

    fn tar(name: &str, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut out = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        out.append_data(&mut header, name, bytes)?;
        out.into_inner()
    }

    fn zip(entries: &[(&str, &[u8])]) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        let mut out = ::zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, bytes) in entries {
            out.start_file(*name, ::zip::write::SimpleFileOptions::default())?;
            out.write_all(bytes)?;
        }
        Ok(out.finish()?.into_inner())
    }

    #[test]
    fn what_is_in_archives_is_read() -> Result<(), Box<dyn std::error::Error>> {
        for (name, bytes) in [
            ("a.py.gz", gzip(HOSTILE)?),
            ("a.tar", tar("x/a.py", HOSTILE)?),
            ("a.tgz", gzip(&tar("x/a.py", HOSTILE)?)?),
            ("a.whl", zip(&[("x/a.py", HOSTILE)])?),
            ("b.zip", zip(&[("n.zip", &zip(&[("a.py", HOSTILE)])?)])?),
        ] {
            let report = read(name, bytes)?;
            assert_eq!(report.verdict, Verdict::Quarantine, "{name} {:?}", report.coverage);
            assert!(report.findings[0].part.ends_with("a.py"), "{name} {:?}", report.findings);
        }
        assert_eq!(read("a.zip", zip(&[("a.py", b"x = 1")])?)?.verdict, Verdict::Allow);
        Ok(())
    }

    #[test]
    fn bombs_and_broken_archives_are_incomplete() -> Result<(), Box<dyn std::error::Error>> {
        let zeros = vec![0; 64 << 20];
        let mut broken = zip(&[("x", b"0123456789012345678901234567890123456789"), ("a.py", HOSTILE)])?;
        broken[40] ^= 0xff;
        let mut nested = zip(&[("a.py", HOSTILE)])?;
        for _ in 0..12 {
            nested = zip(&[("n.zip", &nested)])?;
        }
        assert_eq!(read("a.gz", gzip(&zeros)?)?.verdict, Verdict::Incomplete);
        assert_eq!(read("a.zip", zip(&[("x", &zeros)])?)?.verdict, Verdict::Incomplete);
        assert_eq!(read("a.zip", nested)?.verdict, Verdict::Incomplete);
        assert_eq!(read("a.zip", b"PK\x03\x04 and nothing".to_vec())?.verdict, Verdict::Incomplete);
        assert_eq!(read("a.zip", broken)?.verdict, Verdict::Quarantine, "a bad entry hides no other");
        Ok(())
    }
}
