//! Parses cargo's output while it builds tests, one JSON object per line: the programs made from each file,
//! and compiler errors. <https://doc.rust-lang.org/cargo/reference/external-tools.html#json-messages>

use std::collections::HashMap;

use serde::Deserialize;

use crate::case::{MAX_CASES, MAX_DETAIL_BYTES, MAX_MESSAGE_BYTES, MAX_NAME_BYTES, Status};
use crate::event::{Ended, Event};
use crate::text::clip;

/// A line of cargo's output.
#[derive(Debug, Deserialize)]
struct Message {
    reason: String,
    success: Option<bool>,
    executable: Option<String>,
    target: Option<Target>,
    profile: Option<Profile>,
    message: Option<Diagnostic>,
}

#[derive(Debug, Deserialize)]
struct Target {
    src_path: String,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Debug, Deserialize)]
struct Diagnostic {
    level: String,
    message: String,
    rendered: Option<String>,
    code: Option<ErrorCode>,
    spans: Vec<Span>,
}

#[derive(Debug, Deserialize)]
struct ErrorCode {
    code: String,
}

#[derive(Debug, Deserialize)]
struct Span {
    file_name: String,
    line_start: u32,
    is_primary: bool,
}

/// A build in progress.
#[derive(Debug)]
pub struct Build {
    /// The project's folder inside, with a trailing slash.
    project: String,
    /// Built test programs, and their source files.
    built: HashMap<String, String>,
    errors: HashMap<String, String>,
}

impl Build {
    /// A build of the project in this folder of the sandbox.
    pub fn of(project: &str) -> Self {
        Self { project: format!("{project}/"), built: HashMap::new(), errors: HashMap::new() }
    }

    /// Built test programs.
    pub fn programs(&self) -> impl Iterator<Item = &String> {
        self.built.keys()
    }

    /// Source file of a test program.
    pub fn file_of(&self, program: &str) -> Option<&str> {
        self.built.get(program).map(String::as_str)
    }

    /// Takes a line; returns at the last one whether everything was built.
    pub fn line(&mut self, line: &str, out: &mut Vec<Event>) -> Option<bool> {
        let message = serde_json::from_str::<Message>(line).ok()?;
        let file = message
            .target
            .map(|t| t.src_path.strip_prefix(&self.project).map(str::to_owned).unwrap_or(t.src_path));
        match (message.reason.as_str(), file) {
            ("compiler-artifact", Some(file)) if message.profile.is_some_and(|p| p.test) => {
                if let Some(program) = message.executable.filter(|_| self.built.len() < MAX_CASES) {
                    out.push(Event::Named(program.clone(), clip(&file, MAX_NAME_BYTES)));
                    self.built.insert(program, file);
                }
            }
            ("compiler-message", Some(file)) => {
                self.error(message.message.filter(|m| m.level == "error" && !m.spans.is_empty())?, file, out);
            }
            ("build-finished", _) => {
                for (file, text) in self.errors.drain() {
                    out.push(Event::Said(file, text));
                }
                return Some(message.success == Some(true));
            }
            _ => {}
        }
        None
    }

    fn error(&mut self, said: Diagnostic, file: String, out: &mut Vec<Event>) {
        let span = said.spans.iter().find(|s| s.is_primary).or(said.spans.first());
        let code = said.code.map_or(String::new(), |code| format!("[{}]", code.code));
        let known = self.errors.contains_key(&file);
        let text = self.errors.entry(file.clone()).or_default();
        if text.len() < MAX_DETAIL_BYTES {
            text.push_str(said.rendered.as_deref().unwrap_or_default());
        }
        if !known {
            let ended = Ended {
                id: file.clone(),
                status: Status::Errored,
                duration_ms: 0.0,
                message: Some(clip(&format!("error{code}: {}", said.message), MAX_MESSAGE_BYTES)),
                at: span.map(|s| (clip(&s.file_name, MAX_NAME_BYTES), s.line_start)),
                file: Some(file),
            };
            out.push(Event::Group(ended, 0));
        }
    }
}
