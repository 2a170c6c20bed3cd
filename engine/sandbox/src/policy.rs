//! The caller's request: a [`Policy`] is a [`Shape`] and a [`Job`].
//!
//! Plain data and builders, without system calls. A new policy grants only the program itself, the host's
//! `/usr` read-only and an empty scratch folder; everything else takes a method call.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layer::Layer;
use crate::network::{Relay, SharedProxy};
use crate::os_text;
use crate::units::{Bytes, seconds};

/// The home folder inside every sandbox: writable scratch.
pub const HOME: &str = "/home/sandbox";
/// Mountpoint of the workspace inside; if there is a workspace, the program starts there.
pub const PROJECT: &str = "/home/sandbox/project";
/// Descriptor on which a program writes its events, with [`Job::events`].
pub const EVENTS_FD: i32 = 3;
/// Name of the workspace in the home folder.
pub const PROJECT_NAME: &str = "project";

/// How the program is separated from the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// Namespaces, an own root, and every other layer.
    #[default]
    Namespaces,
    /// Landlock, seccomp, rlimits and cgroups only, on the host's own file system tree: for hosts that
    /// forbid user namespaces. **Weaker**: the program sees the host's processes.
    LandlockOnly,
}

/// The network access of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// A private loopback and nothing else.
    #[default]
    Loopback,
    /// A private loopback on which a proxy is served from outside ([`Job::proxy`]), the only way out. Needs a
    /// network namespace.
    Proxy,
    /// No internet sockets at all: the system call filter refuses to create them, Landlock refuses to use
    /// them.
    Off,
}

/// How much of `/proc` a program sees. With namespaces it shows only its own processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcView {
    /// All of it, with the dangerous files masked and `/proc/sys` read-only.
    #[default]
    Masked,
    /// Process folders only (`subset=pid`). Some runtimes need `/proc/cpuinfo`, which is missing then. Under
    /// [`Confinement::LandlockOnly`] only the folder of the first process: its children cannot read their
    /// own.
    OwnProcesses,
}

/// A symbolic link: its path, and its target in the workspace.
pub type Link = (PathBuf, PathBuf);

/// An image in place of the host's `/usr`: layers, shown as one read-only root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageRoot {
    /// Folders on the host, the topmost first, at most 127, as overlays read them (`user.overlay`
    /// attributes). They must not change while a sandbox uses them.
    #[schemars(with = "Vec<String>")]
    #[serde(with = "os_text::paths")]
    pub layers: Vec<PathBuf>,
    /// Entries at the top level of the merged root.
    pub top: Vec<RootEntry>,
}

/// An entry at the top level of an image's root.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RootEntry {
    /// File name.
    pub name: String,
    /// Kind of entry.
    pub kind: RootKind,
}

/// Kind of an entry in an image's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RootKind {
    /// A folder.
    Folder,
    /// A file.
    File,
    /// A symbolic link.
    Link,
}

/// Limits of one run. The chapter *Limits* of the book says which of them kill and which deny.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Memory of the whole tree without scratch files, no swap. Kills. Default 512 MiB.
    pub memory: Bytes,
    /// Wall-clock time from release. Kills. Default 60 s. (seconds)
    #[serde(with = "seconds")]
    #[schemars(with = "f64")]
    pub wall: Duration,
    /// CPU time of the whole tree; `None` for no limit. Kills. Default 60 s. (seconds)
    #[serde(with = "seconds::option")]
    #[schemars(with = "Option<f64>")]
    pub cpu_time: Option<Duration>,
    /// Processes and threads, including the program's own. Denies (`EAGAIN`). Default 64.
    pub processes: u32,
    /// Bytes written to scratch and to a copy-on-write workspace. Denies (`ENOSPC`). Default 256 MiB.
    pub disk: Bytes,
    /// Files and folders created in scratch and in a copy-on-write workspace. Denies (`ENOSPC`). Default
    /// 65,536.
    pub files: u64,
    /// Captured bytes of each output stream: the first and the last half; the rest is only counted. Default 1
    /// MiB.
    pub capture: Bytes,
    /// Bytes written to both output streams together. Kills. Default 64 MiB.
    pub output: Bytes,
    /// Processors that the tree may keep busy at once (1.5 = one and a half); `None` for all. Throttles.
    pub cpus: Option<f64>,
    /// Open descriptors of each process. Denies (`EMFILE`). `None` for [`OPEN_FILES`], or
    /// [`OPEN_FILES_OF_A_USER`] where the program has the host id of the user who runs it; at most 512 fewer
    /// than the caller's own process may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
}

