//! `hotcell mcp --role`: the work of one role, with a driver for each call.

use std::sync::Arc;

use hotcell_agents::Role;
use hotcell_agents::driver::Driver;
use hotcell_config::RunSettings;
use hotcell_mcp::roles::Work;
use hotcell_sandbox::Engine;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_testing::Cancel;
use hotcell_toolchain::Surroundings;
use serde_json::{Map, Value};

use super::{bench, folder};
use crate::args::Common;
use crate::context::{configuration, runtime};
use crate::terminal::notes;

/// Serves the tools of a role until standard input ends or `stop` resolves.
///
/// # Errors
/// A report when the configuration or the state folder cannot be read, or no client spoke MCP.
pub async fn serve(common: &Common, role: Role, stop: impl Future<Output = ()>) -> Result<(), ErrorReport> {
    // No project's configuration: what a model wrote must not configure the role.
    let configuration = configuration(common, None)?;
    let folder = folder(common)?;
    let is_quiet = common.quiet;
    let work: Work = Arc::new(move |tool: &str, arguments: Map<String, Value>| {
        let engine = Engine::new();
        let say = |line: &str| {
            if !is_quiet {
                notes::say(line);
            }
        };
        let driver = Driver {
            folder: &folder,
            bench: bench(&folder)?,
            configuration: &configuration,
            settings: RunSettings::default(),
            engine: &engine,
            models: &configuration.user.models,
            around: Surroundings::of_this_process(),
            cancel: Cancel::default(),
            say: &say,
            seen: None,
        };
        let runtime = runtime().map_err(|e| ErrorReport::new(Code::Internal, format!("{e:#}")))?;
        let done = runtime.block_on(driver.role_call(role, tool, arguments));
        engine.leave();
        done
    });
    hotcell_mcp::roles::serve(role, work, stop).await.map_err(|why| ErrorReport::new(Code::Internal, why))
}
