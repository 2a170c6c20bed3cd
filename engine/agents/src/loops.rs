//! The loop guard: repetition and stagnation in a list of reviews. No model is asked.

use crate::review::Review;

/// Maximum length of a cycle that is detected.
pub const MAX_CYCLE: usize = 4;

/// Result of looking at the latest review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Something new.
    Progress,
    /// The content and its failing tests were there before, so many reviews ago.
    Repeats(usize),
    /// The score did not rise, and the set of failing tests did not change for the better, over the whole window.
    Stagnant,
}

/// Looks at the last of some reviews. Progress is a score that rises by `min_delta`, or a smaller set of failing tests; `window` deltas, each between
/// neighbours, are compared.
#[must_use]
pub fn look(reviews: &[Review], window: usize, min_delta: u8) -> Sight {
    let Some((last, before)) = reviews.split_last() else { return Sight::Progress };
    if let Some(at) = before.iter().rev().take(MAX_CYCLE).position(|other| last.is_repeat_of(other)) {
        return Sight::Repeats(at + 1);
    }
    if window == 0 || reviews.len() <= window {
        return Sight::Progress;
    }
    let moves = |pair: &[Review]| {
        let (old, new) = (&pair[0], &pair[1]);
        new.score >= old.score.saturating_add(min_delta.max(1))
            || (new.failing.len() < old.failing.len() && new.failing.is_subset(&old.failing))
    };
    if reviews[reviews.len() - window - 1..].windows(2).any(moves) {
        Sight::Progress
    } else {
        Sight::Stagnant
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn review(artifact: &str, score: u8, failing: &str) -> Review {
        Review {
            artifact: artifact.to_owned(),
            failing: failing.chars().map(String::from).collect(),
            score,
            accepted: false,
        }
    }

    fn of(rows: &[(&str, u8, &str)]) -> Vec<Review> {
        rows.iter().map(|(artifact, score, failing)| review(artifact, *score, failing)).collect()
    }

    #[test]
    fn loops_are_told_from_progress() {
        for (rows, want) in [
            (&[][..], Sight::Progress),
            (&[("a", 0, "xy")], Sight::Progress),
            (&[("a", 0, "xy"), ("a", 0, "xy")], Sight::Repeats(1)),
            (&[("a", 0, "xy"), ("b", 0, "xy"), ("a", 0, "xy")], Sight::Repeats(2)),
            (&[("a", 0, ""), ("b", 0, ""), ("c", 0, ""), ("d", 0, ""), ("a", 0, "")], Sight::Repeats(4)),
            // A cycle of five is longer than what is looked for, but does not progress either.
            (
                &[("a", 0, ""), ("b", 0, ""), ("c", 0, ""), ("d", 0, ""), ("e", 0, ""), ("a", 0, "")],
                Sight::Stagnant,
            ),
            // Equal content with other failing tests is a flaky test, not a loop.
            (&[("a", 0, "xy"), ("a", 0, "x")], Sight::Progress),
            (&[("a", 10, "xy"), ("b", 11, "xy"), ("c", 11, "xy")], Sight::Stagnant),
            // Both deltas of the window are real: the first one is progress.
            (&[("a", 10, "xy"), ("b", 12, "xy"), ("c", 12, "xy")], Sight::Progress),
            (&[("a", 10, "xy"), ("b", 10, "x"), ("c", 10, "x")], Sight::Progress),
            (&[("a", 10, "xy"), ("b", 10, "x"), ("c", 10, "x"), ("d", 10, "x")], Sight::Stagnant),
            // One failing test in place of another is not progress.
            (&[("a", 10, "xy"), ("b", 10, "z"), ("c", 10, "x")], Sight::Stagnant),
            (&[("a", 50, "x"), ("b", 10, "x"), ("c", 50, "x")], Sight::Progress),
        ] {
            assert_eq!(look(&of(rows), 2, 2), want, "{rows:?}");
        }
    }

    proptest! {
        #[test]
        fn rising_scores_are_never_loops(deltas in proptest::collection::vec(2_u8..5, 1..20)) {
            let mut score = 0;
            let rows: Vec<Review> = deltas.iter().enumerate().map(|(at, delta)| {
                score += delta;
                review(&at.to_string(), score, "x")
            }).collect();
            for end in 1..=rows.len() {
                prop_assert_eq!(look(&rows[..end], 2, 2), Sight::Progress);
            }
        }

        #[test]
        fn cycles_up_to_four_are_seen(length in 1_usize..=4, times in 2_usize..4) {
            let rows: Vec<Review> = (0..length * times).map(|at| review(&(at % length).to_string(), 1, "x")).collect();
            prop_assert_eq!(look(&rows, 2, 2), Sight::Repeats(length));
        }
    }
}
