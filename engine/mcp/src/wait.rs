//! Waits for a run, with progress notifications on request, until the run ends, the time is over, or no
//! listener is left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell_plugins::progress::Reported;
use hotcell_sandbox::text::counted;
use hotcell_server::{Lane, Live, Phase, Run, State, Stream};
use hotcell_state::report::printable;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken, ProtocolVersion};
use rmcp::service::{Peer, RequestContext};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Minimum interval between two notifications.
const MIN_NOTIFICATION_INTERVAL: Duration = Duration::from_millis(250);
/// Time of the first notification about a silent run: clients with a timeout of a few seconds restart it at
/// each notification.
const FIRST_NOTIFICATION_DELAY: Duration = Duration::from_secs(1);
/// Maximum interval between two notifications, so that clients with a timeout of 5 or 60 s between messages
/// do not give up.
const MAX_NOTIFICATION_INTERVAL: Duration = Duration::from_secs(2);
/// Time limit for a client to accept a notification; it misses those in between.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(1);

/// A client that waits for the answer to a request.
#[derive(Debug)]
pub struct Listener {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    cancelled: CancellationToken,
    closed: Option<CancellationToken>,
    lane: Lane,
    /// Requests that this client answers.
    can: Allowed,
}

/// Requests of a foreign server to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Forms for the user (`elicitation/create`).
    pub forms: bool,
    /// Folders of the client (`roots/list`).
    pub folders: bool,
}

/// A client with an open call.
#[derive(Clone, Debug)]
pub struct Asker {
    /// Its connection.
    pub peer: Peer<RoleServer>,
    /// Requests that this client answers.
    pub can: Allowed,
}

/// Cancelled when the stream of a request's answer is closed before its end.
#[derive(Clone, Debug)]
pub struct Closed(pub CancellationToken);

impl Listener {
    /// The sender of this request.
    #[must_use]
    pub fn of(context: &RequestContext<RoleServer>) -> Self {
        let parts = context.extensions.get::<axum::http::request::Parts>();
        Self {
            lane: parts.and_then(|p| p.extensions.get::<Lane>()).cloned().unwrap_or_default(),
            peer: context.peer.clone(),
            can: can(context),
            token: context.meta.get_progress_token(),
            cancelled: context.ct.clone(),
            closed: parts.and_then(|p| p.extensions.get::<Closed>()).map(|c| c.0.clone()),
        }
    }

    /// The session in which the request was sent.
    #[must_use]
    pub fn lane(&self) -> Lane {
        self.lane.clone()
    }

    /// The client, for requests of a foreign server.
    pub(crate) fn asker(&self) -> Asker {
        Asker { peer: self.peer.clone(), can: self.can }
    }

    /// Resolves when the request is cancelled or its stream closed.
    pub(crate) async fn gone(&self) {
        let closed = async {
            match &self.closed {
                Some(closed) => closed.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.cancelled.cancelled() => {}
            () = closed => {}
        }
    }

    /// True when the request was cancelled, or its stream closed, by now.
    pub(crate) async fn is_gone(&self) -> bool {
        tokio::select! {
            biased;
            () = self.gone() => true,
            () = std::future::ready(()) => false,
        }
    }

    /// Sends a tool's progress; never returns.
    pub(crate) async fn tell_tool(&self, reported: &mut watch::Receiver<Reported>) {
        let Some(token) = &self.token else { return std::future::pending().await };
        let mut last = 0.0_f64;
        while reported.changed().await.is_ok() {
            let Reported { done, total, message } = reported.borrow_and_update().clone();
            let done = to_float(done);
            // The value has to increase each time.
            last = if done > last { done } else { last + 1e-6 };
            let mut news = ProgressNotificationParam::new(token.clone(), last);
            news.total = total.map(to_float);
            news.message = message.map(|words| printable(&words).chars().take(200).collect());
            let _ = tokio::time::timeout(NOTIFICATION_TIMEOUT, self.peer.notify_progress(news)).await;
            tokio::time::sleep(MIN_NOTIFICATION_INTERVAL).await;
        }
        std::future::pending::<()>().await;
    }

    /// Sends the progress of a foreign tool; never returns.
    pub(crate) async fn tell_foreign(
        &self,
        reported: &mut watch::Receiver<Option<hotcell_client::Progress>>,
    ) {
        let Some(token) = &self.token else { return std::future::pending().await };
        let mut last = 0.0_f64;
        while reported.changed().await.is_ok() {
            let Some(said) = reported.borrow_and_update().clone() else { continue };
            // The value has to increase each time.
            last = if said.done.is_finite() && said.done > last { said.done } else { last + 1e-6 };
            let mut news = ProgressNotificationParam::new(token.clone(), last);
            news.total = said.total.filter(|total| total.is_finite());
            // One line behind a bar, as all words of other servers.
            let barred = |words: String| format!("| {}", printable(&words)).chars().take(200).collect();
            news.message = said.message.map(barred);
            let _ = tokio::time::timeout(NOTIFICATION_TIMEOUT, self.peer.notify_progress(news)).await;
            tokio::time::sleep(MIN_NOTIFICATION_INTERVAL).await;
        }
        std::future::pending::<()>().await;
    }

    /// Sends a run's progress; never returns.
    async fn tell(&self, live: &Live, run: &Run) {
        let Some(token) = &self.token else { return std::future::pending().await };
        let mut following = run.follow();
        let (mut told, mut last) = (Instant::now(), 0.0_f64);
        let mut silent = FIRST_NOTIFICATION_DELAY;
        loop {
            let changed = async {
                tokio::time::sleep(MIN_NOTIFICATION_INTERVAL.saturating_sub(told.elapsed())).await;
                if following.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let _ = tokio::time::timeout(silent, changed).await;
            silent = MAX_NOTIFICATION_INTERVAL;
            let state = following.borrow().clone();
            let seconds = run.asked.elapsed().as_secs_f64();
            // The value has to increase each time.
            let done = state.progress.as_ref().map_or(seconds, |p| to_float(p.done));
            last = if done > last { done } else { last + 1e-6 };
            let mut news = ProgressNotificationParam::new(token.clone(), last);
            news.total = state.progress.as_ref().and_then(|p| p.total).map(to_float);
            news.message = Some(message(&state, live.position(run), seconds, &last_line(run)));
            let _ = tokio::time::timeout(NOTIFICATION_TIMEOUT, self.peer.notify_progress(news)).await;
            told = Instant::now();
        }
    }
}

/// Requests that a client answers: none in the newest revision, whose servers send none.
fn can(context: &RequestContext<RoleServer>) -> Allowed {
    let version = context.protocol_version();
    if version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str()) {
        return Allowed::default();
    }
    let Some(capabilities) = context.client_capabilities() else { return Allowed::default() };
    let forms = capabilities.elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none());
    Allowed { forms, folders: capabilities.roots.is_some() }
}

