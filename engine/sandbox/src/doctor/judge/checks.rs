//! The checks of each layer: answers of the canaries and findings -> whether it held.

use super::{Answers, Findings, Limited};
use crate::ids;
use crate::layer::Layer;

/// First version of Landlock that confines signals.
const SIGNAL_SCOPE: u32 = 6;

/// Maximum number of processes that a canary may see: more than canaries ever have at once, and fewer than any
/// host has.
const MAX_VISIBLE_PROCESSES: usize = 8;

/// Result of one check of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// The layer held, with a description; empty if another check's description covers it.
    Holds(String),
    /// The layer did not hold.
    Broken(String),
    /// The check gave no answer.
    Open(String),
}

use Check::{Broken, Holds, Open};

impl Check {
    /// `Holds` if the answer is yes.
    fn that(answer: Option<bool>, good: &str, bad: &str) -> Self {
        match answer {
            Some(true) => Holds(good.to_owned()),
            Some(false) => Broken(bad.to_owned()),
            None => Open(format!("whether {bad} could not be seen")),
        }
    }
    /// `Holds` if the answer is yes; `None` if there is no answer.
    fn maybe(answer: Option<bool>, good: &str, bad: &str) -> Option<Self> {
        answer.map(|_| Self::that(answer, good, bad))
    }
}

pub(super) fn checks(layer: Layer, answers: &Answers, findings: &Findings) -> Vec<Check> {
    match layer {
        Layer::UserNs => user(answers, findings),
        Layer::MountNs => mounts(answers, findings),
        Layer::PidNs => processes(answers, findings),
        Layer::NetNs => network(answers, findings),
        Layer::IpcNs => {
            let empty = ["messages", "memory", "semaphores"].map(|s| answers.lines(s).map(|l| l.len() == 1));
            let seen = empty.into_iter().flatten().reduce(|a, b| a && b);
            let listed = Check::maybe(seen, "no object of the host in sight", "it sees objects of the host");
            [Some(own("ipc", answers, findings)), listed].into_iter().flatten().collect()
        }
        Layer::UtsNs => {
            let name = answers.lines("hostname").map(|lines| lines == ["sandbox"]);
            vec![
                own("uts", answers, findings),
                Check::that(name, "called sandbox", "it knows the host by its name"),
            ]
        }
        Layer::CgroupNs => {
            let top = answers.lines("cgroup").map(|lines| lines.iter().all(|l| l.ends_with(":/")));
            vec![
                own("cgroup", answers, findings),
                Check::that(top, "its own group is the top", "it sees where its group is"),
            ]
        }
        Layer::TimeNs => vec![own("time", answers, findings)],
        Layer::Landlock => landlock(answers, findings),
        Layer::Seccomp => seccomp(answers, findings),
        Layer::Cgroup => cgroup(findings),
        Layer::Rlimits => {
            // With 1 byte no core is written and, unlike with 0, the core_pattern handler is not started:
            // core(5).
            let core = answers.hard_limit("Max core file size").map(|hard| matches!(hard, "0" | "1"));
            let raised = answers.attempt("raise_limit").map(|raised| !raised);
            let opened = answers.attempt("open_too_many").map(|opened| !opened);
            vec![
                Check::that(opened, "a file too many is refused", "it opened more files than its limit"),
                Check::that(core, "", "its limit on core files is above 1 byte"),
                Check::that(raised, "no limit can be raised", "it raised a limit"),
            ]
        }
        Layer::NoNewPrivs => {
            let set = answers.status("NoNewPrivs").map(|value| value == "1");
            vec![Check::that(set, "NoNewPrivs is 1", "NoNewPrivs is not 1")]
        }
        Layer::Capabilities => capabilities(answers, findings),
    }
}

/// Checks that the canaries had a namespace of this kind of their own.
fn own(kind: &str, answers: &Answers, findings: &Findings) -> Check {
    let (inside, outside) = (answers.namespace(kind), findings.outside.get(kind));
    let differs = inside.zip(outside).map(|(inside, outside)| inside != outside);
    let words = if kind == "time" { "clocks of its own" } else { "" };
    Check::that(differs, words, "its namespace is the host's")
}

