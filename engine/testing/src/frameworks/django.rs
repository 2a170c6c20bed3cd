//! Django's own runner: `manage.py test`, with a test runner of hotcell below Django's.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;

use crate::case::{FinalReport, ReportError};
use crate::coverage::Measured;
use crate::event::{EventReader, LineEvents};
use crate::framework::{
    Command, CommandError, Ecosystem, Evidence, ExitMeaning, Followed, Framework, LiveSource, NOT_INSTALLED,
    REPORTERS, REPORTS, Reporter, Selection, Strength,
};
use crate::frameworks::pytest::Pytest;
use crate::frameworks::python::words::{self, Place, Runner, Start, Words, given};
use crate::frameworks::{python, unittest};
use crate::live::LiveLog;
use crate::project::{self, Project};

const DRIVER: &str = "hotcell_django.py";
const REPORT: &str = "django.jsonl";
const COVERAGE: &str = "django.lcov";

/// Support for Django's own test runner.
#[derive(Debug)]
pub struct Django;

/// Path of the project's `manage.py`; the one nearest to the top.
fn manager(project: &dyn Project) -> Option<String> {
    let is = |file: &&String| {
        python::base(file) == "manage.py"
            && file.matches('/').count() <= 2
            && words::text(project, file).is_some_and(|text| text.contains("django"))
    };
    let file = project.files().iter().filter(is).min_by_key(|file| file.matches('/').count())?;
    Some(file.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned())
}

/// The project's own configuration of Django's tests; by default they are started by `manage.py`.
fn words_of(project: &dyn Project) -> Option<Words> {
    let said = words::of(project);
    if said.as_ref().is_some_and(|words| words.starts.iter().any(|start| start.runner == Runner::Django)) {
        return said;
    }
    let place = Place { variables: Vec::new(), folder: manager(project)? };
    let script = Some("manage.py".to_owned());
    let (arguments, words) = (Vec::new(), Vec::new());
    let start = Start { runner: Runner::Django, place, script, arguments, words };
    let mut words = said.unwrap_or_default();
    // Other commands that the project starts still run beside it, or are reported as not followed.
    words.starts.push(start);
    Some(words)
}

impl Framework for Django {
    fn name(&self) -> &'static str {
        "django"
    }

    fn ecosystem(&self) -> Ecosystem {
        Ecosystem::Python
    }

    fn detect(&self, project: &dyn Project) -> Option<Evidence> {
        let found = manager(project).and_then(|folder| {
            let below = if folder.is_empty() { String::new() } else { format!("{folder}/") };
            let is_test = |file: &str| {
                file.starts_with(&below) && python::base(file).starts_with("test") && file.ends_with(".py")
                    || file.starts_with(&below) && file.contains("/tests/") && file.ends_with("__init__.py")
            };
            let file = project::first_with(
                project,
                is_test,
                &["django.test", "rest_framework.test", "wagtail.test"],
            )?;
            // pytest-django runs these, too, with pytest's settings.
            let pytest = Pytest.detect(project).is_some_and(|pytest| pytest.strength == Strength::Configured);
            let strength = if pytest { Strength::Used } else { Strength::Configured };
            Some(Evidence {
                strength,
                reason: format!("there is {below}manage.py, and {file} has tests of Django"),
            })
        });
        python::weighed(project, Runner::Django, found)
    }

    fn imports(&self) -> &'static [&'static str] {
        &["unittest"]
    }

    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError> {
        let words = words_of(project);
        let given = given::given(words.as_ref(), Runner::Django, selection, project);
        let script =
            given.start.map_or(Some("manage.py"), |start| start.script.as_deref()).unwrap_or_default();
        let mut argv: Vec<OsString> = vec!["python3".into(), format!("{REPORTERS}/{DRIVER}").into()];
        argv.extend(given.word);
        argv.push(format!("--hotcell-django={script}").into());
        argv.push(format!("/home/sandbox/{REPORTS}/{REPORT}").into());
        argv.extend(selection.fail_fast.then(|| "--failfast".into()));
        argv.extend(selection.jobs.map(|n| format!("--parallel={n}").into()));
        let folder = given.start.map_or("", |start| start.place.folder.as_str());
        argv.extend(selection.filter.as_deref().map(|filter| label(filter, folder, project).into()));
        let signs = python::signs(project);
        Ok(Command {
            argv,
            env: Vec::new(),
            reporters: vec![Reporter { name: DRIVER, text: unittest::TEXT }],
            reports: vec![Path::new(REPORTS).join(REPORT)],
            live: LiveSource::Descriptor,
            files: if selection.filter.is_none() { signs.files } else { Vec::new() },
        })
    }

    fn followed(&self, selection: &Selection, project: &dyn Project) -> Followed {
        given::followed(words::of(project).as_ref(), Runner::Django, selection, project)
    }

    /// With the package coverage, and the project's own settings of it.
    fn cover(&self, command: &mut Command, _: &dyn Project) -> Option<Measured> {
        Some(given::cover(command, COVERAGE))
    }

    fn events(&self) -> Box<dyn EventReader> {
        Box::<LineEvents>::default()
    }

    fn report(&self, files: &[Vec<u8>], _: &LiveLog) -> Result<FinalReport, ReportError> {
        unittest::parse(files.first().ok_or(ReportError::Missing)?)
    }

    fn exit(&self, code: i32) -> ExitMeaning {
        match code {
            0 => ExitMeaning::AllPassed,
            1 => ExitMeaning::SomeFailed,
            2 => ExitMeaning::Broken(
                "Django's runner did not understand its arguments, or a test ended it with exit code 2",
            ),
            5 => ExitMeaning::NoTests,
            NOT_INSTALLED => ExitMeaning::NotInstalled,
            _ => ExitMeaning::Broken("Django's runner has no such exit code"),
        }
    }

    fn name_of(&self, id: &str) -> String {
        unittest::name_of(id)
    }

    fn heads<'a>(&self, id: &'a str) -> Vec<&'a str> {
        id.match_indices('.').map(|(at, _)| &id[..at]).take(32).chain([id]).collect()
    }

    fn of_tests<'a>(&self, stderr: &'a str) -> &'a str {
        python::up_to_crash(stderr)
    }

    fn install(&self, what: &str, interpreter: &str) -> Option<String> {
        ["django", "coverage"].contains(&what).then(|| python::install(what, interpreter))
    }
}

