//! `--deps`: packages of lock files from the real registries, fetched once, read-only, and from no other
//! hosts.

use std::net::{SocketAddr, ToSocketAddrs};

use hotcell_end_to_end::{User, Weak, everyone, find, registry, root_and_another, rust, venv};
use serde_json::Value;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Rules for the addresses of these registries on this machine: behind a company's proxy they may be private.
pub fn places(hosts: &[&str]) -> Option<String> {
    let place = |host: &&str| -> Option<String> {
        let all: Vec<SocketAddr> = (*host, 443).to_socket_addrs().ok()?.collect();
        all.iter().find(|a| a.is_ipv4()).map(|a| format!("{host}={}:443", a.ip()))
    };
    let found: Vec<String> = hosts.iter().filter_map(place).collect();
    if found.len() < hosts.len() {
        println!("skipped: no registry: {} cannot be resolved here", hosts.join(" or "));
        return None;
    }
    Some(found.join(","))
}

fn kept(user: &User) -> usize {
    std::fs::read_dir(user.path("state/deps")).map_or(0, Iterator::count)
}

fn run(user: &User, path: &str, places: &str, command: &[&str], code: i32) -> Value {
    let state = user.path("state");
    let call = user.hotcell(["run", "--json", "--deps", "--workspace", "project", "--timeout", "60s"]);
    let call = call.env("PATH", path).env("HOTCELL_DEPS_HOSTS", places);
    call.words(&["--state", state.to_str().unwrap(), "--"]).words(command).end().code(code).json()
}

#[test]
fn wheels_of_the_index_are_installed_once() {
    let Some(venv) = venv() else { return };
    let Some(places) = places(&["pypi.org", "files.pythonhosted.org"]) else { return };
    let path = format!("{}/bin:{PATH}", venv.display());
    everyone(|user| {
        user.make_folder("state");
        user.make_folder("work/project");
        user.write("work/project/requirements.txt", "idna==3.10\n");
        let script = "import idna, pathlib\nprint(idna.__version__)\ntry:\n    pathlib.Path(idna.__file__).write_text('')\n\
                      except OSError:\n    print('read-only')\n";
        user.write("work/project/main.py", script);
        for _ in 0..2 {
            let outcome = run(user, &path, &places, &["python3", "main.py"], 0);
            assert_eq!(outcome["stdout"]["text"], "3.10\nread-only\n", "{outcome:#}");
            assert_eq!(kept(user), 1);
        }
        assert!(!user.path("work/project/.hotcell-deps").exists(), "the project is as it was");
        // Only the lock's registries may be reached.
        let outcome = run(
            user,
            &path,
            &places,
            &["python3", "-c", "import urllib.request as u; u.urlopen('https://pypi.org')"],
            1,
        );
        assert!(outcome["stderr"]["text"].as_str().unwrap().contains("Error"), "{outcome:#}");

        // Packages that are not locked are not installed, and neither are those that would run code of their
        // own.
        user.write("work/project/requirements.txt", "idna>=3\n");
        let outcome = run(user, &path, &places, &["true"], 125);
        assert!(outcome["reason"].as_str().unwrap().contains("idna>=3 is not one version"), "{outcome:#}");
        user.write("work/project/requirements.txt", "idna==3.10\n-i https://127.0.0.1/simple\n");
        let outcome = run(user, &path, &places, &["true"], 125);
        assert!(outcome["reason"].as_str().unwrap().contains("127.0.0.1"), "{outcome:#}");
        user.write("work/project/requirements.txt", "idna==3.10\n-i https://pypi.org/${HOME}/simple\n");
        let outcome = run(user, &path, &places, &["true"], 125);
        assert!(outcome["reason"].as_str().unwrap().contains("names a variable"), "{outcome:#}");
        assert_eq!(kept(user), 1);
        std::fs::remove_file(user.path("work/project/requirements.txt")).unwrap();
        let outcome = run(user, &path, &places, &["true"], 125);
        assert!(outcome["reason"].as_str().unwrap().contains("there is no lock file"), "{outcome:#}");
    });
}

/// Wheel of idna 3.10 on PyPI.
const IDNA: &str = "946d195a0d259cbba61165e88e65941f16e9b36ea6ddb97f00452bae8b1287d3";

