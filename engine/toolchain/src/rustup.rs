//! Finds the toolchain that rustup's proxies would use, so that the toolchain itself can be mounted, and
//! neither rustup nor the folder with cargo's credentials is needed inside.

use std::path::{Path, PathBuf};

use super::files::Kind;
use super::shim::below;
use super::sight::{Seen, Sight};
use super::{Surroundings, walk};

/// The names under which rustup installs itself.
const PROXIES: [&str; 13] = [
    "cargo",
    "cargo-clippy",
    "cargo-fmt",
    "cargo-miri",
    "clippy-driver",
    "rls",
    "rust-analyzer",
    "rust-gdb",
    "rust-gdbgui",
    "rust-lldb",
    "rustc",
    "rustdoc",
    "rustfmt",
];

/// The tool that a proxy starts, or the reason why there is no such tool, with a remedy.
pub(super) type Target = Result<Tool, (String, String)>;

/// A tool of a toolchain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    pub file: PathBuf,
    /// The file that names the toolchain's folder: part of a project, which can only choose among installed
    /// ones.
    pub from: Option<PathBuf>,
}

/// Whether `file`, with the canonical path `real`, is rustup under the name of a tool.
pub(super) fn is_proxy(sight: Sight<'_>, file: &Path, real: &Path) -> bool {
    if real.ends_with("rustup") || real.ends_with("rustup-init") {
        return true;
    }
    let Some(name) = file.file_name().and_then(|n| n.to_str()) else {
        return false;
    };
    let Some(rustup) = real.parent().map(|d| d.join("rustup")) else {
        return false;
    };
    // A hard link to rustup or, where links are not possible, a copy beside it.
    PROXIES.contains(&name)
        && match (sight.look(real), walk::look(sight, &rustup)) {
            (Seen::There(Kind::File { id: a, .. }), Some(Kind::File { id: b, .. })) => {
                let rustup = walk::real(sight, &rustup).unwrap_or(rustup);
                a == b || sight.head(real, 4096) == sight.head(&rustup, 4096)
            }
            _ => false,
        }
}

/// The tool `name` of the active toolchain.
pub(super) fn resolve(sight: Sight<'_>, around: &Surroundings, name: &str) -> Target {
    if name == "rustup" || name == "rustup-init" {
        return Err((
            "rustup manages toolchains and cannot do so in a sandbox".to_owned(),
            "name the tool itself, such as cargo".to_owned(),
        ));
    }
    let rustup = around
        .value("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| around.home.as_ref().map(|h| h.join(".rustup")))
        .filter(|p| p.is_absolute())
        .ok_or_else(|| {
            ("it is rustup's, whose folder is not known".to_owned(), "set HOME or RUSTUP_HOME".to_owned())
        })?;
    let settings = walk::real(sight, &rustup.join("settings.toml")).and_then(|real| sight.text(&real));
    let settings = Settings::read(&settings.unwrap_or_default());
    let (channel, from) = active(sight, around, &settings).ok_or_else(|| {
        ("rustup has no default toolchain".to_owned(), "run `rustup default stable`".to_owned())
    })?;
    let folder = match channel {
        Channel::Path(path) => {
            let led = Some(PathBuf::from(&from)).filter(|f| f.is_absolute());
            if led.is_some() {
                // The project names this path: it is not looked at before it is known to be one of the
                // operator's installations.
                return Ok(Tool { file: path.join("bin").join(name), from: led });
            }
            path
        }
        Channel::Name(wanted) => {
            let toolchains = rustup.join("toolchains");
            let real = walk::real(sight, &toolchains).unwrap_or_else(|| toolchains.clone());
            let installed: Vec<String> =
                sight.names(&real).into_iter().filter_map(|n| n.into_string().ok()).collect();
            match folder_of(&wanted, settings.host.as_deref(), &installed) {
                Some(folder) => toolchains.join(folder),
                None => {
                    return Err((
                        format!("{from} asks for the Rust toolchain {wanted}, which is not installed"),
                        format!("run `rustup toolchain install {wanted}`"),
                    ));
                }
            }
        }
    };
    let tool = folder.join("bin").join(name);
    if walk::exists(sight, &tool) {
        return Ok(Tool { file: tool, from: None });
    }
    let component = match name {
        "cargo-clippy" | "clippy-driver" => "clippy",
        "cargo-fmt" => "rustfmt",
        "cargo-miri" => "miri",
        other => other,
    };
    Err((
        format!("the Rust toolchain {} has no {name}", folder.display()),
        format!("run `rustup component add {component}`"),
    ))
}

/// A requested toolchain.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Channel {
    Name(String),
    Path(PathBuf),
}

/// The relevant parts of rustup's `settings.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Settings {
    default: Option<String>,
    host: Option<String>,
    overrides: Vec<(PathBuf, String)>,
}

impl Settings {
    fn read(text: &str) -> Self {
        let table: toml::Table = text.parse().unwrap_or_default();
        let string = |key: &str| table.get(key).and_then(|v| v.as_str()).map(str::to_owned);
        let overrides = table.get("overrides").and_then(|v| v.as_table());
        Self {
            default: string("default_toolchain"),
            host: string("default_host_triple"),
            overrides: overrides
                .into_iter()
                .flatten()
                .filter_map(|(path, name)| Some((path.into(), name.as_str()?.to_owned())))
                .collect(),
        }
    }
}

