//! Tests in the source files of a Go project, so that a file that a build constraint leaves out is told. Pure.

use crate::project::Project;

/// Maximum number of source files that are searched.
const MAX_SEARCHED_FILES: usize = 300;

/// The first test of each file of tests, as `FOLDER/FILE/TEST`, and what looks like a test and is not one for go: a function
/// with a small letter behind `Test`, and a test in a file whose name ends otherwise, as `sum.test.go`. go reads no file whose
/// path has a part `testdata` or `vendor`, or one that begins with a dot or an underscore (`go help packages`).
pub(super) fn first_tests(project: &dyn Project) -> Vec<String> {
    let is_read = |path: &str| {
        !path.split('/').any(|part| matches!(part, "testdata" | "vendor") || part.starts_with(['.', '_']))
    };
    let is_named = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.strip_suffix(".go").is_some_and(|stem| stem.to_ascii_lowercase().contains("test"))
    };
    let files = project.files().iter().filter(|path| is_named(path) && is_read(path));
    let named = files.take(MAX_SEARCHED_FILES).flat_map(|path| {
        let text = project.read(path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let names: Vec<&str> = match path.ends_with("_test.go") {
            true => first_test(&text).into_iter().chain(misnamed(&text)).collect(),
            false => first_test(&text).filter(|name| takes_a_test(&text, name)).into_iter().collect(),
        };
        names.into_iter().map(|name| format!("{path}/{name}")).collect::<Vec<_>>()
    });
    named.collect()
}

/// True for a function with the parameters of a test.
fn takes_a_test(text: &str, name: &str) -> bool {
    let head = format!("func {name}(");
    text.lines().filter_map(|line| line.strip_prefix(head.as_str())).any(|rest| {
        let parameters = rest.split(')').next().unwrap_or_default();
        !parameters.contains(',') && parameters.split_whitespace().nth(1) == Some("*testing.T")
    })
}

/// Functions with the parameters of a test that go does not start, for their names.
fn misnamed(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let name = line.strip_prefix("func ")?.split('(').next()?;
        let is_small = name.strip_prefix("Test")?.starts_with(char::is_lowercase);
        (is_small && takes_a_test(line, name)).then_some(name)
    })
}

/// Name of the first test or fuzz test of a file (`go help testfunc`): no small letter follows the word.
fn first_test(text: &str) -> Option<&str> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix("func ")?;
        let name = rest.split(['(', '[', ' ']).next()?;
        let word = name.strip_prefix("Test").or_else(|| name.strip_prefix("Fuzz"))?;
        (name != "TestMain" && !word.starts_with(char::is_lowercase)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_test_is_a_function_that_go_starts() {
        for (text, want) in [
            ("package p\n\nfunc TestAdd(t *testing.T) {}\nfunc TestB(t *testing.T) {}\n", Some("TestAdd")),
            ("//go:build never\n\nfunc FuzzX(f *testing.F) {\n", Some("FuzzX")),
            ("func TestMain(m *testing.M) {}\nfunc Test(t *testing.T) {}\n", Some("Test")),
            ("func Testing(t *testing.T) {}\nfunc helper() {}\n", None),
            ("func (s *Suite) TestAdd() {}\n// func TestX(t *testing.T)\n", None),
            ("func Test_x (t *testing.T) {}", Some("Test_x")),
            ("", None),
        ] {
            assert_eq!(first_test(text), want, "{text}");
        }
    }

    #[test]
    fn functions_that_only_look_like_tests_are_found() {
        for (line, want) in [
            ("func Testadd(t *testing.T) {", Some("Testadd")),
            ("func TestAdd(t *testing.T) {", None),
            ("func Test_add(t *testing.T) {", None),
            ("func Testing() {", None),
            ("func Testable(t *testing.T, n int) {", None),
            ("func (s S) Testadd(t *testing.T) {", None),
            ("// func Testadd(t *testing.T) {", None),
        ] {
            assert_eq!(misnamed(line).next(), want, "{line}");
        }
        for (line, want) in [
            ("func TestAdd(t *testing.T) {}", true),
            ("func TestAdd(t testing.TB) {}", false),
            ("func TestAdd(t *testing.T, s Store) {}", false),
            ("func TestAdd() {}", false),
        ] {
            assert_eq!(takes_a_test(line, "TestAdd"), want, "{line}");
        }
    }

    #[derive(Debug)]
    struct Files(Vec<String>);

    impl Project for Files {
        fn files(&self) -> &[String] {
            &self.0
        }
        fn read(&self, path: &str) -> Option<Vec<u8>> {
            let more = if path == "a_test.go" { "func Testb(t *testing.T) {}\n" } else { "" };
            Some(format!("package p\n\nfunc TestA(t *testing.T) {{}}\n{more}").into_bytes())
        }
        fn has(&self, path: &str) -> bool {
            self.0.iter().any(|file| file == path)
        }
    }

    #[test]
    fn files_with_other_names_are_searched_too() {
        let names = ["a_test.go", "b.test.go", "c.go", "test_d.go", "testdata/e_test.go", "x/f_test.go"];
        let found = first_tests(&Files(names.iter().map(|name| (*name).to_owned()).collect()));
        let want =
            ["a_test.go/TestA", "a_test.go/Testb", "b.test.go/TestA", "test_d.go/TestA", "x/f_test.go/TestA"];
        assert_eq!(found, want);
    }
}
