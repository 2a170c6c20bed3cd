//! Ways to bring a function of a module in: each is read as the plain one is, in every language with several.

use hotcell_guard::{Artifact, Language, Limits, Pack, PackError, Verdict, scan};

/// An import, and a call of what it brings in; `F` stands for the function.
type Way = (&'static str, &'static str);

const JAVASCRIPT: &[Way] = &[
    ("import fs from 'fs';", "fs.F"),
    ("import * as fs from 'node:fs';", "fs.F"),
    ("import { F } from 'fs';", "F"),
    ("import { F as w } from 'node:fs';", "w"),
    ("import { default as fs } from 'fs';", "fs.F"),
    ("import fs, { F } from 'fs';", "F"),
    ("const fs = require('fs');", "fs.F"),
    ("const { F } = require('fs');", "F"),
    ("const { F: w } = require('node:fs');", "w"),
    ("import fs from 'fs/promises';", "fs.F"),
    ("import { F } from 'node:fs/promises';", "F"),
    ("import { promises as fs } from 'fs';", "fs.F"),
    ("const fs = require('fs').promises;", "fs.F"),
    ("const { promises: fs } = require('fs');", "fs.F"),
    ("const { promises: { F } } = require('fs');", "F"),
    ("import fs from 'fs'; const { F } = fs.promises;", "F"),
    ("const fs = await import('fs');", "fs.F"),
    ("const { F } = await import('node:fs/promises');", "F"),
    ("const fs = (await import('fs')).default;", "fs.F"),
    ("const fs = process.getBuiltinModule('fs');", "fs.F"),
    (
        "import { createRequire } from 'module'; const r = createRequire(import.meta.url); const fs = r('fs');",
        "fs.F",
    ),
    ("const fs = module.require('fs');", "fs.F"),
    ("import fs = require('fs');", "fs.F"),
    ("const fs = <any>require('fs');", "fs.F"),
    ("const fs = require('graceful-fs');", "fs.F"),
    ("import fse from 'fs-extra';", "fse.F"),
    ("const { F } = { ...require('fs') };", "F"),
    ("const w = require('util').promisify(require('fs').F);", "w"),
    ("const w = require('fs').F.bind(null);", "w"),
    ("const lib = { fs: require('fs') };", "lib.fs.F"),
    ("let fs; try { fs = require('fs') } catch {}", "fs.F"),
    ("", "Deno.F"),
    ("const w = Bun.write;", "w"),
];
const PYTHON: &[Way] = &[
    ("import os", "os.F"),
    ("import os as o", "o.F"),
    ("from os import F", "F"),
    ("from os import F as s", "s"),
    ("from os import *", "F"),
    ("import importlib; os = importlib.import_module('os')", "os.F"),
    ("os = __import__('os')", "os.F"),
    ("import sys; os = sys.modules['os']", "os.F"),
    ("import subprocess; os = subprocess.os", "os.F"),
    ("from shutil import os", "os.F"),
    ("import random", "random._os.F"),
    ("import posix as os", "os.F"),
    ("import pkgutil; s = pkgutil.resolve_name('os:F')", "s"),
    ("import os\nclass A:\n    run = staticmethod(os.F)\na = A()", "a.run"),
    ("import os, functools; s = functools.partial(os.F)", "s"),
    ("import os\nd = {'r': os.F}", "d['r']"),
    ("import os\nf, *_ = [os.F]", "f"),
    ("import os\n*_, f = [print, len, os.F]", "f"),
    ("import os\ns = lambda x: os.F(x)", "s"),
    ("import os, anyio.to_thread", "await anyio.to_thread.run_sync(os.F, text) or str"),
    ("import sh", "sh.bash('-c', text) or str"),
    ("from sh import bash", "bash('-c', text) or str"),
    ("from plumbum.cmd import sh", "sh('-c', text) or str"),
    ("import invoke", "invoke.run('git log ' + text) or str"),
    ("from invoke import Context", "Context().run('git log ' + text) or str"),
    ("from fabric import Connection", "Connection('h').local('git log ' + text) or str"),
    ("import pexpect", "pexpect.spawn('sh', ['-c', text]) or str"),
    ("import sarge", "sarge.run('git log ' + text) or str"),
    ("import psutil", "psutil.Popen('git log ' + text, shell=True) or str"),
    ("import anyio", "await anyio.run_process('git log ' + text) or str"),
    ("import anyio", "await anyio.open_process(['sh', '-c', text]) or str"),
    ("import trio", "await trio.run_process(['sh', '-c', text]) or str"),
    ("import gevent.subprocess as sp", "sp.check_output('git log ' + text, shell=True) or str"),
    ("from eventlet.green import subprocess", "subprocess.run(text, shell=True) or str"),
    ("import subprocess32 as subprocess", "subprocess.check_output(text, shell=True) or str"),
    ("from asyncio import subprocess", "await subprocess.create_subprocess_shell(text) or str"),
    (
        "import subprocess",
        "p = subprocess.Popen(['bash'], stdin=subprocess.PIPE, text=True); p.communicate(text) or str",
    ),
    ("import os, asyncio", "await asyncio.to_thread(os.F, text) or str"),
    ("import os, concurrent.futures as c; e = c.ThreadPoolExecutor()", "e.submit(os.F, text) or str"),
];

