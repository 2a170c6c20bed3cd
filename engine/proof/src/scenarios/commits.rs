//! Commits a workspace with hostile content: nothing dangerous reaches the original. Each test also shows
//! that a naive collector is fooled by the same content, or it would prove nothing.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use hotcell_sandbox::{Changed, Policy};
use hotcell_workspace::store::{Quota, Source, Store};
use hotcell_workspace::{
    CommitError, CommitOptions, Committed, Folder, Layer, Stack, changes, commit, moment,
};

use crate::decoys::SECRET;
use crate::engine;

use super::sources::Racer;
use super::workspaces::{BOTH, NAMES, PLANT, confined};
use super::{Place, Said, check, good, io_error, shell};

const MAX_PATHS: usize = 10_000;

/// Runs a policy and returns the changes in its workspace.
fn changed_by(policy: &Policy) -> Result<Changed, String> {
    let finished = engine::finished(policy).map_err(io_error)?;
    let text = finished.outcome.stdout.text.clone().unwrap_or_default();
    check(text.ends_with("done\n"), || format!("nothing was planted: {:?}", finished.outcome))?;
    finished.changed.ok_or_else(|| "nothing was handed out".to_owned())
}

fn upper(changed: &Changed) -> Result<Folder, String> {
    Ok(Folder::from_fd(changed.folder.try_clone().map_err(io_error)?))
}

fn take_over(
    changed: &Changed,
    project: &Path,
    since: (i64, i64),
    allow_protected: bool,
) -> Result<Result<Committed, CommitError>, String> {
    let original = Folder::open(project).map_err(io_error)?;
    let upper = upper(changed)?;
    let before = Stack::new([], &original);
    let layer = Layer { folder: &upper, whole: changed.whole };
    let found = changes(&before, &[layer], &[], MAX_PATHS).map_err(io_error)?;
    Ok(commit(
        &before.with(layer),
        &original,
        &found,
        &CommitOptions { since, allow: allow_protected.into(), owner: None, most: 1 << 30 },
    ))
}

/// A naive collector: copies the folder with `cp -a`.
fn trusted(changed: &Changed, to: &Path) -> Result<(), String> {
    use std::os::fd::AsRawFd;
    let from = format!("/proc/{}/fd/{}/.", std::process::id(), changed.folder.as_raw_fd());
    // Copying devices may fail here; the rest is what matters.
    Command::new("cp").args(["-a", &from]).arg(to).output().map(drop).map_err(io_error)
}

fn dangerous(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|m| {
        let kind = m.file_type();
        kind.is_symlink() || kind.is_fifo() || kind.is_char_device() || m.mode() & 0o6000 != 0
    })
}

fn original(place: &Place<'_>, name: &str) -> Result<std::path::PathBuf, String> {
    let project = place.folder(name)?;
    fs::create_dir(project.join("folder")).map_err(io_error)?;
    for file in ["kept", "folder/file"] {
        fs::write(project.join(file), "original").map_err(io_error)?;
    }
    Ok(project)
}

/// Commits links, pipes, devices, setuid bits and hard links.
pub(crate) fn planted(place: &Place<'_>) -> Result<Said, String> {
    let mut fooled = 0;
    for (number, confinement) in BOTH.into_iter().enumerate() {
        let project = original(place, &format!("planted-{number}"))?;
        let since = moment();
        let changed = changed_by(&confined(shell(PLANT).workspace(&project), confinement))?;
        let naive = place.folder(&format!("planted-naive-{number}"))?;
        trusted(&changed, &naive)?;
        fooled += ["link", "root", "pipe", "suid"].iter().filter(|name| dangerous(&naive.join(name))).count();
        let committed = take_over(&changed, &project, since, true)?.map_err(|e| e.to_string())?;
        for entry in fs::read_dir(&project).map_err(io_error)?.flatten() {
            check(!dangerous(&entry.path()), || format!("{} was taken over", entry.path().display()))?;
        }
        check(committed.left.len() >= 3, || format!("left out: {:?}", committed.left))?;
        let kept = fs::metadata(project.join("kept")).map_err(io_error)?;
        check(kept.nlink() == 1, || "two names of one file came out".to_owned())?;
        let text = fs::read_to_string(project.join("kept")).map_err(io_error)?;
        check(text == "changed\n", || format!("what was harmless did not come out: {text}"))?;
    }
    check(fooled >= 6, || format!("a collector that trusts was fooled only {fooled} times"))?;
    good(format!("files came out, and nothing else; a collector that trusts was fooled {fooled} times"))
}

/// Spellings that some file system, by folding names or dropping invisible characters, reads as names that
/// tools of the host follow.
const OTHER_LETTERS: [&str; 7] = [
    ".GIT/hooks/pre-commit",
    ".Git/Config",
    ".MCP.JSON",
    ".VsCode/tasks.json",
    ".v\u{17f}code/tasks.json",
    ".g\u{200c}it/hooks/post-merge",
    ".ENVRC.",
];

