//! The states of an item: `held -> under_review -> released | rejected`, and `purged` from everywhere.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::person::Person;

/// State of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Refused and stored; not requested yet.
    Held,
    /// A release was requested.
    UnderReview,
    /// Released by a person, for a number of runs and a limited time.
    Released,
    /// Rejected by a person.
    Rejected,
    /// The content was removed; the record stays.
    Purged,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Held, Self::UnderReview, Self::Released, Self::Rejected, Self::Purged];

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::UnderReview => "under_review",
            Self::Released => "released",
            Self::Rejected => "rejected",
            Self::Purged => "purged",
        }
    }

    /// Finds a state by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// A step of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Refuse it; has no effect on a held item.
    Hold,
    /// Ask for a release.
    Request,
    /// Let it run.
    Release,
    /// Forbid it to run; ends a release.
    Reject,
    /// Remove its content.
    Purge,
    /// A release ended by itself: its time, its uses, or changed rules.
    Lapse,
}

impl Step {
    /// Every step.
    pub const ALL: [Self; 6] =
        [Self::Hold, Self::Request, Self::Release, Self::Reject, Self::Purge, Self::Lapse];

    /// Name in the audit log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Request => "request",
            Self::Release => "release",
            Self::Reject => "reject",
            Self::Purge => "purge",
            Self::Lapse => "lapse",
        }
    }
}

/// Channel of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// A person on the command line.
    Cli,
    /// A person on the page of `hotcell web`. It may only decide.
    Web,
    /// A person on that page in team mode, by the name that the operator's proxy gives. It may only decide.
    Team(String),
    /// A model, by the name of its caller. It may only request.
    Model(String),
    /// A person who was asked through this caller's client, if the operator allows that.
    Elicited(String),
    /// hotcell itself: retention, the end of a release.
    Own,
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cli => f.write_str("cli"),
            Self::Web => f.write_str("web"),
            Self::Team(name) => write!(f, "web:{name}"),
            Self::Model(caller) => write!(f, "mcp:{caller}"),
            Self::Elicited(caller) => write!(f, "elicitation:{caller}"),
            Self::Own => f.write_str("hotcell"),
        }
    }
}

/// The persons involved, and if they have to be different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persons {
    /// An item must be released by another person than the one who asked.
    pub two: bool,
    /// The first requester; `None` without a request.
    pub requester: Option<Person>,
    /// The actor.
    pub actor: Person,
}

/// Why a step is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// A model tried a step reserved for persons, or a person one reserved for hotcell.
    #[error("{} is not for {channel}; a person can, with hotcell quarantine", .step.name())]
    NotYours {
        /// Step.
        step: Step,
        /// Channel of the actor.
        channel: Channel,
    },
    /// The step is not possible from this state.
    #[error("{} is not possible: it is {}{}", .step.name(), .from.name(), hint(*.step, *.from))]
    NotFrom {
        /// Step.
        step: Step,
        /// State.
        from: State,
    },
    /// Two persons are required, and requester and actor are the same.
    #[error("who asked ({0}) cannot release it too: quarantine.two_persons is set; another person has to")]
    SamePerson(Person),
    /// Two persons are required, and there is no request.
    #[error(
        "nobody has asked for it, and quarantine.two_persons is set; ask with hotcell quarantine request, and let \
         another user release it"
    )]
    NotAsked,
}

fn hint(step: Step, from: State) -> &'static str {
    match (step, from) {
        (Step::Request, State::Rejected) => "; a person said no, and only a person can ask again",
        (_, State::Purged) => "; it is kept again when it is refused again",
        _ => "",
    }
}

