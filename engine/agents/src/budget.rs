//! Budgets of a session: money, tokens, calls and time. What a call may cost at most is reserved before it, and settled after it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hotcell_models::Money;
use hotcell_sandbox::units::{format_duration, parse_duration};
use serde::{Deserialize, Serialize};

/// Words for a limit that cannot be read.
const FORMS: &str = "a budget is an amount such as 0.50$, 200000tokens, 20calls or 10m";

/// Limits of a session; those that are `None` do not limit it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Limits {
    /// Money, in picodollars (1e-12 US dollars).
    pub picodollars: Option<u64>,
    /// Tokens: input that was read anew, and output.
    pub tokens: Option<u64>,
    /// Calls.
    pub calls: Option<u64>,
    /// Time of the driver, in milliseconds.
    pub time_ms: Option<u64>,
}

/// One limit as it is typed: `0.50$`, `200000tokens`, `20calls`, `10m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Money.
    Money(Money),
    /// Tokens.
    Tokens(u64),
    /// Calls.
    Calls(u64),
    /// Time.
    Time(Duration),
}

/// An amount of each thing that is limited, except time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Picodollars.
    pub picodollars: u64,
    /// Tokens.
    pub tokens: u64,
    /// Calls.
    pub calls: u64,
}

/// Amounts that a session has spent and reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Limits.
    pub limits: Limits,
    /// Settled amounts.
    pub spent: Amount,
    /// Amounts of calls that are going on.
    pub reserved: Amount,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let bad = || format!("{FORMS}, not {text:?}");
        let dollars = text.strip_prefix('$').or_else(|| text.strip_suffix('$'));
        if let Some(dollars) = dollars {
            let dollars: f64 = dollars.trim().parse().map_err(|_| bad())?;
            return Money::from_dollars(dollars).map(Self::Money).ok_or_else(bad);
        }
        let number = |text: &str| {
            let (digits, unit) = match text.trim().strip_suffix(['k', 'K']) {
                Some(digits) => (digits, 1000),
                None => (text.trim(), 1),
            };
            digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or_else(bad)
        };
        if let Some(tokens) = text.strip_suffix("tokens") {
            return number(tokens).map(Self::Tokens);
        }
        if let Some(calls) = text.strip_suffix("calls") {
            return number(calls).map(Self::Calls);
        }
        // A number alone would be seconds, and is more often meant as dollars.
        if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(bad());
        }
        parse_duration(text).map(Self::Time).map_err(|_| bad())
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Money(money) => write!(f, "{}$", money.dollars()),
            Self::Tokens(tokens) => write!(f, "{tokens}tokens"),
            Self::Calls(calls) => write!(f, "{calls}calls"),
            Self::Time(time) => f.write_str(&format_duration(*time)),
        }
    }
}

impl Limits {
    /// Adds limits as typed; the last of a kind counts.
    ///
    /// # Errors
    /// Words for a limit that allows no call: zero tokens, calls or time. No money is a limit that allows free models.
    pub fn with(mut self, typed: &[Limit]) -> Result<Self, String> {
        for limit in typed {
            match *limit {
                Limit::Money(money) => self.picodollars = Some(money.0),
                Limit::Tokens(0) | Limit::Calls(0) | Limit::Time(Duration::ZERO) => {
                    return Err(format!("a budget of {limit} allows no call of a model"));
                }
                Limit::Tokens(tokens) => self.tokens = Some(tokens),
                Limit::Calls(calls) => self.calls = Some(calls),
                Limit::Time(time) => self.time_ms = Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            }
        }
        Ok(self)
    }
}

impl Amount {
    fn and(self, other: Self) -> Self {
        Self {
            picodollars: self.picodollars.saturating_add(other.picodollars),
            tokens: self.tokens.saturating_add(other.tokens),
            calls: self.calls.saturating_add(other.calls),
        }
    }

    fn without(self, other: Self) -> Self {
        Self {
            picodollars: self.picodollars.saturating_sub(other.picodollars),
            tokens: self.tokens.saturating_sub(other.tokens),
            calls: self.calls.saturating_sub(other.calls),
        }
    }
}

