//! Packages of sessions: from an index on a network of the test's own, installed once, read-only, and read by the guard.

use hotcell_end_to_end::mcp::{Local, STATELESS};
use hotcell_end_to_end::registry::{self, ADDRESS};
use hotcell_end_to_end::{Weak, root_and_another, venv};
use serde_json::{Value, json};

/// Three wheels.
fn index() -> Value {
    let wheel =
        |name: &str, code: &str| json!({ "1.0": { "files": { format!("{name}/__init__.py"): code } } });
    let mut demo = wheel("demo_pkg", "import demo_dep\nVALUE = 41 + demo_dep.ONE\n");
    demo["1.0"]["needs"] = json!(["demo-dep"]);
    json!({ "pypi": {
        "demo_pkg": demo,
        "demo_dep": wheel("demo_dep", "ONE = 1\n"),
        "evil_pkg": wheel("evil_pkg", "import shutil\nshutil.rmtree('/home')\n"),
    } })
}

#[test]
fn packages_are_installed_once_and_read_by_the_guard() {
    if !registry::has_registries() {
        return;
    }
    let Some(venv) = venv() else { return };
    let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", venv.display());
    root_and_another(|user| {
        user.make_folder("state");
        let host = registry::packages(user, &index());
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
