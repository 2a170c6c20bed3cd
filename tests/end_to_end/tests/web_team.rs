//! Team mode of the page: persons are believed from the configured proxy alone, and each decision names its person.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::Duration;

use hotcell_end_to_end::{User, everyone, is_root};

use super::approvals::{audit_is_good, log};
use super::tools::configure;
use super::web::Page;

const HOST: &str = "review.example.com";
const ORIGIN: &str = "https://review.example.com";

/// A running page for a team.
struct Team {
    child: Child,
    socket: std::path::PathBuf,
}

/// Name of the user who runs the tests, who is the proxy in them.
fn me() -> String {
    let said = Command::new("id").arg("-un").output().expect("id");
    String::from_utf8(said.stdout).expect("a name").trim().to_owned()
}

fn settings(user: &User, proxy: &str) -> std::path::PathBuf {
    let socket = user.path("work/web.sock");
    let text = format!(
        "[web]\nlisten = \"unix:{}\"\n{proxy}\naddress = \"{ORIGIN}\"\nidentity_header = \"X-Forwarded-User\"\n\
         readers = [\"alice\"]\ndeciders = [\"bob\"]\n",
        socket.display()
    );
    configure(user, &text);
    socket
}

impl Team {
    fn start(user: &User, proxy: &str) -> Self {
        user.make_folder("work");
        let socket = settings(user, proxy);
        let mut child = user.hotcell(["web", "--team", "--json", "--quiet"]).start();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
        assert!(line.contains(ORIGIN) && line.contains("\"decide\":null,\"read\":null"), "{line}");
        Self { child, socket }
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut stream = UnixStream::connect(&self.socket).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
        let mut text =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "Host") {
            text.push_str(&format!("Host: {HOST}\r\n"));
        }
        headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        (head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status"), body.to_owned())
    }

    fn get(&self, path: &str, person: &str) -> (u16, String) {
        self.ask("GET", path, &[("X-Forwarded-User", person)], "")
    }

    fn post(&self, path: &str, person: &str, origin: &str, body: &str) -> u16 {
        let headers = [
            ("X-Forwarded-User", person),
            ("Origin", origin),
            ("Sec-Fetch-Site", "same-origin"),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        self.ask("POST", path, &headers, body).0
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Value of a hidden field.
fn field(body: &str, name: &str) -> Option<String> {
    let field = body.split(&format!("name=\"{name}\" value=\"")).nth(1)?;
    field.split('"').next().map(str::to_owned)
}

#[test]
fn team_decides_in_the_names_that_its_proxy_gives() {
    everyone(|user| {
        user.make_folder("work");
        let code = user.write("work/a.py", "import os\nos.system('rm -rf /home/')\n");
        user.hotcell(["run", "--lang", "python", code.to_str().unwrap()]).end().code(125);
        let list = user.hotcell(["quarantine", "list", "--json"]).end().code(0).json();
        let id = list["items"][0]["id"].as_str().expect("an id").to_owned();
        let team = Team::start(user, &format!("proxy = [\"{}\"]", me()));
        let person = |name| vec![("X-Forwarded-User", name)];
        for (headers, want) in [
            (vec![], 401),
            (person(""), 401),
            (person("eve"), 403),
            (person("Bob"), 403),
            ([person("bob"), person("alice")].concat(), 401),
            (vec![("X-Remote-User", "bob")], 401),
            (vec![("Cookie", "hotcell=0")], 401),
            ([person("bob"), vec![("Host", "evil.example")]].concat(), 421),
            (person("alice"), 200),
            (person("bob"), 200),
        ] {
            assert_eq!(team.ask("GET", "/waiting", &headers, "").0, want, "{headers:?}");
        }
        let path = format!("/waiting/item/{id}");
        let (_, for_alice) = team.get(&path, "alice");
        assert!(for_alice.contains("You are <strong>") && field(&for_alice, "read").is_none(), "{for_alice}");
        let (_, for_bob) = team.get(&path, "bob");
        let read = field(&for_bob, "read").expect("a yes");
        let (yes, body) = (format!("{path}/yes"), format!("read={read}&reason=seen&uses=1&lasts=1h"));
        assert_eq!(team.post(&yes, "alice", ORIGIN, &body), 403, "a reader");
        assert_eq!(team.post(&yes, "bob", "http://review.example.com", &body), 403, "another origin");
        assert_eq!(team.post(&yes, "bob", ORIGIN, &body), 303);
        assert!(log(user).contains(&("release".to_owned(), "web:bob".to_owned())), "{:?}", log(user));
        assert!(team.get(&path, "alice").1.contains("web:bob"));
        audit_is_good(user);
    });
}

#[test]
fn names_are_refused_where_no_proxy_is_believed() {
    everyone(|user| {
        // The tests do not run as the proxy: for root's server that is the user 65534; for that of another user it is
        // the user itself, whom root plays, and root where the tests are that user's.
        let proxy = match (user.is_ordinary(), is_root()) {
            (true, true) => String::new(),
            (true, false) => "proxy = [\"root\"]".to_owned(),
            (false, _) => "proxy = [\"nobody\"]".to_owned(),
        };
        let team = Team::start(user, &proxy);
        for person in ["bob", "alice", ""] {
            let (status, body) = team.get("/waiting", person);
            assert!(status == 403 && body.contains("not the proxy"), "{status} {body}");
        }
        drop(team);
        // The page of links believes no name, and says so.
        let page = Page::start(user, &[]);
        let cookie = page.session("decide");
        assert_eq!(page.get("/waiting", &cookie).status, 200);
        let headers = [("Cookie", cookie.as_str()), ("X-Forwarded-User", "bob")];
        let refused = page.ask("GET", "/waiting", &headers, "");
        assert!(refused.status == 403 && refused.body.contains("--team"), "{refused:?}");
    });
}

#[test]
fn team_needs_its_table() {
    let user = User::me();
    user.make_folder("work");
    user.hotcell(["web", "--team"]).end().code(125).says("web.listen");
    for (text, want) in [
        ("[web]\nlisten = \"127.0.0.1:80\"\n", "loopback"),
        ("[web]\ndeciders = [\"bob\"]\n", "web.listen"),
        ("[web]\nlisten = \"unix:/x\"\naddress = \"https://a\"\ndeciders = [\"bob\"]\n", "identity_header"),
    ] {
        configure(&user, text);
        user.hotcell(["web", "--team"]).end().code(125).says(want);
    }
    settings(&user, "proxy = [\"no-such-user\"]");
    user.hotcell(["web", "--team"]).end().code(125).says("no-such-user");
    let socket = settings(&user, "");
    std::fs::write(&socket, "a file").expect("it is written");
    user.hotcell(["web", "--team"]).end().code(125).says("not a socket");
    assert_eq!(std::fs::read_to_string(&socket).expect("it is there"), "a file");
    user.hotcell(["web", "--team", "--port", "80"]).end().code(125).says("--port");
}
