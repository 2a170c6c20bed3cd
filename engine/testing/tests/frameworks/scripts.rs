//! Scripts `test` of `package.json` as people write them: what `npm test` would run is run, with all
//! arguments and variables.

use super::*;
use crate::jest::with_jest;
use crate::node::with_runners;

const GOOD: &str = "it('a', () => {});\n";
const BAD: &str = "it('b', () => { throw new Error('broken'); });\n";
const LINT: &str = "console.log('bad style'); process.exit(require('fs').existsSync('bad') ? 2 : 0);\n";

/// A script, its framework, files, numbers of passed, failed, errored and skipped tests, and a part of the
/// reason.
type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], [u64; 4], Option<&'a str>);

const ROWS: &[Row<'_>] = &[
    (
        "mocha test test/integration",
        "mocha",
        &[("test/a.js", GOOD), ("test/integration/b.js", BAD)],
        [1, 1, 0, 0],
        None,
    ),
    (
        "mocha 'src/**/*.spec.js'",
        "mocha",
        &[("src/a.spec.js", GOOD), ("src/q/b.spec.js", BAD), ("test/c.js", BAD)],
        [1, 1, 0, 0],
        None,
    ),
    (
        "mocha test/*.js",
        "mocha",
        &[("test/a.js", GOOD), ("test/sub/b.js", BAD)],
        [1, 0, 0, 0],
        Some("seem to hold some: test/sub/b.js"),
    ),
    (
        "mocha --throw-deprecation --stack-trace-limit=5 spec/*.test.js",
        "mocha",
        &[("spec/a.test.js", GOOD), ("spec/server.js", BAD), ("test/b.js", BAD)],
        [1, 0, 0, 0],
        None,
    ),
    (
        "mocha --recursive spec -g a",
        "mocha",
        &[("spec/u/x.js", GOOD), ("spec/b.js", BAD)],
        [1, 0, 0, 0],
        None,
    ),
    (
        "mocha -u tdd -R dot",
        "mocha",
        &[("test/x.js", "suite('s', () => { test('a', () => {}); });")],
        [1, 0, 0, 0],
        None,
    ),
    (
        "NODE_ENV=test cross-env A='b c' mocha --exit",
        "mocha",
        &[(
            "test/x.js",
            "it('a', () => { if (process.env.NODE_ENV + process.env.A !== 'testb c') throw 1; });",
        )],
        [1, 0, 0, 0],
        None,
    ),
    (
        "mocha --import=./hook.mjs --require ./cjs.cjs 'test/**/*.js'",
        "mocha",
        &[
            ("hook.mjs", "globalThis.hooked = 1;"),
            ("cjs.cjs", "globalThis.required = 1;"),
            ("test/x.js", "it('a', () => { if (hooked + required !== 2) throw 1; });"),
        ],
        [1, 0, 0, 0],
        None,
    ),
    (
        "node ./node_modules/.bin/mocha spec",
        "mocha",
        &[("spec/a.js", GOOD), ("test/b.js", BAD)],
        [1, 0, 0, 0],
        None,
    ),
    (
        "mocha spec 2>&1 | cat",
        "mocha",
        &[("spec/a.js", BAD)],
        [0, 1, 0, 0],
        Some("not followed of the script: | cat"),
    ),
    ("c8 --reporter=text mocha spec", "mocha", &[("spec/a.js", GOOD)], [1, 0, 0, 0], Some("run without c8")),
    (
        "mocha",
        "mocha",
        &[(
            "test/a.js",
            "it('a', () => { const e = process.env; if (e.NO_COLOR || e.FORCE_COLOR || e.npm_lifecycle_event !== 'test') throw 1; });",
        )],
        [1, 0, 0, 0],
        None,
    ),
    // Commands before and after the tests.
    (
        "npm run lint && mocha dist",
        "mocha",
        &[(
            "lint.js",
            "fs = require('fs'); fs.mkdirSync('dist'); fs.writeFileSync('dist/a.js', 'it(`a`, () => {})');",
        )],
        [1, 0, 0, 0],
        None,
    ),
    (
        "npm run lint && mocha",
        "mocha",
        &[("lint.js", LINT), ("bad", ""), ("test/a.js", GOOD)],
        [0, 0, 1, 0],
        None,
    ),
    (
        "mocha && npm run lint",
        "mocha",
        &[("lint.js", LINT), ("bad", ""), ("test/a.js", GOOD)],
        [1, 0, 1, 0],
        None,
    ),
    (
        "mocha || npm run lint",
        "mocha",
        &[("lint.js", LINT), ("bad", ""), ("test/a.js", GOOD)],
        [1, 0, 0, 0],
        None,
    ),
    (
        "node lint.js; mocha",
        "mocha",
        &[("lint.js", LINT), ("bad", ""), ("test/a.js", GOOD)],
        [1, 0, 0, 0],
        None,
    ),
    (
        "node --test && npm run lint",
        "node",
        &[("lint.js", LINT), ("a.test.js", "require('node:test')('a', () => {});")],
        [1, 0, 0, 0],
        None,
    ),
    (
        "node --test && npm run lint",
        "node",
        &[("lint.js", LINT), ("bad", ""), ("a.test.js", "require('node:test')('a', () => {});")],
        [1, 0, 1, 0],
        None,
    ),
    (
        "mocha && node --test a.test.js",
        "mocha",
        &[("test/a.js", GOOD), ("a.test.js", "require('node:test')('a', () => { throw 1; });")],
        [1, 0, 1, 0],
        Some("runs node too"),
    ),
    // node's own runner.
    (
        "node --test checks/*.mjs",
        "node",
        &[("checks/a.mjs", "import test from 'node:test'; test('a', () => {});"), ("b.test.js", BAD)],
        [1, 0, 0, 0],
        None,
    ),
    (
        "node --test --test-force-exit",
        "node",
        &[("a.test.js", "require('node:test')('a', () => { require('net').createServer().listen(0); });")],
        [1, 0, 0, 0],
        None,
    ),
    (
        "TZ=America/New_York node --test",
        "node",
        &[("a.test.js", "require('node:test')('a', () => { if (new Date(0).getHours() !== 19) throw 1; });")],
        [1, 0, 0, 0],
        None,
    ),
    (
        "node own.js",
        "node",
        &[("own.js", "require('node:test')('a', () => {});"), ("b.test.js", BAD)],
        [1, 0, 0, 0],
        None,
    ),
    // The other runners.
    ("vitest run --globals", "vitest", &[("a.test.js", "test('a', () => {});")], [1, 0, 0, 0], None),
    (
        "vitest run --config conf/vt.mjs",
        "vitest",
        &[
            // vite writes there while it reads settings.
            ("node_modules/own", ""),
            ("conf/vt.mjs", "export default { test: { globals: true, include: ['unit/*.js'] } };"),
            ("unit/a.js", GOOD),
            ("e2e/b.test.js", BAD),
        ],
        [1, 0, 0, 0],
        Some("e2e/b.test.js"),
    ),
    (
        "vitest run --dir unit --globals",
        "vitest",
        &[("unit/a.test.js", GOOD), ("e2e/b.test.js", BAD)],
        [1, 0, 0, 0],
        Some("e2e/b.test.js"),
    ),
    ("jasmine unit/a.js", "jasmine", &[("unit/a.js", GOOD), ("unit/b.js", BAD)], [1, 0, 0, 0], None),
];

