//! Canaries' answers -> state of every layer. Pure: all judgement, no system call.

use std::collections::{BTreeMap, BTreeSet};

use super::{Availability, LayerReport};
use crate::advice::reasons::{DOES_NOT_HOLD, NO_SANDBOX, NOT_TRIED, SEE_MOUNT_NS, SEE_PID_NS, SEE_USER_NS};
use crate::advice::{facts, mend};
use crate::ids;
use crate::layer::Layer;
use crate::outcome::{Denial, LayerState};

/// First version of Landlock that confines signals.
const SIGNAL_SCOPE: u32 = 6;
/// Maximum number of processes that a canary may see: more than canaries ever have at once, and fewer than any
/// host has.
const MAX_VISIBLE_PROCESSES: usize = 8;

/// Answers printed by one script of canaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    sections: BTreeMap<String, Vec<String>>,
    attempts: BTreeMap<String, bool>,
}

impl Answers {
    /// Parses `== name` with the lines below it, and `? name yes|no`. Other lines are ignored.
    pub fn parse(text: &str) -> Self {
        let mut answers = Self::default();
        let mut section = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("== ") {
                section = Some(name.to_owned());
                answers.sections.entry(name.to_owned()).or_default();
            } else if let Some((name, answer)) = line.strip_prefix("? ").and_then(|l| l.split_once(' ')) {
                match answer {
                    "yes" => drop(answers.attempts.insert(name.to_owned(), true)),
                    "no" => drop(answers.attempts.insert(name.to_owned(), false)),
                    _ => {}
                }
            } else if let Some(lines) = section.as_ref().and_then(|name| answers.sections.get_mut(name)) {
                lines.push(line.to_owned());
            }
        }
        answers
    }

    /// Whether an attempt succeeded; `None` if it was not made.
    fn attempt(&self, name: &str) -> Option<bool> {
        self.attempts.get(name).copied()
    }

    /// The lines of a file; `None` if it could not be read or was empty.
    fn lines(&self, section: &str) -> Option<&[String]> {
        self.sections.get(section).map(Vec::as_slice).filter(|lines| !lines.is_empty())
    }

    /// A field of `/proc/self/status`.
    fn status(&self, field: &str) -> Option<&str> {
        let line = |l: &'_ String| l.split_once(':').filter(|(name, _)| *name == field).is_some();
        self.lines("status")?.iter().find(|l| line(l))?.split_once(':').map(|(_, value)| value.trim())
    }

    /// The hard limit in a line of `/proc/self/limits`.
    fn hard_limit(&self, name: &str) -> Option<&str> {
        let line = self.lines("limits")?.iter().find_map(|l| l.strip_prefix(name))?;
        line.split_ascii_whitespace().nth(1)
    }

    /// The id of a namespace, from a line such as `… user -> user:[4026531837]`.
    fn namespace(&self, kind: &str) -> Option<&str> {
        self.lines("namespaces")?.iter().find_map(|line| {
            let (before, id) = line.split_once(" -> ")?;
            (before.split_ascii_whitespace().next_back()? == kind).then_some(id)
        })
    }
}

/// Result of the sandbox with all layers.
#[derive(Clone, Debug)]
pub enum Full {
    /// The canaries in it answered.
    Ran(Answers),
    /// The sandbox was made and read back, but has no shell.
    NoShell(String),
    /// No sandbox could be made; with the reason.
    None(String),
}

impl Default for Full {
    fn default() -> Self {
        Self::None("nothing was tried".to_owned())
    }
}

/// Result of a canary that exceeds a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limited {
    /// The kernel stopped it and counted the event.
    Held,
    /// The canary got more than the limit.
    Passed,
    /// No answer, with the reason.
    Open(String),
}

