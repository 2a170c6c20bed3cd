//! Limits of a rule: the largest body of a request, and how many requests in a time. Pure: the caller supplies the clock.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::http::Body;

/// Units of sizes, the largest first.
const UNITS: [(&str, u64); 4] = [("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
/// Units of times, in seconds.
const TIMES: [(&str, u32); 3] = [("s", 1), ("m", 60), ("h", 3600)];
/// Maximum number of requests of a rate; a higher one would limit nothing.
const MAX_RATE: u32 = 100_000;

/// Number of requests at once, and then in each second, minute or hour.
///
/// ```
/// use hotcell_egress::limit::RequestRate;
/// assert_eq!("60/m".parse::<RequestRate>().unwrap().to_string(), "60/m");
/// assert!("60".parse::<RequestRate>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    requests: u32,
    seconds: u32,
}

impl FromStr for RequestRate {
    type Err = String;

    /// Parses `NUMBER/s`, `NUMBER/m` or `NUMBER/h`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, unit)| {
            let seconds = TIMES.iter().find(|(name, _)| *name == unit)?.1;
            let requests: u32 = digits(number)?.try_into().ok()?;
            (1..=MAX_RATE).contains(&requests).then_some(Self { requests, seconds })
        });
        parsed.ok_or_else(|| {
            format!("{text:?} is no rate: write requests of a second, minute or hour, as 10/s, 60/m or 500/h")
        })
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = TIMES.iter().find(|(_, seconds)| *seconds == self.seconds).map_or("s", |(name, _)| *name);
        write!(f, "{}/{unit}", self.requests)
    }
}

/// Limits of the requests that a rule allows. The default limits nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestLimits {
    /// Largest body of a request in bytes; none if absent.
    pub max_body: Option<u64>,
    /// Number of requests in a time; none if absent.
    pub rate: Option<RequestRate>,
}

impl RequestLimits {
    /// Whether a body that is announced so is too large. A chunked body is counted as it comes.
    #[must_use]
    pub fn is_too_large(&self, body: Body) -> bool {
        matches!((body, self.max_body), (Body::Length(length), Some(most)) if length > most)
    }

    /// Whether all requests within `other` are within these limits.
    #[must_use]
    pub fn cover(&self, other: &Self) -> bool {
        let body = self.max_body.is_none_or(|mine| other.max_body.is_some_and(|theirs| theirs <= mine));
        let rate = self.rate.is_none_or(|mine| {
            let slower = |theirs: RequestRate| {
                u64::from(theirs.requests) * u64::from(mine.seconds)
                    <= u64::from(mine.requests) * u64::from(theirs.seconds)
            };
            other.rate.is_some_and(|theirs| theirs.requests <= mine.requests && slower(theirs))
        });
        body && rate
    }
}

/// Parses a size: bytes, or a number with `K`, `M`, `G` or `T`, which are powers of 1,024 and may have `B` or `iB` behind them.
///
/// # Errors
/// A sentence for any other text.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(length);
    let unit = unit.to_ascii_uppercase();
    let factor = match unit.strip_suffix("IB").or(unit.strip_suffix('B')).unwrap_or(&unit) {
        "" if unit != "IB" => Some(1),
        name => UNITS.iter().find(|(known, _)| *known == name).map(|(_, factor)| *factor),
    };
    let size = digits(number).zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    size.ok_or_else(|| format!("{text:?} is no size: write a whole number with K, M or G, such as 10M"))
}

/// A size in the largest unit that divides it.
#[must_use]
pub fn size_text(bytes: u64) -> String {
    let unit = UNITS.iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    unit.map_or_else(|| bytes.to_string(), |(name, factor)| format!("{}{name}", bytes / factor))
}

fn digits(text: &str) -> Option<u64> {
    let good = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    good.then(|| text.parse().ok()).flatten()
}

/// Rule whose requests are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Counter {
    /// A rule of the network, by its number.
    Rule(usize),
    /// A secret, by its number.
    Route(usize),
}

