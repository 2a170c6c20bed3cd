//! The verb `test`: finds the framework and the command of a project, makes a policy for it, and combines its
//! runs into one report.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_config::typed;
use hotcell_config::{Configuration, RunSettings};
use hotcell_report::RunReport;
use hotcell_review::guard::Passed;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::policy::{Confinement, HOME, Policy, Stdin};
use hotcell_sandbox::{Spawn, layer};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateChoice;
use hotcell_testing::chosen::can_split;
use hotcell_testing::coverage::Measured;
use hotcell_testing::framework::{self, Command, Ecosystem, Evidence, Followed, Framework};
use hotcell_testing::frameworks::javascript::{Package, follow};
use hotcell_testing::frameworks::others;
use hotcell_testing::report::repeat::Repeats;
use hotcell_testing::{
    Cancel, Progress, Project, ProjectFolder, Selection, TestReport, Verdict, build_args, frameworks,
};
use hotcell_toolchain::Surroundings;

use crate::builds::{self, Warm};
use crate::changes::{ChangePolicy, WorkspaceBaseline};
use crate::outputs::OutputRequest;
use crate::pinned::{PinnedWorkspace, View};
use crate::request::{RunRequest, RunResources, RunTarget};

mod options;
pub mod pythons;
mod rerun;
mod services;
mod shards;
mod split;
mod times;
pub use crate::builds::CacheName;
pub use crate::test::services::{Beside, Service};
pub use crate::test::shards::Shards;
pub use options::TestOptions;
pub use pythons::Interpreter;

/// A request to run a project's tests.
#[derive(Clone, Debug)]
pub struct TestRequest {
    /// The project: a host folder, mounted copy-on-write.
    pub project: PathBuf,
    /// The pinned workspace that `project` belongs to, if any.
    pub kept: Option<Arc<PinnedWorkspace>>,
    /// Framework by name; otherwise it is detected.
    pub framework: Option<String>,
    /// Selected tests, and how to run them.
    pub selection: Selection,
    /// Measure line coverage.
    pub coverage: bool,
    /// Number of repetitions; at least one.
    pub repeat: u32,
    /// Limits, profile and the like; they take precedence over the configuration.
    pub settings: RunSettings,
    /// Treatment of the changes in the project.
    pub keep: ChangePolicy,
    /// Further options.
    pub options: TestOptions,
}

/// Reason why tests did not begin.
#[derive(Debug)]
pub enum Unready {
    /// The request or the configuration has to be changed.
    Wrong(ErrorReport),
    /// The report is known without a run.
    Answered(Box<TestReport>),
}

/// Tests that are ready to run.
#[derive(Debug)]
pub struct PreparedTest {
    framework: &'static dyn Framework,
    command: Command,
    measured: Option<Measured>,
    /// Parts of the project's own test configuration that the command does not follow.
    followed: Followed,
    policy: Policy,
    repeat: u32,
    selection: Selection,
    options: TestOptions,
    before: Option<WorkspaceBaseline>,
    /// View of the project, if it is not a plain folder.
    view: Option<Arc<View>>,
    /// Resources of the runs, released after them.
    stay: RunResources,
    /// State folder for the data that compilers need again, and for the times of tests.
    state: Option<StateChoice>,
    /// The project's own path.
    place: PathBuf,
    /// The cache that the runs see; set when they begin.
    warm: Mutex<Option<Arc<Warm>>>,
    /// Variables that were to be passed through and are not set; for a warning.
    pub unset: Vec<std::ffi::OsString>,
    /// The guard's result for the project; `None` when the guard is off.
    pub scan: Option<Passed>,
}

impl TestRequest {
    /// Refuses a project that a link of a clone's leads to.
    pub fn check_place(&self, around: &Surroundings) -> Result<(), Unready> {
        typed::real_from(&around.cwd, &self.project, &[])
            .map_err(|e| refused(format!("the project {}: {e}", self.project.display())))
            .map(drop)
    }

