//! System calls without a safe wrapper in any crate: seccomp notifications, Landlock's version, sealed
//! memfds, descriptors in messages, the start of a program by a child that shares memory.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use tokio::io::unix::{AsyncFd, AsyncFdRegisterError};

use crate::kernel_text;

/// The Landlock version of this kernel. Fails with `ENOSYS` where the kernel has none, `EOPNOTSUPP` where it
/// is switched off.
pub fn landlock_abi() -> io::Result<u32> {
    const CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: with this flag the call takes no memory; see landlock_create_ruleset(2).
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    if version < 0 { Err(io::Error::last_os_error()) } else { Ok(u32::try_from(version).unwrap_or(0)) }
}

/// Starts a program from its descriptor, with `stdin` as standard input and `null` as both outputs, in `/`, without variables and with all signals blocked; returns
/// its process.
///
/// As posix_spawn(3), by a child that shares this process's memory until it executes the program (`CLONE_VM`, `CLONE_VFORK`), but without a call for each of 64 signals.
/// Handlers cannot run in the child, since its signals stay blocked.
pub fn start_program(
    program: BorrowedFd<'_>,
    stdin: BorrowedFd<'_>,
    null: BorrowedFd<'_>,
) -> io::Result<Pid> {
    // A caller that has closed its own streams gives descriptors that the child's streams would replace before they are used.
    let [program, stdin, null] = [above_streams(program)?, above_streams(stdin)?, above_streams(null)?];
    let path = CString::new(format!("/proc/self/fd/{}", program.number()))?;
    let mut start = Start {
        argv: [path.as_ptr(), std::ptr::null()],
        streams: [stdin.number(), null.number(), null.number()],
        errno: 0,
    };
    let mut stack = [std::mem::MaybeUninit::<u128>::uninit(); 1024];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let blocked = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    // SAFETY: this thread waits until the child has executed the program or has ended, so that the stack and `start` live for as long as it uses them; the child
    // makes system calls alone, and calls no handler, since all signals are blocked. The stack grows down from its end, which is aligned. clone(2)
    let pid =
        unsafe { libc::clone(execute, stack.as_mut_ptr_range().end.cast(), flags, (&raw mut start).cast()) };
    let cloned = Errno::result(pid);
    blocked.thread_set_mask()?;
    let pid = Pid::from_raw(cloned?);
    if start.errno != 0 {
        waitpid(pid, None)?;
        return Err(io::Error::from_raw_os_error(start.errno));
    }
    Ok(pid)
}

/// A descriptor that is not one of the three streams.
enum Above<'fd> {
    Given(BorrowedFd<'fd>),
    Copied(OwnedFd),
}

impl Above<'_> {
    fn number(&self) -> RawFd {
        match self {
            Self::Given(fd) => fd.as_raw_fd(),
            Self::Copied(fd) => fd.as_raw_fd(),
        }
    }
}

/// The descriptor, or a copy of it where its number is that of a stream.
fn above_streams(fd: BorrowedFd<'_>) -> io::Result<Above<'_>> {
    if fd.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(Above::Given(fd));
    }
    // Standard library: the copy's number is above 2, and it is closed on execve(2).
    fd.try_clone_to_owned().map(Above::Copied)
}

/// Arguments of [`execute`], and the error that it met.
struct Start {
    argv: [*const libc::c_char; 2],
    streams: [RawFd; 3],
    errno: i32,
}

/// The child of [`start_program`].
extern "C" fn execute(start: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the caller's value, which nothing else uses meanwhile; all pointers are into the caller's memory, and the calls may be made in such a child.
    unsafe {
        let start = &mut *start.cast::<Start>();
        let made = start.streams.iter().zip(0..).all(|(from, to)| libc::dup2(*from, to) >= 0);
        if made && libc::chdir(c"/".as_ptr()) >= 0 {
            libc::execve(start.argv[0], start.argv.as_ptr(), [std::ptr::null()].as_ptr());
        }
        start.errno = Errno::last_raw();
        libc::_exit(127)
    }
}

