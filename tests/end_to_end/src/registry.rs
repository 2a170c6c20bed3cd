//! Package registries of a test's own: a server with TLS on a loopback address in a network of its own, trusted for the registries' names.

use std::process::Command;

use serde_json::Value;

use crate::{User, Weak, find, is_root};

/// Beginning and end of a server's program, around `answer(path)`, which returns a content type and bytes, or `None`. It ends with the program
/// beside it.
const BEGIN: &str = r#"
import base64, fcntl, gzip, hashlib, http.server, io, json, os, socket, ssl, struct, sys, tarfile, threading, time, zipfile
address, cert, key = sys.argv[1:]
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    for request, name, value in [
        (0x8916, b"lo:1", struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))),
        (0x8914, b"lo", struct.pack("H", 1)),
    ]:
        fcntl.ioctl(s, request, struct.pack("16s24s", name, value))
"#;
const END: &str = r#"
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kind, body = answer(self.path) or ("text/plain", None)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Type", kind)
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

/// `answer` of a stand-in for PyPI and npm's registry. The packages are those of `packages.json` beside it, read anew for each answer:
/// `{"pypi": {NAME: {VERSION: {"files": {PATH: TEXT}, "needs": [NAME], "scripts": {NAME: "MODULE:FUNCTION"}, "is_source": BOOL}}},
/// "npm": {NAME: {VERSION: {"package": {…}, "files": {PATH: TEXT}, "filled": {PATH: MIB}}}}}`.
const PACKAGES: &str = r#"
def digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
def wheel(name, version, one):
    info = f"{name}-{version}.dist-info/"
    needs = "".join(f"Requires-Dist: {need}\n" for need in one.get("needs", []))
    files = dict(one["files"])
    files[info + "WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[info + "METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
    if "scripts" in one:
        files[info + "entry_points.txt"] = "[console_scripts]\n" + "".join(f"{n} = {f}\n" for n, f in one["scripts"].items())
    files[info + "RECORD"] = "".join(f"{n},sha256={digest(t)},{len(t)}\n" for n, t in files.items()) + info + "RECORD,,\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as z:
        for path, text in files.items():
            z.writestr(zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0)), text)
    return f"{name}-{version}-py3-none-any.whl", packed.getvalue()
block = hashlib.sha512(b"block").digest() * 8
class Filler:
    def read(self, size):
        return (block * (size // len(block) + 1))[:size]
def archive(top, files, filled={}):
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as z, tarfile.open(fileobj=z, mode="w") as tar:
        for path, text in files.items():
            entry = tarfile.TarInfo(top + path)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
        for path, mib in filled.items():
            entry = tarfile.TarInfo(top + path)
            entry.size = mib << 20
            tar.addfile(entry, Filler())
    return packed.getvalue()
def file(name, version, one):
    if one.get("is_source"):
        return f"{name}-{version}.tar.gz", archive(f"{name}-{version}/", one["files"])
    return wheel(name, version, one)
made = {}
def npm(name, version, one):
    key = json.dumps([name, version, one])
    if key not in made:
        package = dict(one["package"], name=name, version=version)
        files = dict({"package.json": json.dumps(package)}, **one["files"])
        made[key] = package, archive("package/", files, one.get("filled", {}))
    return made[key]
def answer(path):
    known = json.load(open("packages.json"))
    path = path.split("?")[0].strip("/").replace("%2f", "/").replace("%2F", "/")
    if path.startswith("simple/"):
        name = path.removeprefix("simple/").replace("-", "_")
        files = [file(name, version, one) for version, one in known.get("pypi", {}).get(name, {}).items()]
        links = "".join(f'<a href="https://files.pythonhosted.org/{n}#sha256={hashlib.sha256(b).hexdigest()}">{n}</a>' for n, b in files)
        return ("text/html", f"<!DOCTYPE html><html><body>{links}</body></html>".encode()) if files else None
    for name, versions in known.get("pypi", {}).items():
        for version, one in versions.items():
            named, body = file(name, version, one)
            if named == path:
                return "application/octet-stream", body
    for name, versions in known.get("npm", {}).items():
        if path == name:
            all = {}
            for version, one in versions.items():
                package, body = npm(name, version, one)
                integrity = "sha512-" + base64.b64encode(hashlib.sha512(body).digest()).decode()
                dist = {"tarball": f"https://registry.npmjs.org/{name}/-/{version}.tgz", "integrity": integrity}
                all[version] = dict(package, dist=dist, hasInstallScript="scripts" in package)
            return "application/json", json.dumps({"name": name, "dist-tags": {"latest": list(versions)[-1]}, "versions": all}).encode()
        for version, one in versions.items():
            if path == f"{name}/-/{version}.tgz":
                return "application/octet-stream", npm(name, version, one)[1]
"#;

/// Address of the registries.
pub const ADDRESS: &str = "10.8.9.8";
/// Names of PyPI and npm's registry.
const NAMES: [&str; 3] = ["pypi.org", "files.pythonhosted.org", "registry.npmjs.org"];

/// Whether such a server can be made here; says so otherwise.
#[must_use]
pub fn has_registries() -> bool {
    if !is_root() || find("openssl").is_none() {
        println!("skipped: needs root for a network with a server on port 443, and openssl");
        return false;
    }
    true
}

/// A host with a server for these names at this address, trusted for them. `answer` is its Python function.
#[must_use]
pub fn served(user: &User, names: &[&str], address: &str, answer: &str) -> Weak {
    let all: Vec<String> = names.iter().map(|name| format!("DNS:{name}")).collect();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"])
        .arg(format!("/CN={}", names[0]))
        .arg("-addext")
        .arg(format!("subjectAltName={}", all.join(",")))
        .arg("-keyout")
        .arg(user.path("key.pem"))
        .arg("-out")
        .arg(user.path("cert.pem"))
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    user.write("registry.py", [BEGIN, answer, END].concat());
    let begin = format!(
        "mkfifo ready && {{ /usr/bin/python3 -I registry.py {address} cert.pem key.pem >ready & }} && read line <ready && rm ready && cd work"
    );
    let folder = user.path("cert.pem").parent().expect("a folder").display().to_string();
    Weak::default().mounts(&format!(
        "cd {folder}; mount --bind cert.pem /etc/ssl/certs/ca-certificates.crt; \
         exec unshare -n -- sh -c '{begin} && exec \"$@\"' sh \"$@\""
    ))
}

/// A host with a stand-in for PyPI and npm's registry with these packages, in the form that this file's program describes.
#[must_use]
pub fn packages(user: &User, packages: &Value) -> Weak {
    change(user, packages);
    served(user, &NAMES, ADDRESS, PACKAGES)
}

/// Changes what the registries have.
pub fn change(user: &User, packages: &Value) {
    user.write("packages.json", packages.to_string());
}

/// Value of `HOTCELL_DEPS_HOSTS` for these registries.
#[must_use]
pub fn places() -> String {
    NAMES.map(|name| format!("{name}={ADDRESS}:443")).join(",")
}
