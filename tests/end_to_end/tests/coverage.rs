//! `hotcell test --coverage`: the lines that ran, by each framework's own tool.

use std::path::Path;
use std::process::Command;

use hotcell_end_to_end::{User, everyone, node_modules, rust, venv};
use serde_json::{Value, json};

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const PYTHON: &str = "def sign(x):\n    if x < 0:\n        return 'minus'\n    return 'plus'\n";

fn test(user: &User, path: &str, folder: &str, options: &[&str]) -> Value {
    let call = user.hotcell(["test", "--json", "--coverage"]).env("PATH", path).words(options);
    let report = call.words(&[user.path(folder).to_str().unwrap()]).end().code(0).json();
    assert_eq!(
        report["outcome"]["changes"].as_array().map_or(0, |c| c.iter().filter(|c| measured(c)).count()),
        0
    );
    report
}

/// Whether a change comes from measuring: there must not be any.
fn measured(change: &Value) -> bool {
    change["path"].as_str().is_some_and(|path| path.contains("cov"))
}

/// The report's entry for one file.
fn file<'a>(report: &'a Value, path: &str) -> &'a Value {
    let files = report["coverage"]["files"].as_array().unwrap_or_else(|| panic!("{report:#}"));
    files.iter().find(|file| file["path"] == path).unwrap_or_else(|| panic!("{path}: {report:#}"))
}

#[test]
fn python_by_both_of_its_frameworks() {
    let Some(venv) = venv() else { return };
    let path = format!("{}/bin:{PATH}", venv.display());
    everyone(|user| {
        for (framework, text) in [
            ("pytest", "from m import sign\ndef test_it():\n    assert sign(1) == 'plus'\n"),
            (
                "unittest",
                "import unittest\nfrom m import sign\nclass Sign(unittest.TestCase):\n    \
                 def test_it(self):\n        self.assertEqual(sign(1), 'plus')\n",
            ),
        ] {
            user.make_folder(framework);
            user.write(format!("{framework}/m.py"), PYTHON);
            user.write(format!("{framework}/test_m.py"), text);
            // A threshold of the project is one of its own files alone.
            user.write(format!("{framework}/.coveragerc"), "[report]\nfail_under = 80\n");
            for profile in ["standard", "landlock-only"] {
                let report = test(user, &path, framework, &["--profile", profile, "--framework", framework]);
                let measured = file(&report, "m.py");
                assert_eq!((&measured["lines"], &measured["covered"]), (&json!(4), &json!(3)), "{report:#}");
                assert_eq!(measured["missing"], json!([[3, 3]]));
            }
        }
        user.write("pytest/pytest.ini", "[pytest]\naddopts = --cov=m --cov-fail-under=75\n");
        user.write("pytest/.coveragerc", "");
        let report = test(user, &path, "pytest", &["--jobs", "2"]);
        assert_eq!(file(&report, "m.py")["covered"], 3, "{report:#}");
        // Also shown to people.
        let call = user.hotcell(["test", "--coverage"]).env("PATH", &path);
        let words = [user.path("pytest").to_str().unwrap().to_owned()];
        call.words(&[&words[0]])
            .end()
            .code(0)
            .text()
            .contains("m.py  not run: 3")
            .then_some(())
            .expect("the line");
    });
}

#[test]
fn missing_coverage_tool_is_explained() {
    let Some(_) = venv() else { return };
    everyone(|user| {
        let bare = user.path("bare");
        let made = Command::new("/usr/bin/python3").args(["-m", "venv", "--without-pip"]).arg(&bare).status();
        assert!(made.expect("python3").success());
        user.make_folder("project");
        user.write(
            "project/test_m.py",
            "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n",
        );
        let path = format!("{}/bin:{PATH}", bare.display());
        let call = user.hotcell(["test", "--coverage", "--framework", "unittest"]).env("PATH", &path);
        let ended = call.words(&[user.path("project").to_str().unwrap()]).end();
        assert!(ended.code(125).text().contains("-m pip install coverage"), "{}", ended.text());
    });
}

