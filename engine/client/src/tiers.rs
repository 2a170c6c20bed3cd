//! One call over the first of several servers that takes it, in the order of the caller. The next server is asked only when nothing can have happened at
//! the one before. Where the caller wants it, an invented answer stands at the end: it is labelled in each of its parts and counts as a failure.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::answer::Answer;
use crate::client::{Call, Client, Options};
use crate::error::CallError;
use crate::event::{Progress, State};
use crate::notice::Notice;
use crate::server::Server;

/// Label of everything that is invented.
pub const SIMULATED: &str = "SIMULATED";
/// Parts of an invented answer.
const CHUNKS: [&str; 3] = ["Analyzing…", "Executing…", "Complete"];
/// Time between two parts.
const CHUNK_INTERVAL: Duration = Duration::from_millis(500);

/// Functions that hear of a call while it runs.
pub trait Callbacks: Send {
    /// Output, calls of tools, changed files, tasks.
    fn notice(&mut self, _notice: Notice) {}

    /// Progress.
    fn progress(&mut self, _progress: Progress) {}
}

/// No interest in a call while it runs.
impl Callbacks for () {}

/// End of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution {
    /// Text of the answer; with the label, when it is invented.
    pub output: String,
    /// The answer; `None` when it is invented.
    pub answer: Option<Answer>,
    /// Whether a server carried the call out, and its tool did not say that it failed. Never for an invented answer.
    pub success: bool,
    /// Whether the answer is invented.
    pub simulated: bool,
    /// Number of tokens of a model, where the server's structured result has `tokensUsed`.
    pub tokens_used: Option<u64>,
    /// Position of the server that answered; `None` when the answer is invented.
    pub tier: Option<usize>,
    /// Why the servers before did not.
    pub passed_over: Vec<String>,
}

/// Servers in the order in which they are asked.
#[derive(Debug)]
pub struct Tiers {
    tiers: Vec<(Server, Mutex<Option<Arc<Client>>>)>,
    options: Options,
    is_simulated: bool,
}

impl Tiers {
    /// Servers in their order. A connection is made when it is needed, and kept.
    #[must_use]
    pub fn new(servers: Vec<Server>, options: Options) -> Self {
        let tiers = servers.into_iter().map(|server| (server, Mutex::default())).collect();
        Self { tiers, options, is_simulated: false }
    }

    /// Invents an answer when no server takes the call.
    #[must_use]
    pub fn simulated(mut self) -> Self {
        self.is_simulated = true;
        self
    }

    /// Calls a tool at the first server that takes the call.
    ///
    /// # Errors
    /// [`CallError::NotSent`] when no server took it, and every error of a server that did: the call may have been carried out there.
    pub async fn execute(
        &self,
        (tool, arguments): (&str, &Value),
        within: Duration,
        callbacks: impl Callbacks + 'static,
        cancel: &CancellationToken,
    ) -> Result<Execution, CallError> {
        let callbacks = Arc::new(Mutex::new(callbacks));
        let mut passed_over = Vec::new();
        for (number, (server, kept)) in self.tiers.iter().enumerate() {
            let client = self.client(server, kept);
            let connected = tokio::select! {
                connected = client.connect() => connected,
                () = cancel.cancelled() => return Err(CallError::Cancelled),
            };
            if let Err(error) = connected {
                passed_over.push(format!("{}: {error}", server.name()));
                continue;
            }
            let (told, heard) = (callbacks.clone(), callbacks.clone());
            let call = Call::new(tool, arguments.clone()).within(within).cancel(cancel.clone());
            let call = call.progress(move |news| locked(&told).progress(news));
            match client.call(call.notices(move |notice| locked(&heard).notice(notice))).await {
                Ok(answer) => {
                    let tokens = answer.structured.as_ref().and_then(|value| value["tokensUsed"].as_u64());
                    return Ok(Execution {
                        output: answer.text(),
                        success: !answer.is_error,
                        simulated: false,
                        tokens_used: tokens,
                        tier: Some(number),
                        answer: Some(answer),
                        passed_over,
                    });
                }
                Err(error) if is_passed_on(&error) => passed_over.push(format!("{}: {error}", server.name())),
                Err(error) => return Err(error),
            }
        }
        if !self.is_simulated {
            return Err(CallError::NotSent(match passed_over.is_empty() {
                true => "there is no server to ask".to_owned(),
                false => passed_over.join("; "),
            }));
        }
        let mut output = String::new();
        for chunk in chunks() {
            tokio::select! {
                () = tokio::time::sleep(CHUNK_INTERVAL) => {}
                () = cancel.cancelled() => return Err(CallError::Cancelled),
            }
            output.push_str(&chunk);
            locked(&callbacks).notice(Notice::Output(chunk));
        }
        let (answer, tier, tokens_used) = (None, None, None);
        Ok(Execution { output, answer, success: false, simulated: true, tokens_used, tier, passed_over })
    }

