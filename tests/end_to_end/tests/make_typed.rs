//! `hotcell make --lang go` and `--lang rust`: stubs come from the declarations of the plan, and tests run each by itself on them.

use std::sync::{Arc, Mutex};

use hotcell_end_to_end::{Call, User, find, rust};

use crate::fix::{file, server, server_by};

/// A language with its answers.
struct Typed {
    lang: &'static str,
    /// Folders in which programs are searched.
    path: String,
    source: &'static str,
    test: &'static str,
    settings: &'static str,
    interface: &'static str,
    /// Words of the compiler about `unknown`.
    undefined: &'static str,
    /// An interface with a type that is not declared.
    unknown: &'static str,
    code: &'static str,
    tests: &'static str,
    /// Tests that look at no result.
    empty_tests: &'static str,
    /// A part of the code, and a wrong one.
    wrong: (&'static str, &'static str),
}

/// Languages whose compiler is there; the others are named as skipped.
fn typed() -> Vec<Typed> {
    let mut all = Vec::new();
    if find("go").is_some() {
        all.push(Typed {
            lang: "go",
            path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
            source: "calc.go",
            test: "calc_test.go",
            settings: "go.mod",
            interface: "package calc\nfunc Add(a int, b int) int\nfunc Double(a int) int\nfunc Join(a, b string) string",
            undefined: "undefined: io",
            unknown: "package calc\nfunc Add(r io.Reader) int",
            code: "package calc\n\nfunc Add(a int, b int) int {\n\treturn a + b\n}\n\nfunc Double(a int) int {\n\treturn a * 2\n}\n\nfunc Join(a, b string) string {\n\treturn a + b\n}\n",
            tests: "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif got := Add(2, 3); got != 5 {\n\t\tt.Errorf(\"got %d\", got)\n\t}\n}\n\nfunc TestDouble(t *testing.T) {\n\tif got := Double(5); got != 10 {\n\t\tt.Errorf(\"got %d\", got)\n\t}\n}\n\nfunc TestJoin(t *testing.T) {\n\tif got := Join(\"a\", \"b\"); got != \"ab\" {\n\t\tt.Errorf(\"got %q\", got)\n\t}\n}\n",
            empty_tests: "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tAdd(2, 3)\n}\n\nfunc TestDouble(t *testing.T) {\n\t_ = Double(5)\n}\n",
            wrong: ("a * 2", "a + 2"),
        });
    } else {
        println!("skipped: no go (on Debian: apt-get install golang-go)");
    }
    if let Some(folder) = rust() {
        all.push(Typed {
            lang: "rust",
            path: format!("{}/bin:/usr/local/bin:/usr/bin:/bin", folder.display()),
            source: "src/lib.rs",
            test: "tests/lib.rs",
            settings: "Cargo.toml",
            interface: "pub struct Tree { label: String, kind: Kind, next: Option<Box<Tree>> }\npub enum Kind { Held(Box<Tree>), Leaf }\npub fn add(a: i64, b: i64) -> i64;\npub fn double(a: i64) -> i64;\npub fn join(a: &str, b: &str) -> String;\npub fn tree(label: &str) -> Tree;",
            undefined: "cannot find type `Reader`",
            unknown: "pub fn add(r: Reader) -> i64;",
            code: "pub struct Tree {\n    label: String,\n    kind: Kind,\n    next: Option<Box<Tree>>,\n}\n\npub enum Kind {\n    Held(Box<Tree>),\n    Leaf,\n}\n\npub fn tree(label: &str) -> Tree {\n    Tree { label: label.to_owned(), kind: Kind::Leaf, next: None }\n}\n\npub fn add(a: i64, b: i64) -> i64 {\n    a + b\n}\n\npub fn double(a: i64) -> i64 {\n    a * 2\n}\n\npub fn join(a: &str, b: &str) -> String {\n    a.to_owned() + b\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn is_the_coders_own() {\n        panic!()\n    }\n}\n",
            tests: "use project::{add, double, join};\n\n#[test]\nfn adds() {\n    assert_eq!(add(2, 3), 5);\n}\n\n#[test]\nfn doubles() {\n    assert_eq!(double(5), 10);\n}\n\n#[test]\nfn joins() {\n    assert_eq!(join(\"a\", \"b\"), \"ab\");\n}\n",
            empty_tests: "use project::{add, tree};\n\n#[test]\nfn adds() {\n    add(2, 3);\n}\n\n#[test]\nfn grows() {\n    let _ = tree(\"oak\");\n}\n",
            wrong: ("a * 2", "a + 2"),
        });
    }
    all
}

