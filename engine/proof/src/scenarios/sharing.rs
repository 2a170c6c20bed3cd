//! Resources that two runs, or a run and its host, could share.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotcell_sandbox::policy::PROJECT;
use hotcell_sandbox::{Cause, Confinement, Policy};

use crate::decoys::SECRET;
use crate::engine;
use crate::run::THROUGH;

use super::{Missed, Place, Process, Said, after_kills, check, good, io_error, run, wait_until};

pub(crate) fn listening(_: &Place<'_>) -> Result<Said, String> {
    let server = "import socket,time\ns=socket.create_server(('0.0.0.0',18099))\nprint('ready',flush=True)\ntime.sleep(2)";
    let worker = std::thread::spawn(move || run(&Policy::new("/usr/bin/python3").args(["-c", server])));
    let mut reached = false;
    for _ in 0..15 {
        std::thread::sleep(Duration::from_millis(100));
        reached |= std::net::TcpStream::connect(("127.0.0.1", 18099)).is_ok();
    }
    let (outcome, _) = worker.join().map_err(|_| "the run panicked".to_owned())??;
    check(outcome.stdout.text.as_deref() == Some("ready\n"), || {
        format!("the server did not start: {:?}", outcome.stderr)
    })?;
    check(!reached, || "a port inside was reached from outside".to_owned())?;
    good("a port inside is not reachable from outside")
}

/// Programs are written on the host and executed immediately, while other sandboxes are made: no fork of the
/// engine keeps the file open for writing.
pub(crate) fn busy(place: &Place<'_>) -> Result<Said, String> {
    const ROUNDS: usize = 40;
    let times = place.effort.of(ROUNDS);
    let folder = place.folder("tools")?;
    let content = fs::read(place.base.join("bin/attack")).map_err(io_error)?;
    let others = std::thread::spawn(move || {
        for _ in 0..times {
            // Each with a separate engine, whose launcher is forked from this process.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let _ = hotcell_sandbox::Engine::new().run(&Policy::new("/bin/true")).await;
            });
        }
    });
    let mut result = Ok(());
    for n in 0..times {
        let tool = folder.join(format!("tool-{n}"));
        fs::write(&tool, &content).map_err(io_error)?;
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).map_err(io_error)?;
        let outcome =
            engine::outcome(&Policy::new("/tools/tool").arg("succeed").read_only(&tool, "/tools/tool"))
                .map_err(io_error)?;
        if !outcome.success() {
            result = Err(format!("execution {n}: {:?} {:?}", outcome.cause, outcome.reason));
            break;
        }
    }
    others.join().map_err(|_| "the other runs panicked".to_owned())?;
    result?;
    good(format!("{times} programs were written and executed while {times} engines started"))
}

