//! `--cache NAME`: what a build tool keeps for its next run outlives a run of tests, for the next one of this project under this name.
//!
//! A run sees the last whole state copy-on-write, so that it changes what no other gets; what a complete run leaves becomes the next state.
//! States have a name of their own each: one that a run still sees is locked, and goes later.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

use hotcell_sandbox::Bytes;
use hotcell_sandbox::policy::{Bind, Confinement, HOME, Policy};
use hotcell_sandbox::running::Beside;
use hotcell_state::state::{StateChoice, StateFolder};
use hotcell_state::time::micros_since_1970;
use hotcell_testing::frameworks::cargo::TARGET;
use hotcell_workspace::{Folder, Layer, Stack, changes};
use sha2::{Digest, Sha256};

use super::{FUTURE_MTIME, MAX_PATHS, QUOTA_DIVISOR, bind, is_folder, keep_layers, touch};

/// The folder in the state folder.
pub const KEPT: &str = "warm";
/// The empty folder that a run sees when its cache has no state yet.
pub const EMPTY: &str = "empty";
/// The form of what is kept.
const FORM: &str = "1";
/// Maximum length of a name, in bytes.
const MAX_NAME_LEN: usize = 64;
/// Go's own place for what it compiled, below the home folder.
const GO: &str = ".cache/go-build";

/// A cache as an operator names it: `NAME`, or `NAME:ro` for one that is read and never written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheName {
    name: String,
    writes: bool,
}

impl FromStr for CacheName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, writes) = text.strip_suffix(":ro").map_or((text, true), |name| (name, false));
        let letter = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
        if name.is_empty() || name.len() > MAX_NAME_LEN || !name.bytes().all(letter) {
            return Err(format!(
                "a cache has a name of letters, digits, - _ . and / (at most {MAX_NAME_LEN}), such as main; NAME:ro is read and not written"
            ));
        }
        Ok(Self { name: name.to_owned(), writes })
    }
}

/// A cache that a run sees.
#[derive(Debug)]
pub struct Warm {
    name: CacheName,
    parent: PathBuf,
    /// How the names of its states begin.
    key: String,
    inside: PathBuf,
    /// Folder that the run sees: the newest state, else an earlier bind at this place, or the empty folder.
    base: PathBuf,
    /// Kept as long as a run sees it.
    lock: Option<File>,
    most: Bytes,
    dated: Option<i64>,
}

/// Where a framework's tool builds, below the home folder, and how the files of its cache are dated. Go goes by contents and touches
/// what it uses, unless that looks new; cargo goes by times.
fn place(framework: &str) -> Option<(&'static str, Option<i64>)> {
    match framework {
        "go" => Some((GO, Some(FUTURE_MTIME))),
        "cargo" | "nextest" => Some((TARGET, None)),
        _ => None,
    }
}

/// Whether a variable leads a tool away from where its cache is shown.
fn builds_elsewhere(name: &OsStr, to: &Path, inside: &Path) -> bool {
    match (inside.ends_with(GO), name.to_str()) {
        (true, Some("HOME")) => to != Path::new(HOME),
        (true, Some("XDG_CACHE_HOME")) => Some(to) != inside.parent(),
        (true, Some("GOCACHE")) | (false, Some("CARGO_TARGET_DIR" | "CARGO_BUILD_BUILD_DIR")) => to != inside,
        _ => false,
    }
}

/// Key of a cache: the path of the caller's project, the name of the cache, and the tool.
fn key(name: &str, framework: &str, project: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut hash = Sha256::new();
    for field in [FORM.as_bytes(), name.as_bytes(), framework.as_bytes(), project.as_os_str().as_bytes()] {
        hash.update((field.len() as u64).to_le_bytes());
        hash.update(field);
    }
    hex::encode(&hash.finalize()[..16])
}

/// The states of a cache, the newest first.
fn states(parent: &Path, key: &str) -> Vec<PathBuf> {
    let begins = format!("{key}-");
    let all = fs::read_dir(parent).into_iter().flatten().flatten();
    let own = all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&begins));
    let mut all: Vec<PathBuf> = own.map(|entry| entry.path()).filter(|path| is_folder(path)).collect();
    all.sort();
    all.reverse();
    all
}

