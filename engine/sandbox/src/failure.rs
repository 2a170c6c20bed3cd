//! What a failed step means to a person: the layer, what the kernel said, and what to do. A pure table.

use hotcell_launcher::wire::Step;
use nix::errno::Errno;

use crate::layer::Layer;
use crate::outcome::Cause;
use crate::plan::Refusal;

/// A failure as launcher or init told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step.
    pub step: Step,
    /// The kernel's answer.
    pub errno: Errno,
    /// Depends on the step.
    pub detail: u64,
}

/// What a failure comes to. `program` and `folder` are for messages.
pub fn explain(failure: Failure, program: &str, folder: &str) -> Refusal {
    let Failure { step, errno, detail } = failure;
    let said = errno.desc();
    let layer = match step {
        Step::Fork | Step::Map | Step::Ids => Some(Layer::UserNs),
        Step::Hello if detail == 1 => Some(Layer::UserNs),
        Step::Hello
        | Step::Template
        | Step::CloneMount
        | Step::Root
        | Step::Pivot
        | Step::Scratch
        | Step::Devpts
        | Step::Mounts => Some(Layer::MountNs),
        Step::Proc | Step::Masks => Some(Layer::PidNs),
        Step::Cgroup => Some(if detail == 99 { Layer::CgroupNs } else { Layer::Cgroup }),
        Step::Network => Some(if detail == 2 { Layer::NetNs } else { Layer::UtsNs }),
        Step::Ceiling => Some(Layer::UserNs),
        Step::Capabilities => Some(if detail == 1 { Layer::NoNewPrivs } else { Layer::Capabilities }),
        Step::Landlock => Some(Layer::Landlock),
        Step::Seccomp | Step::InitFilter => Some(Layer::Seccomp),
        Step::Rlimits => Some(Layer::Rlimits),
        Step::Readback => read_back(detail),
        _ => None,
    };
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
        Step::CloneMount if detail == 3 => (
            Cause::Refused,
            "a folder was replaced by another while the sandbox was made; nothing ran, try again".to_owned(),
        ),
        Step::CloneMount if detail == 6 => (
            Cause::Refused,
            format!(
                "the file system of a folder cannot show its owner as another user (idmapped mount): {said}"
            ),
        ),
        Step::Fork | Step::Hello | Step::Network if errno == Errno::ENOSPC => (
            Cause::Refused,
            "a ceiling of this host on namespaces is reached: raise the user.max_*_namespaces that is too low \
             (`sysctl -a --pattern 'user.max.*namespaces'` lists them)"
                .to_owned(),
        ),
        Step::Fork if errno == Errno::ENOSYS => (
            Cause::Refused,
            "the system call clone3 is not there, as under the filter of some containers: run outside of it, or \
             allow clone3 in the container's seccomp profile"
                .to_owned(),
        ),
        Step::Fork | Step::Hello
            if detail <= 1 && matches!(errno, Errno::EPERM | Errno::EACCES | Errno::EUSERS) =>
        {
            (Cause::Refused, format!("user namespaces are forbidden on this host ({said}): {USER_NS_HELP}"))
        }
        Step::Map if matches!(errno, Errno::EPERM | Errno::EACCES) => (
            Cause::Refused,
            format!("the map of a new user namespace was refused ({said}), as AppArmor does: {USER_NS_HELP}"),
        ),
        Step::Hello if detail > 1 => (
            Cause::Refused,
            format!(
                "the launcher's own namespaces could not be set up (part {detail}): {said}; {USER_NS_HELP}"
            ),
        ),
        Step::Proc if errno == Errno::EPERM => (
            Cause::Refused,
            "an own /proc cannot be mounted, because parts of the host's are covered (as in a container): \
             run the outer container with an unmasked /proc"
                .to_owned(),
        ),
        Step::Landlock if errno == Errno::EACCES => (
            Cause::Refused,
            "a folder that is to be shown lies below one that the sandbox's user may not enter, and without a mount \
             namespace it keeps its place: use another profile, or a folder that everybody may reach"
                .to_owned(),
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
        _ => (
            Cause::Refused,
            format!("the step {step:?} ({detail}) of making a sandbox failed: {said}; see `hotcell doctor`"),
        ),
    };
    Refusal { cause, layer, message }
}

/// What helps where user namespaces are forbidden.
pub const USER_NS_HELP: &str = "on Ubuntu 24.04 `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0` allows them \
     until the next boot; `hotcell doctor` tells more; `--profile landlock-only` runs with less";

fn read_back(detail: u64) -> Option<Layer> {
    Some(match detail {
        1 => Layer::NoNewPrivs,
        2 => Layer::Seccomp,
        3 => Layer::Capabilities,
        4 => Layer::UserNs,
        5 => Layer::MountNs,
        6 => Layer::Cgroup,
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
        Errno::EAGAIN | Errno::ENOMEM => (
            Cause::Refused,
            format!(
                "{program}: cannot start within its limits ({}); raise --memory or --processes",
                errno.desc()
            ),
        ),
        _ => (Cause::NotExecutable, format!("{program}: {}", errno.desc())),
    };
    Refusal { cause, layer: None, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_name_their_layer_and_what_to_do() {
        for (step, errno, detail, layer, word) in [
            (Step::Fork, Errno::EPERM, 0, Some(Layer::UserNs), "sysctl"),
            (Step::Hello, Errno::EPERM, 1, Some(Layer::UserNs), "landlock-only"),
            (Step::Map, Errno::EPERM, 0, Some(Layer::UserNs), "AppArmor"),
            (Step::Landlock, Errno::EINVAL, 3, Some(Layer::Landlock), "doctor"),
            (Step::Landlock, Errno::EACCES, 3, Some(Layer::Landlock), "everybody may reach"),
            (Step::Readback, Errno::EPERM, 2, Some(Layer::Seccomp), "not in force"),
            (Step::Cgroup, Errno::EPERM, 0, Some(Layer::Cgroup), "doctor"),
            (Step::Cgroup, Errno::EPERM, 99, Some(Layer::CgroupNs), "doctor"),
            (Step::CloneMount, Errno::ESTALE, 3, Some(Layer::MountNs), "replaced"),
            (Step::Proc, Errno::EPERM, 0, Some(Layer::PidNs), "container"),
            (Step::Cwd, Errno::ENOENT, 0, None, "/there"),
        ] {
            let refusal = explain(Failure { step, errno, detail }, "prog", "/there");
            assert_eq!(refusal.layer, layer, "{step:?}");
            assert!(refusal.message.contains(word), "{step:?}: {refusal}");
        }
    }

    #[test]
    fn execution_failures_have_the_shell_s_three_causes() {
        for (errno, cause) in [
            (Errno::ENOENT, Cause::NotFound),
            (Errno::EACCES, Cause::NotExecutable),
            (Errno::ENOEXEC, Cause::NotExecutable),
            (Errno::E2BIG, Cause::Refused),
        ] {
            let failure = Failure { step: Step::Exec, errno, detail: 0 };
            assert_eq!(explain(failure, "prog", "/").cause, cause, "{errno}");
        }
    }
}