#[test]
fn uv_poetry_and_pipenv_locks_install_by_digest() {
    let Some(venv) = venv() else { return };
    let Some(places) = places(&["pypi.org", "files.pythonhosted.org"]) else { return };
    let path = format!("{}/bin:{PATH}", venv.display());
    let uv = r#"version = 1
[[package]]
name = "own"
version = "0"
source = { editable = "." }
dependencies = [{ name = "idna" }, { name = "not-there", marker = "sys_platform == 'win32'" }]
[[package]]
name = "idna"
version = "3.10"
source = { registry = "https://pypi.org/simple" }
wheels = [{ url = "https://files.pythonhosted.org/packages/idna-3.10-py3-none-any.whl", hash = "sha256:IDNA" }]
[[package]]
name = "not-there"
version = "1"
source = { registry = "https://pypi.org/simple" }
wheels = [{ url = "https://files.pythonhosted.org/packages/not_there-1.whl", hash = "sha256:00" }]
"#;
    let poetry = r#"[[package]]
name = "idna"
version = "3.10"
optional = false
groups = ["main"]
files = [{file = "idna-3.10-py3-none-any.whl", hash = "sha256:IDNA"}]
[metadata]
lock-version = "2.1"
"#;
    let pipenv = r#"{"_meta": {"sources": [{"name": "pypi", "url": "https://pypi.org/simple"}]},
        "default": {"idna": {"version": "==3.10", "hashes": ["sha256:IDNA"], "index": "pypi"}}, "develop": {}}"#;
    everyone(|user| {
        user.make_folder("state");
        for (file, lock) in [("uv.lock", uv), ("poetry.lock", poetry), ("Pipfile.lock", pipenv)] {
            user.make_folder("work/project");
            // An exported requirements file that differs from the lock has no effect.
            user.write("work/project/requirements.txt", "idna>=2\n");
            user.make_folder("work/project/src");
            user.write("work/project/src/own.py", "import idna\nprint(idna.__version__)\n");
            // Pipenv does not install the project itself.
            let import =
                if file == "Pipfile.lock" { "import idna; print(idna.__version__)" } else { "import own" };
            let command = ["python3", "-c", import];
            let before = kept(user);
            user.write(format!("work/project/{file}"), lock.replace("IDNA", IDNA));
            let outcome = run(user, &path, &places, &command, 0);
            assert_eq!(outcome["stdout"]["text"], "3.10\n", "{file}: {outcome:#}");

            // Other bytes than in the lock.
            user.write(format!("work/project/{file}"), lock.replace("IDNA", &IDNA.replacen('9', "8", 1)));
            let outcome = run(user, &path, &places, &command, 125);
            assert!(outcome["reason"].as_str().unwrap().contains("DO NOT MATCH"), "{file}: {outcome:#}");
            assert!(kept(user) <= before + 1);
            std::fs::remove_dir_all(user.path("work/project")).unwrap();
        }
    });
}

#[test]
fn packages_of_npm_without_their_scripts() {
    if !["/usr/bin/npm", "/usr/local/bin/npm"].iter().any(|npm| std::path::Path::new(npm).exists()) {
        println!("skipped: no npm (on Debian: apt-get install npm)");
        return;
    }
    let Some(places) = places(&["registry.npmjs.org"]) else { return };
    everyone(|user| {
        user.make_folder("state");
        user.make_folder("work/project");
        let package = r#"{"name": "p", "version": "1.0.0", "dependencies": {"picocolors": "1.1.1"}, "scripts": {"preinstall": "touch ran", "install": "touch ran"}}"#;
        let lock = r#"{"name": "p", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
            "": {"name": "p", "version": "1.0.0", "hasInstallScript": true, "dependencies": {"picocolors": "1.1.1"}},
            "node_modules/picocolors": {"version": "1.1.1", "resolved": "https://registry.npmjs.org/picocolors/-/picocolors-1.1.1.tgz", "integrity": "INTEGRITY", "license": "ISC"}}}"#;
        user.write("work/project/package.json", package);
        user.write("work/project/package-lock.json", lock.replace("INTEGRITY", PICOCOLORS));
        let script =
            "console.log(require('picocolors/package.json').version, require('fs').existsSync('ran'))";
        let outcome = run(user, PATH, &places, &["node", "-e", script], 0);
        assert_eq!(outcome["stdout"]["text"], "1.1.1 false\n", "{outcome:#}");
        assert!(!user.path("work/project/node_modules/picocolors").exists());

        // Other bytes than in the lock.
        let other = PICOCOLORS.replacen('x', "y", 1);
        user.write("work/project/package-lock.json", lock.replace("INTEGRITY", &other));
        let outcome = run(user, PATH, &places, &["true"], 125);
        assert!(outcome["reason"].as_str().unwrap().contains("EINTEGRITY"), "{outcome:#}");
        assert_eq!(kept(user), 1);
    });
}

/// From npm's registry.
const PICOCOLORS: &str =
    "sha512-xceH2snhtb5M9liqDsmEw56le376mTZkEX/jEb/RxNFyegNul7eNslCXP9FDj/Lcu0X8KEyMceP2ntpaHrDEVA==";

/// Tests of a project, with its cache; the output of cargo or go, and hotcell's own messages.
fn tested(call: hotcell_end_to_end::Call, user: &User, code: i32) -> (Value, String) {
    let state = user.path("state");
    let ended = call.words(&["--state", state.to_str().unwrap(), "--timeout", "300s"]).end();
    ended.code(code);
    let report = ended.json();
    (report, ended.stderr.clone())
}