#[test]
fn go_by_its_profiles() {
    if !Path::new("/usr/bin/go").exists() {
        println!("skipped: no go (on Debian: apt-get install golang-go)");
        return;
    }
    everyone(|user| {
        user.make_folder("module");
        user.make_folder("module/sign");
        user.write("module/go.mod", "module example.com/m\n\ngo 1.19\n");
        let text = "package sign\n\nfunc Sign(x int) string {\n\tif x < 0 {\n\t\treturn \"minus\"\n\t}\n\treturn \"plus\"\n}\n";
        user.write("module/sign/sign.go", text);
        let tests = "package sign\n\nimport \"testing\"\n\nfunc TestIt(t *testing.T) {\n\tif Sign(1) != \"plus\" {\n\t\tt.Fatal()\n\t}\n}\n";
        user.write("module/sign/sign_test.go", tests);
        let report = test(user, PATH, "module", &[]);
        assert_eq!(file(&report, "sign/sign.go")["missing"], json!([[5, 6]]), "{report:#}");
        assert_eq!(report["totals"]["passed"], 1);
    });
}

#[test]
fn cpp_by_gcov_with_and_without_cmake() {
    let needs =
        ["/usr/include/gtest/gtest.h", "/usr/bin/cmake", "/usr/bin/make", "/usr/bin/gcov", "/usr/bin/c++"];
    if let Some(lacks) = needs.iter().find(|file| !Path::new(file).exists()) {
        println!("skipped: no {lacks} (on Debian: apt-get install g++ cmake make libgtest-dev)");
        return;
    }
    everyone(|user| {
        user.make_folder("sums");
        user.make_folder("sums/src");
        let text = "#include \"sign.h\"\nconst char *sign(int x) {\n    if (x < 0)\n        return \"minus\";\n    return \"plus\";\n}\n";
        user.write("sums/src/sign.cc", text);
        user.write(
            "sums/src/sign.h",
            "const char *sign(int);\ntemplate <class T> T twice(T x) {\n    return x + x;\n}\ninline int never() { return 0; }\n",
        );
        let tests = "#include \"sign.h\"\n#include <gtest/gtest.h>\n#include <string>\n\
                     TEST(Sign, Plus) { EXPECT_EQ(sign(twice(1)), std::string(\"plus\")); }\n";
        user.write("sums/sign_test.cc", tests);
        for cmake in [false, true] {
            if cmake {
                user.write(
                    "sums/CMakeLists.txt",
                    "cmake_minimum_required(VERSION 3.13)\nproject(sums CXX)\nenable_testing()\nfind_package(GTest REQUIRED)\n\
                     set(CMAKE_CXX_FLAGS \"${CMAKE_CXX_FLAGS} -Wall\")\nadd_executable(t sign_test.cc src/sign.cc)\n\
                     target_include_directories(t PRIVATE src)\ntarget_link_libraries(t GTest::gtest_main)\nadd_test(NAME t COMMAND t)\n",
                );
            }
            let report = test(user, PATH, "sums", &["--framework", "gtest"]);
            let sign = file(&report, "src/sign.cc");
            assert_eq!((&sign["lines"], &sign["missing"]), (&json!(4), &json!([[4, 4]])), "{report:#}");
            let header = file(&report, "src/sign.h");
            assert_eq!(header["missing"], json!([]), "{report:#}");
            let all = report["coverage"]["files"].as_array().unwrap();
            assert!(
                all.iter().all(|f| f["path"]
                    .as_str()
                    .is_some_and(|p| p.starts_with("si") || p.starts_with("src/"))),
                "{all:?}"
            );
            assert_eq!(report["totals"]["passed"], 1);
        }
    });
}

