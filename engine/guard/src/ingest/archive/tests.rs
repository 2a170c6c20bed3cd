//! Archives of every kind, hostile ones among them.

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

fn xz(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1))?;
    out.write_all(bytes)?;
    out.finish()
}

fn zlib(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    out.write_all(bytes)?;
    out.finish()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Puts `to` in the place of the `at`th `from`.
fn patched(bytes: &[u8], from: &[u8], at: usize, to: &[u8]) -> Vec<u8> {
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|i| bytes[*i..].starts_with(from)).collect();
    let begin = places[at];
    [&bytes[..begin], to, &bytes[begin + from.len()..]].concat()
}

#[test]
fn other_compressions_are_read_too() -> Result<(), Box<dyn std::error::Error>> {
    let skipped = [&b"\x50\x2a\x4d\x18\x03\0\0\0abc"[..], &zstd(HOSTILE)].concat();
    for (name, bytes, wanted) in [
        ("a.py.xz", xz(HOSTILE)?, Verdict::Quarantine),
        ("a.py.xz", [xz(b"x = 1\n")?, xz(HOSTILE)?].concat(), Verdict::Quarantine),
        ("a.tar.xz", xz(&tar("a.py", HOSTILE)?)?, Verdict::Quarantine),
        ("a.pkl.z", zlib(b"cos\nsystem\n(S'id'\ntR.")?, Verdict::Quarantine),
        ("a.z", zlib(b"x")?, Verdict::Allow),
        ("a.z", b"\x78\x9c\xff\0\x01\x02\x03\x04\x05\x06".to_vec(), Verdict::Allow),
        ("a.py.zst", zstd(HOSTILE), Verdict::Quarantine),
        ("a.py.zst", [zstd(b"x = 1\n"), skipped].concat(), Verdict::Quarantine),
        ("a.py.zst", zstd(b"x = 1\n"), Verdict::Allow),
        ("cut.xz", xz(HOSTILE)?[..40].to_vec(), Verdict::Incomplete),
        ("cut.zst", zstd(HOSTILE)[..12].to_vec(), Verdict::Incomplete),
        ("zeros.xz", xz(&vec![0; 3 << 20])?, Verdict::Incomplete),
        ("zeros.zst", zstd(&vec![0; 3 << 20]), Verdict::Incomplete),
        // Four gigabytes of dictionary, two terabytes of window.
        ("a.lzma", b"\x5d\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\0abcdefgh".to_vec(), Verdict::Incomplete),
        ("a.zst", b"\x28\xb5\x2f\xfd\0\xf7\x01\0\0a".to_vec(), Verdict::Incomplete),
    ] {
        let report = read(name, bytes)?;
        assert_eq!(report.verdict, wanted, "{name} {:?}", report.coverage);
    }
    Ok(())
}

#[test]
fn zips_that_two_readers_see_differently() -> Result<(), Box<dyn std::error::Error>> {
    let plain = zip(&[("a.txt", b"x"), ("b.txt", b"y")])?;
    let hostile = zip(&[("n.py", HOSTILE)])?;
    let local = &hostile[..hostile.windows(4).position(|w| w == b"PK\x01\x02").unwrap_or(0)];
    let renamed = patched(&zip(&[("a.png", HOSTILE)])?, b"a.png", 0, b"../.p");
    // The directory's size of what is stored says nothing; its own header says all.
    let wrong = patched(&zip(&[("a.py", HOSTILE)])?, b"a.py", 1, b"a.md");
    let mut broken = zip(&[("a.py", HOSTILE)])?;
    broken[14] ^= 1;
    let encrypted = patched(&plain, b"PK\x01\x02", 0, b"PK\x01\x02");
    let encrypted = {
        let mut bytes = encrypted;
        let central = bytes.windows(4).position(|w| w == b"PK\x01\x02").unwrap_or(0);
        bytes[6] |= 1;
        bytes[central + 8] |= 1;
        bytes
    };
    for (what, bytes, wanted) in [
        ("as they should be", plain.clone(), Verdict::Allow),
        ("another name in the entry", renamed, Verdict::Quarantine),
        ("another name in the directory", wrong, Verdict::Quarantine),
        ("a wrong checksum", broken, Verdict::Quarantine),
        ("names that differ in case", zip(&[("a.txt", b"x"), ("A.txt", b"y")])?, Verdict::Review),
        (
            "twice the same name",
            patched(&patched(&plain, b"b.txt", 1, b"a.txt"), b"b.txt", 0, b"a.txt"),
            Verdict::Review,
        ),
        ("an entry that no directory names", [local, &plain].concat(), Verdict::Quarantine),
        ("before it", [b"#!/usr/bin/env python3\n", HOSTILE, &plain].concat(), Verdict::Quarantine),
        ("before it, harmless", [&b"#!/usr/bin/env python3\n"[..], &plain].concat(), Verdict::Allow),
        ("after a picture", [&b"\x89PNG\r\n\x1a\n\0\0\0\0"[..], &hostile].concat(), Verdict::Quarantine),
        ("encrypted", encrypted, Verdict::Incomplete),
        ("no directory", local.to_vec(), Verdict::Quarantine),
        ("outside", zip(&[("../a.txt", b"x")])?, Verdict::Review),
    ] {
        let report = read("a.zip", bytes)?;
        assert_eq!(report.verdict, wanted, "{what}: {:?} {:?}", report.coverage.parts, report.findings);
    }
    Ok(())
}

#[test]
fn what_archives_may_cost() -> Result<(), Box<dyn std::error::Error>> {
    let many = |count: usize| -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        let mut out = tar::Builder::new(Vec::new());
        for number in 0..count {
            let mut header = tar::Header::new_ustar();
            header.set_size(0);
            header.set_cksum();
            out.append_data(&mut header, format!("{number}.png"), &b""[..])?;
        }
        Ok(out.into_inner()?)
    };
    let patient = Limits { time: std::time::Duration::from_secs(120), ..Limits::default() };
    for (count, wanted) in [(500, Verdict::Allow), (10_001, Verdict::Incomplete)] {
        let report = scan(&Pack::builtin()?, &patient, &Artifact::new("a.tar", many(count)?));
        assert_eq!(report.verdict, wanted, "{count}");
    }
    let link = |kind: tar::EntryType, target: &str| -> Result<Verdict, Box<dyn std::error::Error>> {
        let mut out = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_size(0);
        out.append_link(&mut header, "a", target)?;
        Ok(read("a.tar", out.into_inner()?)?.verdict)
    };
    assert_eq!(link(tar::EntryType::Symlink, "b/c")?, Verdict::Allow);
    assert_eq!(link(tar::EntryType::Symlink, "../../etc")?, Verdict::Review);
    assert_eq!(link(tar::EntryType::Link, "/etc/passwd")?, Verdict::Review);
    assert_eq!(link(tar::EntryType::Block, "x")?, Verdict::Review);
    Ok(())
}
