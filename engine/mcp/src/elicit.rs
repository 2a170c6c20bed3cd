//! Asks a user through the caller's own client, where the operator allows that (`approvals = "elicitation"`).
//! A client may answer by itself: the operator accepts that with this setting, and the audit log records the
//! channel.
//!
//! In revisions with sessions, the server sends a request of its own. In the newest revision the answer to
//! the call contains the question, and the client repeats the call with the response and a state of ours. The
//! state is signed with the key of the installation, and bound to caller, tool, arguments, time, and a single
//! use.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use hotcell_plugins::grant_check;
use hotcell_review::approvals::key::{Unopened, open, seal};
use hotcell_review::approvals::{Approval, Approvals};
use hotcell_server::network_requests::sorted;
use hotcell_server::{Caller, Live};
use hotcell_state::report::{Code, ErrorReport, barred_within, printable};
use hotcell_state::time::micros_since_1970;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ElicitRequestParams, InputRequest,
    InputRequiredResult, ProtocolVersion,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::blocking::blocking;
use crate::prompt_limit::PromptLimiter;
use crate::wait::Listener;
use crate::{approvals, tools};

/// Timeout for the user's response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(300);
/// Validity of the state of a question.
const STATE_LIFETIME: Duration = Duration::from_secs(600);
/// Name of the question.
const QUESTION: &str = "approval";
/// Maximum length of a question, in characters.
const MAX_QUESTION_CHARS: usize = 4_000;

/// State that travels through the client.
#[derive(Debug, Serialize, Deserialize)]
struct Carried {
    approval: String,
    ticket: String,
}

/// A user's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Yes,
    No,
    /// No decision, with the reason.
    Nothing(&'static str),
}

/// Calls a tool; if it needs an approval, asks for it and calls the tool again.
pub(crate) async fn call(
    live: &Live,
    caller: &Caller,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    vain: &PromptLimiter,
) -> Result<CallToolResponse, ErrorData> {
    let asking = Asking { live, caller, context, listener: Listener::of(context), name: &request.name };
    let arguments = request.arguments.unwrap_or_default();
    let again = || tools::call(live, caller, &request.name, arguments.clone(), &asking.listener);
    let Some(person) = asking.person() else {
        if request.request_state.is_some() {
            return Err(ErrorData::invalid_params(
                "requestState is not one of ours: nobody is asked here",
                None,
            ));
        }
        return again().await.map(Into::into);
    };
    let bound = asking.bound(&Value::Object(arguments.clone()));
    if let Some(state) = &request.request_state {
        let response = request.input_responses.as_ref().and_then(|all| all.get(QUESTION));
        let outcome = asking.resume(&person, state, &bound, response).await?;
        if matches!(outcome, Ok(Word::Yes)) {
            vain.not(caller);
        }
        let mut result = again().await?;
        asking.note(&mut result, outcome);
        return Ok(result.into());
    }
    let mut result = again().await?;
    let Some(id) = approvals::waits(&result).filter(|_| asking.can_ask()) else { return Ok(result.into()) };
    if !vain.may(caller, &id, Instant::now()) {
        asking.note(&mut result, Ok(Word::Nothing(OFTEN)));
        return Ok(result.into());
    }
    if asking.is_stateless() {
        return match asking.question(&person, &id, &bound).await {
            Ok(question) => Ok(question.into()),
            Err(why) => {
                tracing::warn!("nobody is asked for {id}: {why}");
                Ok(result.into())
            }
        };
    }
    let outcome = asking.ask(&person, &id).await;
    if matches!(outcome, Ok(Word::Yes)) {
        vain.not(caller);
        result = again().await?;
    } else {
        asking.note(&mut result, outcome);
    }
    Ok(result.into())
}

struct Asking<'a> {
    live: &'a Live,
    caller: &'a Caller,
    context: &'a RequestContext<RoleServer>,
    listener: Listener,
    name: &'a str,
}

