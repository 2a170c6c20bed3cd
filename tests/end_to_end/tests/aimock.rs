//! The wire formats and faults of a scripted server that others wrote (`@copilotkit/aimock`): replies of three providers, a limit with `Retry-After`, answers
//! that are not JSON, and connections that break off.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use hotcell_end_to_end::User;

const FIXTURES: &str = r#"{"fixtures": [
    {"match": {"userMessage": "limited", "sequenceIndex": 0}, "response": {"error": {"message": "slow down"}, "status": 429, "retryAfter": 1}},
    {"match": {"userMessage": "limited"}, "response": {"content": "Now."}},
    {"match": {"userMessage": "hello"}, "response": {"content": "Hello from elsewhere."}}
]}"#;
/// Provider, model, and the path of its interface.
const FORMATS: [(&str, &str, &str); 3] = [
    ("openai", "gpt-5-mini", "/v1"),
    ("anthropic", "claude-sonnet-4-5", "/v1"),
    ("gemini", "gemini-2.5-flash", "/v1beta"),
];

struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server with these options; `None` without it.
fn start(user: &User, options: &[&str]) -> Option<Server> {
    let Some(folder) = std::env::var_os("HOTCELL_TEST_AIMOCK").map(PathBuf::from) else {
        println!(
            "skipped: no aimock: HOTCELL_TEST_AIMOCK names no folder (scripts/test fetches it from npm)"
        );
        return None;
    };
    let fixtures = user.write("fixtures.json", FIXTURES);
    let mut child = Command::new("/usr/bin/node")
        .arg(folder.join("dist/cli.js"))
        .arg("--fixtures")
        .arg(fixtures)
        .args(["--port", "0"])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("node starts");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let address =
        lines.map_while(Result::ok).find_map(|line| Some(line[line.find("http://")?..].trim().to_owned()));
    Some(Server { child, address: address.expect("its address") })
}

fn add(user: &User, server: &Server) {
    for (provider, model, path) in FORMATS {
        let url = format!("{}{path}", server.address);
        let words =
            ["model", "add", provider, "--url", &url, "--model", model, "--key", "env:K", "--replace"];
        user.hotcell(words).words(&["--role", provider]).env("K", "secret").end().code(0);
    }
}

#[test]
fn replies_of_a_foreign_server_are_read_in_each_format() {
    let user = User::me();
    let Some(server) = start(&user, &[]) else { return };
    add(&user, &server);
    for (provider, ..) in FORMATS {
        let asked =
            user.hotcell(["model", "ask", "hello", "--json", "--model", provider]).env("K", "secret").end();
        let reply = asked.code(0).json();
        assert_eq!(
            (&reply["text"], &reply["stop"]),
            (&"Hello from elsewhere.".into(), &"end".into()),
            "{reply}"
        );
        // A server without an answer to this question replies with 404.
        let none = user.hotcell(["model", "ask", "unknown", "--model", provider]).env("K", "secret").end();
        none.code(125).says("404");
    }
    let limited =
        user.hotcell(["model", "ask", "limited", "--json", "--model", "openai"]).env("K", "secret").end();
    let reply = limited.code(0).json();
    assert_eq!((&reply["text"], &reply["attempts"]), (&"Now.".into(), &2.into()), "{reply}");
}

#[test]
fn faults_of_a_foreign_server_end_in_a_line() {
    let user = User::me();
    for fault in ["--chaos-malformed", "--chaos-disconnect", "--chaos-ratelimit"] {
        let Some(server) = start(&user, &[fault, "1"]) else { return };
        add(&user, &server);
        for (provider, ..) in FORMATS {
            let words = ["model", "ask", "hello", "--timeout", "2s", "--model", provider];
            let asked = user.hotcell(words).env("K", "secret").end();
            assert_eq!(asked.code, Some(125), "{fault} {provider}: {}", asked.text());
            asked.says(provider);
        }
    }
}
