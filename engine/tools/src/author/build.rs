//! Builds a component from a plugin's folder, and embeds its documentation and its manifest.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::{AuthorError, at};
use crate::component::docs::{check, embed};
use crate::install::manifest::Manifest;

/// Files of which a plugin's source has one.
const SOURCES: [&str; 4] = ["Cargo.toml", "app.py", "package.json", "src/plugin.c"];

/// Files of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Path of the component.
    pub component: PathBuf,
    /// Path of the copy of the manifest beside it.
    pub manifest: PathBuf,
    /// Size of the component in bytes.
    pub size: u64,
}

/// Builds the plugin in this folder into `out/NAME.wasm` and `out/plugin.toml`, and leaves neither of an earlier build when it fails;
/// another plugin's manifest in `out` stays. The language is known from the plugin's files: `Cargo.toml`, `app.py`, `package.json` or
/// `src/plugin.c`. Standard error gets the compiler's output. `RUSTC` and `CARGO_TARGET_WASM32_WASIP2_LINKER` are honoured, as by cargo, and `CC_wasm32_wasip2`, as by crates that compile C.
///
/// # Errors
/// [`AuthorError`] when the folder is not a plugin's, a compiler is missing (with the way to install it) or
/// fails, or a file cannot be written.
pub fn build(folder: &Path, out: &Path) -> Result<Built, AuthorError> {
    finish(folder, None, out)
}

/// Like [`build`], but for a component that was compiled elsewhere: embeds its documentation and its
/// manifest.
///
/// # Errors
/// As [`build`].
pub fn finish(folder: &Path, compiled: Option<&Path>, out: &Path) -> Result<Built, AuthorError> {
    let manifest_path = folder.join("plugin.toml");
    let manifest = fs::read_to_string(&manifest_path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => AuthorError::Folder { folder: folder.to_owned(), missing: "plugin.toml" },
        _ => at(&manifest_path)(error),
    })?;
    let copy = out.join("plugin.toml");
    // Files of the author stay.
    let is_own = |path: &Path| {
        is_same(path, &manifest_path) || compiled.is_some_and(|compiled| is_same(path, compiled))
    };
    let earlier = earlier(out);
    // A manifest without a name that can be that of a file says so itself. The earlier build's manifest names its component.
    let Some(name) = name(&manifest) else {
        let stale = earlier.into_iter().flat_map(|name| [out.join(format!("{name}.wasm")), copy.clone()]);
        stale.filter(|path| !is_own(path)).try_for_each(|path| absent(&path))?;
        let parsed = Manifest::parse(&manifest, &manifest_path)?;
        return Err(AuthorError::Folder {
            folder: folder.to_owned(),
            missing: match parsed.name.is_empty() {
                true => "name in its plugin.toml: [plugin] name = \"…\"",
                false => "name of letters, digits and hyphens in its plugin.toml",
            },
        });
    };
    let component = out.join(format!("{name}.wasm"));
    // A component of an earlier build would run in place of the one that did not build.
    let copied = earlier.is_some_and(|earlier| earlier == name).then_some(&*copy);
    let stale: Vec<&Path> = [&*component].into_iter().chain(copied).filter(|path| !is_own(path)).collect();
    stale.iter().try_for_each(|path| absent(path))?;
    let built = || -> Result<Built, AuthorError> {
        // Faults of the author's own files are told before the compiler runs, which takes minutes.
        Manifest::parse(&manifest, &manifest_path)?.check_secrets(&manifest, &manifest_path)?;
        Manifest::check_shown(&manifest, &manifest_path)?;
        fs::create_dir_all(out).map_err(at(out))?;
        let out = out.canonicalize().map_err(at(out))?;
        let (component, copy) = (out.join(format!("{name}.wasm")), out.join("plugin.toml"));
        let made = match compiled {
            Some(compiled) => compiled.to_owned(),
            None => compile(folder, &component)?,
        };
        let wasm = fs::read(&made).map_err(at(&made))?;
        let whole = embed(&wasm, &folder.join("wit"), Some(&manifest))?;
        fs::write(&component, &whole).map_err(at(&component))?;
        fs::write(&copy, &manifest).map_err(at(&copy))?;
        Ok(Built { component, manifest: copy, size: whole.len() as u64 })
    };
    // Compilers may leave a part behind.
    built().inspect_err(|_| stale.iter().for_each(|path| drop(absent(path))))
}

