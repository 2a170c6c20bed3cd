//! The workspace of a request: what of it and around it a run sees, and the surroundings of its lookup.

use std::ffi::{OsStr, OsString};
use std::path::{Component, PathBuf};

use hotcell_config::{Mode, typed};
use hotcell_sandbox::policy::{Confinement, Policy};
use hotcell_toolchain::{Asks, Surroundings};

use super::{PATH, RunRequest, RunTarget};
use crate::build_folders::{self, Hidden};
use crate::{mounts_below, outer_git};

impl RunRequest {
    /// Hides the build results of the project's own tools; nothing if that fails.
    pub(super) fn hide(
        &self,
        policy: &mut Policy,
        mode: Mode,
        folders: &mut Vec<tempfile::TempDir>,
    ) -> Vec<Hidden> {
        let own = self.kept.is_none() && policy.job.layers.is_empty() && mode != Mode::Off;
        let Some(project) = policy.job.workspace.clone().filter(|_| own) else { return Vec::new() };
        if policy.shape.confinement == Confinement::LandlockOnly {
            return Vec::new();
        }
        let words: &[OsString] = match &self.what {
            RunTarget::Program(argv) => argv,
            RunTarget::Source(_, _, arguments) => arguments,
        };
        let hidden = build_folders::hidden(&project, words);
        if hidden.is_empty() {
            return hidden;
        }
        match build_folders::layer(&project, &hidden) {
            Ok(layer) => {
                policy.job.layers.push(layer.path().to_owned());
                folders.push(layer);
                hidden
            }
            Err(error) => {
                tracing::warn!("what was built before cannot be hidden from the run: {error}");
                Vec::new()
            }
        }
    }

    /// Host paths of the workspace, which also lead to it inside: installed programs contain them. A caller
    /// over MCP gets none of them, unless it named a folder that the operator configured.
    pub(super) fn names(&self, around: &Surroundings) -> Vec<PathBuf> {
        let Some(workspace) = &self.workspace else { return Vec::new() };
        let is_own = self.kept.as_ref().is_none_or(|kept| kept.is_over_a_folder());
        if !is_own || around.asks == Asks::Caller && self.kept.is_none() {
            return Vec::new();
        }
        let typed = around.cwd.join(workspace);
        let real = around.project.clone().into_iter();
        // The typed path, if it contains links, but without `.`; a path with `..` depends on the links.
        let straight = !typed.components().any(|part| part == Component::ParentDir);
        let typed = Some(typed.components().collect())
            .filter(|typed| straight && Some(typed) != around.project.as_ref());
        real.chain(typed).collect()
    }

    /// Shows what belongs to the workspace but lies outside its folder: mounts in it, and the repository of a
    /// worktree or submodule.
    pub(super) fn show_around(
        &self,
        policy: &mut Policy,
        around: &Surroundings,
    ) -> Result<Option<tempfile::TempDir>, String> {
        let Some(project) = around.project.as_deref() else { return Ok(None) };
        // Without a mount namespace the workspace is a copy that includes its mounts, and other paths cannot
        // be provided.
        if policy.shape.confinement == Confinement::LandlockOnly {
            return Ok(None);
        }
        policy.job.binds.splice(0..0, mounts_below::binds(project)?);
        if around.asks == Asks::Caller {
            return Ok(None);
        }
        match outer_git::of(project, policy.shape.image.as_ref()) {
            Ok(Some(shown)) => {
                policy.job.binds.extend(shown.binds);
                Ok(Some(shown.copies))
            }
            Ok(None) => Ok(None),
            Err(why) => {
                tracing::warn!(target: "hotcell_contents", "git finds no repository inside: {why}");
                Ok(None)
            }
        }
    }

    pub(super) fn layers(&self) -> Vec<PathBuf> {
        self.kept.as_ref().map(|kept| kept.mount().1).unwrap_or_default()
    }

    /// Without mounts there are no layers: makes a plain copy of the layered view.
    pub(super) fn plain(&self, policy: &mut Policy) -> Result<Option<tempfile::TempDir>, String> {
        let Some(kept) = &self.kept else { return Ok(None) };
        let copy = kept.copy(&policy.job.limits).map_err(|e| {
            format!("the workspace cannot be copied for the run: {e}; raise ‹max_disk› or ‹max_files›, or use a profile with namespaces")
        })?;
        policy.job.workspace = Some(copy.path().to_owned());
        policy.job.layers.clear();
        Ok(Some(copy))
    }

    /// The caller's surroundings for the lookup, with the project and the named toolchains.
    pub(super) fn surroundings(
        &self,
        mut around: Surroundings,
        toolchains: &[PathBuf],
    ) -> Result<Surroundings, String> {
        if let Some(workspace) = &self.workspace {
            let path = around.cwd.join(workspace);
            typed::real_from(&around.cwd, workspace, &[])
                .map_err(|e| format!("the workspace {}: {e}", workspace.display()))?;
            let folder = path.canonicalize().map_err(|e| {
                format!(
                    "the workspace {} cannot be opened: {e}; name a folder that exists",
                    workspace.display()
                )
            })?;
            if !folder.is_dir() {
                return Err(format!("the workspace {} is not a folder; name one", workspace.display()));
            }
            around.project = Some(folder);
        }
        if !toolchains.is_empty() {
            let mut path = OsString::new();
            for toolchain in toolchains {
                let real = typed::real_from(&around.cwd, toolchain, around.project.as_slice())
                    .map_err(|e| format!("the toolchain {}: {e}", toolchain.display()))?;
                let toolchain = around.cwd.join(toolchain);
                if [&real, &toolchain].into_iter().any(|path| around.foreign.holds(path)) {
                    return Err(format!(
                        "the toolchain {} lies in a folder of mcp.commit, where callers may put files; move one of the two",
                        toolchain.display()
                    ));
                }
                if !toolchain.exists() {
                    return Err(format!(
                        "the toolchain {} is not there; name a folder that exists",
                        toolchain.display()
                    ));
                }
                let bin = toolchain.join("bin");
                path.push(if bin.is_dir() { &bin } else { &toolchain });
                path.push(":");
                around.granted.push(toolchain);
            }
            path.push(around.path.as_deref().unwrap_or(OsStr::new(PATH)));
            around.path = Some(path);
        }
        Ok(around)
    }
}
