//! Answers the filter's notifications and records what was denied.
//!
//! The answer depends only on the number of the system call: denied calls get `EPERM`, and the three calls
//! that carry an address are allowed through. Data read from the program's memory is used for the report
//! only.

use std::io::IoSliceMut;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use tokio::time::sleep_until;

use crate::deferred_fd::DeferredFd;
use crate::missing::Missing;
use crate::outcome::{Denial, MissingFiles};
use crate::pace::Pace;
use crate::seccomp::{self, Arch, Meaning};
use crate::sys::{self, Notification};

/// Maximum number of rows in a report; further kinds of denial are counted in [`Denials::dropped`].
const MAX_ROWS: usize = 200;
/// Maximum number of rows for one system call with different arguments; later ones are counted in the row
/// [`OTHERS`].
const MAX_ROWS_PER_CALL: usize = 8;
const MAX_ADDRESS_ROWS: usize = 20;
const OTHERS: &str = "(others)";
/// Maximum number of notifications answered before other work gets a turn.
const BATCH: usize = 64;
/// CPU time charged for each wake-up: for waking, and for polling everything else that a run waits for.
pub(crate) const WAKE_COST: Duration = Duration::from_micros(20);

/// The denials recorded so far.
#[derive(Debug, Default)]
pub struct Denials {
    rows: Vec<Denial>,
    /// Number of denials that got no row.
    pub dropped: u64,
}

impl Denials {
    /// Counts a denial.
    pub(crate) fn add(&mut self, layer: &str, operation: &str, mut target: String, errno: &str) {
        // No operation can crowd out another: after its first few rows, all its further targets share one
        // row.
        let own = self.rows.iter().filter(|d| d.layer == layer && d.operation == operation);
        let most = if layer == "network" { MAX_ADDRESS_ROWS } else { MAX_ROWS_PER_CALL };
        let known = |d: &&Denial| d.target == target;
        if own.clone().count() >= most && own.clone().find(known).is_none() {
            OTHERS.clone_into(&mut target);
        }
        let same = |d: &Denial| d.operation == operation && d.target == target && d.layer == layer;
        match self.rows.iter().position(same) {
            Some(row) => self.rows[row].count += 1,
            None if self.rows.len() < MAX_ROWS => self.rows.push(Denial {
                layer: layer.to_owned(),
                operation: operation.to_owned(),
                target,
                errno: errno.to_owned(),
                count: 1,
            }),
            None => self.dropped += 1,
        }
    }

    /// Appends the rows of a proxy.
    pub fn append(&mut self, rows: Vec<Denial>) {
        let room = MAX_ROWS - self.rows.len();
        self.dropped += rows.iter().skip(room).map(|row| row.count).sum::<u64>();
        self.rows.extend(rows.into_iter().take(room));
    }

    /// The rows, in order of first appearance.
    pub fn into_rows(self) -> Vec<Denial> {
        self.rows
    }
}

/// Receives notifications of the calls that a filter stops.
pub struct Listener {
    calls: DeferredFd,
    pace: Pace,
    /// Files that are asked for and missing, with the filter that watches paths.
    missing: Option<Missing>,
}

/// An event on a filter's descriptor.
enum Heard {
    /// A call waits for an answer.
    Call,
    /// No process uses the filter any more.
    End,
}

impl Listener {
    /// Listens to the filter of a run whose job was sent at `released` and that may use `cpus` processors
    /// (`None`: all). `watches`: the filter is [`seccomp::watching`]'s.
    pub fn new(listener: OwnedFd, released: Instant, cpus: Option<f64>, watches: bool) -> Self {
        let missing = watches.then(Missing::default);
        Self { calls: DeferredFd::new(listener, released), pace: Pace::new(cpus, released), missing }
    }

    /// Takes the files that were asked for and missing.
    pub fn take_missing(&mut self) -> Option<MissingFiles> {
        self.missing.as_mut().map(|missing| std::mem::take(missing).into_report())
    }
}

/// Answers pending notifications, at most one batch, at the run's [pace](Pace). Returns false when no process
/// uses the filter any more. Without a listener the future never completes. Cancel safe.
pub async fn answer(listener: Option<&mut Listener>, denials: &mut Denials) -> std::io::Result<bool> {
    let Some(Listener { calls, pace, missing }) = listener else { return std::future::pending().await };
    if let Some(next) = pace.next(Instant::now()) {
        sleep_until(next.into()).await;
    }
    calls.ready().await?;
    let began = processor_time();
    let answered = answer_batch(calls, denials, missing.as_mut());
    pace.spend(processor_time().saturating_sub(began) + WAKE_COST, Instant::now());
    answered
}

/// CPU time that this thread has used.
pub(crate) fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Into::into)
}