    /// Finds the framework and what it needs.
    ///
    /// # Errors
    /// [`Unready::Wrong`] when the request or the configuration has to be changed, [`Unready::Answered`] when
    /// the report is known already; nothing ran in either case.
    pub fn prepare(
        &self,
        configuration: &Configuration,
        around: Surroundings,
    ) -> Result<PreparedTest, Unready> {
        let named = self.framework.as_deref().map(named).transpose().map_err(Unready::Wrong)?;
        self.check_place(&around)?;
        let around = pythons::surroundings(self.options.interpreter.as_ref(), around);
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
        let wants_list = [
            (self.options.shard.is_some(), "shard"),
            (self.options.shards.is_some(), "shards"),
            (self.options.list, "list"),
        ];
        for (_, key) in wants_list.into_iter().filter(|(wants, _)| *wants) {
            if !can_split(framework.name()) {
                return Err(Unready::Wrong(split::unsplit(framework.name(), key)));
            }
        }
        let mut selection = self.selection.clone();
        selection.detected |= named.is_none();
        let mut followed = framework.followed(&selection, project);
        if named.is_none() || self.selection.detected && selection.filter.is_none() {
            followed.notes.extend(hotcell_testing::suites::helpers(project));
        }
        let mut command = framework
            .command(&selection, project)
            .map_err(|e| Unready::Wrong(ErrorReport::new(Code::InvalidValue, e.to_string())))?;
        build_args::add(framework.name(), project, &self.options.build_args, &mut command)
            .map_err(|why| Unready::Wrong(build_arg(&why)))?;
        let measured = match self.coverage.then(|| framework.cover(&mut command, project)) {
            Some(None) => return Err(Unready::Wrong(without_coverage(framework))),
            measured => measured.flatten(),
        };
        let request = RunRequest {
            kept: self.kept.clone(),
            keep: self.keep,
            what: RunTarget::Program(command.argv.clone()),
            workspace: Some(self.project.clone()),
            settings: self.settings.clone(),
            limits: hotcell_config::limits::for_tests(),
            stdin: Stdin::Null,
        };
        let merged = request.merge(configuration).map_err(Unready::Wrong)?;
        if self.options.interpreter.is_some() && merged.image.is_some() {
            let why = "‹python› chooses among the Pythons of this machine, and an image has its own";
            return Err(Unready::Wrong(
                ErrorReport::new(Code::Usage, why).parameter("python").hint("leave one of them out"),
            ));
        }
        let typed = command.argv.iter().map(|a| a.to_string_lossy().into_owned()).collect();
        let reporters = command.reporters.iter();
        let provided =
            reporters.map(|reporter| format!("{}/{}", framework::REPORTERS, reporter.name)).collect();
        let beside = self.options.beside.commands();
        let prepared = match self.options.elsewhere {
            true => request.prepare_elsewhere(merged, around, &beside, provided),
            false => request.prepare_beside(merged, around, &beside, provided),
        };
        let prepared = prepared
            .map_err(|outcome| answered(TestReport::without_a_run(framework.name(), typed, *outcome)))?;
        let before = prepared.before.clone();
        let (mut policy, unset, scan, stay) = prepared.into_parts();
        if policy.shape.confinement == Confinement::LandlockOnly {
            seen_from_the_project(&mut policy);
        }
        if !self.options.beside.is_empty() {
            self.options.beside.wrap(&mut policy).map_err(refused)?;
        }
        let repeat = self.repeat.max(1);
        Ok(PreparedTest {
            framework,
            command,
            followed,
            measured,
            policy,
            repeat,
            selection,
            options: self.options.clone(),
            before,
            view,
            stay,
            state: configuration.asker.as_ref().map(|(_, state)| state.clone()),
            place: path.canonicalize().unwrap_or(path),
            warm: Mutex::default(),
            unset,
            scan,
        })
    }
}

impl PreparedTest {
    /// Digest of the image in which they run, `sha256:…`; `None` for the host's files.
    #[must_use]
    pub fn image_digest(&self) -> Option<String> {
        self.stay.image_digest()
    }

    /// Copies files out of the project when its tests have ended.
    pub fn copy_out(&mut self, outputs: &OutputRequest) {
        self.before = self.before.take().map(|before| before.copying(outputs.clone()));
    }

    /// State folder with what compilers need again; `None` where they run on another machine.
    fn compiled(&self) -> Option<&StateChoice> {
        self.state.as_ref().filter(|_| !self.options.elsewhere)
    }

    /// Name of the framework.
    #[must_use]
    pub fn framework_name(&self) -> &'static str {
        self.framework.name()
    }

    /// Runs the tests, each repetition in a new sandbox. `progress` is called with each event and the number
    /// of the repetition, from 1; it must not block.
    pub async fn run(
        &self,
        engine: &dyn Spawn,
        cancel: &Cancel,
        mut progress: impl FnMut(u32, Progress<'_>) + Send,
    ) -> TestReport {
        let mut repeats = Repeats::default();
        let mut policy = self.policy.clone();
        let mut say = |what: &str| progress(1, Progress::Ahead(what));
        let _in_use = tokio::select! {
            biased;
            // When cancelled, no run begins, and the report says so.
            () = cancel.wait() => None,
            lock = builds::standard_library(engine, self.compiled(), &mut policy, &mut say) => lock,
        };
        if let Some(name) = &self.options.cache {
            match Warm::show(name, self.framework.name(), self.state.as_ref(), &mut policy) {
                Ok((warm, said)) => {
                    say(&said);
                    *self.warm.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(warm));
                }
                Err(why) => tracing::warn!("‹cache›: nothing of it is used or kept: {why}"),
            }
        }
        if let Some(shards) = self.options.shards {
            let progress = &mut |what: Progress<'_>| progress(1, what);
            let report = self.in_shards(shards, engine, cancel, &policy, progress).await;
            self.keep_times(&report);
            return report;
        }
        let chosen = {
            let progress = &mut |what: Progress<'_>| progress(1, what);
            match self.split(engine, cancel, &policy, progress).await {
                Ok(chosen) => chosen,
                Err(report) => return *report,
            }
        };
        let mut first = None;
        for number in 1..=self.repeat {
            let once = &mut |what: Progress<'_>| progress(number, what);
            let report = self.once(engine, cancel, &policy, (&chosen, self.measured.clone()), once).await;
            self.keep_times(&report);
            if self.options.retry > 0 {
                first = Some(report);
                break;
            }
            // A run that could not begin would fail again.
            let last = report.verdict > Verdict::Limit;
            repeats.add(report);
            if last {
                break;
            }
        }
        if let Some(first) = first {
            return self.again(engine, cancel, (&policy, &chosen), first, &mut progress).await;
        }
        let none = || RunReport::without_a_run(Cause::Internal, "no run was asked for");
        repeats
            .finish()
            .unwrap_or_else(|| TestReport::without_a_run(self.framework.name(), Vec::new(), none()))
    }
}

