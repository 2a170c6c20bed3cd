//! Advice on how to make an unavailable layer available. A pure table.

use std::path::Path;

use nix::errno::Errno;

use crate::failure::{CEILING, ID_MAP};
use crate::host_scratch::SCRATCH;
use crate::layer::Layer;
use crate::outcome::LayerState;
use crate::refusal::LACKS;

use crate::advice::facts::{self, Facts};
use crate::advice::reasons::{DOES_NOT_HOLD, NO_SANDBOX, NOT_TRIED, SEE_MOUNT_NS, SEE_PID_NS, SEE_USER_NS};

/// Text that the cgroup module puts between a reason and its advice.
const TO_MEND: &str = "; to mend it: ";
/// Text reported when the launcher's memfd cannot be made executable.
const NO_PROGRAM: &str = "vm.memfd_noexec=2 forbids it";

/// The advice for a layer in this state; `None` where it is on.
pub fn mend(layer: Layer, state: &LayerState, facts: &Facts) -> Option<String> {
    let why = match state {
        LayerState::On => return None,
        LayerState::Off => return Some("nothing is broken: it was switched off".to_owned()),
        LayerState::Unavailable(why) => why,
    };
    if why.starts_with(DOES_NOT_HOLD) {
        return Some(
            "do not trust a sandbox on this host; report it with `hotcell doctor --json`".to_owned(),
        );
    }
    if why.starts_with(NOT_TRIED) {
        return Some(
            "nothing is known to be broken; run `hotcell doctor` again when the host is less busy, and see that sh, \
             ls and mknod are in its /usr/bin".to_owned(),
        );
    }
    let elsewhere =
        [(SEE_USER_NS, Layer::UserNs), (SEE_PID_NS, Layer::PidNs), (SEE_MOUNT_NS, Layer::MountNs)];
    if let Some((_, other)) = elsewhere.iter().find(|(words, _)| why == words) {
        return Some(format!("mend {other}"));
    }
    if why.contains(SCRATCH) {
        return Some("export TMPDIR=/dev/shm, or another folder that you can write".to_owned());
    }
    if why.starts_with(NO_SANDBOX) {
        return Some(format!("nothing is known to be broken here; mend {}", Layer::UserNs));
    }
    if why.contains(NO_PROGRAM) {
        return Some(outer(
            facts,
            "sudo sysctl -w vm.memfd_noexec=1",
            "start the container with a seccomp profile that allows memfd_create(2), where vm.memfd_noexec is not 2",
        ));
    }
    if facts.ceilings.contains(&layer) {
        return Some(ceiling(layer));
    }
    if why.contains(ID_MAP) && facts.report.user.starts_with("root") {
        // Since Linux 5.12, mapping root needs this capability.
        return Some(
            "start hotcell as another user than root, or with CAP_SETFCAP (podman run or docker run --cap-add SETFCAP)"
                .to_owned(),
        );
    }
    if why.contains("ENOSYS") && facts.report.container.is_none() && facts::kind(layer).is_some() {
        return Some("a kernel with mount_setattr(2) and clone3(2): Linux 5.12 or newer".to_owned());
    }
    // The kernel's error is the same whichever kind of namespace exceeds its limit.
    if why.contains(CEILING) {
        return Some(facts.ceilings.first().map_or_else(
            || {
                "raise the one that is used up: sysctl -a --pattern 'user.max.*namespaces' lists them"
                    .to_owned()
            },
            |layer| ceiling(*layer),
        ));
    }
    // Ubuntu's AppArmor allows making the namespace, but then refuses the operations that need it.
    if facts.apparmor_restricts
        && facts::kind(layer).is_some()
        && (why.contains("EACCES") || why.contains("EPERM"))
    {
        return Some(apparmor(facts));
    }
    Some(match layer {
        Layer::UserNs => user_namespaces(facts),
        Layer::PidNs => outer(
            facts,
            "uncover this process's own /proc: a new one can be mounted only where no part of the old one is \
             covered or read-only",
            &freer(facts),
        ),
        Layer::MountNs | Layer::NetNs | Layer::IpcNs | Layer::UtsNs | Layer::CgroupNs => outer(
            facts,
            "run hotcell as root, or on a kernel that lets this user make namespaces",
            &freer(facts),
        ),
        Layer::TimeNs => "a kernel with CONFIG_TIME_NS=y (Linux 5.6 or newer)".to_owned(),
        Layer::Landlock => landlock(facts),
        Layer::Seccomp => outer(
            facts,
            "a kernel with CONFIG_SECCOMP_FILTER=y",
            "start the container with a seccomp profile that allows seccomp(2), such as \
             --security-opt seccomp=unconfined",
        ),
        Layer::Cgroup => match why.split_once(TO_MEND) {
            Some((_, advice)) => advice.to_owned(),
            None => "run it as: systemd-run --user --scope -p Delegate=yes hotcell ...".to_owned(),
        },
        Layer::Rlimits | Layer::NoNewPrivs | Layer::Capabilities => {
            "every Linux has it; report it with `hotcell doctor --json`".to_owned()
        }
    })
}