fn answer_batch(
    listener: &mut DeferredFd,
    denials: &mut Denials,
    mut missing: Option<&mut Missing>,
) -> std::io::Result<bool> {
    for _ in 0..BATCH {
        match listener.take(look) {
            Ok(Heard::Call) => {}
            Ok(Heard::End) => return Ok(false),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return Ok(true),
            Err(e) => return Err(e),
        }
        let Some(fd) = listener.fd() else { return Ok(false) };
        match sys::receive_notification(fd) {
            Ok(notification) => answer_one(fd, &notification, denials, missing.as_deref_mut()),
            Err(Errno::ENOENT | Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(true)
}

/// Polls the filter without blocking; the call that receives a notification would block.
fn look(listener: BorrowedFd<'_>) -> std::io::Result<Heard> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut fds = [PollFd::new(listener, PollFlags::POLLIN)];
    // A signal of this process must not look like "nothing is there": the runtime would then wait for the
    // next call.
    while let Err(errno) = poll(&mut fds, PollTimeout::ZERO) {
        if errno != Errno::EINTR {
            return Err(errno.into());
        }
    }
    match fds[0].revents().unwrap_or(PollFlags::empty()) {
        found if found.contains(PollFlags::POLLIN) => Ok(Heard::Call),
        found if found.contains(PollFlags::POLLHUP) => Ok(Heard::End),
        _ => Err(std::io::ErrorKind::WouldBlock.into()),
    }
}

fn answer_one(fd: BorrowedFd<'_>, call: &Notification, denials: &mut Denials, missing: Option<&mut Missing>) {
    let number = i64::from(call.number);
    // Only with the filter that watches paths, in which no rule denies such a call.
    if let Some((missing, kind)) = missing.zip(seccomp::path_call(Arch::HOST, number)) {
        missing.hear(fd, call, kind);
        let _ = sys::answer_notification(fd, call.id, None);
        return;
    }
    let name =
        seccomp::name(Arch::HOST, number).map_or_else(|| format!("system call {number}"), str::to_owned);
    match seccomp::meaning(Arch::HOST, number) {
        Meaning::Denied => {
            let arguments = call.arguments.map(|a| format!("{a:#x}")).join(", ");
            denials.add("seccomp", &name, arguments, "EPERM");
            let _ = sys::answer_notification(fd, call.id, Some(nix::libc::EPERM));
        }
        Meaning::Address => {
            // connect and bind: address and length are arguments 1 and 2; sendto: 4 and 5.
            let at = if name == "sendto" { 4 } else { 1 };
            let address = read_address(call.pid, call.arguments[at], call.arguments[at + 1]);
            if let Some(address) = address.filter(|_| sys::still_waiting(fd, call.id)) {
                denials.add("network", &name, address, "not observed");
            }
            let _ = sys::answer_notification(fd, call.id, None);
        }
    }
}

/// Reads a socket address from another process's memory; returns it if it is an internet address beyond the
/// private loopback.
fn read_address(pid: u32, at: u64, len: u64) -> Option<String> {
    let mut bytes = [0u8; 28];
    let len = usize::try_from(len).ok()?.min(bytes.len());
    let base = usize::try_from(at).ok()?;
    let pid = Pid::from_raw(i32::try_from(pid).ok()?);
    let mut local = [IoSliceMut::new(&mut bytes[..len])];
    let read = process_vm_readv(pid, &mut local, &[RemoteIoVec { base, len }]).ok()?;
    beyond_loopback(&bytes[..read])
}

/// Reads a `struct sockaddr`; `None` for other families and for the private loopback, which is allowed.
fn beyond_loopback(bytes: &[u8]) -> Option<String> {
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match family {
        nix::libc::AF_INET => {
            let ip = Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(4..8)?).ok()?);
            (!ip.is_loopback() && !ip.is_unspecified()).then(|| format!("{ip}:{port}"))
        }
        nix::libc::AF_INET6 => {
            let ip = Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(8..24)?).ok()?);
            let mapped = ip.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback());
            (!ip.is_loopback() && !ip.is_unspecified() && !mapped).then(|| format!("[{ip}]:{port}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(ip: [u8; 4], port: u16) -> Vec<u8> {
        let mut b = u16::try_from(nix::libc::AF_INET).unwrap().to_ne_bytes().to_vec();
        b.extend(port.to_be_bytes());
        b.extend(ip);
        b.extend([0; 8]);
        b
    }
    fn v6(ip: Ipv6Addr, port: u16) -> Vec<u8> {
        let mut b = u16::try_from(nix::libc::AF_INET6).unwrap().to_ne_bytes().to_vec();
        b.extend(port.to_be_bytes());
        b.extend([0; 4]);
        b.extend(ip.octets());
        b.extend([0; 4]);
        b
    }

    #[test]
    fn addresses_outside_loopback_are_reported() {
        for (bytes, want) in [
            (v4([93, 184, 216, 34], 80), Some("93.184.216.34:80")),
            (v4([127, 0, 0, 1], 80), None),
            (v4([127, 9, 9, 9], 80), None),
            (v4([0, 0, 0, 0], 0), None),
            (v6("2001:db8::1".parse().unwrap(), 443), Some("[2001:db8::1]:443")),
            (v6(Ipv6Addr::LOCALHOST, 443), None),
            (v6("::ffff:127.0.0.1".parse().unwrap(), 1), None),
            (v6("::ffff:10.0.0.1".parse().unwrap(), 1), Some("[::ffff:10.0.0.1]:1")),
            (vec![1, 0, b'/', b'x', 0, 0], None),
            (vec![2], None),
            (vec![], None),
        ] {
            assert_eq!(beyond_loopback(&bytes).as_deref(), want, "{bytes:?}");
        }
    }

    #[test]
    fn denial_rows_are_counted_and_limited_per_operation() {
        let mut denials = Denials::default();
        for n in 0..300 {
            denials.add("seccomp", "ptrace", format!("{n}"), "EPERM");
        }
        denials.add("seccomp", "bpf", "0".to_owned(), "EPERM");
        denials.add("seccomp", "ptrace", "3".to_owned(), "EPERM");
        assert_eq!(denials.dropped, 0);
        let rows = denials.into_rows();
        assert_eq!(rows.len(), MAX_ROWS_PER_CALL + 2);
        assert_eq!((rows[3].target.as_str(), rows[3].count), ("3", 2));
        assert_eq!((rows[MAX_ROWS_PER_CALL].target.as_str(), rows[MAX_ROWS_PER_CALL].count), (OTHERS, 292));
        assert_eq!(rows[MAX_ROWS_PER_CALL + 1].operation, "bpf");
    }
}
