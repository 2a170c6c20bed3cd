//! Facts of a session that has ended, and who is told them.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use hotcell_verbs::in_force::InForce;
use tokio::sync::watch;

use super::closed::Closed;
use crate::language::Language;
use crate::steps::Steps;

/// A session that has ended.
#[derive(Clone, Debug)]
pub struct SessionEnd {
    /// Language.
    pub language: Language,
    /// Packages that it was given, as `NAME==VERSION`.
    pub packages: Vec<String>,
    /// The interpreter's command.
    pub argv: Vec<String>,
    /// The policy that was in force.
    pub in_force: InForce,
    /// Profile, as it was named.
    pub profile: Option<String>,
    /// Image, as it was named.
    pub image: Option<String>,
    /// Digest of the image.
    pub image_digest: Option<String>,
    /// Cells and files.
    pub steps: Steps,
    /// True if it was ended on request or by a bound of sessions, and neither by itself nor by a limit.
    pub is_closed: bool,
    /// The sandbox's report.
    pub report: RunReport,
}

/// Who is told the end of a session, such as the maker of receipts.
pub trait Witness: Debug + Send + Sync {
    /// Takes the facts of a session; the digest of its receipt, if one was made and kept. Blocks.
    fn ended(&self, end: SessionEnd) -> Option<String>;
}

/// Facts that are known when a session starts.
#[derive(Debug)]
pub(super) struct Stated {
    pub argv: Vec<String>,
    pub in_force: InForce,
    pub profile: Option<String>,
    pub image: Option<String>,
    pub image_digest: Option<String>,
}

/// Tells a session's end, once.
#[derive(Debug)]
pub(super) struct Telling {
    pub witness: Option<Arc<dyn Witness>>,
    pub language: Language,
    pub packages: Vec<String>,
    pub stated: Stated,
    /// `None` until the interpreter was ready: what did not begin has no end.
    pub steps: Arc<Mutex<Option<Steps>>>,
    /// Digest of its receipt.
    pub receipt: Arc<OnceLock<String>>,
    pub done: watch::Sender<bool>,
}

impl Telling {
    /// Tells it, and then those who wait for that.
    pub async fn tell(self, report: RunReport, closed: Option<Closed>) {
        let Self { witness, language, packages, stated, steps, receipt, done } = self;
        let steps = steps.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(|steps| {
            // The session ended with it.
            steps.end(crate::answer::Status::Died.name());
            steps.clone()
        });
        if let (Some(witness), Some(steps)) = (witness, steps) {
            let is_closed = report.cause == Cause::Cancelled && matches!(closed, None | Some(Closed::Asked));
            let Stated { argv, in_force, profile, image, image_digest } = stated;
            let end = SessionEnd {
                language,
                packages,
                argv,
                in_force,
                profile,
                image,
                image_digest,
                steps,
                is_closed,
                report,
            };
            match tokio::task::spawn_blocking(move || witness.ended(end)).await {
                Ok(digest) => {
                    let _ = digest.map(|digest| receipt.set(digest));
                }
                Err(error) => tracing::error!("the end of a session was not told: {error}"),
            }
        }
        done.send_replace(true);
    }
}

impl super::Session {
    /// Digest of its receipt, as soon as one was made and kept.
    #[must_use]
    pub fn receipt(&self) -> Arc<OnceLock<String>> {
        Arc::clone(&self.receipt)
    }

    /// Becomes true when its end was told.
    pub(crate) fn told(&self) -> watch::Receiver<bool> {
        self.told.clone()
    }

    /// Parts of its state that are lost with it, in words; `None` before its first cell.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        super::closed::lost(self.cells())
    }
}
