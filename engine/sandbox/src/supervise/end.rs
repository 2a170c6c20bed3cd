//! How a run ended: a status of the kernel -> cause, exit code, signal; or why there is no proper end.

use std::io;

use nix::errno::Errno;

use crate::advice::advise;
use crate::failure::{Failure, explain};
use crate::outcome::Cause;
use crate::refusal::Refusal;
use crate::shared::out_of_descriptors;

/// The reason why a run has no proper end.
#[derive(Debug)]
pub(super) enum Lost {
    Failed(Failure),
    Silent,
    Io(io::Error),
}

impl Lost {
    pub(super) fn explain(&self, program: &str, folder: &str) -> Refusal {
        match self {
            Self::Failed(failure) => advise(explain(*failure, program, folder)),
            Self::Silent => Refusal::internal(
                "the sandbox ended without a report: its launcher or its process 1 was killed, by somebody outside of it or by \
                 the kernel, where this host had no memory left",
            ),
            Self::Io(e) if e.raw_os_error() == Some(Errno::EMFILE as i32) => {
                out_of_descriptors(Errno::EMFILE.into())
            }
            Self::Io(e) => Refusal::internal(format!("the sandbox cannot be followed: {e}")),
        }
    }
}

/// Cause, exit code and signal of a program that was not stopped.
pub(super) fn end(
    status: Option<i32>,
    verdict: Option<Cause>,
    oom: bool,
) -> (Cause, Option<i32>, Option<String>) {
    let Some(status) = status else {
        return (verdict.unwrap_or(if oom { Cause::MemoryLimit } else { Cause::Internal }), None, None);
    };
    if nix::libc::WIFEXITED(status) {
        return (Cause::Exited, Some(nix::libc::WEXITSTATUS(status)), None);
    }
    let signal = nix::libc::WTERMSIG(status);
    let cause = match signal {
        // Killed by the OOM killer before a sample showed it.
        nix::libc::SIGKILL if oom => Cause::MemoryLimit,
        // The limit of one process backs up the sum's. The signal alone is not proof, since any process can
        // send it.
        nix::libc::SIGXCPU if verdict == Some(Cause::CpuLimit) => Cause::CpuLimit,
        _ => Cause::Signaled,
    };
    (cause, None, signal_name(status))
}

pub(super) fn signal_name(status: i32) -> Option<String> {
    if !nix::libc::WIFSIGNALED(status) {
        return None;
    }
    let number = nix::libc::WTERMSIG(status);
    let name = nix::sys::signal::Signal::try_from(number).map(|s| s.as_str().to_owned());
    Some(name.unwrap_or_else(|_| format!("SIG{number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_ends_map_to_causes() {
        const EXIT_3: i32 = 3 << 8;
        for (status, oom, verdict, want) in [
            (Some(0), false, None, (Cause::Exited, Some(0), None)),
            (Some(EXIT_3), true, Some(Cause::MemoryLimit), (Cause::Exited, Some(3), None)),
            (Some(9), false, None, (Cause::Signaled, None, Some("SIGKILL"))),
            (Some(9), true, None, (Cause::MemoryLimit, None, Some("SIGKILL"))),
            (Some(11), false, None, (Cause::Signaled, None, Some("SIGSEGV"))),
            (Some(24), false, Some(Cause::CpuLimit), (Cause::CpuLimit, None, Some("SIGXCPU"))),
            (Some(24), false, None, (Cause::Signaled, None, Some("SIGXCPU"))),
            (Some(40), false, None, (Cause::Signaled, None, Some("SIG40"))),
            (None, true, None, (Cause::MemoryLimit, None, None)),
            (None, false, None, (Cause::Internal, None, None)),
        ] {
            let (cause, code, signal) = end(status, verdict, oom);
            assert_eq!((cause, code, signal.as_deref()), want, "{status:?} {oom}");
        }
    }
}