/// Gives pages of the heap that nothing uses back to the system. malloc_trim(3)
pub fn give_back_heap() {
    // SAFETY: the call only looks at the allocator's own free lists, under its locks.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has all threads of this process allocate from one heap: fewer pages that are used in part, for a process whose threads wait. Counts for threads that start
/// later. mallopt(3)
pub fn use_one_heap() {
    // SAFETY: the call sets a number of the allocator, under its locks.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives pages of this thread's stack below its frames back to the system: a start goes deeper than the wait behind it. madvise(2)
#[inline(never)]
pub fn give_back_stack() {
    /// Room below this frame for the calls that it makes.
    const ROOM: usize = 32 << 10;
    let mark = 0_u8;
    let here = std::ptr::from_ref(&mark).expose_provenance();
    let Some(begin) = stack_begin(here) else { return };
    let Some((begin, length)) =
        page_size().and_then(|page| whole_pages(begin, here.saturating_sub(ROOM), page))
    else {
        return;
    };
    // SAFETY: the range is of this thread's own stack, is of whole pages, and ends below this frame and those of the calls that it makes, so that nothing in it is used;
    // a page of it that is used later is zero at first. The call changes no mapping.
    unsafe {
        libc::madvise(std::ptr::with_exposed_provenance_mut(begin), length, libc::MADV_DONTNEED);
    }
}

/// Size of a page of memory in bytes: 4 KiB, or up to 64 KiB on aarch64. sysconf(3)
fn page_size() -> Option<usize> {
    // SAFETY: the call takes no memory.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).ok().filter(|size| size.is_power_of_two())
}

/// First address and length of the whole pages between two addresses; `None` without any. The kernel rounds a length up, so that a part of a page would be lost
/// together with what is behind it.
fn whole_pages(begin: usize, end: usize, page: usize) -> Option<(usize, usize)> {
    let (begin, end) = (begin.checked_next_multiple_of(page)?, end / page * page);
    Some((begin, end.checked_sub(begin).filter(|length| *length > 0)?))
}

/// Lowest address of the stack that this thread uses at `here`.
fn stack_begin(here: usize) -> Option<usize> {
    // The first thread's stack grows: its limit says nothing about its mapping, which is the one that the kernel names.
    let maps = kernel_text::read("/proc/self/maps").ok()?;
    let first = maps.lines().find(|line| line.ends_with("[stack]"))?.split_once(' ')?.0.split_once('-')?;
    let address = |text: &str| usize::from_str_radix(text, 16).ok();
    let first = address(first.0)?..address(first.1)?;
    if first.contains(&here) {
        return Some(first.start);
    }
    let (mut begin, mut length) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are of this thread, are written by the first call and given back by the last one. pthread_getattr_np(3)
    let is_known = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        let got = libc::pthread_attr_getstack(&raw const attributes, &raw mut begin, &raw mut length);
        libc::pthread_attr_destroy(&raw mut attributes);
        got == 0
    };
    let begin = begin.expose_provenance();
    (is_known && (begin..begin.checked_add(length)?).contains(&here)).then_some(begin)
}

/// Checks that a filter of this process's children can notify of system calls (seccomp user notification).
///
/// If this process already runs under a filter, as in a container, this is tried in a thread that ends with
/// its own filter: the outer filter may refuse the call, and if it has a listener itself, no other filter may
/// have one.
pub fn notifications_work() -> io::Result<()> {
    const GET_NOTIF_SIZES: libc::c_uint = 3;
    let mut sizes = [0u16; 3];
    // SAFETY: the call writes three 16-bit sizes. seccomp(2)
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, GET_NOTIF_SIZES, 0, sizes.as_mut_ptr()) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no memory is passed. PR_GET_SECCOMP(2const)
    if unsafe { libc::prctl(libc::PR_GET_SECCOMP) } == 0 {
        return Ok(());
    }
    let trial = std::thread::Builder::new().name("trial".to_owned()).spawn(install_listener)?;
    trial.join().unwrap_or_else(|_| Err(io::Error::other("the trial failed")))
}

/// Gives this thread a filter that allows everything, with a listener that is closed at once.
fn install_listener() -> io::Result<()> {
    const SET_MODE_FILTER: libc::c_uint = 1;
    const NEW_LISTENER: libc::c_uint = 8;
    const ALLOW: u32 = 0x7fff_0000;
    // A single "return ALLOW".
    let mut filter = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: ALLOW };
    let program = libc::sock_fprog { len: 1, filter: &raw mut filter };
    // SAFETY: no memory is passed, and the call affects this thread alone. PR_SET_NO_NEW_PRIVS(2const)
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the program and its one instruction live across the call, which copies them. seccomp(2)
    let fd = unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, NEW_LISTENER, &raw const program) };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just created this descriptor for us.
        Ok(fd) if fd >= 0 => drop(unsafe { own(fd) }),
        _ => return Err(io::Error::last_os_error()),
    }
    Ok(())
}

/// A system call waiting for an answer. `seccomp_unotify(2)`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Notification {
    /// Identifies the call in the answer.
    pub id: u64,
    /// Thread id in this process's pid namespace.
    pub pid: u32,
    flags: u32,
    /// System call number.
    pub number: i32,
    arch: u32,
    instruction_pointer: u64,
    /// Arguments of the call.
    pub arguments: [u64; 6],
}

