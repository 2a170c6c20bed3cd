//! Answers of the tools: the types of their structured content.

use hotcell_report::RunReport;
use hotcell_testing::TestReport;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Value, json};

use crate::approvals::Needed;

/// Schema of a run of a program: its id and status, and the fields of `hotcell.outcome/1` when it has ended.
pub fn run() -> Schema {
    of_a_run(super::brief::<RunReport>(1))
}

/// Schema of a run of tests: its id and status, and the fields of `hotcell.test_report/1` when it has ended.
pub fn tests() -> Schema {
    let mut schema = of_a_run(super::brief::<TestReport>(2));
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        // The fields are described in run_command's answer.
        properties["outcome"] = json!({ "type": "object", "description": "What the run itself came to" });
        // Without verbose, only tests that did not pass, and only counts that are not 0.
        properties["cases"]["description"] =
            json!("Tests that are not good; with verbose all, bad ones first");
        for place in ["totals", "cases"] {
            let schema = &mut properties[place];
            let schema = if place == "cases" { &mut schema["items"] } else { schema };
            schema.as_object_mut().and_then(|fields| fields.shift_remove("required"));
        }
        let omitted = json!({ "type": "integer", "description": "Tests beyond those that are listed; bad ones come first" });
        properties.insert("cases_omitted".to_owned(), omitted);
    }
    schema
}

/// Schema of a run of either kind.
pub fn any() -> Schema {
    let mut schema = run();
    if let (Some(Value::Object(properties)), Value::Object(tests)) =
        (schema.get_mut("properties"), super::brief::<TestReport>(1).to_value()["properties"].take())
    {
        for (name, property) in tests {
            properties.entry(name).or_insert(property);
        }
        // The fields are described in the answers of the tools that start runs.
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            property.remove("description");
        }
    }
    schema
}

fn of_a_run(mut schema: Schema) -> Schema {
    let stream = json!({
        "type": "object",
        "description": "What it printed so far",
        "properties": {
            "text": { "type": "string", "description": "The beginning, or everything" },
            "tail": { "type": "string", "description": "The end, where something is left out between" },
            "base64": { "type": "string", "description": "The beginning of what is not text" },
            "bytes": { "type": "integer", "description": "All that was printed" },
            "truncated": { "type": "boolean", "description": "Whether something is left out" },
            "omitted": {
                "type": "object",
                "description": "What is left out: from this byte, that many; run_output reads it",
                "properties": { "offset": { "type": "integer" }, "bytes": { "type": "integer" } }
            },
            "uri": { "type": "string", "description": "The resource with all that is kept" }
        },
        "required": ["bytes", "truncated"]
    });
    let own = json!({
        "run_id": { "type": "string", "description": "The run's name for run_status, run_output and run_cancel" },
        "status": { "type": "string", "enum": ["queued", "running", "finished"] },
        "position": { "type": "integer", "description": "Its place in the queue; 1 is next" },
        "progress": {
            "type": "object",
            "properties": { "done": { "type": "integer" }, "total": { "type": ["integer", "null"] } }
        },
        "hint": { "type": "string", "description": "What to do next" },
        "changes_omitted": { "type": "integer", "description": "Changes beyond those that are listed; workspace_diff shows what was kept" },
        "diff_omitted": { "type": "integer", "description": "Bytes of the diff that are left out" },
        "denials_omitted": { "type": "integer", "description": "Denials beyond those that are listed" }
    });
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for stream_of in ["stdout", "stderr"] {
            properties.insert(stream_of.to_owned(), stream.clone());
        }
        if properties.contains_key("scan") {
            let about = "The guard's report; null where nothing was scanned";
            properties.insert("scan".to_owned(), json!({ "type": ["object", "null"], "description": about }));
        }
        if let Value::Object(own) = own {
            properties.extend(own);
        }
    }
    schema.insert("required".to_owned(), json!(["run_id", "status"]));
    schema
}

/// A piece of a run's output.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Read {
    /// The run.
    pub run_id: String,
    /// stdout or stderr
    pub stream: String,
    /// Offset of this piece: later than requested where bytes are no longer kept.
    pub offset: u64,
    /// Offset of the next piece.
    pub next_offset: u64,
    /// Number of bytes printed so far.
    pub bytes: u64,
    /// Whether the output is complete.
    pub end: bool,
    /// The piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The piece in base64, where it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// A workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Workspace {
    /// Id of the workspace for other tools.
    pub workspace_id: String,
    /// Number of files and folders in the workspace.
    pub files: u64,
    /// Size of the files in bytes.
    pub bytes: u64,
    /// Number of bytes that may still be written.
    pub bytes_left: u64,
    /// Whether the workspace was removed.
    pub removed: bool,
    /// Folder of the host that the workspace shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Names of the snapshots, the oldest first.
    pub snapshots: Vec<String>,
}

/// Result of edits.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Edited {
    /// The workspace.
    pub workspace_id: String,
    /// Changed files.
    pub files: Vec<EditedFile>,
}

/// A file that was edited.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EditedFile {
    /// Path in the workspace.
    pub path: String,
    /// Number of replaced places.
    pub replaced: u64,
}

