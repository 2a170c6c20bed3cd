//! A conversation of a role with its models until an answer can be used.

use std::time::Duration;

use hotcell_models::ledger::{Call, LedgerError};
use hotcell_models::{Client, Ledger, Purpose, Request, Stop};
use hotcell_state::ids::random_hex;
use hotcell_state::report::{Code, ErrorReport};
use tokio::time::Instant as Deadline;

use super::Role;
use crate::budget::Limits;
use crate::driver::{Driver, calls};
use crate::prompt::Unusable;

/// Maximum number of answers of a call.
const MAX_ANSWERS: u32 = 3;
/// Time limit of all answers of a call: a client waits 300 s (S0.4).
const REPLIES_TIMEOUT: Duration = Duration::from_secs(240);
/// Maximum of output tokens of an answer.
pub(super) const MAX_OUTPUT_TOKENS: u32 = 8192;

impl Driver<'_> {
    /// Client of a role.
    pub(super) fn of_role(&self, role: Role) -> Result<Client, ErrorReport> {
        calls::client(self.models, None, role.name(), &Limits::default()).map_err(calls::NoClient::report)
    }

    /// Asks until `read` can use an answer. Each call is in the ledger.
    pub(super) async fn talk<T>(
        &self,
        role: Role,
        client: &Client,
        ask: impl Fn(Option<Unusable<'_>>) -> Result<Request, ErrorReport>,
        read: impl AsyncFn(&str, bool) -> Result<Result<T, String>, ErrorReport>,
    ) -> Result<T, ErrorReport> {
        let state = |e: LedgerError| ErrorReport::new(Code::State, e.to_string());
        let ledger = Ledger::open(self.folder).map_err(state)?;
        let session = random_hex(6)?;
        let record = |calls: Result<Vec<Call>, LedgerError>| {
            if let Err(error) = calls.and_then(|calls| ledger.record(&calls)) {
                tracing::warn!("the call is not in the ledger: {error}");
            }
        };
        let deadline = Deadline::now() + REPLIES_TIMEOUT;
        let mut before: Option<(String, String)> = None;
        for iteration in 1..=MAX_ANSWERS {
            let unusable = before.as_ref().map(|(answer, why)| Unusable { answer, why });
            let request = ask(unusable)?;
            let purpose = Purpose::new(role.name(), Some(&session), Some(iteration)).map_err(state)?;
            let reply = match client.complete(&request, deadline).await {
                Ok(reply) => reply,
                Err(error) => {
                    record(Call::of_error(&purpose, &error));
                    return Err(ErrorReport::new(Code::Refused, error.to_string())
                        .hint("hotcell model check shows each model's answers"));
                }
            };
            record(Call::of_reply(&purpose, &reply));
            match read(&reply.words(), reply.stop == Stop::Length).await? {
                Ok(read) => return Ok(read),
                Err(why) => {
                    (self.say)(&format!(
                        "{}: the answer cannot be used: {}",
                        role.name(),
                        crate::text::line(&why, 200)
                    ));
                    before = Some((reply.words(), why));
                }
            }
        }
        let why = before.map(|(_, why)| crate::text::line(&why, 300)).unwrap_or_default();
        let why = format!("{MAX_ANSWERS} answers of the {} could not be used; the last: {why}", role.name());
        Err(ErrorReport::new(Code::Refused, why))
    }
}
