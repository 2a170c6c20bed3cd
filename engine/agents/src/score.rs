//! The score of an artifact: computed from evidence, each point with the run that it is from. Gates cap it; no model's opinion counts.

use serde::{Deserialize, Serialize};

/// Maximum score of an artifact that fails a gate.
pub const MAX_GATED: u8 = 60;

/// A condition without which an artifact is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Gate {
    /// Name.
    pub name: String,
    /// Whether the artifact passes.
    pub passed: bool,
    /// Run that it is from, in the history; `null` when nothing ran.
    pub run: Option<String>,
}

/// Points for something measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Point {
    /// Name of the measured value.
    pub name: String,
    /// Points.
    pub earned: u32,
    /// Maximum of points.
    pub of: u32,
    /// Measured values in words, such as `5 of 6`.
    pub words: String,
    /// Run that it is from, in the history.
    pub run: Option<String>,
}

/// Measured values of an artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Run, in the history.
    pub run: Option<String>,
    /// The report is complete, and its witnesses agree.
    pub valid: bool,
    /// The guard let it run.
    pub guard: bool,
    /// All tests that were there before are there now.
    pub all_there: bool,
    /// Number of tests that are required.
    pub required: u64,
    /// Of these, tests that are good.
    pub good: u64,
    /// Tests that were good before and are not now.
    pub regressions: u64,
    /// Changed lines that tests run, of all changed lines that could be; `None` when it was not measured.
    pub covered: Option<(u64, u64)>,
    /// Mutants of the code that a required test fails on, of those that were tried; `None` when none was.
    pub mutants: Option<(u64, u64)>,
    /// The tests are a model's, so that they have to fail on a mutant.
    pub unproven_tests: bool,
}

/// Score, gates and points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Score {
    /// 0 to 100.
    pub score: u8,
    /// Gates.
    pub gates: Vec<Gate>,
    /// Points.
    pub points: Vec<Point>,
}

impl Score {
    /// All gates are passed.
    #[must_use]
    pub fn accepted(&self) -> bool {
        self.gates.iter().all(|gate| gate.passed)
    }
}

/// Computes the score: 60 points for required tests that are good, 30 for no regression, 10 each for coverage of the change and for mutants that tests
/// fail on if that was measured, in percent of what could be earned.
#[must_use]
pub fn score(measured: &Measured) -> Score {
    let gate = |name: &str, passed| Gate { name: name.to_owned(), passed, run: measured.run.clone() };
    let tests_pass = measured.required > 0 && measured.good == measured.required && measured.regressions == 0;
    let mut gates = vec![
        gate("guard", measured.guard),
        gate("report", measured.valid),
        gate("no_test_lost", measured.all_there),
        gate("tests", tests_pass),
    ];
    let mutants = measured.mutants.filter(|(_, of)| *of > 0);
    if let Some((killed, _)) = mutants.filter(|_| measured.unproven_tests) {
        gates.push(gate("tests_fail_on_a_mutant", killed > 0));
    }
    let part = |most: u32, value: u64, of: u64| {
        let share = (u64::from(most) * value.min(of)).checked_div(of).unwrap_or(0);
        u32::try_from(share).unwrap_or(0)
    };
    let point = |name: &str, earned, of, words| Point {
        name: name.to_owned(),
        earned,
        of,
        words,
        run: measured.run.clone(),
    };
    let ran = measured.guard && measured.required > 0 && measured.run.is_some();
    let mut points = vec![
        point(
            "tests",
            part(60, measured.good, measured.required),
            60,
            format!("{} of {}", measured.good, measured.required),
        ),
        point(
            "no_regression",
            if ran {
                30_u32.saturating_sub(u32::try_from(measured.regressions).unwrap_or(30).saturating_mul(10))
            } else {
                0
            },
            30,
            format!("{} regressions", measured.regressions),
        ),
    ];
    if let Some((covered, of)) = measured.covered.filter(|(_, of)| *of > 0) {
        points.push(point(
            "coverage_of_change",
            part(10, covered, of),
            10,
            format!("{covered} of {of} lines"),
        ));
    }
    if let Some((killed, of)) = mutants {
        points.push(point("mutants", part(10, killed, of), 10, format!("tests fail on {killed} of {of}")));
    }
    let (earned, of) =
        points.iter().fold((0, 0), |(earned, of), point| (earned + point.earned, of + point.of));
    let percent = u8::try_from((earned * 100).checked_div(of).unwrap_or(0)).unwrap_or(100).min(100);
    let score = if gates.iter().all(|gate| gate.passed) { percent } else { percent.min(MAX_GATED) };
    Score { score, gates, points }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn good() -> Measured {
        Measured {
            run: Some("r".to_owned()),
            valid: true,
            guard: true,
            all_there: true,
            required: 4,
            good: 4,
            regressions: 0,
            covered: None,
            mutants: None,
            unproven_tests: false,
        }
    }

    #[test]
    fn score_is_computed_and_capped_by_gates() {
        for (measured, want, accepted) in [
            (good(), 100, true),
            (Measured { covered: Some((1, 2)), ..good() }, 95, true),
            (Measured { covered: Some((0, 0)), ..good() }, 100, true),
            (Measured { valid: false, ..good() }, 60, false),
            (Measured { guard: false, run: None, good: 0, ..good() }, 0, false),
            (Measured { all_there: false, ..good() }, 60, false),
            (Measured { good: 2, ..good() }, 60, false),
            (Measured { good: 1, ..good() }, 50, false),
            (Measured { good: 3, regressions: 1, ..good() }, 60, false),
            (Measured { good: 1, regressions: 3, ..good() }, 16, false),
            (Measured { required: 0, good: 0, ..good() }, 0, false),
            (Measured::default(), 0, false),
        ] {
            let score = score(&measured);
            assert_eq!((score.score, score.accepted()), (want, accepted), "{measured:?}");
            assert!(score.points.iter().all(|point| point.run == measured.run));
        }
    }

    proptest! {
        #[test]
        fn more_passing_tests_never_score_less(required in 1_u64..50, good in 0_u64..50) {
            let at = |good: u64| score(&Measured { required, good, ..self::good() }).score;
            prop_assert!(at((good + 1).min(required)) >= at(good.min(required)));
            prop_assert!(at(required) == 100);
        }
    }
}
