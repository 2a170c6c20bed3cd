//! Tests which clients get a sandbox of a service: restrictions of a process that `/proc` does not show are
//! detected by asking it for proof.

use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use hotcell_daemon::wire::{Ask, Tell};
use hotcell_daemon::{Bounds, Client, Hello, Server, stop};
use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_sandbox::{Cause, Engine, Outcome, Policy};
use landlock::{
    ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, getsockopt, recv, send, socket, sockopt,
};

/// A policy that runs a shell script with nothing granted.
fn sh(script: &str) -> Policy {
    Policy::new("sh").args(["-c", script])
}

/// Formats an outcome for assertions.
fn told(outcome: &Outcome) -> String {
    serde_json::to_string_pretty(outcome).unwrap_or_else(|e| e.to_string())
}

/// Variable that tells a child process of this test program its role and folder.
const ROLE: &str = "HOTCELL_TEST_SERVE_ROLE";
const FOLDER: &str = "HOTCELL_TEST_SERVE_FOLDER";
/// Last line of a client that was served.
const SERVED: &str = "it was served";
const UNPROVEN: &str = "it could not prove itself";

/// Entry point of child processes started by the other tests: a process must be confined before its first
/// thread starts.
#[tokio::test]
async fn role() {
    let (Ok(role), Some(folder)) = (std::env::var(ROLE), std::env::var_os(FOLDER)) else { return };
    let folder = Path::new(&folder);
    if role == "server" {
        let server = Server::listen(folder).unwrap();
        let pool = Pool::new(Engine::new(), PoolOptions::default());
        let bounds = Bounds { idle: Some(Duration::from_secs(60)), ..Bounds::default() };
        return server.serve(pool, bounds, std::future::pending()).await.unwrap();
    }
    let client = match Client::reach(folder) {
        Ok(client) => client,
        Err(why) => {
            assert!(why.to_string().contains("cannot be looked at: Permission denied"), "{why}");
            return insist(folder);
        }
    };
    let running = client.spawn(&sh("exit 7")).await.unwrap();
    let outcome = running.wait().await;
    assert_eq!((outcome.cause, outcome.exit_code), (Cause::Exited, Some(7)), "{}", told(&outcome));
    println!("{SERVED}");
}

/// Requests a run regardless of the checks, as a program would that tries to escape.
fn insist(folder: &Path) {
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let raw = socket.as_raw_fd();
    connect(raw, &UnixAddr::new(&folder.join("serve.sock")).unwrap()).unwrap();
    let hear = || {
        let mut buffer = [0; 4096];
        let length = recv(raw, &mut buffer, MsgFlags::empty()).unwrap();
        buffer[..length].to_vec()
    };
    let hello = hear();
    // From everything that the service can see of it, it may ask.
    let Ok(Tell::Hello(_, json)) = Tell::decode(&hello) else {
        panic!("{}", String::from_utf8_lossy(&hello))
    };
    let hello: Hello = serde_json::from_slice(json).unwrap();
    let server = getsockopt(&socket, sockopt::PeerCredentials).unwrap().pid();
    let proof = std::fs::read(format!("/proc/{server}/fd/{}", hello.proof));
    assert_eq!(proof.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    send(raw, &Ask::Run([0; 32]).encode(), MsgFlags::MSG_NOSIGNAL).unwrap();
    let no = hear();
    assert_eq!(Tell::decode(&no), Ok(Tell::No("this process may not look into the service")));
    println!("{UNPROVEN}");
}

/// Starts a process that is confined like the thread in which `confine` was called.
fn start(role: &str, folder: &Path, confine: impl FnOnce() + Send) -> Child {
    std::thread::scope(|scope| {
        let spawn = || {
            confine();
            Command::new(std::env::current_exe().unwrap())
                .args(["role", "--exact", "--nocapture"])
                .envs([(ROLE, role.as_ref()), (FOLDER, folder.as_os_str())])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        scope.spawn(spawn).join().unwrap()
    })
}

fn said(child: Child) -> String {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{text}\n{}", String::from_utf8_lossy(&stderr));
    text
}

fn no_new_privileges() {
    nix::sys::prctl::set_no_new_privs().unwrap();
}

/// Enters a Landlock domain that forbids no file, so only the restrictions common to all domains apply.
fn in_a_domain() {
    let all = AccessFs::from_all(ABI::V1);
    let ruleset = Ruleset::default().handle_access(all).unwrap().create().unwrap();
    let ruleset = ruleset.add_rule(PathBeneath::new(PathFd::new("/").unwrap(), all)).unwrap();
    let status = ruleset.restrict_self().unwrap();
    assert!(status.no_new_privs && status.ruleset != RulesetStatus::NotEnforced);
}

#[tokio::test]
async fn hidden_landlock_domain_is_declined() {
    if Engine::new().host().landlock.is_err() {
        return;
    }
    // Before Linux 6.5 the kernel does not identify the peer, and no client is served.
    let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
    if nix::sys::socket::getsockopt(&near, nix::sys::socket::sockopt::PeerPidfd).is_err() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    // Both set no_new_privs, so that their status is equal.
    let folder = dir.path().join("hotcell");
    let server = start("server", &folder, no_new_privileges);
    let begun = Instant::now();
    while !folder.join("serve.sock").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody listens");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(said(start("client", &folder, no_new_privileges)).contains(SERVED));
    assert!(said(start("client", &folder, in_a_domain)).contains(UNPROVEN));
    assert!(said(start("client", &folder, no_new_privileges)).contains(SERVED));
    stop(&folder).await.unwrap();
    said(server);
}
