//! The arena: namespaces and ceilings around everything hostile, which no knock-out removes.
//!
//! It is entered by executing the present program again, stage by stage (`stages.rs`), so that no stage needs `fork`
//! in a process with threads. A program that makes arenas therefore hands its arguments to [`crate::stage`] first of all.
//!
//! 1. *outer*: makes a user namespace; the harness writes its id maps. Where the harness is root, the arena's root is an
//!    unprivileged host id far above all real ones, so that it owns nothing of the host. Then the other namespaces.
//! 2. *init*: process 1 of the arena. Makes everything of the host read-only, covers what may hold sockets or state, has
//!    its own `/proc`, `/dev/pts`, `/tmp`, and dies with the harness.
//! 3. *hop*: becomes the user for whom the row is run, and executes the driver, which thereby has no capability left
//!    when that user is not root.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use crate::cgroups::Ceiling;
use crate::run::User;
use crate::{driver, programs};

/// The first argument of a program that is a stage of an arena.
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
pub const LIFE: Duration = Duration::from_secs(180);
/// Private data of one process. Not address space: a legitimate program reserves 64 GiB (row 117).
pub(crate) const DATA: u64 = 4 << 30;
/// Size of each scratch file system of the arena.
pub(crate) const SCRATCH: &str = "size=768m,nr_inodes=300k,mode=1777";
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
    /// How often what needs repeating is repeated.
    pub effort: Effort,
}

/// How often races, kills and series of runs are repeated, and how deep folders go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// As the project's own suite does: minutes.
    Thorough,
    /// A quarter of it: for somebody who waits.
    Quick,
}

impl Effort {
    /// So often.
    #[must_use]
    pub const fn of(self, thorough: usize) -> usize {
        match self {
            Self::Thorough => thorough,
            Self::Quick => thorough.div_ceil(4),
        }
    }
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
    /// Whether its time was up, or somebody wanted an end, before it came to its own.
    pub cut: bool,
    /// Whether the driver came to its end.
    pub ended_well: bool,
}

/// How long an arena may live.
#[derive(Clone, Copy, Debug)]
pub struct Until<'a> {
    /// Then it ends.
    pub end: Instant,
    /// And soon after this is set.
    pub stop: &'a AtomicBool,
}

/// Nobody has asked for an end.
pub static GO_ON: AtomicBool = AtomicBool::new(false);
/// How soon an arena ends that somebody wants ended.
const LOOK: Duration = Duration::from_millis(100);

/// Runs one task in an arena of its own, and removes the arena.
///
/// # Errors
/// When the arena cannot be made; nothing hostile ran then.
pub fn run(user: User, work: driver::Work, effort: Effort, until: Until<'_>) -> io::Result<Report> {
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
    let end = until.end.min(Instant::now() + LIFE);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || until.stop.load(Ordering::Relaxed) {
            report.errors.push_str("the arena reached the end of its life; ");
            report.cut = true;
            break;
        }
        match lines.recv_timeout(left.min(LOOK)) {
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
    // Ends what is left: process 1 of the arena dies with its standard input, and with its parent.
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

/// Who is who in the arena.
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
