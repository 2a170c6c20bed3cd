//! SIGHUP to a server: its configuration and its tokens are read again, and count from then on; or all stays as it is.

use std::fs::File;
use std::io;
use std::sync::Arc;

use hotcell_service::StateFolder;
use hotcell_service::live::{Live, Tokens};
use hotcell_service::report::ErrorReport;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::Common;
use crate::systemd::{self, Word};
use crate::{configuration, notes};

/// The tokens of a server, and where they are read.
#[derive(Clone)]
pub struct Watched {
    pub tokens: Tokens,
    pub state: Arc<StateFolder>,
}

/// Hears SIGHUP, from now on.
pub struct Hup {
    signal: io::Result<Signal>,
    /// Whether it was started in a terminal, and ends with it.
    terminal: bool,
}

fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

impl Hup {
    /// Hears it.
    pub fn new() -> Self {
        // Before it is heard: then it is ignored no more.
        let terminal = has_terminal() && !is_ignored();
        Self { signal: signal(SignalKind::hangup()), terminal }
    }

    /// Reads again at each SIGHUP; ends when the terminal that it was started in is gone.
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

/// Everything is read before anything counts; but a token that was taken away does not wait for the rest to be mended.
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
    let failed =
        |e| ErrorReport::new(hotcell_service::report::Code::Internal, format!("hotcell failed: {e}"));
    done.await.map_err(failed)?
}

/// Whether this process was told to ignore SIGHUP, as `nohup` does: it stays when its terminal goes.
fn is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1))
}
