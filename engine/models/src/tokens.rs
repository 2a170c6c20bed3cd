//! Tokens of a call, its cost, and prices: known, free or unknown. A price that is not known is never taken for zero.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Prices as published, with their date.
const PRICES: &str = include_str!("prices.toml");
/// Picodollars in a dollar. A price of one dollar for a million tokens is 1,000,000 picodollars for a token.
const PICO: f64 = 1e12;

/// Tokens of one call, in three counts that do not overlap. Providers differ: OpenAI and Gemini count cached tokens as a part of the input,
/// Anthropic beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tokens {
    /// Input that the provider read anew, including what it wrote to its cache.
    pub fresh: u64,
    /// Input that the provider had in its cache.
    pub cached: u64,
    /// Output, including the model's reasoning.
    pub output: u64,
}

impl Tokens {
    /// Sum of all three.
    #[must_use]
    pub fn total(self) -> u64 {
        self.fresh.saturating_add(self.cached).saturating_add(self.output)
    }
}

/// An amount of money, in picodollars (1e-12 US dollars).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Money(pub u64);

impl Money {
    /// An amount in dollars; `None` for one that is negative, not a number, or larger than a million dollars.
    #[must_use]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        (0.0..=1e6).contains(&dollars).then(|| Self((dollars * PICO).round() as u64))
    }

    /// The amount in dollars.
    #[must_use]
    pub fn dollars(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "shown to people")]
        let pico = self.0 as f64;
        pico / PICO
    }
}

/// Four significant decimals for small amounts: `$0.000123`, `$0.0150`, `$12.50`.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.dollars();
        let decimals = if self.0 == 0 || dollars >= 1.0 {
            2
        } else if dollars >= 0.001 {
            4
        } else {
            8
        };
        write!(f, "${dollars:.decimals$}")
    }
}

/// Cost of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// From the provider's own statement, or from tokens and a known price.
    Known(Money),
    /// A server of the user's own machine, or one that the operator declared free.
    Free,
    /// No price is known, or the provider did not say how many tokens it was.
    Unknown,
}

impl Cost {
    /// The word in tables and JSON: `known`, `free` or `unknown`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Known(_) => "known",
            Self::Free => "free",
            Self::Unknown => "unknown",
        }
    }

    /// The amount, if it is known; zero for a free call.
    #[must_use]
    pub fn money(self) -> Option<Money> {
        match self {
            Self::Known(money) => Some(money),
            Self::Free => Some(Money(0)),
            Self::Unknown => None,
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(money) => money.fmt(f),
            Self::Free => f.write_str("free"),
            Self::Unknown => f.write_str("unknown cost"),
        }
    }
}

/// Price of a model's tokens, in US dollars for a million.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input.
    pub input: f64,
    /// Input from the provider's cache; as other input without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<f64>,
    /// Output.
    pub output: f64,
}

impl Price {
    /// Tells if all amounts are possible prices: not negative, at most a dollar for a token.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        [Some(self.input), self.cached, Some(self.output)]
            .into_iter()
            .flatten()
            .all(|dollars| (0.0..=1e6).contains(&dollars))
    }

    /// Cost of these tokens; `None` when it is more than an amount can be.
    #[must_use]
    pub fn of(&self, tokens: Tokens) -> Option<Money> {
        // One dollar for a million tokens is a million picodollars for each.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked by is_valid")]
        let pico = |dollars: f64| u128::from((dollars * 1e6).round() as u64);
        let all = [
            (tokens.fresh, self.input),
            (tokens.cached, self.cached.unwrap_or(self.input)),
            (tokens.output, self.output),
        ];
        let sum: u128 = all.iter().map(|(count, dollars)| u128::from(*count) * pico(*dollars)).sum();
        // The ledger keeps signed numbers of 64 bits.
        i64::try_from(sum).ok()?.try_into().ok().map(Money)
    }
}

/// The table of published prices.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    /// Date of the prices, `YYYY-MM-DD`.
    pub date: String,
    /// Source of the prices.
    pub source: String,
    #[serde(rename = "model")]
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    provider: String,
    name: String,
    input: f64,
    cached: Option<f64>,
    output: f64,
}

