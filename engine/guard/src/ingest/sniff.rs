//! What bytes are.

use crate::rules::{Language, basename};

/// What a file is, by content.
pub(super) enum Kind {
    Text,
    /// Data that nothing executes.
    Inert(&'static str),
    /// Machine or byte code.
    Executable(&'static str),
    Archive(&'static str),
    Pickle,
    /// Arrays: numbers, or a pickle.
    Numpy,
    Unknown,
}

const MAGIC: &[(&[u8], Kind)] = &[
    (b"\x7fELF", Kind::Executable("elf")),
    (b"\xca\xfe\xba\xbe", Kind::Executable("java class")),
    (b"\xfe\xed\xfa", Kind::Executable("mach-o")),
    (b"\xcf\xfa\xed\xfe", Kind::Executable("mach-o")),
    (b"\xce\xfa\xed\xfe", Kind::Executable("mach-o")),
    (b"\0asm", Kind::Executable("wasm")),
    (b"PK\x03\x04", Kind::Archive("zip")),
    (b"PK\x05\x06", Kind::Archive("zip")),
    (b"\x1f\x8b", Kind::Archive("gzip")),
    (b"BZh", Kind::Archive("bzip2")),
    (b"\xfd7zXZ\0", Kind::Archive("xz")),
    (b"\x28\xb5\x2f\xfd", Kind::Archive("zstd")),
    (b"\x5d\0\0", Kind::Archive("lzma")),
    (b"7z\xbc\xaf\x27\x1c", Kind::Archive("7z")),
    (b"\x89PNG\r\n\x1a\n", Kind::Inert("png")),
    (b"\xff\xd8\xff", Kind::Inert("jpeg")),
    (b"GIF8", Kind::Inert("gif")),
    (b"%PDF-", Kind::Inert("pdf")),
    (b"OTTO", Kind::Inert("font")),
    (b"\0\x01\0\0", Kind::Inert("font")),
    (b"wOFF", Kind::Inert("font")),
    (b"wOF2", Kind::Inert("font")),
    (b"RIFF", Kind::Inert("riff")),
    (b"OggS", Kind::Inert("ogg")),
    (b"ID3", Kind::Inert("mp3")),
    (b"fLaC", Kind::Inert("flac")),
    (b"SQLite format 3\0", Kind::Inert("sqlite")),
    (b"\x93NUMPY", Kind::Numpy),
    (b"PAR1", Kind::Inert("parquet")),
    (b"\xde\x12\x04\x95", Kind::Inert("gettext")),
    (b"\x95\x04\x12\xde", Kind::Inert("gettext")),
    (b"\0\0\x01\0", Kind::Inert("icon")),
    (b"TZif", Kind::Inert("time zone")),
];

impl Copy for Kind {}
impl Clone for Kind {
    fn clone(&self) -> Self {
        *self
    }
}

/// What a file is: by its first bytes, then by whether it reads as text.
pub(super) fn kind(bytes: &[u8]) -> Kind {
    if bytes.starts_with(b"MZ") && bytes.len() > 64 && bytes.iter().take(512).any(|b| *b == 0) {
        return Kind::Executable("pe");
    }
    if super::bytecode::is_marked(bytes) {
        return Kind::Executable("pyc");
    }
    if super::pickle::is_marked(bytes) {
        return Kind::Pickle;
    }
    if let Some((_, kind)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return *kind;
    }
    if bytes.len() > 262 && &bytes[257..262] == b"ustar" {
        return Kind::Archive("tar");
    }
    let head = &bytes[..bytes.len().min(8192)];
    let marked = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
    let zeros = head.iter().filter(|b| **b == 0).count();
    let wide =
        zeros > 0 && zeros * 2 + 2 >= head.len() && head.iter().skip(1).step_by(2).take(32).all(|b| *b == 0);
    let strange = head.iter().filter(|b| **b < 9 || (14..32).contains(*b) && **b != 27).count();
    if marked || wide || strange * 50 <= head.len() {
        return Kind::Text;
    }
    Kind::Unknown
}

/// Every language that a text may be read as: by its name, by its first line, and by what it says.
pub(super) fn languages(name: &str, text: &str) -> Vec<Language> {
    let mut out = Vec::new();
    let base = basename(name).to_ascii_lowercase();
    let mut add = |language: Option<Language>| {
        if let Some(language) = language.filter(|l| !out.contains(l)) {
            out.push(language);
        }
    };
    add(by_name(&base));
    add(by_first_line(text));
    let extension = base.rsplit_once('.').map_or("", |(_, e)| e);
    // A name that says nothing, or says data: what it looks like decides.
    if out.is_empty()
        // A package's own description, whose first line is a program of neither language.
        && !text.starts_with("Metadata-Version: ")
        && !matches!(
            extension,
            "md" | "rst" | "html" | "htm" | "csv" | "tsv" | "svg" | "css" | "xml" | "po" | "lock" | "map"
        )
    {
        out.extend(by_content(text));
    }
    out
}

/// Whether a file's name or first line says that an interpreter is to read it.
pub(super) fn is_program(name: &str, bytes: &[u8]) -> bool {
    bytes.starts_with(b"#!") || by_name(&basename(name).to_ascii_lowercase()).is_some()
}

fn by_name(base: &str) -> Option<Language> {
    let extension = base.rsplit_once('.').map_or("", |(_, e)| e);
    Some(match (base, extension) {
        (_, "py" | "pyw" | "pyi" | "pyx" | "pth") => Language::Python,
        (_, "sh" | "bash" | "zsh" | "ksh" | "command")
        | (".bashrc" | ".profile" | ".zshrc" | ".bash_profile", _) => Language::Bash,
        (_, "js" | "mjs" | "cjs" | "jsx") => Language::JavaScript,
        (_, "ts" | "mts" | "cts" | "tsx") => Language::TypeScript,
        (_, "sql" | "ddl" | "psql") => Language::Sql,
        (_, "go") => Language::Go,
        (_, "rs") => Language::Rust,
        (_, "c" | "h") => Language::C,
        (_, "cc" | "cpp" | "cxx" | "hpp" | "hh") => Language::Cpp,
        (_, "java") => Language::Java,
        (_, "ps1" | "psm1") => Language::PowerShell,
        ("dockerfile" | "containerfile", _) | (_, "dockerfile") => Language::Dockerfile,
        (_, "yml" | "yaml") => Language::Yaml,
        _ => return None,
    })
}

fn by_first_line(text: &str) -> Option<Language> {
    let first = text.lines().next()?.strip_prefix("#!")?;
    let program = first
        .split_whitespace()
        .map(basename)
        .find(|w| !w.starts_with('-') && *w != "env" && !w.contains('='))?;
    let program = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    Some(match program {
        "python" | "pypy" => Language::Python,
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" => Language::Bash,
        "node" | "nodejs" | "bun" | "deno" => Language::JavaScript,
        "pwsh" | "powershell" => Language::PowerShell,
        _ => return None,
    })
}

fn by_content(text: &str) -> Vec<Language> {
    let mut out = Vec::new();
    let head = &text[..text.floor_char_boundary(16_384)];
    let line = |starts: &[&str]| {
        head.lines().take(400).any(|l| starts.iter().any(|s| l.trim_start().starts_with(s)))
    };
    if line(&["import ", "from ", "def ", "class ", "exec(", "print("])
        && (head.contains(':') || head.contains("import "))
        && !head.contains("=> {")
    {
        out.push(Language::Python);
    }
    if head.contains("require(")
        || line(&["const ", "let ", "export ", "import {", "function "]) && head.contains(';')
    {
        out.push(Language::JavaScript);
    }
    out
}

/// Files that an installer, a test runner or an interpreter loads without being asked to.
pub(super) fn runs_by_itself(name: &str) -> bool {
    let base = basename(name);
    matches!(
        base,
        "setup.py"
            | "conftest.py"
            | "sitecustomize.py"
            | "usercustomize.py"
            | "build.rs"
            | "noxfile.py"
            | "preinstall.js"
            | "postinstall.js"
            | "install.js"
    ) || base.ends_with(".pth")
}
