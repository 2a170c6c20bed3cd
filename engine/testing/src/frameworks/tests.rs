//! Detected frameworks, and their commands.

use std::collections::BTreeMap;

use crate::framework::{CommandError, Followed, Selection, Strength};
use crate::frameworks::{detect, framework, rival};
use crate::project::Project;

#[derive(Debug)]
struct Files(Vec<String>, BTreeMap<String, &'static str>);

impl Files {
    fn new(files: &[(&str, &'static str)]) -> Self {
        let files: BTreeMap<_, _> = files.iter().map(|(name, text)| ((*name).to_owned(), *text)).collect();
        Self(files.keys().cloned().collect(), files)
    }
}

impl Project for Files {
    fn files(&self) -> &[String] {
        &self.0
    }
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.1.get(path).map(|t| t.as_bytes().to_vec())
    }
    fn has(&self, path: &str) -> bool {
        self.1.contains_key(path)
    }
}

/// A driver's input when the project has no script.
const NO_SCRIPT: &str = r#"{"steps":null,"words":[]}"#;

const CASES: &str = "import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n";

/// Files with their texts, and the framework detected.
type Row = (&'static [(&'static str, &'static str)], Option<(&'static str, Strength)>);

#[test]
fn project_files_select_framework() {
    use Strength::{Configured, Shaped, Used};
    let table: &[Row] = &[
        (&[], None),
        (&[("main.py", "import pytest")], None),
        (&[("pytest.ini", "")], Some(("pytest", Configured))),
        (
            &[("pyproject.toml", "[tool.pytest.ini_options]\n"), ("test_a.py", CASES)],
            Some(("pytest", Configured)),
        ),
        (&[("pyproject.toml", "[tool.ruff]\n"), ("test_a.py", CASES)], Some(("unittest", Used))),
        (&[("setup.cfg", "[tool:pytest]\n")], Some(("pytest", Configured))),
        (&[("tests/conftest.py", ""), ("tests/test_a.py", CASES)], Some(("pytest", Configured))),
        (&[("test_a.py", "import pytest\n")], Some(("pytest", Used))),
        (&[("test_a.py", CASES)], Some(("unittest", Used))),
        (&[("tests.py", CASES)], Some(("unittest", Used))),
        (&[("a_test.py", CASES)], Some(("pytest", Shaped))),
        // Files that unittest would not find beside the others.
        (&[("test_a.py", CASES), ("b_test.py", CASES)], Some(("pytest", Shaped))),
        (&[("test_a.py", CASES), ("tests/test_b.py", CASES)], Some(("pytest", Shaped))),
        (
            &[("test_a.py", CASES), ("tests/__init__.py", ""), ("tests/test_b.py", CASES)],
            Some(("unittest", Used)),
        ),
        (&[("a.py", ""), ("tests/test_b.py", CASES)], Some(("unittest", Used))),
        // Only pytest runs both.
        (&[("test_a.py", CASES), ("test_b.py", "def test_b(): pass\n")], Some(("pytest", Used))),
        (&[("test_a.py", CASES), ("test_b.py", "class TestB:\n")], Some(("pytest", Used))),
        (&[("test_a.py", "x = 1\n")], Some(("pytest", Shaped))),
        (&[("jest.config.ts", "")], Some(("jest", Configured))),
        (&[("package.json", r#"{"jest":{}}"#)], Some(("jest", Configured))),
        (&[("package.json", r#"{"scripts":{"test":"CI=1 jest --ci"}}"#)], Some(("jest", Configured))),
        (
            &[("package.json", r#"{"scripts":{"test":"node node_modules/jest/bin/jest.js"}}"#)],
            Some(("jest", Configured)),
        ),
        (&[("package.json", r#"{"devDependencies":{"jest":"30.5.2"}}"#)], Some(("jest", Used))),
        (&[("a.test.ts", "import { test } from '@jest/globals'")], Some(("jest", Used))),
        (
            &[("package.json", r#"{"scripts":{"test":"vitest run"}}"#), ("a.test.ts", "")],
            Some(("vitest", Configured)),
        ),
        (&[("a.test.ts", "import { test } from 'vitest'")], Some(("vitest", Used))),
        (&[("package.json", r#"{"devDependencies":{"mocha":"11"}}"#)], Some(("mocha", Used))),
        // The script of the top runs them all.
        (
            &[
                ("package.json", r#"{"workspaces":["packages/*"]}"#),
                ("packages/a/package.json", r#"{"devDependencies":{"mocha":"11"}}"#),
                ("packages/a/test/a.js", "it('a', () => {});"),
            ],
            None,
        ),
        (&[(".mocharc.json", "{}")], Some(("mocha", Configured))),
        (&[("spec/support/jasmine.mjs", "")], Some(("jasmine", Configured))),
        (&[("karma.conf.cjs", "")], Some(("karma", Configured))),
        (
            &[("package.json", r#"{"scripts":{"test":"karma start x.js"},"devDependencies":{"mocha":"1"}}"#)],
            Some(("karma", Configured)),
        ),
        (
            &[("package.json", r#"{"scripts":{"test":"ng test"},"devDependencies":{"karma":"6"}}"#)],
            Some(("karma", Used)),
        ),
        (&[("package.json", r#"{"scripts":{"test":"node --test"}}"#)], Some(("node", Configured))),
        (&[("a.test.mjs", "import test from 'node:test'")], Some(("node", Used))),
        (&[("package.json", r#"{"scripts":{"test":"uvu"}}"#), ("a.test.ts", "")], None),
        (&[("package.json", r#"{"scripts":{"test":"xo && c8 ava"}}"#)], Some(("ava", Configured))),
        (&[("ava.config.js", "")], Some(("ava", Configured))),
        (&[(".taprc", "")], Some(("tap", Configured))),
        (&[("package.json", r#"{"devDependencies":{"tap":"16"}}"#)], Some(("tap", Used))),
        (&[("test/a.mjs", "import test from 'tape'")], Some(("tape", Used))),
        (
            &[("package.json", r#"{"scripts":{"test":"node t.js"}}"#), ("t.js", "require('tape')")],
            Some(("tape", Configured)),
        ),
        // It loads the files that have tests.
        (
            &[
                ("package.json", r#"{"scripts":{"test":"node test"},"devDependencies":{"tape":"5"}}"#),
                ("test/index.js", "require('./a')"),
            ],
            Some(("tape", Configured)),
        ),
        (
            &[("package.json", r#"{"scripts":{"test":"node t.js | npx tap-spec"}}"#), ("t.js", "")],
            Some(("tap", Configured)),
        ),
        (&[("package.json", "[[[[")], None),
        (&[("Cargo.toml", "[package]")], Some(("cargo", Shaped))),
        (&[("Cargo.toml", ""), ("src/lib.rs", "  #[tokio::test]\nasync fn a() {}")], Some(("cargo", Used))),
        (&[("src/lib.rs", "#[test]\nfn a() {}")], None),
        (
            &[("Cargo.toml", ""), (".config/nextest.toml", ""), ("src/lib.rs", "#[test]")],
            Some(("cargo", Used)),
        ),
        (&[("Cargo.toml", ""), (".config/nextest.toml", "")], Some(("cargo", Shaped))),
        (&[(".config/nextest.toml", "")], None),
        (&[("Cargo.toml", ""), ("src/lib.rs", ""), ("pytest.ini", "")], Some(("pytest", Configured))),
        (&[("CMakeLists.txt", "find_package(GTest)")], Some(("gtest", Configured))),
        (
            &[("CMakeLists.txt", "project(a)"), ("t/CMakeLists.txt", "gtest_discover_tests(a)")],
            Some(("gtest", Configured)),
        ),
        (&[("CMakeLists.txt", "project(a)"), ("a.cc", "int main() {}")], None),
        (&[("a.cc", "#include <gtest/gtest.h>")], Some(("gtest", Used))),
        (&[("bin/a_test", "\x7fELF gtest_list_tests")], Some(("gtest", Used))),
        (&[("bin/a_test", "#!/bin/sh gtest_list_tests")], None),
        (&[("tests/a.sql", "SELECT plan(1);\nSELECT * FROM finish();")], Some(("pgtap", Used))),
        (&[("schema.sql", "CREATE TABLE plan(a int);")], None),
        (&[("pom.xml", "<artifactId>junit-jupiter</artifactId>")], Some(("junit", Configured))),
        (&[("pom.xml", "<artifactId>testng</artifactId>"), ("A.java", "class A {}")], None),
        (&[("a/ATest.java", "import org.junit.jupiter.api.Test;")], Some(("junit", Used))),
        (&[("go.mod", "module a"), ("a_test.go", "package a")], Some(("go", Used))),
        (&[("go.work", "use a"), ("a/a.go", "package a")], Some(("go", Shaped))),
        (&[("a_test.go", "package a")], None),
    ];
    for (files, want) in table {
        let found = detect(&Files::new(files));
        let got = found.first().map(|(f, evidence)| (f.name(), evidence.strength));
        assert_eq!(got, *want, "{files:?}");
    }
}

/// Packages of a workspace that use different frameworks leave the choice to the user, unless the top's own settings decide.
#[test]
fn packages_of_a_workspace_can_be_rivals() {
    let other = ("packages/b/b.test.mjs", "import test from 'node:test';");
    let [mocha, jest, tape] = [
        r#"{"devDependencies":{"mocha":"11"}}"#,
        r#"{"devDependencies":{"jest":"30"}}"#,
        r#"{"devDependencies":{"tape":"5"}}"#,
    ];
    for (member, top, beside, want) in [
        (mocha, r#"{"workspaces":["packages/*"]}"#, "x", ("mocha", Some("node"))),
        (jest, "{}", "lerna.json", ("jest", Some("node"))),
        (tape, "{}", "pnpm-workspace.yaml", ("node", Some("tape"))),
        (mocha, r#"{"workspaces":["packages/*"],"scripts":{"test":"node --test"}}"#, "x", ("node", None)),
        (mocha, "{}", "x", ("node", None)),
    ] {
        let files = [("package.json", top), ("packages/a/package.json", member), (beside, "{}"), other];
        let found = detect(&Files::new(&files));
        let got = (found[0].0.name(), rival(&found).map(|(framework, _)| framework.name()));
        assert_eq!(got, want, "{member} {top} {beside}");
    }
}

#[test]
fn filter_is_id_path_or_expression() {
    let project = Files::new(&[("test_a.py", ""), ("-x.py", "")]);
    for (name, filter, want) in [
        ("pytest", "test_a.py", "test_a.py"),
        ("pytest", "b.py::c[d e]", "b.py::c[d e]"),
        ("pytest", "not slow", "-knot slow"),
        ("pytest", "--pdb", "-k--pdb"),
        ("pytest", "-x.py", "./-x.py"),
        ("unittest", "test_a.py", "test_a.py"),
        ("unittest", "test_a.A.test_b", "-ktest_a.A.test_b"),
    ] {
        let selection = Selection { filter: Some(filter.to_owned()), ..Selection::default() };
        let command = framework(name).unwrap().command(&selection, &project).unwrap();
        assert_eq!(command.argv.last().unwrap(), want);
        assert_eq!(command.argv[0], "python3");
    }
    let scripts = r#"{"scripts":{"test":"NODE_OPTIONS=--experimental-vm-modules jest --config unit.json"}}"#;
    let scripts = Files::new(&[("package.json", scripts), ("a.test.js", ""), ("-x.test.js", "")]);
    for (filter, want) in [
        (None, &["--runInBand"][..]),
        (Some("a.test.js"), &["--runTestsByPath=true", "./a.test.js"]),
        (Some("-x.test.js"), &["--runTestsByPath=true", "./-x.test.js"]),
        (
            Some("a.test.js::Cart::adds (1)"),
            &[r"--testNamePattern=^Cart(?:::| )adds \(1\)$", "--runTestsByPath=true", "./a.test.js"],
        ),
        (Some("--watch"), &["--testNamePattern=--watch"]),
    ] {
        let selection = Selection { filter: filter.map(str::to_owned), ..Selection::default() };
        let command = framework("jest").unwrap().command(&selection, &scripts).unwrap();
        let want: Vec<_> = want.iter().map(std::ffi::OsString::from).collect();
        assert!(command.argv.ends_with(&want), "{:?}", command.argv);
        let words: serde_json::Value = serde_json::from_str(command.argv[3].to_str().unwrap()).unwrap();
        assert_eq!(words, serde_json::json!({ "steps": null, "words": ["--config", "unit.json"] }));
        assert_eq!(command.env, [("NODE_OPTIONS".into(), "--experimental-vm-modules".into())]);
    }
    let below = Files::new(&[("tests/test_b.py", CASES)]);
    for (filter, want) in [
        (None, &["discover", "-stests"][..]),
        (Some("test_b"), &["discover", "-stests", "-ktest_b"]),
        (Some("tests/test_b.py"), &["tests/test_b.py"]),
    ] {
        let selection = Selection { filter: filter.map(str::to_owned), ..Selection::default() };
        let command = framework("unittest").unwrap().command(&selection, &below).unwrap();
        assert_eq!(command.argv[3..], want.iter().map(std::ffi::OsString::from).collect::<Vec<_>>());
        assert_eq!(command.files.is_empty(), filter.is_some());
    }
    let both =
        Files::new(&[("docs/test_x.py", CASES), ("tests/__init__.py", ""), ("tests/test_y.py", CASES)]);
    let command = framework("unittest").unwrap().command(&Selection::default(), &both).unwrap();
    assert_eq!(command.argv.len(), 3, "from the project's folder: {:?}", command.argv);
    compiled();
    let jobs = Selection { jobs: Some(2), ..Selection::default() };
    for (name, filter, want) in [
        ("gtest", Some("a/b_test::Cart.Adds"), &["Cart.Adds", "a/b_test"][..]),
        ("gtest", Some("Cart.*"), &["Cart.*", ""]),
        ("gtest", None, &["*", ""]),
        ("junit", Some("a.B::c(int)[1]"), &["a.B::c(int)[1]"]),
        (
            "mocha",
            Some("test/a.js::b"),
            &["/home/sandbox/.hotcell-reports/mocha.jsonl", "test/a.js::b", "", NO_SCRIPT],
        ),
        ("node", Some("test_a.py"), &["--test-concurrency=1", "./test_a.py"]),
        ("node", Some("a b"), &["--test-concurrency=1", "--test-name-pattern=a b"]),
        ("karma", Some("a"), &["/home/sandbox/.hotcell-reports/karma.jsonl", "a", "", NO_SCRIPT, "", ""]),
        ("pgtap", Some("./test_a.py::b"), &["", "test_a.py"]),
    ] {
        let selection = Selection { filter: filter.map(str::to_owned), ..Selection::default() };
        let command = framework(name).unwrap().command(&selection, &project).unwrap();
        let want: Vec<_> = want.iter().map(std::ffi::OsString::from).collect();
        assert!(command.argv.ends_with(&want), "{name} {filter:?}: {:?}", command.argv);
        let mut covered = command.clone();
        if let Some(measured) = framework(name).unwrap().cover(&mut covered, &project) {
            let last = covered.argv.pop().unwrap();
            let at = std::path::Path::new("/home/sandbox").join(&measured.report);
            assert!(at.starts_with(&last), "{name}: {}", at.display());
            assert_eq!(covered, command);
        }
    }
    let part = Selection { filter: Some("part".to_owned()), ..Selection::default() };
    let refused = framework("pgtap").unwrap().command(&part, &project);
    assert!(matches!(refused, Err(CommandError::Unsupported { .. })));
    let refused = framework("unittest").unwrap().command(&jobs, &project);
    assert!(matches!(refused, Err(CommandError::Unsupported { option: "‹jobs›", .. })));
    assert!(framework("nothing").is_none());
}

#[test]
fn package_script_selects_framework() {
    let package = |script: &str, more: &str| format!(r#"{{"scripts":{{"test":"{script}"}}{more}}}"#);
    let first = |text: String, beside: &'static str| {
        let files = Files::new(&[("package.json", Box::leak(text.into_boxed_str())), (beside, "")]);
        let found = detect(&files);
        assert!(rival(&found).is_none(), "{found:?}");
        found[0].0.name()
    };
    // Settings of another framework in the project are weaker evidence.
    assert_eq!(first(package("mocha", r#","jest":{}"#), ".mocharc.json"), "mocha");
    assert_eq!(first(package("mocha", ""), "jest.config.js"), "mocha");
    assert_eq!(first(package("vitest run && mocha", ""), ".mocharc.json"), "vitest");
    assert_eq!(first(package("gulp", r#","devDependencies":{"mocha":"1"}"#), "gulpfile.js"), "mocha");

    let told = |script: &str, name: &str, detected: bool| {
        let text = package(script, "").leak();
        let selection = Selection { detected, ..Selection::default() };
        framework(name).unwrap().followed(&selection, &Files::new(&[("package.json", text)]))
    };
    for (script, name, notes, left) in [
        ("mocha", "mocha", None, false),
        ("mocha && npm run lint", "mocha", None, false),
        ("mocha && jest", "mocha", Some("runs jest too: it ran, and only its exit status"), false),
        ("mocha && jest", "jest", Some("runs mocha too, which was not run"), false),
        ("uvu; mocha", "mocha", Some("runs uvu too: it ran"), false),
        ("ava; mocha", "mocha", Some("runs ava too, which was not run"), false),
        ("gulp test", "mocha", Some("does not start mocha as far as"), true),
        ("ava", "mocha", Some("does not start mocha as far as"), true),
        ("echo 'no test specified' && exit 1", "mocha", None, false),
    ] {
        let named = told(script, name, false);
        assert_eq!(named.notes.first().map(|n| n.contains(notes.unwrap())), notes.map(|_| true), "{named:?}");
        assert_eq!((named.left, told(script, name, true).left.is_some()), (None, left), "{script}");
    }
    let empty = Files::new(&[]);
    assert_eq!(framework("mocha").unwrap().followed(&Selection::default(), &empty), Followed::default());
}

#[test]
fn driver_receives_script_pipelines() {
    let text = r#"{"scripts":{"pretest":"tsc","test":"A=1 mocha -R dot 'a b' test/*.js && jest; npm run lint","lint":"eslint ."}}"#;
    let files = Files::new(&[("package.json", text), ("x.js", "")]);
    let given = |name: &str, filter: Option<&str>| {
        let selection = Selection { filter: filter.map(str::to_owned), ..Selection::default() };
        let command = framework(name).unwrap().command(&selection, &files).unwrap();
        let at = command.argv.iter().position(|word| word.to_string_lossy().starts_with('{')).unwrap();
        let plan: serde_json::Value = serde_json::from_str(&command.argv[at].to_string_lossy()).unwrap();
        (plan, command.env)
    };
    let run = |text: &str| serde_json::json!({"run": text, "name": text});
    let (plan, env) = given("mocha", None);
    assert_eq!(plan["words"], serde_json::json!(["a b", {"sh": "test/*.js"}]));
    let within = serde_json::json!({"all": [[";", {}], ["&&", run("jest")], [";", run("eslint .")]]});
    assert_eq!(plan["steps"], serde_json::json!({"all": [[";", run("tsc")], ["&&", within]]}));
    assert_eq!(env, [("A".into(), "1".into())]);
    // With a filter nothing runs after the tests, and the script's own file arguments are dropped.
    let (plan, _) = given("mocha", Some("x.js"));
    assert_eq!(
        (&plan["words"], &plan["steps"]["all"][1]),
        (&serde_json::json!([]), &serde_json::json!(["&&", {}]))
    );
    // The start that leaves out the fewest tests is the one that is reported test by test.
    let text = r#"{"scripts":{"test":"TZ=UTC jest a.js -t x && TZ=B jest --coverage && jest b"}}"#;
    let twice = Files::new(&[("package.json", text)]);
    let command = framework("jest").unwrap().command(&Selection::default(), &twice).unwrap();
    assert_eq!(command.env, [("TZ".into(), "B".into())]);
    assert!(command.argv[3].to_string_lossy().contains("TZ=UTC jest a.js -t x"), "{:?}", command.argv);
    // A user who names another framework than the first has made a choice.
    let (plan, _) = given("jest", None);
    let within = serde_json::json!({"all": [[";", {}], [";", run("eslint .")]]});
    assert_eq!(plan["steps"], serde_json::json!({"all": [[";", run("tsc")], ["&&", within]]}));
}

#[test]
fn equal_frameworks_are_reported_as_rivals() {
    let manifest = ("package.json", r#"{"scripts":{"test":"jest"}}"#);
    for (files, want) in [
        (&[("pytest.ini", ""), manifest][..], Some(("pytest", "jest"))),
        (&[("test_a.py", "import pytest"), ("test_b.py", CASES)], None),
        (&[("test_a.py", "import pytest"), manifest], None),
        (
            &[("go.mod", ""), ("a_test.go", ""), ("Cargo.toml", ""), ("src/lib.rs", "#[test]")],
            Some(("cargo", "go")),
        ),
        (&[("go.mod", ""), ("Cargo.toml", "")], None),
        (&[manifest], None),
        (&[], None),
    ] {
        let found = detect(&Files::new(files));
        let got = rival(&found).map(|(other, _)| (found[0].0.name(), other.name()));
        assert_eq!(got, want, "{files:?}");
    }
}

/// Arguments after the constant ones.
fn compiled() {
    let project = Files::new(&[
        ("Cargo.toml", ""),
        ("Cargo.lock", ""),
        ("crates/a/tests/b.rs", "#[test]"),
        ("go.mod", ""),
        ("sub/a_test.go", ""),
    ]);
    for (name, filter, want) in [
        ("cargo", None, &["--workspace"][..]),
        ("cargo", Some("part"), &["--workspace", "--", "part"]),
        ("cargo", Some("--ignored"), &["--workspace", "--", "ignored"]),
        ("cargo", Some("crates/a/tests/b.rs"), &["--manifest-path=crates/a/Cargo.toml", "--test", "b"]),
        (
            "cargo",
            Some("crates/a/tests/b.rs::m::c"),
            &["--manifest-path=crates/a/Cargo.toml", "--test", "b", "--", "--exact", "m::c"],
        ),
        ("nextest", None, &["--workspace"]),
        ("nextest", Some("-part"), &["--workspace", "--", "part"]),
        ("nextest", Some("crates/a/tests/b.rs"), &["--manifest-path=crates/a/Cargo.toml", "--test", "b"]),
        (
            "nextest",
            Some("crates/a/tests/b.rs::m::c"),
            &["--manifest-path=crates/a/Cargo.toml", "--test", "b", "--", "--exact", "m::c"],
        ),
        ("nextest", Some("not test(slow)"), &["--workspace", "--filterset=not test(slow)"]),
        ("go", None, &["./..."]),
        ("go", Some("Add|Sub"), &["-run=Add|Sub", "./..."]),
        ("go", Some("sub/a_test.go"), &["./sub"]),
        ("go", Some("example.com/a::TestA/b.c"), &["-run=^TestA$/^b\\.c$", "example.com/a"]),
    ] {
        let selection = Selection { filter: filter.map(str::to_owned), ..Selection::default() };
        let command = framework(name).unwrap().command(&selection, &project).unwrap();
        let words: Vec<_> = command.argv.iter().map(|w| w.to_string_lossy().into_owned()).collect();
        assert_eq!(&words[words.len() - want.len()..], want, "{name} {filter:?}: {words:?}");
        assert_eq!(words[1], if name == "nextest" { "nextest" } else { "test" });
        let locked =
            words.iter().filter(|w| ["--offline", "--locked", "--no-fail-fast"].contains(&w.as_str()));
        assert_eq!(locked.count(), if name == "go" { 0 } else { 3 });
    }
}

/// Members whose own scripts start another runner are not passed over, where the top's script says nothing of tests.
#[test]
fn members_with_other_runners_are_told() {
    let top = r#"{"workspaces":["packages/*"]}"#;
    let vitest = r#"{"scripts":{"test":"vitest run"},"devDependencies":{"vitest":"3"}}"#;
    for (top, other, said) in [
        (
            top,
            r#"{"scripts":{"test":"mocha"}}"#,
            Some("member packages/b tests by mocha, which was not run: "),
        ),
        (top, r#"{"scripts":{"test":"playwright test"}}"#, Some("member packages/b tests by playwright")),
        (top, r#"{"scripts":{"test":"npm run t","t":"jest"}}"#, Some("member packages/b tests by jest")),
        (
            r#"{"workspaces":{"packages":["packages/*"]}}"#,
            r#"{"scripts":{"test":"ava"}}"#,
            Some("packages/b tests by ava"),
        ),
        (top, r#"{"scripts":{"test":"vitest"}}"#, None),
        (top, r#"{"scripts":{"test":"echo none"}}"#, None),
        (top, "{}", None),
        (r#"{"workspaces":["other/*"]}"#, r#"{"scripts":{"test":"mocha"}}"#, None),
        ("{}", r#"{"scripts":{"test":"mocha"}}"#, None),
        (
            r#"{"workspaces":["packages/*"],"scripts":{"test":"vitest run"}}"#,
            r#"{"scripts":{"test":"mocha"}}"#,
            None,
        ),
    ] {
        let files = [
            ("package.json", top),
            ("packages/a/package.json", vitest),
            ("packages/a/a.test.ts", "import { test } from 'vitest';"),
            ("packages/b/package.json", other),
        ];
        let project = Files::new(&files);
        let vitest = framework("vitest").unwrap();
        let detected = Selection { detected: true, ..Selection::default() };
        let told = vitest.followed(&detected, &project);
        assert_eq!(told.left.is_some(), said.is_some(), "{top} {other}");
        assert!(told.left.is_none_or(|left| left.contains(said.unwrap())), "{top} {other}");
        // Of a framework that the user names, and of a filter, nothing is left.
        let named = vitest.followed(&Selection::default(), &project);
        assert_eq!(
            (named.left.is_some(), named.notes.len()),
            (false, usize::from(said.is_some())),
            "{top} {other}"
        );
        let filtered = Selection { filter: Some("a".to_owned()), ..detected };
        assert_eq!(vitest.followed(&filtered, &project), Followed::default(), "{top} {other}");
    }
}
