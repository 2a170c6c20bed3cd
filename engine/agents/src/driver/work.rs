//! The work of a session: each attempt goes on until it ends, all at once.

use futures_util::future::join_all;
use hotcell_state::report::{Code, ErrorReport};

use super::Session;
use crate::attempt::Attempt;
use crate::edit::{Edit, Malformed};
use crate::journal::Entry;
use crate::machine::{Action, Effect, Event, Phase};

impl Session<'_> {
    /// Works at all attempts until they end.
    pub(crate) async fn run(
        &self,
        attempts: Vec<Attempt>,
        decision: Option<Action>,
    ) -> Result<Vec<Attempt>, ErrorReport> {
        self.accepted.set(attempts.iter().any(|attempt| attempt.state.phase == Phase::Converged));
        let all = join_all(attempts.into_iter().map(|attempt| self.attempt(attempt, decision.clone()))).await;
        all.into_iter().collect()
    }

    pub(super) async fn attempt(
        &self,
        mut attempt: Attempt,
        decision: Option<Action>,
    ) -> Result<Attempt, ErrorReport> {
        if let Some(action) = decision.filter(|_| attempt.state.phase == Phase::Escalated) {
            self.note(&mut attempt, &[Entry::Step { event: Event::Decided(action) }])?;
        }
        if let Some(most) = attempt.open_call {
            self.settle_lost(&mut attempt, most)?;
        }
        if attempt.unread {
            self.read(&mut attempt)?;
        }
        loop {
            match attempt.pending {
                Some(Effect::Ask(ask)) => self.ask(&mut attempt, ask).await?,
                Some(Effect::Test) => match self.stage_of(&attempt) {
                    Some(stage) => self.judge_stage(stage, &mut attempt).await?,
                    None => self.test(&mut attempt).await?,
                },
                None | Some(Effect::End | Effect::Tell(_)) => return Ok(attempt),
            }
        }
    }

    /// Files of the last answer, against the artifact that it was asked for.
    pub(crate) fn edit(&self, attempt: &Attempt) -> Result<Result<Edit, Malformed>, ErrorReport> {
        let (Some(answer), Some(workspace)) = (&attempt.answer, &attempt.workspace) else {
            return Err(ErrorReport::new(Code::Internal, "there is no answer to apply"));
        };
        let (_, shown) = self.sources(attempt, self.source_bytes(attempt))?;
        let only = self.only(&shown);
        let frozen = self.made().map_or(&[][..], |made| &made.frozen);
        let text = (answer.text.as_str(), answer.cut);
        self.driver.bench.read(workspace, attempt.state.base(), text, (only, frozen))
    }

    /// Applies the last answer and tests the result, unless its content was tested before.
    async fn test(&self, attempt: &mut Attempt) -> Result<(), ErrorReport> {
        let edit = self.edit(attempt)?;
        let edit = edit.map_err(|malformed| ErrorReport::new(Code::Internal, malformed.to_string()))?;
        let Some(workspace) = attempt.workspace.clone() else {
            return Err(ErrorReport::new(Code::Internal, "there is no workspace"));
        };
        let number = attempt.state.reviews.len();
        let mut changed = self.driver.bench.apply(&workspace, attempt.state.base(), number, &edit.files)?;
        if let Some(made) = self.made() {
            changed.files.retain(|path| !made.frozen.contains(path));
            self.check_frozen(made, &workspace)?;
        } else if changed.files.is_empty() {
            "given".clone_into(&mut changed.artifact);
        }
        let known = attempt.tested.iter().find(|tested| tested.artifact == changed.artifact);
        let again = if known.is_some() { ", this code was there before" } else { "" };
        let mut evidence = match known {
            Some(tested) => tested.evidence.clone(),
            None => {
                let what = format!("session {} candidate {} iteration {number}", self.id, attempt.number);
                self.driver.test(&self.task, &workspace, &what).await?.1
            }
        };
        let before = attempt.before().cloned().unwrap_or_else(|| evidence.clone());
        if known.is_none() {
            self.try_mutants((&workspace, number), &changed.files, &mut evidence).await?;
        }
        let review = evidence.review(&before, &changed.artifact, None);
        let compared = evidence.compared(&before);
        let lost = match compared.regressions {
            0 => String::new(),
            count => format!(", {count} that passed before fail"),
        };
        let result = match evidence.refused() {
            Some(why) => why,
            None => format!("{} of {} tests are good{lost}", compared.good, compared.required),
        };
        let line = format!(
            "{} of {}: {result}, score {}{again}; {}",
            attempt.state.iteration() + 1,
            attempt.state.rules.iterations,
            review.score,
            self.spent()
        );
        self.say(attempt, &line);
        if let Some(mutants) = evidence.mutants.filter(|mutants| mutants.of > 0) {
            let also = if mutants.prove_nothing() { ": they say nothing about the code" } else { "" };
            self.say(
                attempt,
                &format!("the tests fail on {} of {} wrong versions{also}", mutants.killed, mutants.of),
            );
        }
        let proves_nothing = evidence.mutants.is_some_and(|mutants| mutants.prove_nothing());
        let tested = Entry::Tested {
            evidence: Box::new(evidence),
            artifact: changed.artifact,
            files: changed.files,
            lines: changed.lines,
            analysis: edit.analysis.map(|text| crate::text::line(&text, 400)).unwrap_or_default(),
            patch: Some(Box::new(changed.patch)),
        };
        let mut rows = vec![tested, Entry::Step { event: Event::Reviewed(review) }];
        if proves_nothing {
            rows.push(Entry::Step { event: Event::TestsProveNothing });
        }
        self.note(attempt, &rows)?;
        if attempt.state.phase == Phase::Converged {
            self.accepted.set(true);
        }
        Ok(())
    }

    /// `3 calls, 5120 tokens, $0.0021 so far`
    pub(super) fn spent(&self) -> String {
        let spent = self.budget.borrow().spent;
        let calls = if spent.calls == 1 { "call" } else { "calls" };
        let mut text = format!("{} {calls}, {} tokens", spent.calls, spent.tokens);
        if spent.picodollars > 0 {
            text.push_str(&format!(", {}", hotcell_models::Money(spent.picodollars)));
        }
        text + " so far"
    }
}