#[test]
fn rust_dependencies_are_compiled_once() {
    let Some(rust) = rust() else { return };
    let Some(places) = places(&["index.crates.io", "static.crates.io"]) else { return };
    let path = format!("{}/bin:{PATH}", rust.display());
    let lock = "version = 4\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\ndependencies = [\"paste\"]\n[[package]]\nname = \"paste\"\n\
                version = \"1.0.15\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"PASTE\"\n";
    // Files that a run adds next to the compiled ones are gone in the next run.
    let source = "paste::paste! { pub fn [<for ty>]() -> u32 { 40 } }\n#[test]\nfn adds() {\n    assert_eq!(forty() + NUMBER, 42);\n    \
                  let kept = std::env::var(\"HOME\").unwrap() + \"/.hotcell-target/debug/deps/mark\";\n    \
                  assert!(!std::path::Path::new(&kept).exists());\n    std::fs::write(kept, \"\").unwrap();\n}\n";
    everyone(|user| {
        user.make_folder("state");
        user.make_folder("work/crate/src");
        let manifest = "[package]\nname = \"own\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\npaste = \"=1.0.15\"\n";
        user.write("work/crate/Cargo.toml", manifest);
        user.write("work/crate/Cargo.lock", lock.replace("PASTE", PASTE));
        let test = |number: u32, code| {
            user.write("work/crate/src/lib.rs", source.replace("NUMBER", &number.to_string()));
            let call = user.hotcell(["test", "crate", "--deps", "--json"]);
            tested(call.env("PATH", &path).env("HOTCELL_DEPS_HOSTS", &places), user, code).0
        };
        // The project's own code is always compiled from its current state.
        for (number, code) in [(2, 0), (3, 1), (2, 0)] {
            let report = test(number, code);
            let said = report["outcome"]["stderr"]["text"].as_str().unwrap_or_default();
            assert!(said.contains("Compiling own"), "{report:#}");
            assert!(!said.contains("Compiling paste"), "{report:#}");
            assert_eq!(kept(user), 2);
        }
        assert!(!user.path("work/crate/target").exists(), "the project is as it was");
        // Another toolchain, or flags of the project's own, use another cache.
        user.make_folder("work/crate/.cargo");
        user.write("work/crate/.cargo/config.toml", "[build]\nrustflags = [\"--cfg\", \"other\"]\n");
        let report = test(2, 0);
        let said = report["outcome"]["stderr"]["text"].as_str().unwrap_or_default();
        assert!(!said.contains("Compiling paste"), "{report:#}");
        assert_eq!(kept(user), 3);
        // Settings that would start the project's own programs are left to the run, which is guarded.
        let wrapped = "[build]\nrustc-wrapper = \"/bin/sh\"\n";
        user.write("work/crate/.cargo/config.toml", wrapped);
        let state = user.path("state");
        let words =
            ["test", "crate", "--deps", "--guard", "off", "--json", "--state", state.to_str().unwrap()];
        let ended = user.hotcell(words).env("PATH", &path).env("HOTCELL_DEPS_HOSTS", &places).end();
        assert_ne!(ended.code, Some(0), "{ended:#?}");
        assert_eq!(kept(user), 3);
        std::fs::remove_dir_all(user.path("work/crate/.cargo")).unwrap();
        // Other bytes than in the lock.
        user.write("work/crate/Cargo.lock", lock.replace("PASTE", &PASTE.replacen('5', "6", 1)));
        assert!(test(2, 125)["reason"].as_str().unwrap().contains("checksum"));
        assert_eq!(kept(user), 3);
    });
}

/// From crates.io.
const PASTE: &str = "57c0d7b74b563b49d38dae00a0c37d4d6de9b432382b2892f0574ddcae73fd0a";

/// `answer` of a stand-in for Go's module proxy, with one module.
const PROXY: &str = r#"
mod = b"module example.com/dep\n\ngo 1.16\n"
packed = io.BytesIO()
with zipfile.ZipFile(packed, "w") as z:
    z.writestr("example.com/dep@v1.0.0/go.mod", mod)
    z.writestr("example.com/dep@v1.0.0/dep.go", "package dep\n\nfunc Twice(n int) int { return 2 * n }\n")
files = {"info": b'{"Version":"v1.0.0"}', "mod": mod, "zip": packed.getvalue()}
def answer(path):
    return "application/octet-stream", files.get(path.removeprefix("/example.com/dep/@v/v1.0.0."))
"#;

