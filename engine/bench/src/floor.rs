//! The floor: a C program that makes the same kernel calls as a run of hotcell, in the same processes, and
//! nothing else.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use hotcell_sandbox::seccomp::{self, Arch};
use hotcell_sandbox::temporary;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::Trouble;

/// The floor's executable; empty where it could not be compiled.
const FLOOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/floor"));
/// Executable that measures the cost of work, to be run outside and inside; empty where it could not be
/// compiled.
pub const PROBE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe"));

/// The floor's executable and the filters that hotcell would install, as files.
#[derive(Debug)]
pub struct FloorFiles {
    program: File,
    filters: tempfile::TempDir,
}

impl FloorFiles {
    /// Writes the files: a sealed memory file, and a private folder.
    ///
    /// # Errors
    /// [`Trouble::Floor`] when hotcell was built without the floor; [`Trouble::File`] when a file cannot be
    /// written.
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

    /// Command that runs the floor with these filters.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut floor = Command::new(format!("/proc/self/fd/{}", self.program.as_raw_fd()));
        floor.arg("--filter").arg(self.filters.path().join("program"));
        floor.arg("--init-filter").arg(self.filters.path().join("init"));
        floor
    }
}

/// A sealed memory file, executable also where `vm.memfd_noexec` is 1.
fn sealed() -> std::io::Result<File> {
    const MFD_EXEC: MFdFlags = MFdFlags::from_bits_retain(0x10);
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let made = match memfd_create(c"hotcell-floor", flags | MFD_EXEC) {
        // Kernels before 6.3 neither know nor need the flag.
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

/// A floor process that makes a run on request.
#[derive(Debug)]
pub struct Floor {
    child: Child,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Floor {
    /// Starts the floor, which leaves out these steps.
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
        // `run` reports its error output when a call fails.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(cannot)?;
        let ask = child.stdin.take();
        let Some(answers) = child.stdout.take().map(BufReader::new) else {
            return Err(Trouble::Floor("it has no output".to_owned()));
        };
        Ok(Self { child, ask, answers })
    }

    /// Makes one run; returns the microseconds that the floor measured itself.
    ///
    /// # Errors
    /// When one of its calls failed, with its message.
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
        self.ask = None; // closing its input ends the process
        let _ = self.child.wait();
    }
}
