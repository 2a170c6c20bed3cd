//! Tests of where a project or a caller may lead: tables, and random projects on a file system that records
//! every query.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::files::{Fs, Kind};
use super::tests::{ELF, Made, at_home, found, paths, refused};
use super::{Asks, LookupError, Project, Surroundings, finder};
use hotcell_sandbox::policy::FileId;

/// Each looks like an installation of some language; none is in the operator's set.
const PRIVATE: &str = r"
    /home/u/private/bin/x *
    /home/u/private/lib
    /home/u/private/bin/python3 *
    /home/u/.aws/key *
    /srv/app/bin/python3 -> /usr/bin/python3
    /srv/app/bin/x *
    /srv/app/pyvenv.cfg = home = /usr/bin
    /srv/app/.env = secret
    /srv/app/lib/python3.11/os.py = x
    /srv/node/bin/sh *
    /srv/node/lib/node_modules/y = y
    /srv/rust/bin/x *
    /srv/rust/lib/rustlib
    /srv/conda/conda-meta/history = x
    /srv/conda/bin/x *
    /srv/ruby/bin/x *
    /srv/ruby/lib/ruby/z = z
    /proc/self/root -> /
    /nix/store/abc/bin/x *
    /etc/shadow = x
    /var/alias -> /srv
    /home/u/sdk/bin/tool *
    /home/u/sdk/lib/out -> /srv/app
    /home/u/sdk/data/secret *
    /home/u/notes/x *
    /home/u/sdk/bin/notes -> ../../notes
    /home/u/.cargo/bin/x -> rustup
    /home/u/.cargo/bin/rustup *
";

