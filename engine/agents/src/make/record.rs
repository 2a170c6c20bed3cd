//! The two stages before the code: architect and tester. Each stage is an attempt over the machine of all
//! attempts, with rows under a number of its own.

use crate::attempt::Attempt;
use crate::edit::{self, Files, Malformed};
use crate::journal::{Entry, Row};
use crate::machine::{Phase, Reason, Rules};
use crate::paths::BadPath;
use crate::spec::plan::{self, Plan, Unplanned};
use crate::spec::{Language, Making};

/// Maximum number of answers that a stage judges.
pub const MAX_ANSWERS: u32 = 3;

/// A role that works before the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Plans.
    Architect,
    /// Writes tests.
    Tester,
}

impl Stage {
    /// Both, in their order.
    pub const ALL: [Self; 2] = [Self::Architect, Self::Tester];

    /// Number of its rows, above all candidates'.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Architect => 1001,
            Self::Tester => 1002,
        }
    }

    /// The stage with rows of this number.
    #[must_use]
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.number() == number)
    }

    /// Name of the role in the configuration and the ledger.
    #[must_use]
    pub const fn role(self) -> &'static str {
        match self {
            Self::Architect => "architect",
            Self::Tester => "tester",
        }
    }
}

/// Why an answer of a tester cannot be used, in words for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untested {
    /// The files cannot be read.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A file whose name is not that of a test.
    #[error("{path} is not the name of a test, such as {like}; write tests only")]
    NoTest {
        /// Path.
        path: String,
        /// Name of a test.
        like: String,
    },
}

/// Both stages as their rows tell them.
#[derive(Clone, Debug)]
pub struct Stages {
    /// The request, as it was changed last.
    pub making: Making,
    /// Architect.
    pub architect: Attempt,
    /// Tester.
    pub tester: Attempt,
}

/// The project before any code, as a tester's answer sees it.
struct Blank<'a>(&'a str);

impl Files for Blank<'_> {
    fn text(&self, _: &str) -> Result<Option<String>, BadPath> {
        Ok(None)
    }

    fn only(&self) -> Option<String> {
        Some(self.0.to_owned())
    }

    fn may_write_tests(&self) -> bool {
        true
    }
}

impl Stages {
    /// The stages in the rows of a session; `None` when the session does not make code.
    #[must_use]
    pub fn of(rows: &[Row]) -> Option<Self> {
        let making = rows.iter().rev().find_map(|row| match &row.entry {
            Entry::Making { making } => Some((**making).clone()),
            _ => None,
        })?;
        let stage = |stage: Stage| {
            let rules = Rules { iterations: MAX_ANSWERS, ..Rules::default() };
            let mut attempt = Attempt::new(stage.number(), rules);
            rows.iter()
                .filter(|row| row.candidate == stage.number())
                .for_each(|row| attempt.apply(&row.entry));
            attempt
        };
        Some(Self { making, architect: stage(Stage::Architect), tester: stage(Stage::Tester) })
    }

    /// The plan, once there is one.
    #[must_use]
    pub fn plan(&self) -> Option<Plan> {
        if self.architect.state.phase != Phase::Converged {
            return None;
        }
        planned(&self.making, &self.architect).ok()
    }

    /// The tests, once they count.
    #[must_use]
    pub fn tests(&self) -> Option<Vec<(String, String)>> {
        if self.tester.state.phase != Phase::Converged {
            return None;
        }
        tests(&self.making, &self.plan()?, &self.tester).ok()
    }

    /// State of the session as far as the stages decide it; `None` when the candidates do.
    #[must_use]
    pub fn state(&self) -> Option<(Phase, Option<Reason>)> {
        let of = |attempt: &Attempt| match attempt.state.phase {
            Phase::Converged => None,
            Phase::Idle => Some((Phase::Generating, None)),
            phase => Some((phase, attempt.state.reason.clone())),
        };
        match of(&self.architect) {
            None if self.making.plan_only => Some((Phase::Idle, None)),
            None => of(&self.tester),
            state => state,
        }
    }
}

/// The plan in the last answer.
///
/// # Errors
/// [`Unplanned`].
pub fn planned(making: &Making, architect: &Attempt) -> Result<Plan, Unplanned> {
    let settings = making.language.settings().iter().map(|path| (*path).to_owned());
    let taken: Vec<String> = making.tests.iter().map(|(path, _)| path.clone()).chain(settings).collect();
    match (&making.plan, &architect.answer) {
        (Some(given), _) => plan::given(given, making.language, &taken),
        (None, Some(answer)) => plan::read(&answer.text, answer.cut, making.language, &taken),
        (None, None) => Err(Unplanned::Empty),
    }
}

/// The given tests, or those in the last answer.
///
/// # Errors
/// [`Untested`].
pub fn tests(making: &Making, plan: &Plan, tester: &Attempt) -> Result<Vec<(String, String)>, Untested> {
    if !making.tests.is_empty() {
        return Ok(making.tests.clone());
    }
    let Some(answer) = &tester.answer else { return Err(Malformed::Empty.into()) };
    tests_in(&answer.text, answer.cut, making.language, plan)
}

