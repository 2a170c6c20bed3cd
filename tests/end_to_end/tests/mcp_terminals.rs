//! Terminals over MCP: programs that a model drives by keys, and programs that attack who reads their screen.

use hotcell_end_to_end::mcp::{Local, STATELESS, two_callers};
use hotcell_end_to_end::{User, everyone, find};
use serde_json::{Value, json};

/// Time that a screen may take on a busy machine; a wait ends as soon as the text is there.
const PATIENCE_MS: u64 = 30_000;

fn start(client: &mut Local, argv: &[&str]) -> (String, Value) {
    let seen = client.good("terminal_start", &json!({ "argv": argv }));
    (seen["terminal_id"].as_str().unwrap_or_else(|| panic!("{seen:#}")).to_owned(), seen)
}

/// Types a line, and waits for a text.
fn line(client: &mut Local, id: &str, text: &str, until: &str) -> Value {
    let arguments =
        json!({ "terminal_id": id, "text": text, "keys": ["enter"], "until": until, "wait_ms": PATIENCE_MS });
    let seen = client.good("terminal_send", &arguments);
    assert_eq!(seen["waited"], "found", "{seen:#}");
    seen
}

fn until(client: &mut Local, id: &str, text: &str) -> Value {
    let seen =
        client.good("terminal_screen", &json!({ "terminal_id": id, "until": text, "wait_ms": PATIENCE_MS }));
    assert_eq!(seen["waited"], "found", "{seen:#}");
    seen
}

/// Waits for the end of the program.
fn ended(client: &mut Local, id: &str) -> Value {
    let never = "no program prints this";
    client.good("terminal_screen", &json!({ "terminal_id": id, "until": never, "wait_ms": PATIENCE_MS }))
}

#[test]
fn shell_and_interpreter_are_driven_by_keys() {
    everyone(|user| {
        let mut client = Local::start(user, STATELESS);
        let (id, seen) = start(&mut client, &["bash", "--norc"]);
        assert_eq!((&seen["rows"], &seen["state"]), (&json!(24), &json!("running")), "{seen:#}");
        until(&mut client, &id, "bash-");
        line(&mut client, &id, "echo $((6*7)) $TERM", "42 xterm-256color");
        let sized = client.good("terminal_resize", &json!({ "terminal_id": id, "rows": 10, "columns": 40 }));
        assert_eq!((&sized["rows"], &sized["columns"]), (&json!(10), &json!(40)));
        line(&mut client, &id, "clear; stty size", "10 40");
        // Job control: an interrupt by its key.
        line(&mut client, &id, "clear; sh -c 'echo wait''ing; exec sleep 100'", "waiting");
        client.good("terminal_send", &json!({ "terminal_id": id, "keys": ["ctrl-c"] }));
        line(&mut client, &id, "echo stat''us $?", "status 130");
        client.good("terminal_send", &json!({ "terminal_id": id, "text": "exit 7\n" }));
        let seen = ended(&mut client, &id);
        assert_eq!((&seen["state"], &seen["exit_code"]), (&json!("ended"), &json!(7)), "{seen:#}");
        let said = client.bad("terminal_send", &json!({ "terminal_id": id, "text": "x" }));
        assert!(said.contains("has ended"), "{said}");
        let output = client.good("run_output", &json!({ "run_id": seen["run_id"], "stream": "stdout" }));
        assert!(output["text"].as_str().is_some_and(|text| text.contains("status 130")), "{output:#}");
        client.good("terminal_close", &json!({ "terminal_id": id }));
        assert!(
            client.bad("terminal_screen", &json!({ "terminal_id": id })).contains("there is no terminal")
        );

        let (id, _) = start(&mut client, &["python3", "-i", "-q"]);
        until(&mut client, &id, ">>>");
        line(&mut client, &id, "for i in range(3): print('row', i)\n", "row 2");
        line(&mut client, &id, "1/0", "ZeroDivisionError");
        client.good("terminal_send", &json!({ "terminal_id": id, "keys": ["ctrl-d"] }));
        assert_eq!(ended(&mut client, &id)["exit_code"], 0);
        assert_eq!(client.end().0, Some(0));
    });
}

