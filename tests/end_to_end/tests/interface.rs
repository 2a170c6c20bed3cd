//! Help, schemas, completions and `doctor`: the first things that a person meets.

use std::time::{Duration, Instant};

use hotcell_end_to_end::{User, everyone};

#[test]
fn help_is_an_answer() {
    let user = User::me();
    for words in
        [&["--help"][..], &["run", "--help"], &["runs", "--help"], &["runs", "show", "-h"], &["--version"]]
    {
        let ended = user.hotcell(words).end();
        assert!(!ended.code(0).silent().stdout.is_empty());
        assert!(!ended.text().contains('\x1b'), "colour only on a terminal: {ended:#?}");
    }
    let help = user.hotcell(["run", "--help"]).end().text();
    for option in [
        "--profile",
        "--workspace",
        "--ro",
        "--rw",
        "--toolchain",
        "--env",
        "--stdin",
        "--memory",
        "--require",
        "--lang",
        "--json",
        "--state",
        "--no-daemon",
    ] {
        assert!(help.contains(option), "{option} is missing:\n{help}");
    }
}

#[test]
fn schemas_are_printed_with_their_name() {
    let user = User::me();
    for name in [
        "outcome",
        "test_report",
        "scan",
        "quarantine",
        "binaries",
        "cache",
        "audit",
        "runs",
        "doctor",
        "mcp_install",
        "mcp_check",
        "cell",
        "named_session",
        "named_sessions",
        "session_interrupt",
        "error",
    ] {
        let ended = user.hotcell(["schema", name]).end();
        let schema: serde_json::Value = serde_json::from_slice(&ended.code(0).stdout).unwrap();
        assert_eq!(schema["properties"]["schema"]["const"], format!("hotcell.{name}/1"));
        jsonschema::validator_for(&schema).unwrap();
        // By its full name too.
        user.hotcell(["schema", &format!("hotcell.{name}/1")]).end().code(0);
    }
}

#[test]
fn completions_know_the_options() {
    let user = User::me();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(user.hotcell(["completions", shell]).end().code(0).text().contains("workspace"), "{shell}");
    }
}

#[test]
fn doctor_report_is_complete_within_time() {
    everyone(|user| {
        let started = Instant::now();
        let report = user.hotcell(["doctor", "--json"]).end().code(0).json();
        assert!(started.elapsed() < Duration::from_secs(15));
        assert_eq!(report["layers"].as_object().unwrap().len(), 14);
        for profile in ["standard", "strict", "landlock-only"] {
            assert!(report["profiles"][profile].is_string(), "{report:#}");
        }
        let text = user.hotcell(["doctor"]).end();
        assert!(text.code(0).text().contains("seccomp"), "{text:#?}");
    });
}

#[test]
fn common_options_precede_or_follow_command() {
    let user = User::me();
    let state = user.path("work/s");
    let state = state.to_str().unwrap();
    let before = user.hotcell(["--json", "--state", state, "run", "--", "true"]).end();
    let after = user.hotcell(["run", "--json", "--state", state, "--", "true"]).end();
    for ended in [before, after] {
        assert_eq!(ended.code(0).json()["cause"], "exited");
    }
    let rows = user.hotcell(["runs", "--state", state, "list", "--json"]).end().code(0).json();
    assert_eq!(rows["runs"].as_array().unwrap().len(), 2);
    // After --, options belong to the program.
    user.run(["echo", "--json"]).end().code(0).prints("--json\n");
}
