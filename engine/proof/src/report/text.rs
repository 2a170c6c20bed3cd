//! Formats a report for a terminal. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use hotcell_sandbox::text::printable;

use crate::report::{AttackReport, Report, RowReport, Standing, Without};
use crate::words::{Layer, User, Wall};

/// The defences in the order of the columns, with the column headings.
pub(crate) const WALLS: [(Wall, &str); 15] = [
    (Wall::Layer(Layer::UserNs), "us"),
    (Wall::Layer(Layer::MountNs), "mn"),
    (Wall::Layer(Layer::PidNs), "pi"),
    (Wall::Layer(Layer::NetNs), "ne"),
    (Wall::Layer(Layer::IpcNs), "ip"),
    (Wall::Layer(Layer::UtsNs), "ut"),
    (Wall::Layer(Layer::Landlock), "ll"),
    (Wall::Layer(Layer::Seccomp), "sc"),
    (Wall::Layer(Layer::Cgroup), "cg"),
    (Wall::Layer(Layer::Rlimits), "rl"),
    (Wall::Layer(Layer::NoNewPrivs), "nn"),
    (Wall::Layer(Layer::Capabilities), "ca"),
    (Wall::Kernel, "ke"),
    (Wall::Supervisor, "su"),
    (Wall::Launcher, "la"),
];
/// Width of a row's name, in columns.
const NAME_WIDTH: usize = 41;

/// Content of a cell.
pub(crate) const fn sign(without: Option<Without>) -> &'static str {
    match without {
        None => "·",
        Some(Without::Stopped) => "+",
        Some(Without::Through) => "1",
        Some(Without::Always) => "=",
        Some(Without::Untried | Without::NotRun) => "?",
    }
}

/// A line with the result of a row or test.
struct Line<'a> {
    name: &'a str,
    users: Vec<User>,
    standing: Standing,
    walls: Option<&'a BTreeMap<String, Without>>,
}

/// Formats the table of attacks and defences, then explanations, then the summary. With `colour`, results
/// have ANSI colours.
#[must_use]
pub fn text(report: &Report, colour: bool) -> String {
    let mut text = head(report);
    let _ = write!(text, "\n{:NAME_WIDTH$} for ", "attack");
    for (_, short) in WALLS {
        let _ = write!(text, " {short}");
    }
    text.push('\n');
    for attack in &report.attacks {
        for line in lines(attack) {
            let users: String = line.users.iter().map(|u| &u.name()[..1]).collect();
            let _ = write!(text, "{:NAME_WIDTH$} {users:<3} ", line.name);
            for (wall, _) in WALLS {
                let cell = match line.walls {
                    Some(walls) if !walls.is_empty() => sign(walls.get(&wall.to_string()).copied()),
                    _ => "",
                };
                let _ = write!(text, " {cell:<2}");
            }
            let _ = writeln!(text, " {}", painted(line.standing, colour));
        }
    }
    reasons(&mut text, report);
    text.push('\n');
    for line in sum(report).lines() {
        wrapped(&mut text, "", line);
    }
    text
}

fn head(report: &Report) -> String {
    let host = &report.host;
    let container = host.container.as_ref().map(|c| format!(", in a container ({c})")).unwrap_or_default();
    format!(
        "hotcell {}, {}: Linux {} {}, {}{}, Landlock {}, cgroup version {}\n\n\
         Each attack ran in an arena: without a sandbox, with every wall, without each wall, without all of them.\n\
         +  still stopped without this wall     1  only this wall holds     =  a wall that is never off\n\
         us … ca: user, mount, pid, net, ipc, uts namespaces, Landlock, seccomp, cgroup, rlimits, no_new_privs,\n\
         capabilities; ke the kernel refuses this user, su supervisor, la launcher. For r root, u an ordinary user.\n",
        report.hotcell,
        report.date,
        printable(&host.kernel),
        host.arch,
        host.user,
        container,
        version(host.landlock_abi),
        version(host.cgroup_version),
    )
}

/// A version number, or "none" for 0.
pub(crate) fn version(number: u32) -> String {
    if number == 0 { "none".to_owned() } else { number.to_string() }
}

/// Lines of an attack; equal results of both users share one line.
fn lines(attack: &AttackReport) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    let rows = attack.rows.iter().map(|r| (r.name.as_str(), r.user, r.standing, Some(&r.walls)));
    let tests = attack.tests.iter().map(|t| (t.name.as_str(), t.user, t.standing, None));
    for (name, user, standing, walls) in rows.chain(tests) {
        match lines.iter_mut().find(|l| l.name == name && l.standing == standing && l.walls == walls) {
            Some(line) => line.users.push(user),
            None => lines.push(Line { name, users: vec![user], standing, walls }),
        }
    }
    lines
}

fn painted(standing: Standing, colour: bool) -> String {
    let code = match standing {
        Standing::TwoWalls | Standing::Holds => "32",
        Standing::OneWall | Standing::Thin => "33",
        Standing::NotRun | Standing::Failed => "31",
        Standing::Never | Standing::Absent => "2",
    };
    if colour { format!("\u{1b}[{code}m{}\u{1b}[0m", standing.words()) } else { standing.words().to_owned() }
}

/// Reasons, each once, with the names to which it applies.
pub(crate) type Reasons = Vec<(String, Vec<String>)>;

fn add(found: &mut Reasons, why: &str, name: String) {
    match found.iter_mut().find(|(known, _)| known == why) {
        Some((_, names)) if names.contains(&name) => {}
        Some((_, names)) => names.push(name),
        None => found.push((why.to_owned(), vec![name])),
    }
}

