//! Bounds of what is remembered of the entries and words that a server offers. Pure.

use std::collections::BTreeMap;

use hotcell_mcp::pin::{Accepted, Kind, MAX_TOOLS, Offered};

/// Bytes of definitions of a server that are kept whole. Of further ones only the beginning is kept, with the digest.
const MAX_OFFERED_BYTES: usize = 16 << 20;

/// Adds what a line offers to what is remembered; whether that changes. Where there is no room for a kind, those that are neither accepted nor in the line go. Beyond
/// a number of bytes only the beginning of each is kept.
pub fn take(all: &mut BTreeMap<String, Offered>, line: BTreeMap<String, Offered>, known: &Accepted) -> bool {
    let before = all.len();
    for kind in Kind::ALL {
        let new = line.keys().filter(|key| Kind::of(key) == Some(kind) && !all.contains_key(*key)).count();
        if count(all, kind) + new > MAX_TOOLS {
            all.retain(|key, _| {
                Kind::of(key) != Some(kind) || known.contains_key(key) || line.contains_key(key)
            });
        }
    }
    let mut is_changed = all.len() != before;
    let mut counts: BTreeMap<Kind, usize> = Kind::ALL.map(|kind| (kind, count(all, kind))).into();
    let mut bytes: usize = all.values().map(Offered::bytes).sum();
    for (key, one) in line {
        let former = all.get(&key);
        if former == Some(&one) {
            continue;
        }
        if let (None, Some(kind)) = (former, Kind::of(&key)) {
            let count = counts.entry(kind).or_default();
            if *count >= MAX_TOOLS {
                continue;
            }
            *count += 1;
        }
        bytes -= former.map_or(0, Offered::bytes);
        let has_room = Kind::of(&key).is_none() || bytes + one.bytes() <= MAX_OFFERED_BYTES;
        let one = if has_room { one } else { one.cut() };
        bytes += one.bytes();
        if all.get(&key) != Some(&one) {
            all.insert(key, one);
            is_changed = true;
        }
    }
    is_changed
}

/// Number of entries of a kind.
pub fn count(all: &BTreeMap<String, Offered>, kind: Kind) -> usize {
    all.keys().filter(|key| Kind::of(key) == Some(kind)).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_sum_of_what_is_kept_is_bounded() {
        let size = hotcell_mcp::pin::MAX_TOOL_BYTES / 2;
        let of = |words: char| -> BTreeMap<String, Offered> {
            let one = |number: usize| {
                let tool = json!({ "name": number, "description": words.to_string().repeat(size) });
                (Kind::Prompt.key(&number.to_string()), Offered { sha256: format!("{words}{number}"), tool })
            };
            (0..200).map(one).collect()
        };
        let mut all = BTreeMap::new();
        for words in ['a', 'b'] {
            assert!(take(&mut all, of(words), &Accepted::new()));
            let bytes: usize = all.values().map(Offered::bytes).sum();
            assert!(bytes <= MAX_OFFERED_BYTES + 200 * 2_100, "{bytes}");
            assert!(all.values().all(|one| one.sha256.starts_with(words)) && all.len() == 200);
            let whole = all.values().filter(|one| !one.tool.is_string()).count();
            assert!((100..200).contains(&whole), "{whole}");
            assert!(!take(&mut all, of(words), &Accepted::new()), "unchanged");
        }
    }
}
