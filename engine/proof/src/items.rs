//! Rows and tests of one run of the suite, its options, and the results.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::run::Run;
use crate::scenarios::{Said, Special};
use crate::table::Row;
use crate::verdict::Verdict;
use crate::words::User;

/// Maximum number of concurrent arenas: each may use as much memory as its ceiling.
pub(crate) const MAX_ARENAS: usize = 8;

/// Options of a run of the suite.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of the attacks to run; empty for all.
    pub only: Vec<u16>,
    /// Start time for the report, RFC 3339.
    pub date: String,
    /// Time limit; attacks that are not finished by then count as not run. Default 60 s.
    pub within: Duration,
    /// Number of concurrent arenas. Default three times the processors, since an arena mostly waits; at most
    /// 8.
    pub at_once: usize,
}

impl Default for Options {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            only: Vec::new(),
            date: String::new(),
            within: Duration::from_secs(60),
            at_once: (processors * 3).min(MAX_ARENAS),
        }
    }
}

/// A row or a test.
#[derive(Clone, Copy, Debug)]
pub enum Item {
    /// A row.
    Row(&'static Row),
    /// A special test.
    Test(&'static Special),
}

impl Item {
    pub(crate) fn number(self) -> u16 {
        match self {
            Self::Row(row) => row.number,
            Self::Test(test) => test.number(),
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Row(row) => row.test_name(),
            Self::Test(test) => test.name.to_owned(),
        }
    }

    /// Whether the item takes seconds. Slow items run first, one after the other, or the suite would wait for
    /// the last of them.
    pub(crate) fn is_slow(self) -> bool {
        match self {
            Self::Row(row) => matches!(row.number, 27 | 105 | 106 | 112 | 116 | 124 | 125),
            Self::Test(test) => {
                matches!(test.number(), 10 | 30 | 73 | 109 | 111 | 119 | 122 | 124 | 128 | 131 | 132)
            }
        }
    }

    /// The row, if it may share an arena with others: not when it exhausts a limited resource.
    pub(crate) fn shares(self) -> Option<&'static Row> {
        match self {
            Self::Row(row) if !self.is_slow() && row.set.is_empty() && row.number < 102 => Some(row),
            _ => None,
        }
    }
}

/// Result of a row or a test for one user.
#[derive(Clone, Debug)]
pub struct Done {
    /// The row or test.
    pub item: Item,
    /// User who started the sandboxes.
    pub user: User,
    /// Result.
    pub came: Came,
    /// Duration, including its arena.
    pub took: Duration,
}

/// Result of a row or a test.
#[derive(Clone, Debug)]
pub enum Came {
    /// The runs of a row, and their verdict.
    Runs(Vec<Run>, Verdict),
    /// Result of a special test.
    Said(Said),
    /// Not run, or not to its end, with the reason.
    NotRun(String),
}

impl Came {
    pub(crate) fn is_good(&self) -> bool {
        !matches!(self, Self::Runs(_, Verdict::Failed(_)) | Self::Said(Said::Bad(_)) | Self::NotRun(_))
    }
}