#[test]
fn programs_of_the_whole_screen_are_driven() {
    let user = User::me();
    let mut client = Local::start(&user, STATELESS);
    if find("vim").is_some() {
        let made = client.good("workspace_create", &json!({}));
        let workspace = made["workspace_id"].clone();
        let arguments = json!({ "argv": ["vim", "-Z", "-u", "NONE", "notes.txt"], "workspace_id": workspace, "keep": true });
        let seen = client.good("terminal_start", &arguments);
        let id = seen["terminal_id"].as_str().expect("a handle").to_owned();
        let seen = until(&mut client, &id, "notes.txt");
        assert_eq!(seen["full_screen"], true, "{seen:#}");
        let typed = json!({ "terminal_id": id, "text": "ihello", "keys": ["escape"], "until": "hello", "wait_ms": PATIENCE_MS });
        client.good("terminal_send", &typed);
        client.good("terminal_close", &json!({ "terminal_id": id }));
    } else {
        println!("skipped: vim is not installed (on Debian: apt-get install vim)");
    }
    if find("npm").is_some() {
        let (id, _) = start(&mut client, &["npm", "init"]);
        until(&mut client, &id, "package name");
        line(&mut client, &id, "tried", "version");
        client.good("terminal_close", &json!({ "terminal_id": id }));
    } else {
        println!("skipped: no npm (on Debian: apt-get install npm)");
    }
}

#[test]
fn wrong_calls_are_explained() {
    let user = User::me();
    let mut client = Local::start(&user, STATELESS);
    for (arguments, says) in [
        (json!({ "argv": ["bash"], "rows": 0 }), "rows is 0; allowed is 1 to 100"),
        (json!({ "argv": ["bash"], "columns": 251 }), "allowed is 1 to 250"),
        (json!({ "argv": [] }), "argv"),
        (json!({ "argv": ["no-such-program-here"] }), "there is no program"),
        (json!({ "argv": ["bash"], "keep": true }), "keep needs workspace_id"),
        (json!({ "argv": ["bash"], "size": 1 }), "size"),
        (json!({ "argv": ["bash"], "network": ["nowhere"] }), "nowhere"),
    ] {
        let said = client.bad("terminal_start", &arguments);
        assert!(said.contains(says), "{arguments}: {said}");
    }
    // None of these took a place.
    let all: Vec<_> = (0..4).map(|_| start(&mut client, &["cat"]).0).collect();
    let said = client.bad("terminal_start", &json!({ "argv": ["cat"] }));
    assert!(said.contains("terminal_close") && said.contains(&all[0]), "{said}");
    let id = &all[0];
    for (tool, arguments, says) in [
        ("terminal_send", json!({ "terminal_id": id }), "nothing to type"),
        ("terminal_send", json!({ "terminal_id": id, "keys": ["entr"] }), "did you mean enter?"),
        ("terminal_send", json!({ "terminal_id": id, "text": "x".repeat(70_000) }), "allowed are 65536"),
        ("terminal_send", json!({ "terminal_id": id, "text": "x", "until": "a\nb" }), "more than one line"),
        ("terminal_screen", json!({ "terminal_id": id, "wait_ms": 700_000 }), "wait_ms"),
        ("terminal_screen", json!({ "terminal_id": "trm_0" }), "there is no terminal"),
        ("terminal_resize", json!({ "terminal_id": id, "rows": 0, "columns": 80 }), "rows is 0"),
        ("terminal_close", json!({ "terminal_id": "" }), "there is no terminal"),
    ] {
        let said = client.bad(tool, &arguments);
        assert!(said.contains(says), "{tool} {arguments}: {said}");
    }
}

#[test]
fn terminals_belong_to_their_caller() {
    let user = User::me();
    let (server, [one, two]) = two_callers(&user);
    let made = server.call(&one, "terminal_start", &json!({ "argv": ["cat"] }));
    let id = made["structuredContent"]["terminal_id"].clone();
    assert!(id.is_string(), "{made:#}");
    for (tool, arguments) in [
        ("terminal_screen", json!({ "terminal_id": id })),
        ("terminal_send", json!({ "terminal_id": id, "text": "x" })),
        ("terminal_close", json!({ "terminal_id": id })),
    ] {
        let foreign = server.call(&two, tool, &arguments);
        assert!(
            foreign["isError"] == true && foreign.to_string().contains("there is no terminal"),
            "{foreign:#}"
        );
    }
    let own = server.call(&one, "terminal_screen", &json!({ "terminal_id": id }));
    assert_eq!(own["structuredContent"]["state"], "running", "{own:#}");
}