#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

nix::ioctl_readwrite!(notif_recv, b'!', 0, Notification);
nix::ioctl_readwrite!(notif_send, b'!', 1, Answer);
nix::ioctl_write_ptr!(notif_id_valid, b'!', 2, u64);

nix::ioctl_write_ptr_bad!(tiocswinsz, libc::TIOCSWINSZ, libc::winsize);

/// Sets the size of a terminal, in characters. `ioctl_tty(2)`
pub fn set_window(terminal: BorrowedFd<'_>, rows: u16, columns: u16) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor and the structure live across the call, which only reads the structure.
    unsafe { tiocswinsz(terminal.as_raw_fd(), &raw const size) }?;
    Ok(())
}

nix::ioctl_read_bad!(tiocgwinsz, libc::TIOCGWINSZ, libc::winsize);

/// The rows and columns of a terminal. `ioctl_tty(2)`
pub fn window(terminal: BorrowedFd<'_>) -> io::Result<(u16, u16)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor and the structure live across the call, which writes the structure.
    unsafe { tiocgwinsz(terminal.as_raw_fd(), &raw mut size) }?;
    Ok((size.ws_row, size.ws_col))
}

/// Receives the next waiting call. Fails with `ENOENT` when its thread was killed meanwhile.
pub fn receive_notification(listener: BorrowedFd<'_>) -> nix::Result<Notification> {
    let mut notification = Notification::default(); // the kernel wants it zeroed
    // SAFETY: the descriptor lives across the call, the structure is the kernel's struct seccomp_notif.
    unsafe { notif_recv(listener.as_raw_fd(), &raw mut notification) }.map(|_| notification)
}

/// Answers a waiting call: an error number, or `None` to let the kernel carry it out.
pub fn answer_notification(listener: BorrowedFd<'_>, id: u64, error: Option<i32>) -> nix::Result<()> {
    const CONTINUE: u32 = 1;
    let mut answer = Answer {
        id,
        value: 0,
        error: error.map_or(0, |e| -e),
        flags: if error.is_some() { 0 } else { CONTINUE },
    };
    // SAFETY: the descriptor lives across the call, the structure is the kernel's struct seccomp_notif_resp.
    unsafe { notif_send(listener.as_raw_fd(), &raw mut answer) }.map(drop)
}

/// Whether the call is still waiting, so that memory read from its thread was really that thread's.
pub fn still_waiting(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the descriptor and the number live across the call.
    unsafe { notif_id_valid(listener.as_raw_fd(), &raw const id) }.is_ok()
}

/// Sends a signal to the process behind a pidfd.
pub fn signal_process(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    // SAFETY: no memory is passed. pidfd_send_signal(2)
    let sent = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, std::ptr::null::<u8>(), 0)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Result of one `recvmsg(2)`.
#[derive(Debug)]
pub struct Received {
    /// Number of bytes received.
    pub len: usize,
    /// Whether the message was longer than the buffer.
    pub cut: bool,
    /// Whether more descriptors came than fit, or than this process may have.
    pub fds_cut: bool,
    /// The descriptors received.
    pub fds: Vec<OwnedFd>,
}

