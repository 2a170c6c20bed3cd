//! Host paths in a policy: swapped while being mounted, cut at a NUL, left behind, or visible inside.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hotcell_sandbox::policy::{HOME, MountPlace, PROJECT};
use hotcell_sandbox::profile::Profile;
use hotcell_sandbox::{Cause, Confinement, Policy};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::engine;
use crate::run::THROUGH;

use super::{Place, Said, check, good, io_error, printed, run, shell};

/// Number of runs of each kind in a race. The swap comes later in each, from before a policy is checked to
/// after its program runs.
const RACES: usize = 80;
/// Delay of the first swap in microseconds; each delay is longer than the one before, and the last is 24 ms.
const FIRST_DELAY_US: u64 = 10;
const DELAY_GROWTH_PER_MILLE: u32 = 1102;

/// Durations of each state of a race in microseconds, in turn: from shorter than a system call to longer.
const PAUSES_US: [u64; 5] = [0, 5, 20, 50, 100];

/// Swaps two names continuously until it is dropped.
pub(crate) struct Racer(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Racer {
    pub(crate) fn start(one: PathBuf, other: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            for pause in PAUSES_US.into_iter().cycle() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let _ = renameat2(AT_FDCWD, &one, AT_FDCWD, &other, RenameFlags::RENAME_EXCHANGE);
                std::thread::sleep(Duration::from_micros(pause));
            }
        });
        Self(stop, Some(thread))
    }
}

/// Swaps two names once, `delay` after the operation has begun, and back when it has ended.
fn exchanged<T>(one: &Path, other: &Path, delay: Duration, what: impl FnOnce() -> T) -> T {
    let exchange = || renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE);
    std::thread::scope(|scope| {
        let racer = scope.spawn(|| {
            std::thread::sleep(delay);
            exchange()
        });
        let result = what();
        if matches!(racer.join(), Ok(Ok(()))) {
            let _ = exchange();
        }
        result
    })
}

impl Drop for Racer {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            let _ = thread.join();
        }
    }
}

