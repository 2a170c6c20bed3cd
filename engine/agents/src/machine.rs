//! The state machine of an attempt: `step(state, event) -> (state, effects)`, without time, files or models.
//!
//! The states and transitions are those of the founding document S2 (S2.19 to S2.22). Two events are ours: code that is given (a repair begins with a
//! review of it), and an attempt that another one has overtaken.

use serde::{Deserialize, Serialize};

use crate::loops::{Sight, look};
use crate::review::Review;

/// State of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Nothing is going on.
    #[default]
    Idle,
    /// A model writes the first artifact.
    Generating,
    /// An artifact is tested.
    Reviewing,
    /// A model repairs.
    Revising,
    /// An artifact is accepted.
    Converged,
    /// The attempt ended without one, and a person has to decide.
    Escalated,
    /// The attempt cannot go on.
    Failed,
}

/// Reason of an escalation or a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The maximum of iterations is reached.
    MaxIterationsReached,
    /// No progress, although the model was told.
    StagnationDetected,
    /// The model repeats itself, although it was told.
    OscillationDetected,
    /// The time is over.
    TimeoutExceeded,
    /// The guard quarantined artifacts again and again.
    DangerousOutputDetected,
    /// Answers in a row that could not be used.
    MalformedAnswers,
    /// A budget is spent, by its name.
    BudgetSpent(String),
    /// Another attempt of the session was accepted.
    Overtaken,
    /// The code passes a model's tests, and so do wrong versions of it.
    TestsProveNothing,
    /// No model replied.
    EndpointUnavailable(String),
    /// A caller ended it.
    Aborted,
}

/// Limits of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Maximum number of artifacts by the model that are reviewed.
    pub iterations: u32,
    /// Score from which an accepted artifact ends the attempt.
    pub threshold: u8,
    /// Difference of scores that counts as progress.
    pub min_delta: u8,
    /// Number of differences in a row without progress that make a stagnation.
    pub window: usize,
    /// Number of unusable answers in a row that end the attempt.
    pub malformed: u32,
    /// Seconds for which no model replies, after which the attempt fails.
    pub unavailable_s: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self { iterations: 5, threshold: 85, min_delta: 2, window: 2, malformed: 3, unavailable_s: 600 }
    }
}

/// State of an attempt with its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// State.
    pub phase: Phase,
    /// Limits.
    pub rules: Rules,
    /// Reviews, the first one that of the given code if there was any.
    pub reviews: Vec<Review>,
    /// True when the first review is of given code, or of a stub.
    pub given: bool,
    /// True when the first review is of a stub, so that a first artifact has to be written.
    pub stub: bool,
    /// Index of the best review; an earlier one among equals.
    pub best: Option<usize>,
    /// Unusable answers in a row.
    pub malformed: u32,
    /// Times that the loop guard found something.
    pub strikes: u32,
    /// Reason of the end, if it ended without an accepted artifact.
    pub reason: Option<Reason>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A task without code is given.
    TaskGiven,
    /// Code is given, to be repaired.
    CodeGiven,
    /// Tests are given, which were run on a stub; the code is to be written.
    TestsGiven,
    /// A model's answer has usable files.
    Answered,
    /// A model's answer cannot be used.
    Malformed {
        /// Reason, in words for the model.
        why: String,
    },
    /// An artifact was tested.
    Reviewed(Review),
    /// No model replied.
    Unavailable {
        /// Seconds since the first try.
        seconds: u64,
        /// Waiting longer may help.
        passes: bool,
        /// Reason.
        why: String,
    },
    /// A budget does not allow another call.
    OverBudget(String),
    /// The time is over.
    OutOfTime,
    /// Another attempt was accepted.
    Overtaken,
    /// The tests that the last artifact passes fail on none of its mutants.
    TestsProveNothing,
    /// A person decided about an escalation.
    Decided(Action),
    /// The artifact was handed over.
    HandedOver,
    /// The failure was acknowledged.
    Acknowledged,
}

