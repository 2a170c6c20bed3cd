//! From bytes to parts: what a file is by its content first and its name second, and every language that it may be.

mod archive;
mod bytecode;
mod charset;
mod manifest;
mod native;
mod notebook;
mod pickle;
mod sniff;

pub(crate) use notebook::plain;

use crate::artifact::Artifact;
use crate::report::PartState;
use crate::rules::{Language, basename};
use crate::scan::Cx;

/// Reads an artifact: as what it looks like, and as what it will be run as.
pub(crate) fn read_file(cx: &mut Cx<'_>, artifact: &Artifact) {
    read(cx, &artifact.name, &artifact.bytes, 0);
    if let Some(language) = artifact.language
        && !cx
            .parts
            .iter()
            .any(|part| part.language == language.name() || matches!(part.state, PartState::Skipped(_)))
    {
        let text = charset::decode(&artifact.bytes).text.replace('\0', "");
        cx.read_part(&artifact.name, language, &text, false);
    }
}

/// Reads a file, and files inside it.
pub(crate) fn read(cx: &mut Cx<'_>, name: &str, bytes: &[u8], depth: usize) {
    if bytes.len() > cx.limits.file_bytes {
        cx.note_part(
            name,
            "unknown",
            PartState::Skipped(format!("larger than {} bytes", cx.limits.file_bytes)),
        );
        return;
    }
    if cx.late() {
        cx.note_part(name, "unknown", PartState::Skipped(crate::scan::LATE.to_owned()));
        return;
    }
    if depth == 0 {
        cx.bytes_seen = bytes.len() as u64;
    }
    let kind = sniff::kind(bytes);
    if !matches!(kind, sniff::Kind::Archive(_))
        && depth < archive::DEPTH
        && let Some(begin) = archive::zip::appended(bytes)
    {
        read(cx, name, &bytes[..begin], depth + 1);
        archive::zip::read(cx, name, bytes, begin, depth);
        return;
    }
    match kind {
        sniff::Kind::Text => {
            text(cx, name, bytes);
            if pickle::is_unmarked(bytes) {
                pickle::read(cx, name, bytes);
            }
        }
        sniff::Kind::Inert(what) => cx.note_part(name, what, PartState::Inert),
        // Headers without anything that a loader could execute.
        sniff::Kind::Executable("elf") if !native::elf(bytes) => cx.note_part(name, "elf", PartState::Inert),
        sniff::Kind::Executable("pe") if !native::pe(bytes) => cx.note_part(name, "pe", PartState::Inert),
        sniff::Kind::Executable("mach-o") if !native::macho(bytes) => {
            cx.note_part(name, "mach-o", PartState::Inert);
        }
        sniff::Kind::Executable(what) => {
            cx.note_part(name, what, PartState::BytesOnly);
            cx.part_fact("binary.executable");
            if what == "pyc" {
                bytecode::read(cx, name, bytes);
            }
        }
        sniff::Kind::Archive(what) => archive::read(cx, name, what, bytes, depth),
        sniff::Kind::Pickle => pickle::read(cx, name, bytes),
        sniff::Kind::Numpy => match pickle::in_numpy(bytes) {
            Some(inner) => pickle::read(cx, name, inner),
            None => cx.note_part(name, "numpy", PartState::Inert),
        },
        // An interpreter that is given the file reads on after strange bytes.
        sniff::Kind::Unknown if sniff::is_program(name, bytes) => text(cx, name, bytes),
        sniff::Kind::Unknown if pickle::is_unmarked(bytes) => pickle::read(cx, name, bytes),
        sniff::Kind::Unknown if archive::is_zlib(bytes) => archive::read(cx, name, "zlib", bytes, depth),
        sniff::Kind::Unknown => cx.note_part(name, "data", PartState::Inert),
    }
}

fn text(cx: &mut Cx<'_>, name: &str, bytes: &[u8]) {
    let mut decoded = charset::decode(bytes);
    // Shells drop these; nothing else has a use for them in a program.
    decoded.text.retain(|c| c != '\0');
    let install = sniff::runs_by_itself(name);
    if notebook::read(cx, name, &decoded.text) || manifest::read(cx, name, &decoded.text) {
        return;
    }
    let languages = sniff::languages(name, &decoded.text);
    if languages.is_empty() {
        cx.read_part(name, Language::Text, &decoded.text, install);
    }
    for language in languages {
        cx.read_part(name, language, &decoded.text, install);
    }
    if let Some(charset) = decoded.odd {
        cx.part_fact(if charset == "utf-7" { "charset.utf7" } else { "charset.unusual" });
    }
    if basename(name).ends_with(".pth") {
        // Only lines that begin with `import` are executed by the interpreter.
        for line in decoded.text.lines().filter(|l| l.starts_with("import ") || l.starts_with("import\t")) {
            cx.read_part(name, Language::Python, line, true);
        }
    }
}

/// The bodies of a page's scripts.
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
