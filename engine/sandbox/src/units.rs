//! Quantities with their unit in the type. Only the arithmetic that limits need.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes.
///
/// In text it is written as `512M`, `4GiB` or `1048576`; the suffixes `K`, `M`, `G`, `T` (with or without
/// `iB` or `B`) are powers of 1,024. In JSON it is a plain number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` KiB.
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }
    /// `n` MiB.
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }
    /// `n` GiB.
    #[must_use]
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 >= 1 << shift {
                let whole = self.0 >> shift;
                let tenth = ((self.0 & ((1 << shift) - 1)) * 10) >> shift;
                return if tenth == 0 {
                    write!(f, "{whole} {unit}")
                } else {
                    write!(f, "{whole}.{tenth} {unit}")
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// Error of a quantity that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}")]
pub struct ParseUnitError {
    text: String,
    what: &'static str,
}

impl FromStr for Bytes {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseUnitError {
            text: text.to_owned(),
            what: "a size; write a whole number with K, M, G or T, such as 512M",
        };
        let trimmed = text.trim();
        let digits = trimmed.len() - trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = trimmed[..digits].parse().map_err(|_| bad())?;
        let shift = match trimmed[digits..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(bad()),
        };
        number.checked_mul(1 << shift).map(Self).ok_or_else(bad)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(d)? {
            Written::Number(n) => Ok(Self(n)),
            Written::Text(t) => t.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 0, "description": "bytes"})
    }
}

/// Parses a duration: `90`, `90s`, `1.5s`, `250ms`, `10m`, `2h`, `7d`. A number without a unit is seconds.
///
/// # Errors
/// [`ParseUnitError`] when `text` is not of that form, is negative, or does not fit.
pub fn parse_duration(text: &str) -> Result<Duration, ParseUnitError> {
    let bad = || ParseUnitError {
        text: text.to_owned(),
        what: "a time; write a number with ms, s, m, h or d, such as 60s",
    };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let number: f64 = trimmed[..split].parse().map_err(|_| bad())?;
    let scale = match trimmed[split..].trim() {
        "" | "s" | "sec" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(bad()),
    };
    Duration::try_from_secs_f64(number * scale).map_err(|_| bad())
}

/// Formats a duration for messages: `60 s`, `10 min`, `250 ms`.
#[must_use]
pub fn format_duration(d: Duration) -> String {
    let ms = d.as_millis();
    if ms < 1000 || !ms.is_multiple_of(1000) {
        if ms < 1000 { format!("{ms} ms") } else { format!("{:.1} s", d.as_secs_f64()) }
    } else if ms >= 172_800_000 && ms.is_multiple_of(86_400_000) {
        format!("{} days", ms / 86_400_000)
    } else if ms >= 120_000 && ms.is_multiple_of(60_000) {
        format!("{} min", ms / 60_000)
    } else {
        format!("{} s", ms / 1000)
    }
}

/// Serialization of durations in policies: seconds as a number, or text as [`parse_duration`] reads it.
pub(crate) mod seconds {
    use super::{Deserialize, Deserializer, Duration, Serializer, parse_duration};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
    }

    impl Written {
        fn read<E: serde::de::Error>(self) -> Result<Duration, E> {
            match self {
                Self::Number(n) => Duration::try_from_secs_f64(n).map_err(E::custom),
                Self::Text(t) => parse_duration(&t).map_err(E::custom),
            }
        }
    }

    pub fn serialize<S: Serializer>(d: &Duration, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_f64(d.as_secs_f64())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        Written::deserialize(d)?.read()
    }

    /// Serialization of a duration that may be absent: a limit that is switched off.
    pub mod option {
        use super::{Deserialize, Deserializer, Duration, Serializer, Written};

        #[allow(clippy::ref_option)] // the signature that serde asks for
        pub fn serialize<S: Serializer>(d: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
            match d {
                Some(d) => s.serialize_some(&d.as_secs_f64()),
                None => s.serialize_none(),
            }
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
            Option::<Written>::deserialize(d)?.map(Written::read).transpose()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, want) in [
            ("0", Some(0)),
            ("1024", Some(1024)),
            ("512M", Some(512 << 20)),
            ("512 MiB", Some(512 << 20)),
            ("1k", Some(1024)),
            ("4G", Some(4 << 30)),
            ("2t", Some(2 << 40)),
            ("", None),
            ("M", None),
            ("1.5G", None),
            ("-1", None),
            ("12Q", None),
            ("99999999999T", None),
        ] {
            assert_eq!(text.parse::<Bytes>().ok().map(|b| b.0), want, "{text}");
        }
    }

    #[test]
    fn sizes_as_people_read_them() {
        for (n, want) in [(0, "0 B"), (512 << 20, "512 MiB"), (1536, "1.5 KiB"), (4 << 30, "4 GiB")] {
            assert_eq!(Bytes(n).to_string(), want);
        }
    }

    #[test]
    fn times_as_people_write_them() {
        for (text, want) in [
            ("60", Some(60_000)),
            ("60s", Some(60_000)),
            ("1.5s", Some(1_500)),
            ("250ms", Some(250)),
            ("10m", Some(600_000)),
            ("2h", Some(7_200_000)),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("7d", Some(604_800_000)),
            ("1w", None),
        ] {
            assert_eq!(parse_duration(text).ok().map(|d| d.as_millis()), want, "{text}");
        }
    }
}