impl Warm {
    /// Shows a cache to a job, with a line on what it is.
    ///
    /// # Errors
    /// The reason why the job gets no cache.
    pub fn show(
        name: &CacheName,
        framework: &str,
        state: Option<&StateChoice>,
        policy: &mut Policy,
    ) -> Result<(Self, String), String> {
        let Some((below, dated)) = place(framework) else {
            return Err(format!("{framework} builds nothing that it could keep; cargo, nextest and go do"));
        };
        if policy.shape.confinement == Confinement::LandlockOnly {
            return Err("the profile landlock-only has no view of its own for it".to_owned());
        }
        let inside = Path::new(HOME).join(below);
        let elsewhere =
            policy.job.env.iter().find(|(name, to)| builds_elsewhere(name, Path::new(to), &inside));
        if let Some((name, _)) = elsewhere {
            return Err(format!("{} says that it builds elsewhere", name.to_string_lossy()));
        }
        let project = policy.job.workspace.as_ref().filter(|_| policy.job.layers.is_empty());
        let project = project.ok_or("a workspace that stays has none")?;
        let project = project.canonicalize().map_err(|e| format!("{}: {e}", project.display()))?;
        let path = state.ok_or("there is no state folder")?.path().map_err(|e| e.to_string())?;
        let folder = StateFolder::open(path).map_err(|e| e.to_string())?;
        let parent = folder.path().join(KEPT);
        let empty = parent.join(EMPTY);
        fs::create_dir_all(&empty).map_err(|e| format!("{}: {e}", empty.display()))?;
        let key = key(&name.name, framework, &project);
        let disk = policy.job.limits.disk;
        let found = states(&parent, &key).into_iter().find_map(|state| {
            let lock = File::open(&state).and_then(|file| file.lock_shared().map(|()| file)).ok()?;
            // The state may have been removed before it was locked.
            is_folder(&state).then(|| Some((bind(&state, &inside, disk)?, lock))).flatten()
        });
        let (shown, lock) = found.unzip();
        let before = policy.job.binds.iter().position(|bind| bind.inside == inside);
        let said = match &shown {
            Some(bind) => {
                touch(&bind.host);
                "holds what earlier runs of this project compiled, which nobody reads"
            }
            None => "is empty",
        };
        let other = before.map(|at| policy.job.binds.remove(at)).filter(|bind| bind.copy_on_write);
        let nothing = || {
            let (host, inside) = (empty.clone(), inside.clone());
            Bind { host, inside, writable: false, copy_on_write: true, identity: None }
        };
        let shown: Bind = shown.or(other).unwrap_or_else(nothing);
        let base = shown.host.clone();
        policy.job.binds.push(shown);
        policy.job.collects.push(inside.clone());
        let reads = if name.writes { "" } else { ", and stays as it is" };
        let said = format!("the cache {} {said}{reads}", name.name);
        let most = Bytes(disk.0 / QUOTA_DIVISOR);
        Ok((Self { name: name.clone(), parent, key, inside, base, lock, most, dated }, said))
    }

    /// Makes what a complete run left the next state.
    pub fn keep(&self, beside: Vec<Beside>) {
        let Some(left) = beside.into_iter().find(|left| left.inside == self.inside) else { return };
        if !self.name.writes {
            return;
        }
        if let Err(error) = self.write(left) {
            // Whatever is too much began small: the next one begins anew.
            self.remove_but(None);
            tracing::warn!(
                "the cache {} is not kept, and begins anew: {error}; raise ‹max_disk›",
                self.name.name
            );
        }
    }

    fn write(&self, left: Beside) -> io::Result<()> {
        let upper = Folder::from_fd(left.folder);
        let base = Folder::ours(&self.base)?;
        let upper = Layer { folder: &upper, whole: left.whole };
        let is_same = || {
            let before = Stack::new([], &base);
            Ok::<_, io::Error>(changes(&before, &[upper], &[], MAX_PATHS)?.is_empty())
        };
        if is_folder(&self.base) && self.base.starts_with(&self.parent) && !left.whole && is_same()? {
            return Ok(());
        }
        let below = Layer { folder: &base, whole: true };
        let layers = if left.whole { vec![upper] } else { vec![upper, below] };
        let new = self.parent.join(format!("{}-{:020}", self.key, micros_since_1970(SystemTime::now())));
        keep_layers(&layers, &|_| true, self.most, self.dated, &new)?;
        self.remove_but(Some(&new));
        Ok(())
    }

