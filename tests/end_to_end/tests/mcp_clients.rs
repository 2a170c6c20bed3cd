//! Setup of clients, as a new user does it: in a home folder of their own.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hotcell_end_to_end::{Call, User, everyone};

/// Each client's file below the home folder, and its contents before.
const CLIENTS: [(&str, &str, &str); 8] = [
    ("claude-code", ".claude.json", "{\n  \"userID\": \"1\"\n}\n"),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", "{ \"mcpServers\": {} }"),
    ("cursor", ".cursor/mcp.json", "{\n\t// mine\n\t\"mcpServers\": {}\n}\n"),
    ("vscode", ".config/Code/User/mcp.json", "{\n  // mine\n  \"servers\": {},\n}\n"),
    ("codex", ".codex/config.toml", "# mine\nmodel = \"o3\"\n"),
    ("gemini-cli", ".gemini/settings.json", "{ /* mine */ \"theme\": \"a\" }\n"),
    ("opencode", ".config/opencode/opencode.json", "{\n  // mine\n  \"model\": \"a\"\n}\n"),
    ("zed", ".config/zed/settings.json", "// mine\n{\n  \"vim_mode\": true,\n}\n"),
];

fn mcp(user: &User, words: &[&str]) -> Call {
    user.hotcell(["mcp"]).words(words)
}

fn install(user: &User, client: &str, more: &[&str]) -> Call {
    mcp(user, &["install", "--client", client]).words(more)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Writes a client's file with this text in the user's home.
fn file(user: &User, name: &str, text: &str) -> PathBuf {
    let path = user.path("home").join(name);
    let mut made = user.path("home");
    for part in Path::new(name).parent().into_iter().flatten() {
        made.push(part);
        user.make_folder(made.strip_prefix(user.path("")).expect("it is below").to_str().expect("UTF-8"));
    }
    user.write(Path::new("home").join(name), text);
    path
}

/// Names of the entries of a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let all = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<_> = all.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn entry_is_added_to_clients_and_removed() {
    everyone(|user| {
        let home = user.path("home");
        for (client, name, text) in CLIENTS {
            let path = file(user, name, text);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("ours");
            let done = install(user, client, &[]).end();
            done.code(0).says(&format!("in {}", path.display()));
            done.says(&format!("hotcell mcp check --client {client} tries it"));
            assert!(done.text().contains("+"), "{done:?}");

            let with = read(&path);
            assert!(with.contains(user.binary().to_str().expect("UTF-8")), "{with}");
            assert_eq!(with.contains("mine"), text.contains("mine"), "{with}");
            let backup = PathBuf::from(format!("{}.hotcell-backup", path.display()));
            for kept in [&path, &backup] {
                let mode = kept.metadata().expect("it is there").permissions().mode();
                assert_eq!(mode & 0o777, 0o640, "{}", kept.display());
            }
            assert_eq!(read(&backup), text);

            // The installed server works.
            let checked = mcp(user, &["check", "--client", client, "--json"]).end().code(0).json();
            assert_eq!((&checked["server"], &checked["client"]), (&"hotcell".into(), &client.into()));
            assert!(checked["tools"].as_array().expect("a list").contains(&"run_tests".into()));

            // A second install does nothing, and makes no backup.
            install(user, client, &[]).end().code(0).prints("").says_one_line("nothing was changed");
            assert_eq!(read(&path), with);
            let kept = names(path.parent().expect("a folder"));
            assert_eq!(kept.iter().filter(|n| n.contains("hotcell")).count(), 1, "{kept:?}");

            let gone = mcp(user, &["uninstall", "--client", client, "--json"]).end().code(0).json();
            assert_eq!(gone["action"], "removed");
            assert!(!read(&path).contains("--stdio"), "{}", read(&path));
            assert_eq!(read(&path).contains("mine"), text.contains("mine"));
            mcp(user, &["uninstall", "--client", client]).end().code(125).says_one_line("no entry hotcell");
        }
        // A missing file is created; a personal one is readable by its owner only.
        for (client, name, _) in CLIENTS {
            let path = home.join(name);
            std::fs::remove_dir_all(&home).expect("ours");
            user.make_folder("home");
            let made = install(user, client, &["--json"]).end().code(0).json();
            assert_eq!((&made["action"], &made["backup"]), (&"added".into(), &serde_json::Value::Null));
            assert_eq!(path.metadata().expect("it is there").permissions().mode() & 0o777, 0o600);
            mcp(user, &["check", "--client", client]).end().code(0).silent();
            // Its removal leaves nothing of it, no empty folder either.
            mcp(user, &["uninstall", "--client", client]).end().code(0);
            let first = home.join(Path::new(name).iter().next().expect("a name"));
            assert!(!first.exists(), "{client}: {}", first.display());
        }
    });
}

