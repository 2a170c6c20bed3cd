//! A call that somebody waits for, or does no more.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::process::Process;
use crate::protocol::ToHost;
use crate::{Answer, Broker, CallError, Limits};

/// After a call was cancelled: the guest has a second to notice, and the process one more.
const CANCELLING: Duration = Duration::from_secs(2);

/// A call to be made.
pub struct Call<'a> {
    /// The number that [`Process::load`] gave.
    pub plugin: u64,
    /// The export.
    pub path: &'a str,
    /// JSON.
    pub arguments: &'a str,
    /// Its limits.
    pub limits: &'a Limits,
    /// Who answers its questions.
    pub broker: &'a Arc<dyn Broker>,
    /// Set when nobody waits any more.
    pub cancel: &'a CancellationToken,
}

/// A call that is under way. Dropping it cancels it.
pub struct Waiting {
    /// Whose.
    pub process: Arc<Process>,
    /// The call's.
    pub number: u64,
    /// Its end; taken when it was heard.
    pub told: Option<oneshot::Receiver<Result<Answer, CallError>>>,
}

impl Waiting {
    /// What came of it.
    pub async fn answer(&mut self) -> Result<Answer, CallError> {
        let lost = || Err(CallError::Host { message: "its process was lost".to_owned() });
        let answer = match &mut self.told {
            Some(told) => told.await.unwrap_or_else(|_| lost()),
            None => lost(),
        };
        self.told = None;
        answer
    }

    /// It was never sent.
    pub fn forget(&mut self) {
        self.told = None;
        self.process.forget(self.number);
    }

    /// Takes the call back: its questions at once, itself soon, or else its process.
    pub async fn cancel(&mut self) -> Result<Answer, CallError> {
        let Some(told) = self.told.take() else { return Err(CallError::Cancelled) };
        abandon(Arc::clone(&self.process), self.number, told).await
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(told) = self.told.take() else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(abandon(Arc::clone(&self.process), self.number, told))),
            Err(_) => self.process.kill("a call was dropped outside of the event loop"),
        }
    }
}

async fn abandon(
    process: Arc<Process>,
    number: u64,
    told: oneshot::Receiver<Result<Answer, CallError>>,
) -> Result<Answer, CallError> {
    process.abandon(number);
    let ended = async {
        if let Ok(frame) = (ToHost::Cancel { call: number }).encode() {
            let _ = process.link().send(frame).await;
        }
        told.await
    };
    match tokio::time::timeout(CANCELLING, ended).await {
        Ok(Ok(Ok(answer))) => Ok(answer),
        Ok(_) => Err(CallError::Cancelled),
        Err(_) => {
            process.kill(format!("a call went on {} s after it was cancelled", CANCELLING.as_secs()));
            Err(CallError::Cancelled)
        }
    }
}
