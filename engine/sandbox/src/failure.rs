//! Explains a failed step to a person: the layer, the kernel's error, and the remedy. A pure table.

use hotcell_launcher::wire::{OVERLAY, Step, detail as of};
use nix::errno::Errno;

use crate::layer::Layer;
use crate::outcome::Cause;
use crate::refusal::{LACKS, Refusal};

/// Message for the case that the kernel lets this user send no more descriptors. `unix(7)`, ETOOMANYREFS
pub const CROWDED: &str = "so many descriptors of this user are under way over sockets that the kernel takes no more (ETOOMANYREFS): a \
                           program of this user sends them and reads none; end it, or raise the hard limit of descriptors (`ulimit -Hn`)";

/// A failure reported by the launcher or by init.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step that failed.
    pub step: Step,
    /// The error number from the kernel.
    pub errno: Errno,
    /// Further detail; the meaning depends on the step.
    pub detail: u64,
}

/// Turns a failure into a refusal. `program` and `folder` are used in messages.
pub fn explain(failure: Failure, program: &str, folder: &str) -> Refusal {
    let Failure { step, errno, detail } = failure;
    let detail = usize::try_from(detail).unwrap_or(usize::MAX);
    let said = errno.desc();
    let layer = layer(step, detail);
    if errno == Errno::ETOOMANYREFS {
        return Refusal::internal(CROWDED);
    }
    let (cause, message) = match step {
        Step::Exec => return execution(errno, program),
        Step::Cwd => (
            Cause::Refused,
            format!("cannot start in {folder} inside the sandbox: {said}; name a folder that exists there"),
        ),
        Step::Template if errno == Errno::EROFS => (
            Cause::Refused,
            "a folder is to be mounted below one of the host's that has no such place; use a path inside that is \
             new, or below /home/sandbox"
                .to_owned(),
        ),
        Step::Template if detail == OVERLAY => (
            Cause::Refused,
            format!(
                "the layers of the image cannot be mounted over one another (overlay): {said}; an ordinary user needs \
                 Linux 5.11, and the state folder a file system that overlays take, such as ext4, xfs or btrfs"
            ),
        ),
        Step::Mounts | Step::Scratch if errno == Errno::ENOSPC => (
            Cause::Refused,
            format!(
                "the sandbox's own folders do not fit: {said}; raise ‹max_files› or ‹max_disk›, or the kernel's limit \
                 of mounts (sysctl fs.mount-max)"
            ),
        ),
        Step::CloneMount if detail == of::clone_mount::REPLACED => (
            Cause::Refused,
            "a folder was replaced by another while the sandbox was made; nothing ran, try again".to_owned(),
        ),
        Step::CloneMount if detail == of::clone_mount::OWNER => (
            Cause::Refused,
            format!(
                "the file system of a folder cannot show its owner as another user (idmapped mount): {said}"
            ),
        ),
        Step::Landlock if errno == Errno::EACCES => (
            Cause::Refused,
            "a folder that is to be shown lies below one that the sandbox's user may not enter, and without a mount \
             namespace it keeps its place: use another profile, or a folder that everybody may reach"
                .to_owned(),
        ),
        Step::Stdio if detail == of::stdio::TERMINAL => (
            Cause::Refused,
            format!(
                "no terminal can be made in the sandbox: {said}; the host has a limit of terminals (sysctl \
                 kernel.pty.max), end programs that have some, or run it without -t"
            ),
        ),
        Step::Readback => (
            Cause::Refused,
            match layer {
                Some(layer) => format!("the layer {layer} was set and is not in force; nothing ran"),
                None => format!("what is in force could not be read back: {said}; nothing ran"),
            },
        ),
        Step::Decode | Step::Release | Step::Supervise | Step::InitFilter => {
            (Cause::Internal, format!("hotcell failed at {step:?} ({detail}): {said}"))
        }
        _ => match (layer, tried(step, detail)) {
            (Some(layer), Some(tried)) => {
                (Cause::Refused, format!("the layer {layer} {LACKS}{tried}: {said} ({errno:?}){}", hint(step, errno)))
            }
            _ => (
                Cause::Refused,
                format!("the step {step:?} ({detail}) of making a sandbox failed: {said}; see `hotcell doctor`"),
            ),
        },
    };
    Refusal { cause, layer, lacks: None, message }
}

