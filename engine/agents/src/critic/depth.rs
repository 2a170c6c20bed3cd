//! How much a review looks at, and the order in which files are read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tree::Listed;

/// Depth of a review (S2.12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// The guard reads everything, a model reads what fits into one question; nothing runs.
    Quick,
    /// Tests run as well, and a model reads what fits into four questions.
    #[default]
    Standard,
    /// The tests' coverage is measured as well, and a model reads what fits into sixteen questions.
    Comprehensive,
}

impl Depth {
    /// Maximum number of questions to a model.
    #[must_use]
    pub const fn questions(self) -> usize {
        match self {
            Self::Quick => 1,
            Self::Standard => 4,
            Self::Comprehensive => 16,
        }
    }

    /// Tells if tests run.
    #[must_use]
    pub const fn runs_tests(self) -> bool {
        !matches!(self, Self::Quick)
    }

    /// Tells if coverage is measured.
    #[must_use]
    pub const fn measures_coverage(self) -> bool {
        matches!(self, Self::Comprehensive)
    }

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Standard => "standard",
            Self::Comprehensive => "comprehensive",
        }
    }
}

/// Files that a model reads, in order: changed ones, other sources, tests; each by size. Text that is not code is left out unless it is changed.
#[must_use]
pub fn order(all: &[Listed], changed: &[String]) -> Vec<Listed> {
    let rank = |file: &Listed| match (changed.contains(&file.path), file.is_code(), file.is_test) {
        (true, ..) => Some(0),
        (false, true, _) => Some(1),
        (false, false, true) => Some(2),
        _ => None,
    };
    let mut ranked: Vec<(i32, &Listed)> =
        all.iter().filter_map(|file| rank(file).map(|rank| (rank, file))).collect();
    ranked.sort_by(|a, b| (a.0, a.1.bytes, &a.1.path).cmp(&(b.0, b.1.bytes, &b.1.path)));
    ranked.into_iter().map(|(_, file)| file.clone()).collect()
}

/// Files for each question: as many questions as allowed, each of at most this many bytes. Files beyond are left out; a file that is longer than a
/// question is left out too, since half of a file is judged wrongly.
#[must_use]
pub fn parts(files: &[(String, String)], most_bytes: usize, questions: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<(usize, Vec<usize>)> = Vec::new();
    for (at, (path, text)) in files.iter().enumerate() {
        // Numbers of lines take a part of it.
        let bytes = text.len() + path.len() + 8 * text.lines().count();
        if bytes > most_bytes {
            continue;
        }
        let count = all.len();
        match all.iter_mut().find(|(used, _)| *used + bytes <= most_bytes) {
            Some((used, files)) => {
                *used += bytes;
                files.push(at);
            }
            None if count < questions => all.push((bytes, vec![at])),
            None => {}
        }
    }
    all.into_iter().map(|(_, files)| files).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changed_files_are_read_first_and_prose_is_not() {
        let file =
            |path: &str, bytes| Listed { path: path.to_owned(), bytes, is_test: path.starts_with("test") };
        let all =
            [file("a.py", 9), file("b.py", 3), file("test_a.py", 1), file("README.md", 1), file("c.md", 1)];
        let paths = |changed: &[&str]| {
            let changed: Vec<String> = changed.iter().map(|path| (*path).to_owned()).collect();
            order(&all, &changed).into_iter().map(|file| file.path).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(paths(&[]), "b.py a.py test_a.py");
        assert_eq!(paths(&["a.py", "c.md"]), "c.md a.py b.py test_a.py");
    }

    proptest! {
        #[test]
        fn parts_hold_each_file_at_most_once_and_stay_within_their_size(
            sizes in proptest::collection::vec(0_usize..400, 0..40), questions in 1_usize..5,
        ) {
            let files: Vec<(String, String)> =
                sizes.iter().enumerate().map(|(at, size)| (at.to_string(), "x".repeat(*size))).collect();
            let all = parts(&files, 300, questions);
            prop_assert!(all.len() <= questions);
            let mut seen = std::collections::BTreeSet::new();
            for part in &all {
                prop_assert!(part.iter().map(|at| files[*at].1.len()).sum::<usize>() <= 300);
                prop_assert!(part.iter().all(|at| seen.insert(*at)));
            }
        }
    }
}
