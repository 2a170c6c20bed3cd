//! What a primed runtime says before it has a job. Nobody is there to hear it, and a start of its own would have said it to
//! whoever asked: so it is heard here, and a runtime that said anything is not used.

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

/// Where what it says can be read.
static HEARD: AtomicI32 = AtomicI32::new(-1);

/// Puts a pipe in the place of standard output and error. Who says more than it holds is told that it cannot: nobody waits.
///
/// # Safety
/// Once, before anything is said; the lowest free descriptor is what `primer.py` takes it for.
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

/// Whether nothing was said; from now on what is said goes nowhere.
///
/// # Safety
/// After [`listen`], once.
pub unsafe fn said_nothing() -> bool {
    const READABLE: c_short = 1;
    let mut polled = Polled { fd: HEARD.load(Ordering::Relaxed), events: READABLE, found: 0 };
    // SAFETY: the descriptor is ours; standard input is `/dev/null`, open for both.
    unsafe {
        let nothing = poll(&raw mut polled, 1, 0) == 0;
        let placed = dup2(0, 1) == 1 && dup2(0, 2) == 2;
        close(polled.fd);
        nothing && placed
    }
}
