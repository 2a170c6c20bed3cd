//! The library preloaded into a primed runtime (`LD_PRELOAD`). It depends only on a C library, and is
//! compiled by `build.rs`.
//!
//! The library takes control before the runtime's `main`: initializes the interpreter, exercises it a little,
//! reports readiness with one byte, and waits for the job. Then it adopts everything that a started program
//! would have got (descriptors, folder, environment, arguments) and lets the interpreter's own `main` do the
//! rest, so that the program sees no frame, module or flag of the library. All of this runs inside the
//! sandbox, confined by every layer, and is not trusted.
//!
//! CPython: initializing twice is what calling `Py_Main` after `Py_Initialize` has always done, see its issue
//! 78189 (bpo-34008).
#![no_std]
#![allow(dead_code, missing_docs)]

mod aside;
mod cpython;
mod quiet;
mod wire;

use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use cpython::Python;
use wire::{HANDOVER_FD, Job, LIBRARY_FD};

type Object = *mut c_void;
type Main = unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
type StartMain = unsafe extern "C" fn(
    Main,
    c_int,
    *mut *mut c_char,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
) -> c_int;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn unsetenv(name: *const c_char) -> c_int;
    fn recvmsg(fd: c_int, message: *mut MessageHeader, flags: c_int) -> isize;
    fn write(fd: c_int, bytes: *const c_void, len: usize) -> isize;
    fn mmap(at: *mut c_void, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: c_long) -> *mut c_void;
    fn munmap(at: *mut c_void, len: usize) -> c_int;
    fn malloc(len: usize) -> *mut c_void;
    static environ: *mut *mut c_char;
    fn clearenv() -> c_int;
    fn putenv(variable: *mut c_char) -> c_int;
    fn setenv(name: *const c_char, value: *const c_char, replace: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn chdir(path: *const c_char) -> c_int;
    fn execve(path: *const c_char, argv: *const *const c_char, env: *const *const c_char) -> c_int;
    fn _exit(code: c_int) -> !;
    fn abort() -> !;
}

/// End of the last argument.
static ROOM_END: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Exit status of a runtime that cannot be primed; no program was run.
const NO_RUNTIME: c_int = 70;
/// Exit status when the program could not be executed after all, as in a shell.
const NOT_EXECUTED: c_int = 127;
const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;
const RTLD_DEFAULT: *mut c_void = null_mut();

static MAIN: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
/// The arguments of this process: the program, the kind of runtime, modules, reserved room.
static STARTED_WITH: AtomicPtr<*mut c_char> = AtomicPtr::new(null_mut());

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the process.
    unsafe { abort() }
}

/// Replaces the C library's function of this name, which a program's first instructions call.
///
/// # Safety
/// Same contract as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_start_main(
    main: Main,
    argc: c_int,
    argv: *mut *mut c_char,
    init: *mut c_void,
    fini: *mut c_void,
    rtld_fini: *mut c_void,
    stack_end: *mut c_void,
) -> c_int {
    MAIN.store(main as *mut c_void, Ordering::Relaxed);
    // SAFETY: the name ends with a NUL; the symbol has this type, and gets the original arguments except for
    // `main`.
    unsafe {
        let next = dlsym(RTLD_NEXT, c"__libc_start_main".as_ptr());
        if next.is_null() {
            _exit(NO_RUNTIME);
        }
        let next: StartMain = core::mem::transmute(next);
        next(instead_of_main, argc, argv, init, fini, rtld_fini, stack_end)
    }
}

/// Set while an interpreter is initialized again: the encoding's name is then returned as the interpreter
/// itself spells it, because `sys.getfilesystemencoding` repeats the spelling.
static WRITTEN_SMALL: AtomicBool = AtomicBool::new(false);

/// Replaces the C library's function of this name.
///
/// # Safety
/// Same contract as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nl_langinfo(item: c_int) -> *const c_char {
    const CODESET: c_int = 14;
    // SAFETY: the symbol has this type.
    let found = unsafe {
        let next = dlsym(RTLD_NEXT, c"nl_langinfo".as_ptr());
        if next.is_null() {
            return c"".as_ptr();
        }
        let next: unsafe extern "C" fn(c_int) -> *const c_char = core::mem::transmute(next);
        next(item)
    };
    let small = item == CODESET && WRITTEN_SMALL.load(Ordering::Relaxed) && !found.is_null();
    // SAFETY: the C library returns a string.
    if small && unsafe { CStr::from_ptr(found) } == c"UTF-8" { c"utf-8".as_ptr() } else { found }
}

/// # Safety
/// Same contract as any `main`.
unsafe extern "C" fn instead_of_main(argc: c_int, argv: *mut *mut c_char, _: *mut *mut c_char) -> c_int {
    // SAFETY: called once, by the C library, in a process with one thread.
    unsafe {
        unsetenv(c"LD_PRELOAD".as_ptr());
        close(LIBRARY_FD);
        if argc < 4 || !quiet::listen() {
            _exit(NO_RUNTIME);
        }
        STARTED_WITH.store(argv, Ordering::Relaxed);
        let room = CStr::from_ptr(*argv.add(3));
        ROOM_END.store((*argv.add(3)).add(room.to_bytes().len()).cast(), Ordering::Relaxed);
        match CStr::from_ptr(*argv.add(1)) {
            kind if kind == c"node" => start_node(argv),
            kind if kind == c"python" => start_python(argv),
            _ => _exit(NO_RUNTIME),
        }
    }
}

