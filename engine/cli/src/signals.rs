//! Signals that ask hotcell to end, and those that its parent had set to be ignored. `signal(7)`, `proc(5)`.

use std::future::Future;
use std::io;

use hotcell_sandbox::kernel_text;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Starts listening immediately for a request to end, and waits for it: Ctrl-C, SIGTERM, or the end of the
/// terminal or session (SIGHUP; under `nohup`, which ignores it, it stays ignored).
pub fn interrupted() -> impl Future<Output = ()> {
    let hangup = (!is_ignored(nix::libc::SIGHUP)).then(SignalKind::hangup);
    one_of([SignalKind::interrupt(), SignalKind::terminate()].into_iter().chain(hangup).collect())
}

/// Like [`interrupted`], and also for SIGQUIT: for a process that has to restore its terminal.
pub fn interrupted_or_quit() -> impl Future<Output = ()> {
    let hangup = (!is_ignored(nix::libc::SIGHUP)).then(SignalKind::hangup);
    let usual = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::quit()];
    one_of(usual.into_iter().chain(hangup).collect())
}

/// Like [`interrupted`], but for a server, where SIGHUP has a meaning of its own (`reload.rs`).
pub fn server_interrupted() -> impl Future<Output = ()> {
    one_of(vec![SignalKind::interrupt(), SignalKind::terminate()])
}

/// Requests to end, of which several may come: SIGTERM, and the end of the terminal (SIGHUP; under `nohup` it stays ignored).
#[derive(Debug)]
pub struct Endings(Vec<Signal>);

impl Endings {
    /// Starts listening.
    ///
    /// # Errors
    /// When the signals cannot be received.
    pub fn listen() -> io::Result<Self> {
        let hangup = (!is_ignored(nix::libc::SIGHUP)).then(SignalKind::hangup);
        let kinds = std::iter::once(SignalKind::terminate()).chain(hangup);
        Ok(Self(kinds.map(signal).collect::<io::Result<_>>()?))
    }

    /// Waits for the next one. A future that is dropped loses none.
    pub async fn next(&mut self) {
        std::future::poll_fn(|cx| {
            let came = self.0.iter_mut().any(|listener| listener.poll_recv(cx).is_ready());
            if came { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}

/// Starts listening immediately, even before the future is polled. If no signal can be received, it never
/// completes.
fn one_of(kinds: Vec<SignalKind>) -> impl Future<Output = ()> {
    let listeners: Result<Vec<_>, _> = kinds.into_iter().map(signal).collect();
    async {
        let Ok(mut listeners) = listeners else { return std::future::pending().await };
        std::future::poll_fn(|cx| {
            let came = listeners.iter_mut().any(|listener| listener.poll_recv(cx).is_ready());
            if came { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}

/// Whether this process ignores a signal, as `nohup` arranges for SIGHUP. `false` if `/proc` cannot be read.
pub fn is_ignored(signal: i32) -> bool {
    kernel_text::read("/proc/self/status").is_ok_and(|status| ignores(&status, signal))
}

/// Whether the signal's bit is set in `SigIgn` of a process's status.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    u32::try_from(signal - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or_default() & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::ignores;

    #[test]
    fn ignored_signals_are_bits_of_the_mask() {
        for (mask, signal, want) in [
            ("SigIgn:\t0000000000000001\n", 1, true),
            ("SigIgn:\t0000000000001000\n", 1, false),
            ("SigIgn:\t0000000000001000\n", 13, true),
            ("Name:\tx\n", 1, false),
            ("SigIgn:\tx\n", 1, false),
            ("SigIgn:\tffffffffffffffff\n", 0, false),
        ] {
            assert_eq!(ignores(&format!("Name:\ta\n{mask}"), signal), want, "{mask:?} {signal}");
        }
    }
}
