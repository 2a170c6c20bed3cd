//! Drives the `hotcell` binary as a person would: arguments in, streams and an exit status out.
//!
//! The binary is `$HOTCELL_BIN`, or the one that cargo builds beside the tests. Every test has folders of its
//! own and an environment with nothing of the caller's but `PATH`. As root, [`everyone`] runs a test a second
//! time as an ordinary user, with a copy of the binary in a world-readable folder.

mod endless;
pub mod image;
pub mod mcp;
mod node_modules;
pub mod registry;
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

pub use endless::past_the_start;
pub use node_modules::node_modules;
pub use rust::rust;
pub use venv::venv;

/// User id of the ordinary user, when the tests run as root.
const ORDINARY_UID: u32 = 65_534;

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
        build.args([
            "build",
            "--quiet",
            "--package",
            "hotcell",
            "--package",
            "hotcell-front",
            "--target-dir",
        ]);
        build.arg(target);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo can be started");
        assert!(built.success(), "the binary cannot be built");
        profile.join("hotcell")
    })
}

/// The front of the binary under test, which is built beside it.
#[must_use]
pub fn front() -> Option<PathBuf> {
    Some(binary().with_file_name("hotcell-front")).filter(|front| front.is_file())
}

/// Copies a program, without taking space where that is possible.
///
/// # Panics
/// When it cannot be copied.
pub fn copy_program(from: &Path, to: &Path) {
    // A hard link takes no space, but does not work across file systems.
    if std::fs::hard_link(from, to).is_err() {
        std::fs::copy(from, to).expect("the binary can be copied");
    }
}

/// Whether the tests run as root.
#[must_use]
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A user of the binary, with folders of their own.
#[derive(Debug)]
pub struct User {
    folder: tempfile::TempDir,
    binary: PathBuf,
    ordinary: bool,
    /// Keeps the folder of the binary for as long as any user needs it.
    lent: Option<Arc<tempfile::TempDir>>,
}

/// A world-readable folder with the binary in it: the one that other users of this process share just now, or
/// a new one. It is removed with the last of them: a static one would stay on the disk after every run of the
/// tests.
fn lent_binary() -> Arc<tempfile::TempDir> {
    static LENT: Mutex<sync::Weak<tempfile::TempDir>> = Mutex::new(sync::Weak::new());
    let mut lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(folder) = lent.upgrade() {
        return folder;
    }
    let folder = tempfile::tempdir().expect("a folder for the binary");
    open_to_all(folder.path());
    copy_program(binary(), &folder.path().join("hotcell"));
    let folder = Arc::new(folder);
    *lent = Arc::downgrade(&folder);
    folder
}

impl User {
    /// User that runs the tests.
    #[must_use]
    pub fn me() -> Self {
        Self::new(binary().to_owned(), false)
    }

    /// An ordinary user; `None` when root does not run the tests, or `setpriv` is missing.
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

    /// Path of the binary for this user.
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

