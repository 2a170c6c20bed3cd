//! Packages that pass for others: their name is one letter apart from the one that they give elsewhere.

use crate::check::{Programs, check};
use hotcell_guard::PackError;

#[test]
fn copies_name_the_package_that_they_pass_for() -> Result<(), PackError> {
    let mut programs = Programs::new();
    let real = [
        ("requests", "psf"),
        ("colorama", "tartley"),
        ("express", "expressjs"),
        ("lodash", "lodash"),
        ("minimist", "minimistjs"),
        ("django", "django"),
    ];
    for (name, owner) in real {
        let (first, rest) = name.split_at(2);
        let letters: Vec<char> = rest.chars().collect();
        let swapped = format!("{first}{}{}{}", letters[1], letters[0], &rest[2..]);
        let doubled = format!("{first}{}{rest}", letters[0]);
        let missing = format!("{first}{}", &rest[1..]);
        let ours = format!("{name}-for-acme");
        for (given, is) in [
            (swapped, true),
            (doubled, true),
            (missing, true),
            (name.to_owned(), false),
            (ours, false),
            (format!("{name}2"), false),
            (format!("{name}s"), false),
        ] {
            let address = format!("https://github.com/{owner}/{name}");
            programs.push(("package.json", format!("{{\"name\": \"{given}\", \"version\": \"4.1.0\", \"repository\": {{\"type\": \"git\", \"url\": \"git+{address}.git\"}}}}"), is));
            programs.push((
                "package.json",
                format!(
                    "{{\"name\": \"{given}\", \"version\": \"4.1.0\", \"homepage\": \"{address}#readme\"}}"
                ),
                is,
            ));
            programs.push(("package.json", format!("{{\"name\": \"{given}\", \"version\": \"4.1.0\", \"repository\": {{\"url\": \"{address}\", \"directory\": \"packages/{given}\"}}}}"), false));
            programs.push(("pyproject.toml", format!("[project]\nname = \"{given}\"\nversion = \"4.1.0\"\n\n[project.urls]\nRepository = \"{address}\"\n"), is));
            programs.push(("pyproject.toml", format!("[tool.poetry]\nname = \"{given}\"\nversion = \"4.1.0\"\npackages = [{{ include = \"{name}\" }}]\n"), is));
            programs.push(("setup.py", format!("from setuptools import setup\n\nsetup(name='{given}', version='4.1.0', packages=['{name}'])\n"), is));
            programs.push(("setup.py", format!("from setuptools import setup\n\nsetup(name='{given}', version='4.1.0', url='{address}', packages=['x'])\n"), is));
        }
    }
    check(&programs)
}
