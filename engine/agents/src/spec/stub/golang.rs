//! Stubs of Go. Functions lose their bodies: they panic, or return values of their results' types.

use std::collections::BTreeMap;

use super::blank::{blank, group, parts, skip, word};
use super::{Planned, Stub, Unplanned};
use crate::spec::plan::Plan;

/// File that a stub adds to each folder.
const HELPER: &str = "hotcell_stub.go";
/// Test that only shows that a package can be built.
const PROBE: &str = "hotcell_probe_test.go";
/// Values by type, and an end of loops that wait for another result.
const VALUES: &str = include_str!("values.go.txt");
/// Words with which a type begins that is followed by a space.
const OF_TYPES: [&str; 5] = ["chan", "func", "map", "struct", "interface"];

/// Systems and processors: with one of them at its end, a file is built there only.
const TARGETS: [&str; 46] = [
    "aix",
    "android",
    "darwin",
    "dragonfly",
    "freebsd",
    "hurd",
    "illumos",
    "ios",
    "js",
    "linux",
    "nacl",
    "netbsd",
    "openbsd",
    "plan9",
    "solaris",
    "wasip1",
    "windows",
    "zos",
    "386",
    "amd64",
    "amd64p32",
    "arm",
    "armbe",
    "arm64",
    "arm64be",
    "loong64",
    "mips",
    "mipsle",
    "mips64",
    "mips64le",
    "mips64p32",
    "mips64p32le",
    "ppc",
    "ppc64",
    "ppc64le",
    "riscv",
    "riscv64",
    "s390",
    "s390x",
    "sparc",
    "sparc64",
    "wasm",
    "unix",
    "cgo",
    "gc",
    "gccgo",
];

/// A function as it is declared.
#[derive(Debug, PartialEq, Eq)]
struct Declared<'a> {
    name: &'a str,
    is_method: bool,
    /// Place of its results; both ends are equal without any.
    results: (usize, usize),
    /// Place after it, with a body if there is one.
    after: usize,
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Name in the package clause.
fn package(interface: &str) -> Option<String> {
    let code = blank(interface, true);
    let name =
        code.lines().find_map(|line| Some(word(line.trim().strip_prefix("package ")?.trim(), 0).to_owned()));
    name.filter(|name| !name.is_empty())
}

/// Tells if Go builds a file here whatever is in it: not by the name of a folder, of a system or a processor.
fn is_built(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_left = |part: &str| part.starts_with(['_', '.']) || matches!(part, "testdata" | "vendor");
    let stem = name.strip_suffix(".go").unwrap_or(name);
    let end = stem.rsplit_once('_').map(|(_, end)| end);
    !folders.split('/').any(is_left)
        && !name.starts_with(['_', '.'])
        && !end.is_some_and(|end| TARGETS.contains(&end))
}

/// Tells if an interface has a condition on which its file is built.
fn has_condition(interface: &str) -> bool {
    interface.lines().map(str::trim).any(|line| {
        line.starts_with("//go:build")
            || line.strip_prefix("//").is_some_and(|rest| rest.trim_start().starts_with("+build"))
    })
}

/// Refuses files that Go does not build, and gives each file the package clause of its folder, if it has none.
pub(super) fn complete(plan: &mut Plan) -> Result<(), Unplanned> {
    let is_source = |file: &&mut Planned| file.path.ends_with(".go");
    for file in plan.files.iter_mut().filter(is_source) {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        if name == HELPER || !is_built(&file.path) || has_condition(&file.interface) {
            return Err(Unplanned::NotBuilt(file.path.clone()));
        }
    }
    let mut packages: BTreeMap<String, String> = BTreeMap::new();
    for file in plan.files.iter_mut().filter(is_source) {
        if let Some(name) = package(&file.interface) {
            let known = packages.entry(folder(&file.path).to_owned()).or_insert_with(|| name.clone());
            if *known != name {
                return Err(Unplanned::Packages(file.path.clone(), name, known.clone()));
            }
        }
    }
    let programs: Vec<String> = plan
        .files
        .iter()
        .filter(|file| blank(&file.interface, true).contains("func main("))
        .map(|file| folder(&file.path).to_owned())
        .collect();
    for file in plan.files.iter_mut().filter(is_source) {
        if package(&file.interface).is_some() {
            continue;
        }
        let above = folder(&file.path);
        let last: String = above
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        let name = match packages.get(above) {
            Some(name) => name.clone(),
            None if programs.iter().any(|program| program == above) => "main".to_owned(),
            None if last.starts_with(|c: char| c.is_ascii_alphabetic()) => last.to_ascii_lowercase(),
            None => "project".to_owned(),
        };
        file.interface = format!("package {name}\n{}", file.interface).trim_end().to_owned();
    }
    Ok(())
}

