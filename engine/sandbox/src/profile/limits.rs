//! Limits as a person writes them: each may be left out.

use std::fmt;
use std::time::Duration;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

use super::Key;
use crate::policy::Limits;
use crate::units::{Bytes, parse_duration};

/// The keys of a table of limits.
pub const LIMIT_KEYS: &[Key] = &[
    Key::value("memory"),
    Key::value("timeout"),
    Key::value("cpu_time"),
    Key::value("processes"),
    Key::value("disk"),
    Key::value("files"),
    Key::value("capture"),
    Key::value("output"),
    Key::value("cpus"),
    Key::value("open_files"),
];

/// A time limit that may be switched off: `60s`, a number of seconds, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// This duration.
    Of(Duration),
    /// No limit.
    Unlimited,
}

impl std::str::FromStr for Span {
    type Err = crate::units::ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self::Unlimited) } else { parse_duration(text).map(Self::Of) }
    }
}

/// Optional limits; a limit that is not set is taken from the next source.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)] // each is the field of `Limits` of that name
pub struct LimitSettings {
    #[serde(deserialize_with = "size")]
    pub memory: Option<Bytes>,
    /// Limit of wall-clock time.
    #[serde(deserialize_with = "time")]
    pub timeout: Option<Duration>,
    #[serde(deserialize_with = "span")]
    pub cpu_time: Option<Span>,
    pub processes: Option<u32>,
    #[serde(deserialize_with = "size")]
    pub disk: Option<Bytes>,
    pub files: Option<u64>,
    #[serde(deserialize_with = "size")]
    pub capture: Option<Bytes>,
    #[serde(deserialize_with = "size")]
    pub output: Option<Bytes>,
    pub cpus: Option<f64>,
    pub open_files: Option<u64>,
}

impl LimitSettings {
    /// Returns `base` with the limits that are set here replaced.
    #[must_use]
    pub fn over(&self, base: &Limits) -> Limits {
        Limits {
            memory: self.memory.unwrap_or(base.memory),
            wall: self.timeout.unwrap_or(base.wall),
            cpu_time: match self.cpu_time {
                Some(Span::Of(time)) => Some(time),
                Some(Span::Unlimited) => None,
                None => base.cpu_time,
            },
            processes: self.processes.unwrap_or(base.processes),
            disk: self.disk.unwrap_or(base.disk),
            files: self.files.unwrap_or(base.files),
            capture: self.capture.unwrap_or(base.capture),
            output: self.output.unwrap_or(base.output),
            cpus: self.cpus.or(base.cpus),
            open_files: self.open_files.or(base.open_files),
        }
    }
}

/// Deserializes text or a whole number; an error about another type says what was expected.
struct Quantity<T>(&'static str, fn(&str) -> Result<T, String>);

impl<T> Visitor<'_> for Quantity<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).map_err(E::custom)
    }
    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        (self.1)(&number.to_string()).map_err(E::custom)
    }
    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        (self.1)(&number.to_string()).map_err(E::custom)
    }
}

fn read<T: std::str::FromStr<Err = crate::units::ParseUnitError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|e: T::Err| e.to_string())
}

fn size<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Bytes>, D::Error> {
    d.deserialize_any(Quantity("a size such as \"512M\"", read)).map(Some)
}

fn span<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Span>, D::Error> {
    d.deserialize_any(Quantity("a time such as \"60s\", or \"none\"", read)).map(Some)
}

fn time<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
    d.deserialize_any(Quantity("a time such as \"60s\"", |text| {
        parse_duration(text).map_err(|e| e.to_string())
    }))
    .map(Some)
}
