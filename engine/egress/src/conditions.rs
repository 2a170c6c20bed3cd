//! Conditions of a rule of the network: methods, a path and limits of requests that hotcell can read. Pure.

use std::fmt;

use crate::limit::{RequestLimits, parse_size, size_text};
use crate::route::rules::{NormalPath, PathError, is_method};

/// Requests that a rule is for. The default is for all, also for those that are not seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Only these methods, if there are any.
    methods: Vec<String>,
    /// Only this path and all below it.
    path: Option<(String, NormalPath)>,
    /// Whether a `%2F` is accepted in a path.
    encoded_slash: bool,
    /// Limits of each request.
    pub limits: RequestLimits,
}

impl Conditions {
    /// Reads the parts of a rule: methods in front of the host (`GET|HEAD`), the path behind the port, and the words after it.
    ///
    /// # Errors
    /// A sentence for the first part that cannot be read.
    pub fn parse<'a>(
        methods: Option<&str>,
        path: &str,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let mut conditions = Self::default();
        for word in words {
            match word.split_once('=') {
                Some(("body", size)) => conditions.limits.max_body = Some(parse_size(size)?),
                Some(("rate", rate)) => conditions.limits.rate = Some(rate.parse()?),
                None if word == "encoded-slash" => conditions.encoded_slash = true,
                _ => {
                    return Err(format!(
                        "behind host and path stand body=SIZE, rate=NUMBER/m and encoded-slash, not {word:?}"
                    ));
                }
            }
        }
        for method in methods.into_iter().flat_map(|methods| methods.split('|')) {
            if !is_method(method) {
                return Err(format!(
                    "{method:?} is no method: write such as GET or GET|HEAD in front of the host; CONNECT and TRACE never pass"
                ));
            }
            conditions.methods.push(method.to_owned());
        }
        if path.is_empty() && conditions.encoded_slash {
            return Err("encoded-slash is for a rule with a path, as HOST:PORT/PATH".to_owned());
        }
        if !path.is_empty() {
            if path.contains(['*', ',', '%']) {
                return Err(
                    "a path stands for itself and all below it; write it without *, % and comma".to_owned()
                );
            }
            let normal = NormalPath::parse(path, false).map_err(|e| e.to_string())?;
            conditions.path = Some((path.to_owned(), normal));
        }
        Ok(conditions)
    }

    /// Whether every request is allowed, so that it need not be seen.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.methods.is_empty() && self.path.is_none() && self.limits == RequestLimits::default()
    }

    /// Whether a request is one of those that the rule allows. A method that is not in capitals, CONNECT and TRACE are never allowed: servers read
    /// `delete` as they like, and TRACE sends back what the program may not see.
    ///
    /// # Errors
    /// [`PathError`] for a path with two readings, where a path is asked for.
    pub fn allow(&self, method: &str, path: &str) -> Result<bool, PathError> {
        let method =
            is_method(method) && (self.methods.is_empty() || self.methods.iter().any(|one| one == method));
        Ok(match &self.path {
            None => method,
            Some((_, below)) => NormalPath::parse(path, self.encoded_slash)?.is_within(below) && method,
        })
    }

    /// Whether a request may be one that a rule with these conditions denies, also where only some servers would read its path so.
    ///
    /// # Errors
    /// [`PathError`] for a path with two readings, where a path is denied.
    pub fn may_be(&self, method: &str, path: &str) -> Result<bool, PathError> {
        let method =
            self.methods.is_empty() || self.methods.iter().any(|one| one.eq_ignore_ascii_case(method));
        Ok(match &self.path {
            None => method,
            Some((_, below)) => method && NormalPath::parse(path, true)?.may_be_within(below),
        })
    }

    /// Whether all that `other` allows is allowed here.
    #[must_use]
    pub fn cover(&self, other: &Self) -> bool {
        let methods = self.methods.is_empty()
            || !other.methods.is_empty() && other.methods.iter().all(|one| self.methods.contains(one));
        let path = match (&self.path, &other.path) {
            (None, _) => true,
            (Some((_, mine)), Some((_, theirs))) => theirs.is_within(mine),
            (Some(_), None) => false,
        };
        let slash = self.path.is_none() || self.encoded_slash || !other.encoded_slash;
        methods && path && slash && self.limits.cover(&other.limits)
    }

    /// The methods with a space behind them, as they stand in front of a rule's host.
    pub(crate) fn front(&self) -> String {
        if self.methods.is_empty() { String::new() } else { format!("{} ", self.methods.join("|")) }
    }
}

impl fmt::Display for Conditions {
    /// The path and the words behind the port.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((path, _)) = &self.path {
            f.write_str(path)?;
        }
        if let Some(size) = self.limits.max_body {
            write!(f, " body={}", size_text(size))?;
        }
        if let Some(rate) = self.limits.rate {
            write!(f, " rate={rate}")?;
        }
        if self.encoded_slash {
            f.write_str(" encoded-slash")?;
        }
        Ok(())
    }
}