/// Folders with the name of their package.
fn packages(sources: &[&Planned]) -> BTreeMap<String, String> {
    let named = |file: &&Planned| Some((folder(&file.path).to_owned(), package(&file.interface)?));
    sources.iter().filter_map(named).collect()
}

fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

pub(super) fn probe(sources: &[&Planned]) -> Vec<(String, String)> {
    let of = |(folder, name): (String, String)| {
        let text =
            format!("package {name}\n\nimport \"testing\"\n\nfunc TestHotcellProbe(t *testing.T) {{}}\n");
        (below(&folder, PROBE), text)
    };
    packages(sources).into_iter().map(of).collect()
}

pub(super) fn stubs(sources: &[&Planned], stub: Stub) -> Vec<(String, String)> {
    let mut all: Vec<_> =
        sources.iter().map(|file| (file.path.clone(), text(&file.interface, stub))).collect();
    if stub != Stub::Fails {
        let of =
            |(folder, name): (String, String)| (below(&folder, HELPER), VALUES.replace("PACKAGE", &name));
        all.extend(packages(sources).into_iter().map(of));
    }
    all
}

/// Text of a source from its declarations.
fn text(interface: &str, stub: Stub) -> String {
    let code = blank(interface, true);
    let mut out = String::new();
    let (mut at, mut depth) = (0, 0_i64);
    while at < code.len() {
        let begin = skip(&code, at, false);
        if depth == 0
            && word(&code, begin) == "func"
            && let Some(declared) = declared(&code, begin)
        {
            out.push_str(&function(interface, begin, &declared, stub));
            out.push('\n');
            at = declared.after;
            continue;
        }
        let end = code[at..].find('\n').map_or(code.len(), |end| at + end + 1);
        for byte in code[at..end].bytes() {
            depth += i64::from(matches!(byte, b'(' | b'{')) - i64::from(matches!(byte, b')' | b'}'));
        }
        out.push_str(&interface[at..end]);
        at = end;
    }
    out
}

/// Reads the declaration of a function at a place; `None` when it is something else.
fn declared(code: &str, from: usize) -> Option<Declared<'_>> {
    let mut at = skip(code, from + "func".len(), false);
    let is_method = code[at..].starts_with('(');
    if is_method {
        at = skip(code, group(code, at)?, false);
    }
    let name = word(code, at);
    at += name.len();
    if code[at..].starts_with('[') {
        at = group(code, at)?;
    }
    if name.is_empty() || !code[at..].starts_with('(') {
        return None;
    }
    let results = group(code, at)?;
    at = results;
    let bytes = code.as_bytes();
    loop {
        match bytes.get(at) {
            Some(b'(' | b'[') => at = group(code, at)?,
            Some(b'{') => {
                let before = code[results..at].trim_end();
                let last = before.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next();
                if matches!(last, Some("interface" | "struct")) {
                    at = group(code, at)?;
                } else {
                    return Some(Declared {
                        name,
                        is_method,
                        results: (results, at),
                        after: group(code, at)?,
                    });
                }
            }
            None | Some(b'\n') => {
                return Some(Declared { name, is_method, results: (results, at), after: at });
            }
            Some(b';') => return Some(Declared { name, is_method, results: (results, at), after: at + 1 }),
            Some(_) => at += 1,
        }
    }
}

/// Results with a name each, and the names.
fn named(results: &str) -> (String, Vec<String>) {
    let results = results.trim();
    let inner = results.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let all = parts(inner.unwrap_or(results));
    let first = |part: &str| word(part, 0).to_owned();
    // `a []int`, but not `Pair[int]` or `chan int`.
    let has_name = |part: &&str| {
        let name = word(part, 0);
        !name.is_empty() && !OF_TYPES.contains(&name) && part[name.len()..].starts_with([' ', '\t'])
    };
    if inner.is_some() && all.iter().any(has_name) {
        let name = |(at, part): (usize, &&str)| {
            let name = first(part);
            let own = if name == "_" { format!("hotcell{at}") } else { name.clone() };
            (format!("{own}{}", &part[name.len()..]), own)
        };
        let (typed, names): (Vec<String>, Vec<String>) = all.iter().enumerate().map(name).unzip();
        return (format!("({})", typed.join(", ")), names);
    }
    let names: Vec<String> = (0..all.len()).map(|at| format!("hotcell{at}")).collect();
    let typed: Vec<String> = names.iter().zip(&all).map(|(name, of)| format!("{name} {of}")).collect();
    (if typed.is_empty() { String::new() } else { format!("({})", typed.join(", ")) }, names)
}

