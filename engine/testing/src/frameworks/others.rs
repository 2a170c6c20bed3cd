//! Tests of programs that hotcell does not follow, and files that cannot be read: what a project without a known framework
//! may have instead. Pure.

use crate::frameworks::javascript::{Package, members};
use crate::project::{Project, first_with};

/// Maximum number of files that are looked at.
const MAX_FILES: usize = 5_000;

/// Kinds of files with tests, by the end of their names, and the command that runs them.
const PROGRAMS: [(&str, &str); 7] = [
    (".bats", "bats -r ."),
    (".t", "prove -r"),
    ("_spec.rb", "rspec"),
    ("Test.php", "vendor/bin/phpunit"),
    ("_test.exs", "mix test"),
    ("_spec.lua", "busted"),
    ("_test.dart", "dart test"),
];
/// Build systems with tests of their own: name of the file, what it then contains, and the command.
const BUILDS: [(&str, &[&str], &str); 2] = [
    (
        "CMakeLists.txt",
        &["add_test", "enable_testing"],
        "sh -c 'cmake -B /tmp/b && cmake --build /tmp/b && ctest --test-dir /tmp/b'",
    ),
    ("meson.build", &["test("], "sh -c 'meson setup /tmp/b && meson test -C /tmp/b'"),
];
/// Names of scripts that run a project's tests, without what they end with, in its top folder or in one of [`SCRIPT_FOLDERS`].
const SCRIPTS: [&str; 7] = ["run-tests", "run_tests", "runtests", "test", "tests", "run-test", "check"];
const SCRIPT_FOLDERS: [&str; 4] = ["", "test/", "tests/", "scripts/"];

/// A file of tests of another program, and how `hotcell run` runs them by their exit status.
#[must_use]
pub fn advice(project: &dyn Project) -> Option<String> {
    let files = || project.files().iter().take(MAX_FILES);
    let last = |file: &str| file.rsplit('/').next().unwrap_or_default().to_owned();
    let built = |(name, words, command): &(&str, &[&str], &'static str)| {
        let is = |file: &&String| last(file) == *name && contains(project, file, words);
        Some((files().find(is)?.clone(), (*command).to_owned()))
    };
    let (file, command) = PROGRAMS
        .iter()
        .find_map(|(end, command)| {
            Some((files().find(|file| file.ends_with(end))?.clone(), (*command).to_owned()))
        })
        .or_else(|| minitest(project))
        .or_else(|| BUILDS.iter().find_map(built))?;
    Some(of_file(&file, &command))
}

/// Words about a file whose tests hotcell does not follow.
fn of_file(file: &str, command: &str) -> String {
    format!(
        "the tests of {file} are followed by none of the frameworks; `hotcell run --workspace DIR -- {command}` runs them, by their exit status"
    )
}

/// Whether the beginning of a file has one of these texts.
fn contains(project: &dyn Project, file: &str, texts: &[&str]) -> bool {
    first_with(project, |name| name == file, texts).is_some()
}

/// A file of Ruby's minitest or test-unit, and what runs them all.
fn minitest(project: &dyn Project) -> Option<(String, String)> {
    let is_test = |file: &str| {
        let name = file.rsplit('/').next().unwrap_or_default();
        name.ends_with("_test.rb") || name.starts_with("test_") && name.ends_with(".rb")
    };
    let file = first_with(project, is_test, &["Minitest", "minitest", "Test::Unit", "TestCase"])?;
    let with_rake = project.has("Rakefile") || project.has("rakefile");
    let command =
        if with_rake { "rake test".to_owned() } else { format!("ruby -Ilib -Itest {}", quoted(&file)) };
    Some((file, command))
}

/// A script that runs the tests, by its usual name.
fn script(project: &dyn Project) -> Option<(String, String)> {
    let of = |folder: &str, name: &str| format!("{folder}{name}.sh");
    let names = SCRIPT_FOLDERS.iter().flat_map(|folder| SCRIPTS.iter().map(move |name| of(folder, name)));
    let file = names.into_iter().find(|name| project.files().binary_search(name).is_ok())?;
    let command = format!("bash {file}");
    Some((file, command))
}

/// A Python file with examples in its documentation, for a project that has no other tests.
fn doctest(project: &dyn Project) -> Option<(String, String)> {
    let file = first_with(project, |file| file.ends_with(".py"), &[">>> "])?;
    let command = format!("python3 -m doctest {}", quoted(&file));
    Some((file, command))
}

/// A path as one word of a shell.
fn quoted(path: &str) -> String {
    let plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte));
    if plain { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

/// Names of make's own file, in the order in which it looks for them.
const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];
/// Script `test` of npm's own template.
const NO_TEST: &str = "no test specified";

/// A command of the project itself for its tests, which starts none of the frameworks, and how `hotcell run` runs it by its exit
/// status.
#[must_use]
pub fn own_command(project: &dyn Project) -> Option<String> {
    let members = members::told(&Package::read(project).tested);
    let (what, command) = if has_script(project) {
        ("the script test of package.json", "npm test")
    } else if let Some(members) = members {
        return Some(format!(
            "{members}; `hotcell run --workspace DIR -- npm test --workspaces` runs them, by their exit status"
        ));
    } else if has_target(project) {
        ("the target test of the Makefile", "make test")
    } else {
        let (file, command) = script(project).or_else(|| doctest(project))?;
        return Some(of_file(&file, &command));
    };
    let members = members.map(|members| format!("; {members}")).unwrap_or_default();
    Some(format!(
        "{what} starts none of the frameworks{members}; `hotcell run --workspace DIR -- {command}` runs it, by its exit status"
    ))
}

/// Whether make's own file has a target `test`.
fn has_target(project: &dyn Project) -> bool {
    let file = MAKEFILES.into_iter().find(|file| project.has(file));
    let text = file.and_then(|file| project.read(file)).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().any(is_target_test)
}