    /// Like [`Self::write`], but makes the file executable.
    pub fn write_program(&self, name: impl AsRef<Path>, text: &str) -> PathBuf {
        let path = self.write(name, text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a program");
        path
    }

    /// Changes the owner of a path to this user.
    pub fn own(&self, path: &Path) {
        if self.ordinary {
            std::os::unix::fs::lchown(path, Some(ORDINARY_UID), Some(ORDINARY_UID))
                .expect("root can give files away");
        }
    }

    /// Copies a folder; the copy belongs to this user.
    pub fn copy_folder(&self, from: &Path, to: &Path) {
        let run =
            |command: &mut Command| assert!(command.status().expect("it starts").success(), "{command:?}");
        run(Command::new("cp").args(["-R", "--"]).arg(from).arg(to));
        if self.ordinary {
            run(Command::new("chown").args(["-R", &format!("{ORDINARY_UID}:{ORDINARY_UID}"), "--"]).arg(to));
        }
    }

    /// Copies a project of `examples/` for this user.
    #[must_use]
    pub fn example(&self, name: &str) -> PathBuf {
        let to = self.path(name);
        self.copy_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name), &to);
        to
    }

    /// Command for a program of the host, run as this user.
    #[must_use]
    pub fn program(&self, program: &Path) -> Command {
        if !self.ordinary {
            return Command::new(program);
        }
        let id = ORDINARY_UID.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(program);
        command
    }

    /// Whether the user lacks root's rights.
    #[must_use]
    pub fn is_ordinary(&self) -> bool {
        self.ordinary || !is_root()
    }

    /// `hotcell` with these arguments, in this user's folder `work`.
    pub fn hotcell<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, words: I) -> Call {
        self.hotcell_on(&Weak::default(), words)
    }

    /// Like [`Self::hotcell`], but on a host that lacks something.
    pub fn hotcell_on<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, host: &Weak, words: I) -> Call {
        self.call(host, &self.binary, words)
    }

    /// Like [`Self::hotcell`], but of another file.
    pub fn hotcell_at<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, binary: &Path, words: I) -> Call {
        self.call(&Weak::default(), binary, words)
    }

    fn call<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, host: &Weak, binary: &Path, words: I) -> Call {
        let id = ORDINARY_UID.to_string();
        let hop = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--"];
        let hop = hop.map(str::to_owned).into_iter().filter(|_| self.ordinary);
        let mut all = host.outside.iter().cloned().chain(hop).chain(host.within.iter().cloned());
        let mut command = match all.next() {
            Some(first) => {
                let mut command = Command::new(first);
                command.args(all).arg(binary);
                command
            }
            None => Command::new(binary),
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

/// Simulates a host that lacks something, by programs that start the binary.
#[derive(Clone, Debug, Default)]
pub struct Weak {
    outside: Vec<String>,
    within: Vec<String>,
}

impl Weak {
    /// A shell script that runs first, as the tests' own user, in a mount namespace of its own; only root can
    /// make one.
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

    /// Runs under one of the filters of `outer_filter.py`.
    #[must_use]
    pub fn filter(self, name: &str) -> Self {
        self.within(&["/usr/bin/python3", "-I", "-c", include_str!("outer_filter.py"), name])
    }
}

/// Runs a test as the current user, and as an ordinary user; only as the current one if
/// `HOTCELL_TEST_ONLY_ME` says that an ordinary user runs all tests anyway.
pub fn everyone(test: impl Fn(&User)) {
    if std::env::var_os("HOTCELL_TEST_ONLY_ME").is_some() {
        return test(&User::me());
    }
    root_and_another(test);
}

/// Like [`everyone`], but for a test whose setup needs root, whatever user it runs as.
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

/// Path of a program of the host.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|f| f.join(program)).find(|p| p.is_file())
}

/// The binary with its arguments, not yet started.
#[derive(Debug)]
pub struct Call {
    command: Command,
    input: Option<Vec<u8>>,
}

impl Call {
    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Adds arguments.
    pub fn add<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&mut self, words: I) -> &mut Self {
        self.command.args(words);
        self
    }

    /// Adds arguments, for method chains.
    #[must_use]
    pub fn words(mut self, words: &[&str]) -> Self {
        self.add(words);
        self
    }

    /// Sets the working folder.
    #[must_use]
    pub fn cwd(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Provides standard input.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    /// Keeps standard input open.
    #[must_use]
    pub fn piped(mut self) -> Self {
        self.command.stdin(Stdio::piped());
        self
    }

    /// Starts the command and leaves it running, its streams piped. Its input must fit into a pipe.
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

    /// Runs the command to its end in a terminal of its own; returns everything that it shows there.
    #[must_use]
    pub fn in_a_terminal(self) -> String {
        self.with_terminal(None)
    }

    /// Like [`Self::in_a_terminal`], with standard input there too, on which this was typed ahead.
    #[must_use]
    pub fn typed_in_a_terminal(self, typed: &str) -> String {
        self.with_terminal(Some(typed))
    }

    fn with_terminal(mut self, typed: Option<&str>) -> String {
        let terminal = nix::pty::openpty(None, None).expect("a pseudo terminal");
        let side = || Stdio::from(terminal.slave.try_clone().expect("a descriptor"));
        let mut keyboard = std::fs::File::from(terminal.master.try_clone().expect("a descriptor"));
        keyboard.write_all(typed.unwrap_or_default().as_bytes()).expect("the terminal has room");
        let input = if typed.is_some() { side() } else { Stdio::null() };
        self.command.env("TERM", "xterm-256color").stdin(input).stdout(side()).stderr(side());
        let mut child = self.command.spawn().expect("hotcell starts");
        drop((self.command, terminal.slave, keyboard));
        let (mut shown, mut reader) = (Vec::new(), std::fs::File::from(terminal.master));
        // EIO means that the other side is closed.
        let _ = std::io::Read::read_to_end(&mut reader, &mut shown);
        child.wait().expect("hotcell ends");
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// Runs the command to its end.
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
                // A program that does not read its input closes the pipe.
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

/// Result of a call.
#[derive(Clone)]
pub struct Ended {
    /// Command line of the call.
    pub shown: String,
    /// Exit status.
    pub code: Option<i32>,
    /// Signal that ended `hotcell` itself.
    pub signal: Option<i32>,
    /// Complete standard output.
    pub stdout: Vec<u8>,
    /// Complete standard error.
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

    /// Asserts the exit status.
    #[track_caller]
    pub fn code(&self, want: i32) -> &Self {
        assert_eq!(self.code, Some(want), "{self:#?}");
        self
    }

    /// Asserts standard output.
    #[track_caller]
    pub fn prints(&self, want: &str) -> &Self {
        assert_eq!(self.text(), want, "{self:#?}");
        self
    }

    /// Asserts that standard error contains a text.
    #[track_caller]
    pub fn says(&self, word: &str) -> &Self {
        assert_ne!(word, "", "every text contains an empty one");
        assert!(self.stderr.contains(word), "no {word:?} in {self:#?}");
        self
    }

    /// Asserts that standard error is exactly one line, which contains a text.
    #[track_caller]
    pub fn says_one_line(&self, word: &str) -> &Self {
        self.says(word);
        assert_eq!(self.stderr.lines().count(), 1, "{self:#?}");
        assert!(self.stderr.starts_with("hotcell: "), "{self:#?}");
        self
    }

    /// Asserts that standard error is empty.
    #[track_caller]
    pub fn silent(&self) -> &Self {
        assert_eq!(self.stderr, "", "{self:#?}");
        self
    }

    /// The single JSON object on standard output, checked against the schema that its name promises.
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
