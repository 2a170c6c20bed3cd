//! Workspaces and writable folders: effects of hostile content on the host, during a run and after it.
//! Commits are in `commits.rs`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_sandbox::policy::PROJECT;
use hotcell_sandbox::{Cause, Confinement, Policy};
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};

use crate::decoys::SECRET;
use crate::engine;

use super::sources::Racer;
use super::{Place, Said, check, good, io_error, printed, run, shell};

pub(crate) const BOTH: [Confinement; 2] = [Confinement::Namespaces, Confinement::LandlockOnly];

pub(crate) fn confined(mut policy: Policy, confinement: Confinement) -> Policy {
    policy.shape.confinement = confinement;
    policy
}

/// Name, kind, mode, owner and content of everything below a folder.
fn snapshot(folder: &Path) -> Vec<(PathBuf, u32, u32, Vec<u8>)> {
    let mut all = Vec::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            let content =
                if metadata.is_file() { fs::read(entry.path()).unwrap_or_default() } else { Vec::new() };
            if metadata.is_dir() {
                todo.push(entry.path());
            }
            all.push((entry.path(), metadata.mode(), metadata.uid(), content));
        }
    }
    all.sort();
    all
}

/// Script that plants content which must not leave a workspace.
pub(crate) const PLANT: &str = "ln -s /etc/shadow link; ln -s / root; mkfifo pipe; cp /bin/sh suid; chmod 6777 suid; mknod device c 1 3; \
    echo changed > kept; ln kept hard; rm -r folder; ln -s ../.. folder; echo done";
/// Script that makes names that tools of the host follow, where they did not exist.
pub(crate) const NAMES: &str = "mkdir -p .git/hooks .git/objects/aa .vscode; echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; \
    echo evil > .git/index; echo evil > .git/objects/aa/bb; echo evil > .unheard-of; echo evil > rust-toolchain.toml; \
    echo evil > .mcp.json; echo evil > .vscode/tasks.json; echo evil > .envrc; echo done";

pub(crate) fn uncommitted(place: &Place<'_>) -> Result<Said, String> {
    stays_inside(place, PLANT)
}

pub(crate) fn later_names(place: &Place<'_>) -> Result<Said, String> {
    stays_inside(place, NAMES)
}

/// Checks that nothing that a program does to its workspace remains afterwards.
fn stays_inside(place: &Place<'_>, script: &str) -> Result<Said, String> {
    let project = place.folder("planted")?;
    fs::create_dir(project.join("folder")).map_err(io_error)?;
    for file in ["kept", "folder/file"] {
        fs::write(project.join(file), "original").map_err(io_error)?;
    }
    let before = snapshot(&project);
    for confinement in BOTH {
        let text = printed(&confined(shell(script).workspace(&project), confinement))?;
        check(text.ends_with("done\n"), || format!("nothing was planted: {text}"))?;
        let after = snapshot(&project);
        check(before == after, || format!("{confinement:?}: the workspace changed: {after:?}"))?;
    }
    good("the workspace is as it was")
}

/// A workspace contains links out of it, pipes, sockets and endless files: the run neither hangs nor follows
/// links.
pub(crate) fn links_and_pipes(place: &Place<'_>) -> Result<Said, String> {
    let project = place.folder("trapped")?;
    let secret = place.base.join("denied/readable");
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, project.join(name)).map_err(io_error);
    link(&secret, "link")?;
    link(place.base.join("denied").as_path(), "folder")?;
    link(Path::new("/dev/urandom"), "endless")?;
    link(Path::new("loop"), "loop")?;
    mkfifo(&project.join("pipe"), Mode::from_bits_truncate(0o666)).map_err(|e| e.to_string())?;
    let _listener = std::os::unix::net::UnixListener::bind(project.join("socket")).map_err(io_error)?;
    let script = "cat link folder/readable folder/../denied/readable 2>/dev/null; echo done";
    for confinement in BOTH {
        let policy = confined(shell(script).workspace(&project).wall(Duration::from_secs(10)), confinement);
        let (outcome, took) = run(&policy)?;
        check(outcome.stdout.text.as_deref() == Some("done\n"), || {
            format!("{confinement:?}: {:?} {:?}", outcome.cause, outcome.stdout)
        })?;
        check(took < Duration::from_secs(8), || format!("took {took:?}"))?;
    }
    good("no link leads out, nothing hangs")
}

/// Swaps files of a workspace for links while a run copies it (where it is a copy): the copy never has the
/// content of a link's target.
pub(crate) fn swapped_while_copied(place: &Place<'_>) -> Result<Said, String> {
    const ROUNDS: usize = 60;
    let project = place.folder("copied")?;
    let outside = place.folder("copied-link")?;
    let (file, link) = (project.join("file"), outside.join("link"));
    fs::write(&file, "own\n").map_err(io_error)?;
    let secret = place.base.join("denied/readable");
    std::os::unix::fs::symlink(&secret, &link).map_err(io_error)?;
    let _racer = Racer::start(file.clone(), link);
    // A naive program that checks for a file and then opens it by its path is fooled.
    let naive = || {
        file.symlink_metadata().is_ok_and(|m| m.is_file())
            && fs::read_to_string(&file).is_ok_and(|t| t.contains(SECRET))
    };
    if !(0..200_000).any(|_| naive()) {
        return Ok(Said::Skipped("this host never gave the race to who looks and opens by name".to_owned()));
    }
    let (mut own, mut not) = (0, 0);
    for turn in 0..ROUNDS {
        let policy = confined(shell("cat file").workspace(&project), BOTH[usize::from(turn % 4 != 0)]);
        let outcome = engine::outcome(&policy).map_err(io_error)?;
        let text = String::from_utf8_lossy(&outcome.stdout.to_bytes()).into_owned();
        check(!text.contains(SECRET), || format!("what the link leads to was copied: {text}"))?;
        if text == "own\n" { own += 1 } else { not += 1 }
    }
    good(format!("{own} times the file itself, {not} times a link that leads nowhere or a refusal"))
}

