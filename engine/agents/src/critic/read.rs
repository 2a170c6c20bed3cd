//! Reading by a model: questions within a budget, one for each part.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::{Duration, Instant};

use hotcell_models::ledger::{By, Call, Usage};
use hotcell_models::settings::SettingsError;
use hotcell_models::{Client, Ledger, LedgerReader, Purpose};
use hotcell_state::ids::random_hex;
use hotcell_state::report::{Code, ErrorReport};
use tokio::time::Instant as Deadline;

use crate::budget::Budget;
use crate::driver::Driver;
use crate::driver::calls;
use crate::tree;

use super::answer::{self, Defect};
use super::{ReadBy, ReviewRequest, Subject, ask, depth};

/// Role of a reviewing model.
const ROLE: &str = "reviewer";
/// Time limit for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum size of a single file that a model reads, in bytes.
const MAX_FILE_BYTES: u64 = 256 * 1024;
/// Maximum number of defects of all answers.
const MAX_DEFECTS: usize = 100;
/// Words for a host without any model.
const NO_MODEL: &str = "no model is configured; hotcell model add ollama takes the local Ollama's, and hotcell model add --help names the \
other providers";

/// A client, or the reason why no model reads.
pub(super) type Reader = Result<Client, String>;

/// Result of a reading.
pub(super) struct Reading {
    pub defects: Vec<Defect>,
    pub suggestions: Vec<String>,
    pub by: ReadBy,
    pub usage: Usage,
}

