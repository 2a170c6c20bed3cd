//! Counts denials. Pure.

use std::fmt;

/// Kind of operation that a program attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A connection, by CONNECT or SOCKS.
    Connect,
    /// An HTTP request.
    Http,
    /// A look-up of a name.
    Dns,
    /// TLS with another server than the tunnel's.
    Tls,
}

impl Operation {
    /// Name of the operation in an outcome.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Http => "http",
            Self::Dns => "dns",
            Self::Tls => "tls",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A denial, with the number of its occurrences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The attempted operation.
    pub operation: Operation,
    /// `HOST:PORT`, or `HOST` for a name look-up, followed by the reason in parentheses unless the reason is
    /// that no rule allows it.
    pub target: String,
    /// Number of occurrences.
    pub count: u64,
}

/// Target of a denial whose host cannot be parsed.
pub const UNREADABLE: &str = "a host that cannot be read";
/// Maximum number of rows per operation; all further targets share one row.
const MAX_ROWS: usize = 40;
/// Maximum length of a target in bytes; a program controls most of it.
const MAX_TARGET_LEN: usize = 400;

/// Denials in order of first appearance.
#[derive(Debug, Default)]
pub struct Ledger(Vec<Denied>);

impl Ledger {
    /// Counts a denial.
    pub fn add(&mut self, operation: Operation, mut target: String) {
        let cut = (0..=MAX_TARGET_LEN.min(target.len())).rev().find(|at| target.is_char_boundary(*at));
        target.truncate(cut.unwrap_or(0));
        let own = || self.0.iter().filter(|row| row.operation == operation);
        if own().count() >= MAX_ROWS && own().all(|row| row.target != target) {
            "(others)".clone_into(&mut target);
        }
        match self.0.iter_mut().find(|row| row.operation == operation && row.target == target) {
            Some(row) => row.count += 1,
            None => self.0.push(Denied { operation, target, count: 1 }),
        }
    }

    /// Takes the rows, in order of first appearance.
    pub fn take(&mut self) -> Vec<Denied> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_and_bounded() {
        let mut ledger = Ledger::default();
        for n in 0..500 {
            ledger.add(Operation::Dns, format!("x{n}.evil"));
        }
        ledger.add(Operation::Http, "a.com:80".to_owned());
        ledger.add(Operation::Http, "a.com:80".to_owned());
        ledger.add(Operation::Connect, "é".repeat(1000));
        let rows = ledger.take();
        assert_eq!(rows.len(), MAX_ROWS + 3);
        assert_eq!((rows[MAX_ROWS].target.as_str(), rows[MAX_ROWS].count), ("(others)", 460));
        assert_eq!((rows[MAX_ROWS + 1].target.as_str(), rows[MAX_ROWS + 1].count), ("a.com:80", 2));
        assert_eq!(rows[MAX_ROWS + 2].target.len(), MAX_TARGET_LEN);
    }
}
