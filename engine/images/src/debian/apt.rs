//! Resolves and downloads packages with the host's apt: in a private folder, as the calling user, with an
//! empty list of installed packages. Nothing is installed, and the host's packages, sources and hooks are
//! left alone.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::sources::{self, Entry, Host, Sources};
use crate::stream::Digest;
use crate::tool::{self, ToolError};

/// Time limit for fetching the lists of a release, some 10 MB.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Time limit for resolving, which takes seconds.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit for downloading packages, up to hundreds of megabytes.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Package in every image, with the system's name and basic folders.
const BASE: &str = "base-files";

/// A resolved package of the archive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chosen {
    /// Package name.
    pub name: String,
    /// Package version, with the epoch.
    pub version: String,
    /// File name.
    pub file: String,
    /// File size in bytes.
    pub bytes: u64,
    /// Digest of the file in the archive's signed list.
    pub digest: Digest,
}

/// Reason why packages cannot be resolved or downloaded.
#[derive(Debug, thiserror::Error)]
pub enum AptError {
    /// apt is missing or fails.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The definition's release is not known.
    #[error("debian.suite: {0}")]
    Suite(String),
    /// The archive's keys are missing on this host.
    #[error(
        "{file} is missing: nothing could tell whether packages are the distribution's; install {package}"
    )]
    Keys {
        /// The keyring.
        file: &'static str,
        /// The package that provides it.
        package: &'static str,
    },
    /// apt's output cannot be understood.
    #[error("apt-get printed {0:?}, which is not understood")]
    Printed(String),
    /// The digest of a file differs from the one in the archive's list.
    #[error("{file} is not the file of the archive's signed list")]
    Digest {
        /// The package's file.
        file: String,
    },
    /// The private folder cannot be used.
    #[error("apt's private folder: {0}")]
    Io(#[from] io::Error),
}

/// apt with its configuration and lists in a private folder.
pub struct Apt {
    folder: TempDir,
    program: PathBuf,
    /// The release that packages come from.
    pub suite: String,
    /// The architecture, in Debian's terms.
    pub architecture: String,
}

impl Apt {
    /// Fetches the lists of a release; `None` means the host's own release.
    ///
    /// # Errors
    /// [`AptError::Suite`] when the release is not known; [`AptError::Keys`] when its keyring is missing;
    /// [`AptError::Tool`] when apt is missing or fails; [`AptError::Io`] when the private folder cannot be
    /// written.
    pub fn new(suite: Option<&str>) -> Result<Self, AptError> {
        let mend = "hotcell takes Debian packages by it: apt-get install apt (Fedora: dnf install apt)";
        let program = tool::find("apt-get", mend)?;
        let config = tool::find("apt-config", mend)?;
        // Any user may enter: when run as root, apt fetches as its own user `_apt`.
        let folder = hotcell_sandbox::temporary::folder()?;
        let at = |name: &str| folder.path().join(name);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        for name in ["lists/partial", "archives/partial", "conf.d", "sources.d", "log"] {
            fs::create_dir_all(at(name))?;
        }
        let mut dump = tool::command(&config, folder.path(), &[]);
        dump.arg("dump");
        let dump = tool::run(dump, "apt-config dump", RESOLVE_TIMEOUT)?;
        let dump = String::from_utf8_lossy(&dump);
        let architecture = value(&dump, "APT::Architecture")
            .ok_or_else(|| AptError::Printed("no APT::Architecture".to_owned()))?;
        let host = fs::read_to_string("/etc/os-release").ok().and_then(|text| Host::of_os_release(&text));
        let Sources { family, suite, text } =
            sources::choose(&host_entries(), host.as_ref(), suite, &architecture).map_err(AptError::Suite)?;
        let (file, package) = family.keyring();
        if text.contains(file) && !Path::new(file).exists() {
            return Err(AptError::Keys { file, package });
        }
        fs::write(at("sources.d/hotcell.sources"), text)?;
        fs::write(at("status"), "")?;
        fs::write(at("apt.conf"), configuration(folder.path(), &architecture, &kept(&dump)))?;
        let apt = Self { folder, program, suite, architecture };
        let mut update = apt.command();
        update.args(["--error-on=any", "update"]);
        tool::run(update, "apt-get update", UPDATE_TIMEOUT)?;
        Ok(apt)
    }