/// Changes of a workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Diff {
    /// The workspace.
    pub workspace_id: String,
    /// Changed paths; only with the beginning of the diff.
    pub changes: Vec<Changed>,
    /// Number of changes that are not listed.
    pub changes_omitted: u64,
    /// The diff, or a piece of it.
    pub diff: String,
    /// Offset of this piece.
    pub offset: u64,
    /// Offset of the next piece; equal to bytes at the end.
    pub next_offset: u64,
    /// Size of the whole diff in bytes.
    pub bytes: u64,
}

/// A changed path.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Changed {
    /// Path in the workspace.
    pub path: String,
    /// added, modified, deleted or type_changed
    pub kind: String,
    /// Bytes of a file.
    pub bytes: u64,
    /// Reasons to look at it: hidden (new), executable (now), link, mode (other permissions)
    pub marks: Vec<String>,
}

/// Result of a commit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Committed {
    /// The workspace.
    pub workspace_id: String,
    /// Number of paths that were committed.
    pub done: u64,
    /// Paths that were left out, with the reason.
    pub left: Vec<LeftOut>,
    /// Number of such paths that are not listed.
    pub left_omitted: u64,
    /// Committed paths that are new and hidden, executable now, or have other permissions.
    pub marked: Vec<Marked>,
    /// Number of such paths that are not listed.
    pub marked_omitted: u64,
    /// Approval needed to commit protected names.
    pub approval: Option<Needed>,
}

/// A path that a reviewer should look at.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Marked {
    /// Path in the workspace.
    pub path: String,
    /// hidden (new), executable (now), mode (other permissions)
    pub marks: Vec<String>,
}

/// A path that was left out of a commit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Path in the workspace.
    pub path: String,
    /// Reason.
    pub why: String,
}

/// An archive.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Exported {
    /// The workspace.
    pub workspace_id: String,
    /// Resource URI of the archive.
    pub uri: String,
    /// Size of the archive in bytes.
    pub bytes: u64,
    /// The archive in base64, where it is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// A file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct File {
    /// The workspace.
    pub workspace_id: String,
    /// Path of the file.
    pub path: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Offset of this piece.
    pub offset: u64,
    /// Offset of the next piece; equal to bytes at the end.
    pub next_offset: u64,
    /// The piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The piece in base64, where it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// One file or folder.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Entry {
    /// Path in the workspace.
    pub path: String,
    /// file, folder or link
    pub kind: String,
    /// Bytes of a file.
    pub bytes: u64,
}

/// Files, or workspaces.
#[derive(Debug, Serialize, JsonSchema)]
pub struct List {
    /// The workspace that is listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
    /// Files and folders.
    pub entries: Vec<Entry>,
    /// Number of entries that are left out; list a folder to see them.
    pub omitted: u64,
    /// Snapshots of the workspace that is listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<Vec<String>>,
    /// Your workspaces.
    pub workspaces: Vec<Workspace>,
}

/// A finding: a place where a rule matched.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Place {
    /// The rule.
    pub rule: String,
    /// warning or critical
    pub severity: String,
    /// Path of the file, and of the part in it.
    pub part: String,
    /// The line; 0 for the part as a whole.
    pub line: u32,
}

/// Result of a scan.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Scanned {
    /// allow, review, incomplete or quarantine; the last two are not run.
    pub verdict: String,
    /// Findings, the worst first.
    pub findings: Vec<Place>,
    /// Number of findings that are not listed.
    pub omitted: u64,
    /// Parts that were not read, first ones by name.
    pub unread: Vec<String>,
    /// Number of parts that were read as the language that would run them.
    pub read: u64,
    /// Number of parts that are certainly data.
    pub data: u64,
    /// Number of parts that were not read.
    pub not_read: u64,
    /// Id of the quarantined item, when a run of the same content was refused.
    pub quarantine_id: Option<String>,
    /// State of the item's review.
    pub quarantine_state: Option<String>,
}

/// A refused item.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RefusedItem {
    /// Id of the item for other tools.
    pub id: String,
    /// held, under_review, released, rejected or purged
    pub state: String,
    /// quarantine or incomplete
    pub verdict: String,
    /// Time of the first refusal.
    pub submitted: String,
    /// Number of refusals.
    pub seen: u64,
}

/// Refused items.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Refused {
    /// Items, the last refused one first.
    pub items: Vec<RefusedItem>,
    /// Number of items that are not listed.
    pub omitted: u64,
}

/// A refused item with its findings.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// Id of the item.
    pub id: String,
    /// held, under_review, released, rejected or purged
    pub state: String,
    /// quarantine or incomplete
    pub verdict: String,
    /// Findings, the worst first.
    pub findings: Vec<Place>,
    /// Number of findings that are not listed.
    pub omitted: u64,
    /// Parts that were not read.
    pub unread: Vec<String>,
    /// Number of runs that a release still allows.
    pub runs_left: Option<u32>,
    /// End of the release.
    pub released_until: Option<String>,
    /// Next step.
    pub hint: String,
}
