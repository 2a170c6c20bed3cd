//! SIGHUP to a server: re-reads its configuration and its tokens and applies them, or leaves everything
//! unchanged.

use std::fs::File;
use std::io;
use std::sync::Arc;

use hotcell_http::Tokens;
use hotcell_server::Live;
use hotcell_state::StateFolder;
use hotcell_state::report::ErrorReport;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::Common;
use crate::context::configuration;
use crate::signals;
use crate::systemd::{self, Word};
use crate::terminal::notes;

/// The tokens of a server, and the file from which they are read.
#[derive(Clone)]
pub struct Watched {
    pub tokens: Tokens,
    pub state: Arc<StateFolder>,
}

/// Receives SIGHUP from its creation on.
pub struct Hup {
    signal: io::Result<Signal>,
    /// Whether the server was started in a terminal, with which it ends.
    terminal: bool,
}

fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

impl Hup {
    /// Starts receiving the signal.
    pub fn new() -> Self {
        // Checked first, because installing a handler changes whether the signal is ignored.
        let terminal = has_terminal() && !signals::is_ignored(nix::libc::SIGHUP);
        Self { signal: signal(SignalKind::hangup()), terminal }
    }

    /// Reloads at each SIGHUP; returns when the terminal in which the server was started is gone.
    pub async fn reload(mut self, common: &Common, live: &Live, watched: Option<&Watched>) {
        let Ok(signal) = &mut self.signal else { return std::future::pending().await };
        while signal.recv().await.is_some() {
            if self.terminal && !has_terminal() {
                return;
            }
            systemd::tell(Word::Reloading);
            let done = again(common, live, watched).await;
            live.metrics().reloaded(done.is_ok());
            match done {
                Err(report) => {
                    tracing::error!("the configuration is not read again, and the old one stays: {report}");
                }
                Ok(later) if common.quiet => drop(later),
                Ok(later) if later.is_empty() => notes::say("the configuration was read again"),
                Ok(later) => notes::say(format!(
                    "the configuration was read again; {} counts after the next start",
                    later.join(", ")
                )),
            }
            systemd::tell(Word::Ready);
        }
    }
}

/// Reads everything before applying any of it; but a revoked token is dropped even if the rest is invalid.
async fn again(
    common: &Common,
    live: &Live,
    watched: Option<&Watched>,
) -> Result<Vec<&'static str>, ErrorReport> {
    let (common, service, watched) = (common.clone(), live.clone(), watched.cloned());
    let done = tokio::task::spawn_blocking(move || {
        let read = watched.as_ref().map(|watched| Tokens::open(&watched.state)).transpose()?;
        let later = configuration(&common, None).and_then(|new| service.reconfigure(new));
        if let (Some(Watched { tokens, .. }), Some(read)) = (&watched, &read) {
            match &later {
                Ok(_) => tokens.replace(read),
                Err(_) => match tokens.narrow(read) {
                    0 => {}
                    gone => tracing::warn!("tokens that are not in their file any more open nothing: {gone}"),
                },
            }
            service.share(tokens.callers() > 1);
        }
        later
    });
    let failed = |e| ErrorReport::new(hotcell_state::report::Code::Internal, format!("hotcell failed: {e}"));
    done.await.map_err(failed)?
}
