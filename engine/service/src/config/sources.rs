//! Where configuration is read: the files of the user and the project, the environment, profiles.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use hotcell_egress::AllowList;
use hotcell_guard::quarantine::Channel;
use hotcell_sandbox::profile::{self, FileError, Profile, ProfileError};

use crate::approvals::state::AskedBy;
use crate::network::NetworkSetting;
use crate::quarantine::{Keep, RETENTION};
use crate::reading::Reading;
use crate::report::{Code, ErrorReport};
use crate::state::StateChoice;

use super::settings::{Settings, is_file};

/// The project's file.
pub const PROJECT_FILE: &str = "hotcell.toml";

/// What the sources say, before they are joined.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// The user's file.
    pub user: Settings,
    /// The environment.
    pub environment: Settings,
    /// The project's file, its path and its text.
    pub project: Option<ProjectFile>,
    /// Which way whoever asks came, and the state folder; put in by the front end. Without it nothing is held.
    pub asker: Option<(Channel, StateChoice)>,
    /// What is kept between readings of what runs; nothing unless the front end says where.
    pub reading: Reading,
    /// The folder of the user's file, also where there is no file.
    pub home: Option<PathBuf>,
}

/// A project's own file.
#[derive(Clone, Debug)]
pub struct ProjectFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
    /// The same, understood.
    pub settings: Settings,
}

/// Where configuration is looked for.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// A file that was named (`--config`): it must be there.
    pub named: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME/hotcell/config.toml`, or the same below `~/.config`.
    pub usual: Option<PathBuf>,
    /// The folder of the project.
    pub project: Option<PathBuf>,
}

impl Places {
    /// The usual file, by `XDG_CONFIG_HOME` and `HOME`; relative values do not count.
    #[must_use]
    pub fn usual(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
        let absolute = |p: &PathBuf| p.is_absolute();
        let base = xdg.filter(absolute).or_else(|| home.filter(absolute).map(|h| h.join(".config")))?;
        Some(base.join("hotcell/config.toml"))
    }
}

impl Configuration {
    /// Reads what is there.
    ///
    /// # Errors
    /// A report with file, line and nearest key.
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
            // Whatever is in the way counts, but for "there is none".
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
        Ok(Self { user, environment, project, asker: None, reading: Reading::default(), home })
    }

    /// Who is asked for approvals. A project's file can only say that it is the command line.
    #[must_use]
    pub fn approvals(&self) -> AskedBy {
        let of_project = self.project.as_ref().and_then(|file| file.settings.approvals);
        match of_project {
            Some(AskedBy::Cli) => AskedBy::Cli,
            _ => self.environment.approvals.or(self.user.approvals).unwrap_or_default(),
        }
    }

    /// The hosts that the operator has named: those that callers may ask a person for (`mcp.hosts`), and those that programs reach.
    #[must_use]
    pub fn hosts(&self) -> AllowList {
        let reached = [&self.environment, &self.user].into_iter().find_map(|s| s.network.as_ref());
        let reached = match reached {
            Some(NetworkSetting::Hosts(list)) => list.rules().iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        let all = self.user.mcp.hosts.iter().chain(&reached).map(String::as_str);
        // Each was read when the configuration was; too many of them are none.
        AllowList::of(all).unwrap_or_default()
    }

    /// Where what is refused is held, and for whom. A project's file can only ask for a second person.
    #[must_use]
    pub fn keep(&self) -> Option<Keep> {
        let (channel, state) = self.asker.clone()?;
        let of_project = self.project.as_ref().and_then(|file| file.settings.quarantine.two_persons);
        Some(Keep {
            state,
            channel,
            two_persons: self.user.quarantine.two_persons == Some(true) || of_project == Some(true),
            retention: self.user.quarantine.retention.unwrap_or(RETENTION),
        })
    }
}

/// A project's file is as little trusted as its code: opened below the project's folder, never waited for.
fn read_project(folder: &Path) -> Result<Option<ProjectFile>, FileError> {
    let path = folder.join(PROJECT_FILE);
    // A project that is not there is somebody else's error.
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
/// [`ProfileError`].
pub fn find_profile(profile: &OsStr) -> Result<Profile, ProfileError> {
    if is_file(profile) {
        let path = std::path::absolute(profile).unwrap_or_else(|_| profile.into());
        return Profile::from_file(&path);
    }
    Profile::named(&profile.to_string_lossy())
}

/// A file's mistake as a report.
#[must_use]
pub fn of_file(error: FileError) -> ErrorReport {
    let report = ErrorReport::new(Code::Configuration, error.to_string());
    match error.key {
        Some(key) => report.field(key),
        None => report,
    }
}

/// A profile's mistake as a report; `field` is where it was named.
#[must_use]
pub fn of_profile(error: ProfileError, field: &str) -> ErrorReport {
    match error {
        ProfileError::Unknown { name, nearest } => {
            ErrorReport::new(Code::UnknownName, format!("there is no profile {name:?}")).field(field).hint(
                format!(
                    "did you mean {nearest:?}? there are {}; a file is given with a slash, as ./mine.toml",
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
    fn a_project_s_file_is_not_followed_out_or_waited_for() {
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