/// The active toolchain and its origin: the environment, then the nearest folder with an override or a
/// toolchain file, then the default.
fn active(sight: Sight<'_>, around: &Surroundings, settings: &Settings) -> Option<(Channel, String)> {
    if let Some(name) = around.value("RUSTUP_TOOLCHAIN").and_then(|v| v.to_str()) {
        return Some((named(name), "RUSTUP_TOOLCHAIN".to_owned()));
    }
    let start = around.start();
    let real = walk::real(sight, start).unwrap_or_else(|| start.to_path_buf());
    for folder in real.ancestors() {
        if let Some((_, name)) = settings.overrides.iter().find(|(path, _)| path == folder) {
            return Some((named(name), format!("rustup's override for {}", folder.display())));
        }
        for name in ["rust-toolchain", "rust-toolchain.toml"] {
            let file = folder.join(name);
            let Some(text) = sight.own_text(&file) else {
                continue;
            };
            if let Some(channel) = asked(&text, folder, name == "rust-toolchain") {
                return Some((channel, file.display().to_string()));
            }
        }
    }
    settings.default.as_deref().map(|name| (named(name), "rustup's default".to_owned()))
}

fn named(name: &str) -> Channel {
    if Path::new(name).is_absolute() { Channel::Path(name.into()) } else { Channel::Name(name.to_owned()) }
}

/// Parses a toolchain file. A name with a slash is rejected: it could lead out of rustup's folder.
fn asked(text: &str, folder: &Path, may_be_plain: bool) -> Option<Channel> {
    let one_word = text.trim();
    if may_be_plain
        && !one_word.is_empty()
        && !one_word.contains(char::is_whitespace)
        && !one_word.contains('[')
    {
        return is_name(one_word).then(|| Channel::Name(one_word.to_owned()));
    }
    let table: toml::Table = text.parse().ok()?;
    let toolchain = table.get("toolchain")?.as_table()?;
    if let Some(path) = toolchain.get("path").and_then(|v| v.as_str()) {
        return Some(Channel::Path(walk::normal(&folder.join(path))));
    }
    let channel = toolchain.get("channel")?.as_str()?;
    is_name(channel).then(|| Channel::Name(channel.to_owned()))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && below(name)
}

/// The installed toolchain to which a name refers: the same name, the name with the host's triple, or the
/// only one that begins with it.
fn folder_of<'a>(wanted: &str, host: Option<&str>, installed: &'a [String]) -> Option<&'a str> {
    let has = |name: &str| installed.iter().map(String::as_str).find(|i| *i == name);
    let arch = std::env::consts::ARCH;
    let triples = [
        host.map(str::to_owned),
        Some(format!("{arch}-unknown-linux-gnu")),
        Some(format!("{arch}-unknown-linux-musl")),
    ];
    is_name(wanted)
        .then(|| {
            has(wanted).or_else(|| triples.iter().flatten().find_map(|t| has(&format!("{wanted}-{t}"))))
        })?
        .or_else(|| {
            let continued =
                |i: &&str| i.strip_prefix(wanted).is_some_and(|r| r.starts_with(&format!("-{arch}-")));
            let mut all = installed.iter().map(String::as_str).filter(continued);
            all.next().filter(|_| all.next().is_none())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolchain_files_as_people_write_them() {
        let name = |n: &str| Some(Channel::Name(n.into()));
        for (text, plain, want) in [
            ("nightly\n", true, name("nightly")),
            ("nightly\n", false, None),
            ("[toolchain]\nchannel = \"1.95\"\n", true, name("1.95")),
            ("[toolchain]\nchannel = \"1.95\"\ncomponents = []\n", false, name("1.95")),
            ("[toolchain]\npath = \"../tc\"\n", false, Some(Channel::Path("/w/tc".into()))),
            ("[toolchain]\nchannel = \"../../x\"\n", false, None),
            ("../../../x\n", true, None),
            ("..", true, None),
            ("[toolchain]\n", false, None),
            ("", true, None),
        ] {
            assert_eq!(asked(text, Path::new("/w/p"), plain), want, "{text}");
        }
    }

    #[test]
    fn names_mean_installed_toolchains() {
        let arch = std::env::consts::ARCH;
        let full = |n: &str| format!("{n}-{arch}-unknown-linux-gnu");
        let installed = [full("stable"), full("1.95.0"), "mine".to_owned(), format!("odd-{arch}-x")];
        for (wanted, want) in [
            ("stable", Some(full("stable"))),
            (full("stable").as_str(), Some(full("stable"))),
            ("mine", Some("mine".to_owned())),
            ("odd", Some(format!("odd-{arch}-x"))),
            ("1.95", None),
            ("../..", None),
        ] {
            assert_eq!(folder_of(wanted, None, &installed), want.as_deref(), "{wanted}");
        }
    }
}
