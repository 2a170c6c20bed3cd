//! The arena: namespaces and resource ceilings around all hostile programs, which no knock-out removes.
//!
//! An arena is entered by executing the present program again, stage by stage (`stages.rs`), so that no stage
//! needs `fork` in a process with threads. A program that makes arenas therefore passes its arguments to
//! [`crate::stage`] first.
//!
//! 1. *outer*: makes a user namespace; the harness writes its id maps. Where the harness is root, the arena's
//!    root is an unprivileged host id far above all real ones, so that it owns nothing of the host. Then it
//!    makes the other namespaces.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::unistd::geteuid;

use crate::cgroups::Ceiling;
use crate::programs;
use crate::task::{Effort, STAGE, Task, Work};
use crate::words::User;

/// Host id of the arena's root where the harness is root: far above the ids that a host or a range of sub-ids
/// uses.
const FIRST_HOST_ID: u32 = 1_000_000_000;
/// Number of ids in an arena, so that a sandbox inside finds its own unprivileged range mapped.
const IDS: u32 = 1_000_000_000;
/// First id that an engine with the right to map any id gives to sandboxes; no user has these ids, outside or
/// inside.
const SANDBOX_IDS: u32 = 2_000_000_000;
/// Maximum lifetime of an arena: some rows run eight sandboxes that end at their wall-clock limit.
pub const ARENA_LIFETIME: Duration = Duration::from_secs(180);

/// Result of a task: the lines that the driver printed, and everything that the stages wrote to standard
/// error.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The driver's lines.
    pub lines: Vec<String>,
    /// Standard error, for messages.
    pub errors: String,
    /// Number of cgroups left below the arena's own.
    pub cgroups_left: usize,
    /// Whether the task was cut short, by its time limit or on request.
    pub cut: bool,
    /// Whether the driver finished.
    pub ended_well: bool,
}

/// Limits on the lifetime of an arena.
#[derive(Clone, Copy, Debug)]
pub struct Until<'a> {
    /// Time at which the arena is ended.
    pub end: Instant,
    /// Flag that ends the arena soon after it is set.
    pub stop: &'a AtomicBool,
}

/// A stop flag that is never set.
pub static GO_ON: AtomicBool = AtomicBool::new(false);
/// Interval at which the stop flag is checked.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Runs one task in a new arena, and removes the arena.
///
/// # Errors
/// When the arena cannot be made; nothing hostile ran then.
pub fn run(user: User, work: Work, effort: Effort, until: Until<'_>) -> io::Result<Report> {
    let as_root = geteuid().is_root();
    if !as_root && user == User::Root {
        return Err(io::Error::other("the harness is not root"));
    }
    programs::attack()?;
    let base =
        ["/srv", "/opt", "/mnt", "/media"].into_iter().find(|p| Path::new(p).is_dir()).ok_or_else(|| {
            io::Error::other("none of /srv, /opt, /mnt, /media exists to put the arena's files on")
        })?;
    let task = Task { user, work, base: Path::new(base).join("hotcell"), as_root, effort };
    let owner = (as_root && user == User::Root).then_some(FIRST_HOST_ID);
    let ceiling = if as_root {
        Ceiling::new(&format!("{}-{}", std::process::id(), unique()), owner)
    } else {
        Ceiling::default()
    };
    let mut outer = Command::new("/proc/self/exe")
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
    let (mut ready, mut ended) = (false, false);
    let mut told = Ok(());
    let end = until.end.min(Instant::now() + ARENA_LIFETIME);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || until.stop.load(Ordering::Relaxed) {
            report.errors.push_str("the arena reached the end of its life; ");
            report.cut = true;
            break;
        }
        match lines.recv_timeout(left.min(STOP_CHECK_INTERVAL)) {
            Ok(line) if line == "map me" && !ready => {
                told = map(outer.id(), as_root).and_then(|()| writeln!(to, "mapped"));
                if told.is_err() {
                    break;
                }
                ready = true;
            }
            Ok(line) => report.lines.push(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                ended = true;
                break;
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
    // Ends the remaining processes: process 1 of the arena dies with its standard input, and with its parent.
    drop(to);
    if !ended {
        let _ = outer.kill();
    }
    let status = outer.wait()?;
    report.errors.push_str(&errors.join().unwrap_or_default());
    report.ended_well = ended && status.success();
    report.cgroups_left = ceiling.left_behind();
    told?;
    if !ready && !report.cut {
        return Err(io::Error::other(format!("no arena here ({status}): {}", report.errors.trim())));
    }
    Ok(report)
}

/// Writes the id maps of the arena.
fn map(outer: u32, as_root: bool) -> io::Result<()> {
    let [users, groups] = ["uid_map", "gid_map"].map(|file| format!("/proc/{outer}/{file}"));
    if as_root {
        let map = format!("0 {FIRST_HOST_ID} {IDS}\n{SANDBOX_IDS} {SANDBOX_IDS} 65536\n");
        fs::write(users, &map)?;
        return fs::write(groups, &map);
    }
    fs::write(format!("/proc/{outer}/setgroups"), "deny")?;
    fs::write(users, format!("0 {} 1\n", geteuid()))?;
    fs::write(groups, format!("0 {} 1\n", nix::unistd::getegid()))
}

fn unique() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
