//! Notifies systemd of the state of the service, if systemd asks for that: `sd_notify(3)`, one datagram each.

use std::ffi::{OsStr, OsString};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::time::{ClockId, clock_gettime};

/// State of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Ready for requests; sent again after a reload.
    Ready,
    /// Reading its configuration.
    Reloading,
    /// Ending.
    Stopping,
}

/// Sends the state if there is a listener. Errors are ignored: nothing depends on it.
pub fn tell(word: Word) {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET").as_deref().and_then(address) else { return };
    let told = UnixDatagram::unbound()
        .and_then(|socket| socket.send_to_addr(text(word, monotonic()).as_bytes(), &address));
    if let Err(error) = told {
        tracing::warn!("systemd cannot be told that the service is {word:?}: {error}");
    }
}

/// The socket address in the value of `NOTIFY_SOCKET`.
fn address(value: &OsStr) -> Option<SocketAddr> {
    match value.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
        [b'/', ..] => SocketAddr::from_pathname(OsString::from(value)).ok(),
        _ => None,
    }
}

fn text(word: Word, micros: i64) -> String {
    match word {
        Word::Ready => "READY=1".to_owned(),
        // systemd uses the time to match a later READY with its reload.
        Word::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={micros}"),
        Word::Stopping => "STOPPING=1".to_owned(),
    }
}

fn monotonic() -> i64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| now.tv_sec() * 1_000_000 + now.tv_nsec() / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_paths_or_names() {
        for (value, want) in
            [("/run/x", true), ("@x", true), ("", false), ("run/x", false), ("vsock:1:2", false)]
        {
            assert_eq!(address(OsStr::new(value)).is_some(), want, "{value}");
        }
        assert_eq!(address(OsStr::new("@a/b")).unwrap().as_abstract_name(), Some(&b"a/b"[..]));
    }

    #[test]
    fn words_are_those_of_the_protocol() {
        assert_eq!(text(Word::Ready, 5), "READY=1");
        assert_eq!(text(Word::Reloading, 5), "RELOADING=1\nMONOTONIC_USEC=5");
        assert_eq!(text(Word::Stopping, 5), "STOPPING=1");
        assert!(monotonic() > 0);
    }
}
