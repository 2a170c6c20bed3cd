//! Whole lookups: on a simulated file system where paths must be `/home/u`, and on trees in a temporary
//! folder.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::files::{Fs, Kind};
use super::{Asks, LookupError, Project, Surroundings, Toolchain, finder};
use hotcell_sandbox::policy::FileId;

/// A simulated file system: every parent of an existing path exists.
#[derive(Default)]
pub struct Made {
    files: BTreeMap<PathBuf, (Kind, Vec<u8>)>,
}

pub const ELF: &str = "\x7fELF";

impl Made {
    /// Parses lines of `PATH`, `PATH -> TARGET`, `PATH = TEXT` (a file), `PATH * TEXT` (an executable file; a
    /// binary without TEXT).
    pub fn of(text: &str) -> Self {
        let mut made = Self::default();
        made.put("/usr/bin/env", Kind::File { executable: true, id: (1, 1) }, ELF);
        made.put("/usr/bin/python3.11", Kind::File { executable: true, id: (1, 2) }, ELF);
        made.put("/usr/bin/python3", Kind::Link("python3.11".into()), "");
        made.put("/home/u/work", Kind::Folder, "");
        made.put("/bin", Kind::Link("usr/bin".into()), "");
        made.put("/usr/bin/sh", Kind::File { executable: true, id: (1, 3) }, ELF);
        for (n, line) in text.lines().map(str::trim).filter(|l| !l.is_empty()).enumerate() {
            let file = |executable| Kind::File { executable, id: (2, n as u64) };
            if let Some((path, target)) = line.split_once(" -> ") {
                made.put(path, Kind::Link(target.into()), "");
            } else if let Some((path, text)) = line.split_once(" = ") {
                made.put(path, file(false), &text.replace("\\n", "\n"));
            } else if let Some((path, text)) = line.split_once(" * ") {
                made.put(path, file(true), &text.replace("\\n", "\n"));
            } else if let Some(path) = line.strip_suffix(" *") {
                made.put(path, file(true), ELF);
            } else {
                made.put(line, Kind::Folder, "");
            }
        }
        made
    }

    /// The canonical path, computed by another method than the tested one.
    pub fn real(&self, path: &Path) -> Option<PathBuf> {
        let mut at = PathBuf::from("/");
        let mut rest: Vec<OsString> = path.iter().rev().map(OsStr::to_owned).collect();
        for _ in 0..400 {
            let Some(name) = rest.pop() else { return Some(at) };
            match name.to_str() {
                Some("/") => at = PathBuf::from("/"),
                Some("..") => {
                    at.pop();
                }
                _ => {
                    at.push(&name);
                    if let (Kind::Link(target), _) = self.files.get(&at)? {
                        rest.extend(target.iter().rev().map(OsStr::to_owned));
                        at.pop();
                    }
                }
            }
        }
        None
    }

    pub fn put(&mut self, path: &str, kind: Kind, text: &str) {
        let path = PathBuf::from(path);
        for above in path.ancestors().skip(1) {
            self.files.entry(above.to_path_buf()).or_insert((Kind::Folder, Vec::new()));
        }
        self.files.insert(path, (kind, text.as_bytes().to_vec()));
    }
}

impl Fs for Made {
    fn look(&self, path: &Path) -> Option<Kind> {
        self.files.get(path).map(|(kind, _)| kind.clone())
    }
    fn head(&self, path: &Path, most: usize) -> Option<Vec<u8>> {
        let (kind, text) = self.files.get(&self.real(path)?)?;
        matches!(kind, Kind::File { .. }).then(|| text[..text.len().min(most)].to_vec())
    }
    fn names(&self, folder: &Path) -> Vec<OsString> {
        let below = self.files.keys().filter(|p| p.parent() == Some(folder));
        below.filter_map(|p| p.file_name().map(OsStr::to_owned)).collect()
    }
    fn id(&self, real: &Path) -> Option<FileId> {
        let number = |path: &PathBuf| path == real;
        let ino = self.files.keys().position(number)? as u64;
        (self.real(real).as_deref() == Some(real)).then_some(FileId { dev: 0, ino })
    }
}