impl Budget {
    /// A budget of which nothing is spent.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Reserves what a call takes at most.
    ///
    /// # Errors
    /// The name of the limit that does not allow it; nothing is reserved then.
    pub fn reserve(&mut self, most: Amount) -> Result<(), &'static str> {
        let all = self.spent.and(self.reserved).and(most);
        let over = |limit: Option<u64>, amount: u64| limit.is_some_and(|limit| amount > limit);
        for (name, limit, amount) in [
            ("money", self.limits.picodollars, all.picodollars),
            ("tokens", self.limits.tokens, all.tokens),
            ("calls", self.limits.calls, all.calls),
        ] {
            if over(limit, amount) {
                return Err(name);
            }
        }
        self.reserved = self.reserved.and(most);
        Ok(())
    }

    /// Turns a reservation into what was used. A count that the provider did not give is that of the reservation.
    pub fn settle(&mut self, reserved: Amount, used: Amount) {
        self.reserved = self.reserved.without(reserved);
        self.spent = self.spent.and(used);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn limits_are_read_as_typed() {
        let money = |dollars| Limit::Money(Money::from_dollars(dollars).unwrap());
        for (text, want) in [
            ("0.50$", money(0.5)),
            ("$2", money(2.0)),
            ("0$", money(0.0)),
            ("200000tokens", Limit::Tokens(200_000)),
            ("200k tokens", Limit::Tokens(200_000)),
            ("20calls", Limit::Calls(20)),
            ("10m", Limit::Time(Duration::from_secs(600))),
            ("90s", Limit::Time(Duration::from_secs(90))),
        ] {
            assert_eq!(text.parse(), Ok(want), "{text}");
        }
        for bad in [
            "",
            "5",
            "0.50",
            ".5",
            "-1$",
            "x$",
            "1e99$",
            "NaN$",
            "tokens",
            "1.5calls",
            "5 parsecs",
            "99999999999999999999tokens",
        ] {
            assert!(bad.parse::<Limit>().is_err_and(|why| why.contains("0.50$")), "{bad}");
        }
    }

    #[test]
    fn zero_allows_no_call_except_of_free_models() {
        let with = |text: &str| Limits::default().with(&[text.parse().unwrap()]);
        for bad in ["0tokens", "0calls", "0s"] {
            assert!(with(bad).is_err_and(|why| why.contains("allows no call")), "{bad}");
        }
        assert_eq!(with("0$").unwrap().picodollars, Some(0));
    }

    #[test]
    fn reservation_beyond_a_limit_is_refused_by_its_name() {
        let limits = Limits { picodollars: Some(10), tokens: Some(10), calls: Some(1), time_ms: None };
        for (most, want) in [
            (Amount { picodollars: 11, tokens: 0, calls: 1 }, Err("money")),
            (Amount { picodollars: 0, tokens: 11, calls: 1 }, Err("tokens")),
            (Amount { picodollars: 0, tokens: 0, calls: 2 }, Err("calls")),
            (Amount { picodollars: 10, tokens: 10, calls: 1 }, Ok(())),
        ] {
            assert_eq!(Budget::new(limits).reserve(most), want, "{most:?}");
        }
    }

    proptest! {
        #[test]
        fn spending_within_reservations_never_exceeds_the_limits(
            limit in 0_u64..1000,
            calls in proptest::collection::vec((0_u64..200, 0_u64..=100), 0..50),
        ) {
            let mut budget = Budget::new(Limits { tokens: Some(limit), ..Limits::default() });
            let mut going = Vec::new();
            for (most, percent) in calls {
                let most = Amount { tokens: most, calls: 1, picodollars: 0 };
                if budget.reserve(most).is_ok() {
                    going.push((most, percent));
                }
                prop_assert!(budget.spent.tokens + budget.reserved.tokens <= limit);
                if going.len() > 3 {
                    let (most, percent) = going.remove(0);
                    budget.settle(most, Amount { tokens: most.tokens * percent / 100, ..most });
                }
            }
            for (most, _) in going { budget.settle(most, most); }
            prop_assert_eq!(budget.reserved, Amount::default());
            prop_assert!(budget.spent.tokens <= limit);
        }
    }
}
