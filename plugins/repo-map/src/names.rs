//! Properties of a file that follow from its name, and its size in tokens.

/// Language, by the extension.
pub(crate) fn language(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = match name.rsplit_once('.') {
        Some((_, ending)) => ending.to_ascii_lowercase(),
        None => String::new(),
    };
    Some(match (name, ending.as_str()) {
        ("Dockerfile" | "Containerfile", _) => "dockerfile",
        ("Makefile" | "GNUmakefile", _) | (_, "mk") => "make",
        ("CMakeLists.txt", _) | (_, "cmake") => "cmake",
        (_, "rs") => "rust",
        (_, "py" | "pyi") => "python",
        (_, "js" | "mjs" | "cjs" | "jsx") => "javascript",
        (_, "ts" | "mts" | "cts" | "tsx") => "typescript",
        (_, "go") => "go",
        (_, "java") => "java",
        (_, "kt" | "kts") => "kotlin",
        (_, "c" | "h") => "c",
        (_, "cc" | "cpp" | "cxx" | "hpp" | "hh" | "hxx") => "cpp",
        (_, "cs") => "csharp",
        (_, "rb") => "ruby",
        (_, "php") => "php",
        (_, "swift") => "swift",
        (_, "scala") => "scala",
        (_, "sh" | "bash") => "shell",
        (_, "sql") => "sql",
        (_, "wit") => "wit",
        (_, "html" | "htm") => "html",
        (_, "css" | "scss") => "css",
        (_, "json") => "json",
        (_, "yaml" | "yml") => "yaml",
        (_, "toml") => "toml",
        (_, "xml") => "xml",
        (_, "md" | "rst" | "adoc") => "text",
        (_, "proto") => "protobuf",
        _ => return None,
    })
}

/// Whether a file is a test by the conventions of its language: by its folder or its name.
pub(crate) fn is_test(path: &str) -> bool {
    let mut parts: Vec<&str> = path.split('/').collect();
    let name = parts.pop().unwrap_or_default();
    if parts.iter().any(|folder| {
        matches!(*folder, "test" | "tests" | "__tests__" | "spec" | "specs" | "testdata" | "e2e")
    }) {
        return true;
    }
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    let java = matches!(language(name), Some("java" | "kotlin" | "scala" | "csharp" | "swift"))
        && (stem.ends_with("Test") || stem.ends_with("Tests"));
    java || name == "conftest.py"
        || (stem.starts_with("test_") && language(name).is_some())
        || (stem.ends_with("_test") && language(name).is_some())
        || name.contains(".test.")
        || name.contains(".spec.")
        || (name.ends_with("_spec.rb"))
}

/// Approximate number of tokens in a text; `None` for a binary file.
pub(crate) fn tokens(content: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(content).ok().filter(|text| !text.contains('\0'))?;
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let others = text.chars().filter(|c| !c.is_ascii()).count() as u64;
    Some(ascii.div_ceil(4) + others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_known_by_folder_or_name() {
        for path in [
            "tests/a.rs",
            "src/__tests__/x.js",
            "test_a.py",
            "a_test.go",
            "x/a.test.ts",
            "a.spec.js",
            "src/FooTest.java",
            "conftest.py",
        ] {
            assert!(is_test(path), "{path}");
        }
        for path in [
            "src/lib.rs",
            "latest.py",
            "contest.py",
            "src/Test.md",
            "attest/a.rs",
            "testing/a.rs",
            "a.rs",
            "Testable.java",
        ] {
            assert!(!is_test(path), "{path}");
        }
    }

    #[test]
    fn languages_are_known_by_ending_or_name() {
        for (path, want) in [
            ("a/b.RS", Some("rust")),
            ("Makefile", Some("make")),
            ("CMakeLists.txt", Some("cmake")),
            ("a.txt", None),
            (".py", Some("python")),
            ("py", None),
        ] {
            assert_eq!(language(path), want, "{path}");
        }
    }

    #[test]
    fn tokens_are_characters_by_four() {
        assert_eq!(tokens(b""), Some(0));
        assert_eq!(tokens(b"abcde"), Some(2));
        assert_eq!(tokens("äöabcd".as_bytes()), Some(3));
        assert_eq!(tokens(b"a\0b"), None);
        assert_eq!(tokens(b"\xff"), None);
    }
}