/// A reason without the layer in front and the advice behind: the report shows those separately.
pub fn without_advice(why: &str) -> &str {
    let why = why.split_once(LACKS).map_or(why, |(_, why)| why);
    [TO_MEND, "; see `hotcell doctor`"].iter().fold(why, |why, advice| {
        let end = why.find(advice).unwrap_or(why.len());
        why[..end].trim_end_matches([':', ';', ' '])
    })
}

/// The refusal for a missing layer as one line: the attempt, the kernel's error, and the remedy.
pub fn line(layer: Layer, message: &str, facts: &Facts) -> String {
    let (before, why) = message.split_once(LACKS).unwrap_or(("", message));
    let advice = mend(layer, &LayerState::Unavailable(why.to_owned()), facts);
    // This works even without namespaces.
    let less =
        if facts::kind(layer).is_some() { "; `‹profile=landlock-only›` runs with less" } else { "" };
    let advice = advice.unwrap_or_default();
    format!("{before}{LACKS}{}{TO_MEND}{advice}{less}; see `hotcell doctor`", without_advice(why))
}

/// An AppArmor profile that lets `program` make user namespaces where AppArmor forbids them to other
/// programs: the text for `/etc/apparmor.d/NAME`, loaded with `apparmor_parser -r`. The profile confines
/// nothing and grants nothing else.
#[must_use]
pub fn apparmor_profile(program: &Path) -> String {
    // Within the quotes AppArmor expects a pattern.
    let mut path = String::new();
    for c in program.to_string_lossy().chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '^' | '@' | '"' | '\\') {
            path.push('\\');
        }
        path.push(c);
    }
    let name = apparmor_name(program);
    format!("abi <abi/4.0>,\nprofile {name} \"{path}\" flags=(unconfined) {{\n  userns,\n}}\n")
}