const OF_JEST: &[Row<'_>] = &[
    (
        "jest --testPathPatterns unit",
        "jest",
        &[("unit/a.test.js", GOOD), ("e2e/b.test.js", BAD)],
        [1, 0, 0, 0],
        Some("e2e/b.test.js"),
    ),
    (
        "cross-env NODE_ENV=x jest unit",
        "jest",
        &[
            ("unit/a.test.js", "it('a', () => { expect(process.env.NODE_ENV).toBe('x'); });"),
            ("e2e/b.test.js", BAD),
        ],
        [1, 0, 0, 0],
        None,
    ),
    (
        "TZ=America/New_York jest",
        "jest",
        &[("a.test.js", "it('a', () => { expect(new Date(0).getHours()).toBe(19); });")],
        [1, 0, 0, 0],
        None,
    ),
    (
        "jest --config conf.json --reporters default --verbose",
        "jest",
        &[("conf.json", "{\"testMatch\": [\"**/own.js\"]}"), ("own.js", GOOD), ("b.test.js", BAD)],
        [1, 0, 0, 0],
        Some("b.test.js"),
    ),
    (
        "NODE_OPTIONS=\"$NODE_OPTIONS --experimental-vm-modules\" npx jest",
        "jest",
        &[
            ("conf.js", ""),
            ("jest.config.json", "{\"testMatch\": [\"**/*.test.mjs\"], \"transform\": {}}"),
            ("a.test.mjs", "import 'node:fs'; it('a', () => {});"),
        ],
        [1, 0, 0, 0],
        None,
    ),
    (
        "npm run lint && jest",
        "jest",
        &[("lint.js", LINT), ("bad", ""), ("a.test.js", GOOD)],
        [0, 0, 1, 0],
        None,
    ),
    (
        "jest && npm run lint",
        "jest",
        &[("lint.js", LINT), ("bad", ""), ("a.test.js", GOOD)],
        [1, 0, 1, 0],
        None,
    ),
];

