//! Tests of the module above.

use std::collections::BTreeSet;

use super::*;
use crate::plan::*;

#[derive(Debug)]
struct Files(Vec<(&'static str, &'static str)>, Vec<String>);

impl Project for Files {
    fn files(&self) -> &[String] {
        &self.1
    }
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.0.iter().find(|(name, _)| *name == path).map(|(_, text)| text.as_bytes().to_vec())
    }
    fn has(&self, path: &str) -> bool {
        self.0.iter().any(|(name, _)| *name == path)
    }
}

fn of(files: &[(&'static str, &'static str)]) -> Result<Vec<Plan>, LockError> {
    plans(&Files(files.to_vec(), Vec::new()))
}

fn hosts(plan: &Plan) -> Vec<&str> {
    plan.hosts.iter().map(String::as_str).collect()
}

#[test]
fn lock_files_name_their_registries() {
    let npm = r#"{"lockfileVersion": 3, "packages": {"": {}, "packages/own": {}, "node_modules/own": {"link": true, "resolved": "packages/own"},
            "node_modules/a": {"integrity": "sha512-x"},
            "node_modules/a/node_modules/c": {"inBundle": true}, "node_modules/a/node_modules/c/node_modules/@d/e": {"inBundle": true},
            "node_modules/b": {"integrity": "sha512-x", "resolved": "https://Npm.Example.org/b/-/b-1.tgz"}}}"#;
    let cargo = "[[package]]\nname = \"me\"\nversion = \"1\"\n[[package]]\nname = \"a\"\nversion = \"1\"\n\
                     source = \"registry+https://github.com/rust-lang/crates.io-index\"\n\
                     [[package]]\nname = \"b\"\nversion = \"1\"\nsource = \"sparse+https://crates.example.org/index/\"\n";
    let plans = of(&[
            ("package.json", "{}"),
            ("package-lock.json", npm),
            ("packages/own/package.json", "{}"),
            ("requirements.txt", "# all\npytest==9.2.0\na[b]==1.0 ; python_version < '4' \\\n    --hash=sha256:00\n-r requirements-dev.txt\n"),
            ("requirements-dev.txt", "c==2!1.0.post1\n"),
            ("Cargo.lock", cargo),
        ])
        .unwrap();
    assert_eq!(
        plans.iter().map(|p| p.installer).collect::<Vec<_>>(),
        [Installer::Npm, Installer::Pip, Installer::Cargo]
    );
    assert_eq!(hosts(&plans[0]), ["npm.example.org:443", "registry.npmjs.org:443"]);
    assert_eq!(hosts(&plans[1]), ["files.pythonhosted.org:443", "pypi.org:443"]);
    assert_eq!(hosts(&plans[2]), ["crates.example.org:443", "index.crates.io:443", "static.crates.io:443"]);
    assert!(plans.iter().all(|p| p.digest.len() == 64));
    assert!(plans[0].argv.contains(&"--ignore-scripts".into()));
    assert!(of(&[("main.py", "")]).unwrap().is_empty());
}

#[test]
fn go_modules_come_from_proxy_by_digest() {
    let sum = "example.com/a v1.0.0 h1:xyz=\nexample.com/a v1.0.0/go.mod h1:abc=\n\n";
    let plans = of(&[("go.mod", "module p\n"), ("go.sum", sum)]).unwrap();
    assert_eq!((plans.len(), plans[0].installer), (1, Installer::Go));
    assert_eq!(hosts(&plans[0]), ["proxy.golang.org:443"]);
    assert_eq!(plans[0].files.keys().collect::<Vec<_>>(), ["go.mod", "go.sum"]);
    // A workspace, with the lock files of its modules.
    let work =
        &[("go.work", "use ./a\n"), ("a/go.mod", "module a\n"), ("a/go.sum", sum), ("a/a.go", "package a")];
    let all = work.iter().map(|(name, _)| (*name).to_owned()).collect();
    let plans = super::plans(&Files(work.to_vec(), all)).unwrap();
    assert_eq!(plans[0].files.keys().collect::<Vec<_>>(), ["a/go.mod", "a/go.sum", "go.work"]);
    // No dependencies, or all of them vendored.
    for files in [
        &[("go.mod", "module p\n")][..],
        &[("go.sum", sum)],
        &[("go.mod", "module p\n"), ("go.sum", sum), ("vendor/modules.txt", "")],
    ] {
        assert!(of(files).unwrap().is_empty(), "{files:?}");
    }
}

