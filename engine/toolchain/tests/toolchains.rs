//! "The program's own toolchain works": real interpreters in the locations where users keep them.

use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use hotcell_sandbox::{Cause, Outcome, Policy};
use hotcell_toolchain::{self as toolchain, Fs, Surroundings};

async fn run(policy: &Policy) -> Outcome {
    hotcell_sandbox::run(policy).await
}

fn stdout(outcome: &Outcome) -> &str {
    outcome.stdout.text.as_deref().unwrap_or_default()
}

/// Formats an outcome for assertions.
fn told(outcome: &Outcome) -> String {
    serde_json::to_string_pretty(outcome).unwrap_or_else(|e| e.to_string())
}

/// A user's home folder, readable by its owner only.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).expect("mode");
        std::fs::write(dir.path().join("secret"), "secret").expect("written");
        Self(dir)
    }
    fn path(&self, below: &str) -> PathBuf {
        let path = self.0.path().canonicalize().expect("a path").join(below);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        path
    }
    fn around(&self, path: &str) -> Surroundings {
        Surroundings {
            path: Some(path.into()),
            home: Some(self.0.path().canonicalize().expect("a path")),
            cwd: "/".into(),
            ..Surroundings::default()
        }
    }
}

/// Runs a program with exactly the mounts that the lookup returns; the home folder must not be visible.
async fn run_found(program: &str, args: &[&str], around: &Surroundings) -> Outcome {
    let found = toolchain::find(OsStr::new(program), around).unwrap_or_else(|e| panic!("{program}: {e}"));
    let home = around.home.clone().expect("a home");
    assert!(!found.prefixes.contains(&home), "{:?}", found.prefixes);
    let mut path = found.path_dirs.iter().map(|d| d.display().to_string()).collect::<Vec<_>>();
    path.push("/usr/local/bin:/usr/bin:/bin".to_owned());
    let mut policy = Policy::new(&found.program).args(args).env("PATH", path.join(":"));
    policy.job.toolchains.clone_from(&found.prefixes);
    policy.job.workspace.clone_from(&around.project);
    policy.job.env.extend(found.env.clone());
    run(&policy).await
}

/// A folder that is replaced by a link between lookup and mount leads elsewhere than what was judged.
#[tokio::test]
async fn mount_requires_judged_file_identity() {
    let folder = tempfile::tempdir().expect("a folder");
    let (safe, other) = (folder.path().join("safe"), folder.path().join("other"));
    for place in [&safe, &other] {
        std::fs::create_dir_all(place.join("bin")).expect("made");
        std::fs::copy("/bin/true", place.join("bin/tool")).expect("copied");
    }
    let around = Surroundings {
        cwd: folder.path().into(),
        path: Some(safe.join("bin").into()),
        ..Surroundings::default()
    };
    let found = toolchain::find("tool".as_ref(), &around).expect("found");
    let mut policy = Policy::new(&found.program);
    policy.job.toolchains = found.prefixes;
    policy.job.toolchain_ids = found.identities;
    let outcome = run(&policy).await;
    assert!(outcome.success(), "{}", told(&outcome));
    std::fs::rename(&safe, folder.path().join("away")).expect("moved");
    symlink(&other, &safe).expect("linked");
    assert_eq!(Fs::id(&toolchain::Host, &safe.join("bin")), None);
    let outcome = run(&policy).await;
    assert_eq!(outcome.cause, Cause::Refused, "{}", told(&outcome));
    assert_eq!(outcome.exit_code, None);
}

fn make_venv(at: &Path) {
    let made = Command::new("/usr/bin/python3").args(["-m", "venv", "--without-pip"]).arg(at).status();
    assert!(made.is_ok_and(|s| s.success()), "python3-venv makes {}", at.display());
    let site = std::fs::read_dir(at.join("lib")).expect("lib").flatten().next().expect("a version").path();
    std::fs::write(site.join("site-packages/only_here.py"), "WORD = 'from the venv'\n").expect("written");
}

const IMPORTS: &[&str] = &["-c", "import only_here; print(only_here.WORD)"];

#[tokio::test]
async fn venv_in_home_folder_runs() {
    let home = Home::new();
    let venv = home.path("venvs/work");
    make_venv(&venv);
    let outcome = run_found("python", IMPORTS, &home.around(&venv.join("bin").display().to_string())).await;
    assert_eq!(stdout(&outcome), "from the venv\n", "{}", told(&outcome));
    let script = format!("import os; print(os.path.exists({:?}))", home.path("secret"));
    let outcome =
        run_found("python", &["-c", &script], &home.around(&venv.join("bin").display().to_string())).await;
    assert_eq!(stdout(&outcome), "False\n", "{}", told(&outcome));
}

