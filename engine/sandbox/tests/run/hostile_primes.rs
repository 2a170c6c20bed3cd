//! Interpreters that misbehave before their job arrives, through a start file or a module of a virtual
//! environment: either programs see the same as after a normal start, or the prewarmed interpreters are not
//! used.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_sandbox::{Bytes, Cause, Engine, Policy};

use crate::primed::{PYTHON, code, has_python, seen};
use crate::told;

/// Result of prewarming an interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The interpreter waits, and is used.
    Used,
    /// Prewarming is given up.
    GivenUp,
}
use Fate::{GivenUp, Used};

/// Runs code only before the job arrives, when the current folder is another.
macro_rules! early {
    ($text:literal) => {
        concat!("import os, sys, time\nif os.getcwd() == '/':\n  ", $text)
    };
}

/// Code that a virtual environment runs at its start, through a line of a `.pth` file, since the system may
/// have a `sitecustomize` of its own.
const STARTS: &[(&str, Fate)] = &[
    ("", Used),
    ("print('hello')", GivenUp),
    ("import os; os.write(1, b'raw')", GivenUp),
    ("import sys; sys.stderr.write('e')", GivenUp),
    ("print('much ' * 100000)", GivenUp),
    ("raise RuntimeError('broken')", GivenUp),
    ("this is no python", GivenUp),
    ("raise SystemExit(5)", GivenUp),
    ("import os; os._exit(6)", GivenUp),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", GivenUp),
    ("import os, time\nif not os.fork(): time.sleep(300); os._exit(0)", GivenUp),
    // The child has ended before the interpreter waits.
    ("import os\npid = os.fork()\nif not pid: os._exit(0)\nos.waitpid(pid, 0)", Used),
    ("import threading, time; threading.Thread(target=time.sleep, args=(0.5,)).start()", GivenUp),
    (
        "import threading, time; threading.Thread(target=lambda: (time.sleep(.3), print('late'))).start()",
        GivenUp,
    ),
    ("import socket, sys; sys.left = socket.socket()", GivenUp),
    ("import socket; socket.create_connection(('127.0.0.1', 9), 1)", GivenUp),
    // The process that follows the run decides on this connection, and that process does not exist yet.
    ("import socket\ntry: socket.create_connection(('127.0.0.1', 9), 1)\nexcept OSError: pass", GivenUp),
    ("import sys; sys.left = open('/tmp/left', 'w'); sys.left.write('x')", GivenUp),
    ("import os; os.environ['MINE'] = '1'", GivenUp),
    ("import os; del os.environ['PATH']", GivenUp),
    ("import os; os.chdir('/tmp')", GivenUp),
    ("import os; os.umask(0o077)", GivenUp),
    ("import sys, io; sys.stdout = io.StringIO()", GivenUp),
    ("import os; os.dup2(os.open('/tmp/log', os.O_CREAT | os.O_WRONLY), 1)", GivenUp),
    ("import sys; sys.argv = ['other']", GivenUp),
    ("import sys; sys.excepthook = lambda *a: print('hook', a[1])", Used),
    ("import atexit; atexit.register(print, 'at exit')", Used),
    ("import builtins, sys; builtins.mine = 1; sys.path.append('/mine'); sys.setrecursionlimit(123)", Used),
    ("import signal; signal.signal(signal.SIGUSR1, lambda *a: print('signal'))", Used),
    ("import warnings, gc, locale; warnings.simplefilter('error'); gc.disable()", Used),
    (early!("time.sleep(300)"), GivenUp),
    (early!("os.close(3)"), GivenUp),
    (early!("os.execv('/bin/true', ['true'])"), GivenUp),
];

/// Code of a module that the job declares as an import but does not import.
const MODULES: &[(&str, Fate)] = &[
    ("X = 1", Used),
    ("print('imported')", GivenUp),
    ("raise ImportError('broken')", GivenUp),
    ("raise SystemExit(0)", GivenUp),
    ("import os; os._exit(0)", GivenUp),
    ("import os, time\nif not os.fork(): time.sleep(300); os._exit(0)", GivenUp),
    (
        "import threading, time; threading.Thread(target=time.sleep, args=(300,), daemon=True).start()",
        GivenUp,
    ),
    ("import socket; S = socket.socket(); S.bind(('127.0.0.1', 0)); S.listen()", GivenUp),
    ("import os; os.environ['MINE'] = '1'", GivenUp),
];

/// State that the job prints.
const LOOKS: &str = "import os, sys, threading, warnings, gc, signal, socket, locale, atexit\n\
    print(sys.argv, sys.path, os.getcwd(), sorted(os.environ.items()), sorted(os.listdir('/proc/self/fd')), threading.active_count())\n\
    print(sys.stdout is sys.__stdout__, os.umask(0), sys.getrecursionlimit(), gc.isenabled(), warnings.filters[:1], hasattr(__builtins__, 'mine'))\n\
    os.kill(os.getpid(), signal.SIGUSR1) if callable(signal.getsignal(signal.SIGUSR1)) else None\n\
    sys.stderr.write('end'); 1 / 0";

