//! Values that pass from the caller of a tool or a route through several files of a project.

use std::io::Write;

use hotcell_guard::{Artifact, Finding, Limits, Pack, Report, StepKind, Verdict, Walk, scan, scan_path};

type Files<'f> = &'f [(&'f str, &'f str)];

fn in_folder(pack: &Pack, files: Files<'_>) -> Report {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let walk = Walk { gitignore: false, packages: false, executed: None };
    let limits = Limits::default();
    scan_path(&limits, dir.path(), walk, &mut |artifact| scan(pack, &limits, artifact), &mut |_| ()).unwrap()
}

fn in_zip(pack: &Pack, files: Files<'_>) -> Report {
    let mut out = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text) in files {
        out.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        out.write_all(text.as_bytes()).unwrap();
    }
    let bytes = out.finish().unwrap().into_inner();
    scan(pack, &Limits::default(), &Artifact::new("p.zip", bytes))
}

fn tool(import: &str, call: &str) -> String {
    format!(
        "from mcp.server.fastmcp import FastMCP\n{import}\nmcp = FastMCP('x')\n@mcp.tool()\ndef act(text: str) -> str:\n    {call}\n    return 'done'\n"
    )
}

const RUNS: &str = "import os\ndef run(line):\n    os.system(line)\nclass Runner:\n    def __init__(self, line='ls'):\n        self.line = line\n    def start(self):\n        os.system(self.line)\n    def run(self, line):\n        os.system(line)\n";
const CHECKS: &str = "import os, re\ndef run(line):\n    if not re.fullmatch('[a-z]+', line):\n        raise ValueError(line)\n    os.system('echo ' + line)\n";
const SECOND: &str = "import os\ndef run(first, line):\n    os.system(line)\n    print(first)\n";

fn flows(report: &Report) -> Vec<&Finding> {
    report.findings.iter().filter(|f| f.rule.starts_with("py.flow.") && f.rule != "py.flow.bounded").collect()
}

#[test]
fn values_are_followed_into_functions_of_other_files() {
    let pack = Pack::builtin().unwrap();
    // Imports, call, path and text of the other file; found.
    for (import, call, path, other, found) in [
        ("from helpers import run", "run(text)", "helpers.py", RUNS, true),
        ("from helpers import run as go", "go('ls ' + text)", "helpers.py", RUNS, true),
        ("import helpers", "helpers.run(text)", "helpers.py", RUNS, true),
        ("import helpers as h", "h.run(line=text)", "helpers.py", RUNS, true),
        ("from .helpers import run", "run(text)", "helpers.py", RUNS, true),
        ("from . import helpers", "helpers.run(text)", "helpers.py", RUNS, true),
        ("from pkg import helpers", "helpers.run(text)", "pkg/helpers.py", RUNS, true),
        ("from pkg.helpers import run", "run(text)", "pkg/helpers.py", RUNS, true),
        ("from pkg import run", "run(text)", "pkg/__init__.py", RUNS, true),
        ("from helpers import Runner", "Runner(text).start()", "helpers.py", RUNS, true),
        ("from helpers import Runner", "Runner().run(text)", "helpers.py", RUNS, true),
        ("import helpers", "r = helpers.Runner()\n    r.run(text)", "helpers.py", RUNS, true),
        ("from helpers import run", "run('a', text)", "helpers.py", SECOND, true),
        ("from helpers import run", "run('a', line=text)", "helpers.py", SECOND, true),
        // Any function of the file, by a name that the caller gives, and arguments that it gives together.
        ("import helpers", "getattr(helpers, text)(text)", "helpers.py", RUNS, true),
        ("import helpers", "getattr(helpers, 'r' + text)(text)", "helpers.py", RUNS, true),
        ("from . import helpers", "f = getattr(helpers, text)\n    f(text)", "helpers.py", RUNS, true),
        ("import helpers", "vars(helpers)[text](text)", "helpers.py", RUNS, true),
        ("import json, helpers", "helpers.run(**json.loads(text))", "helpers.py", RUNS, true),
        ("import json, helpers", "getattr(helpers, text)(**json.loads(text))", "helpers.py", RUNS, true),
        // Honest neighbours.
        ("import helpers", "getattr(helpers, 'walk')(text)", "helpers.py", RUNS, false),
        ("import helpers", "getattr(helpers, 'on_' + text)(text)", "helpers.py", RUNS, false),
        ("import helpers", "getattr(helpers, text)('ls')", "helpers.py", RUNS, false),
        ("import os, helpers", "getattr(helpers, os.environ['STEP'])(text)", "helpers.py", RUNS, false),
        (
            "import helpers",
            "if text not in ('run', 'walk'):\n        return ''\n    getattr(helpers, text)(text)",
            "helpers.py",
            CHECKS,
            false,
        ),
        ("import json, helpers", "helpers.run(**json.loads('{}'))", "helpers.py", RUNS, false),
        ("from helpers import run", "run('ls')", "helpers.py", RUNS, false),
        ("from helpers import run", "run(text)", "helpers.py", CHECKS, false),
        ("from helpers import run", "run(text, 'ls')", "helpers.py", SECOND, false),
        ("import shlex\nfrom helpers import run", "run(shlex.quote(text))", "helpers.py", RUNS, false),
        ("from other import run", "run(text)", "helpers.py", RUNS, false),
        ("from helpers import walk", "walk(text)", "helpers.py", RUNS, false),
        ("from helpers import run", "print(text)", "helpers.py", RUNS, false),
    ] {
        let main = tool(import, call);
        let files = [("main.py", main.as_str()), (path, other)];
        for (how, report) in [("folder", in_folder(&pack, &files)), ("zip", in_zip(&pack, &files))] {
            let flows = flows(&report);
            assert_eq!(!flows.is_empty(), found, "{how}: {import}; {call}; {path}: {:?}", report.findings);
            if found {
                assert!(report.verdict >= Verdict::Review, "{how} {import}");
                assert!(flows.iter().all(|f| f.part.ends_with(path)), "{how} {import}: {flows:?}");
                let frames = &flows[0].frames;
                let parts: Vec<&str> = frames.iter().filter_map(|f| f.part.as_deref()).collect();
                assert!(parts.iter().all(|p| p.ends_with("main.py")) && parts.len() >= 2, "{frames:?}");
                assert_eq!((frames[0].step, &*frames[0].name), (StepKind::Source, "text"), "{frames:?}");
                assert_eq!(frames.last().map(|f| (f.step, f.part.clone())), Some((StepKind::Sink, None)));
            }
            assert!(report.coverage.passes.is_empty(), "{how} {import}");
        }
    }
}

