//! The verb `test` for a project with several suites: each runs in its own folder and sandbox, one after the
//! other, for one report.

use hotcell_config::Configuration;
use hotcell_sandbox::Spawn;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_testing::framework::Ecosystem;
use hotcell_testing::frameworks::framework;
use hotcell_testing::report::mark_of;
use hotcell_testing::suites::{self, Found, MAX_SUITES};
use hotcell_testing::{Cancel, Progress, Project, ProjectFolder, TestReport, Verdict};
use hotcell_toolchain::Surroundings;

use crate::changes::ChangePolicy;
use crate::outputs::OutputRequest;
use crate::test::{Interpreter, PreparedTest, TestRequest, Unready, pythons, undecided};

/// Suites that are ready to run.
#[derive(Debug)]
pub struct PreparedSuites {
    parts: Vec<Part>,
    /// True when each suite got the same filter, whichever of them has such a test.
    shared_filter: bool,
}

/// One suite.
#[derive(Debug)]
pub struct Part {
    /// Folder below the project; empty for the project itself.
    pub folder: String,
    /// The Python that it runs with, when `--python` was given.
    pub python: Option<Interpreter>,
    /// The prepared tests, or the report that is known without a run.
    pub tests: Result<Box<PreparedTest>, Box<TestReport>>,
}

impl TestRequest {
    /// Finds and prepares the suites of the project. A named framework is one suite, of the project itself.
    /// `ready` is called with each suite's request before it is prepared.
    ///
    /// # Errors
    /// [`Unready`] when the request cannot be prepared; nothing ran then.
    pub fn prepare_suites(
        &self,
        configuration: &Configuration,
        around: &Surroundings,
        ready: &mut dyn FnMut(&mut Self) -> Result<(), Unready>,
    ) -> Result<PreparedSuites, Unready> {
        let mut one = |folder: String, mut request: Self| -> Result<Part, Unready> {
            let python = request.options.interpreter.clone();
            match ready(&mut request).and_then(|()| request.prepare(configuration, around.clone())) {
                Ok(tests) => Ok(Part { folder, python, tests: Ok(Box::new(tests)) }),
                Err(Unready::Answered(report)) => Ok(Part { folder, python, tests: Err(report) }),
                Err(wrong) => Err(wrong),
            }
        };
        // Before anything there is looked at.
        if let Err(Unready::Answered(report)) = self.check_place(around) {
            let refused = Part { folder: String::new(), python: None, tests: Err(report) };
            return Ok(PreparedSuites { parts: vec![refused], shared_filter: false });
        }
        let found = self.find(around);
        if found.is_empty() {
            let framework = self.framework.as_deref().and_then(framework);
            let ecosystems: Vec<Ecosystem> =
                framework.map(hotcell_testing::Framework::ecosystem).into_iter().collect();
            let requests = self.with_pythons(self.clone(), &ecosystems, around)?;
            self.one_only(requests.len())?;
            let parts = requests.into_iter().map(|request| one(String::new(), request));
            return Ok(PreparedSuites { parts: parts.collect::<Result<_, _>>()?, shared_filter: false });
        }
        let ecosystems: Vec<Ecosystem> = found.iter().map(|(suite, _)| suite.framework.ecosystem()).collect();
        let mut asked = Vec::new();
        for ((suite, filter), ecosystem) in found.iter().zip(&ecosystems) {
            match self.of_suite(suite, filter.as_deref()) {
                Ok(request)
                    if *ecosystem == Ecosystem::Python || !ecosystems.contains(&Ecosystem::Python) =>
                {
                    let requests = self.with_pythons(request, &[*ecosystem], around)?;
                    asked.extend(requests.into_iter().map(|request| (suite.folder.clone(), Ok(request))));
                }
                request => asked.push((suite.folder.clone(), request)),
            }
        }
        if asked.len() > MAX_SUITES {
            let why = format!(
                "there are {} suites in {}, and at most {MAX_SUITES} are run together: name the folder of one, or ‹filter› its folder",
                asked.len(),
                self.project.display()
            );
            return Err(Unready::Wrong(ErrorReport::new(Code::Usage, why).field("DIR")));
        }
        if found.len() > 1 && self.keep != ChangePolicy::default() {
            return Err(Unready::Wrong(several(&found)));
        }
        self.one_only(asked.len())?;
        let parts = asked.into_iter().map(|(folder, request)| match request {
            Ok(request) => one(folder, request),
            Err(Unready::Answered(report)) => Ok(Part { folder, python: None, tests: Err(report) }),
            Err(wrong) => Err(wrong),
        });
        let shared_filter = found.iter().any(|(_, filter)| filter.is_some());
        Ok(PreparedSuites { parts: parts.collect::<Result<_, _>>()?, shared_filter })
    }