pub fn at_home(path: &str, env: &[(&str, &str)]) -> Surroundings {
    Surroundings {
        path: Some(path.into()),
        virtual_env: None,
        home: Some("/home/u".into()),
        project: None,
        cwd: "/home/u/work".into(),
        env: env.iter().map(|(n, v)| (n.into(), v.into())).collect(),
        asks: Asks::Operator,
        granted: Vec::new(),
        python: None,
        foreign: super::Foreign::default(),
    }
}

pub fn found(tree: &str, program: &str, around: &Surroundings) -> Toolchain {
    match finder::find(&Made::of(tree), program.as_ref(), around, Project::Folder) {
        Ok(toolchain) => toolchain,
        Err(error) => panic!("{program}: {error}"),
    }
}

pub fn refused(tree: &str, program: &str, around: &Surroundings) -> LookupError {
    match finder::find(&Made::of(tree), program.as_ref(), around, Project::Folder) {
        Ok(toolchain) => panic!("{program}: {toolchain:?}"),
        Err(error) => error,
    }
}

pub fn paths(all: &[&str]) -> Vec<PathBuf> {
    all.iter().map(PathBuf::from).collect()
}

#[test]
fn installation_kinds_show_exact_prefix() {
    let rows: &[(&str, &str, &str, &[&str])] = &[
        ("/usr/bin/tool *", "/usr/bin", "/usr/bin/tool", &[]),
        ("/usr/bin/tool *", "/bin", "/bin/tool", &[]),
        (
            "/usr/bin/vi -> /etc/alternatives/vi\n/etc/alternatives/vi -> /usr/bin/vim\n/usr/bin/vim *",
            "/usr/bin",
            "/usr/bin/vi",
            &["/etc/alternatives"],
        ),
        (
            "/home/u/.nvm/versions/node/v20/bin/node *",
            "/home/u/.nvm/versions/node/v20/bin",
            "/home/u/.nvm/versions/node/v20/bin/node",
            &["/home/u/.nvm/versions/node/v20"],
        ),
        (
            "/home/u/.nvm/versions/node/v20/bin/node *
          /home/u/.nvm/versions/node/v20/bin/npm -> ../lib/node_modules/npm/bin/npm-cli.js
          /home/u/.nvm/versions/node/v20/lib/node_modules/npm/bin/npm-cli.js * #!/usr/bin/env node",
            "/home/u/.nvm/versions/node/v20/bin",
            "/home/u/.nvm/versions/node/v20/bin/npm",
            &["/home/u/.nvm/versions/node/v20"],
        ),
        ("/opt/foo/bin/x *", "/opt/foo/bin", "/opt/foo/bin/x", &["/opt/foo"]),
        ("/opt/foo/x *\n/opt/foo/lib/y", "/opt/foo", "/opt/foo/x", &["/opt/foo/lib", "/opt/foo/x"]),
        ("/opt/foo/libexec/bin/x *", "/opt/foo/libexec/bin", "/opt/foo/libexec/bin/x", &["/opt/foo"]),
        (
            "/opt/hosted/Python/3.12/x64/bin/x *",
            "/opt/hosted/Python/3.12/x64/bin",
            "/opt/hosted/Python/3.12/x64/bin/x",
            &["/opt/hosted/Python/3.12/x64"],
        ),
        ("/home/u/.local/bin/x *", "/home/u/.local/bin", "/home/u/.local/bin/x", &["/home/u/.local/bin"]),
        ("/home/u/bin/x *", "/home/u/bin", "/home/u/bin/x", &["/home/u/bin"]),
        ("/home/u/x *", "/home/u", "/home/u/x", &["/home/u/x"]),
        ("/home/u/go/bin/x *", "/home/u/go/bin", "/home/u/go/bin/x", &["/home/u/go/bin"]),
        (
            "/home/u/.fly/bin/x *\n/home/u/.fly/lib",
            "/home/u/.fly/bin",
            "/home/u/.fly/bin/x",
            &["/home/u/.fly/bin"],
        ),
        ("/home/u/jdk/bin/x *\n/home/u/jdk/lib", "/home/u/jdk/bin", "/home/u/jdk/bin/x", &["/home/u/jdk"]),
        (
            "/home/u/conda/bin/x *\n/home/u/conda/conda-meta/state = secret\n/home/u/conda/conda-meta/history = x
          /home/u/conda/etc/conda/activate.d/env_vars.sh = secret",
            "/home/u/conda/bin",
            "/home/u/conda/bin/x",
            &["/home/u/conda/bin", "/home/u/conda/conda-meta/history"],
        ),
        // An application's root that is a virtual environment, on the operator's own PATH.
        (
            "/srv/app/bin/x *\n/srv/app/pyvenv.cfg = home = /usr/bin\n/srv/app/lib/python3.11/y = y\n/srv/app/.env = secret",
            "/srv/app/bin",
            "/srv/app/bin/x",
            &["/srv/app/bin", "/srv/app/lib", "/srv/app/pyvenv.cfg"],
        ),
        ("/srv/bin/x *", "/srv/bin", "/srv/bin/x", &["/srv/bin"]),
        ("/tmp/bin/x *", "/tmp/bin", "/tmp/bin/x", &["/tmp/bin"]),
        (
            "/home/linuxbrew/.linuxbrew/bin/x -> ../Cellar/x/1/bin/x\n/home/linuxbrew/.linuxbrew/Cellar/x/1/bin/x *",
            "/home/linuxbrew/.linuxbrew/bin",
            "/home/linuxbrew/.linuxbrew/bin/x",
            &["/home/linuxbrew/.linuxbrew"],
        ),
        (
            "/run/sw/bin/x -> /nix/store/abc/bin/x\n/nix/store/abc/bin/x *",
            "/run/sw/bin",
            "/run/sw/bin/x",
            &["/nix/store", "/run/sw"],
        ),
        // pipx, and uv's tools likewise.
        (
            "/home/u/.local/bin/black -> /home/u/.local/share/pipx/venvs/black/bin/black
          /home/u/.local/share/pipx/venvs/black/bin/black * #!/home/u/.local/share/pipx/venvs/black/bin/python
          /home/u/.local/share/pipx/venvs/black/bin/python -> /home/u/.pyenv/versions/3.12.1/bin/python3.12
          /home/u/.local/share/pipx/venvs/black/pyvenv.cfg = home = /home/u/.pyenv/versions/3.12.1/bin
          /home/u/.pyenv/versions/3.12.1/bin/python3.12 *",
            "/home/u/.local/bin",
            "/home/u/.local/bin/black",
            &[
                "/home/u/.local/bin",
                "/home/u/.local/share/pipx/venvs/black",
                "/home/u/.pyenv/versions/3.12.1",
            ],
        ),
        // A cargo plugin: the folder of programs, never its parent with the credentials.
        (
            "/home/u/.cargo/bin/cargo-nextest *\n/home/u/.cargo/bin/rustup *\n/home/u/.cargo/credentials.toml = x",
            "/home/u/.cargo/bin",
            "/home/u/.cargo/bin/cargo-nextest",
            &["/home/u/.cargo/bin"],
        ),
        (
            "/data/cargo/bin/cargo-x *\n/data/cargo/credentials.toml = x",
            "/data/cargo/bin",
            "/data/cargo/bin/cargo-x",
            &["/data/cargo/bin"],
        ),
        // A folder that is a link: both of its names, and never the rest of the link's target.
        (
            "/home/u/.local -> /data/local\n/data/local/bin/x *",
            "/home/u/.local/bin",
            "/home/u/.local/bin/x",
            &["/data/local/bin", "/home/u/.local/bin"],
        ),
        (
            "/home/u/.local/lib/node_modules/a/cli.js * #!/usr/bin/env sh\n/home/u/.local/bin/a -> ../lib/node_modules/a/cli.js",
            "/home/u/.local/bin",
            "/home/u/.local/bin/a",
            &["/home/u/.local/bin", "/home/u/.local/lib/node_modules"],
        ),
    ];
    for (tree, path, program, prefixes) in rows {
        let name = Path::new(program).file_name().unwrap().to_str().unwrap();
        let toolchain = found(tree, name, &at_home(&format!("{path}:/usr/bin"), &[]));
        assert_eq!(toolchain.program, Path::new(program), "{tree}");
        assert_eq!(toolchain.prefixes, paths(prefixes), "{tree}");
    }
}