/// Converts a count to a JSON number.
#[allow(clippy::cast_precision_loss)] // counts of tests are small
fn to_float(count: u64) -> f64 {
    count as f64
}

/// The last line of a run's output, shortened, with a bar in front.
fn last_line(run: &Run) -> String {
    let last = run.last(Stream::Stdout, 200).bytes;
    let text = String::from_utf8_lossy(&last);
    let line = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default();
    line.chars().take(100).collect()
}

/// Our words, and the program's text behind a bar.
fn message(state: &State, position: Option<usize>, seconds: f64, line: &str) -> String {
    if let (Phase::Queued, Some(position)) = (state.phase, position) {
        return format!("waits for its turn, at position {position}");
    }
    let (mut words, theirs) = match &state.progress {
        Some(progress) => {
            let total = progress.total.map(|t| format!(" of {t}")).unwrap_or_default();
            (format!("test {}{total}", progress.done), progress.message.as_str())
        }
        None => {
            let printed = counted(state.printed.iter().sum::<u64>(), "byte");
            (format!("runs since {seconds:.0} s, printed {printed}"), line)
        }
    };
    if !theirs.is_empty() {
        words.push_str(" | ");
        words.push_str(&printable(theirs));
    }
    words
}

/// A request that keeps its run alive. When the last one is gone without an answer, the run is cancelled.
struct Holder<'a> {
    live: &'a Live,
    run: &'a Run,
    answered: bool,
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        if !self.answered && self.run.release() {
            self.live.cancel(self.run);
        }
    }
}

/// Waits at most `patience` for the end of a run that the listener started. The run is cancelled when no
/// listener is left.
pub async fn for_the_end(live: &Live, run: &Arc<Run>, listener: &Listener, patience: Duration) {
    run.hold();
    let mut holder = Holder { live, run, answered: false };
    tokio::select! {
        biased;
        () = run.ended() => {}
        () = listener.gone() => return,
        () = tokio::time::sleep(patience) => {}
        () = listener.tell(live, run) => {}
    }
    holder.answered = true;
}

/// Waits at most `patience` for the end of a run that another request follows; the run goes on when the
/// listener is gone.
pub async fn beside(live: &Live, run: &Arc<Run>, listener: &Listener, patience: Duration) {
    tokio::select! {
        biased;
        () = run.ended() => {}
        () = listener.gone() => {}
        () = tokio::time::sleep(patience) => {}
        () = listener.tell(live, run) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_server::Progress;

    #[test]
    fn messages_keep_words_apart() {
        let mut state = State { phase: Phase::Queued, progress: None, printed: [3, 4] };
        assert_eq!(message(&state, Some(3), 1.0, ""), "waits for its turn, at position 3");
        state.phase = Phase::Running;
        assert_eq!(message(&state, None, 12.3, "hello"), "runs since 12 s, printed 7 bytes | hello");
        state.progress = Some(Progress { done: 12, total: Some(80), message: "a\u{1b}:\u{2028}:b".into() });
        assert_eq!(message(&state, None, 1.0, "x"), "test 12 of 80 | a\\u{1b}:\\u{2028}:b");
    }
}
