//! Signature Version 4: the canonical request, the text to sign, the signature
//! (<https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>). Pure.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use ring::{digest, hmac};
use zeroize::Zeroizing;

use super::{Keys, Scope};

/// Name of the algorithm.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Time of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment(String);

impl Moment {
    /// A time; one before 1970 is taken as 1970, which every host refuses.
    pub fn of(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        let (days, second) = (since / 86_400, since % 86_400);
        // H. Hinnant's civil_from_days, for days from 1970 on: years begin in March.
        let shifted = days + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let day = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
        let year = era * 400 + year + u64::from(month <= 2);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        Self(format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z"))
    }

    /// `20150830T123600Z`.
    pub fn text(&self) -> &str {
        &self.0
    }

    fn date(&self) -> &str {
        &self.0[..8]
    }
}

/// A request as it is signed.
pub struct Request<'a> {
    pub method: &'a str,
    /// Path as it is sent.
    pub path: &'a str,
    pub query: &'a Query,
    /// Headers that are signed: names in small letters, and their values.
    pub headers: &'a [(String, Vec<u8>)],
    /// Value of the last line: the digest of the body, or a word for one that is not signed.
    pub payload: &'a str,
}

/// Parameters of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Encoded name and value; without a value where there was no `=`.
    parameters: Vec<(String, Option<String>)>,
}

impl Query {
    /// Reads a query and writes it in AWS's own encoding, sorted, without the parameters that `skipped` names.
    pub fn read(text: &str, skipped: impl Fn(&str) -> bool) -> Self {
        let coded = |text: &str| encoded(&decoded(&text.replace('+', " ")), false);
        let mut parameters: Vec<_> = text
            .split('&')
            .filter(|part| !part.is_empty())
            .map(|part| match part.split_once('=') {
                Some((name, value)) => (coded(name), Some(coded(value))),
                None => (coded(part), None),
            })
            .filter(|(name, _)| !skipped(name))
            .collect();
        parameters.sort();
        Self { parameters }
    }

    /// The query as it is sent.
    pub fn sent(&self) -> String {
        self.joined(false)
    }

    fn joined(&self, always: bool) -> String {
        let mut all = String::new();
        for (number, (name, value)) in self.parameters.iter().enumerate() {
            let between = if number == 0 { "" } else { "&" };
            let sign = if always || value.is_some() { "=" } else { "" };
            let _ = write!(all, "{between}{name}{sign}{}", value.as_deref().unwrap_or_default());
        }
        all
    }
}

/// Value of the header `Authorization`.
pub fn authorization(request: &Request<'_>, keys: &Keys, scope: &Scope, moment: &Moment) -> String {
    let (canonical, signed) = canonical(request, scope);
    let within = format!("{}/{}/{}/aws4_request", moment.date(), scope.region(), scope.service());
    let text = format!("{ALGORITHM}\n{}\n{within}\n{}", moment.text(), hex(&sha256(&canonical)));
    let mut first = Zeroizing::new(Vec::with_capacity(4 + keys.key.len()));
    first.extend_from_slice(b"AWS4");
    first.extend_from_slice(&keys.key);
    let mut key = first;
    for part in [moment.date(), scope.region(), scope.service(), "aws4_request"] {
        key = Zeroizing::new(hmac256(&key, part.as_bytes()).as_ref().to_vec());
    }
    let signature = hex(hmac256(&key, text.as_bytes()).as_ref());
    format!("{ALGORITHM} Credential={}/{within}, SignedHeaders={signed}, Signature={signature}", keys.id)
}

/// The canonical request, and the names of its headers.
fn canonical(request: &Request<'_>, scope: &Scope) -> (Vec<u8>, String) {
    let mut headers: Vec<(&str, Vec<u8>)> = Vec::new();
    for (name, value) in request.headers {
        let value = folded(value);
        match headers.iter_mut().find(|(known, _)| known == name) {
            Some((_, all)) => {
                all.push(b',');
                all.extend_from_slice(&value);
            }
            None => headers.push((name, value)),
        }
    }
    headers.sort();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let path =
        if scope.is_s3() { encoded(&decoded(request.path), true) } else { encoded_again(request.path) };
    let mut all = format!("{}\n{path}\n{}\n", request.method, request.query.joined(true)).into_bytes();
    for (name, value) in &headers {
        for part in [name.as_bytes(), b":", value, b"\n"] {
            all.extend_from_slice(part);
        }
    }
    all.extend_from_slice(format!("\n{names}\n{}", request.payload).as_bytes());
    (all, names)
}

/// A header's value without spaces around it, and with one for several.
fn folded(value: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(value.len());
    for byte in value.trim_ascii() {
        let byte = if *byte == b'\t' { b' ' } else { *byte };
        if byte != b' ' || all.last() != Some(&b' ') {
            all.push(byte);
        }
    }
    all
}

/// A path of a service other than S3: `.`, `..` and empty parts resolved, and encoded once more than it is sent.
fn encoded_again(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let ends = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    let slash = if ends && !parts.is_empty() { "/" } else { "" };
    encoded(format!("/{}{slash}", parts.join("/")).as_bytes(), true)
}

/// The bytes of a text with percent signs. One that encodes nothing stands for itself.
fn decoded(text: &str) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let (bytes, mut all, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                all.push(u8::try_from(high << 4 | low).unwrap_or_default());
                at += 3;
            }
            _ => {
                all.push(*byte);
                at += 1;
            }
        }
    }
    all
}

/// A text in AWS's encoding: letters, digits, `-`, `.`, `_`, `~` and, in a path, `/` stand for themselves.
fn encoded(bytes: &[u8], is_path: bool) -> String {
    let mut all = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || (is_path && *byte == b'/') {
            all.push(char::from(*byte));
        } else {
            let _ = write!(all, "%{byte:02X}");
        }
    }
    all
}

/// SHA-256 of bytes.
pub fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, bytes).as_ref().to_vec()
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut all, byte| {
        let _ = write!(all, "{byte:02x}");
        all
    })
}

fn hmac256(key: &[u8], bytes: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), bytes)
}

#[cfg(test)]
#[path = "sign_tests.rs"]
mod tests;
