//! Golden tests: each client's file with the entry in it, and edits that must not happen.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;

fn ours() -> Entry {
    let args = ["mcp", "--stdio"].map(str::to_owned).to_vec();
    Entry { command: "/usr/bin/hotcell".to_owned(), args, env: BTreeMap::new() }
}

/// Files before and after the edit.
const FILES: [(Client, &str, &str); 16] = [
    (
        Client::ClaudeCode,
        r#"{
  "numStartups": 34,
  "projects": {
    "/home/me/x": { "allowedTools": [], "mcpServers": { "hotcell": {} } }
  },
  "mcpServers": {
    "other": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "other"],
      "env": {}
    }
  },
  "userID": "1"
}
"#,
        r#"{
  "numStartups": 34,
  "projects": {
    "/home/me/x": { "allowedTools": [], "mcpServers": { "hotcell": {} } }
  },
  "mcpServers": {
    "other": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "other"],
      "env": {}
    },
    "hotcell": {
      "type": "stdio",
      "command": "/usr/bin/hotcell",
      "args": ["mcp", "--stdio"]
    }
  },
  "userID": "1"
}
"#,
    ),
    (
        Client::ClaudeDesktop,
        "{\n    \"globalShortcut\": \"\"\n}",
        r#"{
    "globalShortcut": "",
    "mcpServers": {
        "hotcell": {
            "command": "/usr/bin/hotcell",
            "args": ["mcp", "--stdio"]
        }
    }
}"#,
    ),
    (
        Client::Cursor,
        "{\n\t\"mcpServers\": {}\n}\n",
        "{\n\t\"mcpServers\": {\n\t\t\"hotcell\": {\n\t\t\t\"command\": \"/usr/bin/hotcell\",\n\t\t\t\"args\": [\"mcp\", \"--stdio\"]\n\t\t}\n\t}\n}\n",
    ),
    (
        Client::Vscode,
        r#"{
  // what the team uses
  "inputs": [],
  "servers": {
    /* do not touch */
    "memory": { "command": "npx", "args": ["-y", "m"] }, // the last one
  },
}
"#,
        r#"{
  // what the team uses
  "inputs": [],
  "servers": {
    /* do not touch */
    "memory": { "command": "npx", "args": ["-y", "m"] }, // the last one
    "hotcell": {
      "type": "stdio",
      "command": "/usr/bin/hotcell",
      "args": ["mcp", "--stdio"],
    },
  },
}
"#,
    ),
    (
        Client::Codex,
        r#"# mine
model = "gpt-5"   # the good one

[mcp_servers.docs] # theirs
command = 'docs'
args = [ "a",
         "b" ]

[profiles.x]
model = "o3"
"#,
        r#"# mine
model = "gpt-5"   # the good one

[mcp_servers.docs] # theirs
command = 'docs'
args = [ "a",
         "b" ]

[mcp_servers.hotcell]
command = "/usr/bin/hotcell"
args = ["mcp", "--stdio"]

[profiles.x]
model = "o3"
"#,
    ),
    (
        Client::Codex,
        "model = \"o3\"\n",
        "model = \"o3\"\n\n[mcp_servers.hotcell]\ncommand = \"/usr/bin/hotcell\"\nargs = [\"mcp\", \"--stdio\"]\n",
    ),
    (
        Client::GeminiCli,
        "{ \"theme\": \"dark\" }",
        r#"{
  "theme": "dark",
  "mcpServers": {
    "hotcell": {
      "command": "/usr/bin/hotcell",
      "args": ["mcp", "--stdio"]
    }
  }
}"#,
    ),
    (
        Client::Opencode,
        "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {\n    \"servers\": { \"type\": \"local\", \"command\": [\"a\"] }\n  }\n}\n",
        "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {\n    \"servers\": { \"type\": \"local\", \"command\": [\"a\"] },\n    \"hotcell\": {\n      \"type\": \"local\",\n      \"command\": [\"/usr/bin/hotcell\", \"mcp\", \"--stdio\"]\n    }\n  }\n}\n",
    ),
    (
        Client::Opencode,
        "{\n  \"mcp\": {\n    // version 2\n    \"servers\": {\n      \"a\": { \"type\": \"local\", \"command\": [\"a\"] },\n    },\n  },\n}\n",
        "{\n  \"mcp\": {\n    // version 2\n    \"servers\": {\n      \"a\": { \"type\": \"local\", \"command\": [\"a\"] },\n      \"hotcell\": {\n        \"type\": \"local\",\n        \"command\": [\"/usr/bin/hotcell\", \"mcp\", \"--stdio\"],\n      },\n    },\n  },\n}\n",
    ),
    (
        Client::Zed,
        "// Zed settings\n{\n  \"theme\": \"One\", // dark\n  \"vim_mode\": true\n}\n",
        "// Zed settings\n{\n  \"theme\": \"One\", // dark\n  \"vim_mode\": true,\n  \"context_servers\": {\n    \"hotcell\": {\n      \"command\": \"/usr/bin/hotcell\",\n      \"args\": [\"mcp\", \"--stdio\"]\n    }\n  }\n}\n",
    ),
    (
        Client::Copilot,
        "{\n  \"mcpServers\": {}\n}\n",
        "{\n  \"mcpServers\": {\n    \"hotcell\": {\n      \"type\": \"local\",\n      \"command\": \"/usr/bin/hotcell\",\n      \"args\": [\"mcp\", \"--stdio\"],\n      \"tools\": [\"*\"]\n    }\n  }\n}\n",
    ),
    (
        Client::Cline,
        "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"a\"\n    }\n  }\n}\n",
        "{\n  \"mcpServers\": {\n    \"a\": {\n      \"command\": \"a\"\n    },\n    \"hotcell\": {\n      \"command\": \"/usr/bin/hotcell\",\n      \"args\": [\"mcp\", \"--stdio\"]\n    }\n  }\n}\n",
    ),
    (
        Client::Continue,
        "{\n  \"mcpServers\": {}\n}\n",
        "{\n  \"mcpServers\": {\n    \"hotcell\": {\n      \"command\": \"/usr/bin/hotcell\",\n      \"args\": [\"mcp\", \"--stdio\"]\n    }\n  }\n}\n",
    ),
    (
        Client::QwenCode,
        "{\n  // mine\n  \"mcpServers\": {}\n}\n",
        "{\n  // mine\n  \"mcpServers\": {\n    \"hotcell\": {\n      \"command\": \"/usr/bin/hotcell\",\n      \"args\": [\"mcp\", \"--stdio\"]\n    }\n  }\n}\n",
    ),
    (
        Client::Goose,
        "# mine\nGOOSE_MODE: auto\n\nextensions:\n    # theirs\n    developer:\n        enabled: true\n        type: builtin\n",
        "# mine\nGOOSE_MODE: auto\n\nextensions:\n    hotcell:\n      enabled: true\n      type: stdio\n      name: \"hotcell\"\n      cmd: \"/usr/bin/hotcell\"\n      args: [\"mcp\", \"--stdio\"]\n      envs: {}\n      timeout: 300\n    # theirs\n    developer:\n        enabled: true\n        type: builtin\n",
    ),
    (
        Client::Goose,
        "GOOSE_MODE: auto",
        "GOOSE_MODE: auto\nextensions:\n  hotcell:\n    enabled: true\n    type: stdio\n    name: \"hotcell\"\n    cmd: \"/usr/bin/hotcell\"\n    args: [\"mcp\", \"--stdio\"]\n    envs: {}\n    timeout: 300\n",
    ),
];