    /// Refuses options that take the changes or the coverage of one run, when several Pythons were asked for.
    fn one_only(&self, runs: usize) -> Result<(), Unready> {
        if runs < 2 || self.options.pythons.len() < 2 {
            return Ok(());
        }
        let option = match (self.keep != ChangePolicy::default(), self.coverage) {
            (true, _) => "‹diff›, ‹commit› and a workspace that stays are for one run",
            (false, true) => "‹coverage› is of one Python",
            (false, false) => return Ok(()),
        };
        let why = format!("{option}, and ‹python› names {}", self.options.pythons.len());
        Err(Unready::Wrong(ErrorReport::new(Code::Usage, why).parameter("python").hint("name one")))
    }

    /// The request once for each Python that was asked for; unchanged without `--python`.
    fn with_pythons(
        &self,
        request: Self,
        ecosystems: &[Ecosystem],
        around: &Surroundings,
    ) -> Result<Vec<Self>, Unready> {
        if self.options.pythons.is_empty() {
            return Ok(vec![request]);
        }
        if ecosystems.iter().any(|ecosystem| *ecosystem != Ecosystem::Python) {
            let why = format!("‹python› is for tests of Python, and {} has none", self.project.display());
            return Err(Unready::Wrong(
                ErrorReport::new(Code::Usage, why).parameter("python").hint("leave it out"),
            ));
        }
        let around = around.clone().project(around.cwd.join(&request.project));
        let mut chosen =
            pythons::choose(&self.options.pythons, &around, self.options.deps).map_err(Unready::Wrong)?;
        let filter = request.selection.filter.as_deref();
        let of_one = chosen
            .iter()
            .position(|python| filter.is_some_and(|filter| filter.ends_with(&mark_of(&python.name))));
        let mut request = request;
        if let Some(at) = of_one {
            // An id as the report of several has it.
            let mark = mark_of(&chosen[at].name);
            chosen = vec![chosen.swap_remove(at)];
            if let Some(filter) = &mut request.selection.filter {
                filter.truncate(filter.len() - mark.len());
            }
        }
        let of = |python: Interpreter| {
            let mut own = request.clone();
            if let Some(times) = own.options.shard.as_mut().and_then(|shard| shard.times.as_mut()) {
                let mark = mark_of(&python.name);
                let all = std::mem::take(times).into_iter();
                *times = all
                    .map(|(id, ms)| (id.strip_suffix(&mark).map_or(id.clone(), str::to_owned), ms))
                    .collect();
            }
            own.options.interpreter = Some(python);
            own
        };
        Ok(chosen.into_iter().map(of).collect())
    }

    /// The request for one suite of the project.
    pub fn of_suite(&self, suite: &Found, filter: Option<&str>) -> Result<Self, Unready> {
        let mut request = self.clone();
        request.project = self.project.join(&suite.folder);
        if let Some((other, also)) = &suite.rival {
            let project = ProjectFolder::open(&request.project).ok();
            let project = project.as_ref().map(|project| project as &dyn Project);
            return Err(undecided(
                (project, &request.project),
                (suite.framework, &suite.evidence),
                (*other, also),
            ));
        }
        request.framework = Some(suite.framework.name().to_owned());
        request.selection.detected = true;
        request.selection.filter = filter.map(str::to_owned);
        if let Some(times) = request.options.shard.as_mut().and_then(|shard| shard.times.as_mut())
            && !suite.folder.is_empty()
        {
            // Use ids as in the suite's own report.
            let own = std::mem::take(times).into_iter();
            let below = |id: &str| id.strip_prefix(&suite.folder)?.strip_prefix('/').map(str::to_owned);
            *times = own.filter_map(|(id, ms)| Some((below(&id)?, ms))).collect();
        }
        Ok(request)
    }

    /// Suites of a project that cannot be run as one, each as `pytest in api`: there are several, or the only
    /// one is in a subfolder.
    #[must_use]
    pub fn apart(&self, project: &dyn Project) -> Option<Vec<String>> {
        let found = self.found(project);
        let one = found.iter().all(|(suite, _)| suite.folder.is_empty()) && found.len() < 2;
        (!one).then(|| found.iter().map(|(suite, _)| name_of(suite)).collect())
    }

    /// Selected suites, each with its filter; empty when the project counts as one suite.
    fn find(&self, around: &Surroundings) -> Vec<(Found, Option<String>)> {
        // A pinned workspace counts as one suite, so that its changes can be kept.
        if self.kept.is_some() {
            return Vec::new();
        }
        match ProjectFolder::open(&around.cwd.join(&self.project)) {
            Ok(project) => self.found(&project),
            Err(_) => Vec::new(),
        }
    }