/// Ways to start a program of which the caller gives the code, an option or the whole line.
const PROGRAMS: &[Way] = &[
    ("import { execa } from 'execa';", "await execa(`git log ${x}`, { shell: true })"),
    ("import { execaCommand } from 'execa';", "await execaCommand('git log ' + x)"),
    ("import { execaSync } from 'execa';", "execaSync('sh', ['-c', x])"),
    ("import { execa } from 'execa';", "await execa('bash', ['-c', `git log ${x}`])"),
    ("import { $ } from 'execa';", "await $({ shell: true })`git log ${x}`"),
    ("import { $ } from 'zx';", "await $`bash -c ${x}`"),
    ("const execa = require('execa');", "await execa('sh', ['-c', x])"),
    ("const execa = require('execa');", "await execa.command(x)"),
    ("const execa = require('execa');", "await execa.shell(x)"),
    ("import shell from 'shelljs';", "shell.exec('git log ' + x)"),
    ("import spawn from 'cross-spawn';", "spawn('git log ' + x, { shell: true })"),
    ("import spawn from 'cross-spawn';", "spawn.sync('sh', ['-c', x])"),
    ("import { spawn } from 'child_process';", "spawn('git log ' + x, { shell: true })"),
    ("import { spawn } from 'child_process';", "spawn('git', ['log', x], { shell: true })"),
    ("import { execFile } from 'child_process';", "execFile('sh', ['-c', x])"),
    ("import { exec } from 'child-process-promise';", "await exec('git log ' + x)"),
    ("import { exec } from 'tinyexec';", "await exec('sh', ['-c', x])"),
    ("import { x as run } from 'tinyexec';", "await run('sh', ['-c', x])"),
    ("import spawn from 'nano-spawn';", "await spawn('git log ' + x, { shell: true })"),
    ("import * as pty from 'node-pty';", "pty.spawn('bash', ['-c', x], {})"),
    ("import { exec } from '@actions/exec';", "await exec('bash', ['-c', x])"),
    ("", "await Bun.$`sh -c ${x}`"),
    ("", "Bun.spawn(['sh', '-c', x])"),
    ("", "Bun.spawnSync({ cmd: ['sh', '-c', x] })"),
    ("", "await new Deno.Command('sh', { args: ['-c', x] }).output()"),
];
/// The ones nearest to these that are safe.
const SAFE_PROGRAMS: &[Way] = &[
    ("import { execa } from 'execa';", "await execa('git', ['log', '--', x])"),
    ("import { $ } from 'zx';", "await $`git log -- ${x}`"),
    ("import { $ } from 'zx';", "await $`bash -c 'git log -- \"$1\"' log ${x}`"),
    ("import spawn from 'cross-spawn';", "spawn('npm', ['run', 'build'], { shell: true })"),
    ("", "Bun.spawn(['git', 'log', '--', x])"),
    ("", "await new Deno.Command('git', { args: ['log', '--', x] }).output()"),
    ("import { exec } from './tasks.js';", "await exec('git log ' + x)"),
];

