//! The choice among candidates, by a ladder of evidence. No model chooses.

use std::cmp::Reverse;

/// Measured values of a candidate's best artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Number, from 1.
    pub number: u32,
    /// The model wrote at least one usable answer.
    pub well_formed: bool,
    /// The guard let it run.
    pub guard: bool,
    /// There is a valid test report.
    pub ran: bool,
    /// Tests that were good before and are not now.
    pub regressions: u64,
    /// Tests that are not good.
    pub failing: u64,
    /// Score.
    pub score: u8,
    /// Changed lines.
    pub lines: u64,
    /// Digest of the content.
    pub digest: String,
}

/// The best candidate's index, and the rung that decided between it and the next best; `None` for no candidate.
///
/// The rungs: a usable answer, the guard, a valid report, fewest regressions, fewest failing tests, the score, the smaller change, the most frequent
/// content, and at last the order.
#[must_use]
pub fn choose(all: &[Candidate]) -> Option<(usize, &'static str)> {
    let frequency = |digest: &str| all.iter().filter(|other| other.digest == digest).count();
    let key = |candidate: &Candidate| {
        (
            candidate.well_formed,
            candidate.guard,
            candidate.ran,
            Reverse(candidate.regressions),
            Reverse(candidate.failing),
            candidate.score,
            Reverse(candidate.lines),
            frequency(&candidate.digest),
        )
    };
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|at| (Reverse(key(&all[*at])), *at));
    let best = *order.first()?;
    let Some(next) = order.get(1) else { return Some((best, "only candidate")) };
    let (a, b) = (key(&all[best]), key(&all[*next]));
    let rungs = [
        (a.0 != b.0, "usable answer"),
        (a.1 != b.1, "guard"),
        (a.2 != b.2, "valid report"),
        (a.3 != b.3, "fewest regressions"),
        (a.4 != b.4, "fewest failing tests"),
        (a.5 != b.5, "score"),
        (a.6 != b.6, "smaller change"),
        (a.7 != b.7, "most frequent"),
    ];
    Some((best, rungs.into_iter().find(|(differs, _)| *differs).map_or("order", |(_, name)| name)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn good(number: u32) -> Candidate {
        Candidate {
            number,
            well_formed: true,
            guard: true,
            ran: true,
            regressions: 0,
            failing: 0,
            score: 100,
            lines: 5,
            digest: "d".to_owned(),
        }
    }

    #[test]
    fn ladder_decides_rung_by_rung() {
        let digest = |digest: &str| digest.to_owned();
        for (worse, rung) in [
            (Candidate { well_formed: false, lines: 0, ..good(1) }, "usable answer"),
            (Candidate { guard: false, lines: 0, ..good(1) }, "guard"),
            (Candidate { ran: false, lines: 0, ..good(1) }, "valid report"),
            (Candidate { regressions: 1, lines: 0, ..good(1) }, "fewest regressions"),
            (Candidate { failing: 1, lines: 0, ..good(1) }, "fewest failing tests"),
            (Candidate { score: 99, lines: 0, ..good(1) }, "score"),
            (Candidate { lines: 6, ..good(1) }, "smaller change"),
        ] {
            assert_eq!(choose(&[worse, good(2)]), Some((1, rung)));
        }
        let three = [Candidate { digest: digest("x"), ..good(1) }, good(2), good(3)];
        assert_eq!(choose(&three), Some((1, "order")));
        assert_eq!(choose(&[good(1), Candidate { digest: digest("x"), ..good(2) }]), Some((0, "order")));
        let four = [Candidate { digest: digest("x"), ..good(1) }, good(2), Candidate { score: 1, ..good(3) }];
        assert_eq!(choose(&four), Some((1, "most frequent")));
        assert_eq!(choose(&[good(1)]), Some((0, "only candidate")));
        assert_eq!(choose(&[]), None);
    }

    proptest! {
        #[test]
        fn failing_candidate_is_never_chosen_over_a_passing_one(scores in proptest::collection::vec((0_u64..3, 0_u8..100, 0_u64..9), 1..8)) {
            let all: Vec<Candidate> = scores.iter().map(|(failing, score, lines)| {
                Candidate { failing: *failing, score: *score, lines: *lines, ..good(1) }
            }).collect();
            let (best, _) = choose(&all).unwrap();
            prop_assert!(all.iter().all(|other| other.failing >= all[best].failing));
        }
    }
}
