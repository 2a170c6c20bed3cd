//! `Cargo.lock`: the registries of its packages, and which of a project's packages are its own. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use hotcell_testing::Project;
use serde::Deserialize;

use crate::plan::{Ahead, Installer, LockError, MADE, Plan, add, bad, host, is_below, put, text};

/// Lock file.
const FILE: &str = "Cargo.lock";
/// Value of `source` for packages from crates.io.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// A program that does nothing.
const NOTHING: &[u8] = b"fn main() {}\n";
/// Files that select a toolchain, read when cargo is looked up.
const TOOLCHAIN: [&str; 2] = ["rust-toolchain", "rust-toolchain.toml"];
/// Maximum depth of a target's file.
const MAX_TARGET_DEPTH: usize = 16;
/// The project's configuration of cargo; the first file that exists is used.
const CONFIGURATION: [&str; 2] = [".cargo/config", ".cargo/config.toml"];

impl Ahead {
    /// Tells if a file that cargo left in its target folder belongs to one of `packages`. `path` is relative
    /// to that folder.
    #[must_use]
    pub fn keeps(&self, path: &Path) -> bool {
        let names: Vec<&str> =
            path.components().map(|part| part.as_os_str().to_str().unwrap_or("")).collect();
        // `debug/…`, or `TRIPLE/debug/…`.
        let Some(at) = names.iter().take(3).position(|name| [".fingerprint", "build", "deps"].contains(name))
        else {
            return false;
        };
        match (names[at], names.get(at + 1)) {
            (_, None) => false,
            ("deps", Some(file)) => {
                let stem = file.split('.').next().unwrap_or_default();
                let crate_name = |name: &str| name.strip_prefix("lib").unwrap_or(name).to_owned();
                unit(stem)
                    .is_some_and(|name| !self.own.contains(name) && !self.own.contains(&crate_name(name)))
            }
            (_, Some(folder)) => unit(folder).is_some_and(|name| self.packages.contains(name)),
        }
    }
}

/// The name in `NAME-0123456789abcdef`, cargo's form for results; other layouts are unknown.
fn unit(name: &str) -> Option<&str> {
    let (name, hash) = name.rsplit_once('-')?;
    let is_hash = hash.len() == 16 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    is_hash.then_some(name)
}

#[derive(Deserialize)]
struct Lock {
    #[serde(default)]
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    #[serde(default)]
    source: Option<String>,
}

/// Plan for `cargo fetch`, and for compiling the fetched packages.
/// <https://doc.rust-lang.org/cargo/guide/cargo-toml-vs-cargo-lock.html>
pub fn plan(project: &dyn Project) -> Result<Plan, LockError> {
    let bytes = text(project, FILE)?;
    let lock: Lock = toml::from_str(&String::from_utf8_lossy(&bytes))
        .map_err(|e| bad(FILE, format!("is no lock file: {}", e.message())))?;
    let mut hosts = BTreeSet::new();
    let (mut packages, mut own) = (BTreeSet::new(), BTreeSet::new());
    for package in lock.package {
        match package.source.as_deref() {
            None => {
                own.insert(package.name);
                continue;
            }
            Some(CRATES_IO) => {
                hosts.extend(["index.crates.io:443", "static.crates.io:443"].map(str::to_owned));
            }
            Some(source) => match source.strip_prefix("sparse+") {
                Some(address) => {
                    hosts.insert(host(FILE, address)?);
                }
                None => {
                    let why = format!(
                        "{:.100} comes from {source:.200}; only registries are fetched from",
                        package.name
                    );
                    return Err(bad(FILE, why));
                }
            },
        }
        packages.insert(package.name);
    }
    let mut files = BTreeMap::from([(FILE.to_owned(), bytes)]);
    let listed =
        project.files().iter().filter(|f| f.as_str() == "Cargo.toml" || f.ends_with("/Cargo.toml")).cloned();
    let mut manifests: Vec<String> = listed.collect();
    while let Some(manifest) = manifests.pop() {
        let manifest = &manifest;
        if files.contains_key(manifest) {
            continue;
        }
        add(&mut files, project, manifest.clone())?;
        // Adds manifests in places that the search skips.
        manifests.extend(paths(&files[manifest], manifest).filter(|path| project.has(path)));
        let folder = manifest.trim_end_matches("Cargo.toml");
        for (path, text) in stubs(&files[manifest], |path| project.has(&format!("{folder}{path}"))) {
            put(&mut files, format!("{folder}{path}"), text.to_owned())?;
        }
    }
    for file in TOOLCHAIN.into_iter().filter(|file| project.has(file)) {
        add(&mut files, project, file.to_owned())?;
    }
    let home = format!("{MADE}/cargo");
    let mut plan =
        Installer::Cargo.plan(&[FILE], files, hosts, &["cargo", "fetch", "--locked", "--quiet"], &home);
    plan.env.push(("CARGO_NET_RETRY".into(), "1".into()));
    plan.env.push(("CARGO_HOME".into(), format!("/home/sandbox/project/{home}").into()));
    packages.retain(|name| !own.contains(name));
    if !packages.is_empty() {
        let mut files = BTreeMap::new();
        if let Some(file) = CONFIGURATION.into_iter().find(|file| project.has(file)) {
            add(&mut files, project, file.to_owned())?;
        }
        // Any other program or flag in the project's configuration is left to the tests.
        let plain = files.values().all(|text| is_plain_configuration(text))
            && !plan.files.iter().any(|(name, text)| name.ends_with("Cargo.toml") && asks_for_more(text));
        let own = own.iter().map(|name| name.replace('-', "_")).collect();
        plan.ahead = plain.then_some(Ahead { files, packages, own });
    }
    Ok(plan)
}