/// Default limit of descriptors for each process: Linux's own default.
pub const OPEN_FILES: u64 = 1024;
/// Default limit of descriptors where the program has the host id of an ordinary user. Linux counts the
/// descriptors in flight over sockets for each user, and compares the sum with the sender's limit: one
/// message of 253 descriptors on top of this is still below the 1,024 of the user's other programs. `unix(7)`
pub const OPEN_FILES_OF_A_USER: u64 = 768;

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: Bytes::mib(512),
            wall: Duration::from_secs(60),
            cpu_time: Some(Duration::from_secs(60)),
            processes: 64,
            disk: Bytes::mib(256),
            files: 65_536,
            capture: Bytes::mib(1),
            output: Bytes::mib(64),
            cpus: None,
            open_files: None,
        }
    }
}

impl Limits {
    /// Limits for test suites and compile steps, which need more: 2 GiB of memory, 10 minutes, no limit of
    /// CPU time, 512 processes, 4 GiB in 1,000,000 files, 4 MiB captured of 256 MiB of output.
    #[must_use]
    pub fn for_tests() -> Self {
        Self {
            memory: Bytes::gib(2),
            wall: Duration::from_secs(600),
            cpu_time: None,
            processes: 512,
            disk: Bytes::gib(4),
            files: 1_000_000,
            capture: Bytes::mib(4),
            output: Bytes::mib(256),
            cpus: None,
            open_files: None,
        }
    }

    /// Lowers memory and disk to the memory of a machine. For defaults that the user did not choose, since a
    /// limit above the machine's memory is refused.
    #[must_use]
    pub fn at_most(self, memory: Bytes) -> Self {
        Self { memory: self.memory.min(memory), disk: self.disk.min(memory), ..self }
    }
}

/// The part of a policy that is the same for all runs of a kind; the key under which sandboxes are made ahead
/// of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Shape {
    /// Namespaces or the weaker fallback.
    pub confinement: Confinement,
    /// Loopback, loopback with a proxy, or no internet sockets.
    pub network: Network,
    /// With [`Network::Proxy`], names at which the proxy's server serves programs that know of no proxy; at most 24. No part of a policy
    /// that is written down.
    #[serde(skip)]
    pub relays: Vec<Relay>,
    /// How much of `/proc` is there.
    pub proc: ProcView,
    /// The image that forms the root; `None` for the host's `/usr`.
    pub image: Option<ImageRoot>,
    /// Layers that are required: without one of them the run is refused.
    pub require: BTreeSet<Layer>,
    /// The highest limits that a job of this shape may have.
    pub ceilings: Limits,
    /// Mountpoints outside the home folder for jobs of this shape.
    pub places: Vec<MountPlace>,
    /// Aliases of a workspace outside scratch, from [`Job::aliases`]. Not serialized.
    #[serde(skip)]
    pub links: Vec<Link>,
    /// Jobs of this shape may write to folders of the host; setuid files are refused then.
    pub host_writes: bool,
    /// Whether the outcome lists the files that the program asks for and that are not there inside. Each open is then told to the
    /// supervisor, which takes tens of microseconds. Not with writable folders of the host, nor without namespaces. Not serialized.
    #[serde(skip)]
    pub watch_files: bool,
    /// Layers switched off on purpose, for tests that prove the others. Empty in every profile.
    #[serde(skip)]
    pub knocked_out: danger::KnockedOut,
}

/// Mountpoint for a job's bind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MountPlace {
    /// Absolute path inside.
    #[schemars(with = "String")]
    #[serde(with = "os_text::path")]
    pub inside: PathBuf,
    /// True for a folder, false for a file.
    pub folder: bool,
}

/// Source of standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// `/dev/null`.
    #[default]
    Null,
    /// A pipe that the caller writes to through [`crate::Running::stdin`].
    Piped,
    /// One end of a pair of stream sockets; the caller has the other, [`crate::Running::socket`]. For
    /// programs that answer requests: data sent there is not captured and does not count against the limit of
    /// output.
    Socket,
    /// A terminal of the sandbox's own, which is also standard output and standard error: the program leads a
    /// session with it, so that job control works. What is written to [`crate::Running::stdin`] is typed, what
    /// the program writes is standard output, and [`crate::Running::terminal`] changes the size. Needs a mount
    /// namespace.
    Terminal(WindowSize),
    /// These bytes, then end of file.
    #[schemars(with = "String")]
    Bytes(#[serde(with = "os_text::bytes")] Vec<u8>),
}

/// Size of a terminal's window, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowSize {
    /// Lines. A size of 0 is taken as unknown by most programs.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

impl Default for WindowSize {
    /// 24 lines of 80 characters, the size of the VT100.
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// One host file or folder that a policy lets the program see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    /// Absolute path on the host. Symbolic links are followed once, when the policy is planned.
    #[schemars(with = "String")]
    #[serde(with = "os_text::path")]
    pub host: PathBuf,
    /// Absolute path inside the sandbox.
    #[schemars(with = "String")]
    #[serde(with = "os_text::path")]
    pub inside: PathBuf,
    /// Whether the program may change the original on the host.
    pub writable: bool,
    /// For a folder that is not writable: the program may change its own view of the folder; the changes are
    /// discarded with the sandbox and count as scratch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copy_on_write: bool,
    /// The file or folder that it must be; if `None`, any that has the name. Not serialized.
    #[serde(skip)]
    pub identity: Option<FileId>,
}

