//! Changes as text, in the format of `git apply`.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use similar::TextDiff;

use crate::changes::{Change, What};
use crate::folder::{Kind, Node};
use crate::marks::Marks;
use crate::protected::is_ignorable;
use crate::stack::Stack;

mod opaque;

use opaque::Opaque;

/// Maximum size in bytes of a file that is shown; larger ones are only reported as changed.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Time limit for comparing one file; after it, larger pieces are shown as changed.
const COMPARE_TIMEOUT: Duration = Duration::from_millis(500);

/// Formats changes as a unified diff of about `most` bytes at most, followed by the names of all changes that
/// did not fit. Lines that begin with `#` are for people: sizes, modes that git cannot express, and the
/// readable parts of files that are not text.
///
/// # Errors
/// When one of the views cannot be read.
pub fn diff(before: &Stack<'_>, after: &Stack<'_>, changes: &[Change], most: usize) -> io::Result<String> {
    let mut text = String::new();
    for (number, change) in changes.iter().enumerate() {
        if text.len() >= most {
            let cut = if text.len() > most { number.checked_sub(1) } else { None };
            text.truncate(floor(&text, most));
            not_shown(&mut text, cut.map(|last| &changes[last]), &changes[number..]);
            break;
        }
        one(&mut text, before, after, change)?;
    }
    Ok(text)
}

/// Names all changes that did not fit, however many: a reviewer would overlook a change that is not named.
fn not_shown(text: &mut String, cut: Option<&Change>, changes: &[Change]) {
    text.push('\n');
    if let Some(change) = cut {
        text.push_str(&format!("# cut short: {}\n", quoted("", &change.path)));
    }
    text.push_str(&format!("# {} more changes are not shown\n", changes.len()));
    for change in changes {
        let marks = Marks::of(change).words().join(", ");
        let marks = if marks.is_empty() { marks } else { format!(" ({marks})") };
        text.push_str(&format!("# not shown: {}{marks}\n", quoted("", &change.path)));
    }
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn one(text: &mut String, before: &Stack<'_>, after: &Stack<'_>, change: &Change) -> io::Result<()> {
    let old = side(before, &change.path, change.before)?;
    let new = side(after, &change.path, change.after)?;
    if change.what == What::TypeChanged {
        // Like git: a deletion, then an addition.
        section(text, &change.path, (change.before, old), (None, Side::Nothing));
        section(text, &change.path, (None, Side::Nothing), (change.after, new));
    } else {
        section(text, &change.path, (change.before, old), (change.after, new));
    }
    Ok(())
}

/// Content of one side of a diff.
enum Side {
    Nothing,
    Text(String),
    Opaque(Opaque),
}

fn side(stack: &Stack<'_>, path: &Path, node: Option<Node>) -> io::Result<Side> {
    Ok(match node {
        Some(node) if node.kind == Kind::File => {
            let mut bytes = Vec::new();
            match stack.file(path) {
                // The owner of the original removed the read permission.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    return Ok(Side::Opaque(Opaque::unread(node.bytes)));
                }
                file => file?.take(MAX_FILE_BYTES.min(node.bytes)).read_to_end(&mut bytes)?,
            };
            if node.bytes > MAX_FILE_BYTES {
                return Ok(Side::Opaque(Opaque::of(&bytes, node.bytes)));
            }
            match String::from_utf8(bytes) {
                Ok(text) if !text.contains('\0') => Side::Text(text),
                Ok(text) => Side::Opaque(Opaque::of(text.as_bytes(), node.bytes)),
                Err(error) => Side::Opaque(Opaque::of(error.as_bytes(), node.bytes)),
            }
        }
        Some(node) if node.kind == Kind::Link => Side::Text(stack.link(path)?.to_string_lossy().into_owned()),
        _ => Side::Nothing,
    })
}

type Half = (Option<Node>, Side);

