use super::*;
use crate::frameworks::framework;

#[derive(Debug)]
struct Nothing;

impl Project for Nothing {
    fn files(&self) -> &[String] {
        &[]
    }
    fn read(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
    fn has(&self, path: &str) -> bool {
        ["a.py", "-b.py"].contains(&path)
    }
}

fn words(chosen: &Chosen) -> String {
    chosen.command.argv.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[test]
fn ids_become_the_words_of_their_framework() {
    for (name, ids, word, file) in [
        (
            "pytest",
            &["a.py::x[1]", "-b.py::y"][..],
            "--hotcell-only=",
            Some(r#"["a.py::x[1]","./-b.py::y"]"#),
        ),
        (
            "pytest",
            &["a.py::x", "__init__.py::pk.f"],
            "--hotcell-part=1 --hotcell-keep=",
            Some(r#"["a.py::x","__init__.py::pk.f"]"#),
        ),
        ("unittest", &["t.T.a", "t.T.b"], "--hotcell-only=", Some(r#"["t.T.a","t.T.b"]"#)),
        ("cargo", &["src/lib.rs::m::a", "tests/i.rs::b"], "--tests", Some("b\nm::a\n")),
        ("go", &["p/a::TestX/sub", "p/b::TestY"], "-run=^(TestX|TestY)$ p/a p/b", None),
        ("jest", &["a.test.js::s::x", "b.test.js::y"], "--runTestsByPath=true ./a.test.js ./b.test.js", None),
        ("gtest", &["prog::S.a", "other::T.b"], " S.a:T.b ", None),
    ] {
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        let chosen = part(framework(name).unwrap(), &Selection::default(), &Nothing, &ids).unwrap();
        assert!(words(&chosen).contains(word), "{name}: {}", words(&chosen));
        assert_eq!(chosen.file.as_deref(), file, "{name}");
        assert!(!words(&chosen).contains("./..."), "{name}: {}", words(&chosen));
        assert!(listing(framework(name).unwrap(), &Selection::default(), &Nothing).is_some(), "{name}");
    }
    for name in ["mocha", "vitest", "junit", "pgtap", "nextest", "karma", "jasmine", "node", "ava"] {
        assert_eq!(part(framework(name).unwrap(), &Selection::default(), &Nothing, &[]), None, "{name}");
        assert_eq!(listing(framework(name).unwrap(), &Selection::default(), &Nothing), None, "{name}");
    }
}

#[test]
fn failed_tests_are_rerun_together_or_separately() {
    use Status::{Errored, Failed};
    for (name, cases, commands) in [
        ("pytest", vec![("a.py::x", Failed), ("a.py::y", Errored)], 1),
        // A file that cannot be loaded, and a threshold, are not tests.
        ("pytest", vec![("__init__.py::pk.f", Failed)], 1),
        ("pytest", vec![("a.py", Errored)], 0),
        ("cargo", vec![("src/lib.rs::a", Failed), ("tests/b.rs::a", Failed)], 1),
        ("cargo", vec![("src/lib.rs::a", Failed), ("src/lib.rs - a (line 3)", Failed)], 0),
        ("go", vec![("p::TestA", Failed), ("p::TestA/b", Failed)], 1),
        ("go", vec![("p", Errored)], 0),
        ("mocha", vec![("a.js::x", Failed), ("a.js::y", Failed), ("b.js::z", Failed)], 3),
        ("mocha", vec![("a.js::x", Failed); 9], 0),
        ("mocha", vec![("package.json::npm run lint", Errored)], 0),
        ("tape", vec![("a.js::x::1", Failed)], 0),
        ("ava", vec![("a.js::x", Failed)], 1),
        ("pytest", vec![], 0),
    ] {
        let cases: Vec<Case> = cases.into_iter().map(|(id, status)| Case::bare(id, status)).collect();
        let cases: Vec<&Case> = cases.iter().collect();
        let got = again(framework(name).unwrap(), &Selection::default(), &Nothing, &cases);
        assert_eq!(got.len(), commands, "{name} {cases:?}");
    }
}

#[test]
fn unselectable_test_shares_suite_key() {
    for (name, id, want) in [
        ("cargo", "src/lib.rs::m::a", "m::a"),
        ("cargo", "src/lib.rs - m::a (line 3)", ""),
        ("cargo", "tests/own.rs", ""),
        ("go", "example.com/p::TestA", "TestA"),
        ("gtest", "prog::S.a", "S.a"),
        ("pytest", "a.py::T::x", "a.py::T::x"),
    ] {
        assert_eq!(key(name, id), want, "{id}");
    }
}

#[test]
fn all_listed_tests_are_no_part() {
    let ids: Vec<String> = ["a.py::x", "a.py::y", "a.py::z"].map(str::to_owned).into();
    for (chosen, listed, want) in [(1, 3, true), (2, 3, true), (3, 3, false), (1, 1, false)] {
        let part =
            part(framework("pytest").unwrap(), &Selection::default(), &Nothing, &ids[..chosen]).unwrap();
        // A rerun of failed tests has no list.
        assert!(part.is_part, "{chosen}");
        assert_eq!(part.of_listed(chosen, listed).is_part, want, "{chosen} of {listed}");
    }
}