/// A server with a tool that starts a program.
fn program((import, call): Way) -> String {
    format!(
        "import {{ FastMCP }} from 'fastmcp';\nimport {{ z }} from 'zod';\n{import}\nconst server = new FastMCP({{ name: 'git', \
         version: '1.0.0' }});\nserver.addTool({{\n  name: 'log', description: 'Shows the log', parameters: z.object({{ x: z.string() \
         }}),\n  execute: async ({{ x }}) => {{ {call}; return 'ok'; }},\n}});\n"
    )
}

/// A server with a tool that writes below a folder what its caller names.
fn javascript((import, call): Way) -> String {
    let [import, call] = [import, call].map(|text| text.replace('F', "writeFile"));
    format!(
        "import {{ McpServer }} from '@modelcontextprotocol/sdk/server/mcp.js';\nimport path from 'path';\n{import}\n\
         const server = new McpServer({{ name: 'docs', version: '1.0.0' }});\n\
         server.tool('save', {{ page: z.string(), body: z.string() }}, async ({{ page, body }}) => {{\n\
         await {call}(path.join('/srv/docs', page), body);\nreturn {{ content: [] }};\n}});\n"
    )
}

/// A server with a tool that runs what its caller writes.
fn python((import, call): Way) -> String {
    let [import, call] = [import, call].map(|text| text.replace('F', "system"));
    format!(
        "from mcp.server.fastmcp import FastMCP\n{import}\nmcp = FastMCP('x')\n@mcp.tool()\nasync def save(text: str) -> str:\n    \
         \"\"\"Saves\"\"\"\n    {call}(text)\n    return 'ok'\nmcp.run()\n"
    )
}

/// Texts that are not held for review, of those that `make` makes of `ways`.
fn allowed(pack: &Pack, language: Language, ways: &[Way], make: fn(Way) -> String) -> Vec<String> {
    let texts = ways.iter().map(|way| make(*way));
    texts
        .filter(|text| {
            let artifact = Artifact::new("server", text.clone()).run_as(language);
            scan(pack, &Limits::default(), &artifact).verdict < Verdict::Review
        })
        .collect()
}

#[test]
fn imports_are_read_alike() -> Result<(), PackError> {
    let pack = Pack::builtin()?;
    let mut hidden = allowed(&pack, Language::TypeScript, JAVASCRIPT, javascript);
    hidden.extend(allowed(&pack, Language::Python, PYTHON, python));
    hidden.extend(allowed(&pack, Language::TypeScript, PROGRAMS, program));
    assert!(hidden.is_empty(), "{} are hidden:\n{}", hidden.len(), hidden.join("\n"));
    Ok(())
}

/// A function of the file's own with the name of one of a module, and a member of another module.
#[test]
fn namesakes_raise_nothing() -> Result<(), PackError> {
    let pack = Pack::builtin()?;
    let ways: &[Way] = &[
        ("const writeFile = (a, b) => [a, b];", "F"),
        ("import fs from './fs.js';", "fs.F"),
        ("const fs = { promises: { F: async (a) => a } };", "fs.promises.F"),
        ("const Deno = { F: async (a) => a };", "Deno.F"),
    ];
    let raised = ways.len() - allowed(&pack, Language::TypeScript, ways, javascript).len();
    assert_eq!(raised, 0);
    let allowed_programs = allowed(&pack, Language::TypeScript, SAFE_PROGRAMS, program);
    assert_eq!(allowed_programs.len(), SAFE_PROGRAMS.len(), "{allowed_programs:#?}");
    let ways: &[Way] = &[
        ("def system(text): return text", "F"),
        ("from .tools import os", "os.F"),
        ("import app", "app.os.F"),
        ("import sh", "sh.git('log', '--', text) or str"),
        ("import anyio", "await anyio.run_process(['git', 'log', '--', text]) or str"),
        ("from app import invoke", "invoke.run(text) or str"),
    ];
    let raised = ways.len() - allowed(&pack, Language::Python, ways, python).len();
    assert_eq!(raised, 0);
    Ok(())
}