    /// Selected suites of a project, each with its filter; empty when a framework is named.
    pub fn found(&self, project: &dyn Project) -> Vec<(Found, Option<String>)> {
        if self.framework.is_some() {
            return Vec::new();
        }
        let mut found = suites::suites(project);
        let folders: Vec<&str> = found.iter().map(|suite| suite.folder.as_str()).collect();
        let of_one = self.selection.filter.as_deref().and_then(|filter| suites::of_filter(filter, &folders));
        match of_one {
            Some((at, rest)) => {
                let folder = found[at].folder.clone();
                found.retain(|suite| suite.folder == folder);
                let rest = Some(rest.to_owned()).filter(|rest| !rest.is_empty());
                found.into_iter().map(|suite| (suite, rest.clone())).collect()
            }
            None => found.into_iter().map(|suite| (suite, self.selection.filter.clone())).collect(),
        }
    }
}

fn several(found: &[(Found, Option<String>)]) -> ErrorReport {
    let all: Vec<String> = found.iter().map(|(suite, _)| name_of(suite)).collect();
    ErrorReport::new(
        Code::Usage,
        format!("‹diff› and ‹commit› are for one suite, and there are {}: {}", found.len(), all.join(", ")),
    )
    .parameter("diff")
    .hint("name the folder of one of them, or its framework with ‹framework›")
}

fn name_of(suite: &Found) -> String {
    let folder = if suite.folder.is_empty() { "." } else { &suite.folder };
    format!("{} in {folder}", suite.framework.name())
}

impl PreparedSuites {
    /// Suites, ordered by folder.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Digest of the image in which they run, `sha256:…`; `None` for the host's files.
    #[must_use]
    pub fn image_digest(&self) -> Option<String> {
        self.parts.iter().find_map(|part| part.tests.as_ref().ok()?.image_digest())
    }

    /// Copies files out of each suite's folder when its tests have ended.
    pub fn copy_out(&mut self, outputs: &OutputRequest) {
        for tests in self.parts.iter_mut().filter_map(|part| part.tests.as_mut().ok()) {
            tests.copy_out(outputs);
        }
    }

    /// Ids of the tests that would run, as in the combined report.
    ///
    /// # Errors
    /// The report of a suite that has no list.
    pub async fn list(
        self,
        engine: &dyn Spawn,
        cancel: &Cancel,
        mut progress: impl FnMut(Progress<'_>) + Send,
    ) -> Result<Vec<String>, Box<TestReport>> {
        let mut ids = Vec::new();
        let mut known = std::collections::HashSet::new();
        for part in self.parts {
            let listed = match part.tests {
                Ok(tests) => tests.list_only(engine, cancel, &mut progress).await,
                Err(answered) => Err(answered),
            };
            let listed = listed.map_err(|mut report| {
                if let Some(reason) = report.reason.as_mut().filter(|_| !part.folder.is_empty()) {
                    *reason = format!("{}: {reason}", part.folder);
                }
                report
            })?;
            let own = listed.ids.iter().map(|id| suites::in_all(&part.folder, id));
            // Of several Pythons each has the same, as a rule.
            ids.extend(own.filter(|id| part.python.is_none() || known.insert(id.clone())));
        }
        Ok(ids)
    }

    /// Runs the suites. `begin` is called before each one, `progress` with each event and the number of the
    /// repetition, from 1; neither may block.
    pub async fn run(
        self,
        engine: &dyn Spawn,
        cancel: &Cancel,
        mut begin: impl FnMut(&Part) + Send,
        mut progress: impl FnMut(u32, Progress<'_>) + Send,
    ) -> Option<TestReport> {
        let alone = self.parts.len() == 1;
        let one_python = self.parts.iter().filter(|part| part.python.is_some()).count() < 2;
        let mut reports = Vec::new();
        for part in self.parts {
            begin(&part);
            let mut report = match &part.tests {
                Ok(tests) => tests.run(engine, cancel, &mut progress).await,
                Err(answered) => (**answered).clone(),
            };
            if let Some(python) = &part.python {
                doubt(&mut report, python);
                report = report.of_python(&python.name, one_python);
            }
            let stop = report.verdict == Verdict::Interrupted;
            reports.push((part.folder, report));
            if stop {
                break;
            }
        }
        // A single suite of the project itself yields its own report, unchanged.
        match alone && reports.iter().all(|(folder, _)| folder.is_empty()) {
            true => reports.pop().map(|(_, report)| report),
            false => suites::join(if self.shared_filter { suites::matching(reports) } else { reports }),
        }
    }
}

/// A run with another Python than was asked for proves nothing.
fn doubt(report: &mut TestReport, python: &Interpreter) {
    let said = report.interpreter.as_ref().map(|interpreter| interpreter.version.clone());
    if let Some(why) = said.and_then(|said| python.contradicts(&said)) {
        report.verdict = report.verdict.max(Verdict::Unusable);
        report.consistent = false;
        report.reason = Some(report.reason.take().map_or(why.clone(), |reason| format!("{why}; {reason}")));
    }
}
