//! Task of an arena, which each stage hands to the next, and the facts that hold in every arena.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::words::User;

/// First argument of a program that runs as a stage of an arena.
pub const STAGE: &str = "--hotcell-arena-stage";
/// Id of the ordinary user of an arena.
pub const ORDINARY_ID: u32 = 1000;
/// A supplementary group of the ordinary user, which a sandbox must not keep.
pub const GROUP: u32 = 4242;
/// Limit on the private data of one process, in bytes. Address space is not limited, since a legitimate
/// program reserves 64 GiB (row 117).
pub(crate) const MAX_DATA_BYTES: u64 = 4 << 30;
/// Size of each scratch file system of the arena.
pub(crate) const SCRATCH: &str = "size=768m,nr_inodes=300k,mode=1777";
/// Second address of the arena's loopback interface, which is not in 127.0.0.0/8.
pub const SECOND_ADDRESS: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 77, 0, 1);
/// Host name of an arena; a sandbox must not learn it.
pub const HOST_NAME: &str = "hotcell-arena-host";

/// Task of an arena.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// User who starts the sandboxes.
    pub user: User,
    /// Work of the driver.
    pub work: Work,
    /// Folder for programs and decoys, empty in the arena before it is filled.
    pub base: PathBuf,
    /// Whether the harness itself is root.
    pub as_root: bool,
    /// Number of repetitions.
    pub effort: Effort,
}

/// Number of repetitions of races, kills and series of runs, and nesting depth of folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// The full number, as in the project's own test suite; takes minutes.
    Thorough,
    /// A quarter of it, for a user who waits.
    Quick,
}

impl Effort {
    /// Scales a number of repetitions.
    #[must_use]
    pub const fn of(self, thorough: usize) -> usize {
        match self {
            Self::Thorough => thorough,
            Self::Quick => thorough.div_ceil(4),
        }
    }
}

/// Work of the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Runs a row without a sandbox.
    Bare(String),
    /// Runs a row without a sandbox, and then in every setting.
    Full(String),
    /// Runs several rows like [`Work::Full`], each after a line with [`crate::driver::ROW`] and its name.
    Rows(Vec<String>),
    /// Runs a row in the weaker confinement, without namespaces.
    LandlockOnly(String),
    /// Runs one of [`crate::scenarios::ALL`].
    Special(String),
    /// Does nothing, to test whether an arena can be made.
    Nothing,
}
