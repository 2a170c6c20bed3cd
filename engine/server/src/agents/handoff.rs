//! `hotcell.agent_handoff/1`: what a session hands over: code, tests, evidence, and every event.

use std::io;
use std::path::Path;

use hotcell_agents::driver::Driver;
use hotcell_agents::report::SessionReport;
use hotcell_agents::tree;
use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::registry::Live;

use super::unknown;
use super::worker::Setting;

/// Value of the `schema` field.
pub const HANDOFF_SCHEMA: &str = "hotcell.agent_handoff/1";
/// Maximum size of all texts of code and of tests, each, in bytes.
const MAX_TEXT_BYTES: usize = 2 << 20;
/// Maximum size of the audit trail, in bytes of JSON.
const MAX_AUDIT_BYTES: usize = 2 << 20;

/// Archive of a session.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Handoff {
    /// Always `hotcell.agent_handoff/1`.
    pub schema: String,
    /// Session.
    pub archive_id: String,
    /// Artifact that is handed over; `null` when none is better than the given code.
    pub artifact_id: Option<String>,
    /// Report of the session: tests before and after, iterations, score with its runs, diff, cost.
    pub session: SessionReport,
    /// Changed files of the artifact, whole.
    pub code: Vec<HandoffFile>,
    /// Tests of the project, and files that decide how they run. No answer of a model changes them.
    pub tests: Vec<HandoffFile>,
    /// Events in their order: questions, answers, evidence, reviews. The newest are left out beyond 2 MiB.
    pub audit_trail: Vec<Value>,
    /// Number of files and events that are left out because of their size.
    pub left_out: u64,
}

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandoffFile {
    /// Path below the project.
    pub path: String,
    /// SHA-256 of its content, in hexadecimal; `null` for a file that the artifact removes.
    pub sha256: Option<String>,
    /// Text; `null` when it is not UTF-8 or left out because of its size.
    pub text: Option<String>,
}

impl Live {
    /// The archive of a caller's session. Blocks.
    ///
    /// # Errors
    /// A report when the session is not the caller's, runs, or its project was removed.
    pub fn agent_handoff(&self, caller: &Caller, session: &str, audit: bool) -> Result<Handoff, ErrorReport> {
        let standing = self.agent_standing(caller, session)?;
        if standing.running {
            return Err(ErrorReport::new(Code::Busy, format!("the session {session} is running"))
                .field("session_id")
                .hint("call again when get_project_status says that it has ended"));
        }
        let setting = Setting::of(self, caller);
        let bench = setting.bench()?;
        let (mut report, rows) =
            Driver::show(&setting.folder, &bench, session).map_err(|e| match e.code {
                Code::UnknownName => unknown(),
                _ => e,
            })?;
        report.project = "workspace".to_owned();
        report.actions.clear();
        let mut left_out = 0;
        let (mut code, mut tests) = (Vec::new(), Vec::new());
        let artifact = standing.best.as_ref().map(|(id, _)| id);
        if let Some(workspace) = &standing.workspace {
            let number = artifact.map_or(0, |id| id.number);
            bench.show(workspace, number)?;
            let changed = standing.files.get(number).cloned().unwrap_or_default();
            (code, tests, left_out) = bench.look(workspace, |view| {
                let mut left_out = 0;
                let code = files(view, changed.iter().map(String::as_str), &mut left_out)?;
                let listed = tree::list(view)?;
                let own = listed.iter().filter(|file| file.is_test).map(|file| file.path.as_str());
                let tests = files(view, own, &mut left_out)?;
                Ok((code, tests, left_out))
            })?;
        }
        let mut audit_trail = Vec::new();
        let mut bytes = 0;
        for row in rows.iter().filter(|_| audit) {
            let internal = |e: serde_json::Error| ErrorReport::new(Code::Internal, e.to_string());
            // The place of the project in the state folder means nothing to a caller.
            let text =
                serde_json::to_string(row).map_err(internal)?.replace(&standing.task.project, "workspace");
            let value = serde_json::from_str(&text).map_err(internal)?;
            bytes += text.len();
            if bytes > MAX_AUDIT_BYTES {
                left_out += 1;
            } else {
                audit_trail.push(value);
            }
        }
        Ok(Handoff {
            schema: HANDOFF_SCHEMA.to_owned(),
            archive_id: session.to_owned(),
            artifact_id: artifact.map(ToString::to_string),
            session: report,
            code,
            tests,
            audit_trail,
            left_out,
        })
    }
}

/// Files of a view with their texts, up to a size in all.
fn files<'a>(
    view: &hotcell_workspace::Stack<'_>,
    paths: impl Iterator<Item = &'a str>,
    left_out: &mut u64,
) -> io::Result<Vec<HandoffFile>> {
    let mut all = Vec::new();
    let mut room = MAX_TEXT_BYTES;
    for path in paths {
        let gone = HandoffFile { path: path.to_owned(), sha256: None, text: None };
        let is_file =
            view.node(Path::new(path))?.is_some_and(|node| node.kind == hotcell_workspace::Kind::File);
        if !is_file {
            all.push(gone);
            continue;
        }
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut view.file(Path::new(path))?, &mut bytes)?;
        let sha256 = Some(hex::encode(Sha256::digest(&bytes)));
        let text = String::from_utf8(bytes).ok().filter(|text| text.len() <= room);
        match &text {
            Some(text) => room -= text.len(),
            None => *left_out += 1,
        }
        all.push(HandoffFile { sha256, text, ..gone });
    }
    Ok(all)
}
