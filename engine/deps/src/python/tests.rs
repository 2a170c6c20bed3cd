//! Tests of the modules above.

use super::*;

#[derive(Debug)]
struct Files(Vec<(&'static str, String)>);

impl Project for Files {
    fn files(&self) -> &[String] {
        &[]
    }
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.0.iter().find(|(name, _)| *name == path).map(|(_, text)| text.clone().into_bytes())
    }
    fn has(&self, path: &str) -> bool {
        self.0.iter().any(|(name, _)| *name == path)
    }
}

fn of(files: &[(&'static str, &str)]) -> Result<Plan, LockError> {
    let files = files.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
    locked(&Files(files)).expect("a lock file")
}

fn lines(plan: &Plan) -> Vec<&str> {
    std::str::from_utf8(&plan.files[LOCKED]).unwrap().lines().collect()
}

fn hosts(plan: &Plan) -> Vec<&str> {
    plan.hosts.iter().map(String::as_str).collect()
}

/// A lock file of uv with these packages: name, version, and the rest of the entry.
fn uv_lock(packages: &[(&str, &str, &str)]) -> String {
    let mut text = "version = 1\nrevision = 5\nrequires-python = \">=3.11\"\n".to_owned();
    for (name, version, rest) in packages {
        text.push_str(&format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n"));
        if !rest.contains("source = ") {
            text.push_str("source = { registry = \"https://pypi.org/simple\" }\n");
            text.push_str(&format!("wheels = [{{ url = \"https://files.pythonhosted.org/{name}.whl\", hash = \"sha256:{name}\" }}]\n"));
        }
        text.push_str(&format!("{rest}\n"));
    }
    text
}

#[test]
fn uv_plan_lists_required_packages() {
    let own = r#"source = { editable = "." }
            dependencies = [{ name = "a", extra = ["x"] }, { name = "w", marker = "sys_platform == 'win32'" }]
            [package.optional-dependencies]
            test = [{ name = "t" }]
            docs = [{ name = "d" }]
            [package.dev-dependencies]
            dev = [{ name = "v", version = "2", marker = "python_version >= '3.12'" }, { name = "v", version = "1", marker = "python_version < '3.12'" }]
            lint = [{ name = "l" }]"#;
    let lock = uv_lock(&[
        ("own", "0.1.0", own),
        (
            "a",
            "1",
            "dependencies = [{ name = \"c\", marker = \"os_name == 'nt'\" }]\n[package.optional-dependencies]\nx = [{ name = \"e\" }]",
        ),
        ("c", "1", "dependencies = [{ name = \"a\" }]"),
        ("d", "1", ""),
        ("e", "1", "dependencies = [{ name = \"w\", marker = \"os_name == 'nt'\" }]"),
        ("l", "1", ""),
        ("t", "1.0.post1", ""),
        ("v", "1", ""),
        ("v", "2", ""),
        ("w", "1", ""),
        ("git", "1", "source = { git = \"https://x.org/a.git\" }"),
        ("member", "0", "source = { editable = \"packages/member\" }"),
        ("beside", "0", "source = { directory = \"../beside\" }"),
    ]);
    let plan = of(&[("uv.lock", &lock), ("pyproject.toml", "")]).unwrap();
    assert_eq!(plan.own, [PathBuf::new(), "packages/member".into()]);
    assert_eq!(
        lines(&plan),
        [
            "a==1 --hash=sha256:a",
            "c==1 ; (os_name == 'nt') --hash=sha256:c",
            "e==1 --hash=sha256:e",
            "t==1.0.post1 --hash=sha256:t",
            "v==1 ; (python_version < '3.12') --hash=sha256:v",
            "v==2 ; (python_version >= '3.12') --hash=sha256:v",
            "w==1 ; (os_name == 'nt') or (sys_platform == 'win32') --hash=sha256:w",
        ]
    );
    assert_eq!(hosts(&plan), ["files.pythonhosted.org:443", "pypi.org:443"]);
    for word in ["--no-deps", "--require-hashes", "--only-binary=:all:", "-rlocked.txt"] {
        assert!(plan.argv.contains(&word.into()), "{word}");
    }
    // The project's default groups.
    for (says, with) in [("[\"lint\"]", ["l", "t"]), ("\"all\"", ["l", "v"]), ("[]", ["a", "t"])] {
        let project = format!("[tool.uv]\ndefault-groups = {says}\n");
        let plan = of(&[("uv.lock", &lock), ("pyproject.toml", &project)]).unwrap();
        let has = |name: &str| lines(&plan).iter().any(|l| l.starts_with(&format!("{name}==")));
        assert!(with.iter().all(|name| has(name)), "{says}: {:?}", lines(&plan));
        assert_eq!(has("l"), says != "[]", "{says}");
    }
}

/// Each package is required with a marker and without, in the order that would follow each path again.
#[test]
fn uv_lock_with_many_paths_is_read_quickly() {
    let names: Vec<String> = (0..60).map(|n| format!("v{n:02}")).collect();
    let needs = |name: &str, n: usize| {
        format!(
            "dependencies = [{{ name = \"{name}\", marker = \"os_name == '{n}'\" }}, {{ name = \"{name}\" }}]"
        )
    };
    let root = format!("source = {{ virtual = \".\" }}\n{}", needs("v00", 99));
    let rest: Vec<String> = (1..60).map(|n| needs(&names[n], n)).chain([String::new()]).collect();
    let mut packages = vec![("own", "0", root.as_str())];
    packages.extend(names.iter().zip(&rest).map(|(name, rest)| (name.as_str(), "1", rest.as_str())));
    let plan = of(&[("uv.lock", &uv_lock(&packages))]).unwrap();
    assert_eq!(lines(&plan).len(), 60);
    assert!(lines(&plan).iter().all(|line| !line.contains(';')), "{:?}", lines(&plan));
    // A chain of markers, longer than in any real project.
    let names: Vec<String> = (0..90).map(|n| format!("v{n:02}")).collect();
    let chain =
        |n: usize| format!("dependencies = [{{ name = \"{}\", marker = \"os_name == '{n}'\" }}]", names[n]);
    let root = format!("source = {{ virtual = \".\" }}\n{}", chain(0));
    let rest: Vec<String> = (1..90).map(chain).chain([String::new()]).collect();
    let mut packages = vec![("own", "0", root.as_str())];
    packages.extend(names.iter().zip(&rest).map(|(name, rest)| (name.as_str(), "1", rest.as_str())));
    let error = of(&[("uv.lock", &uv_lock(&packages))]).unwrap_err();
    assert!(error.to_string().contains("more than 64 conditions"), "{error}");
}

#[test]
fn uv_workspace_without_root_package_has_groups() {
    let lock = format!(
        "{}[manifest]\nmembers = []\n[manifest.dependency-groups]\ndev-tools = [{{ name = \"a\" }}]\n",
        uv_lock(&[("a", "1", ""), ("b", "1", "")])
    );
    let project = "[tool.uv]\ndefault-groups = [\"Dev_Tools\"]\n";
    let plan = of(&[("uv.lock", &lock), ("pyproject.toml", project)]).unwrap();
    assert_eq!(lines(&plan), ["a==1 --hash=sha256:a"]);
    assert!(lines(&of(&[("uv.lock", &lock)]).unwrap()).is_empty());
    let error = of(&[("uv.lock", &uv_lock(&[("a", "1", "")]))]).unwrap_err();
    assert!(error.to_string().contains("does not say which"), "{error}");
}

fn poetry_lock(version: &str, packages: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, rest) in packages {
        text.push_str(&format!(
                "[[package]]\nname = \"{name}\"\nversion = \"1\"\nfiles = [{{file = \"{name}.whl\", hash = \"sha256:{name}\"}}]\n{rest}\n"
            ));
    }
    text.push_str(&format!("[metadata]\nlock-version = \"{version}\"\n"));
    text
}

#[test]
fn poetry_plan_lists_required_packages() {
    let lock = poetry_lock(
        "2.1",
        &[
            (
                "a",
                "optional = false\ngroups = [\"main\"]\n[package.dependencies]\nb = {version = \"*\", markers = \"x\"}",
            ),
            (
                "b",
                "optional = false\ngroups = [\"main\", \"dev\"]\nmarkers = \"sys_platform == \\\"win32\\\"\"",
            ),
            (
                "c",
                "optional = false\ngroups = [\"main\", \"dev\"]\nmarkers = {main = \"os_name == 'nt'\", dev = \"os_name == 'posix'\"}",
            ),
            ("d", "optional = false\ngroups = [\"main\", \"dev\"]\nmarkers = {main = \"os_name == 'nt'\"}"),
            ("e", "optional = false\ngroups = [\"docs\"]"),
            ("f", "optional = true\ngroups = [\"main\"]\nmarkers = \"extra == 'f'\""),
            (
                "g",
                "optional = false\ngroups = [\"test\"]\n[package.source]\ntype = \"legacy\"\nurl = \"https://pip.example.org/simple/\"\nreference = \"x\"",
            ),
        ],
    );
    let project = "[tool.poetry.group.docs]\noptional = true\n[tool.poetry.group.test]\noptional = true\n";
    let plan = of(&[("poetry.lock", &lock), ("pyproject.toml", project)]).unwrap();
    assert_eq!(
        lines(&plan),
        [
            "--index-url https://pip.example.org/simple",
            "--extra-index-url https://pypi.org/simple",
            "a==1 --hash=sha256:a",
            "b==1 ; (sys_platform == \"win32\") --hash=sha256:b",
            "c==1 ; (os_name == 'nt') or (os_name == 'posix') --hash=sha256:c",
            "d==1 --hash=sha256:d",
            "g==1 --hash=sha256:g",
        ]
    );
    assert_eq!(hosts(&plan), ["files.pythonhosted.org:443", "pip.example.org:443", "pypi.org:443"]);
    assert_eq!(plan.own, [PathBuf::new()]);
    let project = "[tool.poetry]\npackage-mode = false\n";
    assert!(of(&[("poetry.lock", &lock), ("pyproject.toml", project)]).unwrap().own.is_empty());
}

#[test]
fn pipenv_plan_lists_required_packages() {
    let lock = r#"{"_meta": {"pipfile-spec": 6, "sources": [{"name": "pypi", "url": "https://pypi.org/simple", "verify_ssl": true},
                {"name": "own", "url": "https://pip.example.org/simple"}]},
            "default": {"a": {"version": "==1.2", "hashes": ["sha256:1", "sha256:0"], "index": "pypi", "markers": "python_version >= '3.8'"}},
            "develop": {"a": {"version": "==1.2", "hashes": ["sha256:1"], "markers": "os_name == 'posix'"}, "b": {"version": "==2", "hashes": ["sha256:b"], "index": "own"},
                "c": {"version": "==3", "hashes": ["sha256:c"]}}}"#;
    let plan = of(&[("Pipfile.lock", lock)]).unwrap();
    assert_eq!(
        lines(&plan)[2..],
        [
            "a==1.2 ; (python_version >= '3.8') or (os_name == 'posix') --hash=sha256:0 --hash=sha256:1",
            "b==2 --hash=sha256:b",
            "c==3 --hash=sha256:c"
        ]
    );
}

