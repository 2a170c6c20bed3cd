//! Tests of programs that hotcell does not follow, and files that cannot be read: what a project without a known framework
//! may have instead. Pure.

use crate::frameworks::javascript::Package;
use crate::project::Project;

/// Maximum number of files that are looked at.
const MAX_FILES: usize = 5_000;

/// Kinds of files with tests, by the end of their names, and the command that runs them.
const PROGRAMS: [(&str, &str); 4] =
    [(".bats", "bats -r ."), (".t", "prove -r"), ("_spec.rb", "rspec"), ("Test.php", "vendor/bin/phpunit")];
/// Command for tests of CMake.
const CTEST: &str = "sh -c 'cmake -B /tmp/b && cmake --build /tmp/b && ctest --test-dir /tmp/b'";

/// A file of tests of another program, and how `hotcell run` runs them by their exit status.
#[must_use]
pub fn advice(project: &dyn Project) -> Option<String> {
    let files = || project.files().iter().take(MAX_FILES);
    let of_cmake = |file: &&String| {
        file.rsplit('/').next() == Some("CMakeLists.txt")
            && project.read(file).is_some_and(|text| {
                let text = String::from_utf8_lossy(&text).into_owned();
                text.contains("add_test") || text.contains("enable_testing")
            })
    };
    let (file, command) = PROGRAMS
        .iter()
        .find_map(|(end, command)| Some((files().find(|file| file.ends_with(end))?, *command)))
        .or_else(|| Some((files().find(of_cmake)?, CTEST)))?;
    Some(format!(
        "the tests of {file} are followed by none of the frameworks; `hotcell run --workspace DIR -- {command}` runs them, by their exit status"
    ))
}

/// Names of make's own file, in the order in which it looks for them.
const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];
/// Script `test` of npm's own template.
const NO_TEST: &str = "no test specified";

/// A command of the project itself for its tests, which starts none of the frameworks, and how `hotcell run` runs it by its exit
/// status.
#[must_use]
pub fn own_command(project: &dyn Project) -> Option<String> {
    let script = Package::read(project).script;
    let (what, command) = if !script.trim().is_empty() && !script.contains(NO_TEST) {
        ("the script test of package.json", "npm test")
    } else {
        let file = MAKEFILES.into_iter().find(|file| project.has(file))?;
        let text = project.read(file)?;
        let text = String::from_utf8_lossy(&text);
        text.lines().any(is_target_test).then_some(("the target test of the Makefile", "make test"))?
    };
    Some(format!(
        "{what} starts none of the frameworks; `hotcell run --workspace DIR -- {command}` runs it, by its exit status"
    ))
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
