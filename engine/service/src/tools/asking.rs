//! A call of somebody who has to ask a person for what it is denied: what a person allowed for this call goes with it once, and
//! what it is still denied is asked for.

use hotcell_tools::sources::sha256;
use hotcell_tools::{Answer, Capability};
use tokio_util::sync::CancellationToken;

use super::caller::{Caller, Uncalled};
use super::plugins::{Done, Ready};
use super::progress::Watch;
use crate::approvals::what::{beginning, readable};
use crate::approvals::{Approvals, Standing, What};
use crate::report::{Code, ErrorReport};

/// An answer, and where it stands what it was denied.
#[derive(Debug)]
pub struct Asked {
    /// The answer.
    pub answer: Answer,
    /// What a person was asked for it; nothing where nothing was denied that could be granted.
    pub standing: Option<Done<Standing>>,
}

/// A call, by which an approval finds it again.
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
            shown: beginning(
                &serde_json::from_str(arguments).map(|value| readable(&value)).unwrap_or_default(),
            ),
        }
    }

    fn is_of(&self, what: &What) -> bool {
        let What::Grant { plugin, component, tool, arguments, .. } = what else { return false };
        (plugin, component, tool, arguments) == (&self.plugin, &self.component, &self.tool, &self.arguments)
    }

    fn asks(self, capabilities: Vec<String>) -> What {
        let Self { plugin, component, tool, arguments, shown } = self;
        What::Grant { plugin, component, tool, arguments, shown, capabilities }
    }
}

impl Caller {
    /// Calls a tool for somebody; what it is denied is asked for in their name.
    ///
    /// # Errors
    /// [`Uncalled`].
    pub async fn call_asking(
        &self,
        approvals: &Approvals,
        tool: &str,
        arguments: &str,
        cancel: CancellationToken,
        watch: Option<Watch>,
    ) -> Result<Asked, Uncalled> {
        let (desk, name, text) = (approvals.clone(), tool.to_owned(), arguments.to_owned());
        let (send, given) = tokio::sync::oneshot::channel();
        let once = move |ready: &Ready| {
            let call = Call::of(ready, &name, &text);
            let given = desk.take_where(|row| call.is_of(&row.what))?;
            let once = match given.map(|approval| approval.detail) {
                Some(What::Grant { capabilities, .. }) => capabilities,
                _ => Vec::new(),
            };
            let _ = send.send((call, once.clone()));
            Ok(once)
        };
        let ready = self.ready(tool, once).await?;
        let answer = self.call_ready(ready, arguments, cancel, watch).await?;
        let Ok((call, mut wanted)) = given.await else { return Ok(Asked { answer, standing: None }) };
        // A tool host that was taken over can say anything here: only what could be granted is asked for.
        let plain = |word: &&String| word.parse::<Capability>().is_ok();
        let denied: Vec<String> = answer.denied.iter().filter(plain).cloned().collect();
        if denied.is_empty() {
            return Ok(Asked { answer, standing: None });
        }
        // What went with this call and was used is needed by the next one too.
        wanted.extend(denied);
        wanted.sort();
        wanted.dedup();
        let (desk, plugins) = (approvals.clone(), self.plugins().clone());
        let asked = tokio::task::spawn_blocking(move || {
            plugins.may_be_granted(&call.plugin, &call.component, &wanted).ok()?;
            Some(desk.ask(&call.asks(wanted), None))
        });
        let failed = |e| Some(Err(ErrorReport::new(Code::Internal, format!("hotcell itself failed: {e}"))));
        Ok(Asked { answer, standing: asked.await.unwrap_or_else(failed) })
    }
}