/// The checked and the opened file differ. The folder `race/parent/shown` holds a file; its parent is
/// continuously swapped for a link, and behind that link `shown` leads to `/`, which is never mounted.
pub(crate) fn swapped(place: &Place<'_>) -> Result<Said, String> {
    let race = place.folder("race")?;
    let (parent, link, elsewhere) = (race.join("parent"), race.join("link"), race.join("elsewhere"));
    let shown = parent.join("shown");
    for folder in [&shown, &elsewhere] {
        fs::create_dir_all(folder).map_err(io_error)?;
    }
    fs::write(shown.join("real"), "real").map_err(io_error)?;
    std::os::unix::fs::symlink("/", elsewhere.join("shown")).map_err(io_error)?;
    std::os::unix::fs::symlink(&elsewhere, &link).map_err(io_error)?;
    let racer = Racer::start(parent.clone(), link.clone());

    // Shows that this is a race: a naive program that checks a path and then opens it gets the folder that it
    // refused.
    let is_root = |path: &Path| path.join("usr").is_dir();
    let naive = || {
        let checked = shown.canonicalize().is_ok_and(|p| p != Path::new("/") && p.is_dir());
        checked && is_root(&shown)
    };
    let fooled = (0..200_000).find(|_| naive());
    let Some(tries) = fooled else {
        return Ok(Said::Skipped("this host never gave the race to who checks and opens by path".to_owned()));
    };

    drop(racer);
    if link.is_dir() && !link.is_symlink() {
        renameat2(AT_FDCWD, &parent, AT_FDCWD, &link, RenameFlags::RENAME_EXCHANGE)
            .map_err(|e| e.to_string())?;
    }

    let secret = place.base.join("denied/readable");
    let probe = |inside: &Path| {
        // Below the mounted folder, and at the file's own path where nothing is mounted.
        shell("cat \"$0/$1\" \"$1\" 2>/dev/null; ls \"$0\"; :").arg(inside).arg(&secret)
    };
    let plain = |mut policy: Policy| {
        policy.shape.confinement = Confinement::LandlockOnly;
        policy
    };
    type Make<'a> = Box<dyn Fn() -> Policy + 'a>;
    let kinds: [(&str, Make<'_>); 6] = [
        ("read-only", Box::new(|| probe(Path::new("/data")).read_only(&shown, "/data"))),
        ("writable", Box::new(|| probe(Path::new("/data")).read_write(&shown, "/data"))),
        ("workspace", Box::new(|| probe(Path::new(PROJECT)).workspace(&shown))),
        ("toolchain", Box::new(|| probe(&shown).toolchain(&shown))),
        ("read-only without namespaces", Box::new(|| plain(probe(&shown).read_only(&shown, &shown)))),
        (
            "workspace without namespaces",
            Box::new(|| plain(probe(Path::new("project")).cwd("/").workspace(&shown))),
        ),
    ];
    let (mut real, mut refused) = (0, 0);
    for (what, policy) in kinds {
        let mut delay = Duration::from_micros(FIRST_DELAY_US);
        for race in 0..RACES {
            delay = delay * DELAY_GROWTH_PER_MILLE / 1000;
            if race % (RACES / place.effort.of(RACES)) != 0 {
                continue;
            }
            let policy = policy();
            let outcome = exchanged(&parent, &link, delay, || engine::outcome(&policy)).map_err(io_error)?;
            let text = String::from_utf8_lossy(&outcome.stdout.to_bytes()).into_owned();
            check(!text.contains(crate::decoys::SECRET) && !text.lines().any(|l| l == "usr"), || {
                format!("{what}: the link's target was shown: {text}")
            })?;
            let reason = outcome.reason.unwrap_or_default();
            // A copy that was begun is refused too, since the host's whole file system is not a workspace. A
            // copy that was not begun fails with ELOOP.
            check(!reason.contains("cannot be copied") || reason.contains("os error 40"), || {
                format!("{what}: the link's target was copied: {reason}")
            })?;
            match outcome.cause {
                Cause::Exited => real += 1,
                Cause::Refused => refused += 1,
                other => return Err(format!("{what}: {other:?} {reason}")),
            }
        }
    }
    check(refused > 0, || "the race was never seen".to_owned())?;
    good(format!(
        "by path fooled at try {tries}; bound: {real} times the checked folder or nothing, {refused} times refused"
    ))
}

/// A NUL ends a C string: the rest of it must not be dropped silently.
pub(crate) fn nul(place: &Place<'_>) -> Result<Said, String> {
    let granted = place.base.join("granted");
    let cut =
        |path: &Path| PathBuf::from(OsStr::from_bytes(&[path.as_os_str().as_bytes(), b"\0/x"].concat()));
    let ran = || shell("echo ran");
    let mut at_place = ran();
    at_place.shape.places.push(MountPlace { inside: "/data\0/x".into(), folder: true });
    let policies = [
        ("program", Policy::new("/bin/true\0x")),
        ("looked-up program", Policy::new("true\0x")),
        ("argument", ran().arg("a\0b")),
        ("variable", ran().env("NAME", "a\0b")),
        ("name of a variable", ran().env("NA\0ME", "b")),
        ("start folder", ran().cwd("/tmp\0/x")),
        ("workspace", ran().workspace(cut(&granted))),
        ("host folder", ran().read_only(cut(&granted), "/data")),
        ("host file", ran().read_only(cut(&granted.join("file")), "/data")),
        ("place of a read-only folder", ran().read_only(&granted, "/data\0/x")),
        ("place of a writable folder", ran().read_write(&granted, "/home/sandbox/a\0/x")),
        ("toolchain", ran().toolchain(cut(&granted))),
        ("place of a shape", at_place),
    ];
    for (what, policy) in &policies {
        for confinement in [Confinement::Namespaces, Confinement::LandlockOnly] {
            let mut policy = policy.clone();
            policy.shape.confinement = confinement;
            let outcome = engine::outcome(&policy).map_err(io_error)?;
            check(outcome.cause == Cause::Refused && outcome.stdout.bytes == 0, || {
                format!(
                    "{what}, {confinement:?}: {:?} {:?} {:?}",
                    outcome.cause, outcome.reason, outcome.stdout
                )
            })?;
        }
    }
    // As data: a policy in JSON, and a profile.
    let json = serde_json::to_string(&ran().arg("a\0b")).map_err(|e| e.to_string())?;
    let read: Policy = serde_json::from_str(&json).map_err(|e| e.to_string())?;
    let outcome = engine::outcome(&read).map_err(io_error)?;
    check(outcome.cause == Cause::Refused, || format!("JSON: {:?}", outcome.cause))?;
    for text in ["ro = [\"/usr\\u0000x:/data\"]", "[env]\nA = \"b\\u0000c\"", "[env]\n\"A\\u0000B\" = \"c\""]
    {
        // Refused either when parsed or when run.
        let Ok(profile) = Profile::parse(text, Path::new("p.toml"), "p") else { continue };
        let mut policy = profile.policy();
        policy.job.argv = vec!["/bin/true".into()];
        let outcome = engine::outcome(&policy).map_err(io_error)?;
        check(outcome.cause == Cause::Refused, || format!("{text}: {:?}", outcome.cause))?;
    }
    // Standard input is bytes, not a string.
    let (outcome, _) = run(&Policy::new("/usr/bin/od").args(["-An", "-c"]).stdin_bytes(*b"a\0b"))?;
    let text = outcome.stdout.text.unwrap_or_default();
    check(text.contains("\\0"), || format!("standard input was cut: {text}"))?;
    good(format!("{} places refused it", policies.len()))
}

/// Every name below the folders in which a mountpoint could be made; one level deep for the host's own.
fn names(place: &Place<'_>) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for top in [
        "/", "/tmp", "/var/tmp", "/dev/shm", "/dev", "/etc", "/home", "/opt", "/mnt", "/media", "/run",
        "/usr", HOME,
    ] {
        all.extend(fs::read_dir(top).into_iter().flatten().flatten().map(|e| e.path()));
    }
    let mut todo = vec![place.base.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                todo.push(entry.path());
            }
            all.push(entry.path());
        }
    }
    all.sort();
    all
}

