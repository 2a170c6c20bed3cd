//! Handling of refused code at the gate: it is held, or a release lets it run once.

use std::collections::BTreeMap;
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
use crate::binaries::{self, Weighed};
use crate::guard::{Guard, Passed, Target, rules, sentence};
use crate::reader::Rules;
use crate::state::{StateChoice, StateFolder};

/// Where and for whom refused code is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// State folder.
    pub state: StateChoice,
    /// Channel of the caller. The user is looked up when needed.
    pub channel: Channel,
    /// An item must be released by another person than the one who asked.
    pub two_persons: bool,
    /// Retention of items that no user handles.
    pub retention: Duration,
}

impl Keep {
    /// The actor who asks.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor::here(self.channel.clone())
    }

    /// Current conditions under these rules.
    #[must_use]
    pub fn terms(&self, rules: &Rules) -> Terms {
        Terms {
            two_persons: self.two_persons,
            retention: self.retention,
            policy: policy_digest(rules, &Limits::default()),
            now_us: rows::now(),
        }
    }

    /// Opens the quarantine for writing.
    ///
    /// # Errors
    /// [`QuarantineError`] when the state folder or the database cannot be used.
    pub fn open(&self) -> Result<Quarantine, QuarantineError> {
        Quarantine::open(StateFolder::open(self.state.path()?)?)
    }
}

impl Guard {
    /// Decides by the report: the code passes, or it is held and the outcome says that nothing ran.
    pub(crate) fn decide(&self, mut report: Report, targets: &[Target]) -> Result<Passed, Box<Outcome>> {
        let line = sentence(&report);
        if report.verdict < Verdict::Incomplete || self.mode != crate::guard::Mode::Enforce {
            let said =
                (report.verdict != Verdict::Allow).then(|| format!("{}: {line}", report.verdict.name()));
            // Every run would repeat this warning about files that lie in the project and are not executed.
            let warning = if crate::guard::is_only_there(&report) {
                said.iter().for_each(|line| tracing::info!("guard: {line}"));
                None
            } else {
                said
            };
            return Ok(Passed { report, warning, note: None });
        }
        let weighed = self.weigh(&report, targets);
        if let Some(Weighed { report, may_run, .. }) = &weighed
            && report.verdict < Verdict::Incomplete
        {
            // Warn each time that code runs unread.
            let what = if *may_run == 1 { "binary runs" } else { "binaries run" };
            let warning = format!("{}: {may_run} {what} unread: {}", report.verdict.name(), sentence(report));
            return Ok(Passed { report: report.clone(), warning: Some(warning), note: None });
        }
        // Binaries that may run are not a reason for the refusal, so its sentence leaves them out.
        let line = weighed.as_ref().map_or(line, |weighed| sentence(&weighed.report));
        let by_digest = weighed.and_then(|weighed| weighed.in_the_way).map_or_else(String::new, |path| {
            let path = path.to_string_lossy();
            let path = hotcell_guard::command::quote(&path);
            format!("; hotcell approvals allow-binary {path} lets machine code of exactly these bytes run from now on")
        });
        let next = match self.judge(&mut report, targets) {
            Some(Ok(Judged::Released { item, by })) => {
                let left = item.release.as_ref().map_or(0, |release| release.uses);
                let warning = format!(
                    "{}: {line}; {by} released it as {}, and it may run {left} more times",
                    report.verdict.name(),
                    item.id
                );
                return Ok(Passed { report, warning: Some(warning), note: None });
            }
            Some(Ok(Judged::Held { item, ended })) => held(&item, ended.as_deref()),
            Some(Err(why)) => format!(
                "It could not be kept for a review: {why}. Run it all the same with --guard report, or change it"
            ),
            None => "Read it, then run it all the same with --guard report".to_owned(),
        };
        let mut outcome =
            Outcome::without_a_run(Cause::Quarantined, format!("{line}; nothing was run. {next}{by_digest}"));
        outcome.scan = serde_json::to_value(&report).ok();
        Err(Box::new(outcome))
    }

    /// Weighs the binaries in a refused report: only for runs from the command line, and only where one
    /// person decides.
    fn weigh(&self, report: &Report, targets: &[Target]) -> Option<Weighed> {
        let keep = self.keep.as_ref().filter(|keep| keep.channel == Channel::Cli && !keep.two_persons)?;
        if report.verdict != Verdict::Incomplete {
            return None;
        }
        let allowed = keep.binaries().unwrap_or_else(|error| {
            tracing::warn!("which binaries may run cannot be read: {error}");
            BTreeMap::new()
        });
        binaries::weigh(report, targets, &allowed)
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

/// Message that says where it is held, and what to do next.
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
