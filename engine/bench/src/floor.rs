//! The floor: a C program that makes the same kernel calls as a run of hotcell, in the same processes, and nothing else.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use hotcell_sandbox::seccomp::{self, Arch};
use hotcell_sandbox::temporary;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::Trouble;

/// The program; empty where it could not be compiled.
const FLOOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/floor"));
/// A program that measures what work costs, for whoever runs it outside and inside; empty where it could not be compiled.
pub const PROBE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe"));

/// The floor's program, and the filters that hotcell would install, as files for it.
#[derive(Debug)]
pub struct FloorFiles {
    program: File,
    filters: tempfile::TempDir,
}

impl FloorFiles {
    /// Makes them: a sealed memory file, and a private folder.
    ///
    /// # Errors
    /// When hotcell was built without the floor, or there is no room.
    pub fn new() -> Result<Self, Trouble> {
        if FLOOR.is_empty() {
            let why = "this hotcell was built without it, on a host without the kernel's headers";
            return Err(Trouble::Floor(why.to_owned()));
        }
        let program = sealed().map_err(|e| {
            Trouble::Floor(format!("its memory file cannot be made ({e}); vm.memfd_noexec=2 forbids it"))
        })?;
        let filters = temporary::folder()?;
        let options = seccomp::Options {
            notify: true,
            internet: true,
            host_writes: false,
            namespaces: true,
            plain: false,
            accounted: true,
            truncates: false,
        };
        temporary::file(&filters, "program", &seccomp::program(Arch::HOST, options).as_bytes())?;
        temporary::file(&filters, "init", &seccomp::init(Arch::HOST).as_bytes())?;
        Ok(Self { program, filters })
    }

    /// The floor with these filters.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut floor = Command::new(format!("/proc/self/fd/{}", self.program.as_raw_fd()));
        floor.arg("--filter").arg(self.filters.path().join("program"));
        floor.arg("--init-filter").arg(self.filters.path().join("init"));
        floor
    }
}

/// A memory file that nobody can change, executable also where `vm.memfd_noexec` is 1.
fn sealed() -> std::io::Result<File> {
    const MFD_EXEC: MFdFlags = MFdFlags::from_bits_retain(0x10);
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let made = match memfd_create(c"hotcell-floor", flags | MFD_EXEC) {
        // Kernels before 6.3 do not know the flag, and need none.
        Err(nix::errno::Errno::EINVAL) => memfd_create(c"hotcell-floor", flags),
        made => made,
    }?;
    let mut file = File::from(made);
    file.write_all(FLOOR)?;
    let seals =
        SealFlag::F_SEAL_SEAL | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}

/// A floor that makes one run when asked.
#[derive(Debug)]
pub struct Floor {
    child: Child,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Floor {
    /// Starts it, without these steps.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(files: &FloorFiles, without: &[&str]) -> Result<Self, Trouble> {
        let mut command = files.command();
        command.arg("--serve");
        if !without.is_empty() {
            command.arg("--without").arg(without.join(","));
        }
        let cannot = |e: std::io::Error| Trouble::Floor(format!("it cannot be started: {e}"));
        // What it says when a call fails is told by `run`.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(cannot)?;
        let ask = child.stdin.take();
        let Some(answers) = child.stdout.take().map(BufReader::new) else {
            return Err(Trouble::Floor("it has no output".to_owned()));
        };
        Ok(Self { child, ask, answers })
    }

    /// One run; the microseconds that it measured itself.
    ///
    /// # Errors
    /// When a call of it failed, with its own words.
    pub fn run(&mut self) -> Result<f64, Trouble> {
        let mut line = String::new();
        let told = match &mut self.ask {
            Some(ask) => ask.write_all(b"run\n").and_then(|()| self.answers.read_line(&mut line)),
            None => Ok(0),
        };
        let told = told.ok().and_then(|_| line.trim().parse().ok());
        told.ok_or_else(|| Trouble::Floor(self.last_words()))
    }

    fn last_words(&mut self) -> String {
        self.ask = None;
        let mut said = String::new();
        if let Some(errors) = self.child.stderr.take() {
            let _ = BufReader::new(errors).read_line(&mut said);
        }
        let said = said.trim();
        if said.is_empty() { "it ended without a word".to_owned() } else { said.to_owned() }
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        self.ask = None; // the end of its input ends it
        let _ = self.child.wait();
    }
}
