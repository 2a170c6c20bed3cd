use proptest::prelude::*;

use super::*;

fn plan(files: &[(&str, &str)]) -> Plan {
    let file = |(path, interface): &(&str, &str)| Planned {
        path: (*path).to_owned(),
        purpose: "x".to_owned(),
        interface: (*interface).to_owned(),
    };
    Plan { summary: String::new(), files: files.iter().map(file).collect() }
}

#[test]
fn functions_lose_their_bodies_and_types_stay() {
    for (given, fails, returns) in [
        (
            "pub fn add(a: i64, b: i64) -> i64;",
            "pub fn add(a: i64, b: i64) -> i64 { panic!(\"add is not written yet\") }",
            "pub fn add(a: i64, b: i64) -> i64 { crate::hotcell_value!(i64) }",
        ),
        (
            "pub fn a() -> i64\npub fn b(x: &str)",
            "pub fn a() -> i64 { panic!(\"a is not written yet\") }\npub fn b(x: &str) { panic!(\"b is not written yet\") }",
            "pub fn a() -> i64 { crate::hotcell_value!(i64) }\npub fn b(x: &str) { crate::hotcell_stub::call() }",
        ),
        (
            "pub fn f<T: Fn(i64) -> i64>(t: T) -> Vec<T> where T: Clone { vec![t] }",
            "pub fn f<T: Fn(i64) -> i64>(t: T) -> Vec<T> where T: Clone { panic!(\"f is not written yet\") }",
            "pub fn f<T: Fn(i64) -> i64>(t: T) -> Vec<T> where T: Clone { crate::hotcell_value!(Vec<T>) }",
        ),
        (
            "impl Stack { pub const fn new() -> Self; }",
            "impl Stack { pub const fn new() -> Self { panic!(\"new is not written yet\") } }",
            "impl Stack { pub const fn new() -> Self { panic!(\"new is not written yet\") } }",
        ),
        (
            "pub trait Area { fn area(&self) -> f64; fn two(&self) -> f64 { 2.0 } }",
            "pub trait Area { fn area(&self) -> f64; fn two(&self) -> f64 { panic!(\"two is not written yet\") } }",
            "pub trait Area { fn area(&self) -> f64; fn two(&self) -> f64 { crate::hotcell_value!(f64) } }",
        ),
        ("union A { f: fn(i64) -> i64 }", "union A { f: fn(i64) -> i64 }", "union A { f: fn(i64) -> i64 }"),
        (
            "pub fn it() -> impl Iterator<Item = i64>;",
            "pub fn it() -> impl Iterator<Item = i64> { if true { panic!(\"it is not written yet\") } ::std::vec::Vec::<i64>::new().into_iter() }",
            "pub fn it() -> impl Iterator<Item = i64> { crate::hotcell_value!(::std::vec::Vec<i64>).into_iter() }",
        ),
        (
            "pub fn of() -> impl Fn(i64) -> i64;",
            "pub fn of() -> impl Fn(i64) -> i64 { panic!(\"of is not written yet\") }",
            "pub fn of() -> impl Fn(i64) -> i64 { panic!(\"of is not written yet\") }",
        ),
        (
            "pub fn s<'a>(t: &'a str) -> (&'a str, [u8; 4]); // fn x() {",
            "pub fn s<'a>(t: &'a str) -> (&'a str, [u8; 4]) { panic!(\"s is not written yet\") } // fn x() {",
            "pub fn s<'a>(t: &'a str) -> (&'a str, [u8; 4]) { crate::hotcell_value!((&'a str, [u8; 4])) } // fn x() {",
        ),
    ] {
        assert_eq!(text(given, Stub::Fails), fails, "{given}");
        assert_eq!(text(given, Stub::Returns), returns, "{given}");
    }
}

#[test]
fn sources_are_modules_of_the_library() {
    let mut given = plan(&[
        ("src/lib.rs", "pub mod a;\npub fn f();"),
        ("src/a.rs", ""),
        ("src/b.rs", ""),
        ("src/main.rs", ""),
        ("README.md", ""),
    ]);
    complete(&mut given).unwrap();
    assert_eq!(given.files[0].interface, "pub mod a;\npub fn f();\npub mod b;");
    let again = given.clone();
    complete(&mut given).unwrap();
    assert_eq!(given, again);
    for path in ["calc.rs", "src/a/b.rs", "src/a-b.rs", "build.rs", "src/hotcell_stub.rs"] {
        let refused = complete(&mut plan(&[("src/lib.rs", ""), (path, "")]));
        assert!(matches!(refused, Err(Unplanned::Module(_))), "{path}");
    }
    assert_eq!(complete(&mut plan(&[("src/a.rs", "")])), Err(Unplanned::NoLibrary));
    for (library, want) in [
        ("", "pub mod a;"),
        ("#![allow(dead_code)]", "#![allow(dead_code)]\npub mod a;"),
        ("//! Sums.\npub fn f();", "//! Sums.\npub fn f();\npub mod a;"),
        ("mod  a;", "mod  a;"),
        ("// mod a;", "// mod a;\npub mod a;"),
    ] {
        let mut given = plan(&[("src/lib.rs", library), ("src/a.rs", "")]);
        complete(&mut given).unwrap();
        assert_eq!(given.files[0].interface, want);
    }
    // A module of the program is compiled a second time, where the names of the library are missing.
    for (main, good) in [
        ("mod a;\nfn main();", false),
        ("pub mod a;\nfn main();", false),
        ("use project::a;\nfn main();", true),
        ("// mod a;\nfn main();", true),
    ] {
        let done = complete(&mut plan(&[("src/lib.rs", ""), ("src/a.rs", ""), ("src/main.rs", main)]));
        assert_eq!(done.is_ok(), good, "{main}: {done:?}");
    }
}