#[test]
fn hostile_programs_paint_text_and_nothing_else() {
    everyone(|user| {
        let mut client = Local::start(user, STATELESS);
        // Titles, clipboards, queries, and sequences with counts far beyond the screen.
        let script = "printf 'A\\033]52;c;eA==\\007B\\033]0;title\\007C\\033[6nD\\033[9999;9999HE\\033[9999L\\033[9999@\\033[1;1Hdone\\n'; \
                      cat >/dev/null";
        let (id, _) = start(&mut client, &["sh", "-c", script]);
        let seen = until(&mut client, &id, "done");
        let screen = seen["screen"].as_str().expect("text");
        assert!(
            screen.starts_with("done") && !screen.contains("52;c") && !screen.contains("title"),
            "{screen:?}"
        );
        // No answer was typed: what is typed is what the caller sends.
        client.good("terminal_close", &json!({ "terminal_id": id }));
        let asks = "stty raw -echo; printf '\\033[6n\\033[c\\033[5n'; timeout 1 cat | od -c | head -3; echo answered-end";
        let (id, _) = start(&mut client, &["bash", "-c", asks]);
        let seen = until(&mut client, &id, "answered-end");
        assert!(!seen["screen"].as_str().expect("text").contains("033"), "{seen:#}");
        client.good("terminal_close", &json!({ "terminal_id": id }));
        // A flood, and a client that looked away: the newest screen is there, and the program ends at its limit of output or by a close.
        let (id, _) = start(&mut client, &["sh", "-c", "yes flood"]);
        let seen = client.good("terminal_screen", &json!({ "terminal_id": id, "wait_ms": 200 }));
        assert!(seen["screen"].as_str().expect("text").contains("flood"), "{seen:#}");
        assert_eq!(client.good("terminal_close", &json!({ "terminal_id": id }))["state"], "closed");
        // A program that does not read: the rest is not typed, and that is said.
        let (id, _) = start(&mut client, &["sh", "-c", "stty raw; echo ready; sleep 100"]);
        until(&mut client, &id, "ready");
        let seen = client.good("terminal_send", &json!({ "terminal_id": id, "text": "x".repeat(60_000) }));
        assert!(seen["not_taken"].as_u64().is_some_and(|bytes| bytes > 0), "{seen:#}");
        client.good("terminal_close", &json!({ "terminal_id": id }));
        assert_eq!(client.end().0, Some(0));
    });
}

#[test]
fn typed_lines_pass_the_guard_together() {
    everyone(|user| {
        let mut client = Local::start(user, STATELESS);
        let (id, _) = start(&mut client, &["python3", "-i", "-q"]);
        until(&mut client, &id, ">>>");
        line(&mut client, &id, "import shutil; what = '/home'; print('im' + 'ported')", "imported");
        let said =
            client.bad("terminal_send", &json!({ "terminal_id": id, "text": "shutil.rmtree(what)\n" }));
        assert!(said.contains("nothing of this was typed"), "{said}");
        // In two calls, and with a key that erases.
        client.good(
            "terminal_send",
            &json!({ "terminal_id": id, "text": "shutil.rmtreX", "keys": ["backspace"] }),
        );
        let said =
            client.bad("terminal_send", &json!({ "terminal_id": id, "text": "e(what)", "keys": ["enter"] }));
        assert!(said.contains("nothing of this was typed"), "{said}");
        client.good("terminal_send", &json!({ "terminal_id": id, "keys": ["ctrl-c"] }));
        line(&mut client, &id, "print(6 * 7)", "42");
        // The program itself is read before it starts.
        let said = client.bad("terminal_start", &json!({ "argv": ["bash", "-c", "rm -rf /home ~ /"] }));
        assert!(said.contains("quarantine") || said.contains("guard"), "{said}");
    });
}