fn user(answers: &Answers, findings: &Findings) -> Vec<Check> {
    let map = answers.lines("uid_map").map(|lines| {
        let numbers: Vec<_> = lines.iter().flat_map(|l| l.split_ascii_whitespace()).collect();
        match numbers[..] {
            [inside, outside, "1"] if inside == ids::INSIDE_ID.to_string() => Some(outside.to_owned()),
            _ => None,
        }
    });
    let mut checks = vec![own("user", answers, findings)];
    checks.push(match map {
        Some(Some(outside)) => Holds(format!("user {} inside is {outside} outside", ids::INSIDE_ID)),
        Some(None) => Broken("it has other ids than one of its own".to_owned()),
        None => Open("its map of ids could not be read".to_owned()),
    });
    // Only root can drop its groups, and it passes none of them to a sandbox.
    let kept = answers.status("Groups").map_or(0, |groups| groups.split_ascii_whitespace().count());
    if kept > 0 && findings.supplementary_groups > 0 {
        checks.push(Holds(format!(
            "{kept} further groups show as 65534 (nothing that only a group may read is mounted)"
        )));
    }
    checks
}

fn mounts(answers: &Answers, findings: &Findings) -> Vec<Check> {
    let refused = |name: &str| answers.attempt(name).map(|done| !done);
    let mut checks = vec![own("mnt", answers, findings)];
    for (name, place) in
        [("write_root", "/"), ("write_usr", "/usr"), ("write_etc", "/etc"), ("write_sysctl", "/proc/sys")]
    {
        checks.push(Check::that(refused(name), "", &format!("it wrote to {place}")));
        // Also without Landlock, which would refuse it too.
        let alone = findings.without_landlock.as_ref().and_then(|a| a.attempt(name)).map(|done| !done);
        checks.extend(Check::maybe(alone, "", &format!("without Landlock it wrote to {place}")));
    }
    checks.push(Holds("read-only but for scratch".to_owned()));
    for name in ["write_tmp", "write_home"] {
        checks.push(Check::that(answers.attempt(name), "", "it could not write to its scratch"));
    }
    let setuid = answers.lines("mountinfo").map(|lines| {
        lines.iter().all(|l| l.split(' ').nth(5).is_some_and(|o| o.split(',').any(|w| w == "nosuid")))
    });
    checks.push(Check::that(setuid, "nosuid", "a mount honours setuid"));
    if findings.marked {
        let hidden = refused("see_host").map(|hidden| hidden && !findings.leaked);
        checks.push(Check::that(hidden, "the host's /tmp is hidden", "its /tmp is the host's"));
    }
    checks
}

fn processes(answers: &Answers, findings: &Findings) -> Vec<Check> {
    let first = answers.lines("first").map(|lines| lines == ["hotcell-init"]);
    let count = answers.lines("processes").map(<[String]>::len);
    let few = count.map(|n| n <= MAX_VISIBLE_PROCESSES);
    vec![
        own("pid", answers, findings),
        Check::that(first, "process 1 is hotcell's", "process 1 is not hotcell's"),
        Check::that(
            few,
            &format!("{} processes in /proc", count.unwrap_or(0)),
            "/proc shows the host's processes",
        ),
    ]
}

fn network(answers: &Answers, findings: &Findings) -> Vec<Check> {
    let devices = answers
        .lines("devices")
        .map(|lines| lines.iter().filter_map(|l| l.split_once(':')).all(|(name, _)| name.trim() == "lo"));
    let routes = answers.lines("routes").map(|lines| lines.len() == 1);
    let mut checks = vec![
        own("net", answers, findings),
        Check::that(devices, "only lo", "it has a network device of the host"),
    ];
    checks.extend(Check::maybe(routes, "no route", "it has a route"));
    // A canary that connected to something other than the listener proves nothing, and neither does an
    // attempt that was not made.
    let unreached = answers.attempt("connect").and(findings.reached).map(|reached| !reached);
    checks.extend(Check::maybe(
        unreached,
        "the host's listener not reached",
        "it reached the host's loopback",
    ));
    checks
}

