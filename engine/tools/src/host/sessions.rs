//! Kept instances: which caller has one of which plugin, and who makes room for another. Each has a process of
//! its own, so that neither a plugin nor a caller who breaks its instance reaches another caller's. Pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Maximum number of kept instances of one caller, over all plugins.
pub const MAX_CALLER_INSTANCES: usize = 8;
/// Maximum number of kept instances of all callers.
pub const MAX_INSTANCES: usize = 32;
/// Idle time after which an instance may be ended for the sake of another caller.
pub const MIN_IDLE_TIME: Duration = Duration::from_secs(60);

/// A caller's instance of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Name of the plugin.
    pub plugin: String,
    /// The caller, by a name that no other caller has.
    pub caller: String,
}

/// Use of an instance.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Number of calls that run in it or wait for it.
    pub calls: u32,
    /// End of the last call.
    pub last: Instant,
}

/// Outcome of asking for room.
#[derive(Debug, PartialEq, Eq)]
pub enum Room {
    /// There is room, or the instance exists.
    Free,
    /// This instance has to end first.
    Instead(Key),
    /// All of the caller's instances are in use.
    CallersFull,
    /// All instances are in use, or were a moment ago.
    Full,
}

/// Decides whether a caller may have an instance. Of its own ones the longest idle one makes room; of another
/// caller's only one that has been idle for [`MIN_IDLE_TIME`].
pub fn room(all: &HashMap<Key, Use>, wanted: &Key, now: Instant) -> Room {
    if all.contains_key(wanted) {
        return Room::Free;
    }
    let own = |key: &Key| key.caller == wanted.caller;
    let oldest = |may: &dyn Fn(&Key, &Use) -> bool| {
        let idle = all.iter().filter(|(key, used)| used.calls == 0 && may(key, used));
        idle.min_by_key(|(_, used)| used.last).map(|(key, _)| Room::Instead(key.clone()))
    };
    if all.keys().filter(|key| own(key)).count() >= MAX_CALLER_INSTANCES {
        return oldest(&|key, _| own(key)).unwrap_or(Room::CallersFull);
    }
    if all.len() < MAX_INSTANCES {
        return Room::Free;
    }
    let settled = |used: &Use| now.saturating_duration_since(used.last) >= MIN_IDLE_TIME;
    oldest(&|key, used| own(key) || settled(used)).unwrap_or(Room::Full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_room_evicts_oldest_idle_instance() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let key = |plugin: &str, caller: &str| Key { plugin: plugin.to_owned(), caller: caller.to_owned() };
        // Number of instances, their caller, running calls of each, end of the last call of the first one;
        // the others ended a second later each.
        type Row<'a> = (usize, &'a str, u32, u64);
        let others =
            |calls| [(8, "b", calls, 30), (8, "c", calls, 40), (8, "d", calls, 50), (7, "e", calls, 60)];
        let crowd = |calls: u32, own: &[Row<'static>]| [&others(calls)[..], own].concat();
        for (number, (rows, wanted, wants)) in [
            (vec![], key("p0", "a"), Room::Free),
            (vec![(1, "a", 1, 0)], key("p0", "a"), Room::Free),
            (vec![(7, "a", 1, 0)], key("p9", "a"), Room::Free),
            // A flood of a caller ends its own instances.
            (vec![(8, "a", 0, 20)], key("p9", "a"), Room::Instead(key("p0", "a"))),
            (vec![(8, "a", 1, 20)], key("p9", "a"), Room::CallersFull),
            (vec![(8, "a", 1, 20)], key("p9", "b"), Room::Free),
            (vec![(8, "a", 1, 20)], key("p3", "a"), Room::Free),
            // With all places taken: one that has been idle for long, of any caller.
            (crowd(0, &[(1, "f", 0, 95)]), key("p9", "a"), Room::Instead(key("p0", "b"))),
            (crowd(1, &[(1, "f", 0, 30)]), key("p9", "a"), Room::Instead(key("p0", "f"))),
            (crowd(1, &[(1, "f", 0, 95)]), key("p9", "a"), Room::Full),
            (crowd(1, &[(1, "a", 0, 99)]), key("p9", "a"), Room::Instead(key("p0", "a"))),
            (crowd(1, &[(1, "a", 0, 99)]), key("p0", "a"), Room::Free),
        ]
        .into_iter()
        .enumerate()
        {
            let mut all = HashMap::new();
            for (count, caller, calls, last) in &rows {
                for plugin in 0..*count {
                    let last = at(last + plugin as u64);
                    all.insert(key(&format!("p{plugin}"), caller), Use { calls: *calls, last });
                }
            }
            assert_eq!(room(&all, &wanted, at(100)), wants, "row {number}");
        }
    }
}
