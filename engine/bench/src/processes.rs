//! Processes and their memory.

use std::collections::HashMap;
use std::fs;

/// Every process with its parent, including zombies.
fn parents() -> HashMap<u32, u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // After the name in parentheses: state, parent.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect()
}

/// Processes whose parent is this one.
#[must_use]
pub fn children(of: u32) -> Vec<u32> {
    parents().into_iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| pid).collect()
}

/// Processes whose chain of parents leads to this one.
#[must_use]
pub fn descendants(of: u32) -> Vec<u32> {
    let parents = parents();
    let ours = |mut pid: u32| {
        while let Some(&parent) = parents.get(&pid) {
            if parent == of {
                return true;
            }
            pid = parent;
        }
        false
    };
    parents.keys().copied().filter(|&pid| ours(pid)).collect()
}

/// Resident memory of a process (`self`, or its id), in bytes; 0 when it is gone.
#[must_use]
pub fn resident(process: &str) -> u64 {
    kib(&format!("/proc/{process}/status"), &["VmRSS:"]) * 1024
}

/// Proportional set size (`Pss`) of a process, in bytes; `None` when it is gone or belongs to another user.
#[must_use]
pub fn share(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    Some(sum(&text, &["Pss:"]) * 1024)
}

/// Private memory of a process (`self`, or its id), in bytes; `None` when it is gone or belongs to another user.
#[must_use]
pub fn private(process: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    Some(sum(&text, &["Private_Clean:", "Private_Dirty:"]) * 1024)
}

/// Sum of these fields of a file in /proc, in KiB.
pub(crate) fn kib(file: &str, fields: &[&str]) -> u64 {
    sum(&fs::read_to_string(file).unwrap_or_default(), fields)
}

fn sum(text: &str, fields: &[&str]) -> u64 {
    let value = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        fields.contains(&name).then(|| words.next()?.parse::<u64>().ok()).flatten()
    };
    text.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_summed_by_complete_name() {
        let text = "Slab:  10 kB\nSUnreclaim:   7 kB\nPercpu: 3 kB\nodd\n";
        for (fields, want) in [(&["Slab:"][..], 10), (&["SUnreclaim:", "Percpu:"], 10), (&["S"], 0)] {
            assert_eq!(sum(text, fields), want, "{fields:?}");
        }
    }

    #[test]
    fn own_process_has_resident_and_shared_memory() {
        assert!(resident("self") > 0);
        assert!(share(std::process::id()).is_some_and(|bytes| bytes > 0));
        assert!(!descendants(std::process::id()).contains(&1));
    }
}
