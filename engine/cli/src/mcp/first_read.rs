//! The guard's reading of a wrapped server's files, before anything of them runs, with its word on the terminal.

use std::path::Path;

use hotcell_config::{Configuration, Mode};
use hotcell_deps::first_read;
use hotcell_state::report::ErrorReport;

use crate::args::Common;
use crate::terminal::notes;

pub use first_read::FILE;

/// Has the guard read packages, as [`first_read::require`].
///
/// # Errors
/// [`ErrorReport`] when the packages are quarantined, or cannot be read.
pub fn require(
    common: &Common,
    configuration: &Configuration,
    mode: Option<Mode>,
    named: (&str, &Path),
    kept: Option<&Path>,
) -> Result<(), ErrorReport> {
    let said =
        first_read::require(configuration, mode, named, kept).map_err(|report| report.field("SERVER"))?;
    if let Some(said) = said.filter(|_| !common.quiet) {
        notes::say(said);
    }
    Ok(())
}
