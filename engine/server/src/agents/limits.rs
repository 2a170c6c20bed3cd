//! Limits of a caller's sessions: those that it asks for, each at most the operator's. Pure.

use std::time::Duration;

use hotcell_agents::Limits;
use hotcell_config::AgentLimits;
use hotcell_models::Money;
use hotcell_state::report::{Code, ErrorReport};

/// Calls for each iteration: answers that cannot be used are asked for again, twice at most.
const CALLS_OF_AN_ITERATION: u32 = 3;

/// Limits that a caller asks for; what it leaves out is the operator's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AskedLimits {
    /// Money, in US dollars.
    pub dollars: Option<f64>,
    /// Tokens: input that was read anew, and output.
    pub tokens: Option<u64>,
    /// Calls of models.
    pub calls: Option<u64>,
    /// Time, in seconds.
    pub seconds: Option<u64>,
}

impl AskedLimits {
    /// Checks what no operator could allow.
    ///
    /// # Errors
    /// A report for an amount of money that is below 0, above a million dollars, or NaN.
    pub fn check(self) -> Result<(), ErrorReport> {
        money(self, &AgentLimits::default()).map(|_| ())
    }
}

/// A number that a caller asks for, if it is above none and at most the operator's.
fn within(
    name: &str,
    asked: Option<u64>,
    (most, whose): (Option<u64>, &str),
    words: impl Fn(u64) -> String,
) -> Result<Option<u64>, ErrorReport> {
    let field = format!("budget.{name}");
    match (asked, most) {
        (None, most) => Ok(most),
        (Some(0), _) if name != "dollars" => {
            let why = format!("{field} is 0, which allows no call of a model; give more, or leave it out");
            Err(ErrorReport::new(Code::InvalidValue, why).field(field))
        }
        (Some(asked), Some(most)) if asked > most => {
            let why = format!("{field} is {}; at most {} is allowed, {whose}", words(asked), words(most));
            Err(ErrorReport::new(Code::Refused, why).field(field).hint("ask for less, or leave it out"))
        }
        (asked, _) => Ok(asked),
    }
}

fn money(asked: AskedLimits, most: &AgentLimits) -> Result<Option<u64>, ErrorReport> {
    let field = "budget.dollars";
    let wrong = |dollars: f64| {
        let why = format!("{field} is {dollars}; it is an amount of dollars from 0 to 1000000");
        ErrorReport::new(Code::InvalidValue, why).field(field)
    };
    let read = |dollars| Money::from_dollars(dollars).map(|money| money.0).ok_or_else(|| wrong(dollars));
    let asked = asked.dollars.map(read).transpose()?;
    let whose = "by the operator (agents.limits.dollars)";
    within("dollars", asked, (most.dollars.map(|money| money.0), whose), |n| Money(n).to_string())
}

fn tokens(asked: AskedLimits, most: &AgentLimits) -> Result<Option<u64>, ErrorReport> {
    within("tokens", asked.tokens, (most.tokens, "by the operator (agents.limits.tokens)"), |n| n.to_string())
}

fn calls(asked: AskedLimits, most: &AgentLimits, iterations: u32) -> Result<Option<u64>, ErrorReport> {
    let useful = u64::from(iterations.saturating_mul(CALLS_OF_AN_ITERATION));
    let bound = match most.calls {
        Some(most) if most <= useful => (Some(most), "by the operator (agents.limits.calls)"),
        _ => (Some(useful), "three for each iteration"),
    };
    within("calls", asked.calls, bound, |n| n.to_string())
}

fn time_ms(asked: AskedLimits, most: &AgentLimits) -> Result<u64, ErrorReport> {
    let (whose, seconds) = ("by the operator (agents.limits.time)", most.time.as_secs());
    let asked = within("seconds", asked.seconds, (Some(seconds), whose), |n| n.to_string())?;
    Ok(asked.map_or(most.time, Duration::from_secs).as_millis().try_into().unwrap_or(u64::MAX))
}

/// Limits of a session with this many iterations.
///
/// # Errors
/// A report for a limit of nothing, and one above the operator's.
pub(super) fn first(asked: AskedLimits, most: &AgentLimits, iterations: u32) -> Result<Limits, ErrorReport> {
    Ok(Limits {
        picodollars: money(asked, most)?,
        tokens: tokens(asked, most)?,
        calls: calls(asked, most, iterations)?,
        time_ms: Some(time_ms(asked, most)?),
    })
}

/// Limits of a session that goes on with more iterations, and the time that is new. Money, tokens and calls are those of the session from its
/// beginning: what was asked for before stays, and calls grow with the iterations, up to the operator's.
///
/// # Errors
/// As of [`first`].
pub(super) fn further(
    now: &Limits,
    asked: AskedLimits,
    most: &AgentLimits,
    (iterations, added): (u32, u32),
) -> Result<(Limits, u64), ErrorReport> {
    let least = |now: Option<u64>, most: Option<u64>| now.into_iter().chain(most).min();
    let all = first(asked, most, iterations)?;
    let grown =
        now.calls.map(|calls| calls.saturating_add(u64::from(added.saturating_mul(CALLS_OF_AN_ITERATION))));
    let new = all.time_ms.unwrap_or(u64::MAX);
    let limits = Limits {
        picodollars: if asked.dollars.is_some() {
            all.picodollars
        } else {
            least(now.picodollars, all.picodollars)
        },
        tokens: if asked.tokens.is_some() { all.tokens } else { least(now.tokens, all.tokens) },
        calls: if asked.calls.is_some() { all.calls } else { least(grown, all.calls) },
        time_ms: now.time_ms.map(|limit| limit.saturating_add(new)),
    };
    Ok((limits, new))
}