/// Receives one message and at most `room` descriptors, without waiting. The result owns every descriptor
/// that the kernel installed, even when others did not fit: nix's own function returns none of them in that
/// case, so they would leak.
pub fn receive_message(socket: BorrowedFd<'_>, buffer: &mut [u8], room: usize) -> io::Result<Received> {
    const FD: usize = size_of::<libc::c_int>();
    let too_much = || io::Error::from(io::ErrorKind::InvalidInput);
    let wanted = u32::try_from(room.saturating_mul(FD)).map_err(|_| too_much())?;
    // The kernel is given the length: the padding in the space would have room for one more descriptor.
    // SAFETY: arithmetic. cmsg(3)
    let (length, space) = unsafe { (libc::CMSG_LEN(wanted), libc::CMSG_SPACE(wanted) as usize) };
    // A vector of words, so that the headers in it are aligned.
    let mut control = vec![0u64; space.div_ceil(size_of::<u64>())];
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all of its fields may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
    if room > 0 {
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = length as _;
    }
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    // SAFETY: the header, the one buffer and the control buffer live across the call, with the lengths that
    // it is given.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    let mut fds = Vec::new();
    // SAFETY: the kernel wrote the headers and reports their total length in msg_controllen; the macros stay
    // within it. A header's data is as long as the header says, and holds descriptors just installed for this
    // process, which nothing else owns.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(about) = header.as_ref() {
            if (about.cmsg_level, about.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                #[allow(clippy::unnecessary_cast, reason = "with other C libraries it is an u32")]
                let data = (about.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let first = libc::CMSG_DATA(header).cast::<libc::c_int>();
                fds.extend((0..data / FD).map(|n| own(first.add(n).read_unaligned())));
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    let has = |flag| message.msg_flags & flag != 0;
    Ok(Received { len, cut: has(libc::MSG_TRUNC), fds_cut: has(libc::MSG_CTRUNC), fds })
}

/// Takes ownership of a descriptor that the kernel has just made for this process.
///
/// # Safety
/// No other value may own the descriptor.
pub unsafe fn own(fd: i32) -> OwnedFd {
    // SAFETY: the caller's contract.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// First descriptor after standard input, output and error: a socket passed by the parent process.
/// `sd_listen_fds(3)`
pub const FIRST_PASSED_FD: i32 = 3;

/// Takes that descriptor, once. Call only if the environment says that it was passed to this process.
pub fn passed() -> Option<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    // SAFETY: the parent process passed it to this process, and no other code here takes it.
    (!TAKEN.swap(true, Ordering::AcqRel)).then(|| unsafe { own(FIRST_PASSED_FD) })
}

/// Types whose descriptor stays the same for as long as the value lives.
pub trait Steady: AsRawFd {}
impl Steady for OwnedFd {}
impl Steady for BorrowedFd<'_> {}

/// Registers a descriptor with the runtime.
pub fn readiness<T: Steady>(fd: T) -> io::Result<AsyncFd<T>> {
    register(fd).map_err(Into::into)
}

/// Like [`readiness`], but returns the descriptor if the runtime cannot register it.
pub fn try_readiness<T: Steady>(fd: T) -> Result<AsyncFd<T>, T> {
    register(fd).map_err(|e| e.into_parts().0)
}

fn register<T: Steady>(fd: T) -> Result<AsyncFd<T>, AsyncFdRegisterError<T>> {
    // SAFETY: `Steady` types own or borrow one descriptor, always return that one, and keep it open while
    // they live.
    unsafe { AsyncFd::register_with_interest(fd, tokio::io::Interest::READABLE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills this many bytes of the stack.
    #[inline(never)]
    fn deep(bytes: usize) -> usize {
        let filled = std::hint::black_box([1_u8; 4096]);
        if bytes == 0 { 0 } else { deep(bytes.saturating_sub(filled.len())) + usize::from(filled[7]) }
    }

    /// Bytes of this process's memory, however they are used.
    fn memory(at: usize) -> [u8; 4096] {
        use std::os::unix::fs::FileExt as _;
        let mut bytes = [0; 4096];
        let memory = std::fs::File::open("/proc/self/mem").expect("memory of this process");
        memory.read_exact_at(&mut bytes, at as u64).expect("the stack of this thread");
        bytes
    }

    #[test]
    fn descriptors_with_numbers_of_streams_are_copied() {
        use std::os::fd::AsFd as _;
        let copied = above_streams(std::io::stdin().as_fd().as_fd()).expect("a copy").number();
        let file = std::fs::File::open("/dev/null").expect("a file");
        assert!(copied > 2, "{copied}");
        assert_eq!(above_streams(file.as_fd()).expect("itself").number(), file.as_raw_fd());
    }

    #[test]
    fn frames_stay_and_the_stack_below_them_is_given_back() {
        let own = std::hint::black_box([7_u8; 9000]);
        let here = std::ptr::from_ref(&own).expose_provenance();
        // Below the room, a page of 64 KiB and the calls that read it.
        let below = here - (200 << 10);
        for _ in 0..3 {
            assert!(deep(256 << 10) > 20);
            assert!(memory(below).contains(&1));
            give_back_stack();
            assert_eq!(memory(below), [0; 4096]);
            assert!(own.iter().all(|byte| *byte == 7));
        }
        let begin = stack_begin(here).expect("the stack of this thread");
        assert!(begin < here && here - begin < 64 << 20, "{begin:x} {here:x}");
    }

    #[test]
    fn only_whole_pages_between_two_addresses_are_given_back() {
        for page in [4 << 10, 16 << 10, 64 << 10] {
            for (begin, end, want) in [
                (page, 3 * page, Some((page, 2 * page))),
                (page + 1, 3 * page, Some((2 * page, page))),
                (page, 3 * page - 1, Some((page, page))),
                (page + 1, 3 * page - 1, None),
                (page, page + (4 << 10) - 1, None),
                (3 * page, page, None),
                (usize::MAX, usize::MAX, None),
                (0, 0, None),
            ] {
                assert_eq!(whole_pages(begin, end, page), want, "{begin} {end} {page}");
            }
        }
        assert!(page_size().is_some_and(|page| (4 << 10..=64 << 10).contains(&page)));
    }
}
