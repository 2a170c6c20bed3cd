//! Lies of a farm, each at one place of the protocol.

use crate::storage;

/// A lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// It speaks only version 1 of the protocol.
    OldVersion,
    /// It stores, and executes nothing.
    NoExecution,
    /// No worker takes the action.
    NoWorkers,
    /// The worker refuses the platform.
    WrongPlatform,
    /// It executes, and never says how that ended.
    NoEnd,
    /// It closes the stream of states, again and again.
    LostStates,
    /// The operation has no answer in it.
    NoAnswer,
    /// Blobs that are read have other bytes.
    WrongBytes,
    /// Blobs that are read end early.
    ShortReads,
    /// Blobs of the result are not there.
    MissingBlobs,
    /// Compressed blobs are larger than they say.
    Bomb,
    /// It claims to have stored less than was sent.
    ShortWrites,
    /// It misses blobs that it was not asked for.
    OtherMissing,
    /// An output has a path that leads up.
    UpPath,
    /// An output has an absolute path.
    AbsolutePath,
    /// An output folder has a link that leads out.
    LinkOut,
    /// An output folder is deeper than any folder.
    Deep,
    /// An output folder has 10^8 entries in nine messages.
    Wide,
    /// An output folder has 2 x 10^6 files in 4 MB.
    Crowded,
    /// The result has 2 x 10^5 files in 0.4 MB.
    Listed,
    /// An output folder is not a tree.
    NoTree,
    /// An output folder has a name with a slash.
    SlashName,
    /// An output is said to have 2^62 bytes.
    Huge,
    /// An output has a digest that is not SHA-256.
    NoDigest,
    /// It answers from its cache, unasked.
    Cached,
    /// The log of the output has other bytes than the result.
    OtherLog,
    /// The result says another exit code than the worker's outcome.
    OtherExit,
    /// A worker failed.
    WorkerFailed,
    /// The outcome is lost.
    OutcomeLost,
    /// The receipt is not a signed one.
    StrangeReceipt,
}

impl Lie {
    /// The lie that is the storage's to tell.
    pub(crate) fn of_storage(self) -> Option<storage::Lie> {
        Some(match self {
            Self::OldVersion => storage::Lie::OldVersion,
            Self::NoExecution => storage::Lie::NoExecution,
            Self::WrongBytes => storage::Lie::Wrong,
            Self::ShortReads => storage::Lie::Short,
            Self::Bomb => storage::Lie::Bomb,
            Self::ShortWrites => storage::Lie::ShortWrites,
            Self::OtherMissing => storage::Lie::OtherMissing,
            _ => return None,
        })
    }
}