/// Limits of one call that asks models: a review, or a suite of tests.
pub(super) fn of_call(most: &AgentLimits, time_ms: u64) -> Limits {
    let operator: u64 = most.time.as_millis().try_into().unwrap_or(u64::MAX);
    Limits {
        picodollars: most.dollars.map(|money| money.0),
        tokens: most.tokens,
        calls: most.calls,
        time_ms: Some(time_ms.min(operator)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: AskedLimits = AskedLimits { dollars: None, tokens: None, calls: None, seconds: None };

    fn most() -> AgentLimits {
        AgentLimits {
            dollars: Some(Money(500_000_000_000)),
            tokens: Some(10_000),
            calls: Some(8),
            time: Duration::from_secs(600),
        }
    }

    fn limits(picodollars: Option<u64>, tokens: Option<u64>, calls: u64, seconds: u64) -> Limits {
        Limits { picodollars, tokens, calls: Some(calls), time_ms: Some(seconds * 1000) }
    }

    #[test]
    fn limits_left_out_are_those_of_the_operator() {
        let none = AgentLimits::default();
        assert_eq!(first(NOTHING, &none, 5), Ok(limits(None, None, 15, 1800)));
        assert_eq!(first(NOTHING, &most(), 5), Ok(limits(Some(500_000_000_000), Some(10_000), 8, 600)));
        assert_eq!(first(NOTHING, &most(), 2), Ok(limits(Some(500_000_000_000), Some(10_000), 6, 600)));
        let asked = AskedLimits { dollars: Some(0.25), tokens: Some(500), calls: Some(2), seconds: Some(30) };
        let want = limits(Some(250_000_000_000), Some(500), 2, 30);
        assert_eq!((first(asked, &none, 5), first(asked, &most(), 5)), (Ok(want), Ok(want)));
        assert_eq!(
            first(AskedLimits { dollars: Some(0.0), ..NOTHING }, &none, 5).unwrap().picodollars,
            Some(0)
        );
    }

    #[test]
    fn limits_above_the_operators_are_refused_with_words() {
        for (asked, code, part) in [
            (AskedLimits { dollars: Some(0.51), ..NOTHING }, Code::Refused, "agents.limits.dollars"),
            (
                AskedLimits { tokens: Some(10_001), ..NOTHING },
                Code::Refused,
                "budget.tokens is 10001; at most 10000",
            ),
            (AskedLimits { calls: Some(9), ..NOTHING }, Code::Refused, "agents.limits.calls"),
            (AskedLimits { seconds: Some(601), ..NOTHING }, Code::Refused, "agents.limits.time"),
            (AskedLimits { dollars: Some(-1.0), ..NOTHING }, Code::InvalidValue, "budget.dollars is -1"),
            (AskedLimits { dollars: Some(f64::NAN), ..NOTHING }, Code::InvalidValue, "budget.dollars is NaN"),
            (AskedLimits { tokens: Some(0), ..NOTHING }, Code::InvalidValue, "budget.tokens is 0"),
            (AskedLimits { calls: Some(0), ..NOTHING }, Code::InvalidValue, "budget.calls is 0"),
            (AskedLimits { seconds: Some(0), ..NOTHING }, Code::InvalidValue, "budget.seconds is 0"),
        ] {
            let report = first(asked, &most(), 5).unwrap_err();
            assert_eq!(report.code, code, "{report}");
            assert!(report.to_string().contains(part), "{report}");
        }
        let report =
            first(AskedLimits { calls: Some(16), ..NOTHING }, &AgentLimits::default(), 5).unwrap_err();
        assert!(report.to_string().contains("at most 15 is allowed, three for each iteration"), "{report}");
    }

    #[test]
    fn sessions_that_go_on_keep_what_was_asked_for_and_stay_within_the_operators() {
        let none = AgentLimits::default();
        let now = limits(Some(7), Some(500), 15, 1800);
        let (plain, new) = further(&now, NOTHING, &none, (7, 2)).unwrap();
        assert_eq!((plain, new), (limits(Some(7), Some(500), 21, 3600), 1_800_000));
        // A caller's own limit of calls grows by those of the new iterations.
        let (few, _) = further(&limits(None, None, 2, 30), NOTHING, &none, (7, 2)).unwrap();
        assert_eq!(few, limits(None, None, 8, 1830));
        // New totals of the caller, and an operator that allows less than before.
        let asked = AskedLimits { tokens: Some(9_000), calls: Some(3), seconds: Some(10), ..NOTHING };
        let (more, new) = further(&now, asked, &most(), (7, 2)).unwrap();
        assert_eq!((more, new), (limits(Some(7), Some(9_000), 3, 1810), 10_000));
        let (less, _) = further(&limits(None, Some(90_000), 15, 1800), NOTHING, &most(), (7, 2)).unwrap();
        assert_eq!(less, limits(Some(500_000_000_000), Some(10_000), 8, 2400));
        assert!(further(&now, AskedLimits { tokens: Some(10_001), ..NOTHING }, &most(), (7, 2)).is_err());
    }

    #[test]
    fn calls_beside_sessions_have_the_operators_limits_too() {
        assert_eq!(
            of_call(&AgentLimits::default(), 900_000),
            Limits { time_ms: Some(900_000), ..Limits::default() }
        );
        assert_eq!(of_call(&most(), 900_000), limits(Some(500_000_000_000), Some(10_000), 8, 600));
    }
}
