//! Secrets from a program of the host, which may expire: `exec:/PATH ARGUMENT …`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use zeroize::Zeroizing;

use crate::host_program::{self, HostProgramError};
use crate::secret::{MAX_SECRET_BYTES, Secret, SecretError, SecretSource};

/// Time for a program to answer and end.
const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum size of an answer in bytes: a value whose characters are all escaped in JSON, and the keys around it.
const MAX_ANSWER_BYTES: usize = 6 * MAX_SECRET_BYTES + 1024;

/// Where the value of a run's secret is from. `Display` and `FromStr` use the form of the command line and of configuration files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// A variable, file, descriptor or key of the kernel, read once.
    Read(SecretSource),
    /// `exec:/PATH ARGUMENT …`: a program and its arguments, separated by spaces.
    Program(Vec<String>),
}

/// A value, and the time at which it expires.
#[derive(Debug)]
pub struct Fetched {
    /// The value.
    pub secret: Secret,
    /// The time from which it is not valid; `None` for a value that does not expire.
    pub expires_at: Option<SystemTime>,
}

/// Why a program's answer cannot be used. The messages never contain its output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The program gave no answer.
    #[error(transparent)]
    Program(#[from] HostProgramError),
    /// The program's output is not an answer.
    #[error(
        "{0} printed neither a value alone, nor JSON such as {{\"value\": \"…\", \"expires_at\": \"2026-01-31T12:00:00Z\"}}, nor AWS's keys as a credential_process does"
    )]
    Answer(String),
    /// The value cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// An app gives no token.
    #[error("no token of the GitHub App: {0}")]
    App(String),
}

impl FromStr for ValueSource {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        match text.strip_prefix("exec:") {
            Some(rest) => {
                let words: Vec<String> = rest.split_ascii_whitespace().map(str::to_owned).collect();
                match words.first() {
                    Some(program) if Path::new(program).is_absolute() => Ok(Self::Program(words)),
                    _ => Err(SecretError::Form("exec".to_owned())),
                }
            }
            None => text.parse().map(Self::Read),
        }
    }
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(source) => source.fmt(f),
            Self::Program(words) => write!(f, "exec:{}", words.join(" ")),
        }
    }
}

impl ValueSource {
    /// Reads the value. Blocks until a program has ended, 10 s at most.
    ///
    /// # Errors
    /// [`ProgramError`] when the source cannot be read, or its value not be used.
    pub fn fetch(&self) -> Result<Fetched, ProgramError> {
        match self {
            Self::Read(source) => Ok(Fetched { secret: source.read()?, expires_at: None }),
            Self::Program(words) => fetched(words, DEADLINE),
        }
    }

    /// Reads a text of several lines, such as a private key in PEM. Blocks until a program has ended, 10 s at most.
    ///
    /// # Errors
    /// [`ProgramError`] when the source cannot be read.
    pub fn fetch_text(&self) -> Result<Zeroizing<Vec<u8>>, ProgramError> {
        match self {
            Self::Read(source) => Ok(source.read_text()?),
            Self::Program(words) => Ok(host_program::output(words, b"", MAX_SECRET_BYTES, DEADLINE)?),
        }
    }
}

fn fetched(words: &[String], deadline: Duration) -> Result<Fetched, ProgramError> {
    let Some(program) = words.first() else {
        return Err(ProgramError::Answer("exec:".to_owned()));
    };
    let output = match host_program::output(words, b"", MAX_ANSWER_BYTES, deadline) {
        Err(HostProgramError::Length { program, .. }) => return Err(ProgramError::Answer(program)),
        output => output?,
    };
    let bad = || ProgramError::Answer(program.clone());
    if output.trim_ascii_start().first() != Some(&b'{') {
        return Ok(Fetched { secret: Secret::new(output.to_vec())?, expires_at: None });
    }
    let (value, expires_at) = match serde_json::from_slice(&output).map_err(|_| bad())? {
        Answer::Value { value, expires_at } => (value, expires_at),
        Answer::Aws { id, key, token, expires_at } => {
            let token = token.filter(|token| !token.is_empty());
            let parts = [Some(id), Some(key), token].into_iter().flatten().map(Zeroizing::new);
            let parts: Vec<Zeroizing<String>> = parts.collect();
            let parts: Vec<&str> = parts.iter().map(|part| part.as_str()).collect();
            (parts.join(":"), expires_at)
        }
    };
    let expires_at = match expires_at {
        None => None,
        Some(Moment::Seconds(seconds)) => Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
        Some(Moment::Text(text)) => Some(moment(&text).ok_or_else(bad)?),
    };
    Ok(Fetched { secret: Secret::new(value.into_bytes())?, expires_at })
}