#[tokio::test]
async fn project_venv_in_home_folder_runs() {
    let home = Home::new();
    let project = home.path("src/project");
    std::fs::create_dir_all(&project).expect("made");
    make_venv(&project.join(".venv"));
    std::fs::write(project.join("app.py"), "import only_here\nprint(only_here.WORD, __file__)\n")
        .expect("written");
    let around = Surroundings { project: Some(project.clone()), cwd: project, ..home.around("/usr/bin") };
    let outcome = run_found("python", &["app.py"], &around).await;
    assert_eq!(stdout(&outcome), "from the venv /home/sandbox/project/app.py\n", "{}", told(&outcome));
}

/// Makes a second Python outside `/usr`: the host's interpreter and library, copied to a prefix.
fn make_prefix(at: &Path) -> Option<()> {
    let script =
        "import sys, sysconfig; print('%d.%d' % sys.version_info[:2]); print(sysconfig.get_path('stdlib'))";
    let output = Command::new("/usr/bin/python3").args(["-c", script]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (version, stdlib) = text.trim().split_once('\n')?;
    std::fs::create_dir_all(at.join("bin")).ok()?;
    let name = format!("python{version}");
    std::fs::copy("/usr/bin/python3", at.join("bin").join(&name)).ok()?;
    symlink(&name, at.join("bin/python3")).ok()?;
    let copied = Command::new("cp")
        .args(["-rL", "--no-preserve=ownership"])
        .arg(stdlib)
        .arg(at.join("lib-tmp"))
        .status();
    copied.ok()?;
    std::fs::create_dir_all(at.join("lib")).ok()?;
    std::fs::rename(at.join("lib-tmp"), at.join("lib").join(&name)).ok()
}

#[tokio::test]
async fn pyenv_prefix_behind_shim_runs() {
    let home = Home::new();
    make_prefix(&home.path(".pyenv/versions/3.99.1")).expect("a prefix");
    std::fs::write(home.path(".pyenv/version"), "3.99.1\n").expect("written");
    let shim = home.path(".pyenv/shims/python3");
    std::fs::write(&shim, "#!/usr/bin/env bash\nexec pyenv exec python3 \"$@\"\n").expect("written");
    std::fs::set_permissions(&shim, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
    let around = home.around(&shim.parent().expect("shims").display().to_string());
    let outcome = run_found("python3", &["-c", "import sys, json; print(sys.prefix)"], &around).await;
    assert!(stdout(&outcome).ends_with(".pyenv/versions/3.99.1\n"), "{}", told(&outcome));
}

#[tokio::test]
async fn uv_prefix_and_its_venv_run() {
    let home = Home::new();
    let prefix = home.path(".local/share/uv/python/cpython-3.99.1-linux-x86_64-gnu");
    make_prefix(&prefix).expect("a prefix");
    let venv = home.path("work/.venv");
    std::fs::create_dir_all(venv.join("bin")).expect("made");
    symlink(prefix.join("bin/python3"), venv.join("bin/python")).expect("linked");
    std::fs::write(venv.join("pyvenv.cfg"), format!("home = {}\nuv = 0.9\n", prefix.join("bin").display()))
        .expect("written");
    let around = home.around(&venv.join("bin").display().to_string());
    let outcome =
        run_found("python", &["-c", "import sys; print(sys.prefix); print(sys.base_prefix)"], &around).await;
    let want = format!("{}\n{}\n", venv.display(), prefix.display());
    assert_eq!(stdout(&outcome), want, "{}", told(&outcome));
}

#[tokio::test]
async fn nvm_node_runs() {
    let Ok(node) = Path::new("/usr/bin/node").canonicalize() else {
        eprintln!("skipped: no /usr/bin/node to copy (Debian package nodejs)");
        return;
    };
    let home = Home::new();
    let bin = home.path(".nvm/versions/node/v20.99.0/bin/node");
    std::fs::copy(node, &bin).expect("copied");
    let around = home.around(&bin.parent().expect("bin").display().to_string());
    let mut found = toolchain::find(OsStr::new("node"), &around).expect("found");
    let prefix = found.prefixes.pop().expect("a prefix");
    assert!(prefix.ends_with(".nvm/versions/node/v20.99.0"), "{prefix:?}");
    let outcome = run_found("node", &["-e", "console.log(process.execPath)"], &around).await;
    assert_eq!(stdout(&outcome), format!("{}\n", bin.display()), "{}", told(&outcome));
}

#[tokio::test]
async fn rust_toolchain_of_this_machine_builds() {
    let around = Surroundings::of_this_process();
    let Ok(found) = toolchain::find(OsStr::new("rustc"), &around) else {
        eprintln!("skipped: no rustc on PATH");
        return;
    };
    assert!(found.prefixes.iter().all(|p| !p.ends_with(".cargo")), "{:?}", found.prefixes);
    let mut policy = Policy::new("sh")
        .args(["-c", "echo 'fn main() { println!(\"built\") }' > m.rs && \"$0\" m.rs && ./m"]);
    policy = policy.arg(&found.program).memory(hotcell_sandbox::Bytes::gib(1));
    policy.job.toolchains = found.prefixes;
    policy.job.limits.processes = 128;
    let outcome = run(&policy).await;
    assert_eq!(stdout(&outcome), "built\n", "{}", told(&outcome));
}
