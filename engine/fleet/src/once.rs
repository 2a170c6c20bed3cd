//! Runs that may not be run twice. A farm gives a dead worker's lease to another by itself, so a worker marks such a run
//! as started, where the next one looks first; that one answers `lost`.
//!
//! The mark is a blob in the content-addressed storage, an action with the run's id as its salt, and an entry in the action cache
//! under the blob's digest. One of the two is enough: a farm may forget either, and some let no worker write the cache.
//! Neither is written by a compare-and-set, so the entry names the attempt and is read again before the run begins. Two
//! workers with the lease at one time, which a farm allows only after the lease ran out, could still both begin within the
//! time between two calls.

use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use prost::Message;

use crate::digest::Key;

/// Platform property whose value is the id of a run that may not be run twice.
pub const ONCE: &str = "hotcell-once";
/// Maximum length of an id, in bytes.
const MAX_ID: usize = 128;
/// Beginning of the message of a lost run's status.
pub const LOST: &str = "lost: ";

/// True when a text can be the id of a run: letters, digits, `-`, `_` and `.`.
#[must_use]
pub fn is_id(text: &str) -> bool {
    let is_good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (8..=MAX_ID).contains(&text.len()) && text.bytes().all(is_good)
}

/// The mark's content and digest. It is an action, though none to execute: BuildGrid reads the action of an entry of its action cache before
/// it answers with the entry.
#[must_use]
pub fn mark(id: &str) -> (Vec<u8>, Key) {
    let salt = format!("hotcell.started/1 {id}").into_bytes();
    // The empty blob is one that each farm has.
    let empty = Some(Key::of(b"").message());
    let mark =
        reapi::Action { command_digest: empty.clone(), input_root_digest: empty, salt, ..Default::default() };
    let action = mark.encode_to_vec();
    let key = Key::of(&action);
    (action, key)
}

/// Result of a look for a mark in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// There is a mark.
    Marked,
    /// There is no mark.
    Unmarked,
    /// The farm does not have this place, or does not let a worker use it.
    Barred,
    /// The place did not answer.
    Failed,
}

/// Result of writing a mark in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrote {
    /// The mark is written, and read again where that tells which attempt wrote it.
    Ours,
    /// Another attempt's mark is there.
    Theirs,
    /// The farm does not have this place, or does not let a worker use it.
    Barred,
    /// The place did not answer.
    Failed,
}

/// Next step with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Goes on: writes the marks, or begins the run.
    Go,
    /// Answers `lost`.
    Lost,
    /// Gives the lease back: another try may succeed, and nothing began.
    Later,
    /// Refuses: the farm has no place for a mark.
    Never,
}

/// Decides after the looks.
#[must_use]
pub fn looked(storage: Look, cache: Look) -> Step {
    match (storage, cache) {
        (Look::Marked, _) | (_, Look::Marked) => Step::Lost,
        (Look::Failed, _) | (_, Look::Failed) => Step::Later,
        (Look::Barred, Look::Barred) => Step::Never,
        _ => Step::Go,
    }
}

/// Decides after the marks were written. A run whose mark may have been written and not read is lost rather than begun:
/// the next worker would say the same.
#[must_use]
pub fn wrote(storage: Wrote, cache: Wrote) -> Step {
    match (storage, cache) {
        (Wrote::Theirs, _) | (_, Wrote::Theirs) => Step::Lost,
        (Wrote::Ours, _) | (_, Wrote::Ours) => Step::Go,
        (Wrote::Failed, _) | (_, Wrote::Failed) => Step::Later,
        (Wrote::Barred, Wrote::Barred) => Step::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_runs_are_lost_and_unknown_ones_wait() {
        use Look::{Barred, Failed, Marked, Unmarked};
        for (storage, cache, step) in [
            (Unmarked, Unmarked, Step::Go),
            (Unmarked, Barred, Step::Go),
            (Barred, Unmarked, Step::Go),
            (Marked, Unmarked, Step::Lost),
            (Unmarked, Marked, Step::Lost),
            (Failed, Marked, Step::Lost),
            (Marked, Failed, Step::Lost),
            (Failed, Unmarked, Step::Later),
            (Unmarked, Failed, Step::Later),
            (Barred, Failed, Step::Later),
            (Barred, Barred, Step::Never),
        ] {
            assert_eq!(looked(storage, cache), step, "{storage:?} {cache:?}");
        }
    }

    #[test]
    fn runs_begin_behind_a_mark_of_their_own_only() {
        use Wrote::{Barred, Failed, Ours, Theirs};
        for (storage, cache, step) in [
            (Ours, Ours, Step::Go),
            (Ours, Barred, Step::Go),
            (Ours, Failed, Step::Go),
            (Failed, Ours, Step::Go),
            (Barred, Ours, Step::Go),
            (Ours, Theirs, Step::Lost),
            (Failed, Theirs, Step::Lost),
            (Failed, Failed, Step::Later),
            (Barred, Failed, Step::Later),
            (Barred, Barred, Step::Never),
        ] {
            assert_eq!(wrote(storage, cache), step, "{storage:?} {cache:?}");
        }
    }

    #[test]
    fn ids_are_words() {
        for (text, good) in [
            ("0123abcd", true),
            ("a.b-c_d9", true),
            ("short", false),
            ("", false),
            ("../../etc", false),
            ("with space", false),
            ("zero\0byte", false),
        ] {
            assert_eq!(is_id(text), good, "{text:?}");
        }
        assert!(!is_id(&"x".repeat(129)));
        assert_ne!(mark("00000001").1, mark("00000002").1);
        let action = reapi::Action::decode(mark("00000001").0.as_slice()).unwrap();
        assert_eq!(action.salt, b"hotcell.started/1 00000001");
    }
}