/// Mountpoints are made only inside the sandbox, wherever a policy mounts something.
pub(crate) fn ghosts(place: &Place<'_>) -> Result<Said, String> {
    let (folder, writable) = (place.folder("ghosts/shown")?, place.base.join("ghosts/writable"));
    fs::create_dir_all(&writable).map_err(io_error)?;
    fs::set_permissions(&writable, std::os::unix::fs::PermissionsExt::from_mode(0o777)).map_err(io_error)?;
    let file = folder.join("file");
    fs::write(&file, "x").map_err(io_error)?;
    let inside = |path: &str| PathBuf::from(path);
    let policies = [
        shell("true").read_only(&folder, "/data/deep/er"),
        shell("true").read_only(&file, "/etc/hotcell-ghost.conf"),
        shell("true").read_only(&file, "/hotcell-ghost"),
        shell("true").read_only(&file, inside(HOME).join("deep/er/file")),
        shell("true").read_write(&writable, "/out"),
        shell("true").workspace(&folder),
        shell("mkdir new; : > new/file")
            .workspace(&folder)
            .read_only(&file, inside(PROJECT).join("new/place")),
        shell("true").workspace(&folder).read_write(&writable, inside(PROJECT).join("out")),
        // Below a writable folder of the host.
        shell("true").read_write(&writable, "/out").read_only(&folder, "/out/ghost/place"),
        shell("true")
            .read_write(&writable, inside(HOME).join("out"))
            .read_only(&file, inside(HOME).join("out/ghost/place")),
        shell("true").read_write(&writable, "/tmp/out").read_only(&folder, "/tmp/out/ghost"),
        shell("true").read_only(&folder, "/usr/hotcell-ghost/x"),
        shell("true").toolchain(&folder),
    ];
    // The first run after a boot makes the file of the host ids.
    engine::outcome(&shell("true")).map_err(io_error)?;
    let before = names(place);
    let mut refused = 0;
    for policy in &policies {
        for confinement in [Confinement::Namespaces, Confinement::LandlockOnly] {
            let mut policy = policy.clone();
            policy.shape.confinement = confinement;
            let outcome = engine::outcome(&policy).map_err(io_error)?;
            refused += usize::from(outcome.cause == Cause::Refused);
            let made: Vec<_> = names(place).into_iter().filter(|n| !before.contains(n)).collect();
            check(made.is_empty(), || format!("made on the host: {made:?} by {:?}", policy.job.binds))?;
        }
    }
    let after = names(place);
    check(before == after, || "a name is gone from the host".to_owned())?;
    good(format!("{} policies, {refused} runs of them refused, no name made on the host", policies.len()))
}

/// A word in a host path must not be visible inside, in particular in `/proc`. A toolchain's prefix is at the
/// same path by contract, so it is not secret. For a file, and for a writable folder, the kernel shows the
/// path in mountinfo, relative to its file system, which no mount can hide.
pub(crate) fn host_paths(place: &Place<'_>) -> Result<Said, String> {
    const WORD: &str = "customer-4711";
    let folder = place.folder(WORD)?;
    fs::create_dir(folder.join("project")).map_err(io_error)?;
    let project = folder.join("project");
    fs::write(project.join("file"), "x").map_err(io_error)?;
    let hex: String = WORD.bytes().map(|b| format!("{b:02x}")).collect();
    let look = || place.attack(&["word_in_sight", &format!("word={hex}")]);
    for (what, policy, told) in [
        ("nothing", look(), false),
        ("workspace", look().workspace(&project), false),
        ("read-only folder", look().read_only(&project, "/data"), false),
        ("both", look().workspace(&project).read_only(&project, "/data"), false),
        ("toolchain", look().toolchain(&project), true),
        ("file", look().read_only(project.join("file"), "/data"), true),
        ("writable folder", look().read_write(&project, "/data"), true),
    ] {
        let (outcome, _) = run(&policy)?;
        let wanted = if told { THROUGH } else { 0 };
        check(outcome.exit_code == Some(wanted), || {
            format!("{what}: {:?} {}", outcome.exit_code, String::from_utf8_lossy(&outcome.stderr.to_bytes()))
        })?;
    }
    // Places where a program sees paths when it starts.
    let text = printed(&shell("pwd; cat /proc/self/cgroup; cat /proc/self/maps; env").workspace(&project))?;
    check(!text.contains(WORD), || text.clone())?;
    good("workspaces and read-only folders tell nothing of where they are")
}
