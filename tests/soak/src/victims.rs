//! Processes below a server that can be killed, by their role: found through `/proc` by parents, and killed
//! by id and start time.

use crate::processes::{Process, descendants};

/// A part of hotcell that can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// `hotcell mcp` itself.
    Server,
    Launcher,
    /// Process 1 of a sandbox.
    Init,
    /// An interpreter that waits for a job.
    Interpreter,
    /// The process that runs tools.
    ToolHost,
    /// The guard's reader of hostile bytes.
    Reader,
    /// The program of a run.
    Program,
}

/// All parts with their relative frequency.
pub const PARTS: [(Part, u64); 7] = [
    (Part::Server, 5),
    (Part::Launcher, 14),
    (Part::Init, 22),
    (Part::Interpreter, 22),
    (Part::ToolHost, 14),
    (Part::Reader, 14),
    (Part::Program, 9),
];

/// Processes below `server` that are this part.
pub fn of(all: &[Process], server: i32, part: Part) -> Vec<&Process> {
    let below = descendants(all, server);
    let is_init = |pid: i32| {
        let parent = |pid| all.iter().find(|p| p.pid == pid);
        parent(pid).and_then(|init| parent(init.parent)).is_some_and(Process::is_launcher)
    };
    let meant = |process: &&Process| -> bool {
        if process.state == 'Z' {
            return false;
        }
        let launcher = process.parent == server && process.is_launcher();
        // A new init still has the launcher's name.
        let child_of_launcher =
            all.iter().any(|p| p.pid == process.parent && p.parent == server && p.is_launcher());
        let first = is_init(process.parent);
        match part {
            Part::Server => false,
            Part::Launcher => launcher,
            Part::Init => child_of_launcher,
            // The first process below a sandbox's init, by its role.
            Part::Interpreter | Part::ToolHost | Part::Reader | Part::Program => {
                first && role(process.pid) == Some(part)
            }
        }
    };
    if part == Part::Server {
        return all.iter().filter(|p| p.pid == server && p.state != 'Z').collect();
    }
    below.into_iter().filter(meant).collect()
}

/// Role by the command line, as the kernel shows it. `None` for a process that has not executed its program
/// yet.
fn role(pid: i32) -> Option<Part> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    part_of(&line)
}

fn part_of(line: &[u8]) -> Option<Part> {
    let words: Vec<&[u8]> = line.split(|b| *b == 0).collect();
    let second: &[u8] = words.get(1).copied().unwrap_or_default();
    // A waiting interpreter reserves space for the arguments of its job after its own.
    let waits = words.get(3).is_some_and(|room| room.len() > 1000 && room.iter().all(|b| *b == b' '));
    Some(match second {
        b"python" | b"node" if waits => Part::Interpreter,
        b"guard-reader" => Part::Reader,
        b"tool-host" => Part::ToolHost,
        _ if words.first().is_none_or(|first| first.is_empty()) => return None,
        _ => Part::Program,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_by_their_command_lines() {
        let room = " ".repeat(4096);
        for (line, want) in [
            (format!("python3\0python\0\0{room}\0"), Some(Part::Interpreter)),
            (format!("node\0node\0\0{room}\0"), Some(Part::Interpreter)),
            ("python3\0python\0x\0".to_owned(), Some(Part::Program)),
            ("/usr/bin/hotcell\0guard-reader\0".to_owned(), Some(Part::Reader)),
            ("/usr/bin/hotcell\0tool-host\0".to_owned(), Some(Part::ToolHost)),
            ("sleep\x00600\0".to_owned(), Some(Part::Program)),
            (String::new(), None),
        ] {
            assert_eq!(part_of(line.as_bytes()), want, "{line:.40}");
        }
    }

    #[test]
    fn parts_by_their_place() {
        let one =
            |pid, parent, name: &str| Process { pid, parent, state: 'S', start: 0, name: name.to_owned() };
        let own = i32::try_from(std::process::id()).expect("a pid");
        // The last is this test, which has a command line.
        let all = [
            one(1, 0, "hotcell"),
            one(2, 1, "hotcell-launch"),
            one(3, 2, "hotcell-launch"),
            one(own, 3, "x"),
        ];
        let pids = |part| of(&all, 1, part).iter().map(|p| p.pid).collect::<Vec<_>>();
        assert_eq!(pids(Part::Server), [1]);
        assert_eq!(pids(Part::Launcher), [2]);
        assert_eq!(pids(Part::Init), [3]);
        assert_eq!(pids(Part::Program), [own]);
        assert!(pids(Part::Reader).is_empty());
    }
}
