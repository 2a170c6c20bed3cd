//! Archives of every kind, including hostile ones.

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
fn archive_members_are_read() -> Result<(), Box<dyn std::error::Error>> {
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

/// Replaces the `at`th occurrence of `from` by `to`.
fn patched(bytes: &[u8], from: &[u8], at: usize, to: &[u8]) -> Vec<u8> {
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|i| bytes[*i..].starts_with(from)).collect();
    let begin = places[at];
    [&bytes[..begin], to, &bytes[begin + from.len()..]].concat()
}

#[test]
fn xz_zstd_and_zlib_are_read() -> Result<(), Box<dyn std::error::Error>> {
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
        ("zeros.xz", xz(&vec![0; 5 << 20])?, Verdict::Incomplete),
        ("zeros.zst", zstd(&vec![0; 5 << 20]), Verdict::Incomplete),
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
    // The directory's size of a stored entry is wrong; its own header is right.
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
fn archive_costs_are_bounded() -> Result<(), Box<dyn std::error::Error>> {
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

/// A tar with one entry of this type.
fn entry_of(kind: u8, name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = [0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000755");
    header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
    header[148..156].copy_from_slice(b"        ");
    header[156] = kind;
    let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut out = [&header[..], bytes].concat();
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

#[test]
fn tar_entries_with_bytes_are_files() -> Result<(), Box<dyn std::error::Error>> {
    for kind in 0..=u8::MAX {
        // Names and settings of the following entry, and sparse files.
        if matches!(kind, b'L' | b'K' | b'x' | b'g' | b'S') {
            continue;
        }
        let report = read("a.tar", entry_of(kind, "a.py", HOSTILE))?;
        assert_eq!(report.verdict, Verdict::Quarantine, "type {kind}: {:?}", report.coverage.parts);
    }
    Ok(())
}

#[test]
fn bytes_after_tar_end_are_read() -> Result<(), Box<dyn std::error::Error>> {
    let first = entry_of(b'0', "a.txt", b"a\n");
    for zeros in [512, 1024, 1536, 10_240] {
        for junk in [&b""[..], &[7; 512], &[7; 1536]] {
            for next in [entry_of(b'0', "a.py", HOSTILE), tar("a.py", HOSTILE)?] {
                let bytes = [&first[..], &vec![0; zeros], junk, &next].concat();
                let report = read("a.tar", bytes)?;
                assert_eq!(
                    report.verdict,
                    Verdict::Quarantine,
                    "{zeros} {}: {:?}",
                    junk.len(),
                    report.coverage
                );
            }
        }
        let script = [&first[..], &vec![0; zeros], b"#!/bin/sh\nrm -rf /home\n"].concat();
        assert_eq!(read("a.tar", script)?.verdict, Verdict::Quarantine, "{zeros}: a script");
        let honest = [&first[..], &vec![0; zeros]].concat();
        assert_eq!(read("a.tar", honest)?.verdict, Verdict::Allow, "{zeros}: nothing");
    }
    Ok(())
}

#[test]
fn lzma_of_any_settings_is_read() -> Result<(), Box<dyn std::error::Error>> {
    for lc in 0..=4 {
        for lp in 0..=4 - lc {
            for pb in 0..=4 {
                let mut options = lzma_rust2::LzmaOptions::with_preset(1);
                (options.lc, options.lp, options.pb) = (lc, lp, pb);
                for (size, bytes) in [(None, HOSTILE.to_vec()), (Some(1), tar("a.py", HOSTILE)?)] {
                    let known = size.map(|_| bytes.len() as u64);
                    let mut out = lzma_rust2::LzmaWriter::new_use_header(Vec::new(), &options, known)?;
                    out.write_all(&bytes)?;
                    let report = read("a.py.lzma", out.finish()?)?;
                    assert_eq!(report.verdict, Verdict::Quarantine, "{lc} {lp} {pb}: {:?}", report.coverage);
                }
            }
        }
    }
    Ok(())
}

/// Headers of unsupported archives and compressed files, each with the bytes after its magic number.
fn packed() -> Vec<(&'static str, Vec<u8>)> {
    let noise: Vec<u8> = (0..=250u8).map(|n| n.wrapping_mul(151) ^ 0x55).collect();
    let with = |magic: &[u8]| [magic, &noise].concat();
    let at = |offset: usize, magic: &[u8]| [&noise.repeat(140)[..offset], magic, &noise].concat();
    let newc = |magic: &str| format!("{magic}{}e\0\0\0echo\n", "0000000A".repeat(13)).into_bytes();
    let mut binary = vec![0xc7, 0x71];
    binary.extend([1; 18]);
    binary.extend([2, 0, 0, 0, 5, 0]);
    binary.extend(b"e\0echo\n");
    let swapped: Vec<u8> = binary[..26]
        .chunks(2)
        .flat_map(|pair| [pair[1], pair[0]])
        .chain(binary[26..].iter().copied())
        .collect();
    vec![
        ("ar", b"!<arch>\ne/              0           0     0     644     5         `\necho\n".to_vec()),
        ("ar", with(b"!<thin>\n")),
        ("cpio", newc("070701")),
        ("cpio", newc("070702")),
        ("cpio", format!("070707{}e\0echo\n", "0".repeat(70)).into_bytes()),
        ("cpio", binary),
        ("cpio", swapped),
        ("lz4", with(b"\x04\x22\x4d\x18")),
        ("lz4", with(b"\x02\x21\x4c\x18")),
        ("lzop", with(b"\x89LZO\0\r\n\x1a\n")),
        ("lzip", with(b"LZIP\x01")),
        ("compress", with(b"\x1f\x9d\x90")),
        ("rar", with(b"Rar!\x1a\x07\x01\0")),
        ("cabinet", with(b"MSCF\0\0\0\0")),
        ("xar", with(b"xar!\0\x1c")),
        ("snappy", with(b"\xff\x06\0\0sNaPpY")),
        ("rpm", with(b"\xed\xab\xee\xdb")),
        ("squashfs", with(b"hsqs")),
        ("wim", with(b"MSWIM\0\0\0")),
        ("zoo", at(20, b"\xdc\xa7\xc4\xfd")),
        ("ace", at(7, b"**ACE**")),
        ("iso 9660", at(0x8001, b"CD001")),
        ("arj", with(b"\x60\xea\x2b\0")),
        ("lha", [&b"!\x20-lh5-"[..], &[0; 13], b"\x01", &noise].concat()),
    ]
}

#[test]
fn unsupported_archives_need_review() -> Result<(), Box<dyn std::error::Error>> {
    for (what, bytes) in packed() {
        for name in ["a", "a.bin", "a.csv", "a.png", "a.dat"] {
            let report = read(name, bytes.clone())?;
            assert_eq!(report.verdict, Verdict::Review, "{what} as {name}: {:?}", report.coverage.parts);
            assert_eq!(report.coverage.parts[0].language, what, "{name}");
        }
    }
    let frame = [&b"\x50\x2a\x4d\x18\x03\0\0\0abc"[..], &zstd(HOSTILE)].concat();
    assert_eq!(read("a.py.zst", frame)?.verdict, Verdict::Quarantine, "behind a frame that is skipped");
    let lz4 = b"\x5f\x2a\x4d\x18\x03\0\0\0abc\x04\x22\x4d\x18\x60\x40\x82".to_vec();
    assert!(read("a", lz4)?.verdict >= Verdict::Review, "lz4 has such frames too");
    Ok(())
}

#[test]
fn unknown_data_is_allowed_without_program_head() -> Result<(), Box<dyn std::error::Error>> {
    let mut state = 1u32;
    let mut noise = |count: usize| -> Vec<u8> {
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        // Avoids the first byte of any magic number of two or three bytes.
        [1].into_iter().chain((1..count).map(next)).collect()
    };
    for size in [40, 500, 3000, 9000] {
        for name in ["a.bin", "a.dat", "a", "weights.f32"] {
            assert_eq!(read(name, noise(size))?.verdict, Verdict::Allow, "{name} of {size}");
        }
    }
    for inner in
        [&b"#!/bin/sh\nrm -rf /home\n"[..], b"\x7fELF\x02\x01", b"\x04\x22\x4d\x18", b"7z\xbc\xaf\x27\x1c"]
    {
        for at in [8, 64, 500] {
            let bytes = [&noise(at)[..], inner, &noise(900)].concat();
            assert_eq!(read("a.bin", bytes)?.verdict, Verdict::Review, "{inner:x?} at {at}");
        }
    }
    let numbers = |step: u64| -> Vec<u8> { (0..400u64).flat_map(|n| (n * step).to_le_bytes()).collect() };
    for step in [1, 3, 1000, 1 << 20] {
        assert_eq!(read("a.bin", numbers(step))?.verdict, Verdict::Allow, "numbers by {step}");
    }
    Ok(())
}

/// Files that each have one kind of warning, of four kinds.
const KINDS: [(&str, &str); 4] = [
    ("p/a.py", "import subprocess\ndef a(x):\n    subprocess.run(x, shell=True)\n"),
    ("p/b.py", "import yaml\ndef b(x):\n    return yaml.unsafe_load(x)\n"),
    ("p/c.py", "def c(x):\n    return eval(x)\n"),
    ("p/d.py", "import os\ndef d():\n    os.setuid(0)\n"),
];

#[test]
fn archive_entries_are_scored_one_by_one() -> Result<(), Box<dyn std::error::Error>> {
    let whole: String = KINDS.iter().map(|(_, text)| *text).collect();
    assert_eq!(read("a.py", whole.clone().into_bytes())?.verdict, Verdict::Quarantine);
    let mut out = tar::Builder::new(Vec::new());
    for (name, text) in KINDS {
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len() as u64);
        out.append_data(&mut header, name, text.as_bytes())?;
    }
    let package = out.into_inner()?;
    let entries = KINDS.map(|(name, text)| (name, text.as_bytes()));
    for (name, bytes) in [
        ("a.whl", zip(&entries)?),
        ("a.tar", package.clone()),
        ("a.tgz", gzip(&package)?),
        ("a.zip", zip(&[("in.tar", &package), ("in.zip", &zip(&entries)?)])?),
    ] {
        let report = read(name, bytes)?;
        assert_eq!(report.verdict, Verdict::Review, "{name} {:?}", report.findings);
    }
    for (name, bytes) in [
        ("a.whl", zip(&[("p/a.py", whole.as_bytes())])?),
        ("a.tgz", gzip(&tar("p/a.py", whole.as_bytes())?)?),
    ] {
        assert_eq!(read(name, bytes)?.verdict, Verdict::Quarantine, "{name}");
    }
    Ok(())
}

#[test]
fn text_inside_two_entries_counts_for_both() -> Result<(), Box<dyn std::error::Error>> {
    let hidden = "import os\nos.system('echo aWQ= | base64 -d | sh')\n";
    let report = read("a.zip", zip(&[("a.py", hidden.as_bytes()), ("b.py", hidden.as_bytes())])?)?;
    for name in ["a.py", "b.py"] {
        let of = |finding: &&crate::Finding| finding.part.ends_with(name);
        let rules: Vec<_> = report.findings.iter().filter(of).map(|f| f.rule.as_str()).collect();
        assert!(rules.contains(&"sh.hidden.decoded") || rules.len() > 1, "{name} {rules:?}");
    }
    Ok(())
}

/// Files of a package, and its manifest, whose installation runs the first of them.
fn npm(script: &str) -> [(&'static str, String); 5] {
    let manifest =
        format!("{{\"name\": \"x\", \"main\": \"./a.js\", \"scripts\": {{\"{script}\": \"node a.js\"}}}}");
    [
        ("package/package.json", manifest),
        (
            "package/a.js",
            "const { exec } = require('child_process');\nrequire('./b');\nexec(process.argv[2]);\n".into(),
        ),
        ("package/b.js", "require('./c');\nmodule.exports = x => eval(x);\n".into()),
        ("package/c.js", "require('./d');\nconst hook = 'https://discord.com/api/webhooks/1/x';\n".into()),
        ("package/d.js", "require('fs').readFileSync('/home/x/.ssh/id_rsa');\n".into()),
    ]
}

#[test]
fn files_of_install_script_count_as_one() -> Result<(), Box<dyn std::error::Error>> {
    let packed = |files: &[(&'static str, String)]| {
        let entries: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
        zip(&entries)
    };
    let together = |report: &Report| report.findings.iter().any(|f| f.rule == "guard.install_together");
    let report = read("a.zip", packed(&npm("postinstall"))?)?;
    assert!(together(&report) && report.verdict == Verdict::Quarantine, "{:?}", report.findings);
    // Credentials and a way out, in two files.
    let [manifest, _, _, c, d] = npm("postinstall");
    let two = [manifest, ("package/a.js", c.1.replace("./d", "./b")), ("package/b.js", d.1)];
    let report = read("a.zip", packed(&two)?)?;
    assert!(together(&report) && report.verdict == Verdict::Quarantine, "{:?}", report.findings);
    for files in [&npm("test")[..], &npm("postinstall")[..4]] {
        let report = read("a.zip", packed(files)?)?;
        assert!(!together(&report) && report.verdict == Verdict::Review, "{:?}", report.findings);
    }
    let folder = std::env::temp_dir().join(format!("hotcell-guard-hooks-{}", std::process::id()));
    for (name, text) in npm("install") {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().ok_or("no folder")?)?;
        std::fs::write(path, text)?;
    }
    let (pack, limits) = (Pack::builtin()?, Limits::default());
    let walk = crate::Walk { gitignore: false, packages: false, executed: None };
    let report =
        crate::scan_path(&limits, &folder, walk, &mut |artifact| scan(&pack, &limits, artifact), &mut |_| {});
    std::fs::remove_dir_all(&folder)?;
    let report = report?;
    assert!(together(&report) && report.verdict == Verdict::Quarantine, "{:?}", report.findings);
    Ok(())
}

#[test]
fn cached_byte_code_is_set_aside_beside_its_source() -> Result<(), Box<dyn std::error::Error>> {
    let code = |flags: u8| [&[0xa7, 0x0d, b'\r', b'\n', flags, 0, 0, 0][..], &[0; 24]].concat();
    let cache = "p/__pycache__/a.cpython-311.pyc";
    for (entries, wanted) in [
        (vec![("p/a.py", &b"x = 1\n"[..]), (cache, &code(0)[..])], Verdict::Review),
        (vec![(cache, &code(0)[..]), ("p/a.py", &b"x = 1\n"[..])], Verdict::Review),
        (vec![(cache, &code(0)[..])], Verdict::Incomplete),
        (vec![("p/b.py", &b"x = 1\n"[..]), (cache, &code(0)[..])], Verdict::Incomplete),
        (vec![("p/a.py", &b"x = 1\n"[..]), ("p/a.pyc", &code(0)[..])], Verdict::Incomplete),
    ] {
        let report = read("a.zip", zip(&entries)?)?;
        assert_eq!(report.verdict, wanted, "{:?}", report.coverage.parts);
    }
    let unchecked = read("a.zip", zip(&[("p/a.py", &b"x = 1\n"[..]), (cache, &code(1)[..])])?)?;
    assert!(unchecked.verdict >= Verdict::Incomplete, "{:?}", unchecked.coverage.parts);
    Ok(())
}

/// A small program of Linux.
const ELF: &str = "7f454c4602010100000000000000000002003e00010000007800400000000000400000000000000000000000000000000000000040003800010000000000000001000000050000000000000000000000000040000000000000004000000000007a000000000000007a000000000000000010000000000000ebfe";

#[test]
fn machine_code_that_its_package_declares_is_for_review() -> Result<(), Box<dyn std::error::Error>> {
    use base64::Engine;
    use sha2::Digest;
    let elf = hex::decode(ELF)?;
    let digest = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(&elf));
    let record = |path: &str| format!("p/a.py,,\n{path},sha256={digest},122\np-1.dist-info/RECORD,,\n");
    let whl = |path: &str, folder: &str, record: &str| {
        zip(&[(path, &elf), (&format!("{folder}/RECORD"), record.as_bytes())])
    };
    let with = |path: &str, mark: &str| zip(&[(mark, b"{}"), (path, &elf)]);
    let other = digest.replace(&digest[..1], if digest.starts_with('A') { "B" } else { "A" });
    let nested = zip(&[("n.zip", &with("p/a.node", "p/package.json")?), ("q/a.node", &elf)])?;
    for (what, bytes, want) in [
        ("listed", whl("p/a.so", "p-1.dist-info", &record("p/a.so"))?, Verdict::Review),
        ("listed program", whl("p/bin/x", "p-1.dist-info", &record("p/bin/x"))?, Verdict::Review),
        ("another path", whl("p/lib-a.so", "p-1.dist-info", &record("p/a.so"))?, Verdict::Incomplete),
        (
            "other bytes",
            whl("p/a.so", "p-1.dist-info", &record("p/a.so").replace(&digest, &other))?,
            Verdict::Incomplete,
        ),
        ("RECORD elsewhere", whl("p/a.so", "p", &record("p/a.so"))?, Verdict::Incomplete),
        ("module for Node", with("package/build/a.node", "package/package.json")?, Verdict::Review),
        ("module of WebAssembly", with("package/a.wasm", "package/package.json")?, Verdict::Review),
        ("module for Python", with("p-1/p/_a.abi3.so", "p-1/PKG-INFO")?, Verdict::Review),
        ("program", with("package/bin/a", "package/package.json")?, Verdict::Incomplete),
        ("library", with("package/lib-a.so", "package/package.json")?, Verdict::Incomplete),
        ("program for Windows", with("package/a.exe", "package/package.json")?, Verdict::Incomplete),
        ("module of no package", with("q/a.node", "package/package.json")?, Verdict::Incomplete),
        ("description deeper", with("package/a.node", "package/x/package.json")?, Verdict::Incomplete),
        ("description in an archive beside it", nested, Verdict::Incomplete),
    ] {
        let report = read("a.zip", bytes)?;
        assert_eq!(report.verdict, want, "{what} {:?}", report.coverage);
        assert_eq!(report.coverage.parts.iter().filter(|p| p.why_not_read().is_some()).count(), {
            if what.ends_with("beside it") { 2 } else { 1 }
        });
    }
    // Outside of an archive anything could load it.
    assert_eq!(read("a.abi3.so", elf)?.verdict, Verdict::Incomplete);
    Ok(())
}
