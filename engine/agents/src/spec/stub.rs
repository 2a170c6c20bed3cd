//! Stubs in place of the sources of a plan. Languages with types need the declarations of the plan's interfaces, whose bodies are replaced.

pub mod blank;
mod golang;
mod rust;

use super::go_version::GoVersion;
use super::language::{Language, Stub};
use super::plan::{Plan, Planned, Unplanned};

/// Files of a stub, with those that it adds.
#[must_use]
pub fn stubs(language: Language, plan: &Plan, stub: Stub) -> Vec<(String, String)> {
    let sources: Vec<&Planned> = plan.files.iter().filter(|file| language.is_source(&file.path)).collect();
    match language {
        Language::Python | Language::JavaScript => sources
            .into_iter()
            .filter_map(|file| Some((file.path.clone(), language.stub_of_any(stub)?)))
            .collect(),
        Language::Go => golang::stubs(&sources, stub),
        Language::Rust => rust::stubs(&sources, stub),
    }
}

/// Functions of a plan for whose results no stub has a value, so that their tests are judged by the stub that fails and by mutants only.
#[must_use]
pub fn unmade(language: Language, plan: &Plan) -> Vec<String> {
    let sources: Vec<&Planned> = plan.files.iter().filter(|file| language.is_source(&file.path)).collect();
    match language {
        // Go has a zero value of each type; the others have no types.
        Language::Python | Language::JavaScript | Language::Go => Vec::new(),
        Language::Rust => rust::unmade(&sources),
    }
}

/// A project with a stub, the settings of the language, and other files.
#[must_use]
pub fn project(
    (language, go): (Language, GoVersion),
    plan: &Plan,
    stub: Stub,
    also: impl IntoIterator<Item = (String, String)>,
) -> Vec<(String, String)> {
    let settings = language.setting_files(plan.files.iter().map(|file| &*file.path), go);
    stubs(language, plan, stub).into_iter().chain(settings).chain(also).collect()
}

/// A test that passes when a plan's stub can be built, and says nothing else.
#[must_use]
pub fn probe(language: Language, plan: &Plan) -> Vec<(String, String)> {
    let sources: Vec<&Planned> = plan.files.iter().filter(|file| language.is_source(&file.path)).collect();
    match language {
        Language::Python | Language::JavaScript => Vec::new(),
        Language::Go => golang::probe(&sources),
        Language::Rust => {
            vec![(
                "tests/hotcell_probe.rs".to_owned(),
                "use project as _;\n\n#[test]\nfn probe() {}\n".to_owned(),
            )]
        }
    }
}

/// A plan of one function, with which it is found out if the language is there.
#[must_use]
pub fn smallest(language: Language) -> Plan {
    let (path, interface) = match language {
        Language::Python => ("code.py", "def one()"),
        Language::JavaScript => ("code.js", "one()"),
        Language::Go => ("code.go", "package project\nfunc One() int"),
        Language::Rust => ("src/lib.rs", "pub fn one() -> i64;"),
    };
    let file = Planned { path: path.to_owned(), purpose: "one".to_owned(), interface: interface.to_owned() };
    Plan { summary: String::new(), files: vec![file] }
}

/// Completes the interfaces of a plan where the language needs more than they say, and checks the paths of its sources.
///
/// # Errors
/// [`Unplanned`] for sources that cannot be one project, in words for the model.
pub fn complete(language: Language, plan: &mut Plan) -> Result<(), Unplanned> {
    match language {
        Language::Python | Language::JavaScript => Ok(()),
        Language::Go => golang::complete(plan),
        Language::Rust => rust::complete(plan),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_stand_for_sources_only_and_the_smallest_plan_has_them() {
        for language in Language::ALL {
            let mut plan = smallest(language);
            complete(language, &mut plan).unwrap();
            assert_eq!(plan, smallest(language), "{language:?}");
            let source = plan.files[0].path.clone();
            plan.files.push(Planned { path: "data.json".to_owned(), ..Planned::default() });
            let of = |stub| stubs(language, &plan, stub);
            for stub in [Stub::Fails, Stub::Returns, Stub::ReturnsOther] {
                let files = of(stub);
                assert!(
                    files.iter().any(|(path, _)| *path == source)
                        && files.iter().all(|(path, _)| path != "data.json")
                );
            }
            assert_ne!(of(Stub::Fails), of(Stub::Returns));
            assert_eq!(of(Stub::Returns) == of(Stub::ReturnsOther), !language.is_typed());
            assert!(probe(language, &plan).iter().all(|(path, _)| language.is_test(path)));
        }
    }
}
