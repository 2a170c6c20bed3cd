//! Places where a commit of a caller may put a file without a person's consent: no program of the operator's is looked
//! up there.

use std::path::{Path, PathBuf};

use hotcell_toolchain::{Foreign, Surroundings};
use hotcell_workspace::protected;

/// Removes from the surroundings each setting that leads to a place below one of the folders `commit` where a caller's
/// commit may put a file, and records these folders, so that a lookup by another way is refused there as well.
pub fn without_plantable(mut around: Surroundings, commit: &[PathBuf]) -> Surroundings {
    if commit.is_empty() {
        return around;
    }
    around.foreign = Foreign::new(commit, |path| protected(path).is_some());
    let is_free = |path: &Path| {
        let real = path.canonicalize().ok();
        around.foreign.holds(path) || real.is_some_and(|real| around.foreign.holds(&real))
    };
    if let Some(path) = around.path.take() {
        let kept = std::env::split_paths(&path).filter(|folder| !is_free(folder));
        // An empty one would stand for the current folder.
        around.path = std::env::join_paths(kept).ok().filter(|kept| !kept.is_empty());
    }
    around.virtual_env = around.virtual_env.take().filter(|folder| !is_free(folder));
    let mut env = std::mem::take(&mut around.env);
    env.retain(|_, value| !Path::new(value).is_absolute() || !is_free(Path::new(value)));
    around.env = env;
    around
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn plantable_paths_are_not_operator_settings() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let at = |below: &str| top.join(below);
        for folder in ["work/tool/bin", "work/.venv/bin", "own/bin"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        std::os::unix::fs::symlink("../work/tool", at("own/link")).unwrap();
        let around = |folders: &[&str], root: &str| Surroundings {
            path: Some(std::env::join_paths(folders.iter().map(|f| at(f))).unwrap()),
            virtual_env: Some(at(root)),
            env: [(OsString::from("PYENV_ROOT"), at(root).into()), ("PYENV_VERSION".into(), "3".into())]
                .into(),
            ..Surroundings::default()
        };
        let commit = [at("work")];
        let all = ["work/tool/bin", "own/bin", "own/link/bin", "work/.venv/bin", "work", "work/not/there"];
        let kept = without_plantable(around(&all, "own/link"), &commit);
        assert_eq!(kept.path, Some(std::env::join_paths([at("own/bin"), at("work/.venv/bin")]).unwrap()));
        assert_eq!((kept.virtual_env, kept.env.len()), (None, 1));
        assert_eq!(without_plantable(around(&["work/tool/bin"], "work/tool"), &commit).path, None);
        assert!(kept.foreign.holds(&at("work/x")) && !kept.foreign.holds(&at("work/.venv/x")));
        let own = around(&all, "own");
        assert_eq!(without_plantable(own.clone(), &[]), own);
        assert_eq!(without_plantable(own.clone(), &commit).virtual_env, own.virtual_env);
    }
}
