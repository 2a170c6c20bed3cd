//! A host that runs out of resources while hotcell works: a full disk below the state folder and for
//! temporary files, few descriptors, and little memory for the service.

use hotcell_end_to_end::mcp::{Local, SESSIONS};
use hotcell_end_to_end::{User, Weak, everyone, is_root, root_and_another};
use serde_json::json;

/// Dangerous on the face of it, and harmless in a sandbox.
const HOSTILE: &str = "import os\nprint('ran')\nos.system('rm -rf /home/')\n";

/// A host on which a folder of the user is on a small file system with only `free` KiB left.
fn full(user: &User, folder: &str, free: u32) -> Option<Weak> {
    if !is_root() {
        println!("skipped: only root can mount a small file system");
        return None;
    }
    let path = user.make_folder(folder).display().to_string();
    let id = if user.is_ordinary() { 65_534 } else { 0 };
    Some(Weak::default().mounts(&format!(
        "mount -t tmpfs -o size=1m,mode=700,uid={id},gid={id} small {path}; \
         head -c 1M /dev/zero >{path}/full 2>/dev/null || true; truncate -s -{free}K {path}/full"
    )))
}

#[test]
fn full_state_folder_changes_no_answer() {
    root_and_another(|user| {
        for free in [0, 8, 40] {
            let Some(host) = full(user, "full", free) else { return };
            let state = user.path("full").display().to_string();
            let run = |words: &[&str]| user.hotcell_on(&host, ["run", "--state", &state]).words(words).end();
            // Either the run is answered as always, or nothing ran.
            let ended = run(&["--", "sh", "-c", "echo ran; exit 3"]);
            match ended.code {
                Some(3) => assert_eq!(ended.text(), "ran\n", "{ended:#?}"),
                _ => {
                    ended.code(125).prints("");
                    assert!(ended.stderr.contains("full"), "{ended:#?}");
                }
            }
            assert!(!ended.stderr.is_empty(), "nobody says that it is not in the history: {ended:#?}");
            // Dangerous code is not run, even if it cannot be quarantined.
            user.write("work/bad.py", HOSTILE);
            let ended = run(&["--lang", "python", "bad.py"]);
            ended.code(125).prints("");
        }
    });
}

#[test]
fn full_temporary_folder_is_named() {
    root_and_another(|user| {
        let Some(host) = full(user, "tmp", 0) else { return };
        let tmp = user.path("tmp").display().to_string();
        for options in
            [&["--lang", "python", "a.py"][..], &["--profile", "landlock-only", "--", "echo", "ran"]]
        {
            user.write("work/a.py", "print('ran')\n");
            let ended = user.hotcell_on(&host, ["run"]).words(options).env("TMPDIR", &tmp).end();
            match ended.code {
                Some(0) => assert_eq!(ended.text(), "ran\n", "{ended:#?}"),
                _ => {
                    ended.code(125).prints("");
                    assert!(ended.stderr.contains("space"), "{ended:#?}");
                }
            }
        }
    });
}

#[test]
fn service_recovers_from_full_disk() {
    root_and_another(|user| {
        let Some(host) = full(user, "full", 400) else { return };
        let state = user.path("full");
        let options = ["--state", state.to_str().expect("text")];
        let mut client = Local::start_on(user, &host, &options, SESSIONS);
        let inside = format!("/proc/{}/root{}", client.pid(), state.display());
        let fill = |more: &str| {
            let _ = std::fs::write(format!("{inside}/{more}"), vec![0; 1 << 20]);
        };
        fill("more");
        let big = "x".repeat(300_000);
        let files = json!({ "files": [{ "path": "a", "content": big }] });
        let said = client.bad("workspace_create", &files);
        assert!(said.contains("space"), "{said}");
        for _ in 0..3 {
            let echo = json!({ "argv": ["sh", "-c", "echo ran; exit 3"] });
            let answer = client.good("run_command", &echo);
            assert_eq!((&answer["cause"], &answer["exit_code"]), (&json!("exited"), &json!(3)), "{answer:#}");
            let held = client.call("run_code", &json!({ "language": "python", "code": HOSTILE }));
            assert!(!held.to_string().contains("ran\\n"), "{held:#}");
            let cause = &held["structuredContent"]["cause"];
            assert!(held["isError"] == true || *cause == "quarantined" || *cause == "refused", "{held:#}");
        }
        for name in ["full", "more"] {
            let _ = std::fs::remove_file(format!("{inside}/{name}"));
        }
        client.good("workspace_create", &files);
        let mark = json!({ "argv": ["sh", "-c", "echo again", "a-mark-of-its-own"] });
        assert_eq!(client.good("run_command", &mark)["stdout"]["text"], "again\n");
        client.end();
    });
}