impl Typed {
    fn plan(&self, interface: &str) -> String {
        let path = self.source;
        format!(
            "PLAN_START\nSUMMARY: sums\nFILE: {path}\nPURPOSE: adds, doubles and joins\nINTERFACE:\n{interface}\nPLAN_END\n"
        )
    }

    fn with_model(&self, user: &User, answers: &[&str]) -> Arc<Mutex<Vec<String>>> {
        user.make_folder("work");
        user.write("work/SPEC.md", "add gives the sum, double twice a, join both texts.\n");
        let (address, seen) = server(answers);
        let words = ["model", "add", "local", "--provider", "llamacpp", "--url", &address];
        user.hotcell(words).words(&["--model", "scripted", "--replace"]).end().code(0);
        seen
    }

    /// Words in the settings of a project.
    fn in_settings(&self) -> String {
        if self.lang != "go" {
            return "name = \"project\"".to_owned();
        }
        // `go version go1.19.8 linux/amd64`
        let said = std::process::Command::new("go").arg("version").output().expect("go runs").stdout;
        let said = String::from_utf8_lossy(&said).into_owned();
        let of = said.split_whitespace().nth(2).expect("a version");
        format!("\ngo {}\n", of.trim_start_matches("go").split('.').take(2).collect::<Vec<_>>().join("."))
    }

    fn make(&self, user: &User, words: &[&str]) -> Call {
        let call = user.hotcell(["make", "SPEC.md", "--lang", self.lang]).words(words).cwd(user.path("work"));
        call.env("PATH", &self.path)
    }
}

#[test]
fn programs_with_types_are_made_with_one_repair_and_judged_by_mutants_that_can_be_built() {
    for typed in typed() {
        let user = User::me();
        let wrong = file(typed.source, &typed.code.replace(typed.wrong.0, typed.wrong.1));
        let (tests, right) = (file(typed.test, typed.tests), file(typed.source, typed.code));
        let seen = typed.with_model(&user, &[&typed.plan(typed.interface), &tests, &wrong, &right]);
        let report = typed.make(&user, &["--json", "--out", "calc"]).end().code(0).json();
        assert_eq!(
            (&report["state"], &report["best"]["iteration"]),
            (&"converged".into(), &2.into()),
            "{report}"
        );
        // A panic of the first test hides no other one.
        let judged = &report["made"]["tests"];
        assert_eq!((&judged["failing_on_stub"], &judged["of"]), (&3.into(), &3.into()), "{report}");
        let first = &report["candidates"][0]["iterations"][0];
        assert_eq!(
            (&first["ask"], &first["tests"]["good"], &first["tests"]["of"]),
            (&"first".into(), &2.into(), &3.into()),
            "{report}"
        );
        // Of the three operators, one cannot be changed to another: the compiler refuses the mutant.
        let score = report["best"]["score"].to_string();
        assert!(score.contains("tests fail on 2 of 2"), "{score}");
        let read = |name: &str| std::fs::read_to_string(user.path("work/calc").join(name)).expect("a file");
        assert_eq!(
            (read(typed.source).trim_end(), read(typed.test).trim_end()),
            (typed.code.trim_end(), typed.tests.trim_end())
        );
        let settings = read(typed.settings);
        assert!(settings.contains(&typed.in_settings()), "{settings}");
        assert!(seen.lock().expect("no panic")[0].contains("INTERFACE is"), "the architect was not told");
    }
}

#[test]
fn plans_that_cannot_be_compiled_are_answered_with_the_compilers_words() {
    for typed in typed() {
        let user = User::me();
        let good = typed.plan(typed.interface);
        let seen = typed.with_model(&user, &[&typed.plan(typed.unknown), &good]);
        let planned = typed.make(&user, &["--json", "--plan-only"]).end();
        let report = planned.code(0).json();
        let architect = &report["made"]["stages"][0]["answers"];
        let why = architect[0]["refused"].as_str().unwrap_or_default();
        assert!(why.contains(typed.undefined) && architect[1]["refused"].is_null(), "{report}");
        assert!(
            seen.lock().expect("no panic")[1].contains("Your last plan does not count"),
            "the architect was not told"
        );
        user.write("work/plan", typed.plan(typed.unknown));
        let given = typed.make(&user, &["--plan", "plan"]).end();
        given.code(125).says("the given plan").says(typed.undefined);
        assert_eq!(seen.lock().expect("no panic").len(), 2, "a model was asked");
    }
}