/// True when a manifest enables unstable features of cargo.
fn asks_for_more(manifest: &[u8]) -> bool {
    parsed(manifest).is_none_or(|table| table.contains_key("cargo-features"))
}

fn parsed(text: &[u8]) -> Option<toml::Table> {
    toml::from_str(std::str::from_utf8(text).ok()?).ok()
}

/// True when a configuration makes cargo start only rustc, and sets only how that compiles.
/// <https://doc.rust-lang.org/cargo/reference/config.html>
fn is_plain_configuration(text: &[u8]) -> bool {
    let Some(table) = parsed(text) else { return false };
    let only = |value: &toml::Value, keys: &[&str]| {
        value.as_table().is_some_and(|table| {
            table.iter().all(|(key, value)| {
                keys.contains(&key.as_str()) && (key != "rustflags" || are_plain_flags(value))
            })
        })
    };
    table.iter().all(|(key, value)| match key.as_str() {
        "alias" | "cargo-new" | "future-incompat-report" | "http" | "net" | "profile" | "term" => true,
        "build" => only(value, &["incremental", "jobs", "rustflags", "target"]),
        "target" => value
            .as_table()
            .is_some_and(|targets| targets.values().all(|target| only(target, &["rustflags"]))),
        _ => false,
    })
}

/// True when rustc's flags only say how to compile, and name no program or file.
fn are_plain_flags(flags: &toml::Value) -> bool {
    let words: Option<Vec<&str>> = match flags {
        toml::Value::String(text) => Some(text.split_whitespace().collect()),
        toml::Value::Array(list) => list.iter().map(toml::Value::as_str).collect(),
        _ => None,
    };
    let Some(words) = words else { return false };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let plain = match word {
            "--cfg" | "--check-cfg" | "-A" | "-D" | "-W" | "--cap-lints" => words.next().is_some(),
            "-C" => words.next().is_some_and(is_plain_option),
            _ => {
                let lint = ["-A", "-D", "-W", "--cfg=", "--check-cfg=", "--cap-lints="];
                match word.strip_prefix("-C") {
                    Some(option) => is_plain_option(option),
                    None => lint.iter().any(|head| word.starts_with(head)),
                }
            }
        };
        if !plain {
            return false;
        }
    }
    true
}

/// Checks an option of `-C`.
fn is_plain_option(option: &str) -> bool {
    const KNOWN: [&str; 13] = [
        "codegen-units",
        "debug-assertions",
        "debuginfo",
        "force-frame-pointers",
        "force-unwind-tables",
        "lto",
        "opt-level",
        "overflow-checks",
        "panic",
        "relocation-model",
        "strip",
        "target-cpu",
        "target-feature",
    ];
    match option.split_once('=') {
        // Another linker of the system, by its short name.
        Some(("link-arg", value)) => value
            .strip_prefix("-fuse-ld=")
            .is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphanumeric())),
        Some((name, _)) => KNOWN.contains(&name),
        None => KNOWN.contains(&option),
    }
}

/// Paths, in the project, of the manifests of packages that a manifest names by their folders.
fn paths(manifest: &[u8], at: &str) -> impl Iterator<Item = String> {
    let folder = at.strip_suffix("Cargo.toml").unwrap_or_default().to_owned();
    let table = parsed(manifest).unwrap_or_default();
    let mut found = Vec::new();
    named(&toml::Value::Table(table), MAX_TARGET_DEPTH, &mut found);
    found.into_iter().filter_map(move |path| {
        let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
        for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
            match part {
                ".." => drop(parts.pop()?),
                part => parts.push(part),
            }
        }
        let path = [parts.as_slice(), &["Cargo.toml"]].concat().join("/");
        (parts.len() <= MAX_TARGET_DEPTH && is_below(&path)).then_some(path)
    })
}

