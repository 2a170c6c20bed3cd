//! Hosts that lack something: each run is either refused with the right message, or says what is missing.

use hotcell_end_to_end::{Ended, User, Weak, everyone, find, is_root};
use serde_json::Value;

/// End of a refusal: the advice, and where to find more.
fn mends(command: &str) -> String {
    format!("; to mend it: {command}; `--profile landlock-only` runs with less; see `hotcell doctor`\n")
}

fn run(user: &User, host: &Weak, options: &[&str], script: &str) -> Ended {
    // Only the layers of the run itself: the guard's reader, which reads the script first, would be refused
    // before it.
    let words = [&["run", "--guard", "off"], options, &["--", "sh", "-c", script]].concat();
    user.hotcell_on(host, words).end()
}

fn layers(user: &User, host: &Weak, options: &[&str]) -> Value {
    let options: Vec<&str> = options.iter().copied().chain(["--json"]).collect();
    run(user, host, &options, "true").code(0).json()["layers"].clone()
}

fn doctor(user: &User, host: &Weak) -> Value {
    user.hotcell_on(host, ["doctor", "--json"]).end().code(0).json()
}

/// Asserts that `standard` is refused with this line, and that the doctor gives the same advice;
/// `landlock-only` runs and says what is off.
fn no_namespaces(user: &User, host: &Weak, layer: &str, said: &str, command: &str) {
    let refused = run(user, host, &[], "echo ran");
    refused.code(125).prints("").says_one_line(said);
    assert!(
        refused.stderr.starts_with("hotcell: refused: ")
            && refused.stderr.contains(&format!("the layer {layer} cannot be had: ")),
        "{refused:#?}"
    );
    assert!(refused.stderr.ends_with(&mends(command)), "{refused:#?}");
    let outcome = run(user, host, &["--json"], "echo ran").code(125).json();
    assert_eq!(outcome["cause"], "refused");
    assert!(
        outcome["layers"][layer].as_str().unwrap_or_default().starts_with("unavailable: "),
        "{outcome:#}"
    );

    let plain = run(user, host, &["--profile", "landlock-only", "--json"], "echo ran").code(0).json();
    assert_eq!(plain["stdout"]["text"], "ran\n", "{plain:#}");
    for (name, state) in [("user_ns", "off"), ("mount_ns", "off"), ("landlock", "on"), ("seccomp", "on")] {
        assert_eq!(plain["layers"][name], state, "{name}: {plain:#}");
    }
    let report = doctor(user, host);
    assert_eq!(report["layers"][layer]["mend"], command, "{report:#}");
    assert!(report["layers"][layer]["answer"].as_str().is_some_and(|a| a.contains(said)), "{report:#}");
    assert_eq!(report["profiles"]["landlock-only"], "available", "{report:#}");
    let standard = report["profiles"]["standard"].as_str().unwrap_or_default();
    assert!(standard.starts_with("refused: it needs "), "{report:#}");
}

/// A host in a user namespace of its own, in which a script starts its arguments. Without cgroups: root of
/// the tests would find those of other tests, whose processes it cannot end from here.
fn user_namespace(script: &str) -> Weak {
    let script = format!("set -e; mount -t tmpfs covered /sys/fs/cgroup; {script}");
    Weak::default().within(&["unshare", "-U", "-r", "-m", "--", "bash", "-c", &script, "bash"])
}

#[test]
fn user_namespaces_refused_by_ceiling() {
    let host = user_namespace("echo 0 >/proc/sys/user/max_user_namespaces; exec \"$@\"");
    everyone(|user| {
        let said = "(unshare): No space left on device (ENOSPC), a ceiling user.max_*_namespaces is reached";
        no_namespaces(user, &host, "user_ns", said, "sudo sysctl -w user.max_user_namespaces=15000");
    });
}

/// A host whose kernel has this setting; it is only read.
fn with_setting(name: &str, value: u32) -> Weak {
    Weak::default().mounts(&format!(
        "mount -t tmpfs -o mode=755 settings /proc/sys/kernel; echo {value} >/proc/sys/kernel/{name}"
    ))
}

