//! `hotcell init` and `hotcell man`, as a new user types them.

use std::os::unix::fs::PermissionsExt;

use hotcell_end_to_end::{User, everyone};

fn read(user: &User, name: &str) -> String {
    std::fs::read_to_string(user.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn init_writes_configuration_once_and_sets_up_named_clients() {
    everyone(|user| {
        let file = "home/.config/hotcell/config.toml";
        user.make_folder("home/.codex");
        let done = user.hotcell(["init"]).end();
        done.code(0).says("wrote ").prints("Codex           hotcell mcp install --client codex\n");
        let text = read(user, file);
        let mode = user.path(file).metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(text.contains("\n#guard = \"enforce\"\n"), "{text}");

        // With a setting in force, runs use it, and a second init keeps it.
        let mine = text.replace("#env = { LANG = \"C.UTF-8\" }", "env = { COLOUR = \"red\" }");
        user.write(file, &mine);
        user.hotcell(["run", "--", "printenv", "COLOUR"]).end().code(0).prints("red\n");
        let again = user.hotcell(["init", "--json", "--client", "codex,cursor"]).end().code(0).json();
        assert_eq!((&again["action"], &again["settings"]), (&"kept".into(), &["env"][..].into()));
        let clients = again["clients"].as_array().expect("a list");
        assert_eq!(clients.len(), 2, "{again}");
        for (client, file) in clients.iter().zip(["home/.cursor/mcp.json", "home/.codex/config.toml"]) {
            assert_eq!(
                (&client["state"], &client["installed"]["action"]),
                (&"set_up".into(), &"added".into())
            );
            assert!(read(user, file).contains("--stdio"));
        }
        assert_eq!(read(user, file), mine);

        // A mistake is named; force keeps it beside the new file.
        user.write(file, "gaurd = \"off\"\n");
        user.hotcell(["init"]).end().code(125).says("config.toml:1: ").says("--force");
        user.hotcell(["init", "--force", "--quiet"]).end().code(0).silent();
        assert_eq!(read(user, file), text);
        assert_eq!(read(user, &format!("{file}.hotcell-backup")), "gaurd = \"off\"\n");
    });
}

#[test]
fn init_asks_for_each_client_on_a_terminal() {
    let user = User::me();
    for (typed, want) in [("n\n", false), ("\u{4}", false), ("y\n", true)] {
        user.make_folder("home/.codex");
        let shown = user.hotcell(["init"]).typed_in_a_terminal(typed);
        assert!(shown.contains("add hotcell to Codex? [y/N]"), "{shown}");
        assert_eq!(user.path("home/.codex/config.toml").exists(), want, "{typed:?}: {shown}");
    }
    // A client that starts hotcell already is not a question.
    let shown = user.hotcell(["init"]).typed_in_a_terminal("");
    assert!(!shown.contains('?') && shown.contains("Codex           starts hotcell"), "{shown}");
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let user = User::me();
    let page = user.hotcell(["man", "runs", "show"]).end().code(0).text();
    assert!(page.contains("hotcell 0.") && page.contains(".SH OPTIONS"), "{page}");
    user.hotcell(["man", "--dir", "man"]).end().code(0).silent();
    for name in ["hotcell.1", "hotcell-run.1", "hotcell-mcp-install.1"] {
        assert!(read(&user, &format!("work/man/{name}")).starts_with(".ie"), "{name}");
    }
    user.hotcell(["man", "rum"]).end().code(125).says("did you mean run?");
}
