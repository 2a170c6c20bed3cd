//! Projects in C++: names of their files, and places in the output of compilers.

use hotcell_sandbox::policy::PROJECT;

use crate::project::Project;

/// Maximum number of files that are searched for a program.
const MAX_PROGRAMS: usize = 50;

/// True for a CMake file.
#[must_use]
pub fn is_cmake(file: &str) -> bool {
    file.ends_with("CMakeLists.txt") || file.ends_with(".cmake")
}

/// True for a C++ source file.
#[must_use]
pub fn is_cpp(file: &str) -> bool {
    [".cc", ".cpp", ".cxx"].iter().any(|end| file.ends_with(end))
}

/// First prebuilt Google Test program, among files with typical names.
#[must_use]
pub fn program(project: &dyn Project) -> Option<&String> {
    let called = |file: &&String| {
        let name = file.rsplit('/').next().unwrap_or(file);
        !name.contains('.') && name.to_ascii_lowercase().contains("test")
    };
    project.files().iter().filter(called).take(MAX_PROGRAMS).find(|file| {
        let bytes = project.read(file).unwrap_or_default();
        let has = |sign: &[u8]| bytes.windows(sign.len()).any(|w| w == sign);
        bytes.starts_with(b"\x7fELF") && (has(b"gtest_list_tests") || has(b"libgtest"))
    })
}

/// A path relative to the project.
#[must_use]
pub fn relative(path: &str) -> &str {
    let path = path.strip_prefix(PROJECT).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path);
    path.strip_prefix("./").unwrap_or(path)
}

/// Place at the beginning of a line: `dir/a_test.cc:12: Failure`.
#[must_use]
pub fn place(line: &str) -> Option<(String, u32)> {
    let (file, rest) = relative(line).split_once(':')?;
    let number = rest.split(':').next()?.trim();
    // A file elsewhere has no line in the project.
    let own = !file.starts_with('/') && !file.contains(' ') && !file.is_empty();
    Some((file.to_owned(), number.parse().ok().filter(|_| own)?))
}

/// A message without its line that only gives the place.
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
    fn native_positions_are_parsed() {
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
