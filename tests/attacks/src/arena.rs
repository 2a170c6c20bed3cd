//! The arena: namespaces and ceilings around everything hostile, which no knock-out removes.
//!
//! It is entered by executing the test program again, stage by stage, so that no stage needs `fork` in a process with
//! threads:
//!
//! 1. *outer*: makes a user namespace; the harness writes its id maps. Where the harness is root, the arena's root is an
//!    unprivileged host id far above all real ones, so that it owns nothing of the host. Then the other namespaces.
//! 2. *init*: process 1 of the arena. Makes everything of the host read-only, covers what may hold sockets or state, has
//!    its own `/proc`, `/dev/pts`, `/tmp`, and dies with the harness.
//! 3. *hop*: becomes the user for whom the row is run, and executes the driver, which thereby has no capability left
//!    when that user is not root.
//!
//! A fourth entry, *bare*, is how the driver runs a program without a sandbox: in a private copy of the arena's mounts.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid, setsid};
use serde::{Deserialize, Serialize};

use crate::cgroups::Ceiling;
use crate::run::User;
use crate::{driver, programs, special, unsafe_calls};

/// The argument by which the test program knows that it is a stage of an arena.
pub const STAGE: &str = "--hotcell-arena-stage";
/// The host id that is the arena's root where the harness is root: far above what a host or a range of sub-ids uses.
const FIRST_HOST_ID: u32 = 1_000_000_000;
/// How many ids an arena has, so that a sandbox inside finds its own unprivileged range mapped.
const IDS: u32 = 1_000_000_000;
/// The ids that sandboxes get from an engine that may map any; they are nobody's outside as they are inside.
const SANDBOX_IDS: u32 = 2_000_000_000;
/// The ordinary user of an arena.
pub const ORDINARY: u32 = 1000;
/// A supplementary group of the ordinary user, which a sandbox must not keep.
pub const GROUP: u32 = 4242;
/// Longest life of one arena: some rows run eight sandboxes that end at their wall clock.
const LIFE: Duration = Duration::from_secs(180);
/// Private data of one process. Not address space: a legitimate program reserves 64 GiB (row 117).
const DATA: u64 = 4 << 30;
/// Size of each scratch file system of the arena.
const SCRATCH: &str = "size=768m,nr_inodes=300k,mode=1777";
/// The second address of the arena's loopback: one that nobody takes for a loopback's.
pub const SECOND_ADDRESS: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 77, 0, 1);
/// What an arena is called; a sandbox must not learn it.
pub const HOST_NAME: &str = "hotcell-arena-host";

/// What an arena is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// For whom.
    pub user: User,
    /// What the driver does there.
    pub work: driver::Work,
    /// The folder, empty in the arena before it is filled, that holds programs and decoys.
    pub base: PathBuf,
    /// Whether the harness itself is root.
    pub as_root: bool,
    /// The compiled attack program, as the harness sees it.
    pub program: PathBuf,
}

/// What became of a task: the lines that the driver printed and what all stages wrote to standard error.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The driver's lines.
    pub lines: Vec<String>,
    /// Standard error, for messages.
    pub errors: String,
    /// Control groups that were left below the arena's own.
    pub cgroups_left: usize,
}

/// Runs one task in an arena of its own, and removes the arena.
///
/// # Errors
/// When the arena cannot be made; nothing hostile ran then.
pub fn run(user: User, work: driver::Work, program: &Path) -> io::Result<Report> {
    let as_root = geteuid().is_root();
    if !as_root && user == User::Root {
        return Err(io::Error::other("the harness is not root"));
    }
    let base =
        ["/srv", "/opt", "/mnt", "/media"].into_iter().find(|p| Path::new(p).is_dir()).ok_or_else(|| {
            io::Error::other("none of /srv, /opt, /mnt, /media exists to put the arena's files on")
        })?;
    let task =
        Task { user, work, base: Path::new(base).join("hotcell"), as_root, program: program.to_owned() };
    let owner = (as_root && user == User::Root).then_some(FIRST_HOST_ID);
    let ceiling = if as_root {
        Ceiling::new(&format!("{}-{}", std::process::id(), unique()), owner)
    } else {
        Ceiling::default()
    };
    let mut outer = Command::new(std::env::current_exe()?)
        .args([STAGE, "outer", &serde_json::to_string(&task)?])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LANG", "C.UTF-8")
        .envs(std::env::var_os("RUST_BACKTRACE").map(|v| ("RUST_BACKTRACE", v)))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    ceiling.add(outer.id());
    let (Some(mut to), Some(from), Some(mut errors)) =
        (outer.stdin.take(), outer.stdout.take(), outer.stderr.take())
    else {
        return Err(io::Error::other("no pipes to the arena"));
    };
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = errors.by_ref().take(1 << 20).read_to_end(&mut text);
        let _ = io::copy(&mut errors, &mut io::sink());
        String::from_utf8_lossy(&text).into_owned()
    });
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut report = Report::default();
    let mut ready = false;
    let end = std::time::Instant::now() + LIFE;
    loop {
        match lines.recv_timeout(end.saturating_duration_since(std::time::Instant::now())) {
            Ok(line) if line == "map me" && as_root => {
                let map = format!("0 {FIRST_HOST_ID} {IDS}\n{SANDBOX_IDS} {SANDBOX_IDS} 65536\n");
                fs::write(format!("/proc/{}/uid_map", outer.id()), &map)?;
                fs::write(format!("/proc/{}/gid_map", outer.id()), &map)?;
                writeln!(to, "mapped")?;
                ready = true;
            }
            Ok(line) if line == "map me" => {
                let pid = outer.id();
                fs::write(format!("/proc/{pid}/setgroups"), "deny")?;
                fs::write(format!("/proc/{pid}/uid_map"), format!("0 {} 1\n", geteuid()))?;
                fs::write(format!("/proc/{pid}/gid_map"), format!("0 {} 1\n", nix::unistd::getegid()))?;
                writeln!(to, "mapped")?;
                ready = true;
            }
            Ok(line) => report.lines.push(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                report.errors.push_str("the arena reached the end of its life; ");
                break;
            }
        }
    }
    // Ends what is left: process 1 of the arena dies with its standard input, and with its parent.
    drop(to);
    let _ = outer.kill();
    let status = outer.wait()?;
    report.errors.push_str(&errors.join().unwrap_or_default());
    report.cgroups_left = ceiling.left_behind();
    if !ready {
        return Err(io::Error::other(format!("no arena here ({status}): {}", report.errors.trim())));
    }
    Ok(report)
}

