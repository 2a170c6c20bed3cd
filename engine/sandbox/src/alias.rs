//! Aliases of the workspace: further absolute paths inside, usually the folder's own path on the host, that
//! also lead to it.
//!
//! Installed programs record the project under such a path (the `.pth` of an editable installation, the first
//! lines of `.venv/bin`, source maps). An alias is a link to [`PROJECT`] in folders that hold nothing else,
//! so it exposes no more than the workspace does. Where the sandbox already has something at such a path, no
//! alias is made.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};

use crate::plan::{Source, SourceKind, in_scratch, inside_path};
use crate::policy::{HOME, ImageRoot, Job, Link, PROJECT};

/// Folders in the root that come from the host, the image or the kernel.
const TAKEN: [&str; 11] =
    ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "proc", "dev", "sys"];

/// The links of all aliases of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    /// Links in the root.
    pub root: Vec<Link>,
    /// Links in scratch.
    pub scratch: Vec<Link>,
    /// Aliases that are left out, each with the reason.
    pub left: Vec<(PathBuf, String)>,
}

/// Computes the links for the aliases of a job, for a sandbox with this root and these mounts.
pub(crate) fn links(job: &Job, image: Option<&ImageRoot>, sources: &[Source]) -> Links {
    let mut links = Links::default();
    let folders: Vec<&Path> = sources
        .iter()
        .filter(|s| matches!(s.kind, SourceKind::Workspace | SourceKind::Layer))
        .map(|s| s.host.as_path())
        .collect();
    for name in job.aliases.iter().filter(|_| job.workspace.is_some()) {
        let mut made = Vec::new();
        let spot = spot(name, image, sources).and_then(|spot| {
            let there: Vec<&Path> = others(sources).map(|s| s.inside.as_path()).collect();
            around(name, &there, &|below| names(&folders, below), Path::new(""), &mut made).map(|()| spot)
        });
        match spot {
            Ok(Spot::Root) => links.root.append(&mut made),
            Ok(Spot::Scratch) => links.scratch.append(&mut made),
            Err(why) => links.left.push((name.clone(), why)),
        }
    }
    links
}

/// Mounts other than the workspace.
fn others(sources: &[Source]) -> impl Iterator<Item = &Source> {
    sources.iter().filter(|s| !matches!(s.kind, SourceKind::Workspace | SourceKind::Layer))
}

/// Maximum number of links for one alias.
const MAX_LINKS: usize = 1000;

/// The links of an alias: normally one. Where something is mounted below the alias (such as a virtual
/// environment at its own path), one link for each of its neighbours instead. `names` lists a folder of the
/// workspace.
fn around(
    name: &Path,
    there: &[&Path],
    names: &dyn Fn(&Path) -> io::Result<Vec<OsString>>,
    below: &Path,
    made: &mut Vec<Link>,
) -> Result<(), String> {
    let here = name.join(below);
    // Joining an empty path would add a trailing slash.
    let here: PathBuf = here.components().collect();
    if there.contains(&here.as_path()) {
        return Ok(());
    }
    if !there.iter().any(|shown| shown.starts_with(&here)) {
        made.push((here, Path::new(PROJECT).join(below).components().collect()));
        return if made.len() > MAX_LINKS {
            Err(format!("it takes more than {MAX_LINKS} links"))
        } else {
            Ok(())
        };
    }
    let all = names(below).map_err(|e| format!("{} cannot be listed: {e}", here.display()))?;
    all.iter().try_for_each(|one| around(name, there, names, &below.join(one), made))
}

