//! Integrations of `contrib/` with services of continuous integration, by the contracts of these services.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hotcell_end_to_end::{User, everyone};

fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name)
}

/// Runs the step of the GitHub action as a runner does: inputs as variables, files for outputs and the summary.
fn github(user: &User, inputs: &[(&str, &str)]) -> (Output, String, String) {
    let step = contrib("github/run");
    let bash = hotcell_end_to_end::find("bash").expect("bash");
    let mut command: Command = user.program(&bash);
    let folder = user.binary().parent().expect("a folder").display().to_string();
    let output = user.write("work/github-output", "");
    let summary = user.write("work/github-summary", "");
    command.env_clear().arg(step).current_dir(user.path("work"));
    command.env("PATH", format!("{folder}:/usr/bin:/bin")).env("HOME", user.path("home"));
    command
        .env("GITHUB_OUTPUT", &output)
        .env("GITHUB_STEP_SUMMARY", &summary)
        .env("GITHUB_TOKEN", "s3cret")
        .env("RUNNER_TEMP", user.path("work"));
    for (name, value) in inputs {
        command.env(name, value);
    }
    let ended = command.output().expect("bash starts");
    let text = |path| std::fs::read_to_string(path).expect("text");
    (ended, text(&output), text(&summary))
}

const TESTS: &str = "import os, unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        \
    self.assertEqual([name for name in os.environ if name.startswith('GITHUB')], [])\n    def test_b(self):\n        self.assertEqual(1, WANT)\n";

#[test]
fn github_action_gives_verdict_annotations_and_results() {
    everyone(|user| {
        user.make_folder("work/project");
        let options = "--framework\nunittest\n\n  --toolchain\n/usr  ";
        for (want, code, verdict) in [("1", 0, "passed"), ("2", 1, "failed")] {
            user.write("work/project/test_a.py", TESTS.replace("WANT", want));
            let inputs =
                [("INPUT_PROJECT", "project"), ("INPUT_OPTIONS", options), ("INPUT_RESULTS", "results")];
            let (ended, output, summary) = github(user, &inputs);
            let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(ended.status.code(), Some(code), "{errors}");
            assert_eq!(output, format!("verdict={verdict}\nresults=results\n"));
            assert_eq!(errors.contains("::error file="), code == 1, "{errors}");
            assert!(summary.contains(verdict), "{summary}");
            let receipt = user.path("work/results/receipt.json");
            let receipt = receipt.to_str().expect("UTF-8");
            user.hotcell(["receipt", "verify", "--passed", receipt]).end().code(code);
            let junit = std::fs::read_to_string(user.path("work/results/junit.xml")).expect("a file");
            assert!(junit.contains("<testsuites"), "{junit}");
        }
    });
}

/// Inputs are never text of a script, and mistakes end red.
#[test]
fn github_action_refuses_odd_inputs() {
    let user = User::me();
    user.make_folder("work/project");
    let mark = user.path("work/mark");
    let evil = format!("$(touch {0}); `touch {0}`", mark.display());
    for (inputs, says) in [
        (vec![("INPUT_PROJECT", "nowhere")], "nowhere"),
        (vec![("INPUT_PROJECT", "--help")], ""),
        (vec![("INPUT_PROJECT", "project"), ("INPUT_OPTIONS", "--no-such-option")], "--no-such-option"),
        (vec![("INPUT_PROJECT", evil.as_str())], "touch"),
        (vec![("INPUT_PROJECT", "project"), ("INPUT_OPTIONS", evil.as_str())], ""),
        (vec![("INPUT_PROJECT", "project"), ("INPUT_VERSION", "1; touch x")], "is not one of a package"),
    ] {
        let (ended, output, _) = github(&user, &inputs);
        let all = [ended.stdout, ended.stderr].concat();
        let said = String::from_utf8_lossy(&all).into_owned()
            + &std::fs::read_to_string(user.path("work/hotcell-results/report.json")).unwrap_or_default();
        assert!(!ended.status.success(), "{inputs:?}: {said}");
        assert!(said.contains(says), "{inputs:?}: {said}");
        assert!(output.is_empty() || output.starts_with("verdict=refused\n"), "{inputs:?}: {output}");
        assert!(!mark.exists(), "{inputs:?}");
    }
}