impl Asking<'_> {
    /// Access to approvals, where the operator allows this client to ask its user.
    fn person(&self) -> Option<Approvals> {
        self.live.approvals(self.caller).ok()?.through_the_client()
    }

    fn is_stateless(&self) -> bool {
        let version = self.context.protocol_version();
        version.is_some_and(|v| v.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
    }

    /// Whether the client declares support for forms.
    fn can_ask(&self) -> bool {
        let capabilities = self.context.client_capabilities();
        let elicitation = capabilities.and_then(|all| all.elicitation);
        elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none())
    }

    /// The values to which a state is bound.
    fn bound(&self, arguments: &Value) -> Vec<u8> {
        json!([self.caller.to_string(), "tools/call", self.name, sorted(arguments)]).to_string().into_bytes()
    }

    /// The question about an approval, as an answer to the call.
    async fn question(
        &self,
        person: &Approvals,
        id: &str,
        bound: &[u8],
    ) -> Result<InputRequiredResult, ErrorReport> {
        let (desk, id) = (person.clone(), id.to_owned());
        let asked = blocking(move || {
            let approval = desk.show(&id)?;
            let carried = Carried { approval: approval.id.clone(), ticket: desk.ticket(&id)? };
            Ok((approval, carried, desk.key()?))
        });
        let (approval, carried, key) = asked.await?;
        let internal = |e: String| ErrorReport::new(Code::Internal, e);
        let carried = serde_json::to_string(&carried).map_err(|e| internal(e.to_string()))?;
        let expires = micros_since_1970(SystemTime::now() + STATE_LIFETIME);
        let state = seal(&key, &carried, bound, expires);
        let question = json!({ "method": "elicitation/create", "params": form(&approval)? });
        let question: InputRequest = serde_json::from_value(question).map_err(|e| internal(e.to_string()))?;
        let questions = BTreeMap::from([(QUESTION.to_owned(), question)]);
        Ok(InputRequiredResult::new(Some(questions), Some(state)))
    }

    /// Processes the response to an earlier question.
    async fn resume(
        &self,
        person: &Approvals,
        state: &str,
        bound: &[u8],
        response: Option<&Value>,
    ) -> Result<Result<Word, ErrorReport>, ErrorData> {
        let desk = person.clone();
        let key = blocking(move || desk.key()).await;
        let key = key.map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
        let bad = |why: &'static str| ErrorData::invalid_params(why, None);
        let carried =
            open(&key, state, bound, micros_since_1970(SystemTime::now())).map_err(|e| match e {
                Unopened::Expired => bad("requestState has expired: call again without it"),
                // Also for a state of another caller or another call.
                Unopened::NotOurs => bad(NOT_OURS),
            })?;
        let carried: Carried = serde_json::from_str(&carried).map_err(|_| bad(NOT_OURS))?;
        let word = response.map_or(Word::Nothing("the client gave no answer"), said);
        let (desk, Carried { approval, ticket }) = (person.clone(), carried);
        let decided = blocking(move || {
            desk.redeem(&approval, &ticket)?;
            decide(&desk, &approval, word)
        });
        Ok(decided.await)
    }

    /// Sends a request of our own, and processes the response.
    async fn ask(&self, person: &Approvals, id: &str) -> Result<Word, ErrorReport> {
        let (desk, asked) = (person.clone(), id.to_owned());
        let approval = blocking(move || desk.show(&asked)).await?;
        let form: ElicitRequestParams = serde_json::from_value(form(&approval)?)
            .map_err(|e| ErrorReport::new(Code::Internal, e.to_string()))?;
        let answer = tokio::select! {
            answer = self.context.peer.create_elicitation_with_timeout(form, Some(RESPONSE_TIMEOUT)) => answer,
            () = self.listener.gone() => return Ok(Word::Nothing("nobody waits for the answer")),
        };
        let word = match answer {
            Ok(response) => serde_json::to_value(&response).as_ref().map_or(Word::Nothing(UNCLEAR), said),
            Err(error) => {
                tracing::info!(target: "hotcell_contents", "a client did not ask for an approval: {error}");
                Word::Nothing("the client did not ask anybody")
            }
        };
        // The operator may have disabled elicitation while the user decided.
        if self.person().is_none() {
            return Ok(Word::Nothing("the operator lets nobody be asked here any more"));
        }
        let (desk, id) = (person.clone(), id.to_owned());
        blocking(move || decide(&desk, &id, word)).await
    }

    /// Adds the result of a question to the answer, unless it was yes.
    fn note(&self, result: &mut CallToolResult, outcome: Result<Word, ErrorReport>) {
        let why = match outcome {
            Ok(Word::Yes) => return,
            Ok(Word::No) => "a person said no".to_owned(),
            Ok(Word::Nothing(why)) => format!("nobody decided: {why}"),
            Err(report) => format!("nothing was approved: {report}"),
        };
        result.content.push(rmcp::model::ContentBlock::text(why));
    }
}