    /// Resolves these packages with all their dependencies, sorted by name.
    ///
    /// # Errors
    /// [`AptError::Tool`] when apt fails, with apt's message when a package does not exist;
    /// [`AptError::Printed`] when its output cannot be understood.
    pub fn resolve(&self, packages: &[String]) -> Result<Vec<Chosen>, AptError> {
        let printed =
            tool::run(self.install("--print-uris", packages), "resolving packages", RESOLVE_TIMEOUT)?;
        of_uris(&String::from_utf8_lossy(&printed))
    }

    /// Downloads the packages that [`Self::resolve`] returned for the same set, and checks each digest.
    /// Returns the files in the same order.
    ///
    /// # Errors
    /// [`AptError::Tool`] when apt fails; [`AptError::Digest`] when a file has another digest;
    /// [`AptError::Io`] when a file cannot be read.
    pub fn download(&self, packages: &[String], chosen: &[Chosen]) -> Result<Vec<PathBuf>, AptError> {
        tool::run(self.install("--download-only", packages), "downloading packages", DOWNLOAD_TIMEOUT)?;
        let archives = self.folder.path().join("archives");
        let checked = |package: &Chosen| {
            let path = archives.join(&package.file);
            let found = tool::digest(&path)?;
            match found == package.digest {
                true => Ok(path),
                false => Err(AptError::Digest { file: package.file.clone() }),
            }
        };
        chosen.iter().map(checked).collect()
    }

    fn command(&self) -> Command {
        let mut command = tool::command(&self.program, self.folder.path(), &[]);
        command
            .env("APT_CONFIG", self.folder.path().join("apt.conf"))
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    fn install(&self, how: &str, packages: &[String]) -> Command {
        let mut command = self.command();
        command.args(["-qq", "-y", how, "install", "--", BASE]).args(packages);
        command
    }
}

/// The host's configured package sources.
fn host_entries() -> Vec<Entry> {
    let mut files: Vec<PathBuf> = fs::read_dir("/etc/apt/sources.list.d")
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.push("/etc/apt/sources.list".into());
    files.sort();
    files
        .iter()
        .filter_map(|file| {
            let text = fs::read_to_string(file).ok()?;
            match file.extension()?.to_str()? {
                "list" => Some(sources::of_list(&text)),
                "sources" => Some(sources::of_sources(&text)),
                _ => None,
            }
        })
        .flatten()
        .collect()
}

/// The value of an option in the output of `apt-config dump`.
fn value(dump: &str, name: &str) -> Option<String> {
    let line = dump.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(" \""))?;
    line.strip_suffix("\";").filter(|v| !v.is_empty()).map(str::to_owned)
}

/// Lines of the host's configuration about reaching archives: proxies, timeouts, certificates. Options that
/// weaken signature checks, and hooks, are dropped.
fn kept(dump: &str) -> String {
    const KEPT: [&str; 6] = [
        "Acquire::http",
        "Acquire::https",
        "Acquire::Retries",
        "Acquire::ForceIPv",
        "Acquire::Check-",
        "Acquire::tor",
    ];
    let mut lines = String::new();
    for line in dump.lines().filter(|l| KEPT.iter().any(|k| l.starts_with(k)) && l.ends_with("\";")) {
        lines.push_str(line);
        lines.push('\n');
    }
    lines
}

/// apt's configuration. The file in `APT_CONFIG` is read first, so its paths keep apt from reading the host's
/// configuration.
fn configuration(folder: &Path, architecture: &str, kept: &str) -> String {
    let f = folder.display();
    format!(
        "Dir::Etc::parts \"{f}/conf.d\";\nDir::Etc::main \"/dev/null\";\n\
         Dir::Etc::sourcelist \"/dev/null\";\nDir::Etc::sourceparts \"{f}/sources.d\";\n\
         Dir::Etc::preferences \"/dev/null\";\nDir::Etc::preferencesparts \"{f}/conf.d\";\n\
         Dir::State \"{f}\";\nDir::State::status \"{f}/status\";\nDir::State::lists \"{f}/lists\";\n\
         Dir::Cache \"{f}\";\nDir::Cache::archives \"{f}/archives\";\nDir::Log \"{f}/log\";\n\
         APT::Architecture \"{architecture}\";\nAPT::Architectures {{ \"{architecture}\"; }};\n\
         APT::Install-Recommends \"false\";\nAPT::Install-Suggests \"false\";\n\
         APT::Keep-Downloaded-Packages \"true\";\nAcquire::Languages \"none\";\nAcquire::ForceHash \"SHA256\";\n{kept}"
    )
}