    /// The client of a server; a new one when the former one has given up.
    fn client(&self, server: &Server, kept: &Mutex<Option<Arc<Client>>>) -> Arc<Client> {
        let mut kept = locked(kept);
        match kept.as_ref().filter(|client| client.state() != State::Error) {
            Some(client) => client.clone(),
            None => {
                let client = Arc::new(Client::new(server.clone(), self.options.clone()));
                *kept = Some(client.clone());
                client
            }
        }
    }
}

/// Parts of an invented answer, a line each with the label.
#[must_use]
pub fn chunks() -> [String; 3] {
    CHUNKS.map(|chunk| format!("{SIMULATED}: {chunk}\n"))
}

/// Whether the next server may be asked: only when nothing happened at this one.
#[must_use]
pub fn is_passed_on(error: &CallError) -> bool {
    matches!(error, CallError::NotSent(_))
}

fn locked<T: ?Sized>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_may_have_run_are_not_passed_on() {
        for (error, want) in [
            (CallError::NotSent(String::new()), true),
            (CallError::Refused { code: 1, message: String::new() }, false),
            (CallError::Unknown(String::new()), false),
            (CallError::TooLate { within: Duration::ZERO }, false),
            (CallError::Cancelled, false),
            (CallError::WantsInput(String::new()), false),
        ] {
            assert_eq!(is_passed_on(&error), want, "{error:?}");
            assert!(!(is_passed_on(&error) && error.may_have_run()), "{error:?}");
        }
    }

    #[test]
    fn each_invented_part_has_the_label() {
        assert!(chunks().iter().all(|chunk| chunk.starts_with("SIMULATED: ") && chunk.ends_with('\n')));
    }

    #[tokio::test]
    async fn invented_answers_come_last_on_request_and_never_succeed() {
        let gone = || Server::Unconfined(crate::server::Unconfined::new("/nonexistent/server"));
        let tiers = Tiers::new(vec![gone(), gone()], Options::default());
        let (asked, cancel) = (("a", &Value::Null), CancellationToken::new());
        let error = tiers.execute(asked, Duration::from_secs(1), (), &cancel).await.unwrap_err();
        assert!(
            matches!(&error, CallError::NotSent(why) if why.matches("does not start").count() == 2),
            "{error}"
        );
        let done = tiers.simulated().execute(asked, Duration::from_secs(1), (), &cancel).await.unwrap();
        assert!(done.simulated && !done.success && done.answer.is_none() && done.tier.is_none());
        assert_eq!((done.passed_over.len(), done.output.matches(SIMULATED).count()), (2, 3));
        cancel.cancel();
        let tiers = Tiers::new(vec![], Options::default()).simulated();
        assert_eq!(
            tiers.execute(asked, Duration::from_secs(1), (), &cancel).await,
            Err(CallError::Cancelled)
        );
    }
}