/// Locks that one run takes in a folder that it can read, or has a copy of, affect neither another run nor
/// the host.
pub(crate) fn locks(place: &Place<'_>) -> Result<Said, String> {
    let folder = place.folder("locked")?;
    let file = folder.join("file");
    fs::write(&file, "x").map_err(io_error)?;
    let attack = place.base.join("bin/attack");
    let feels_on_host = || -> Result<bool, String> {
        let path = format!("file={}", file.display());
        let status = Command::new(&attack)
            .args(["feel_locks", &path])
            .stderr(Stdio::null())
            .status()
            .map_err(io_error)?;
        Ok(status.code() == Some(THROUGH))
    };
    let read_only = |arguments: &[&str]| place.attack(arguments).read_only(&folder, "/shared");
    let workspace = |arguments: &[&str]| place.attack(arguments).workspace(&folder);
    let writable = |arguments: &[&str]| place.attack(arguments).read_write(&folder, "/shared");
    type Grant<'a> = &'a dyn Fn(&[&str]) -> Policy;
    let copy = format!("file={PROJECT}/file");
    let grants: [(&str, Grant<'_>, &str, &[&str], bool); 3] = [
        ("a read-only folder", &read_only, "file=/shared/file", &[], false),
        ("a workspace", &workspace, &copy, &["writable=1"], false),
        // Shows that the locks are real: a writable folder is the host's own.
        ("a writable folder", &writable, "file=/shared/file", &["writable=1"], true),
    ];
    let mut told = Vec::new();
    for (what, grant, path, more, shared) in grants {
        let arguments = |name| [&[name, path], more].concat();
        let mut holder = place
            .other(&[], &grant(&arguments("hold_locks")).wall(Duration::from_secs(30)), &[])?
            .spawn()
            .map_err(io_error)?;
        // The program holds its locks a moment after it has started.
        let there = wait_until(Duration::from_secs(5), || !Process::with_word("hold_locks").is_empty());
        std::thread::sleep(Duration::from_millis(300));
        let felt = run(&grant(&arguments("feel_locks"))).map(|(o, _)| o);
        let host = feels_on_host();
        holder.kill().map_err(io_error)?;
        holder.wait().map_err(io_error)?;
        wait_until(Duration::from_secs(5), || Process::with_word("hold_locks").is_empty());
        check(there, || format!("{what}: nobody held the locks"))?;
        let (felt, host) = (felt?, host?);
        let inside = felt.exit_code == Some(THROUGH);
        check(inside || felt.success(), || format!("{what}: {:?} {:?}", felt.cause, felt.stderr))?;
        check(inside == shared && host == shared, || {
            format!("{what}: felt by another run {inside}, by the host {host}; {:?}", felt.stderr)
        })?;
        told.push(format!("{what}: {}", if shared { "felt" } else { "not felt" }));
    }
    after_kills();
    good(told.join(", "))
}

/// A daemon's socket under another path: in a folder that is mounted, in a workspace, and as a file.
pub(crate) fn sockets_in_folders(place: &Place<'_>) -> Result<Said, String> {
    let folder = place.folder("with_socket")?;
    let path = folder.join("daemon.sock");
    let listener = UnixListener::bind(&path).map_err(io_error)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).map_err(io_error)?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = std::io::Write::write_all(&mut stream, SECRET.as_bytes());
        }
    });
    let connect = |inside: &str| place.attack(&["path_socket", &format!("socket={inside}/daemon.sock")]);
    let at = folder.to_string_lossy().into_owned();
    let mut plain = connect(&at).read_only(&folder, &folder);
    plain.shape.confinement = Confinement::LandlockOnly;
    let mut copied = connect(PROJECT).workspace(&folder);
    copied.shape.confinement = Confinement::LandlockOnly;
    for (what, policy, reached) in [
        ("read-only", connect("/data").read_only(&folder, "/data"), false),
        ("read-only at its own place", connect(&at).read_only(&folder, &folder), false),
        ("workspace", connect(PROJECT).workspace(&folder), false),
        ("read-only without namespaces", plain, false),
        // Shows that this is an attack: a writable folder is the host's own, including its sockets.
        ("writable", connect("/data").read_write(&folder, "/data"), true),
    ] {
        let (outcome, _) = run(&policy)?;
        check(outcome.exit_code == Some(if reached { THROUGH } else { 0 }), || {
            format!("{what}: {:?} {:?}", outcome.exit_code, outcome.stderr)
        })?;
    }
    for policy in
        [connect("/s").read_only(&path, "/s/daemon.sock"), connect("/s").read_write(&path, "/s/daemon.sock")]
    {
        let outcome = engine::outcome(&policy).map_err(io_error)?;
        check(outcome.cause == Cause::Refused, || format!("a socket was mounted: {:?}", outcome.cause))?;
    }
    good("reached through a writable folder only; as a file it is refused")
}

/// hotcell runs in the background of a terminal that stops processes which read or write there: it is not
/// stopped, and its program has no terminal.
pub(crate) fn background_of_a_terminal(place: &Place<'_>) -> Result<Said, String> {
    let policy = place.attack(&["no_terminal"]);
    match place.outcome_of_other(&["in_background_of_terminal"], &policy, &[]) {
        Ok(outcome) => {
            check(outcome.success(), || format!("{:?} {:?}", outcome.cause, outcome.stderr))?;
            good("ran to its end in the background")
        }
        Err(Missed::Precondition(why)) => Ok(Said::Skipped(why)),
        Err(Missed::Failed(why)) => Err(why),
    }
}
