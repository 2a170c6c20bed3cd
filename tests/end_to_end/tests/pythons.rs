//! `hotcell test --python`: the tests of Python with several interpreters, and one answer.

use std::path::PathBuf;

use hotcell_end_to_end::{User, everyone, venv};

const TESTS: &str = "import sys, unittest\n\n\nclass T(unittest.TestCase):\n    def test_both(self):\n        pass\n\n    \
    def test_outside(self):\n        self.assertEqual(sys.prefix, sys.base_prefix)\n";

fn project(user: &User) -> PathBuf {
    let folder = user.make_folder("matrix");
    user.write("matrix/test_it.py", TESTS);
    folder
}

#[test]
fn python_matrix_runs_and_names_interpreters() {
    everyone(|user| {
        let Some(venv) = venv() else { return };
        let folder = project(user);
        let junit = user.write("work/matrix.xml", "");
        let list = format!("/usr/bin/python3,{}", venv.display());
        let mut call = user.hotcell(["test", "--json", "--github", "--python", &list, "--junit"]);
        call.add([&junit]).add([&folder]);
        let ended = call.end();
        let report = ended.code(1).json();
        let suites = report["suites"].as_array().expect("suites");
        let said: Vec<_> =
            suites.iter().map(|suite| (suite["python"].as_str(), suite["verdict"].as_str())).collect();
        let venv = venv.display().to_string();
        assert_eq!(said, [(Some("/usr/bin/python3"), Some("passed")), (Some(venv.as_str()), Some("failed"))]);
        let bad: Vec<_> =
            report["cases"].as_array().unwrap().iter().filter(|case| case["status"] != "passed").collect();
        let id = format!("test_it.T.test_outside [python {venv}]");
        assert_eq!(bad.iter().map(|case| case["id"].as_str().unwrap()).collect::<Vec<_>>(), [&id]);
        assert_eq!(bad[0]["file"], "test_it.py");
        assert!(ended.stderr.contains(&format!("[python {venv}]")), "{ended:#?}");
        let xml = std::fs::read_to_string(&junit).unwrap();
        for text in [
            "unittest in . (python /usr/bin/python3)",
            &format!("unittest in . (python {venv})"),
            "tests=\"4\" failures=\"1\"",
        ] {
            assert!(xml.contains(text), "no {text} in {xml}");
        }
        // An id of the report finds its test again, with its Python.
        let mut call = user.hotcell(["test", "--json", "--python", &list, "--filter", &id]);
        call.add([&folder]);
        let report = call.end().code(1).json();
        assert_eq!(
            (report["totals"]["failed"].as_u64(), report["totals"]["passed"].as_u64()),
            (Some(1), Some(0))
        );
    });
}

#[test]
fn missing_python_is_refused_by_name() {
    let user = User::me();
    let folder = project(&user);
    for (list, words) in [
        ("3.99", "no such Python"),
        ("3.99", "the nearest is"),
        ("newest", "no version of Python"),
        ("./nothing", "no interpreter"),
        ("/usr/bin/python3,/usr/bin/python3", "twice"),
        ("3.11,", "commas"),
        ("", "commas"),
    ] {
        let mut call = user.hotcell(["test", "--python", list]);
        call.add([&folder]);
        call.end().code(125).says_one_line(words);
    }
    user.make_folder("matrix/.venv");
    user.write("matrix/.venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.2.1\n");
    let version = std::process::Command::new("/usr/bin/python3")
        .args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
        .output();
    let version = String::from_utf8(version.expect("python3 runs").stdout).unwrap();
    let mut call = user.hotcell(["test", "--python", version.trim()]).env("PATH", "/usr/bin:/bin");
    call.add([&folder]);
    call.end().code(125).says_one_line("add --deps");
    let rust = user.make_folder("rust");
    user.make_folder("rust/src");
    user.write("rust/Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    user.write("rust/src/lib.rs", "#[test]\nfn a() {}\n");
    let mut call = user.hotcell(["test", "--python", version.trim()]).env("PATH", "/usr/bin:/bin");
    call.add([&rust]);
    call.end().code(125).says_one_line("--python is for tests of Python");
}
