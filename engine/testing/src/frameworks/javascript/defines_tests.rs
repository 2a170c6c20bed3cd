//! Files that were to define tests of node's own runner, told by their texts: the reporter's functions, run by node.

use std::path::Path;

use serde_json::json;

const TEXT: &str =
    concat!(include_str!("events.cjs"), include_str!("cases.cjs"), include_str!("node_defines.cjs"));

/// Answers of a function of the reporter, one a text; `None` without node.
fn answers(function: &str, texts: &[String]) -> Option<Vec<bool>> {
    let node = Path::new("/usr/bin/node");
    if !node.exists() {
        println!("skipped: no /usr/bin/node");
        return None;
    }
    let ask = format!(
        "(() => {{ {TEXT}\nconsole.log(JSON.stringify(JSON.parse(process.argv[1]).map({function}))); }})()"
    );
    let ran = std::process::Command::new(node).args(["-e", &ask, "--", &json!(texts).to_string()]).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Some(serde_json::from_slice(&ran.stdout).unwrap())
}

fn assert_each(function: &str, rows: &[(String, bool)]) {
    let texts: Vec<String> = rows.iter().map(|(text, _)| text.clone()).collect();
    let Some(answers) = answers(function, &texts) else { return };
    assert_eq!(answers.len(), rows.len());
    for ((text, want), answer) in rows.iter().zip(answers) {
        assert_eq!(answer, *want, "{function}: {text}");
    }
}

/// Every way of loading node:test, with functions that define tests and with helpers.
#[test]
fn loads_of_tests_are_told_from_loads_of_helpers() {
    let mut rows = Vec::new();
    let helping = ["mock", "mock as fake", " before, after,\n mock ", "mock, snapshot", ""];
    let defining =
        ["test", "mock, it", "test as mock", "default as test", "mock, describe as d,", "mock, suite"];
    for (list, wanted) in
        helping.map(|list| (list, false)).into_iter().chain(defining.map(|list| (list, true)))
    {
        for quote in ['\'', '"'] {
            let of = format!("{quote}node:test{quote}");
            let fields = list.replace(" as ", ": ");
            for (load, is_defining) in [
                (format!("import {{{list}}} from {of};"), wanted),
                (format!("export {{{list}}} from {of};"), wanted),
                (format!("const {{{fields}}} = require({of});"), wanted),
                (format!("let {{{fields}}} = await import( {of} );"), wanted),
                // Another name gets all of the module, too.
                (format!("import test, {{{list}}} from {of};"), true),
                (format!("import test,{{{list}}}from {of};"), true),
                (format!("let t, {{{fields}}} = require({of});"), true),
                (format!("let t; const u = ({{{fields}}} = require({of}));"), true),
                (format!("const {{{fields}}} = t = require({of});"), true),
                (format!("const {{{fields}}} = require({of}).test;"), true),
                (format!("import {{{list}}} from {of};\nimport * as t from {of};"), true),
                (format!("import {{{list}}} from {of};\nimport t from {of};"), true),
            ] {
                rows.push((load, is_defining));
            }
        }
    }
    for load in [
        "import test from 'node:test';",
        "import * as t from 'node:test';",
        "import t, * as u from 'node:test';",
        "const test = require('node:test').test;",
        "const test = require('node:test');",
        "const { default: test } = await import('node:test');",
        "(await import('node:test')).test('a', () => {});",
        "import('node:test').then(({ test }) => test('a', () => {}));",
        "const { mock, ...rest } = require('node:test');",
        "const { mock = 1 } = require('node:test');",
        "process.getBuiltinModule('node:test');",
        "export * from 'node:test';",
    ] {
        rows.push((load.to_owned(), true));
    }
    rows.push(("import t from './test.js';".to_owned(), false));
    assert_each("definesBy", &rows);
}

