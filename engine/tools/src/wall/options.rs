//! What is to be run, and how.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use hotcell_sandbox::{Bytes, Confinement, FileId};

use crate::{Held, Limits, cache};

/// A plugin as it is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// Its name: whose process it is.
    pub name: String,
    /// SHA-256 of its component, in hexadecimal.
    pub digest: String,
    /// Its component. Read only when there is no compiled form of it, and then it has to have this digest.
    pub wasm: PathBuf,
    /// What is in force for it. Folders have their canonical paths.
    pub held: Held,
    /// Which folder each of these paths stood for when it was granted; one without is whichever has the name.
    pub identities: BTreeMap<PathBuf, FileId>,
    /// The variables that it sees, with their values.
    pub env: Vec<(String, String)>,
    /// The limits of each of its calls.
    pub limits: Limits,
    /// Whether it has a process of its own also where it holds nothing: it has something that is its own all the same, such as
    /// values that it keeps.
    pub alone: bool,
}

/// How processes are started.
#[derive(Clone, Debug)]
pub struct HostsOptions {
    /// A program that calls [`crate::serve()`] when it is started with `arguments`.
    pub program: PathBuf,
    /// [`super::VERB`].
    pub arguments: Vec<OsString>,
    /// The folder of compiled components.
    pub cache: PathBuf,
    /// The most that is kept there. 2 GiB.
    pub cache_bytes: Bytes,
    /// How a process is confined. By namespaces too; by Landlock alone it sees names, sizes and processes of the host, so that is
    /// for whoever chose it.
    pub confinement: Confinement,
    /// How long a component may take to be compiled. 60 s.
    pub compile_time: Duration,
    /// The memory that the compiler may use. 2 GiB.
    pub compile_memory: Bytes,
    /// How long a process may take to begin, and to load what is compiled; a slow machine has time. 30 s.
    pub patience: Duration,
    /// A process of which nothing was asked for so long ends. 60 s.
    pub idle: Duration,
}

impl HostsOptions {
    /// With the defaults.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, cache: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: vec![super::VERB.into()],
            cache: cache.into(),
            cache_bytes: Bytes(cache::MOST_BYTES),
            confinement: Confinement::Namespaces,
            compile_time: Duration::from_secs(60),
            compile_memory: Bytes::gib(2),
            patience: Duration::from_secs(30),
            idle: Duration::from_secs(60),
        }
    }
}

/// What it took to make a plugin ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// From asking for a process until it was ready; none when it ran already.
    pub process: Option<Duration>,
    /// From asking for the component until the process had it, compiling included; none when it had it already.
    pub component: Option<Duration>,
}
