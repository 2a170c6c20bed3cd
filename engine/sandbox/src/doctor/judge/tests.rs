use super::*;

/// Output of the canaries on a host where every layer works, shortened.
const GOOD: &str = "\
== status
Groups:\t65534 65534
CapInh:\t0000000000000000
CapPrm:\t0000000000000000
CapEff:\t0000000000000000
CapBnd:\t0000000000000000
CapAmb:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
== uid_map
      1000       4711          1
== limits
Max core file size        1                    1                    bytes
== cgroup
4:memory:/
0::/
== mountinfo
79 94 0:40 / / ro,nosuid,relatime - tmpfs hotcell rw
132 79 0:42 / /proc rw,nosuid,nodev,noexec - proc proc rw
== hostname
sandbox
== first
hotcell-init
== devices
Inter-|   Receive
 face |bytes
    lo:       0       0
== routes
Iface\tDestination
== messages
       key      msqid
== memory
== semaphores
       key      semid
== processes
/proc/1
/proc/2
== namespaces
total 0
lrwxrwxrwx 1 sandbox sandbox 0 Nov 21 09:19 cgroup -> cgroup:[1]
lrwxrwxrwx 1 sandbox sandbox 0 Nov 21 09:19 ipc -> ipc:[2]
lrwxrwxrwx 1 sandbox sandbox 0 Nov 21 09:19 mnt -> mnt:[3]
lrwxrwxrwx 1 sandbox sandbox 0 Nov 21 09:19 net -> net:[4]
lrwxrwxrwx 1 sandbox sandbox 0 Nov 21 09:19 pid -> pid:[5]
lrwxrwxrwx 1 sandbox sandbox 0 Nov 21 09:19 time -> time:[6]
lrwxrwxrwx 1 sandbox sandbox 0 Nov 21 09:19 time_for_children -> time:[60]
lrwxrwxrwx 1 sandbox sandbox 0 Nov 21 09:19 user -> user:[7]
lrwxrwxrwx 1 sandbox sandbox 0 Nov 21 09:19 uts -> uts:[8]
? write_comm no
? signal_parent no
? raise_limit no
? open_too_many no
? make_device no
? write_root no
? write_usr no
? write_etc no
? write_sysctl no
? write_tmp yes
? write_home yes
? see_host no
? read_locked no
? connect no
== end
";

fn good() -> Findings {
    let freer = GOOD.replace("write_comm no", "write_comm yes").replace("parent no", "parent yes");
    let free = freer.replace("make_device no", "make_device yes");
    Findings {
        full: Full::Ran(Answers::parse(GOOD)),
        rooted: true,
        without_landlock: Some(Answers::parse(&freer)),
        without_both: Some(Answers::parse(&free)),
        denied: vec![Denial {
            layer: "seccomp".into(),
            operation: "mknodat".into(),
            target: String::new(),
            errno: "EPERM".into(),
            count: 1,
        }],
        outside: facts::KINDS.map(|(_, kind)| (kind.to_owned(), format!("{kind}:[99]"))).into(),
        landlock_abi: 7,
        cgroup_version: 2,
        memory: Some(Limited::Held),
        processes: Some(Limited::Held),
        marked: true,
        reached: Some(false),
        ..Findings::default()
    }
}

fn said(layer: Layer, findings: &Findings) -> String {
    state(layer, findings).0.into()
}

#[test]
fn passing_canaries_put_all_layers_on() {
    let findings = good();
    for (layer, report) in judge(&findings) {
        assert_eq!(report.state, LayerState::On, "{layer}");
        assert!(!report.answer.is_empty() && !report.tried.is_empty(), "{layer}");
    }
    let grouped = Findings { supplementary_groups: 2, ..good() };
    assert!(state(Layer::UserNs, &grouped).1.contains("2 further groups"));
}

