//! The stages of an arena: the present program, executed again. They cannot be entered directly: each refuses
//! to run when the stage before it has not.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid, setsid};

use crate::task::{GROUP, HOST_NAME, MAX_DATA_BYTES, ORDINARY_ID, SCRATCH, SECOND_ADDRESS, STAGE, Task};
use crate::words::User;
use crate::{driver, programs, scenarios, unsafe_calls};

/// Runs a stage if the arguments (the first is the program's name) name one, and returns its exit code;
/// `None` for an ordinary start of the program.
#[must_use]
pub fn stage(arguments: &[OsString]) -> Option<i32> {
    if arguments.get(1).is_none_or(|a| a != STAGE) {
        return None;
    }
    let name = arguments.get(2).and_then(|a| a.to_str()).unwrap_or_default();
    let rest = arguments.get(3..).unwrap_or_default();
    let done = match name {
        "outer" => task(rest).and_then(|t| outer(&t)),
        "init" => beginning().and_then(|()| task(rest)).and_then(|t| init(&t)),
        "hop" => inside().and_then(|()| task(rest)).and_then(|t| hop(&t)),
        "driver" => inside().and_then(|()| task(rest)).and_then(|t| driver::main(&t)),
        "once" => {
            inside().and_then(|()| scenarios::once(rest.first().and_then(|a| a.to_str()).unwrap_or_default()))
        }
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

/// Checks that this process is inside an arena: outside, the next steps would attack the machine.
fn inside() -> io::Result<()> {
    if is_ours()? && has_scratch("/tmp")? { Ok(()) } else { Err(io::Error::other("this is no arena")) }
}

/// Checks that this process is the first of an arena that is being made: the next steps change every mount
/// that it sees.
fn beginning() -> io::Result<()> {
    let parts = ["/srv", "/opt", "/mnt", "/media"];
    let scratch = parts.into_iter().any(|p| has_scratch(p).unwrap_or(false));
    if std::process::id() == 1 && is_ours()? && scratch {
        Ok(())
    } else {
        Err(io::Error::other("this is no arena"))
    }
}

/// Whether this process has an arena's host name and ids.
fn is_ours() -> io::Result<bool> {
    let ids = fs::read_to_string("/proc/self/uid_map")?;
    Ok(nix::unistd::gethostname()? == HOST_NAME && ids.split_whitespace().nth(2) != Some("4294967295"))
}

/// Whether an arena's own file system is mounted at a path.
fn has_scratch(at: &str) -> io::Result<bool> {
    Ok(fs::read_to_string("/proc/self/mountinfo")?.lines().any(|l| {
        l.split(' ').nth(4) == Some(at)
            && l.split_once(" - ").is_some_and(|(_, r)| r.starts_with("tmpfs arena"))
    }))
}

fn task(rest: &[OsString]) -> io::Result<Task> {
    let text = rest.first().and_then(|a| a.to_str()).unwrap_or_default();
    Ok(serde_json::from_str(text)?)
}

/// Command that executes this program as the next stage.
fn next(stage: &str, task: &Task, program: &Path) -> io::Result<Command> {
    let mut command = Command::new(program);
    command.args([STAGE, stage, &serde_json::to_string(task)?]);
    Ok(command)
}

fn die_with_parent() -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    Ok(())
}

/// The file of this program, kept so that it can be mounted where its folder is closed or covered.
enum Own {
    /// A descriptor for mounting the file without a copy: it may have hundreds of megabytes.
    Held(OwnedFd),
    /// A copy, because the file is gone or not executable by all users.
    Copied(Vec<u8>),
}

/// Opens a descriptor of a path, to be bind-mounted elsewhere; its mount must belong to the present
/// namespace.
fn hold(path: &Path) -> io::Result<OwnedFd> {
    Ok(fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path)?.into())
}

/// Bind-mounts a held file at a path, read-only.
fn show(held: &OwnedFd, at: &Path) -> io::Result<()> {
    fs::write(at, "")?;
    let from = format!("/proc/self/fd/{}", held.as_raw_fd());
    mount(Some(from.as_str()), at, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    unsafe_calls::set_read_only(&at.to_string_lossy(), true, false)
}

/// Path of this program, if it is still the same file and users in the arena may execute it.
fn own_path(as_root: bool) -> Option<PathBuf> {
    let path = fs::read_link("/proc/self/exe").ok()?;
    let (there, own) = (fs::metadata(&path).ok()?, fs::metadata("/proc/self/exe").ok()?);
    let same = (there.dev(), there.ino()) == (own.dev(), own.ino());
    (same && (!as_root || own.mode() & 0o5 == 0o5)).then_some(path)
}

/// Makes the program available while this process still has its outside user, since the folder may be closed
/// to others. As root, the mount is made in a namespace owned by root, so that no process in the arena can
/// make it writable.
fn own_program(task: &Task, over: &Path) -> io::Result<Option<PathBuf>> {
    let Some(path) = own_path(task.as_root) else { return Ok(None) };
    if !task.as_root {
        return Ok(Some(path));
    }
    private_mounts()?;
    let held = hold(&path)?;
    mount(Some("arena"), over, Some("tmpfs"), MsFlags::MS_NODEV, Some("size=64k,mode=755"))?;
    let shown = over.join("program");
    show(&held, &shown)?;
    Ok(Some(shown))
}

fn private_mounts() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    Ok(())
}