#[test]
fn service_with_little_memory_answers_or_reports() {
    everyone(|user| {
        // Limits on address space: the engine of tools alone asks for gigabytes, and where no byte is left
        // Rust's allocator ends the process with the size that it asked for.
        for (kib, may_end) in [("300000", true), ("600000", false), ("1200000", false), ("6000000", false)] {
            let host = Weak::default().within(&["bash", "-c", "ulimit -v \"$0\" && exec \"$@\"", kib]);
            let mut client = Local::start_on(user, &host, &[], SESSIONS);
            'calls: for n in 0..6 {
                for (tool, arguments) in [
                    ("run_code", json!({ "language": "python", "code": format!("print({n})") })),
                    ("run_command", json!({ "argv": ["echo", n.to_string()] })),
                ] {
                    let answer = match client.call_or_end(tool, &arguments) {
                        Ok(answer) => answer,
                        Err(end) => {
                            assert!(may_end && end.contains("memory allocation of"), "{kib}: {end}");
                            break 'calls;
                        }
                    };
                    assert!(answer.is_object(), "{kib}: {answer:#}");
                    let run = &answer["structuredContent"];
                    let said = if answer["isError"] == true {
                        answer["content"][0]["text"].as_str().unwrap_or_default()
                    } else if run["cause"] == "exited" && run["exit_code"] == 0 {
                        assert_eq!(run["stdout"]["text"], format!("{n}\n"), "{kib}: {answer:#}");
                        continue;
                    } else {
                        run["reason"].as_str().or(run["stderr"]["text"].as_str()).unwrap_or_default()
                    };
                    assert!(!said.is_empty(), "{kib}: {answer:#}");
                }
            }
            client.end();
        }
    });
}

#[test]
fn descriptor_shortage_delays_calls_or_is_named() {
    everyone(|user| {
        for (most, suffices) in
            [("1024", true), ("256", true), ("128", true), ("32", true), ("24", false), ("8", false)]
        {
            let host = Weak::default().within(&["bash", "-c", "ulimit -n \"$0\" && exec \"$@\"", most]);
            let ended = user.hotcell_on(&host, ["run", "--", "echo", "here"]).end();
            if suffices {
                ended.code(0).prints("here\n");
            } else {
                ended.code(125).says("`ulimit -n`");
            }
        }
        // More at once than the host has descriptors for. None of these commands has to be scanned: a
        // reader's own sandbox takes descriptors in addition to those of waiting runs.
        let host = Weak::default().within(&["bash", "-c", "ulimit -n \"$0\" && exec \"$@\"", "160"]);
        let mut client = Local::start_on(user, &host, &[], SESSIONS);
        let calls: Vec<_> = (0..40)
            .map(|n| {
                let arguments = json!({ "argv": ["echo", n.to_string()] });
                client.ask("tools/call", json!({ "name": "run_command", "arguments": arguments }))
            })
            .collect();
        let mut answers = std::collections::HashMap::new();
        while answers.len() < calls.len() {
            let answer = client.said();
            if let Some(id) = answer["id"].as_u64() {
                answers.insert(id, answer);
            }
        }
        for (n, id) in calls.iter().enumerate() {
            let answer = &answers[id];
            assert_eq!(
                answer["result"]["structuredContent"]["stdout"]["text"],
                format!("{n}\n"),
                "{answer:#}"
            );
        }
        client.end();
    });
}

/// Memory that belongs to an ipc namespace and to no process: what is attached nowhere counts too.
#[test]
fn system_v_objects_count_as_memory() {
    const FILL: &str = "import ctypes, sys, time
l = ctypes.CDLL(None)
l.shmat.restype = ctypes.c_void_p
message = ctypes.create_string_buffer(8 + 8192)
message[0] = 1
for _ in range(20000):
    if sys.argv[1] == 'segments':
        at = l.shmget(0, ctypes.c_size_t(1 << 20), 0o1600)
        there = ctypes.c_void_p(l.shmat(at, None, 0))
        ctypes.memset(there, 1, 1 << 20)
        l.shmdt(there)
        if _ > 300: break
    elif sys.argv[1] == 'semaphores':
        l.semget(0, 4000, 0o1600)
        if _ > 1200: break
    else:
        queue = l.msgget(0, 0o1600)
        l.msgsnd(queue, message, ctypes.c_size_t(8192), 0o4000)
        l.msgsnd(queue, message, ctypes.c_size_t(8192), 0o4000)
time.sleep(3)
print('got through')
";
    everyone(|user| {
        let script = user.write("work/fill.py", FILL).display().to_string();
        let shown = format!("{script}:/fill.py");
        for kind in ["segments", "semaphores", "messages"] {
            let words = [
                "run",
                "--guard",
                "off",
                "--memory",
                "32M",
                "--max-disk",
                "16M",
                "--ro",
                &shown,
                "--",
                "/usr/bin/python3",
                "/fill.py",
                kind,
            ];
            user.hotcell(words).end().code(124).prints("").says("memory limit 32 MiB reached");
        }
        // An attached segment counts once.
        let once = FILL
            .replace("1 << 20", "24 << 20")
            .replace("        l.shmdt(there)\n", "")
            .replace("> 300", ">= 0");
        user.write("work/fill.py", once);
        let words = [
            "run",
            "--guard",
            "off",
            "--memory",
            "48M",
            "--ro",
            &shown,
            "--",
            "/usr/bin/python3",
            "/fill.py",
            "segments",
        ];
        user.hotcell(words).end().code(0).prints("got through\n");
    });
}
