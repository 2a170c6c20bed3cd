//! Further options of a run of tests: reruns, shards, services and build options.

use hotcell_testing::shard::Shard;

use super::{Beside, CacheName, Interpreter, Shards};

/// Options of `hotcell test` alone.
#[derive(Clone, Debug, Default)]
pub struct TestOptions {
    /// Maximum number of reruns of failed tests.
    pub retry: u32,
    /// Run only this shard of the tests.
    pub shard: Option<Shard>,
    /// Split the tests into parts that run at the same time (`--shards`).
    pub shards: Option<Shards>,
    /// They run on other machines: nothing that hotcell keeps here for compilers is of use there, and durations are kept for a split.
    pub elsewhere: bool,
    /// List the tests without running them.
    pub list: bool,
    /// Services in the tests' sandbox, and commands before them.
    pub beside: Beside,
    /// The Pythons of `--python`, as they were asked for; each runs the tests.
    pub pythons: Vec<String>,
    /// Install the dependencies that lock files name, for each of these Pythons (`--deps`).
    pub deps: bool,
    /// The Python that this request is for.
    pub interpreter: Option<Interpreter>,
    /// Cache that the tool that builds the tests keeps for its next run (`--cache`).
    pub cache: Option<CacheName>,
    /// Options of the tool that builds the tests.
    pub build_args: Vec<String>,
}