#[test]
fn typed_tests_that_look_at_no_result_are_refused() {
    for typed in typed() {
        let user = User::me();
        typed.with_model(&user, &[&typed.plan(typed.interface), &file(typed.test, typed.empty_tests)]);
        let report = typed.make(&user, &["--json"]).end().code(1).json();
        let tester = &report["made"]["stages"][1];
        let why = tester["answers"][0]["refused"].as_str().unwrap_or_default();
        assert!(why.contains("2 of 2 tests pass on a stub"), "{report}");
        let broken = file(typed.test, &typed.tests.replace("5", "five"));
        typed.with_model(
            &user,
            &[
                &typed.plan(typed.interface),
                &broken,
                &file(typed.test, typed.tests),
                &file(typed.source, typed.code),
            ],
        );
        let report = typed.make(&user, &["--json"]).end().code(0).json();
        let why = &report["made"]["stages"][1]["answers"][0]["refused"];
        assert!(why.as_str().is_some_and(|why| why.contains("cannot be loaded")), "{report}");
    }
}

#[test]
fn tests_that_a_coder_writes_in_a_program_do_not_run() {
    for typed in typed().into_iter().filter(|typed| typed.lang == "rust") {
        let user = User::me();
        let plan = typed.plan(typed.interface).replace(
            "PLAN_END",
            "FILE: src/main.rs\nPURPOSE: prints a sum\nINTERFACE: fn main();\nFILE: src/more.rs\nPURPOSE: more\nINTERFACE: pub fn more() -> Option<i64>\nPLAN_END",
        );
        let program = "fn main() {\n    println!(\"{}\", project::add(1, 2));\n}\n\n#[test]\nfn is_the_coders_own() {\n    panic!()\n}\n";
        let library = format!("pub mod more;\n\n{}", typed.code);
        let code = [
            file(typed.source, &library),
            file("src/main.rs", program),
            file("src/more.rs", "pub fn more() -> Option<i64> {\n    None\n}\n"),
            file("src/bin/x.rs", program),
            file("benches/y.rs", program),
        ];
        typed.with_model(&user, &[&plan, &file(typed.test, typed.tests), &code.concat()]);
        let report = typed.make(&user, &["--json", "--out", "calc"]).end().code(0).json();
        let first = &report["candidates"][0]["iterations"][0];
        assert_eq!((&first["tests"]["good"], &first["tests"]["of"]), (&3.into(), &3.into()), "{report}");
        let settings = std::fs::read_to_string(user.path("work/calc/Cargo.toml")).expect("a file");
        assert!(settings.contains("[[bin]]"), "{settings}");
    }
}

#[test]
fn four_processes_write_the_settings_of_the_language_with_the_program() {
    for typed in typed() {
        let user = User::me();
        typed.with_model(&user, &[""]);
        let roles = ["You are the architect", "You write code", "You are the tester"];
        let answers =
            [typed.plan(typed.interface), file(typed.source, typed.code), file(typed.test, typed.tests)];
        let (address, _) = server_by(move |_, body| {
            answers[roles.iter().position(|role| body.contains(role)).expect("a role")].clone()
        });
        let words = ["model", "add", "local", "--provider", "llamacpp", "--url", &address];
        user.hotcell(words).words(&["--model", "scripted", "--replace"]).end().code(0);
        let made = typed.make(&user, &["--processes", "--out", "calc"]).end();
        let text = made.code(0).text();
        assert!(text.contains("3 of 3 tests are good"), "{text}");
        for name in [typed.source, typed.test, typed.settings] {
            assert!(user.path("work/calc").join(name).is_file(), "{}: {name}", typed.lang);
        }
        let settings = std::fs::read_to_string(user.path("work/calc").join(typed.settings)).expect("a file");
        assert!(settings.contains(&typed.in_settings()), "{settings}");
    }
}

#[test]
fn language_without_its_compiler_is_refused_in_a_line_before_a_model_is_asked() {
    let user = User::me();
    user.make_folder("work");
    user.make_folder("empty");
    user.write("work/SPEC.md", "adds");
    let (address, seen) = server(&["PLAN_START"]);
    let words = ["model", "add", "local", "--provider", "llamacpp", "--url", &address, "--model", "scripted"];
    user.hotcell(words).end().code(0);
    for (lang, program) in [("go", "go is not there"), ("rust", "cargo is not there")] {
        let call = user.hotcell(["make", "SPEC.md", "--lang", lang]).cwd(user.path("work"));
        let ended = call.env("PATH", user.path("empty")).end();
        ended.code(125).says_one_line(program).says("install");
    }
    assert_eq!(seen.lock().expect("no panic").len(), 0);
    assert_eq!(
        user.hotcell(["agent", "list", "--json"]).end().json()["sessions"].as_array().map(Vec::len),
        Some(0)
    );
}