/// `main` passes the value through `count` files that only pass it on.
fn chain(count: usize) -> Vec<(String, String)> {
    let mut files = vec![("main.py".to_owned(), tool("from f0 import go", "go(text)"))];
    for at in 0..count {
        let text = format!("from f{} import go as on\ndef go(x):\n    return on(x)\n", at + 1);
        files.push((format!("f{at}.py"), text));
    }
    files.push((format!("f{count}.py"), "import os\ndef go(x):\n    os.system(x)\n".to_owned()));
    files
}

#[test]
fn values_are_followed_through_several_files_up_to_a_bound() {
    let pack = Pack::builtin().unwrap();
    for count in 0..6 {
        let files = chain(count);
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
        let report = in_folder(&pack, &files);
        assert_eq!(!flows(&report).is_empty(), count < 4, "{count}: {:?}", report.findings);
        assert_eq!(report.findings.iter().any(|f| f.rule == "guard.flow_bounded"), count >= 4, "{count}");
        if let [only] = &flows(&report)[..] {
            let mut parts: Vec<&str> = only.frames.iter().filter_map(|f| f.part.as_deref()).collect();
            parts.dedup();
            assert_eq!(parts.len(), count + 1, "{:?}", only.frames);
        }
    }
}

#[test]
fn files_that_call_each_other_end() {
    let pack = Pack::builtin().unwrap();
    let a = tool("from b import go", "go(text)") + "def back(x):\n    go(x)\n";
    let b = "import os\nfrom main import back\ndef go(x):\n    back(x)\n    os.system(x)\n";
    let report = in_folder(&pack, &[("main.py", &a), ("b.py", b)]);
    assert_eq!(flows(&report).len(), 1, "{:?}", report.findings);
}

const SERVER: &str = "const { McpServer } = require('@modelcontextprotocol/sdk/server/mcp.js');\nconst server = new McpServer({ name: 'x' });\n";

