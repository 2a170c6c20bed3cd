//! node's own runner, mocha, jasmine, karma and vitest, in the versions pinned by
//! `runners/package-lock.json`: every kind of ending, and hostile projects that try to appear good.

use super::*;

/// A folder with `node_modules`, made once and removed when this process has ended.
pub(crate) fn with_runners() -> Option<&'static Path> {
    static MODULES: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = MODULES.get_or_init(|| {
        // Prepared by a script for every suite.
        if let Some(folder) = std::env::var_os("HOTCELL_TEST_RUNNERS") {
            return Ok(folder.into());
        }
        installed_by_npm(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frameworks/runners"))
    });
    match made {
        Ok(folder) => Some(folder),
        Err(error) => {
            println!("skipped: no mocha: {}", error.lines().next_back().unwrap_or_default());
            None
        }
    }
}

fn large() -> Limits {
    Limits {
        memory: Bytes::mib(1024),
        wall: Duration::from_secs(90),
        processes: 256,
        disk: Bytes::mib(256),
        ..limits()
    }
}

/// Differences between the runners, for equivalent tests.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    file: &'static str,
    /// Code before the tests.
    head: &'static str,
    /// True when tests share a process with the runner.
    within: bool,
}

/// Settings of karma with this framework.
fn karma(framework: &str) -> String {
    format!(
        "module.exports = (config) => config.set({{ frameworks: ['{framework}'], files: ['spec/*.js'], browsers: ['jsdom'], port: 1 }});"
    )
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "node",
        file: "a.test.js",
        head: "const { test, describe, before, after } = require('node:test');",
        within: false,
    },
    Kind { name: "mocha", file: "test/a.js", head: "const test = it;", within: true },
    Kind {
        name: "jasmine",
        file: "spec/aSpec.js",
        head: "const test = it; const before = beforeAll, after = afterAll;",
        within: true,
    },
    // jsdom runs in karma's process, and its page has access to all of it.
    Kind {
        name: "karma",
        file: "spec/aSpec.js",
        head: "var process = parent.hotcellSays.constructor('return process')(), global = window, test = it, before = beforeAll, after = afterAll; \
               function strictEqual(a, b) { const e = new Error(`${a} !== ${b}`); Error.captureStackTrace(e, strictEqual); if (a !== b) throw e; } \
               var require = (name) => (name === 'assert' ? { strictEqual } : process.mainModule.require(name)), Buffer = require('buffer').Buffer;",
        within: true,
    },
    Kind {
        name: "vitest",
        file: "a.test.js",
        head: "import { test, describe, beforeAll as before, afterAll as after } from 'vitest'; import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
        within: false,
    },
];

impl Kind {
    fn text(&self, tests: &str) -> String {
        format!("{}\n{tests}\n", self.head)
    }

    async fn run(&self, modules: &Path, files: &[(&str, &str)], selection: Selection, limits: Limits) -> Ran {
        let folder = project(files);
        let script = match self.name {
            "node" => "node --test",
            "karma" => "karma start",
            name => name,
        };
        if self.name == "karma" && !folder.path().join("karma.conf.js").exists() {
            std::fs::write(folder.path().join("karma.conf.js"), karma("jasmine")).unwrap();
        }
        std::fs::write(
            folder.path().join("package.json"),
            format!("{{\"scripts\":{{\"test\":\"{script}\"}}}}"),
        )
        .unwrap();
        let found = hotcell_testing::detect(&ProjectFolder::open(folder.path()).unwrap());
        assert_eq!(found[0].0.name(), self.name);
        let session =
            session_with(self.name, Path::new("/usr"), folder.path(), &selection, limits, |policy| {
                policy.read_only(modules.join("node_modules"), "/home/sandbox/node_modules")
            });
        Ran { report: session.run(&Engine::new(), &mut |_| ()).await, events: Vec::new() }
    }

    async fn one(&self, modules: &Path, tests: &str) -> Ran {
        self.run(modules, &[(self.file, &self.text(tests))], Selection::default(), large()).await
    }
}

