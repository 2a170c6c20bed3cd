//! Standard input, output and error: streamed, complete, limited, and quiet when the reader is gone.

use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use hotcell_end_to_end::{User, everyone};

#[test]
fn output_arrives_while_the_program_runs() {
    let user = User::me();
    let mut child = user.shell([], "echo first; sleep 3; echo second").start();
    let started = Instant::now();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    assert!(started.elapsed() < Duration::from_millis(2500), "the first line waited for the second");
    assert_eq!(lines.next().unwrap().unwrap(), "second");
    assert!(child.wait().unwrap().success());
}

#[test]
fn long_output_is_complete_for_slow_reader() {
    let user = User::me();
    let mut child = user.shell([], "seq 1 2000000").start();
    std::thread::sleep(Duration::from_secs(3));
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(text.lines().count(), 2_000_000);
    assert_eq!(text.lines().last(), Some("2000000"));
}

#[test]
fn capture_option_retains_both_ends() {
    everyone(|user| {
        let words = ["run", "--json", "--capture", "10", "--", "printf", "abcdefghijklmnop"];
        let outcome = user.hotcell(words).end().code(0).json();
        assert_eq!(outcome["stdout"]["text"], "abcdelmnop");
        assert_eq!(
            (&outcome["stdout"]["bytes"], &outcome["stdout"]["truncated"]),
            (&16.into(), &true.into())
        );
    });
}

#[test]
fn binary_output_passes_and_is_base64_in_json() {
    everyone(|user| {
        let ended = user.run(["printf", r"\377\000\n"]).end();
        assert_eq!(ended.code(0).stdout, [0xff, 0, b'\n']);
        let outcome = user.hotcell(["run", "--json", "--", "printf", r"\377\000\n"]).end().code(0).json();
        assert_eq!((&outcome["stdout"]["base64"], &outcome["stdout"]["bytes"]), (&"/wAK".into(), &3.into()));
        assert!(outcome["stdout"].get("text").is_none());
    });
}

#[test]
fn standard_input_is_ours_file_or_null() {
    everyone(|user| {
        let file = user.write("work/in put", "from a file");
        let stdin =
            |word: &str| user.hotcell(["run", "--stdin", word, "--", "cat"]).input("from a pipe").end();
        user.run(["cat"]).input("from a pipe").end().code(0).prints("from a pipe");
        stdin("-").code(0).prints("from a pipe");
        stdin("null").code(0).prints("");
        stdin(file.to_str().unwrap()).code(0).prints("from a file");
        stdin("in put").code(0).prints("from a file");
        stdin("none").code(125).says_one_line("--stdin none");
        stdin(".").code(125).says_one_line("folder");
        // A large input, and one that the program does not read.
        let large = "x".repeat(3 << 20);
        user.run(["wc", "-c"]).input(large.clone()).end().code(0).prints("3145728\n");
        user.run(["true"]).input(large).end().code(0);
    });
}

#[test]
fn closed_standard_output_ends_run_by_sigpipe() {
    let user = User::me();
    let started = Instant::now();
    let mut child = user.shell(["--timeout", "30s"], "yes").start();
    let mut some = [0; 4096];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut some).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert!(output.stderr.is_empty(), "{output:?}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn full_disk_behind_standard_output_is_reported() {
    let user = User::me();
    for words in
        [vec!["run", "--", "echo", "x"], vec!["run", "--json", "--", "true"], vec!["schema", "outcome"]]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = std::process::Command::new(hotcell_end_to_end::binary())
            .args(&words)
            .env_clear()
            .env("HOME", user.path("home"))
            .env("PATH", "/usr/bin:/bin")
            .stdin(std::process::Stdio::null())
            .stdout(full)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125), "{words:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("standard output cannot be written"),
            "{output:?}"
        );
    }
}

#[test]
fn pipeline_inside_ends_by_sigpipe() {
    // A program that inherited an ignored SIGPIPE would see an error in place of a quiet end.
    User::me().shell([], "yes | head -n 1").end().code(0).prints("y\n").silent();
}