/// Checks an attempt that the layer must refuse and that succeeds without the layer.
fn alone(name: &str, with: &Answers, without: Option<&Answers>, what: &str) -> Check {
    match (with.attempt(name), without.and_then(|answers| answers.attempt(name))) {
        (Some(true), _) => Broken(format!("{what} was not refused")),
        (Some(false), Some(true)) => Holds(format!("{what} refused")),
        (Some(false), Some(false)) => Open(format!("{what} is refused without it too")),
        (Some(false), None) => Open(format!("{what} is refused; whether by it alone could not be seen")),
        (None, _) => Open(format!("{what} could not be tried")),
    }
}

fn landlock(answers: &Answers, findings: &Findings) -> Vec<Check> {
    let without = findings.without_landlock.as_ref();
    let mut checks = vec![alone("write_comm", answers, without, "a write to /proc/self/comm")];
    if findings.landlock_abi >= SIGNAL_SCOPE {
        checks.push(alone("signal_parent", answers, without, "a signal to process 1"));
    }
    if checks.iter().all(|c| matches!(c, Holds(_))) {
        let what = if checks.len() > 1 { "write and signal" } else { "write" };
        checks =
            vec![Holds(format!("version {}; {what} refused, and not without it", findings.landlock_abi))];
    }
    checks
}

fn seccomp(answers: &Answers, findings: &Findings) -> Vec<Check> {
    let mode = answers.status("Seccomp").map(|value| value == "2");
    let mut checks = vec![Check::that(mode, "", "no filter is in force")];
    // Landlock refuses device nodes as well.
    let only_filter = findings.without_landlock.as_ref().unwrap_or(answers);
    let counted = findings
        .denied
        .iter()
        .any(|d| d.layer == Layer::Seccomp.name() && matches!(d.operation.as_str(), "mknod" | "mknodat"));
    checks.push(match alone("make_device", only_filter, findings.without_both.as_ref(), "a device node") {
        // The filter's own report is as good as the second sandbox without the filter.
        Open(_) if counted => Holds("a device node refused and reported".to_owned()),
        Holds(_) if counted => Holds("a device node refused by it alone and reported".to_owned()),
        Holds(_) if findings.silent.is_none() => Broken("a denied call was not reported".to_owned()),
        Holds(words) => Holds(format!("{words} by it alone")),
        other => other,
    });
    if let Some(why) = &findings.silent {
        checks.push(Holds(format!("what it denies is not reported: {why}")));
    }
    checks
}

fn cgroup(findings: &Findings) -> Vec<Check> {
    let check = |answer: &Option<Limited>, good: &str, bad: &str| match answer {
        Some(Limited::Held) => Holds(good.to_owned()),
        Some(Limited::Passed) => Broken(bad.to_owned()),
        Some(Limited::Open(why)) => Open(why.clone()),
        None => Open("no canary was run at a limit".to_owned()),
    };
    vec![
        Holds(format!("version {}", findings.cgroup_version)),
        check(&findings.memory, "stopped at 16 MiB", "64 MiB were used within a limit of 16 MiB"),
        check(&findings.processes, "a process too many refused", "7 processes ran within a limit of 4"),
    ]
}

fn capabilities(answers: &Answers, findings: &Findings) -> Vec<Check> {
    let empty = |set: &str| answers.status(set).map(|value| value.bytes().all(|b| b == b'0'));
    let of = |set| Check::that(empty(set), "", &format!("{set} is not empty"));
    let mut checks: Vec<Check> = ["CapInh", "CapPrm", "CapEff", "CapAmb"].into_iter().map(of).collect();
    // An ordinary user can empty the bounding set only in an own user namespace. The bounding set limits what
    // can be gained by executing a program, which no_new_privs forbids anyway.
    let own_ids = findings.no_namespaces.is_none() && !findings.refused.contains_key(&Layer::UserNs);
    let harmless = !own_ids && answers.status("NoNewPrivs") == Some("1");
    checks.push(match empty("CapBnd") {
        Some(false) if harmless => {
            Holds("empty, but for the bounding set, which has no effect here".to_owned())
        }
        Some(true) => Holds("all five sets are empty".to_owned()),
        _ => of("CapBnd"),
    });
    let locked = answers.attempt("read_locked").map(|read| !read);
    checks.extend(Check::maybe(
        locked,
        "a file without rights is closed to it",
        "it read a file without rights",
    ));
    checks
}
