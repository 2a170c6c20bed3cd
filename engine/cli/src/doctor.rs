//! `hotcell doctor`.

use hotcell_sandbox::profile::Profile;
use hotcell_sandbox::{Engine, doctor};

use crate::args::Common;
use crate::context::runtime;
use crate::exit;
use crate::signals::interrupted;

/// Runs `hotcell doctor`.
pub fn examine(common: &Common) -> anyhow::Result<u8> {
    let mut profiles = Vec::new();
    for name in Profile::names() {
        profiles.push((name.to_owned(), Profile::named(name)?.policy().shape));
    }
    let report = runtime()?.block_on(async {
        let engine = Engine::new();
        tokio::select! {
            report = doctor::examine(&engine, &profiles) => Some(report),
            () = interrupted() => None,
        }
    });
    let Some(report) = report else { return Ok(exit::INTERRUPTED) };
    let result = if common.json {
        exit::print_json(&report)
    } else {
        use std::io::IsTerminal;
        let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        exit::print_text(&doctor::render(&report, std::io::stdout().is_terminal() && !plain))
    };
    Ok(exit::printed(result, 0))
}