#[test]
fn entry_insertion_changes_nothing_else() {
    for (client, old, want) in FILES {
        let new = client.with(Some(old), "hotcell", &ours(), false).unwrap();
        assert_eq!(new, want, "{client:?}\n{new}");
        assert_eq!(client.read(&new, "hotcell"), Ok(Found::Program(ours())), "{client:?}");
        // A second time changes nothing.
        assert_eq!(client.with(Some(&new), "hotcell", &ours(), false).as_ref(), Ok(&new), "{client:?}");
    }
    for client in Client::ALL {
        assert!(FILES.iter().any(|(c, _, _)| *c == client), "{client:?} has no file here");
    }
}

#[test]
fn printed_entry_is_a_complete_file() {
    for client in Client::ALL {
        let text = client.with(None, "hotcell", &ours(), false).unwrap();
        assert!(client.with(Some(" \n"), "hotcell", &ours(), false).is_ok());
        assert_eq!(client.read(&text, "hotcell"), Ok(Found::Program(ours())), "{text}");
        assert!(text.ends_with('\n') && !text.contains('\t'), "{text}");
    }
    let text = Client::Opencode.with(None, "hotcell", &ours(), false).unwrap();
    assert!(text.starts_with("{\n  \"$schema\": \"https://opencode.ai/config.json\",\n"), "{text}");
    let text = Client::Codex.with(None, "hotcell", &ours(), false).unwrap();
    assert_eq!(
        text,
        "[mcp_servers.hotcell]\ncommand = \"/usr/bin/hotcell\"\nargs = [\"mcp\", \"--stdio\"]\n"
    );
}