#[test]
fn hostile_project_shows_no_host_files() {
    let lines = [
        "/home/u/private/bin/x",
        "/usr/bin/env /home/u/private/bin/x",
        "/bin/sh\\n'''exec' /home/u/private/bin/x \"$0\"",
        "/srv/app/bin/python3",
        "/srv/app/bin/../bin/python3",
        "/var/alias/app/bin/python3",
        "/srv/node/bin/sh",
        "/srv/conda/bin/x",
        "/srv/ruby/bin/x",
        "/srv/rust/bin/x",
        "/nix/store/abc/bin/x",
        "/etc/shadow",
        "/srv",
        "/home",
        "/home/u",
        "/not/there",
        "/proc/self/root/srv/app/bin/x",
        "/usr/bin/../../srv/app/bin/x",
        "/home/u/sdk/lib/out/bin/x",
        "/home/u/sdk/bin/notes/x",
        "/home/u/sdk/data/secret",
        "/home/u/sdk/lib/../data/secret",
    ];
    let mut rows: Vec<(String, &str)> =
        lines.iter().map(|line| (format!("/home/u/p/run * #!{line}"), "./run")).collect();
    let venv = "/home/u/p/.venv/bin/python3 *\n/home/u/p/.venv/pyvenv.cfg = home =";
    rows.extend(
        [
            ("/home/u/p/run -> /home/u/private/bin/x", "./run"),
            ("/home/u/p/run -> ../private/bin/x", "./run"),
            ("/home/u/p/run -> /home/u/.aws/key", "./run"),
            ("/home/u/p/.venv/pyvenv.cfg = home = /usr/bin\n/home/u/p/.venv/bin/python -> /home/u/private/bin/x", "python"),
            ("/home/u/p/.venv/pyvenv.cfg = home = /usr/bin\n/home/u/p/.venv/bin -> /home/u/private/bin", "x"),
            ("/home/u/p/.venv -> /srv/app", "python3"),
            ("/home/u/p/.venv -> ../../../srv/app", "python3"),
            ("/home/u/p/.venv -> /srv/app", "x"),
            ("/home/u/p/.venv -> /srv/app", "nothing-like-it"),
            ("/home/u/p/venv -> ../../../srv/app", "python3"),
            ("/home/u/p/.venv -> w\n/home/u/p/w -> /srv/app", "pip"),
            ("/home/u/p/.venv/pyvenv.cfg -> /srv/app/pyvenv.cfg", "python3"),
            ("/home/u/p/l -> /\n/home/u/p/run * #!/home/u/p/l/srv/app/bin/x", "./run"),
            ("/home/u/p/l -> /", "./l/srv/app/bin/x"),
            (r#"/home/u/p/rust-toolchain.toml = [toolchain]\npath = "/home/u/private""#, "x"),
            (r#"/home/u/p/rust-toolchain.toml = [toolchain]\npath = "/srv/rust""#, "x"),
            (r#"/home/u/p/rust-toolchain.toml = [toolchain]\npath = "../../../srv/rust""#, "x"),
        ]
        .map(|(tree, program)| (tree.to_owned(), program)),
    );
    rows.extend(
        [
            "/home/u/private/bin",
            "/srv/app/bin",
            "/usr/bin/../../srv/app/bin",
            "/not/there",
            "/home/u/p/w/bin\n/home/u/p/w -> /srv/app",
        ]
        .map(|home| (format!("{venv} {home}"), "python3")),
    );
    for (tree, program) in &rows {
        for asks in [Asks::Operator, Asks::Caller] {
            let around = at_home("/home/u/.cargo/bin:/home/u/sdk/bin:/usr/bin", &[]).project("/home/u/p");
            let around = Surroundings { asks, cwd: "/home/u/p".into(), ..around };
            match finder::find(
                &Made::of(&format!("{PRIVATE}\n{tree}")),
                program.as_ref(),
                &around,
                Project::Folder,
            ) {
                Err(error @ LookupError::Untrusted { .. }) => {
                    assert!(error.to_string().contains("‹toolchain=/"), "{tree}: {error}");
                }
                other => panic!("{tree}: {other:?}"),
            }
        }
    }
}

#[test]
fn project_chooses_among_operator_installations() {
    let tree = "/home/u/.pyenv/versions/3.12.1/bin/python3 *
        /home/u/.pyenv/versions/3.12.1/.env = secret
        /home/u/.pyenv/shims/python3 * #!/bin/sh
        /home/u/.nvm/versions/node/v20/bin/node *
        /home/u/.nvm/versions/node/v20/bin/python3 *
        /home/u/.local/share/uv/python/cpython-3.12-x -> cpython-3.12.7-x
        /home/u/.local/share/uv/python/cpython-3.12.7-x/bin/python3.12 *
        /home/u/.local/bin/tool -> /home/u/.local/share/pipx/venvs/tool/bin/tool
        /home/u/.local/share/pipx/venvs/tool/bin/tool * #!/home/u/.local/share/pipx/venvs/tool/bin/python
        /home/u/.local/share/pipx/venvs/tool/bin/python -> /home/u/.pyenv/versions/3.12.1/bin/python3
        /home/u/.local/share/pipx/venvs/tool/pyvenv.cfg = home = /home/u/.pyenv/versions/3.12.1/bin
        /home/u/shared/v/pyvenv.cfg = home = /home/u/.nvm/versions/node/v20/bin
        /home/u/shared/v/bin/python3 *
        /home/u/p/.python-version = 3.12.1
        /home/u/p/by-line * #!/home/u/.nvm/versions/node/v20/bin/node
        /home/u/p/by-tool * #!/home/u/.local/bin/tool
        /home/u/p/by-link -> /home/u/.local/bin/tool
        /home/u/p/by-python * #!/home/u/.local/share/uv/python/cpython-3.12-x/bin/python3.12";
    let (pyenv, node) = ("/home/u/.pyenv/versions/3.12.1/bin", "/home/u/.nvm/versions/node/v20");
    let pipx = "/home/u/.local/share/pipx/venvs/tool";
    let uv = ["3.12-x", "3.12.7-x"].map(|v| format!("/home/u/.local/share/uv/python/cpython-{v}"));
    for (more, program, want) in [
        ("", "python3", vec![pyenv]),
        ("", "./by-line", vec![node]),
        ("", "./by-tool", vec!["/home/u/.local/bin", pipx, pyenv]),
        ("", "./by-link", vec!["/home/u/.local/bin", pipx, pyenv]),
        ("", "./by-python", vec![uv[0].as_str(), &uv[1]]),
        (
            "/home/u/p/.venv/pyvenv.cfg = home = /home/u/.pyenv/versions/3.12.1/bin\n/home/u/p/.venv/bin/python3 *",
            "python3",
            vec![pyenv, "/home/u/p/.venv"],
        ),
        (
            "/home/u/p/.venv -> envs/a\n/home/u/p/envs/a/pyvenv.cfg = home = /usr/bin\n/home/u/p/envs/a/bin/python3 *",
            "python3",
            vec!["/home/u/p/.venv", "/home/u/p/envs/a"],
        ),
        // Active, so set by the operator.
        ("/home/u/p/.venv -> /home/u/shared/v", "python3", vec![node, "/home/u/p/.venv", "/home/u/shared/v"]),
        // Elsewhere, but not requested.
        ("/home/u/p/.venv -> /home/u/other", "sh", vec![]),
    ] {
        let mut around =
            at_home("/home/u/.pyenv/shims:/home/u/.local/bin:/usr/bin", &[]).project("/home/u/p");
        around.cwd = "/home/u/p".into();
        around.virtual_env = more.contains("shared").then(|| "/home/u/shared/v".into());
        for asks in [Asks::Operator, Asks::Caller] {
            around.asks = asks;
            let mut prefixes = found(&format!("{tree}\n{more}"), program, &around).prefixes;
            // The target of a link that lies in the project is exposed in parts.
            prefixes.dedup_by_key(|p| {
                p.starts_with("/home/u/p/.venv").then_some("one").map_or_else(|| p.clone(), PathBuf::from)
            });
            let want = paths(&want);
            let near = prefixes.iter().zip(&want).all(|(got, want)| got.starts_with(want));
            assert!(near && prefixes.len() == want.len(), "{program} {more}: {prefixes:?}");
        }
    }
}

#[test]
fn path_is_trusted_from_operator_only() {
    let tree = "/home/u/private/bin/x *
        /home/u/private/lib/y
        /opt/tool/bin/x *
        /usr/local/bin/x -> /opt/tool/bin/x
        /usr/local/bin/y -> /home/u/other";
    let mut around = at_home("/usr/local/bin:/usr/bin", &[]);
    assert_eq!(found(tree, "/home/u/private/bin/x", &around).prefixes, paths(&["/home/u/private"]));
    around.asks = Asks::Caller;
    for path in
        ["/home/u/private/bin/x", "/home/u/private/bin/gone", "../private/bin/x", "/proc/self/root/bin/sh"]
    {
        let error = refused(tree, path, &around);
        assert!(matches!(error, LookupError::Untrusted { .. }), "{path}: {error}");
    }
    // Programs on the operator's PATH, by name or by path.
    for path in ["x", "/usr/local/bin/x", "/opt/tool/bin/x"] {
        assert_eq!(found(tree, path, &around).prefixes, paths(&["/opt/tool"]), "{path}");
    }
    around.path = Some("/usr/bin".into());
    for path in ["/usr/local/bin/x", "/opt/tool/bin/x"] {
        assert!(matches!(refused(tree, path, &around), LookupError::Untrusted { .. }), "{path}");
    }
}

#[test]
fn typed_path_does_not_vouch_for_contents() {
    let tree = format!(
        "{PRIVATE}\n/home/u/clone/x * #!/srv/app/bin/python3\n/home/u/clone/l -> /srv/app/bin/x\n/home/u/clone/d -> /srv
        /home/u/clone/.venv/pyvenv.cfg = home = /srv/app/bin\n/home/u/clone/.venv/bin/python3 *
        /home/u/clone/ok * #!/usr/bin/python3\n/home/u/clone/tool * #!/home/u/sdk/bin/tool\n/home/u/clone/in -> ok
        /home/u/v/pyvenv.cfg = home = /usr/bin\n/home/u/v/bin/y * #!/home/u/v/bin/python3\n/home/u/v/bin/python3 -> /usr/bin/python3"
    );
    // Without --workspace, from the clone and by an absolute path.
    for (cwd, typed) in [
        ("/home/u/clone", "./x"),
        ("/home/u", "clone/x"),
        ("/home/u", "/home/u/clone/x"),
        ("/home/u/clone", "./l"),
        ("/home/u/clone", "./d/app/bin/x"),
        ("/home/u/clone", ".venv/bin/python3"),
        ("/", "/home/u/clone/.venv/bin/python3"),
    ] {
        let around = Surroundings { cwd: cwd.into(), ..at_home("/home/u/sdk/bin:/usr/bin", &[]) };
        let error = refused(&tree, typed, &around);
        assert!(matches!(error, LookupError::Untrusted { .. }), "{typed}: {error}");
    }
    for (typed, shown) in [
        ("./ok", vec!["/home/u/clone/ok"]),
        ("./in", vec!["/home/u/clone/in", "/home/u/clone/ok"]),
        ("./tool", vec!["/home/u/clone/tool", "/home/u/sdk/bin", "/home/u/sdk/lib"]),
        ("/srv/app/bin/x", vec!["/srv/app/bin", "/srv/app/lib", "/srv/app/pyvenv.cfg"]),
        ("../v/bin/y", vec!["/home/u/v"]),
    ] {
        let around = Surroundings { cwd: "/home/u/clone".into(), ..at_home("/home/u/sdk/bin:/usr/bin", &[]) };
        assert_eq!(found(&tree, typed, &around).prefixes, paths(&shown), "{typed}");
    }
}

#[test]
fn caller_gets_one_answer_for_unusable_paths() {
    let rows = [
        "/home/u/.cargo/bin/rustup",
        "/home/u/.cargo/bin/none",
        "/home/u/sdk/bin/text",
        "/home/u/sdk/bin",
        "/home/u/sdk",
        "/home/u/none",
        "/home/u",
        "/srv/app/bin/x",
        "/srv/app/bin/none",
        "/etc/shadow",
    ];
    for said in rows {
        for project in [
            format!("/home/u/p/run * #!{said}"),
            format!("/home/u/p/run * #!/usr/bin/env {said}"),
            format!("/home/u/p/run -> {said}"),
        ] {
            let mut around = at_home("/home/u/.cargo/bin:/home/u/sdk/bin:/usr/bin", &[]).project("/home/u/p");
            (around.asks, around.cwd) = (Asks::Caller, "/home/u/p".into());
            let tree = format!("{PRIVATE}\n/home/u/sdk/bin/text * hello\n{project}");
            // A caller's link to one of these existing paths may get the error for that file.
            let is_there =
                ["/home/u/.cargo/bin/rustup", "/home/u/sdk/bin/text", "/home/u/sdk/bin", "/home/u/sdk"];
            match refused(&tree, "./run", &around) {
                LookupError::Untrusted { .. } => {}
                _ if project.contains("->") && is_there.contains(&said) => {}
                other => panic!("{project}: {other}"),
            }
        }
    }
}

#[test]
fn changed_project_mounts_no_host_files() {
    let venv = "/home/u/p/.venv/pyvenv.cfg = home = /usr/bin
        /home/u/p/.venv/bin/python3 -> /usr/bin/python3
        /home/u/p/.venv/bin/outside * #!/home/u/p/.venv/bin/python3 -I
        /home/u/p/.venv/bin/inside * #!/home/sandbox/project/.venv/bin/python3
        /home/u/p/.venv/bin/again * #!/home/u/p/.venv/bin/outside
        /home/u/p/.venv/bin/away -> /home/u/p/tool
        /home/u/p/tool *
        /home/u/p/by-name * #!/usr/bin/env outside
        /home/u/sdk/bin/x *
        /home/u/alias -> /home/u/p";
    let find = |more: &str, program: &str| {
        let mut around = at_home("/home/u/alias/bin:/home/u/sdk/bin:/usr/bin", &[]).project("/home/u/p");
        around.cwd = "/home/u/p".into();
        finder::find(&Made::of(&format!("{venv}\n{more}")), program.as_ref(), &around, Project::Layered)
    };
    let bin = Path::new("/home/sandbox/project/.venv/bin");
    for (more, program, starts, arguments, shown) in [
        ("", "python3", bin.join("python3"), vec![], vec![]),
        ("", ".venv/bin/python3", bin.join("python3"), vec![], vec![]),
        ("", "outside", bin.join("python3"), vec![OsString::from("-I"), bin.join("outside").into()], vec![]),
        ("", "inside", bin.join("inside"), vec![], vec![]),
        ("/home/u/p/l -> ../sdk/bin/x", "./l", "/home/u/sdk/bin/x".into(), vec![], vec!["/home/u/sdk/bin"]),
    ] {
        let found = find(more, program).unwrap();
        assert_eq!((found.program, found.arguments), (starts, arguments), "{program}");
        assert_eq!(found.prefixes, paths(&shown), "{program}");
        assert_eq!(found.identities.into_keys().collect::<Vec<_>>(), found.prefixes);
        assert!(found.env.iter().all(|(_, value)| Path::new(value).starts_with("/home/sandbox/project")));
    }
    let other = find("/home/u/p/bin/other *", "/home/u/alias/bin/other").unwrap();
    assert_eq!((other.program, other.prefixes), ("/home/sandbox/project/bin/other".into(), Vec::new()));
    for program in ["again", "away", "./by-name"] {
        let error = find("", program);
        assert!(matches!(error, Err(LookupError::NotExecutable { .. })), "{program}: {error:?}");
    }
}

#[test]
fn project_alias_is_not_operator_setting() {
    let tree = format!(
        "{PRIVATE}\n/home/u/alias -> /home/u/q\n/home/u/q/p/.venv/bin/python3 *
        /home/u/q/p/.venv/pyvenv.cfg = home = /srv/app/bin\n/home/u/q/p/run * #!/srv/app/bin/python3"
    );
    let venv = "/home/u/alias/p/.venv";
    for (path, active) in [("/usr/bin", Some(venv)), ("/home/u/alias/p/.venv/bin:/usr/bin", None)] {
        for program in ["./run", "python3"] {
            let around = Surroundings {
                cwd: "/home/u/q/p".into(),
                virtual_env: active.map(PathBuf::from),
                ..at_home(path, &[]).project("/home/u/q/p")
            };
            let error = refused(&tree, program, &around);
            assert!(matches!(error, LookupError::Untrusted { .. }), "{program} {path}: {error}");
        }
    }
}

#[test]
fn relative_path_entry_is_not_operator_setting() {
    let tree =
        format!("{PRIVATE}\n/home/u/c/run * #!/srv/app/bin/python3\n/home/u/c/bin/run -> /srv/app/bin/x");
    for (cwd, path) in [
        ("/home/u/c", "bin:.:/usr/bin"),
        ("/home/u/c", ".:/usr/bin"),
        ("/home/u", "c:/usr/bin"),
        ("/home/u/c", "/usr/bin:"),
    ] {
        let around = Surroundings { cwd: cwd.into(), ..at_home(path, &[]) };
        let error = refused(&tree, "run", &around);
        assert!(matches!(error, LookupError::Untrusted { .. }), "{cwd} {path}: {error}");
    }
}

#[test]
fn links_of_typed_path_are_not_trusted() {
    let tree = format!(
        "{PRIVATE}\n/home/u/c/run -> /srv/app/bin/x\n/home/u/c/d -> /srv/app\n/home/u/c/in -> e/bin/x\n/home/u/c/ok -> /home/u/sdk/bin/tool
        /home/u/c/e/bin/x *\n/home/u/c/e/bin/y -> x\n/home/u/c/e/lib/z = z\n/home/u/c/sub/f = f
        /home/u/c/le/bin/x *\n/home/u/c/le/data = d\n/home/u/c/le/lib -> /srv/app/lib\n/home/u/c/m/node_modules -> /srv/node/lib/node_modules
        /home/u/c/n/node_modules/.bin/j -> ../j/j\n/home/u/c/n/node_modules/j/j *\n/srv/node/lib/node_modules/k *
        /home/u/c2/bin/x * #!/srv/app/bin/x\n/data/v/bin/x *\n/data/v/bin/y -> x\n/home/w -> /data"
    );
    let around = |cwd: &str| Surroundings { cwd: cwd.into(), ..at_home("/home/u/sdk/bin:/usr/bin", &[]) };
    for (cwd, typed) in [
        ("/home/u/c/sub", "../run"),
        ("/home/u/c/sub", "/home/u/c/run"),
        ("/home/u", "c/run"),
        ("/", "home/u/c/run"),
        ("/home/u", "c/d/bin/x"),
        ("/home/u", "c/le/bin/x"),
        ("/home/u/c", "./le/bin/x"),
        ("/home/u", "c/m/node_modules/k"),
        ("/home/u", "c/in"),
        ("/home/u", "c2/bin/x"),
    ] {
        let error = refused(&tree, typed, &around(cwd));
        assert!(matches!(error, LookupError::Untrusted { .. }), "{cwd} {typed}: {error}");
    }
    for (typed, shown) in [
        ("c/ok", vec!["/home/u/c/ok", "/home/u/sdk/bin", "/home/u/sdk/lib"]),
        ("c/e/bin/y", vec!["/home/u/c/e"]),
        ("c/n/node_modules/.bin/j", vec!["/home/u/c/n/node_modules"]),
    ] {
        assert_eq!(found(&tree, typed, &around("/home/u")).prefixes, paths(&shown), "{typed}");
    }
    // A home behind a link of the machine.
    let around = Surroundings { home: Some("/home/w".into()), ..around("/home/w") };
    assert_eq!(found(&tree, "v/bin/y", &around).prefixes, paths(&["/data/v/bin", "/home/w/v/bin"]));
}

#[test]
fn project_selects_no_foreign_environment() {
    let conda = "/home/u/miniconda3/conda-meta/history = x\n/home/u/miniconda3/bin/python *
        /home/u/miniconda3/envs/other/conda-meta/history = x\n/home/u/miniconda3/envs/other/bin/python *";
    let asdf = "/home/u/.asdf/shims/python * #!/bin/sh
        /home/u/.asdf/installs/python/3.12.1/bin/python *
        /home/u/.asdf/installs/python/other/bin/python *
        /home/u/.asdf/installs/python/other/pyvenv.cfg = home = /usr/bin";
    let conda_env = "/home/u/miniconda3/envs/other";
    for (tree, active, works) in [
        ("/home/u/p/run * #!/home/u/miniconda3/bin/python", "", true),
        ("/home/u/p/run * #!/home/u/miniconda3/envs/other/bin/python", "", false),
        ("/home/u/p/run * #!/home/u/miniconda3/envs/other/bin/python", conda_env, true),
    ] {
        let env: &[(&str, &str)] = if active.is_empty() { &[] } else { &[("CONDA_PREFIX", active)] };
        let around =
            Surroundings { cwd: "/home/u/p".into(), ..at_home("/usr/bin", env).project("/home/u/p") };
        let found =
            finder::find(&Made::of(&format!("{conda}\n{tree}")), "./run".as_ref(), &around, Project::Folder);
        let is_refused = matches!(found, Err(LookupError::Untrusted { .. }));
        assert_eq!(is_refused, !works, "{tree}: {found:?}");
    }
    for (tree, works) in [
        ("/home/u/p/.tool-versions = python 3.12.1", true),
        ("/home/u/p/.tool-versions = python other", false),
        (r#"/home/u/p/mise.toml = [tools]\npython = "other""#, false),
        ("/home/u/.tool-versions = python other", true),
    ] {
        let around = at_home("/home/u/.asdf/shims:/usr/bin", &[]).project("/home/u/p");
        let found = finder::find(
            &Made::of(&format!("{asdf}\n/home/u/p/x = y\n{tree}")),
            "python".as_ref(),
            &around,
            Project::Folder,
        );
        let is_refused = matches!(found, Err(LookupError::Untrusted { .. }));
        assert_eq!(is_refused, !works, "{tree}: {found:?}");
    }
}

#[test]
fn project_file_is_no_version_manager() {
    for name in ["rustup", "rustup-init", "volta-shim"] {
        let around = at_home("/usr/bin", &[]).project("/home/u/p");
        let tree = format!("/home/u/p/{name} * #!/bin/sh\n/home/u/p/cargo -> {name}");
        for typed in [name, "cargo"] {
            let found = found(&tree, &format!("/home/u/p/{typed}"), &around);
            assert_eq!(found.program, Path::new("/home/sandbox/project").join(typed));
        }
    }
}

/// A file system that records the queries.
struct Watched {
    made: Made,
    asked: RefCell<BTreeSet<PathBuf>>,
}

impl Watched {
    /// Records a path that the host would open through its links.
    fn opened(&self, path: &Path) {
        self.asked.borrow_mut().extend([path.to_path_buf()].into_iter().chain(self.made.real(path)));
    }
}

impl Fs for Watched {
    fn look(&self, path: &Path) -> Option<Kind> {
        self.asked.borrow_mut().insert(path.to_path_buf());
        self.made.look(path)
    }
    fn head(&self, path: &Path, most: usize) -> Option<Vec<u8>> {
        self.opened(path);
        self.made.head(path, most)
    }
    fn names(&self, folder: &Path) -> Vec<OsString> {
        self.opened(folder);
        self.made.names(folder)
    }
    fn id(&self, real: &Path) -> Option<FileId> {
        self.opened(real);
        self.made.id(real)
    }
}

/// A home with version managers and private files.
const HOST: &str = r#"
    /home/u/.pyenv/shims/python3 * #!/bin/sh
    /home/u/.pyenv/version = 3.11.7
    /home/u/.pyenv/versions/3.11.7/bin/python3 *
    /home/u/.pyenv/versions/3.12.1/bin/python3 *
    /home/u/.pyenv/versions/3.12.1/lib/python3.12/os.py = x
    /home/u/.pyenv/versions/3.12.1/.env = secret
    /home/u/.pyenv/versions/3.12.1/envs/other/pyvenv.cfg = home = /home/u/.pyenv/versions/3.12.1/bin
    /home/u/.pyenv/versions/3.12.1/envs/other/bin/python3 *
    /home/u/.pyenv/versions/other -> 3.12.1/envs/other
    /home/u/.cargo/bin/rustup *
    /home/u/.cargo/bin/cargo -> rustup
    /home/u/.cargo/credentials.toml = secret
    /home/u/.rustup/settings.toml = default_toolchain = "a"
    /home/u/.rustup/toolchains/a/bin/cargo *
    /home/u/.rustup/toolchains/b/bin/cargo *
    /home/u/.local/bin/tool -> /home/u/.local/share/pipx/venvs/tool/bin/tool
    /home/u/.local/share/pipx/venvs/tool/bin/tool * #!/home/u/.local/share/pipx/venvs/tool/bin/python
    /home/u/.local/share/pipx/venvs/tool/bin/python -> /home/u/.pyenv/versions/3.12.1/bin/python3
    /home/u/.local/share/pipx/venvs/tool/pyvenv.cfg = home = /home/u/.pyenv/versions/3.12.1/bin
    /home/u/.local/share/keys/bin/python3 *
    /home/u/.ssh/id = x
    /home/u/private/bin/run *
    /home/u/private/bin/python3 *
    /home/u/private/bin/cargo *
    /home/u/private/lib/rustlib
    /home/u/private/pyvenv.cfg = home = /usr/bin
    /home/u/private/.env = secret
    /srv/app/bin/python3 *
    /srv/app/bin/run *
    /srv/app/bin/cargo *
    /srv/app/pyvenv.cfg = home = /usr/bin
    /srv/app/lib/python3.11/os.py = x
    /srv/app/.python-version = 3.12.1
    /srv/app/.env = secret
    /proc/self/root -> /
    /p -> /home/u/private
"#;
/// Paths that must never be looked at, whatever a project contains. Folders of a home that hold secrets are
/// looked up by name only: a link among them also protects its target.
const CLOSED: [&str; 7] = [
    "/home/u/.local/share/keys",
    "/home/u/.ssh/id",
    "/home/u/private",
    "/srv",
    "/proc",
    "/p",
    "/home/u/.pyenv/versions/3.12.1/.env",
];
/// Parts of the host that may be exposed.
const OPEN: [&str; 10] = [
    "/usr",
    "/home/u/.pyenv/versions/3.11.7",
    "/home/u/.pyenv/versions/3.12.1/bin",
    "/home/u/.pyenv/versions/3.12.1/lib",
    "/home/u/.cargo/bin",
    "/home/u/.rustup/toolchains/a",
    "/home/u/.rustup/toolchains/b",
    "/home/u/.local/bin",
    "/home/u/.local/share/pipx/venvs/tool",
    "/home/u/p",
];
/// Files and folders that the project creates.
const OWN: [&str; 18] = [
    "run",
    "bin/run",
    ".venv",
    ".venv/bin",
    ".venv/bin/run",
    ".venv/bin/python3",
    ".venv/pyvenv.cfg",
    "venv",
    "venv/pyvenv.cfg",
    "l",
    "l/bin/run",
    "l/bin/python3",
    ".python-version",
    "rust-toolchain.toml",
    "rust-toolchain",
    ".config",
    "mise.toml",
    "shims/python3",
];
/// Targets that it refers to.
const SAID: [&str; 31] = [
    "/home/u/p/run",
    "/home/u/p/bin/run",
    "/home/u/p/.venv",
    "/home/u/p/.venv/bin/python3",
    "/home/u/p/l",
    "/home/u/p/l/bin/python3",
    "/home/u/p/l/srv/app/bin/python3",
    "/",
    "/home",
    "/home/u",
    "/home/u/private",
    "/home/u/private/bin/run",
    "/home/u/private/bin/python3",
    "/home/u/.ssh",
    "/home/u/.ssh/id",
    "/home/u/.local",
    "/home/u/.local/share/keys/bin/python3",
    "/home/u/.local/bin/tool",
    "/home/u/.pyenv/versions/3.12.1/bin/python3",
    "/home/u/.pyenv/versions/3.12.1",
    "/home/u/.pyenv/versions/other",
    "/home/u/.pyenv/versions/3.12.1/../../../private/bin/python3",
    "/home/u/.pyenv/shims/python3",
    "/srv/app",
    "/srv/app/bin/python3",
    "/proc/self/root/srv/app/bin/python3",
    "/p/bin/python3",
    "/usr/bin/../../srv/app/bin/python3",
    "/home/u/.cargo",
    "/home/u/.cargo/credentials.toml",
    "/home/u/.local/share/pipx/venvs/tool/bin/python",
];

/// Puts hostile contents at a path of the project.
fn put(made: &mut Made, name: &str, what: u8, said: &str) {
    let file = Kind::File { executable: true, id: (3, 1) };
    match what {
        0 => made.put(name, Kind::Link(said.into()), ""),
        1 => made.put(name, Kind::Link(format!("../../../..{said}").into()), ""),
        2 => made.put(name, file, &format!("#!{said}\n")),
        3 => made.put(name, file, &format!("#!/usr/bin/env {said}\n")),
        4 => made.put(name, file, &format!("#!/bin/sh\n'''exec' \"{said}\" \"$0\" \"$@\"\n")),
        5 => made.put(name, file, ELF),
        6 => made.put(name, file, &format!("home = {said}\n")),
        7 => made.put(name, file, &format!("home = {said}/bin\nexecutable = {said}\n")),
        8 => made.put(name, file, &format!("[toolchain]\npath = \"{said}\"\n")),
        9 => made.put(name, file, &format!("../..{said}\n{said}\nother\n3.12.1/envs/other\n")),
        _ => made.put(name, file, "3.12.1\n"),
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(4000))]

    #[test]
    fn toolchain_search_opens_operator_files_only(
        steps in proptest::collection::vec((0..OWN.len(), 0..11u8, 0..SAID.len()), 0..14),
        start in 0..9usize,
        caller in proptest::bool::ANY,
        active in proptest::bool::ANY,
        layered in proptest::bool::ANY,
    ) {
        let mut made = Made::of(HOST);
        made.put("/home/u/p/README", Kind::File { executable: false, id: (3, 0) }, "x");
        for (name, what, said) in steps {
            put(&mut made, &format!("/home/u/p/{}", OWN[name]), what, SAID[said]);
        }
        let path = "/home/u/.pyenv/shims:/home/u/.cargo/bin:/home/u/.local/bin:/usr/bin";
        let around = Surroundings {
            cwd: "/home/u/p".into(),
            asks: if caller { Asks::Caller } else { Asks::Operator },
            virtual_env: active.then(|| "/home/u/p/.venv".into()),
            ..at_home(path, &[]).project("/home/u/p")
        };
        let programs = [
            "./run", ".venv/bin/run", "run", "python3", "cargo", "l/bin/run", "tool", "./.venv/bin/python3",
            "./l/srv/app/bin/run",
        ];
        let kind = if layered { Project::Layered } else { Project::Folder };
        let fs = Watched { made, asked: RefCell::default() };
        let result = finder::find(&fs, programs[start].as_ref(), &around, kind);
        for asked in fs.asked.borrow().iter() {
            let closed = CLOSED.iter().find(|closed| asked.starts_with(closed));
            proptest::prop_assert!(closed.is_none(), "{} was looked at", asked.display());
        }
        let all = || result.iter().flat_map(|toolchain| &toolchain.prefixes);
        for prefix in all() {
            let real = fs.made.real(prefix).unwrap_or_else(|| prefix.clone());
            let open = OPEN.iter().any(|open| real.starts_with(open));
            let is_own = prefix.starts_with("/home/u/p") || real.starts_with("/home/u/p");
            proptest::prop_assert!(!(layered && is_own), "{} of a changed project is mounted", prefix.display());
            proptest::prop_assert!(open, "{} is shown, which is {}", prefix.display(), real.display());
            proptest::prop_assert_eq!(all().filter(|p| prefix.starts_with(p)).count(), 1);
        }
    }
}

/// A home whose operator lets callers commit into all of it, hidden names left out, and has links of their own that lead to it.
const SHARED_HOME: &str = r#"
    /home/u/.pyenv/shims/python3 * #!/bin/sh
    /home/u/.pyenv/version = 3.12.1
    /home/u/.pyenv/versions/3.12.1/bin/python3 *
    /home/u/.pyenv/versions/3.12.1/lib/python3.12/os.py = x
    /home/u/.pyenv/versions/conda -> /home/u/miniconda3
    /home/u/.local/bin/run -> /home/u/bin/run
    /home/u/.local/bin/tool -> ../../miniconda3/bin/tool
    /home/u/.cargo/bin/rustup *
    /home/u/.cargo/bin/cargo -> rustup
    /home/u/.rustup/settings.toml = default_toolchain = "a"
    /home/u/.rustup/toolchains/a/bin/cargo *
    /home/u/.rustup/toolchains/b -> /home/u/sdk
    /home/u/.conda/environments.txt = x
    /srv/app/bin/python3 *
    /srv/app/bin/run *
    /srv/app/pyvenv.cfg = home = /usr/bin
    /srv/app/.env = secret
    /p -> /srv
"#;
/// Where a caller's commit puts files.
const PLANTED: [&str; 22] = [
    "miniconda3/conda-meta/history",
    "miniconda3/bin/python3",
    "miniconda3/bin/run",
    "miniconda3/bin/tool",
    "miniconda3/bin/cargo",
    "miniconda3/pyvenv.cfg",
    "miniconda3/lib/python3.12/os.py",
    "anaconda3/conda-meta/history",
    "anaconda3/bin/run",
    "micromamba",
    "bin/run",
    "bin/python3",
    "sdk/bin/cargo",
    "sdk/bin/run",
    "sdk",
    "env/bin/python3",
    "env/pyvenv.cfg",
    "env",
    "p/run",
    "p/.venv",
    "p/.venv/bin/python3",
    "p/.venv/pyvenv.cfg",
];
const PLANTED_SAID: [&str; 10] = [
    "/srv/app",
    "/srv/app/bin/python3",
    "/srv/app/bin/run",
    "/p/app/bin/run",
    "/home/u/miniconda3",
    "/home/u/miniconda3/bin/python3",
    "/home/u/sdk/bin/run",
    "/home/u/env/bin/python3",
    "/home/u/.pyenv/versions/conda/bin/python3",
    "/home/u/.pyenv/versions/3.12.1",
];

/// Names that a commit leaves out of the folders of these tests.
fn is_hidden(path: &Path) -> bool {
    path.components().next().is_some_and(|name| name.as_os_str().as_encoded_bytes().starts_with(b"."))
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(4000))]

    #[test]
    fn planted_files_never_become_operator_installations(
        steps in proptest::collection::vec((0..PLANTED.len(), 0..11u8, 0..PLANTED_SAID.len()), 0..14),
        program in 0..8usize,
        caller in proptest::bool::ANY,
        layered in proptest::bool::ANY,
        folders in 0..3usize,
        words in 0..16u8,
    ) {
        let mut made = Made::of(SHARED_HOME);
        made.put("/home/u/p/README", Kind::File { executable: false, id: (3, 0) }, "x");
        for (name, what, said) in steps {
            put(&mut made, &format!("/home/u/{}", PLANTED[name]), what, PLANTED_SAID[said]);
        }
        let commit: &[&str] = [
            &["/home/u"][..],
            &["/home/u/miniconda3", "/home/u/anaconda3", "/home/u/micromamba", "/home/u/bin", "/home/u/sdk", "/home/u/env", "/home/u/p"],
            &["/home", "/home/u/p"],
        ][folders];
        // Below /home, the hidden names of a home are not the first ones: all of it is planted.
        let commit: Vec<PathBuf> = commit.iter().map(PathBuf::from).collect();
        // The operator's words lead there by name, by link, by variable, or not at all.
        let env: Vec<(&str, &str)> = [
            ("CONDA_PREFIX", "/home/u/env"), ("CONDA_EXE", "/home/u/sdk/bin/conda"), ("PYENV_ROOT", "/home/u/miniconda3"),
        ].into_iter().enumerate().filter(|(bit, _)| words & (1 << bit) != 0).map(|(_, word)| word).collect();
        let path = match words & 8 {
            0 => "/home/u/.pyenv/shims:/home/u/.cargo/bin:/home/u/.local/bin:/usr/bin",
            _ => "/home/u/bin:/home/u/miniconda3/bin:/home/u/.local/bin:/home/u/.pyenv/shims:/home/u/.cargo/bin:/usr/bin",
        };
        let around = Surroundings {
            cwd: "/home/u/p".into(),
            asks: if caller { Asks::Caller } else { Asks::Operator },
            virtual_env: (words & 1 != 0).then(|| "/home/u/env".into()),
            foreign: super::Foreign::new(&commit, is_hidden),
            ..at_home(path, &env).project("/home/u/p")
        };
        let programs =
            ["run", "python3", "cargo", "tool", "./run", ".venv/bin/python3", "../bin/run", "/home/u/miniconda3/bin/run"];
        let kind = if layered { Project::Layered } else { Project::Folder };
        let fs = Watched { made, asked: RefCell::default() };
        let result = finder::find(&fs, programs[program].as_ref(), &around, kind);
        for asked in fs.asked.borrow().iter() {
            proptest::prop_assert!(!asked.starts_with("/srv") && !asked.starts_with("/p"), "{} was looked at", asked.display());
        }
        for prefix in result.iter().flat_map(|toolchain| &toolchain.prefixes) {
            let real = fs.made.real(prefix).unwrap_or_else(|| prefix.clone());
            for path in [prefix, &real] {
                let is_own = path.starts_with("/home/u/p");
                proptest::prop_assert!(is_own || !around.foreign.holds(path), "{} is shown, which is {}", prefix.display(), real.display());
            }
        }
    }
}

/// The control: a folder without commits stays the operator's, and is found.
#[test]
fn operator_installations_beside_planted_files_are_found() {
    let around = |commit: &[&str]| Surroundings {
        foreign: super::Foreign::new(&commit.iter().map(PathBuf::from).collect::<Vec<_>>(), is_hidden),
        ..at_home("/home/u/.local/bin:/home/u/.pyenv/shims:/usr/bin", &[]).project("/home/u/p")
    };
    let tree = format!(
        "{SHARED_HOME}/home/u/p/f = x\n/home/u/miniconda3/conda-meta/history = x\n/home/u/miniconda3/bin/tool *\n"
    );
    let open = found(&tree, "tool", &around(&[]));
    assert!(open.prefixes.iter().any(|p| p.starts_with("/home/u/miniconda3")), "{open:?}");
    assert!(matches!(refused(&tree, "tool", &around(&["/home/u"])), LookupError::NotFound { .. }));
    let python = found(&tree, "python3", &around(&["/home/u"]));
    assert!(python.prefixes.iter().any(|p| p.starts_with("/home/u/.pyenv/versions/3.12.1")), "{python:?}");
    assert!(matches!(
        refused(&tree, "/home/u/miniconda3/bin/tool", &around(&["/home/u"])),
        LookupError::Planted { .. }
    ));
}
