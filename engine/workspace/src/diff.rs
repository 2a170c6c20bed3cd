//! Changes as text, in the form that `git apply` reads.

use std::fmt::Write;
use std::io::{self, Read};
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
            stack.file(path)?.take(LONGEST).read_to_end(&mut bytes)?;
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
                let compared = config.timeout(PATIENCE).diff_lines(&old, &new);
                text.push_str(&compared.unified_diff().context_radius(3).header(&a, &b).to_string());
            }
        }
    }
}

/// A name as git writes it: quoted when it has control characters, quotes or backslashes.
fn quoted(side: &str, path: &Path) -> String {
    let name = format!("{side}/{}", path.to_string_lossy());
    if !name.chars().any(|c| c.is_control() || c == '"' || c == '\\') {
        return name;
    }
    let mut quoted = String::from('"');
    for c in name.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                for byte in c.to_string().bytes() {
                    quoted.push_str(&format!("\\{byte:03o}"));
                }
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
