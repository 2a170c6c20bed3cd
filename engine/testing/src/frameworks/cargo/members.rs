//! Members of a Cargo workspace that only a nightly compiler compiles, and that `cargo test` alone leaves out. Pure.

use std::ffi::OsString;

use toml::{Table, Value};

use crate::project::Project;

/// Maximum number of packages that are looked at.
const MAX_PACKAGES: usize = 200;

/// A package that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Left {
    package: String,
    /// File that needs a nightly compiler.
    file: String,
}

/// Arguments for all members but those that are left out.
pub(crate) fn whole(project: &dyn Project) -> Vec<OsString> {
    let left = left(project).into_iter().map(|left| format!("--exclude={}", left.package).into());
    std::iter::once("--workspace".into()).chain(left).collect()
}

/// Note about members that are left out.
pub(crate) fn note(project: &dyn Project) -> Option<String> {
    let left = left(project);
    let names: Vec<String> =
        left.iter().take(5).map(|left| format!("{} ({})", left.package, left.file)).collect();
    let more = if left.len() > names.len() { " and others" } else { "" };
    (!names.is_empty()).then(|| {
        format!(
            "not tested, as they need a nightly compiler and are not among the default members of the workspace: {}{more}; a rust-toolchain.toml of a nightly channel tests them",
            names.join(", ")
        )
    })
}

/// Packages with a nightly feature in a crate's first lines, beside the default members. Empty where the project asks
/// for a nightly compiler itself.
fn left(project: &dyn Project) -> Vec<Left> {
    let text = |file: &str| project.read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let table = |file: &str| text(file)?.parse::<Table>().ok();
    let Some(root) = table("Cargo.toml") else { return Vec::new() };
    let Some(workspace) = root.get("workspace") else { return Vec::new() };
    let asks = |file: &str, word: &str| text(file).is_some_and(|text| text.contains(word));
    if ["rust-toolchain", "rust-toolchain.toml"].iter().any(|file| asks(file, "nightly"))
        || [".cargo/config", ".cargo/config.toml"].iter().any(|file| asks(file, "RUSTC_BOOTSTRAP"))
    {
        return Vec::new();
    }
    let defaults = workspace.get("default-members").and_then(Value::as_array);
    // Without a list, the package at the top, or else every member.
    let is_default = |folder: &str| match defaults {
        None => root.get("package").is_none(),
        Some(folders) => folders.iter().filter_map(Value::as_str).any(|one| {
            let one = one.trim_start_matches("./").trim_end_matches('/');
            one == folder || one.split_once('*').is_some_and(|(head, _)| folder.starts_with(head))
        }),
    };
    let packages = project.files().iter().filter_map(|file| file.strip_suffix("/Cargo.toml"));
    packages
        .take(MAX_PACKAGES)
        .filter(|folder| !is_default(folder))
        .filter_map(|folder| {
            let manifest = table(&format!("{folder}/Cargo.toml"))?;
            let package = manifest.get("package")?.get("name")?.as_str()?;
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            let file = project
                .files()
                .iter()
                .filter(|file| file.strip_prefix(folder).is_some_and(is_crate))
                .find(|file| text(file).is_some_and(|text| needs_nightly(&text)))?;
            package.chars().all(is_name).then(|| Left { package: package.to_owned(), file: file.clone() })
        })
        .collect()
}

/// True for the first file of a crate that `cargo test` compiles, by its path below the package.
fn is_crate(path: &str) -> bool {
    let below = |folder: &str| {
        path.strip_prefix(folder).is_some_and(|name| name.ends_with(".rs") && !name.contains('/'))
    };
    matches!(path, "/src/lib.rs" | "/src/main.rs") || below("/src/bin/") || below("/tests/")
}

/// True when a crate enables a feature of the compiler in every build of its tests.
fn needs_nightly(text: &str) -> bool {
    let lines = || text.lines().map(|line| line.trim_start().replace(' ', ""));
    lines().any(|line| line.starts_with("#![feature(") || line.starts_with("#![cfg_attr(test,feature("))
        && !lines().any(|line| line.starts_with("#![cfg("))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Files(Vec<String>, Vec<(&'static str, &'static str)>);

    impl Project for Files {
        fn files(&self) -> &[String] {
            &self.0
        }
        fn read(&self, path: &str) -> Option<Vec<u8>> {
            self.1.iter().find(|(name, _)| *name == path).map(|(_, text)| text.as_bytes().to_vec())
        }
        fn has(&self, path: &str) -> bool {
            self.0.iter().any(|file| file == path)
        }
    }

    #[test]
    fn members_that_need_nightly_are_left_out() {
        const TOP: &str = "[package]\nname = 'top'\n[workspace]\nmembers = ['demo']\n";
        const VIRTUAL: &str = "[workspace]\nmembers = ['demo']\n";
        const LISTED: &str = "[workspace]\nmembers = ['*']\ndefault-members = ['./demo/']\n";
        const OTHERS: &str = "[workspace]\nmembers = ['*']\ndefault-members = ['core']\n";
        const ALL: &str = "[workspace]\nmembers = ['*']\ndefault-members = ['d*']\n";
        const PLAIN: &str = "[package]\nname = 'top'\n";
        for (root, file, text, beside, want) in [
            (TOP, "demo/src/main.rs", "#![cfg_attr(test, feature(test))]\n", "", true),
            (TOP, "demo/src/lib.rs", "//! x\n#![feature(test)]\n", "", true),
            (TOP, "demo/tests/a.rs", "  #![feature( test )]\n", "", true),
            (OTHERS, "demo/src/bin/a.rs", "#![feature(test)]\n", "", true),
            // Members that `cargo test` alone tests.
            (VIRTUAL, "demo/src/lib.rs", "#![feature(test)]\n", "", false),
            (LISTED, "demo/src/lib.rs", "#![feature(test)]\n", "", false),
            (ALL, "demo/src/lib.rs", "#![feature(test)]\n", "", false),
            (PLAIN, "demo/src/lib.rs", "#![feature(test)]\n", "", false),
            // A stable compiler compiles them.
            (TOP, "demo/src/lib.rs", "#![cfg_attr(nightly, feature(test))]\n", "", false),
            (TOP, "demo/src/lib.rs", "#![cfg(nightly)]\n#![feature(test)]\n", "", false),
            (TOP, "demo/src/lib.rs", "// #![feature(test)]\n", "", false),
            (TOP, "demo/benches/a.rs", "#![feature(test)]\n", "", false),
            (TOP, "demo/src/deep/a.rs", "#![feature(test)]\n", "", false),
            // The project asks for a nightly compiler.
            (TOP, "demo/src/lib.rs", "#![feature(test)]\n", "rust-toolchain.toml", false),
            (TOP, "demo/src/lib.rs", "#![feature(test)]\n", ".cargo/config.toml", false),
        ] {
            let asks =
                if beside.starts_with('.') { "env.RUSTC_BOOTSTRAP = '1'" } else { "channel = 'nightly'" };
            let files = vec![
                ("Cargo.toml", root),
                ("demo/Cargo.toml", "[package]\nname = 'wsdemo'\n"),
                (file, text),
                (beside, asks),
            ];
            let names = files.iter().map(|(name, _)| (*name).to_owned()).collect();
            let project = Files(names, files);
            let words = whole(&project);
            let wanted: &[&str] = if want { &["--workspace", "--exclude=wsdemo"] } else { &["--workspace"] };
            assert_eq!(words, wanted, "{root} {file} {text} {beside}");
            assert_eq!(note(&project).is_some_and(|note| note.contains(file)), want, "{file} {text}");
        }
    }
}