/// # Safety
/// `argv` must be as in [`instead_of_main`].
unsafe fn start_python(argv: *mut *mut c_char) -> c_int {
    // SAFETY: the caller's contract; called once.
    unsafe {
        let Some(python) = Python::find() else { _exit(NO_RUNTIME) };
        if !aside::watch() {
            _exit(NO_RUNTIME);
        }
        let Some(own) = python.prepare(argv) else { _exit(NO_RUNTIME) };
        let job = wait();
        python.become_program(own, &job)
    }
}

/// Reports that the runtime is ready, waits for the job, and adopts all of it except environment and
/// arguments.
///
/// # Safety
/// Must be called once, by a single thread.
unsafe fn wait() -> Job<'static> {
    // SAFETY: the caller's contract; the arguments were stored by `main`.
    unsafe {
        if write(HANDOVER_FD, c"r".as_ptr().cast(), 1) != 1 {
            _exit(NO_RUNTIME);
        }
        let job = receive();
        show_arguments(STARTED_WITH.load(Ordering::Relaxed), &job);
        job
    }
}

/// Executes the job's program in the ordinary way. Slower, with the same result.
///
/// # Safety
/// `job` must be the one that was received.
unsafe fn start_anew(job: &Job<'static>) -> ! {
    // SAFETY: the arrays end with a null, the strings with a NUL.
    unsafe {
        let (argv, env) = (pointers(job.argv), pointers(job.env));
        for path in job.programs {
            execve(path.as_ptr(), argv, env);
        }
        _exit(NOT_EXECUTED)
    }
}

/// Runs Node's `main` with a file that is loaded before the program. That file waits by asking for the
/// priority of a process id that cannot exist.
///
/// # Safety
/// `argv` must be as in [`instead_of_main`].
unsafe fn start_node(argv: *mut *mut c_char) -> c_int {
    // SAFETY: the strings of `argv` are contiguous, and have room for these; `main` is Node's own.
    unsafe {
        // Node looks for contiguous arguments to find the space for a process title, should the program set
        // one.
        let mut place = (*argv).add(CStr::from_ptr(*argv).to_bytes().len() + 1);
        for (number, text) in [c"-r", NODE_FILE, c"/tmp/hotcell-program"].into_iter().enumerate() {
            let bytes = text.to_bytes_with_nul();
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), place.cast(), bytes.len());
            *argv.add(number + 1) = place;
            place = place.add(bytes.len());
        }
        let main: Main = core::mem::transmute(MAIN.load(Ordering::Relaxed));
        main(4, argv, environ)
    }
}

/// Path in every root of the file that Node loads first, `primer.js`. Its workers load it too, and find
/// nothing to do.
const NODE_FILE: &CStr = c"/dev/.primer.js";

/// Replaces the C library's function of this name. A primed Node calls it to report that it is ready, and
/// then that it has adopted the job.
///
/// # Safety
/// Same contract as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpriority(which: c_int, who: c_int) -> c_int {
    const WAIT: c_int = 2_000_000_011;
    const START_ANEW: c_int = 2_000_000_012;
    // SAFETY: only Node's first thread gets here with these arguments, once each, before the program is
    // loaded.
    unsafe {
        if who == WAIT && JOB.load(Ordering::Relaxed).is_null() {
            let place = malloc(size_of::<Job<'_>>()).cast::<Job<'static>>();
            if place.is_null() || !quiet::said_nothing() {
                _exit(NO_RUNTIME);
            }
            place.write(wait());
            JOB.store(place, Ordering::Relaxed);
            hand_to_node(&*place);
            return 0;
        }
        if !BEGUN.load(Ordering::Relaxed)
            && let Some(job) = JOB.load(Ordering::Relaxed).as_ref()
        {
            match who {
                WAIT => {
                    BEGUN.store(true, Ordering::Relaxed);
                    return 0;
                }
                START_ANEW => start_anew(job),
                _ => {}
            }
        }
        let next = dlsym(RTLD_NEXT, c"getpriority".as_ptr());
        if next.is_null() {
            return -1;
        }
        let next: unsafe extern "C" fn(c_int, c_int) -> c_int = core::mem::transmute(next);
        next(which, who)
    }
}

/// Whether the program of a primed Node has begun: its own calls are passed through.
static BEGUN: AtomicBool = AtomicBool::new(false);
/// The job of a primed Node.
static JOB: AtomicPtr<Job<'static>> = AtomicPtr::new(null_mut());