#[test]
fn typed_path_outside_toolchain_shows_one_file() {
    for (tree, typed, prefixes) in [
        ("/home/u/Downloads/x *", "/home/u/Downloads/x", &["/home/u/Downloads/x"][..]),
        ("/home/u/work/a.out *", "./a.out", &["/home/u/work/a.out"]),
        ("/home/u/a.out *", "../a.out", &["/home/u/a.out"]),
        ("/home/u/sdk/go/bin/go *", "/home/u/sdk/go/bin/go", &["/home/u/sdk/go"]),
        ("/opt/foo/x *", "/opt/foo/x", &["/opt/foo/x"]),
    ] {
        assert_eq!(found(tree, typed, &at_home("/usr/bin", &[])).prefixes, paths(prefixes), "{tree}");
    }
}

const UV: &str = "
    /home/u/work/p/.venv/pyvenv.cfg = home = /home/u/.local/share/uv/python/cpython-3.12-linux-x86_64-gnu/bin\\nuv = 0.9
    /home/u/work/p/.venv/bin/python -> /home/u/.local/share/uv/python/cpython-3.12-linux-x86_64-gnu/bin/python3.12
    /home/u/work/p/.venv/bin/python3 -> python
    /home/u/work/p/.venv/bin/pytest * #!/home/u/work/p/.venv/bin/python
    /home/u/.local/share/uv/python/cpython-3.12-linux-x86_64-gnu -> cpython-3.12.7-linux-x86_64-gnu
    /home/u/.local/share/uv/python/cpython-3.12.7-linux-x86_64-gnu/bin/python3.12 *
    /home/u/.local/share/uv/python/cpython-3.12.7-linux-x86_64-gnu/lib/python3.12/os.py = x