/// Collects the values of all keys `path`.
fn named(value: &toml::Value, depth: usize, found: &mut Vec<String>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let inner: Vec<&toml::Value> = match value {
        toml::Value::Table(table) => {
            found.extend(table.get("path").and_then(toml::Value::as_str).map(str::to_owned));
            table.values().collect()
        }
        toml::Value::Array(list) => list.iter().collect(),
        _ => return,
    };
    inner.into_iter().for_each(|value| named(value, depth, found));
}

/// Stubs to compile in place of a package's own files, by their paths in its folder: cargo requires a file
/// for each target of a manifest, and compiles the dependencies of a build script only if the script exists.
/// <https://doc.rust-lang.org/cargo/reference/cargo-targets.html>
fn stubs(manifest: &[u8], has: impl Fn(&str) -> bool) -> BTreeMap<String, &'static [u8]> {
    let mut stubs: BTreeMap<String, &'static [u8]> = BTreeMap::new();
    let table: toml::Table = toml::from_str(&String::from_utf8_lossy(manifest)).unwrap_or_default();
    // A manifest without a package only lists members; an unused stub does no harm.
    let library = table.get("lib").and_then(|lib| lib.get("path")).and_then(toml::Value::as_str);
    stubs.insert(library.and_then(plain).unwrap_or_else(|| "src/lib.rs".to_owned()), b"");
    for (kind, folder) in
        [("bin", "src/bin"), ("example", "examples"), ("test", "tests"), ("bench", "benches")]
    {
        for target in table.get(kind).and_then(toml::Value::as_array).into_iter().flatten() {
            let of = |key| target.get(key).and_then(toml::Value::as_str);
            let path = match (of("path"), of("name")) {
                (Some(path), _) => plain(path),
                (None, Some(name)) => plain(&format!("{folder}/{name}.rs")),
                (None, None) => None,
            };
            if let Some(path) = path {
                stubs.entry(path).or_insert(NOTHING);
            }
        }
    }
    // Programs found by convention; one of them may be named elsewhere.
    let default =
        table.get("package").and_then(|package| package.get("default-run")).and_then(toml::Value::as_str);
    let default = default.map(|name| [format!("src/bin/{name}.rs"), format!("src/bin/{name}/main.rs")]);
    for path in default.into_iter().flatten().chain(["src/main.rs".to_owned()]) {
        if let Some(path) = plain(&path).filter(|path| has(path)) {
            stubs.entry(path).or_insert(NOTHING);
        }
    }
    let build = table.get("package").and_then(|package| package.get("build"));
    let build = match build {
        Some(toml::Value::String(path)) => plain(path),
        Some(toml::Value::Boolean(false)) => None,
        _ => has("build.rs").then(|| "build.rs".to_owned()),
    };
    if let Some(path) = build {
        stubs.insert(path, NOTHING);
    }
    stubs
}

