//! Profiles: named policies in TOML that can be reused.
//!
//! Three are built in (`profiles/*.toml`, commented); any file of the same form can be used as well. Parsing
//! is strict: an unknown key is an error that names the file, the line and the nearest known key, because
//! silently ignoring a misspelt limit would be a security hole. Other files of the project are read with the
//! same strictness ([`parse_strict`]). Pure except for [`Profile::from_file`]; this module does not decide
//! whether a host can meet a profile.

mod bind;
mod file;
mod limits;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

pub use bind::{BindError, BindText, parse_bind};
pub use file::{FileError, Key, line_of_key, parse_strict, read_text, text_of};
pub use limits::{LIMIT_KEYS, LimitSettings, Span};

use crate::layer::{Layer, likely, named_or_all};
use crate::policy::{Bind, Confinement, Limits, Network, Policy, ProcView};

/// The built-in profiles, by name; the first is the default.
const BUILT_IN: [(&str, &str); 3] = [
    ("standard", include_str!("../profiles/standard.toml")),
    ("strict", include_str!("../profiles/strict.toml")),
    ("landlock-only", include_str!("../profiles/landlock-only.toml")),
];

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
                nearest: likely(name, Self::names()),
            });
        };
        if let Some(read) = READ[at].get() {
            return Ok(read.clone());
        }
        let read = if at == 0 { Self::standard() } else { Self::parse(text, Path::new(known), known)? };
        Ok(READ[at].get_or_init(|| read).clone())
    }

    /// The default profile as its text has it, which the tests compare: the first text that is read takes 80 us, of each process that runs one thing.
    fn standard() -> Self {
        use Layer::{
            Capabilities, IpcNs, MountNs, NetNs, NoNewPrivs, PidNs, Rlimits, Seccomp, UserNs, UtsNs,
        };
        let require =
            [UserNs, MountNs, PidNs, NetNs, IpcNs, UtsNs, Seccomp, NoNewPrivs, Capabilities, Rlimits];
        Self {
            name: "standard".to_owned(),
            description: "every layer that the host offers; the default".to_owned(),
            require: require.into(),
            ..Self::default()
        }
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
        "there is no profile {name:?}; {} (a file is given with a slash, as ./mine.toml)",
        named_or_all(*nearest, Profile::names())
    )]
    Unknown {
        /// The requested name.
        name: String,
        /// The existing name that is like it.
        nearest: Option<&'static str>,
    },
    /// The file cannot be read or parsed.
    #[error(transparent)]
    File(#[from] FileError),
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;
    use std::time::Duration;

    fn parse(text: &str) -> Result<Profile, FileError> {
        Profile::parse(text, Path::new("/etc/p.toml"), "p")
    }

    #[test]
    fn default_profile_is_that_of_its_text() {
        let (name, text) = BUILT_IN[0];
        assert_eq!(Profile::standard(), Profile::parse(text, Path::new(name), name).unwrap());
        assert_eq!(Profile::named(name).unwrap(), Profile::standard());
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