impl Driver<'_> {
    /// The client of the reviewing role. Without a configured model the review goes on without one; a name that is wrong is an error.
    pub(super) fn reader(&self, request: &ReviewRequest) -> Result<Reader, ErrorReport> {
        match calls::client(self.models, request.model.as_deref(), ROLE, &request.limits) {
            Ok(client) => Ok(Ok(client)),
            Err(calls::NoClient::Settings(SettingsError::Nothing)) if request.model.is_none() => {
                Ok(Err(NO_MODEL.to_owned()))
            }
            Err(calls::NoClient::Settings(error @ SettingsError::NoRole(_))) => {
                Ok(Err(format!("{error}; hotcell model add NAME --role {ROLE} gives it one")))
            }
            Err(error) => Err(error.report()),
        }
    }

    pub(super) async fn read_by_model(
        &self,
        id: &str,
        request: &ReviewRequest,
        reader: Reader,
        facts: &ask::Facts,
        began: Instant,
    ) -> Result<Reading, ErrorReport> {
        let mut reading = Reading {
            defects: Vec::new(),
            suggestions: Vec::new(),
            by: ReadBy::default(),
            usage: Usage::default(),
        };
        let client = match reader {
            Ok(client) => client,
            Err(why) => {
                reading.by.why = Some(why);
                return Ok(reading);
            }
        };
        let (room, output) = calls::room(&client, request.max_output_tokens);
        let (files, unread) = self.files(&request.subject)?;
        let parts = depth::parts(&files, room, request.depth.questions());
        let shown: usize = parts.iter().map(Vec::len).sum();
        reading.by.files_not_read = (files.len() - shown + unread) as u64;
        if parts.is_empty() {
            reading.by.why = Some("there is no file of code that fits into a question".to_owned());
            return Ok(reading);
        }
        let state = |e: hotcell_models::ledger::LedgerError| ErrorReport::new(Code::State, e.to_string());
        let ledger = Ledger::open(self.folder).map_err(state)?;
        let purpose = Purpose::new(ROLE, Some(id), None).map_err(state)?;
        let mut budget = Budget::new(request.limits);
        for (at, part) in parts.iter().enumerate() {
            let left = request
                .limits
                .time_ms
                .map(|limit| Duration::from_millis(limit).saturating_sub(began.elapsed()).min(REPLY_TIMEOUT));
            let time = left.unwrap_or(REPLY_TIMEOUT);
            if time.is_zero() {
                reading.by.why = Some("the time of the budget is over".to_owned());
                break;
            }
            let files: Vec<&(String, String)> = part.iter().map(|at| &files[*at]).collect();
            let asked = ask::request(facts, &files, &random_hex(8)?, output);
            let most = calls::most(&client, &asked);
            if let Err(which) = budget.reserve(most) {
                reading.by.why = Some(format!("the budget of {which} does not allow another call"));
                break;
            }
            let names: Vec<&str> = client.endpoints().map(|endpoint| endpoint.name.as_str()).collect();
            (self.say)(&format!(
                "question {} of {}: {} reads {} files",
                at + 1,
                parts.len(),
                names.join(", "),
                part.len()
            ));
            let reply = match client.complete(&asked, Deadline::now() + time).await {
                Ok(reply) => reply,
                Err(error) => {
                    note(&ledger, Call::of_error(&purpose, &error));
                    reading.by.why = Some(error.to_string());
                    break;
                }
            };
            budget.settle(most, calls::used(&reply, most));
            note(&ledger, Call::of_reply(&purpose, &reply));
            let lines: BTreeMap<&str, u32> = files
                .iter()
                .map(|(path, text)| (path.as_str(), u32::try_from(text.lines().count()).unwrap_or(u32::MAX)))
                .collect();
            let answer = answer::read(&reply.text, &|path| lines.get(path).copied());
            reading.by.dropped += answer.dropped as u64;
            if answer.usable {
                reading.by.files_read += part.len() as u64;
            } else {
                reading.by.unusable += 1;
                reading.by.files_not_read += part.len() as u64;
            }
            if !reading.by.models.contains(&reply.model) {
                reading.by.models.push(crate::text::line(&reply.model, 100));
            }
            reading.defects.extend(answer.defects);
            reading.suggestions.extend(answer.suggestions);
        }
        reading.defects.truncate(MAX_DEFECTS);
        reading.suggestions.truncate(MAX_DEFECTS);
        reading.defects.sort_by(|a, b| (b.severity, &a.file, a.line).cmp(&(a.severity, &b.file, b.line)));
        if reading.by.unusable > 0 && reading.by.files_read == 0 && reading.by.why.is_none() {
            reading.by.why = Some("no answer had a line of the form that was asked for".to_owned());
        }
        reading.usage = LedgerReader::open(self.folder)
            .and_then(|reader| reader.report(By::Role, Some(id)))
            .map_err(state)?
            .total;
        Ok(reading)
    }

    /// Files in the order in which they are read, and the number of those that are too long.
    fn files(&self, subject: &Subject) -> Result<(Vec<(String, String)>, usize), ErrorReport> {
        match subject {
            Subject::File(path) => {
                let bad = |e: std::io::Error| {
                    ErrorReport::new(Code::InvalidValue, format!("{} cannot be read: {e}", path.display()))
                };
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let mut bytes = Vec::new();
                let file = std::fs::File::open(path).map_err(bad)?;
                file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(bad)?;
                if bytes.len() as u64 > MAX_FILE_BYTES {
                    return Ok((Vec::new(), 1));
                }
                // An archive or a program is for the guard alone.
                Ok(String::from_utf8(bytes).map_or((Vec::new(), 1), |text| (vec![(name, text)], 0)))
            }
            Subject::Workspace { id, changed, .. } => self.bench.look(id, |view| {
                let (mut files, mut unread) = (Vec::new(), 0);
                for listed in depth::order(&tree::list(view)?, changed) {
                    match tree::shown(view, &listed) {
                        Some(text) => files.push((listed.path, text)),
                        None => unread += 1,
                    }
                }
                Ok((files, unread))
            }),
        }
    }
}

fn note(ledger: &Ledger, calls: Result<Vec<Call>, hotcell_models::ledger::LedgerError>) {
    if let Err(error) = calls.and_then(|calls| ledger.record(&calls)) {
        tracing::warn!("the call is not in the ledger: {error}");
    }
}