/// Name of the program's profile and its file: `hotcell` for the one that the Debian package installs, otherwise the path with dots, as
/// is usual there, so that one copy's profile does not replace another's.
fn apparmor_name(program: &Path) -> String {
    if program == Path::new("/usr/bin/hotcell") {
        return "hotcell".to_owned();
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let path = program.to_string_lossy();
    let dotted = path.trim_start_matches('/').replace('/', ".");
    dotted.chars().map(|c| if plain(c) { c } else { '_' }).collect()
}

fn user_namespaces(facts: &Facts) -> String {
    // The kernel's error is the same whichever kind of namespace may not be made.
    if let Some(layer) = facts.ceilings.first() {
        return ceiling(*layer);
    }
    if facts.clone_forbidden {
        return "sudo sysctl -w kernel.unprivileged_userns_clone=1".to_owned();
    }
    if facts.apparmor_restricts {
        return apparmor(facts);
    }
    outer(facts, "a kernel with CONFIG_USER_NS=y that lets this user make user namespaces", &freer(facts))
}

fn apparmor(facts: &Facts) -> String {
    let (name, profile) =
        (apparmor_name(&facts.program), apparmor_profile(&facts.program).replace('\n', " "));
    format!(
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (for everybody, until the next boot); \
         or for hotcell alone and for good, an AppArmor profile: echo '{}' | sudo tee /etc/apparmor.d/{name} \
         && sudo apparmor_parser -r /etc/apparmor.d/{name}",
        profile.trim().replace('\'', r"'\''")
    )
}

/// How to start the container so that sandboxes can be made in it.
fn freer(facts: &Facts) -> String {
    let how = match facts.report.container.as_deref() {
        Some("podman") => "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL",
        Some("kubernetes") => {
            "a pod with seccompProfile: {type: Unconfined}, procMount: Unmasked and hostUsers: false"
        }
        _ => {
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
             --security-opt systempaths=unconfined"
        }
    };
    format!("start the container so that it may make namespaces and mounts: {how}")
}

fn landlock(facts: &Facts) -> String {
    match facts.landlock {
        Some(Errno::EOPNOTSUPP) => {
            let others = if facts.modules.is_empty() { "…" } else { &facts.modules };
            format!(
                "the kernel has it and does not run it: boot with lsm=landlock,{others} \
                 (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub)"
            )
        }
        _ => outer(
            facts,
            "a kernel with CONFIG_SECURITY_LANDLOCK=y (Linux 5.13 or newer)",
            "start the container with a seccomp profile that allows landlock_create_ruleset(2) (a newer runtime \
             does), on a kernel with CONFIG_SECURITY_LANDLOCK=y",
        ),
    }
}

/// Advice for the host itself, or for the person who starts the container.
fn outer(facts: &Facts, host: &str, container: &str) -> String {
    if facts.report.container.is_some() { container } else { host }.to_owned()
}

fn ceiling(layer: Layer) -> String {
    format!("sudo sysctl -w user.max_{}_namespaces=15000", facts::kind(layer).unwrap_or("user"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::facts::HostReport;

    fn docker() -> Facts {
        Facts {
            report: HostReport { container: Some("docker".into()), ..HostReport::default() },
            ..Facts::default()
        }
    }

    #[test]
    fn host_facts_select_advice() {
        let bare = Facts::default;
        let apparmor = Facts { apparmor_restricts: true, program: "/opt/hot cell/hotcell".into(), ..bare() };
        let apparmor_only = apparmor.clone();
        let podman = Facts {
            report: HostReport { container: Some("podman".into()), ..HostReport::default() },
            ..bare()
        };
        let little = Facts {
            report: HostReport { user: "root of a user namespace".into(), ..HostReport::default() },
            ..bare()
        };
        let unbooted = Facts { landlock: Some(Errno::EOPNOTSUPP), modules: "lockdown,yama".into(), ..bare() };
        let none = |layer| Facts { ceilings: vec![layer], ..bare() };
        for (layer, facts, why, want) in [
            (Layer::UserNs, apparmor.clone(), "x", "kernel.apparmor_restrict_unprivileged_userns=0"),
            (Layer::UserNs, apparmor.clone(), "x", "\"/opt/hot cell/hotcell\" flags=(unconfined)"),
            (Layer::NetNs, apparmor, SEE_USER_NS, "mend user_ns"),
            (Layer::MountNs, bare(), SEE_PID_NS, "mend pid_ns"),
            (Layer::PidNs, bare(), SEE_MOUNT_NS, "mend mount_ns"),
            (Layer::Seccomp, bare(), "no sandbox can be made to try it in: x", "mend user_ns"),
            (
                Layer::UserNs,
                bare(),
                "cannot be made (EPERM); vm.memfd_noexec=2 forbids it",
                "vm.memfd_noexec=1",
            ),
            (Layer::UserNs, none(Layer::NetNs), "x", "user.max_net_namespaces=15000"),
            (Layer::NetNs, docker(), "x", "docker run --security-opt seccomp=unconfined"),
            (
                Layer::MountNs,
                apparmor_only,
                "mounts: Permission denied (EACCES)",
                "restrict_unprivileged_userns=0",
            ),
            (Layer::UserNs, bare(), CEILING, "sysctl -a --pattern"),
            (Layer::UserNs, none(Layer::TimeNs), CEILING, "user.max_time_namespaces=15000"),
            (
                Layer::Landlock,
                bare(),
                "no sandbox can be made to try it in: without a root of its own the program needs a scratch folder on the host: x",
                "TMPDIR",
            ),
            (Layer::UserNs, little.clone(), ID_MAP, "CAP_SETFCAP"),
            // As the doctor gets it from the refusal of a sandbox.
            (
                Layer::UserNs,
                little,
                "the layer user_ns cannot be had: writing the id map of a new user namespace: x",
                "CAP_SETFCAP",
            ),
            (
                Layer::UtsNs,
                podman,
                "x",
                "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL",
            ),
            (Layer::UserNs, none(Layer::UserNs), "x", "user.max_user_namespaces=15000"),
            (Layer::UserNs, Facts { clone_forbidden: true, ..bare() }, "x", "userns_clone=1"),
            (Layer::UserNs, docker(), "x", "systempaths=unconfined"),
            (Layer::UserNs, bare(), "x", "CONFIG_USER_NS"),
            (Layer::MountNs, bare(), "open_tree: no (ENOSYS)", "Linux 5.12"),
            (Layer::MountNs, none(Layer::MountNs), "x", "user.max_mnt_namespaces"),
            (Layer::PidNs, docker(), "x", "systempaths=unconfined"),
            (Layer::PidNs, none(Layer::PidNs), "x", "max_pid"),
            (Layer::TimeNs, bare(), "x", "CONFIG_TIME_NS"),
            (Layer::Landlock, unbooted, "x", "lsm=landlock,lockdown,yama"),
            (Layer::Landlock, Facts { landlock: Some(Errno::ENOSYS), ..bare() }, "x", "LANDLOCK=y"),
            (Layer::Landlock, docker(), "x", "container"),
            (Layer::Seccomp, bare(), "x", "CONFIG_SECCOMP_FILTER"),
            (Layer::Cgroup, bare(), "no: why; to mend it: do this", "do this"),
            (Layer::Cgroup, bare(), "no", "systemd-run --user --scope -p Delegate=yes"),
            (Layer::Rlimits, bare(), "x", "report"),
            (Layer::Landlock, bare(), "was set up and does not hold: x", "do not trust"),
            (Layer::Landlock, bare(), "not tried: x", "again"),
        ] {
            let advice = mend(layer, &LayerState::Unavailable(why.into()), &facts).unwrap();
            assert!(advice.contains(want), "{layer} {why}: {advice}");
            assert!(!advice.contains('\n'));
        }
        assert_eq!(mend(Layer::Seccomp, &LayerState::On, &bare()), None);
        assert!(mend(Layer::Seccomp, &LayerState::Off, &bare()).is_some());
        for (why, want) in [
            ("a; to mend it: b", "a"),
            ("a: b; see `hotcell doctor`", "a: b"),
            ("the layer x cannot be had: a: EPERM; to mend it: b", "a: EPERM"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_advice(why), want);
        }
    }

    #[test]
    fn refusal_line_has_mending_command() {
        let said = "the layer user_ns cannot be had: unshare: Operation not permitted (EPERM)";
        let debian = Facts { clone_forbidden: true, ..Facts::default() };
        assert_eq!(
            line(Layer::UserNs, said, &debian),
            format!(
                "{said}; to mend it: sudo sysctl -w kernel.unprivileged_userns_clone=1; \
                 `‹profile=landlock-only›` runs with less; see `hotcell doctor`"
            )
        );
        let cgroup =
            "the policy requires the layer cgroup, and it cannot be had: no: to mend; to mend it: do this";
        assert_eq!(line(Layer::Cgroup, cgroup, &Facts::default()), format!("{cgroup}; see `hotcell doctor`"));
    }

    #[test]
    fn apparmor_profile_names_one_program() {
        let text = apparmor_profile(Path::new("/a/{b}*/hot\"cell"));
        let want = r#"profile a._b__.hot_cell "/a/\{b\}\*/hot\"cell" flags=(unconfined) {"#;
        assert!(text.contains(want), "{text}");
        assert!(text.contains("\n  userns,\n"));
    }

    #[test]
    fn apparmor_profiles_of_two_copies_have_two_names() {
        for (program, want) in [
            ("/usr/bin/hotcell", "hotcell"),
            ("/usr/local/bin/hotcell", "usr.local.bin.hotcell"),
            ("/home/a b/.npm/_npx/1f/hotcell", "home.a_b..npm._npx.1f.hotcell"),
        ] {
            assert_eq!(apparmor_name(Path::new(program)), want);
            let facts = Facts { apparmor_restricts: true, program: program.into(), ..Facts::default() };
            let advice = apparmor(&facts);
            assert!(advice.ends_with(&format!("apparmor_parser -r /etc/apparmor.d/{want}")), "{advice}");
        }
    }
}
