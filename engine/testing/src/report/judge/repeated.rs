//! Several tests with the same name, counted as their framework counts them: in live events and report alike.

use crate::case::{Entry, Status};
use crate::live::Seen;

/// True when one id stands for several tests, not for parts or repetitions of one: each was observed to start
/// and to end, and the report has as many entries with the same results.
pub(crate) fn are_several(seen: &Seen, entries: &[Entry]) -> bool {
    if entries.len() < 2 || seen.open > 0 || seen.ends.len() != entries.len() {
        return false;
    }
    let mut ends = seen.ends.clone();
    let mut said: Vec<Status> = entries.iter().map(|entry| entry.status).collect();
    ends.sort_unstable();
    said.sort_unstable();
    // An error that made the result worse later belongs to none of them.
    ends == said && seen.status == ends.last().copied()
}

/// Splits them as if each had been observed alone. Later ones get a number in their ids that no other test
/// has.
pub(crate) fn apart<'a>(
    seen: &'a Seen,
    entries: Vec<Entry>,
    taken: &'a dyn Fn(&str) -> bool,
) -> impl Iterator<Item = (Seen, Entry)> + 'a {
    let mut number = 1;
    // The place of a failure is known for the worst one.
    let mut at = seen.at.clone();
    entries.into_iter().map(move |entry| {
        let mut id = seen.id.clone();
        if number > 1 {
            loop {
                id = format!("{} #{number}", seen.id).into();
                if !taken(&id) {
                    break;
                }
                number += 1;
            }
        }
        number += 1;
        let own = Seen {
            id,
            file: seen.file.clone(),
            line: None,
            open: 0,
            started: true,
            ends: vec![entry.status],
            status: Some(entry.status),
            duration_ms: entry.duration_ms,
            message: None,
            at: if Some(entry.status) == seen.status { at.take() } else { None },
            details: None,
        };
        (own, entry)
    })
}