#[test]
fn entry_by_npx_or_uvx_names_version() {
    let user = User::me();
    let version = env!("CARGO_PKG_VERSION");
    for (by, words) in [
        ("npx", vec!["-y".to_owned(), format!("hotcell@{version}")]),
        ("uvx", vec![format!("hotcell@{version}")]),
    ] {
        let done = install(&user, "codex", &["--by", by, "--replace"]).end();
        done.code(0).says(&format!("did not come by {by}"));
        let done = install(&user, "codex", &["--by", by, "--json"]).end().code(0).json();
        let mut args = words.clone();
        args.extend(["mcp".to_owned(), "--stdio".to_owned()]);
        assert_eq!(done["action"], "unchanged");
        assert_eq!(done["entry"], serde_json::json!({ "command": by, "args": args, "env": {} }));
    }
    // It is hotcell's own, so that it is removed without --any.
    mcp(&user, &["uninstall", "--client", "codex"]).end().code(0);
    let wrong = install(&user, "codex", &["--by", "npm"]).end();
    wrong.code(125).says("npx");
    install(&user, "codex", &["--by", "npx", "--wrap", "other"])
        .end()
        .code(125)
        .says("there is no entry other");
}

#[test]
fn existing_client_entry_needs_replace_option() {
    everyone(|user| {
        let text = "{ \"mcpServers\": { \"hotcell\": { \"command\": \"theirs\" }, \"b\": {} } }\n";
        let path = file(user, ".cursor/mcp.json", text);
        let refused = install(user, "cursor", &[]).end();
        refused.code(125).prints("").says_one_line("there is an entry hotcell already").says("--replace");
        assert_eq!((read(&path).as_str(), names(path.parent().expect("a folder")).len()), (text, 1));

        install(user, "cursor", &["--name", "second"]).end().code(0).says("--name second tries it");
        let done = install(user, "cursor", &["--replace", "--state", "st"]).end();
        done.code(0).says("replaced hotcell of Cursor").says("mcp.json.hotcell-backup.1");
        let now: serde_json::Value = serde_json::from_str(&read(&path)).expect("JSON");
        let state = user.path("work/st").display().to_string();
        assert_eq!(
            now["mcpServers"]["hotcell"]["args"],
            serde_json::json!(["mcp", "--stdio", "--state", state])
        );
        assert_eq!(now["mcpServers"]["b"], serde_json::json!({}));
        let checked = mcp(user, &["check", "--client", "cursor"]).end();
        checked.code(0).silent();
        assert!(user.path("work/st").is_dir(), "the entry's state folder was not used");
    });
}

