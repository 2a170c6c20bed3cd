//! Changes of a run in an answer: paths and a diff within their budgets, without the caches of tools.

use hotcell_report::{Commit, RunReport};
use hotcell_sandbox::text::counted;
use hotcell_server::Requested;
use hotcell_state::report::printable;
use serde_json::{Map, Value, json};

use crate::parameters::in_arguments;
use crate::text::{barred, beginning};

/// Budget for changed paths, in characters.
const MAX_CHANGES_CHARS: usize = 2_000;

/// Budget for a diff, in characters.
const MAX_DIFF_CHARS: usize = 5_000;

/// Maximum number of conflicts shown.
const MAX_CONFLICTS: usize = 20;

/// Folders and files of tools' caches, whose changes are not reported.
const CACHES: [&str; 7] = [
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".nyc_output",
    ".vitest-cache",
];

/// Whether a changed path belongs to a tool's cache.
fn is_cache(path: &str) -> bool {
    path.split('/').any(|part| CACHES.contains(&part)) || path.ends_with(".pyc")
}

/// A unified diff without the sections of caches.
fn without_caches(diff: &str) -> String {
    let mut left_out = false;
    let lines = diff.split_inclusive('\n').filter(|line| {
        // Lines of a file's content begin with a mark.
        let bare = line.strip_prefix("# ").unwrap_or(line);
        if let Some((_, path)) = bare.strip_prefix("diff --git ").and_then(|names| names.rsplit_once(" b/")) {
            left_out = is_cache(path.trim_end().trim_end_matches('"'));
        }
        !left_out
    });
    lines.collect()
}

/// Cuts the changes in an answer: a budget of characters for the paths, and one for the diff.
pub(super) fn with_changes(outcome: &RunReport, fields: &mut Map<String, Value>) {
    for name in ["changes", "diff", "kept", "outputs"] {
        fields.shift_remove(name);
    }
    let rows: Vec<_> = outcome.changes.iter().flatten().filter(|row| !is_cache(&row.path)).collect();
    if !rows.is_empty() {
        let mut room = MAX_CHANGES_CHARS;
        let row = |row: &&hotcell_report::Change| {
            let mut row = json!(row);
            if row["marks"].as_array().is_some_and(Vec::is_empty)
                && let Value::Object(fields) = &mut row
            {
                fields.shift_remove("marks");
            }
            row
        };
        let fits = |row: &Value| {
            let cost = row.to_string().chars().count();
            room.checked_sub(cost).map(|rest| room = rest).is_some()
        };
        let shown: Vec<_> = rows.iter().map(row).take_while(fits).collect();
        if shown.len() < rows.len() {
            fields.insert("changes_omitted".into(), json!(rows.len() - shown.len()));
        }
        fields.insert("changes".into(), json!(shown));
    }
    if let Some(diff) = outcome.diff.as_deref().map(without_caches).filter(|diff| !diff.is_empty()) {
        let shown = &diff[..beginning(&diff, MAX_DIFF_CHARS)];
        if shown.len() < diff.len() {
            fields.insert("diff_omitted".into(), json!(diff.len() - shown.len()));
        }
        fields.insert("diff".into(), json!(shown));
    }
    if let Some(kept) = &outcome.kept {
        let mut kept = kept.clone();
        let omitted = [("conflicts_omitted", kept.conflicts.len()), ("left_omitted", kept.left.len())];
        kept.conflicts.truncate(MAX_CONFLICTS);
        kept.left.truncate(MAX_CONFLICTS);
        for left in &mut kept.left {
            left.why = in_arguments(&left.why);
        }
        let mut kept = json!(kept);
        for (name, all) in omitted.into_iter().filter(|(_, all)| *all > MAX_CONFLICTS) {
            kept[name] = json!(all - MAX_CONFLICTS);
        }
        if let Value::Object(fields) = &mut kept {
            fields.retain(|_, value| !value.as_array().is_some_and(Vec::is_empty));
        }
        fields.insert("kept".into(), kept);
    }
}

/// Line that counts the rows beyond those that are shown.
fn more_than(shown: usize, all: usize) -> String {
    if all > shown { format!("({} more)\n", all - shown) } else { String::new() }
}

