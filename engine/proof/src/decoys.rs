//! Targets of attacks, made inside the arena: files, a process, sockets and other objects that are not used
//! for anything else.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::task::{Effort, HOST_NAME};

/// Marker of a secret.
pub const SECRET: &str = "HOTCELL-SECRET";
/// Key of the System V objects.
const KEY: i32 = 0x686f_7463;
/// Name of the POSIX queue.
const QUEUE: &str = "/hotcell-decoy";
/// Name of the abstract sockets; the datagram one has `-d` after it.
const ABSTRACT: &str = "hotcell-decoy";
/// Name of processes that a program leaves behind; at most 15 bytes.
pub const MARKER: &str = "hotcell-left";

/// The decoys of one arena.
#[derive(Debug)]
pub struct Decoys {
    base: PathBuf,
    effort: Effort,
    process: Child,
    port: u16,
    /// A folder left open, to leak to executed programs.
    _leak: OwnedFd,
}

impl Decoys {
    /// Makes the decoys below `base`.
    ///
    /// # Errors
    /// When a decoy cannot be made.
    pub fn new(base: &Path, effort: Effort) -> io::Result<Self> {
        for folder in ["denied", "granted", "sockets", "home"] {
            fs::create_dir_all(base.join(folder))?;
            // Owner and mode must not stop an attack: the rows test other defences.
            fs::set_permissions(base.join(folder), fs::Permissions::from_mode(0o777))?;
        }
        let process = Command::new(base.join("bin/attack"))
            .args(["decoy", &format!("key={KEY}"), &format!("queue={QUEUE}")])
            .env_clear()
            .env("HOTCELL_DECOY", SECRET)
            .current_dir(base.join("denied"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = process?;
        if let Some(out) = process.stdout.take() {
            BufReader::new(out).read_line(&mut String::new())?;
        }
        let port = listen_tcp_and_udp()?;
        listen_unix(base)?;
        fs::write("/dev/shm/hotcell-decoy", SECRET)?;
        fs::set_permissions("/dev/shm/hotcell-decoy", fs::Permissions::from_mode(0o666))?;
        let leak: OwnedFd = fs::File::open(base.join("denied"))?.into();
        fcntl(&leak, FcntlArg::F_SETFD(FdFlag::empty()))?;
        let decoys = Self { base: base.to_owned(), effort, process, port, _leak: leak };
        decoys.refresh()?;
        Ok(decoys)
    }

    /// Makes the files anew, since the last program may have changed them.
    ///
    /// # Errors
    /// When a file cannot be made.
    pub fn refresh(&self) -> io::Result<()> {
        for folder in ["denied", "granted", "home"] {
            for entry in fs::read_dir(self.base.join(folder))?.flatten() {
                let path = entry.path();
                if entry.file_type()?.is_dir() {
                    // The tree may be as deep as a hostile program could make it.
                    let _ = Command::new("rm").arg("-rf").arg(&path).status();
                } else {
                    fs::remove_file(path)?;
                }
            }
        }
        for (file, mode) in [("denied/readable", 0o666), ("denied/private", 0o600), ("granted/file", 0o666)] {
            let path = self.base.join(file);
            fs::write(&path, format!("{SECRET} {file}\n"))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        }
        for entry in ["/tmp", "/dev/shm"].into_iter().filter_map(|f| fs::read_dir(f).ok()).flatten().flatten()
        {
            if entry.file_name() != "hotcell-decoy" {
                let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
            }
        }
        Ok(())
    }

    /// Replaces placeholders in an argument by the names of decoys.
    #[must_use]
    pub fn fill(&self, argument: &str) -> String {
        let path = |p: &str| self.base.join(p).to_string_lossy().into_owned();
        let (root, groups) =
            (nix::unistd::geteuid().is_root(), nix::unistd::getgroups().map_or(0, |g| g.len()));
        // On other hosts its owner is not mapped here, and the kernel ignores the bit.
        let suid = fs::metadata(self.base.join("bin/suid")).is_ok_and(|m| m.uid() == 0);
        [
            ("{base}", path("")),
            ("{secret}", path("denied/readable")),
            ("{private}", path("denied/private")),
            ("{ro}", path("granted/file")),
            ("{socket}", path("sockets/daemon.sock")),
            ("{suid}", if suid { path("bin/suid") } else { "none".to_owned() }),
            ("{victim}", path("bin/victim")),
            ("{groups}", if root { "1".to_owned() } else { groups.to_string() }),
            ("{pid}", self.process.id().to_string()),
            ("{super}", std::process::id().to_string()),
            // Either exceeds the length of a path; Landlock checks every folder on the way.
            ("{deep}", self.effort.of(10_000).to_string()),
            ("{port}", self.port.to_string()),
            ("{abstract}", ABSTRACT.to_owned()),
            ("{key}", KEY.to_string()),
            ("{queue}", QUEUE.to_owned()),
            ("{marker}", MARKER.to_owned()),
            ("{host_name}", HOST_NAME.to_owned()),
        ]
        .into_iter()
        .fold(argument.to_owned(), |text, (name, value)| text.replace(name, &value))
    }

    /// Kills processes that programs left behind, and returns whether any was alive after `patience`, since
    /// an engine may answer before the last process is gone. Checks every process of the arena by its name.
    #[must_use]
    pub fn end_survivors(patience: Duration) -> bool {
        let end = Instant::now() + patience;
        while Instant::now() < end && marked().next().is_some() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut found = false;
        for pid in marked() {
            let _ = kill(pid, Signal::SIGKILL);
            found = true;
        }
        found
    }
}

/// Processes with the marker as their name.
fn marked() -> impl Iterator<Item = Pid> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        let pid = entry.file_name().to_str()?.parse().ok()?;
        (name.trim_end() == MARKER).then_some(Pid::from_raw(pid))
    })
}

impl Drop for Decoys {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a TCP listener for IPv4 and IPv6 and a UDP responder, on one port.
fn listen_tcp_and_udp() -> io::Result<u16> {
    // `[::]` also accepts IPv4; the fallback is for hosts without IPv6.
    let tcp = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"))?;
    let port = tcp.local_addr()?.port();
    let udp = UdpSocket::bind(("0.0.0.0", port))?;
    std::thread::spawn(move || {
        for mut stream in tcp.incoming().flatten() {
            let _ = stream.write_all(SECRET.as_bytes());
        }
    });
    std::thread::spawn(move || {
        let mut byte = [0];
        while let Ok((_, from)) = udp.recv_from(&mut byte) {
            let _ = udp.send_to(SECRET.as_bytes(), from);
        }
    });
    Ok(port)
}

/// Listens on a named socket, like a daemon's, and on two abstract ones.
fn listen_unix(base: &Path) -> io::Result<()> {
    let path = base.join("sockets/daemon.sock");
    let named = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
    let stream = UnixListener::bind_addr(&SocketAddr::from_abstract_name(ABSTRACT)?)?;
    let datagram = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!("{ABSTRACT}-d"))?)?;
    for listener in [named, stream] {
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(SECRET.as_bytes());
            }
        });
    }
    std::thread::spawn(move || {
        let mut bytes = [0; 16];
        while datagram.recv(&mut bytes).is_ok() {}
    });
    Ok(())
}

/// Reads at most `most` bytes and discards the rest, so that endless output cannot exhaust memory.
pub(crate) fn read_bounded(mut from: impl Read, most: u64) -> Vec<u8> {
    let mut kept = Vec::new();
    let _ = from.by_ref().take(most).read_to_end(&mut kept);
    let _ = io::copy(&mut from, &mut io::sink());
    kept
}