async fn follow_script(modules: &Path, row: &Row<'_>, selection: Selection) -> Ran {
    let (script, framework, files, ..) = row;
    let folder = project(files);
    let scripts = serde_json::json!({"scripts": {"test": script, "lint": "node lint.js"}});
    std::fs::write(folder.path().join("package.json"), scripts.to_string()).unwrap();
    let found = hotcell_testing::detect(&ProjectFolder::open(folder.path()).unwrap());
    assert_eq!(found[0].0.name(), *framework, "{script}");
    let limits = Limits { memory: Bytes::mib(1024), processes: 256, disk: Bytes::mib(256), ..limits() };
    let selection = Selection { detected: true, ..selection };
    let session = session_with(framework, Path::new("/usr"), folder.path(), &selection, limits, |policy| {
        policy.read_only(modules.join("node_modules"), "/home/sandbox/node_modules")
    });
    super::follow(session).await
}

async fn as_npm_would(modules: &Path, rows: &[Row<'_>]) {
    for row in rows {
        let (script, _, _, counts, reason) = row;
        let ran = follow_script(modules, row, Selection::default()).await;
        assert_eq!(ran.counts()[..4], *counts, "{script}: {}", ran.told());
        let verdict = if counts[1] + counts[2] > 0 { Verdict::Failed } else { Verdict::Passed };
        ran.assert(verdict, true, true);
        let told = ran.report.reason.as_deref().unwrap_or_default();
        assert!(told.contains(reason.unwrap_or_default()), "{script}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn package_scripts_agree_with_npm_test() {
    let Some(modules) = with_runners() else { return };
    as_npm_would(modules, ROWS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jest_scripts_agree_with_npm_test() {
    let Some(modules) = with_jest() else { return };
    as_npm_would(modules, OF_JEST).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfollowed_script_does_not_pass() {
    let Some(modules) = with_runners() else { return };
    let row: Row<'_> = (
        "./all.sh",
        "mocha",
        &[("all.sh", "mocha other"), (".mocharc.json", "{}"), ("test/a.js", GOOD)],
        [1, 0, 0, 0],
        None,
    );
    let ran = follow_script(modules, &row, Selection::default()).await;
    ran.assert(Verdict::Unusable, false, true);
    assert!(ran.report.reason.as_deref().unwrap().contains("does not start mocha"), "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filter_narrows_script_selection() {
    let Some(modules) = with_runners() else { return };
    let node = "const { test } = require('node:test'); test('one', () => {}); test('a unit', () => {}); test('a unit', () => {});";
    let files: &[(&str, &str)] =
        &[("unit/a.test.js", node), ("unit/deep/b.test.js", node), ("c.test.js", node)];
    let row: Row<'_> = ("node --test && exit 7", "node", files, [0; 4], None);
    for (filter, want) in [
        ("unit", vec!["one", "a unit", "a unit #2", "one", "a unit", "a unit #2"]),
        ("unit/a.test.js", vec!["one", "a unit", "a unit #2"]),
        ("unit/a.test.js::one", vec!["one"]),
        ("unit/a.test.js::a unit #2", vec!["a unit", "a unit #2"]),
        ("^one", vec!["one", "one", "one"]),
    ] {
        let ran = follow_script(modules, &row, filtered(filter)).await;
        ran.assert(Verdict::Passed, true, true);
        let names: Vec<_> = ran.report.cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, want, "{filter}: {}", ran.told());
    }
    let row: Row<'_> =
        ("mocha -g nothing spec/b.js", "mocha", &[("spec/a.js", GOOD), ("spec/b.js", BAD)], [0; 4], None);
    let ran = follow_script(modules, &row, filtered("spec/a.js::a")).await;
    ran.assert(Verdict::Passed, true, true);
    assert_eq!(ran.counts(), [1, 0, 0, 0, 0], "{}", ran.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coverage_threshold_failure_is_named() {
    let Some(modules) = with_jest() else { return };
    let files: &[(&str, &str)] = &[
        ("a.js", "module.exports = (x) => (x ? 1 : 2);\nfunction never() { return 1; }\n"),
        ("a.test.js", "const a = require('./a');\nit('a', () => { a(1); });\n"),
        ("jest.config.js", "module.exports = { coverageThreshold: { global: { lines: 100 } } };\n"),
    ];
    let row: Row<'_> = ("jest --coverage", "jest", files, [0; 4], None);
    let ran = follow_script(modules, &row, Selection::default()).await;
    ran.assert(Verdict::Failed, true, true);
    let message = ran.case("coverage threshold").message.clone().unwrap();
    assert!(message.contains("lines") && message.contains("100"), "{message}");
    // For a single file the threshold is meaningless.
    let ran = follow_script(modules, &row, filtered("a.test.js")).await;
    ran.assert(Verdict::Passed, true, true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn titles_and_late_failures() {
    let Some(modules) = with_runners() else { return };
    let late = "describe('twice', () => { it('done twice', (done) => { done(); setTimeout(done, 5); }); it('next', (done) => { setTimeout(done, 50); }); });\n\
                it('same', () => {}); it('same', () => { throw new Error('x'); });\n";
    let ran = follow_script(
        modules,
        &("mocha", "mocha", &[("test/a.js", late)], [0; 4], None),
        Selection::default(),
    )
    .await;
    ran.assert(Verdict::Failed, true, true);
    assert_eq!(ran.counts(), [2, 2, 0, 0, 0], "{}", ran.told());
    assert_eq!(ran.case("::twice::done twice").status, Status::Failed);
    assert_eq!(ran.case("::same #2").status, Status::Failed, "{}", ran.told());
    let Some(modules) = with_jest() else { return };
    let titles = "class Cart {}\ndescribe(Cart, () => { it(Cart, () => {}); it(7, () => {}); });\nit.each([1, 2])('n', () => {});\n";
    let ran = follow_script(
        modules,
        &("jest", "jest", &[("a.test.js", titles)], [0; 4], None),
        Selection::default(),
    )
    .await;
    ran.assert(Verdict::Passed, true, true);
    assert_eq!(ran.counts(), [4, 0, 0, 0, 0], "{}", ran.told());
}