#[test]
fn modules_of_go_by_their_digests() {
    if !registry::has_registries() {
        return;
    }
    if find("go").is_none() {
        println!("skipped: no go (on Debian: apt-get install golang-go)");
        return;
    }
    let sum = "example.com/dep v1.0.0 h1:eiK342vEOJOX8c/5D6YDY05EJvYoljd49vYB8i7+j7Y=\n\
               example.com/dep v1.0.0/go.mod h1:5rs4KSmfUZiFzfS7NRaIBBKEzJJO/OUx6laGqkBWCL0=\n";
    let source = "package p\n\nimport (\n\t\"testing\"\n\n\t\"example.com/dep\"\n)\n\nfunc TestTwice(t *testing.T) {\n\t\
                  if dep.Twice(2) != 4 {\n\t\tt.Fatal()\n\t}\n}\n";
    root_and_another(|user| {
        user.make_folder("state");
        user.make_folder("work/p");
        let host = registry::served(user, &["proxy.golang.org"], "10.8.9.7", PROXY);
        user.write("work/p/go.mod", "module example.com/p\n\ngo 1.16\n\nrequire example.com/dep v1.0.0\n");
        user.write("work/p/p_test.go", source);
        let places = "proxy.golang.org=10.8.9.7:443";
        let test = |host: &Weak, code| {
            let call = user.hotcell_on(host, ["test", "p", "--deps", "--json"]);
            tested(call.env("PATH", PATH).env("HOTCELL_DEPS_HOSTS", places), user, code).0
        };
        // Without a digest in the lock file, and without a server to ask for one.
        user.write("work/p/go.sum", "");
        let report = test(&host, 125);
        assert!(report["reason"].as_str().is_some_and(|why| why.contains("sum.golang.org")), "{report:#}");
        user.write("work/p/go.sum", sum.replacen("h1:e", "h1:f", 1));
        let report = test(&host, 125);
        assert!(report["reason"].as_str().unwrap().contains("SECURITY ERROR"), "{report:#}");
        assert_eq!(kept(user), 0);
        user.write("work/p/go.sum", sum);
        assert_eq!(test(&host, 0)["totals"]["passed"], 1);
        // The module is cached, even when the proxy is gone.
        let alone = Weak::default();
        assert_eq!(test(&alone, 0)["totals"]["passed"], 1);
        assert_eq!(kept(user), 1);
        assert_eq!(
            std::fs::read_to_string(user.path("work/p/go.sum")).unwrap(),
            sum,
            "the project is as it was"
        );
        let state = user.path("state");
        let call =
            user.hotcell_on(&host, ["run", "--deps", "--workspace", "p", "--state", state.to_str().unwrap()]);
        let call = call.env("PATH", PATH).env("HOTCELL_DEPS_HOSTS", places);
        call.words(&["--", "go", "vet", "./..."]).end().code(0);
        // The tests of a repair have the packages as well, and those of a session that goes on.
        user.make_folder("work/q");
        user.write("work/q/go.mod", "module example.com/q\n\ngo 1.16\n\nrequire example.com/dep v1.0.0\n");
        user.write("work/q/go.sum", sum);
        let code = |number: u32| {
            format!(
                "package q\n\nimport \"example.com/dep\"\n\nfunc Four() int {{ return dep.Twice({number}) }}\n"
            )
        };
        user.write("work/q/q.go", code(3));
        let test = "package q\n\nimport \"testing\"\n\nfunc TestFour(t *testing.T) {\n\tif Four() != 4 {\n\t\tt.Fatal(Four())\n\t}\n}\n";
        user.write("work/q/q_test.go", test);
        let answers = [code(5), code(2)].map(|code| crate::fix::file("q.go", &code));
        let (address, _) = crate::fix::server(&answers.each_ref().map(String::as_str));
        let words =
            ["model", "add", "local", "--provider", "llamacpp", "--url", &address, "--model", "scripted"];
        user.hotcell(words).end().code(0);
        let state = state.to_str().unwrap();
        let hotcell = |words: &[&str]| {
            let call = user.hotcell(words.iter().copied()).words(&["--state", state]);
            call.env("PATH", PATH).env("HOTCELL_DEPS_HOSTS", places).end()
        };
        let call = user.hotcell_on(&host, ["test", "q", "--deps", "--json"]);
        let call = call.env("PATH", PATH).env("HOTCELL_DEPS_HOSTS", places);
        call.words(&["--state", state]).end().code(1);
        let report = hotcell(&["fix", "q", "--deps", "--iterations", "1", "--json"]).code(1).json();
        assert_eq!(report["before"]["of"], 1, "{report:#}");
        let id = report["id"].as_str().unwrap();
        let report = hotcell(&["agent", "resume", id, "--iterations", "2", "--json"]).code(0).json();
        assert_eq!(report["best"]["accepted"], true, "{report:#}");
        user.make_folder("work/none");
        hotcell(&["fix", "none", "--deps"]).code(125).says("there is no lock file");
    });
}
