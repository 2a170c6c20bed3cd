//! The changes of a run in its workspace, for people.

use hotcell_report::{Commit, Mark, RunReport};
use hotcell_sandbox::Bytes;
use std::collections::BTreeMap;

use crate::args::Common;
use crate::exit;
use crate::render::diff;
use crate::terminal::notes;

/// Maximum number of lines about omissions, and about changes to look at; further ones are only counted.
const MAX_LINES: usize = 8;

/// Prints the diff, and reports the changes taken over; returns an exit status if that failed.
pub fn show(outcome: &RunReport, common: &Common) -> Option<u8> {
    let mut status = None;
    if !common.json
        && let Some(diff) = outcome.diff.as_deref()
        && let Err(error) = diff::print(diff)
    {
        status = Some(exit::of_write_error(&error));
    }
    if !common.json
        && !common.quiet
        && let Some(diff) = outcome.diff.as_deref()
    {
        let parts = diff::comments(diff);
        list(parts.into_iter().map(|name| format!("git apply leaves out: {name} (a comment in the diff)")));
    }
    if let Some(kept) = outcome.kept.as_ref() {
        if kept.error.is_some() {
            status = Some(exit::REFUSED);
        }
        if !common.json {
            if let Some(error) = &kept.error {
                notes::say(format!("not kept: {error}"));
                list(kept.conflicts.iter().map(|path| format!("conflict: {path}")));
            }
            left_out(kept);
        }
    }
    let Some(commit) = outcome.commit.as_ref() else {
        if outcome.diff.is_some() && !common.json && !common.quiet {
            let changes = outcome.changes.iter().flatten();
            look_at(changes.map(|change| (change.path.as_str(), change.marks.as_slice())));
        }
        return status;
    };
    if commit.error.is_some() {
        status = Some(exit::REFUSED);
    }
    if !common.json {
        committed(commit, common.quiet);
    }
    status
}

/// Reports the changes that a commit took over and left out, and those that a person should look at.
pub fn committed(commit: &Commit, quiet: bool) {
    if let Some(error) = &commit.error {
        notes::say(format!("not taken over: {error}"));
        list(commit.conflicts.iter().map(|path| format!("conflict: {path}")));
    } else if !quiet {
        let paths = commit.done;
        notes::say(format!("taken over: {paths} {}", if paths == 1 { "path" } else { "paths" }));
    }
    left_out(commit);
    if !quiet {
        look_at(commit.marked.iter().map(|one| (one.path.as_str(), one.marks.as_slice())));
    }
}

/// Reports the files that were copied out; returns the exit status, which is that of a refusal if the run succeeded and some were not.
pub fn copied(outcome: &RunReport, common: &Common, code: u8) -> u8 {
    let Some(outputs) = &outcome.outputs else { return code };
    if !common.json {
        let bytes: u64 = outputs.files.iter().map(|file| file.bytes).sum();
        if !common.quiet {
            let files = outputs.files.len();
            let word = if files == 1 { "file" } else { "files" };
            notes::say(format!("copied out: {files} {word}, {}", Bytes(bytes)));
        }
        list(outputs.left.iter().map(|left| format!("not copied out: {}: {}", left.path, left.why)));
    }
    if code == 0 && !outputs.left.is_empty() { exit::REFUSED } else { code }
}

fn left_out(commit: &Commit) {
    list(commit.left.iter().map(|left| format!("left out: {}: {}", left.path, left.why)));
}

/// Reports entries that are new and hidden, newly executable, links, or have other permissions.
pub fn look_at<'a>(marked: impl Iterator<Item = (&'a str, &'a [Mark])>) {
    list(lines(marked).into_iter());
}

/// The lines of that report. Paths that are merely hidden, below one hidden folder, share a line.
fn lines<'a>(marked: impl Iterator<Item = (&'a str, &'a [Mark])>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut hidden: BTreeMap<&str, u64> = BTreeMap::new();
    for (path, marks) in marked {
        let has = |mark| marks.contains(&mark);
        let words = match (has(Mark::Hidden), has(Mark::Executable), has(Mark::Link), has(Mark::Mode)) {
            (true, false, false, _) => {
                *hidden.entry(around(path)).or_default() += 1;
                continue;
            }
            (true, true, ..) => "new hidden executable",
            (false, true, _, false) => "new executable",
            (false, true, _, true) => "executable now",
            (true, _, true, _) => "new hidden link",
            (false, _, true, _) => "new link",
            (.., true) => "other permissions",
            _ => continue,
        };
        lines.push(format!("{words}: {path}"));
    }
    lines.extend(hidden.into_iter().map(|(path, paths)| match paths {
        1 => format!("new hidden: {path}"),
        paths => format!("new hidden: {path} ({paths} paths)"),
    }));
    lines
}

/// The part of a path up to its first hidden component.
fn around(path: &str) -> &str {
    let start = if path.starts_with('.') { Some(0) } else { path.find("/.").map(|at| at + 1) };
    let end = start.and_then(|start| path[start..].find('/').map(|at| start + at));
    &path[..end.unwrap_or(path.len())]
}

/// Prints the first lines, and the number of the others.
fn list(lines: impl ExactSizeIterator<Item = String>) {
    let all = lines.len();
    lines.take(MAX_LINES).for_each(notes::say);
    if all > MAX_LINES {
        notes::say(format!("{} more; --json lists them", all - MAX_LINES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_paths_are_summarised_by_folder() {
        use Mark::{Executable, Hidden, Link, Mode};
        let rows: [(&str, &[Mark]); 8] = [
            ("a", &[]),
            (".cache", &[Hidden]),
            (".cache/x", &[Hidden]),
            ("b/.c", &[Hidden]),
            (".cache/run", &[Hidden, Executable]),
            ("s.sh", &[Executable, Mode]),
            ("l", &[Link]),
            ("m", &[Mode]),
        ];
        let want = [
            "new hidden executable: .cache/run",
            "executable now: s.sh",
            "new link: l",
            "other permissions: m",
            "new hidden: .cache (2 paths)",
            "new hidden: b/.c",
        ];
        assert_eq!(lines(rows.into_iter()), want);
    }
}
