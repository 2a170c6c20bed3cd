//! Pseudo-terminals. `pts(4)`, `ioctl_tty(2)`

use core::ffi::CStr;

use super::{AT_FDCWD, Fd, O_CLOEXEC, O_NOCTTY, O_RDWR, Result, check, nr, openat, syscall};

const TIOCSCTTY: u32 = 0x540e;
const TIOCSWINSZ: u32 = 0x5414;
const TIOCGPTPEER: u32 = 0x5441;
const TIOCSPTLCK: u32 = 0x4004_5431;

/// Makes a pseudo-terminal by the multiplexer at this path; returns master and slave.
pub fn open_terminal(multiplexer: &CStr) -> Result<[Fd; 2]> {
    let master = openat(AT_FDCWD, multiplexer, O_RDWR | O_NOCTTY, 0)?;
    let unlocked = 0i32;
    call!(nr::IOCTL, master, TIOCSPTLCK, &raw const unlocked)?;
    // By the master and not by a path, which could name another terminal.
    let slave = call!(nr::IOCTL, master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)?;
    Ok([master, slave as Fd])
}

/// Sets the size of a terminal in characters: rows in the upper half, columns in the lower.
pub fn set_window(terminal: Fd, window: u32) -> Result<()> {
    let size = [(window >> 16) as u16, window as u16, 0, 0];
    call!(nr::IOCTL, terminal, TIOCSWINSZ, &raw const size).map(drop)
}

/// Makes a terminal the controlling terminal of this process, which must lead a session without one.
pub fn take_terminal(terminal: Fd) -> Result<()> {
    call!(nr::IOCTL, terminal, TIOCSCTTY, 0).map(drop)
}
