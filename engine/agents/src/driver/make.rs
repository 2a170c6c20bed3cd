//! Sessions that make code: architect and tester come first, their tests are judged on a stub, and each candidate begins with the frozen tests.

use std::cell::OnceCell;

use hotcell_models::{Client, Request};
use hotcell_state::ids::random_hex;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_testing::{Selection, Verdict};

use super::ask::{BYTES_OF_A_TOKEN, FIXED_TOKENS, check_keys, room};
use super::{Driver, Ended, Session, of_journal};
use crate::attempt::Attempt;
use crate::evidence::Evidence;
use crate::journal::{Entry, Journal, Task};
use crate::machine::{Action, Ask, Event, Phase};
use crate::make::judge::{Unfit, builds, judge};
use crate::make::prompt::{self, Refused};
use crate::make::record::{self, Stage, Stages};
use crate::prompt::Unusable;
use crate::review::Review;
use crate::spec::language::Stub;
use crate::spec::{GoVersion, Language, Making, Plan, go_version, stub};
use crate::tree;

/// Resources that a session has in addition when it makes code.
pub(crate) struct Workshop {
    pub(super) making: Making,
    architect: Client,
    tester: Client,
    plan: OnceCell<Plan>,
    pub(super) made: OnceCell<Made>,
}

/// Tests that count, and the task of those who write the code.
pub(crate) struct Made {
    /// Files that a candidate begins with: tests and settings.
    files: Vec<(String, String)>,
    /// Their paths.
    pub(super) frozen: Vec<String>,
    /// Digest of the files.
    digest: String,
    /// Evidence of the tests on a stub.
    on_stub: Evidence,
    /// Specification and plan.
    pub(super) words: String,
    /// The only file of the plan.
    pub(super) only: Option<String>,
    /// Specification and interface of the only file, for short prompts.
    pub(super) brief: Option<String>,
}

fn internal(why: impl Into<String>) -> ErrorReport {
    ErrorReport::new(Code::Internal, why)
}