#[test]
fn values_are_followed_into_modules_of_javascript() {
    let pack = Pack::builtin().unwrap();
    let runs = "const { execSync } = require('child_process');\nfunction run(line) { return execSync(line); }\nmodule.exports = { run };\n";
    let default = "const { execSync } = require('child_process');\nmodule.exports = function (line) { return execSync(line); };\n";
    let exports =
        "import { execSync } from 'child_process';\nexport const run = (line) => execSync('ls ' + line);\n";
    let assigned = "const cp = require('child_process');\nexports.run = function (first, line) { return cp.execSync(line); };\n";
    let checks = "const { execSync } = require('child_process');\nfunction run(line) { if (!/^[a-z]+$/.test(line)) { throw new Error(line); } return execSync(line); }\nmodule.exports = { run };\n";
    for (main, import, call, path, other, found) in [
        ("main.js", "const { run } = require('./helpers');", "run(text)", "helpers.js", runs, true),
        ("main.js", "const h = require('./helpers.js');", "h.run(text)", "helpers.js", runs, true),
        ("src/main.js", "const h = require('../lib');", "h.run(`ls ${text}`)", "lib/index.js", runs, true),
        ("main.js", "const go = require('./helpers');", "go(text)", "helpers.js", default, true),
        ("main.mjs", "import { run } from './helpers.mjs';", "run(text)", "helpers.mjs", exports, true),
        ("main.ts", "import { run } from './helpers.js';", "run(text)", "helpers.ts", exports, true),
        ("main.js", "const h = require('./helpers');", "h.run('a', text)", "helpers.js", assigned, true),
        ("main.js", "const h = require('./helpers');", "h[text](text)", "helpers.js", runs, true),
        ("main.mjs", "import * as h from './helpers.mjs';", "h[text](text)", "helpers.mjs", exports, true),
        // Honest neighbours.
        ("main.js", "const { run } = require('./helpers');", "run('ls')", "helpers.js", runs, false),
        ("main.js", "const { run } = require('./helpers');", "run(text)", "helpers.js", checks, false),
        ("main.js", "const h = require('./helpers');", "h.run(text, 'ls')", "helpers.js", assigned, false),
        ("main.js", "const h = require('helpers');", "h.run(text)", "helpers.js", runs, false),
        ("main.js", "const h = require('./other');", "h.run(text)", "helpers.js", runs, false),
        (
            "main.js",
            "const h = require('./helpers');",
            "h[process.env.STEP](text)",
            "helpers.js",
            runs,
            false,
        ),
        ("main.js", "const h = require('./helpers');", "h[text]('ls')", "helpers.js", runs, false),
    ] {
        let text =
            format!("{import}\n{SERVER}server.tool('act', async ({{ text }}) => {{ return {call}; }});\n");
        let files = [(main, text.as_str()), (path, other)];
        for (how, report) in [("folder", in_folder(&pack, &files)), ("zip", in_zip(&pack, &files))] {
            let flows: Vec<&Finding> = report
                .findings
                .iter()
                .filter(|f| f.rule.starts_with("js.flow.") && f.rule != "js.flow.bounded")
                .collect();
            assert_eq!(!flows.is_empty(), found, "{how}: {import} {call} {path}: {:?}", report.findings);
            for flow in flows {
                assert!(flow.part.ends_with(path), "{how} {import}: {flow:?}");
                let first = flow
                    .frames
                    .first()
                    .map(|f| (f.step, f.part.as_deref().is_some_and(|p| p.ends_with(main))));
                assert_eq!(first, Some((StepKind::Source, true)), "{how} {import}: {:?}", flow.frames);
            }
        }
    }
}

#[test]
fn fields_that_a_schema_closes_are_not_followed_into_other_files() {
    let pack = Pack::builtin().unwrap();
    let other = "const { execSync } = require('child_process');\nfunction run({ n }) { return execSync(`git log -n ${n}`); }\nmodule.exports = { run };\n";
    for (tool, found) in [
        ("server.tool('x', 'Shows', { n: z.string() }, run);", true),
        ("server.tool('x', 'Shows', { n: z.number() }, run);", false),
        ("server.tool('x', 'Shows', { m: z.number(), n: z.string() }, run);", true),
        ("server.registerTool('x', { description: 'Shows', inputSchema: { n: z.number() } }, run);", false),
        ("server.registerTool('x', { description: 'Shows', inputSchema: { n: z.string() } }, run);", true),
        ("server.tool('x', 'Shows', { o: z.object({ m: z.number(), n: z.string() }) }, run);", true),
        ("server.registerTool('x', { inputSchema: schema }, run);", true),
    ] {
        let text = format!("const {{ run }} = require('./helpers');\n{tool}\n");
        let report = in_folder(&pack, &[("main.js", text.as_str()), ("helpers.js", other)]);
        let is_found =
            report.findings.iter().any(|f| f.rule.starts_with("js.flow.") && f.rule != "js.flow.bounded");
        assert_eq!(is_found, found, "{tool}: {:?}", report.findings);
    }
}