/// Everything that the canaries and the host showed.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The sandbox with all available layers.
    pub full: Full,
    /// Whether that sandbox has a file system tree of its own.
    pub rooted: bool,
    /// Layers that were refused during set-up, each with the refusal.
    pub refused: BTreeMap<Layer, String>,
    /// Reason why there are no namespaces at all.
    pub no_namespaces: Option<String>,
    /// Layers that this host does not offer.
    pub missing: BTreeMap<Layer, String>,
    /// Answers of the same canaries without Landlock.
    pub without_landlock: Option<Answers>,
    /// Answers of the same canaries without Landlock and seccomp.
    pub without_both: Option<Answers>,
    /// Denials that the filter reported.
    pub denied: Vec<Denial>,
    /// Ids of this process's own namespaces.
    pub outside: BTreeMap<String, String>,
    /// Landlock's version; 0 for none.
    pub landlock_abi: u32,
    /// Reason why the filter cannot report denials.
    pub silent: Option<String>,
    /// Version of the cgroup tree; 0 for none.
    pub cgroup_version: u32,
    /// Result of exceeding the memory limit; `None` if it was not tried.
    pub memory: Option<Limited>,
    /// Result of exceeding the process limit; `None` if it was not tried.
    pub processes: Option<Limited>,
    /// Whether a file was placed in the host's `/tmp` for the canaries to see.
    pub marked: bool,
    /// Whether a file that a canary wrote to its `/tmp` appeared in the host's.
    pub leaked: bool,
    /// Whether a canary reached a listener on the host's loopback; `None` if there was no listener.
    pub reached: Option<bool>,
    /// Number of supplementary groups of this process.
    pub supplementary_groups: usize,
}

/// Result of one check of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Check {
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

/// The report of every layer. The remedies are filled in elsewhere.
pub fn judge(findings: &Findings) -> BTreeMap<Layer, LayerReport> {
    Layer::ALL.into_iter().map(|layer| (layer, report(layer, findings))).collect()
}

fn report(layer: Layer, findings: &Findings) -> LayerReport {
    let (state, answer) = state(layer, findings);
    let tried = match &findings.full {
        _ if findings.missing.contains_key(&layer) => tried_alone(layer).to_owned(),
        _ if findings.refused.contains_key(&layer) => "setting it up for a sandbox".to_owned(),
        Full::NoShell(why) => format!("setting it up and reading it back; {why}"),
        _ => tried(layer).to_owned(),
    };
    LayerReport { state, tried, answer, mend: None }
}

fn state(layer: Layer, findings: &Findings) -> (LayerState, String) {
    let unavailable = |why: String| (LayerState::Unavailable(why.clone()), why);
    if let Some(why) = findings.missing.get(&layer).or_else(|| findings.refused.get(&layer)) {
        return unavailable(why.clone());
    }
    if let (Some(_), Some(why)) = (facts::kind(layer), &findings.no_namespaces) {
        return unavailable(match layer {
            _ if why.starts_with(NOT_TRIED) => why.clone(),
            Layer::UserNs => format!("no sandbox with namespaces can be made: {why}"),
            _ => SEE_USER_NS.to_owned(),
        });
    }
    let answers = match &findings.full {
        Full::Ran(answers) => answers,
        Full::NoShell(_) => {
            return (LayerState::On, "set up and read back; no shell inside to try more".to_owned());
        }
        Full::None(why) => {
            let alone = match layer {
                Layer::Landlock => format!("; alone, the kernel offers version {}", findings.landlock_abi),
                Layer::Seccomp if findings.silent.is_none() => {
                    "; alone, the kernel offers notifications".to_owned()
                }
                Layer::Cgroup => "; alone, a group could be made and limited".to_owned(),
                _ => String::new(),
            };
            let why = match why.strip_prefix(NOT_TRIED) {
                Some(_) => why.clone(),
                None => format!("{NO_SANDBOX}: {why}"),
            };
            return (LayerState::Unavailable(why.clone()), why + &alone);
        }
    };
    sum(checks(layer, answers, findings))
}

/// A broken check breaks the layer; otherwise an open one leaves it open; otherwise the layer is on.
fn sum(checks: Vec<Check>) -> (LayerState, String) {
    let mut good = Vec::new();
    let (mut broken, mut open) = (None, None);
    for check in checks {
        match check {
            Holds(words) if words.is_empty() => {}
            Holds(words) => good.push(words),
            Broken(words) => drop(broken.get_or_insert(words)),
            Open(words) => drop(open.get_or_insert(words)),
        }
    }
    let bad = |head: &str, words: String| {
        let why = format!("{head}: {words}");
        (LayerState::Unavailable(why.clone()), why)
    };
    match (broken, open) {
        (Some(words), _) => bad(DOES_NOT_HOLD, words),
        (None, Some(words)) => bad(NOT_TRIED, words),
        (None, None) => (LayerState::On, good.join("; ")),
    }
}