/// Identity of a file, as `stat(2)` reports it. A name can be moved to another file by any process that may
/// write to its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileId {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
}

impl FileId {
    /// Identity of the file that has this name now; for a link, of the link itself.
    ///
    /// # Errors
    /// The error of `stat(2)`.
    pub fn of(path: &Path) -> io::Result<Self> {
        path.symlink_metadata().map(|metadata| Self::from(&metadata))
    }
}

impl From<&Metadata> for FileId {
    fn from(metadata: &Metadata) -> Self {
        Self { dev: metadata.dev(), ino: metadata.ino() }
    }
}

/// One run: sent to a sandbox on release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Job {
    /// Program and arguments. A program without a slash is looked up in the `PATH` inside.
    #[schemars(with = "Vec<String>")]
    #[serde(with = "os_text::list")]
    pub argv: Vec<OsString>,
    /// The environment in addition to `PATH`, `HOME`, `LANG` and `TMPDIR`, which it may override.
    #[schemars(with = "Vec<(String, String)>")]
    #[serde(with = "os_text::pairs")]
    pub env: Vec<(OsString, OsString)>,
    /// Start folder inside; by default the workspace, otherwise the home folder.
    #[schemars(with = "Option<String>")]
    #[serde(with = "os_text::option_path")]
    pub cwd: Option<PathBuf>,
    /// A host folder mounted copy-on-write at [`PROJECT`]; the original is never written.
    #[schemars(with = "Option<String>")]
    #[serde(with = "os_text::option_path")]
    pub workspace: Option<PathBuf>,
    /// Aliases of the workspace: further absolute paths inside that lead to it, usually its own path on the
    /// host. An alias at a path where the sandbox has something else is left out ([`crate::alias::spot`]).
    #[schemars(with = "Vec<String>")]
    #[serde(with = "os_text::paths", skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<PathBuf>,
    /// Folders that are made in the home folder before the program starts, by their paths below it.
    #[schemars(with = "Vec<String>")]
    #[serde(with = "os_text::paths", skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<PathBuf>,
    /// Folders laid over the workspace, the topmost first: changes of earlier runs, in the form of an
    /// overlay's upper layer (`user.overlay` attributes). At most 8; they are only read.
    #[schemars(with = "Vec<String>")]
    #[serde(with = "os_text::paths")]
    pub layers: Vec<PathBuf>,
    /// Further host files and folders.
    pub binds: Vec<Bind>,
    /// Read-only prefixes of toolchains, mounted at the same path inside.
    #[schemars(with = "Vec<String>")]
    #[serde(with = "os_text::paths")]
    pub toolchains: Vec<PathBuf>,
    /// Identity that a toolchain must have, by its path in [`Job::toolchains`]; a toolchain without an entry
    /// may be any folder of that name. Not serialized.
    #[serde(skip)]
    pub toolchain_ids: BTreeMap<PathBuf, FileId>,
    /// Standard input.
    pub stdin: Stdin,
    /// Whether the program gets one more descriptor, [`EVENTS_FD`]: a pipe whose other end is
    /// [`Running::events`](crate::Running::events). Data written there counts against the limit of output.
    pub events: bool,
    /// Paths inside of copy-on-write binds whose changes are wanted afterwards ([`crate::Changed::beside`]); beside a workspace only. No part
    /// of a policy that is written down.
    #[serde(skip)]
    pub collects: Vec<PathBuf>,
    /// Modules that the job's interpreter will import first: one that waits for such jobs has done so; with `?` at its end one that may be missing. No part of a policy
    /// that is written down.
    #[serde(skip)]
    pub imports: Vec<String>,
    /// Proxy that serves the sockets of a shape with [`Network::Proxy`]; if `None`, they are closed. Not
    /// serialized.
    #[serde(skip)]
    pub proxy: Option<SharedProxy>,
    /// Limits of the run.
    pub limits: Limits,
}

/// A [`Shape`] and a [`Job`]: everything about one run.
///
/// ```
/// use hotcell_sandbox::{Bytes, Policy};
/// let policy = Policy::new("python3")
///     .args(["-c", "print(1)"])
///     .read_only("/srv/data", "/data")
///     .memory(Bytes::mib(256));
/// assert_eq!(policy.job.argv.len(), 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// The part shared by all runs of a kind.
    pub shape: Shape,
    /// The part that differs from run to run.
    pub job: Job,
}

