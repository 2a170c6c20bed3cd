//! A confined process from outside: how it begins, and how it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell_sandbox::{Canceller, Cause, Engine, Outcome, Policy};
use tokio::task::JoinHandle;

use super::link::{Cut, Link};
use crate::LoadError;
use crate::protocol::{FromHost, Incoming, LONGEST_HEAD};

/// How long a process may take to end by itself, so that it can be said why it did.
const ENDING: Duration = Duration::from_secs(1);

/// A started process that is ready, before anybody listens to it.
pub struct Started {
    /// To it.
    pub link: Arc<Link>,
    /// What came of it so far.
    pub incoming: Incoming,
    /// Ends it; also when it is dropped.
    pub stop: Ender,
    /// Its end.
    pub ended: JoinHandle<Outcome>,
    /// How long it took until it was ready.
    pub took: Duration,
}

/// Ends a process when it is dropped.
#[derive(Debug)]
pub struct Ender(Canceller);

impl Ender {
    /// Ends it.
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
    /// Starts one, which has so long to say that it is ready.
    ///
    /// # Errors
    /// Why there is none: no sandbox, or the program failed.
    pub async fn start(engine: &Engine, policy: &Policy, patience: Duration) -> Result<Self, LoadError> {
        let host = |message: String| LoadError::Host { message };
        let asked = Instant::now();
        let mut running = engine.spawn(policy).await.map_err(|refusal| host(refusal.message))?;
        let socket = running.socket().ok_or_else(|| host("the tool host has no socket".to_owned()))?;
        let stop = Ender(running.canceller());
        let ended = tokio::spawn(running.wait());
        let link = Link::new(socket).map_err(|e| host(format!("the tool host has no socket: {e}")))?;
        let mut incoming = Incoming::new(LONGEST_HEAD);
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

/// The outcome of a process that has closed its socket, which it does by ending.
pub async fn last(stop: &Ender, mut ended: JoinHandle<Outcome>) -> Option<Outcome> {
    match tokio::time::timeout(ENDING, &mut ended).await {
        Ok(outcome) => outcome.ok(),
        Err(_) => {
            stop.end();
            ended.await.ok()
        }
    }
}

/// What to say of a process that ended by itself.
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