fn section(text: &mut String, path: &Path, (was, old): Half, (is, new): Half) {
    let of = |node: Option<Node>, kind: Kind| node.is_some_and(|node| node.kind == kind);
    let [a, b] = ["a/", "b/"].map(|side| quoted(side, path));
    if of(is, Kind::Special) {
        text.push_str(&format!("# {b} is a device, a pipe or a socket\n"));
    }
    if of(was, Kind::Folder) && of(is, Kind::Folder) {
        modes(text, &b, was, is);
    }
    let shown = [was, is].into_iter().flatten().any(|node| matches!(node.kind, Kind::File | Kind::Link));
    if !shown {
        return; // git does not track folders
    }
    let mode = |node: Node| match node.kind {
        Kind::Link => "120000",
        _ if node.mode & 0o100 != 0 => "100755",
        _ => "100644",
    };
    let start = text.len();
    text.push_str(&format!("diff --git {a} {b}\n"));
    let header = text.len();
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
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
        (Side::Opaque(old), Side::Opaque(new)) if old.is_same(&new) => {}
        (old @ Side::Opaque(_), new) | (old, new @ Side::Opaque(_)) => {
            // Git takes no part without its contents, and refuses all others with it: this one is for people.
            let head = text.split_off(start);
            head.lines().for_each(|line| text.push_str(&format!("# {line}\n")));
            text.push_str(&format!("# Binary files {a} and {b} differ\n"));
            unlike(text, (&a, was, old), (&b, is, new));
        }
        (old, new) => {
            let words = |side| if let Side::Text(text) = side { text } else { String::new() };
            let (old, new) = (words(old), words(new));
            if old != new {
                text.push_str(&format!("--- {a}\n+++ {b}\n"));
                hunks(&old, &new, |line, ended| {
                    text.push_str(line);
                    // Git ends a line at a newline only.
                    text.push_str(if ended { "\n" } else { "\n\\ No newline at end of file\n" });
                });
            }
        }
    }
    if text.len() == header {
        // Git rejects a section without a change that it knows.
        text.truncate(start);
    }
    modes(text, &b, was, is);
}

/// Compares two texts, and passes each line of the hunks with whether it ends with a newline.
fn hunks(old: &str, new: &str, mut line: impl FnMut(&str, bool)) {
    let mut config = TextDiff::configure();
    let lines = [old, new].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let compared = config.timeout(COMPARE_TIMEOUT).diff_slices(&lines[0], &lines[1]);
    for hunk in compared.unified_diff().context_radius(3).iter_hunks() {
        line(&hunk.header().to_string(), true);
        for change in hunk.iter_changes() {
            let ended = change.value().ends_with('\n');
            line(&format!("{}{}", change.tag(), change.value().trim_end_matches('\n')), ended);
        }
    }
}

/// Shows the readable parts of two sides of which at least one is not text.
fn unlike(
    text: &mut String,
    (a, was, old): (&str, Option<Node>, Side),
    (b, is, new): (&str, Option<Node>, Side),
) {
    let executable = |node: Option<Node>| node.is_some_and(|node| node.mode & 0o111 != 0);
    for (name, node, side) in [(a, was, &old), (b, is, &new)] {
        if let Side::Opaque(side) = side {
            opaque::describe(text, name, side, executable(node));
        }
    }
    let readable = |side: &Side| match side {
        Side::Nothing => Some(String::new()),
        Side::Text(text) => Some(opaque::written_out(text.as_bytes())),
        Side::Opaque(side) => side.whole().map(str::to_owned),
    };
    if let (Some(old), Some(new)) = (readable(&old), readable(&new)) {
        hunks(&old, &new, |line, _| text.push_str(&format!("# {}\n", opaque::cut(line))));
    }
}

/// Reports changed permission bits that git's two modes do not express.
fn modes(text: &mut String, name: &str, was: Option<Node>, is: Option<Node>) {
    let (Some(was), Some(is)) = (was, is) else { return };
    let bits = |node: Node| node.mode & 0o777;
    let told = was.kind != is.kind || was.kind == Kind::Link || (was.mode ^ is.mode) & 0o100 != 0;
    if !told && bits(was) != bits(is) {
        text.push_str(&format!("# {name}: permissions {:03o} become {:03o}\n", bits(was), bits(is)));
    }
}