fn function(text: &str, from: usize, declared: &Declared<'_>, stub: Stub) -> String {
    let (begin, end) = declared.results;
    let head = text[from..begin].trim_end();
    let (results, names) = named(&blank(&text[begin..end], true));
    let body = match stub {
        _ if declared.name == "init" && !declared.is_method => String::new(),
        Stub::Fails => format!("panic(\"{} is not written yet\")", declared.name),
        _ if names.is_empty() => "hotcellCall()".to_owned(),
        Stub::Returns => "hotcellCall(); return".to_owned(),
        Stub::ReturnsOther => {
            let all: Vec<String> = names.iter().map(|name| format!("&{name}")).collect();
            format!("hotcellCall(); hotcellOther({}); return", all.join(", "))
        }
    };
    format!("{head} {results}{}{{ {body} }}", if results.is_empty() { "" } else { " " })
}

#[cfg(test)]
mod tests {
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
        for (declared, fails, other) in [
            (
                "func Add(a, b int) int",
                "func Add(a, b int) (hotcell0 int) { panic(\"Add is not written yet\") }",
                "func Add(a, b int) (hotcell0 int) { hotcellCall(); hotcellOther(&hotcell0); return }",
            ),
            (
                "func (s *Stack) Push(v int) // adds {",
                "func (s *Stack) Push(v int) { panic(\"Push is not written yet\") }",
                "func (s *Stack) Push(v int) { hotcellCall() }",
            ),
            (
                "func Div(a int) (q int, err error) { return 0, nil }",
                "func Div(a int) (q int, err error) { panic(\"Div is not written yet\") }",
                "func Div(a int) (q int, err error) { hotcellCall(); hotcellOther(&q, &err); return }",
            ),
            (
                "func Two() (int, error);",
                "func Two() (hotcell0 int, hotcell1 error) { panic(\"Two is not written yet\") }",
                "func Two() (hotcell0 int, hotcell1 error) { hotcellCall(); hotcellOther(&hotcell0, &hotcell1); return }",
            ),
            (
                "func Map[K comparable, V any](m map[K]V) []K",
                "func Map[K comparable, V any](m map[K]V) (hotcell0 []K) { panic(\"Map is not written yet\") }",
                "func Map[K comparable, V any](m map[K]V) (hotcell0 []K) { hotcellCall(); hotcellOther(&hotcell0); return }",
            ),
            (
                "func Any() interface{}",
                "func Any() (hotcell0 interface{}) { panic(\"Any is not written yet\") }",
                "func Any() (hotcell0 interface{}) { hotcellCall(); hotcellOther(&hotcell0); return }",
            ),
            ("func init()", "func init() {  }", "func init() {  }"),
            (
                "func (s *S) init() int",
                "func (s *S) init() (hotcell0 int) { panic(\"init is not written yet\") }",
                "func (s *S) init() (hotcell0 int) { hotcellCall(); hotcellOther(&hotcell0); return }",
            ),
            (
                "func F() mystruct { return nil }",
                "func F() (hotcell0 mystruct) { panic(\"F is not written yet\") }",
                "func F() (hotcell0 mystruct) { hotcellCall(); hotcellOther(&hotcell0); return }",
            ),
            (
                "func G() (_ int, _, b string)",
                "func G() (hotcell0 int, hotcell1, b string) { panic(\"G is not written yet\") }",
                "func G() (hotcell0 int, hotcell1, b string) { hotcellCall(); hotcellOther(&hotcell0, &hotcell1, &b); return }",
            ),
            (
                "type Point struct { X, Y int }",
                "type Point struct { X, Y int }",
                "type Point struct { X, Y int }",
            ),
            (
                "type Shape interface {\n\tArea() float64\n}",
                "type Shape interface {\n\tArea() float64\n}",
                "type Shape interface {\n\tArea() float64\n}",
            ),
            (
                "var ErrNone = errors.New(\"func f() {\")",
                "var ErrNone = errors.New(\"func f() {\")",
                "var ErrNone = errors.New(\"func f() {\")",
            ),
        ] {
            assert_eq!(text(declared, Stub::Fails).trim_end(), fails, "{declared}");
            assert_eq!(text(declared, Stub::ReturnsOther).trim_end(), other, "{declared}");
        }
    }

    #[test]
    fn results_have_names_where_all_have() {
        for (results, names) in [
            ("", &[][..]),
            ("int", &["hotcell0"]),
            ("(a, b int)", &["a", "b"]),
            ("(n []int, _ error)", &["n", "hotcell1"]),
            ("(_ int)", &["hotcell0"]),
            ("(chan int, map[string]int)", &["hotcell0", "hotcell1"]),
            ("(Pair[int, string], *big.Int)", &["hotcell0", "hotcell1"]),
            ("(func(a int) bool, <-chan int)", &["hotcell0", "hotcell1"]),
            ("func(a, b int) bool", &["hotcell0"]),
        ] {
            assert_eq!(named(results).1, names, "{results}");
        }
    }

    #[test]
    fn files_of_a_folder_have_one_package() {
        let mut given = plan(&[
            ("a.go", "func A()"),
            ("b.go", "// the package main\npackage calc\nfunc B()"),
            ("cmd/x/main.go", "func main()"),
            ("sub/my-api/c.go", "func C()"),
            ("README.md", "words"),
        ]);
        complete(&mut given).unwrap();
        let firsts: Vec<&str> = given
            .files
            .iter()
            .filter_map(|file| file.interface.lines().find(|line| !line.starts_with("//")))
            .collect();
        assert_eq!(firsts, ["package calc", "package calc", "package main", "package myapi", "words"]);
        let again = given.clone();
        complete(&mut given).unwrap();
        assert_eq!(given, again);
        for (path, interface) in [
            ("_a.go", ""),
            ("a_linux.go", ""),
            ("a_windows.go", ""),
            ("sub/a_linux_arm64.go", ""),
            ("_sub/a.go", ""),
            ("testdata/a.go", ""),
            ("hotcell_stub.go", ""),
            ("sub/hotcell_stub.go", ""),
            ("a.go", "//go:build linux\npackage a"),
            ("a.go", "// +build linux\n\npackage a"),
        ] {
            let refused = complete(&mut plan(&[(path, interface)]));
            assert_eq!(refused, Err(Unplanned::NotBuilt(path.to_owned())), "{path} {interface}");
        }
        for path in ["linux.go", "a_b.go", "sub_linux/a.go", "windows/linux.go"] {
            assert_eq!(complete(&mut plan(&[(path, "")])), Ok(()), "{path}");
        }
        let mut two = plan(&[("a.go", "package a"), ("b.go", "package b")]);
        assert!(complete(&mut two).is_err_and(|e| e.to_string().contains("package")));
    }

    /// Declarations with all forms that are read.
    const DECLARED: &str = "package a\n\nimport (\n\t\"fmt\"\n)\n// é {\ntype Shape interface {\n\tArea() float64\n}\nfunc (s *Stack[T]) Pop(v ...int) (q []int, _ error) { return `}` }\n\
        func Map[K comparable, V any](m map[K]V) (chan int, struct{ x int });\nfunc F() func(a, b int) interface{}\nvar x = func() { '{' }\n";

    /// Reads an interface in all ways.
    fn read(interface: &str) {
        for stub in [Stub::Fails, Stub::Returns, Stub::ReturnsOther] {
            let _ = text(interface, stub);
        }
        let mut plan = plan(&[("a.go", interface), ("b/b.go", interface)]);
        let _ = complete(&mut plan);
        let _ = probe(&plan.files.iter().collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn any_text_is_read(interface in "\\PC{0,60}") {
            read(&interface);
        }

        #[test]
        fn changed_declarations_are_read(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..12_usize, "(|\\(|\\)|\\[|\\]|\\{|\\}|;|,|'|\"|`|func |_|é|\n)"), 1..6),
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
        fn any_interface_has_a_text(interface in "(func |package a|type |[A-Z]|\\(|\\)|\\{|\\}|\\[|\\]|int|error|,|;|\n|\"|'|`|//| |é){0,40}") {
            for stub in [Stub::Fails, Stub::Returns, Stub::ReturnsOther] {
                let _ = text(&interface, stub);
            }
            let mut plan = plan(&[("a.go", &interface)]);
            prop_assert!(complete(&mut plan).is_ok());
        }
    }
}