    /// Removes states that no run sees.
    fn remove_but(&self, newest: Option<&Path>) {
        let Ok(parent) = Folder::ours(&self.parent) else { return };
        for state in states(&self.parent, &self.key).iter().filter(|state| newest != Some(state)) {
            // A state is free if no other run locks it; the shared lock of this run then becomes exclusive.
            let free = match &self.lock {
                Some(lock) if *state == self.base => lock.try_lock().is_ok(),
                _ => File::open(state).is_ok_and(|file| file.try_lock().is_ok()),
            };
            if let (true, Some(name)) = (free, state.file_name()) {
                let _ = parent.remove_all(Path::new(name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_sandbox::Limits;

    fn policy(project: &Path) -> Policy {
        let mut policy = Policy::new("cargo");
        policy.job.workspace = Some(project.to_owned());
        policy.job.limits = Limits::for_tests();
        policy
    }

    #[test]
    fn names_are_plain_and_may_be_read_only() {
        for (text, want) in [
            ("main", Some(("main", true))),
            ("main:ro", Some(("main", false))),
            ("pr/12-a_b.c", Some(("pr/12-a_b.c", true))),
            ("", None),
            (":ro", None),
            ("a b", None),
            ("a:rw", None),
            ("ä", None),
        ] {
            let got = text.parse::<CacheName>().ok();
            assert_eq!(got.as_ref().map(|c| (c.name.as_str(), c.writes)), want, "{text}");
        }
        assert!("x".repeat(65).parse::<CacheName>().is_err());
    }

    #[test]
    fn warm_build_serves_same_project_and_name() {
        let top = tempfile::tempdir().unwrap();
        let [project, other, upper] = ["project", "other", "upper"].map(|name| top.path().join(name));
        [&project, &other, &upper].into_iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
        let state = StateChoice::Named(top.path().join("state"));
        let show = |name: &str, framework: &str, project: &Path| {
            let mut policy = policy(project);
            let (warm, said) =
                Warm::show(&name.parse().unwrap(), framework, Some(&state), &mut policy).unwrap();
            assert_eq!(policy.job.collects, std::slice::from_ref(&warm.inside));
            let host = policy.job.binds.last().unwrap().host.clone();
            (warm, said, fs::read_dir(host).unwrap().count())
        };
        let leave = |warm: &Warm, file: &str| {
            fs::write(upper.join(file), "made").unwrap();
            let folder = File::open(&upper).unwrap().into();
            warm.keep(vec![Beside { inside: warm.inside.clone(), folder, whole: false }]);
        };
        let (first, said, files) = show("main", "cargo", &project);
        assert!(files == 0 && said.contains("is empty"), "{said}");
        leave(&first, "a");
        let (second, said, files) = show("main", "cargo", &project);
        assert!(files == 1 && said.contains("nobody reads"), "{said}");
        // Another that saw the same leaves its own; the last one counts, and what one still sees stays.
        let seen = second.base.clone();
        leave(&first, "b");
        assert!(seen.exists());
        drop(second);
        assert_eq!(show("main", "cargo", &project).2, 2);
        let (read_only, _, files) = show("main:ro", "cargo", &project);
        assert_eq!(files, 2);
        leave(&read_only, "c");
        assert_eq!(show("main", "cargo", &project).2, 2);
        for (name, framework, project) in [
            ("pr", "cargo", &project),
            ("main", "go", &project),
            ("main", "nextest", &project),
            ("main", "cargo", &other),
        ] {
            assert_eq!(show(name, framework, project).2, 0, "{name} {framework}");
        }
        drop((first, read_only));
        let (last, ..) = show("main", "cargo", &project);
        leave(&last, "d");
        assert_eq!(states(&last.parent, &last.key).len(), 1, "older ones go");
        let (seen, ..) = show("main", "cargo", &project);
        let (last, ..) = show("main", "cargo", &project);
        leave(&last, "e");
        assert_eq!(states(&last.parent, &last.key).len(), 2, "but for one that is seen");
        drop(seen);
        let mut one = policy(&project);
        assert!(Warm::show(&"x".parse().unwrap(), "pytest", Some(&state), &mut one).is_err());
        one.job.env.push(("CARGO_TARGET_DIR".into(), "/tmp/t".into()));
        assert!(Warm::show(&"x".parse().unwrap(), "cargo", Some(&state), &mut one).is_err());
    }
}
