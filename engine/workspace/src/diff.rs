//! Changes as text, in the form that `git apply` reads.

use std::fmt::Write;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use similar::TextDiff;

use crate::changes::{Change, What};
use crate::folder::{Kind, Node};
use crate::stack::Stack;

/// Larger files are told as changed, not shown.
const LONGEST: u64 = 1 << 20;
/// How long one file's comparison may take; then it is shown in larger pieces.
const PATIENCE: Duration = Duration::from_millis(500);

/// Shows changes as a unified diff, at most `most` bytes of it; what is left out is said at the end.
///
/// # Errors
/// What the system says.
pub fn diff(before: &Stack<'_>, after: &Stack<'_>, changes: &[Change], most: usize) -> io::Result<String> {
    let mut text = String::new();
    for (number, change) in changes.iter().enumerate() {
        if text.len() >= most {
            let left = changes.len() - number;
            text.truncate(floor(&text, most));
            write!(text, "\n# {left} more changes are not shown\n").map_err(io::Error::other)?;
            break;
        }
        one(&mut text, before, after, change)?;
    }
    Ok(text)
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn one(text: &mut String, before: &Stack<'_>, after: &Stack<'_>, change: &Change) -> io::Result<()> {
    let old = side(before, &change.path, change.before)?;
    let new = side(after, &change.path, change.after)?;
    if change.what == What::TypeChanged {
        // As git does: gone, then new.
        section(text, &change.path, (change.before, old), (None, Side::Nothing));
        section(text, &change.path, (None, Side::Nothing), (change.after, new));
    } else {
        section(text, &change.path, (change.before, old), (change.after, new));
    }
    Ok(())
}

/// What a diff shows of one side.
enum Side {
    Nothing,
    Text(String),
    Binary,
}

fn side(stack: &Stack<'_>, path: &Path, node: Option<Node>) -> io::Result<Side> {
    Ok(match node {
        Some(node) if node.kind == Kind::File && node.bytes > LONGEST => Side::Binary,
        Some(node) if node.kind == Kind::File => {
            let mut bytes = Vec::new();
            match stack.file(path) {
                // The original's owner has taken the right to read it away.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(Side::Binary),
                file => file?.take(LONGEST).read_to_end(&mut bytes)?,
            };
            match String::from_utf8(bytes) {
                Ok(text) if !text.contains('\0') => Side::Text(text),
                _ => Side::Binary,
            }
        }
        Some(node) if node.kind == Kind::Link => Side::Text(stack.link(path)?.to_string_lossy().into_owned()),
        _ => Side::Nothing,
    })
}

type Half = (Option<Node>, Side);

fn section(text: &mut String, path: &Path, (was, old): Half, (is, new): Half) {
    let shown = [was, is].into_iter().flatten().any(|node| matches!(node.kind, Kind::File | Kind::Link));
    if !shown {
        return; // git knows no folders
    }
    let [a, b] = ["a", "b"].map(|side| quoted(side, path));
    let mode = |node: Node| match node.kind {
        Kind::Link => "120000",
        _ if node.mode & 0o100 != 0 => "100755",
        _ => "100644",
    };
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!("diff --git {a} {b}"));
    match (was.map(mode), is.map(mode)) {
        (None, Some(mode)) => line(format!("new file mode {mode}")),
        (Some(mode), None) => line(format!("deleted file mode {mode}")),
        (Some(old), Some(new)) if old != new => {
            line(format!("old mode {old}"));
            line(format!("new mode {new}"));
        }
        _ => {}
    }
    let name = |node: Option<Node>, name: &str| {
        if node.is_some() { name.to_owned() } else { "/dev/null".to_owned() }
    };
    let (a, b) = (name(was, &a), name(is, &b));
    match (old, new) {
        (Side::Binary, _) | (_, Side::Binary) => line(format!("Binary files {a} and {b} differ")),
        (old, new) => {
            let words = |side| if let Side::Text(text) = side { text } else { String::new() };
            let (old, new) = (words(old), words(new));
            if old != new {
                let mut config = TextDiff::configure();
                let lines = [&old, &new].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
                let compared = config.timeout(PATIENCE).diff_slices(&lines[0], &lines[1]);
                text.push_str(&format!("--- {a}\n+++ {b}\n"));
                for hunk in compared.unified_diff().context_radius(3).iter_hunks() {
                    text.push_str(&format!("{}\n", hunk.header()));
                    for change in hunk.iter_changes() {
                        text.push_str(&format!("{}{}", change.tag(), change.value()));
                        // Only this ends a line for git, whatever else does elsewhere.
                        if !change.value().ends_with('\n') {
                            text.push_str("\n\\ No newline at end of file\n");
                        }
                    }
                }
            }
        }
    }
}

/// A name as git writes it: quoted when it has control characters, quotes, backslashes, or is no text.
fn quoted(side: &str, path: &Path) -> String {
    let name = path.as_os_str().as_bytes();
    if let Ok(name) = std::str::from_utf8(name)
        && !name.chars().any(|c| c.is_control() || c == '"' || c == '\\')
    {
        return format!("{side}/{name}");
    }
    let mut quoted = format!("\"{side}/");
    for byte in name {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            b'\n' => quoted.push_str("\\n"),
            b'\t' => quoted.push_str("\\t"),
            b' '..=b'~' => quoted.push(char::from(*byte)),
            byte => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::changes;
    use crate::folder::Folder;
    use crate::stack::Layer;
    use std::ffi::OsStr;

    fn shown(old: &[(&[u8], &str)], new: &[(&[u8], &str)]) -> String {
        let dirs = [old, new].map(|files| {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in files {
                std::fs::write(dir.path().join(OsStr::from_bytes(name)), text).unwrap();
            }
            dir
        });
        let [base, upper] = dirs.each_ref().map(|dir| Folder::open(dir.path()).unwrap());
        let (before, layer) = (Stack::new([], &base), Layer::over(&upper));
        let found = changes(&before, &[layer], &[], 99).unwrap();
        diff(&before, &before.with(layer), &found, 1 << 20).unwrap()
    }

    #[test]
    fn a_line_ends_with_a_newline_and_nothing_else() {
        let text = shown(&[(b"a", "1\n2\n")], &[(b"a", "1\r3\n2\r"), (b"b", "x")]);
        let want = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-1\n-2\n+1\r3\n+2\r\n\\ No newline at end of file\n\
            diff --git a/b b/b\nnew file mode 100644\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n";
        assert_eq!(text, want);
    }

    #[test]
    fn a_name_is_its_bytes() {
        let text = shown(&[], &[(b"\xff\n\"", "1\n")]);
        assert!(text.contains("+++ \"b/\\377\\n\\\"\"\n"), "{text}");
    }
}