impl Driver<'_> {
    /// Makes code from a specification.
    ///
    /// # Errors
    /// A report when nothing can be done: no model, a price that is not known, a specification that does not fit a model's window, given tests that
    /// pass on a stub.
    pub async fn make(&self, task: Task, mut making: Making) -> Result<Ended, ErrorReport> {
        let (repairs, fresh) = self.clients(&task)?;
        let shop = self.workshop(&task, &making)?;
        for client in [&shop.architect, &shop.tester, &repairs, &fresh] {
            check_keys(client)?;
        }
        making.go = self.check_language(making.language).await?;
        let journal = Journal::open(self.folder).map_err(|e| of_journal(&e))?;
        let id = journal.begin(&task).map_err(|e| of_journal(&e))?;
        let language = making.language.name();
        journal.add(&id, 0, &[Entry::Making { making: Box::new(making) }]).map_err(|e| of_journal(&e))?;
        let candidates = if task.candidates == 1 { "candidate" } else { "candidates" };
        (self.say)(&format!("session {id}: code in {language}; {} {candidates}", task.candidates));
        self.go_on(&id, &task, &journal, None, false).await
    }

    /// Runs tests of files in a workspace of their own, each by itself. `command` is shown in the history.
    ///
    /// # Errors
    /// A report when tests cannot run here.
    pub(crate) async fn tested_alone(
        &self,
        framework: Option<&str>,
        files: &[(String, String)],
        command: Vec<String>,
    ) -> Result<Evidence, ErrorReport> {
        let workspace = self.bench.begin(files)?;
        let selection = Selection { isolated: true, ..Selection::default() };
        let tested =
            self.run_selected(&workspace, (framework.map(str::to_owned), selection), false, command).await;
        self.bench.remove(&workspace);
        let (report, run) = tested?;
        let evidence = Evidence::of(&report, run);
        if matches!(evidence.verdict, Verdict::NotInstalled | Verdict::Refused) {
            let why = evidence.reason.as_deref().unwrap_or(evidence.verdict.words());
            return Err(ErrorReport::new(Code::Refused, format!("tests cannot run here: {why}")));
        }
        Ok(evidence)
    }

    /// Builds a smallest project of a language that has a compiler, before any model is asked; returns the version of Go, if that is the language.
    ///
    /// # Errors
    /// A report when it cannot be built here.
    pub(crate) async fn check_language(&self, language: Language) -> Result<Option<GoVersion>, ErrorReport> {
        if !language.is_typed() {
            return Ok(None);
        }
        let plan = stub::smallest(language);
        let mut probe = stub::probe(language, &plan);
        probe.extend((language == Language::Go).then(go_version::test));
        let files = stub::project((language, GoVersion::default()), &plan, Stub::Fails, probe);
        let refused = |why: String| {
            ErrorReport::new(Code::Refused, format!("{} cannot be compiled here: {why}", language.name()))
                .field("--lang")
        };
        let command = ["make", "a smallest project"].map(str::to_owned).into();
        let tested = self.tested_alone(Some(language.framework()), &files, command).await;
        let evidence =
            tested.map_err(|e| if e.code == Code::Refused { refused(e.to_string()) } else { e })?;
        let needs = format!("{} is needed", language.compiler());
        builds(&evidence).map_err(|unfit| match unfit {
            Unfit::NotRun(_) => refused(unfit.to_string()).hint("try it again"),
            _ => refused(unfit.to_string()).hint(needs.clone()),
        })?;
        let go = go_version::told(evidence.tests.keys().map(String::as_str));
        match go.filter(|_| language == Language::Go) {
            Some(old) if !old.is_enough() => Err(refused(format!("this is Go {old}")).hint(needs)),
            go => Ok(go),
        }
    }

    /// Changes the request of a session that makes code: it goes on after its plan, and may have another folder for the result.
    ///
    /// # Errors
    /// A report when there is no such session, or it makes no code.
    pub fn remake(&self, id: &str, out: Option<String>) -> Result<(), ErrorReport> {
        let journal = Journal::open(self.folder).map_err(|e| of_journal(&e))?;
        let rows = journal.rows(id).map_err(|e| of_journal(&e))?;
        let Some(stages) = Stages::of(&rows) else {
            let why = format!("the session {id} was ended before its work began");
            return Err(ErrorReport::new(Code::State, why).hint("begin another one"));
        };
        let before = stages.making;
        let making = Making { plan_only: false, out: out.or(before.out.clone()), ..before.clone() };
        if making == before {
            return Ok(());
        }
        journal.add(id, 0, &[Entry::Making { making: Box::new(making) }]).map_err(|e| of_journal(&e))
    }

    /// Clients of architect and tester.
    pub(super) fn workshop(&self, task: &Task, making: &Making) -> Result<Workshop, ErrorReport> {
        let of = |stage: Stage| self.client(task, stage.role());
        let (architect, tester) = (of(Stage::Architect)?, of(Stage::Tester)?);
        let tokens = making.spec.len() as u64 / BYTES_OF_A_TOKEN + FIXED_TOKENS;
        for endpoint in architect.endpoints().chain(tester.endpoints()) {
            if endpoint.window.is_some_and(|window| tokens * 2 > u64::from(window)) {
                let why = format!(
                    "the specification takes about {tokens} tokens, more than half of the window of {}",
                    endpoint.name
                );
                return Err(ErrorReport::new(Code::InvalidValue, why)
                    .field("SPEC")
                    .hint("say it shorter, or name a model with a larger window"));
            }
        }
        let (plan, made) = (OnceCell::new(), OnceCell::new());
        Ok(Workshop { making: making.clone(), architect, tester, plan, made })
    }
}

impl Workshop {
    pub(super) fn client(&self, stage: Stage) -> &Client {
        match stage {
            Stage::Architect => &self.architect,
            Stage::Tester => &self.tester,
        }
    }

    fn plan(&self) -> Result<&Plan, ErrorReport> {
        self.plan.get().ok_or_else(|| internal("there is no plan"))
    }
}

