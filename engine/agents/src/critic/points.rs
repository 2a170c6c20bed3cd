//! The score of a review: points for what was measured, capped by gates. A model's defects only take away.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::score::{Gate, MAX_GATED, Point, Score};

use super::answer::{Defect, Severity};

/// Maximum of points that a model's defects take away.
pub const MAX_TAKEN: u8 = 30;
/// Score from which an artifact is approved (S2.9).
pub const THRESHOLD: u8 = 85;

/// Advice of a review. No gate of hotcell reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Recommendation {
    /// All gates are passed, the score is at least 85, and no critical defect is named.
    Approve,
    /// Something should be mended.
    Revise,
    /// A person should look: the guard did not let it pass, the tests' report is contradicted, or an answer of a model could not be used.
    Escalate,
}

/// Tests that a review asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Those of the project.
    #[default]
    Tests,
    /// None: a quick review runs nothing.
    Nothing,
    /// None: a single file has no tests of its own.
    NoneThere,
}

/// Measured values of what is reviewed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Verdict of the guard as a word: `allow`, `review`, `incomplete`, `quarantine`.
    pub guard: String,
    /// Run of the tests, in the history.
    pub run: Option<String>,
    /// Tests that it asks for.
    pub wanted: Wanted,
    /// Tests that are good, and all of them; `None` when none ran.
    pub tests: Option<(u64, u64)>,
    /// The report of the tests is complete, and its witnesses agree.
    pub valid: bool,
    /// Lines that ran, and executable lines; `None` when not measured.
    pub covered: Option<(u64, u64)>,
}

/// Points for what was measured, in percent of what could be earned by it: 20 for the guard, 60 for tests, 20 for coverage. Without a run of tests, which
/// only a single file need not have, or with a gate that is not passed, at most 60. The gates of tests are those of a review that asks for some.
#[must_use]
pub fn computed(measured: &Measured) -> Score {
    let run = || measured.run.clone();
    let gate = |name: &str, passed, run| Gate { name: name.to_owned(), passed, run };
    let is_clean = matches!(measured.guard.as_str(), "allow" | "review");
    let pass = measured.tests.is_some_and(|(good, of)| of > 0 && good == of);
    let mut gates = vec![gate("guard", is_clean, None)];
    if measured.wanted == Wanted::Tests {
        gates.push(gate("report", measured.tests.is_some() && measured.valid, run()));
        gates.push(gate("tests", pass, run()));
    }
    let share = |most: u32, value: u64, of: u64| {
        u32::try_from((u64::from(most) * value.min(of)).checked_div(of).unwrap_or(0)).unwrap_or(0)
    };
    let point = |name: &str, earned, of, words, run| Point { name: name.to_owned(), earned, of, words, run };
    let clean = match measured.guard.as_str() {
        "allow" => 20,
        "review" => 10,
        _ => 0,
    };
    let mut points = vec![point("guard", clean, 20, measured.guard.clone(), None)];
    if let Some((good, of)) = measured.tests {
        points.push(point("tests", share(60, good, of), 60, format!("{good} of {of}"), run()));
    }
    if let Some((covered, of)) = measured.covered.filter(|(_, of)| *of > 0) {
        points.push(point("coverage", share(20, covered, of), 20, format!("{covered} of {of} lines"), run()));
    }
    let (earned, of) = points.iter().fold((0, 0), |(e, o), point| (e + point.earned, o + point.of));
    let percent = u8::try_from((earned * 100).checked_div(of).unwrap_or(0)).unwrap_or(100).min(100);
    let is_free = measured.wanted != Wanted::Nothing && gates.iter().all(|gate| gate.passed);
    let score = if is_free { percent } else { percent.min(MAX_GATED) };
    Score { score, gates, points }
}

/// Points that a model's defects take away.
#[must_use]
pub fn taken(defects: &[Defect]) -> u8 {
    let each = |defect: &Defect| match defect.severity {
        Severity::Critical => 10,
        Severity::Warning => 4,
        Severity::Note => 0,
    };
    u8::try_from(defects.iter().map(each).sum::<usize>().min(MAX_TAKEN.into())).unwrap_or(MAX_TAKEN)
}