/// Normalises a path as cargo does, if it leads below its folder.
fn plain(path: &str) -> Option<String> {
    let path = Path::new(path.strip_prefix("./").unwrap_or(path));
    let mut parts = path.components().peekable();
    let good = parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)));
    let text = path.to_str()?;
    let near = path.components().count() <= MAX_TARGET_DEPTH;
    (good && near && is_below(text) && text.len() < 1000).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_targets_have_files() {
        for (manifest, files) in [
            ("[package]\nname = 'a'", &["src/lib.rs"][..]),
            (
                "[lib]\npath = 'lib.rs'\n[[bin]]\nname = 'x'\n[[test]]\nname = 't'\npath = './deep/t.rs'",
                &["deep/t.rs", "lib.rs", "src/bin/x.rs"],
            ),
            ("[package]\nbuild = 'b.rs'\n[[bin]]\npath = '../../etc/x'\nname = 'y'", &["b.rs", "src/lib.rs"]),
            ("[package]\nbuild = false", &["src/lib.rs"]),
            ("not a manifest", &["src/lib.rs"]),
        ] {
            assert_eq!(
                stubs(manifest.as_bytes(), |_| false).into_keys().collect::<Vec<_>>(),
                files,
                "{manifest}"
            );
        }
        let with =
            |manifest: &str| stubs(manifest.as_bytes(), |path| path == "build.rs").contains_key("build.rs");
        assert!(with("[package]\nname = 'a'") && with("[package]\nbuild = true"));
        assert!(!with("[package]\nbuild = false"));
        let programs =
            stubs(b"[package]\ndefault-run = 'a'", |path| ["src/main.rs", "src/bin/a.rs"].contains(&path));
        assert_eq!(programs.into_keys().collect::<Vec<_>>(), ["src/bin/a.rs", "src/lib.rs", "src/main.rs"]);
    }

    #[test]
    fn path_dependencies_are_found() {
        let manifest = "[dependencies]\na = { path = './vendor/a' }\n[target.x.dev-dependencies.b]\npath = '../b/'\n\
                        [patch.crates-io]\nc = { path = '../../../etc' }\nd = { path = '/etc' }\n[lib]\npath = 'src/x.rs'";
        let found: Vec<String> = paths(manifest.as_bytes(), "in/here/Cargo.toml").collect();
        let want = [
            "etc/Cargo.toml",
            "in/b/Cargo.toml",
            "in/here/src/x.rs/Cargo.toml",
            "in/here/vendor/a/Cargo.toml",
        ];
        let mut sorted = found.clone();
        sorted.sort();
        assert!(want[1..].iter().all(|path| found.iter().any(|f| f == path)), "{found:?}");
        assert!(sorted.iter().all(|path| !path.starts_with('/') && !path.contains("..")), "{found:?}");
    }

    #[test]
    fn cargo_settings_that_start_programs_prevent_precompilation() {
        for (text, plain) in [
            ("", true),
            (
                "[build]\nrustflags = ['--cfg', 'x', '-Ctarget-cpu=native', '-Dwarnings', '-C', 'opt-level=1']\njobs = 2",
                true,
            ),
            (
                "[target.'cfg(unix)']\nrustflags = '--cfg x -Cpanic=abort'\n[net]\nretry = 1\n[profile.dev]\ndebug = 1",
                true,
            ),
            ("[build]\nrustc = '/bin/sh'", false),
            ("[build]\nrustc-wrapper = 'sccache'", false),
            ("[target.x]\nlinker = 'cc'", false),
            ("[target.x]\nrunner = 'sh'", false),
            ("[build]\nrustflags = ['-Clinker=/bin/sh']", false),
            ("[build]\nrustflags = ['-C', 'linker=/bin/sh']", false),
            ("[build]\nrustflags = ['-Clink-arg=-fuse-ld=mold']", true),
            ("[build]\nrustflags = ['-Clink-arg=-fuse-ld=/x/y']", false),
            ("[build]\nrustflags = ['-Clink-arg=x']", false),
            ("[build]\nrustflags = ['@file']", false),
            ("[build]\nrustflags = ['-Zx']", false),
            ("[build]\nrustflags = ['-L', '/x']", false),
            ("[env]\nCC = 'sh'", false),
            ("[unstable]\nx = true", false),
            ("include = 'other.toml'", false),
            ("[source.crates-io]\nreplace-with = 'v'", false),
            ("no configuration", false),
        ] {
            assert_eq!(is_plain_configuration(text.as_bytes()), plain, "{text}");
        }
        assert!(asks_for_more(b"cargo-features = ['profile-rustflags']\n[package]\nname = 'a'"));
        assert!(asks_for_more(b"\xff") && !asks_for_more(b"[package]\nname = 'a'"));
    }

    #[test]
    fn files_compiled_from_stubs_are_discarded() {
        let ahead = Ahead {
            files: BTreeMap::new(),
            packages: ["serde", "a-b"].map(str::to_owned).into(),
            own: ["own", "serde_own", "library"].map(str::to_owned).into(),
        };
        for (path, kept) in [
            ("debug", false),
            ("debug/.fingerprint", false),
            ("debug/own", false),
            (".rustc_info.json", false),
            ("debug/.fingerprint/serde-0123456789abcdef", true),
            ("debug/.fingerprint/serde-0123456789abcdef/lib-serde", true),
            ("debug/.fingerprint/a-b-0123456789abcdef/x", true),
            ("debug/.fingerprint/own-0123456789abcdef/lib-own", false),
            ("debug/.fingerprint/serde-own-0123456789abcdef", false),
            ("debug/build/own-0123456789abcdef/out/x", false),
            ("debug/build/serde-0123456789abcdef/out/x", true),
            ("debug/deps/libserde-0123456789abcdef.rlib", true),
            ("x86_64-unknown-linux-gnu/debug/.fingerprint/own-0123456789abcdef", false),
            ("x86_64-unknown-linux-gnu/debug/.fingerprint/serde-0123456789abcdef/x", true),
            ("debug/deps/serde-0123456789abcdef.d", true),
            ("debug/deps/libserde_derive-0123456789abcdef.so", true),
            ("debug/deps/own-0123456789abcdef", false),
            ("debug/deps/libown-0123456789abcdef.rlib", false),
            ("debug/deps/liblibrary-0123456789abcdef.rmeta", false),
            ("debug/deps/library-0123456789abcdef.d", false),
            ("debug/deps/own", false),
            // In an unknown layout the unit is `serde-own`.
            ("debug/build/serde-own/0123456789abcdef/out/x", false),
            ("debug/.fingerprint/serde-0123456789ABCDEF", false),
            ("debug/incremental", false),
            ("debug/incremental/own/x", false),
            ("debug/examples/x", false),
        ] {
            assert_eq!(ahead.keeps(Path::new(path)), kept, "{path}");
        }
    }
}
