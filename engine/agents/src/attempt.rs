//! An attempt as its rows tell it: the machine's state, what is to be done next, and what was seen. The driver applies each row when it writes it, and
//! all rows again when a session goes on, so that both come to the same state.

use crate::budget::{Amount, Budget};
use crate::evidence::Evidence;
use crate::journal::{Entry, Row, Task};
use crate::loops::Sight;
use crate::machine::{Ask, Effect, Event, Rules, State, step};
use crate::patch::Patch;

/// Evidence about one artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tested {
    /// Evidence.
    pub evidence: Evidence,
    /// Digest.
    pub artifact: String,
    /// Changed files.
    pub files: Vec<String>,
    /// Changed lines.
    pub lines: u64,
    /// Question that led to it.
    pub ask: Option<Ask>,
    /// Model that wrote it.
    pub model: Option<String>,
    /// The model's explanation, shortened.
    pub analysis: String,
    /// Changes against the source as it was when it was tested.
    pub patch: Option<Box<Patch>>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Text.
    pub text: String,
    /// Whether the answer ended at the maximum of output tokens.
    pub cut: bool,
    /// Model.
    pub model: String,
}

/// A line of what happened, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// An artifact was tested; index of the review.
    Tested(usize),
    /// An answer could not be used, or there was none.
    Unusable {
        /// Question.
        ask: Ask,
        /// Reason.
        why: String,
    },
}

/// An attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Number of the candidate, from 1.
    pub number: u32,
    /// Machine.
    pub state: State,
    /// Next effect.
    pub pending: Option<Effect>,
    /// Workspace.
    pub workspace: Option<String>,
    /// Reservation of a call whose end is not known.
    pub open_call: Option<Amount>,
    /// Number of calls.
    pub calls: u32,
    /// Last question.
    pub ask: Ask,
    /// Last answer.
    pub answer: Option<Answer>,
    /// The last answer was not read yet.
    pub unread: bool,
    /// Why the last answer was not usable.
    pub unusable: Option<String>,
    /// Words of the loop guard that were not told yet.
    pub told: Option<Sight>,
    /// Evidence, one for each review.
    pub tested: Vec<Tested>,
    /// History for people.
    pub happened: Vec<Happened>,
}

impl Attempt {
    /// An attempt that has not begun.
    #[must_use]
    pub fn new(number: u32, rules: Rules) -> Self {
        Self {
            number,
            state: State::new(rules),
            pending: None,
            workspace: None,
            open_call: None,
            calls: 0,
            ask: Ask::First,
            answer: None,
            unread: false,
            unusable: None,
            told: None,
            tested: Vec::new(),
            happened: Vec::new(),
        }
    }

    /// Applies a row.
    pub fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Began | Entry::Making { .. } | Entry::Noted { .. } => {}
            Entry::Workspace { id } => self.workspace = Some(id.clone()),
            Entry::Changed { task } => self.state.rules = task.rules.clone(),
            Entry::Asked { ask, most, .. } => {
                self.open_call = Some(*most);
                self.calls += 1;
                if *ask != Ask::Again {
                    self.ask = *ask;
                }
            }
            Entry::Replied { text, cut, model, .. } => {
                self.open_call = None;
                self.answer = Some(Answer { text: text.clone(), cut: *cut, model: model.clone() });
                self.unread = true;
            }
            Entry::NoReply { .. } => (self.open_call, self.answer) = (None, None),
            Entry::Tested { evidence, artifact, files, lines, analysis, patch } => {
                let by_model = self.answer.as_ref();
                self.tested.push(Tested {
                    evidence: (**evidence).clone(),
                    artifact: artifact.clone(),
                    files: files.clone(),
                    lines: *lines,
                    ask: by_model.map(|_| self.ask),
                    model: by_model.map(|answer| answer.model.clone()),
                    analysis: analysis.clone(),
                    patch: patch.clone(),
                });
            }
            Entry::Step { event } => self.step(event),
        }
    }

    fn step(&mut self, event: &Event) {
        self.unread = false;
        match event {
            Event::Answered => {
                self.unusable = None;
                self.told = None;
            }
            Event::Malformed { why } => {
                self.unusable = Some(why.clone());
                self.happened.push(Happened::Unusable { ask: self.ask, why: why.clone() });
            }
            Event::Unavailable { why, .. } => {
                self.happened.push(Happened::Unusable { ask: self.ask, why: why.clone() });
            }
            Event::Reviewed(_) => self.happened.push(Happened::Tested(self.state.reviews.len())),
            Event::Decided(_) => self.unusable = None,
            _ => {}
        }
        let (state, effects) = step(std::mem::take(&mut self.state), event.clone());
        self.state = state;
        self.pending = None;
        for effect in effects {
            match effect {
                Effect::Tell(sight) => self.told = Some(sight),
                other => self.pending = Some(other),
            }
        }
    }

    /// Evidence about the given code, or about stubs.
    #[must_use]
    pub fn before(&self) -> Option<&Evidence> {
        self.tested.first().map(|tested| &tested.evidence)
    }

    /// Evidence about the best artifact.
    #[must_use]
    pub fn best(&self) -> Option<(usize, &Tested)> {
        let best = self.state.best?;
        Some((best, self.tested.get(best)?))
    }
}

/// The task as it is now, the attempts, and the budget, from the rows of a session.
#[must_use]
pub fn replay(task: &Task, rows: &[Row]) -> (Task, Vec<Attempt>, Budget) {
    let mut task = task.clone();
    let mut attempts: Vec<Attempt> =
        (1..=task.candidates).map(|number| Attempt::new(number, task.rules.clone())).collect();
    let mut budget = Budget::new(task.limits);
    let mut open = std::collections::BTreeMap::new();
    for row in rows {
        match &row.entry {
            Entry::Changed { task: changed } => {
                task = (**changed).clone();
                budget.limits = task.limits;
                attempts.iter_mut().for_each(|attempt| attempt.apply(&row.entry));
            }
            Entry::Asked { most, .. } => {
                open.insert(row.candidate, *most);
            }
            Entry::Replied { used, .. } | Entry::NoReply { used, .. } => {
                open.remove(&row.candidate);
                budget.settle(Amount::default(), *used);
            }
            _ => {}
        }
        if let Some(attempt) = attempts.iter_mut().find(|attempt| attempt.number == row.candidate) {
            attempt.apply(&row.entry);
        }
    }
    for most in open.into_values() {
        // A limit that was lowered meanwhile does not undo a call.
        let limits = std::mem::take(&mut budget.limits);
        let _ = budget.reserve(most);
        budget.limits = limits;
    }
    (task, attempts, budget)
}