#[test]
fn install_refuses_links_and_unwritable_files() {
    everyone(|user| {
        // A link, and the file that it leads to.
        let home = user.path("home");
        let target = user.write("work/dotfiles.json", "{}\n");
        user.make_folder("home/.cursor");
        symlink(&target, home.join(".cursor/mcp.json")).expect("a link");
        let refused = install(user, "cursor", &[]).end();
        refused.code(125).says_one_line("is a link to").says(&format!("--file {}", target.display()));
        assert_eq!(read(&target), "{}\n");
        assert!(home.join(".cursor/mcp.json").is_symlink());
        install(user, "cursor", &["--file", "dotfiles.json"]).end().code(0);
        assert!(read(&target).contains("--stdio") && home.join(".cursor/mcp.json").is_symlink());

        // A project whose folder leads elsewhere.
        user.make_folder("work/project");
        user.make_folder("work/elsewhere");
        symlink(user.path("work/elsewhere"), user.path("work/project/.vscode")).expect("a link");
        let project = user.path("work/project");
        let refused = install(user, "vscode", &["--project"]).cwd(&project).end();
        refused.code(125).says_one_line("/.vscode is a link to");
        assert!(names(&user.path("work/elsewhere")).is_empty());

        // Files that are read-only, broken, not regular files, or not text.
        let path = file(user, ".gemini/settings.json", "{}\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).expect("ours");
        install(user, "gemini-cli", &[]).end().code(125).says_one_line("is read-only");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("ours");
        for (text, why) in [
            ("{\n  \"mcpServers\": {\n", "line "),
            ("{ \"mcpServers\": [] }", "mcpServers is not an object"),
            ("{ \"mcpServers\": {}, \"mcpServers\": {} }", "more than once"),
            ("[]", "the file is not an object"),
        ] {
            std::fs::write(&path, text).expect("ours");
            let refused = install(user, "gemini-cli", &[]).end();
            refused.code(125).says_one_line(why).says("settings.json").says("nothing was changed");
            assert_eq!(read(&path), text);
        }
        std::fs::write(&path, b"\xff\xfe{}").expect("ours");
        install(user, "gemini-cli", &[]).end().code(125).says_one_line("is not UTF-8");
        assert_eq!(names(&home.join(".gemini")), ["settings.json"]);
        user.make_folder("home/.claude.json");
        install(user, "claude-code", &[]).end().code(125).says_one_line(".claude.json is not a file");
        user.make_folder("home/.codex");
        nix::unistd::mkfifo(&home.join(".codex/config.toml"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        user.own(&home.join(".codex/config.toml"));
        install(user, "codex", &[]).end().code(125).says_one_line("config.toml is not a file");

        // A folder that cannot be written to.
        if user.is_ordinary() {
            let path = file(user, ".config/zed/settings.json", "{}\n");
            let folder = path.parent().expect("a folder");
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o555)).expect("ours");
            install(user, "zed", &[]).end().code(125).says_one_line("cannot be written");
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("ours");
            assert_eq!((read(&path).as_str(), names(folder)), ("{}\n", vec!["settings.json".to_owned()]));
        }
    });
}

#[test]
fn print_option_writes_no_file() {
    everyone(|user| {
        for (client, _, _) in CLIENTS {
            let printed = install(user, client, &["--print"]).end();
            printed.code(0).says_one_line("this belongs into");
            assert!(printed.text().contains("\"mcp\", \"--stdio\""), "{printed:?}");
            let json = install(user, client, &["--print", "--json"]).end().code(0).silent().json();
            assert_eq!((&json["action"], &json["text"]), (&"printed".into(), &printed.text().into()));
        }
        assert!(names(&user.path("home")).is_empty());
        for (words, why) in [
            (&["install", "--client", "cursr"][..], "did you mean cursor?"),
            (&["install", "--client", "claude"], "did you mean claude-code?"),
            (
                &["install", "--client", "windsurf"],
                "--client \"windsurf\" is not possible; there are claude-code",
            ),
            (&["install"], "--client"),
            (&["instal", "--client", "zed"], "did you mean install?"),
            (&["install", "--client", "zed", "--name", "a b"], "letters, digits, _ and -"),
            (
                &["install", "--client", "claude-desktop", "--project"],
                "Claude Desktop has no file of projects",
            ),
            (&["install", "--client", "zed", "--file", "a", "--project"], "cannot be used with"),
            (&["--http", "127.0.0.1:0", "install", "--client", "zed"], "cannot be used with"),
            (&["check", "--project"], "--project needs a client"),
            (&["check", "--client", "zed"], "hotcell mcp install --client zed adds it"),
            (&["uninstall", "--client", "zed"], "there is no "),
        ] {
            mcp(user, words).end().code(125).prints("").says_one_line(why);
        }
        // Without a home folder.
        let lost = install(user, "zed", &[]).env("HOME", "").end();
        lost.code(125).says_one_line("HOME is not set");
        let moved = install(user, "codex", &[]).env("CODEX_HOME", user.make_folder("moved")).end();
        moved.code(0);
        assert!(user.path("moved/config.toml").is_file());
    });
}

#[test]
fn project_client_file_is_portable() {
    everyone(|user| {
        let project = user.make_folder("work/project");
        let bin = user.binary().parent().expect("a folder").display().to_string();
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
        for (client, name) in [
            ("claude-code", ".mcp.json"),
            ("cursor", ".cursor/mcp.json"),
            ("vscode", ".vscode/mcp.json"),
            ("codex", ".codex/config.toml"),
            ("gemini-cli", ".gemini/settings.json"),
            ("opencode", "opencode.json"),
            ("zed", ".zed/settings.json"),
        ] {
            install(user, client, &["--project"]).cwd(&project).end().code(0);
            let text = read(&project.join(name));
            assert!(text.contains("\"hotcell\"") && !text.contains(&bin), "{text}");
            let check = || mcp(user, &["check", "--client", client, "--project"]).cwd(&project);
            check().env("PATH", &path).end().code(0).silent();
            check()
                .env("PATH", "/usr/bin:/bin")
                .end()
                .code(125)
                .says_one_line("hotcell is not there, or not on PATH");
        }
        assert!(names(&user.path("home")).iter().all(|n| n == ".local"), "{:?}", names(&user.path("home")));
    });
}

#[test]
fn mcp_check_lists_server_offers() {
    everyone(|user| {
        let seen = mcp(user, &["check"]).end();
        seen.code(0).silent();
        for word in [
            "server     hotcell ",
            "MCP 2025-11-25",
            "run_code",
            "hotcell://runs/{id}",
            "profile    standard: ",
        ] {
            assert!(seen.text().contains(word), "no {word}: {seen:?}");
        }
        let json = mcp(user, &["check", "--json"]).end().code(0).silent().json();
        let asked: Vec<_> =
            json["answers"].as_array().expect("a list").iter().map(|a| &a["request"]).collect();
        assert_eq!(asked[..3], ["initialize", "ping", "tools/list"]);
        assert!(json["end_us"].as_u64().is_some_and(|us| us < 3_000_000), "{json:#}");
    });
}

#[test]
fn mcp_check_reports_servers_that_are_switched_off() {
    let user = User::me();
    let project = user.make_folder("home/project");
    install(&user, "gemini-cli", &[]).end().code(0);
    install(&user, "claude-code", &[]).end().code(0);
    let check = |client: &str| mcp(&user, &["check", "--client", client]).cwd(&project).end();
    check("gemini-cli").code(0);
    check("claude-code").code(0);
    // A folder's own settings are joined to the user's.
    file(&user, "project/.gemini/settings.json", "{ \"mcp\": { \"excluded\": [\"hotcell\"] } }");
    check("gemini-cli").code(125).says_one_line("mcp.excluded names it");
    let path = user.path("home").join(".claude.json");
    let mut text: serde_json::Value = serde_json::from_str(&read(&path)).expect("JSON");
    text["projects"][project.to_str().expect("UTF-8")]["disabledMcpServers"] = serde_json::json!(["hotcell"]);
    user.write("home/.claude.json", text.to_string());
    check("claude-code").code(125).says_one_line("disabledMcpServers of this folder");
    mcp(&user, &["check", "--client", "claude-code"]).end().code(0);
}

#[test]
fn mcp_check_explains_broken_servers() {
    everyone(|user| {
        let server = |command: &str, args: &str| {
            let entry = format!("{{ \"command\": \"{command}\", \"args\": [{args}] }}");
            file(user, ".cursor/mcp.json", &format!("{{ \"mcpServers\": {{ \"hotcell\": {entry} }} }}\n"))
        };
        for (command, args, why) in [
            ("no-such-program", "", "no-such-program is not there, or not on PATH"),
            ("/etc/passwd", "", "/etc/passwd cannot be started: "),
            (
                "sh",
                "\"-c\", \"echo the key is missing >&2; exit 3\"",
                "it exited with 3; standard error: the key is missing",
            ),
            ("sh", "\"-c\", \"kill -SEGV $$\"", "signal 11 killed it"),
            ("sh", "\"-c\", \"echo Welcome; cat >/dev/null\"", "not MCP to standard output: Welcome"),
            ("cat", "", "what it was asked, word for word"),
            ("sleep", "\"60\"", "did not answer initialize within 5 s"),
        ] {
            server(command, args);
            let begin = Instant::now();
            let failed = mcp(user, &["check", "--client", "cursor", "--timeout", "5s", "--quiet"]).end();
            failed.code(125).prints("").says_one_line(why);
            assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
            let json = mcp(user, &["check", "--client", "cursor", "--timeout", "5s", "--json"]).end();
            assert_eq!(json.code(125).json()["schema"], "hotcell.error/1");
        }
        for (entry, why) in [
            ("{ \"url\": \"http://127.0.0.1:1/mcp?k=s3cret\" }", "http://127.0.0.1:1/mcp cannot be used: "),
            (
                "{ \"url\": \"http://a/\", \"type\": \"sse\" }",
                "of the older transport (SSE), which is not checked",
            ),
            ("{ \"url\": \"http://a/\", \"disabled\": true }", "it is switched off there"),
            ("{ \"args\": [] }", "it has no command"),
            ("{ \"command\": \"a\", \"args\": [1] }", "its args are not a list of texts"),
            ("7", "not a table of settings"),
        ] {
            file(user, ".cursor/mcp.json", &format!("{{ \"mcpServers\": {{ \"hotcell\": {entry} }} }}\n"));
            mcp(user, &["check", "--client", "cursor"]).end().code(125).says_one_line(why);
        }
        file(user, ".cursor/mcp.json", "{ \"mcpServers\": { \"hotcel\": {} } }\n");
        let near = mcp(user, &["check", "--client", "cursor"]).end();
        near.code(125).says_one_line("did you mean --name hotcel?");
    });
}

#[test]
fn folder_and_entry_are_written_together_or_neither() {
    everyone(|user| {
        let project = user.make_folder("project");
        let folder = ["--folder", project.to_str().expect("UTF-8"), "--config"];
        let entry = user.path("home/.cursor/mcp.json");
        for (text, mode, why) in [
            ("guard = \"report\"\n", 0o444, "is read-only"),
            ("mcp = 1\n", 0o644, "mcp is not a table"),
            ("[mcp\n", 0o644, "c.toml"),
        ] {
            user.write("home/c.toml", text);
            let config = user.path("home/c.toml");
            std::fs::set_permissions(&config, std::fs::Permissions::from_mode(mode)).expect("ours");
            for before in [None, Some("{ \"mcpServers\": {} }\n")] {
                let _ = std::fs::remove_dir_all(user.path("home/.cursor"));
                before.map(|text| file(user, ".cursor/mcp.json", text));
                let words = [&folder[..], &[config.to_str().expect("UTF-8")]].concat();
                install(user, "cursor", &words).end().code(125).says_one_line(why);
                assert_eq!(std::fs::read_to_string(&entry).ok().as_deref(), before, "{why}");
                assert!(names(&user.path("home")).iter().all(|name| !name.contains("backup")));
            }
            let _ = std::fs::remove_file(&config);
        }
        let config = user.path("home/c.toml");
        let words = [&folder[..], &[config.to_str().expect("UTF-8"), "--json"]].concat();
        let _ = std::fs::remove_dir_all(user.path("home/.cursor"));
        let done = install(user, "cursor", &words).end().code(0).json();
        assert_eq!(done["allowed"]["folder"], folder[1]);
        assert!(read(&config).contains(folder[1]) && read(&entry).contains("--stdio"));
    });
}

/// Whatever the form of a client's file: the other server is put behind hotcell, and the file comes back byte for byte.
#[test]
fn other_servers_are_wrapped_and_taken_back() {
    everyone(|user| {
        let plain = "{\n  // mine\n  \"mcpServers\": {\n    \"notes\": { \"command\": \"npx\", \"args\": [\"-y\", \"server\"], \"env\": { \"API_KEY\": \"s3cret\" } },\n    \"far\": { \"url\": \"https://example.org\" }\n  }\n}\n";
        let table = "# mine\n[mcp_servers.notes]\ncommand = \"npx\"\nargs = [\"-y\", \"server\"]\nenv = { API_KEY = \"s3cret\" }\n";
        for (client, path, text) in [
            ("gemini-cli", ".gemini/settings.json", plain),
            ("cursor", ".cursor/mcp.json", plain),
            ("codex", ".codex/config.toml", table),
        ] {
            let path = file(user, path, text);
            let done = install(user, client, &["--wrap", "notes", "--json"]).end().code(0).json();
            let args = done["entry"]["args"].as_array().expect("arguments");
            let args: Vec<_> = args.iter().map(|word| word.as_str().unwrap()).collect();
            let want = ["mcp", "wrap", "--name", "notes", "--env", "API_KEY", "--", "npx", "-y", "server"];
            assert_eq!(args, want, "{client}");
            assert!(read(&path).contains("mine") && read(&path).contains("s3cret"), "{}", read(&path));
            install(user, client, &["--wrap", "notes"]).end().code(0).says("already");
            install(user, client, &["--wrap", "note"]).end().code(125).says("note");
            let back = |more: &[&str]| {
                mcp(user, &["uninstall", "--client", client, "--wrap", "notes"]).words(more).end()
            };
            back(&[]).code(0);
            assert_eq!(read(&path), text, "{client}");
            back(&[]).code(125).says("is not behind hotcell");
            let left = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
            assert_eq!(left, 1, "{client}: copies are left");
            // With another change in between, the entry alone is taken back.
            install(user, client, &["--wrap", "notes"]).end().code(0);
            std::fs::write(&path, read(&path).replace("mine", "mine and more")).unwrap();
            back(&[]).code(0);
            assert!(
                read(&path).contains("mine and more") && !read(&path).contains("wrap"),
                "{}",
                read(&path)
            );
        }
        let path = file(user, ".cursor/mcp.json", plain);
        for by in ["npx", "uvx"] {
            let done =
                install(user, "cursor", &["--wrap", "notes", "--by", by, "--json"]).end().code(0).json();
            let first =
                done["entry"]["args"].as_array().expect("arguments").iter().map_while(|word| word.as_str());
            let first: Vec<_> = first.take_while(|word| *word != "--name").collect();
            let package = format!("hotcell@{}", env!("CARGO_PKG_VERSION"));
            let words =
                [&["-y"][..if by == "npx" { 1 } else { 0 }], &[package.as_str(), "mcp", "wrap"]].concat();
            assert_eq!((done["entry"]["command"].as_str(), first), (Some(by), words), "{by}");
            install(user, "cursor", &["--wrap", "notes"]).end().code(0).says("already");
            mcp(user, &["uninstall", "--client", "cursor", "--wrap", "notes"]).end().code(0);
            assert_eq!(read(&path), plain, "{by}");
        }
        install(user, "cursor", &["--wrap", "notes", "--by", "pipx"]).end().code(125).says_one_line("--by");
        install(user, "cursor", &["--wrap", "far"]).end().code(125).says("does not start a program");
        // All that start a program, except hotcell's own server.
        let own = plain.replace(
            "\"far\":",
            "\"time\": { \"command\": \"uvx\", \"args\": [\"mcp-server-time\"] },\n    \"hotcell\": { \"command\": \"hotcell\", \"args\": [\"mcp\"] },\n    \"far\":",
        );
        let path = file(user, ".gemini/settings.json", &own);
        let refused = install(user, "gemini-cli", &["--wrap", "all", "--json"]).end();
        assert_eq!(refused.code(125).json()["field"], "--wrap", "{refused:#?}");
        install(user, "gemini-cli", &["--wrap", "all"]).end().code(0);
        assert_eq!(read(&path).matches("\"wrap\"").count(), 2, "{}", read(&path));
        install(user, "gemini-cli", &["--wrap", "all"]).end().code(125).says("nothing was changed");
        let back = || mcp(user, &["uninstall", "--client", "gemini-cli", "--wrap", "all"]).end();
        back().code(0);
        assert_eq!(read(&path), own);
        back().code(125).says("no entry is behind hotcell");
    });
}