/// The tests in the text of an answer.
///
/// # Errors
/// [`Untested`].
pub fn tests_in(
    text: &str,
    cut: bool,
    language: Language,
    plan: &Plan,
) -> Result<Vec<(String, String)>, Untested> {
    let source = plan.files.iter().find(|file| language.is_source(&file.path));
    let like = language.test_of(source.map_or("code", |file| &file.path));
    let edit = edit::read(text, cut, &Blank(&like))?;
    match edit.files.iter().find(|(path, _)| !language.is_test(path)) {
        Some((path, _)) => Err(Untested::NoTest { path: path.clone(), like }),
        None => Ok(edit.files),
    }
}

/// Why the tests of an answer do not count; `None` when they do.
#[must_use]
pub fn refusal(tester: &Attempt, at: usize) -> Option<&str> {
    let review = tester.state.reviews.get(at).filter(|review| !review.accepted)?;
    review.failing.first().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Ask, Event};
    use crate::review::Review;

    fn making() -> Making {
        Making {
            language: Language::Python,
            spec: "adds".to_owned(),
            plan: None,
            tests: Vec::new(),
            plan_only: false,
            out: None,
            go: None,
        }
    }

    fn row(candidate: u32, entry: Entry) -> Row {
        Row { candidate, time_us: 0, entry }
    }

    fn answer(stage: Stage, text: &str) -> Vec<Row> {
        let most = crate::budget::Amount::default();
        let replied = Entry::Replied {
            text: text.to_owned(),
            cut: false,
            model: "m".to_owned(),
            used: most,
            cost: "free".to_owned(),
            time_ms: 1,
        };
        let accepted = Review { accepted: true, score: 100, ..Review::default() };
        [
            Entry::Step { event: Event::TaskGiven },
            Entry::Asked { ask: Ask::First, role: stage.role().to_owned(), most },
            replied,
            Entry::Step { event: Event::Answered },
            Entry::Step { event: Event::Reviewed(accepted) },
        ]
        .map(|entry| row(stage.number(), entry))
        .into()
    }

    const PLAN: &str = "PLAN_START\nFILE: calc.py\nPURPOSE: adds\nPLAN_END";

    #[test]
    fn stages_are_told_by_their_rows() {
        assert!(Stages::of(&[row(0, Entry::Began)]).is_none());
        let mut rows = vec![row(0, Entry::Making { making: Box::new(making()) })];
        let stages = Stages::of(&rows).unwrap();
        assert_eq!((stages.state(), stages.plan()), (Some((Phase::Generating, None)), None));
        rows.extend(answer(Stage::Architect, PLAN));
        let stages = Stages::of(&rows).unwrap();
        assert_eq!(stages.plan().unwrap().files[0].path, "calc.py");
        assert_eq!((stages.state(), stages.tests()), (Some((Phase::Generating, None)), None));
        let only = Making { plan_only: true, ..making() };
        let before = rows.len();
        rows.push(row(0, Entry::Making { making: Box::new(only) }));
        assert_eq!(Stages::of(&rows).unwrap().state(), Some((Phase::Idle, None)));
        rows.truncate(before);
        rows.extend(answer(Stage::Tester, "FILE_START: test_calc.py\nx\nFILE_END"));
        let stages = Stages::of(&rows).unwrap();
        assert_eq!(stages.tests(), Some(vec![("test_calc.py".to_owned(), "x\n".to_owned())]));
        assert_eq!(stages.state(), None);
    }

    #[test]
    fn answers_of_a_tester_have_tests_only() {
        let plan = plan::read(PLAN, false, Language::Python, &[]).unwrap();
        let of = |text: &str| {
            let mut rows = vec![row(0, Entry::Making { making: Box::new(making()) })];
            rows.extend(answer(Stage::Tester, text));
            tests(&making(), &plan, &Stages::of(&rows).unwrap().tester)
        };
        for (text, why) in [
            ("", "is empty"),
            ("no tests", "no file"),
            ("FILE_START: calc.py\nx\nFILE_END", "calc.py is not the name of a test, such as test_calc.py"),
            ("FILE_START: conftest.py\nx\nFILE_END", "not the name of a test"),
            ("FILE_START: ../test_calc.py\nx\nFILE_END", "not a path within the project"),
            ("FILE_START: .git/test_calc.py\nx\nFILE_END", "protected"),
        ] {
            assert!(of(text).is_err_and(|e| e.to_string().contains(why)), "{text}");
        }
        assert_eq!(of("```python\nx\n```").unwrap()[0].0, "test_calc.py");
        let given = Making { tests: vec![("help.py".to_owned(), "h".to_owned())], ..making() };
        assert_eq!(tests(&given, &plan, &Attempt::new(1002, Rules::default())).unwrap(), given.tests);
    }
}
