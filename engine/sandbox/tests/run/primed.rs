//! Interpreters that are started before their job is known: everything that a program can see is the same as
//! after a normal start.

use std::path::Path;
use std::time::{Duration, Instant};

use hotcell_sandbox::policy::Stdin;
use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_sandbox::{Bytes, Cause, Engine, Outcome, Policy};

use crate::told;

pub const PYTHON: &str = "/usr/bin/python3";

pub fn has_python() -> bool {
    let found = Path::new(PYTHON).exists();
    if !found {
        println!("skipped: no {PYTHON}");
    }
    found
}

pub fn pool() -> Pool {
    Pool::new(Engine::new(), PoolOptions { each: 2, ..PoolOptions::default() })
}

/// Runs a policy in a sandbox in which an interpreter waits.
pub async fn primed(pool: &Pool, policy: &Policy) -> Outcome {
    let begun = Instant::now();
    loop {
        let before = pool.served().primed;
        let outcome = pool.run(policy).await;
        if pool.served().primed > before {
            return outcome;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "none was ready: {:?}", pool.served());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Masks differences between runs: addresses, and the way in which the kernel shows overwritten arguments.
fn masked(text: &str) -> String {
    let mut rest = text;
    let mut masked = String::new();
    while let Some(at) = rest.find("0x") {
        let (before, after) = rest.split_at(at + 2);
        masked.push_str(before);
        rest = after.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    masked += rest;
    // Thread identifiers are addresses too.
    let long = |word: &str| word.len() > 12 && word.bytes().all(|b| b.is_ascii_digit());
    masked
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| long(word))
        .collect::<Vec<_>>()
        .iter()
        .fold(masked.clone(), |text, number| text.replace(number, "N"))
}

pub fn seen(outcome: &Outcome) -> (Cause, Option<i32>, Option<String>, String, String, Vec<String>) {
    let text =
        |output: &hotcell_sandbox::outcome::Output| masked(output.text.as_deref().unwrap_or("(bytes)"));
    (
        outcome.cause,
        outcome.exit_code,
        outcome.signal.clone(),
        text(&outcome.stdout),
        text(&outcome.stderr),
        outcome.denials.iter().map(|d| format!("{} {}", d.layer, d.operation)).collect(),
    )
}

/// The difference between a normal start and a prewarmed one.
async fn difference(pool: &Pool, policy: &Policy) -> Option<String> {
    let cold = pool.engine().run(policy).await;
    assert!(!matches!(cold.cause, Cause::Refused | Cause::Internal), "{}", told(&cold));
    let hot = primed(pool, policy).await;
    let same = seen(&hot) == seen(&cold) && (&hot.layers, &hot.mounts) == (&cold.layers, &cold.mounts);
    (!same).then(|| format!("{:?}\n  cold {:?}\n  hot  {:?}", policy.job.argv, seen(&cold), seen(&hot)))
}

async fn assert_same(pool: &Pool, policies: &[Policy]) {
    let mut differ = Vec::new();
    for policy in policies {
        differ.extend(difference(pool, policy).await);
    }
    assert!(differ.is_empty(), "{} of {} differ:\n{}", differ.len(), policies.len(), differ.join("\n"));
}

pub fn code(text: &str) -> Policy {
    Policy::new("python3").args(["-c", text])
}

/// Scripts, each for one thing that a program can see or do.
const SIGHTS: &[&str] = &[
    "print(1)",
    "",
    "import sys; print(sys.argv, sys.orig_argv, sys.flags, sys.path, sys.executable, sys.prefix, sys.exec_prefix, sys.base_prefix)",
    "import sys; print(sys.warnoptions, sys._xoptions, sys.dont_write_bytecode, sys.platlibdir, sys._base_executable, sys.pycache_prefix)",
    "import sys; print(sorted(sys.modules))",
    "print({k: repr(v) for k, v in sorted(globals().items())})",
    "import sys; print(sys.modules['__main__'], __name__, __spec__, __loader__, __builtins__)",
    "import os; print(sorted(os.environ.items()), os.getenv('HOME'), os.getenv('LD_PRELOAD'))",
    "import os; print(list(os.environ), list(os.environb), os.environ == dict(os.environ))",
    "import posix; print(posix.environ)",
    "import os; os.system('env')",
    "import os; print(os.getcwd(), os.getpid(), os.getppid(), os.getsid(0), os.getpgrp(), os.getuid(), os.umask(0))",
    "import os; print(sorted(os.listdir('/proc/self/fd')), sorted(os.listdir('/proc')))",
    "import os; [print(n, os.readlink(f'/proc/self/fd/{n}').split(':')[0]) for n in '012']",
    "import os; [print(os.get_inheritable(n), os.get_blocking(n), os.isatty(n)) for n in (0, 1, 2)]",
    "print(open('/proc/self/cmdline').read().rstrip('\\0').split('\\0'), open('/proc/self/comm').read())",
    "import re; print(re.findall('^(?:Name|State|Tgid|Pid|PPid|TracerPid|Uid|Gid|Threads|Sig.*|Shd.*|Cap.*|NoNew.*|Seccomp):.*', open('/proc/self/status').read(), re.M))",
    "print(open('/proc/self/limits').read())",
    "import os; print(os.readlink('/proc/self/exe'), os.readlink('/proc/self/cwd'), os.readlink('/proc/self/root'))",
    "import signal; print([(s.name, signal.getsignal(s)) for s in signal.Signals], signal.pthread_sigmask(0, []))",
    "import threading; print(threading.enumerate(), threading.current_thread(), threading.main_thread(), threading.get_ident() == threading.main_thread().ident, threading.get_native_id())",
    "import sys; [print(f.name, f.mode, f.encoding, f.errors, f.line_buffering, f.write_through, f.newlines, f.isatty(), f.fileno(), f.buffer, f.buffer.raw) for f in (sys.stdin, sys.stdout, sys.stderr)]",
    "import sys; [print(f.readable(), f.writable(), f.seekable()) for f in (sys.stdin, sys.stdout, sys.stderr)]; print(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__)",
    "import sys; print(repr(sys.stdin.read()), repr(sys.stdin.read()))",
    "import sys; print([l for l in sys.stdin])",
    "print(input())",
    "import sys; print(sys.stdin.buffer.read())",
    "import sys; sys.stderr.write('e'); sys.stdout.write('o'); sys.stdout.buffer.write(b'\\xff\\xfe')",
    "print('h\u{e9}llo \u{1f600}'); import sys; print('\u{e9}', file=sys.stderr)",
    "print('\\udcff')",
    "import locale, sys; print(locale.getlocale(), locale.getpreferredencoding(), sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), sys.getdefaultencoding())",
    "1/0",
    "def f():\n  raise ValueError('x')\nf()",
    "try:\n  1/0\nexcept Exception as e:\n  raise KeyError('y') from e",
    "raise SystemExit",
    "raise SystemExit(3)",
    "import sys; sys.exit('words')",
    "import sys; sys.exit([1])",
    "raise KeyboardInterrupt",
    "this is no python",
    "print(1",
    "\tx = 1",
    "import nothing_like_this",
    "import os; os._exit(9)",
    "import os; os.abort()",
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "import atexit; atexit.register(print, 'at exit'); print('before')",
    "import atexit; atexit.register(lambda: 1/0); print(atexit._ncallbacks())",
    "import threading, time; threading.Thread(target=lambda: (time.sleep(.05), print('late'))).start(); print('main')",
    "import traceback; traceback.print_stack()",
    "import sys; f = sys._getframe(); print(f.f_back, f.f_code.co_filename, f.f_code.co_name, f.f_lineno, f.f_globals is globals(), f.f_locals is locals())",
    "import inspect; print([(i.filename, i.lineno, i.function) for i in inspect.stack()])",
    "import sys\nn = 0\ndef f():\n  global n\n  n += 1\n  f()\ntry: f()\nexcept RecursionError as e: print(n, e)\nprint(sys.getrecursionlimit())",
    "import warnings; warnings.warn('w'); warnings.warn('deep', stacklevel=3); print(warnings.filters)",
    "import sys; print(sys.exc_info(), getattr(sys, 'last_value', None), sys.excepthook, sys.displayhook, sys.meta_path, sys.path_hooks)",
    "import sys; print(sorted(sys.path_importer_cache))",
    "import gc; print(gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.garbage, gc.callbacks)",
    "import sys; print('gc' in sys.modules); import gc; print(any(o is sys.modules for o in gc.get_objects()), any(r is sys.__dict__ for r in gc.get_referrers(sys.path)))",
    "import atexit\ndef f():\n import gc; print(gc.get_freeze_count(), len(gc.get_objects()) > 1000)\natexit.register(f)",
    "class A:\n def __del__(s): print('gone')\na = A(); a.me = a; del a; print('end')",
    "import weakref\nclass A: pass\na = A(); a.me = a; w = weakref.ref(a, print); weakref.finalize(a, print, 'finalized'); del a; print('end')",
    "import sys, types\nclass M(types.ModuleType):\n def __getattr__(s, n): print('asked', n); raise AttributeError(n)\nsys.modules['m'] = M('m'); print('end')",
    "import sys\ndef f(frame, event, arg):\n if event == 'call': sys.__stderr__.write(frame.f_code.co_name + '\\n')\nsys.setprofile(f); print('end')",
    "import sys\ndef f(frame, event, arg): sys.__stderr__.write(event + '\\n')\nsys.settrace(f); print('end')",
    "import sys\ndef f(event, arguments):\n if event in ('builtins.id', 'gc.get_objects'): print(event)\nsys.addaudithook(f); print('end')",
    "import io\nclass M: pass\nclass S(M, io.StringIO):\n def close(s): print('closed')\ns = S(); s.me = s; del s; print('end')",
    "class A:\n def __del__(s): print('gone')\nall = [[n] for n in range(100000)]; a = A(); a.me = a; all.append(a); all.append(all); del a; print('end')",
    "import timeit, sys; print('gc' in sys.modules, timeit.gc is __import__('gc'), timeit.gc.get_freeze_count())",
    "import unittest, sys\nclass A:\n def __del__(s): print('gone', sys is not None)\nunittest.kept = [A()]; unittest.kept.append(unittest.kept); print('end')",
    "import faulthandler, tracemalloc; print(faulthandler.is_enabled(), tracemalloc.is_tracing())",
    "import random; a = random.random(); print(0 <= a < 1, random.Random(7).random())",
    "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'import sys; print(sys.argv, sys.flags)'], capture_output=True, text=True))",
    "import multiprocessing as m\nif __name__ == '__main__':\n  with m.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, 2]))",
    "import os\npid = os.fork()\nif not pid: print('child', os.getppid()); os._exit(4)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
    "import asyncio\nasync def f():\n  await asyncio.sleep(0.01); return 5\nprint(asyncio.run(f()))",
    "import ctypes; print(ctypes.pythonapi.Py_GetVersion, ctypes.CDLL(None).getpid())",
    "import os; open('/tmp/x', 'w').write('y'); print(os.listdir('/tmp'), os.listdir('/home/sandbox'))",
    "open('/etc/shadow')",
    "import socket; socket.create_connection(('127.0.0.1', 9), 1)",
    "import ctypes; print(ctypes.CDLL(None, use_errno=True).ptrace(0, 0, 0, 0), ctypes.get_errno())",
    "import resource; print([resource.getrlimit(getattr(resource, n)) for n in sorted(dir(resource)) if n.startswith('RLIMIT_')])",
    "import time, datetime; print(time.tzname, datetime.datetime.now().astimezone().tzinfo)",
    "import code, sys; print(sys.ps1) if hasattr(sys, 'ps1') else print('none')",
    "import site; print(site.ENABLE_USER_SITE, site.USER_SITE, site.USER_BASE, exit, quit, copyright.__class__)",
    "import builtins; print(sorted(vars(builtins)))",
    "import encodings, codecs; print(codecs.lookup('utf-8'), sorted(m for m in __import__('sys').modules if m.startswith('enc')))",
    "from __future__ import annotations\nx: nothing = 1\nprint(__annotations__)",
    "async def f(): pass\nf()",
    "import logging; logging.warning('w'); logging.getLogger('a').error('e')",
    "import sys; sys.settrace(lambda *a: None); print(sys.gettrace(), sys.getprofile())",
    "import pickle\nclass A: pass\nprint(pickle.loads(pickle.dumps(A())).__class__)",
    "import unittest\nclass T(unittest.TestCase):\n  def test_a(self): self.assertEqual(1, 2)\nunittest.main(argv=['x'], exit=False, verbosity=0) if False else print('no')",
    "import os; print(os.cpu_count(), len(os.sched_getaffinity(0)), os.get_terminal_size.__name__, os.getpriority(0, 0), os.sched_getscheduler(0))",
    "import sys; print(sys.thread_info, sys.getswitchinterval(), sys.hash_info, sys.int_info, sys.getallocatedblocks() > 0)",
    "import sys; print(hash('a') == hash('a'), sys.flags.hash_randomization)",
    "print(open(__file__))",
    "import zoneinfo, decimal, sqlite3; print(decimal.getcontext(), sqlite3.connect(':memory:').execute('select 1').fetchall())",
];

#[tokio::test]
async fn primed_python_equals_fresh_one() {
    if !has_python() {
        return;
    }
    let pool = pool();
    let with_input = |text: &&str| {
        let mut policy = code(text);
        policy.job.stdin = Stdin::Bytes(b"first line\nsecond\r\nthird".to_vec());
        policy
    };
    assert_same(&pool, &SIGHTS.iter().map(with_input).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn primed_standard_library_modules_equal_fresh_ones() {
    if !has_python() {
        return;
    }
    let pool = pool();
    let names = pool.engine().run(&code("import sys; print(*sorted(sys.stdlib_module_names))")).await;
    let names: Vec<String> =
        names.stdout.text.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    assert!(names.len() > 200, "{}", names.len());
    // Ten modules at a time in one process, each under its own name. A module that cannot be imported prints
    // the reason.
    let text = "import sys\nfor n in sys.argv[1:]:\n  try: m = __import__(n)\n  except BaseException as e: print(n, type(e), e); continue\n  print(n, getattr(m, '__file__', None), sorted(vars(m)))\nprint(sorted(sys.modules))";
    let skip = ["antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter", "lib2to3"];
    let names: Vec<&String> = names.iter().filter(|n| !skip.contains(&n.as_str())).collect();
    let policies: Vec<Policy> = names.chunks(10).map(|some| code(text).args(some)).collect();
    assert_same(&pool, &policies).await;
}

#[tokio::test]
async fn scripts_modules_folders_and_archives_run_as_always() {
    if !has_python() {
        return;
    }
    let pool = pool();
    let folder = tempfile::tempdir().expect("a folder");
    let shows = "import sys, os; print(__name__, __file__, __package__, __spec__ and __spec__.name, sys.argv, sys.path[0], os.getcwd(), sorted(globals()))\n";
    for (name, text) in [
        ("a.py", shows.to_owned()),
        ("fails.py", "def f():\n    1/0\nf()\n".to_owned()),
        ("uses.py", "import helper\nprint(helper.X, helper.__file__)\n".to_owned()),
        ("helper.py", "X = 4\n".to_owned()),
        ("sub/__main__.py", shows.to_owned()),
        ("sub/__init__.py", String::new()),
        ("sub/inner.py", shows.to_owned()),
        ("latin.py", "# -*- coding: latin-1 -*-\nprint('ok')\n".to_owned()),
        ("wrong.py", "def :\n".to_owned()),
        ("noext", shows.to_owned()),
    ] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    let mut policies = Vec::new();
    for argv in [
        &["a.py"][..],
        &["a.py", "-c", "--x", "", "y z"],
        &["./a.py"],
        &["/home/sandbox/project/a.py"],
        &["sub/../a.py"],
        &["fails.py"],
        &["uses.py"],
        &["sub"],
        &["sub/inner.py"],
        &["-m", "sub"],
        &["-m", "sub.inner", "-v"],
        &["-m", "helper"],
        &["-m", "nothing.here"],
        &["-m", "this"],
        &["-c", "import helper; print(helper.__file__)", "a", "-b"],
        &["latin.py"],
        &["wrong.py"],
        &["noext"],
        &["missing.py"],
        &["/usr/bin"],
        &["/dev/null"],
        &["-m", "unittest", "-v", "helper"],
        &["-m", "json.tool"],
    ] {
        let mut policy = Policy::new("python3").args(argv);
        policy.job.workspace = Some(folder.path().to_owned());
        policy.job.env.push(("A".into(), "b=c".into()));
        policies.push(policy);
    }
    for program in ["/usr/bin/python3", "python3", "/bin/python3"] {
        policies.push(Policy::new(program).args([
            "-c",
            "import sys; print(sys.argv, sys.executable, sys.prefix, sys.path, sys.orig_argv)",
        ]));
    }
    assert_same(&pool, &policies).await;
}

#[tokio::test]
async fn toolchain_interpreter_is_primed() {
    if !has_python() {
        return;
    }
    // Not in a path that is scratch inside: a toolchain there is mounted with the job.
    let beside = std::env::current_exe().expect("this program");
    let Ok(folder) = tempfile::tempdir_in(beside.parent().expect("its folder")) else {
        println!("skipped: beside this program nothing can be written");
        return;
    };
    if ["/tmp", "/var/tmp", "/home/sandbox", "/dev/shm"].iter().any(|top| folder.path().starts_with(top)) {
        println!("skipped: this program lies in what is scratch inside");
        return;
    }
    let venv = folder.path().join("venv");
    let made = std::process::Command::new(PYTHON).args(["-m", "venv", "--without-pip"]).arg(&venv).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: this Python makes no virtual environment");
        return;
    }
    let library =
        venv.join("lib").read_dir().expect("its library").next().expect("one").expect("read").path();
    std::fs::write(library.join("site-packages/mine.py"), "X = 7").expect("written");
    let python = venv.join("bin/python3");
    let text = "import mine, sys, os; print(mine.X, mine.__file__, sys.prefix, sys.base_prefix, sys.executable, sys.path, sys.flags, os.environ['PATH'])";
    let of = |program: &std::ffi::OsStr| {
        let mut policy = Policy::new(program)
            .args(["-c", text])
            .env("PATH", format!("{}:/usr/bin", venv.join("bin").display()));
        policy.job.toolchains = vec![venv.clone()];
        policy
    };
    let mut elsewhere = of(python.as_os_str());
    elsewhere.job.argv[2] = "open('/etc/shadow')".into();
    let mut writes = of(python.as_os_str());
    writes.job.argv[2] = format!("open({:?}, 'w')", venv.join("x")).into();
    let mut with_project = of(python.as_os_str());
    with_project.job.workspace = Some(folder.path().to_owned());
    let pool = pool();
    assert_same(&pool, &[of(python.as_os_str()), of("python3".as_ref()), elsewhere, writes, with_project])
        .await;
}

#[tokio::test]
async fn job_limits_hold_for_primed_interpreter() {
    if !has_python() {
        return;
    }
    let pool = pool();
    // Held until the end: without a cgroup the limit is kept by samples, and a program that ends before the next one has exited.
    let hungry = code("x = bytearray(200 << 20); __import__('time').sleep(60)").memory(Bytes::mib(64));
    let forks = {
        let mut policy = code("import os\nwhile True:\n  if not os.fork(): __import__('time').sleep(30)");
        policy.job.limits.processes = 20;
        policy
    };
    let slow = {
        let mut policy = code("import time; time.sleep(60)");
        policy.job.limits.wall = Duration::from_millis(400);
        policy
    };
    let busy = {
        let mut policy = code("while True: pass");
        policy.job.limits.cpu_time = Some(Duration::from_secs(1));
        policy
    };
    for (policy, cause) in [
        (hungry, vec![Cause::MemoryLimit]),
        (forks, vec![Cause::ProcessLimit, Cause::Exited]),
        (slow, vec![Cause::WallLimit]),
        (busy, vec![Cause::CpuLimit]),
    ] {
        let outcome = primed(&pool, &policy).await;
        assert!(cause.contains(&outcome.cause), "{}", told(&outcome));
    }
}

#[tokio::test]
async fn primed_runs_share_no_state() {
    if !has_python() {
        return;
    }
    let pool = pool();
    let leaves = code(
        "import os, sys, builtins, random; builtins.mine = 1; sys.mine = 1; os.environ['MINE'] = '1'; random.seed(1)\n\
         print(os.listdir('/tmp'), os.listdir('/dev/shm'), hasattr(sys, 'old'), sorted(os.listdir('/proc')))\n\
         open('/tmp/old', 'w'); open('/dev/shm/old', 'w'); sys.old = 1\n\
         if not os.fork(): __import__('time').sleep(300)",
    );
    let first = seen(&pool.engine().run(&leaves).await);
    for _ in 0..6 {
        assert_eq!(seen(&primed(&pool, &leaves).await), first);
    }
}

/// Scripts of Node, each for one thing that a script can see or do.
const NODE_SIGHTS: &[(&str, &str)] = &[
    ("a.js", "console.log(1)"),
    ("a.js", ""),
    (
        "a.js",
        "console.log(process.argv, process.argv0, process.execArgv, process.execPath, process.title, process.version)",
    ),
    (
        "a.js",
        "console.log(__filename, __dirname, require.main === module, module.id, module.parent, module.paths, module.children, Object.keys(require.cache))",
    ),
    (
        "a.js",
        "console.log(Object.entries(process.env).sort(), process.cwd(), process.pid, process.ppid, process.umask())",
    ),
    ("a.js", "console.log(Object.getOwnPropertyNames(globalThis).sort())"),
    (
        "a.js",
        "console.log(Object.getOwnPropertyNames(process).sort(), process._preload_modules, process.config.variables.napi_build_version)",
    ),
    (
        "a.js",
        "console.log(require('fs').readdirSync('/proc/self/fd').length, require('fs').readdirSync('/tmp'), require('fs').readdirSync('/proc').filter((n) => n > 0))",
    ),
    (
        "a.js",
        "console.log(require('fs').readFileSync('/proc/self/cmdline', 'utf8').replace(/\\0+$/, '').split('\\0'), require('fs').readFileSync('/proc/self/limits', 'utf8'))",
    ),
    ("a.js", "console.log(require('fs').readFileSync(0, 'utf8'))"),
    ("a.js", "process.stdin.on('data', (d) => console.log(String(d))).on('end', () => console.log('end'))"),
    (
        "a.js",
        "console.log(process.stdout.isTTY, process.stdin.isTTY, process.stdout.constructor.name, process.stderr.constructor.name, process.stdin.constructor.name, process.stdout.writableHighWaterMark)",
    ),
    ("a.js", "console.error('e'); console.log('o'); process.stdout.write(Buffer.from([255, 254]))"),
    ("a.js", "throw new Error('x')"),
    ("a.js", "function f() { null.x; } f()"),
    ("a.js", "Promise.reject(new Error('lost'))"),
    ("a.js", "console.log(new Error('here').stack)"),
    ("a.js", "setTimeout(() => console.log(new Error('later').stack), 1)"),
    ("a.js", "process.exit(3)"),
    ("a.js", "process.exitCode = 4; process.on('exit', (c) => console.log('exit', c))"),
    ("a.js", "process.abort()"),
    ("a.js", "process.kill(process.pid, 'SIGTERM'); setTimeout(() => {}, 1000)"),
    ("a.js", "this is no script"),
    ("a.js", "require('./nothing')"),
    ("a.js", "console.log(require('./b').x, module.children.length, Object.keys(require.cache))"),
    (
        "b.js",
        "exports.x = [require.main === module, module.parent && module.parent.id]; console.log(exports.x)",
    ),
    (
        "m.mjs",
        "import fs from 'node:fs'; console.log(import.meta.url, typeof fs.readFileSync, typeof require, this); await 0; console.log('top')",
    ),
    ("m.mjs", "import './nothing.mjs'"),
    ("m.mjs", "throw new Error('module')"),
    ("a.js", "import('node:path').then((m) => console.log(Object.keys(m).length))"),
    ("a.js", "import fs from 'fs'"),
    ("sub/index.js", "console.log(__filename)"),
    (
        "a.js",
        "const { execFileSync } = require('child_process'); console.log(String(execFileSync(process.execPath, ['-p', 'process.argv'])), String(execFileSync('env')))",
    ),
    (
        "a.js",
        "const { Worker, isMainThread } = require('worker_threads'); if (isMainThread) new Worker(__filename, { argv: ['w'] }).on('exit', (c) => console.log('worker', c)); else console.log(process.argv.slice(2), process.env.HOME)",
    ),
    (
        "a.js",
        "process.title = 'title'; console.log(process.title, require('fs').readFileSync('/proc/self/comm', 'utf8'))",
    ),
    (
        "a.js",
        "console.log(require('module').runMain.toString(), require('module')._findPath.toString(), require('module')._resolveFilename.toString().length)",
    ),
    (
        "a.js",
        "const M = require('module'); console.log(Object.keys(M).sort(), M._findPath.name, M._resolveFilename.name, M._load.name, Object.keys(M._pathCache), Object.keys(M._cache))",
    ),
    (
        "a.js",
        "console.log(require('os').getPriority(), require('os').homedir(), require('os').tmpdir(), require('os').hostname(), require('os').userInfo().username)",
    ),
    (
        "a.js",
        "require('http').createServer((q, s) => s.end('hi')).listen(0, function () { require('http').get({ port: this.address().port }, (r) => { r.on('data', (d) => console.log(String(d))); r.on('end', () => this.close()); }); })",
    ),
    (
        "a.js",
        "console.log(process.listenerCount('exit'), process.eventNames(), process.getActiveResourcesInfo(), process.report !== undefined)",
    ),
    (
        "a.js",
        "console.log(process.features, process.release.name, process.allowedNodeEnvironmentFlags.size, process.debugPort)",
    ),
    (
        "a.js",
        "process.emitWarning('w'); console.log(require('v8').getFlagsHash === undefined, process.memoryUsage().rss > 0)",
    ),
    (
        "a.js",
        "console.log([...Array(3)].map(() => Math.random()).every((x) => x >= 0 && x < 1), Intl.DateTimeFormat().resolvedOptions().timeZone, new Date(0).toString())",
    ),
    ("a.js", "eval('throw new TypeError(1)')"),
    ("noext", "console.log(__filename)"),
    ("a.cjs", "console.log(typeof require, __filename)"),
    ("a.json", "{\"x\": 1}"),
];

#[tokio::test]
async fn primed_node_equals_fresh_one() {
    if !Path::new("/usr/bin/node").exists() {
        println!("skipped: no /usr/bin/node");
        return;
    }
    let pool = pool();
    let mut policies = Vec::new();
    let mut folders = Vec::new();
    for (name, text) in NODE_SIGHTS {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("sub")).expect("made");
        std::fs::write(folder.path().join("b.js"), "exports.x = 5").expect("written");
        std::fs::write(folder.path().join(name), text).expect("written");
        for argv in [&[*name][..], &[&format!("./{name}"), "--a", "", "b c"]] {
            let mut policy = Policy::new("node").args(argv).memory(Bytes::mib(1024));
            policy.job.workspace = Some(folder.path().to_owned());
            policy.job.stdin = Stdin::Bytes(b"first\nsecond".to_vec());
            policies.push(policy);
        }
        folders.push(folder);
    }
    for argv in [&["missing.js"][..], &["."], &["sub"], &["/dev/null"]] {
        let mut policy = Policy::new("node").args(argv).memory(Bytes::mib(1024));
        policy.job.workspace = Some(folders[0].path().to_owned());
        policies.push(policy);
    }
    assert_same(&pool, &policies).await;
}

#[tokio::test]
async fn missing_interpreter_is_not_found_with_pool() {
    let pool = pool();
    let policy = Policy::new("python3.99").args(["-c", "print(1)"]);
    let cold = pool.engine().run(&policy).await;
    assert_eq!(cold.cause, Cause::NotFound, "{}", told(&cold));
    for _ in 0..6 {
        let outcome = pool.run(&policy).await;
        assert_eq!((outcome.cause, &outcome.reason), (cold.cause, &cold.reason));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(pool.served().primed, 0);
}

#[tokio::test]
async fn primed_interpreter_killed_while_waiting_is_replaced() {
    if !has_python() {
        return;
    }
    let pool = pool();
    let policy = code("print('still')");
    primed(&pool, &policy).await;
    for _ in 0..3 {
        let begun = Instant::now();
        while pool.ready() < 2 && begun.elapsed() < Duration::from_secs(20) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let launcher = pool.engine().launcher_id().await.expect("a launcher");
        let waiting = below(launcher, "python3");
        assert!(!waiting.is_empty(), "no interpreter waits");
        for pid in waiting {
            // The process may have been used or ended meanwhile.
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let outcome = pool.run(&policy).await;
        assert_eq!(outcome.stdout.text.as_deref(), Some("still\n"), "{}", told(&outcome));
    }
    primed(&pool, &policy).await;
}

/// Processes of this name two generations below the launcher: launcher, process 1, program.
fn below(launcher: u32, name: &str) -> Vec<i32> {
    let stat = |pid: i32| -> Option<(String, u32)> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (head, tail) = (text.find('(')?, text.rfind(')')?);
        let parent = text[tail + 2..].split(' ').nth(1)?.parse().ok()?;
        Some((text[head + 1..tail].to_owned(), parent))
    };
    let all = std::fs::read_dir("/proc").expect("/proc");
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        stat(*pid).is_some_and(|(comm, parent)| {
            let grandparent = i32::try_from(parent).ok().and_then(stat).map(|(_, up)| up);
            comm == name && grandparent == Some(launcher)
        })
    })
    .collect()
}