#[test]
fn rust_coverage_includes_started_program() {
    let Some(rust) = rust() else { return };
    if !Path::new("/usr/bin/llvm-profdata-19").exists() {
        println!("skipped: no llvm-profdata-19 (on Debian: apt-get install llvm-19)");
        return;
    }
    let path = format!("{}/bin:{PATH}", rust.display());
    everyone(|user| {
        for folder in ["crate", "crate/src", "crate/tests", "crate/.cargo"] {
            user.make_folder(folder);
        }
        user.write("crate/Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        let text = "pub fn sign(x: i32) -> &'static str {\n    if x < 0 {\n        return \"minus\";\n    }\n    \"plus\"\n}\n\
                    #[test]\nfn it() {\n    assert_eq!(sign(1), \"plus\");\n}\n";
        user.write("crate/src/lib.rs", text);
        let text = "fn main() {\n    if std::env::args().count() > 1 {\n        println!(\"{}\", a::sign(-1));\n    }\n}\n";
        user.write("crate/src/main.rs", text);
        let start = "use std::process::Command;\n#[test]\nfn starts() {\n    let made = Command::new(env!(\"CARGO_BIN_EXE_a\"))";
        let end = ".status().unwrap();\n    assert!(made.success());\n}\n";
        for (config, more, missing) in [
            ("", "", json!([[3, 3]])),
            // The project's own flags are kept, for all programs and for a target's.
            ("[build]\nrustflags = [\"--cfg\", \"own\"]\n", ".arg(\"x\")", json!([])),
            ("[build]\nrustflags = \"--cfg own\"\n", ".arg(\"x\")", json!([])),
            ("[target.'cfg(unix)']\nrustflags = [\"--cfg\", \"own\"]\n", ".arg(\"x\")", json!([])),
        ] {
            user.write("crate/.cargo/config.toml", config);
            let own = if config.is_empty() { "" } else { "#[cfg(not(own))] compile_error!(\"no flags\");\n" };
            user.write("crate/tests/starts.rs", format!("{own}{start}{more}{end}"));
            let report = test(user, &path, "crate", &[]);
            assert_eq!(file(&report, "src/lib.rs")["missing"], missing, "{config}: {report:#}");
            let main = file(&report, "src/main.rs");
            assert_eq!(main["covered"], if more.is_empty() { 4 } else { 5 }, "{config}: {report:#}");
            let all = report["coverage"]["files"].as_array().map(Vec::len);
            assert_eq!((all, &report["totals"]["passed"]), (Some(2), &json!(2)), "{report:#}");
        }
        // A test program that ends before it has written its counts does not affect the counts of others.
        user.write("crate/tests/aborts.rs", "#[test]\nfn aborts() {\n    std::process::abort();\n}\n");
        let call = user.hotcell(["test", "--json", "--coverage"]).env("PATH", &path);
        let report = call.words(&[user.path("crate").to_str().unwrap()]).end().code(2).json();
        assert_eq!(file(&report, "src/lib.rs")["missing"], json!([]), "{report:#}");
    });
}

#[test]
fn jest_coverage_works_and_pgtap_has_none() {
    let Some(modules) = node_modules() else { return };
    everyone(|user| {
        let folder = user.make_folder("project");
        let (from, to) = (modules.join("node_modules"), folder.join("node_modules"));
        let copied = Command::new("cp").arg("-rT").args([from, to]).status();
        assert!(copied.expect("cp").success());
        user.write(
            "project/package.json",
            "{\"jest\": {\"coverageThreshold\": {\"global\": {\"lines\": 100}}}}",
        );
        user.write(
            "project/sign.js",
            "exports.sign = x => {\n  if (x < 0) {\n    return 'minus';\n  }\n  return 'plus';\n};\n",
        );
        let text = "const { sign } = require('./sign');\ntest('it', () => expect(sign(1)).toBe('plus'));\n";
        user.write("project/sign.test.js", text);
        let report = test(user, PATH, "project", &[]);
        assert_eq!(file(&report, "sign.js")["missing"], json!([[3, 3]]), "{report:#}");

        user.make_folder("sql");
        user.write("sql/test_a.sql", "select plan(1); select ok(true); select * from finish();\n");
        let ended = user
            .hotcell(["test", "--coverage", "--framework", "pgtap"])
            .words(&[user.path("sql").to_str().unwrap()]);
        ended.end().code(125).says("pgtap has no --coverage");
    });
}
