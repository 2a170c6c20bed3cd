//! The gate: code is scanned before it runs, and whatever the guard refuses is held, or runs once by a release.

use std::collections::BTreeMap;

use hotcell_config::Mode;
use hotcell_guard::quarantine::{Channel, State};
use hotcell_guard::{Held, Report, Verdict};
use hotcell_report::RunReport;
use hotcell_sandbox::Confinement;
use hotcell_sandbox::outcome::Cause;

use crate::binaries::{self, Weighed};
use crate::guard::{Guard, Passed, Scanned, is_only_there, rules, sentence};
use crate::quarantine::identity::identify;
use crate::quarantine::{Item, Judged, QuarantineConfig};
use crate::target::Target;
use crate::whole_command::Whole;

/// The guard, and the place where refused code is held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// Guard that scans the code.
    pub guard: Guard,
    /// Where refused code is held. Without it, code is only refused.
    pub keep: Option<QuarantineConfig>,
}

impl Gate {
    /// Scans the code to be run, and decides by the report; `None` when the guard is off or there is nothing to scan.
    ///
    /// # Errors
    /// The outcome of the refused run: quarantined, or refused because the rules cannot be loaded or the code cannot be
    /// read.
    pub fn check(
        &self,
        whole: Whole<'_>,
        confinement: Confinement,
    ) -> Result<Option<Passed>, Box<RunReport>> {
        match self.guard.scan(whole, confinement)? {
            Some(Scanned { report, targets }) => self.decide(report, &targets).map(Some),
            None => Ok(None),
        }
    }

    /// Decides by the report: the code passes, or it is held and the outcome says that nothing ran.
    fn decide(&self, mut report: Report, targets: &[Target]) -> Result<Passed, Box<RunReport>> {
        let line = sentence(&report);
        if report.verdict < Verdict::Incomplete || self.guard.settings.mode != Mode::Enforce {
            let said =
                (report.verdict != Verdict::Allow).then(|| format!("{}: {line}", report.verdict.name()));
            // Every run would repeat this warning about files that lie in the project and are not executed.
            let warning = if is_only_there(&report) {
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
        let paths = weighed.map(|weighed| weighed.in_the_way).unwrap_or_default();
        let by_digest = if paths.is_empty() {
            String::new()
        } else {
            let paths: String = paths
                .iter()
                .map(|path| format!(" {}", hotcell_guard::command::quote(&path.to_string_lossy())))
                .collect();
            format!(
                "; hotcell approvals allow-binary{paths} lets machine code of exactly these bytes run from now on"
            )
        };
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
                "It could not be kept for a review: {why}. Run it all the same with ‹guard=report›, or change it"
            ),
            None => "Read it, then run it all the same with ‹guard=report›".to_owned(),
        };
        let mut outcome = RunReport::without_a_run(
            Cause::Quarantined,
            format!("{line}; nothing was run. {next}{by_digest}"),
        );
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
        let allowed = binaries::allowed(keep).unwrap_or_else(|error| {
            tracing::warn!("which binaries may run cannot be read: {error}");
            BTreeMap::new()
        });
        binaries::weigh(report, targets, &allowed)
    }

    /// Holds it or lets it run; `None` where the program that embeds this library keeps no quarantine.
    fn judge(&self, report: &mut Report, targets: &[Target]) -> Option<Result<Judged, String>> {
        let keep = self.keep.as_ref()?;
        let settings = &self.guard.settings;
        let judged = (|| {
            let rules = rules(settings.rules.as_deref(), settings.digest.as_ref())
                .map_err(|report| report.message)?;
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
    format!("{what}: hotcell quarantine show {id} shows it, ‹guard=report› runs it all the same")
}

#[cfg(test)]
mod tests {
    use hotcell_guard::Artifact;

    use super::*;
    use crate::guard::for_a_model;
    use hotcell_config::GuardSettings;

    #[test]
    fn guard_mode_decides_refusal() {
        let source = |text: &str| Whole::of_source(Artifact::new("x.py", text));
        let hostile = "import shutil\nshutil.rmtree('/home')\n";
        let cause = |mode, text: &str| {
            let settings = GuardSettings { mode, ..GuardSettings::default() };
            let guard = Guard { settings, ..Guard::default() };
            let gate = Gate { guard, keep: None };
            gate.check(source(text), Confinement::Namespaces)
                .map(|passed| passed.map(|p| p.report.verdict))
                .map_err(|o| o.cause)
        };
        assert_eq!(cause(Mode::Enforce, hostile), Err(Cause::Quarantined));
        assert_eq!(cause(Mode::Report, hostile), Ok(Some(Verdict::Quarantine)));
        assert_eq!(cause(Mode::Off, hostile), Ok(None));
        assert_eq!(cause(Mode::Enforce, "print(1)\n"), Ok(Some(Verdict::Allow)));
        assert_eq!(cause(Mode::Enforce, &"(".repeat(1000)), Err(Cause::Quarantined));
    }

    #[test]
    fn model_gets_rule_and_line_of_finding() {
        let hostile = Whole::of_source(Artifact::new("x.py", "import shutil\nshutil.rmtree('/home')\n"));
        let gate = Gate::default();
        let mut outcome = *gate.check(hostile, Confinement::Namespaces).unwrap_err();
        let message = outcome.scan.as_ref().unwrap()["findings"][0]["message"].as_str().unwrap().to_owned();
        for_a_model(&mut outcome);
        let told = serde_json::to_string(&outcome).unwrap();
        assert!(told.contains("x.py:2") && !told.contains(message.trim_end_matches('.')), "{told}");
        assert_eq!(outcome.scan.unwrap()["findings"][0]["line"], 2);
    }
}