#[test]
fn skipped_python_packages_are_named() {
    let own = |edge: &str| {
        let root = format!("source = {{ editable = \".\" }}\ndependencies = [{edge}]");
        uv_lock(&[
            ("own", "0", &root),
            ("a", "1", ""),
            ("g", "1", "source = { git = \"https://x.org/g.git?rev=1#1\" }"),
            ("n", "1", "source = { registry = \"https://pypi.org/simple\" }"),
            (
                "h",
                "1",
                "source = { registry = \"http://x.org/simple\" }\nwheels = [{ url = \"https://x.org/h.whl\", hash = \"sha256:h\" }]",
            ),
            (
                "i",
                "1",
                "source = { registry = \"https://u:p@x.org/simple\" }\nwheels = [{ hash = \"sha256:h\" }]",
            ),
            (
                "j",
                "1",
                "source = { registry = \"../wheels\" }\nwheels = [{ path = \"j.whl\", hash = \"sha256:j\" }]",
            ),
            (
                "k",
                "1",
                "source = { registry = \"https://pypi.org/simple\" }\nwheels = [{ hash = \"sha256:k --no-binary=:all:\" }]",
            ),
            ("l", "1 --pre", ""),
            ("two", "1", ""),
            ("two", "2", ""),
        ])
    };
    let poetry = |rest: &str| poetry_lock("2.1", &[("a", rest)]);
    for (file, text, why) in [
            ("uv.lock", "version = 2\n".to_owned(), "is of version 2"),
            ("uv.lock", "x".to_owned(), "is no lock file"),
            ("uv.lock", own("{ name = \"g\" }"), "g comes from no registry"),
            ("uv.lock", own("{ name = \"n\" }"), "n has no digest"),
            ("uv.lock", own("{ name = \"h\" }"), "by https"),
            ("uv.lock", own("{ name = \"i\" }"), "no plain host"),
            ("uv.lock", own("{ name = \"j\" }"), "by https"),
            ("uv.lock", own("{ name = \"k\" }"), "has no digest"),
            ("uv.lock", own("{ name = \"l\" }"), "no name with a version"),
            ("uv.lock", own("{ name = \"two\" }"), "no one package that two is"),
            ("uv.lock", own("{ name = \"none\" }"), "no one package that none is"),
            ("uv.lock", own("{ name = \"a\", marker = \"extra == 'extra-3-own-x'\" }"), "is not done here"),
            ("uv.lock", own("{ name = \"a\", marker = \"x\\n--no-binary=:all:\" }"), "is no marker"),
            ("uv.lock", own("{ name = \"a\", marker = \"x --no-binary=:all:\" }"), "is no marker"),
            ("poetry.lock", poetry_lock("2.0", &[]), "with Poetry 2"),
            ("poetry.lock", poetry_lock("1.1", &[]), "with Poetry 2"),
            ("poetry.lock", poetry("groups = [\"main\"]\n[package.source]\ntype = \"git\"\nurl = \"https://x.org/a\""), "comes from git"),
            ("Pipfile.lock", "{".to_owned(), "is no lock file"),
            ("Pipfile.lock", r#"{"_meta": {}, "default": {"a": {"version": "==1", "hashes": ["md5:1"]}}}"#.to_owned(), "no digest"),
            ("Pipfile.lock", r#"{"_meta": {}, "default": {"a": {"version": "==1", "hashes": ["sha256:1"]}}, "develop": {"a": {"version": "==2", "hashes": ["sha256:1"]}}}"#.to_owned(), "two versions"),
            ("Pipfile.lock", r#"{"_meta": {}, "default": {"a": {"git": "https://x.org/a", "ref": "1"}}}"#.to_owned(), "no registry"),
            ("Pipfile.lock", r#"{"_meta": {"sources": [{"name": "x", "url": "https://x.org/$TOKEN/simple"}]}, "default": {"a": {"version": "==1", "hashes": ["sha256:1"]}}}"#.to_owned(), "no plain address"),
        ] {
            let error = of(&[(file, &text)]).expect_err(why);
            assert!(error.to_string().contains(why) && error.file == file, "{why}: {error}");
        }
    assert!(lines(&of(&[("uv.lock", &uv_lock(&[]))]).unwrap()).is_empty());
}

proptest::proptest! {
    /// For any dependency graph, reading ends, and each line is a valid requirement for pip.
    #[test]
    fn arbitrary_dependency_graphs_are_read(edges in proptest::collection::vec((0..6usize, 0..6usize, 0..4u8), 0..24)) {
        let names = ["own", "a", "b", "c", "d", "e"];
        let packages: Vec<(&str, &str, String)> = names.iter().enumerate().map(|(from, name)| {
            let needs: Vec<String> = edges.iter().filter(|(f, to, _)| *f == from && *to != 0).map(|(_, to, m)| match m {
                0 => format!("{{ name = \"{}\" }}", names[*to]),
                m => format!("{{ name = \"{}\", marker = \"os_name == '{m}'\" }}", names[*to]),
            }).collect();
            let source = if from == 0 { "source = { virtual = \".\" }\n" } else { "" };
            (*name, "1", format!("{source}dependencies = [{}]", needs.join(", ")))
        }).collect();
        let packages: Vec<(&str, &str, &str)> = packages.iter().map(|(n, v, r)| (*n, *v, r.as_str())).collect();
        let plan = of(&[("uv.lock", &uv_lock(&packages))]).unwrap();
        for line in lines(&plan) {
            proptest::prop_assert!(line.contains("==1") && line.contains(" --hash=sha256:"), "{line}");
        }
    }
}