/// Advice from the computed score, the defects and the measured values. `unusable`: an answer of a model could not be used. Code that
/// makes a model answer otherwise gains nothing by it.
#[must_use]
pub fn recommend(
    measured: &Measured,
    computed: &Score,
    defects: &[Defect],
    unusable: bool,
) -> Recommendation {
    let contradicted = measured.tests.is_some() && !measured.valid;
    if !matches!(measured.guard.as_str(), "allow" | "review") || contradicted {
        return Recommendation::Escalate;
    }
    let critical = defects.iter().any(|defect| defect.severity == Severity::Critical);
    let left = computed.score.saturating_sub(taken(defects));
    match computed.accepted() && left >= THRESHOLD && !critical {
        true if unusable => Recommendation::Escalate,
        true => Recommendation::Approve,
        false => Recommendation::Revise,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn good() -> Measured {
        Measured {
            guard: "allow".to_owned(),
            run: Some("r".to_owned()),
            wanted: Wanted::Tests,
            tests: Some((4, 4)),
            valid: true,
            covered: None,
        }
    }

    fn defects(severity: Severity, count: usize) -> Vec<Defect> {
        let one = Defect { severity, file: "a".to_owned(), line: 1, problem: "p".to_owned(), fix: None };
        vec![one; count]
    }

    #[test]
    fn score_is_computed_and_advice_follows_gates() {
        use Recommendation::{Approve, Escalate, Revise};
        let guard = |word: &str| Measured { guard: word.to_owned(), ..good() };
        let untested =
            |word: &str, wanted| Measured { guard: word.to_owned(), wanted, ..Measured::default() };
        for (measured, named, score, advice) in [
            (good(), vec![], 100, Approve),
            (good(), defects(Severity::Note, 9), 100, Approve),
            (good(), defects(Severity::Warning, 3), 100, Approve),
            (good(), defects(Severity::Warning, 4), 100, Revise),
            (good(), defects(Severity::Critical, 1), 100, Revise),
            (guard("review"), vec![], 87, Approve),
            (guard("quarantine"), vec![], 60, Escalate),
            (guard("incomplete"), vec![], 60, Escalate),
            (Measured { valid: false, ..good() }, vec![], 60, Escalate),
            (Measured { tests: Some((3, 4)), ..good() }, vec![], 60, Revise),
            (Measured { tests: Some((0, 4)), ..good() }, vec![], 25, Revise),
            (Measured { tests: None, valid: false, run: None, ..good() }, vec![], 60, Revise),
            (Measured { tests: Some((0, 0)), ..good() }, vec![], 25, Revise),
            (untested("allow", Wanted::NoneThere), vec![], 100, Approve),
            (untested("review", Wanted::NoneThere), vec![], 50, Revise),
            (untested("quarantine", Wanted::NoneThere), vec![], 0, Escalate),
            (untested("allow", Wanted::NoneThere), defects(Severity::Critical, 1), 100, Revise),
            (untested("allow", Wanted::Nothing), vec![], 60, Revise),
            (Measured { covered: Some((1, 2)), ..good() }, vec![], 90, Approve),
        ] {
            let computed = computed(&measured);
            assert_eq!(
                (computed.score, recommend(&measured, &computed, &named, false)),
                (score, advice),
                "{measured:?}"
            );
            let unread = if advice == Approve { Escalate } else { advice };
            assert_eq!(recommend(&measured, &computed, &named, true), unread, "{measured:?}");
        }
        assert_eq!(taken(&defects(Severity::Critical, 9)), MAX_TAKEN);
    }

    #[test]
    fn gates_of_tests_stand_where_tests_are_asked_for() {
        for (wanted, names) in [
            (Wanted::Tests, &["guard", "report", "tests"][..]),
            (Wanted::Nothing, &["guard"]),
            (Wanted::NoneThere, &["guard"]),
        ] {
            let gates = computed(&Measured { wanted, ..Measured::default() }).gates;
            assert_eq!(gates.iter().map(|gate| &*gate.name).collect::<Vec<_>>(), names);
            assert!(gates.iter().all(|gate| !gate.passed));
        }
    }

    proptest! {
        #[test]
        fn opinions_never_add_points(critical in 0_usize..5, warnings in 0_usize..9, good in 0_u64..5) {
            let measured = Measured { tests: Some((good, 4)), ..self::good() };
            let computed = computed(&measured);
            let mut all = defects(Severity::Critical, critical);
            all.extend(defects(Severity::Warning, warnings));
            prop_assert!(taken(&all) <= MAX_TAKEN);
            if recommend(&measured, &computed, &all, false) == Recommendation::Approve {
                prop_assert_eq!(recommend(&measured, &computed, &[], false), Recommendation::Approve);
            }
        }
    }
}
