//! Mistakes of people who meet the command line: each error says which word was wrong, and the nearest right one or what to do.

use std::time::{Duration, Instant};

use hotcell_end_to_end::User;

/// Commands as help lists them, such as `runs show`.
fn commands(user: &User) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    let mut waiting = vec![Vec::new()];
    while let Some(command) = waiting.pop() {
        let help = user.hotcell(command.iter().map(String::as_str).chain(["--help"])).end().code(0).text();
        let below =
            help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest.split("\n\n").next().unwrap());
        for line in below.lines() {
            // A description that goes on is indented further.
            let Some(name) = line.strip_prefix("  ").and_then(|line| line.split(' ').next()) else {
                continue;
            };
            if !name.is_empty() {
                let mut next: Vec<String> = command.clone();
                next.push(name.to_owned());
                waiting.push(next);
            }
        }
        if !command.is_empty() {
            all.push(command);
        }
    }
    all
}

#[test]
fn unknown_options_of_every_command_are_refused_in_both_forms() {
    let user = User::me();
    let all = commands(&user);
    assert!(all.len() > 80, "{}", all.len());
    for command in &all {
        let words: Vec<&str> = command.iter().map(String::as_str).chain(["--zzqq"]).collect();
        let ended = user.hotcell(&words).end();
        ended.code(125).prints("").says_one_line("there is no option --zzqq");
        let with_json: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        let error = user.hotcell(&with_json).end().code(125).silent().json();
        assert_eq!((&error["schema"], &error["code"]), (&"hotcell.error/1".into(), &"unknown_option".into()));
        assert_eq!(error["field"], "--zzqq", "{command:?}");
    }
}

#[test]
fn wrong_names_are_answered_with_the_nearest() {
    let user = User::me();
    user.write("work/plain.txt", "text");
    let workspace = user.hotcell(["workspace", "create"]).end().code(0).text().trim().to_owned();
    let mut near = workspace.clone();
    near.truncate(workspace.len() - 1);
    for (words, line) in [
        (
            &["mcp", "call", "x"][..],
            "there is no command \"mcp call\"; did you mean hotcell call or hotcell tool call? ",
        ),
        (&["install"], "did you mean hotcell mcp install?"),
        (&["man", "mcp", "call"], "did you mean hotcell call or"),
        (&["runs"], "Usage:"),
        (&["test"], "hotcell test needs DIR; "),
        (&["model", "add", "olama"], "did you mean ollama? there are openai"),
        (&["model", "add", ""], "\"\" is not a name"),
        (&["model", "add", "x", "--provider", "olama"], "did you mean ollama? there are"),
        (
            &["fix", ".", "--candidates", "0"],
            "--candidates \"0\": is out of range; write a number from 1 to 16",
        ),
        (&["mcp", "check", "--timeout", "0"], "--timeout \"0\": a time here is longer than 0"),
        (&["mcp", "check", "--timeout", "99999999999999d"], "at most 365d"),
        (&["model", "ask", "x", "--timeout", "9999999d"], "at most 365d"),
        (&["run", "--network", "*", "--", "true"], "--network \"*\": no rule is for all hosts"),
        (&["run", "--cpus", "1e30", "--", "true"], "--cpus \"1e30\": is more than 8192 processors"),
        (&["run", "--stdin", "", "--", "true"], "--stdin \"\": names no file or folder"),
        (
            &["run", "--output-files", "o=a/b/../c", "--", "true"],
            "has a part .., which is not followed; write",
        ),
        (&["tool", "list", "files"], "there is no plugin \"files\"; no plugin is loaded"),
        (&["tool", "add", ""], "SOURCE \"\": names no file or folder"),
        (&["tool", "inspect", ""], "PLUGIN|SOURCE \"\": names no file or folder"),
        (&["tool", "add", "."], "has no component"),
        (&["tool", "call", "x", "--args", ""], "the arguments are empty; write {} for none"),
        (&["tool", "new", "a", "--lang", "pyton"], "did you mean python? there are rust"),
        (&["workspace", "list", "x"], "there is no workspace \"x\"; hotcell workspace list"),
        (&["workspace", "diff", &near], "did you mean ws_"),
        (&["image", "inspect", "x"], "there is no image \"x\""),
        (&["image", "build", "pyton"], "did you mean \"python\"?"),
        (&["audit", "verify", "--expect-head", "a1"], "--expect-head \"a1\": is not a digest"),
        (&["approvals", "forget-binary", "nosuch"], "hotcell approvals binaries lists them"),
        (&["approvals", "allow-binary", "nosuch"], "nosuch cannot be read"),
        (&["receipt", "key", "distrust", "x"], "hotcell receipt key list lists them"),
        (&["call", "x", "y", "--form", "5"], "--form is not a JSON object"),
    ] {
        let ended = user.hotcell(words).end();
        assert!(ended.code(125).stderr.contains(line), "{words:?}: no {line:?} in {ended:#?}");
        assert!(!ended.stderr.contains("?;"), "{ended:#?}");
        if *words != ["runs"] {
            assert_eq!(ended.stderr.lines().count(), 1, "{ended:#?}");
        }
    }
    // Definitions are in the binary: each is named once.
    let twice = user.hotcell(["image", "build", "zzzz"]).end();
    assert_eq!(twice.code(125).stderr.matches("angular").count(), 1, "{twice:#?}");
}

/// A folder that is not a plugin's does not become one by waiting.
#[test]
fn plugin_folders_that_are_missing_are_said_at_once() {
    let user = User::me();
    user.write("work/plain.txt", "text");
    std::fs::create_dir(user.path("work/empty")).unwrap();
    user.own(&user.path("work/empty"));
    for (verb, more) in [("dev", &[][..]), ("dev", &["--once"]), ("build", &[]), ("test", &[])] {
        for (folder, line) in [
            ("missing", "missing is not there; hotcell tool new NAME makes"),
            ("plain.txt", "plain.txt is a file, and not a plugin's folder"),
            ("empty", "empty has no plugin.toml"),
        ] {
            let began = Instant::now();
            let words: Vec<&str> = ["tool", verb, folder].into_iter().chain(more.iter().copied()).collect();
            user.hotcell(&words).end().code(125).prints("").says_one_line(line);
            assert!(began.elapsed() < Duration::from_secs(20), "{words:?}");
        }
    }
}

/// A person who forgot to start the local server of models waits seconds and not a minute.
#[test]
fn local_model_that_does_not_run_is_said_soon() {
    let user = User::me();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{closed}");
    user.hotcell(["model", "add", "ollama", "--url", &url, "--model", "m"]).end().code(0);
    let began = Instant::now();
    let ended = user.hotcell(["model", "ask", "hello"]).end();
    assert!(ended.code(125).stderr.contains(&format!("no program listens at {closed}")), "{ended:#?}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
