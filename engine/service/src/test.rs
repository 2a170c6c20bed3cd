//! The verb `test`: a project becomes a command of its framework, the command a policy, and its runs one report.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell_sandbox::outcome::{Cause, Outcome};
use hotcell_sandbox::policy::{Confinement, HOME, Policy, Stdin};
use hotcell_sandbox::toolchain::Surroundings;
use hotcell_sandbox::{Spawn, layer};
use hotcell_testing::coverage::Measured;
use hotcell_testing::framework::{self, Command, Evidence, Framework};
use hotcell_testing::repeat::Repeats;
use hotcell_testing::{Cancel, Progress, Project, ProjectFolder, Selection, Session, TestReport, Verdict};

use crate::builds;
use crate::changes::{Before, Keep};
use crate::config::{Configuration, Settings};
use crate::guard::Passed;
use crate::kept::{Kept, View};
use crate::report::{Code, ErrorReport};
use crate::request::{RunRequest, Stay, What};
use crate::state::StateChoice;

/// A request to run a project's tests.
#[derive(Clone, Debug)]
pub struct TestRequest {
    /// The project: a host folder, mounted copy-on-write.
    pub project: PathBuf,
    /// The workspace that stays, whose folder that is.
    pub kept: Option<Arc<Kept>>,
    /// A framework's name; else what the project looks like.
    pub framework: Option<String>,
    /// Which tests, and how.
    pub selection: Selection,
    /// Measure which lines run.
    pub coverage: bool,
    /// How often; at least once.
    pub repeat: u32,
    /// Limits, profile and the like; they go before what is configured.
    pub settings: Settings,
    /// What becomes of the changes in the project.
    pub keep: Keep,
}

/// Why tests did not begin.
#[derive(Debug)]
pub enum Unready {
    /// Something that a person has to change in the request or the configuration.
    Wrong(ErrorReport),
    /// The answer is known without a run.
    Answered(Box<TestReport>),
}

/// Tests that are ready to run.
#[derive(Debug)]
pub struct PreparedTest {
    framework: &'static dyn Framework,
    command: Command,
    measured: Option<Measured>,
    policy: Policy,
    repeat: u32,
    before: Option<Before>,
    /// The project, where it is not a plain folder.
    view: Option<Arc<View>>,
    _stay: Stay,
    /// Where what compilers need again is kept.
    state: Option<StateChoice>,
    /// Variables that were to be passed through and are not set; for a warning.
    pub unset: Vec<std::ffi::OsString>,
    /// What the guard says of the project; `None` when it was not asked.
    pub scan: Option<Passed>,
}

impl TestRequest {
    /// Finds the framework and what it needs.
    ///
    /// # Errors
    /// [`Unready`]; nothing ran then.
    pub fn prepare(
        &self,
        configuration: &Configuration,
        around: Surroundings,
    ) -> Result<PreparedTest, Unready> {
        let named = self.framework.as_deref().map(named).transpose().map_err(Unready::Wrong)?;
        let path = around.cwd.join(&self.project);
        let unopened = |e: std::io::Error| {
            let what = if path.is_file() {
                "it is a file; name the project's folder".to_owned()
            } else {
                format!("{e}; name the folder of a project that you may read")
            };
            refused(format!("the project {} cannot be opened: {what}", self.project.display()))
        };
        let view = match self.kept.as_ref().filter(|kept| kept.has_layers()) {
            Some(kept) => Some(Arc::new(kept.view().map_err(unopened)?.as_project())),
            None => None,
        };
        let folder = if view.is_none() { Some(ProjectFolder::open(&path).map_err(unopened)?) } else { None };
        let project: &dyn Project = match (&view, &folder) {
            (Some(view), _) => view.as_ref(),
            (None, Some(folder)) => folder,
            (None, None) => return Err(refused("there is no project".to_owned())),
        };
        let framework = match named {
            Some(framework) => framework,
            None => chosen(project, &self.project)?,
        };
        let mut command = framework
            .command(&self.selection, project)
            .map_err(|e| Unready::Wrong(ErrorReport::new(Code::InvalidValue, e.to_string())))?;
        let measured = match self.coverage.then(|| framework.cover(&mut command, project)) {
            Some(None) => return Err(Unready::Wrong(without_coverage(framework))),
            measured => measured.flatten(),
        };
        let request = RunRequest {
            kept: self.kept.clone(),
            keep: self.keep,
            what: What::Program(command.argv.clone()),
            workspace: Some(self.project.clone()),
            settings: self.settings.clone(),
            limits: crate::request::limits_for_tests(),
            stdin: Stdin::Null,
        };
        let merged = request.merge(configuration).map_err(Unready::Wrong)?;
        let typed = command.argv.iter().map(|a| a.to_string_lossy().into_owned()).collect();
        let prepared = request
            .prepare(merged, around)
            .map_err(|outcome| answered(TestReport::without_a_run(framework.name(), typed, *outcome)))?;
        let before = prepared.before.clone();
        let (mut policy, unset, scan, stay) = prepared.into_parts();
        if policy.shape.confinement == Confinement::LandlockOnly {
            seen_from_the_project(&mut policy);
        }
        let repeat = self.repeat.max(1);
        Ok(PreparedTest {
            framework,
            command,
            measured,
            policy,
            repeat,
            before,
            view,
            _stay: stay,
            state: configuration.asker.as_ref().map(|(_, state)| state.clone()),
            unset,
            scan,
        })
    }
}

