//! Compiles an image's Python modules ahead of time. The root is read-only, so every program would otherwise
//! compile its imports anew. The image's own Python compiles them, in a sandbox with the image as its root,
//! and imports none of them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_sandbox::{Bytes, Cause, Engine, ImageRoot, Outcome, Policy, RootEntry, RootKind};

use crate::tarball;
use crate::tree::Kind;
use crate::view::View;

/// Output folder, as the sandbox sees it.
const OUT: &str = "/compiled";
/// Time limit. A large scientific image takes a minute.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(15 * 60);
const MEMORY_LIMIT: Bytes = Bytes::mib(1024);
/// Maximum size in bytes of a byte code file.
const MAX_BYTECODE_BYTES: u64 = 64 << 20;

/// Compiles the modules of `layers`, the topmost first, and writes them to `out`. Returns the reason when
/// compiling fails; then no byte code is written, and programs start more slowly.
///
/// # Errors
/// When `out` or the empty folder `work` cannot be written.
pub fn write<W: Write>(
    layers: &[PathBuf],
    minor: u32,
    work: &Path,
    out: &mut tar::Builder<W>,
) -> io::Result<Option<String>> {
    let view = View::open(layers)?;
    let candidates = [
        format!("usr/lib/python3.{minor}"),
        "usr/lib/python3/dist-packages".to_owned(),
        format!("usr/local/lib/python3.{minor}/dist-packages"),
    ];
    let mut folders = Vec::new();
    for folder in candidates {
        if view.find(Path::new(&folder))? == Some(Kind::Folder) {
            folders.push(format!("/{folder}"));
        }
    }
    let limits = hotcell_sandbox::Limits {
        memory: MEMORY_LIMIT,
        wall: COMPILE_TIMEOUT,
        cpu_time: None,
        ..Default::default()
    };
    let policy = Policy::new(format!("/usr/bin/python3.{minor}"))
        // Hashes instead of times: the root never changes, and the same files give the same bytes.
        .args(["-B", "-m", "compileall", "-q", "-q", "--invalidation-mode", "unchecked-hash"])
        .args(folders)
        .env("PYTHONPYCACHEPREFIX", OUT)
        .env("PYTHONHASHSEED", "0")
        .image(root_of(layers, &view)?)
        .read_write(work, OUT)
        .limits(limits);
    let outcome = run(&policy)?;
    if let Some(why) = hindered(&outcome) {
        return Ok(Some(why));
    }
    collect(work, Path::new(""), out)?;
    Ok(None)
}

/// The sandbox's root: the image's layers and top-level names.
fn root_of(layers: &[PathBuf], view: &View) -> io::Result<ImageRoot> {
    let kind = |kind| match kind {
        Kind::Folder => Some(RootKind::Folder),
        Kind::File => Some(RootKind::File),
        Kind::Link => Some(RootKind::Link),
        _ => None,
    };
    let top = view.top()?.into_iter();
    let top =
        top.filter_map(|(name, of)| Some(RootEntry { name: name.into_string().ok()?, kind: kind(of)? }));
    Ok(ImageRoot { layers: layers.to_vec(), top: top.collect() })
}

fn run(policy: &Policy) -> io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(async {
        let engine = Engine::for_one_run();
        let outcome = engine.run(policy).await;
        engine.leave();
        outcome
    }))
}

/// Reason why compiling failed. Exit status 1 does not count: a module is not Python of this version, such as
/// a template, and the others are compiled.
fn hindered(outcome: &Outcome) -> Option<String> {
    match (outcome.cause, outcome.exit_code) {
        (Cause::Exited, Some(0 | 1)) => None,
        (Cause::Exited, code) => Some(format!("Python's compiler ended with {}", code.unwrap_or(-1))),
        (cause, _) => Some(outcome.reason.clone().unwrap_or_else(|| format!("{cause:?}"))),
    }
}

/// Adds every `FOLDER/NAME.TAG.pyc` as `FOLDER/__pycache__/NAME.TAG.pyc`.
fn collect<W: Write>(work: &Path, at: &Path, out: &mut tar::Builder<W>) -> io::Result<()> {
    let mut names: Vec<_> =
        fs::read_dir(work.join(at))?.map(|e| Ok(e?.file_name())).collect::<io::Result<_>>()?;
    names.sort();
    for name in names {
        let inner = at.join(&name);
        let path = work.join(&inner);
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            collect(work, &inner, out)?;
        } else if metadata.is_file()
            && metadata.len() <= MAX_BYTECODE_BYTES
            && inner.extension().is_some_and(|e| e == "pyc")
        {
            let bytes = fs::read(&path)?;
            tarball::file(out, &at.join("__pycache__").join(&name), &bytes, 0o644)?;
        }
    }
    Ok(())
}