";

#[test]
fn project_venv_is_first_and_shows_its_python() {
    let around = at_home("/usr/bin", &[]).project("/home/u/work/p");
    let want = paths(&[
        "/home/u/.local/share/uv/python/cpython-3.12-linux-x86_64-gnu",
        "/home/u/.local/share/uv/python/cpython-3.12.7-linux-x86_64-gnu",
        "/home/u/work/p/.venv",
    ]);
    for name in ["python", "python3", "pytest"] {
        let toolchain = found(UV, name, &around);
        assert_eq!(toolchain.program, Path::new("/home/u/work/p/.venv/bin").join(name));
        assert_eq!(toolchain.prefixes, want);
        assert_eq!(toolchain.path_dirs, paths(&["/home/u/work/p/.venv/bin"]));
        assert_eq!(toolchain.env, [("VIRTUAL_ENV".into(), "/home/u/work/p/.venv".into())]);
    }
    for typed in [".venv/bin/pytest", "p/.venv/bin/pytest", "/home/sandbox/project/.venv/bin/pytest"] {
        let toolchain = found(UV, typed, &around);
        assert_eq!(toolchain.program, Path::new("/home/sandbox/project/.venv/bin/pytest"), "{typed}");
        assert_eq!(toolchain.prefixes, want, "{typed}");
    }
}

#[test]
fn project_script_runs_at_inside_path() {
    let tree = "/home/u/work/p/run.sh * #!/bin/sh
        /home/u/work/p/tool * #!/usr/bin/env node
        /home/u/work/p/node_modules/.bin/jest -> ../jest/jest.js
        /home/u/work/p/node_modules/jest/jest.js * #!/usr/bin/env node
        /home/u/n/v20/bin/node *";
    let around = at_home("/home/u/work/p/node_modules/.bin:/home/u/n/v20/bin", &[]).project("/home/u/work/p");
    for (typed, inside, prefixes, path) in [
        ("./run.sh", "run.sh", &[][..], &[][..]),
        ("p/run.sh", "run.sh", &[], &[]),
        ("./tool", "tool", &["/home/u/n/v20"], &["/home/u/n/v20/bin"]),
        (
            "jest",
            "node_modules/.bin/jest",
            &["/home/u/n/v20"],
            &["/home/sandbox/project/node_modules/.bin", "/home/u/n/v20/bin"],
        ),
    ] {
        let toolchain = found(tree, typed, &around);
        assert_eq!(toolchain.program, Path::new("/home/sandbox/project").join(inside));
        assert_eq!(toolchain.prefixes, paths(prefixes), "{typed}");
        assert_eq!(toolchain.path_dirs, paths(path), "{typed}");
    }
}

