//! Asks a person through the caller's own client, where the operator allows that (`approvals = "elicitation"`). A client may answer
//! by itself: that is what the operator chose, and the audit log has the channel.
//!
//! Revisions with sessions are asked by a request of the server's own. In the newest one the answer to the call says what is wanted,
//! and the call comes again with the client's response and a state of ours, which is signed with the key of the installation and
//! bound to caller, tool, arguments, time, and one use.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use hotcell_service::approvals::key::{Unopened, open, seal};
use hotcell_service::approvals::{Approval, Approvals};
use hotcell_service::live::asking::sorted;
use hotcell_service::live::{Caller, Live};
use hotcell_service::report::{Code, ErrorReport, printable};
use hotcell_service::time::micros_since_1970;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ElicitRequestParams, InputRequest,
    InputRequiredResult, ProtocolVersion,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::vain::Vain;
use crate::wait::Listener;
use crate::{approvals, tools};

/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long the state of a question counts.
const STATE: Duration = Duration::from_secs(600);
/// The name of the question.
const QUESTION: &str = "approval";
/// The longest question, in characters.
const LONGEST: usize = 4_000;

/// What travels through the client.
#[derive(Debug, Serialize, Deserialize)]
struct Carried {
    approval: String,
    ticket: String,
}

/// What a client's response says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Yes,
    No,
    /// Neither: why.
    Nothing(&'static str),
}

/// Calls a tool; where it needs an approval, asks for it and calls again.
pub(crate) async fn call(
    live: &Live,
    caller: &Caller,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
    vain: &Vain,
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
    /// The person behind the client, where the operator lets it ask one.
    fn person(&self) -> Option<Approvals> {
        self.live.approvals(self.caller).ok()?.through_the_client()
    }

    fn is_stateless(&self) -> bool {
        let version = self.context.protocol_version();
        version.is_some_and(|v| v.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
    }

    /// Whether the client says that it can show a form.
    fn can_ask(&self) -> bool {
        let capabilities = self.context.client_capabilities();
        let elicitation = capabilities.and_then(|all| all.elicitation);
        elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none())
    }

    /// What a state is bound to.
    fn bound(&self, arguments: &Value) -> Vec<u8> {
        json!([self.caller.to_string(), "tools/call", self.name, sorted(arguments)]).to_string().into_bytes()
    }

    /// The question of an approval, as an answer to the call.
    async fn question(
        &self,
        person: &Approvals,
        id: &str,
        bound: &[u8],
    ) -> Result<InputRequiredResult, ErrorReport> {
        let (desk, id) = (person.clone(), id.to_owned());
        let asked = tools::blocking(move || {
            let approval = desk.show(&id)?;
            let carried = Carried { approval: approval.id.clone(), ticket: desk.ticket(&id)? };
            Ok((approval, carried, desk.key()?))
        });
        let (approval, carried, key) = asked.await?;
        let internal = |e: String| ErrorReport::new(Code::Internal, e);
        let carried = serde_json::to_string(&carried).map_err(|e| internal(e.to_string()))?;
        let expires = micros_since_1970(SystemTime::now() + STATE);
        let state = seal(&key, &carried, bound, expires);
        let question = json!({ "method": "elicitation/create", "params": form(&approval)? });
        let question: InputRequest = serde_json::from_value(question).map_err(|e| internal(e.to_string()))?;
        let questions = BTreeMap::from([(QUESTION.to_owned(), question)]);
        Ok(InputRequiredResult::new(Some(questions), Some(state)))
    }

    /// Takes the response to a question that was asked before.
    async fn resume(
        &self,
        person: &Approvals,
        state: &str,
        bound: &[u8],
        response: Option<&Value>,
    ) -> Result<Result<Word, ErrorReport>, ErrorData> {
        let desk = person.clone();
        let key = tools::blocking(move || desk.key()).await;
        let key = key.map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
        let bad = |why: &'static str| ErrorData::invalid_params(why, None);
        let carried =
            open(&key, state, bound, micros_since_1970(SystemTime::now())).map_err(|e| match e {
                Unopened::Expired => bad("requestState has expired: call again without it"),
                // Also another caller's, and that of another call.
                Unopened::NotOurs => bad(NOT_OURS),
            })?;
        let carried: Carried = serde_json::from_str(&carried).map_err(|_| bad(NOT_OURS))?;
        let word = response.map_or(Word::Nothing("the client gave no answer"), said);
        let (desk, Carried { approval, ticket }) = (person.clone(), carried);
        let decided = tools::blocking(move || {
            desk.redeem(&approval, &ticket)?;
            decide(&desk, &approval, word)
        });
        Ok(decided.await)
    }

    /// Asks by a request of our own, and takes the response.
    async fn ask(&self, person: &Approvals, id: &str) -> Result<Word, ErrorReport> {
        let (desk, asked) = (person.clone(), id.to_owned());
        let approval = tools::blocking(move || desk.show(&asked)).await?;
        let form: ElicitRequestParams = serde_json::from_value(form(&approval)?)
            .map_err(|e| ErrorReport::new(Code::Internal, e.to_string()))?;
        let answer = tokio::select! {
            answer = self.context.peer.create_elicitation_with_timeout(form, Some(PATIENCE)) => answer,
            () = self.listener.gone() => return Ok(Word::Nothing("nobody waits for the answer")),
        };
        let word = match answer {
            Ok(response) => serde_json::to_value(&response).as_ref().map_or(Word::Nothing(UNCLEAR), said),
            Err(error) => {
                tracing::info!(target: "hotcell_contents", "a client did not ask for an approval: {error}");
                Word::Nothing("the client did not ask anybody")
            }
        };
        // The operator may have ended this while somebody thought about it.
        if self.person().is_none() {
            return Ok(Word::Nothing("the operator lets nobody be asked here any more"));
        }
        let (desk, id) = (person.clone(), id.to_owned());
        tools::blocking(move || decide(&desk, &id, word)).await
    }

    /// Says in the answer what came of a question that was not answered with yes.
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
        Word::Yes => desk.approve(id, None, None).map(drop)?,
        Word::No => desk.deny(id, None).map(drop)?,
        Word::Nothing(_) => {}
    }
    Ok(word)
}

/// What a response says. Yes is a box that was ticked: accepting an empty form is not enough.
fn said(response: &Value) -> Word {
    match (response["action"].as_str(), &response["content"]["allow"]) {
        (Some("accept"), Value::Bool(true)) => Word::Yes,
        (Some("accept"), Value::Bool(false)) | (Some("decline"), _) => Word::No,
        (Some("cancel"), _) => Word::Nothing("the question was closed"),
        _ => Word::Nothing(UNCLEAR),
    }
}

/// The form that a person sees.
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

/// What is asked, exactly: our words, and behind a bar what the caller wrote.
///
/// # Errors
/// Where it does not fit: nobody says yes to what they were not shown.
fn question(approval: &Approval) -> Result<String, ErrorReport> {
    let mut text =
        format!("hotcell: {} asks to {}.\n", approval.asked_by, printable(&approval.detail.sentence()));
    if let Some(reason) = &approval.reason {
        text.push_str(&format!("Why, in its words: | {}\n", printable(reason)));
    }
    let end = format!("It is for one use, until {}. sha256 {}", approval.expires, approval.digest);
    let look = approval.detail.look().map_or_else(String::new, |look| format!("; more: {look}"));
    let room = LONGEST.saturating_sub(end.len() + look.len());
    for line in approval.detail.lines() {
        let line = format!("| {}\n", printable(&line));
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
    fn only_a_box_that_was_ticked_is_a_yes() {
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
