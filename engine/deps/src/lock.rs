//! Lock files of a project: which it has, and which of them is used. Pure; the project is hostile.

use hotcell_testing::Project;

use crate::npm::npm;
use crate::pip::pip;
use crate::plan::{LockError, Plan};

/// Files that `pip` reads, in order of precedence; all existing ones are installed together.
const REQUIREMENTS: [&str; 6] = [
    "requirements.txt",
    "requirements-dev.txt",
    "requirements_dev.txt",
    "dev-requirements.txt",
    "requirements-test.txt",
    "test-requirements.txt",
];
/// Plans for the known lock files of a project; may be empty.
///
/// # Errors
/// A lock file that is broken, or names a package that is not from a registry.
pub fn plans(project: &dyn Project) -> Result<Vec<Plan>, LockError> {
    let mut plans = Vec::new();
    if let Some(file) =
        ["package-lock.json", "npm-shrinkwrap.json"].into_iter().find(|file| project.has(file))
    {
        plans.push(npm(project, file)?);
    }
    let requirements: Vec<&str> = REQUIREMENTS.into_iter().filter(|file| project.has(file)).collect();
    // The lock file of the project's own tool is more complete than exported requirements.
    match crate::python::locked(project) {
        Some(Ok(plan)) => plans.push(plan),
        // If that fails, the exported requirements are used.
        Some(Err(error)) if requirements.is_empty() => return Err(error),
        Some(Err(error)) => match pip(project, &requirements) {
            Ok(plan) => {
                tracing::warn!("requirements are installed in place of what is locked: {error}");
                plans.push(plan);
            }
            Err(_) => return Err(error),
        },
        None if requirements.is_empty() => {}
        None => plans.push(pip(project, &requirements)?),
    }
    if project.has("Cargo.lock") {
        plans.push(crate::cargo::plan(project)?);
    }
    plans.extend(crate::golang::plan(project)?);
    Ok(plans)
}

#[cfg(test)]
mod tests;
