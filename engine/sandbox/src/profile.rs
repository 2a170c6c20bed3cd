//! Profiles: named policies in TOML that can be reused.
//!
//! Three are built in (`profiles/*.toml`, commented); any file of the same form can be used as well. Parsing
//! is strict: an unknown key is an error that names the file, the line and the nearest known key, because
//! silently ignoring a misspelt limit would be a security hole. Other files of the project are read with the
//! same strictness ([`parse_strict`]). Pure except for [`Profile::from_file`]; this module does not decide
//! whether a host can meet a profile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use serde::de::{DeserializeOwned, Error as _, Visitor};
use serde::{Deserialize, Deserializer};
use toml::de::{DeTable, DeValue};

use crate::layer::{Layer, nearest};
use crate::policy::{Bind, Confinement, Limits, Network, Policy, ProcView};
use crate::units::{Bytes, parse_duration};

/// The built-in profiles, by name; the first is the default.
const BUILT_IN: [(&str, &str); 3] = [
    ("standard", include_str!("../profiles/standard.toml")),
    ("strict", include_str!("../profiles/strict.toml")),
    ("landlock-only", include_str!("../profiles/landlock-only.toml")),
];

/// Maximum size of a profile file in bytes; a profile is about a page of text.
const MAX_PROFILE_BYTES: u64 = 64 * 1024;

/// A named policy without a program.
///
/// ```
/// use hotcell_sandbox::profile::Profile;
/// let strict = Profile::named("strict").unwrap();
/// assert_eq!(strict.require.len(), 14);
/// assert!(Profile::named("strcit").unwrap_err().to_string().contains("strict"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Name of the profile, or the path of its file.
    pub name: String,
    /// One-line description for a person.
    pub description: String,
    /// Namespaces or the weaker fallback.
    pub confinement: Confinement,
    /// A private loopback or no internet sockets.
    pub network: Network,
    /// How much of `/proc` is visible.
    pub proc: ProcView,
    /// Required layers: without one of them a run is refused.
    pub require: BTreeSet<Layer>,
    /// Limits; those that are not set have their defaults.
    pub limits: LimitSettings,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Host files and folders that the program can see.
    pub binds: Vec<Bind>,
}

impl Profile {
    /// The names of the built-in profiles, the default first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// A built-in profile.
    ///
    /// # Errors
    /// [`ProfileError`] when there is no profile of that name; the error names the nearest.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        // Services look a profile up for every run, so each is parsed only once.
        static READ: [OnceLock<Profile>; BUILT_IN.len()] = [const { OnceLock::new() }; BUILT_IN.len()];
        let Some((at, (known, text))) = BUILT_IN.iter().enumerate().find(|(_, (known, _))| *known == name)
        else {
            return Err(ProfileError::Unknown {
                name: name.to_owned(),
                nearest: nearest(name, Self::names()).unwrap_or("standard"),
            });
        };
        if let Some(read) = READ[at].get() {
            return Ok(read.clone());
        }
        let read = Self::parse(text, Path::new(known), known)?;
        Ok(READ[at].get_or_init(|| read).clone())
    }

    /// Reads a profile from a file. Relative host paths are resolved against the folder of that file.
    ///
    /// # Errors
    /// [`ProfileError::File`] when the file cannot be read or is not a valid profile.
    pub fn from_file(path: &Path) -> Result<Self, ProfileError> {
        let text = read_text(path)?;
        Ok(Self::parse(&text, path, &path.to_string_lossy())?)
    }

    /// Parses a profile; `file` is used for messages and for relative paths.
    ///
    /// # Errors
    /// [`FileError`] with the line and the nearest known key when the text is not a valid profile.
    pub fn parse(text: &str, file: &Path, name: &str) -> Result<Self, FileError> {
        let written: Written = parse_strict(text, file, KEYS)?;
        let base = file.parent().unwrap_or(Path::new(""));
        let (mut binds, whole) = (Vec::new(), text);
        for (texts, writable, key) in [(&written.ro, false, "ro"), (&written.rw, true, "rw")] {
            for text in texts {
                let bind = parse_bind(Path::new(text), base, writable);
                binds.push(bind.map_err(|e| FileError::of_key(file, key, e).found_in(whole))?);
            }
        }
        Ok(Self {
            name: name.to_owned(),
            description: written.description,
            confinement: written.confinement,
            network: written.network.map_or_else(Network::default, Network::from),
            proc: written.proc,
            require: written.require,
            limits: written.limits,
            env: written.env,
            binds,
        })
    }

    /// A policy with all settings of this profile, without a program.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy_over(&Limits::default())
    }

    /// Like [`Profile::policy`], but with `limits` as defaults for the limits that the profile does not set.
    #[must_use]
    pub fn policy_over(&self, limits: &Limits) -> Policy {
        let mut policy = Policy::default();
        policy.shape.confinement = self.confinement;
        policy.shape.network = self.network;
        policy.shape.proc = self.proc;
        policy.shape.require.clone_from(&self.require);
        policy.job.limits = self.limits.over(limits);
        policy.job.env = self.env.iter().map(|(n, v)| (n.into(), v.into())).collect();
        policy.job.binds.clone_from(&self.binds);
        policy
    }
}

