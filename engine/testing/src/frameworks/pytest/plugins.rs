//! Plugins of pytest that are not installed, by the options that pytest does not know then. Pure.

use crate::text::clip;

/// Maximum length of an option in a message, in bytes.
const MAX_OPTION_BYTES: usize = 100;

/// Options of plugins that projects name in their settings; each with those that continue it (`--cov-report`).
const OPTIONS: [(&str, &str); 23] = [
    ("--asyncio", "pytest-asyncio"),
    ("--benchmark", "pytest-benchmark"),
    ("--black", "pytest-black"),
    ("--cov", "pytest-cov"),
    ("--create-db", "pytest-django"),
    ("--dist", "pytest-xdist"),
    ("--ds", "pytest-django"),
    ("--flake8", "pytest-flake8"),
    ("--html", "pytest-html"),
    ("--hypothesis", "hypothesis"),
    ("--maxprocesses", "pytest-xdist"),
    ("--mypy", "pytest-mypy"),
    ("--no-cov", "pytest-cov"),
    ("--no-migrations", "pytest-django"),
    ("--nomigrations", "pytest-django"),
    ("--numprocesses", "pytest-xdist"),
    ("--random-order", "pytest-random-order"),
    ("--reruns", "pytest-rerunfailures"),
    ("--reuse-db", "pytest-django"),
    ("--ruff", "pytest-ruff"),
    ("--snapshot", "syrupy"),
    ("--timeout", "pytest-timeout"),
    ("-n", "pytest-xdist"),
];

/// Plugin to install, from pytest's error about arguments that it does not know.
pub(super) fn missing(stderr: &str) -> Option<String> {
    let arguments = stderr.lines().find_map(|line| line.split_once("error: unrecognized arguments: "))?.1;
    let mut options = arguments.split(' ').filter_map(|word| {
        let option = word.split('=').next().filter(|option| option.starts_with('-'))?;
        let continues = |known: &str| {
            option.strip_prefix(known).is_some_and(|rest| {
                rest.is_empty()
                    || if known == "-n" { rest.parse::<u32>().is_ok() } else { rest.starts_with('-') }
            })
        };
        OPTIONS.iter().find(|(known, _)| continues(known)).map(|(_, plugin)| (option, *plugin))
    });
    let (option, plugin) = options.next()?;
    let option = clip(option, MAX_OPTION_BYTES);
    Some(format!(
        "the project's settings have the option {option} of {plugin}, which is not installed for this interpreter: install it there, or add ‹deps› if a lock file names it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_plugins_are_named_by_their_options() {
        for (arguments, want) in [
            ("--cov=m --cov-fail-under=100", Some(("--cov", "pytest-cov"))),
            ("--cov-report=xml", Some(("--cov-report", "pytest-cov"))),
            ("-n", Some(("-n", "pytest-xdist"))),
            ("-n4", Some(("-n4", "pytest-xdist"))),
            ("--own --timeout=5", Some(("--timeout", "pytest-timeout"))),
            ("--asyncio-mode=auto", Some(("--asyncio-mode", "pytest-asyncio"))),
            ("--coverage", None),
            ("-no", None),
            ("tests --own=--cov", None),
        ] {
            let text = format!(
                "ERROR: usage: python -m pytest [options]\npython -m pytest: error: unrecognized arguments: {arguments}\n  inifile: /p/pytest.ini\n"
            );
            let said = missing(&text);
            let want = want.map(|(option, plugin)| {
                format!("the project's settings have the option {option} of {plugin}, ")
            });
            assert_eq!(said.is_some(), want.is_some(), "{arguments}: {said:?}");
            assert!(
                want.is_none_or(|want| said.as_deref().is_some_and(|said| said.starts_with(&want))),
                "{arguments}"
            );
        }
        let long = format!("error: unrecognized arguments: --cov-{}\n", "x".repeat(5000));
        assert!(missing(&long).is_some_and(|said| said.len() < 400 && said.contains("pytest-cov")));
        for text in ["", "error: unrecognized arguments: ", "error: unrecognized argument --cov"] {
            assert_eq!(missing(text), None, "{text}");
        }
    }

    #[test]
    fn options_are_sorted() {
        assert!(OPTIONS.is_sorted());
    }
}