/// Rewrites paths below the home folder: without a mount namespace it is elsewhere, so they become relative
/// to the project in it.
fn seen_from_the_project(policy: &mut Policy) {
    let home = format!("{HOME}/");
    for word in policy.job.argv.iter_mut().skip(1) {
        if let Some(text) = word.to_str().filter(|text| text.contains(&home)) {
            *word = text.replace(&home, "../").into();
        }
    }
}

fn named(name: &str) -> Result<&'static dyn Framework, ErrorReport> {
    frameworks::framework(name).ok_or_else(|| {
        let known: Vec<&str> = frameworks::frameworks().iter().map(|f| f.name()).collect();
        let near = layer::likely(name, known.iter().copied());
        let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
        ErrorReport::new(Code::UnknownName, format!("there is no framework {name:?}"))
            .parameter("framework")
            .hint(format!("{near}there are {}", known.join(", ")))
    })
}

fn build_arg(why: &str) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("‹build_arg›: {why}"))
        .parameter("build_arg")
        .hint("see hotcell test --help")
}

fn without_coverage(framework: &dyn Framework) -> ErrorReport {
    let why = format!("{} has no ‹coverage›", framework.name());
    ErrorReport::new(Code::InvalidValue, why)
        .parameter("coverage")
        .hint("leave it out; pytest, unittest, django, jest, karma, cargo, go and gtest have it")
}

/// Error when two frameworks have equal evidence.
pub fn undecided(
    (project, path): (Option<&dyn Project>, &Path),
    (first, one): (&dyn Framework, &Evidence),
    (second, other): (&dyn Framework, &Evidence),
) -> Unready {
    let of_javascript = first.ecosystem() == Ecosystem::JavaScript;
    let script = project.filter(|_| of_javascript).and_then(others::script_of_all);
    let script = script.map(|words| format!("; {words}")).unwrap_or_default();
    let (first, second) = (first.name(), second.name());
    refused(format!(
        "{} looks like {first} ({}) and like {second} ({}): choose with ‹framework={first}› or ‹framework={second}›{script}",
        path.display(),
        one.reason,
        other.reason
    ))
}

/// Detects the framework of a project.
fn chosen(project: &dyn Project, path: &Path) -> Result<&'static dyn Framework, Unready> {
    let found = hotcell_testing::detect(project);
    let Some((framework, evidence)) = found.first() else { return Err(nothing_to_run(project, path)) };
    if let Some((other, also)) = hotcell_testing::rival(&found) {
        return Err(undecided((Some(project), path), (*framework, evidence), (*other, also)));
    }
    tracing::info!(target: "hotcell_contents", "{}: {}", framework.name(), evidence.reason);
    Ok(*framework)
}

fn refused(why: String) -> Unready {
    answered(TestReport::without_a_run("", Vec::new(), RunReport::without_a_run(Cause::Refused, why)))
}

fn nothing_to_run(project: &dyn Project, path: &Path) -> Unready {
    let known: Vec<&str> = frameworks::frameworks().iter().map(|f| f.name()).collect();
    let looks =
        || format!("nothing there looks like {}; name the framework with ‹framework›", known.join(" or "));
    let known = follow::unsupported(&Package::read(project))
        .or_else(|| others::advice(project))
        .or_else(|| others::own_command(project));
    let known = known.or_else(|| others::unreadable(project)).unwrap_or_else(looks);
    let why = format!("no tests were found in {}: {known}", path.display());
    let outcome = RunReport::without_a_run(Cause::Refused, why);
    let report = TestReport::without_a_run("", Vec::new(), outcome);
    answered(TestReport { verdict: Verdict::Unusable, ..report })
}

fn answered(report: TestReport) -> Unready {
    Unready::Answered(Box::new(report))
}