/// Error of a profile that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No built-in profile has this name.
    #[error(
        "there is no profile {name:?}; did you mean {nearest:?}? (a file is given with a slash, as ./mine.toml)"
    )]
    Unknown {
        /// The requested name.
        name: String,
        /// The nearest existing name.
        nearest: &'static str,
    },
    /// The file cannot be read or parsed.
    #[error(transparent)]
    File(#[from] FileError),
}

/// An error in a file written by a person: `FILE:LINE: MESSAGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// Path of the file, as it was given.
    pub file: PathBuf,
    /// Line number from 1, if known.
    pub line: Option<usize>,
    /// The invalid key in dotted form, if the error is about a key.
    pub key: Option<String>,
    /// The key that was probably intended.
    pub nearest: Option<String>,
    /// Description of the error.
    pub message: String,
}

impl FileError {
    /// An error about a whole file.
    pub fn of_file(file: &Path, message: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, key: None, nearest: None, message: message.into() }
    }

    /// An error about a key of a file.
    pub fn of_key(file: &Path, key: &str, message: impl fmt::Display) -> Self {
        Self { key: Some(key.to_owned()), ..Self::of_file(file, format!("{key}: {message}")) }
    }

    /// Adds the line on which `key` appears in `text`.
    #[must_use]
    pub fn found_in(mut self, text: &str) -> Self {
        if let (None, Some(key)) = (self.line, &self.key) {
            self.line = line_of_key(text, key);
        }
        self
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.message)
    }
}

impl std::error::Error for FileError {}

/// Contents of a profile file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    description: String,
    confinement: Confinement,
    network: Option<NetworkName>,
    proc: ProcView,
    #[serde(deserialize_with = "layers")]
    require: BTreeSet<Layer>,
    limits: LimitSettings,
    env: BTreeMap<String, String>,
    ro: Vec<String>,
    rw: Vec<String>,
}

/// A key allowed in a file, with the keys of its table; a table without known keys accepts any key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// Keys allowed in its table.
    pub within: &'static [Key],
}

impl Key {
    /// A key with a value, or with a table of any keys.
    #[must_use]
    pub const fn value(name: &'static str) -> Self {
        Self { name, within: &[] }
    }
    /// A key with a table of known keys.
    #[must_use]
    pub const fn table(name: &'static str, within: &'static [Key]) -> Self {
        Self { name, within }
    }
}

/// The keys of a table of limits.
pub const LIMIT_KEYS: &[Key] = &[
    Key::value("memory"),
    Key::value("timeout"),
    Key::value("cpu_time"),
    Key::value("processes"),
    Key::value("disk"),
    Key::value("files"),
    Key::value("capture"),
    Key::value("output"),
    Key::value("cpus"),
    Key::value("open_files"),
];

