//! Honest projects in which a framework's own verdict, or its reason, is easily lost: the verdict is never better than by
//! hand, and the message is the framework's.

use super::jest::with_jest;
use super::node::with_runners;
use super::*;

fn large() -> Limits {
    Limits {
        memory: Bytes::mib(1024),
        wall: Duration::from_secs(90),
        processes: 256,
        disk: Bytes::mib(256),
        ..limits()
    }
}

/// Runs a project with this script `test`, with packages in a place where node finds them.
async fn javascript(name: &str, modules: &Path, script: &str, files: &[(&str, &str)]) -> Ran {
    let folder = project(files);
    let package = serde_json::json!({"scripts": {"test": script}}).to_string();
    std::fs::write(folder.path().join("package.json"), package).unwrap();
    let session =
        session_with(name, Path::new("/usr"), folder.path(), &Selection::default(), large(), |policy| {
            policy.read_only(modules.join("node_modules"), "/home/sandbox/node_modules")
        });
    Ran { report: session.run(&Engine::new(), &mut |_| ()).await, events: Vec::new() }
}

const VITEST: &str = "import { test, expect } from 'vitest';\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_snapshots_fail_as_in_ci() {
    let Some(modules) = with_runners() else { return };
    for tests in [
        "test('s', () => { expect('<b>wrong</b>').toMatchSnapshot(); });",
        "test('s', () => { expect('x').toMatchInlineSnapshot(); });",
        "test('s', async () => { await expect('x').toMatchFileSnapshot('./s.txt'); });",
    ] {
        let ran =
            javascript("vitest", modules, "vitest", &[("a.test.js", &format!("{VITEST}{tests}\n"))]).await;
        ran.assert(Verdict::Failed, true, true);
        assert_eq!(ran.counts(), [0, 1, 0, 0, 0], "{tests}: {}", ran.told());
    }
    // One that is there counts, and a project that writes them itself still does.
    let there =
        "// Vitest Snapshot v1, https://vitest.dev/guide/snapshot.html\n\nexports[`s 1`] = `\"x\"`;\n";
    let test = format!("{VITEST}test('s', () => {{ expect('x').toMatchSnapshot(); }});\n");
    let files = [("a.test.js", test.as_str()), ("__snapshots__/a.test.js.snap", there)];
    javascript("vitest", modules, "vitest", &files).await.assert(Verdict::Passed, true, true);
    javascript("vitest", modules, "vitest -u", &files[..1]).await.assert(Verdict::Passed, true, true);
    let ava = "const test = require('ava');\ntest('s', t => { t.snapshot({ a: 1 }); });\n";
    let ran = javascript("ava", modules, "ava", &[("test.js", ava)]).await;
    ran.assert(Verdict::Failed, true, true);
}

/// A file or a suite without a test is an error for vitest, unless the project allows it; a run without a file has no result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vitest_files_and_suites_without_tests_are_as_by_hand() {
    let Some(modules) = with_runners() else { return };
    let good = format!("{VITEST}test('ok', () => {{}});\n");
    let empty = "import { describe } from 'vitest';\ndescribe('empty', () => {});\n";
    let within = format!(
        "import {{ describe }} from 'vitest';\n{VITEST}describe('empty', () => {{}});\ntest('beside', () => {{}});\n"
    );
    let allows = "export default { test: { passWithNoTests: true } };\n";
    for (script, files, verdict, counts) in [
        ("vitest run", &[("a.test.js", empty), ("b.test.js", &good)][..], Verdict::Failed, [1, 0, 1, 0, 0]),
        (
            "vitest run",
            &[("a.test.js", "export {};\n"), ("b.test.js", &good)],
            Verdict::Failed,
            [1, 0, 1, 0, 0],
        ),
        ("vitest run", &[("a.test.js", &within)], Verdict::Failed, [1, 0, 1, 0, 0]),
        (
            "vitest run --passWithNoTests",
            &[("a.test.js", empty), ("b.test.js", &good)],
            Verdict::Passed,
            [1, 0, 0, 0, 0],
        ),
        (
            "vitest run",
            &[
                ("a.test.js", empty),
                ("b.test.js", &good),
                ("vitest.config.mjs", allows),
                ("node_modules/own", ""),
            ],
            Verdict::Passed,
            [1, 0, 0, 0, 0],
        ),
        ("vitest run", &[("b.js", "")], Verdict::Unusable, [0; 5]),
        ("vitest run --no-passWithNoTests", &[("b.js", "")], Verdict::Unusable, [0; 5]),
    ] {
        let ran = javascript("vitest", modules, script, files).await;
        ran.assert(verdict, true, true);
        assert_eq!(ran.counts(), counts, "{script} {files:?}: {}", ran.told());
        if verdict == Verdict::Failed {
            let bad = ran.report.bad().next().and_then(|case| case.message.clone()).unwrap_or_default();
            assert!(
                bad.contains("No test found in suite") || bad.contains("No test suite found"),
                "{files:?}: {}",
                ran.told()
            );
        }
    }
}

