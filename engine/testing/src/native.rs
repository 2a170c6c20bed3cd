//! Projects in C++: how their files look, and places in them as compilers write them.

use hotcell_sandbox::policy::PROJECT;

use crate::project::Project;

/// The most files that are looked into for a program.
const MOST_PROGRAMS: usize = 50;

/// Whether CMake reads a file.
#[must_use]
pub fn is_cmake(file: &str) -> bool {
    file.ends_with("CMakeLists.txt") || file.ends_with(".cmake")
}

/// Whether a file is C++ that is compiled.
#[must_use]
pub fn is_cpp(file: &str) -> bool {
    [".cc", ".cpp", ".cxx"].iter().any(|end| file.ends_with(end))
}

/// The first program of Google Test, built before, among files that are called so.
#[must_use]
pub fn program(project: &dyn Project) -> Option<&String> {
    let called = |file: &&String| {
        let name = file.rsplit('/').next().unwrap_or(file);
        !name.contains('.') && name.to_ascii_lowercase().contains("test")
    };
    project.files().iter().filter(called).take(MOST_PROGRAMS).find(|file| {
        let bytes = project.read(file).unwrap_or_default();
        let has = |sign: &[u8]| bytes.windows(sign.len()).any(|w| w == sign);
        bytes.starts_with(b"\x7fELF") && (has(b"gtest_list_tests") || has(b"libgtest"))
    })
}

/// A path from the project on.
#[must_use]
pub fn relative(path: &str) -> &str {
    let path = path.strip_prefix(PROJECT).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path);
    path.strip_prefix("./").unwrap_or(path)
}

/// The place at the beginning of a line: `dir/a_test.cc:12: Failure`.
#[must_use]
pub fn place(line: &str) -> Option<(String, u32)> {
    let (file, rest) = relative(line).split_once(':')?;
    let number = rest.split(':').next()?.trim();
    // What lies elsewhere has no line of the project.
    let own = !file.starts_with('/') && !file.contains(' ') && !file.is_empty();
    Some((file.to_owned(), number.parse().ok().filter(|_| own)?))
}

/// A message without the line that only says where.
#[must_use]
pub fn without_place(text: &str) -> &str {
    match text.split_once('\n') {
        Some((first, rest)) if place(first).is_some() || first == "unknown file" => rest.trim(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        for (line, want) in [
            ("a_test.cc:12: Failure", Some(("a_test.cc", 12))),
            ("./a.cc:3:7: error: x", Some(("a.cc", 3))),
            ("/home/sandbox/project/sub/a.cc:3", Some(("sub/a.cc", 3))),
            ("/usr/include/x.h:3: note", None),
            ("unknown file: Failure", None),
            (":3", None),
            ("a b:3", None),
            ("", None),
        ] {
            assert_eq!(place(line), want.map(|(file, line)| (file.to_owned(), line)), "{line}");
        }
        assert_eq!(without_place("a.cc:3\nwhy\nnot"), "why\nnot");
        assert_eq!(without_place("why\nnot"), "why\nnot");
    }
}
