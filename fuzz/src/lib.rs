//! Shared by the targets: one scan, and the properties that every report must have.

#![forbid(unsafe_code)]

pub mod seeds;
pub mod types;

use std::sync::LazyLock;

use hotcell_guard::{Artifact, Kind, Language, Limits, Pack, PartState, Report, Severity, Verdict, scan};

/// The rules that come with the guard.
pub static PACK: LazyLock<Pack> = LazyLock::new(|| match Pack::builtin() {
    Ok(pack) => pack,
    Err(error) => panic!("{error}"),
});

/// Names that decide how a file is read.
pub const NAMES: [&str; 20] = [
    "a",
    "a.py",
    "a.zip",
    "a.tar",
    "a.tgz",
    "a.txt",
    "n.ipynb",
    "package.json",
    "pyproject.toml",
    "setup.cfg",
    "Makefile",
    "Dockerfile",
    ".github/workflows/a.yml",
    "compose.yml",
    ".cargo/config.toml",
    ".npmrc",
    "a.pth",
    "CMakeLists.txt",
    "a.html",
    "a.md",
];

/// Languages that tree-sitter reads, and names for them.
pub const TREES: [&str; 6] = ["a.go", "a.rs", "a.c", "a.cpp", "a.java", "a.ps1"];

/// Decoders that a Python program can apply to bytes.
pub const DECODERS: [&str; 10] = [
    "base64.b64decode(D)",
    "base64.b32decode(D)",
    "base64.b85decode(D)",
    "base64.a85decode(D)",
    "zlib.decompress(D)",
    "gzip.decompress(D)",
    "bz2.decompress(D)",
    "lzma.decompress(D)",
    "codecs.decode(D, 'rot13')",
    "D.decode('utf-16')",
];

/// Scans, and checks what must hold of every report.
pub fn read(name: &str, bytes: &[u8], language: Option<Language>) -> Report {
    let mut artifact = Artifact::new(name, bytes);
    artifact.language = language;
    let report = scan(&PACK, &Limits::default(), &artifact);
    let unread = |state: &PartState| state.kind() == Kind::NotRead;
    if report.verdict == Verdict::Allow {
        assert!(!report.coverage.parts.iter().any(|part| unread(&part.state)), "allowed, and not read");
        assert!(report.findings.iter().all(|found| found.severity == Severity::Note), "allowed, and found");
    }
    assert!(report.coverage.bytes_seen <= report.coverage.bytes_total);
    for found in &report.findings {
        assert!(found.line <= found.end_line, "{found:?} ends before it begins");
    }
    report
}

/// The source of a Python program that executes what a decoder makes of `data`.
pub fn decoding(decoder: usize, data: &[u8]) -> String {
    let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
    let call = DECODERS[decoder % DECODERS.len()].replace('D', &format!("bytes.fromhex('{hex}')"));
    format!("import base64, bz2, codecs, gzip, lzma, zlib\nexec({call})\n")
}