/// Text about the changes: whether they were kept, their paths, and the diff.
pub(crate) fn words_of_changes(outcome: &RunReport, request: &Requested) -> String {
    // A file that was returned is not gone.
    let is_returned = |path: &str| {
        let files = outcome.outputs.iter().flat_map(|outputs| &outputs.files);
        outcome.kept.is_none() && files.into_iter().any(|file| file.path == path)
    };
    let rows = outcome.changes.iter().flatten();
    let rows: Vec<_> = rows.filter(|row| !is_cache(&row.path) && !is_returned(&row.path)).collect();
    let mut words = match &outcome.kept {
        Some(Commit { error: Some(error), conflicts, .. }) => {
            let more = more_than(MAX_CONFLICTS, conflicts.len());
            let conflicts = conflicts.iter().take(MAX_CONFLICTS);
            let conflicts: String =
                conflicts.map(|path| format!("changed by others: {}\n", printable(path))).collect();
            format!("its changes were not kept: {}\n{conflicts}{more}", printable(error))
        }
        Some(kept) => {
            let more = more_than(MAX_CONFLICTS, kept.left.len());
            let left = kept.left.iter().take(MAX_CONFLICTS);
            let left = left.map(|left| format!("left out: {}: {}\n", printable(&left.path), left.why));
            let all = outcome.changes.iter().flatten().count();
            let caches = match all - rows.len() {
                0 => String::new(),
                caches => format!(", {caches} of them in caches, which are not listed"),
            };
            let left: String = left.collect();
            let (paths, stay) =
                (counted(kept.done, "changed path"), if kept.done == 1 { "stays" } else { "stay" });
            format!("{paths} {stay} in the workspace{caches}\n{left}{more}")
        }
        None if rows.is_empty() => String::new(),
        None if request.scratch => {
            "its folder is gone, and with it these files; run_command in a workspace with keep: true leaves them\n"
                .to_owned()
        }
        None => format!("{}, gone now; keep: true leaves what changed\n", counted(rows.len(), "changed path")),
    };
    let mut room = MAX_CHANGES_CHARS / 2;
    for (at, row) in rows.iter().enumerate() {
        let kind = serde_json::to_value(row.kind).ok().and_then(|k| k.as_str().map(str::to_owned));
        let line = format!("{} {}\n", kind.unwrap_or_default(), printable(&row.path));
        let Some(rest) = room.checked_sub(line.chars().count()) else {
            words.push_str(&format!("({} more)\n", rows.len() - at));
            break;
        };
        room = rest;
        words.push_str(&line);
    }
    if let Some(diff) = outcome.diff.as_deref().map(without_caches).filter(|diff| !diff.is_empty()) {
        let shown = &diff[..beginning(&diff, MAX_DIFF_CHARS)];
        words.push_str(&barred(shown));
        if shown.len() < diff.len() {
            words.push_str(&format!("({} bytes of the diff are left out)\n", diff.len() - shown.len()));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_are_gone_are_counted_without_returned_files() {
        use hotcell_report::{Change, ChangeKind, OutputFile, Outputs};
        let of = |paths: &[&str], returned: &[&str], kept: Option<u64>| {
            let changes = paths.iter().map(|path| Change {
                path: (*path).to_owned(),
                kind: ChangeKind::Added,
                bytes: 1,
                marks: Vec::new(),
            });
            let files =
                returned.iter().map(|path| OutputFile { path: (*path).to_owned(), bytes: 1, to: None });
            let mut outcome = RunReport::without_a_run(hotcell_sandbox::Cause::Exited, "");
            outcome.changes = Some(changes.collect());
            outcome.outputs = Some(Outputs { files: files.collect(), ..Outputs::default() });
            outcome.kept = kept.map(|done| Commit { done, ..Commit::default() });
            outcome
        };
        let words = |outcome: &RunReport, scratch| {
            words_of_changes(outcome, &Requested { scratch, ..Requested::default() })
        };
        for (paths, returned, kept, scratch, want) in [
            (
                &["a", "b"][..],
                &["a"][..],
                None,
                true,
                "its folder is gone, and with it these files; run_command in a workspace with keep: true leaves them\nadded b\n",
            ),
            (&["a"], &["a"], None, true, ""),
            (&["a"], &[], None, false, "1 changed path, gone now; keep: true leaves what changed\nadded a\n"),
            (
                &["a", "b", "c"],
                &["a"],
                None,
                false,
                "2 changed paths, gone now; keep: true leaves what changed\nadded b\nadded c\n",
            ),
            (&["a"], &["a"], Some(1), false, "1 changed path stays in the workspace\nadded a\n"),
            (&["a", "b"], &[], Some(2), false, "2 changed paths stay in the workspace\nadded a\nadded b\n"),
        ] {
            assert_eq!(words(&of(paths, returned, kept), scratch), want, "{paths:?} {returned:?}");
        }
    }

    #[test]
    fn caches_are_no_changes() {
        for (path, want) in [
            ("__pycache__/a.cpython-311.pyc", true),
            ("src/.pytest_cache/v/x", true),
            ("cache.py", false),
            ("a/pycache/x", false),
        ] {
            assert_eq!(is_cache(path), want, "{path}");
        }
    }

    #[test]
    fn diffs_leave_out_caches() {
        let of = |path: &str| {
            format!(
                "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+diff --git x b/.pytest_cache\n"
            )
        };
        let (good, cache) = (of("src/a.py"), of("a/__pycache__/b.pyc"));
        for (diff, want) in [
            (String::new(), String::new()),
            (good.clone(), good.clone()),
            (cache.clone(), String::new()),
            (format!("{cache}{good}{cache}"), good.clone()),
            // The header of a part that is not text stands behind `# `.
            (format!("{good}# {cache}# b/x: 9 bytes\n{good}"), format!("{good}{good}")),
            (
                format!("diff --git \"a/\\t.pyc\" \"b/\\t.pyc\"\nx\n{good}"),
                format!("diff --git \"a/\\t.pyc\" \"b/\\t.pyc\"\nx\n{good}"),
            ),
        ] {
            assert_eq!(without_caches(&diff), want, "{diff}");
        }
    }
}