/// A read-only folder within a writable one, and the reverse: the inner grant applies to its content only.
pub(crate) fn nested_grants(place: &Place<'_>) -> Result<Said, String> {
    let top = place.folder("nested")?;
    for folder in ["out/inner", "in/inner"] {
        fs::create_dir_all(top.join(folder)).map_err(io_error)?;
    }
    for path in ["out", "out/inner", "in", "in/inner"] {
        fs::set_permissions(top.join(path), fs::Permissions::from_mode(0o777)).map_err(io_error)?;
    }
    for file in ["out/inner/file", "in/file"] {
        fs::write(top.join(file), "original").map_err(io_error)?;
        fs::set_permissions(top.join(file), fs::Permissions::from_mode(0o666)).map_err(io_error)?;
    }
    let script = "for f in out/inner/file out/inner/new in/file in/new; do echo changed > \"$0/$f\"; done 2>/dev/null; \
        rm -rf \"$0/out/inner\" 2>/dev/null; mv \"$0/out/inner\" \"$0/out/moved\" 2>/dev/null; \
        echo ok > \"$0/out/new\"; echo ok > \"$0/in/inner/new\"; cat \"$0/out/inner/file\"";
    let at = |folder: &str| (top.join(folder), Path::new("/top").join(folder));
    let ((out, out_in), (inner, inner_in)) = (at("out"), at("out/inner"));
    let ((into, into_in), (writable, writable_in)) = (at("in"), at("in/inner"));
    let policy = shell(script)
        .arg("/top")
        .read_write(out, out_in)
        .read_only(inner, inner_in)
        .read_only(into, into_in)
        .read_write(writable, writable_in);
    let text = printed(&policy)?;
    check(text == "original", || format!("inside: {text}"))?;
    let now = |file: &str| fs::read_to_string(top.join(file)).unwrap_or_default();
    for file in ["out/inner/file", "in/file"] {
        check(now(file) == "original", || format!("{file} was changed: {}", now(file)))?;
    }
    for file in ["out/inner/new", "in/new", "out/moved"] {
        check(!top.join(file).exists(), || format!("{file} was made"))?;
    }
    for file in ["out/new", "in/inner/new"] {
        check(now(file) == "ok\n", || format!("{file} could not be written"))?;
    }
    good("the inner grant counts, both ways")
}

/// Files that a program leaves in a writable folder belong to the folder's owner, and grant no one any
/// rights.
pub(crate) fn owners(place: &Place<'_>) -> Result<Said, String> {
    const OTHER_ID: u32 = 4321;
    let folder = place.folder("written")?;
    if geteuid().is_root() {
        chown(&folder, Some(OTHER_ID), Some(OTHER_ID)).map_err(io_error)?;
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).map_err(io_error)?;
    let script = "cd /out; echo x > file; mkdir -p a/b; ln -s /etc/passwd link; ln file hard; mkfifo pipe; cp /bin/true tool; \
        chmod 4755 tool; chmod 2755 tool; chmod 6777 a; mkdir -m 2777 b; mknod null c 1 3; chown 0:0 file; chgrp 0 a; \
        /usr/bin/python3 -c 'import os; os.open(\"t\", os.O_CREAT | os.O_WRONLY, 0o6755)'; \
        cp -p /usr/bin/passwd . ; setfacl -m u:0:rwx file; echo done";
    let (outcome, _) = run(&shell(script).read_write(&folder, "/out"))?;
    check(outcome.cause == Cause::Exited && outcome.stdout.text.as_deref() == Some("done\n"), || {
        format!("{:?} {:?}", outcome.cause, outcome.stderr)
    })?;
    let owner = fs::metadata(&folder).map_err(io_error)?;
    let mut count = 0;
    for (path, mode, uid, _) in snapshot(&folder) {
        let metadata = path.symlink_metadata().map_err(io_error)?;
        check(uid == owner.uid() && metadata.gid() == owner.gid(), || {
            format!("{} belongs to {uid}:{}", path.display(), metadata.gid())
        })?;
        check(mode & 0o6000 == 0, || format!("{} has the mode {mode:o}", path.display()))?;
        let kind = mode & 0o170_000;
        check(kind != 0o020_000 && kind != 0o060_000, || format!("{} is a device", path.display()))?;
        count += 1;
    }
    check(count >= 8, || format!("only {count} entries were made: {PROJECT} {:?}", outcome.stderr))?;
    good(format!("{count} entries, all of the folder's owner"))
}