/// A part of mocha that a test replaces does not have tests pass that it never calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mocha_tests_that_nothing_calls_are_failures() {
    let Some(modules) = with_runners() else { return };
    let patch = "require('mocha').Runnable.prototype.run = (done) => done();\n";
    for (patch, tests, verdict, counts) in [
        (
            patch,
            "it('a', () => { throw new Error('x'); });\nit('b', (done) => done());\n",
            Verdict::Failed,
            [0, 2, 0, 0, 0],
        ),
        (
            "",
            "let n = 0;\nit('a', function () { this.retries(1); n += 1; if (n < 2) throw new Error('x'); });\nit('b', (done) => setTimeout(done, 5));\nit('c', async () => {});\nit('d');\n",
            Verdict::Passed,
            [3, 0, 0, 1, 0],
        ),
    ] {
        let ran = javascript("mocha", modules, "mocha", &[("test/a.js", &format!("{patch}{tests}"))]).await;
        ran.assert(verdict, true, true);
        assert_eq!(ran.counts(), counts, "{patch}{tests}: {}", ran.told());
    }
}

/// An error beside the tests counts, although the settings have vitest pass over it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vitest_errors_that_settings_ignore_are_failures() {
    let Some(modules) = with_runners() else { return };
    let settings = "export default { test: { dangerouslyIgnoreUnhandledErrors: true } };\n";
    for (script, settings) in
        [("vitest run", settings), ("vitest run --dangerouslyIgnoreUnhandledErrors", "export default {};\n")]
    {
        for (does, verdict) in
            [("Promise.reject(new Error('lost'));", Verdict::Failed), ("", Verdict::Passed)]
        {
            let test = format!("{VITEST}test('a', () => {{ {does} }});\n");
            let ran = javascript(
                "vitest",
                modules,
                script,
                &[("a.test.js", &test), ("vitest.config.mjs", settings), ("node_modules/own", "")],
            )
            .await;
            ran.assert(verdict, true, true);
            let said = ran.report.reason.as_deref().unwrap_or_default();
            assert_eq!(
                said.contains("dangerouslyIgnoreUnhandledErrors"),
                verdict == Verdict::Failed,
                "{}",
                ran.told()
            );
        }
    }
}

