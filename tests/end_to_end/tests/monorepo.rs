//! `hotcell test` of a project with several suites.

use hotcell_end_to_end::{User, everyone, venv};
use serde_json::{Value, json};

const GOOD: &str = "import unittest\nclass T(unittest.TestCase):\n    def test_good(self):\n        pass\n";
const BAD: &str = "def test_bad():\n    assert 1 == 2\n";

/// Two Python suites in folders of their own, and tests outside both.
fn project(user: &User) -> Option<String> {
    let venv = venv()?;
    for folder in ["repo", "repo/api", "repo/tool", "repo/checks"] {
        user.make_folder(folder);
    }
    user.write("repo/api/pyproject.toml", "[tool.pytest.ini_options]\n");
    user.write("repo/api/test_api.py", BAD);
    user.write("repo/tool/setup.py", "");
    user.write("repo/tool/test_tool.py", GOOD);
    user.write("repo/test_all.py", GOOD);
    Some(format!("{}/bin:/usr/local/bin:/usr/bin:/bin", venv.display()))
}

fn test(user: &User, path: &str, options: &[&str], code: i32) -> Value {
    let call = user.hotcell(["test", "--json"]).env("PATH", path).words(options);
    call.words(&[user.path("repo").to_str().unwrap()]).end().code(code).json()
}

fn ids(report: &Value) -> Vec<&str> {
    let mut ids: Vec<&str> =
        report["cases"].as_array().expect("cases").iter().map(|case| case["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn monorepo_suites_run_in_folders_with_one_report() {
    everyone(|user| {
        let Some(path) = project(user) else { return };
        let report = test(user, &path, &[], 1);
        assert_eq!((&report["framework"], &report["verdict"]), (&json!("pytest+unittest"), &json!("failed")));
        assert_eq!(
            ids(&report),
            ["api/test_api.py::test_bad", "test_all.T.test_good", "tool/test_tool.T.test_good"],
            "{report:#}"
        );
        let suites = report["suites"].as_array().expect("suites");
        let rows: Vec<_> =
            suites.iter().map(|s| (s["folder"].as_str().unwrap(), s["verdict"].as_str().unwrap())).collect();
        assert_eq!(rows, [("", "passed"), ("api", "failed"), ("tool", "passed")]);
        assert_eq!((&report["totals"]["passed"], &report["totals"]["failed"]), (&json!(2), &json!(1)));

        // An id in the report selects its test again, and a folder its suite.
        let report = test(user, &path, &["--filter", "api/test_api.py::test_bad"], 1);
        assert_eq!(ids(&report), ["api/test_api.py::test_bad"]);
        let report = test(user, &path, &["--filter", "tool"], 0);
        assert_eq!(ids(&report), ["tool/test_tool.T.test_good"]);
        // A named framework treats the project as one suite.
        let report = test(user, &path, &["--framework", "pytest"], 1);
        assert_eq!((ids(&report).len(), &report["suites"]), (3, &Value::Null), "{report:#}");

        let folder = user.path("repo");
        let call = user.hotcell(["test", "--commit"]).env("PATH", &path).words(&[folder.to_str().unwrap()]);
        call.end().code(125).says("for one suite, and there are 3");
        // For people: a line for each suite, and a total.
        let text =
            user.hotcell(["test"]).env("PATH", &path).words(&[folder.to_str().unwrap()]).end().code(1).text();
        for words in ["api: pytest", "tool: unittest: passed: 1 passed", "failed: 1 failed, 2 passed"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let xml = user.path("work/all.xml");
        let words = ["--junit", xml.to_str().unwrap(), folder.to_str().unwrap()];
        user.hotcell(["test"]).env("PATH", &path).words(&words).end().code(1);
        assert!(std::fs::read_to_string(&xml).expect("a report").contains("tests=\"3\""));
    });
}

#[test]
fn excess_suites_are_refused_with_message() {
    everyone(|user| {
        for n in 0..17 {
            user.make_folder(format!("many/p{n:02}").as_str());
            user.write(format!("many/p{n:02}/setup.py"), "");
            user.write(format!("many/p{n:02}/test_it.py"), GOOD);
        }
        let folder = user.path("many");
        let call = user.hotcell(["test"]).words(&[folder.to_str().unwrap()]);
        call.end().code(125).says_one_line("there are 17 suites");
        let words = ["--filter", "p03", folder.to_str().unwrap()];
        user.hotcell(["test"]).env("PATH", "/usr/bin:/bin").words(&words).end().code(0);
    });
}

#[test]
fn unusable_suite_does_not_block_others() {
    everyone(|user| {
        let Some(path) = project(user) else { return };
        user.make_folder("repo/crate");
        user.make_folder("repo/crate/src");
        user.write("repo/crate/Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.1.0\"\n");
        user.write("repo/crate/src/lib.rs", "#[test]\nfn a() {}\n");
        let path: Vec<&str> = path.split(':').filter(|folder| !folder.contains("cargo")).collect();
        if std::path::Path::new("/usr/bin/cargo").exists() {
            return;
        }
        let report = test(user, &path.join(":"), &[], 125);
        assert_eq!((ids(&report).len(), &report["verdict"]), (3, &json!("not_installed")), "{report:#}");
        let suites = report["suites"].as_array().expect("suites");
        assert_eq!((suites.len(), &suites[2]["verdict"]), (4, &json!("not_installed")));
        assert!(report["reason"].as_str().is_some_and(|why| why.starts_with("crate: cargo is not there")));
    });
}
