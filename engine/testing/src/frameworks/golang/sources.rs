//! Tests in the source files of a Go project, so that a file that a build constraint leaves out is told. Pure.

use crate::project::Project;

/// Maximum number of source files that are searched.
const MAX_SEARCHED_FILES: usize = 300;

/// The first test of each file of tests, as `FOLDER/FILE/TEST`. go reads no file whose path has a part `testdata` or
/// `vendor`, or one that begins with a dot or an underscore (`go help packages`).
pub(super) fn first_tests(project: &dyn Project) -> Vec<String> {
    let is_read = |path: &str| {
        !path.split('/').any(|part| matches!(part, "testdata" | "vendor") || part.starts_with(['.', '_']))
    };
    let files = project.files().iter().filter(|path| path.ends_with("_test.go") && is_read(path));
    let named = files.take(MAX_SEARCHED_FILES).filter_map(|path| {
        let text = project.read(path)?;
        Some(format!("{path}/{}", first_test(&String::from_utf8_lossy(&text))?))
    });
    named.collect()
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
}