#[test]
fn dependencies_without_registry_are_named() {
    let npm = |package: &'static str| -> Vec<(&'static str, &'static str)> {
        vec![("package.json", "{}"), ("package-lock.json", package)]
    };
    for (files, why) in [
        (npm("{"), "is no lock file"),
        (npm(r#"{"lockfileVersion": 1}"#), "version 1"),
        (
            npm(
                r#"{"lockfileVersion": 3, "packages": {"node_modules/a": {"resolved": "git+ssh://git@x.org/a.git#1"}}}"#,
            ),
            "no digest",
        ),
        (
            npm(
                r#"{"lockfileVersion": 3, "packages": {"node_modules/a": {"integrity": "x", "resolved": "http://x.org/a"}}}"#,
            ),
            "https",
        ),
        (
            npm(
                r#"{"lockfileVersion": 3, "packages": {"node_modules/a": {"integrity": "x", "resolved": "https://u:p@x.org/a"}}}"#,
            ),
            "no plain host",
        ),
        (
            npm(
                r#"{"lockfileVersion": 3, "packages": {"node_modules/a": {"integrity": "x", "resolved": "https://x.org:8443/a"}}}"#,
            ),
            "no plain host",
        ),
        // A bundled package must be below one that is fetched.
        (
            npm(r#"{"lockfileVersion": 3, "packages": {"node_modules/a": {"inBundle": true}}}"#),
            "none with a digest is there",
        ),
        (
            npm(
                r#"{"lockfileVersion": 3, "packages": {"node_modules/a": {"inBundle": true}, "node_modules/a/node_modules/b": {"inBundle": true}}}"#,
            ),
            "none with a digest is there",
        ),
        (
            npm(
                r#"{"lockfileVersion": 3, "packages": {"node_modules/a": {"inBundle": true, "resolved": "https://x.org/a.tgz"}}}"#,
            ),
            "has no digest",
        ),
        (npm(r#"{"lockfileVersion": 3, "packages": {"../x": {}}}"#), "no path below the project"),
        (npm(r#"{"lockfileVersion": 3, "packages": {"/etc": {}}}"#), "no plain path"),
        (npm(r#"{"lockfileVersion": 3, "packages": {"./.": {}}}"#), "no plain path"),
        (vec![("requirements.txt", "a==1\n--only-binary=:none:\n")], "is not done here"),
        (vec![("requirements.txt", "# a\x0c--no-binary=:all:\n")], "other than plain text"),
        (vec![("requirements.txt", "\u{feff}a==1\n")], "other than plain text"),
        (vec![("requirements.txt", "a==1 --hash=sha256:0 --global-option=x\n")], "is not done here"),
        (vec![("requirements.txt", "-i https://x.org/${TOKEN}/simple\n")], "names a variable"),
        (vec![("requirements.txt", "flask>=2\n")], "flask>=2 is not one version"),
        (vec![("requirements.txt", "flask==2.*\n")], "is not one version"),
        (vec![("requirements.txt", "git+https://x.org/a.git\n")], "is not one version"),
        (vec![("requirements.txt", "-e .\n")], "-e . is not done here"),
        (vec![("requirements.txt", "--find-links /tmp\n")], "is not done here"),
        (vec![("requirements.txt", "-r ../other.txt\n")], "is not done here"),
        (vec![("requirements.txt", "-i http://x.org/simple\n")], "https"),
        (
            vec![(
                "Cargo.lock",
                "[[package]]\nname = \"a\"\nversion = \"1\"\nsource = \"git+https://x.org/a\"\n",
            )],
            "comes from git+",
        ),
        (vec![("Cargo.lock", "x")], "is no lock file"),
        (
            vec![("go.mod", "module p"), ("go.sum", "example.com/a v1\n")],
            "line 1 is not MODULE VERSION DIGEST",
        ),
    ] {
        let error = of(&files).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn requirements_replace_unusable_lock() {
    let broken = ("uv.lock", "version = 7\n");
    let plans = of(&[broken, ("requirements.txt", "a==1\n")]).unwrap();
    assert_eq!((plans.len(), plans[0].locks.as_slice()), (1, &["requirements.txt".to_owned()][..]));
    assert!(plans[0].own.is_empty());
    let error = of(&[broken, ("requirements.txt", "a>1\n")]).unwrap_err();
    assert_eq!(error.file, "uv.lock", "{error}");
}

#[test]
fn requirements_are_read_in_their_order() {
    let plans = of(&[("dev-requirements.txt", "b==1\n"), ("requirements.txt", "a==1\n")]).unwrap();
    let words: Vec<_> = plans[0].argv.iter().filter_map(|word| word.to_str()?.strip_prefix("-r")).collect();
    assert_eq!(words, ["requirements.txt", "dev-requirements.txt"]);
}

#[test]
fn plan_digest_covers_lock() {
    let digest = |text| of(&[("requirements.txt", text)]).unwrap()[0].digest.clone();
    assert_eq!(digest("a==1\n"), digest("a==1\n"));
    assert_ne!(digest("a==1\n"), digest("a==2\n"));
}

proptest::proptest! {
    #[test]
    fn arbitrary_requirements_cause_no_panic(line in "[-a-z0-9=.;\\[\\] :/@#*\\\\\n]{0,60}") {
        let mut hosts = BTreeSet::new();
        if crate::pip::requirement("r", &line, &["r"], &mut hosts).is_ok() {
            assert!(hosts.iter().all(|host| host.ends_with(":443")));
        }
    }
}