/// The layer that a step sets up.
fn layer(step: Step, detail: usize) -> Option<Layer> {
    Some(match step {
        Step::Fork | Step::Map | Step::Ids | Step::Ceiling => Layer::UserNs,
        // The user namespace itself, and the first operations that need a capability in it.
        Step::Hello if detail <= of::hello::GID_MAP => Layer::UserNs,
        Step::Hello if detail == of::hello::LOOPBACK => Layer::NetNs,
        Step::Hello
        | Step::Template
        | Step::CloneMount
        | Step::Root
        | Step::Pivot
        | Step::Scratch
        | Step::Devpts
        | Step::Mounts => Layer::MountNs,
        Step::Proc | Step::Masks => Layer::PidNs,
        Step::Cgroup => {
            if detail == of::cgroup::NAMESPACE {
                Layer::CgroupNs
            } else {
                Layer::Cgroup
            }
        }
        Step::Network => {
            if detail == of::network::HOST_NAME {
                Layer::UtsNs
            } else {
                Layer::NetNs
            }
        }
        Step::Capabilities => {
            if detail == of::capabilities::NO_NEW_PRIVS {
                Layer::NoNewPrivs
            } else {
                Layer::Capabilities
            }
        }
        Step::Landlock => Layer::Landlock,
        Step::Seccomp | Step::InitFilter => Layer::Seccomp,
        Step::Rlimits => Layer::Rlimits,
        Step::Readback => return read_back(detail),
        _ => return None,
    })
}

/// First operation attempted in a new user namespace.
pub const ID_MAP: &str = "writing the id map of a new user namespace";

/// Describes the operation that a step attempts to set up a layer.
const fn tried(step: Step, detail: usize) -> Option<&'static str> {
    Some(match step {
        Step::Fork => "making a process in namespaces of its own (clone3)",
        Step::Hello => match detail {
            0 | of::hello::NAMESPACES => "making namespaces for the launcher (unshare)",
            of::hello::SETGROUPS..=of::hello::GID_MAP => ID_MAP,
            of::hello::OWN_ROOT => "mounts in a new mount namespace",
            of::hello::LOOPBACK => "switching the loopback of a new network namespace on",
            _ => return None,
        },
        Step::Map => ID_MAP,
        Step::Ids => "becoming the sandbox's user",
        Step::Ceiling => "forbidding user namespaces inside",
        // The other details concern the folder that is to be mounted.
        Step::CloneMount if !matches!(detail, 0 | of::clone_mount::CLONE | of::clone_mount::ATTRIBUTES) => {
            return None;
        }
        Step::Template | Step::CloneMount => "building the root (open_tree, mount_setattr, mount)",
        Step::Root | Step::Pivot => "entering the root (move_mount, pivot_root)",
        Step::Scratch | Step::Devpts => "mounting scratch, terminals and queues",
        Step::Proc => "mounting a /proc of its own",
        Step::Masks => "covering parts of /proc",
        Step::Cgroup if detail == of::cgroup::NAMESPACE => "making a cgroup namespace",
        Step::Cgroup => "entering its cgroup",
        Step::Network if detail == of::network::HOST_NAME => "setting the sandbox's host name",
        Step::Network if detail == of::network::LOOPBACK => {
            "switching the loopback of a new network namespace on"
        }
        Step::Network if detail == of::network::LISTEN => "listening on the loopback for the sandbox's proxy",
        Step::Network => "making a network namespace",
        Step::Capabilities if detail == of::capabilities::NO_NEW_PRIVS => "setting no_new_privs",
        Step::Capabilities => "giving up capabilities",
        Step::Landlock => "making the ruleset and entering it",
        Step::Seccomp => "installing the filter (seccomp)",
        Step::Rlimits => "setting a limit",
        _ => return None,
    })
}

/// Appended to the kernel's error where the limit on a kind of namespace is exceeded.
pub const CEILING: &str = ", a ceiling user.max_*_namespaces is reached";

/// Explains the kernel's error where its text alone is misleading.
const fn hint(step: Step, errno: Errno) -> &'static str {
    match (step, errno) {
        (Step::Fork | Step::Hello | Step::Network, Errno::ENOSPC) => CEILING,
        (Step::Fork, Errno::ENOSYS) => ", as under the filter of a container",
        (Step::Proc, Errno::EPERM) => ", because parts of the host's are covered, as in a container",
        _ => "",
    }
}