#[test]
fn client_pages_show_written_entries() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/clients");
    let entry = Entry { command: "/usr/local/bin/hotcell".to_owned(), ..ours() };
    for client in Client::ALL {
        let page = std::fs::read_to_string(pages.join(format!("{}.md", client.name()))).unwrap();
        let text = client.with(None, "hotcell", &entry, false).unwrap();
        assert!(page.contains(&format!("\n{text}```\n")), "{client:?}: {text}");
        let kind = client.kind();
        assert!(page.contains(kind.page) && page.starts_with(&format!("# {}\n", kind.title)), "{client:?}");
        let home = Places { home: Some("~".into()), ..Places::default() };
        let file = client.file(false, &home, |_| false).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(page.contains(name) && page.contains(file.parent().unwrap().to_str().unwrap()), "{file:?}");
    }
}

#[test]
fn existing_entry_is_replaced_on_request_only() {
    for (client, _, with) in FILES {
        let mut other = ours();
        other.args.push("--state".to_owned());
        other.args.push("/srv/a \"b\" \\ é".to_owned());
        other.env.insert("A".to_owned(), "1".to_owned());
        let refused = client.with(Some(with), "hotcell", &other, false);
        assert_eq!(refused, Err(Problem::Exists("hotcell".to_owned())), "{client:?}");
        let new = client.with(Some(with), "hotcell", &other, true).unwrap();
        assert_eq!(client.read(&new, "hotcell"), Ok(Found::Program(other)), "{new}");
        // Removing the entry restores the file.
        assert_eq!(client.with(Some(&new), "hotcell", &ours(), true).as_deref(), Ok(with), "{client:?}");
    }
}

#[test]
fn inserted_entry_can_be_removed() {
    for (client, old, with) in FILES {
        let without = client.without(with, "hotcell").unwrap();
        assert!(matches!(client.read(&without, "hotcell"), Err(Problem::Missing(..))), "{without}");
        for comment in [
            "// what the team uses",
            "/* do not touch */",
            "// the last one",
            "# mine",
            "# theirs",
            "// dark",
        ] {
            assert_eq!(without.contains(comment), old.contains(comment), "{comment}: {without}");
        }
        let again = client.without(&without, "hotcell");
        assert!(matches!(again, Err(Problem::Missing(..))), "{again:?}");
    }
    let text = "[mcp_servers.hot]\ncommand = \"a\"\n";
    assert_eq!(
        Client::Codex.without(text, "hotcell"),
        Err(Problem::Missing("hotcell".to_owned(), vec!["hot".to_owned()]))
    );
}