#[test]
fn user_namespaces_refused_by_debian_setting() {
    let Some(user) = User::ordinary() else {
        return println!("skipped: only root can change what the kernel says");
    };
    let host = with_setting("unprivileged_userns_clone", 0).filter("no-namespaces");
    let said = "(unshare): Operation not permitted (EPERM)";
    no_namespaces(&user, &host, "user_ns", said, "sudo sysctl -w kernel.unprivileged_userns_clone=1");
}

#[test]
fn user_namespaces_refused_by_ubuntu_apparmor() {
    let Some(user) = User::ordinary() else {
        return println!("skipped: only root can change what the kernel says");
    };
    let host = with_setting("apparmor_restrict_unprivileged_userns", 1).filter("no-namespaces-eacces");
    let program = user.binary().display().to_string();
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    let name: String = program.trim_start_matches('/').replace('/', ".").chars().map(plain).collect();
    let command = format!(
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (for everybody, until the next boot); or for \
         hotcell alone and for good, an AppArmor profile: echo 'abi <abi/4.0>, profile {name} \"{program}\" \
         flags=(unconfined) {{   userns, }}' | sudo tee /etc/apparmor.d/{name} && sudo apparmor_parser -r \
         /etc/apparmor.d/{name}"
    );
    no_namespaces(&user, &host, "user_ns", "(unshare): Permission denied (EACCES)", &command);
}

#[test]
fn user_namespaces_refused_by_container_filter() {
    let free = "start the container so that it may make namespaces and mounts: ";
    for (container, how) in [
        (
            "docker",
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined",
        ),
        ("podman", "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL"),
    ] {
        let host =
            Weak::default().within(&["env", &format!("container={container}")]).filter("no-namespaces");
        everyone(|user| no_namespaces(user, &host, "user_ns", "(EPERM)", &format!("{free}{how}")));
        // Such a filter cannot inspect clone3 and hides it; if only clone3 makes namespaces, nothing else is
        // missing.
        let host = Weak::default().within(&["env", &format!("container={container}")]).filter("no-clone3");
        everyone(|user| no_namespaces(user, &host, "user_ns", "(ENOSYS)", &format!("{free}{how}")));
    }
}

#[test]
fn missing_landlock_is_reported() {
    let host = Weak::default().filter("no-landlock");
    everyone(|user| {
        let found = layers(user, &host, &[]);
        let why = "unavailable: this kernel does not offer it (Function not implemented (os error 38))";
        assert_eq!((&found["landlock"], &found["landlock_abi"]), (&why.into(), &0.into()), "{found:#}");
        for profile in ["strict", "landlock-only"] {
            let refused = run(user, &host, &["--profile", profile, "--require", "landlock"], "echo ran");
            refused.code(125).prints("").says_one_line("; to mend it: ");
        }
        let report = doctor(user, &host);
        assert!(
            report["layers"]["landlock"]["mend"].as_str().is_some_and(|m| m.contains("LANDLOCK=y")),
            "{report:#}"
        );
        assert_eq!(report["profiles"]["standard"], "available", "{report:#}");
        assert_eq!(
            report["profiles"]["landlock-only"],
            "refused: it needs landlock, which cannot be had here"
        );
    });
}

