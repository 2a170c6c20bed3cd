//! Packages of sessions: from an index on a network of the test's own, installed once, read-only, and read by the guard.

use hotcell_end_to_end::mcp::{Local, STATELESS};
use hotcell_end_to_end::{User, Weak, find, is_root, root_and_another, venv};
use serde_json::json;

const ADDRESS: &str = "10.8.9.8";

/// A stand-in for PyPI, on a network of its own, with three wheels. It ends with the program beside it.
const INDEX: &str = r#"
import base64, fcntl, hashlib, http.server, io, os, socket, ssl, struct, sys, threading, time, zipfile
address, cert, key = sys.argv[1:]
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    for request, name, value in [
        (0x8916, b"lo:1", struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))),
        (0x8914, b"lo", struct.pack("H", 1)),
    ]:
        fcntl.ioctl(s, request, struct.pack("16s24s", name, value))
def wheel(name, version, code, needs=""):
    info = f"{name}-{version}.dist-info/"
    files = {f"{name}/__init__.py": code, info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        info + "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"}
    digest = lambda text: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    files[info + "RECORD"] = "".join(f"{n},sha256={digest(t)},{len(t)}\n" for n, t in files.items()) + info + "RECORD,,\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as z:
        for path, text in files.items():
            z.writestr(path, text)
    return f"{name}-{version}-py3-none-any.whl", packed.getvalue()
wheels = dict([wheel("demo_pkg", "1.0", "import demo_dep\nVALUE = 41 + demo_dep.ONE\n", "Requires-Dist: demo-dep\n"),
    wheel("demo_dep", "1.0", "ONE = 1\n"), wheel("evil_pkg", "1.0", "import shutil\nshutil.rmtree('/home')\n")])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.strip("/").rsplit("/", 1)[-1]
        own = [w for w in wheels if w.split("-")[0].replace("_", "-") == name]
        body = wheels.get(name)
        if self.path.startswith("/simple/") and own:
            links = "".join(f'<a href="https://files.pythonhosted.org/{w}#sha256={hashlib.sha256(wheels[w]).hexdigest()}">{w}</a>' for w in own)
            body = f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html" if self.path.startswith("/simple/") else "application/octet-stream")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer((address, 443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
parent = os.getppid()
os.write(1, b"ready\n")
os.close(1)
while os.getppid() == parent:
    time.sleep(0.1)
"#;

/// A host with that index, trusted for its names.
fn with_index(user: &User) -> Weak {
    let names = "subjectAltName=DNS:pypi.org,DNS:files.pythonhosted.org";
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=pypi.org"])
        .args(["-addext", names, "-keyout"])
        .arg(user.path("key.pem"))
        .arg("-out")
        .arg(user.path("cert.pem"))
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    user.write("index.py", INDEX);
    let begin = format!(
        "mkfifo ready && {{ /usr/bin/python3 -I index.py {ADDRESS} cert.pem key.pem >ready & }} && read line <ready && rm ready && cd work"
    );
    let folder = user.path("cert.pem").parent().expect("a folder").display().to_string();
    Weak::default().mounts(&format!(
        "cd {folder}; mount --bind cert.pem /etc/ssl/certs/ca-certificates.crt; \
         exec unshare -n -- sh -c '{begin} && exec \"$@\"' sh \"$@\""
    ))
}

#[test]
fn packages_are_installed_once_and_read_by_the_guard() {
    if !is_root() || find("openssl").is_none() {
        println!("skipped: needs root for a network with a server on port 443, and openssl");
        return;
    }
    let Some(venv) = venv() else { return };
    let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", venv.display());
    root_and_another(|user| {
        user.make_folder("state");
        let host = with_index(user);
        let places =
            format!("deps_hosts = [\"pypi.org={ADDRESS}:443\", \"files.pythonhosted.org={ADDRESS}:443\"]\n");
        let closed = user.write("closed.toml", &places);
        let open = user.write("open.toml", format!("{places}[sessions]\npackages = true\n"));
        let state = user.path("state");
        let session = |host: &Weak, words: &[&str], input: &str| {
            let call = user.hotcell_on(host, ["session"]).env("PATH", &path);
            let call =
                call.words(&["--state", state.to_str().unwrap(), "--config", closed.to_str().unwrap()]);
            call.words(words).input(input).end()
        };
        let code = "import demo_pkg\ntry:\n    open(demo_pkg.__file__, 'a')\nexcept OSError:\n    print('read-only')\ndemo_pkg.VALUE\n";
        let demo = ["python", "--package", "demo-pkg==1.0"];
        session(&host, &demo, code).code(0).prints("read-only\n42\n").says("pip installs");
        // Without the index, what is there is used.
        session(&Weak::default(), &demo, code).code(0).prints("read-only\n42\n");
        for (spec, want) in [
            ("demo-pkg==9", "demo-pkg"),
            ("not-there", "not-there"),
            ("https://pypi.org/a.whl", "not a package of PyPI"),
            ("../a", "not a package of PyPI"),
            ("--pre", "package"),
        ] {
            let option = format!("--package={spec}");
            session(&host, &["python", option.as_str()], "1\n").code(125).says(want);
        }
        session(&host, &["bash", "--package", "demo-pkg"], "").code(125).says_one_line("bash takes none");
        session(&host, &["python", "--package", "evil-pkg"], "1\n").code(125).says("evil-pkg is quarantined");
        // A caller gets packages where the operator allows it.
        let config = |file: &std::path::Path| {
            ["--state", state.to_str().unwrap(), "--config", file.to_str().unwrap()].map(str::to_owned)
        };
        let asked = json!({ "language": "python", "packages": ["demo-pkg == 1.0"] });
        let (no, yes) = (config(&closed), config(&open));
        let with_path = |host: &Weak| host.clone().within(&["env", &format!("PATH={path}")]);
        let mut client =
            Local::start_on(user, &with_path(&host), &no.each_ref().map(String::as_str), STATELESS);
        let said = client.bad("session_create", &asked);
        assert!(said.contains("does not allow packages"), "{said}");
        let mut client =
            Local::start_on(user, &with_path(&host), &yes.each_ref().map(String::as_str), STATELESS);
        let made = client.good("session_create", &asked);
        assert_eq!(made["packages"], json!(["demo_pkg==1.0", "demo_dep==1.0"]), "{made:#}");
        let run = json!({ "session_id": made["session_id"], "code": "import demo_pkg\ndemo_pkg.VALUE" });
        assert_eq!(client.good("session_execute", &run)["value"], "42");
        client.good("session_reset", &json!({ "session_id": made["session_id"] }));
        assert_eq!(client.good("session_execute", &run)["value"], "42");
        let said = client.bad("session_create", &json!({ "language": "python", "packages": ["not-there"] }));
        assert!(said.contains("not-there") && said.lines().count() < 4, "{said}");
    });
}
