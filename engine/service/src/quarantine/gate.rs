//! What is done with something that is about to run and must not: it is held, or a release lets it run this once.

use std::time::Duration;

use hotcell_guard::quarantine::{Channel, State, policy_digest};
use hotcell_guard::{Held, Limits, Report, Verdict};
use hotcell_sandbox::outcome::{Cause, Outcome};

use super::error::{QuarantineError, Terms};
use super::identity::identify;
use super::item::Item;
use super::rows;
use super::steps::Judged;
use super::store::Quarantine;
use crate::actor::Actor;
use crate::guard::{Guard, Passed, Target, rules, sentence};
use crate::reader::Rules;
use crate::state::{StateChoice, StateFolder};

/// Where what is refused is held, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The state folder.
    pub state: StateChoice,
    /// Which way whoever asks came. Who it is, is found out when it is needed.
    pub channel: Channel,
    /// Whoever releases is not who asked.
    pub two_persons: bool,
    /// How long an item stays that nobody cares for.
    pub retention: Duration,
}

impl Keep {
    /// Who asks.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor::here(self.channel.clone())
    }

    /// What holds now, read under these rules.
    #[must_use]
    pub fn terms(&self, rules: &Rules) -> Terms {
        Terms {
            two_persons: self.two_persons,
            retention: self.retention,
            policy: policy_digest(rules, &Limits::default()),
            now_us: rows::now(),
        }
    }

    /// Opens the quarantine to write.
    ///
    /// # Errors
    /// [`QuarantineError`].
    pub fn open(&self) -> Result<Quarantine, QuarantineError> {
        Quarantine::open(StateFolder::open(self.state.path()?)?)
    }
}

impl Guard {
    /// Decides by the report: something passes, or it is held and there is an outcome in which nothing ran.
    pub(crate) fn decide(&self, mut report: Report, targets: &[Target]) -> Result<Passed, Box<Outcome>> {
        let line = sentence(&report);
        if report.verdict < Verdict::Incomplete || self.mode != crate::guard::Mode::Enforce {
            let warning =
                (report.verdict != Verdict::Allow).then(|| format!("{}: {line}", report.verdict.name()));
            return Ok(Passed { report, warning });
        }
        let next = match self.judge(&mut report, targets) {
            Some(Ok(Judged::Released { item, by })) => {
                let left = item.release.as_ref().map_or(0, |release| release.uses);
                let warning = format!(
                    "{}: {line}; {by} released it as {}, and it may run {left} more times",
                    report.verdict.name(),
                    item.id
                );
                return Ok(Passed { report, warning: Some(warning) });
            }
            Some(Ok(Judged::Held { item, ended })) => held(&item, ended.as_deref()),
            Some(Err(why)) => format!(
                "It could not be kept for a review: {why}. Run it all the same with --guard report, or change it"
            ),
            None => "Read it, then run it all the same with --guard report".to_owned(),
        };
        let mut outcome =
            Outcome::without_a_run(Cause::Quarantined, format!("{line}; nothing was run. {next}"));
        outcome.scan = serde_json::to_value(&report).ok();
        Err(Box::new(outcome))
    }

    /// Holds it or lets it run; `None` where whoever embeds this library keeps no quarantine.
    fn judge(&self, report: &mut Report, targets: &[Target]) -> Option<Result<Judged, String>> {
        let keep = self.keep.as_ref()?;
        let judged = (|| {
            let rules =
                rules(self.rules.as_deref(), self.digest.as_ref()).map_err(|report| report.message)?;
            let found = identify(targets, report).map_err(|e| format!("it cannot be read again: {e}"))?;
            (report.artifact.sha256, report.artifact.bytes) = (found.sha256.clone(), found.bytes);
            let quarantine = keep.open().map_err(|e| e.to_string())?;
            quarantine.judge(&found, report, &keep.actor(), &keep.terms(&rules)).map_err(|e| e.to_string())
        })();
        if let Ok(Judged::Released { item, .. } | Judged::Held { item, .. }) = &judged {
            report.quarantine = Some(Held { id: item.id.clone(), state: item.state.name().to_owned() });
        }
        Some(judged)
    }
}

/// Where it is held, and what to do next.
fn held(item: &Item, ended: Option<&str>) -> String {
    let id = &item.id;
    let what = match (item.state, ended) {
        (_, Some(why)) => format!("Its release does not count: {why}. It is held as {id}"),
        (State::UnderReview, _) => format!("Its release is asked for, as {id}"),
        (State::Rejected, _) => {
            let reason = item.decision.as_ref().map_or("", |word| word.reason.as_str());
            format!("{id} was rejected ({reason})")
        }
        _ => format!("It is held as {id}"),
    };
    format!("{what}: hotcell quarantine show {id} shows it, --guard report runs it all the same")
}
