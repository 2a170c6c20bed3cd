//! Determines the type of a file.

use super::{packed, unread};
use crate::language::Language;
use crate::rules::basename;

/// Number of bytes of a text examined to resolve an extension shared by several languages.
const HEAD_LEN: usize = 16 << 10;
/// Extensions of tables, records and raw data.
const DATA_ENDINGS: &[&str] = &[
    "csv",
    "tsv",
    "json",
    "jsonl",
    "ndjson",
    "geojson",
    "xml",
    "txt",
    "log",
    "dat",
    "data",
    "bin",
    "raw",
    "arrow",
    "feather",
    "h5",
    "hdf5",
    "mp4",
    "mov",
    "mkv",
    "webm",
    "tif",
    "tiff",
    "bmp",
    "safetensors",
    "gguf",
];
/// Folders whose files git runs by name.
const HOOKS: &[&str] = &[".git/hooks/", ".githooks/", ".husky/"];
/// Suffixes of hidden files that a shell reads when it starts or ends.
const START_ENDINGS: &[&str] = &["rc", "profile", "login", "logout", "env"];
/// Names with such a suffix that are tool settings, with section headings that look like shell patterns.
const SETTINGS: &[&str] =
    &[".pylintrc", ".coveragerc", ".flake8rc", ".isortrc", ".pydocstylerc", ".pypirc", ".hgrc"];
/// Suffixes of copies and templates.
const COPIES: &[&str] = &[".in", ".bak", ".orig", ".old", ".dist", ".example", ".sample", ".tmpl", "~"];
/// Complete names of shell scripts.
const SHELL_NAMES: &[&str] = &["pkgbuild", "apkbuild", ".xinitrc", ".xsession", ".xprofile"];
/// Maximum length, in characters, of a first line's program in a report.
const MAX_PROGRAM_CHARS: usize = 64;