impl PreparedTest {
    /// What runs them.
    #[must_use]
    pub fn framework_name(&self) -> &'static str {
        self.framework.name()
    }

    /// Runs them, each time in a fresh sandbox. `progress` is called as things happen, with the number of the run from
    /// 1; it must not wait for anything.
    pub async fn run(
        &self,
        engine: &dyn Spawn,
        cancel: &Cancel,
        mut progress: impl FnMut(u32, Progress<'_>) + Send,
    ) -> TestReport {
        let mut repeats = Repeats::default();
        let mut policy = self.policy.clone();
        let mut say = |what: &str| progress(1, Progress::Ahead(what));
        tokio::select! {
            biased;
            // Then nothing of it begins, and the report says so.
            () = cancel.wait() => {}
            () = builds::standard_library(engine, self.state.as_ref(), &mut policy, &mut say) => {}
        }
        for number in 1..=self.repeat {
            let project = self.view.clone().map(|view| view as Arc<dyn Project + Send + Sync>);
            let session = Session::over(self.framework, self.command.clone(), policy.clone(), project);
            let (mut report, changed) = match session {
                Ok(session) => {
                    let progress = &mut |what: Progress<'_>| progress(number, what);
                    session
                        .cancelled_by(cancel)
                        .covered(self.measured.clone())
                        .run_and_keep(engine, progress)
                        .await
                }
                Err(e) => {
                    let why = format!(
                        "hotcell's own files for the run cannot be written: {e}; make room in TMPDIR"
                    );
                    let outcome = Outcome::without_a_run(Cause::Refused, why);
                    (TestReport::without_a_run(self.framework.name(), Vec::new(), outcome), None)
                }
            };
            if let Some(before) = self.before.clone() {
                let passed = report.verdict == Verdict::Passed;
                if let Err(error) = before.collect(changed, &mut report.outcome, passed).await {
                    tracing::warn!(target: "hotcell_contents", "what the tests changed in the workspace cannot be told: {error}");
                }
            }
            crate::request::sign(self.scan.as_ref(), &mut report.outcome);
            // What could not begin will not begin the next time either.
            let last = report.verdict > Verdict::Limit;
            repeats.add(report);
            if last {
                break;
            }
        }
        let none = || Outcome::without_a_run(Cause::Internal, "no run was asked for");
        repeats
            .finish()
            .unwrap_or_else(|| TestReport::without_a_run(self.framework.name(), Vec::new(), none()))
    }
}

/// Without a mount namespace the home folder is somewhere else: the same, as seen from the project in it.
fn seen_from_the_project(policy: &mut Policy) {
    let home = format!("{HOME}/");
    for word in policy.job.argv.iter_mut().skip(1) {
        if let Some(text) = word.to_str().filter(|text| text.contains(&home)) {
            *word = text.replace(&home, "../").into();
        }
    }
}

fn named(name: &str) -> Result<&'static dyn Framework, ErrorReport> {
    framework::framework(name).ok_or_else(|| {
        let known: Vec<&str> = framework::frameworks().iter().map(|f| f.name()).collect();
        let near = layer::nearest(name, known.iter().copied()).unwrap_or("pytest");
        ErrorReport::new(Code::UnknownName, format!("there is no framework {name:?}"))
            .field("--framework")
            .hint(format!("did you mean {near}? there are {}", known.join(", ")))
    })
}

fn without_coverage(framework: &dyn Framework) -> ErrorReport {
    let why = format!("{} has no --coverage", framework.name());
    ErrorReport::new(Code::InvalidValue, why)
        .field("--coverage")
        .hint("leave it out; pytest, unittest, jest, karma, cargo, go and gtest have it")
}

/// As much speaks for one framework as for another.
pub(crate) fn undecided(
    path: &Path,
    (first, one): (&dyn Framework, &Evidence),
    (second, other): (&dyn Framework, &Evidence),
) -> Unready {
    let (first, second) = (first.name(), second.name());
    refused(format!(
        "{} looks like {first} ({}) and like {second} ({}): choose with --framework {first} or --framework {second}",
        path.display(),
        one.reason,
        other.reason
    ))
}

/// What a project looks like.
fn chosen(project: &dyn Project, path: &Path) -> Result<&'static dyn Framework, Unready> {
    let found = hotcell_testing::detect(project);
    let Some((framework, evidence)) = found.first() else { return Err(nothing_to_run(path)) };
    if let Some((other, also)) = hotcell_testing::rival(&found) {
        return Err(undecided(path, (*framework, evidence), (*other, also)));
    }
    tracing::info!(target: "hotcell_contents", "{}: {}", framework.name(), evidence.reason);
    Ok(*framework)
}

fn refused(why: String) -> Unready {
    answered(TestReport::without_a_run("", Vec::new(), Outcome::without_a_run(Cause::Refused, why)))
}

fn nothing_to_run(project: &Path) -> Unready {
    let known: Vec<&str> = framework::frameworks().iter().map(|f| f.name()).collect();
    let why = format!(
        "no tests were found in {}: nothing there looks like {}; name the framework with --framework",
        project.display(),
        known.join(" or ")
    );
    let outcome = Outcome::without_a_run(Cause::Refused, why);
    let report = TestReport::without_a_run("", Vec::new(), outcome);
    answered(TestReport { verdict: Verdict::Unusable, ..report })
}

fn answered(report: TestReport) -> Unready {
    Unready::Answered(Box::new(report))
}
