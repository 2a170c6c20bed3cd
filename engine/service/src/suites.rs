//! The verb `test` over a project with several suites: each in its own folder and sandbox, one after the other, and one report.

use hotcell_sandbox::Spawn;
use hotcell_sandbox::toolchain::Surroundings;
use hotcell_testing::suites::{self, Found, MOST};
use hotcell_testing::{Cancel, Progress, Project, ProjectFolder, TestReport, Verdict};

use crate::changes::Keep;
use crate::config::Configuration;
use crate::report::{Code, ErrorReport};
use crate::test::{PreparedTest, TestRequest, Unready, undecided};

/// Suites that are ready to run.
#[derive(Debug)]
pub struct PreparedSuites {
    parts: Vec<Part>,
}

/// One of them.
#[derive(Debug)]
pub struct Part {
    /// Its folder below the project; empty for the project itself.
    pub folder: String,
    /// What runs, or the answer that is known without a run.
    pub tests: Result<Box<PreparedTest>, Box<TestReport>>,
}

impl TestRequest {
    /// Finds the suites of the project and what they need. A framework that was named is one suite, of the project itself. `ready` is
    /// called with the request of each before it is prepared.
    ///
    /// # Errors
    /// [`Unready`]; nothing ran then.
    pub fn prepare_suites(
        &self,
        configuration: &Configuration,
        around: &Surroundings,
        ready: &mut dyn FnMut(&mut Self) -> Result<(), Unready>,
    ) -> Result<PreparedSuites, Unready> {
        let mut one = |folder: String, mut request: Self| -> Result<Part, Unready> {
            match ready(&mut request).and_then(|()| request.prepare(configuration, around.clone())) {
                Ok(tests) => Ok(Part { folder, tests: Ok(Box::new(tests)) }),
                Err(Unready::Answered(report)) => Ok(Part { folder, tests: Err(report) }),
                Err(wrong) => Err(wrong),
            }
        };
        let found = self.find(around);
        if found.is_empty() {
            return Ok(PreparedSuites { parts: vec![one(String::new(), self.clone())?] });
        }
        if found.len() > MOST {
            let why = format!(
                "there are {} suites in {}, and at most {MOST} are run together: name the folder of one, or --filter its folder",
                found.len(),
                self.project.display()
            );
            return Err(Unready::Wrong(ErrorReport::new(Code::Usage, why).field("DIR")));
        }
        if found.len() > 1 && self.keep != Keep::default() {
            return Err(Unready::Wrong(several(&found)));
        }
        let parts = found.iter().map(|(suite, filter)| match self.of_suite(suite, filter.as_deref()) {
            Ok(request) => one(suite.folder.clone(), request),
            Err(Unready::Answered(report)) => Ok(Part { folder: suite.folder.clone(), tests: Err(report) }),
            Err(wrong) => Err(wrong),
        });
        Ok(PreparedSuites { parts: parts.collect::<Result<_, _>>()? })
    }

    /// The request for one suite of the project.
    pub(crate) fn of_suite(&self, suite: &Found, filter: Option<&str>) -> Result<Self, Unready> {
        let mut request = self.clone();
        request.project = self.project.join(&suite.folder);
        if let Some((other, also)) = &suite.rival {
            return Err(undecided(&request.project, (suite.framework, &suite.evidence), (*other, also)));
        }
        request.framework = Some(suite.framework.name().to_owned());
        request.selection.filter = filter.map(str::to_owned);
        Ok(request)
    }

    /// The suites of a project that cannot be run as one: there are several, or the only one lies in a folder below it. Each as
    /// `pytest in api`.
    #[must_use]
    pub fn apart(&self, project: &dyn Project) -> Option<Vec<String>> {
        let found = self.found(project);
        let one = found.iter().all(|(suite, _)| suite.folder.is_empty()) && found.len() < 2;
        (!one).then(|| found.iter().map(|(suite, _)| name_of(suite)).collect())
    }

    /// The suites that are asked for, each with its filter; none where the project is to be taken as one.
    fn find(&self, around: &Surroundings) -> Vec<(Found, Option<String>)> {
        // A workspace that stays is one, so that its changes can be kept.
        if self.kept.is_some() {
            return Vec::new();
        }
        match ProjectFolder::open(&around.cwd.join(&self.project)) {
            Ok(project) => self.found(&project),
            Err(_) => Vec::new(),
        }
    }

    /// The suites that are asked for in a project, each with its filter; none where a framework is named.
    pub(crate) fn found(&self, project: &dyn Project) -> Vec<(Found, Option<String>)> {
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
        format!("--diff and --commit are for one suite, and there are {}: {}", found.len(), all.join(", ")),
    )
    .field("--diff")
    .hint("name the folder of one of them, or its framework with --framework")
}

fn name_of(suite: &Found) -> String {
    let folder = if suite.folder.is_empty() { "." } else { &suite.folder };
    format!("{} in {folder}", suite.framework.name())
}

impl PreparedSuites {
    /// The suites, by folder.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Runs them. `begin` is called with each one before it begins, `progress` as things happen, with the number of the run from 1;
    /// neither must wait for anything.
    pub async fn run(
        self,
        engine: &dyn Spawn,
        cancel: &Cancel,
        mut begin: impl FnMut(&Part) + Send,
        mut progress: impl FnMut(u32, Progress<'_>) + Send,
    ) -> Option<TestReport> {
        let alone = self.parts.len() == 1;
        let mut reports = Vec::new();
        for part in self.parts {
            begin(&part);
            let report = match &part.tests {
                Ok(tests) => tests.run(engine, cancel, &mut progress).await,
                Err(answered) => (**answered).clone(),
            };
            let stop = report.verdict == Verdict::Interrupted;
            reports.push((part.folder, report));
            if stop {
                break;
            }
        }
        // The project's only suite is a report as of old.
        match alone && reports.iter().all(|(folder, _)| folder.is_empty()) {
            true => reports.pop().map(|(_, report)| report),
            false => suites::join(reports),
        }
    }
}