const KEYS: &[Key] = &[
    Key::value("description"),
    Key::value("confinement"),
    Key::value("network"),
    Key::value("proc"),
    Key::value("require"),
    Key::table("limits", LIMIT_KEYS),
    Key::value("env"),
    Key::value("ro"),
    Key::value("rw"),
];

/// The network setting as written in files and on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkName {
    /// A private loopback and nothing else.
    None,
    /// No internet sockets at all.
    Off,
}

impl From<NetworkName> for Network {
    fn from(name: NetworkName) -> Self {
        match name {
            NetworkName::None => Self::Loopback,
            NetworkName::Off => Self::Off,
        }
    }
}

/// A time limit that may be switched off: `60s`, a number of seconds, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// This duration.
    Of(Duration),
    /// No limit.
    Unlimited,
}

impl std::str::FromStr for Span {
    type Err = crate::units::ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self::Unlimited) } else { parse_duration(text).map(Self::Of) }
    }
}

/// Optional limits; a limit that is not set is taken from the next source.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)] // each is the field of `Limits` of that name
pub struct LimitSettings {
    #[serde(deserialize_with = "size")]
    pub memory: Option<Bytes>,
    /// Limit of wall-clock time.
    #[serde(deserialize_with = "time")]
    pub timeout: Option<Duration>,
    #[serde(deserialize_with = "span")]
    pub cpu_time: Option<Span>,
    pub processes: Option<u32>,
    #[serde(deserialize_with = "size")]
    pub disk: Option<Bytes>,
    pub files: Option<u64>,
    #[serde(deserialize_with = "size")]
    pub capture: Option<Bytes>,
    #[serde(deserialize_with = "size")]
    pub output: Option<Bytes>,
    pub cpus: Option<f64>,
    pub open_files: Option<u64>,
}

impl LimitSettings {
    /// Returns `base` with the limits that are set here replaced.
    #[must_use]
    pub fn over(&self, base: &Limits) -> Limits {
        Limits {
            memory: self.memory.unwrap_or(base.memory),
            wall: self.timeout.unwrap_or(base.wall),
            cpu_time: match self.cpu_time {
                Some(Span::Of(time)) => Some(time),
                Some(Span::Unlimited) => None,
                None => base.cpu_time,
            },
            processes: self.processes.unwrap_or(base.processes),
            disk: self.disk.unwrap_or(base.disk),
            files: self.files.unwrap_or(base.files),
            capture: self.capture.unwrap_or(base.capture),
            output: self.output.unwrap_or(base.output),
            cpus: self.cpus.or(base.cpus),
            open_files: self.open_files.or(base.open_files),
        }
    }
}

/// Deserializes a list of layers; an error about an unknown name includes the nearest known one.
///
/// # Errors
/// When the value is not a list of layer names.
pub fn layers<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeSet<Layer>, D::Error> {
    struct Name(Layer);
    impl<'de> Deserialize<'de> for Name {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            String::deserialize(d)?.parse().map(Self).map_err(D::Error::custom)
        }
    }
    Ok(Vec::<Name>::deserialize(d)?.into_iter().map(|name| name.0).collect())
}

/// Deserializes text or a whole number; an error about another type says what was expected.
struct Quantity<T>(&'static str, fn(&str) -> Result<T, String>);

impl<T> Visitor<'_> for Quantity<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).map_err(E::custom)
    }
    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        (self.1)(&number.to_string()).map_err(E::custom)
    }
    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        (self.1)(&number.to_string()).map_err(E::custom)
    }
}

fn read<T: std::str::FromStr<Err = crate::units::ParseUnitError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|e: T::Err| e.to_string())
}

fn size<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Bytes>, D::Error> {
    d.deserialize_any(Quantity("a size such as \"512M\"", read)).map(Some)
}

