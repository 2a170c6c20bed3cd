//! What the tools give: the types of their structured content.

use hotcell_sandbox::Outcome;
use hotcell_testing::TestReport;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Value, json};

use crate::approvals::Needed;

/// A run of a program: the fields of `hotcell.outcome/1` when it has ended, and always its name and status.
pub fn run() -> Schema {
    of_a_run(super::brief::<Outcome>(1))
}

/// A run of tests: the fields of `hotcell.test_report/1` when it has ended, and always its name and status.
pub fn tests() -> Schema {
    let mut schema = of_a_run(super::brief::<TestReport>(2));
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        // run_command's answer says what is in it.
        properties["outcome"] = json!({ "type": "object", "description": "What the run itself came to" });
        let omitted = json!({ "type": "integer", "description": "Tests beyond those that are listed; bad ones come first" });
        properties.insert("cases_omitted".to_owned(), omitted);
    }
    schema
}

/// A run of either kind.
pub fn any() -> Schema {
    let mut schema = run();
    if let (Some(Value::Object(properties)), Value::Object(tests)) =
        (schema.get_mut("properties"), super::brief::<TestReport>(1).to_value()["properties"].take())
    {
        for (name, property) in tests {
            properties.entry(name).or_insert(property);
        }
        // The tools that start runs say what each field is.
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
    /// Where this piece begins: later than asked where bytes are no longer kept.
    pub offset: u64,
    /// Where to read on.
    pub next_offset: u64,
    /// All that was printed so far.
    pub bytes: u64,
    /// Whether nothing more will come.
    pub end: bool,
    /// The piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The piece, where it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// A workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Workspace {
    /// Its name for the other tools.
    pub workspace_id: String,
    /// Files and folders in it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that may still be written.
    pub bytes_left: u64,
    /// Whether it was removed.
    pub removed: bool,
    /// The folder of the host that it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Its snapshots, the oldest first.
    pub snapshots: Vec<String>,
}

/// What a workspace changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Diff {
    /// The workspace.
    pub workspace_id: String,
    /// Changed paths; only with the beginning of the diff.
    pub changes: Vec<Changed>,
    /// Changes beyond those that are listed.
    pub changes_omitted: u64,
    /// The diff, or a piece of it.
    pub diff: String,
    /// Where this piece begins.
    pub offset: u64,
    /// Where to read on; equal to bytes at the end.
    pub next_offset: u64,
    /// All of the diff.
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
}

/// What a commit came to.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Committed {
    /// The workspace.
    pub workspace_id: String,
    /// How many paths were taken over.
    pub done: u64,
    /// Paths that were not, and why.
    pub left: Vec<LeftOut>,
    /// Such paths beyond those that are listed.
    pub left_omitted: u64,
    /// What a person has to approve before protected names are taken over.
    pub approval: Option<Needed>,
}

/// A path that was not taken over.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Path in the workspace.
    pub path: String,
    /// Why.
    pub why: String,
}

/// An archive.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Exported {
    /// The workspace.
    pub workspace_id: String,
    /// The resource that is the archive.
    pub uri: String,
    /// Its size.
    pub bytes: u64,
    /// The archive, where it is short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// A file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct File {
    /// The workspace.
    pub workspace_id: String,
    /// Its path.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Where this piece begins.
    pub offset: u64,
    /// Where to read on; equal to bytes at the end.
    pub next_offset: u64,
    /// The piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The piece, where it is not text.
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
    /// Its files and folders.
    pub entries: Vec<Entry>,
    /// Entries that are left out; list a folder to see them.
    pub omitted: u64,
    /// Your workspaces.
    pub workspaces: Vec<Workspace>,
}

/// Where a rule matched.
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

/// What a scan says.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Scanned {
    /// allow, review, incomplete or quarantine; the last two are not run.
    pub verdict: String,
    /// Places, the worst first.
    pub findings: Vec<Place>,
    /// Places beyond those that are listed.
    pub omitted: u64,
    /// Parts that were not read.
    pub unread: Vec<String>,
    /// Its id, when a run of the same was refused.
    pub quarantine_id: Option<String>,
    /// Where its review stands then.
    pub quarantine_state: Option<String>,
}

/// Something that was refused.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RefusedItem {
    /// Its name for the other tools.
    pub id: String,
    /// held, under_review, released, rejected or purged
    pub state: String,
    /// quarantine or incomplete
    pub verdict: String,
    /// When it was refused first.
    pub submitted: String,
    /// How often it was refused.
    pub seen: u64,
}

/// What was refused.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Refused {
    /// What was refused last comes first.
    pub items: Vec<RefusedItem>,
    /// Items that are left out.
    pub omitted: u64,
}

/// Something that was refused, with places.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Shown {
    /// Its name.
    pub id: String,
    /// held, under_review, released, rejected or purged
    pub state: String,
    /// quarantine or incomplete
    pub verdict: String,
    /// Places, the worst first.
    pub findings: Vec<Place>,
    /// Places beyond those that are listed.
    pub omitted: u64,
    /// Parts that were not read.
    pub unread: Vec<String>,
    /// Runs that a release still allows.
    pub runs_left: Option<u32>,
    /// Until when.
    pub released_until: Option<String>,
    /// What to do next.
    pub hint: String,
}
