//! Hosts without some features, as far as this host can simulate them: each leads to a refusal, or to a run
//! that reports the missing feature.

use hotcell_sandbox::outcome::LayerState;
use hotcell_sandbox::{Cause, Confinement, Engine, Layer, Policy, Shape};

use crate::{stdout, told};

/// Newest Landlock version that is enforced; a kernel enforces versions up to its own.
const NEWEST_ABI: u32 = 9;

/// Operations that must work for honest programs, and operations that must not work at all: prints `worked`
/// and the results of the latter.
const PROGRAM: &str = r#"
import os, socket, subprocess, sys, threading
secret, moves = sys.argv[1:]
home = os.environ['HOME']
for folder in [home, '/tmp', os.getcwd()]:
    os.mkdir(f'{folder}/d')
    with open(f'{folder}/d/a', 'w') as f: f.write('x' * 9)
    os.truncate(f'{folder}/d/a', 5)
    os.rename(f'{folder}/d/a', f'{folder}/d/b'); os.link(f'{folder}/d/b', f'{folder}/d/c'); os.symlink('b', f'{folder}/d/l')
    assert open(f'{folder}/d/l').read() == 'xxxxx'
    # Between folders it is a right of its own: without it (version 1) the program has to copy.
    try: os.rename(f'{folder}/d/c', f'{folder}/c'); moved = 'moved'
    except OSError as e: moved = str(e.errno)
    assert moved == moves, moved
    assert 'file' in os.listdir(os.getcwd())
assert subprocess.run(['sh', '-c', 'cat /etc/passwd | head -n 1 >/dev/null && echo $((6 * 7))'],
    capture_output=True, check=True).stdout == b'42\n'
server = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b'hello')).start()
assert socket.create_connection(server.getsockname()).recv(9) == b'hello'
server = socket.socket(socket.AF_UNIX); server.bind(f'{home}/socket'); server.listen()
socket.socket(socket.AF_UNIX).connect(f'{home}/socket')
a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'
print('worked')
def attempt(name, what):
    try: what(); print(name)
    except OSError: pass
attempt('read', lambda: open(secret).read())
attempt('truncated', lambda: os.truncate(secret, 0))
for path in ['/escape', '/usr/escape', '/etc/escape', '/dev/escape', '/proc/sys/kernel/hostname']:
    attempt(path, lambda: open(path, 'w').write('x'))
    attempt(path, lambda: os.mkdir(path))
attempt('removed', lambda: os.unlink('/etc/passwd'))
attempt('device', lambda: os.mknod('/tmp/device', 0o20600, os.makedev(1, 1)))
"#;

/// A file on the host that all users may read and write.
fn secret() -> tempfile::NamedTempFile {
    use std::os::unix::fs::PermissionsExt;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "secret").expect("written");
    std::fs::set_permissions(file.path(), PermissionsExt::from_mode(0o666)).expect("opened to all");
    file
}

#[tokio::test]
async fn landlock_versions_each_work_and_hold() {
    let kernel = Engine::new().host().landlock.clone().unwrap_or(0);
    let (secret, project) = (secret(), tempfile::tempdir().expect("a folder"));
    std::fs::write(project.path().join("file"), "x").expect("written");
    for abi in 0..=kernel.min(NEWEST_ABI) {
        let engine = Engine::with_landlock_at_most(abi);
        let moves = if abi == 1 { "18" } else { "moved" };
        let policy = Policy::new("/usr/bin/python3").args(["-c", PROGRAM]).arg(secret.path()).arg(moves);
        let outcome = engine.run(&policy.workspace(project.path())).await;
        assert_eq!(stdout(&outcome), "worked\n", "version {abi}: {}", told(&outcome));
        assert_eq!(std::fs::read(secret.path()).expect("there"), b"secret", "version {abi}");
        assert_eq!(outcome.layers.landlock_abi, abi);
        let on = outcome.layers.is_on(Layer::Landlock);
        assert_eq!(on, abi > 0, "version {abi}: {}", told(&outcome));
        if !on {
            let state = outcome.layers.states.get(&Layer::Landlock);
            assert!(matches!(state, Some(LayerState::Unavailable(_))), "{state:?}");
        }
    }
}

#[tokio::test]
async fn policy_requiring_missing_landlock_is_refused() {
    let engine = Engine::with_landlock_at_most(0);
    for confinement in [Confinement::Namespaces, Confinement::LandlockOnly] {
        let mut policy = Policy::new("true");
        policy.shape = Shape { require: [Layer::Landlock].into(), confinement, ..Shape::default() };
        let outcome = engine.run(&policy).await;
        let reason = outcome.reason.clone().unwrap_or_default();
        assert_eq!(outcome.cause, Cause::Refused, "{}", told(&outcome));
        let said =
            "the policy requires the layer landlock, and it cannot be had: left out for a test; to mend it: ";
        assert!(reason.starts_with(said), "{reason}");
    }
}

#[tokio::test]
async fn files_hold_by_each_landlock_version_alone() {
    let secret = secret();
    let script = "import os, sys\n\
        for name, what in [('read', lambda f: open(f).read()), ('wrote', lambda f: open(f, 'a').write('x')),\n\
            ('truncated', lambda f: os.truncate(f, 0)),\n\
            ('emptied', lambda f: os.open(f, os.O_TRUNC)), ('emptied 3', lambda f: os.open(f, os.O_TRUNC | 3)),\n\
            ('removed', os.unlink), ('chmod', lambda f: os.chmod(f, 0)),\n\
            ('linked', lambda f: os.link(f, os.environ['HOME'] + '/l')),\n\
            ('moved', lambda f: os.rename(f, os.environ['HOME'] + '/m'))]:\n\
        \x20   try: what(sys.argv[1]); print(name)\n\
        \x20   except OSError: pass\n\
        own = os.environ['HOME'] + '/own'\n\
        for _ in range(2):\n\
        \x20   with open(own, 'w') as f: f.write('works'); f.flush(); f.truncate(5)\n\
        print(open(own).read())";
    let kernel = Engine::new().host().landlock.clone().unwrap_or(0);
    if kernel == 0 {
        return println!("skipped: no Landlock in this kernel");
    }
    for abi in 1..=kernel.min(NEWEST_ABI) {
        let engine = Engine::with_landlock_at_most(abi);
        let mut policy = Policy::new("/usr/bin/python3").args(["-c", script]).arg(secret.path());
        policy.shape.confinement = Confinement::LandlockOnly;
        // Readable, so that opening for reading alone is not refused.
        let policy = policy.read_only(secret.path(), secret.path());
        let outcome = engine.run(&policy).await;
        assert_eq!(outcome.layers.landlock_abi, abi);
        assert_eq!(stdout(&outcome), "read\nworks\n", "version {abi}: {}", told(&outcome));
        assert_eq!(std::fs::read(secret.path()).expect("there"), b"secret", "version {abi}");
    }
}