impl PriceTable {
    /// The table in this build.
    ///
    /// # Panics
    /// Never: a test reads the table.
    #[must_use]
    pub fn published() -> Self {
        toml::from_str(PRICES).expect("the table is checked by a test")
    }

    /// Price of a provider's model, by its name or that of a dated version of it.
    #[must_use]
    pub fn price(&self, provider: &str, model: &str) -> Option<Price> {
        let row = self.rows.iter().find(|row| row.provider == provider && is_version(model, &row.name))?;
        Some(Price { input: row.input, cached: row.cached, output: row.output })
    }
}

/// Tells if `model` is `name`, or one of its versions: `-latest`, `-20250514`, `-2025-05-14`. Any other end may have another price:
/// `gpt-5-mini` is not a version of `gpt-5`.
fn is_version(model: &str, name: &str) -> bool {
    let Some(end) = model.strip_prefix(name) else { return false };
    let Some(end) = end.strip_prefix('-') else { return end.is_empty() };
    let digits = end.bytes().filter(u8::is_ascii_digit).count();
    let only = end.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    end == "latest" || (only && digits == 8 && matches!(end.len(), 8 | 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_prices_are_readable_dated_and_unique() {
        let table = PriceTable::published();
        assert_eq!((table.date.len(), table.rows.is_empty()), (10, false));
        let mut names = std::collections::BTreeSet::new();
        for row in &table.rows {
            let price = Price { input: row.input, cached: row.cached, output: row.output };
            assert!(price.is_valid() && price.input > 0.0 && price.output > 0.0, "{row:?}");
            assert!(price.cached.is_none_or(|cached| cached <= price.input), "{row:?}");
            assert!(names.insert((&row.provider, &row.name)), "{row:?}");
        }
    }

    #[test]
    fn versions_have_the_price_of_their_model() {
        for (model, name, want) in [
            ("gpt-5", "gpt-5", true),
            ("gpt-5-2025-08-07", "gpt-5", true),
            ("gpt-5-20250807", "gpt-5", true),
            ("gpt-5-latest", "gpt-5", true),
            ("gpt-5-mini", "gpt-5", false),
            ("gpt-5.1", "gpt-5", false),
            ("gpt-5-1", "gpt-5", false),
            ("gpt-5-2025-08-07-mini", "gpt-5", false),
            ("gpt-50", "gpt-5", false),
            ("gpt", "gpt-5", false),
        ] {
            assert_eq!(is_version(model, name), want, "{model}");
        }
        let table = PriceTable::published();
        assert!(table.price("openai", "gpt-5-2025-08-07").is_some());
        assert!(table.price("ollama", "gpt-5").is_none());
    }

    #[test]
    fn cost_is_exact_and_shown_with_few_digits() {
        let price = Price { input: 0.25, cached: Some(0.025), output: 2.0 };
        let tokens = Tokens { fresh: 1000, cached: 4000, output: 500 };
        assert_eq!(price.of(tokens), Some(Money(250_000_000 + 100_000_000 + 1_000_000_000)));
        assert_eq!(Price { cached: None, ..price }.of(tokens), Some(Money(2_250_000_000)));
        let all = Tokens { fresh: u64::MAX, cached: u64::MAX, output: u64::MAX };
        assert_eq!((price.of(all), all.total()), (None, u64::MAX));
        for (pico, want) in [
            (0, "$0.00"),
            (123_000_000, "$0.00012300"),
            (15_000_000_000, "$0.0150"),
            (12_500_000_000_000, "$12.50"),
        ] {
            assert_eq!(Money(pico).to_string(), want);
        }
        for bad in [-1.0, f64::NAN, f64::INFINITY, 2e6] {
            assert_eq!(Money::from_dollars(bad), None);
            assert!(!Price { input: bad, cached: None, output: 1.0 }.is_valid());
        }
        assert_eq!(Money::from_dollars(0.000_002), Some(Money(2_000_000)));
    }
}
