//! Start and end of a confined process, seen from its parent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell_sandbox::{Canceller, Cause, Engine, Outcome, Policy};
use tokio::task::JoinHandle;

use crate::LoadError;
use crate::protocol::{FromHost, Incoming, MAX_HEAD_BYTES};

use super::link::{Cut, Link};

/// Time for a process to end by itself, so that its cause can be reported.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// A started process that is ready, before its listener runs.
pub struct Started {
    /// Connection to the process.
    pub link: Arc<Link>,
    /// Bytes received so far.
    pub incoming: Incoming,
    /// Ends the process; also when dropped.
    pub stop: Ender,
    /// Outcome of the process.
    pub ended: JoinHandle<Outcome>,
    /// Time that it took until it was ready.
    pub took: Duration,
}

/// Ends a process when it is dropped.
#[derive(Debug)]
pub struct Ender(Canceller);

impl Ender {
    /// Ends the process.
    pub fn end(&self) {
        self.0.cancel();
    }
}

impl Drop for Ender {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Started {
    /// Starts a process and waits until it is ready, for at most `patience`.
    ///
    /// # Errors
    /// [`LoadError::Host`] when the sandbox cannot be set up or the process does not become ready in time;
    /// otherwise the error that the process sent.
    pub async fn start(engine: &Engine, policy: &Policy, patience: Duration) -> Result<Self, LoadError> {
        let host = |message: String| LoadError::Host { message };
        let asked = Instant::now();
        let mut running = engine.spawn(policy).await.map_err(|refusal| host(refusal.message))?;
        let socket = running.socket().ok_or_else(|| host("the tool host has no socket".to_owned()))?;
        let stop = Ender(running.canceller());
        let ended = tokio::spawn(running.wait());
        let link = Link::new(socket).map_err(|e| host(format!("the tool host has no socket: {e}")))?;
        let mut incoming = Incoming::new(MAX_HEAD_BYTES);
        let first = tokio::time::timeout(patience, link.receive(&mut incoming)).await;
        let why = match first.map(|first| first.map(FromHost::decode)) {
            Ok(Ok(Ok(FromHost::Ready(Ok(()))))) => {
                return Ok(Self { link, incoming, stop, ended, took: asked.elapsed() });
            }
            Ok(Ok(Ok(FromHost::Ready(Err(error))))) => return Err(error),
            Ok(Ok(Ok(_))) => "its first message is another".to_owned(),
            Ok(Ok(Err(violation)) | Err(Cut::Broken(violation))) => violation.to_string(),
            Ok(Err(Cut::Closed)) => epitaph(last(&stop, ended).await.as_ref()),
            Err(_) => format!("it was not ready within {patience:?}"),
        };
        Err(host(format!("the tool host did not start: {why}")))
    }
}

/// Outcome of a process that has closed its socket, which means that it is ending.
pub async fn last(stop: &Ender, mut ended: JoinHandle<Outcome>) -> Option<Outcome> {
    match tokio::time::timeout(EXIT_TIMEOUT, &mut ended).await {
        Ok(outcome) => outcome.ok(),
        Err(_) => {
            stop.end();
            ended.await.ok()
        }
    }
}

/// Text about a process that ended by itself.
pub fn epitaph(outcome: Option<&Outcome>) -> String {
    let Some(outcome) = outcome else { return "its process was lost".to_owned() };
    let how = match (outcome.cause, &outcome.signal, outcome.exit_code) {
        (_, Some(signal), _) => format!("its process was ended by {signal}"),
        (Cause::Exited, _, Some(code)) => format!("its process exited with {code}"),
        (_, _, _) => "its process ended".to_owned(),
    };
    match &outcome.reason {
        Some(reason) => format!("{how}: {reason}"),
        None => how,
    }
}