/// Converts a filter for Django: a module, class or test by its dotted name, a folder, or a pattern of names.
fn label(filter: &str, folder: &str, project: &dyn Project) -> String {
    let below = |path: &str| if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") };
    // A path is relative to the project's folder, while Django looks it up from that of `manage.py`.
    let inside: Cow<'_, str> = match filter.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) {
        Some(rest) if !folder.is_empty() => rest.into(),
        _ => filter.into(),
    };
    if project.has(&below(&inside)) && !inside.starts_with('-') {
        return match inside.strip_suffix(".py") {
            Some(module) => module.replace('/', "."),
            None => inside.into_owned(),
        };
    }
    let mut parts = inside.match_indices('.').map(|(at, _)| inside[..at].replace('.', "/"));
    let module = parts.any(|path| project.has(&below(&path)) || project.has(&below(&format!("{path}.py"))));
    if module { inside.into_owned() } else { format!("-k{filter}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Files(Vec<String>);

    impl Project for Files {
        fn files(&self) -> &[String] {
            &self.0
        }
        fn read(&self, path: &str) -> Option<Vec<u8>> {
            Some(if path.ends_with("manage.py") {
                b"import django".to_vec()
            } else {
                b"from django.test import x".to_vec()
            })
        }
        fn has(&self, path: &str) -> bool {
            self.0.iter().any(|file| file == path || file.starts_with(&format!("{path}/")))
        }
    }

    #[test]
    fn filters_are_labels() {
        let files =
            Files(["manage.py", "notes/tests.py", "shop/tests/test_a.py"].map(str::to_owned).to_vec());
        let below = Files(["web/manage.py", "web/notes/tests.py"].map(str::to_owned).to_vec());
        for (project, folder, filter, want) in [
            (&files, "", "notes.tests.NoteTests.test_saved", "notes.tests.NoteTests.test_saved"),
            (&files, "", "notes/tests.py", "notes.tests"),
            (&files, "", "notes", "notes"),
            (&files, "", "test_saved", "-ktest_saved"),
            (&files, "", "other.thing", "-kother.thing"),
            (&files, "", "--version", "-k--version"),
            (&below, "web", "web/notes/tests.py", "notes.tests"),
            (&below, "web", "notes.tests.X", "notes.tests.X"),
        ] {
            assert_eq!(label(filter, folder, project), want, "{filter}");
        }
    }

    #[test]
    fn django_is_detected_by_manager_and_tests() {
        for (files, strength) in [
            (&["manage.py", "notes/tests.py"][..], Some(Strength::Configured)),
            (&["web/manage.py", "web/notes/tests.py"], Some(Strength::Configured)),
            (&["manage.py", "pytest.ini", "notes/tests.py"], Some(Strength::Used)),
            (&["manage.py", "notes/models.py"], None),
            (&["notes/tests.py"], None),
        ] {
            let mut all: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
            all.sort();
            assert_eq!(Django.detect(&Files(all)).map(|e| e.strength), strength, "{files:?}");
        }
    }
}
