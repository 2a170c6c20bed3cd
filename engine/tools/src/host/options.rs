//! Plugins to run, and options for their processes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use hotcell_sandbox::{Bytes, Confinement, FileId};

use crate::{Held, Limits, cache};

/// A plugin with everything that is needed to run it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plugin {
    /// Name of the plugin: the owner of the process.
    pub name: String,
    /// SHA-256 of its component, in hexadecimal.
    pub digest: String,
    /// Path of its component. Read only when there is no compiled form, and then it must have this digest.
    pub wasm: PathBuf,
    /// Capabilities in force for it. Folders have their canonical paths.
    pub held: Held,
    /// Identity of each folder when it was granted; a path without an entry means whichever folder is there.
    pub identities: BTreeMap<PathBuf, FileId>,
    /// Environment variables of the plugin, with their values.
    pub env: Vec<(String, String)>,
    /// Limits of each call of the plugin.
    pub limits: Limits,
    /// Whether the plugin needs a process of its own even if it holds no capability: it has other data of its
    /// own, such as stored values.
    pub alone: bool,
    /// Caller whose calls share one instance, by a name that no other caller has; `None` for a fresh instance
    /// for each call.
    pub session: Option<String>,
}

/// Options for starting processes.
#[derive(Clone, Debug)]
pub struct HostsOptions {
    /// A program that calls [`crate::serve()`] when it is started with `arguments`.
    pub program: PathBuf,
    /// Arguments of the program: [`super::VERB`].
    pub arguments: Vec<OsString>,
    /// Folder of the cache of compiled components.
    pub cache: PathBuf,
    /// Maximum size of the cache. Default: 2 GiB.
    pub cache_bytes: Bytes,
    /// Confinement of a process. Default: namespaces. With Landlock alone a process sees names, sizes and
    /// processes of the host, so that must be chosen explicitly.
    pub confinement: Confinement,
    /// Time limit for compiling a component. Default: 60 s.
    pub compile_time: Duration,
    /// Memory limit of the compiler. Default: 2 GiB.
    pub compile_memory: Bytes,
    /// Time limit for starting a process, and for loading a compiled component; long enough for slow
    /// machines. Default: 30 s.
    pub patience: Duration,
    /// Idle time after which a process ends. Default: 60 s.
    pub idle: Duration,
    /// Idle time after which an instance that is kept for a session ends. Default: 600 s.
    pub session_idle: Duration,
}

impl HostsOptions {
    /// Creates options with the defaults.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, cache: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: vec![super::VERB.into()],
            cache: cache.into(),
            cache_bytes: Bytes(cache::DEFAULT_CACHE_BYTES),
            confinement: Confinement::Namespaces,
            compile_time: Duration::from_secs(60),
            compile_memory: Bytes::gib(2),
            patience: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            session_idle: Duration::from_secs(600),
        }
    }
}

/// Times that it took to make a plugin ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Time from requesting a process until it was ready; `None` when it was running already.
    pub process: Option<Duration>,
    /// Time from requesting the component until the process had it, compiling included; `None` when the
    /// process had it already.
    pub component: Option<Duration>,
}
