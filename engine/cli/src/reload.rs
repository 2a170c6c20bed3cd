//! SIGHUP to a server: its configuration and its tokens are read again, and count from then on; or all stays as it is.

use std::fs::File;
use std::io;

use hotcell_service::StateFolder;
use hotcell_service::config::Configuration;
use hotcell_service::live::{Live, Tokens};
use hotcell_service::report::ErrorReport;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::Common;
use crate::systemd::{self, Word};
use crate::{configuration, notes};

/// Hears SIGHUP, from now on.
pub struct Hup {
    signal: io::Result<Signal>,
    /// Whether it was started in a terminal, which may go away.
    terminal: bool,
}

fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

impl Hup {
    /// Hears it.
    pub fn new() -> Self {
        Self { signal: signal(SignalKind::hangup()), terminal: has_terminal() }
    }

    /// Reads again at each SIGHUP; ends when the terminal that it was started in is gone.
    pub async fn reload(mut self, common: &Common, live: &Live, tokens: Option<(&Tokens, &StateFolder)>) {
        let Ok(signal) = &mut self.signal else { return std::future::pending().await };
        while signal.recv().await.is_some() {
            if self.terminal && !has_terminal() {
                return;
            }
            systemd::tell(Word::Reloading);
            let done = again(common, live, tokens).await;
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

/// Everything is read before anything counts.
async fn again(
    common: &Common,
    live: &Live,
    tokens: Option<(&Tokens, &StateFolder)>,
) -> Result<Vec<&'static str>, ErrorReport> {
    let new: Configuration = configuration(common, None)?;
    let read = tokens.map(|(_, state)| Tokens::open(state)).transpose()?;
    let service = live.clone();
    let later = tokio::task::spawn_blocking(move || service.reconfigure(new)).await;
    let failed =
        |e| ErrorReport::new(hotcell_service::report::Code::Internal, format!("hotcell failed: {e}"));
    let later = later.map_err(failed)??;
    if let (Some((tokens, _)), Some(read)) = (tokens, read) {
        tokens.replace(&read);
    }
    Ok(later)
}