/// Heading of [`unproven`].
const UNPROVEN: &str = "Stopped, but not shown to be an attack on this host";

/// Reasons why rows could not be shown to get through where nothing stops them.
fn unproven(report: &Report) -> Reasons {
    let mut found = Vec::new();
    for row in report.attacks.iter().flat_map(|attack| &attack.rows) {
        if let Some(why) = &row.unproven {
            let everybody = report.attacks.iter().flat_map(|a| &a.rows).filter(|r| r.name == row.name);
            let all = everybody.filter(|r| r.unproven == row.unproven).count() == report.users.len();
            let name = if all { row.name.clone() } else { format!("{} as {}", row.name, row.user.name()) };
            add(&mut found, why, name);
        }
    }
    found
}

/// Reasons why attacks have this result.
fn reasons_of(report: &Report, wanted: Standing) -> Reasons {
    let mut found = Vec::new();
    for attack in &report.attacks {
        if attack.standing == wanted
            && let Some(why) = &attack.why
        {
            add(&mut found, why, format!("{} ({})", attack.number, attack.title));
        }
        let of = |row: &&RowReport| row.standing == wanted;
        for row in attack.rows.iter().filter(of) {
            add(&mut found, row.why.as_deref().unwrap_or("no reason"), named(&row.name, row.user, report));
        }
        for test in attack.tests.iter().filter(|t| t.standing == wanted) {
            add(&mut found, &test.said, named(&test.name, test.user, report));
        }
    }
    found
}

/// A name, with the user unless all users have the same result.
fn named(name: &str, user: User, report: &Report) -> String {
    let of = |attack: &AttackReport| {
        let rows = attack.rows.iter().filter(|r| r.name == name).map(|r| (r.standing, r.why.clone()));
        let tests =
            attack.tests.iter().filter(|t| t.name == name).map(|t| (t.standing, Some(t.said.clone())));
        rows.chain(tests).collect::<Vec<_>>()
    };
    let all: Vec<_> = report.attacks.iter().flat_map(of).collect();
    let same = all.windows(2).all(|pair| pair[0] == pair[1]);
    if same && all.len() == report.users.len() {
        name.to_owned()
    } else {
        format!("{name} as {}", user.name())
    }
}

/// Results that need an explanation, with their headings.
const EXPLAINED: [(Standing, &str); 6] = [
    (Standing::Failed, "Got through, or cannot be judged"),
    (Standing::NotRun, "Not run"),
    (Standing::Thin, "One wall here, since this host lacks the other"),
    (Standing::OneWall, "One wall, since no second can exist"),
    (Standing::Absent, "Not on this host"),
    (Standing::Never, "Never run"),
];

/// All results that need an explanation, with their headings.
pub(crate) fn explained(report: &Report) -> impl Iterator<Item = (&'static str, Reasons)> {
    let standings = EXPLAINED.into_iter().map(|(standing, head)| (head, reasons_of(report, standing)));
    standings.chain([(UNPROVEN, unproven(report))])
}

fn reasons(text: &mut String, report: &Report) {
    for (head, found) in explained(report) {
        if found.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{head}:");
        for (why, names) in found {
            wrapped(text, "  ", &format!("{}: {}", names.join(", "), printable(&why)));
        }
    }
}

/// Wraps words at 100 columns.
fn wrapped(text: &mut String, indent: &str, words: &str) {
    let mut line = indent.to_owned();
    for word in words.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > 100 && line.trim() != "" {
            text.push_str(line.trim_end());
            text.push('\n');
            line = format!("{indent}  ");
        }
        line.push_str(word);
        line.push(' ');
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

/// The summary in a line or two.
#[must_use]
pub(crate) fn sum(report: &Report) -> String {
    let s = &report.summary;
    let mut parts = vec![
        format!("{} held by two walls or more", s.two_walls),
        format!("{} by one (the list says why)", s.one_wall),
        format!("{} hold or work in tests that count no walls", s.holds),
    ];
    for (count, what) in [
        (s.thin, "by one, since this host lacks another"),
        (s.absent, "not on this host"),
        (s.never, "never run"),
        (s.not_run, "not run"),
        (s.failed, "FAILED"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    let seconds = Duration::from_millis(report.duration_ms).as_secs_f64();
    let verdict = if s.good { "Everything that was run held." } else { "Not everything held." };
    format!("{} attacks in {seconds:.0} s: {}.\n{verdict}", s.attacks, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;
    use crate::table::rows;

    #[test]
    fn attack_report_renders_as_text() {
        let text = text(&sample(), false);
        for want in [
            "Linux 6.18 <b>&",
            "a001_read_denied_file",
            "FAILED",
            "Never run:\n  141 (host that is gVisor): gVisor is not to be had for a test\n",
            "a001_read_denied_file as user: without mount_ns",
            "2 attacks in 3 s: 0 held by two walls or more",
            "Not everything held.",
        ] {
            assert!(text.contains(want), "{want:?} in\n{text}");
        }
        assert!(!text.contains('\u{1b}') && super::text(&sample(), true).contains('\u{1b}'));
        assert!(text.lines().all(|l| l.chars().count() <= 110), "{text}");
    }

    #[test]
    fn names_and_layers_fit_columns() {
        for row in rows() {
            assert!(row.test_name().len() <= NAME_WIDTH, "{}", row.test_name());
            for user in User::ALL {
                for wall in row.walls_for(user) {
                    assert!(WALLS.iter().any(|(known, _)| *known == wall), "{wall} has no column");
                }
            }
        }
    }
}
