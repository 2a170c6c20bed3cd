//! A call and the caller that waits for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::protocol::ToHost;
use crate::{Answer, Broker, CallError, Limits};

use super::process::Process;

/// Time for a cancelled call to end: a second for the guest to notice, and one more for the process.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// A call to be made.
pub struct Call<'a> {
    /// Number that [`Process::load`] returned.
    pub plugin: u64,
    /// Export to call.
    pub path: &'a str,
    /// Arguments, as JSON.
    pub arguments: &'a str,
    /// Limits of the call.
    pub limits: &'a Limits,
    /// Broker that answers its questions.
    pub broker: &'a Arc<dyn Broker>,
    /// Cancelled when the caller no longer waits.
    pub cancel: &'a CancellationToken,
}

/// A running call. Dropping it cancels the call.
pub struct Waiting {
    /// Process that runs the call.
    pub process: Arc<Process>,
    /// Number of the call.
    pub number: u64,
    /// Receiver of the result; taken once the result has arrived.
    pub told: Option<oneshot::Receiver<Result<Answer, CallError>>>,
}

impl Waiting {
    /// Waits for the result.
    pub async fn answer(&mut self) -> Result<Answer, CallError> {
        let lost = || Err(CallError::Host { message: "its process was lost".to_owned() });
        let answer = match &mut self.told {
            Some(told) => told.await.unwrap_or_else(|_| lost()),
            None => lost(),
        };
        self.told = None;
        answer
    }

    /// Drops a call that was never sent, without cancelling it.
    pub fn forget(&mut self) {
        self.told = None;
        self.process.forget(self.number);
    }

    /// Cancels the call: its questions at once, then the guest; ends the process if that takes too long.
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
    match tokio::time::timeout(CANCEL_TIMEOUT, ended).await {
        Ok(Ok(Ok(answer))) => Ok(answer),
        Ok(_) => Err(CallError::Cancelled),
        Err(_) => {
            process.kill(format!("a call went on {} s after it was cancelled", CANCEL_TIMEOUT.as_secs()));
            Err(CallError::Cancelled)
        }
    }
}