#[test]
fn home_folder_as_prefix_is_refused() {
    for tree in [
        "/home/u/pyvenv.cfg = home = /usr/bin\n/home/u/bin/x *",
        "/home/u/.v -> /home/u\n/home/u/pyvenv.cfg = home = /usr/bin\n/home/u/bin/x *",
        "/home/other/conda-meta\n/home/other/bin/x *",
    ] {
        let around = at_home("/home/u/.v/bin:/home/u/bin:/home/other/bin", &[]);
        let error = refused(tree, "x", &around);
        assert!(matches!(error, LookupError::TooBroad { .. }), "{error:?}");
        assert!(error.to_string().contains("‹toolchain="), "{error}");
    }
}

const PYENV: &str = "
    /home/u/.pyenv/shims/python3 * #!/usr/bin/env bash\\nexec \"/home/u/.pyenv/libexec/pyenv\" exec
    /home/u/.pyenv/shims/tool * #!/usr/bin/env bash
    /home/u/.pyenv/versions/3.11.7/bin/python3 *
    /home/u/.pyenv/versions/3.12.1/bin/python3 *
    /home/u/.pyenv/versions/3.12.1/bin/tool * #!/home/u/.pyenv/versions/3.12.1/bin/python3
    /home/u/.pyenv/version = 3.11.7
    /home/u/.pyenv/versions/web -> 3.12.1/envs/web
    /home/u/.pyenv/versions/3.12.1/envs/web/pyvenv.cfg = home = /home/u/.pyenv/versions/3.12.1/bin
    /home/u/.pyenv/versions/3.12.1/envs/web/bin/python3 -> /home/u/.pyenv/versions/3.12.1/bin/python3
    /home/u/work/q/.python-version = 3.12
    /home/u/work/sys/.python-version = system
    /home/u/work/web/.python-version = web
    /home/u/work/inner/.python-version = 3.12.1/envs/web
    /home/u/work/bad/.python-version = ../../../private
    /home/u/work/gone/.python-version = 3.99
    /home/u/work/leak/.python-version -> /home/u/.aws/key
    /home/u/.aws/key = AKIA
";

#[test]
fn pyenv_shim_resolves_to_its_interpreter() {
    let version = |v: &str| format!("/home/u/.pyenv/versions/{v}/bin/python3");
    for (project, env, want) in [
        ("/home/u/work/none", None, version("3.11.7")),
        ("/home/u/work/none", Some("3.12.1"), version("3.12.1")),
        ("/home/u/work/none", Some("3.12"), version("3.12.1")),
        ("/home/u/work/none", Some("web"), version("web")),
        ("/home/u/work/q/deep/er", None, version("3.12.1")),
        ("/home/u/work/q", Some("3.11.7"), version("3.11.7")),
        ("/home/u/work/sys", None, "/usr/bin/python3".to_owned()),
        ("/home/u/work/bad", None, version("3.11.7")),
        ("/home/u/work/leak", None, version("3.11.7")),
    ] {
        let env: Vec<_> = env.map(|v| ("PYENV_VERSION", v)).into_iter().collect();
        let around = at_home("/home/u/.pyenv/shims:/usr/bin", &env).project(project);
        let toolchain = found(PYENV, "python3", &around);
        assert_eq!(toolchain.program, Path::new(&want), "{project}");
    }
    let around = at_home("/home/u/.pyenv/shims:/usr/bin", &[("PYENV_VERSION", "web")]);
    let toolchain = found(PYENV, "python3", &around);
    let versions = ["3.12.1/bin", "3.12.1/envs/web", "web"].map(|v| format!("/home/u/.pyenv/versions/{v}"));
    assert_eq!(toolchain.prefixes, versions.map(PathBuf::from));
    // A virtual environment of another project: only the operator may name it.
    for project in ["/home/u/work/web", "/home/u/work/inner"] {
        let around = at_home("/home/u/.pyenv/shims:/usr/bin", &[]).project(project);
        let error = refused(PYENV, "python3", &around);
        assert!(matches!(error, LookupError::Untrusted { .. }), "{project}: {error}");
    }

    let around = at_home("/home/u/.pyenv/shims:/usr/bin", &[]).project("/home/u/work/gone");
    let error = refused(PYENV, "python3", &around).to_string();
    assert!(error.contains("3.99") && error.contains("pyenv install 3.99"), "{error}");
    let error = refused(PYENV, "tool", &at_home("/home/u/.pyenv/shims:/usr/bin", &[])).to_string();
    assert!(error.contains("PYENV_VERSION=3.12.1"), "{error}");
}

