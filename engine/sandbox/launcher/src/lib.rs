//! The launcher: a small, single-threaded, freestanding program that forks sandboxes.
//!
//! Forking a large multi-threaded process is slow and unsafe, so `hotcell-sandbox` starts this program once
//! (from a sealed memfd) and asks it over a socket for every sandbox. This crate contains the program twice:
//! as the finished executable ([`EXECUTABLE`]), and as ordinary modules, so that they are linted, documented
//! and tested like any other code. There is no allocator, no C library and no dependency.
//!
//! | module | idea |
//! | --- | --- |
//! | [`wire`] | the protocol: plain data, decoded with bounds checks from any bytes |
//! | `sys` | raw system calls; the one module with `unsafe` calls into the kernel |
//! | `launch` | the launcher's loop: templates of root file systems, clones of host folders, new sandboxes |
//! | `template` | builds a root file system from a list of operations |
//! | `init` | process 1 of a sandbox: sets it up, attaches the job, reaps, reports the end |
//! | `runner` | the process that becomes the program: confines itself, waits for release, executes |
//! | `copy` | copies a workspace where the kernel cannot mount it copy-on-write |
//! | `primed` | a runtime that is started before its job is known; `primer.rs` is the library that makes it wait, `quiet.rs` captures its output meanwhile |
//! | `report` | init's messages to the supervisor |
//! | `anonymous` | shared anonymous memory, where no cgroup counts it |
//! | `sockets` | memory in the buffers of a sandbox's sockets, where no cgroup counts it |
//! | `tree`, `names`, `text` | the processes of a sandbox; listing folders; small strings |
//! | `procfs` | prepares the sandbox's `/proc` before the program sees it |
//! | `readback` | proves from `/proc` that every layer is in force |
#![cfg_attr(not(test), no_std)]

pub mod wire;

// The program's modules are compiled here too, for lints and unit tests; only `launch::main` is an entry
// point.
mod anonymous;
mod attach;
mod copy;
mod init;
mod ipc;
#[doc(hidden)]
pub mod launch;
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

/// The launcher as a static executable for this target, without any dependency on the host's libraries.
pub static EXECUTABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launcher"));

/// Script that a primed Node loads first; every root contains it.
pub static NODE_PRIMER: &str = include_str!("primer.js");

/// The library that is preloaded into primed runtimes, for this target's C library: see `src/primer.rs`.
pub static PRIMER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/primer"));
