//! Captures the output of a primed runtime before it has a job. A normal start would have shown such output
//! to the user, so a runtime that printed anything is not used.

use core::ffi::{c_int, c_short, c_ulong};
use core::sync::atomic::{AtomicI32, Ordering};

unsafe extern "C" {
    fn pipe2(ends: *mut c_int, flags: c_int) -> c_int;
    fn poll(polled: *mut Polled, count: c_ulong, millis: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
}

#[repr(C)]
struct Polled {
    fd: c_int,
    events: c_short,
    found: c_short,
}

/// Descriptor from which the output can be read.
static HEARD: AtomicI32 = AtomicI32::new(-1);

/// Replaces standard output and error by a pipe. It does not block: when it is full, writing fails.
///
/// # Safety
/// Must be called once, before any output; the lowest free descriptor must be the one that `primer.py`
/// expects.
pub unsafe fn listen() -> bool {
    const CLOSED_AT_EXEC_AND_UNBLOCKED: c_int = 0o2_000_000 | 0o4000;
    let mut ends = [-1; 2];
    // SAFETY: the descriptors are ours.
    unsafe {
        if pipe2(ends.as_mut_ptr(), CLOSED_AT_EXEC_AND_UNBLOCKED) != 0 {
            return false;
        }
        let placed = dup2(ends[1], 1) == 1 && dup2(ends[1], 2) == 2;
        close(ends[1]);
        HEARD.store(ends[0], Ordering::Relaxed);
        placed
    }
}

/// Whether there was no output; from now on output is discarded.
///
/// # Safety
/// Must be called once, after [`listen`].
pub unsafe fn said_nothing() -> bool {
    const READABLE: c_short = 1;
    let mut polled = Polled { fd: HEARD.load(Ordering::Relaxed), events: READABLE, found: 0 };
    // SAFETY: the descriptor is ours; standard input is `/dev/null`, open for reading and writing.
    unsafe {
        let nothing = poll(&raw mut polled, 1, 0) == 0;
        let placed = dup2(0, 1) == 1 && dup2(0, 2) == 2;
        close(polled.fd);
        nothing && placed
    }
}