const BAD: &str = "test('b', () => { throw new Error('it does not work'); });";
const GOOD: &str = "test('b', () => { if (global.never) throw 1; });";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn javascript_kinds_and_filters_are_reported() {
    let Some(modules) = with_runners() else { return };
    for kind in KINDS {
        let skip = match kind.name {
            "node" | "vitest" => "test.skip('left', () => {}); test.todo('later');",
            "mocha" => "it.skip('left', () => {}); it('later');",
            _ => "xit('left', () => {}); it('later');",
        };
        let many = kind.text(&format!(
            "describe('cart', () => {{\n  test('ok', () => {{}});\n  test('bad', () => {{\n    require('assert').strictEqual(1, 2);\n  }});\n  {skip}\n}});\n\
             test('throws', async () => {{ throw new TypeError('why'); }});\ntest('a + b', () => {{}});"
        ));
        let ran = kind.run(modules, &[(kind.file, &many)], Selection::default(), large()).await;
        ran.assert(Verdict::Failed, true, true);
        assert_eq!(ran.counts(), [2, 2, 0, 2, 0], "{}: {}", kind.name, ran.told());
        let bad = ran.case("::cart::bad");
        assert_eq!((bad.file.as_deref(), bad.line), (Some(kind.file), Some(5)), "{}", ran.told());
        assert_eq!(bad.source.as_deref(), Some("require('assert').strictEqual(1, 2);"));
        assert!(bad.message.as_deref().unwrap().contains("1 !== 2"), "{}", ran.told());
        assert!(bad.details.as_deref().unwrap().contains("at "), "{}: {}", kind.name, ran.told());
        assert!(ran.report.framework_version.is_some() && ran.report.interpreter.is_some(), "{}", ran.told());
        let id = |rest: &str| format!("{}::{rest}", kind.file);
        for (filter, want) in [
            (id("cart::bad"), vec![id("cart::bad")]),
            (id("a + b"), vec![id("a + b")]),
            ("throws".to_owned(), vec![id("throws")]),
        ] {
            let ran = kind.run(modules, &[(kind.file, &many)], filtered(&filter), large()).await;
            let ids: Vec<_> = ran.report.cases.iter().map(|c| c.id.clone()).collect();
            assert_eq!(ids, want, "{} {filter}: {}", kind.name, ran.told());
        }
        let other = kind.file.replace('a', "b");
        let ran = kind
            .run(modules, &[(kind.file, &many), (&other, &kind.text(GOOD))], filtered(&other), large())
            .await;
        ran.assert(Verdict::Passed, true, true);
        assert_eq!(ran.counts(), [1, 0, 0, 0, 0], "{}: {}", kind.name, ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn karma_runs_mocha_and_settings_that_are_modules() {
    let Some(modules) = with_runners() else { return };
    let kind = KINDS.into_iter().find(|kind| kind.name == "karma").unwrap();
    let tests = "describe('cart', () => { it('ok', () => {}); it('bad', () => { throw new Error('why'); }); it.skip('left', () => {}); });\n\
                 describe('h', () => { before(() => { throw new Error('set-up'); }); it('never', () => {}); });\n\
                 describe('t', () => { after(() => { throw new Error('tear'); }); it('was', () => {}); });\n";
    let settings = karma("mocha").replace("module.exports =", "export default");
    let files = [("karma.conf.mjs", settings.as_str()), ("karma.conf.js", &settings), ("spec/a.js", tests)];
    let package = ("package.json", "{\"type\":\"module\",\"scripts\":{\"test\":\"karma start\"}}");
    for files in [&[files[0], files[2]][..], &[files[1], files[2], package]] {
        let folder = project(files);
        let run = |selection| {
            let session =
                session_with("karma", Path::new("/usr"), folder.path(), &selection, large(), |policy| {
                    policy.read_only(modules.join("node_modules"), "/home/sandbox/node_modules")
                });
            async { Ran { report: session.run(&Engine::new(), &mut |_| ()).await, events: Vec::new() } }
        };
        let ran = run(Selection::default()).await;
        assert_eq!(ran.report.verdict, Verdict::Failed, "{}", ran.told());
        assert_eq!(ran.counts(), [2, 1, 2, 1, 0], "{}", ran.told());
        let bad = ran.case("spec/a.js::cart::bad");
        assert_eq!((bad.line, bad.message.as_deref()), (Some(1), Some("Error: why")), "{}", ran.told());
        let ran = run(filtered("spec/a.js::t::was")).await;
        assert_eq!(ran.case("spec/a.js::t::was").status, Status::Passed, "{}", ran.told());
        let ran = run(filtered("cart ok")).await;
        ran.assert(Verdict::Passed, true, true);
        assert_eq!(ran.counts(), [1, 0, 0, 0, 0], "{}", ran.told());
        let ran = run(Selection { fail_fast: true, ..Selection::default() }).await;
        assert!(ran.report.cases.iter().all(|c| !c.id.ends_with("was")), "{}", ran.told());
    }
    let ran =
        kind.run(modules, &[("karma.conf.js", "module.exports = 7;")], Selection::default(), large()).await;
    assert_ne!(ran.report.verdict, Verdict::Passed);
    assert!(ran.told().contains("karma.conf.js exports no function"), "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_karma_end_does_not_pass() {
    let Some(modules) = with_runners() else { return };
    let kind = KINDS.into_iter().find(|kind| kind.name == "karma").unwrap();
    let tests = "describe('cart one', () => { afterAll(() => { window.__karma__.complete({}); }); it('ok', () => {}); });\n\
                 describe('cart two', () => { it('bad', async () => { await new Promise((r) => setTimeout(r, 500)); expect(1).toBe(2); }); });\n";
    for selection in [Selection::default(), filtered("cart")] {
        let files = [("karma.conf.js", karma("jasmine")), ("spec/a.js", tests.to_owned())];
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        let ran = kind.run(modules, &files, selection, large()).await;
        assert_eq!(ran.case("spec/a.js::cart one::ok").status, Status::Passed, "{}", ran.told());
        assert_ne!(ran.report.verdict, Verdict::Passed, "{}", ran.told());
    }
}

/// A replacement for Chromium: a page in a process of its own, connected to karma only by its socket.
const BROWSER: &str = r#"#!/usr/bin/env node
const { JSDOM, VirtualConsole } = require('/home/sandbox/node_modules/jsdom');
const address = process.argv.find((word) => word.startsWith('http'));
if (!process.argv.includes('--no-sandbox') || !process.argv.includes('--headless')) process.exit(7);
JSDOM.fromURL(address, { resources: 'usable', runScripts: 'dangerously', virtualConsole: new VirtualConsole() });
setInterval(() => {}, 1000);
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn karma_with_a_browser_that_is_another_process() {
    let Some(modules) = with_runners() else { return };
    let kind = KINDS.into_iter().find(|kind| kind.name == "karma").unwrap();
    let settings =
        "const bin = process.env.CHROME_BIN = __dirname + '/browser'; require('fs').chmodSync(bin, 0o755);\n"
            .to_owned()
            + &karma("jasmine").replace("'jsdom'", "'Chrome'");
    let run = |tests: &'static str, browser: &'static str, wall| {
        let files = [
            ("karma.conf.js", settings.clone()),
            ("browser", browser.to_owned()),
            ("spec/a.js", tests.to_owned()),
        ];
        async move {
            let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
            let limits = Limits { wall: Duration::from_secs(wall), ..large() };
            kind.run(modules, &files, Selection::default(), limits).await
        }
    };
    let tests = "describe('s', () => { it('ok', () => {}); it('bad', () => { expect(1).toBe(2); }); xit('left', () => {}); });\n\
                 describe('t', () => { afterAll(() => { throw new Error('tear'); }); it('was', () => {}); });";
    let ran = run(tests, BROWSER, 90).await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [2, 1, 1, 1, 0], "{}", ran.told());
    assert_eq!(ran.case("spec/a.js::s::bad").line, Some(1), "{}", ran.told());
    let hangs = "it('a', () => {}); it('b', async () => { await new Promise((r) => setTimeout(r, 2000)); for (;;) {} }); it('c', () => {});";
    let ran = run(hangs, BROWSER, 45).await;
    assert_eq!(ran.report.verdict, Verdict::Limit, "{}", ran.told());
    assert_eq!(ran.case("::a").status, Status::Passed, "{}", ran.told());
    assert_eq!(ran.case("::b").status, Status::NotFinished, "{}", ran.told());
    let ran = run("it('a', () => {});", "#!/bin/sh\nexit 3\n", 90).await;
    assert_ne!(ran.report.verdict, Verdict::Passed);
    assert!(ran.told().contains("did not come up"), "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_javascript_tests_do_not_pass() {
    let Some(modules) = with_runners() else { return };
    for kind in KINDS {
        let hooks = "describe('h', () => { before(() => { throw new Error('set-up'); }); test('never', () => {}); });\n\
                     describe('t', () => { after(() => { throw new Error('tear'); }); test('was', () => {}); });";
        let ran = kind.one(modules, &format!("{GOOD}\n{hooks}")).await;
        ran.assert(Verdict::Failed, true, true);
        assert!(ran.report.totals.errored >= 1, "{}: {}", kind.name, ran.told());
        assert!(format!("{:?}", ran.report.cases).contains("set-up"), "{}: {}", kind.name, ran.told());
        // mocha loads nothing after that, and jasmine runs nothing.
        let ran =
            kind.run(modules, &[(kind.file, "test('a', () => {\n")], Selection::default(), large()).await;
        ran.report.cases.iter().for_each(|c| assert_eq!(c.status, Status::Errored, "{}", ran.told()));
        assert_ne!(ran.report.verdict, Verdict::Passed, "{}: {}", kind.name, ran.told());
        let said = format!("{:?} {:?}", ran.report.reason, ran.report.cases);
        assert!(
            ["SyntaxError", "Unexpected end", "invalid JS syntax"].iter().any(|s| said.contains(s)),
            "{}: {}",
            kind.name,
            ran.told()
        );
        let ran = kind.one(modules, "").await;
        assert_ne!(ran.report.verdict, Verdict::Passed, "{}: {}", kind.name, ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_javascript_runner_leaves_observed_results() {
    let Some(modules) = with_runners() else { return };
    for kind in KINDS {
        let away = "process.reallyExit(0);";
        for does in [
            "process.exit(0);",
            "process.exit(1);",
            away,
            "process.kill(process.pid, 'SIGKILL');",
            "process.abort();",
        ] {
            let ran = kind
                .one(modules, &format!("test('a', () => {{}});\ntest('b', async () => {{ await new Promise((r) => setTimeout(r, 300)); {does} }});\ntest('c', () => {{}});"))
                .await;
            assert!(
                matches!(ran.report.verdict, Verdict::Unusable | Verdict::Failed),
                "{} {does}: {}",
                kind.name,
                ran.told()
            );
            let named = ran.report.cases.iter().any(|c| !c.status.is_good());
            assert!(named, "{} {does}: {}", kind.name, ran.told());
            if kind.within {
                ran.assert_not_passed();
                assert_eq!(
                    (ran.case("::a").status, ran.case("::b").status),
                    (Status::Passed, Status::NotFinished)
                );
            }
        }
        // Before anything ran.
        let ran = kind.one(modules, &format!("process.exit(0);\n{GOOD}")).await;
        assert_ne!(ran.report.verdict, Verdict::Passed, "{}: {}", kind.name, ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_helpers_hide_no_early_end_and_are_no_broken_tests() {
    let Some(modules) = with_runners() else { return };
    let node = KINDS.into_iter().find(|kind| kind.name == "node").unwrap();
    let good = ("b.test.js", "require('node:test').test('b', () => {});");
    let bad = "process.exit(0);\nit('bad', () => { throw 1; });\n";
    let early = |load: &str| format!("const {{ it }} = {load};\n{bad}");
    let passes_on = "module.exports = { ...require('node:test') };\n";
    for (helpers, text, passes) in [
        // The helper passes the runner's functions on, directly or through another file.
        (&[("lib/run.js", passes_on)][..], early("require('./lib/run')"), false),
        (
            &[("lib/run.mjs", "export * from 'node:test';\n")],
            format!("import {{ it }} from './lib/run.mjs';\n{bad}"),
            false,
        ),
        (
            &[("lib/run.js", passes_on), ("lib/index.js", "module.exports = require('./run');\n")],
            early("require('./lib')"),
            false,
        ),
        // A name beside the braces gets all of node:test.
        (&[], format!("import it, {{ mock }} from 'node:test';\n{bad}"), false),
        (&[], "import it, { mock } from 'node:test';\nit('a', () => { mock.fn()(); });\n".to_owned(), true),
        (
            &[
                (
                    "test/check.js",
                    "const { test } = require('../lib/run');\nexports.check = (n) => test(n, () => {});\n",
                ),
                ("lib/run.js", passes_on),
            ],
            "require('./test/check').check('a');".to_owned(),
            true,
        ),
        // node runs every file of the folder `test`, helpers among them.
        (
            &[(
                "test/fakes.js",
                "const { mock, after: last } = require('node:test');\nlast(() => mock.reset());\n",
            )],
            "require('node:test').test('a', () => {});".to_owned(),
            true,
        ),
        (
            &[
                ("test/names.js", "// it('a')\nexports.it = 'pronoun';\nrequire('../lib/run');\n"),
                ("lib/run.js", passes_on),
            ],
            "require('node:test').test('a', () => {});".to_owned(),
            true,
        ),
    ] {
        let name = if text.starts_with("import") { "a.test.mjs" } else { "a.test.js" };
        let files = [helpers, &[good, (name, text.as_str())]].concat();
        let ran = node.run(modules, &files, Selection::default(), large()).await;
        assert_eq!(ran.report.verdict == Verdict::Passed, passes, "{text}: {}", ran.told());
        if !passes {
            assert_eq!(ran.case(name).status, Status::Errored, "{text}: {}", ran.told());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mocha_first_error_is_reported() {
    let Some(modules) = with_runners() else { return };
    let mocha = KINDS.into_iter().find(|kind| kind.name == "mocha").unwrap();
    for (does, want) in [
        ("setTimeout(() => { throw new Error('first'); }, 5); setTimeout(done, 20);", "first"),
        ("done(new Error('first')); done();", "first"),
        // An error after a good end is the first one.
        ("done(); done(new Error('second'));", "second"),
    ] {
        let ran = mocha
            .one(modules, &format!("test('b', (done) => {{ {does} }}); test('c', (d) => setTimeout(d, 50));"))
            .await;
        assert_eq!(ran.report.verdict, Verdict::Failed, "{does}: {}", ran.told());
        let message = ran.case("::b").message.clone().unwrap_or_default();
        assert!(message.contains(want), "{does}: {message}: {}", ran.told());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_names_time_limit_of_file() {
    let Some(modules) = with_runners() else { return };
    let known =
        std::process::Command::new("/usr/bin/node").args(["--test-timeout=500", "--version"]).output();
    if !known.is_ok_and(|known| known.status.success()) {
        println!("skipped: this node is older than 20.11, which brought --test-timeout");
        return;
    }
    let node = KINDS.into_iter().find(|kind| kind.name == "node").unwrap();
    let folder = project(&[
        ("package.json", "{\"scripts\":{\"test\":\"node --test --test-timeout=500\"}}"),
        (
            "a.test.js",
            &node.text("test('hang', () => new Promise((r) => setTimeout(r, 60000))); test('b', () => {});"),
        ),
    ]);
    let session =
        session_with("node", Path::new("/usr"), folder.path(), &Selection::default(), large(), |policy| {
            policy.read_only(modules.join("node_modules"), "/home/sandbox/node_modules")
        });
    let ran = Ran { report: session.run(&Engine::new(), &mut |_| ()).await, events: Vec::new() };
    assert_eq!(ran.report.verdict, Verdict::Failed, "{}", ran.told());
    let messages: Vec<_> = ran.report.cases.iter().filter_map(|case| case.message.as_deref()).collect();
    assert!(messages.iter().any(|message| message.contains("timed out after 500ms")), "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn javascript_limit_names_running_test() {
    let Some(modules) = with_runners() else { return };
    for kind in KINDS {
        let wait = "await new Promise((r) => setTimeout(r, 2000));";
        for (does, limits) in [
            ("for (;;) {}", Limits { wall: Duration::from_secs(20), ..large() }),
            (
                "const all = []; for (;;) all.push(Buffer.alloc(1 << 20, 1));",
                Limits { memory: Bytes::mib(400), ..large() },
            ),
        ] {
            let text = kind.text(&format!("test('a', () => {{}});\ntest('b', async () => {{ {wait} {does} }}, 60000);\ntest('c', () => {{}});"));
            let text = if kind.name == "node" { text.replace(", 60000", "") } else { text };
            let text =
                if kind.name == "mocha" { text.replace("}, 60000)", "}).timeout(60000)") } else { text };
            let files = [(kind.file, text.as_str())];
            let mut ran = kind.run(modules, &files, Selection::default(), limits.clone()).await;
            // The throttle of vitest 3 keeps an update back until the next one if its timer of 100 ms fires in the
            // hundredth millisecond (`throttle` of @vitest/runner): the file is all that is known then.
            let named = ran.report.cases.iter().any(|case| case.id.ends_with("::a"));
            if kind.name == "vitest" && !named {
                assert_eq!(ran.report.verdict, Verdict::Limit, "{does}: {}", ran.told());
                assert_eq!(ran.case("a.test.js").status, Status::NotFinished, "{does}: {}", ran.told());
                continue;
            }
            // On a busy machine, a runner may need that long to start.
            if !named {
                let limits = Limits { wall: Duration::from_secs(90), ..limits };
                ran = kind.run(modules, &files, Selection::default(), limits).await;
            }
            assert_eq!(ran.report.verdict, Verdict::Limit, "{} {does}: {}", kind.name, ran.told());
            assert_eq!(ran.case("::a").status, Status::Passed, "{} {does}: {}", kind.name, ran.told());
            assert_eq!(ran.case("::b").status, Status::NotFinished, "{} {does}: {}", kind.name, ran.told());
        }
    }
}

/// Writes an all-passed report of two tests, and events.
const FORGE: &str = r#"
const { fs, path } = { fs: require('fs'), path: require('path') };
const folder = '/home/sandbox/.hotcell-reports';
const forge = (text) => { fs.mkdirSync(folder, { recursive: true }); for (const n of NAMES) fs.writeFileSync(path.join(folder, n), text); };
const CASES = (ids) => ids.map((id) => JSON.stringify({ e: 'case', id, status: 'passed' })).concat(JSON.stringify({ e: 'done', count: ids.length }), '').join('\n');
const pipes = () => fs.readdirSync('/proc/self/fd').map(Number).filter((fd) => { try { return fd > 2 && fs.fstatSync(fd).isFIFO(); } catch { return false; } });
const say = (text) => pipes().forEach((fd) => { try { fs.writeSync(fd, text); } catch {} });
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_reports_and_codes() {
    let Some(modules) = with_runners() else { return };
    // In separate processes the runner's parent writes the report, and overwrites changes of files and codes
    // by tests.
    for kind in KINDS.into_iter().filter(|kind| kind.within) {
        let head = FORGE.replace("NAMES", &format!("['{}.jsonl']", kind.name));
        for (what, does, rest) in [
            ("everything, and gone", "forge(CASES([])); process.reallyExit(0);", BAD),
            (
                "the end",
                "say('{\"e\":\"finish\",\"exit\":0}\\n'); forge(CASES([])); process.reallyExit(0);",
                BAD,
            ),
            (
                "the exit code",
                "process.on('exit', () => process.reallyExit(0)); const r = process.reallyExit; process.reallyExit = () => r.call(process, 0);",
                BAD,
            ),
            ("nonsense", "say('\\n\\xff');", GOOD),
            ("what never began", "say('{\"e\":\"end\",\"id\":\"x\",\"status\":\"passed\"}\\n');", GOOD),
            ("no pipe", "pipes().forEach((fd) => { try { fs.closeSync(fd); } catch {} });", GOOD),
            ("a folder", "fs.mkdirSync(folder + '/NAME', { recursive: true });", GOOD),
            ("a link", "fs.mkdirSync(folder); fs.symlinkSync('/tmp/other', folder + '/NAME');", GOOD),
            (
                "missing",
                "process.reallyExit = ((r) => (c) => { fs.rmSync(folder, { recursive: true }); r.call(process, c); })(process.reallyExit);",
                GOOD,
            ),
            (
                "another's",
                "process.reallyExit = ((r) => (c) => { forge(CASES(['x'])); r.call(process, c); })(process.reallyExit);",
                GOOD,
            ),
            (
                "empty",
                "process.reallyExit = ((r) => (c) => { forge(''); r.call(process, c); })(process.reallyExit);",
                GOOD,
            ),
            (
                "cut",
                "process.reallyExit = ((r) => (c) => { forge(CASES(['x']).slice(0, 20)); r.call(process, c); })(process.reallyExit);",
                GOOD,
            ),
            (
                "deep",
                "process.reallyExit = ((r) => (c) => { forge('['.repeat(1e6)); r.call(process, c); })(process.reallyExit);",
                GOOD,
            ),
            (
                "of 1 GB",
                "process.reallyExit = ((r) => (c) => { forge(''); fs.truncateSync(folder + '/NAME', 2 ** 30); r.call(process, c); })(process.reallyExit);",
                GOOD,
            ),
        ] {
            let does = does.replace("NAME", &format!("{}.jsonl", kind.name));
            let ran = kind.one(modules, &format!("{head}\ntest('a', () => {{ {does} }});\n{rest}")).await;
            assert_eq!(ran.report.verdict, Verdict::Unusable, "{} {what}: {}", kind.name, ran.told());
            ran.assert_not_passed();
        }
    }
    for kind in KINDS.into_iter().filter(|kind| !kind.within) {
        let head = FORGE.replace("NAMES", "['node.jsonl', 'vitest.json']");
        for (what, does) in [
            ("everything", "forge(CASES([])); process.exitCode = 0;"),
            (
                "a report that stays",
                "fs.mkdirSync(folder + '/node.jsonl', { recursive: true }); fs.mkdirSync(folder + '/vitest.json', { recursive: true });",
            ),
            ("what pipes there are", "say('{\"e\":\"finish\",\"exit\":0}\\n'); process.reallyExit(0);"),
            ("the runner", "process.kill(process.ppid, 'SIGKILL');"),
        ] {
            let ran = kind.one(modules, &format!("{head}\ntest('a', () => {{ {does} }});\n{BAD}")).await;
            assert_ne!(ran.report.verdict, Verdict::Passed, "{} {what}: {}", kind.name, ran.told());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_javascript_runners_are_explained() {
    if !Path::new("/usr/bin/node").exists() {
        println!("skipped: no /usr/bin/node");
        return;
    }
    for kind in &KINDS[1..] {
        let files = [(kind.file, kind.head)];
        let ran = run_with(kind.name, Path::new("/usr"), &files, Selection::default(), large()).await;
        assert_eq!(ran.report.verdict, Verdict::NotInstalled, "{}: {}", kind.name, ran.told());
        assert!(ran.report.reason.as_deref().unwrap().contains("`npm ci`"), "{}", ran.told());
    }
}
