//! The freestanding executable: an entry point without a C library, and the few functions that compiled code
//! calls implicitly. Compiled by `build.rs`, not by cargo.
#![no_std]
#![no_main]
#![allow(dead_code, missing_docs)]

mod anonymous;
mod attach;
mod copy;
mod init;
mod ipc;
mod launch;
mod mem;
mod names;
mod primed;
mod procfs;
mod readback;
mod release;
mod report;
mod runner;
mod sockets;
mod sys;
mod template;
mod text;
mod tree;
mod wire;

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "and rsp, -16",
    "call {main}",
    "ud2",
    main = sym start,
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, xzr",
    "mov x30, xzr",
    "bl {main}",
    "brk #1",
    main = sym start,
);

extern "C" fn start() -> ! {
    launch::main()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // A bug: end at once. Every sandbox dies with this process, and the supervisor sees the closed socket.
    sys::exit(134)
}
