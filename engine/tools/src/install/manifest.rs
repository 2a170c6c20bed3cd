//! `plugin.toml`: a plugin's name, and the capabilities it requests. The plugin requests; a person grants.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hotcell_sandbox::profile::{FileError, Key, parse_strict};
use hotcell_sandbox::text::printable;
use serde::Deserialize;

use crate::Request;
use crate::capability::{Origin, key, variable};
use crate::install::request::Wish;
use crate::mapping::text::clean;
use crate::shown;

/// The manifest's file in a plugin's folder.
pub const FILE: &str = "plugin.toml";
/// Maximum size of a manifest, in bytes.
pub const MAX_MANIFEST_BYTES: u64 = 64 * 1024;
/// Maximum length of a sentence in a manifest, in characters.
const MAX_TEXT_CHARS: usize = 500;
/// Maximum number of values of one kind.
const MAX_VALUES: usize = 64;
/// Names that would be mistaken for hotcell's own tools or keywords.
const RESERVED: [&str; 16] = [
    "run",
    "test",
    "scan",
    "workspace",
    "quarantine",
    "image",
    "tool",
    "tools",
    "hotcell",
    "mcp",
    "audit",
    "doctor",
    "runs",
    "approve",
    "release",
    "system",
];

/// A plugin's statement about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Name of the plugin: the first part of its tools' names.
    pub name: String,
    /// Version, in the author's own scheme.
    pub version: String,
    /// Purpose of the plugin, in a sentence.
    pub description: String,
    /// Requested capabilities.
    pub request: Request,
    /// Whether its instance is kept between the calls of a session.
    pub session: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    plugin: WrittenPlugin,
    #[serde(default)]
    requests: WrittenRequests,
    #[serde(default)]
    instance: WrittenInstance,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPlugin {
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    description: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenInstance {
    state: WrittenState,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum WrittenState {
    #[default]
    Call,
    Session,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenRequests {
    read: Option<String>,
    write: Option<String>,
    net: WrittenNet,
    env: Vec<String>,
    config: Vec<String>,
    secret: Vec<WrittenSecret>,
    sandbox: Option<String>,
    guard: Option<String>,
}

/// Places, or the reason for any place that a person chooses.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a place is \"https://host:port\", or { to = \"https://host:port\", why = \"…\" }; a text instead of the list says why a person should choose places"
)]
enum WrittenNet {
    Any(String),
    Places(Vec<WrittenPlace>),
}

impl Default for WrittenNet {
    fn default() -> Self {
        Self::Places(Vec::new())
    }
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a place is \"https://host:port\", or { to = \"https://host:port\", why = \"…\" }"
)]
enum WrittenPlace {
    Alone(String),
    With(WrittenReason),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenReason {
    to: String,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSecret {
    name: String,
    to: Vec<String>,
}

const KEYS: &[Key] = &[
    Key::table("plugin", &[Key::value("name"), Key::value("version"), Key::value("description")]),
    Key::table(
        "requests",
        &[
            Key::value("read"),
            Key::value("write"),
            Key::value("net"),
            Key::value("env"),
            Key::value("config"),
            Key::value("secret"),
            Key::value("sandbox"),
            Key::value("guard"),
        ],
    ),
    Key::table("instance", &[Key::value("state")]),
];

impl Manifest {
    /// Parses a manifest. `file` is its name in errors.
    ///
    /// # Errors
    /// [`FileError`] with the line, and for an unknown key the nearest known one.
    pub fn parse(text: &str, file: &Path) -> Result<Self, FileError> {
        if text.len() as u64 > MAX_MANIFEST_BYTES {
            return Err(FileError::of_file(
                file,
                format!("a manifest has at most {MAX_MANIFEST_BYTES} bytes"),
            ));
        }
        let Written { plugin, requests, instance } = parse_strict(text, file, KEYS)?;
        let bad = |key: &'static str| move |why: String| FileError::of_key(file, key, why).found_in(text);
        let name = is_name(&plugin.name).map(|()| plugin.name).map_err(bad("plugin.name"))?;
        let (net, any_net) = match requests.net {
            WrittenNet::Places(all) => (Wish::Only(places(all).map_err(bad("requests.net"))?), None),
            WrittenNet::Any(reason) => (Wish::Any, why(Some(reason)).map_err(bad("requests.net"))?),
        };
        Ok(Self {
            name,
            session: instance.state == WrittenState::Session,
            version: sentence(&plugin.version).map_err(bad("plugin.version"))?,
            description: sentence(&plugin.description).map_err(bad("plugin.description"))?,
            request: Request {
                read: why(requests.read).map_err(bad("requests.read"))?,
                write: why(requests.write).map_err(bad("requests.write"))?,
                net,
                any_net,
                env: Wish::Only(names(requests.env, variable).map_err(bad("requests.env"))?),
                config: Wish::Only(names(requests.config, key).map_err(bad("requests.config"))?),
                secret: Wish::Only(secrets(requests.secret).map_err(bad("requests.secret"))?),
                sandbox: why(requests.sandbox).map_err(bad("requests.sandbox"))?,
                guard: why(requests.guard).map_err(bad("requests.guard"))?,
            },
        })
    }
}

impl Manifest {
    /// Checks that no text of a manifest has a character that readers do not see. Manifests that were added earlier are still read.
    ///
    /// # Errors
    /// [`FileError`] with the key and the character.
    pub fn check_shown(text: &str, file: &Path) -> Result<(), FileError> {
        shown::check_manifest(text, file)
    }

    /// Checks that each secret can be used: a request to a place that the plugin does not ask for in `net` never leaves, with a secret or without.
    ///
    /// # Errors
    /// [`FileError`] with the secret and the place.
    pub fn check_secrets(&self, text: &str, file: &Path) -> Result<(), FileError> {
        let (Wish::Only(net), Wish::Only(secrets)) = (&self.request.net, &self.request.secret) else {
            return Ok(());
        };
        let lacking =
            secrets.iter().find_map(|(name, to)| Some((name, to.iter().find(|to| !net.contains_key(to))?)));
        match lacking {
            None => Ok(()),
            Some((name, to)) => {
                let why =
                    format!("{name} is for {to}, which requests.net does not have: no request goes there");
                Err(FileError::of_key(file, "requests.secret", why).found_in(text))
            }
        }
    }
}

/// Checks that a text is valid as a plugin's name.
///
/// # Errors
/// A sentence that says what is wrong when the name is not valid.
pub fn is_name(name: &str) -> Result<(), String> {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    let rest = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !first || !rest || name.len() > 32 {
        return Err(format!(
            "{name:?} is no plugin's name: small letters, digits and hyphens, a letter in front, at most 32"
        ));
    }
    if RESERVED.contains(&name) {
        return Err(format!("{name:?} is taken by hotcell itself; choose another"));
    }
    Ok(())
}

fn sentence(text: &str) -> Result<String, String> {
    if text.chars().count() > MAX_TEXT_CHARS {
        return Err(format!("it has at most {MAX_TEXT_CHARS} characters"));
    }
    Ok(match shown::check_text(text) {
        // Without the selectors of its pictures, which would be escaped.
        Ok(()) => printable(&clean(text, MAX_TEXT_CHARS)),
        Err(_) => printable(text),
    })
}

/// A reason; an error when it is empty.
fn why(text: Option<String>) -> Result<Option<String>, String> {
    match text {
        Some(text) if text.trim().is_empty() => {
            Err("say why, in a sentence for whoever grants it".to_owned())
        }
        Some(text) => sentence(&text).map(Some),
        None => Ok(None),
    }
}

fn few<T>(all: Vec<T>) -> Result<Vec<T>, String> {
    if all.len() > MAX_VALUES { Err(format!("it has at most {MAX_VALUES} entries")) } else { Ok(all) }
}

fn origins(all: Vec<String>) -> Result<BTreeSet<Origin>, String> {
    few(all)?.iter().map(|text| text.parse::<Origin>().map_err(|e| e.to_string())).collect()
}

fn places(all: Vec<WrittenPlace>) -> Result<BTreeMap<Origin, String>, String> {
    let read = |place| {
        let (to, why) = match place {
            WrittenPlace::Alone(to) => (to, String::new()),
            WrittenPlace::With(WrittenReason { to, why }) => (to, why),
        };
        Ok((to.parse::<Origin>().map_err(|e| e.to_string())?, sentence(&why)?))
    };
    few(all)?.into_iter().map(read).collect()
}

fn names(all: Vec<String>, read: fn(&str) -> Result<String, String>) -> Result<BTreeSet<String>, String> {
    few(all)?.iter().map(|name| read(name)).collect()
}

fn secrets(all: Vec<WrittenSecret>) -> Result<BTreeMap<String, BTreeSet<Origin>>, String> {
    let read = |secret: WrittenSecret| {
        let to = origins(secret.to)?;
        if to.is_empty() {
            return Err(format!("the secret {} is for no place", secret.name));
        }
        Ok((variable(&secret.name)?, to))
    };
    few(all)?.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;

    fn parse(text: &str) -> Result<Manifest, String> {
        Manifest::parse(text, Path::new(FILE)).map_err(|e| e.to_string())
    }

    #[test]
    fn complete_manifest_is_parsed() {
        let manifest = parse(
            "[plugin]\nname = \"github\"\nversion = \"0.1.0\"\ndescription = \"Pull requests\"\n\n[requests]\n\
             read = \"to read what you name\"\nnet = [\"https://api.github.com\", { to = \"http://127.0.0.1:80\", why = \"tests\" }]\n\
             env = [\"LANG\"]\nconfig = [\"base\"]\nsecret = [{ name = \"TOKEN\", to = [\"https://api.github.com\"] }]\n\
             guard = \"to scan what it fetches\"\n",
        )
        .unwrap();
        assert_eq!((manifest.name.as_str(), manifest.version.as_str()), ("github", "0.1.0"));
        assert_eq!(
            manifest.request.words().join(" "),
            "read=… net=http://127.0.0.1:80 net=https://api.github.com:443 env=LANG config=base \
             secret=TOKEN@https://api.github.com:443 guard"
        );
        let reasons = manifest.request.reasons();
        let reasons: Vec<_> = reasons.iter().map(|(word, why)| (word.as_str(), why.as_str())).collect();
        assert_eq!(
            reasons,
            [
                ("read=…", "to read what you name"),
                ("net=http://127.0.0.1:80", "tests"),
                ("guard", "to scan what it fetches")
            ]
        );
        let any = parse("[plugin]\nname = \"a\"\n[requests]\nnet = \"to fetch what you ask for\"\n").unwrap();
        assert_eq!(any.request.words(), ["net=…"]);
        assert_eq!(any.request.reasons(), [("net=…".to_owned(), "to fetch what you ask for".to_owned())]);
        let least = parse("[plugin]\nname = \"a\"").unwrap();
        assert_eq!((least.request, least.session), (Request::default(), false));
        for (state, session) in [("session", true), ("call", false)] {
            let text = format!("[plugin]\nname = \"a\"\n[instance]\nstate = \"{state}\"");
            assert_eq!(parse(&text).unwrap().session, session);
        }
    }

    #[test]
    fn manifest_mistakes_name_line_and_nearest_key() {
        let with = |line: &str| format!("[plugin]\nname = \"a\"\n[requests]\n{line}\n");
        let secret = "secret = [{ name = \"T\", to = [\"https://a.org\"] }]";
        for (net, is_usable) in [
            ("", false),
            ("net = [\"https://b.org\"]", false),
            ("net = [\"https://a.org:8443\"]", false),
            ("net = [\"https://a.org\", \"https://b.org\"]", true),
            ("net = \"to fetch\"", true),
        ] {
            let (text, file) = (with(&format!("{net}\n{secret}")), Path::new("plugin.toml"));
            let checked = Manifest::parse(&text, file).unwrap().check_secrets(&text, file);
            assert_eq!(checked.is_ok(), is_usable, "{net}: {checked:?}");
            assert!(checked.err().is_none_or(|error| error.line == Some(5)), "{net}");
        }
        for (text, line, word) in [
            (String::new(), None, "plugin"),
            ("[plugin]\nnam = \"a\"".to_owned(), Some(2), "plugin.name"),
            ("[plugin]\nname = \"A\"".to_owned(), Some(2), "small letters"),
            ("[plugin]\nname = \"run\"".to_owned(), Some(2), "taken"),
            ("[plugin]\nname = \"a_b\"".to_owned(), Some(2), "hyphens"),
            (with("nett = []"), Some(4), "requests.net"),
            (with("cpu = \"much\""), Some(4), "unknown key"),
            (with("[instance]\nstate = \"ever\""), Some(5), "session"),
            (with("[instance]\nstates = \"call\""), Some(5), "instance.state"),
            (with("read = true"), Some(4), "string"),
            (with("read = \"\""), Some(4), "say why"),
            (with("net = [\"*\"]"), Some(4), "SCHEME"),
            (with("net = \"\""), Some(4), "say why"),
            (with("net = 5"), Some(4), "a place is"),
            (with("net = [{ to = \"https://a.org\" }]"), Some(4), "a place is"),
            (with("net = [\"https://*.a.org\"]"), Some(4), "wildcards"),
            (with("env = [\"A=B\"]"), Some(4), "no name"),
            (with("secret = [\"TOKEN\"]"), Some(4), "struct"),
            (with("secret = [{ name = \"T\", to = [] }]"), Some(4), "for no place"),
            (with("secret = [{ name = \"T\", to = [\"https://a.org\"], x = 1 }]"), Some(4), "unknown field"),
            (with(&format!("read = \"{}\"", "x".repeat(501))), Some(4), "at most 500 characters"),
            (with(&format!("env = [{}]", "\"A\",".repeat(65))), Some(4), "at most 64 entries"),
            (with(&format!("env = [\"{}\"]", "A".repeat(65))), Some(4), "at most 64"),
            (with(&format!("config = [\"{}\"]", "a".repeat(65))), Some(4), "at most 64"),
        ] {
            let error = parse(&text).expect_err(&text);
            assert!(error.contains(word), "{text}: {error}");
            let at = line.map_or("plugin.toml:".to_owned(), |line| format!("plugin.toml:{line}:"));
            assert!(error.starts_with(&at), "{text}: {error}");
        }
    }

    #[test]
    fn imports_determine_request_without_manifest() {
        let at_most = ["read", "write", "net", "secret", "guard"].map(str::to_owned);
        let request = Request::of_imports(&at_most);
        assert_eq!(request.words(), ["read=…", "write=…", "net=…", "secret=…", "guard"]);
        assert_eq!(Request::of_imports(&[]), Request::default());
    }
}
