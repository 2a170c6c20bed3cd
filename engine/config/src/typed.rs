//! Paths typed by a person, with links on the way that others made.
//!
//! A user who types `clone/sub` has not checked if `sub` is a link. A link in a repository, or in the current
//! project, came with unreviewed code: it may lead elsewhere within that repository or project, but not
//! outside. Links outside all repositories are the user's own. This module never opens the target of a path.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Maximum number of links followed, like the kernel's. `path_resolution(7)`
const MAX_LINKS: usize = 40;
/// Names that mark a folder as the top of a repository.
const REPOSITORIES: [&str; 9] =
    [".git", ".hg", ".jj", ".svn", ".sl", ".bzr", ".pijul", "_darcs", ".fslckout"];

/// A link that leads out of its repository or project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Astray {
    /// The link; its path contains no other links.
    pub link: PathBuf,
    /// Repository or project that contains it.
    pub tree: PathBuf,
    /// Target of the typed path.
    pub to: PathBuf,
}

impl std::fmt::Display for Astray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} is a link that came with {} and leads to {}, which is not in it; name that itself if it is meant",
            self.link.display(),
            self.tree.display(),
            self.to.display()
        )
    }
}

/// Resolves an absolute path, existing or not, into one without links and `..`.
///
/// `trees` are folders, without links, that count as repositories. `home` and the folders above it never
/// count: a user who keeps the home folder in a repository made its links.
///
/// # Errors
/// The first link on the way that leads out of its repository or tree; the path itself, when its links form a
/// loop.
pub fn real(path: &Path, trees: &[PathBuf], home: Option<&Path>) -> Result<PathBuf, Astray> {
    let mut at = PathBuf::from("/");
    let mut todo: VecDeque<OsString> = path.components().map(|part| part.as_os_str().to_owned()).collect();
    let mut links: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut followed = 0;
    while let Some(name) = todo.pop_front() {
        match Path::new(&name).components().next() {
            Some(Component::RootDir) => at = PathBuf::from("/"),
            Some(Component::ParentDir) => {
                at.pop();
            }
            Some(Component::Normal(_)) => {
                let next = at.join(&name);
                let Ok(says) = std::fs::read_link(&next) else {
                    at = next;
                    continue;
                };
                followed += 1;
                if followed > MAX_LINKS {
                    return Err(Astray { link: next.clone(), tree: at, to: next });
                }
                if let Some(tree) = tree_of(&at, trees, home) {
                    links.push((next, tree));
                }
                let rest = std::mem::take(&mut todo);
                todo = says.components().map(|part| part.as_os_str().to_owned()).chain(rest).collect();
            }
            _ => {}
        }
    }
    match links.into_iter().find(|(_, tree)| !at.starts_with(tree)) {
        Some((link, tree)) => Err(Astray { link, tree, to: at }),
        None => Ok(at),
    }
}

/// Like [`real`], for this process's home folder and paths relative to `cwd`.
///
/// # Errors
/// Like [`real`].
pub fn real_from(cwd: &Path, path: &Path, trees: &[PathBuf]) -> Result<PathBuf, Astray> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let home = home.map(|home| home.canonicalize().unwrap_or(home));
    real(&cwd.join(path), trees, home.as_deref())
}

/// The innermost repository or tree that contains a folder without links.
fn tree_of(folder: &Path, trees: &[PathBuf], home: Option<&Path>) -> Option<PathBuf> {
    let is_home = |top: &Path| top == Path::new("/") || home.is_some_and(|home| home.starts_with(top));
    let is_top = |top: &Path| REPOSITORIES.iter().any(|name| top.join(name).symlink_metadata().is_ok());
    let mut above = folder.ancestors();
    above
        .find(|top| trees.iter().any(|tree| tree == top) || !is_home(top) && is_top(top))
        .map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    /// A home with a clone, a folder of links and a secret.
    fn home() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        for folder in ["clone/.git", "clone/src", "clone/deep/er", "secret/in", "own"] {
            std::fs::create_dir_all(home.join(folder)).unwrap();
        }
        for (link, to) in [
            ("clone/out", "../secret"),
            ("clone/deep/out", "/nonexistent/file"),
            ("clone/in", "src"),
            ("clone/back", "../clone/src"),
            ("clone/loop", "loop"),
            ("clone/twice", "out"),
            ("own/clone", "../clone"),
            ("own/secret", "../secret"),
        ] {
            symlink(to, home.join(link)).unwrap();
        }
        (dir, home)
    }

    #[test]
    fn repository_links_stay_inside_user_links_may_leave() {
        let (_dir, home) = home();
        for (path, want) in [
            ("clone/src", Ok("clone/src")),
            ("clone/in", Ok("clone/src")),
            ("clone/back/x", Ok("clone/src/x")),
            ("clone/../secret", Ok("secret")),
            ("own/secret/in", Ok("secret/in")),
            ("own/clone/in", Ok("clone/src")),
            ("own/nothing", Ok("own/nothing")),
            ("clone/out", Err("clone/out")),
            ("clone/out/in", Err("clone/out")),
            ("clone/twice/in", Err("clone/twice")),
            ("own/clone/out", Err("clone/out")),
            ("clone/deep/out", Err("clone/deep/out")),
            ("clone/loop", Err("clone/loop")),
        ] {
            let got = real(&home.join(path), &[], Some(&home)).map_err(|astray| astray.link);
            assert_eq!(got, want.map(|p| home.join(p)).map_err(|p| home.join(p)), "{path}");
        }
    }

    #[test]
    fn home_repository_belongs_to_user() {
        let (_dir, home) = home();
        std::fs::create_dir(home.join(".git")).unwrap();
        assert_eq!(real(&home.join("own/secret"), &[], Some(&home)), Ok(home.join("secret")));
        assert!(real(&home.join("own/secret"), &[], None).is_ok());
        let own = [home.join("own")];
        assert_eq!(real(&home.join("own/secret"), &own, Some(&home)).unwrap_err().tree, own[0]);
    }

    proptest! {
        /// For any links in a repository: a path that begins in it ends in it, or is refused.
        #[test]
        fn repository_paths_never_resolve_outside(
            links in prop::collection::vec(("[ab]/[cd]|[cd]", "(\\.\\./){0,3}([abcd]|secret|repo/[abcd]|/[abcd])(/[abcd]){0,2}"), 0..5),
            path in "[abcd](/[abcd.]{1,2}){0,3}",
        ) {
            let dir = tempfile::tempdir().unwrap();
            let home = dir.path().canonicalize().unwrap();
            for folder in ["repo/.hg", "repo/a", "repo/b", "secret"] {
                std::fs::create_dir_all(home.join(folder)).unwrap();
            }
            for (link, to) in &links {
                let _ = symlink(to, home.join("repo").join(link));
            }
            let typed = home.join("repo").join(&path);
            // `..` in a typed path is the user's own choice.
            prop_assume!(!typed.components().any(|part| part == Component::ParentDir));
            match real(&typed, &[], Some(&home)) {
                Ok(at) => {
                    prop_assert!(at.starts_with(home.join("repo")), "{:?}", at);
                    prop_assert!(typed.canonicalize().map_or(true, |there| there == at), "{:?}", at);
                }
                Err(astray) => {
                    let inside = typed.canonicalize().is_ok_and(|there| there.starts_with(home.join("repo")));
                    prop_assert!(!inside, "{:?}", astray);
                }
            }
        }
    }
}