/// Sets the environment of the job, and puts the arguments into it, from which the script takes them out
/// again.
///
/// # Safety
/// No other thread may access the environment meanwhile.
unsafe fn hand_to_node(job: &Job<'static>) {
    // SAFETY: strings stored there live forever; others are copied.
    unsafe {
        clearenv();
        for variable in job.env {
            putenv(variable.as_ptr().cast_mut());
        }
        let mut name = [0u8; 32];
        for (number, argument) in job.argv.enumerate() {
            numbered(&mut name, number);
            setenv(name.as_ptr().cast(), argument.as_ptr(), 1);
        }
        let mut count = [0u8; 24];
        digits(&mut count, job.argv.len());
        setenv(c"HOTCELL_ARGC".as_ptr(), count.as_ptr().cast(), 1);
    }
}

/// Writes `HOTCELL_ARG_` and a number, ended by NUL.
fn numbered(into: &mut [u8; 32], number: usize) {
    const NAME: &[u8] = b"HOTCELL_ARG_";
    into[..NAME.len()].copy_from_slice(NAME);
    digits(&mut into[NAME.len()..], number);
}

/// Writes a number ended by NUL, if it fits.
fn digits(into: &mut [u8], number: usize) {
    let count = 1 + number.checked_ilog10().unwrap_or(0) as usize;
    let mut rest = number;
    for place in into[..=count].iter_mut().rev().skip(1) {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    into[count] = 0;
}

#[repr(C)]
struct MessageHeader {
    name: *mut c_void,
    name_len: u32,
    iov: *mut [usize; 2],
    iov_len: usize,
    control: *mut u8,
    control_len: usize,
    flags: c_int,
}

#[repr(C, align(8))]
struct Control([u8; 16 + 4 * 6]);

/// Waits for the job, and adopts its descriptors and its folder.
///
/// # Safety
/// Must be called once, in a process with one thread.
unsafe fn receive() -> Job<'static> {
    let (mut head, mut control) = ([0u8; 8], Control([0; 40]));
    let mut iov = [head.as_mut_ptr() as usize, head.len()];
    let mut header = MessageHeader {
        name: null_mut(),
        name_len: 0,
        iov: &raw mut iov,
        iov_len: 1,
        control: control.0.as_mut_ptr(),
        control_len: control.0.len(),
        flags: 0,
    };
    // SAFETY: the header's pointers live across the call; received descriptors are ours; the memory is never
    // unmapped.
    unsafe {
        let got = recvmsg(HANDOVER_FD, &raw mut header, 0);
        if got == 0 {
            _exit(0); // there will be no job
        }
        let bytes = usize::from_ne_bytes([
            control.0[0], control.0[1], control.0[2], control.0[3], control.0[4], control.0[5], control.0[6],
            control.0[7],
        ]);
        let count = bytes.saturating_sub(16) / 4;
        if got != 8 || !(4..=5).contains(&count) {
            _exit(NOT_EXECUTED);
        }
        let mut fds = [-1; 5];
        for (place, raw) in fds.iter_mut().zip(control.0[16..].chunks_exact(4)).take(count) {
            *place = c_int::from_ne_bytes([raw[0], raw[1], raw[2], raw[3]]);
        }
        close(HANDOVER_FD);
        let len = usize::try_from(u64::from_le_bytes(head)).unwrap_or(0);
        let memory = mmap(null_mut(), len, 1, 2, fds[0], 0);
        if memory as isize == -1 {
            _exit(NOT_EXECUTED);
        }
        close(fds[0]);
        for (place, fd) in (0..).zip(&fds[1..count]) {
            if *fd != place {
                dup2(*fd, place);
                close(*fd);
            }
        }
        let Ok(job) = Job::decode(core::slice::from_raw_parts(memory.cast(), len)) else { _exit(NOT_EXECUTED) };
        if chdir(job.cwd.as_ptr()) != 0 {
            _exit(NOT_EXECUTED);
        }
        job
    }
}

/// Writes the job's arguments to where the kernel shows this process's own, as far as they fit.
///
/// # Safety
/// `argv` must be the process's original array: its strings are contiguous.
unsafe fn show_arguments(argv: *mut *mut c_char, job: &Job<'_>) {
    // SAFETY: the caller's contract; the end of the last string was stored before any was moved.
    let place = unsafe {
        let start = (*argv).cast::<u8>();
        let len = ROOM_END.load(Ordering::Relaxed).offset_from(start).unsigned_abs();
        core::slice::from_raw_parts_mut(start, len)
    };
    place.fill(0);
    let mut rest = place;
    for argument in job.argv {
        let bytes = argument.to_bytes_with_nul();
        let Some((here, more)) = rest.split_at_mut_checked(bytes.len()) else { return };
        here.copy_from_slice(bytes);
        rest = more;
    }
}

/// Makes an array of pointers that ends with a null and is never freed.
///
/// # Safety
/// None; the strings live forever.
unsafe fn pointers(strings: wire::List<'static, &'static CStr>) -> *const *const c_char {
    // SAFETY: fresh memory of the right size, written before it is read.
    unsafe {
        let array = malloc((strings.len() + 1) * size_of::<usize>()).cast::<*const c_char>();
        if array.is_null() {
            _exit(NOT_EXECUTED);
        }
        let mut count = 0;
        for string in strings {
            *array.add(count) = string.as_ptr();
            count += 1;
        }
        *array.add(count) = null();
        array
    }
}
