//! The states of a request: `pending -> approved -> used`, `pending -> denied`, and `expired` from pending or
//! approved. Plain functions over data.

use hotcell_guard::quarantine::Channel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One run of code that the guard refused.
    Release,
    /// Capabilities for one call of a plugin's tool.
    Grant,
    /// Hosts that one run may reach.
    Network,
    /// Protected names in one commit.
    Protected,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Release, Self::Grant, Self::Network, Self::Protected];

    /// Name in reports and in the database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Grant => "grant",
            Self::Network => "network",
            Self::Protected => "protected",
        }
    }

    /// Finds a kind by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// State of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waiting for a decision.
    Pending,
    /// Approved and not used yet.
    Approved,
    /// Denied by a person.
    Denied,
    /// Expired before a decision, or before its use.
    Expired,
    /// Used.
    Used,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Approved, Self::Denied, Self::Expired, Self::Used];

    /// Name in reports and in the database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Used => "used",
        }
    }

    /// Finds a state by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Current state of a request stored with this state: pending and approved requests expire.
    #[must_use]
    pub fn at(self, expires_us: i64, now_us: i64) -> Self {
        match self {
            Self::Pending | Self::Approved if now_us >= expires_us => Self::Expired,
            state => state,
        }
    }
}

/// A step of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A person approves.
    Approve,
    /// A person denies, or revokes an approval.
    Deny,
    /// The call that asked uses the approval.
    Use,
}

/// Why a step is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// Only a person may decide.
    #[error("only a person decides: hotcell approvals approve, or deny")]
    NotAPerson,
    /// The operator did not allow that channel.
    #[error("it is decided on the command line only: approvals = \"elicitation\" is not set")]
    NotByElicitation,
    /// The request is another caller's.
    #[error("it was asked for by another caller")]
    OtherCaller,
    /// The step is not possible from this state.
    #[error("{}", not_from(*.step, *.from))]
    NotFrom {
        /// The step.
        step: Step,
        /// The state.
        from: State,
    },
}

fn not_from(step: Step, from: State) -> String {
    let why = match from {
        State::Pending => "nobody has decided yet",
        State::Approved => "it is approved already",
        State::Denied => "it was denied",
        State::Expired => "it has expired",
        State::Used => "it was used already",
    };
    let then = match (step, from) {
        (Step::Approve, State::Denied | State::Expired | State::Used) => {
            "; nothing was allowed. The same call asks anew"
        }
        (Step::Approve, _) => "; nothing was changed",
        (Step::Deny, _) => "; there is nothing to deny",
        (Step::Use, _) => "",
    };
    format!("{why}{then}")
}

/// Actor of a step.
#[derive(Clone, Copy, Debug)]
pub struct By<'a> {
    /// Channel of the actor.
    pub channel: &'a Channel,
    /// Channel of the caller who asked.
    pub asked_by: &'a str,
    /// True when the operator allows clients to ask a person.
    pub elicitation: bool,
}

/// State that a step leads to.
///
/// # Errors
/// [`Illegal`]: checks the actor first, then the state.
pub fn next(from: State, step: Step, by: By<'_>) -> Result<State, Illegal> {
    match (step, by.channel) {
        (Step::Use, Channel::Model(_)) if by.channel.to_string() != by.asked_by => {
            return Err(Illegal::OtherCaller);
        }
        (Step::Use, Channel::Model(_))
        | (Step::Approve | Step::Deny, Channel::Cli | Channel::Web | Channel::Team(_)) => {}
        (Step::Use, _) => return Err(Illegal::OtherCaller),
        (_, Channel::Elicited(caller)) => {
            if !by.elicitation {
                return Err(Illegal::NotByElicitation);
            }
            if Channel::Model(caller.clone()).to_string() != by.asked_by {
                return Err(Illegal::OtherCaller);
            }
        }
        (_, Channel::Model(_) | Channel::Own) => return Err(Illegal::NotAPerson),
    }
    match (step, from) {
        (Step::Approve, State::Pending) => Ok(State::Approved),
        (Step::Deny, State::Pending | State::Approved) => Ok(State::Denied),
        (Step::Use, State::Approved) => Ok(State::Used),
        (step, from) => Err(Illegal::NotFrom { step, from }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_transitions_by_channel_match_table() {
        use State::{Approved as A, Denied as D, Used as U};
        let model = |name: &str| Channel::Model(name.to_owned());
        let asked = |name: &str| Channel::Elicited(name.to_owned());
        let nobody = [(Step::Approve, [None; 5]), (Step::Deny, [None; 5]), (Step::Use, [None; 5])];
        let person = [
            // From pending, approved, denied, expired, used.
            (Step::Approve, [Some(A), None, None, None, None]),
            (Step::Deny, [Some(D), Some(D), None, None, None]),
            (Step::Use, [None; 5]),
        ];
        let asker = [
            (Step::Approve, [None; 5]),
            (Step::Deny, [None; 5]),
            (Step::Use, [None, Some(U), None, None, None]),
        ];
        for (channel, elicitation, rows) in [
            (Channel::Cli, false, person),
            (Channel::Cli, true, person),
            (Channel::Web, false, person),
            (Channel::Team("alice".to_owned()), false, person),
            (asked("x"), true, person),
            (asked("x"), false, nobody),
            (asked("y"), true, nobody),
            (model("x"), false, asker),
            (model("x"), true, asker),
            (model("y"), true, nobody),
            (Channel::Own, true, nobody),
        ] {
            for (step, wanted) in rows {
                for (from, want) in State::ALL.into_iter().zip(wanted) {
                    let by = By { channel: &channel, asked_by: "mcp:x", elicitation };
                    let got = next(from, step, by);
                    assert_eq!(got.as_ref().ok(), want.as_ref(), "{channel} {step:?} {from:?}: {got:?}");
                }
            }
        }
    }

    #[test]
    fn open_permission_state_expires() {
        for state in State::ALL {
            assert_eq!(state.at(10, 9), state);
            let over = matches!(state, State::Pending | State::Approved);
            assert_eq!(state.at(10, 10), if over { State::Expired } else { state });
            assert_eq!(State::named(state.name()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
