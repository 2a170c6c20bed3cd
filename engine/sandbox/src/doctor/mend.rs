//! What would mend a layer that cannot be had. A pure table.

use std::path::Path;

use nix::errno::Errno;

use super::host::Facts;
use crate::layer::Layer;
use crate::outcome::LayerState;

/// What the cgroup module puts between a reason and its advice.
const TO_MEND: &str = "; to mend it: ";

/// The advice for a layer in this state; `None` where it is on.
pub fn mend(layer: Layer, state: &LayerState, facts: &Facts) -> Option<String> {
    let why = match state {
        LayerState::On => return None,
        LayerState::Off => return Some("nothing is broken: it was switched off".to_owned()),
        LayerState::Unavailable(why) => why,
    };
    if why.starts_with(super::judge::DOES_NOT_HOLD) {
        return Some(
            "do not trust a sandbox on this host; report it with `hotcell doctor --json`".to_owned(),
        );
    }
    if why.starts_with(super::judge::NOT_TRIED) {
        return Some(
            "nothing is known to be broken; run `hotcell doctor` again when the host is less busy".to_owned(),
        );
    }
    Some(match layer {
        Layer::UserNs => user_namespaces(facts),
        Layer::MountNs => namespace("mnt", facts),
        Layer::PidNs => processes(facts),
        Layer::NetNs => namespace("net", facts),
        Layer::IpcNs => namespace("ipc", facts),
        Layer::UtsNs => namespace("uts", facts),
        Layer::CgroupNs => namespace("cgroup", facts),
        Layer::TimeNs if facts.ceilings.contains(&"time") => ceiling("time"),
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

/// The reason of a state without the advice that follows it there.
pub fn without_advice(why: &str) -> &str {
    why.split(TO_MEND).next().unwrap_or(why)
}

/// An AppArmor profile that lets `program` make user namespaces where AppArmor forbids them to others: the text
/// for `/etc/apparmor.d/hotcell`, loaded with `apparmor_parser -r`. It confines nothing and grants nothing else.
#[must_use]
pub fn apparmor_profile(program: &Path) -> String {
    // Inside the quotes AppArmor takes a pattern.
    let mut path = String::new();
    for c in program.to_string_lossy().chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '^' | '@' | '"' | '\\') {
            path.push('\\');
        }
        path.push(c);
    }
    format!("abi <abi/4.0>,\nprofile hotcell \"{path}\" flags=(unconfined) {{\n  userns,\n}}\n")
}

fn user_namespaces(facts: &Facts) -> String {
    if facts.ceilings.contains(&"user") {
        return ceiling("user");
    }
    if facts.clone_forbidden {
        return "sudo sysctl -w kernel.unprivileged_userns_clone=1".to_owned();
    }
    if facts.apparmor_restricts {
        let profile = apparmor_profile(&facts.program).replace('\n', " ");
        return format!(
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (for everybody, until the next boot); \
             or for hotcell alone and for good, an AppArmor profile: echo '{}' | sudo tee /etc/apparmor.d/hotcell \
             && sudo apparmor_parser -r /etc/apparmor.d/hotcell",
            profile.trim().replace('\'', r"'\''")
        );
    }
    outer(
        facts,
        "a kernel with CONFIG_USER_NS=y that lets this user make user namespaces",
        "start the container so that it may make namespaces: docker run --security-opt seccomp=unconfined \
         --security-opt apparmor=unconfined --security-opt systempaths=unconfined",
    )
}

fn processes(facts: &Facts) -> String {
    if facts.ceilings.contains(&"pid") {
        return ceiling("pid");
    }
    outer(
        facts,
        "uncover this process's own /proc: an own one can be mounted only where no part of the outer one is \
         covered or read-only",
        "start the container with an unmasked /proc: docker run --security-opt systempaths=unconfined, \
         podman run --security-opt unmask=ALL, Kubernetes procMount: Unmasked",
    )
}

fn namespace(kind: &str, facts: &Facts) -> String {
    if facts.ceilings.contains(&kind) {
        return ceiling(kind);
    }
    if facts.ceilings.contains(&"user") || facts.apparmor_restricts || facts.clone_forbidden {
        return "mend user_ns first; an ordinary user makes all namespaces inside that one".to_owned();
    }
    outer(
        facts,
        "mend user_ns first, or run hotcell as root",
        "mend user_ns first, and start the container so that it may unshare(2), mount(2) and pivot_root(2)",
    )
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

/// Advice for the host itself, or for whoever starts the container.
fn outer(facts: &Facts, host: &str, container: &str) -> String {
    if facts.report.container.is_some() { container } else { host }.to_owned()
}

fn ceiling(kind: &str) -> String {
    format!("sudo sysctl -w user.max_{kind}_namespaces=15000")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::HostReport;

    fn docker() -> Facts {
        Facts {
            report: HostReport { container: Some("docker".into()), ..HostReport::default() },
            ..Facts::default()
        }
    }

    #[test]
    fn what_mends_what() {
        let bare = Facts::default;
        let apparmor = Facts { apparmor_restricts: true, program: "/opt/hot cell/hotcell".into(), ..bare() };
        let unbooted = Facts { landlock: Some(Errno::EOPNOTSUPP), modules: "lockdown,yama".into(), ..bare() };
        let none = |kind| Facts { ceilings: vec![kind], ..bare() };
        for (layer, facts, why, want) in [
            (Layer::UserNs, apparmor.clone(), "x", "kernel.apparmor_restrict_unprivileged_userns=0"),
            (Layer::UserNs, apparmor.clone(), "x", "\"/opt/hot cell/hotcell\" flags=(unconfined)"),
            (Layer::NetNs, apparmor, "x", "user_ns first"),
            (Layer::UserNs, none("user"), "x", "user.max_user_namespaces=15000"),
            (Layer::UserNs, Facts { clone_forbidden: true, ..bare() }, "x", "userns_clone=1"),
            (Layer::UserNs, docker(), "x", "systempaths=unconfined"),
            (Layer::UserNs, bare(), "x", "CONFIG_USER_NS"),
            (Layer::MountNs, none("mnt"), "x", "user.max_mnt_namespaces"),
            (Layer::PidNs, docker(), "x", "unmasked"),
            (Layer::PidNs, none("pid"), "x", "max_pid"),
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
        assert_eq!(without_advice("a; to mend it: b"), "a");
    }

    #[test]
    fn an_apparmor_profile_names_one_program_only() {
        let text = apparmor_profile(Path::new("/a/{b}*/hot\"cell"));
        assert!(text.contains(r#"profile hotcell "/a/\{b\}\*/hot\"cell" flags=(unconfined) {"#), "{text}");
        assert!(text.contains("\n  userns,\n"));
    }
}
