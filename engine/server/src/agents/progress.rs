//! Progress of a session from its rows. Pure.

use hotcell_agents::Rules;
use hotcell_agents::journal::{Entry, Row};
use hotcell_agents::loops::{Sight, look};
use hotcell_agents::machine::Event;
use hotcell_agents::review::Review;
use schemars::JsonSchema;
use serde::Serialize;

/// Trend of the reviews (S2.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trend {
    /// The last reviews show progress, or there are too few of them.
    Improving,
    /// No higher score, and no smaller set of failing tests, over the window.
    Stagnant,
    /// An artifact of before came again with its failing tests.
    Oscillating,
}

/// Progress of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Scores of the model's artifacts, in their order.
    pub scores: Vec<u8>,
    /// Milliseconds from the end of the iteration before to the end of each.
    pub times_ms: Vec<u64>,
    /// Trend.
    pub trend: Trend,
}

impl Progress {
    /// From the rows of a session with one candidate.
    #[must_use]
    pub fn of(rows: &[Row], rules: &Rules) -> Self {
        let mut reviews: Vec<Review> = Vec::new();
        let (mut times_ms, mut last) = (Vec::new(), None);
        for row in rows {
            match &row.entry {
                // Time without a driver does not count.
                Entry::Began => last = Some(row.time_us),
                Entry::Step { event: Event::Reviewed(review) } => {
                    let since = last.map_or(0, |last: i64| row.time_us - last);
                    if !reviews.is_empty() {
                        times_ms.push(u64::try_from(since / 1000).unwrap_or(0));
                    }
                    last = Some(row.time_us);
                    reviews.push(review.clone());
                }
                _ => {}
            }
        }
        let trend = match look(&reviews, rules.window, rules.min_delta) {
            Sight::Progress => Trend::Improving,
            Sight::Stagnant => Trend::Stagnant,
            Sight::Repeats(_) => Trend::Oscillating,
        };
        Self { scores: reviews.iter().skip(1).map(|review| review.score).collect(), times_ms, trend }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(reviews: &[(&str, u8)]) -> Vec<Row> {
        let mut rows = vec![Row { candidate: 0, time_us: 0, entry: Entry::Began }];
        for (at, (artifact, score)) in reviews.iter().enumerate() {
            let review = Review {
                artifact: (*artifact).to_owned(),
                failing: ["t".to_owned()].into(),
                score: *score,
                accepted: false,
            };
            let time_us = i64::try_from(at).unwrap() * 2_000_000;
            rows.push(Row { candidate: 1, time_us, entry: Entry::Step { event: Event::Reviewed(review) } });
        }
        rows
    }

    #[test]
    fn progress_has_one_score_and_time_for_each_iteration() {
        for (reviews, scores, trend) in [
            (&[][..], &[][..], Trend::Improving),
            (&[("given", 30)], &[], Trend::Improving),
            (&[("given", 30), ("a", 50)], &[50], Trend::Improving),
            (&[("given", 30), ("a", 30), ("b", 30)], &[30, 30], Trend::Stagnant),
            (&[("given", 30), ("a", 50), ("a", 50)], &[50, 50], Trend::Oscillating),
        ] {
            let progress = Progress::of(&rows(reviews), &Rules::default());
            assert_eq!((&progress.scores[..], progress.trend), (scores, trend), "{reviews:?}");
            assert_eq!(progress.times_ms, vec![2000; scores.len()]);
        }
    }
}