/// Name of the plugin that an earlier build left in a folder: its manifest with its component beside it. A folder with a plugin's
/// source has the author's manifest.
fn earlier(out: &Path) -> Option<String> {
    let name = name(&fs::read_to_string(out.join("plugin.toml")).ok()?)?;
    let is_source = SOURCES.into_iter().any(|file| out.join(file).is_file());
    (!is_source && out.join(format!("{name}.wasm")).is_file()).then_some(name)
}

/// True when two paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Removes a file, if it is there.
fn absent(path: &Path) -> Result<(), AuthorError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(at(path)(error)),
        _ => Ok(()),
    }
}

/// Compiles the plugin in a folder; returns the component's path.
fn compile(folder: &Path, component: &Path) -> Result<PathBuf, AuthorError> {
    let has = |file: &str| folder.join(file).is_file();
    if SOURCES.into_iter().any(has) {
        check(&folder.join("wit"))?;
    }
    if has("Cargo.toml") {
        rust(folder)
    } else if has("app.py") {
        python(folder, component).map(|()| component.to_owned())
    } else if has("package.json") {
        javascript(folder, component).map(|()| component.to_owned())
    } else if has("src/plugin.c") {
        c(folder, component).map(|()| component.to_owned())
    } else {
        let missing = "Cargo.toml, app.py, package.json or src/plugin.c";
        Err(AuthorError::Folder { folder: folder.to_owned(), missing })
    }
}

/// Name of the plugin, if it is valid as a file name.
fn name(manifest: &str) -> Option<String> {
    let table: toml::Table = manifest.parse().ok()?;
    let name = table.get("plugin")?.get("name")?.as_str()?;
    let fit = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    fit.then(|| name.to_owned())
}

fn rust(folder: &Path) -> Result<PathBuf, AuthorError> {
    const TARGET: &str = "wasm32-wasip2";
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut asked = Command::new(&compiler);
    asked.args(["--print", "target-libdir", "--target", TARGET]).current_dir(folder).stderr(Stdio::null());
    let answer = asked.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            AuthorError::Missing { what: "rustc", remedy: "install it: https://rustup.rs".to_owned() }
        }
        _ => at(Path::new(&compiler))(error),
    })?;
    let library = PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim());
    if !answer.status.success() || !library.is_dir() {
        let remedy = format!("rustup target add {TARGET}");
        return Err(AuthorError::Missing { what: "the compiler's target wasm32-wasip2", remedy });
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--target", TARGET, "--message-format=json-render-diagnostics"]);
    let told = run(cargo.current_dir(folder))?;
    artifact(&told).ok_or(AuthorError::Folder {
        folder: folder.to_owned(),
        missing: "library of crate-type \"cdylib\" in its Cargo.toml",
    })
}

/// Component that cargo reports, line by line as JSON. If there are several, the last one: dependencies come
/// first.
fn artifact(told: &str) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(default)]
        filenames: Vec<PathBuf>,
    }
    let lines = told.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let mut components = lines
        .flat_map(|line| line.filenames)
        .filter(|file| file.extension() == Some(OsStr::new("wasm")))
        .collect::<Vec<_>>();
    components.pop()
}

fn python(folder: &Path, component: &Path) -> Result<(), AuthorError> {
    let remedy = "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt";
    let program = installed(folder, ".venv/bin/componentize-py", "componentize-py", remedy)?;
    let mut command = Command::new(program);
    command.args(["-d", "wit", "-w", "plugin", "componentize", "app", "-o"]).arg(component);
    run(command.current_dir(folder)).map(drop)
}

fn javascript(folder: &Path, component: &Path) -> Result<(), AuthorError> {
    let program = installed(folder, "node_modules/.bin/componentize-js", "componentize-js", "npm install")?;
    let mut command = Command::new(program);
    command.args(["src/plugin.js", "--wit", "wit", "--world-name", "plugin", "--out"]).arg(component);
    run(command.current_dir(folder)).map(drop)
}

