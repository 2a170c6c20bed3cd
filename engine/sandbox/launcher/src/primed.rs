//! Init's part in starting a runtime before its job is known.
//!
//! The runner executes the runtime like any program, confined by every layer; a preloaded library makes it
//! wait. Init passes the job on as it received it. Of the runtime's data only one byte is read, and anything
//! else that happens ends the runtime.

use crate::names;
use crate::release::Release;
use crate::report::{At, Failure};
use crate::runner::{Shared, Vectors};
use crate::sys::{self, Errno, Fd};
use crate::text::Text;
use crate::wire::{Job, Setup, Step, detail};

/// Time limit in milliseconds until a runtime waits.
const PRIME_TIMEOUT_MS: i64 = 10_000;

/// A runtime that waits for its job.
pub struct Waiting {
    /// Init's end of the socket.
    pub socket: Fd,
}

/// Starts the runtime and waits until it is ready. `life` is closed when the runtime is no longer needed.
pub fn start<'a>(
    setup: &'a Setup<'a>,
    shared: &Shared<'a>,
    pid: i32,
    library: Fd,
    life: [Fd; 2],
) -> Result<Waiting, Failure> {
    let [socket, its] = sys::socket_pair().at_item(Step::Prime, detail::prime::SOCKETS)?;
    let null =
        sys::openat(sys::AT_FDCWD, c"/dev/null", sys::O_RDWR, 0).at_item(Step::Prime, detail::prime::NULL)?;
    let job = Job::of_prime(&setup.prime, c"/");
    let vectors = Vectors::of(&job).at_item(Step::Prime, detail::prime::VECTORS)?;
    shared.release(&job, &vectors, [null, null, null, its, library]);
    shared.wait_until_executed()?;
    for fd in [null, its, library] {
        sys::close(fd);
    }
    let mut poll = [
        sys::PollFd { fd: socket, events: sys::POLLIN, revents: 0 },
        sys::PollFd { fd: life[0], events: sys::POLLIN, revents: 0 },
        sys::PollFd { fd: life[1], events: 0, revents: 0 },
    ];
    sys::poll(&mut poll, PRIME_TIMEOUT_MS).at_item(Step::Prime, detail::prime::POLL)?;
    if poll[1].revents != 0 || poll[2].revents != 0 {
        sys::exit(1);
    }
    // If the runtime ends, the socket is closed and the read returns nothing.
    let mut byte = [0u8];
    if poll[0].revents == 0 || sys::read(socket, &mut byte) != Ok(1) {
        return Err(Errno::PROTO).at_item(Step::Prime, detail::prime::ANSWER);
    }
    alone(pid)?;
    Ok(Waiting { socket })
}

/// Checks that it is the only process besides init: processes that it started would not get the limits of the
/// job.
fn alone(pid: i32) -> Result<(), Failure> {
    let proc = sys::openat(sys::AT_FDCWD, c"/proc", sys::O_RDONLY | sys::O_DIRECTORY, 0)
        .at_item(Step::Prime, detail::prime::PROC)?;
    let own = Text::of(format_args!("{pid}"));
    let mut others = 0;
    names::each(proc, |name| {
        let process = name.to_bytes().iter().all(u8::is_ascii_digit);
        others += u32::from(process && name != c"1" && name != own.cstr());
        Ok(())
    })
    .at_item(Step::Prime, detail::prime::PROCESSES)?;
    sys::close(proc);
    if others == 0 { Ok(()) } else { Err(Errno::PROTO).at_item(Step::Prime, detail::prime::NOT_ALONE) }
}

/// Applies the job's limits to the runtime, and sends it the job.
pub fn hand_over(waiting: &Waiting, job: &Job<'_>, release: &Release<'_>) -> Result<(), Failure> {
    // The runtime reads its job itself, so the job must be in a memfd.
    let mut fds = [-1; 5];
    for (number, fd) in fds[..4].iter_mut().enumerate() {
        *fd = release.fd(number).at_item(Step::Prime, detail::prime::DESCRIPTORS)?;
    }
    let mut count = 4;
    if job.events {
        fds[4] = release.fd(4 + job.mounts.len()).at(Step::Release)?;
        count = 5;
    }
    sys::send(waiting.socket, &(release.memory.len() as u64).to_le_bytes(), &fds[..count])
        .at_item(Step::Prime, detail::prime::SEND)?;
    sys::close(waiting.socket);
    Ok(())
}