/// A folder for toolchains, outside the paths that are scratch inside.
fn beside() -> Option<tempfile::TempDir> {
    let program = std::env::current_exe().expect("this program");
    let Ok(folder) = tempfile::tempdir_in(program.parent().expect("its folder")) else {
        println!("skipped: beside this program nothing can be written");
        return None;
    };
    if ["/tmp", "/var/tmp", "/home/sandbox", "/dev/shm"].iter().any(|top| folder.path().starts_with(top)) {
        println!("skipped: this program lies in what is scratch inside");
        return None;
    }
    Some(folder)
}

/// Makes a virtual environment; returns its folder and its folder of modules.
fn environment(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    let venv = folder.join("venv");
    let made = std::process::Command::new(PYTHON).args(["-m", "venv", "--without-pip"]).arg(&venv).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: this Python makes no virtual environment");
        return None;
    }
    let library =
        venv.join("lib").read_dir().expect("its library").next().expect("one").expect("read").path();
    Some((venv, library.join("site-packages")))
}

fn pool() -> Pool {
    Pool::new(Engine::new(), PoolOptions { each: 1, ..PoolOptions::default() })
}

/// Repeats the run until a waiting interpreter is used, or prewarming is given up, which shows as a sandbox
/// without one. Each result must be the same as after a normal start.
async fn is_always_the_same(policy: &Policy, what: &str) -> Fate {
    let pool = pool();
    let cold = pool.engine().run(policy).await;
    assert!(!matches!(cold.cause, Cause::Refused | Cause::Internal), "{what}: {}", told(&cold));
    let begun = Instant::now();
    loop {
        let outcome = pool.run(policy).await;
        assert_eq!(seen(&outcome), seen(&cold), "{what}: {:?}", pool.served());
        assert_eq!(outcome.layers, cold.layers, "{what}");
        let served = pool.served();
        if served.primed > 0 {
            return Used;
        }
        if served.hot > 0 {
            return GivenUp;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}: neither used nor given up");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs each of the cases in a start file or in a module called `mine`.
async fn all(file: &str, cases: &[(&str, Fate)], imports: &[&str]) {
    let (true, Some(folder)) = (has_python(), beside()) else { return };
    let Some((venv, modules)) = environment(folder.path()) else { return };
    if imports.is_empty() {
        std::fs::write(modules.join("start.pth"), "import start").expect("written");
    }
    let mut policy = Policy::new(venv.join("bin/python3")).args(["-c", LOOKS]).memory(Bytes::mib(128));
    policy.job.toolchains = vec![venv.clone()];
    policy.job.imports = imports.iter().map(|name| (*name).to_owned()).collect();
    for (text, want) in cases {
        std::fs::write(modules.join(file), text).expect("written");
        assert_eq!(is_always_the_same(&policy, text).await, *want, "{text}");
    }
}

#[tokio::test]
async fn misbehaving_start_files_change_no_outcome() {
    all("start.py", STARTS, &[]).await;
}

#[tokio::test]
async fn misbehaving_modules_change_no_outcome() {
    all("mine.py", MODULES, &["mine"]).await;
}

#[tokio::test]
async fn missing_module_does_not_fail_priming() {
    if !has_python() {
        return;
    }
    let mut policy = code("print('ok')");
    policy.job.imports = vec!["no_such_module".to_owned()];
    assert_eq!(is_always_the_same(&policy, "a module that is not there").await, GivenUp);
}

/// Programs named like an interpreter that are not one.
#[tokio::test]
async fn programs_that_are_no_interpreters() {
    use std::os::unix::fs::PermissionsExt;
    let Some(folder) = beside() else { return };
    let program = folder.path().join("bin/python3");
    std::fs::create_dir(folder.path().join("bin")).expect("made");
    for script in [
        "#!/bin/sh\necho \"$@\"",
        "#!/bin/sh\n[ \"$1\" = -c ] || while :; do :; done\necho \"$@\"",
        "#!/bin/sh\n[ \"$1\" = -c ] || exec sleep 300\necho \"$@\"",
        "#!/bin/sh\nsleep 300 &\necho \"$@\"; exit 3",
        "#!/no/such/interpreter",
        "no program",
    ] {
        std::fs::write(&program, script).expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("set");
        let mut policy = Policy::new(&program).args(["-c", "1"]);
        policy.job.toolchains = vec![folder.path().to_owned()];
        assert_eq!(is_always_the_same(&policy, script).await, GivenUp, "{script}");
    }
}