/// Whether `package.json` has a script `test` of the project's own.
fn has_script(project: &dyn Project) -> bool {
    let script = Package::read(project).script;
    !script.trim().is_empty() && !script.contains(NO_TEST)
}

/// Way to run the tests of several frameworks of a project's language at once: its script `test`, which starts none of them itself, such
/// as `npm test --workspaces`.
#[must_use]
pub fn script_of_all(project: &dyn Project) -> Option<&'static str> {
    has_script(project).then_some(
        "the script test of package.json starts neither as far as hotcell follows it; `hotcell run --workspace DIR -- npm test` runs it, by its exit status",
    )
}

/// Whether a line of a makefile begins the rule of the target `test`.
fn is_target_test(line: &str) -> bool {
    let Some((targets, rest)) = line.split_once(':') else { return false };
    let is_rule = !line.starts_with(char::is_whitespace) && !rest.starts_with('=') && !rest.starts_with(":=");
    is_rule && !targets.contains('=') && targets.split_whitespace().any(|target| target == "test")
}

/// A source file that cannot be read, and so shows no framework.
#[must_use]
pub fn unreadable(project: &dyn Project) -> Option<String> {
    let sources =
        [".py", ".js", ".cjs", ".mjs", ".ts", ".tsx", ".jsx", ".go", ".rs", ".java", ".cc", ".cpp", ".sql"];
    let source = |file: &&String| {
        sources.iter().any(|end| file.ends_with(end))
            || ["package.json", "Cargo.toml", "go.mod"]
                .iter()
                .any(|name| file.rsplit('/').next() == Some(*name))
    };
    let file =
        project.files().iter().take(MAX_FILES).filter(source).find(|file| project.read(file).is_none())?;
    Some(format!("{file} cannot be read: let this user read it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Files(Vec<String>, &'static str);

    impl Project for Files {
        fn files(&self) -> &[String] {
            &self.0
        }
        fn read(&self, path: &str) -> Option<Vec<u8>> {
            (!path.contains("secret")).then(|| self.1.as_bytes().to_vec())
        }
        fn has(&self, path: &str) -> bool {
            self.0.iter().any(|file| file == path)
        }
    }

    #[test]
    fn other_programs_are_advised() {
        for (file, text, want) in [
            ("test/a.bats", "", Some("bats -r .")),
            ("t/a.t", "", Some("prove -r")),
            ("CMakeLists.txt", "add_test(NAME a COMMAND a)", Some("ctest --test-dir")),
            ("sub/CMakeLists.txt", "enable_testing()", Some("ctest --test-dir")),
            ("CMakeLists.txt", "project(x)", None),
            ("spec/a_spec.rb", "", Some("rspec")),
            ("test/a_test.exs", "", Some("mix test")),
            ("meson.build", "test('a', exe)", Some("meson test -C")),
            ("meson.build", "project('a')", None),
            ("test/test_a.rb", "require 'minitest/autorun'", Some("ruby -Ilib -Itest test/test_a.rb")),
            (
                "lib/a b_test.rb",
                "class T < Test::Unit::TestCase",
                Some("ruby -Ilib -Itest 'lib/a b_test.rb'"),
            ),
            ("test/test_helper.rb", "puts 1", None),
            ("README", "", None),
        ] {
            let advice = advice(&Files(vec![file.to_owned()], text));
            assert_eq!(advice.is_some(), want.is_some(), "{file}");
            assert!(
                want.is_none_or(|want| advice.is_some_and(|text| text.contains(want) && text.contains(file)))
            );
        }
    }

    #[test]
    fn own_commands_are_advised() {
        let make = Some("hotcell run --workspace DIR -- make test");
        for (file, text, want) in [
            ("Makefile", "all: a\n\ntest: all\n\tsh test.sh\n", make),
            ("Makefile", "check test:\n\tsh test.sh\n", make),
            ("GNUmakefile", "test::\n\tsh test.sh\n", make),
            ("makefile", ".PHONY: test\n", None),
            ("Makefile", "test := 1\ntest = 2\ntest ::= 3\n\ttest: x\n", None),
            ("Makefile", "tests: a\nall: test\n", None),
            ("sub/Makefile", "test:\n\tsh test.sh\n", None),
            ("package.json", "{\"scripts\":{\"test\":\"node test.js\"}}", Some("-- npm test")),
            (
                "package.json",
                "{\"scripts\":{\"test\":\"echo \\\"Error: no test specified\\\" && exit 1\"}}",
                None,
            ),
            ("package.json", "{\"scripts\":{\"build\":\"tsc\"}}", None),
            ("run-tests.sh", "", Some("bash run-tests.sh")),
            ("scripts/test.sh", "", Some("bash scripts/test.sh")),
            ("vendor/test.sh", "", None),
            ("lib/it's.py", "'''\n>>> 1\n1\n'''", Some("python3 -m doctest 'lib/it'\\''s.py'")),
            ("lib/m.py", "print(1 >> 2)", None),
            ("package.json", "{", None),
        ] {
            let advice = own_command(&Files(vec![file.to_owned()], text));
            assert_eq!(advice.is_some(), want.is_some(), "{file} {text}: {advice:?}");
            assert!(want.is_none_or(|want| advice.is_some_and(|text| text.contains(want))), "{file} {text}");
        }
    }

    #[test]
    fn unreadable_sources_are_named() {
        for (file, want) in [
            ("secret/test_a.py", true),
            ("test_a.py", false),
            ("secret.txt", false),
            ("secret/package.json", true),
        ] {
            assert_eq!(unreadable(&Files(vec![file.to_owned()], "")).is_some(), want, "{file}");
        }
    }
}
