//! Tests in the source files of a Rust project, so that a file that no program includes is told. Pure.

use toml::Table;

use crate::project::Project;

/// Maximum number of source files that are searched.
const MAX_SEARCHED_FILES: usize = 300;
/// Maximum depth of modules.
const MAX_MODULES: usize = 16;

/// Files that contain tests, in packages that `cargo test --workspace` tests: a package in a subfolder belongs to a workspace of the top
/// folder only.
pub(crate) fn files(project: &dyn Project) -> Vec<String> {
    let table =
        |file: &str| String::from_utf8_lossy(&project.read(file).unwrap_or_default()).parse::<Table>().ok();
    let is_workspace = |file: &str| table(file).is_some_and(|manifest| manifest.contains_key("workspace"));
    let top = is_workspace("Cargo.toml");
    let is_tested = |file: &str| {
        let folders = file.match_indices('/').map(|(at, _)| &file[..at]);
        let manifest =
            folders.rev().map(|folder| format!("{folder}/Cargo.toml")).find(|file| project.has(file));
        manifest.is_none_or(|manifest| top && !is_workspace(&manifest))
    };
    let sources = project.files().iter().filter(|file| file.ends_with(".rs")).take(MAX_SEARCHED_FILES);
    let holding = sources.filter(|file| holds_tests(&project.read(file).unwrap_or_default()));
    holding.filter(|file| is_tested(file)).cloned().collect()
}

/// True for the text of a file with an attribute of a test: `#[test]`, `#[tokio::test]`, `#[rstest]`, `#[test_case(…)]`.
fn holds_tests(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).lines().any(|line| {
        let Some(attribute) = line.trim_start().strip_prefix("#[") else { return false };
        let path = attribute.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | ':')).next();
        let name = path.and_then(|path| path.rsplit("::").next()).unwrap_or_default();
        name == "test_case" || name.ends_with("test")
    })
}

/// Files that the modules of a test may lie in: `src/a/b.rs` and `src/a/b/mod.rs` for `src/lib.rs::a::b::works`, and those of `a`.
pub(crate) fn of_modules(id: &str) -> Vec<String> {
    let mut parts = id.split("::");
    let file = parts.next().filter(|file| file.ends_with(".rs")).unwrap_or_default();
    let names: Vec<&str> = parts.collect();
    let Some((_, modules)) = names.split_last().filter(|_| !file.is_empty()) else { return Vec::new() };
    let mut at = file.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let mut files = Vec::new();
    for module in modules.iter().take(MAX_MODULES) {
        at.push_str(module.trim_start_matches("r#"));
        files.extend([format!("{at}.rs"), format!("{at}/mod.rs")]);
        at.push('/');
    }
    files
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
            self.1.iter().any(|(name, _)| *name == path)
        }
    }

    #[test]
    fn files_with_tests_are_those_of_tested_packages() {
        const TEST: &str = "#[test]\nfn a() {}\n";
        let all = [
            ("src/lib.rs", "#[cfg(test)]\nmod tests;\n"),
            ("src/tests.rs", TEST),
            ("tests/sub/deep.rs", TEST),
            ("member/src/main.rs", TEST),
            ("other/src/lib.rs", TEST),
            ("other/Cargo.toml", "[package]\nname = \"other\"\n[workspace]\n"),
            ("member/Cargo.toml", "[package]\nname = \"member\"\n"),
        ];
        for (manifest, want) in [
            ("[package]\nname = \"a\"\n", &["src/tests.rs", "tests/sub/deep.rs"][..]),
            (
                "[workspace]\nmembers = [\"member\"]\n",
                &["member/src/main.rs", "src/tests.rs", "tests/sub/deep.rs"],
            ),
        ] {
            let mut texts = all.to_vec();
            texts.push(("Cargo.toml", manifest));
            let mut names: Vec<String> = texts.iter().map(|(name, _)| (*name).to_owned()).collect();
            names.sort();
            assert_eq!(files(&Files(names, texts)), want, "{manifest}");
        }
    }

    #[test]
    fn attributes_of_tests_are_known() {
        for (text, want) in [
            ("#[test]", true),
            ("    #[tokio::test(flavor = \"multi_thread\")]", true),
            ("#[test_case(1)]", true),
            ("#[rstest]\n", true),
            ("#[wasm_bindgen_test]", true),
            ("#[::core::prelude::v1::test]", true),
            ("#[cfg(test)]", false),
            ("#[cfg_attr(test, derive(Debug))]", false),
            ("#![feature(test)]", false),
            ("// #[test]", false),
            ("#[tests::helper]", false),
            ("#[derive(Latest)]", false),
            ("let text = \"#[test]\";", false),
            ("", false),
        ] {
            assert_eq!(holds_tests(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn modules_name_their_files() {
        for (id, want) in [
            ("src/lib.rs::works", &[][..]),
            ("src/lib.rs::a::works", &["src/a.rs", "src/a/mod.rs"]),
            (
                "m/src/main.rs::a::b::works",
                &["m/src/a.rs", "m/src/a/mod.rs", "m/src/a/b.rs", "m/src/a/b/mod.rs"],
            ),
            ("lib.rs::r#type::works", &["type.rs", "type/mod.rs"]),
            ("tests/t.rs::common::works", &["tests/common.rs", "tests/common/mod.rs"]),
            ("src/lib.rs - add (line 5)", &[]),
            ("src/lib.rs", &[]),
            ("the program x::y::z", &[]),
        ] {
            assert_eq!(of_modules(id), want, "{id}");
        }
        assert_eq!(of_modules(&format!("a.rs::{}z", "b::".repeat(100))).len(), 2 * MAX_MODULES);
    }
}