impl Policy {
    /// A policy that runs `program` with nothing granted.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { job: Job { argv: vec![program.into()], ..Job::default() }, ..Self::default() }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.job.argv.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item = S>, S: Into<OsString>>(mut self, args: I) -> Self {
        self.job.argv.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets one environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.job.env.push((name.into(), value.into()));
        self
    }

    /// Starts the program in this folder (a path inside).
    #[must_use]
    pub fn cwd(mut self, inside: impl Into<PathBuf>) -> Self {
        self.job.cwd = Some(inside.into());
        self
    }

    /// Mounts a host folder copy-on-write at [`PROJECT`] and starts there. The original is never written.
    #[must_use]
    pub fn workspace(mut self, host: impl Into<PathBuf>) -> Self {
        self.job.workspace = Some(host.into());
        self
    }

    /// Lets the program read a host file or folder.
    #[must_use]
    pub fn read_only(mut self, host: impl Into<PathBuf>, inside: impl Into<PathBuf>) -> Self {
        self.job.binds.push(Bind {
            host: host.into(),
            inside: inside.into(),
            writable: false,
            copy_on_write: false,
            identity: None,
        });
        self
    }

    /// Lets the program read a host folder and change its own view of it; the original stays unchanged.
    #[must_use]
    pub fn copy_on_write(mut self, host: impl Into<PathBuf>, inside: impl Into<PathBuf>) -> Self {
        self.job.binds.push(Bind {
            host: host.into(),
            inside: inside.into(),
            writable: false,
            copy_on_write: true,
            identity: None,
        });
        self
    }

    /// Lets the program change a host file or folder **on the host itself**.
    #[must_use]
    pub fn read_write(mut self, host: impl Into<PathBuf>, inside: impl Into<PathBuf>) -> Self {
        self.job.binds.push(Bind {
            host: host.into(),
            inside: inside.into(),
            writable: true,
            copy_on_write: false,
            identity: None,
        });
        self
    }

    /// Mounts a toolchain's prefix read-only at the same path inside.
    #[must_use]
    pub fn toolchain(mut self, prefix: impl Into<PathBuf>) -> Self {
        self.job.toolchains.push(prefix.into());
        self
    }

    /// Passes these bytes to standard input.
    #[must_use]
    pub fn stdin_bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.job.stdin = Stdin::Bytes(bytes.into());
        self
    }

    /// Gives the program a standard input that the caller writes to.
    #[must_use]
    pub fn stdin_piped(mut self) -> Self {
        self.job.stdin = Stdin::Piped;
        self
    }

    /// Gives the program a descriptor for events, [`EVENTS_FD`].
    #[must_use]
    pub fn events(mut self) -> Self {
        self.job.events = true;
        self
    }

    /// Lets the program reach the network through this proxy, and in no other way.
    #[must_use]
    pub fn proxy(mut self, proxy: SharedProxy) -> Self {
        self.shape.network = Network::Proxy;
        self.job.proxy = Some(proxy);
        self
    }

    /// Limits the memory of the whole tree.
    #[must_use]
    pub fn memory(mut self, limit: Bytes) -> Self {
        self.job.limits.memory = limit;
        self
    }

    /// Limits the wall-clock time.
    #[must_use]
    pub fn wall(mut self, limit: Duration) -> Self {
        self.job.limits.wall = limit;
        self
    }

    /// Replaces all limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.job.limits = limits;
        self
    }

    /// Runs the program in an image instead of the host's `/usr`.
    #[must_use]
    pub fn image(mut self, image: ImageRoot) -> Self {
        self.shape.image = Some(image);
        self
    }

    /// Refuses to run where this layer is not available.
    #[must_use]
    pub fn require(mut self, layer: Layer) -> Self {
        self.shape.require.insert(layer);
        self
    }

    /// Switches a layer **off**. Only for tests that prove that another layer holds; the tag type makes every
    /// such place easy to find by its name.
    #[must_use]
    pub fn without_layer(mut self, layer: Layer, _: danger::WeakensTheSandbox) -> Self {
        self.shape.knocked_out.0.insert(layer);
        self
    }
}

/// Tags that a caller must write out where a method makes a sandbox less safe.
pub mod danger {
    use std::collections::BTreeSet;

    use crate::layer::Layer;

    /// Layers that are switched off. Only [`Policy::without_layer`](super::Policy::without_layer) adds to the
    /// set.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct KnockedOut(pub(crate) BTreeSet<Layer>);

    impl KnockedOut {
        /// Whether no layer is off.
        #[must_use]
        pub fn is_empty(&self) -> bool {
            self.0.is_empty()
        }
    }

    /// Acknowledges that the sandbox is weaker after this call.
    #[derive(Clone, Copy, Debug)]
    pub struct WeakensTheSandbox;
}