/// Type of a file, by its contents.
pub(super) enum Kind {
    Text,
    /// Data that is never executed.
    Inert(&'static str),
    /// Machine or byte code.
    Executable(&'static str),
    Archive(&'static str),
    /// An archive or compressed file that the guard does not unpack.
    Packed(&'static str),
    Pickle,
    /// An array: numbers, or a pickle.
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

/// Type of a file: by its first bytes, then by whether it is text.
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
    if bytes.len() > 262 && &bytes[257..262] == b"ustar" || packed::is_tar_header(bytes) {
        return Kind::Archive("tar");
    }
    // A skippable frame before those of zstd.
    if matches!(bytes, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]) {
        return Kind::Archive("zstd");
    }
    if let Some(what) = packed::kind(bytes) {
        return Kind::Packed(what);
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

/// Format of a file that is too large to be read, if its head and its name show that it is data.
pub(super) fn data_by_head(name: &str, bytes: &[u8]) -> Option<&'static str> {
    let base = basename(name).to_ascii_lowercase();
    let ending = base.rsplit_once('.').map_or("", |(_, ending)| ending);
    match kind(bytes) {
        _ if is_program(name, bytes) => None,
        Kind::Inert(what) => Some(what),
        Kind::Text | Kind::Unknown if DATA_ENDINGS.contains(&ending) => Some("data"),
        _ => None,
    }
}

/// True when a program or an archive follows the first bytes of unknown data.
pub(super) fn hides_a_program(bytes: &[u8]) -> bool {
    let is_program = |kind: &Kind| matches!(kind, Kind::Archive(_) | Kind::Executable(_));
    let magics: Vec<&[u8]> =
        MAGIC.iter().filter(|(_, kind)| is_program(kind)).map(|(magic, _)| *magic).collect();
    packed::hides(bytes, &magics)
}

/// All languages that a text may be in: by its name, by its first line, and by its contents.
pub(super) fn languages(name: &str, text: &str) -> Vec<Language> {
    let mut out = Vec::new();
    let base = basename(name).to_ascii_lowercase();
    let mut add = |language: Option<Language>| {
        if let Some(language) = language.filter(|l| !out.contains(l)) {
            out.push(language);
        }
    };
    add(by_name(&base));
    if is_hook(name) && !text.starts_with("#!") {
        // git runs a hook without a first line with the shell.
        add(Some(Language::Bash));
    }
    add(by_first_line(&base, text).and_then(Result::ok));
    let extension = base.rsplit_once('.').map_or("", |(_, e)| e);
    // If the name says nothing, or says data, the contents decide.
    if out.is_empty()
        // A Python package's metadata, whose first line is valid code in neither language.
        && !text.starts_with("Metadata-Version: ")
        // A name that indicates another language takes precedence.
        && unread(name, text).is_empty()
        && !matches!(
            extension,
            "md" | "rst" | "html" | "htm" | "csv" | "tsv" | "svg" | "css" | "xml" | "po" | "lock" | "map"
        )
    {
        out.extend(by_content(text));
    }
    out
}

/// True when git runs a file by its name.
fn is_hook(name: &str) -> bool {
    let base = basename(name);
    let above = name.strip_suffix(base).unwrap_or("");
    !base.contains('.') && HOOKS.iter().any(|folder| above.ends_with(folder))
}

/// True when a file's name or first line says that an interpreter, or a tool that takes commands from it,
/// reads it.
pub(super) fn is_program(name: &str, bytes: &[u8]) -> bool {
    let base = basename(name).to_ascii_lowercase();
    bytes.starts_with(b"#!")
        || by_name(&base).is_some()
        || is_hook(name)
        || super::manifest::is_named(name)
        || super::fields::is_named(name)
        || unread::by_name(&base, &String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_LEN)])).is_some()
}

/// True when a program named by its name or first line may run it line by line, continuing after invalid
/// lines.
pub(super) fn goes_line_by_line(name: &str, bytes: &[u8]) -> bool {
    bytes.starts_with(b"#!")
        || !matches!(
            by_name(&basename(name).to_ascii_lowercase()),
            Some(
                Language::Python
                    | Language::JavaScript
                    | Language::TypeScript
                    | Language::Go
                    | Language::Rust
                    | Language::C
                    | Language::Cpp
                    | Language::Java
            )
        )
}

/// Languages indicated by its name or its first line that the guard does not read.
pub(super) fn unread(name: &str, text: &str) -> Vec<String> {
    let base = basename(name).to_ascii_lowercase();
    let mut out = Vec::new();
    if by_name(&base).is_none() {
        let head = &text[..text.floor_char_boundary(HEAD_LEN)];
        out.extend(unread::by_name(&base, head).map(str::to_owned));
    }
    if let Some(Err(program)) = by_first_line(&base, text)
        && !out.contains(&program)
    {
        out.push(program);
    }
    out
}

/// True for files that a shell reads when it starts or ends, or that are sourced by convention.
fn is_start_file(base: &str) -> bool {
    let hidden = base.strip_prefix('.').unwrap_or("");
    let ends = START_ENDINGS.iter().any(|end| hidden.ends_with(end));
    // Copies and templates of scripts, and files of one particular shell.
    let stem = COPIES.iter().find_map(|end| base.strip_suffix(end)).unwrap_or("");
    let copy = [".sh", ".bash", ".zsh", ".ksh"].iter().any(|end| stem.ends_with(end));
    ends && !unread::is_named(base) && !SETTINGS.contains(&base)
        || copy
        || base.contains(".bash")
        || SHELL_NAMES.contains(&base)
}

fn by_name(base: &str) -> Option<Language> {
    let extension = base.rsplit_once('.').map_or("", |(_, e)| e);
    Some(match (base, extension) {
        (_, "py" | "pyw" | "pyi" | "pyx" | "pth") => Language::Python,
        (_, "sh" | "bash" | "zsh" | "ksh" | "command") | (_, "zsh-theme" | "ebuild" | "eclass" | "envrc") => {
            Language::Bash
        }
        (".pdbrc" | ".pythonrc" | ".pystartup", _) => Language::Python,
        _ if is_start_file(base) => Language::Bash,
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

/// Interpreter in the first line: a language, or the name of a program whose language is not read.
fn by_first_line(base: &str, text: &str) -> Option<Result<Language, String>> {
    let first = text.lines().next()?.strip_prefix("#!")?;
    // An attribute of Rust, in files where that is possible.
    if first.starts_with('[') && base.ends_with(".rs") {
        return None;
    }
    let program = first
        .split_whitespace()
        .map(basename)
        .find(|w| !w.starts_with('-') && *w != "env" && !w.contains('='))?;
    let known = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    Some(Ok(match known {
        // uv and pipx fetch a script's dependencies, and run it like Python.
        "python" | "pypy" | "uv" | "pipx" => Language::Python,
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" => Language::Bash,
        "node" | "nodejs" | "bun" | "zx" => Language::JavaScript,
        "deno" | "ts-node" | "ts-node-esm" | "tsx" | "npx" | "bunx" => Language::TypeScript,
        "pwsh" | "powershell" => Language::PowerShell,
        _ => return Some(Err(program.chars().take(MAX_PROGRAM_CHARS).collect())),
    }))
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
        && crate::python::is_sound(text)
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

/// True for files that an installer, a test runner or an interpreter loads by itself.
pub(crate) fn runs_by_itself(name: &str) -> bool {
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
