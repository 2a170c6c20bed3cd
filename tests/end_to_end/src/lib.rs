//! Drives the `hotcell` binary as a person would: words in, streams and an exit status out.
//!
//! The binary is `$HOTCELL_BIN`, or the one that cargo builds beside the tests. Every test has folders of its own and
//! an environment with nothing of the caller's but `PATH`. As root, [`everyone`] runs a test a second time as an
//! ordinary user, with a copy of the binary in a place that everybody can read.

pub mod image;
pub mod mcp;
mod node_modules;
mod rust;
pub mod sarif;
mod venv;

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{self, Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;

pub use node_modules::node_modules;
pub use rust::rust;
pub use venv::venv;

/// The ordinary user's id, when the tests run as root.
const ORDINARY: u32 = 65_534;

/// The binary under test.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("HOTCELL_BIN") {
            return std::fs::canonicalize(&path)
                .unwrap_or_else(|e| panic!("HOTCELL_BIN={}: {e}", path.display()));
        }
        // …/target/PROFILE/deps/end_to_end-HASH
        let test = std::env::current_exe().expect("the test has a path");
        let profile = test.parent().and_then(Path::parent).expect("a test lies in target/PROFILE/deps");
        let target = profile.parent().expect("a profile lies in target");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--package", "hotcell", "--target-dir"]).arg(target);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo can be started");
        assert!(built.success(), "the binary cannot be built");
        profile.join("hotcell")
    })
}

/// Whether the tests run as root.
#[must_use]
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Somebody who uses the binary, with folders of their own.
#[derive(Debug)]
pub struct User {
    folder: tempfile::TempDir,
    binary: PathBuf,
    ordinary: bool,
    /// Holds the folder of the binary for as long as anyone has it.
    lent: Option<Arc<tempfile::TempDir>>,
}

/// A folder that everyone can read, with the binary in it: the one that other users of this process have just now, or a new
/// one. It goes with the last of them: a static one would stay on the disk after every run of the tests.
fn lent_binary() -> Arc<tempfile::TempDir> {
    static LENT: Mutex<sync::Weak<tempfile::TempDir>> = Mutex::new(sync::Weak::new());
    let mut lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(folder) = lent.upgrade() {
        return folder;
    }
    let folder = tempfile::tempdir().expect("a folder for the binary");
    open_to_all(folder.path());
    let to = folder.path().join("hotcell");
    // A link costs no room, but there is none from one file system to another.
    if std::fs::hard_link(binary(), &to).is_err() {
        std::fs::copy(binary(), &to).expect("the binary can be copied");
    }
    let folder = Arc::new(folder);
    *lent = Arc::downgrade(&folder);
    folder
}

impl User {
    /// The user that runs the tests.
    #[must_use]
    pub fn me() -> Self {
        Self::new(binary().to_owned(), false)
    }

    /// An ordinary user; `None` when the tests are not run by root, or `setpriv` is missing.
    #[must_use]
    pub fn ordinary() -> Option<Self> {
        if !is_root() || find("setpriv").is_none() {
            return None;
        }
        let lent = lent_binary();
        let mut user = Self::new(lent.path().join("hotcell"), true);
        user.lent = Some(lent);
        Some(user)
    }

    fn new(binary: PathBuf, ordinary: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        open_to_all(folder.path());
        let user = Self { folder, binary, ordinary, lent: None };
        for name in ["home", "work"] {
            user.make_folder(name);
        }
        user
    }