#[test]
fn missing_seccomp_notification_loses_denials_only() {
    for (filter, why) in [
        (
            "no-listener",
            "unavailable: seccomp user notification was refused (Operation not permitted (os error 1))",
        ),
        (
            "own-listener",
            "unavailable: seccomp user notification was refused (Device or resource busy (os error 16)), because a \
             filter around this process notifies somebody",
        ),
        ("nothing", "on"),
    ] {
        let host = Weak::default().filter(filter);
        everyone(|user| {
            for profile in ["standard", "landlock-only"] {
                // A device node 0:0 needs no privilege at all: only the filter refuses it.
                let script = "mknod $HOME/node c 0 0; echo $?; grep ^Seccomp: /proc/self/status";
                let outcome = run(user, &host, &["--profile", profile, "--json"], script).code(0).json();
                assert_eq!(outcome["stdout"]["text"], "1\nSeccomp:\t2\n", "{filter}: {outcome:#}");
                let errors = outcome["stderr"]["text"].as_str().unwrap_or_default();
                assert!(errors.contains("Operation not permitted"), "{filter}: {errors}");
                assert_eq!(outcome["layers"]["seccomp"], "on");
                assert_eq!(outcome["layers"]["notifications"], why, "{filter}");
                let reported = outcome["denials"].as_array().is_some_and(|rows| !rows.is_empty());
                assert_eq!(reported, why == "on", "{filter}: {outcome:#}");
                assert_eq!(outcome["denials_complete"], false);
            }
            let report = doctor(user, &host);
            assert_eq!(report["layers"]["seccomp"]["state"], "on", "{report:#}");
            let answer = report["layers"]["seccomp"]["answer"].as_str().unwrap_or_default();
            assert_eq!(answer.contains("seccomp user notification was refused"), why != "on", "{answer}");
        });
    }
}

#[test]
fn missing_seccomp_refuses_every_run() {
    let host = Weak::default().filter("no-seccomp");
    everyone(|user| {
        let said = "the layer seccomp cannot be had: installing the filter (seccomp): Operation not permitted (EPERM); to mend it: ";
        run(user, &host, &[], "echo ran").code(125).prints("").says_one_line(said);
        let report = doctor(user, &host);
        assert_eq!(
            report["profiles"]["standard"], "refused: it needs seccomp, which cannot be had here",
            "{report:#}"
        );
    });
}

/// Asserts that limits hold without any cgroup, and that the outcome says what enforces them.
fn limits_by_the_fallback(user: &User, host: &Weak) {
    let found = layers(user, host, &[]);
    assert!(
        found["cgroup"].as_str().is_some_and(|s| s.starts_with("unavailable: no cgroup can be used: ")),
        "{found:#}"
    );
    assert_eq!(found["cgroup_version"], 0);

    let greedy = "/usr/bin/python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'";
    let outcome = run(user, host, &["--memory", "64M", "--json"], greedy).json();
    let held = match outcome["cause"].as_str() {
        Some("memory_limit") => outcome["limits_hit"][0]["evidence"] == "sampled",
        // RLIMIT_DATA was faster than the watcher.
        _ => outcome["stderr"]["text"].as_str().is_some_and(|t| t.contains("MemoryError")),
    };
    assert!(held, "{outcome:#}");

    let fertile = "import os, time\nn = 0\ntry:\n while n < 100:\n  if os.fork() == 0: time.sleep(9)\n  n += 1\n\
                   except BlockingIOError: print('held')\n";
    let fertile = format!("/usr/bin/python3 -c \"{fertile}\"");
    run(user, host, &["--processes", "8", "--timeout", "8s"], &fertile).code(0).prints("held\n");

    let outcome = run(user, host, &["--cpu-time", "500ms", "--json"], "while :; do :; done").json();
    assert_eq!(outcome["cause"], "cpu_limit", "{outcome:#}");

    let refused = run(user, host, &["--profile", "strict"], "echo ran");
    refused
        .code(125)
        .prints("")
        .says_one_line("the policy requires the layer cgroup, and it cannot be had: no cgroup can be used: ");
    let report = doctor(user, host);
    let mend = report["layers"]["cgroup"]["mend"].as_str().unwrap_or_default();
    assert!(
        refused.stderr.contains(&format!("; to mend it: {mend}; see `hotcell doctor`")),
        "{mend}: {refused:#?}"
    );
    assert_eq!(report["profiles"]["strict"], "refused: it needs cgroup, which cannot be had here");
    assert_eq!(report["profiles"]["standard"], "available");
}