/// A decision about an escalated attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Goes on with another model.
    SwitchLlm {
        /// Name of the configured model.
        model: String,
    },
    /// Goes on with further instructions.
    RetryWithConstraints {
        /// Instructions.
        constraints: Vec<String>,
    },
    /// Goes on as before, with raised limits.
    Continue,
    /// Ends it.
    Abort,
    /// Takes the best artifact.
    AcceptBestEffort,
}

/// Kind of question to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// The first artifact.
    First,
    /// The last question again, with the reason why the answer was not usable.
    Again,
    /// A repair of the last artifact, or of the best one if the last is worse.
    Repair,
    /// A repair without the memory of earlier ones.
    Fresh,
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask a model.
    Ask(Ask),
    /// Apply the files of the last answer, if there are any, and test.
    Test,
    /// Tell the model in the next question.
    Tell(Sight),
    /// The attempt ended.
    End,
}

impl State {
    /// An attempt that has not begun.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Number of artifacts by the model that were reviewed.
    #[must_use]
    pub fn iteration(&self) -> u32 {
        let count = self.reviews.len() - usize::from(self.given && !self.reviews.is_empty());
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Tells if nothing more happens without a decision.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Converged | Phase::Escalated | Phase::Failed)
    }

    /// Index of the review whose artifact a repair begins with: the last, unless an earlier one is better.
    #[must_use]
    pub fn base(&self) -> usize {
        let last = self.reviews.len().saturating_sub(1);
        match self.best {
            Some(best) if self.reviews[best].rank() > self.reviews[last].rank() => best,
            _ => last,
        }
    }

    fn ended(mut self, phase: Phase, reason: Option<Reason>) -> (Self, Vec<Effect>) {
        self.phase = phase;
        self.reason = reason;
        (self, vec![Effect::End])
    }
}

/// The kind of the next repair: most of what repairs gain comes in the first two, after which a fresh sample is worth more than a third.
#[must_use]
pub fn schedule(iteration: u32) -> Ask {
    match iteration {
        0 | 1 | 3 => Ask::Repair,
        n if n % 2 == 0 => Ask::Fresh,
        _ => Ask::Repair,
    }
}

/// One step. An event that means nothing in a state changes nothing and has no effect.
#[must_use]
pub fn step(mut state: State, event: Event) -> (State, Vec<Effect>) {
    match (state.phase, event) {
        (Phase::Idle, Event::TaskGiven) => {
            state.phase = Phase::Generating;
            (state, vec![Effect::Ask(Ask::First)])
        }
        (Phase::Idle, Event::CodeGiven) => {
            (state.phase, state.given) = (Phase::Reviewing, true);
            (state, vec![Effect::Test])
        }
        (Phase::Idle, Event::TestsGiven) => {
            (state.phase, state.given, state.stub) = (Phase::Reviewing, true, true);
            (state, vec![Effect::Test])
        }
        (Phase::Generating | Phase::Revising, Event::Answered) => {
            (state.phase, state.malformed) = (Phase::Reviewing, 0);
            (state, vec![Effect::Test])
        }
        (Phase::Generating | Phase::Revising, Event::Malformed { .. }) => {
            state.malformed += 1;
            if state.malformed >= state.rules.malformed {
                return state.ended(Phase::Escalated, Some(Reason::MalformedAnswers));
            }
            (state, vec![Effect::Ask(Ask::Again)])
        }
        (Phase::Generating | Phase::Revising, Event::Unavailable { seconds, passes, why }) => {
            if !passes || seconds >= state.rules.unavailable_s {
                return state.ended(Phase::Failed, Some(Reason::EndpointUnavailable(why)));
            }
            (state, vec![Effect::Ask(Ask::Again)])
        }
        (Phase::Generating | Phase::Revising, Event::OverBudget(which)) => {
            state.ended(Phase::Escalated, Some(Reason::BudgetSpent(which)))
        }
        (Phase::Generating | Phase::Reviewing | Phase::Revising, Event::OutOfTime) => {
            state.ended(Phase::Escalated, Some(Reason::TimeoutExceeded))
        }
        (Phase::Generating | Phase::Revising, Event::Overtaken) => {
            state.ended(Phase::Escalated, Some(Reason::Overtaken))
        }
        (Phase::Revising, Event::TestsProveNothing) => {
            state.ended(Phase::Escalated, Some(Reason::TestsProveNothing))
        }
        // The last review ended it already, by another reason.
        (Phase::Escalated, Event::TestsProveNothing) => {
            state.reason = Some(Reason::TestsProveNothing);
            (state, Vec::new())
        }
        (Phase::Reviewing, Event::Reviewed(review)) => reviewed(state, review),
        (Phase::Escalated, Event::Decided(action)) => match action {
            Action::SwitchLlm { .. } | Action::RetryWithConstraints { .. } | Action::Continue => {
                (state.malformed, state.strikes, state.reason) = (0, 0, None);
                let is_first = state.reviews.is_empty() || (state.stub && state.iteration() == 0);
                state.phase = if is_first { Phase::Generating } else { Phase::Revising };
                let ask = if is_first { Ask::First } else { Ask::Fresh };
                (state, vec![Effect::Ask(ask)])
            }
            Action::Abort => state.ended(Phase::Failed, Some(Reason::Aborted)),
            Action::AcceptBestEffort => state.ended(Phase::Idle, None),
        },
        (Phase::Converged, Event::HandedOver) | (Phase::Failed, Event::Acknowledged) => {
            state.phase = Phase::Idle;
            (state, Vec::new())
        }
        _ => (state, Vec::new()),
    }
}

