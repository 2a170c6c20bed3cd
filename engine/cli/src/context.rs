//! Surroundings of a command: configuration, state folder, current folder, event loop.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;
use hotcell_config::{Configuration, Places};
use hotcell_guard::quarantine::Channel;
use hotcell_scanning::session::ScanState;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateChoice;
use nix::sys::resource::{Resource, getrlimit};

use crate::args::Common;

/// Maximum number of threads for file operations; tokio's default.
const MAX_FILE_THREADS: usize = 512;

/// Makes a runtime with one thread: nothing here is limited by the processor, and threads cost time at the
/// start.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    runtime_with(MAX_FILE_THREADS)
}

/// Like [`runtime`], with this maximum number of threads for file operations.
pub fn runtime_with(file_threads: usize) -> anyhow::Result<tokio::runtime::Runtime> {
    enough_descriptors()?;
    tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(file_threads)
        .enable_all()
        .build()
        .context("the event loop cannot be made")
}

/// Checks the limit of descriptors. One run needs 25 besides standard input, output and error; with fewer it
/// would fail halfway.
fn enough_descriptors() -> anyhow::Result<()> {
    const MIN_OPEN_FILES: u64 = 32;
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).context("RLIMIT_NOFILE")?;
    anyhow::ensure!(
        soft >= MIN_OPEN_FILES,
        "this process may have {soft} open files, and hotcell needs {MIN_OPEN_FILES}; raise `ulimit -n`"
    );
    Ok(())
}

pub fn folder(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}

pub fn current_folder() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| "/".into())
}

/// The configuration file that the user named.
fn named_file(common: &Common) -> Option<PathBuf> {
    let named = common.config.clone().or_else(|| folder("HOTCELL_CONFIG"));
    named.filter(|path| !path.as_os_str().is_empty())
}

/// Path of the operator's configuration, which may not exist.
///
/// # Errors
/// [`ErrorReport`] when none is named and there is no home folder.
pub fn configuration_file(common: &Common) -> Result<PathBuf, ErrorReport> {
    match named_file(common) {
        Some(named) => Ok(current_folder().join(named)),
        None => Places::usual(folder("XDG_CONFIG_HOME"), folder("HOME")).ok_or_else(|| {
            let why = "HOME is not set to an absolute path, so there is no configuration to write";
            ErrorReport::new(Code::Configuration, why).field("HOME").hint("name one with --config")
        }),
    }
}

/// Reads the configuration; `project` is the folder whose own file is included.
pub fn configuration(common: &Common, project: Option<PathBuf>) -> Result<Configuration, ErrorReport> {
    let usual = Places::usual(folder("XDG_CONFIG_HOME"), folder("HOME"));
    let places = Places { named: named_file(common), usual, project };
    let ours = |(name, _): &(OsString, OsString)| name.as_encoded_bytes().starts_with(b"HOTCELL_");
    let mut configuration =
        Configuration::read(&places, std::env::vars_os().filter(ours), &current_folder())?;
    let state = state(common, &configuration);
    if let Ok(path) = state.path() {
        configuration.reading = ScanState::once(path);
    }
    configuration.asker = Some((Channel::Cli, state));
    Ok(configuration)
}

/// The state folder: from the option, the environment, the configuration, or the default.
pub fn state(common: &Common, configuration: &Configuration) -> StateChoice {
    let named = common.state.clone().or_else(|| configuration.environment.state.clone());
    match named.or_else(|| configuration.user.state.clone()) {
        Some(path) => StateChoice::Named(current_folder().join(path)),
        None => StateChoice::usual(folder("XDG_STATE_HOME"), folder("HOME")),
    }
}
