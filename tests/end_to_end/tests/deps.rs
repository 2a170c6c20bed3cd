//! `--deps`: lock files' packages from the real registries, once, read-only, and from nowhere else.

use std::net::{SocketAddr, ToSocketAddrs};

use hotcell_end_to_end::{User, everyone, venv};
use serde_json::Value;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Rules for where these registries are on this machine: behind a company's proxy they may be at private addresses.
fn places(hosts: &[&str]) -> Option<String> {
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
        // Where nothing may be reached but the lock's registries.
        let outcome = run(
            user,
            &path,
            &places,
            &["python3", "-c", "import urllib.request as u; u.urlopen('https://pypi.org')"],
            1,
        );
        assert!(outcome["stderr"]["text"].as_str().unwrap().contains("Error"), "{outcome:#}");

        // What is not locked is not installed, and neither is what would run its own code.
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

/// From PyPI: the wheel of idna 3.10.
const IDNA: &str = "946d195a0d259cbba61165e88e65941f16e9b36ea6ddb97f00452bae8b1287d3";

#[test]
fn what_uv_poetry_and_pipenv_have_locked_is_installed_by_its_digest() {
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
            // What somebody exported, and the lock does not say, counts for nothing.
            user.write("work/project/requirements.txt", "idna>=2\n");
            user.make_folder("work/project/src");
            user.write("work/project/src/own.py", "import idna\nprint(idna.__version__)\n");
            // Pipenv knows of no project of its own.
            let import =
                if file == "Pipfile.lock" { "import idna; print(idna.__version__)" } else { "import own" };
            let command = ["python3", "-c", import];
            let before = kept(user);
            user.write(format!("work/project/{file}"), lock.replace("IDNA", IDNA));
            let outcome = run(user, &path, &places, &command, 0);
            assert_eq!(outcome["stdout"]["text"], "3.10\n", "{file}: {outcome:#}");

            // Other bytes than the lock says.
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

        // Other bytes than the lock says.
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