impl Session<'_> {
    /// Works at plan and tests; returns whether candidates can begin.
    pub(super) async fn prepare(
        &self,
        shop: &Workshop,
        decision: Option<&Action>,
    ) -> Result<bool, ErrorReport> {
        let rows = self.journal.rows(&self.id).map_err(|e| of_journal(&e))?;
        let Some(stages) = Stages::of(&rows) else { return Err(internal("there is no request")) };
        let begin = if shop.making.plan.is_some() { Event::CodeGiven } else { Event::TaskGiven };
        let architect = self.stage(stages.architect, begin, decision).await?;
        if architect.state.phase != Phase::Converged {
            return Ok(false);
        }
        let plan = record::planned(&shop.making, &architect).map_err(|e| internal(e.to_string()))?;
        let plan = shop.plan.get_or_init(|| plan);
        if shop.making.plan_only {
            return Ok(false);
        }
        let begin = if shop.making.tests.is_empty() { Event::TaskGiven } else { Event::CodeGiven };
        let tester = self.stage(stages.tester, begin, decision).await?;
        if tester.state.phase != Phase::Converged {
            return Ok(false);
        }
        let tests = record::tests(&shop.making, plan, &tester).map_err(|e| internal(e.to_string()))?;
        let judged = tester.state.reviews.last().map(|review| review.artifact.clone());
        if judged.as_deref() != Some(&tree::digest_of_texts(&tests)) {
            return Err(internal("the tests are not those that were judged"));
        }
        let language = shop.making.language;
        let settings = shop.making.setting_files(plan.files.iter().map(|file| &*file.path));
        let files: Vec<_> = tests.into_iter().chain(settings).collect();
        let on_stub = tester.tested.last().map(|tested| tested.evidence.clone());
        let mut sources = plan.files.iter().filter(|file| language.is_source(&file.path));
        let only = match (sources.next(), sources.next()) {
            (Some(file), None) => Some(file),
            _ => None,
        };
        let made = Made {
            frozen: files.iter().map(|(path, _)| path.clone()).collect(),
            digest: tree::digest_of_texts(&files),
            files,
            on_stub: on_stub.ok_or_else(|| internal("the tests were not run"))?,
            words: prompt::words(&shop.making, plan),
            only: only.map(|file| file.path.clone()),
            brief: only.map(|file| prompt::brief(&shop.making, &file.interface)),
        };
        shop.made.get_or_init(|| made);
        Ok(true)
    }

    async fn stage(
        &self,
        mut attempt: Attempt,
        begin: Event,
        decision: Option<&Action>,
    ) -> Result<Attempt, ErrorReport> {
        if attempt.state.phase == Phase::Escalated && decision == Some(&Action::AcceptBestEffort) {
            self.journal.set_state(&self.id, "escalated").map_err(|e| of_journal(&e))?;
            let why = "there is no code yet that could be accepted";
            return Err(ErrorReport::new(Code::Refused, why).hint("go on with another model, or abort it"));
        }
        if attempt.state.phase == Phase::Idle {
            self.note(&mut attempt, &[Entry::Step { event: begin }])?;
        }
        self.attempt(attempt, decision.cloned()).await
    }

    /// Makes the workspace of a candidate with the frozen tests.
    pub(super) fn begin(&self, made: &Made, attempt: &mut Attempt) -> Result<(), ErrorReport> {
        let workspace = self.driver.bench.begin(&made.files)?;
        let artifact = self.driver.bench.changed(&workspace, 0)?.artifact;
        let review = made.on_stub.review(&made.on_stub, &artifact, None);
        let tested = Entry::Tested {
            evidence: Box::new(made.on_stub.clone()),
            artifact,
            files: Vec::new(),
            lines: 0,
            analysis: String::new(),
            patch: None,
        };
        let rows = [
            Entry::Workspace { id: workspace },
            Entry::Step { event: Event::TestsGiven },
            tested,
            Entry::Step { event: Event::Reviewed(review) },
        ];
        self.note(attempt, &rows)
    }

    /// Checks that the tests in a workspace are those that were frozen.
    pub(super) fn check_frozen(&self, made: &Made, workspace: &str) -> Result<(), ErrorReport> {
        let now = self.driver.bench.look(workspace, |view| tree::digest_of(view, &made.frozen))?;
        if now == made.digest {
            Ok(())
        } else {
            Err(internal("the frozen tests of the session have changed"))
        }
    }

    /// The question of a stage.
    pub(super) fn stage_request(
        &self,
        (shop, stage): (&Workshop, Stage),
        attempt: &Attempt,
        ask: Ask,
    ) -> Result<Request, ErrorReport> {
        let (_, output) = room(shop.client(stage), self.task.max_output_tokens);
        let limits = (output, self.seed(attempt));
        let unusable = attempt.unusable.as_deref().filter(|_| ask == Ask::Again).map(|why| Unusable {
            answer: attempt.answer.as_ref().map(|answer| answer.text.as_str()).unwrap_or_default(),
            why,
        });
        let (making, constraints) = (&shop.making, &self.task.constraints[..]);
        let word = random_hex(8)?;
        let last = attempt.state.reviews.len().checked_sub(1);
        let refused = match (last.and_then(|at| record::refusal(attempt, at)), attempt.tested.last()) {
            (Some(why), Some(tested)) => Some(Refused { why, evidence: &tested.evidence }),
            _ => None,
        };
        if stage == Stage::Architect {
            return Ok(prompt::architect(making, constraints, (refused, &word), unusable, limits));
        }
        Ok(prompt::tester(making, (shop.plan()?, constraints), (refused, &word), unusable, limits))
    }

    /// Why the last answer of a stage cannot be used; `None` when it can.
    pub(super) fn stage_refusal(
        &self,
        (shop, stage): (&Workshop, Stage),
        attempt: &Attempt,
    ) -> Result<Option<String>, ErrorReport> {
        Ok(match stage {
            Stage::Architect => record::planned(&shop.making, attempt).err().map(|e| e.to_string()),
            Stage::Tester => record::tests(&shop.making, shop.plan()?, attempt).err().map(|e| e.to_string()),
        })
    }

    /// Judges what a stage answered.
    pub(super) async fn judge_stage(
        &self,
        (shop, stage): (&Workshop, Stage),
        attempt: &mut Attempt,
    ) -> Result<(), ErrorReport> {
        if stage == Stage::Tester {
            return self.judge_tests(shop, attempt).await;
        }
        let making = &shop.making;
        let plan = record::planned(making, attempt).map_err(|e| internal(e.to_string()))?;
        let mut rows = Vec::new();
        let mut judged = Ok(());
        if making.language.is_typed() {
            let probe = stub::probe(making.language, &plan);
            let mut evidence = self.on_stub((making, &plan), &probe, Stub::Fails).await?;
            judged = builds(&evidence);
            for stub in making.language.returning() {
                if judged.is_ok() {
                    evidence = self.on_stub((making, &plan), &probe, *stub).await?;
                    judged = builds(&evidence);
                }
            }
            if let Err(unfit @ Unfit::NotRun(_)) = &judged {
                let why = unfit.to_string();
                return Err(ErrorReport::new(Code::Limit, why).hint("go on with hotcell agent resume"));
            }
            rows.push(Entry::Tested {
                evidence: Box::new(evidence),
                artifact: tree::digest_of_texts(&[(String::new(), plan.text())]),
                files: Vec::new(),
                lines: 0,
                analysis: String::new(),
                patch: None,
            });
        }
        if let (Err(unfit), true) = (&judged, making.plan.is_some()) {
            self.journal.set_state(&self.id, "failed").map_err(|e| of_journal(&e))?;
            return Err(ErrorReport::new(Code::Refused, format!("the given plan: {unfit}")).field("--plan"));
        }
        let names: Vec<&str> = plan.files.iter().map(|file| file.path.as_str()).collect();
        let files = if names.len() == 1 { "file" } else { "files" };
        let result = match &judged {
            Err(unfit) => format!("refused: {}", crate::text::line(&unfit.to_string(), 200)),
            Ok(()) => format!("plan of {} {files}: {}", names.len(), names.join(", ")),
        };
        self.say(attempt, &format!("{result}; {}", self.spent()));
        let review = match judged {
            Ok(()) => Review { accepted: true, score: 100, ..Review::default() },
            Err(unfit) => Review {
                artifact: tree::digest_of_texts(&[(String::new(), plan.text())]),
                failing: [unfit.to_string()].into(),
                ..Review::default()
            },
        };
        rows.push(Entry::Step { event: Event::Reviewed(review) });
        self.note(attempt, &rows)
    }

    /// Runs tests on a stub.
    async fn on_stub(
        &self,
        (making, plan): (&Making, &Plan),
        tests: &[(String, String)],
        stub: Stub,
    ) -> Result<Evidence, ErrorReport> {
        let of = (making.language, making.go.unwrap_or_default());
        let files = stub::project(of, plan, stub, tests.iter().cloned());
        let what = format!("session {} on a stub ({stub:?})", self.id);
        let command = vec![self.task.kind.clone(), self.task.project.clone(), what];
        // Tests that are given may have another framework, where a language has several.
        let own = making.language.is_typed().then(|| making.language.framework());
        self.driver.tested_alone(self.task.framework.as_deref().or(own), &files, command).await
    }

    /// Judges the tests of the last answer, or the given ones.
    async fn judge_tests(&self, shop: &Workshop, attempt: &mut Attempt) -> Result<(), ErrorReport> {
        let making = &shop.making;
        let tests = record::tests(making, shop.plan()?, attempt).map_err(|e| internal(e.to_string()))?;
        let names: Vec<String> = tests.iter().map(|(path, _)| path.clone()).collect();
        let of = (making, shop.plan()?);
        let evidence = self.on_stub(of, &tests, Stub::Fails).await?;
        let mut judged = judge(&evidence, &[], &names);
        if judged.is_ok() {
            let mut returns = Vec::new();
            for stub in making.language.returning() {
                returns.push(self.on_stub(of, &tests, *stub).await?);
            }
            judged = judge(&evidence, &returns, &names);
        }
        let given = !making.tests.is_empty();
        let accepted = match &judged {
            Ok(()) => true,
            Err(unfit) if given => match given_anyway(unfit, evidence.verdict) {
                Ok(accepted) => accepted,
                Err(report) => {
                    self.journal.set_state(&self.id, "failed").map_err(|e| of_journal(&e))?;
                    return Err(report);
                }
            },
            Err(_) => false,
        };
        let (of, failing) = (evidence.tests.len(), evidence.tests.len() - evidence.passed());
        let files = if names.len() == 1 { "file" } else { "files" };
        self.say(
            attempt,
            &match &judged {
                Err(unfit) if !accepted => {
                    format!("refused: {}; {}", crate::text::line(&unfit.to_string(), 200), self.spent())
                }
                _ => format!(
                    "{of} tests in {} {files}, {failing} fail on a stub, frozen; {}",
                    names.len(),
                    self.spent()
                ),
            },
        );
        let artifact = tree::digest_of_texts(&tests);
        let review = Review {
            artifact: artifact.clone(),
            failing: judged.err().map(|unfit| unfit.to_string()).into_iter().collect(),
            score: if accepted { 100 } else { 0 },
            accepted,
        };
        let tested = Entry::Tested {
            evidence: Box::new(evidence),
            artifact,
            files: names,
            lines: 0,
            analysis: String::new(),
            patch: None,
        };
        self.note(attempt, &[tested, Entry::Step { event: Event::Reviewed(review) }])
    }
}

/// Tells if given tests count although a tester's would not.
///
/// # Errors
/// A report when they can decide nothing.
fn given_anyway(unfit: &Unfit, verdict: Verdict) -> Result<bool, ErrorReport> {
    match unfit {
        Unfit::PassesOnStub { .. } if verdict != Verdict::Passed => Ok(true),
        Unfit::NotLoaded(_) => Ok(true),
        _ => Err(ErrorReport::new(Code::Refused, format!("the given tests: {unfit}")).field("--tests")),
    }
}