/// A pattern of names in the script leaves tests out, of which one fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_left_out_by_patterns_are_counted() {
    let Some(modules) = with_runners() else { return };
    for (name, script, file, head) in [
        ("mocha", "mocha -g ok", "test/a.js", "const test = it;"),
        ("jasmine", "jasmine --filter=ok", "spec/aSpec.js", "const test = it;"),
    ] {
        let tests = format!(
            "{head}\ntest('ok', () => {{}});\ntest('bad', () => {{ throw new Error('x'); }});\ndescribe('s', () => {{ test('none', () => {{}}); }});\n"
        );
        let ran = javascript(name, modules, script, &[(file, &tests)]).await;
        ran.assert(Verdict::Passed, true, true);
        assert_eq!(ran.counts(), [1, 0, 0, 0, 0], "{name}: {}", ran.told());
        let said = ran.report.reason.as_deref().unwrap_or_default();
        assert!(said.contains("2 tests were found and left out by the project"), "{name}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_tells_of_tests_that_a_pattern_leaves_out() {
    let head = "import { test, describe } from 'node:test';\n";
    let tests = format!(
        "{head}test('ok', () => {{}});\ntest('bad', () => {{ throw new Error('x'); }});\ndescribe('s', () => {{ test('none', () => {{}}); }});\n"
    );
    // Newer ones do not tell of these tests.
    let version = std::process::Command::new("/usr/bin/node").arg("--version").output();
    if !version.is_ok_and(|version| version.stdout.starts_with(b"v20.")) {
        println!("skipped: /usr/bin/node is another version than 20");
        return;
    }
    let package = |script: &str| serde_json::json!({ "scripts": { "test": script } }).to_string();
    for (script, selection, verdict, want) in [
        (
            "node --test --test-name-pattern=ok tests/*.mjs",
            Selection::default(),
            Verdict::Passed,
            Some("2 tests were found and left out by the project itself"),
        ),
        (
            "node --test --test-name-pattern=nosuch tests/*.mjs",
            Selection::default(),
            Verdict::Unusable,
            Some("no tests were found: the project itself leaves all 3 out"),
        ),
        ("node --test tests/*.mjs", filtered("ok"), Verdict::Passed, None),
        (
            "node --test tests/*.mjs",
            filtered("nosuch"),
            Verdict::Unusable,
            Some("the filter \"nosuch\" matches none of 3 tests; a run without ‹filter› names them"),
        ),
    ] {
        let files = [("tests/a.mjs", tests.as_str()), ("package.json", &package(script))];
        let ran = run_with("node", Path::new("/usr"), &files, selection, large()).await;
        ran.assert(verdict, true, true);
        assert_eq!(ran.report.reason.as_deref(), want, "{script}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_names_late_errors_and_odd_ones() {
    let head = "const { test } = require('node:test');\n";
    for (tests, want) in [
        (
            "test('a', () => { setTimeout(() => { throw new Error('too late'); }, 10); });\n",
            "\"Error: too late\"",
        ),
        (
            "test('a', () => { setTimeout(() => { Promise.reject(new Error('too late')); }, 10); });\n",
            "\"Error: too late\"",
        ),
        // Beside a test that fails.
        (
            "test('a', () => { setTimeout(() => { throw new Error('too late'); }, 10); });\ntest('b', () => { throw 1; });\n",
            "\"Error: too late\"",
        ),
        ("test('a', () => { throw { code: 3 }; });\n", "{ code: 3 }"),
        ("test('a', () => { throw { toString() { throw 1; } }; });\n", "{"),
    ] {
        let text = format!("{head}{tests}");
        let files = [("a.test.js", text.as_str()), ("package.json", r#"{"scripts":{"test":"node --test"}}"#)];
        let ran = run_with("node", Path::new("/usr"), &files, Selection::default(), large()).await;
        ran.assert(Verdict::Failed, true, true);
        let told = |case: &hotcell_testing::Case| case.message.as_deref().is_some_and(|m| m.contains(want));
        assert!(ran.report.cases.iter().any(told), "{tests}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mocha_without_some_or_all_tests() {
    let Some(modules) = with_runners() else { return };
    let only = "it('a', () => { throw 1; });\nit.only('b', () => {});\ndescribe('s', () => { it('c', () => {}); });\n";
    let ran = javascript("mocha", modules, "mocha", &[("test/a.js", only)]).await;
    ran.assert(Verdict::Passed, true, true);
    assert_eq!(ran.counts(), [1, 0, 0, 0, 0], "{}", ran.told());
    let said = ran.report.reason.as_deref().unwrap_or_default();
    assert!(said.contains("2 tests were found and left out"), "{}", ran.told());
    for (script, settings) in [("mocha --dry-run", "{}"), ("mocha", "{\"dry-run\": true}")] {
        let files = [("test/a.js", "it('a', () => { throw 1; });\n"), (".mocharc.json", settings)];
        let ran = javascript("mocha", modules, script, &files).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{script}: {}", ran.told());
        assert!(ran.case("::a").message.as_deref().unwrap().contains("--dry-run"), "{}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_error_fails_the_test_of_jest() {
    let Some(modules) = with_jest() else { return };
    let late = "test('t', () => { setTimeout(() => { throw new Error('late'); }, 0); });\n\
                test('u', async () => { await new Promise((r) => setTimeout(r, 500)); });\n";
    let ran = javascript("jest", modules, "jest", &[("a.test.js", late)]).await;
    // Older versions give the error to the test that runs when it comes.
    assert_eq!((ran.report.verdict, ran.report.consistent), (Verdict::Failed, true), "{}", ran.told());
    assert_eq!((ran.report.totals.passed, ran.report.totals.failed), (1, 1), "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn titles_of_ava_are_no_directives() {
    let Some(modules) = with_runners() else { return };
    let text = "const test = require('ava');\ntest('render # TODO list', t => t.is(1, 2));\n\
                test('render # skip link', t => t.pass());\ntest.skip('left', t => t.pass());\ntest.todo('later');\n";
    let ran = javascript("ava", modules, "ava", &[("test.js", text)]).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [1, 1, 0, 2, 0], "{}", ran.told());
    assert_eq!(ran.case("render # TODO list").status, Status::Failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timeout_and_several_errors_are_told() {
    let Some(modules) = with_runners() else { return };
    let slow = format!("{VITEST}test('slow', async () => {{ await new Promise(() => {{}}); }}, 50);\n");
    let ran = javascript("vitest", modules, "vitest", &[("a.test.js", &slow)]).await;
    ran.assert(Verdict::Failed, true, true);
    let message = ran.case("::slow").message.as_deref().unwrap();
    assert!(message.contains("timed out in 50ms") && !message.contains("STACK_TRACE"), "{}", ran.told());
    let hooks = "const { describe, before, after, it } = require('node:test');\n\
                 describe('s', () => { after(() => { throw new Error('one'); }); it('a', () => {}); });\n\
                 describe('t', () => { after(() => { throw new Error('two'); }); it('b', () => {}); });\n";
    let ran = javascript("node", modules, "node --test", &[("a.test.js", hooks)]).await;
    ran.assert(Verdict::Failed, true, true);
    let all: String = ran.report.cases.iter().filter_map(|case| case.message.clone()).collect();
    assert!(all.contains("one") && all.contains("two"), "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pytest_says_why_it_ended_early() {
    let Some(venv) = with_pytest() else { return };
    for (end, said) in [
        ("pytest.exit('db gone', returncode=3)", "Exit: db gone"),
        ("pytest.exit('db gone')", "Exit: db gone"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ] {
        let text =
            format!("import pytest\ndef test_1(): pass\ndef test_2():\n    {end}\ndef test_3(): pass\n");
        let ran = pytest(venv, &[("test_a.py", &text)]).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{end}: {}", ran.told());
        assert_eq!(ran.report.totals.passed, 1, "{end}: {}", ran.told());
        assert!(ran.report.cases.iter().all(|case| case.id.contains("::test_")), "{}", ran.told());
        assert!(ran.report.reason.as_deref().unwrap().contains(said), "{end}: {}", ran.told());
        assert!(ran.case("::test_2").message.as_deref().unwrap_or_default().contains(said), "{}", ran.told());
    }
    // Ended with success, nothing has passed.
    let text = "import pytest\ndef test_1(): pass\ndef test_2(): pytest.exit('done', returncode=0)\n";
    let ran = pytest(venv, &[("test_a.py", text)]).await;
    assert_ne!(ran.report.verdict, Verdict::Passed, "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pytest_failures_are_whole() {
    let Some(venv) = with_pytest() else { return };
    let text = "import importlib, os, unittest, pytest\ndef test_frozen():\n    os.environ['DATABASE_URL']\n\
                def test_import():\n    importlib.import_module('nope')\ndef test_text():\n    exec('1/0')\n\
                @pytest.fixture\ndef leaves():\n    yield\n    raise RuntimeError('not closed')\n\
                def test_both(leaves):\n    assert 1 == 2\n\
                class T(unittest.TestCase):\n    def test_sub(self):\n        for c in ['de', 'us', 'fr']:\n            with self.subTest(code=c):\n                self.assertEqual(c, 'us')\n";
    let ran = pytest(venv, &[("test_a.py", text)]).await;
    ran.assert(Verdict::Failed, true, true);
    for (name, line) in [("test_frozen", 3), ("test_import", 5), ("test_text", 7)] {
        let case = ran.case(name);
        assert_eq!((case.file.as_deref(), case.line), (Some("test_a.py"), Some(line)), "{}", ran.told());
    }
    let both = ran.case("test_both").message.clone().unwrap();
    assert!(both.contains("assert 1 == 2") && both.contains("not closed"), "{}", ran.told());
    let details = ran.case("test_both").details.clone().unwrap();
    assert!(details.contains("assert 1 == 2") && details.contains("not closed"), "{}", ran.told());
    // Versions before 9 end at the first subtest, without pytest-subtests.
    let major =
        ran.report.framework_version.as_deref().and_then(|v| v.split('.').next()?.parse::<u32>().ok());
    if major.is_some_and(|major| major >= 9) {
        let text = "def test_s(subtests):\n    for c in ['de', 'us', 'fr']:\n        with subtests.test('country', code=c):\n            assert c == 'us'\n";
        let subtests = pytest(venv, &[("test_b.py", text)]).await;
        subtests.assert(Verdict::Failed, true, true);
        for (ran, name) in [(&subtests, "test_s"), (&ran, "test_sub")] {
            let case = ran.case(name);
            let message = case.message.clone().unwrap();
            assert!(["code='de'", "code='fr'"].iter().all(|part| message.contains(part)), "{message}");
            assert!(case.details.as_deref().unwrap().contains("'fr' != 'us'") || name == "test_s");
        }
        assert!(subtests.case("test_s").message.as_deref().unwrap().contains("[country]"));
    }
    let twice = [("a/test_x.py", "def test_a(): pass\n"), ("b/test_x.py", "def test_b(): pass\n")];
    let ran = pytest(venv, &twice).await;
    assert!(
        ran.case("b/test_x.py").message.as_deref().unwrap().contains("import file mismatch"),
        "{}",
        ran.told()
    );
    for filter in ["odd and not", "test_a.py::nonexist"] {
        let files = [("test_a.py", "def test_a(): pass\n")];
        let ran = run_with("pytest", venv, &files, filtered(filter), limits()).await;
        assert_eq!(ran.report.verdict, Verdict::Unusable, "{}", ran.told());
        let said = ran.report.reason.clone().unwrap();
        assert!(said.contains("Wrong expression") || said.contains("not found"), "{filter}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unittest_id_is_not_failed_by_other_modules() {
    let Some(python) = with_python() else { return };
    let case = "import unittest\nclass A(unittest.TestCase):\n    def test_ok(self): pass\n";
    let files = [("tests/__init__.py", ""), ("tests/test_a.py", case), ("tests/test_b.py", "import nope\n")];
    for (filter, verdict, counts) in [
        ("tests.test_a.A.test_ok", Verdict::Passed, [1, 0, 0, 0, 0]),
        ("tests.test_a", Verdict::Passed, [1, 0, 0, 0, 0]),
        // A part of a name may be in what cannot be loaded.
        ("test_ok", Verdict::Failed, [1, 0, 1, 0, 0]),
        ("tests.test_b", Verdict::Failed, [0, 0, 1, 0, 0]),
        ("tests.test_b.B.test_x", Verdict::Failed, [0, 0, 1, 0, 0]),
    ] {
        let ran = run_with("unittest", python, &files, filtered(filter), limits()).await;
        assert_eq!((ran.report.verdict, ran.counts()), (verdict, counts), "{filter}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn makefile_variables_reach_pytest() {
    let Some(venv) = with_pytest() else { return };
    let test = "import os\ndef test_mode(): assert os.environ['MODE'] == 'ci'\n";
    for head in [
        "export MODE = ci",
        "MODE ?= ci\nexport MODE",
        "test: export MODE = ci",
        ".EXPORT_ALL_VARIABLES:\nMODE = ci",
    ] {
        let makefile = format!("{head}\ntest:\n\tpytest tests\n\tpython3 -c 'raise SystemExit(1)'\n");
        let files = [("tests/test_a.py", test), ("Makefile", &makefile)];
        let selection = Selection { detected: true, ..Selection::default() };
        let ran = run_with("pytest", venv, &files, selection, limits()).await;
        ran.assert(Verdict::Passed, true, true);
        let said = ran.report.reason.as_deref().unwrap_or_default();
        assert!(said.contains("not run of Makefile, target test: `python3 -c"), "{said}");
    }
}

/// Tests that others of their file leave out by `.only` are told, and those that skip themselves are not taken for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_skipped_beside_only_are_told() {
    let rest = "test('b', () => { throw new Error('x'); });\ntest('c', () => {});\n";
    let told = |file: &str| format!("2 tests were skipped in files with .only: {file}");
    let own = "test('a', () => {});\ntest.skip('b', () => {});\n// test.only('c', () => {});\n";
    let each = format!("test.only.each([1])('a %i', () => {{}});\n{rest}");
    let suite = format!("describe.only('s', () => {{ test('a', () => {{}}); }});\n{rest}");
    let files = |head: &str, file: &str| {
        let only = format!("{head}test.only('a', () => {{}});\n{rest}");
        let texts = [only, format!("{head}{each}"), format!("{head}{suite}")];
        let all: Vec<(String, Option<String>)> =
            texts.into_iter().map(|text| (text, Some(told(file)))).collect();
        all.into_iter().chain([(format!("{head}{own}"), None)])
    };
    if let Some(modules) = with_jest() {
        for (text, want) in files("", "a.test.js") {
            let ran = javascript("jest", modules, "jest", &[("a.test.js", &text)]).await;
            ran.assert(Verdict::Passed, true, true);
            assert_eq!(ran.report.reason, want, "jest {text}: {}", ran.told());
        }
    }
    let Some(modules) = with_runners() else { return };
    for (text, want) in files(&format!("{VITEST}import {{ describe }} from 'vitest';\n"), "a.test.js") {
        let ran = javascript("vitest", modules, "vitest run", &[("a.test.js", &text)]).await;
        ran.assert(Verdict::Passed, true, true);
        assert_eq!(ran.report.reason, want, "vitest {text}: {}", ran.told());
    }
    let focused = "fit('a', () => {});\nit('b', () => { throw new Error('x'); });\nit('c', () => {});\n";
    let ran = javascript("jasmine", modules, "jasmine", &[("spec/aSpec.js", focused)]).await;
    // jasmine itself is incomplete then, with an exit code of its own.
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [1, 0, 1, 2, 0], "{}", ran.told());
    assert!(
        ran.report.reason.as_deref().is_some_and(|why| why.contains(&told("spec/aSpec.js"))),
        "{}",
        ran.told()
    );
}

/// Tests that pytest does not run or does not check are told, though the run passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn warnings_about_unheeded_tests_are_told() {
    let Some(venv) = with_pytest() else { return };
    let good = "def test_good(): pass\n";
    for (text, want) in [
        (String::new(), None),
        (
            "class TestCart:\n    def __init__(self): pass\n    def test_a(self): assert 0\n".to_owned(),
            Some("1 warning of pytest: cannot collect test class 'TestCart' because it has a __init__"),
        ),
        ("def test_value(): return 1 == 2\n".to_owned(), Some("1 warning of pytest: ")),
        (
            "def test_a(): return 1\ndef test_b(): return 2\ndef test_c(): return 3\ndef test_d(): return 4\n".to_owned(),
            Some("4 warnings of pytest: "),
        ),
        // A warning of the code under test says nothing of the tests.
        ("def test_warns():\n    import warnings\n    warnings.warn('old')\n".to_owned(), None),
    ] {
        let ran = pytest(venv, &[("test_a.py", &format!("{good}{text}"))]).await;
        ran.assert(Verdict::Passed, true, true);
        let reason = ran.report.reason.as_deref();
        match want {
            None => assert_eq!(reason, None, "{text}: {}", ran.told()),
            Some(want) => assert!(reason.is_some_and(|reason| reason.contains(want)), "{text}: {}", ran.told()),
        }
    }
}

/// Tests that a later one of the same name replaces do not run, and neither pytest nor unittest says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_that_later_ones_replace_are_told() {
    let case = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.fail()\n    def test_b(self): pass\n    def test_a(self): pass\n";
    let told = |at: &str| Some(format!("1 test did not run, as a later one has its name: test_a.py:{at}"));
    if let Some(python) = with_python() {
        let files = [("test_a.py", case)];
        let ran = run_with("unittest", python, &files, Selection::default(), limits()).await;
        ran.assert(Verdict::Passed, true, true);
        assert_eq!(ran.report.reason, told("3 test_a"), "{}", ran.told());
    }
    let Some(venv) = with_pytest() else { return };
    let class = "class TestA:\n    def test_a(self): assert 0\nclass TestA:\n    def test_b(self): pass\n";
    let marked = "import pytest\n@pytest.mark.parametrize('n', [1])\ndef test_a(n): assert 0\nasync def test_a(): pass\ndef test_a(): pass\n";
    let other = "def test_a(): pass\nclass TestA:\n    def test_a(self): pass\nif TestA:\n    def test_b(): pass\nelse:\n    def test_b(): pass\n";
    let kept = "def variant(f): return lambda other: f\n@variant\ndef test_a(): pass\n@test_a\ndef test_a(): pass\ndef test_b(): pass\n";
    for (text, want) in [
        (case, told("3 test_a")),
        (class, told("1 TestA")),
        (
            marked,
            Some(
                "2 tests did not run, as later ones have their names: test_a.py:3 test_a, test_a.py:4 test_a"
                    .to_owned(),
            ),
        ),
        (other, None),
        (kept, None),
    ] {
        let ran = pytest(venv, &[("test_a.py", text)]).await;
        ran.assert(Verdict::Passed, true, true);
        assert_eq!(ran.report.reason, want, "{text}: {}", ran.told());
    }
}

/// Tests that pass at a later attempt of the project's own are told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tests_that_passed_at_a_later_attempt_are_told() {
    let text = "let n = 0;\nconst again = () => { n += 1; if (n < 2) throw new Error('x'); };\n";
    let told = |id: &str| Some(format!("1 test passed at a later attempt only: {id}"));
    if let Some(modules) = with_jest() {
        let text = format!("{text}jest.retryTimes(2);\ntest('a', again);\ntest('b', () => {{}});\n");
        let ran = javascript("jest", modules, "jest", &[("a.test.js", &text)]).await;
        ran.assert(Verdict::Passed, true, true);
        assert_eq!(ran.report.reason, told("a.test.js::a"), "{}", ran.told());
    }
    let Some(modules) = with_runners() else { return };
    let vitest = format!("{VITEST}{text}test('a', {{ retry: 2 }}, again);\ntest('b', () => {{}});\n");
    let mocha =
        format!("{text}it('a', function () {{ this.retries(2); again(); }});\nit('b', () => {{}});\n");
    for (name, script, file, text) in
        [("vitest", "vitest run", "a.test.js", vitest), ("mocha", "mocha", "test/a.js", mocha)]
    {
        let ran = javascript(name, modules, script, &[(file, &text)]).await;
        ran.assert(Verdict::Passed, true, true);
        assert_eq!(ran.report.reason, told(&format!("{file}::a")), "{name}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugin_that_settings_need_is_named() {
    let Some(venv) = with_pytest() else { return };
    for (settings, want) in [
        ("[pytest]\naddopts = --benchmark-disable\n", Some("--benchmark-disable of pytest-benchmark")),
        ("[pytest]\naddopts = -q --asyncio-mode=auto\n", Some("--asyncio-mode of pytest-asyncio")),
        ("[pytest]\naddopts = --own-option\n", None),
    ] {
        let ran = pytest(venv, &[("pytest.ini", settings), ("test_a.py", "def test_a(): pass\n")]).await;
        assert_eq!((ran.report.verdict, ran.report.cases.len()), (Verdict::Unusable, 0), "{}", ran.told());
        let reason = ran.report.reason.as_deref().unwrap_or_default();
        match want {
            Some(want) => assert!(reason.contains(want) && !reason.contains("it printed last"), "{reason}"),
            None => assert!(reason.contains("unrecognized arguments: --own-option"), "{reason}"),
        }
    }
}