    /// The binary that this user has.
    #[must_use]
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// A path in this user's folders.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a folder that belongs to this user.
    pub fn make_folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).expect("a folder");
        self.own(&path);
        path
    }

    /// Writes a file that belongs to this user.
    pub fn write(&self, name: impl AsRef<Path>, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        self.own(&path);
        path
    }

    /// The same, executable.
    pub fn write_program(&self, name: impl AsRef<Path>, text: &str) -> PathBuf {
        let path = self.write(name, text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a program");
        path
    }

    /// Gives a path to this user.
    pub fn own(&self, path: &Path) {
        if self.ordinary {
            std::os::unix::fs::lchown(path, Some(ORDINARY), Some(ORDINARY))
                .expect("root can give files away");
        }
    }

    /// Copies a folder; the copy belongs to this user.
    pub fn copy_folder(&self, from: &Path, to: &Path) {
        let run =
            |command: &mut Command| assert!(command.status().expect("it starts").success(), "{command:?}");
        run(Command::new("cp").args(["-R", "--"]).arg(from).arg(to));
        if self.ordinary {
            run(Command::new("chown").args(["-R", &format!("{ORDINARY}:{ORDINARY}"), "--"]).arg(to));
        }
    }

    /// A project of `examples/`, as this user's own.
    #[must_use]
    pub fn example(&self, name: &str) -> PathBuf {
        let to = self.path(name);
        self.copy_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name), &to);
        to
    }

    /// A program of the host, started by this user.
    #[must_use]
    pub fn program(&self, program: &Path) -> Command {
        if !self.ordinary {
            return Command::new(program);
        }
        let id = ORDINARY.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(program);
        command
    }

    /// Whether root's rights do not apply.
    #[must_use]
    pub fn is_ordinary(&self) -> bool {
        self.ordinary || !is_root()
    }

    /// `hotcell` with these words, in this user's folder `work`.
    pub fn hotcell<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, words: I) -> Call {
        self.hotcell_on(&Weak::default(), words)
    }

    /// The same on a host that lacks something.
    pub fn hotcell_on<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, host: &Weak, words: I) -> Call {
        let id = ORDINARY.to_string();
        let hop = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--"];
        let hop = hop.map(str::to_owned).into_iter().filter(|_| self.ordinary);
        let mut all = host.outside.iter().cloned().chain(hop).chain(host.within.iter().cloned());
        let mut command = match all.next() {
            Some(first) => {
                let mut command = Command::new(first);
                command.args(all).arg(&self.binary);
                command
            }
            None => Command::new(&self.binary),
        };
        command.args(words).env_clear().current_dir(self.path("work")).stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
        command.env("HOME", self.path("home"));
        Call { command, input: None }
    }

    /// `hotcell run -- WORDS`.
    pub fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, words: I) -> Call {
        let mut call = self.hotcell(["run", "--"]);
        call.command.args(words);
        call
    }

    /// `hotcell run OPTIONS -- sh -c SCRIPT`.
    pub fn shell<'a>(&self, options: impl IntoIterator<Item = &'a str>, script: &str) -> Call {
        let mut call = self.hotcell(["run"]);
        call.command.args(options).args(["--", "sh", "-c", script]);
        call
    }
}

/// What makes a host of this one that lacks something: programs that start others.
#[derive(Clone, Debug, Default)]
pub struct Weak {
    outside: Vec<String>,
    within: Vec<String>,
}

impl Weak {
    /// A shell script that the tests' own user runs first, in a mount namespace of its own; only root can make one.
    #[must_use]
    pub fn mounts(mut self, script: &str) -> Self {
        let script = format!("set -e; {script}; exec \"$@\"");
        self.outside.extend(["unshare", "-m", "--", "sh", "-c", &script, "sh"].map(str::to_owned));
        self
    }

    /// A program that starts another one, as the user.
    #[must_use]
    pub fn within(mut self, words: &[&str]) -> Self {
        self.within.extend(words.iter().map(|&word| word.to_owned()));
        self
    }

    /// Under one of the filters of `outer_filter.py`.
    #[must_use]
    pub fn filter(self, name: &str) -> Self {
        self.within(&["/usr/bin/python3", "-I", "-c", include_str!("outer_filter.py"), name])
    }
}

/// Runs a test as whoever runs the tests, and as an ordinary user; only as the first where `HOTCELL_TEST_ONLY_ME` says that an
/// ordinary user runs all tests anyhow.
pub fn everyone(test: impl Fn(&User)) {
    if std::env::var_os("HOTCELL_TEST_ONLY_ME").is_some() {
        return test(&User::me());
    }
    root_and_another(test);
}

/// The same for a test that only root can make ready, for whichever user.
pub fn root_and_another(test: impl Fn(&User)) {
    test(&User::me());
    match User::ordinary() {
        Some(user) => test(&user),
        None if is_root() => eprintln!("not tried as an ordinary user: setpriv is missing"),
        None => {}
    }
}

fn open_to_all(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("our own folder");
}

/// A program of the host.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|f| f.join(program)).find(|p| p.is_file())
}

/// The binary with its words, not yet started.
#[derive(Debug)]
pub struct Call {
    command: Command,
    input: Option<Vec<u8>>,
}

