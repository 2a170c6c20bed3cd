//! Socket activation: a listening socket passed by the parent process in `LISTEN_FDS` and `LISTEN_PID`, as
//! systemd does.

use std::ffi::OsStr;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::path::Path;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockaddrLike, SockaddrStorage, getsockname, getsockopt, sockopt};
use nix::unistd::Pid;

use crate::sys;

/// Descriptor of the socket: the first after standard input, output and error. `sd_listen_fds(3)`
const SOCKET_FD: i32 = sys::FIRST_PASSED_FD;

/// Takes the socket. Succeeds only once.
///
/// # Errors
/// A sentence when no descriptor or several were passed to this process, or the descriptor is not a TCP
/// socket that listens.
pub fn listener() -> Result<TcpListener, String> {
    let variable = |name: &str| std::env::var_os(name);
    named(variable("LISTEN_FDS").as_deref(), variable("LISTEN_PID").as_deref(), Pid::this().as_raw())?;
    let wrong = |why: &str| format!("descriptor {SOCKET_FD} was passed to this process, and {why}");
    let is_socket = std::fs::read_link(Path::new("/proc/self/fd").join(SOCKET_FD.to_string()))
        .is_ok_and(|target| target.as_os_str().as_encoded_bytes().starts_with(b"socket:"));
    if !is_socket {
        return Err(wrong("it is no socket"));
    }
    let Some(socket) = sys::passed() else { return Err(wrong("it is in use already")) };
    match is_listener(&socket) {
        Ok(true) => {}
        not => {
            // The descriptor may belong to other code: leave it open.
            let _ = socket.into_raw_fd();
            return Err(wrong(match not {
                Err(_) => "it cannot be looked at",
                Ok(_) => "it is no socket that listens for TCP (ListenStream=HOST:PORT)",
            }));
        }
    }
    let ready = || -> io::Result<TcpListener> {
        fcntl(&socket, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        let listener = TcpListener::from(socket.try_clone()?);
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    ready().map_err(|e| wrong(&format!("it cannot be used: {e}")))
}

fn is_listener(socket: &OwnedFd) -> nix::Result<bool> {
    let name: SockaddrStorage = getsockname(socket.as_raw_fd())?;
    let internet = matches!(name.family(), Some(AddressFamily::Inet | AddressFamily::Inet6));
    Ok(internet && getsockopt(socket, sockopt::AcceptConn)?)
}

/// Checks that the variables name exactly one socket for this process.
fn named(count: Option<&OsStr>, pid: Option<&OsStr>, own: i32) -> Result<(), String> {
    let number = |text: Option<&OsStr>| text.and_then(OsStr::to_str).and_then(|t| t.parse::<i32>().ok());
    match (number(pid), number(count)) {
        (Some(pid), Some(1)) if pid == own => Ok(()),
        (Some(pid), Some(n)) if pid == own => {
            Err(format!("{n} sockets were passed to this process, and it takes one: a socket unit with one ListenStream="))
        }
        (Some(_), Some(_)) => Err("LISTEN_PID names another process: start hotcell itself from the unit, without a shell between".to_owned()),
        _ => Err("no socket was passed to this process (LISTEN_FDS and LISTEN_PID): start it by a socket unit, or name an address".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_socket_for_this_process_is_accepted() {
        for (count, pid, word) in [
            (Some("1"), Some("7"), None),
            (Some("2"), Some("7"), Some("2 sockets")),
            (Some("0"), Some("7"), Some("0 sockets")),
            (Some("1"), Some("8"), Some("another process")),
            (Some("1"), None, Some("no socket")),
            (None, Some("7"), Some("no socket")),
            (Some("x"), Some("7"), Some("no socket")),
            (Some(""), Some(""), Some("no socket")),
            (None, None, Some("no socket")),
        ] {
            let said = named(count.map(OsStr::new), pid.map(OsStr::new), 7);
            match word {
                None => assert_eq!(said, Ok(())),
                Some(word) => {
                    assert!(said.as_ref().is_err_and(|s| s.contains(word)), "{count:?} {pid:?}: {said:?}");
                }
            }
        }
    }
}