fn span<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Span>, D::Error> {
    d.deserialize_any(Quantity("a time such as \"60s\", or \"none\"", read)).map(Some)
}

fn time<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
    d.deserialize_any(Quantity("a time such as \"60s\"", |text| {
        parse_duration(text).map_err(|e| e.to_string())
    }))
    .map(Some)
}

/// Reads a small text file in full. It must be a regular file in UTF-8.
///
/// # Errors
/// [`FileError`] when the file cannot be read, is not a regular file, is too large or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    use std::os::unix::fs::OpenOptionsExt;
    // O_NONBLOCK: opening a pipe without a writer must not block.
    let file = std::fs::OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path);
    let file = file.map_err(|e| FileError::of_file(path, format!("cannot be read: {e}")))?;
    text_of(file, path)
}

/// Reads a small text file that is already open.
///
/// # Errors
/// [`FileError`] when the file cannot be read, is not a regular file, is too large or is not UTF-8.
pub fn text_of(file: std::fs::File, path: &Path) -> Result<String, FileError> {
    let bad = |message: String| FileError::of_file(path, message);
    let metadata = file.metadata().map_err(|e| bad(format!("cannot be read: {e}")))?;
    if !metadata.is_file() {
        return Err(bad("is not a file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_PROFILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| bad(format!("cannot be read: {e}")))?;
    if bytes.len() as u64 > MAX_PROFILE_BYTES {
        return Err(bad(format!("is longer than {}", Bytes(MAX_PROFILE_BYTES))));
    }
    String::from_utf8(bytes).map_err(|_| bad("is not UTF-8 text".to_owned()))
}

/// Parses TOML, rejecting unknown keys.
///
/// # Errors
/// [`FileError`] with the line, and for an unknown key the nearest key that is allowed there.
pub fn parse_strict<T: DeserializeOwned>(text: &str, file: &Path, known: &[Key]) -> Result<T, FileError> {
    let at = |span: Option<std::ops::Range<usize>>| span.map(|s| line_at(text, s.start));
    let of_toml = |e: toml::de::Error| FileError {
        line: at(e.span()),
        // Only the first line: the rest is an excerpt of the file.
        ..FileError::of_file(file, e.message().lines().next().unwrap_or("is not TOML").to_owned())
    };
    let document = DeTable::parse(text).map_err(of_toml)?;
    check_keys(document.get_ref(), known, "").map_err(|unknown| FileError {
        file: file.to_owned(),
        line: Some(line_at(text, unknown.at)),
        message: match &unknown.nearest {
            Some(nearest) => format!("unknown key {:?}; did you mean {nearest:?}?", unknown.key),
            None => format!("unknown key {:?}", unknown.key),
        },
        key: Some(unknown.key),
        nearest: unknown.nearest,
    })?;
    toml::from_str(text).map_err(of_toml)
}

struct UnknownKey {
    key: String,
    nearest: Option<String>,
    at: usize,
}

fn check_keys(table: &DeTable<'_>, known: &[Key], above: &str) -> Result<(), UnknownKey> {
    for (key, value) in table {
        let name: &str = key.get_ref();
        let Some(found) = known.iter().find(|k| k.name == name) else {
            let nearest = nearest(name, known.iter().map(|k| k.name)).map(|n| format!("{above}{n}"));
            return Err(UnknownKey { key: format!("{above}{name}"), nearest, at: key.span().start });
        };
        if let (DeValue::Table(inner), false) = (value.get_ref(), found.within.is_empty()) {
            check_keys(inner, found.within, &format!("{above}{name}."))?;
        }
    }
    Ok(())
}

/// Line number, from 1, on which a dotted key appears.
#[must_use]
pub fn line_of_key(text: &str, dotted: &str) -> Option<usize> {
    fn find(table: &DeTable<'_>, dotted: &str) -> Option<usize> {
        table.iter().find_map(|(key, value)| {
            let name: &str = key.get_ref();
            if name == dotted {
                return Some(key.span().start);
            }
            match (dotted.strip_prefix(name)?.strip_prefix('.'), value.get_ref()) {
                (Some(rest), DeValue::Table(inner)) => find(inner, rest),
                _ => None,
            }
        })
    }
    let document = DeTable::parse(text).ok()?;
    find(document.get_ref(), dotted).map(|at| line_at(text, at))
}

fn line_at(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}

/// Error for text that does not have the form `HOST[:INSIDE]`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no host path; write HOST or HOST:/INSIDE")]
pub struct BindError(PathBuf);

/// A mount as a person writes it, `HOST[:INSIDE]`: the host's path may be relative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindText {
    host: PathBuf,
    inside: Option<PathBuf>,
}

impl BindText {
    /// Parses `HOST[:INSIDE]`. INSIDE is absolute, so the last `:/` separates the two.
    ///
    /// # Errors
    /// [`BindError`] when HOST is missing.
    pub fn parse(text: &Path) -> Result<Self, BindError> {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        let bytes = text.as_os_str().as_bytes();
        let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()));
        let colon = bytes.windows(2).rposition(|two| two == b":/");
        let (host, inside) = match colon {
            Some(at) => (path(&bytes[..at]), Some(path(&bytes[at + 1..]))),
            None => (path(bytes), None),
        };
        if host.as_os_str().is_empty() {
            return Err(BindError(text.to_owned()));
        }
        Ok(Self { host, inside })
    }

    /// The mount, with a relative host path resolved against `base`. Without INSIDE the host's path is also used
    /// inside.
    #[must_use]
    pub fn at(&self, base: &Path, writable: bool) -> Bind {
        let host = base.join(&self.host);
        let inside = self.inside.clone().unwrap_or_else(|| without_dots(&host));
        Bind { host, inside, writable, copy_on_write: false, identity: None }
    }
}