#[test]
fn asdf_and_mise_shims_resolve_unknown_refused() {
    let tree = "/home/u/.asdf/shims/node * #!/usr/bin/env bash
        /home/u/.asdf/installs/nodejs/20.11.0/bin/node *
        /home/u/.asdf/installs/nodejs/20 -> 20.11.0
        /home/u/.asdf/shims/ruby * #!/usr/bin/env bash
        /home/u/.asdf/installs/ruby/3.3.0/bin/ruby *
        /home/u/.asdf/installs/ruby/3.2.0/bin/ruby *
        /home/u/work/p/.tool-versions = nodejs 20.11.0\\nruby 3.2.0
        /home/u/work/m/mise.toml = [tools]\\nruby = \"3.3\"
        /home/u/odd/shims/thing * #!/bin/sh";
    let around = at_home("/home/u/.asdf/shims:/home/u/odd/shims:/usr/bin", &[]);
    let node = found(tree, "node", &around);
    assert_eq!(node.prefixes, paths(&["/home/u/.asdf/installs/nodejs/20.11.0"]));
    for (project, version) in [("/home/u/work/p", "3.2.0"), ("/home/u/work/m", "3.3.0")] {
        let ruby = found(tree, "ruby", &around.clone().project(project));
        assert_eq!(ruby.prefixes, paths(&[&format!("/home/u/.asdf/installs/ruby/{version}")]));
    }
    assert!(refused(tree, "ruby", &around).to_string().contains(".tool-versions"));
    assert!(refused(tree, "thing", &around).to_string().contains("name the real program"));
}

#[test]
fn rustup_proxy_resolves_to_active_toolchain() {
    let arch = std::env::consts::ARCH;
    let full = |n: &str| format!("/home/u/.rustup/toolchains/{n}-{arch}-unknown-linux-gnu");
    let tree = format!(
        "/home/u/.cargo/bin/rustup *\n/home/u/.cargo/bin/cargo -> rustup\n/home/u/.cargo/bin/cargo-fmt -> rustup
         /home/u/.cargo/credentials.toml = secret
         /home/u/.rustup/settings.toml = default_toolchain = \"stable-{arch}-unknown-linux-gnu\"\\n[overrides]\\n\"/home/u/work/o\" = \"nightly\"
         {0}/bin/cargo *\n{0}/lib/rustlib\n{1}/bin/cargo *\n{2}/bin/cargo *
         /home/u/work/p/rust-toolchain.toml = [toolchain]\\nchannel = \"1.90.0\"
         /home/u/work/gone/rust-toolchain = 1.2.3",
        full("stable"), full("nightly"), full("1.90.0"),
    );
    let cargo = |project: &str, env: &[(&str, &str)]| {
        found(&tree, "cargo", &at_home("/home/u/.cargo/bin", env).project(project))
    };
    for (project, env, want) in [
        ("/home/u/work/none", &[][..], "stable"),
        ("/home/u/work/p/src", &[], "1.90.0"),
        ("/home/u/work/o/a", &[], "nightly"),
        ("/home/u/work/p", &[("RUSTUP_TOOLCHAIN", "nightly")], "nightly"),
    ] {
        let toolchain = cargo(project, env);
        let want = PathBuf::from(full(want));
        assert_eq!(toolchain.program, want.join("bin/cargo"));
        assert_eq!(toolchain.path_dirs, [want.join("bin")]);
        assert_eq!(toolchain.prefixes, [want]);
    }
    let around = at_home("/home/u/.cargo/bin", &[]);
    let error = refused(&tree, "cargo", &around.clone().project("/home/u/work/gone")).to_string();
    assert!(error.contains("rustup toolchain install 1.2.3"), "{error}");
    let error = refused(&tree, "cargo-fmt", &around).to_string();
    assert!(error.contains("rustup component add rustfmt"), "{error}");
}