/// Parses the output of `--print-uris`: `'URI' FILE BYTES SHA256:DIGITS`.
fn of_uris(text: &str) -> Result<Vec<Chosen>, AptError> {
    let read = |line: &str| {
        let mut words = line.rsplit(' ');
        let (hash, bytes, file) = (words.next()?, words.next()?, words.next()?);
        let digest = Digest::parse(&format!("sha256:{}", hash.strip_prefix("SHA256:")?))?;
        let whole = file.strip_suffix(".deb")?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._+~%-".contains(&b);
        let good = whole.bytes().all(plain) && !whole.starts_with('.');
        let mut parts = whole.split('_').filter(|_| good);
        let (name, version, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
            return None;
        };
        Some(Chosen {
            name: name.to_owned(),
            version: version.replace("%3a", ":"),
            file: file.to_owned(),
            bytes: bytes.parse().ok()?,
            digest,
        })
    };
    let lines = text.lines().filter(|l| l.starts_with('\''));
    let mut all: Vec<Chosen> =
        lines.map(|l| read(l).ok_or_else(|| AptError::Printed(l.to_owned()))).collect::<Result<_, _>>()?;
    all.sort();
    match all.is_empty() {
        true => Err(AptError::Printed(text.chars().take(200).collect())),
        false => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_uris_are_parsed() {
        let digits = "0a".repeat(32);
        let text = format!(
            "W: a warning\n\
             'http://mirror/pool/main/z/zlib/zlib1g_1.2.13_amd64.deb' zlib1g_1%3a1.2.13.dfsg-1_amd64.deb 86684 SHA256:{digits}\n\
             'http://mirror/pool/b a/libstdc++6.deb' libstdc++6_12.2.0-14+deb12u1_amd64.deb 1 SHA256:{digits}\n"
        );
        let chosen = of_uris(&text).unwrap();
        let got: Vec<_> = chosen.iter().map(|c| (c.name.as_str(), c.version.as_str(), c.bytes)).collect();
        assert_eq!(got, [("libstdc++6", "12.2.0-14+deb12u1", 1), ("zlib1g", "1:1.2.13.dfsg-1", 86684)]);
        assert_eq!(chosen[1].file, "zlib1g_1%3a1.2.13.dfsg-1_amd64.deb");
        for line in [
            "",
            "'u' a_1_all.deb 1 MD5Sum:00",
            "'u' a_1_all.deb 1 ",
            &format!("'u' a_1_all.deb x SHA256:{digits}"),
            &format!("'u' a_1_all.deb -1 SHA256:{digits}"),
            &format!("'u' ../a_1_all.deb 1 SHA256:{digits}"),
            &format!("'u' a_1.deb 1 SHA256:{digits}"),
            &format!("'u' a_1_all_b.deb 1 SHA256:{digits}"),
            &format!("'u' a_1_all.exe 1 SHA256:{digits}"),
            &format!("'u' .._1_all.deb 1 SHA256:{digits}"),
        ] {
            assert!(matches!(of_uris(line), Err(AptError::Printed(_))), "{line}");
        }
    }

    #[test]
    fn host_apt_settings_apply_to_transport_only() {
        let dump = "APT::Architecture \"amd64\";\nAPT::Architectures:: \"amd64\";\nAcquire::http::Proxy \"http://p:1\";\n\
            Acquire::AllowInsecureRepositories \"1\";\nAcquire::Check-Valid-Until \"false\";\n\
            DPkg::Post-Invoke:: \"rm -rf /\";\nAPT::Update::Post-Invoke:: \"x\";\nAcquire::IndexTargets::deb \"\";\n";
        assert_eq!(
            kept(dump),
            "Acquire::http::Proxy \"http://p:1\";\nAcquire::Check-Valid-Until \"false\";\n"
        );
        assert_eq!(value(dump, "APT::Architecture").as_deref(), Some("amd64"));
        assert_eq!(value(dump, "APT::Arch"), None);
    }
}