fn unique() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// Carries out a stage if the arguments ask for one: `None` when this is an ordinary start of the test program.
#[must_use]
pub fn stage(arguments: &[OsString]) -> Option<i32> {
    if arguments.get(1).is_none_or(|a| a != STAGE) {
        return None;
    }
    let name = arguments.get(2).and_then(|a| a.to_str()).unwrap_or_default();
    let rest = arguments.get(3..).unwrap_or_default();
    let done = match name {
        "outer" => task(rest).and_then(|t| outer(&t)),
        "init" => task(rest).and_then(|t| init(&t)),
        "hop" => task(rest).and_then(|t| hop(&t)),
        "driver" => inside().and_then(|()| task(rest)).and_then(|t| driver::main(&t)),
        "once" => {
            inside().and_then(|()| special::once(rest.first().and_then(|a| a.to_str()).unwrap_or_default()))
        }
        "bare" => inside().and_then(|()| bare(rest)),
        other => Err(io::Error::other(format!("no stage {other}"))),
    };
    Some(match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("arena stage {name}: {error}");
            1
        }
    })
}

/// Whether this process is inside an arena: what follows would be an attack on the machine anywhere else.
fn inside() -> io::Result<()> {
    let host = nix::unistd::gethostname()? == HOST_NAME;
    let ids = fs::read_to_string("/proc/self/uid_map")?;
    let ids = ids.split_whitespace().nth(2) != Some("4294967295");
    let scratch = fs::read_to_string("/proc/self/mountinfo")?.lines().any(|l| {
        l.split(' ').nth(4) == Some("/tmp")
            && l.split_once(" - ").is_some_and(|(_, r)| r.starts_with("tmpfs arena"))
    });
    if host && ids && scratch { Ok(()) } else { Err(io::Error::other("this is no arena")) }
}

fn task(rest: &[OsString]) -> io::Result<Task> {
    let text = rest.first().and_then(|a| a.to_str()).unwrap_or_default();
    Ok(serde_json::from_str(text)?)
}

/// This program again, as the next stage.
fn next(stage: &str, task: &Task, program: &Path) -> io::Result<Command> {
    let mut command = Command::new(program);
    command.args([STAGE, stage, &serde_json::to_string(task)?]);
    Ok(command)
}

fn die_with_parent() -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    Ok(())
}

