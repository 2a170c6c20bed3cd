//! The source of a run: read from where it is, and shown inside.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use hotcell_config::typed;
use hotcell_sandbox::policy::{Bind, HOME, PROJECT_NAME, Policy};
use hotcell_sandbox::temporary;

use super::{Language, MAX_SOURCE_BYTES, RunRequest, Source};
use crate::language;

impl RunRequest {
    /// Makes a source visible inside; returns its path there, and its text.
    pub(super) fn place_source(
        &self,
        language: Language,
        source: &Source,
        cwd: &Path,
        policy: &mut Policy,
        kept: &mut Option<tempfile::TempDir>,
    ) -> Result<(PathBuf, Vec<u8>), String> {
        let home = self.home(policy.shape.confinement);
        let (host, name, text) = match source {
            Source::Inside(path, text) => return Ok((home.join(PROJECT_NAME).join(path), text.clone())),
            Source::Text(text) => {
                let name = language.file_name(text);
                let kept_text = || {
                    let folder = temporary::folder()?;
                    let host = temporary::file(&folder, &name, text)?;
                    Ok::<_, std::io::Error>((folder, host))
                };
                let (folder, host) = kept_text().map_err(|e| {
                    format!("standard input cannot be kept for the run: {e}; make room in TMPDIR")
                })?;
                *kept = Some(folder);
                (host, OsString::from(name), text.clone())
            }
            Source::File(file) => {
                let bad = |why: &str| format!("the file {} {why}", file.display());
                typed::real_from(cwd, file, &[]).map_err(|e| bad(&format!("is not read: {e}")))?;
                let host = cwd.join(file).canonicalize().map_err(|e| bad(&format!("cannot be read: {e}")))?;
                if !host.is_file() {
                    return Err(bad("is not a file; name a source file, or - for standard input"));
                }
                let below = self.in_workspace(&host, cwd);
                if below.is_none() && self.is_written_in_workspace(file, cwd) {
                    return Err(bad(&format!(
                        "is a link of the workspace to {}, which is not in it; name that file if the program may read it",
                        host.display()
                    )));
                }
                let text = read_source(&host).map_err(|e| bad(&format!("cannot be read: {e}")))?;
                if let Some(below) = below {
                    return Ok((home.join(PROJECT_NAME).join(below), text));
                }
                let own = file.file_name().filter(|n| *n != PROJECT_NAME && *n != language::COMPILED);
                let name = own.map_or_else(|| language.file_name(&text).into(), OsStr::to_owned);
                (host, name, text)
            }
        };
        policy.job.binds.push(Bind {
            host,
            inside: Path::new(HOME).join(&name),
            writable: false,
            copy_on_write: false,
            identity: None,
        });
        Ok((home.join(name), text))
    }

    /// True when a file's path leads through the workspace, whatever its target: links in it are untrusted.
    pub(super) fn is_written_in_workspace(&self, file: &Path, cwd: &Path) -> bool {
        let Some(named) = self.workspace.as_ref().map(|workspace| cwd.join(workspace)) else { return false };
        let real = named.canonicalize().ok();
        // Checks each parent folder of the file from the top: from the workspace on, the path is untrusted.
        cwd.join(file).ancestors().skip(1).any(|folder| {
            folder == named
                || real.as_ref().is_some_and(|real| folder.canonicalize().is_ok_and(|f| f == *real))
        })
    }

    /// Path of a file relative to the workspace, if it is inside.
    pub(super) fn in_workspace(&self, host: &Path, cwd: &Path) -> Option<PathBuf> {
        let workspace = cwd.join(self.workspace.as_ref()?).canonicalize().ok()?;
        Some(host.strip_prefix(workspace).ok()?.to_owned())
    }
}

/// Reads a source of any length, up to the limit.
fn read_source(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(MAX_SOURCE_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_SOURCE_BYTES {
        return Err(std::io::Error::other(format!("it is longer than {} MiB", MAX_SOURCE_BYTES >> 20)));
    }
    Ok(text)
}