/// A line that keys put together is not the one that the guard read, and is not sent; the line typed as text is.
#[test]
fn lines_put_together_by_keys_are_not_sent() {
    everyone(|user| {
        let mut client = Local::start(user, STATELESS);
        let (id, _) = start(&mut client, &["bash", "--norc"]);
        until(&mut client, &id, "bash-");
        let lost = format!("precious-{}", std::process::id());
        line(&mut client, &id, &format!("mkdir -p ~/{lost}; echo made-$((40+2))"), "made-42");
        // Each of these ends as "rm -rf ~", read as something else: by the order of its keys, by completion, by the history.
        for steps in [
            &[(" -rf ~", &["ctrl-a"][..]), ("rm", &["enter"])][..],
            &[("m -rf ~", &["home"]), ("r", &["enter"])],
            &[("rm -rf ~/prec", &["tab", "ctrl-u"]), ("", &["ctrl-y", "enter"])],
            &[("", &["up", "ctrl-a", "ctrl-k"]), ("rm -rf ~/prec*", &["left", "enter"])],
            &[("", &["ctrl-r"]), ("made", &["enter"])],
            &[("!!", &["enter"])],
            &[("!mk", &["enter"])],
            &[("bind '\"a\": \"rm -rf ~\"'", &["enter"])],
            &[("stty erase x", &["enter"])],
        ] {
            let mut said = String::new();
            for (text, keys) in steps {
                let arguments = json!({ "terminal_id": id, "text": text, "keys": keys });
                let answer = client.call("terminal_send", &arguments);
                if answer["isError"] == true {
                    said = answer.to_string();
                }
            }
            assert!(said.contains("nothing of this was typed"), "{steps:?}: {said}");
            client.good("terminal_send", &json!({ "terminal_id": id, "keys": ["ctrl-c"] }));
        }
        let answer = client.bad("terminal_send", &json!({ "terminal_id": id, "keys": ["ctrl-x"] }));
        assert!(answer.contains("opens an editor"), "{answer}");
        // The twin: typed as text, with what is erased at the end of the line, and a recalled line that is given up.
        client.good("terminal_send", &json!({ "terminal_id": id, "keys": ["up", "ctrl-a"] }));
        client.good("terminal_send", &json!({ "terminal_id": id, "keys": ["ctrl-c"] }));
        client.good("terminal_send", &json!({ "terminal_id": id, "text": "lsX", "keys": ["backspace"] }));
        line(&mut client, &id, " -d ~/prec*; echo there-$((40+2))", "there-42");
        let seen = until(&mut client, &id, &lost);
        assert!(!seen["screen"].as_str().expect("text").contains("cannot access"), "{seen:#}");
        // A program that asks gets every key.
        let (id, _) = start(&mut client, &["cat"]);
        let arguments = json!({ "terminal_id": id, "text": "one", "keys": ["ctrl-w"] });
        client.good("terminal_send", &arguments);
        line(&mut client, &id, "t\two-thirds", "wo-thirds");
        client.good("terminal_send", &json!({ "terminal_id": id, "keys": ["up", "enter"] }));
    });
}

/// Editors and pagers start shells; a debugger's commands do when they are more than looking.
#[test]
fn editors_and_debuggers_start_nothing_unread() {
    let user = User::me();
    let mut client = Local::start(&user, STATELESS);
    if find("vim").is_some() {
        let (id, _) = start(&mut client, &["vim", "-u", "NONE"]);
        let said = client.bad(
            "terminal_send",
            &json!({ "terminal_id": id, "text": ":!echo $((40+2))", "keys": ["enter"] }),
        );
        assert!(said.contains("vim -Z") && said.contains("nothing of this was typed"), "{said}");
        client.good("terminal_close", &json!({ "terminal_id": id }));
        let (id, _) = start(&mut client, &["vim", "-Z", "-u", "NONE"]);
        line(&mut client, &id, ":!echo $((40+2))", "E145");
        client.good("terminal_send", &json!({ "terminal_id": id, "keys": ["enter"] }));
        line(&mut client, &id, ":call system('ls')", "E145");
        client.good("terminal_send", &json!({ "terminal_id": id, "keys": ["enter"] }));
        client.good(
            "terminal_send",
            &json!({ "terminal_id": id, "text": "ione\ntwo", "keys": ["escape"], "until": "two", "wait_ms": PATIENCE_MS }),
        );
        client.good("terminal_close", &json!({ "terminal_id": id }));
    } else {
        println!("vim is not installed here: its lines are not tried");
    }
    if find("script").is_some() {
        let (id, _) = start(&mut client, &["script", "-q", "/dev/null"]);
        let said = client.bad("terminal_send", &json!({ "terminal_id": id, "text": "rm -rf ~\n" }));
        assert!(said.contains("start the shell"), "{said}");
        client.good("terminal_close", &json!({ "terminal_id": id }));
    }
    if find("less").is_some() {
        let (id, _) = start(&mut client, &["less", "/etc/passwd"]);
        let said =
            client.bad("terminal_send", &json!({ "terminal_id": id, "text": "!echo hi", "keys": ["enter"] }));
        assert!(said.contains("LESSSECURE=1"), "{said}");
        client.good("terminal_close", &json!({ "terminal_id": id }));
    }
    if find("gdb").is_some() {
        let (id, _) = start(&mut client, &["gdb", "-q", "-nx"]);
        until(&mut client, &id, "(gdb)");
        for text in ["shell echo hi", "!echo hi", "python print(1)", "print system(1)", "run ; ls"] {
            let said =
                client.bad("terminal_send", &json!({ "terminal_id": id, "text": text, "keys": ["enter"] }));
            assert!(said.contains("nothing of this was typed") && said.contains("more than look"), "{said}");
        }
        let said = client.bad("terminal_send", &json!({ "terminal_id": id, "keys": ["up", "enter"] }));
        assert!(said.contains("changed by up"), "{said}");
        line(&mut client, &id, "print 6*7", "$1 = 42");
        line(&mut client, &id, "info line main", "No symbol table");
        client.good("terminal_close", &json!({ "terminal_id": id }));
    } else {
        println!("gdb is not installed here: its lines are not tried");
    }
}