const NOT_OURS: &str = "requestState is not one of ours for this call";
const OFTEN: &str = "the client was asked in vain too often, and is not asked again for a while; a person can still type the command";
const UNCLEAR: &str = "the client's answer is neither yes nor no";

fn decide(desk: &Approvals, id: &str, word: Word) -> Result<Word, ErrorReport> {
    match word {
        Word::Yes => {
            desk.approve(id, None, None, &grant_check(desk.configuration()))?;
        }
        Word::No => desk.deny(id, None).map(drop)?,
        Word::Nothing(_) => {}
    }
    Ok(word)
}

/// Parses a response. Yes requires a ticked box; accepting an empty form is not enough.
fn said(response: &Value) -> Word {
    match (response["action"].as_str(), &response["content"]["allow"]) {
        (Some("accept"), Value::Bool(true)) => Word::Yes,
        (Some("accept"), Value::Bool(false)) | (Some("decline"), _) => Word::No,
        (Some("cancel"), _) => Word::Nothing("the question was closed"),
        _ => Word::Nothing(UNCLEAR),
    }
}

/// The form for the user.
fn form(approval: &Approval) -> Result<Value, ErrorReport> {
    Ok(json!({
        "mode": "form",
        "message": question(approval)?,
        "requestedSchema": {
            "type": "object",
            "properties": { "allow": {
                "type": "boolean", "title": "Allow this once", "default": false,
                "description": format!("Approval {} of hotcell", approval.id)
            } },
            "required": ["allow"]
        }
    }))
}

/// Maximum line length of a caller's text. Forms wrap longer lines themselves, and the wrapped parts would
/// have no bar.
const MAX_LINE_CHARS: usize = 76;

/// The exact request: our words, and the caller's text behind bars.
///
/// # Errors
/// When the text is too long for a form: a user must not approve anything that was not shown.
fn question(approval: &Approval) -> Result<String, ErrorReport> {
    let mut text = format!(
        "hotcell: {} asks to {}.\n",
        printable(&approval.asked_by),
        printable(&approval.detail.sentence())
    );
    if let Some(reason) = &approval.reason {
        text.push_str("Why, in its words:\n");
        text.push_str(&barred_within(reason, "| ", MAX_LINE_CHARS));
    }
    let end = format!("It is for one use, until {}. sha256 {}", approval.expires, approval.digest);
    let look = approval.detail.look().map_or_else(String::new, |look| format!("; more: {look}"));
    let room = MAX_QUESTION_CHARS.saturating_sub(end.len() + look.len());
    for line in approval.detail.lines() {
        let line = barred_within(&line, "| ", MAX_LINE_CHARS);
        if text.chars().count() + line.chars().count() > room {
            let why = format!(
                "it is too long for a form; a person looks at it with hotcell approvals show {}",
                approval.id
            );
            return Err(ErrorReport::new(Code::InvalidValue, why));
        }
        text.push_str(&line);
    }
    Ok(text + &end + &look)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elicitation_accepts_only_ticked_box() {
        for (response, want) in [
            (json!({ "action": "accept", "content": { "allow": true } }), Word::Yes),
            (json!({ "action": "accept", "content": { "allow": false } }), Word::No),
            (json!({ "action": "decline" }), Word::No),
            (json!({ "action": "decline", "content": { "allow": true } }), Word::No),
            (json!({ "action": "cancel" }), Word::Nothing("the question was closed")),
            (json!({ "action": "accept" }), Word::Nothing(UNCLEAR)),
            (json!({ "action": "accept", "content": {} }), Word::Nothing(UNCLEAR)),
            (json!({ "action": "accept", "content": { "allow": "true" } }), Word::Nothing(UNCLEAR)),
            (json!({ "action": "accept", "content": { "allow": 1 } }), Word::Nothing(UNCLEAR)),
            (json!({ "action": "ACCEPT", "content": { "allow": true } }), Word::Nothing(UNCLEAR)),
            (json!({ "content": { "allow": true } }), Word::Nothing(UNCLEAR)),
            (json!([]), Word::Nothing(UNCLEAR)),
            (json!("yes"), Word::Nothing(UNCLEAR)),
            (Value::Null, Word::Nothing(UNCLEAR)),
        ] {
            assert_eq!(said(&response), want, "{response}");
        }
    }
}