/// Declarations with all forms that are read.
const DECLARED: &str = "#![allow(dead_code)]\n#[cfg(test)] struct Held<'a, T: Fn(i64) -> i64 = fn(i64) -> i64, const N: usize = 2>(&'a [T; N], pub (u8, é))\n\
    where T: Clone;\nenum E<A, B = A> { One(Box<E<A, B>>), Two { x: &'static mut [A], r#type: (B,) }, #[default] No = 1 }\ntype Own<T> = std::result::Result<T, E<T>>;\n\
    impl<'a, T> Iterator for Held<'a, T> { type Item = T; fn next(&mut self) -> Option<Self::Item>; const fn one() -> Self { 'x' } }\n\
    pub fn it() -> impl std::iter::Iterator<Item = Own<E<i64>>> + 'static;\npub fn g<T>(t: T) -> Result<HashMap<T, &str>, Box<dyn Error>> where T: Eq { r#\"}\"# }";

/// Reads an interface in all ways.
fn read(interface: &str) {
    for stub in [Stub::Fails, Stub::Returns, Stub::ReturnsOther] {
        let _ = text(interface, stub);
    }
    let mut plan = plan(&[("src/lib.rs", interface), ("src/a.rs", interface)]);
    complete(&mut plan).unwrap();
    let _ = unmade(&plan.files.iter().collect::<Vec<_>>());
}

#[test]
fn results_with_angles_that_do_not_open_are_read() {
    for result in [
        "impl Iterator>",
        "impl >",
        "impl",
        "impl <",
        "impl Iterator",
        "impl Iterator<",
        "impl Iterator<>",
        "impl Iterator->",
        "impl Iterator<Item = i64",
        "impl é<é>",
        "impl Iterator(<)>",
        ">",
        "<",
        "&",
        "&'",
        "&'é",
        "[",
        "[;",
        "[]",
        "()",
        "Vec<",
        "Vec>",
        "::<>",
    ] {
        read(&format!("pub fn f() -> {result};"));
        read(&format!(
            "pub struct S<T = {result}>({result});\ntype A<T> = {result};\nimpl{result} for {result} {{ fn f() -> {result}; }}"
        ));
    }
    for (code, from, want) in [
        ("", 0, None),
        (">", 0, None),
        ("->", 0, None),
        ("->", 1, None),
        ("a<b>", 0, None),
        ("a<b>", 1, Some(4)),
        ("<a->b>c", 0, Some(6)),
        ("<a<b>>", 0, Some(6)),
        ("<a", 0, None),
        ("<a>", 9, None),
    ] {
        assert_eq!(angles(code, from), want, "{code} {from}");
    }
}

#[test]
fn iterators_are_known_by_any_path() {
    for (result, item) in [
        ("impl Iterator<Item = i64>", Some("i64")),
        ("impl std::iter::Iterator<Item = T>", Some("T")),
        ("impl ::core::iter::IntoIterator <Item=Vec<T>>", Some("Vec<T>")),
        ("impl Iterator<Item = impl Fn()>", None),
        ("impl Fn(i64) -> Vec<i64>", None),
        ("impl Other<Item = i64>", None),
        ("Iterator<Item = i64>", None),
    ] {
        assert_eq!(iterated(result), item, "{result}");
    }
}

#[test]
fn conditions_are_attributes() {
    for (code, is_one) in [
        ("#[cfg(test)]", true),
        ("# ! [ cfg_attr(x, y)]", true),
        ("#[derive(Debug)] #[cfg(unix)]", true),
        ("struct S { cfg: u8, config: Cfg }", false),
        ("#[derive(Cfg)]", false),
        ("#", false),
    ] {
        assert_eq!(names_condition(code), is_one, "{code}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read(interface in "\\PC{0,60}") {
        read(&interface);
    }

    #[test]
    fn changed_declarations_are_read(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..12_usize, "(|<|>|->|=|\\(|\\)|\\[|\\]|\\{|\\}|;|,|'|\"|#|&|::|impl |fn |é|\n)"), 1..6),
    ) {
        let mut all: Vec<char> = DECLARED.chars().collect();
        for (at, taken, put) in changes {
            let from = at.index(all.len());
            let end = (from + taken).min(all.len());
            all.splice(from..end, put.chars());
            prop_assume!(!all.is_empty());
        }
        read(&all.into_iter().collect::<String>());
    }

    #[test]
    fn any_interface_has_a_text(interface in "(pub |fn |impl |impl Iterator|Item = |struct |enum |type |trait |mod |&|[a-z]|\\(|\\)|\\{|\\}|<|>|->|where |i64|,|;|\n|\"|'|//| |é){0,40}") {
        read(&interface);
    }
}