/// A core module of all of `src/*.c`, which becomes a component of the types in `wit/`. With an object in `src`,
/// as `wit-bindgen c` writes one for its types, it is linked with the C library of WASI.
fn c(folder: &Path, component: &Path) -> Result<(), AuthorError> {
    let source = folder.join("src");
    let entries = fs::read_dir(&source).map_err(at(&source))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let ending = |wanted: &'static str| {
        let of = move |path: &&PathBuf| path.extension().is_some_and(|ending| ending == wanted);
        paths.iter().filter(of).cloned().collect::<Vec<_>>()
    };
    let (files, objects) = (ending("c"), ending("o"));
    let has_libc = !objects.is_empty();
    let target: &[&str] = match has_libc {
        true => &["--target=wasm32-wasi"],
        false => &["--target=wasm32-unknown-unknown", "-nostdlib"],
    };
    let compiler = std::env::var_os("CC_wasm32_wasip2").unwrap_or_else(|| "clang".into());
    let clang = |arguments: &[&OsStr]| {
        let mut command = Command::new(&compiler);
        command.args(target).args(arguments);
        match run(&mut command) {
            Err(AuthorError::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => {
                let libc = if has_libc { " wasi-libc libclang-rt-dev-wasm32" } else { "" };
                let remedy = format!("sudo apt-get install clang lld{libc}");
                Err(AuthorError::Missing { what: "clang", remedy })
            }
            other => other.map(drop),
        }
    };
    // One by one: a clang that runs by another loader than the machine's cannot start itself again.
    let kind = if has_libc { "-mexec-model=reactor" } else { "-Wl,--no-entry" };
    let mut link: Vec<std::ffi::OsString> = ["-fuse-ld=lld", kind, "-o"].map(Into::into).to_vec();
    link.push(component.into());
    let mut made = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let object = component.with_extension(format!("{number}.o")).into_os_string();
        let compile = ["-O2", "-Wall", "-c", "-o"].map(OsStr::new);
        clang(&[&compile[..], &[object.as_os_str(), file.as_os_str()]].concat())?;
        link.push(object.clone());
        made.push(object);
    }
    link.extend(objects.into_iter().map(Into::into));
    let linked = clang(&link.iter().map(std::ffi::OsString::as_os_str).collect::<Vec<_>>());
    made.iter().for_each(|object| drop(fs::remove_file(object)));
    linked
}

/// A program of the plugin's own folder, or else of the search path.
fn installed(folder: &Path, own: &str, what: &'static str, remedy: &str) -> Result<PathBuf, AuthorError> {
    let own = folder.canonicalize().map_err(at(folder))?.join(own);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::iter::once(own).chain(std::env::split_paths(&path).map(|folder| folder.join(what)));
    all.find(|file| file.is_file()).ok_or(AuthorError::Missing { what, remedy: remedy.to_owned() })
}

