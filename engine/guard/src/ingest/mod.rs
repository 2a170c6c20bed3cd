//! From bytes to parts: the type of a file by its contents first and its name second, and every language that
//! it may be in.

mod archive;
mod bytecode;
pub(crate) mod cache;
mod charset;
mod cluster;
mod fields;
mod launcher;
mod makefile;
mod manifest;
mod mounts;
mod native;
mod notebook;
mod packed;
mod pickle;
mod sniff;
mod unread;
mod workflow;

pub(crate) use notebook::plain;
pub(crate) use sniff::runs_by_itself;

use crate::artifact::Artifact;
use crate::context::Cx;
use crate::executed::Executed;
use crate::language::Language;
use crate::report::PartState;
use crate::rules::basename;

/// Reads an artifact: as what it looks like, and as the languages that it will run as.
pub(crate) fn read_file(cx: &mut Cx<'_>, artifact: &Artifact) {
    let Artifact { name, bytes, language, executed, .. } = artifact;
    read(cx, name, bytes, 0);
    for executed in language.map(Executed::As).iter().chain(executed) {
        // A part set aside because nothing was known to execute it does not count as read.
        let is_told = |state: &PartState| {
            matches!(state, PartState::Parsed | PartState::Recovered | PartState::Skipped(_))
        };
        if cx.parts.iter().any(|p| p.path == *name && p.language == executed.name() && is_told(&p.state)) {
            continue;
        }
        match executed {
            Executed::As(language) if bytes.len() > cx.limits.file_bytes => {
                cx.note_part(name, language.name(), PartState::Skipped(too_large(cx)));
            }
            Executed::As(language) => {
                in_language(cx, name, *language, bytes, &charset::decode(bytes), false);
            }
            Executed::Unread(what) => {
                cx.note_part(name, what, PartState::Skipped(format!("{what} is not read, and runs it")));
            }
        }
    }
}

fn too_large(cx: &Cx<'_>) -> String {
    format!("larger than {} bytes", cx.limits.file_bytes)
}

/// Reads a file, and files inside it.
pub(crate) fn read(cx: &mut Cx<'_>, name: &str, bytes: &[u8], depth: usize) {
    if bytes.len() > cx.limits.file_bytes {
        let why = too_large(cx);
        match sniff::data_by_head(name, bytes) {
            Some(what) => cx.note_part(name, what, PartState::SetAside(why)),
            None => cx.note_part(name, "unknown", PartState::Skipped(why)),
        }
        return;
    }
    if cx.late() {
        cx.note_part(name, "unknown", PartState::Skipped(crate::context::LATE.to_owned()));
        return;
    }
    if depth == 0 {
        cx.bytes_seen = bytes.len() as u64;
    }
    if cx.is_in_archive() {
        cx.natives.declare(name, bytes);
    }
    let kind = sniff::kind(bytes);
    if !matches!(kind, sniff::Kind::Archive(_))
        && depth < archive::MAX_ARCHIVE_DEPTH
        && let Some(begin) = archive::zip::appended(bytes)
    {
        read(cx, name, &bytes[..begin], depth + 1);
        archive::zip::read(cx, name, bytes, begin, depth);
        return;
    }
    // If its name or first line says that it is executed, a magic number does not override that: both
    // readings are used. Only an archive or byte code in Python's own format is always run as such, by
    // programs that parse a file as a whole.
    let said = !matches!(kind, sniff::Kind::Text | sniff::Kind::Unknown) && sniff::is_program(name, bytes);
    if said && (sniff::goes_line_by_line(name, bytes) || !is_run_as_it_is(kind)) {
        text(cx, name, bytes);
    }
    match kind {
        sniff::Kind::Text => {
            text(cx, name, bytes);
            if pickle::is_unmarked(bytes) {
                pickle::read(cx, name, bytes);
            }
        }
        sniff::Kind::Inert(_) if said => {}
        sniff::Kind::Inert(what) => cx.note_part(name, what, PartState::Inert),
        // Headers without code that a loader could execute.
        sniff::Kind::Executable("elf") if !native::elf(bytes) => cx.note_part(name, "elf", PartState::Inert),
        sniff::Kind::Executable("pe") if !native::pe(bytes) => cx.note_part(name, "pe", PartState::Inert),
        sniff::Kind::Executable("mach-o") if !native::macho(bytes) => {
            cx.note_part(name, "mach-o", PartState::Inert);
        }
        sniff::Kind::Executable("pe") if launcher::is_known(bytes) => {
            cx.note_part(name, "launcher", PartState::Inert);
        }
        sniff::Kind::Executable(what) => {
            cx.note_part(name, what, PartState::BytesOnly);
            cx.part_fact("binary.executable");
            if cx.is_in_archive() {
                let part = cx.parts.len().saturating_sub(1);
                cx.natives.note(part, what, bytes);
            }
            if what == "pyc" {
                cache::note(cx, name, bytes);
                bytecode::read(cx, name, bytes);
            }
        }
        sniff::Kind::Archive(what) => archive::read(cx, name, what, bytes, depth),
        sniff::Kind::Packed(what) => {
            cx.note_part(name, what, PartState::SetAside(format!("{what} is not unpacked here")));
        }
        sniff::Kind::Pickle => pickle::read(cx, name, bytes),
        sniff::Kind::Numpy => match pickle::in_numpy(bytes) {
            Some(inner) => pickle::read(cx, name, inner),
            None => cx.note_part(name, "numpy", PartState::Inert),
        },
        // An interpreter that is given the file continues after strange bytes.
        sniff::Kind::Unknown if sniff::is_program(name, bytes) => text(cx, name, bytes),
        sniff::Kind::Unknown if pickle::is_unmarked(bytes) => pickle::read(cx, name, bytes),
        sniff::Kind::Unknown if archive::is_zlib(bytes) => archive::read(cx, name, "zlib", bytes, depth),
        sniff::Kind::Unknown if archive::is_lzma(bytes) => archive::read(cx, name, "lzma", bytes, depth),
        sniff::Kind::Unknown if sniff::hides_a_program(bytes) => {
            let why = "a program or an archive stands within its first bytes".to_owned();
            cx.note_part(name, "data", PartState::SetAside(why));
        }
        sniff::Kind::Unknown => cx.note_part(name, "data", PartState::Inert),
    }
}