/// Answer of a program; other keys are skipped.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    /// Our own.
    Value {
        value: String,
        #[serde(default)]
        expires_at: Option<Moment>,
    },
    /// That of a `credential_process` (<https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html>), which
    /// `aws configure export-credentials` prints.
    Aws {
        #[serde(rename = "AccessKeyId")]
        id: String,
        #[serde(rename = "SecretAccessKey")]
        key: String,
        #[serde(rename = "SessionToken", default)]
        token: Option<String>,
        #[serde(rename = "Expiration", default)]
        expires_at: Option<Moment>,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Moment {
    /// Seconds since 1970.
    Seconds(u64),
    /// RFC 3339.
    Text(String),
}

/// Time of RFC 3339, with `Z` or an offset; fractions of a second are cut off.
pub(crate) fn moment(text: &str) -> Option<SystemTime> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
        digits.parse::<i64>().ok()
    };
    let at = |place: usize| text.as_bytes().get(place).copied();
    if (at(4), at(7), at(13), at(16)) != (Some(b'-'), Some(b'-'), Some(b':'), Some(b':'))
        || !matches!(at(10), Some(b'T' | b't' | b' '))
    {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let rest = text.get(19..)?;
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let (sign, rest) = (zone.get(..1)?, zone.get(1..)?);
            let (hours, minutes) = rest.split_once(':')?;
            let minutes = hours.parse::<u16>().ok()? * 60 + minutes.parse::<u16>().ok()?;
            match sign {
                "+" => i64::from(minutes),
                "-" => -i64::from(minutes),
                _ => return None,
            }
        }
    };
    // Days since 1970 of the Gregorian calendar, counted from March, by H. Hinnant's days_from_civil.
    let year = if month <= 2 { year - 1 } else { year };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * ((month + 9) % 12) + 2) / 5 + day
        - 1
        - 719_468;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset * 60;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shell(script: &str) -> Result<Fetched, ProgramError> {
        fetched(&["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()], Duration::from_secs(5))
    }

    #[test]
    fn source_is_a_program_or_what_is_read_once() {
        for text in ["exec:/usr/bin/gh auth token", "env:TOKEN", "file:/run/x", "fd:3", "keyring:gh-token"] {
            assert_eq!(text.parse::<ValueSource>().unwrap().to_string(), text);
        }
        for text in [
            "exec:",
            "exec: ",
            "exec:gh auth token",
            "exec:./gh",
            "ghp_0123456789",
            "keyring:",
            "keyring:a b",
        ] {
            let error = text.parse::<ValueSource>().unwrap_err().to_string();
            assert!(!error.contains("0123456789"), "{error}");
        }
    }

    #[test]
    fn program_answers_with_a_value_and_its_end() {
        let at = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        for (script, value, expires_at) in [
            ("echo t0p-s3cret", "t0p-s3cret", None),
            (r#"echo '{"value": "t0p-s3cret"}'"#, "t0p-s3cret", None),
            (
                r#"echo '{"value": "a\u0062c", "expires_at": 1000000000, "more": [1]}'"#,
                "abc",
                at(1_000_000_000),
            ),
            (
                r#"echo '{"value": "abc", "expires_at": "2001-09-09T03:46:40+02:00"}'"#,
                "abc",
                at(1_000_000_000),
            ),
            (
                r#"echo '{"Version": 1, "AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "wJalr/XUtn", "SessionToken": null}'"#,
                "AKIDEXAMPLE:wJalr/XUtn",
                None,
            ),
            (
                r#"echo '{"Version": 1, "AccessKeyId": "ASIA", "SecretAccessKey": "wJalr", "SessionToken": "IQoJ", "Expiration": "2001-09-09T01:46:40Z"}'"#,
                "ASIA:wJalr:IQoJ",
                at(1_000_000_000),
            ),
        ] {
            let got = shell(script).unwrap_or_else(|e| panic!("{script}: {e}"));
            assert_eq!((got.secret.expose(), got.expires_at), (value.as_bytes(), expires_at), "{script}");
        }
        for (script, word) in [
            ("exit 3", "exit status: 3"),
            ("echo t0p-s3cret; exit 1", "by hand"),
            ("true", "empty"),
            (r#"echo '{"token": "t0p-s3cret"}'"#, "neither"),
            (r#"echo '{"AccessKeyId": "t0p-s3cret"}'"#, "neither"),
            (r#"echo '{"value": "t0p-s3cret", "expires_at": "soon"}'"#, "neither"),
            (r#"printf %s '{"value": "t0p\ns3cret"}'"#, "control character"),
            ("yes t0p-s3cret", "neither"),
        ] {
            let error = shell(script).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains("s3cret"), "{script}: {error}");
        }
        let missing = fetched(&["/nowhere/x".to_owned()], DEADLINE).unwrap_err();
        assert!(matches!(missing, ProgramError::Program(HostProgramError::Start { .. })));
    }

    #[test]
    fn moments_are_seconds_since_1970() {
        for (text, want) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:00:00.999Z", Some(951_825_600)),
            ("2026-11-28T10:00:00-01:30", Some(1_795_865_400)),
            ("2026-11-28 10:00:00Z", Some(1_795_860_000)),
            ("2026-11-28T10:00:00", None),
            ("2026-13-28T10:00:00Z", None),
            ("2026-11-28", None),
            ("1969-12-31T00:00:00Z", None),
            ("", None),
        ] {
            let got = moment(text).map(|at| at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs());
            assert_eq!(got, want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_moments_cause_no_panic(text in "[0-9TZ:.+ -]{0,30}", other in ".{0,30}") {
            let _ = (moment(&text), moment(&other));
        }
    }
}