fn checks(layer: Layer, answers: &Answers, findings: &Findings) -> Vec<Check> {
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

/// Describes the attempts made for a layer.
const fn tried(layer: Layer) -> &'static str {
    match layer {
        Layer::UserNs => "the namespace's id inside and outside; the map of ids",
        Layer::MountNs => {
            "writes to /, /usr, /etc and /proc/sys with and without Landlock, writes to /tmp and the home folder; \
             a file of the host's /tmp; the flags of all mounts"
        }
        Layer::PidNs => "the namespace's id inside and outside; process 1; the processes in /proc",
        Layer::NetNs => {
            "the namespace's id inside and outside; devices and routes; a connection to a listener on the host's \
             loopback, where there is bash"
        }
        Layer::IpcNs => "the namespace's id inside and outside; the System V objects in /proc/sysvipc",
        Layer::UtsNs => "the namespace's id inside and outside; the host name",
        Layer::CgroupNs => "the namespace's id inside and outside; the own group in /proc/self/cgroup",
        Layer::TimeNs => "the namespace's id inside and outside",
        Layer::Landlock => {
            "what no other layer refuses: a write to /proc/self/comm and, from version 6, a signal to process 1; \
             the same in a second sandbox without Landlock"
        }
        Layer::Seccomp => {
            "a device node 0:0 in a sandbox without Landlock, where no other layer refuses it, and in one without \
             both; the filter's report; Seccomp in /proc/self/status"
        }
        Layer::Cgroup => "64 MiB of memory within a limit of 16 MiB; 7 processes within a limit of 4",
        Layer::Rlimits => "a fourth file within a limit of 3; raising a hard limit; /proc/self/limits",
        Layer::NoNewPrivs => "NoNewPrivs in /proc/self/status",
        Layer::Capabilities => "the capability sets in /proc/self/status; a file with mode 000",
    }
}

/// Describes the attempts made for a layer before any sandbox is made.
const fn tried_alone(layer: Layer) -> &'static str {
    match layer {
        Layer::Landlock => "the system call that tells the version",
        Layer::Cgroup => "making a group and limiting it",
        _ => "whether the kernel knows it",
    }
}

impl Findings {
    /// The missing layer because of which a sandbox with namespaces is refused.
    pub fn culprit(&self) -> Option<Layer> {
        self.refused
            .iter()
            .find(|(_, why)| *why != SEE_PID_NS && *why != SEE_MOUNT_NS)
            .map(|(layer, _)| *layer)
    }
}

/// Whether a profile is available: a program ran in it, and every layer that it requires held.
pub fn availability(
    require: &BTreeSet<Layer>,
    ran: Result<(), (Option<Layer>, String)>,
    layers: &BTreeMap<Layer, LayerReport>,
) -> Availability {
    let on = |layer| layers.get(&layer).is_some_and(|report| report.state == LayerState::On);
    let needs = |layer| Availability::Refused(format!("it needs {layer}, which cannot be had here"));
    match ran {
        Err((Some(layer), _)) if !on(layer) => needs(layer),
        Err((_, why)) => Availability::Refused(mend::without_advice(&why).to_owned()),
        Ok(()) => require.iter().find(|layer| !on(**layer)).map_or(Availability::Available, |l| needs(*l)),
    }
}

#[cfg(test)]
mod tests {
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
                    assert!(
                        state.starts_with("unavailable: was set up and does not hold"),
                        "{from}: {state}"
                    );
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
            (
                Layer::Landlock,
                Findings { missing: [(Layer::Landlock, "gone".into())].into(), ..good() },
                "gone",
            ),
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
            (
                vec![Layer::Landlock, Layer::NetNs],
                Ok(()),
                "refused: it needs net_ns, which cannot be had here",
            ),
            (
                vec![],
                Err((Some(Layer::NetNs), "x".into())),
                "refused: it needs net_ns, which cannot be had here",
            ),
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
}