#[test]
fn lookup_errors_name_the_fault() {
    let tree = "/home/u/b/loop -> loop2\n/home/u/b/loop2 -> loop\n/home/u/b/gone -> /nowhere/x\n/home/u/b/plain = x
        /home/u/b/folder\n/home/u/b/text * hello\n/home/u/b/nointerp * #!/no/such/python
        /home/u/b/noenv * #!/usr/bin/env nosuchthing\n/home/u/b/self * #!/home/u/b/self\n/home/u/b/args * #!/usr/bin/env sh -e\n/home/u/b/tool *
        /home/u/b/xargs *\n/home/u/b/nodejs *\n/home/u/b/npm *
        /home/u/v/pyvenv.cfg = home = /gone/bin\n/home/u/v/bin/python *\n/home/u/v/bin/dead -> /gone/bin/python
        /home/u/w/pyvenv.cfg = home = /usr/bin\n/home/u/w/bin/old * #!/home/u/old/bin/python";
    for (typed, says) in [
        ("/home/u/b/loop", "circle"),
        ("/home/u/b/gone", "a link to /nowhere/x"),
        ("/home/u/b/plain", "chmod +x"),
        ("/home/u/b/folder", "is a folder"),
        ("/home/u/b/text", "begins with #!"),
        (
            "/home/u/b/nointerp",
            "the interpreter /no/such/python of the script /home/u/b/nointerp is not there",
        ),
        ("/home/u/b/noenv", "nosuchthing"),
        ("/home/u/b/args", "env -S"),
        ("/home/u/b/self", "more than 8"),
        ("/home/u/b/tol", "did you mean tool"),
        ("/home/u/b/nothing-like-it", "check the path"),
        ("/home/u/v/bin/python", "/gone/bin/python3, which is in no installation of yours"),
        ("/home/u/v/bin/python", "--clear /home/u/v`"),
        ("/home/u/v/bin/dead", "python3-venv"),
        ("/home/u/w/bin/old", "/home/u/old/bin/python, which is in no installation of yours"),
        ("/home/u/w/bin/old", "--clear /home/u/w`"),
        ("tol", "did you mean tool"),
        ("cargo", "install Rust from https://rustup.rs"),
        ("node", "install Node.js"),
        ("nodej", "did you mean nodejs?"),
        ("npx", "install Node.js"),
        ("xrago", "install it, or give its path"),
        ("plain", "chmod +x"),
        ("folder", "is not there (searched /home/u/b, /usr/bin)"),
        ("pytest", "pip install pytest"),
        ("", "name a program"),
    ] {
        let error = refused(tree, typed, &at_home("/home/u/b:/home/u/b:/usr/bin", &[])).to_string();
        assert!(error.contains(says), "{typed}: {error}");
    }
}

#[test]
fn project_shims_are_ordinary_scripts() {
    let tree = "/home/u/work/p/shims/x * #!/bin/sh";
    let around = at_home("/bin", &[]).project("/home/u/work/p");
    assert_eq!(found(tree, "shims/x", &around).program, Path::new("/home/sandbox/project/shims/x"));
    assert!(matches!(refused(tree, "nosuch", &around), LookupError::NotFound { .. }));
}

/// A tree on the real file system.
struct Real {
    root: tempfile::TempDir,
}

impl Real {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }
    fn at(&self, path: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(path)
    }
    fn file(&self, path: &str, text: &str, mode: u32) {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    fn link(&self, path: &str, target: impl AsRef<Path>) {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }
    fn around(&self, path: &[&str]) -> Surroundings {
        Surroundings {
            path: Some(std::env::join_paths(path.iter().map(|p| self.at(p))).unwrap()),
            home: Some(self.at("home")),
            cwd: self.at("home"),
            ..Surroundings::default()
        }
    }
}