/// Parses `HOST[:INSIDE]`, with a relative HOST resolved against `base`.
///
/// # Errors
/// [`BindError`] when HOST is missing.
pub fn parse_bind(text: &Path, base: &Path, writable: bool) -> Result<Bind, BindError> {
    Ok(BindText::parse(text)?.at(base, writable))
}

/// Makes an absolute path without `.` and `..`, without looking at the file system.
fn without_dots(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Profile, FileError> {
        Profile::parse(text, Path::new("/etc/p.toml"), "p")
    }

    #[test]
    fn built_in_profiles_have_documented_settings() {
        let named = |name| Profile::named(name).unwrap();
        let standard = named("standard");
        assert_eq!(standard.policy().job.limits, Limits::default());
        let degradable = [Layer::Landlock, Layer::Cgroup, Layer::CgroupNs, Layer::TimeNs];
        for layer in Layer::ALL {
            assert_eq!(standard.require.contains(&layer), !degradable.contains(&layer), "{layer}");
            assert!(named("strict").require.contains(&layer), "{layer}");
        }
        let strict = named("strict");
        assert_eq!((strict.network, strict.proc), (Network::Off, ProcView::Masked));
        assert_eq!(strict.policy().job.limits, Limits::default());
        assert_eq!(named("landlock-only").confinement, Confinement::LandlockOnly);
        for name in Profile::names() {
            let policy = named(name).policy();
            assert!(policy.shape.knocked_out.is_empty() && policy.job.binds.is_empty(), "{name}");
            assert!(!named(name).description.is_empty());
        }
    }

    #[test]
    fn mistakes_name_file_line_and_nearest_key() {
        for (text, line, word) in [
            ("memory = 1\n", 1, "unknown key \"memory\""),
            ("\n\n[limits]\nmemry = \"1M\"\n", 4, "did you mean \"limits.memory\""),
            ("requires = []", 1, "did you mean \"require\""),
            ("\nrequire = [\"secomp\"]", 2, "did you mean \"seccomp\""),
            ("[limits]\nmemory = \"12Q\"", 2, "512M"),
            ("[limits]\nmemory = true", 2, "a size such as"),
            ("[limits]\nmemory = -1", 2, "is not a size"),
            ("[limits]\ntimeout = \"soon\"", 2, "60s"),
            ("[limits]\nprocesses = -3", 2, "u32"),
            ("network = \"all\"", 1, "unknown variant"),
            ("proc = 3", 1, "string"),
            ("env = 3", 1, "map"),
            ("a = = b", 1, ""),
            ("\nro = [\"x\", \":/x\"]", 2, "names no host path"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, Some(line), "{text:?}: {error}");
            assert!(error.to_string().starts_with(&format!("/etc/p.toml:{line}: ")), "{error}");
            assert!(error.to_string().contains(word), "{text:?}: {error}");
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn profile_keys_are_all_read() {
        let text = r#"
            description = "d"
            confinement = "namespaces"
            network = "off"
            proc = "own_processes"
            require = ["landlock"]
            env = { A = "b" }
            ro = ["data", "/srv:/data"]
            rw = ["/out"]
            [limits]
            memory = 1048576
            timeout = 1.5
            cpu_time = "none"
            processes = 3
            disk = "1M"
            files = 4
            capture = "0"
            output = "2k"
            cpus = 1.5
            open_files = 600
        "#;
        for key in KEYS.iter().chain(LIMIT_KEYS) {
            assert!(text.contains(&format!("{} = ", key.name)) || key.name == "limits", "{}", key.name);
        }
        let policy = parse(text).unwrap().policy();
        let limits = &policy.job.limits;
        assert_eq!(
            (limits.memory, limits.disk, limits.output),
            (Bytes::mib(1), Bytes::mib(1), Bytes::kib(2))
        );
        assert_eq!((limits.wall, limits.cpu_time), (Duration::from_millis(1500), None));
        assert_eq!((limits.processes, limits.files, limits.cpus), (3, 4, Some(1.5)));
        assert_eq!(limits.open_files, Some(600));
        assert_eq!(policy.job.env, [("A".into(), "b".into())]);
        let bind = |host: &str, inside: &str, writable| Bind {
            host: host.into(),
            inside: inside.into(),
            writable,
            copy_on_write: false,
            identity: None,
        };
        assert_eq!(
            policy.job.binds,
            [bind("/etc/data", "/etc/data", false), bind("/srv", "/data", false), bind("/out", "/out", true)]
        );
        assert_eq!(policy.shape.require, [Layer::Landlock].into());
    }

    #[test]
    fn binds_as_people_write_them() {
        for (text, want) in [
            ("a", Some(("/w/a", "/w/a"))),
            ("../a/./b", Some(("/w/../a/./b", "/a/b"))),
            ("/a:/b", Some(("/a", "/b"))),
            ("/a:b", Some(("/a:b", "/a:b"))),
            ("/a:/b:/c", Some(("/a:/b", "/c"))),
            (".:/x", Some(("/w/.", "/x"))),
            ("", None),
            (":/x", None),
        ] {
            let got = parse_bind(Path::new(text), Path::new("/w"), false).ok();
            let want = want.map(|(h, i)| Bind {
                host: h.into(),
                inside: i.into(),
                writable: false,
                copy_on_write: false,
                identity: None,
            });
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn profile_file_must_be_small_and_regular() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.toml");
        std::fs::write(&path, "network = \"off\"\n").unwrap();
        assert_eq!(Profile::from_file(&path).unwrap().network, Network::Off);
        for (bytes, word) in [(vec![b'#'; 70_000], "longer"), (vec![0xff], "UTF-8")] {
            std::fs::write(&path, bytes).unwrap();
            assert!(Profile::from_file(&path).unwrap_err().to_string().contains(word), "{word}");
        }
        assert!(Profile::from_file(dir.path()).unwrap_err().to_string().contains("not a file"));
        let error = Profile::from_file(&dir.path().join("none.toml")).unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
    }
}
