//! `hotcell tool dev`: builds a plugin, shows what its cases or one call come to, and does so again whenever a file of it changes.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hotcell_plugins::InvokeError;
use hotcell_sandbox::layer::likely;
use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_tools::ask::Refused;
use hotcell_tools::author;
use hotcell_tools::{Ask, BoxFuture, Broker, CallRequest, Export, Reply, Runtime, RuntimeOptions};

use crate::args::Common;
use crate::terminal::notes;
use crate::tool::arguments;
use crate::tool::author::{check_folder, compiled, folder_of, report_of_build};
use crate::{tool, usage};

/// Interval between checks for changes.
const CHECK_INTERVAL: Duration = Duration::from_millis(300);
/// Maximum number of files that are checked.
const MAX_FILES: usize = 4_096;
/// Folders that builds write to.
const MADE: [&str; 6] = ["out", "target", "node_modules", "__pycache__", "dist", "build"];
/// Files that builds write.
const LOCKS: [&str; 3] = ["Cargo.lock", "package-lock.json", "uv.lock"];

/// Metadata of each file that changes with its contents.
type Stamps = BTreeMap<PathBuf, (u64, u64, i64, i64)>;

/// Arguments of [`dev`].
pub struct Dev<'a> {
    /// The plugin's folder.
    pub folder: &'a Path,
    /// Build and show once.
    pub once: bool,
    /// A function to call in place of the cases.
    pub call: Option<&'a str>,
    /// Arguments.
    pub pairs: &'a [String],
}

/// Builds and shows, once or until interrupted. Returns the result of the last round.
pub async fn dev(common: &Common, dev: &Dev<'_>) -> Result<u8, ErrorReport> {
    if common.json && !dev.once {
        let why = "one object is printed, and rounds have no end: say --once as well";
        return Err(ErrorReport::new(Code::Usage, why).field("--json"));
    }
    let folder = folder_of(dev.folder);
    // A change in a folder that is not a plugin's would be waited for without an end.
    check_folder(&folder)?;
    loop {
        // Before the build: what changes while it goes on is built again.
        let seen = stamps(&folder);
        let ended = round(common, dev, &folder).await;
        if dev.once {
            return ended;
        }
        if let Err(report) = ended {
            usage::fail(&report, false);
        }
        notes::say(format!("waits for a change in {}; Ctrl-C ends it", folder.display()));
        while stamps(&folder) == seen {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

async fn round(common: &Common, dev: &Dev<'_>, folder: &Path) -> Result<u8, ErrorReport> {
    let built = author::build(folder, &folder.join("out")).map_err(|e| report_of_build(folder, &e))?;
    if !common.json && !common.quiet {
        notes::say(format!("built {} ({} bytes)", built.component.display(), built.size));
    }
    if let Some(function) = dev.call {
        return call(common, &built.component, function, dev.pairs).await;
    }
    if !folder.join("tests/cases.toml").exists() {
        notes::say("there are no cases (tests/cases.toml); --call FUNCTION calls one");
        return Ok(0);
    }
    crate::tool::author::test(common, folder, None).await
}

/// Calls a function of a component that was just built. It holds nothing, as with `tool test`.
async fn call(
    common: &Common,
    component: &Path,
    function: &str,
    words: &[String],
) -> Result<u8, ErrorReport> {
    let bad = |why: String| ErrorReport::new(Code::InvalidValue, why);
    let wasm = std::fs::read(component).map_err(|e| bad(format!("{}: {e}", component.display())))?;
    let internal = |why: String| ErrorReport::new(Code::Internal, why);
    let runtime = Runtime::new(&RuntimeOptions::default()).map_err(|e| internal(e.to_string()))?;
    let (description, prepared) = match compiled(common, &runtime, &wasm).await? {
        Some(both) => both,
        None => runtime.describe_and_load(&wasm).map_err(|e| bad(e.to_string()))?,
    };
    let export = named(function, &description.exports)?;
    let arguments = match words.is_empty() {
        true => "{}".to_owned(),
        false => arguments::arguments(words, &export.input_schema)?,
    };
    let request = CallRequest::new(&export.path, &arguments, Arc::new(Nothing));
    let answer = runtime.call_kept(&prepared, request, &mut None).await;
    tool::said(common, function, &component.to_string_lossy(), answer.map_err(InvokeError::Call))
}

/// The one function of this name.
fn named<'a>(function: &str, exports: &'a [Export]) -> Result<&'a Export, ErrorReport> {
    let mut all = exports.iter().filter(|export| export.function == function || export.path == function);
    let names = || exports.iter().map(|export| export.function.as_str());
    let bad = |why: String| ErrorReport::new(Code::UnknownName, why).field("--call");
    match (all.next(), all.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => {
            let paths: Vec<String> = exports.iter().map(|export| printable(&export.path)).collect();
            Err(bad(format!("there are several functions {function:?}"))
                .hint(format!("name one of {}", paths.join(", "))))
        }
        (None, _) => Err(match likely(function, names()) {
            Some(near) => {
                bad(format!("there is no function {function:?}")).hint(format!("did you mean {near}?"))
            }
            None => bad(format!("there is no function {function:?}"))
                .hint(format!("there are {}", printable(&names().collect::<Vec<_>>().join(", ")))),
        }),
    }
}

/// Nothing is granted to what is tried.
struct Nothing;

impl Broker for Nothing {
    fn ask(&self, _: u64, ask: Ask) -> BoxFuture<'_, Reply> {
        let denied = |what: String| Reply::Refused { why: Refused::Denied(what) };
        let reply = match ask {
            Ask::Log { level, message } => {
                notes::say(format!("log ({}): {}", printable(&level), printable(&message)));
                Reply::Done
            }
            Ask::Progress { .. } => Reply::Done,
            Ask::Config { key } => denied(format!("config={key}")),
            Ask::Secret { name } => denied(format!("secret={name}")),
            Ask::Sandbox { .. } => denied("sandbox".to_owned()),
            Ask::Scan { .. } => denied("guard".to_owned()),
            _ => Reply::Refused { why: Refused::Unavailable("there is none in a trial".to_owned()) },
        };
        Box::pin(std::future::ready(reply))
    }
}

/// Current metadata of the files of a plugin, except those that builds write.
fn stamps(folder: &Path) -> Stamps {
    let (mut all, mut left) = (Stamps::new(), vec![folder.to_owned()]);
    while let Some(folder) = left.pop() {
        let Ok(entries) = folder.read_dir() else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() && !MADE.contains(&&*name) && !name.starts_with('.') {
                left.push(entry.path());
            } else if about.is_file() && !LOCKS.contains(&&*name) && all.len() < MAX_FILES {
                all.insert(entry.path(), (about.ino(), about.size(), about.mtime(), about.mtime_nsec()));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_edits_count_as_changes_not_builds() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["src", "out", "target", ".git"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        for (file, counts) in [
            ("plugin.toml", true),
            ("src/lib.rs", true),
            ("out/a.wasm", false),
            ("target/x", false),
            (".git/index", false),
            ("Cargo.lock", false),
        ] {
            let before = stamps(dir.path());
            std::fs::write(dir.path().join(file), "one").unwrap();
            assert_eq!(stamps(dir.path()) != before, counts, "{file}");
            let before = stamps(dir.path());
            std::fs::write(dir.path().join(file), "longer").unwrap();
            assert_eq!(stamps(dir.path()) != before, counts, "{file}");
        }
        let before = stamps(dir.path());
        std::fs::remove_file(dir.path().join("src/lib.rs")).unwrap();
        assert_ne!(stamps(dir.path()), before);
    }
}