#[test]
fn real_trees_with_links_hard_links_and_pipes() {
    let real = Real::new();
    // A venv made with a pyenv version, activated, whose folder is reached through a link.
    real.file("home/.pyenv/versions/3.12.1/bin/python3.12", ELF, 0o755);
    real.file("home/.pyenv/shims/python3", "#!/usr/bin/env bash\n", 0o755);
    real.file("home/.pyenv/version", "3.12\n", 0o644);
    real.link("home/.pyenv/versions/3.12.1/bin/python3", "python3.12");
    let home = format!("home = {}\n", real.at("home/.pyenv/versions/3.12.1/bin").display());
    real.file("data/v/pyvenv.cfg", &home, 0o644);
    real.link("data/v/bin/python3", real.at("home/.pyenv/versions/3.12.1/bin/python3"));
    real.link("home/v", real.at("data/v"));
    let mut around = real.around(&["home/.pyenv/shims"]);
    around.env.insert("PYENV_ROOT".into(), real.at("home/.pyenv").into());
    let toolchain = super::find("python3".as_ref(), &around).unwrap();
    assert_eq!(toolchain.prefixes, [real.at("home/.pyenv/versions/3.12.1")]);
    around.virtual_env = Some(real.at("home/v"));
    let toolchain = super::find("python3".as_ref(), &around).unwrap();
    assert_eq!(toolchain.program, real.at("home/v/bin/python3"));
    let want = [real.at("data/v"), real.at("home/.pyenv/versions/3.12.1"), real.at("home/v")];
    assert_eq!(toolchain.prefixes, want);

    // rustup installed by hard links.
    real.file("home/.cargo/bin/rustup", ELF, 0o755);
    std::fs::hard_link(real.at("home/.cargo/bin/rustup"), real.at("home/.cargo/bin/cargo")).unwrap();
    real.file("home/.rustup/settings.toml", "default_toolchain = \"mine\"\n", 0o644);
    real.file("home/.rustup/toolchains/mine/bin/cargo", ELF, 0o755);
    let toolchain = super::find("cargo".as_ref(), &real.around(&["home/.cargo/bin"])).unwrap();
    assert_eq!(toolchain.prefixes, [real.at("home/.rustup/toolchains/mine")]);

    // conda.
    real.file("home/c/envs/x/bin/python", ELF, 0o755);
    real.file("home/c/envs/x/conda-meta/history", "", 0o644);
    let toolchain = super::find("python".as_ref(), &real.around(&["home/c/envs/x/bin"])).unwrap();
    let parts = ["bin", "conda-meta/history"].map(|part| real.at("home/c/envs/x").join(part));
    assert_eq!(toolchain.prefixes, parts);
    assert_eq!(toolchain.env, [("CONDA_PREFIX".into(), real.at("home/c/envs/x").into())]);

    // A pipe is neither started nor waited for, whether it replaces a program or a version file.
    nix::unistd::mkfifo(&real.at("home/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = super::find(real.at("home/pipe").as_os_str(), &real.around(&[])).unwrap_err();
    assert!(matches!(error, LookupError::NotExecutable { .. }), "{error}");
    nix::unistd::mkfifo(&real.at("home/.python-version"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(super::find("python3".as_ref(), &real.around(&["home/.pyenv/shims"])).is_ok());
}

#[test]
fn surroundings_hold_version_variables_only() {
    for (name, kept) in [
        ("PYENV_VERSION", true),
        ("RBENV_VERSION", true),
        ("RUSTUP_TOOLCHAIN", true),
        ("ASDF_NODEJS_VERSION", true),
        ("AWS_SECRET_ACCESS_KEY", false),
        ("CARGO_REGISTRY_TOKEN", false),
        ("MISE_GITHUB_TOKEN", false),
        ("HOME", false),
    ] {
        assert_eq!(super::chooses_versions(name.as_ref()), kept, "{name}");
    }
    assert!(Surroundings::of_this_process().cwd.is_absolute());
}

#[test]
fn granted_folders_are_trusted() {
    let tree = "/home/u/private/bin/x *\n/home/u/p/tool -> /home/u/private/bin/x";
    let mut around = at_home("/usr/bin", &[]).project("/home/u/p");
    let refused = finder::find(&Made::of(tree), "./tool".as_ref(), &around, Project::Folder);
    assert!(matches!(refused, Err(LookupError::Untrusted { .. })), "{refused:?}");
    around.granted = vec!["/home/u/private".into()];
    around.cwd = "/home/u/p".into();
    assert_eq!(found(tree, "./tool", &around).prefixes, [PathBuf::from("/home/u/private")]);
}
