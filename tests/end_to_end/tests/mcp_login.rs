//! `hotcell mcp servers login` against authorization servers on loopback: a good one, and those that lie about who they are.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use hotcell_end_to_end::{Ended, User, everyone};
use serde_json::Value;

/// An MCP server and its authorization server, on ports that it prints, with what it saw in `seen` of its folder. Its argument is how it lies.
const SERVER: &str = r#"
import base64, hashlib, http.server, json, os, secrets, sys, threading, urllib.parse
lie, seen = sys.argv[1], open(sys.argv[2], "a")
codes, tokens, refresh, scopes = {}, {}, {}, {}
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_):
        pass
    def note(self, **what):
        seen.write(json.dumps(what) + "\n")
        seen.flush()
    def send(self, status, body=b"", **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in dict({"Content-Type": "application/json", "Content-Length": str(len(body))}, **headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))
class Mcp(Handler):
    def do_GET(self):
        if self.path.startswith("/.well-known/oauth-protected-resource"):
            server = {"private": "http://10.1.2.3", "metadata": "http://169.254.169.254", "downgrade": "http://login.example.com"}.get(lie, login)
            resource = "https://other.example.com/mcp" if lie == "resource" else own + "/mcp"
            return self.send(200, {"resource": resource, "authorization_servers": [server], "scopes_supported": ["read"]})
        self.send(405 if self.path == "/mcp" else 404)
    def do_POST(self):
        asked = self.body()
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if lie == "late" and token:
            self.note(moved=token)
            return self.send(307, Location=login + "/stolen")
        if tokens.get(token) != own + "/mcp":
            self.note(refused=token)
            return self.send(401, WWW_Authenticate=f'Bearer resource_metadata="{own}/.well-known/oauth-protected-resource/mcp", scope="read"')
        self.note(used=token)
        m = json.loads(asked)
        if lie == "steps" and m["method"] == "tools/call" and "write" not in scopes[token].split():
            return self.send(403, WWW_Authenticate='Bearer error="insufficient_scope", scope="read write"')
        if "id" not in m:
            return self.send(202)
        results = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
            "tools/list": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "seen by its owner"}]},
        }
        self.send(200, {"jsonrpc": "2.0", "id": m["id"], "result": results.get(m["method"], {})})
class Login(Handler):
    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path.startswith("/.well-known/"):
            if lie == "redirected":
                return self.send(302, Location=own + "/elsewhere")
            base = "http://127.0.0.1:1" if lie == "issuer" else login
            more = {"token_endpoint": "http://login.example.com/token"} if lie == "plain" else {}
            methods = {} if lie == "no-pkce" else {"code_challenge_methods_supported": ["S256"]}
            if lie not in ("registered", "document"):
                more["registration_endpoint"] = login + "/register"
            if lie == "document":
                more["client_id_metadata_document_supported"] = True
            return self.send(200, dict({"issuer": base, "authorization_endpoint": login + "/authorize", "token_endpoint": login + "/token",
                "response_types_supported": ["code"], "authorization_response_iss_parameter_supported": True}, **methods, **more))
        if path == "/authorize":
            asked = dict(urllib.parse.parse_qsl(query))
            self.note(authorize=asked)
            code = secrets.token_urlsafe(16)
            codes[code] = asked
            back = {"code": code, "state": asked["state"], "iss": "https://evil.example.com" if lie == "mixup" else login}
            if lie == "refuses":
                back = {"error": "access_denied", "error_description": "no\x1b[2J", "state": asked["state"]}
            return self.send(302, Location=asked["redirect_uri"] + "?" + urllib.parse.urlencode(back))
        self.send(404)
    def do_POST(self):
        body = self.body()
        if self.path == "/stolen":
            self.note(stolen=self.headers.get("Authorization", "no token"))
            return self.send(200, {})
        if self.path == "/register":
            asked = json.loads(body)
            self.note(register=asked)
            secret = {"client_secret": "hush"} if lie == "short" else {}
            return self.send(201, dict(asked, client_id="client-1", **secret))
        if self.path == "/token":
            asked = dict(urllib.parse.parse_qsl(body.decode()))
            self.note(token=asked["grant_type"], resource=asked.get("resource"))
            if lie == "short" and self.headers.get("Authorization") != "Basic " + base64.b64encode(b"client-1:hush").decode():
                return self.send(401, {"error": "invalid_client"})
            if lie == "registered" and self.headers.get("Authorization") != "Basic " + base64.b64encode(b"app-7:hush").decode():
                return self.send(401, {"error": "invalid_client"})
            if lie == "document" and asked.get("client_id") != "https://example.com/hotcell.json":
                return self.send(401, {"error": "invalid_client"})
            if lie == "forwards":
                return self.send(307, Location=own + "/elsewhere")
            if asked["grant_type"] == "authorization_code":
                was = codes.pop(asked["code"], None)
                proof = base64.urlsafe_b64encode(hashlib.sha256(asked["code_verifier"].encode()).digest()).rstrip(b"=").decode()
                good = was and proof == was["code_challenge"] and was["code_challenge_method"] == "S256" and was["redirect_uri"] == asked["redirect_uri"]
            else:
                good = refresh.pop(asked["refresh_token"], False)
            if not good:
                return self.send(400, {"error": "invalid_grant"})
            token, again = "access-" + secrets.token_urlsafe(16), "refresh-" + secrets.token_urlsafe(16)
            tokens[token] = asked.get("resource")
            refresh[again] = lie != "revokes"
            scopes[token] = was.get("scope", "") if asked["grant_type"] == "authorization_code" else ""
            life = 1 if lie in ("short", "revokes") else 3600
            return self.send(200, {"access_token": token, "refresh_token": again, "token_type": "Bearer", "expires_in": life})
        self.send(404)
servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) for kind in (Mcp, Login)]
own, login = ["http://127.0.0.1:%d" % server.server_address[1] for server in servers]
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
print(own, login, flush=True)
sys.stdin.read()
"#;

/// Servers that end with the test.
struct Servers {
    child: Child,
    address: String,
    issuer: String,
}

impl Servers {
    fn start(user: &User, lie: &str) -> Self {
        let program = user.write("login.py", SERVER);
        let mut child = Command::new("/usr/bin/python3")
            .args([program.as_path(), lie.as_ref(), &user.path(&format!("seen-{lie}"))])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("an address");
        let (address, issuer) = line.trim().split_once(' ').expect("two addresses");
        Self { child, address: address.to_owned(), issuer: issuer.to_owned() }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Notes of the servers, one object each.
fn seen(user: &User, lie: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(user.path(&format!("seen-{lie}"))).expect("a file");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Adds the server, and logs in as a user with a browser: status, and standard error.
fn log_in(user: &User, servers: &Servers, name: &str) -> (Option<i32>, String) {
    let url = format!("{}/mcp", servers.address);
    user.hotcell(["mcp", "servers", "add", name, "--url", &url]).end().code(0);
    logged_in(user, name)
}

fn logged_in(user: &User, name: &str) -> (Option<i32>, String) {
    logged_in_as(user, name, &[])
}

/// Logs in with further options.
fn logged_in_as(user: &User, name: &str, options: &[&str]) -> (Option<i32>, String) {
    let words = ["mcp", "servers", "login", name, "--seal", "env:SEAL", "--timeout", "60s"];
    let call = user.hotcell(words.iter().chain(options).copied());
    let mut child = call.env("SEAL", KEY).env("HUSH", "hush").piped().start();
    let mut address = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut address).expect("a pipe");
    if !address.is_empty() {
        // A page of another site sends its own code first; then comes the user's browser.
        let browser = "import sys, urllib.error, urllib.parse, urllib.request as r\n\
                       a = sys.argv[1]\n\
                       back = dict(urllib.parse.parse_qsl(urllib.parse.urlparse(a).query))['redirect_uri']\n\
                       try:\n    r.urlopen(back + '?code=planted&state=guessed')\n    sys.exit('the planted code was taken')\n\
                       except urllib.error.HTTPError as e:\n    assert e.code == 400, e.code\n\
                       r.urlopen(a).read()\n";
        let done = Command::new("/usr/bin/python3")
            .args(["-c", browser, address.trim()])
            .env_remove("http_proxy")
            .env_remove("HTTP_PROXY")
            .output()
            .expect("python3");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn call(user: &User, name: &str) -> Ended {
    user.hotcell(["call", name, "look"]).env("SEAL", KEY).end()
}

#[test]
fn user_logs_in_once_and_tokens_are_sealed_and_renewed() {
    everyone(|user| {
        let servers = Servers::start(user, "short");
        let (code, said) = log_in(user, &servers, "mine");
        assert_eq!(code, Some(0), "{said}");
        // Each call renews the token, which ends at once, with a new refresh token each time.
        for _ in 0..2 {
            assert!(call(user, "mine").code(0).text().contains("seen by its owner"));
        }
        let seen = seen(user, "short");
        let resource = format!("{}/mcp", servers.address);
        let grants: Vec<_> = seen.iter().filter_map(|one| one["token"].as_str()).collect();
        assert_eq!(grants, ["authorization_code", "refresh_token", "refresh_token"], "{seen:#?}");
        assert!(seen.iter().filter(|one| one["token"].is_string()).all(|one| one["resource"] == resource));
        let asked = seen.iter().find(|one| one["authorize"].is_object()).expect("a browser came");
        assert_eq!(asked["authorize"]["resource"], resource);
        assert_eq!(asked["authorize"]["code_challenge_method"], "S256");
        // Neither token is on disk as it is.
        let kept = user.path("home/.local/state/hotcell/mcp-servers/mine/login.json");
        let kept = std::fs::read_to_string(&kept).expect("kept");
        assert!(
            kept.contains("hotcell-sealed-1:")
                && ["access-", "refresh-", "hush"].iter().all(|part| !kept.contains(part)),
            "{kept}"
        );
        // With another key, another address, or after a logout there is no token.
        let other = KEY.replace("00", "01");
        user.hotcell(["call", "mine", "look"]).env("SEAL", other).end().code(125).says("does not open");
        user.hotcell(["call", "mine", "look"]).end().code(125).says("SEAL");
        user.hotcell(["mcp", "servers", "add", "mine", "--url", "https://127.0.0.1:1/mcp", "--replace"])
            .end()
            .code(0);
        call(user, "mine").code(125).says("does not open");
        user.hotcell(["mcp", "servers", "logout", "mine"]).end().code(0).says("removed");
        user.hotcell(["mcp", "servers", "logout", "mine"]).end().code(0).says("no login");
    });
}

#[test]
fn authorization_servers_that_lie_get_no_code() {
    everyone(|user| {
        for (number, (lie, says)) in [
            ("issuer", "another authorization server than was asked"),
            ("mixup", "another authorization server"),
            ("resource", "resource mismatch"),
            ("private", "10.1.2.3"),
            ("metadata", "169.254.169.254"),
            ("downgrade", "login.example.com"),
            ("plain", "token_endpoint is not used: http://login.example.com/token"),
            ("no-pkce", "PKCE"),
            ("redirected", "non-same-origin"),
            ("forwards", "token exchange failed"),
            ("refuses", "access_denied"),
        ]
        .into_iter()
        .enumerate()
        {
            let servers = Servers::start(user, lie);
            // Not by the name of the lie, which would be in each error.
            let name = format!("odd-{number}");
            let (code, said) = log_in(user, &servers, &name);
            assert_eq!(code, Some(125), "{lie}: {said}");
            assert!(said.contains(says) && !said.contains('\u{1b}'), "{lie}: {said}");
            let seen = seen(user, lie);
            let exchanged = seen.iter().filter(|one| one["token"].is_string()).count();
            assert_eq!(exchanged, usize::from(lie == "forwards"), "{lie}: {seen:#?}");
            assert!(!seen.iter().any(|one| one["stolen"].is_string()), "{lie}: {seen:#?}");
            assert!(!user.path(&format!("home/.local/state/hotcell/mcp-servers/{name}/login.json")).exists());
        }
    });
}

#[test]
fn tokens_of_a_login_follow_no_redirect_and_end_with_a_refusal() {
    everyone(|user| {
        let servers = Servers::start(user, "late");
        let (code, said) = log_in(user, &servers, "late");
        assert_eq!(code, Some(0), "{said}");
        call(user, "late").code(125).says("another origin");
        let all = seen(user, "late");
        assert!(all.iter().any(|one| one["moved"].is_string()), "{all:#?}");
        assert!(!all.iter().any(|one| one["stolen"].is_string()), "{all:#?}");
        drop(servers);
        // A refresh token that was taken back.
        let servers = Servers::start(user, "revokes");
        let (code, said) = log_in(user, &servers, "revokes");
        assert_eq!(code, Some(0), "{said}");
        call(user, "revokes").code(125).says("mcp servers login");
        // A command, a name that is not there, a key that is too short.
        let login = |name: &str, seal: &str| {
            user.hotcell(["mcp", "servers", "login", name, "--seal", seal]).env("SEAL", "short").end()
        };
        login("nothing", "env:SEAL").code(125).says("nothing");
        login("late", "env:SEAL").code(125).says("openssl rand -hex 32");
        login("late", "fd:3").code(125).says("env:NAME");
        user.hotcell(["mcp", "servers", "add", "cmd", "--", "cat"]).end().code(0);
        login("cmd", "env:SEAL").code(125).says("is a command");
    });
}

#[test]
fn clients_that_were_registered_before_log_in_by_id_or_document() {
    everyone(|user| {
        let document = "https://example.com/hotcell.json";
        for (lie, options) in
            [("registered", vec!["app-7", "--client-secret", "env:HUSH"]), ("document", vec![document])]
        {
            let servers = Servers::start(user, lie);
            // Without an id there is nothing to register at.
            let (code, said) = log_in(user, &servers, lie);
            assert_eq!(code, Some(125), "{lie}: {said}");
            assert!(said.contains("--client ID"), "{lie}: {said}");
            let options = [&["--issuer", &servers.issuer, "--client"], &*options].concat();
            let (code, said) = logged_in_as(user, lie, &options);
            assert_eq!(code, Some(0), "{lie}: {said}");
            assert!(call(user, lie).code(0).text().contains("seen by its owner"));
            let seen = seen(user, lie);
            let asked = seen.iter().find(|one| one["authorize"].is_object()).expect("a browser came");
            assert_eq!(asked["authorize"]["client_id"], options[3], "{lie}");
            assert!(!seen.iter().any(|one| one["register"].is_object()), "{lie}: {seen:#?}");
        }
        // A server that reads no documents, another secret, and options that cannot be.
        let servers = Servers::start(user, "registered");
        let (_, said) = log_in(user, &servers, "odd");
        assert!(said.contains("--client ID"), "{said}");
        let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = busy.local_addr().expect("an address").port().to_string();
        let at = |issuer| ["--client", "app-7", "--issuer", issuer, "--client-secret", "env:HUSH"];
        for (options, says) in [
            (&at("https://login.example.com")[..], "and not https://login.example.com"),
            (&["--client", document][..], "reads no documents"),
            (&["--client", "app-7"][..], "token exchange failed"),
            (&["--client", "app-7", "--client-secret", "env:NOTHING", "--issuer", "x"][..], "NOTHING"),
            (&["--client", "app-7", "--client-secret", "env:HUSH"][..], "--issuer"),
            (&["--client", document, "--client-secret", "env:HUSH", "--issuer", "x"][..], "no secret"),
            (&["--client", ""][..], "printable"),
            (&["--client-secret", "env:HUSH"][..], "--client"),
            (&["--right", "a\"b"][..], "RFC 6749"),
            (&["--client", "app-7", "--port", &port][..], &format!("port {port} for the browser")),
        ] {
            let (code, said) = logged_in_as(user, "odd", options);
            assert_eq!(code, Some(125), "{options:?}: {said}");
            assert!(said.contains(says), "{options:?}: {said}");
        }
    });
}

#[test]
fn rights_that_a_call_lacks_are_named_and_asked_for() {
    everyone(|user| {
        let servers = Servers::start(user, "steps");
        let (code, said) = log_in(user, &servers, "steps");
        assert_eq!(code, Some(0), "{said}");
        call(user, "steps").code(125).says("--right read --right write");
        let (code, said) = logged_in_as(user, "steps", &["--right", "read", "--right", "write"]);
        assert_eq!(code, Some(0), "{said}");
        assert!(call(user, "steps").code(0).text().contains("seen by its owner"));
        let seen = seen(user, "steps");
        let asked: Vec<_> = seen.iter().filter_map(|one| one["authorize"]["scope"].as_str()).collect();
        assert_eq!(asked, ["read", "read write"]);
    });
}
