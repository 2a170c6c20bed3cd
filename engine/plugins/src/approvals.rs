//! A call by a caller who has to ask a person for denied capabilities: those approved for this call are used
//! once, and those still denied are requested.

use hotcell_review::approvals::{Approvals, RequestStatus};
use hotcell_review::permission::ApprovalSubject;
use hotcell_review::permission::subject::{readable, whole};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_tools::install::sources::sha256;
use hotcell_tools::{Answer, CallError, Capability};
use tokio_util::sync::CancellationToken;

use crate::missing_folders::Beyond;

use super::caller::{Caller, InvokeError};
use super::plugins::{Done, Ready};
use super::progress::Watch;

/// An answer, and the state of the request for denied capabilities.
#[derive(Debug)]
pub struct Asked {
    /// The answer, or the error.
    pub answer: Result<Answer, CallError>,
    /// The request to a person; `None` when no grantable capability was denied.
    pub standing: Option<Done<RequestStatus>>,
    /// Folders that the call named and the plugin does not hold; empty unless the call failed.
    pub beyond: Beyond,
    /// Plugin whose instance was kept for the caller, and ended with this call and all of its handles.
    pub ended: Option<String>,
}

/// Identity of a call, by which its approval is found again.
#[derive(Clone, Debug)]
struct Call {
    plugin: String,
    component: String,
    tool: String,
    arguments: String,
    shown: String,
}

impl Call {
    fn of(ready: &Ready, tool: &str, arguments: &str) -> Self {
        Self {
            plugin: ready.plugin.clone(),
            component: ready.digest.clone(),
            tool: tool.to_owned(),
            arguments: sha256(arguments.as_bytes()),
            shown: serde_json::from_str(arguments).map(|value| readable(&value)).unwrap_or_default(),
        }
    }

    fn is_of(&self, what: &ApprovalSubject) -> bool {
        let ApprovalSubject::Grant { plugin, component, tool, arguments, .. } = what else { return false };
        (plugin, component, tool, arguments) == (&self.plugin, &self.component, &self.tool, &self.arguments)
    }

    fn asks(self, capabilities: Vec<String>) -> Result<ApprovalSubject, ErrorReport> {
        let Self { plugin, component, tool, arguments, shown } = self;
        Ok(ApprovalSubject::Grant { plugin, component, tool, arguments, shown: whole(shown)?, capabilities })
    }
}

impl Caller {
    /// Calls a tool for a caller; denied capabilities are requested in the caller's name. `session` names the
    /// caller as no other one is named: what a plugin keeps for it is no other one's.
    ///
    /// # Errors
    /// [`InvokeError`] when there is no such tool, or the plugins cannot be read.
    pub async fn call_asking(
        &self,
        approvals: &Approvals,
        tool: &str,
        arguments: &str,
        session: &str,
        cancel: CancellationToken,
        watch: Option<Watch>,
    ) -> Result<Asked, InvokeError> {
        let (desk, name, text) = (approvals.clone(), tool.to_owned(), arguments.to_owned());
        let (send, given) = tokio::sync::oneshot::channel();
        let once = move |ready: &Ready| {
            let call = Call::of(ready, &name, &text);
            let given = desk.take_where(|row| call.is_of(&row.what))?;
            let once = match given.map(|approval| approval.detail) {
                Some(ApprovalSubject::Grant { capabilities, .. }) => capabilities,
                _ => Vec::new(),
            };
            let _ = send.send((call, once.clone()));
            Ok(once)
        };
        let ready = self.ready(tool, once).await?;
        let (held, request) = (ready.held.clone(), ready.request.clone());
        let keeps = ready.session.then(|| ready.plugin.clone());
        let answer = match self.call_ready(ready, arguments, session, cancel, watch).await {
            Ok(answer) => Ok(answer),
            Err(InvokeError::Call(error)) => Err(error),
            Err(report) => return Err(report),
        };
        let ended = keeps.filter(|_| answer.as_ref().is_err_and(CallError::ends_instance));
        let (failed, denied) = match &answer {
            Ok(answer) => (answer.is_error, &answer.denied[..]),
            Err(CallError::Trap { denied, .. }) => (true, &denied[..]),
            Err(_) => (false, &[][..]),
        };
        let beyond = match failed {
            true => Beyond::of(&serde_json::from_str(arguments).unwrap_or_default(), &held, &request),
            false => Beyond::default(),
        };
        let Ok((call, mut wanted)) = given.await else {
            return Ok(Asked { answer, standing: None, beyond, ended });
        };
        // A compromised tool host can claim any denial: only grantable capabilities are requested.
        let plain = |word: &&String| word.parse::<Capability>().is_ok();
        let denied: Vec<String> = denied.iter().chain(&beyond.words).filter(plain).cloned().collect();
        if denied.is_empty() {
            return Ok(Asked { answer, standing: None, beyond, ended });
        }
        // Capabilities used up by this call are needed by the next one, too.
        wanted.extend(denied);
        wanted.sort();
        wanted.dedup();
        let (desk, plugins) = (approvals.clone(), self.plugins().clone());
        let asked = tokio::task::spawn_blocking(move || {
            plugins.may_be_asked(&call.plugin, &call.component, &wanted).ok()?;
            Some(call.asks(wanted).and_then(|what| desk.ask(&what, None)))
        });
        let failed = |e| Some(Err(ErrorReport::new(Code::Internal, format!("hotcell itself failed: {e}"))));
        Ok(Asked { answer, standing: asked.await.unwrap_or_else(failed), beyond, ended })
    }
}