/// State that a step leads to. `from` is `None` for an artifact that was never held.
///
/// # Errors
/// [`Illegal`] when the channel, the state or the two-person rule forbids the step.
pub fn next(from: Option<State>, step: Step, channel: &Channel, persons: Persons) -> Result<State, Illegal> {
    use State::{Held, Purged, Rejected, Released, UnderReview};
    let allowed = match channel {
        Channel::Cli => step != Step::Lapse,
        Channel::Model(_) => matches!(step, Step::Hold | Step::Request),
        Channel::Web | Channel::Team(_) | Channel::Elicited(_) => {
            matches!(step, Step::Release | Step::Reject)
        }
        Channel::Own => matches!(step, Step::Purge | Step::Lapse),
    };
    if !allowed {
        return Err(Illegal::NotYours { step, channel: channel.clone() });
    }
    match (step, from.unwrap_or(Purged)) {
        (Step::Hold, Purged) | (Step::Lapse, Released) => Ok(Held),
        (Step::Hold, from) => Ok(from),
        (Step::Request, Held | UnderReview) => Ok(UnderReview),
        (Step::Request, Rejected) if *channel == Channel::Cli => Ok(UnderReview),
        (Step::Release, Held | UnderReview | Released | Rejected) => match persons {
            Persons { two: true, requester: None, .. } => Err(Illegal::NotAsked),
            // Question and answer pass through one client, whatever user its server runs as.
            Persons { two: true, actor, .. } if matches!(channel, Channel::Elicited(_)) => {
                Err(Illegal::SamePerson(actor))
            }
            Persons { two: true, requester: Some(who), actor } if who.may_be(&actor) => {
                Err(Illegal::SamePerson(who))
            }
            _ => Ok(Released),
        },
        (Step::Reject, Held | UnderReview | Released) => Ok(Rejected),
        (Step::Purge, Held | UnderReview | Released | Rejected) => Ok(Purged),
        (step, from) => Err(Illegal::NotFrom { step, from }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32) -> Person {
        Person::over(uid, "", &Channel::Cli, &std::collections::BTreeSet::new())
    }

    fn one() -> Persons {
        Persons { two: false, requester: None, actor: user(1) }
    }

    #[test]
    fn quarantine_transitions_by_channel_match_table() {
        use State::{Held as H, Purged as P, Rejected as N, Released as R, UnderReview as U};
        let model = Channel::Model("x".to_owned());
        // For each step: the state it leads to from held, under review, released, rejected, purged.
        for (channel, rows) in [
            (
                &Channel::Cli,
                [
                    (Step::Hold, [Some(H), Some(U), Some(R), Some(N), Some(H)]),
                    (Step::Request, [Some(U), Some(U), None, Some(U), None]),
                    (Step::Release, [Some(R), Some(R), Some(R), Some(R), None]),
                    (Step::Reject, [Some(N), Some(N), Some(N), None, None]),
                    (Step::Purge, [Some(P), Some(P), Some(P), Some(P), None]),
                    (Step::Lapse, [None; 5]),
                ],
            ),
            (
                &model,
                [
                    (Step::Hold, [Some(H), Some(U), Some(R), Some(N), Some(H)]),
                    (Step::Request, [Some(U), Some(U), None, None, None]),
                    (Step::Release, [None; 5]),
                    (Step::Reject, [None; 5]),
                    (Step::Purge, [None; 5]),
                    (Step::Lapse, [None; 5]),
                ],
            ),
            (
                // A person who was asked through a client may only decide.
                &Channel::Elicited("x".to_owned()),
                [
                    (Step::Hold, [None; 5]),
                    (Step::Request, [None; 5]),
                    (Step::Release, [Some(R), Some(R), Some(R), Some(R), None]),
                    (Step::Reject, [Some(N), Some(N), Some(N), None, None]),
                    (Step::Purge, [None; 5]),
                    (Step::Lapse, [None; 5]),
                ],
            ),
            (
                &Channel::Web,
                [
                    (Step::Hold, [None; 5]),
                    (Step::Request, [None; 5]),
                    (Step::Release, [Some(R), Some(R), Some(R), Some(R), None]),
                    (Step::Reject, [Some(N), Some(N), Some(N), None, None]),
                    (Step::Purge, [None; 5]),
                    (Step::Lapse, [None; 5]),
                ],
            ),
            (
                &Channel::Team("alice".to_owned()),
                [
                    (Step::Hold, [None; 5]),
                    (Step::Request, [None; 5]),
                    (Step::Release, [Some(R), Some(R), Some(R), Some(R), None]),
                    (Step::Reject, [Some(N), Some(N), Some(N), None, None]),
                    (Step::Purge, [None; 5]),
                    (Step::Lapse, [None; 5]),
                ],
            ),
            (
                &Channel::Own,
                [
                    (Step::Hold, [None; 5]),
                    (Step::Request, [None; 5]),
                    (Step::Release, [None; 5]),
                    (Step::Reject, [None; 5]),
                    (Step::Purge, [Some(P), Some(P), Some(P), Some(P), None]),
                    (Step::Lapse, [None, None, Some(H), None, None]),
                ],
            ),
        ] {
            for (step, wanted) in rows {
                for (from, want) in State::ALL.into_iter().zip(wanted) {
                    let got = next(Some(from), step, channel, one());
                    assert_eq!(got.as_ref().ok(), want.as_ref(), "{channel} {step:?} {from:?}: {got:?}");
                }
            }
        }
        assert_eq!(next(None, Step::Hold, &Channel::Cli, one()), Ok(State::Held));
        assert!(next(None, Step::Release, &Channel::Cli, one()).is_err());
    }

    #[test]
    fn dual_release_needs_another_person() {
        for (requester, actor, want) in [
            (None, 1, Err(Illegal::NotAsked)),
            (Some(1), 1, Err(Illegal::SamePerson(user(1)))),
            (Some(1), 2, Ok(State::Released)),
        ] {
            let persons = Persons { two: true, requester: requester.map(user), actor: user(actor) };
            assert_eq!(next(Some(State::UnderReview), Step::Release, &Channel::Cli, persons), want);
        }
        // Rejecting takes one person.
        let persons = Persons { two: true, requester: Some(user(1)), actor: user(1) };
        assert_eq!(next(Some(State::UnderReview), Step::Reject, &Channel::Cli, persons), Ok(State::Rejected));
    }

    #[test]
    fn names_round_trip() {
        for state in State::ALL {
            assert_eq!(State::named(state.name()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }
}
