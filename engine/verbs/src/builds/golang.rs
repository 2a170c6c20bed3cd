//! Go's standard library. Since Go 1.20 no distribution of Go contains it compiled. Compiling it takes ten to
//! twenty seconds, which in a sandbox with a temporary cache would happen in every run.
//! <https://go.dev/doc/go1.20#go-command>
//!
//! The library is compiled once by the toolchain and the image of the run, in a sandbox that sees nothing
//! else: no project, no variables of the user, no folders of the host. Go's cache names each entry by the
//! digest of all inputs, so an entry that a run would compile differently is never used, only useless.
//! <https://pkg.go.dev/cmd/go#hdr-Build_and_test_caching>

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_sandbox::policy::{Confinement, HOME, Job, Network, Policy};
use hotcell_sandbox::{Finished, Spawn};
use hotcell_state::state::{StateChoice, StateFolder};
use hotcell_workspace::Folder;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use super::InUse;

/// Folder name in the state folder.
const KEPT: &str = "builds";
/// Go's cache below the home folder: Go's default, and where frameworks direct it.
const CACHE: &str = ".cache/go-build";
/// Time limit for compiling.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Version of the cached data; data of another version is made again.
const FORM: &[u8] = b"2";
/// Tests a package that imports everything. This also compiles the parts for tests, and caches the results of
/// `go vet`, which runs before each test.
const SCRIPT: &str = r#"set -e
mkdir /tmp/all && cd /tmp/all
echo 'module everything' >go.mod
{
    echo 'package everything'
    "$0" list std | sed -nE -e '/(^|\/)(internal|vendor|cmd|builtin)(\/|$)/d' -e 's/.*/import _ "&"/p'
} >all_test.go
"$0" test -count=1 -run='^$' .
"#;
/// The only variables set, as frameworks and `--lang` set them.
const ENVIRONMENT: [(&str, &str); 4] =
    [("GOFLAGS", "-mod=mod"), ("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("GOENV", "off")];

/// Allows one compilation at a time: the next caller finds the result.
static ONE: Mutex<()> = Mutex::const_new(());

/// Adds Go's compiled standard library to a job that compiles with go, and compiles the library first if
/// necessary. If that fails, the job compiles it by itself. The lock is to be kept as long as the job runs.
pub async fn standard_library(
    engine: &dyn Spawn,
    state: Option<&StateChoice>,
    policy: &mut Policy,
    say: &mut (dyn FnMut(&str) + Send),
) -> Option<InUse> {
    let key = key(policy)?;
    let state = StateFolder::open(state?.path().ok()?).ok()?;
    let place = state.path().join(KEPT).join(format!("go-{key}"));
    if !super::is_folder(&place) && super::in_vain(&place).is_none() {
        let _one = ONE.lock().await;
        if !super::is_folder(&place) && super::in_vain(&place).is_none() {
            say("go compiles its standard library; that is kept for other runs");
            if let Err(why) = compile(engine, policy, &place).await {
                tracing::warn!(
                    "Go's standard library is compiled in each run, and not tried again for an hour: {why}"
                );
                super::remember_in_vain(&place, &why);
            }
        }
    }
    let inside = Path::new(HOME).join(CACHE);
    let lock = InUse::lock(&place);
    // It may have been removed before it was locked.
    let bind =
        if super::is_folder(&place) { super::bind(&place, &inside, policy.job.limits.disk) } else { None };
    super::touch(&place);
    policy.job.binds.push(bind?);
    lock
}

/// Key of a job's go, in hexadecimal: its program, and its environment. `None` when there is nothing to
/// cache: the program is not go, has its library compiled, or uses another cache.
fn key(policy: &Policy) -> Option<String> {
    let job = &policy.job;
    let program = Path::new(job.argv.first()?);
    let cache = PathBuf::from(HOME).join(CACHE);
    let elsewhere = |(name, value): &(std::ffi::OsString, std::ffi::OsString)| match name.to_str() {
        Some("GOCACHE") => Path::new(value) != cache,
        Some("HOME") => Path::new(value) != Path::new(HOME),
        Some("XDG_CACHE_HOME" | "GOROOT") => true,
        _ => false,
    };
    if program.file_name() != Some(OsStr::new("go"))
        || policy.shape.confinement == Confinement::LandlockOnly
        || job.env.iter().any(elsewhere)
        || job.binds.iter().any(|bind| cache.starts_with(&bind.inside) || bind.inside.starts_with(&cache))
    {
        return None;
    }
    let mut hash = Sha256::new();
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    field(FORM);
    field(std::env::consts::ARCH.as_bytes());
    field(program.as_os_str().as_bytes());
    match &policy.shape.image {
        Some(image) => field(format!("{image:?}").as_bytes()),
        None => {
            let go = fs::canonicalize(program).ok()?;
            let about = fs::metadata(&go).ok()?;
            if let Some(root) = go.parent().and_then(Path::parent)
                && has_archives(root)
            {
                return None;
            }
            field(go.as_os_str().as_bytes());
            field(format!("{} {} {}", about.len(), about.mtime(), about.mtime_nsec()).as_bytes());
        }
    }
    // The C compiler is found through these.
    job.env.iter().filter(|(name, _)| name == "PATH").for_each(|(_, path)| field(path.as_bytes()));
    job.toolchains.iter().for_each(|toolchain| field(toolchain.as_os_str().as_bytes()));
    Some(hex::encode(hash.finalize()))
}

/// True when this Go contains its compiled library, as before 1.20.
fn has_archives(root: &Path) -> bool {
    let folders = fs::read_dir(root.join("pkg")).into_iter().flatten().flatten();
    folders.map(|folder| folder.path()).any(|folder| folder.join("fmt.a").is_file())
}

async fn compile(engine: &dyn Spawn, policy: &Policy, place: &Path) -> Result<(), String> {
    let mut limits = hotcell_config::limits::for_tests();
    limits.wall = COMPILE_TIMEOUT;
    let (most, go) = (limits.disk, policy.job.argv.first().cloned().unwrap_or_default());
    let path = policy.job.env.iter().filter(|(name, _)| name == "PATH").cloned();
    let own = ENVIRONMENT.iter().map(|(name, value)| (name.into(), value.into()));
    let mut making = Policy { shape: policy.shape.clone(), ..Policy::default() };
    making.job = Job {
        argv: vec!["/bin/sh".into(), "-c".into(), SCRIPT.into(), go],
        env: own.chain(path).collect(),
        toolchains: policy.job.toolchains.clone(),
        toolchain_ids: policy.job.toolchain_ids.clone(),
        limits,
        ..Job::default()
    };
    if making.shape.network == Network::Proxy {
        making.shape.network = Network::Loopback;
    }
    let running = engine.spawn(&making).await.map_err(|refusal| refusal.message)?;
    let Finished { outcome, home, .. } = running.finish().await;
    let printed = String::from_utf8_lossy(&outcome.stderr.to_bytes()).into_owned();
    let last = printed.lines().last().unwrap_or_default();
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let home = match home {
        Some(home) if outcome.success() => home,
        _ => return Err(format!("{} {last:.300}", outcome.reason.unwrap_or_default())),
    };
    let cache = home.open_folder(Path::new(CACHE)).map_err(|e| format!("{e}: {last:.300}"))?;
    // Go uses times only to remove entries unused for five days, and rewrites entries older than an hour to
    // mark them as used.
    super::keep(&Folder::from_fd(cache), &|_| true, most, super::FUTURE_MTIME, place)
        .map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_sandbox::policy::Bind;
    use std::os::unix::fs::symlink;

    #[test]
    fn go_key_changes_without_standard_library() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().join("go-1.27");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir_all(root.join("pkg/linux_amd64")).unwrap();
        fs::write(root.join("bin/go"), "x").unwrap();
        let link = top.path().join("go");
        symlink(root.join("bin/go"), &link).unwrap();
        let policy = Policy::new(&link).args(["test"]);
        let first = key(&policy).unwrap();
        assert_eq!(first.len(), 64);
        assert_eq!(key(&policy.clone().args(["-v"]).env("A", "B")), Some(first.clone()));
        assert_ne!(key(&policy.clone().env("PATH", "/bin")), Some(first.clone()), "with another C compiler");
        assert_ne!(
            key(&Policy::new(root.join("bin/go"))),
            Some(first.clone()),
            "it may be another to the run"
        );
        for (name, value, is_kept) in [
            ("GOCACHE", "/home/sandbox/.cache/go-build", true),
            ("GOCACHE", "/tmp/x", false),
            ("HOME", "/tmp", false),
            ("XDG_CACHE_HOME", "/tmp", false),
            ("GOROOT", "/opt/go", false),
        ] {
            assert_eq!(key(&policy.clone().env(name, value)).is_some(), is_kept, "{name}={value}");
        }
        for (inside, is_kept) in [
            ("/home/sandbox/.cache", false),
            ("/home/sandbox/.cache/go-build/x", false),
            ("/home/sandbox/go", true),
        ] {
            let mut policy = policy.clone();
            let (host, inside) = ("/usr".into(), inside.into());
            policy.job.binds.push(Bind {
                host,
                inside,
                writable: false,
                copy_on_write: false,
                identity: None,
            });
            assert_eq!(key(&policy).is_some(), is_kept, "{:?}", policy.job.binds);
        }
        assert_eq!(key(&Policy::new("/usr/bin/gofmt")), None);
        let mut weak = policy.clone();
        weak.shape.confinement = Confinement::LandlockOnly;
        assert_eq!(key(&weak), None);
        fs::write(root.join("bin/go"), "another").unwrap();
        assert_ne!(key(&policy), Some(first));
        fs::write(root.join("pkg/linux_amd64/fmt.a"), "x").unwrap();
        assert_eq!(key(&policy), None);
    }
}