/// Names in a folder of the workspace, merged from all its layers. Symbolic links on the way are not
/// followed.
fn names(folders: &[&Path], below: &Path) -> io::Result<Vec<OsString>> {
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let mut all = BTreeSet::new();
    for folder in folders {
        let path: PathBuf = folder.join(below).components().collect();
        match openat2(AT_FDCWD, &path, how) {
            Ok(open) => {
                for entry in
                    std::fs::read_dir(format!("/proc/self/fd/{}", open.as_raw_fd()))?.take(MAX_LINKS + 1)
                {
                    all.insert(entry?.file_name());
                }
            }
            // The folder need not exist in every layer.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(all.into_iter().collect())
}

/// Where an alias is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// In the root, before the sandbox is made.
    Root,
    /// In scratch, when the job arrives.
    Scratch,
}

/// Decides where the alias `name` is made, in a sandbox that has this image (or the host) as its root and
/// these mounts.
///
/// # Errors
/// A sentence when no alias is possible at this path: it is not an absolute path, or the sandbox has
/// something there.
pub fn spot(name: &Path, image: Option<&ImageRoot>, sources: &[Source]) -> Result<Spot, String> {
    let name = inside_path(name).map_err(|refusal| refusal.message)?;
    if Path::new(PROJECT).starts_with(&name) || name.starts_with(PROJECT) {
        return Err(format!("{HOME} is the sandbox's own"));
    }
    // A mount below the alias is kept, with the alias as a folder around it.
    if let Some(source) = others(sources).find(|source| name.starts_with(&source.inside)) {
        return Err(format!("{} is shown there", source.inside.display()));
    }
    if in_scratch(&name) {
        return Ok(Spot::Scratch);
    }
    // A mountpoint, or a folder above one.
    let own = ["/tmp", "/var/tmp", "/dev/shm", "/run", "/var"];
    if own.iter().any(|own| Path::new(own) == name) {
        return Err(format!("{} is the sandbox's own", name.display()));
    }
    let first = name.components().find_map(|part| match part {
        Component::Normal(first) => first.to_str(),
        _ => None,
    });
    match first {
        // A name that is not UTF-8 is not in the list.
        Some(first) if TAKEN.contains(&first) => Err(format!("/{first} is the system's there")),
        _ => match image {
            Some(image) => free_in(image, &name).map(|()| Spot::Root),
            None => Ok(Spot::Root),
        },
    }
}

/// Checks that an image has nothing at a path, and only folders above it.
fn free_in(image: &ImageRoot, name: &Path) -> Result<(), String> {
    let taken = |path: &Path| Err(format!("the image has {}", path.display()));
    for layer in &image.layers {
        for above in name.ancestors().filter(|above| above.parent().is_some()) {
            let below = above.strip_prefix("/").unwrap_or(above);
            match layer.join(below).symlink_metadata() {
                Ok(found) if above == name || !found.is_dir() => return taken(above),
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alias_needs_unoccupied_path() {
        let shown = |inside: &str, kind| Source {
            host: "/somewhere".into(),
            inside: inside.into(),
            kind,
            folder: true,
            identity: None,
        };
        let sources = [
            shown(PROJECT, SourceKind::Workspace),
            shown("/opt/tool", SourceKind::Toolchain),
            shown("/data", SourceKind::ReadOnly),
        ];
        for (name, spot_of) in [
            ("/root/project", Some(Spot::Root)),
            ("/home/somebody/project", Some(Spot::Root)),
            ("/home/sandboxed/project", Some(Spot::Root)),
            ("/var/lib/jenkins/workspace/a b", Some(Spot::Root)),
            ("/run/user/1000/project", Some(Spot::Root)),
            ("/project", Some(Spot::Root)),
            ("/opt/other", Some(Spot::Root)),
            ("/tmp/project", Some(Spot::Scratch)),
            ("/var/tmp/a/b", Some(Spot::Scratch)),
            ("/dev/shm/a", Some(Spot::Scratch)),
            ("/home/sandbox/other", Some(Spot::Scratch)),
            // The sandbox's own paths.
            ("/home/sandbox/project", None),
            ("/home/sandbox/project/below", None),
            ("/home/sandbox", None),
            ("/home", None),
            ("/", None),
            ("/tmp", None),
            ("/var", None),
            ("/var/tmp", None),
            ("/run", None),
            ("/proc/self/project", None),
            ("/dev/project", None),
            ("/sys/project", None),
            ("/usr/src/app", None),
            ("/etc/project", None),
            ("/lib/project", None),
            // Something is mounted at or above the path; a mount below it is kept.
            ("/opt/tool", None),
            ("/opt/tool/project", None),
            ("/opt", Some(Spot::Root)),
            ("/data/project", None),
            // Not absolute paths without `..`.
            ("relative", None),
            ("/a/../usr", None),
        ] {
            assert_eq!(spot(Path::new(name), None, &sources).ok(), spot_of, "{name}");
        }
    }

    #[test]
    fn mounts_below_alias_are_preserved() {
        let list = |below: &Path| -> io::Result<Vec<OsString>> {
            Ok(match below.to_str() {
                Some("") => vec![".venv".into(), "src".into(), "a b".into()],
                Some("a b") => vec![".venv".into(), "x".into()],
                other => panic!("{other:?} was listed"),
            })
        };
        let made = |there: &[&str]| {
            let there: Vec<&Path> = there.iter().map(Path::new).collect();
            let mut made = Vec::new();
            around(Path::new("/root/p"), &there, &list, Path::new(""), &mut made).unwrap();
            made.into_iter()
                .map(|(at, says)| (at.to_str().unwrap().to_owned(), says.to_str().unwrap().to_owned()))
                .collect::<Vec<_>>()
        };
        let link = |below: &str| (format!("/root/p{below}"), format!("{PROJECT}{below}"));
        assert_eq!(made(&[]), [link("")]);
        assert_eq!(made(&["/root/pp", "/root"]), [link("")]);
        assert_eq!(made(&["/root/p/.venv"]), [link("/src"), link("/a b")]);
        assert_eq!(made(&["/root/p/.venv", "/root/p/a b/.venv"]), [link("/src"), link("/a b/x")]);
        let many = |_: &Path| Ok((0..=MAX_LINKS).map(|n| n.to_string().into()).collect());
        let there = [Path::new("/root/p/x")];
        assert!(around(Path::new("/root/p"), &there, &many, Path::new(""), &mut Vec::new()).is_err());
    }

    #[test]
    fn alias_covers_no_image_path() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
        std::fs::create_dir_all(one.join("srv/app")).unwrap();
        std::fs::create_dir_all(two.join("home")).unwrap();
        std::os::unix::fs::symlink("/elsewhere", two.join("link")).unwrap();
        std::fs::write(two.join("home/file"), "").unwrap();
        let image = ImageRoot { layers: vec![one, two], top: Vec::new() };
        for (name, is_free) in [
            ("/srv/app", false),
            ("/srv/app/project", true),
            ("/srv/other", true),
            ("/link/project", false),
            ("/home/file", false),
            ("/home/file/project", false),
            ("/home/me/project", true),
        ] {
            assert_eq!(spot(Path::new(name), Some(&image), &[]).is_ok(), is_free, "{name}");
        }
    }
}