/// True when a zip ends in these bytes, or has its end record there: interpreters run such a file as the
/// archive.
pub(crate) fn ends_in_a_zip(bytes: &[u8]) -> bool {
    archive::zip::has_end(bytes)
}

/// True when the beginning of a file is text.
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    matches!(sniff::kind(bytes), sniff::Kind::Text)
}

/// True when a file is marked as byte code of Python 3.7 or later.
pub(crate) fn is_byte_code(bytes: &[u8]) -> bool {
    bytecode::is_compared_by_flags(bytes)
}

/// True for types that an interpreter runs whatever the file's name: a zip, and byte code.
fn is_run_as_it_is(kind: sniff::Kind) -> bool {
    matches!(kind, sniff::Kind::Archive("zip") | sniff::Kind::Executable("pyc"))
}

fn text(cx: &mut Cx<'_>, name: &str, bytes: &[u8]) {
    let decoded = charset::decode(bytes);
    let install = sniff::runs_by_itself(name);
    // Tools that take commands from a file know only the UTF-8 mark.
    let raw = decoded.raw.as_ref().filter(|(form, _)| *form != charset::Form::Utf8Mark);
    let texts = || std::iter::once(&decoded.text).chain(raw.map(|(_, raw)| raw));
    let mut own = notebook::read(cx, name, &decoded.text);
    if !own {
        texts().for_each(|text| own |= manifest::read(cx, name, text));
    }
    texts().for_each(|text| fields::read(cx, name, text));
    // A file that a tool takes commands from may also be run by its first line.
    if own && !texts().any(|text| text.starts_with("#!")) {
        return;
    }
    let mut languages = Vec::new();
    for language in texts().flat_map(|text| sniff::languages(name, text)) {
        if !languages.contains(&language) {
            languages.push(language);
        }
    }
    if languages.is_empty() && !own {
        cx.read_part(name, Language::Text, &decoded.text, install);
        cx.metadata(name, &decoded.text);
    }
    for language in &languages {
        in_language(cx, name, *language, bytes, &decoded, install);
    }
    let mut unread: Vec<String> = texts().flat_map(|text| sniff::unread(name, text)).collect();
    unread.dedup();
    if !unread.is_empty() {
        cx.fingerprint(name, Language::Text, &decoded.text);
    }
    for language in unread {
        let why = format!("{language} is not read here");
        if crate::windows::is_looked_through(&language) {
            cx.read_as(name, &language, &decoded.text, install, |cx| {
                crate::windows::read(cx, &language, &decoded.text);
                PartState::SetAside(why)
            });
            continue;
        }
        cx.note_part(name, &language, PartState::SetAside(why));
    }
    if basename(name).eq_ignore_ascii_case(".pdbrc") {
        // In the debugger, a line that begins with `!` is a statement.
        let plain: String = decoded
            .text
            .lines()
            .map(|l| l.trim_start().trim_start_matches('!').trim_start())
            .fold(String::new(), |all, line| all + line + "\n");
        cx.read_part(name, Language::Python, &plain, true);
    }
    if basename(name).ends_with(".pth") {
        // The interpreter executes only lines that begin with `import`.
        for line in decoded.text.lines().filter(|l| l.starts_with("import ") || l.starts_with("import\t")) {
            cx.read_part(name, Language::Python, line, true);
        }
    }
}

/// Reads a text in a language, once for each way in which its interpreter may decode the bytes.
fn in_language(
    cx: &mut Cx<'_>,
    name: &str,
    language: Language,
    bytes: &[u8],
    decoded: &charset::Decoded,
    install: bool,
) {
    cx.fingerprint(name, language, &decoded.text);
    let declared =
        if language == Language::Python { charset::declared(bytes) } else { charset::Declared::default() };
    // If the declared encoding preserves ASCII letters, Python has no other reading.
    if declared.text.is_none() || declared.escapes || declared.odd.is_some() {
        cx.read_part(name, language, &decoded.text, install);
    }
    if let Some(text) = &declared.text {
        cx.read_part(name, language, &text.replace('\0', ""), install);
    }
    if let Some((form, raw)) = &decoded.raw
        && form.is_read_as_bytes(language)
    {
        cx.read_part(name, language, raw, install);
    }
    if declared.escapes {
        cx.part_fact("charset.escapes");
    }
    if let Some(charset) = declared.odd {
        cx.part_fact(if charset == "utf-7" { "charset.utf7" } else { "charset.unusual" });
    }
}

/// Contents of a page's scripts.
fn scripts(html: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let lower = html.to_ascii_lowercase();
    let mut from = 0;
    while let Some(open) = lower[from..].find("<script").map(|at| from + at) {
        let Some(begin) = lower[open..].find('>').map(|at| open + at + 1) else { break };
        let end = lower[begin..].find("</script").map_or(html.len(), |at| begin + at);
        if !html[begin..end].trim().is_empty() {
            out.push(&html[begin..end]);
        }
        from = end.max(begin);
        if end == html.len() {
            break;
        }
    }
    out
}