fn outer(task: &Task) -> io::Result<i32> {
    die_with_parent()?;
    let _ = setsid();
    let attack = programs::attack()?;
    let over = task.base.parent().unwrap_or(Path::new("/"));
    let path = own_program(task, over)?;
    let copy = if path.is_none() { fs::read("/proc/self/exe")? } else { Vec::new() };

    unshare(CloneFlags::CLONE_NEWUSER)?;
    println!("map me");
    let mut answer = [0; 7];
    io::stdin().read_exact(&mut answer)?;
    if task.as_root {
        setgroups(&[])?;
        setresgid(Gid::from_raw(0), Gid::from_raw(0), Gid::from_raw(0))?;
        setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0))?;
        // The change of ids has cleared the setting.
        die_with_parent()?;
    }
    private_mounts()?;
    unshare(
        CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWUTS,
    )?;
    unsafe_calls::loopback_up(SECOND_ADDRESS)?;
    nix::unistd::sethostname(HOST_NAME)?;

    // Programs and decoys are on a separate file system.
    let own = match path {
        Some(path) => Own::Held(hold(&path)?),
        None => Own::Copied(copy),
    };
    mount(Some("arena"), over, Some("tmpfs"), MsFlags::MS_NODEV, Some(SCRATCH))?;
    let bin = task.base.join("bin");
    fs::create_dir_all(&bin)?;
    for (name, bytes) in programs::SCRIPTS.iter().copied().chain([("attack", attack), ("victim", attack)]) {
        executable(&bin.join(name), bytes, 0o755)?;
    }
    executable(&bin.join("suid"), attack, 0o4755)?;
    match own {
        Own::Held(held) => show(&held, &bin.join("driver"))?,
        Own::Copied(bytes) => executable(&bin.join("driver"), &bytes, 0o755)?,
    }
    fs::set_permissions(&task.base, fs::Permissions::from_mode(0o777))?;

    // The next child is process 1 of the new namespace.
    let mut child = next("init", task, &bin.join("driver"))?.spawn()?;
    Ok(child.wait()?.code().unwrap_or(1))
}

fn executable(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    fs::write(path, bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn init(task: &Task) -> io::Result<i32> {
    die_with_parent()?;
    std::thread::spawn(|| {
        // The harness keeps the other end open as long as it needs the arena.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(1);
    });
    unsafe_calls::set_read_only("/", true, true)?;
    let over = task.base.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    unsafe_calls::set_read_only(&over, false, false)?;
    if Path::new("/sys/fs/cgroup").is_dir() {
        let _ = unsafe_calls::set_read_only("/sys/fs/cgroup", false, true);
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
    setrlimit(Resource::RLIMIT_DATA, MAX_DATA_BYTES, MAX_DATA_BYTES)?;
    setrlimit(Resource::RLIMIT_NPROC, 1500, 1500)?;
    // High numbers, so that no process of a sandbox has the same id by chance.
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
        for entry in ["", "bin", "bin/attack", "bin/victim"] {
            // The ordinary user owns its programs, as on a host.
            chown(task.base.join(entry), Some(ORDINARY_ID), Some(ORDINARY_ID))?;
        }
        setgroups(&[Gid::from_raw(GROUP)])?;
        setresgid(Gid::from_raw(ORDINARY_ID), Gid::from_raw(ORDINARY_ID), Gid::from_raw(ORDINARY_ID))?;
        setresuid(Uid::from_raw(ORDINARY_ID), Uid::from_raw(ORDINARY_ID), Uid::from_raw(ORDINARY_ID))?;
    } else if task.user == User::User {
        // A second user namespace whose user is not root, and which has the arena's mounts locked.
        unshare(CloneFlags::CLONE_NEWUSER)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{ORDINARY_ID} 0 1\n"))?;
        fs::write("/proc/self/gid_map", format!("{ORDINARY_ID} 0 1\n"))?;
    }
    if task.user == User::Root {
        return driver::main(task);
    }
    // The exec drops the capabilities that a non-root user still has.
    Err(next("driver", task, &task.base.join("bin/driver"))?.exec())
}
