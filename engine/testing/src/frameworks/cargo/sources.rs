//! Tests in the source files of a Rust project, so that a file that no program includes is told. Pure.

use std::collections::HashSet;

use toml::{Table, Value};

use crate::project::Project;

/// Maximum number of source files that are searched.
const MAX_SEARCHED_FILES: usize = 300;
/// Maximum depth of modules.
const MAX_MODULES: usize = 16;

/// Files that contain tests, in packages that `cargo test --workspace` tests: a package in a subfolder belongs to a workspace of the top
/// folder only.
pub(crate) fn files(project: &dyn Project) -> Vec<String> {
    let text = |file: &str| String::from_utf8_lossy(&project.read(file).unwrap_or_default()).into_owned();
    let workspace =
        |file: &str| text(file).parse::<Table>().ok().and_then(|mut manifest| manifest.remove("workspace"));
    let is_workspace = |file: &str| workspace(file).is_some();
    let whole = workspace("Cargo.toml");
    let top = whole.is_some();
    let listed = |key: &str| whole.as_ref().map_or_else(Vec::new, |table| folders(table.get(key)));
    let (members, excluded) = (listed("members"), listed("exclude"));
    let lies_in = |folders: &[String], file: &str| folders.iter().any(|folder| file.starts_with(folder));
    let package = |file: &str| {
        let mut folders = file.match_indices('/').map(|(at, _)| &file[..at]).rev();
        folders.find(|folder| project.has(&format!("{folder}/Cargo.toml"))).map(str::to_owned)
    };
    let is_tested = |file: &str| {
        package(file).is_none_or(|folder| top && !is_workspace(&format!("{folder}/Cargo.toml")))
            && (lies_in(&members, file) || !lies_in(&excluded, file))
    };
    let (mut holding, mut named) = (Vec::new(), Named::default());
    for file in project.files().iter().filter(|file| file.ends_with(".rs")).take(MAX_SEARCHED_FILES) {
        let text = text(file);
        named.read((file, &package(file).unwrap_or_default()), &text);
        if holds_tests(&text) {
            holding.push(file);
        }
    }
    holding.into_iter().filter(|file| is_tested(file) && !named.has(file)).cloned().collect()
}

/// Folders in a manifest's list, as `a/b/`. cargo reads patterns among the members only, and compares them as text here
/// (`WorkspaceRootConfig::is_excluded`).
fn folders(list: Option<&Value>) -> Vec<String> {
    let all = list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let all = all.map(|folder| folder.trim_start_matches("./").trim_end_matches('/'));
    all.filter(|folder| !matches!(*folder, "" | ".")).map(|folder| format!("{folder}/")).collect()
}

/// Files that other sources name: their tests have the names of other modules, or trybuild compiles them in a test.
#[derive(Debug, Default)]
struct Named {
    files: HashSet<String>,
    /// Patterns with a `*` in their last part, as the text before and behind it.
    patterns: Vec<(String, String)>,
}

impl Named {
    /// Adds the files that a source file in a package's folder names.
    fn read(&mut self, (file, package): (&str, &str), text: &str) {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        for name in [literals(text, "#[path", "="), literals(text, "include!", "(")].concat() {
            self.files.extend(joined(folder, name));
        }
        // <https://docs.rs/trybuild>: relative to the package.
        for name in [literals(text, ".compile_fail", "("), literals(text, ".pass", "(")].concat() {
            let path = joined(package, name).filter(|path| path.ends_with(".rs"));
            match path.as_deref().and_then(|path| path.split_once('*')) {
                Some((head, tail)) => self.patterns.push((head.to_owned(), tail.to_owned())),
                None => self.files.extend(path),
            }
        }
    }

    fn has(&self, file: &str) -> bool {
        let fits = |(head, tail): &(String, String)| {
            let middle = file.strip_prefix(head.as_str()).and_then(|rest| rest.strip_suffix(tail.as_str()));
            middle.is_some_and(|middle| !middle.contains('/'))
        };
        self.files.contains(file) || self.patterns.iter().any(fits)
    }
}

/// Texts in quotation marks behind these two, with any white space between them, outside of comment lines.
fn literals<'a>(text: &'a str, begin: &str, between: &str) -> Vec<&'a str> {
    let named = text.match_indices(begin).filter_map(|(at, _)| {
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        let rest = text[at + begin.len()..].trim_start().strip_prefix(between)?.trim_start();
        let name = rest.strip_prefix('"')?.split('"').next()?;
        (!line.trim_start().starts_with("//")).then_some(name)
    });
    named.collect()
}