#[test]
fn calls_that_a_file_makes_are_told_from_those_it_keeps_for_others() {
    let mut rows = Vec::new();
    for call in ["test(n, () => { x(); })", "it.skip(n)", "describe(n, () => { it(n); })", "suite('a')"] {
        // Functions that other files call.
        for keep in [
            "exports.check = (n) => CALL;",
            "exports.check = (n) =>\n  CALL;\nexports.n = 1;",
            "exports.check = n => CALL\nexports.n = 1",
            "exports.check = async (n) => { CALL; };",
            "exports.check = function (n) { if (n) { CALL; } };",
            "function check(n) { CALL; }\nmodule.exports = { check };",
            "export async function check(n) { for (const a of n) { CALL; } }",
            "export default { test(n) { CALL; }, other: (n) => CALL };",
            "class A { m(n) { CALL; } }",
            "function one(n) { CALL; }\nfunction all(l) { for (const n of l) one(n); }\nmodule.exports = { all };",
            "function test(n) { return n; }\nfunction check(n) { CALL; }\nmodule.exports = { test, check };",
        ] {
            rows.push((keep.replace("CALL", call), false));
        }
        // Functions that run as the file does, and files that are not understood.
        for run in [
            "CALL;",
            "if (n) { CALL; }",
            "for (const n of [1]) CALL;",
            "for await (const n of l()) { CALL; }",
            "try { CALL; } catch (e) { }",
            "{ CALL }",
            "function main(n) { CALL; }\nmain();",
            "function main(n) { CALL; }\nsetImmediate(main);",
            "const main = async (n) => { CALL; };\nmain().then(end);",
            "const main = n => CALL\nmain(3)",
            "function one(n) { main(); }\nfunction main(n) { CALL; }\none();",
            "const o = { add(n) { CALL; } };\no.add();",
            "(async (n) => { CALL; })();",
            "!function (n) { CALL; }();",
            "[1].forEach((n) => { CALL; });",
            "[1].forEach((n) => CALL);",
            "[(n) => CALL].map((f) => f());",
            "exports.a = () => 1;\nCALL;",
            "exports.a = () => 1, CALL;",
            "const re = /\\{/;\nfunction f(n) { CALL; }",
        ] {
            rows.push((run.replace("CALL", call), true));
        }
    }
    for text in ["// it('a')", "const s = \"it('a')\";", "x.test('a');", "edit('a');", "test;", ""] {
        rows.push((text.to_owned(), false));
    }
    assert_each("callsTests", &rows);
}

/// A chain of files that pass node:test on.
#[test]
fn project_files_are_followed_to_the_runner() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let chain = |head: &str, length: usize, end: &str| {
        write(&format!("{head}/{length}.mjs"), end);
        for at in 0..length {
            write(&format!("{head}/{at}.mjs"), &format!("export * from './{}';\n", at + 1));
        }
        format!("{}/{head}/0.mjs", folder.path().display())
    };
    let defines = "export * from 'node:test';\n";
    let mut rows = vec![
        (chain("short", 3, defines), true),
        // A name takes up to eleven looks for its file.
        (chain("long", 150, defines), true),
        (chain("none", 150, "export const a = 1;\n"), false),
        // More than are read.
        (chain("endless", 250, "export const a = 1;\n"), true),
    ];
    for (name, text, want) in [
        ("gone.js", "require('./not-there');", false),
        ("loop.js", "require('./loop'); require('./');", false),
        ("folder/a.js", "require('./b');", true),
        ("folder/c.js", "require('.');", true),
        // Of two files that a name may stand for, node takes the first.
        ("two/a.js", "require('./b');", false),
    ] {
        rows.push((write(name, text), want));
    }
    write("folder/b/index.js", "module.exports = require('node:test');");
    write("folder/index.js", "module.exports = require('node:test');");
    write("two/b.js", "");
    write("two/b/index.js", "module.exports = require('node:test');");
    assert_each("((file) => loadsRunner(file))", &rows);
}