fn outer(task: &Task) -> io::Result<i32> {
    die_with_parent()?;
    let _ = setsid();
    // Read while this process is still who it was outside: the build folder may be closed to others.
    let own = fs::read("/proc/self/exe")?;
    let attack = fs::read(&task.program)?;
    let scripts: Vec<_> = fs::read_dir(programs::sources())?
        .flatten()
        .filter(|e| e.path().extension().is_some_and(|x| x == "py" || x == "sh"))
        .map(|e| fs::read(e.path()).map(|text| (e.file_name(), text)))
        .collect::<Result<_, _>>()?;

    unshare(CloneFlags::CLONE_NEWUSER)?;
    println!("map me");
    let mut answer = [0; 7];
    io::stdin().read_exact(&mut answer)?;
    if task.as_root {
        setgroups(&[])?;
        setresgid(Gid::from_raw(0), Gid::from_raw(0), Gid::from_raw(0))?;
        setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0))?;
        // A change of ids cleared it.
        die_with_parent()?;
    }
    unshare(
        CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWUTS,
    )?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    unsafe_calls::loopback_up(SECOND_ADDRESS)?;
    nix::unistd::sethostname(HOST_NAME)?;

    // Programs and decoys live on a file system of their own.
    let over = task.base.parent().unwrap_or(Path::new("/"));
    mount(Some("arena"), over, Some("tmpfs"), MsFlags::MS_NODEV, Some(SCRATCH))?;
    let bin = task.base.join("bin");
    fs::create_dir_all(&bin)?;
    for (name, bytes) in scripts.iter().map(|(n, b)| (n.as_os_str(), b)).chain([
        ("driver".as_ref(), &own),
        ("attack".as_ref(), &attack),
        ("victim".as_ref(), &attack),
    ]) {
        let path = bin.join(name);
        fs::write(&path, bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    fs::write(bin.join("suid"), &attack)?;
    fs::set_permissions(bin.join("suid"), fs::Permissions::from_mode(0o4755))?;
    fs::set_permissions(&task.base, fs::Permissions::from_mode(0o777))?;

    // The next child is process 1 of the new namespace.
    let mut child = next("init", task, &bin.join("driver"))?.spawn()?;
    Ok(child.wait()?.code().unwrap_or(1))
}

fn init(task: &Task) -> io::Result<i32> {
    die_with_parent()?;
    std::thread::spawn(|| {
        // The harness holds the other end for as long as it wants an arena.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(1);
    });
    unsafe_calls::set_read_only("/", true)?;
    let over = task.base.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    unsafe_calls::set_read_only(&over, false)?;
    if Path::new("/sys/fs/cgroup").is_dir() {
        let _ = unsafe_calls::set_read_only("/sys/fs/cgroup", false);
    }
    let none = None::<&str>;
    let scratch = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    for folder in ["/tmp", "/var/tmp", "/dev/shm", "/run"] {
        if Path::new(folder).is_dir() {
            mount(Some("arena"), folder, Some("tmpfs"), scratch, Some(SCRATCH))?;
        }
    }
    mount(Some("proc"), "/proc", Some("proc"), scratch | MsFlags::MS_NOEXEC, none)?;
    mount(
        Some("devpts"),
        "/dev/pts",
        Some("devpts"),
        MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC,
        Some("newinstance,ptmxmode=0666,mode=620"),
    )?;
    mount(Some("/dev/pts/ptmx"), "/dev/ptmx", none, MsFlags::MS_BIND, none)?;
    setrlimit(Resource::RLIMIT_DATA, DATA, DATA)?;
    setrlimit(Resource::RLIMIT_NPROC, 1500, 1500)?;
    // High enough numbers that no process of a sandbox has the same by chance.
    let _ = fs::write("/proc/sys/kernel/ns_last_pid", "20000");

    let mut child = next("hop", task, &task.base.join("bin/driver"))?.stdin(Stdio::null()).spawn()?;
    let wanted = child.id();
    loop {
        match nix::sys::wait::wait() {
            Ok(status) if status.pid().is_some_and(|p| u32::try_from(p.as_raw()) == Ok(wanted)) => {
                drop(child.stdin.take());
                return Ok(match status {
                    nix::sys::wait::WaitStatus::Exited(_, code) => code,
                    _ => 1,
                });
            }
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn hop(task: &Task) -> io::Result<i32> {
    if task.user == User::User && task.as_root {
        for entry in ["", "bin", "bin/driver", "bin/attack", "bin/victim"] {
            // What the ordinary user runs is their own, as it would be on a host.
            chown(task.base.join(entry), Some(ORDINARY), Some(ORDINARY))?;
        }
        setgroups(&[Gid::from_raw(GROUP)])?;
        setresgid(Gid::from_raw(ORDINARY), Gid::from_raw(ORDINARY), Gid::from_raw(ORDINARY))?;
        setresuid(Uid::from_raw(ORDINARY), Uid::from_raw(ORDINARY), Uid::from_raw(ORDINARY))?;
    } else if task.user == User::User {
        // A second user namespace: its user is not root, and the arena's mounts are locked for it.
        unshare(CloneFlags::CLONE_NEWUSER)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{ORDINARY} 0 1\n"))?;
        fs::write("/proc/self/gid_map", format!("{ORDINARY} 0 1\n"))?;
    }
    // The execution drops what capabilities a user who is not root still has.
    Err(next("driver", task, &task.base.join("bin/driver"))?.exec())
}

/// `bare PROGRAM ARGUMENT…`: the program with nothing around it but the arena, and its own copy of the mounts if it may.
fn bare(rest: &[OsString]) -> io::Result<i32> {
    let Some((program, arguments)) = rest.split_first() else {
        return Err(io::Error::other("no program"));
    };
    if geteuid().is_root() {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    }
    Err(Command::new(program).args(arguments).exec())
}