#[test]
fn failed_canary_breaks_only_its_layer() {
    for (layer, from, to, word) in [
        (Layer::UserNs, "user:[7]", "user:[99]", "does not hold"),
        (Layer::UserNs, "4711          1", "0 4294967295", "other ids"),
        (Layer::MountNs, "mnt:[3]", "mnt:[99]", "the host's"),
        (Layer::MountNs, "write_usr no", "write_usr yes", "wrote to /usr"),
        (Layer::MountNs, "write_tmp yes", "write_tmp no", "could not write"),
        (Layer::MountNs, "see_host no", "see_host yes", "/tmp"),
        (Layer::MountNs, "rw,nosuid,nodev,noexec", "rw,nodev", "setuid"),
        (Layer::PidNs, "pid:[5]", "pid:[99]", "the host's"),
        (Layer::PidNs, "hotcell-init", "systemd", "process 1"),
        (Layer::NetNs, "net:[4]", "net:[99]", "the host's"),
        (Layer::NetNs, "    lo:", "  eth0:", "device"),
        (Layer::NetNs, "Destination\n", "Destination\neth0\t0\n", "route"),
        (Layer::IpcNs, "msqid\n", "msqid\n 1 2\n", "objects"),
        (Layer::UtsNs, "sandbox\n==", "host\n==", "name"),
        (Layer::CgroupNs, "memory:/\n", "memory:/job\n", "its group"),
        (Layer::TimeNs, "time:[6]", "time:[99]", "the host's"),
        (Layer::Landlock, "write_comm no", "write_comm yes", "not refused"),
        (Layer::Landlock, "signal_parent no", "signal_parent yes", "not refused"),
        (Layer::Seccomp, "Seccomp:\t2", "Seccomp:\t0", "no filter"),
        (Layer::Rlimits, "raise_limit no", "raise_limit yes", "raised"),
        (Layer::Rlimits, "open_too_many no", "open_too_many yes", "more files"),
        (Layer::NoNewPrivs, "NoNewPrivs:\t1", "NoNewPrivs:\t0", "not 1"),
        (Layer::Capabilities, "CapBnd:\t00000000", "CapBnd:\t000001ff", "CapBnd"),
        (Layer::Capabilities, "read_locked no", "read_locked yes", "without rights"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let spoilt = Full::Ran(Answers::parse(&GOOD.replacen(from, to, 1)));
        for (other, report) in judge(&Findings { full: spoilt, ..good() }) {
            let state = String::from(report.state);
            if other == layer {
                assert!(state.starts_with("unavailable: was set up and does not hold"), "{from}: {state}");
                assert!(state.contains(word), "{from}: {state}");
            } else {
                assert_eq!(state, "on", "{from}: {other}");
            }
        }
    }
}

#[test]
fn missing_canary_answer_is_no_success() {
    for (layer, from) in [
        (Layer::UserNs, "user -> user:[7]"),
        (Layer::TimeNs, "time -> time:[6]"),
        (Layer::MountNs, "? write_root no"),
        (Layer::Landlock, "? write_comm no"),
        (Layer::NoNewPrivs, "NoNewPrivs:"),
        (Layer::Capabilities, "CapEff:"),
        (Layer::Rlimits, "? open_too_many no"),
    ] {
        let silent = Full::Ran(Answers::parse(&GOOD.replacen(from, "-", 1)));
        let state = said(layer, &Findings { full: silent, ..good() });
        assert!(state.starts_with("unavailable: not tried"), "{from}: {state}");
    }
    let nothing = Findings { full: Full::Ran(Answers::default()), ..good() };
    for (layer, report) in judge(&nothing) {
        // The limits have canaries of their own.
        assert_eq!(report.state == LayerState::On, layer == Layer::Cgroup, "{layer}");
    }
}

#[test]
fn findings_besides_canaries_change_layers() {
    let landlock_alone = Some(Answers::parse(GOOD));
    for (layer, findings, want) in [
        (Layer::MountNs, Findings { leaked: true, ..good() }, "its /tmp is the host's"),
        (Layer::NetNs, Findings { reached: Some(true), ..good() }, "reached the host's loopback"),
        (Layer::NetNs, Findings { reached: None, ..good() }, "on"),
        (Layer::Landlock, Findings { without_landlock: landlock_alone, ..good() }, "without it too"),
        (Layer::Landlock, Findings { without_landlock: None, ..good() }, "by it alone"),
        (Layer::Landlock, Findings { missing: [(Layer::Landlock, "gone".into())].into(), ..good() }, "gone"),
        (Layer::Seccomp, Findings { denied: vec![], ..good() }, "not reported"),
        (Layer::Seccomp, Findings { denied: vec![], silent: Some("EINVAL".into()), ..good() }, "on"),
        (Layer::Seccomp, Findings { without_both: None, ..good() }, "on"),
        (Layer::Cgroup, Findings { memory: Some(Limited::Passed), ..good() }, "64 MiB were used"),
        (Layer::Cgroup, Findings { processes: Some(Limited::Passed), ..good() }, "7 processes"),
        (Layer::Cgroup, Findings { processes: None, ..good() }, "not tried"),
        (Layer::Cgroup, Findings { memory: Some(Limited::Open("slow".into())), ..good() }, "slow"),
    ] {
        let state = said(layer, &findings);
        assert!(state.contains(want), "{layer}: {state}, not {want}");
    }
}

#[test]
fn layers_are_unavailable_without_namespaces() {
    let refused = [(Layer::UserNs, "forbidden".to_owned())];
    let no_namespaces =
        Findings { refused: refused.clone().into(), no_namespaces: Some("forbidden".into()), ..good() };
    for (layer, want) in [
        (Layer::UserNs, "unavailable: forbidden"),
        (Layer::NetNs, "unavailable: it needs user_ns"),
        (Layer::Landlock, "on"),
    ] {
        assert_eq!(said(layer, &no_namespaces), want);
    }
    assert_eq!(no_namespaces.culprit(), Some(Layer::UserNs));
    let bounding = GOOD.replace("CapBnd:\t00000000", "CapBnd:\t000001ff");
    let kept = Findings { full: Full::Ran(Answers::parse(&bounding)), ..no_namespaces.clone() };
    assert_eq!(said(Layer::Capabilities, &kept), "on", "an ordinary user cannot empty it");
    let late = Findings { no_namespaces: Some("not tried: x".into()), ..good() };
    assert_eq!(said(Layer::PidNs, &late), "unavailable: not tried: x");
    let nothing = Findings { full: Full::None("broken".into()), ..no_namespaces };
    for (layer, report) in judge(&nothing) {
        assert!(matches!(report.state, LayerState::Unavailable(_)), "{layer}");
    }
    let shell_less = Findings { full: Full::NoShell("/bin/sh: not found".into()), ..good() };
    for (layer, report) in judge(&shell_less) {
        assert_eq!(report.state, LayerState::On, "{layer}");
        assert!(report.tried.contains("/bin/sh: not found"));
    }
}

#[test]
fn profiles_need_their_required_layers() {
    let layers = judge(&Findings { reached: Some(true), ..good() });
    for (require, ran, want) in [
        (vec![], Ok(()), "available"),
        (vec![Layer::Landlock], Ok(()), "available"),
        (vec![Layer::Landlock, Layer::NetNs], Ok(()), "refused: it needs net_ns, which cannot be had here"),
        (vec![], Err((Some(Layer::NetNs), "x".into())), "refused: it needs net_ns, which cannot be had here"),
        (vec![], Err((Some(Layer::Seccomp), "odd; see `hotcell doctor`".into())), "refused: odd"),
        (vec![], Err((None, "odd".into())), "refused: odd"),
    ] {
        let answer = availability(&require.into_iter().collect(), ran, &layers);
        assert_eq!(String::from(answer), want);
    }
}

#[test]
fn answers_are_read_from_any_text() {
    let text = "? before yes\n== a\nline\n? x yes\n? y no\n? z maybe\n?\n== a\nmore\n==\n\u{0}\n";
    let answers = Answers::parse(text);
    assert_eq!(answers.attempt("x"), Some(true));
    assert_eq!(answers.attempt("y"), Some(false));
    assert_eq!((answers.attempt("z"), answers.attempt("before")), (None, Some(true)));
    assert_eq!(answers.lines("a").unwrap(), ["line", "?", "more", "==", "\u{0}"]);
    assert_eq!(answers.lines("b"), None);
}