#[test]
fn root_without_cgroups_uses_fallback_limits() {
    if !is_root() {
        return println!("skipped: only root can cover or close its cgroups");
    }
    let covered = Weak::default().mounts("mount -t tmpfs covered /sys/fs/cgroup");
    limits_by_the_fallback(&User::me(), &covered);
    let closed = "mount -o bind,remount,ro /sys/fs/cgroup; \
                  for m in /sys/fs/cgroup/*; do ! mountpoint -q $m || mount -o bind,remount,ro $m; done";
    let refused = run(&User::me(), &Weak::default().mounts(closed), &["--profile", "strict"], "echo ran");
    refused
        .code(125)
        .says_one_line("; to mend it: start the container with a writable cgroup tree of its own");
}

#[test]
fn user_without_cgroups_uses_fallback_limits() {
    let user = if is_root() { User::ordinary() } else { Some(User::me()) };
    let Some(user) = user else { return println!("skipped: no setpriv") };
    let host = user_namespace("exec \"$@\"");
    limits_by_the_fallback(&user, &host);
}

#[test]
fn covered_proc() {
    if find("bwrap").is_none() {
        return println!("skipped: no bwrap (package bubblewrap)");
    }
    everyone(|user| {
        let folder = user.path("").display().to_string();
        let bwrap = |more: &[&str]| {
            let plain = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/tmp"];
            let own = ["--bind", &folder, &folder, "--chdir", &user.path("work").display().to_string()]
                .map(str::to_owned);
            let binary = user.binary().display().to_string();
            let own: Vec<&str> = own.iter().map(String::as_str).collect();
            Weak::default().within(
                &[&plain[..], &own, &["--ro-bind", &binary, &binary, "--proc", "/proc"], more].concat(),
            )
        };
        // As Docker covers it.
        let covered =
            bwrap(&["--ro-bind", "/dev/null", "/proc/timer_list", "--ro-bind", "/proc/sys", "/proc/sys"]);
        let refused = run(user, &covered, &[], "echo ran");
        let said = "mounting a /proc of its own: Operation not permitted (EPERM), because parts of the host's are covered, as in a container";
        refused
            .code(125)
            .prints("")
            .says_one_line(&format!("the layer pid_ns cannot be had: {said}; to mend it: "));
        let report = doctor(user, &covered);
        assert!(report["layers"]["pid_ns"]["answer"].as_str().is_some_and(|a| a == said), "{report:#}");
        let mend = report["layers"]["pid_ns"]["mend"].as_str().unwrap_or_default();
        assert!(refused.stderr.ends_with(&mends(mend)), "{refused:#?}");
        let plain = layers(user, &covered, &["--profile", "landlock-only"]);
        assert_eq!((&plain["mount_ns"], &plain["landlock"]), (&"off".into(), &"on".into()));

        // Without a writable folder there is no scratch for a program on the host's tree.
        let closed = covered.clone().within(&["env", "TMPDIR=/proc"]);
        let refused = run(user, &closed, &["--profile", "landlock-only"], "echo ran");
        refused
            .code(125)
            .says_one_line("needs a scratch folder on the host")
            .says("set TMPDIR to a folder that you can write");

        // In namespaces of its own and with a complete /proc there is no reason to refuse.
        if user.is_ordinary() {
            let found = layers(user, &bwrap(&[]), &[]);
            assert_eq!(
                (&found["pid_ns"], &found["mount_ns"], &found["user_ns"]),
                (&"on".into(), &"on".into(), &"on".into())
            );
        }
    });
}

#[test]
fn other_user_processes_are_not_counted() {
    // More processes than the profile allows a program, in a user namespace with a count of its own.
    let crowd = "for i in $(seq 90); do sleep 60 >/dev/null 2>&1 & done; code=0; \"$@\" || code=$?; kill $(jobs -p); exit $code";
    let host = user_namespace(crowd);
    everyone(|user| {
        let ended =
            run(user, &host, &["--profile", "landlock-only"], "sh -c 'echo forked'; sleep 0; echo $?");
        ended.code(0).prints("forked\n0\n");
    });
}