fn read_back(detail: usize) -> Option<Layer> {
    Some(match detail {
        of::readback::NO_NEW_PRIVS => Layer::NoNewPrivs,
        of::readback::SECCOMP => Layer::Seccomp,
        of::readback::CAPABILITIES => Layer::Capabilities,
        of::readback::IDS => Layer::UserNs,
        of::readback::ROOT_FLAGS => Layer::MountNs,
        of::readback::CGROUP => Layer::Cgroup,
        _ => return None,
    })
}

fn execution(errno: Errno, program: &str) -> Refusal {
    let (cause, message) = match errno {
        Errno::ENOENT | Errno::ENOTDIR => (
            Cause::NotFound,
            format!("{program}: not found inside the sandbox, or the interpreter that it names is not"),
        ),
        Errno::ENOEXEC => (
            Cause::NotExecutable,
            format!(
                "{program}: not a program for this machine; a script needs a first line such as #!/bin/sh"
            ),
        ),
        Errno::EACCES | Errno::EPERM | Errno::EISDIR => (
            Cause::NotExecutable,
            format!("{program}: cannot be executed ({}); is it a file with the x bit?", errno.desc()),
        ),
        Errno::E2BIG => {
            (Cause::Refused, format!("{program}: arguments and environment are longer than Linux takes"))
        }
        Errno::ETXTBSY => (
            Cause::NotExecutable,
            format!("{program}: it is open for writing; wait until whoever writes it has closed it"),
        ),
        Errno::EAGAIN | Errno::ENOMEM => (
            Cause::Refused,
            format!(
                "{program}: cannot start within its limits ({}); raise ‹memory› or ‹max_processes›",
                errno.desc()
            ),
        ),
        _ => (Cause::NotExecutable, format!("{program}: {}", errno.desc())),
    };
    Refusal { cause, layer: None, lacks: None, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_name_layer_and_advice() {
        for (step, errno, detail, layer, word) in [
            (Step::Fork, Errno::EPERM, 0, Some(Layer::UserNs), "user_ns cannot be had: making a process"),
            (Step::Fork, Errno::ENOSPC, 0, Some(Layer::UserNs), "(ENOSPC), a ceiling user.max"),
            (Step::Fork, Errno::ENOSYS, 0, Some(Layer::UserNs), "(ENOSYS), as under the filter"),
            (Step::Hello, Errno::EPERM, 1, Some(Layer::UserNs), "(unshare): Operation not permitted (EPERM)"),
            (Step::Hello, Errno::EACCES, 3, Some(Layer::UserNs), "id map"),
            (Step::Hello, Errno::EACCES, 5, Some(Layer::MountNs), "mounts"),
            (Step::Map, Errno::EPERM, 0, Some(Layer::UserNs), "id map"),
            (Step::Landlock, Errno::EINVAL, 3, Some(Layer::Landlock), "ruleset"),
            (Step::Landlock, Errno::EACCES, 3, Some(Layer::Landlock), "everybody may reach"),
            (Step::Readback, Errno::EPERM, 2, Some(Layer::Seccomp), "not in force"),
            (Step::Cgroup, Errno::EPERM, 0, Some(Layer::Cgroup), "cgroup cannot be had"),
            (Step::Cgroup, Errno::EPERM, 99, Some(Layer::CgroupNs), "cgroup_ns cannot be had"),
            (Step::CloneMount, Errno::ESTALE, 3, Some(Layer::MountNs), "replaced"),
            (Step::Proc, Errno::EPERM, 0, Some(Layer::PidNs), "container"),
            (Step::Network, Errno::EPERM, 1, Some(Layer::UtsNs), "host name"),
            (Step::Template, Errno::EPERM, OVERLAY as u64, Some(Layer::MountNs), "layers of the image"),
            (Step::Cwd, Errno::ENOENT, 0, None, "/there"),
        ] {
            let refusal = explain(Failure { step, errno, detail }, "prog", "/there");
            assert_eq!(refusal.layer, layer, "{step:?}");
            assert!(refusal.message.contains(word), "{step:?}: {refusal}");
        }
    }

    #[test]
    fn execution_failures_map_to_three_causes() {
        for (errno, cause) in [
            (Errno::ENOENT, Cause::NotFound),
            (Errno::EACCES, Cause::NotExecutable),
            (Errno::ENOEXEC, Cause::NotExecutable),
            (Errno::ETXTBSY, Cause::NotExecutable),
            (Errno::E2BIG, Cause::Refused),
        ] {
            let failure = Failure { step: Step::Exec, errno, detail: 0 };
            assert_eq!(explain(failure, "prog", "/").cause, cause, "{errno}");
        }
    }
}
