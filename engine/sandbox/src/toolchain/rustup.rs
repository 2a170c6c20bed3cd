//! Which toolchain rustup's proxies would use, so that the toolchain itself can be mounted and neither
//! rustup nor the folder with cargo's credentials is needed inside.

use std::path::{Path, PathBuf};

use super::files::{Fs, Kind};
use super::shim::below;
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

/// What a proxy leads to, or why it leads nowhere and what to do.
pub(super) type Target = Result<Tool, (String, String)>;

/// A tool of a toolchain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    pub file: PathBuf,
    /// The toolchain file that names its folder: part of a project, and so not to be believed.
    pub from: Option<PathBuf>,
}

/// Whether `file`, which is `real` without links, is rustup under the name of a tool.
pub(super) fn is_proxy(fs: &dyn Fs, file: &Path, real: &Path) -> bool {
    if real.ends_with("rustup") || real.ends_with("rustup-init") {
        return true;
    }
    let Some(name) = file.file_name().and_then(|n| n.to_str()) else {
        return false;
    };
    let Some(rustup) = real.parent().map(|d| d.join("rustup")) else {
        return false;
    };
    // A hard link to rustup, or where links are not possible, a copy beside it.
    PROXIES.contains(&name)
        && match (fs.look(real), walk::look(fs, &rustup)) {
            (Some(Kind::File { id: a, .. }), Some(Kind::File { id: b, .. })) => {
                a == b || fs.head(real, 4096) == fs.head(&rustup, 4096)
            }
            _ => false,
        }
}

/// The tool `name` of the active toolchain.
pub(super) fn resolve(fs: &dyn Fs, around: &Surroundings, name: &str) -> Target {
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
    let settings = Settings::read(&fs.text(&rustup.join("settings.toml")).unwrap_or_default());
    let (channel, from) = active(fs, around, &settings).ok_or_else(|| {
        ("rustup has no default toolchain".to_owned(), "run `rustup default stable`".to_owned())
    })?;
    let mut led = None;
    let folder = match channel {
        Channel::Path(path) => {
            led = Some(PathBuf::from(&from)).filter(|f| f.is_absolute());
            path
        }
        Channel::Name(wanted) => {
            let toolchains = rustup.join("toolchains");
            let real = walk::real(fs, &toolchains).unwrap_or_else(|| toolchains.clone());
            let installed: Vec<String> =
                fs.names(&real).into_iter().filter_map(|n| n.into_string().ok()).collect();
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
    if walk::exists(fs, &tool) {
        return Ok(Tool { file: tool, from: led });
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

/// A toolchain as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Channel {
    Name(String),
    Path(PathBuf),
}

/// What matters of rustup's `settings.toml`.
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

/// The active toolchain and what chose it: the environment, then the nearest folder with an override or a
/// toolchain file, then the default.
fn active(fs: &dyn Fs, around: &Surroundings, settings: &Settings) -> Option<(Channel, String)> {
    if let Some(name) = around.value("RUSTUP_TOOLCHAIN").and_then(|v| v.to_str()) {
        return Some((named(name), "RUSTUP_TOOLCHAIN".to_owned()));
    }
    let start = around.start();
    let real = walk::real(fs, start).unwrap_or_else(|| start.to_path_buf());
    for folder in real.ancestors() {
        if let Some((_, name)) = settings.overrides.iter().find(|(path, _)| path == folder) {
            return Some((named(name), format!("rustup's override for {}", folder.display())));
        }
        for name in ["rust-toolchain", "rust-toolchain.toml"] {
            let file = folder.join(name);
            let Some(text) = fs.own_text(&file) else {
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

/// What a toolchain file asks for. A name with a slash is no name: it could lead out of rustup's folder.
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

/// The installed toolchain that a name means: itself, with the host's triple, or the only one that continues it.
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