/// Path relative to a folder of the project; `None` outside of it.
fn joined(folder: &str, name: &str) -> Option<String> {
    if name.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// True for the text of a file with an attribute of a test: `#[test]`, `#[tokio::test]`, `#[rstest]`, `#[test_case(…)]`.
fn holds_tests(text: &str) -> bool {
    // Several may begin a line: `#[cfg(test)] mod tests { #[test] fn adds() {} }`.
    let lines = text.lines().map(str::trim_start).filter(|line| line.starts_with("#["));
    lines.flat_map(|line| line.split("#[").skip(1)).any(|attribute| {
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
    fn files_that_others_name_are_left_out() {
        const TEST: &str = "#[test]\nfn a() {}\n";
        const WORKSPACE: &str = "[workspace]\nmembers = [\"member\", \"fixtures/in\"]\n";
        for (manifest, file, text, other, want) in [
            ("", "src/shop.rs", "#[path = \"shop_tests.rs\"]\nmod tests;\n", "src/shop_tests.rs", false),
            ("", "src/shop.rs", "#[path=\"../more/t.rs\"] mod tests;\n", "more/t.rs", false),
            ("", "src/shop.rs", "mod a { include!(\"./x.rs\"); }\n", "src/x.rs", false),
            ("", "src/shop.rs", "include!(\n    \"sub/x.rs\"\n);\n", "src/sub/x.rs", false),
            ("", "tests/ui.rs", "t.compile_fail(\"tests/ui/*.rs\");\n", "tests/ui/x.rs", false),
            ("", "tests/ui.rs", "t.pass(\"tests/ui/x.rs\");\n", "tests/ui/x.rs", false),
            (WORKSPACE, "member/tests/ui.rs", "t.pass(\"tests/p/*.rs\");\n", "member/tests/p/x.rs", false),
            // Others, and names that are not read.
            ("", "src/shop.rs", "#[path = \"shop_tests.rs\"]\nmod tests;\n", "src/cart_tests.rs", true),
            ("", "src/shop.rs", "#[path = \"x.rs\"]\nmod tests;\n", "tests/sub/x.rs", true),
            ("", "src/shop.rs", "// include!(\"x.rs\");\n", "src/x.rs", true),
            ("", "src/shop.rs", "include_str!(\"x.rs\");\n", "src/x.rs", true),
            ("", "src/shop.rs", "include!(\"../../x.rs\");include!(\"/x.rs\")\n", "x.rs", true),
            ("", "tests/ui.rs", "t.compile_fail(\"tests/ui/*.rs\");\n", "tests/ui/deep/x.rs", true),
            ("", "tests/ui.rs", "t.pass(\"tests/*/x.txt\");\n", "tests/ui/x.rs", true),
            // Folders that a workspace excludes, unless they are members.
            ("[workspace]\nexclude = [\"./fixtures/\"]\n", "a.rs", "", "fixtures/out/x.rs", false),
            ("[workspace]\nexclude = [\"fix\", \".\", 7]\n", "a.rs", "", "fixtures/out/x.rs", true),
            (
                "[workspace]\nmembers = [\"fixtures/in\"]\nexclude = [\"fixtures\"]\n",
                "a.rs",
                "",
                "fixtures/in/x.rs",
                true,
            ),
        ] {
            let texts = vec![
                ("Cargo.toml", manifest),
                ("member/Cargo.toml", "[package]\nname = \"member\"\n"),
                (file, text),
                (other, TEST),
            ];
            let names = texts.iter().map(|(name, _)| (*name).to_owned()).collect();
            let want: &[&str] = if want { &[other] } else { &[] };
            assert_eq!(files(&Files(names, texts)), want, "{manifest} {file} {text} {other}");
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
            ("#[cfg(test)] mod tests { #[test] fn a() {} }", true),
            ("#[cfg(test)]", false),
            ("#[cfg_attr(test, derive(Debug))]", false),
            ("#![feature(test)]", false),
            ("// #[test]", false),
            ("#[tests::helper]", false),
            ("#[derive(Latest)]", false),
            ("let text = \"#[test]\";", false),
            ("", false),
        ] {
            assert_eq!(holds_tests(text), want, "{text}");
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