/// Commits protected names in other spellings. Committing them with permission shows that the check, and not
/// the spelling itself, stops them.
pub(crate) fn other_letters(place: &Place<'_>) -> Result<Said, String> {
    let script =
        "for n; do mkdir -p \"$(dirname \"$n\")\"; echo evil > \"$n\"; done; echo fine > gitty; echo done";
    for (number, confinement) in BOTH.into_iter().enumerate() {
        let project = original(place, &format!("letters-{number}"))?;
        let since = moment();
        let policy = shell(script).arg("sh").args(OTHER_LETTERS).workspace(&project);
        let changed = changed_by(&confined(policy, confinement))?;
        take_over(&changed, &project, since, false)?.map_err(|e| e.to_string())?;
        for name in OTHER_LETTERS {
            check(!project.join(name).exists(), || format!("{name:?} was taken over"))?;
        }
        check(project.join("gitty").exists(), || {
            "what is like no protected name did not come out".to_owned()
        })?;
        take_over(&changed, &project, moment(), true)?.map_err(|e| e.to_string())?;
        check(OTHER_LETTERS.iter().all(|name| project.join(name).exists()), || {
            "what a person allowed was not taken over: the names were not what stopped it".to_owned()
        })?;
    }
    good(format!("{} spellings stay out until a person allows them", OTHER_LETTERS.len()))
}

/// Commits names that tools of the host follow.
pub(crate) fn names(place: &Place<'_>) -> Result<Said, String> {
    for (number, confinement) in BOTH.into_iter().enumerate() {
        let project = original(place, &format!("named-{number}"))?;
        let since = moment();
        let changed = changed_by(&confined(shell(NAMES).workspace(&project), confinement))?;
        let all = [
            ".git/hooks/pre-commit",
            ".git/index",
            ".git/objects/aa/bb",
            ".mcp.json",
            ".vscode/tasks.json",
            ".envrc",
            ".unheard-of",
            "rust-toolchain.toml",
        ];
        take_over(&changed, &project, since, false)?.map_err(|e| e.to_string())?;
        for name in all {
            check(!project.join(name).exists(), || format!("{name} was taken over"))?;
        }
        take_over(&changed, &project, moment(), true)?.map_err(|e| e.to_string())?;
        check(all.iter().all(|name| project.join(name).exists()), || {
            "what a person allowed was not taken over: the names were not what stopped it".to_owned()
        })?;
    }
    good("protected names stay out until a person allows them")
}

/// Swaps a folder of the original for a link that leads out, during commits.
pub(crate) fn swapped_while_committed(place: &Place<'_>) -> Result<Said, String> {
    const ROUNDS: usize = 300;
    let project = original(place, "taken")?;
    let elsewhere = place.folder("taken-elsewhere")?;
    fs::write(elsewhere.join("file"), "theirs").map_err(io_error)?;
    let side = place.folder("taken-link")?;
    symlink(&elsewhere, side.join("link")).map_err(io_error)?;
    let script = "echo changed > folder/file; echo new > folder/new; rm kept; echo done";
    let changed = changed_by(&shell(script).workspace(&project))?;
    let folder = project.join("folder");
    let _racer = Racer::start(folder.clone(), side.join("link"));
    // A naive program that checks for a folder and then writes by its path is fooled.
    let naive = || {
        folder.symlink_metadata().is_ok_and(|m| m.is_dir())
            && fs::write(folder.join("naive"), "").is_ok()
            && elsewhere.join("naive").exists()
    };
    if !(0..200_000).any(|_| naive()) {
        return Ok(Said::Skipped("this host never gave the race to who looks and writes by name".to_owned()));
    }
    let (mut whole, mut not) = (0, 0);
    for _ in 0..ROUNDS {
        // Errors and conflicts are expected here; it matters only where data is written.
        match take_over(&changed, &project, (i64::MAX, 0), false) {
            Ok(Ok(_)) => whole += 1,
            Ok(Err(_)) | Err(_) => not += 1,
        }
        let theirs = fs::read_to_string(elsewhere.join("file")).map_err(io_error)?;
        check(theirs == "theirs", || format!("what the link leads to was changed: {theirs}"))?;
        check(!elsewhere.join("new").exists(), || "a file was made behind the link".to_owned())?;
        let _ = fs::write(project.join("kept"), "original");
    }
    good(format!("{whole} times taken over, {not} times refused, never behind the link"))
}

/// A persistent workspace contains links out of it, pipes and endless files: reading and exporting it neither
/// hangs nor follows links.
pub(crate) fn copied_out(place: &Place<'_>) -> Result<Said, String> {
    let project = original(place, "exported")?;
    let secret = place.base.join("denied/readable");
    let script = format!(
        "ln -s {0} link; ln -s {0} 'link '; ln -s /dev/urandom endless; mkfifo pipe; rm -r folder; ln -s {1} folder; echo done",
        secret.display(),
        place.base.join("denied").display()
    );
    let store =
        Store::open(&place.folder("exported-store")?, Quota::default(), None).map_err(|e| e.to_string())?;
    let mut workspace = store.create(Source::Folder(project.clone())).map_err(|e| e.to_string())?;
    let changed = changed_by(&shell(&script).workspace(&project))?;
    let naive = place.folder("exported-naive")?;
    trusted(&changed, &naive)?;
    check(fs::read_to_string(naive.join("link")).is_ok_and(|t| t.contains(SECRET)), || {
        "who follows the link does not find the secret either".to_owned()
    })?;
    workspace.absorb(&upper(&changed)?, changed.whole, &[]).map_err(|e| e.to_string())?;
    for name in ["link", "link/", "link ", "folder/readable", "endless", "pipe"] {
        let read = workspace.with_view(|_, view| view.file(Path::new(name)).map(drop));
        check(read.is_err(), || format!("{name:?} was read"))?;
    }
    let mut archive = Vec::new();
    workspace.export(&mut archive).map_err(|e| e.to_string())?;
    let found = archive.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    check(!found, || "the export has what a link leads to".to_owned())?;
    good(format!("{} bytes exported, without what links lead to", archive.len()))
}