/// Runs a program to its end and returns its output; its standard error goes to ours.
fn run(command: &mut Command) -> Result<String, AuthorError> {
    let program = PathBuf::from(command.get_program());
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(at(&program))?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        return Err(AuthorError::Failed { command: words.join(" "), status: output.status.to_string() });
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_name_is_read_from_manifest() {
        for (manifest, expected) in [
            ("[plugin]\nname = \"a-b\"", Some("a-b")),
            ("[plugin]\nname = \"../a\"", None),
            ("[plugin]\nname = \"\"", None),
            ("[plugin]", None),
            ("name = 7", None),
            ("[", None),
        ] {
            assert_eq!(name(manifest).as_deref(), expected, "{manifest}");
        }
    }

    #[test]
    fn failed_build_leaves_no_component_of_an_earlier_one() {
        let manifest = "[plugin]\nname = \"shop\"\nversion = \"1.0.0\"\n";
        for (files, compiled) in [
            (&[("plugin.toml", "[plugin]\nname = \"shop\"\nversion = 7\n")][..], None),
            // Without a source, without a compiler, and with a file that is not a component.
            (&[("plugin.toml", manifest)], None),
            (&[("plugin.toml", manifest), ("app.py", "x")], None),
            (&[("plugin.toml", manifest), ("made.wasm", "no component")], Some("made.wasm")),
            (&[("plugin.toml", manifest)], Some("missing.wasm")),
            // Without a name, that of the earlier build counts.
            (&[("plugin.toml", "[plugin\nname = \"shop\"\n")], None),
            (&[("plugin.toml", "[plugin]\nversion = \"1.0.0\"\n")], None),
            (&[("plugin.toml", "[plugin]\nname = \"a/b\"\n"), ("app.py", "x")], None),
            (&[("plugin.toml", "")], Some("missing.wasm")),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("out");
            fs::create_dir(&out).unwrap();
            for (name, text) in [("shop.wasm", "old"), ("plugin.toml", manifest), ("other.wasm", "old")] {
                fs::write(out.join(name), text).unwrap();
            }
            for (name, text) in files {
                fs::write(folder.path().join(name), text).unwrap();
            }
            let compiled = compiled.map(|name| folder.path().join(name));
            assert!(finish(folder.path(), compiled.as_deref(), &out).is_err(), "{files:?}");
            let left = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name());
            assert_eq!(left.collect::<Vec<_>>(), ["other.wasm"], "{files:?}");
            assert!(
                compiled.is_none_or(|path| path.ends_with("missing.wasm") || path.is_file()),
                "{files:?}"
            );
        }
        // The author's own files are not those of an earlier build.
        for own in [Some("shop.wasm"), None] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("plugin.toml"), manifest).unwrap();
            let own = own.map(|name| folder.path().join(name));
            if let Some(own) = &own {
                fs::write(own, "no component").unwrap();
            }
            assert!(finish(folder.path(), own.as_deref(), folder.path()).is_err());
            assert!(own.is_none_or(|own| own.is_file()) && folder.path().join("plugin.toml").is_file());
        }
    }

    #[test]
    fn failed_build_leaves_manifests_of_other_plugins() {
        const SHOP: &str = "[plugin]\nname = \"shop\"\nversion = \"1.0.0\"\n";
        const OTHER: &str = "[plugin]\nname = \"other\"\nversion = \"1.0.0\"\n";
        const BROKEN: &str = "[plugin\n";
        for (manifest, there, left) in [
            // Without its component, a manifest is not a copy of a build.
            (SHOP, &[("plugin.toml", OTHER), ("shop.wasm", "old")][..], &["plugin.toml"][..]),
            (SHOP, &[("plugin.toml", SHOP)], &["plugin.toml"]),
            (SHOP, &[("plugin.toml", "no manifest")], &["plugin.toml"]),
            (BROKEN, &[("plugin.toml", OTHER), ("shop.wasm", "old")], &["plugin.toml", "shop.wasm"]),
            (BROKEN, &[("plugin.toml", BROKEN), ("shop.wasm", "old")], &["plugin.toml", "shop.wasm"]),
            // Another plugin, with its own build.
            (SHOP, &[("plugin.toml", OTHER), ("other.wasm", "old")], &["other.wasm", "plugin.toml"]),
            // The source of another plugin, which was built in its own folder.
            (
                BROKEN,
                &[("plugin.toml", OTHER), ("other.wasm", "old"), ("app.py", "x")],
                &["app.py", "other.wasm", "plugin.toml"],
            ),
            (
                SHOP,
                &[("plugin.toml", SHOP), ("shop.wasm", "old"), ("app.py", "x")],
                &["app.py", "plugin.toml"],
            ),
            (BROKEN, &[], &[]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("out");
            fs::create_dir(&out).unwrap();
            fs::write(folder.path().join("plugin.toml"), manifest).unwrap();
            for (name, text) in there {
                fs::write(out.join(name), text).unwrap();
            }
            assert!(build(folder.path(), &out).is_err(), "{manifest:?} {there:?}");
            let names = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<_> = names.collect();
            names.sort();
            assert_eq!(names, left, "{manifest:?} {there:?}");
        }
    }

    #[test]
    fn artifact_is_last_component() {
        let told = r#"{"reason":"compiler-artifact","filenames":["/t/libdep.rlib"]}
{"reason":"compiler-artifact","filenames":["/t/plugin.wasm","/t/plugin.d"]}
not JSON
{"reason":"build-finished","success":true}"#;
        assert_eq!(artifact(told), Some("/t/plugin.wasm".into()));
        assert_eq!(artifact(""), None);
    }
}