fn reviewed(mut state: State, review: Review) -> (State, Vec<Effect>) {
    let good = review.accepted && review.score >= state.rules.threshold;
    state.reviews.push(review);
    let last = state.reviews.len() - 1;
    // A stub does not count as an artifact.
    let counts = last > 0 || !state.stub;
    if counts && state.best.is_none_or(|best| state.reviews[last].rank() > state.reviews[best].rank()) {
        state.best = Some(last);
    }
    if good && counts {
        return state.ended(Phase::Converged, None);
    }
    let iteration = state.iteration();
    if state.stub && iteration == 0 {
        state.phase = Phase::Generating;
        return (state, vec![Effect::Ask(Ask::First)]);
    }
    if iteration >= state.rules.iterations {
        return state.ended(Phase::Escalated, Some(Reason::MaxIterationsReached));
    }
    let sight = look(&state.reviews, state.rules.window, state.rules.min_delta);
    let reason = match sight {
        Sight::Progress => None,
        Sight::Repeats(_) => Some(Reason::OscillationDetected),
        Sight::Stagnant => Some(Reason::StagnationDetected),
    };
    let Some(reason) = reason else {
        state.phase = Phase::Revising;
        return (state, vec![Effect::Ask(schedule(iteration))]);
    };
    // The first strike tells the model, the second ends the attempt.
    state.strikes += 1;
    if state.strikes > 1 {
        return state.ended(Phase::Escalated, Some(reason));
    }
    state.phase = Phase::Revising;
    (state, vec![Effect::Tell(sight), Effect::Ask(Ask::Fresh)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn review(artifact: &str, score: u8, accepted: bool) -> Review {
        Review { artifact: artifact.to_owned(), failing: ["t".to_owned()].into(), score, accepted }
    }

    fn at(phase: Phase) -> State {
        State {
            phase,
            reviews: vec![review("given", 10, false)],
            given: true,
            best: Some(0),
            ..State::default()
        }
    }

    fn down(seconds: u64, passes: bool) -> Event {
        Event::Unavailable { seconds, passes, why: "down".to_owned() }
    }

    fn all_events() -> Vec<Event> {
        vec![
            Event::TaskGiven,
            Event::CodeGiven,
            Event::Answered,
            Event::Malformed { why: String::new() },
            Event::Reviewed(review("new", 90, true)),
            down(600, true),
            Event::OverBudget("money".to_owned()),
            Event::OutOfTime,
            Event::Overtaken,
            Event::Decided(Action::Continue),
            Event::Decided(Action::Abort),
            Event::Decided(Action::AcceptBestEffort),
            Event::HandedOver,
            Event::Acknowledged,
            Event::TestsGiven,
            Event::TestsProveNothing,
        ]
    }

    /// Each pair of a state and an event; pairs that are not listed change nothing.
    #[test]
    fn each_event_in_each_state_has_its_transition() {
        use Phase::{Converged, Escalated, Failed, Generating, Idle, Reviewing, Revising};
        let table = [
            (Idle, 0, Generating),
            (Idle, 1, Reviewing),
            (Generating, 2, Reviewing),
            (Revising, 2, Reviewing),
            (Generating, 3, Generating),
            (Revising, 3, Revising),
            (Reviewing, 4, Converged),
            (Generating, 5, Failed),
            (Revising, 5, Failed),
            (Generating, 6, Escalated),
            (Revising, 6, Escalated),
            (Generating, 7, Escalated),
            (Reviewing, 7, Escalated),
            (Revising, 7, Escalated),
            (Generating, 8, Escalated),
            (Revising, 8, Escalated),
            (Escalated, 9, Revising),
            (Escalated, 10, Failed),
            (Escalated, 11, Idle),
            (Converged, 12, Idle),
            (Failed, 13, Idle),
            (Idle, 14, Reviewing),
            (Revising, 15, Escalated),
            (Escalated, 15, Escalated),
        ];
        for phase in [Idle, Generating, Reviewing, Revising, Converged, Escalated, Failed] {
            for (number, event) in all_events().into_iter().enumerate() {
                let (after, effects) = step(at(phase), event.clone());
                let listed = table.iter().find(|(from, with, _)| (*from, *with) == (phase, number));
                assert_eq!(after.phase, listed.map_or(phase, |row| row.2), "{phase:?} {event:?}");
                assert!(
                    listed.is_some() || (effects.is_empty() && after == at(phase)),
                    "{phase:?} {event:?}"
                );
            }
        }
    }

    #[test]
    fn first_artifact_follows_a_stub_and_a_stub_is_never_the_best() {
        let (state, effects) = step(State::default(), Event::TestsGiven);
        assert_eq!((state.phase, effects), (Phase::Reviewing, vec![Effect::Test]));
        // Even a stub that passes everything.
        let (state, effects) = step(state, Event::Reviewed(review("stub", 100, true)));
        assert_eq!((state.phase, state.best, state.iteration()), (Phase::Generating, None, 0));
        assert_eq!(effects, [Effect::Ask(Ask::First)]);
        let spent = step(state.clone(), Event::OverBudget("calls".to_owned())).0;
        assert_eq!(step(spent, Event::Decided(Action::Continue)).1, [Effect::Ask(Ask::First)]);
        let (state, _) = step(state, Event::Answered);
        let (state, effects) = step(state, Event::Reviewed(review("a", 5, false)));
        assert_eq!(
            (state.phase, state.best, effects),
            (Phase::Revising, Some(1), vec![Effect::Ask(Ask::Repair)])
        );
    }

    #[test]
    fn review_decides_by_score_gates_iterations_and_progress() {
        let reviewed = |state: State, review| {
            let (after, effects) = step(State { phase: Phase::Reviewing, ..state }, Event::Reviewed(review));
            (after.phase, after.reason, effects)
        };
        let ask = |kind| vec![Effect::Ask(kind)];
        let end = || vec![Effect::End];
        let given = || at(Phase::Reviewing);
        // The score alone does not converge, nor do the gates alone.
        for (score, accepted, phase) in
            [(85, true, Phase::Converged), (100, false, Phase::Revising), (84, true, Phase::Revising)]
        {
            assert_eq!(reviewed(given(), review("a", score, accepted)).0, phase, "{score} {accepted}");
        }
        let mut last = given();
        last.rules.iterations = 1;
        let (phase, reason, effects) = reviewed(last, review("a", 50, false));
        assert_eq!((phase, reason, effects), (Phase::Escalated, Some(Reason::MaxIterationsReached), end()));
        assert_eq!(reviewed(given(), review("a", 50, false)), (Phase::Revising, None, ask(Ask::Repair)));
        // The given content again: first the model is told, then it ends.
        let (phase, reason, effects) = reviewed(given(), review("given", 10, false));
        assert_eq!((phase, reason), (Phase::Revising, None));
        assert_eq!(effects, [Effect::Tell(Sight::Repeats(1)), Effect::Ask(Ask::Fresh)]);
        let mut told = given();
        told.strikes = 1;
        assert_eq!(
            reviewed(told.clone(), review("given", 10, false)),
            (Phase::Escalated, Some(Reason::OscillationDetected), end())
        );
        told.reviews.push(review("a", 10, false));
        assert_eq!(
            reviewed(told, review("b", 10, false)),
            (Phase::Escalated, Some(Reason::StagnationDetected), end())
        );
    }

    #[test]
    fn endpoint_that_is_down_fails_only_after_the_ceiling_or_for_good() {
        for (event, phase) in [
            (down(599, true), Phase::Revising),
            (down(600, true), Phase::Failed),
            (down(1, false), Phase::Failed),
        ] {
            assert_eq!(step(at(Phase::Revising), event.clone()).0.phase, phase, "{event:?}");
        }
    }

    #[test]
    fn third_malformed_answer_ends_the_attempt_and_a_good_one_begins_anew() {
        let bad = || Event::Malformed { why: "no file".to_owned() };
        let (state, effects) = step(at(Phase::Revising), bad());
        assert_eq!(effects, [Effect::Ask(Ask::Again)]);
        let (state, _) = step(state, bad());
        assert_eq!(step(state.clone(), bad()).0.reason, Some(Reason::MalformedAnswers));
        assert_eq!(step(state, Event::Answered).0.malformed, 0);
    }

    #[test]
    fn best_artifact_is_the_first_of_the_best_and_base_the_last_of_them() {
        let mut state = at(Phase::Reviewing);
        for (artifact, score) in [("a", 40), ("b", 40), ("c", 30)] {
            state.phase = Phase::Reviewing;
            state = step(state, Event::Reviewed(review(artifact, score, false))).0;
        }
        assert_eq!((state.best, state.base()), (Some(1), 1));
        state.reviews.pop();
        assert_eq!((state.best, state.base()), (Some(1), 2));
    }

    #[test]
    fn repairs_alternate_with_fresh_samples() {
        use Ask::{Fresh, Repair};
        assert_eq!(
            (0..7).map(schedule).collect::<Vec<_>>(),
            [Repair, Repair, Fresh, Repair, Fresh, Repair, Fresh]
        );
    }

    fn any_event() -> impl Strategy<Value = Event> {
        prop_oneof![
            4 => Just(Event::Answered),
            4 => (0_u8..6, 0_u8..=100, any::<bool>())
                .prop_map(|(artifact, score, accepted)| Event::Reviewed(review(&artifact.to_string(), score, accepted))),
            1 => Just(Event::Malformed { why: String::new() }),
            1 => (0..all_events().len()).prop_map(|at| all_events().swap_remove(at)),
        ]
    }

    proptest! {
        #[test]
        fn attempts_end_within_their_limits_and_keep_the_best(events in proptest::collection::vec(any_event(), 0..200)) {
            let mut state = step(State::default(), Event::CodeGiven).0;
            for event in events.into_iter().filter(|event| !matches!(event, Event::Decided(_))) {
                let (after, effects) = step(state.clone(), event);
                prop_assert!(after.iteration() <= after.rules.iterations);
                prop_assert!(effects.iter().filter(|e| matches!(e, Effect::Ask(_) | Effect::Test)).count() <= 1);
                prop_assert_eq!(effects.contains(&Effect::End), after.has_ended() && !state.has_ended());
                if let Some(best) = after.best {
                    prop_assert!(after.reviews.iter().all(|review| review.rank() <= after.reviews[best].rank()));
                }
                prop_assert!(after.phase != Phase::Converged || after.reviews[after.best.unwrap()].accepted);
                if after.phase == Phase::Idle { break; }
                state = after;
            }
        }
    }
}
