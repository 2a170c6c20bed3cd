//! Invalid input of every kind: one clear line that says what to do, exit 125, 126 or 127, nothing half-done.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use hotcell_end_to_end::{Ended, User, everyone};

#[test]
fn command_line_mistakes_are_explained() {
    let user = User::me();
    for (words, line) in [
        (&["rnu"][..], "did you mean run?"),
        (&["run", "--memroy", "1M", "--", "true"], "did you mean --memory?"),
        (&["run", "--memory", "lots", "--", "true"], "512M"),
        (&["run", "--memory", "-1", "--", "true"], "--memory"),
        (&["run", "--memory", "--", "true"], "--memory"),
        (&["run", "--memory"], "--memory"),
        (&["run", "--memory", "1M", "--memory", "2M", "--", "true"], "--memory"),
        (&["run", "--timeout", "soon", "--", "true"], "60s"),
        (&["run", "--max-processes", "many", "--", "true"], "--max-processes"),
        (&["run", "--network", "all", "--", "true"], "no rule is for all hosts"),
        (&["run", "--network", "off", "--", "true"], "for profiles"),
        (&["run", "--network", "127.0.0.1:80", "--", "true"], "loopback"),
        (&["run", "--guard", "of", "--", "true"], "did you mean off?"),
        (&["run", "--require", "secomp", "--", "true"], "seccomp"),
        (&["run", "--env", "=x", "--", "true"], "needs a name"),
        (&["run", "--ro", ":/x", "--", "true"], "HOST"),
        (&["run", "--workspace", "", "--", "true"], "--workspace"),
        (&["run", "--lang", "pyton", "x"], "did you mean python?"),
        (&["run", "--lang", "python"], "source file"),
        (&["run"], "after --"),
        (&["run", "--"], "after --"),
        (&["run", "true"], "write -- before the program"),
        (&["run", "sh", "-c", "id"], "write -- before the program"),
        (&["run", "--profile", "strcit", "--", "true"], "did you mean \"strict\"?"),
        (&["run", "--profile", "./none.toml", "--", "true"], "none.toml"),
        (&["run", "--config", "none.toml", "--", "true"], "none.toml"),
        (&["run", "--quiet", "-v", "--", "true"], "--quiet"),
        (&["runs", "lst"], "did you mean list?"),
        (&["runs", "show"], "ID"),
        (&["schema", "outcom"], "did you mean outcome?"),
        (&["completions", "bsh"], "did you mean bash?"),
        (&["--nonsense"], "--nonsense"),
        (&["help"], "hotcell --help"),
        (&["test", "--retry 2", "."], "--retry and its value as two words"),
        (&["test", "--filter", "", "."], "--filter needs a value"),
        (&["test", "--receipt", "r.json", "nowhere"], "the project nowhere cannot be opened"),
        (&["run", "--no-daemon=yes", "--", "true"], "--no-daemon"),
    ] {
        let ended = user.hotcell(words).end();
        ended.code(125).prints("").says_one_line(line);
        let mut with_json = vec!["--json"];
        with_json.extend_from_slice(words);
        let ended = user.hotcell(with_json).end();
        let error = ended.code(125).silent().json();
        assert_eq!(error["schema"], "hotcell.error/1", "{words:?}");
        let said = format!("{} {} {}", error["message"], error["hint"], error["field"]).replace('\\', "");
        assert!(said.contains(line), "{words:?}: no {line:?} in {said}");
    }
    user.hotcell([] as [&str; 0]).end().code(125).says("Usage:");
}

