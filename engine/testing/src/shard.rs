//! Shards of a suite: each test is in exactly one of them, on every machine that computes them from the same
//! list.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

use crate::chosen::key;

/// Maximum number of shards.
pub const MAX_SHARDS: u32 = 1000;

/// The shard that runs here: `number` of `of`, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of this shard, from 1.
    pub number: u32,
    /// Number of shards.
    pub of: u32,
    /// Durations of tests in an earlier run, in milliseconds by id: shards then take about the same time.
    /// Without them, tests are assigned by name.
    pub times: Option<HashMap<String, u64>>,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no part: write it as K/N, such as 2/5, with K from 1 to N and N at most {MAX_SHARDS}"
            )
        };
        let (number, of) = text.split_once('/').ok_or_else(wrong)?;
        let plain =
            |part: &str| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok()).flatten();
        let (number, of): (u32, u32) = (plain(number).ok_or_else(wrong)?, plain(of).ok_or_else(wrong)?);
        if number < 1 || number > of || of > MAX_SHARDS {
            return Err(wrong());
        }
        Ok(Self { number, of, times: None })
    }
}

impl Shard {
    /// Tests of a list that belong to this shard, in the list's order.
    #[must_use]
    pub fn take(&self, framework: &str, ids: &[String]) -> Vec<String> {
        let keys: Vec<&str> = ids.iter().map(|id| key(framework, id)).collect();
        let parts = match &self.times {
            Some(times) => by_time(framework, ids, &keys, self.of, times),
            None => keys.iter().map(|key| (*key, by_name(key, self.of))).collect(),
        };
        let ours = |key: &&str| parts.get(key) == Some(&self.number);
        ids.iter().zip(&keys).filter(|(_, key)| ours(key)).map(|(id, _)| id.clone()).collect()
    }
}

/// Shard of a name, the same on every machine.
fn by_name(name: &str, of: u32) -> u32 {
    // FNV-1a. <http://www.isthe.com/chongo/tech/comp/fnv/>
    let head = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    u32::try_from((head ^ head >> 32) % u64::from(of)).unwrap_or(0) + 1
}

/// Assigns the longest tests first, each to the shard with the least total so far. An unknown test counts
/// with the average duration.
fn by_time<'a>(
    framework: &str,
    ids: &[String],
    keys: &[&'a str],
    of: u32,
    times: &HashMap<String, u64>,
) -> HashMap<&'a str, u32> {
    let known: Vec<u64> = ids.iter().filter_map(|id| times.get(id)).copied().collect();
    let average =
        (known.iter().fold(0, |sum: u64, ms| sum.saturating_add(*ms)) / (known.len() as u64).max(1)).max(1);
    // jest lists files, while reports contain their tests.
    let of_files = framework == "jest";
    let mut in_files: HashMap<&str, u64> = HashMap::new();
    for (id, ms) in times.iter().filter(|_| of_files) {
        let sum = in_files.entry(id.split("::").next().unwrap_or(id)).or_default();
        *sum = sum.saturating_add(*ms);
    }
    let mut weights: BTreeMap<&str, u64> = BTreeMap::new();
    for (id, key) in ids.iter().zip(keys) {
        let ms = if of_files { in_files.get(id.as_str()) } else { times.get(id) };
        // At least one, so that tests without a duration are distributed, too.
        let weight = weights.entry(key).or_default();
        *weight = weight.saturating_add(ms.copied().unwrap_or(average).max(1));
    }
    let mut sorted: Vec<(&str, u64)> = weights.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let mut loads = vec![0_u64; of as usize];
    let mut parts = HashMap::new();
    for (key, weight) in sorted {
        let least = loads.iter().enumerate().min_by_key(|(_, load)| **load).map_or(0, |(at, _)| at);
        loads[least] = loads[least].saturating_add(weight);
        parts.insert(key, u32::try_from(least).unwrap_or(0) + 1);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_are_read_as_they_are_written() {
        for (text, want) in [
            ("1/1", Some((1, 1))),
            ("3/7", Some((3, 7))),
            ("1000/1000", Some((1000, 1000))),
            ("0/2", None),
            ("3/2", None),
            ("1/1001", None),
            ("1", None),
            ("1/", None),
            ("/2", None),
            ("+1/2", None),
            ("a/b", None),
            ("1/0", None),
            ("99999999999/99999999999", None),
        ] {
            let got = text.parse::<Shard>().map(|shard| (shard.number, shard.of));
            assert_eq!(got.as_ref().ok(), want.as_ref(), "{text}");
            assert!(got.err().is_none_or(|why| why.contains("K/N")), "{text}");
        }
    }

    #[test]
    fn names_map_to_stable_shards() {
        for (name, of, want) in [("a.py::x", 4, 1), ("a.py::y", 4, 4), ("b.py::z", 3, 2), ("", 5, 1)] {
            assert_eq!(by_name(name, of), want, "{name} of {of}");
        }
    }

    #[test]
    fn times_make_parts_that_take_as_long() {
        let ids: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        let times = [("a", 100), ("b", 60), ("c", 40), ("d", 50), ("e", 50)];
        let times: HashMap<String, u64> = times.into_iter().map(|(id, ms)| (id.to_owned(), ms)).collect();
        let sum = |number| {
            let shard = Shard { number, of: 3, times: Some(times.clone()) };
            shard.take("pytest", &ids).iter().map(|id| times[id]).sum::<u64>()
        };
        assert_eq!([sum(1), sum(2), sum(3)], [100, 100, 100]);
    }

    proptest! {
        #[test]
        fn shards_partition_all_tests(
            names in proptest::collection::btree_set("[a-c]{1,2}(\\.rs)?(::[a-d]{1,3}){0,2}", 0..60),
            of in 1u32..9,
            framework in proptest::sample::select(vec!["pytest", "cargo", "go", "gtest", "jest", "unittest"]),
            timed in any::<bool>(),
        ) {
            let ids: Vec<String> = names.into_iter().collect();
            let times = timed.then(|| ids.iter().step_by(2).map(|id| (id.clone(), id.len() as u64)).collect());
            let mut all = Vec::new();
            for number in 1..=of {
                let part = Shard { number, of, times: times.clone() }.take(framework, &ids);
                // Tests that the framework cannot separate stay together.
                for id in &part {
                    for other in ids.iter().filter(|other| key(framework, other) == key(framework, id)) {
                        prop_assert!(part.contains(other));
                    }
                }
                all.extend(part);
            }
            all.sort();
            prop_assert_eq!(all, ids);
        }
    }
}
