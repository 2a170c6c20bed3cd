//! Reads configuration: the files of the user and the project, the environment, profiles.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use hotcell_egress::AllowList;
use hotcell_guard::quarantine::Channel;
use hotcell_sandbox::profile::{self, FileError, Profile, ProfileError};
use hotcell_scanning::session::ScanState;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateChoice;

use crate::network::NetworkSetting;

use super::asked_by::AskedBy;
use super::settings::{Settings, is_file};

/// File name of the project's file.
pub const PROJECT_FILE: &str = "hotcell.toml";

/// Settings of all sources, before they are merged.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// The user's file.
    pub user: Settings,
    /// The environment.
    pub environment: Settings,
    /// The project's file, with path and text.
    pub project: Option<ProjectFile>,
    /// Channel of the caller, and the state folder; set by the front end. Without it no refused code is held.
    pub asker: Option<(Channel, StateChoice)>,
    /// State kept between scans; nothing, unless the front end says where.
    pub reading: ScanState,
    /// Folder of the user's file, even when there is no file.
    pub home: Option<PathBuf>,
}

/// A project's own file.
#[derive(Clone, Debug)]
pub struct ProjectFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Text of the file.
    pub text: String,
    /// Parsed settings.
    pub settings: Settings,
}

/// Places to search for configuration.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// File named by `--config`: it must exist.
    pub named: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME/hotcell/config.toml`, or `hotcell/config.toml` below `~/.config`.
    pub usual: Option<PathBuf>,
    /// The folder of the project.
    pub project: Option<PathBuf>,
}

impl Places {
    /// The default file by `XDG_CONFIG_HOME` and `HOME`; relative values are ignored.
    #[must_use]
    pub fn usual(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
        let absolute = |p: &PathBuf| p.is_absolute();
        let base = xdg.filter(absolute).or_else(|| home.filter(absolute).map(|h| h.join(".config")))?;
        Some(base.join("hotcell/config.toml"))
    }
}

impl Configuration {
    /// Reads all sources.
    ///
    /// # Errors
    /// A report with file, line and nearest key, when a source cannot be read or is invalid.
    pub fn read(
        places: &Places,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        cwd: &Path,
    ) -> Result<Self, ErrorReport> {
        let user = match (&places.named, &places.usual) {
            (Some(named), _) => {
                let path = cwd.join(named);
                Settings::parse(&profile::read_text(&path).map_err(of_file)?, &path).map_err(of_file)?
            }
            // Any entry at this path counts, even one that cannot be read.
            (None, Some(usual)) if usual.symlink_metadata().is_ok() => {
                Settings::parse(&profile::read_text(usual).map_err(of_file)?, usual).map_err(of_file)?
            }
            _ => Settings::default(),
        };
        let environment = Settings::from_environment(variables, cwd)?;
        let project = match &places.project {
            Some(folder) => read_project(folder).map_err(of_file)?,
            None => None,
        };
        let file = places.named.as_ref().map(|named| cwd.join(named)).or_else(|| places.usual.clone());
        let home = file.and_then(|file| Some(file.parent()?.to_owned()));
        Ok(Self { user, environment, project, asker: None, reading: ScanState::default(), home })
    }

    /// Default time that a call waits for the end of its run: 25 s unless configured, since several clients give
    /// up after 30 s.
    #[must_use]
    pub fn default_wait(&self) -> std::time::Duration {
        let said = self.environment.mcp.default_wait.or(self.user.mcp.default_wait);
        said.unwrap_or(std::time::Duration::from_secs(25))
    }

    /// Names of the toolsets that clients of an MCP server are offered; none for the default one.
    #[must_use]
    pub fn toolsets(&self) -> &[String] {
        let sources = [&self.environment.mcp.toolsets, &self.user.mcp.toolsets];
        sources.into_iter().find(|names| !names.is_empty()).map_or(&[], Vec::as_slice)
    }

    /// Who is asked for approvals. A project's file can only choose the command line.
    #[must_use]
    pub fn approvals(&self) -> AskedBy {
        let of_project = self.project.as_ref().and_then(|file| file.settings.approvals);
        match of_project {
            Some(AskedBy::Cli) => AskedBy::Cli,
            _ => self.environment.approvals.or(self.user.approvals).unwrap_or_default(),
        }
    }

    /// Hosts named by the operator: those that callers may ask a person for (`mcp.hosts`), and those that
    /// programs may reach.
    #[must_use]
    pub fn hosts(&self) -> AllowList {
        let reached = [&self.environment, &self.user].into_iter().find_map(|s| s.run.network.as_ref());
        let reached = match reached {
            Some(NetworkSetting::Hosts(list)) => list.rules().iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        let all = self.user.mcp.hosts.iter().chain(&reached).map(String::as_str);
        // Each rule was checked when the configuration was read; if there are too many, no host is allowed.
        AllowList::of(all).unwrap_or_default()
    }

    /// Scan state for this caller: a caller of a server learns nothing from the scans of others.
    #[must_use]
    pub fn reading(&self) -> ScanState {
        match &self.asker {
            Some((Channel::Model(caller) | Channel::Elicited(caller), _)) => self.reading.of_caller(caller),
            Some((Channel::Cli | Channel::Web | Channel::Team(_) | Channel::Own, _)) | None => {
                self.reading.clone()
            }
        }
    }
}

/// Reads the project's file, which is as untrusted as its code: opened below the project's folder, without
/// blocking.
fn read_project(folder: &Path) -> Result<Option<ProjectFile>, FileError> {
    let path = folder.join(PROJECT_FILE);
    // A missing project is reported elsewhere.
    let Ok(dir) = Dir::open_ambient_dir(folder, ambient_authority()) else { return Ok(None) };
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(nix::libc::O_NONBLOCK);
    let file = match dir.open_with(PROJECT_FILE, &options) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(FileError::of_file(&path, format!("cannot be read: {e}"))),
    };
    let text = profile::text_of(file.into_std(), &path)?;
    let settings = Settings::parse(&text, &path)?;
    Ok(Some(ProjectFile { path, text, settings }))
}

/// Finds a profile by its name or file.
///
/// # Errors
/// [`ProfileError`] when there is no such profile, or its file cannot be read.
pub fn find_profile(profile: &OsStr) -> Result<Profile, ProfileError> {
    if is_file(profile) {
        let path = std::path::absolute(profile).unwrap_or_else(|_| profile.into());
        return Profile::from_file(&path);
    }
    Profile::named(&profile.to_string_lossy())
}

/// Converts a file's error into a report.
#[must_use]
pub fn of_file(error: FileError) -> ErrorReport {
    let report = ErrorReport::new(Code::Configuration, error.to_string());
    match error.key {
        Some(key) => report.field(key),
        None => report,
    }
}

/// Converts a profile's error into a report; `field` is where the profile was named.
#[must_use]
pub fn of_profile(error: ProfileError, field: &str) -> ErrorReport {
    match error {
        ProfileError::Unknown { name, nearest } => {
            let near = nearest.map(|near| format!("did you mean {near:?}? ")).unwrap_or_default();
            ErrorReport::new(Code::UnknownName, format!("there is no profile {name:?}")).field(field).hint(
                format!(
                    "{near}there are {}; a file is given with a slash, as ./mine.toml",
                    Profile::names().collect::<Vec<_>>().join(", ")
                ),
            )
        }
        ProfileError::File(error) => of_file(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_file_link_or_pipe_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(PROJECT_FILE);
        assert!(read_project(dir.path()).unwrap().is_none());
        assert!(read_project(&dir.path().join("none")).unwrap().is_none());
        std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
        assert!(read_project(dir.path()).is_err());
        std::fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read_project(dir.path()).unwrap_err().to_string().contains("not a file"));
    }
}
