//! `hotcell doctor`.

use hotcell_sandbox::doctor::{Availability, Doctor};
use hotcell_sandbox::outcome::LayerState;
use hotcell_sandbox::profile::Profile;
use hotcell_sandbox::{Engine, doctor};
use hotcell_state::report::{Code, ErrorReport, printable};

use crate::args::Common;
use crate::context::runtime;
use crate::signals::interrupted;
use crate::{exit, usage};

/// Examines the host; `None` when interrupted.
fn examined() -> anyhow::Result<Option<Doctor>> {
    runtime()?.block_on(async {
        tokio::select! {
            report = examined_within() => report.map(Some),
            () = interrupted() => Ok(None),
        }
    })
}

/// Examines the host within a runtime.
pub async fn examined_within() -> anyhow::Result<Doctor> {
    let mut profiles = Vec::new();
    for name in Profile::names() {
        profiles.push((name.to_owned(), Profile::named(name)?.policy().shape));
    }
    let engine = Engine::new();
    Ok(doctor::examine(&engine, &profiles).await)
}

/// Page of `hotcell` alone, on a terminal: what works here, and three commands to try.
pub fn first_page() -> anyhow::Result<u8> {
    let Some(report) = examined()? else { return Ok(exit::INTERRUPTED) };
    Ok(exit::printed(exit::print_text(&page(&report)), 0))
}

fn page(report: &Doctor) -> String {
    let is_on = |state: &LayerState| *state == LayerState::On;
    let on = report.layers.values().filter(|layer| is_on(&layer.state)).count();
    let missing: Vec<_> =
        report.layers.iter().filter(|(_, l)| !is_on(&l.state)).map(|(l, _)| l.name()).collect();
    let missing = if missing.is_empty() { String::new() } else { format!("; not {}", missing.join(", ")) };
    let available = |one: &Availability| matches!(one, Availability::Available);
    let profiles: Vec<_> =
        report.profiles.iter().filter(|(_, a)| available(a)).map(|(name, _)| name.as_str()).collect();
    let profiles = match profiles.is_empty() {
        true => "none: hotcell doctor says what to mend".to_owned(),
        false => profiles.join(", "),
    };
    format!(
        "hotcell {} runs code that nobody has read yet, in a sandbox.\n\n\
         here       Linux {} {}, {}\n\
         layers     {on} of {}{missing}\n\
         profiles   {profiles}\n\n\
         try        hotcell run -- id\n           hotcell test DIR\n           hotcell init\n\n\
         hotcell --help lists everything.\n",
        env!("CARGO_PKG_VERSION"),
        printable(&report.host.kernel),
        report.host.arch,
        printable(&report.host.user),
        report.layers.len(),
    )
}

/// Runs `hotcell doctor`; `ready` is the profile whose absence is a failure.
pub fn examine(common: &Common, ready: Option<&str>) -> anyhow::Result<u8> {
    if let Some(name) = ready
        && !Profile::names().any(|known| known == name)
    {
        let known: Vec<&str> = Profile::names().collect();
        let why = format!("{name:?} is not a profile; they are {}", known.join(", "));
        let report = ErrorReport::new(Code::InvalidValue, why).field("--ready");
        return Ok(usage::fail(&report, common.json));
    }
    let Some(report) = examined()? else { return Ok(exit::INTERRUPTED) };
    let code = code(&report, ready);
    let result = if common.json {
        exit::print_json(&report)
    } else {
        use std::io::IsTerminal;
        let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        exit::print_text(&doctor::render(&report, std::io::stdout().is_terminal() && !plain))
    };
    Ok(exit::printed(result, code))
}

/// Exit status: that of a refusal where the profile is not available.
fn code(report: &Doctor, ready: Option<&str>) -> u8 {
    match ready.map(|name| report.profiles.get(name)) {
        None | Some(Some(Availability::Available)) => 0,
        Some(_) => exit::REFUSED,
    }
}