impl Call {
    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Adds words.
    pub fn add<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&mut self, words: I) -> &mut Self {
        self.command.args(words);
        self
    }

    /// The same, in a chain.
    #[must_use]
    pub fn words(mut self, words: &[&str]) -> Self {
        self.add(words);
        self
    }

    /// Starts in this folder.
    #[must_use]
    pub fn cwd(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Feeds standard input.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// Standard input stays open.
    #[must_use]
    pub fn piped(mut self) -> Self {
        self.command.stdin(Stdio::piped());
        self
    }

    /// Starts it and leaves it running, its streams piped. Its input has to fit a pipe.
    #[must_use]
    pub fn start(mut self) -> Child {
        if self.input.is_some() {
            self.command.stdin(Stdio::piped());
        }
        let started = self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = started.expect("hotcell starts");
        if let Some(input) = self.input
            && let Some(mut stdin) = child.stdin.take()
        {
            stdin.write_all(&input).expect("hotcell reads");
        }
        child
    }

    /// Runs it to its end.
    #[must_use]
    pub fn end(mut self) -> Ended {
        let shown = format!("{:?}", self.command);
        if self.input.is_some() {
            self.command.stdin(Stdio::piped());
        }
        let mut child =
            self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("hotcell starts");
        let stdin = child.stdin.take();
        let input = self.input;
        let feeding = std::thread::spawn(move || {
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                // Who does not read is not fed.
                let _ = stdin.write_all(&input);
            }
        });
        let output = child.wait_with_output().expect("hotcell ends");
        feeding.join().expect("feeding does not fail");
        Ended {
            shown,
            code: output.status.code(),
            signal: output.status.signal(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// What a call came to.
#[derive(Clone)]
pub struct Ended {
    /// What was called.
    pub shown: String,
    /// The exit status.
    pub code: Option<i32>,
    /// The signal that ended `hotcell` itself.
    pub signal: Option<i32>,
    /// All of standard output.
    pub stdout: Vec<u8>,
    /// All of standard error.
    pub stderr: String,
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}\ncode {:?}, signal {:?}", self.shown, self.code, self.signal)?;
        write!(f, "--- stdout\n{}\n--- stderr\n{}\n---", self.text(), self.stderr)
    }
}

impl Ended {
    /// Standard output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Insists on an exit status.
    #[track_caller]
    pub fn code(&self, want: i32) -> &Self {
        assert_eq!(self.code, Some(want), "{self:#?}");
        self
    }

    /// Insists on standard output.
    #[track_caller]
    pub fn prints(&self, want: &str) -> &Self {
        assert_eq!(self.text(), want, "{self:#?}");
        self
    }

    /// Insists on words on standard error.
    #[track_caller]
    pub fn says(&self, word: &str) -> &Self {
        assert!(self.stderr.contains(word), "no {word:?} in {self:#?}");
        self
    }

    /// Insists on exactly one line on standard error, and on its words.
    #[track_caller]
    pub fn says_one_line(&self, word: &str) -> &Self {
        self.says(word);
        assert_eq!(self.stderr.lines().count(), 1, "{self:#?}");
        assert!(self.stderr.starts_with("hotcell: "), "{self:#?}");
        self
    }

    /// Insists on an empty standard error.
    #[track_caller]
    pub fn silent(&self) -> &Self {
        assert_eq!(self.stderr, "", "{self:#?}");
        self
    }

    /// The one JSON object on standard output, which matches the schema that its name promises.
    #[track_caller]
    pub fn json(&self) -> Value {
        let value: Value = match serde_json::from_slice(&self.stdout) {
            Ok(value) => value,
            Err(e) => panic!("not one JSON object: {e}: {self:#?}"),
        };
        let name = value["schema"].as_str().unwrap_or_default().to_owned();
        let short = name.strip_prefix("hotcell.").and_then(|n| n.strip_suffix("/1"));
        let Some(short) = short else { panic!("no schema is named: {self:#?}") };
        let schema = User::me().hotcell(["schema", short]).end();
        let schema: Value = serde_json::from_slice(&schema.stdout).expect("a schema is JSON");
        let validator = jsonschema::validator_for(&schema).expect("a schema is one");
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:#?}\n{value:#}");
        value
    }
}
