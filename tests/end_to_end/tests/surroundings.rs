//! Surroundings of a program: environment, workspace, binds, toolchains, source files.

use hotcell_end_to_end::{everyone, find};

#[test]
fn environment_is_minimal() {
    everyone(|user| {
        let ended = user.run(["env"]).env("SECRET", "token").end();
        let mut names: Vec<String> =
            ended.code(0).text().lines().filter_map(|l| l.split('=').next().map(str::to_owned)).collect();
        names.sort();
        // Variables for thread pools depend on the number of processors.
        names.retain(|name| !name.ends_with("_THREADS") && name != "GOMAXPROCS");
        assert_eq!(
            names,
            [
                "CARGO_NET_RETRY",
                "DOTNET_GCHeapHardLimit",
                "GOMEMLIMIT",
                "HOME",
                "LANG",
                "LSAN_OPTIONS",
                "PATH",
                "PIP_RETRIES",
                "PYTHONUNBUFFERED",
                "TMPDIR",
                "npm_config_fetch_retries"
            ]
        );
        let words = [
            "run",
            "--env",
            "A=b=c",
            "--env",
            "SECRET",
            "--env",
            "HOME=/tmp",
            "--",
            "sh",
            "-c",
            "echo $A $SECRET $HOME",
        ];
        user.hotcell(words).env("SECRET", "token").end().code(0).prints("b=c token /tmp\n");
        let ended = user.hotcell(["run", "--env", "NOT_SET", "--", "sh", "-c", "echo ${NOT_SET-none}"]).end();
        ended.code(0).prints("none\n").says_one_line("NOT_SET");
    });
}

#[test]
fn workspace_is_start_folder_and_unwritten() {
    everyone(|user| {
        user.make_folder("work/project");
        let file = user.write("work/project/file", "old\n");
        let script = "pwd; cat file; echo new > file; echo x > other; cat file";
        let words = ["run", "--workspace", "project", "--", "sh", "-c", script];
        user.hotcell(words).end().code(0).prints("/home/sandbox/project\nold\nnew\n");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "old\n");
        assert!(!user.path("work/project/other").exists());
        user.write_program("work/project/tool", "#!/bin/sh\necho tool $1\n");
        user.hotcell(["run", "--workspace", "project", "--", "./tool", "x"]).end().code(0).prints("tool x\n");
    });
}

#[test]
fn read_only_and_writable_binds() {
    everyone(|user| {
        user.make_folder("work/data");
        user.write("work/data/in", "input\n");
        let out = user.make_folder("work/out");
        let script = "cat /data/in; echo result > /out/file; echo no > /data/in";
        let words = ["run", "--ro", "data:/data", "--rw", "out:/out", "--", "sh", "-c", script];
        let ended = user.hotcell(words).end();
        assert_ne!(ended.code, Some(0), "a read-only bind was written");
        ended.prints("input\n");
        assert_eq!(std::fs::read_to_string(out.join("file")).unwrap(), "result\n");
        assert_eq!(std::fs::read_to_string(user.path("work/data/in")).unwrap(), "input\n");
        // Without a path inside, at its own path.
        let data = user.path("work/data/in");
        user.hotcell(["run", "--ro", "data", "--", "cat", data.to_str().unwrap()])
            .end()
            .code(0)
            .prints("input\n");
        let outcome =
            user.hotcell(["run", "--json", "--ro", "data:/data", "--", "true"]).end().code(0).json();
        let mounts = outcome["mounts"].as_array().unwrap();
        assert!(
            mounts.iter().any(|m| m["inside"] == "/data" && m["kind"] == "bind" && m["writable"] == false)
        );
    });
}

#[test]
fn named_toolchain_is_on_path() {
    everyone(|user| {
        user.make_folder("tools");
        user.make_folder("tools/bin");
        user.write_program("tools/bin/mytool", "#!/bin/sh\necho mine\n");
        user.run(["mytool"]).end().code(127);
        let tools = user.path("tools");
        let words = ["run", "--toolchain", tools.to_str().unwrap(), "--"];
        user.hotcell(words.into_iter().chain(["mytool"])).end().code(0).prints("mine\n");
        user.hotcell(words.into_iter().chain(["sh", "-c", "mytool"])).end().code(0).prints("mine\n");
    });
}

#[test]
fn project_link_outside_needs_user_option() {
    everyone(|user| {
        user.make_folder("private");
        user.write_program("private/tool", "#!/bin/sh\necho private\n");
        let project = user.make_folder("work/project");
        std::os::unix::fs::symlink(user.path("private/tool"), project.join("tool")).unwrap();
        let run = ["run", "--workspace", "project"];
        let ended = user.hotcell(run.into_iter().chain(["--", "./tool"])).end();
        ended.code(125).prints("").says_one_line("--toolchain");
        let private = user.path("private");
        let words = run.into_iter().chain(["--toolchain", private.to_str().unwrap(), "--", "./tool"]);
        user.hotcell(words).end().code(0).prints("private\n");
    });
}

#[test]
fn source_files_and_sources_on_standard_input() {
    everyone(|user| {
        user.write("work/hello.sh", "echo $0 $1; cat\n");
        let words = ["run", "--lang", "bash", "hello.sh", "--", "arg"];
        user.hotcell(words).input("fed").end().code(0).prints("/home/sandbox/hello.sh arg\nfed");
        user.hotcell(["run", "--lang", "bash", "-"])
            .input("echo from stdin; cat")
            .end()
            .code(0)
            .prints("from stdin\n");
        user.hotcell(["run", "--lang", "bash", "none.sh"]).end().code(125).says_one_line("none.sh");
        user.hotcell(["run", "--lang", "bash", "."]).end().code(125).says_one_line("not a file");
        user.hotcell(["run", "--lang", "bash", "--stdin", "-", "-"])
            .end()
            .code(125)
            .says_one_line("standard input");
        // In the workspace it stays at its path.
        user.make_folder("work/project");
        user.write("work/project/main.sh", "pwd; echo $0\n");
        let words = ["run", "--lang", "bash", "--workspace", "project", "project/main.sh"];
        user.hotcell(words).end().code(0).prints("/home/sandbox/project\n/home/sandbox/project/main.sh\n");
        // An ordinary user can only rely on a Python of the system.
        if find("python3").is_some_and(|p| p.starts_with("/usr") || !user.is_ordinary()) {
            user.write("work/six.py", "print(6 * 7)\n");
            user.hotcell(["run", "--lang", "python", "six.py"]).end().code(0).prints("42\n");
            user.hotcell(["run", "--lang", "python", "-"]).input("raise SystemExit(5)").end().code(5);
        }
    });
}
