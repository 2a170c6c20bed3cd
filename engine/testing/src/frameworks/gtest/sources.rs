//! Tests in the source files of a C++ project, so that a file that is not built is told. Pure.

use crate::frameworks::native;
use crate::project::Project;

/// Maximum number of source files that are searched.
const MAX_SEARCHED_FILES: usize = 300;
/// Maximum number of bytes that are searched of one file.
const MAX_SEARCHED_BYTES: usize = 256 << 10;
/// Folders of sources of others, which their own build would test.
const FOREIGN: [&str; 8] =
    ["third_party", "3rdparty", "external", "extern", "googletest", "_deps", "deps", "subprojects"];

/// The first test of each file that has some, as `FOLDER/FILE/SUITE.TEST`.
pub(super) fn first_tests(project: &dyn Project) -> Vec<String> {
    let is_own = |path: &str| native::is_cpp(path) && !path.split('/').any(|part| FOREIGN.contains(&part));
    let files = project.files().iter().filter(|path| is_own(path)).take(MAX_SEARCHED_FILES);
    let named = files.filter_map(|path| {
        let text = project.read(path)?;
        let text = String::from_utf8_lossy(&text[..text.len().min(MAX_SEARCHED_BYTES)]);
        let (suite, name) = first_test(&text)?;
        Some(format!("{path}/{suite}.{name}"))
    });
    named.collect()
}

/// Suite and name of the first test of a file that includes Google Test. Tests with parameters or types have other names.
fn first_test(text: &str) -> Option<(&str, &str)> {
    let is_name = |name: &&str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && *name != "_"
    };
    if !["gtest/", "gmock/"].iter().any(|head| text.contains(head)) {
        return None;
    }
    text.match_indices("\nTEST").find_map(|(at, head)| {
        let rest = &text[at + head.len()..];
        let rest = rest.strip_prefix("_F").unwrap_or(rest).strip_prefix('(')?;
        let (suite, rest) = rest.split_once(',')?;
        let name = rest.split_once(')')?.0.trim();
        Some((suite.trim(), name)).filter(|(suite, name)| is_name(suite) && is_name(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_test_of_a_source_is_found() {
        for (text, want) in [
            ("\nTEST(Cart, Adds) {\nTEST(Cart, B) {", Some(("Cart", "Adds"))),
            ("\nTEST_F(Cart,\n       Adds) {", Some(("Cart", "Adds"))),
            ("\nTEST_P(Cart, Adds) {", None),
            ("\nTYPED_TEST(Cart, Adds) {", None),
            ("\n  TEST(Cart, Adds)", None),
            ("\n// TEST(Cart, Adds)", None),
            ("\nTEST(Cart##X, Adds)", None),
            ("\nTEST_F(Cart", None),
            ("\nTESTING(a, b)", None),
        ] {
            let text = format!("#include <gtest/gtest.h>{text}");
            assert_eq!(first_test(&text), want, "{text}");
        }
        assert_eq!(first_test("#include <other.h>\nTEST(Cart, Adds) {"), None);
    }
}