#[test]
fn unusable_client_files_are_explained() {
    let broken = |client: Client, text: &str| {
        for result in [client.with(Some(text), "hotcell", &ours(), true), client.without(text, "hotcell")] {
            let Err(problem) = result else { panic!("{client:?}: {text}") };
            assert!(matches!(problem, Problem::Broken { .. }), "{client:?}: {text}: {problem:?}");
        }
        client.with(Some(text), "hotcell", &ours(), true).unwrap_err().to_string()
    };
    assert!(broken(Client::Cursor, "{\n  \"mcpServers\": {").starts_with("line "));
    for text in [
        "{ a: 1 }",
        "{ 'a': 1 }",
        "{ \"a\": 0x1 }",
        "{ \"a\": 1 \"b\": 2 }",
        "{ \"a\": NaN }",
        "{} {}",
        "[1",
        "{,}",
    ] {
        broken(Client::Zed, text);
    }
    // Plain JSON has no comments: the client could not read the file.
    assert!(broken(Client::ClaudeCode, "{ // mine\n}").contains("Claude Code reads plain JSON"));
    assert_eq!(broken(Client::ClaudeCode, "{ 1 }"), "line 1, column 3: key must be a string");
    let deep = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    for client in [Client::ClaudeCode, Client::Zed] {
        broken(client, &deep);
    }
    broken(Client::ClaudeDesktop, "{ \"a\": 1, }");
    assert!(broken(Client::Codex, "a = 1\nb = \n").starts_with("line 2, column "));
    broken(Client::Codex, "[a]\n[a]\n");

    let problem = |client: Client, text: &str| client.with(Some(text), "hotcell", &ours(), true).unwrap_err();
    assert_eq!(problem(Client::Zed, "[]"), Problem::Form("the file".to_owned(), "an object"));
    for text in ["{\"mcpServers\": []}", "{\"mcpServers\": null}", "{\"mcpServers\": \"\"}"] {
        assert_eq!(
            problem(Client::Cursor, text),
            Problem::Form("mcpServers".to_owned(), "an object"),
            "{text}"
        );
    }
    for text in ["{\"mcpServers\": {}, \"mcpServers\": {}}", "{\"mcpServers\": {}, \"mcp\\u0053ervers\": {}}"]
    {
        assert_eq!(problem(Client::Cursor, text), Problem::Twice("mcpServers".to_owned()), "{text}");
    }
    let twice = "{\"mcpServers\": {\"hotcell\": {}, \"hotcell\": {}}}";
    assert_eq!(problem(Client::Cursor, twice), Problem::Twice("hotcell".to_owned()));
    // Of other entries a client could take the one that was not looked at.
    for (client, text, key) in [
        (
            Client::Cursor,
            r#"{"mcpServers": {"b": {"command": "x"}, "b": {"command": "y"}, "c": {"command": "z"}}}"#,
            "b",
        ),
        (
            Client::Cursor,
            r#"{"mcpServers": {"b": {"command": "x", "args": [], "c\u006fmmand": "y"}}}"#,
            "command",
        ),
        (Client::Zed, r#"{/**/"a": [{"x": {"env": 1, "env": 2,},},],}"#, "env"),
    ] {
        assert_eq!(problem(client, text), Problem::Twice(key.to_owned()), "{text}");
    }
    assert_eq!(problem(Client::Codex, "mcp_servers = 1"), Problem::Form("mcp_servers".to_owned(), "a table"));
}

#[test]
fn unusual_files_stay_as_they_are() {
    // Line endings and a byte order mark.
    let old = "\u{feff}{\r\n  \"mcpServers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n";
    let new = Client::Cursor.with(Some(old), "hotcell", &ours(), false).unwrap();
    assert!(
        new.starts_with("\u{feff}{\r\n") && new.matches('\n').count() == new.matches("\r\n").count(),
        "{new:?}"
    );
    // Servers on one line, and other spellings of keys in TOML.
    for old in [
        "mcp_servers = { a = { command = \"a\" } } # one\nz = 1\n",
        "mcp_servers.a.command = \"a\" # one\nz = 1\n",
    ] {
        let new = Client::Codex.with(Some(old), "hotcell", &ours(), false).unwrap();
        assert!(new.contains("# one") && new.contains("z = 1"), "{new}");
        assert_eq!(Client::Codex.read(&new, "hotcell"), Ok(Found::Program(ours())), "{new}");
        assert!(Client::Codex.read(&new, "a").is_ok(), "{new}");
    }
    // Numbers that do not fit into any numeric type.
    let old = "{\"n\": 123456789012345678901234567890.5, \"mcpServers\": {}}";
    let new = Client::Cursor.with(Some(old), "hotcell", &ours(), false).unwrap();
    assert!(new.contains("123456789012345678901234567890.5"), "{new}");
}

#[test]
fn entries_of_other_forms_are_understood() {
    for (client, text, want) in [
        (
            Client::Cursor,
            r#"{"mcpServers":{"hotcell":{"url":"http://a/mcp"}}}"#,
            Found::Address(Address { url: "http://a/mcp".into(), ..Address::default() }),
        ),
        (
            Client::GeminiCli,
            r#"{"mcpServers":{"hotcell":{"httpUrl":"http://b"}}}"#,
            Found::Address(Address { url: "http://b".into(), ..Address::default() }),
        ),
        (
            Client::Cursor,
            r#"{"mcpServers":{"hotcell":{"args":[]}}}"#,
            Found::Other("it has no command".into()),
        ),
        (
            Client::Opencode,
            r#"{"mcp":{"hotcell":{"type":"local","command":["a"],"enabled":false}}}"#,
            Found::Other("it is switched off there".into()),
        ),
        (
            Client::Opencode,
            r#"{"mcp":{"hotcell":{"type":"local","command":["a","b"],"environment":{"C":"d"}}}}"#,
            Found::Program(Entry {
                command: "a".into(),
                args: vec!["b".into()],
                env: BTreeMap::from([("C".to_owned(), "d".to_owned())]),
            }),
        ),
        (
            Client::Codex,
            "[mcp_servers.hotcell]\ncommand = \"a\"\n[mcp_servers.hotcell.env]\nC = \"d\"\n",
            Found::Program(Entry {
                command: "a".into(),
                args: Vec::new(),
                env: BTreeMap::from([("C".to_owned(), "d".to_owned())]),
            }),
        ),
    ] {
        assert_eq!(client.read(text, "hotcell"), Ok(want), "{text}");
    }
}

#[test]
fn client_files_have_their_usual_paths() {
    let places = Places {
        home: Some("/home/me".into()),
        config: None,
        codex: None,
        claude: None,
        cline: None,
        copilot: None,
        project: "/src/p".into(),
    };
    let moved = Places {
        config: Some("/c".into()),
        codex: Some("/x".into()),
        claude: Some("/l".into()),
        cline: Some("/n/servers.json".into()),
        copilot: Some("/o".into()),
        ..places.clone()
    };
    let none = |_: &Path| false;
    for (client, user, elsewhere, project) in [
        (Client::ClaudeCode, "/home/me/.claude.json", "/l/.claude.json", Some("/src/p/.mcp.json")),
        (
            Client::ClaudeDesktop,
            "/home/me/.config/Claude/claude_desktop_config.json",
            "/c/Claude/claude_desktop_config.json",
            None,
        ),
        (
            Client::Cursor,
            "/home/me/.cursor/mcp.json",
            "/home/me/.cursor/mcp.json",
            Some("/src/p/.cursor/mcp.json"),
        ),
        (
            Client::Vscode,
            "/home/me/.config/Code/User/mcp.json",
            "/c/Code/User/mcp.json",
            Some("/src/p/.vscode/mcp.json"),
        ),
        (Client::Codex, "/home/me/.codex/config.toml", "/x/config.toml", Some("/src/p/.codex/config.toml")),
        (
            Client::GeminiCli,
            "/home/me/.gemini/settings.json",
            "/home/me/.gemini/settings.json",
            Some("/src/p/.gemini/settings.json"),
        ),
        (
            Client::Opencode,
            "/home/me/.config/opencode/opencode.json",
            "/c/opencode/opencode.json",
            Some("/src/p/opencode.json"),
        ),
        (
            Client::Zed,
            "/home/me/.config/zed/settings.json",
            "/c/zed/settings.json",
            Some("/src/p/.zed/settings.json"),
        ),
        (Client::Copilot, "/home/me/.copilot/mcp-config.json", "/o/mcp-config.json", None),
        (Client::Cline, "/home/me/.cline/data/settings/cline_mcp_settings.json", "/n/servers.json", None),
        (
            Client::Continue,
            "/home/me/.continue/mcpServers/hotcell.json",
            "/home/me/.continue/mcpServers/hotcell.json",
            Some("/src/p/.continue/mcpServers/hotcell.json"),
        ),
        (
            Client::QwenCode,
            "/home/me/.qwen/settings.json",
            "/home/me/.qwen/settings.json",
            Some("/src/p/.qwen/settings.json"),
        ),
        (Client::Goose, "/home/me/.config/goose/config.yaml", "/c/goose/config.yaml", None),
    ] {
        assert_eq!(client.file(false, &places, none), Some(PathBuf::from(user)));
        assert_eq!(client.file(false, &moved, none), Some(PathBuf::from(elsewhere)));
        assert_eq!(client.file(true, &places, none), project.map(PathBuf::from));
        assert_eq!(serde_json::to_value(client).unwrap(), client.name());
        assert_eq!(Client::named(client.name()), Some(client));
    }
    let commented = |p: &Path| p.ends_with("opencode.jsonc");
    let found = Client::Opencode.file(true, &places, commented);
    assert_eq!(found, Some(PathBuf::from("/src/p/opencode.jsonc")));
    assert_eq!(Client::Zed.file(false, &Places::default(), none), None);
}

proptest::proptest! {
    /// For any text: either the entry is added and nothing else changes, or nothing is written.
    #[test]
    fn arbitrary_client_file_is_never_damaged(text in "[\\{\\}\\[\\]\",:/*#\\\\ \na-c=0-9]{0,60}") {
        for client in Client::ALL {
            if let Ok(new) = client.with(Some(&text), "hotcell", &ours(), false) {
                proptest::prop_assert_eq!(client.read(&new, "hotcell"), Ok(Found::Program(ours())));
            }
        }
    }
}