/// Requests that a rate still allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    rate: RequestRate,
    /// Time at which the whole burst would be available again without further requests.
    full: Instant,
}

impl Allowance {
    /// An allowance with the whole burst available.
    pub(crate) const fn new(rate: RequestRate, now: Instant) -> Self {
        Self { rate, full: now }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// The time until the next one is allowed; this one is not, and not counted.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let whole = Duration::from_secs(self.rate.seconds.into());
        let full = self.full.max(now) + whole / self.rate.requests;
        let used = full.saturating_duration_since(now);
        if used > whole {
            return Err(used - whole);
        }
        self.full = full;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_and_rates_are_read_or_refused() {
        for (text, bytes, shown) in [
            ("0", 0, "0"),
            ("10", 10, "10"),
            ("1024", 1024, "1K"),
            ("1MiB", 1 << 20, "1M"),
            ("3g", 3 << 30, "3G"),
            ("5B", 5, "5"),
        ] {
            assert_eq!((parse_size(text), size_text(bytes).as_str()), (Ok(bytes), shown), "{text}");
        }
        for text in ["", "M", "-1", "1.5M", "1 M", "1X", "99999999999G", "1e3", "1iB"] {
            assert!(parse_size(text).unwrap_err().contains("such as 10M"), "{text}");
        }
        for text in ["", "60", "60/", "/m", "0/s", "60/d", "-1/s", "1/s/s", "100001/s", "60 /m"] {
            assert!(text.parse::<RequestRate>().unwrap_err().contains("60/m"), "{text}");
        }
    }

    #[test]
    fn narrower_limits_are_covered() {
        let limits = |max_body: Option<u64>, rate: &str| RequestLimits { max_body, rate: rate.parse().ok() };
        for (mine, theirs, covered) in [
            (limits(None, ""), limits(None, ""), true),
            (limits(None, ""), limits(Some(1), "1/s"), true),
            (limits(Some(1), ""), limits(None, ""), false),
            (limits(Some(2), ""), limits(Some(1), ""), true),
            (limits(Some(1), ""), limits(Some(2), ""), false),
            (limits(None, "60/m"), limits(None, "1/s"), true),
            (limits(None, "1/s"), limits(None, "60/m"), false),
            (limits(None, "60/m"), limits(None, "60/s"), false),
            (limits(None, "60/m"), limits(None, "60/h"), true),
        ] {
            assert_eq!(mine.cover(&theirs), covered, "{mine:?} {theirs:?}");
        }
    }

    #[test]
    fn rate_allows_a_burst_and_then_its_pace() {
        let start = Instant::now();
        let mut allowance = Allowance::new("3/m".parse().unwrap(), start);
        let mut at = |seconds: u64| allowance.take(start + Duration::from_secs(seconds));
        assert_eq!([at(0), at(0), at(0)], [Ok(()); 3]);
        // A refused request is not counted.
        assert_eq!([at(0), at(5)], [Err(Duration::from_secs(20)), Err(Duration::from_secs(15))]);
        assert_eq!([at(20), at(20)], [Ok(()), Err(Duration::from_secs(20))]);
        assert_eq!([at(200), at(200), at(200)], [Ok(()); 3]);
    }

    proptest! {
        #[test]
        fn allowed_requests_stay_within_burst_and_rate(
            requests in 1u32..50, steps in proptest::collection::vec(0u64..3000, 1..200),
        ) {
            let start = Instant::now();
            let mut allowance = Allowance::new(RequestRate { requests, seconds: 1 }, start);
            let (mut now, mut allowed) = (0, 0);
            for step in steps {
                now += step;
                allowed += u64::from(allowance.take(start + Duration::from_millis(now)).is_ok());
            }
            prop_assert!(allowed <= u64::from(requests) * (now / 1000 + 2));
        }

        #[test]
        fn sizes_round_trip(bytes in any::<u64>()) {
            prop_assert_eq!(parse_size(&size_text(bytes)), Ok(bytes));
        }
    }
}