/// A name in git's notation: quoted when it has control characters, quotes, backslashes or invisible
/// characters, or is not UTF-8.
fn quoted(side: &str, path: &Path) -> String {
    let name = path.as_os_str().as_bytes();
    let plain = |c: char| match c {
        '"' | '\\' => false,
        c if c.is_ascii() => !c.is_control(),
        c => c.is_alphanumeric() && !is_ignorable(c),
    };
    if let Ok(name) = std::str::from_utf8(name)
        && name.chars().all(plain)
    {
        return format!("{side}{name}");
    }
    let mut quoted = format!("\"{side}");
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
    fn diff_lines_end_at_newline_only() {
        let text = shown(&[(b"a", "1\n2\n")], &[(b"a", "1\r3\n2\r"), (b"b", "x")]);
        let want = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-1\n-2\n+1\r3\n+2\r\n\\ No newline at end of file\n\
            diff --git a/b b/b\nnew file mode 100644\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n";
        assert_eq!(text, want);
    }

    #[test]
    fn diff_quotes_name_bytes() {
        let text = shown(&[], &[(b"\xff\n\"", "1\n")]);
        assert!(text.contains("+++ \"b/\\377\\n\\\"\"\n"), "{text}");
    }

    #[test]
    fn binary_diff_shows_size_mode_and_lines() {
        let text = shown(&[(b"s.sh", "#!/bin/sh\necho 1\n")], &[(b"s.sh", "#!/bin/sh\necho \0 2\n")]);
        let want = "# diff --git a/s.sh b/s.sh\n# Binary files a/s.sh and b/s.sh differ\n\
            # b/s.sh: 19 bytes; \\x.. stands for bytes that are no text\n\
            # @@ -1,2 +1,2 @@\n#  #!/bin/sh\n# -echo 1\n# +echo \\x00 2\n";
        assert_eq!(text, want);
        let long = "x".repeat((1 << 20) + 1);
        let text = shown(&[], &[(b"long", &long)]);
        assert!(
            text.contains("# b/long: 1048577 bytes; it begins with\n# | xxx") && text.len() < 2000,
            "{text}"
        );
    }

    #[test]
    fn parts_that_git_cannot_take_are_comments() {
        let long = "y".repeat((1 << 20) + 1);
        for odd in ["a\0b\n", "\u{89}PNG\0\0\0", long.as_str()] {
            for (old, new) in [("", odd), (odd, "text\n"), (odd, "")] {
                let old: Vec<(&[u8], &str)> =
                    [(&b"o"[..], old)].into_iter().filter(|(_, text)| !text.is_empty()).collect();
                let text = shown(&old, &[(b"a", "1\n"), (b"o", new), (b"z", "2\n")]);
                let of_git: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
                let part = |name: &str, line: &str| {
                    format!(
                        "diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+{line}"
                    )
                };
                assert_eq!(of_git.join("\n"), [part("a", "1"), part("z", "2")].join("\n"), "{text}");
                assert!(
                    text.contains("# diff --git a/o b/o\n") && text.contains("# Binary files "),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn files_beyond_diff_limit_are_named() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", ".c"] {
            std::fs::write(dir.path().join(name), "1\n").unwrap();
        }
        let empty = tempfile::tempdir().unwrap();
        let [base, upper] = [&empty, &dir].map(|dir| Folder::open(dir.path()).unwrap());
        let (before, layer) = (Stack::new([], &base), Layer::over(&upper));
        let found = changes(&before, &[layer], &[], 99).unwrap();
        let text = diff(&before, &before.with(layer), &found, 10).unwrap();
        assert!(text.contains("# 2 more changes are not shown\n# not shown: a\n# not shown: b\n"), "{text}");
    }

    #[test]
    fn diff_names_every_changed_file() {
        let names: Vec<String> = (0..1502).map(|n| format!("f{n:04}")).collect();
        let files: Vec<(&[u8], &str)> = names.iter().map(|name| (name.as_bytes(), "1\n")).collect();
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in &files {
            std::fs::write(dir.path().join(OsStr::from_bytes(name)), text).unwrap();
        }
        let empty = tempfile::tempdir().unwrap();
        let [base, upper] = [&empty, &dir].map(|dir| Folder::open(dir.path()).unwrap());
        let (before, layer) = (Stack::new([], &base), Layer::over(&upper));
        let found = changes(&before, &[layer], &[], 9999).unwrap();
        for most in [0, 10, 1000] {
            let text = diff(&before, &before.with(layer), &found, most).unwrap();
            let told = |name: &String| {
                let forms = ["/", "# cut short: ", "# not shown: "];
                forms.iter().any(|form| text.contains(&format!("{form}{name}\n")))
            };
            assert!(names.iter().all(told), "{most}");
        }
    }

    #[test]
    fn diff_reports_changed_permissions() {
        let node = |kind, mode| Some(Node { kind, mode, bytes: 0, names: 1, changed: (0, 0), owner: (0, 0) });
        let told = |was, is| {
            let mut text = String::new();
            section(&mut text, Path::new("x"), (was, Side::Nothing), (is, Side::Nothing));
            text
        };
        use Kind::{File, Folder, Special};
        for (was, is, want) in [
            (node(File, 0o644), node(File, 0o755), "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"),
            (node(File, 0o644), node(File, 0o655), "# b/x: permissions 644 become 655\n"),
            (node(Folder, 0o755), node(Folder, 0o700), "# b/x: permissions 755 become 700\n"),
            (None, node(Special, 0o644), "# b/x is a device, a pipe or a socket\n"),
            (None, node(Folder, 0o755), ""),
        ] {
            assert_eq!(told(was, is), want);
        }
    }
}