#[test]
fn policies_that_cannot_be_met() {
    everyone(|user| {
        for (options, line) in [
            (&["--memory", "0"][..], "memory is 0"),
            (&["--memory", "4000T"], "more than this host's"),
            (&["--max-disk", "0"], "disk is 0"),
            (&["--max-files", "0"], "files is 0"),
            (&["--max-processes", "0"], "processes is 0"),
            (&["--max-processes", "99999999"], "processes"),
            (&["--max-output", "0"], "output is 0"),
            (&["--timeout", "0"], "timeout is 0"),
            (&["--cpu-time", "0s"], "cpu-time is 0"),
            (&["--cpus", "0"], "cpus"),
            (&["--workspace", "none"], "none"),
            (&["--workspace", "plain.txt"], "not a folder"),
            (&["--ro", "none"], "--ro"),
            (&["--rw", "none:/x"], "--rw"),
            (&["--ro", "plain.txt:inside"], "absolute path"),
            (&["--ro", "plain.txt:/proc/x"], "/proc"),
            (&["--ro", "/:/x"], "file system"),
            (&["--ro", "/dev/null:/tmp/x"], "neither a file nor a folder"),
            (&["--toolchain", "none"], "none"),
            (&["--stdin", "none"], "--stdin"),
        ] {
            user.write("work/plain.txt", "text");
            let mut words = vec!["run"];
            words.extend_from_slice(options);
            words.extend(["--", "sh", "-c", "echo ran"]);
            let ended = user.hotcell(&words).end();
            ended.code(125).prints("").says_one_line(line);
            assert!(ended.stderr.starts_with("hotcell: refused: "), "{ended:#?}");
            words.insert(1, "--json");
            let outcome = user.hotcell(&words).end().code(125).silent().json();
            assert_eq!(outcome["cause"], "refused", "{options:?}");
            assert_eq!(outcome["schema"], "hotcell.outcome/1");
        }
    });
}

#[test]
fn missing_layer_is_named_in_refusal() {
    let user = User::me();
    // landlock-only makes no namespaces, so it cannot satisfy this on any host.
    let ended =
        user.hotcell(["run", "--profile", "landlock-only", "--require", "pid_ns", "--", "true"]).end();
    ended.code(125).prints("").says_one_line("pid_ns");
}

#[test]
fn non_utf8_names_are_accepted_and_escaped() {
    everyone(|user| {
        let odd = OsString::from_vec(b"odd \xff\n name".to_vec());
        user.write(std::path::Path::new("work").join(&odd), "odd\n");
        let mut ro = odd.clone();
        ro.push(":/data/odd");
        let words = |option: &str, value: &OsString, program: &[&str]| {
            let mut words: Vec<OsString> = ["run", option].map(OsString::from).into();
            words.push(value.clone());
            words.push("--".into());
            words.extend(program.iter().map(OsString::from));
            words
        };
        user.hotcell(words("--ro", &ro, &["cat", "/data/odd"])).end().code(0).prints("odd\n");
        user.hotcell(words("--stdin", &odd, &["cat"])).end().code(0).prints("odd\n");
        // In an argument, and in a message: still one line.
        let program = [OsString::from("printf"), "%s".into(), odd.clone()];
        assert_eq!(user.run(program).end().code(0).stdout, b"odd \xff\n name");
        let missing = OsString::from_vec(b"none \xff\n\x1b[2J".to_vec());
        user.run([&missing]).end().code(127).says_one_line("none");
        user.hotcell(words("--workspace", &missing, &["true"])).end().code(125).says_one_line("none");
        let outcome = user.run([&missing]).env("HOTCELL_TIMEOUT", "5").end();
        assert!(!outcome.stderr.contains('\x1b'), "{outcome:#?}");
    });
}

#[test]
fn arguments_beyond_kernel_limit_are_refused() {
    let user = User::me();
    // One argument of the maximum length that the kernel allows, and many short ones.
    let long = "x".repeat(131_000);
    user.run(["printf", "%s", &long]).end().code(0).prints(&long);
    let mut words: Vec<String> = ["run", "--", "true"].map(String::from).into();
    words.extend(std::iter::repeat_n("y".repeat(100_000), 19));
    let ended = user.hotcell(&words).end();
    assert!(matches!(ended.code, Some(0 | 125)), "{:?}", ended.code);
    // Beyond that: a configured variable, whose length no kernel checked.
    let config = user.write("work/config.toml", format!("env = {{ LONG = \"{}\" }}\n", "z".repeat(50_000)));
    user.hotcell(["run", "--config", config.to_str().unwrap(), "--", "sh", "-c", "echo ${#LONG}"])
        .end()
        .code(0)
        .prints("50000\n");
}

#[test]
fn nul_characters_are_named() {
    let user = User::me();
    for (text, line) in [
        (r#"env = { A = "b\u0000c" }"#, "NUL"),
        (r#"env = { "A=B" = "c" }"#, "A=B"),
        (r#"ro = ["a\u0000b"]"#, "nul"),
    ] {
        let config = user.write("work/nul.toml", text);
        let ended = user.hotcell(["run", "--config", config.to_str().unwrap(), "--", "true"]).end();
        says_any_case(ended.code(125), line);
    }
}

fn says_any_case(ended: &Ended, word: &str) {
    assert!(ended.stderr.to_lowercase().contains(&word.to_lowercase()), "{ended:#?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:#?}");
}
