//! The pages. Each reads what it shows, and fails with a message.

mod agents;
mod decide;
mod doctor;
mod flaky;
mod run;
mod runs;
mod tests_kept;
mod tools;
mod usage;
mod waiting;

use hotcell_sandbox::doctor::Doctor;
use maud::Markup;

use crate::form::Fields;
use crate::frame::{Failure, Tab, Visit};
use crate::site::Site;

pub use decide::decide;

/// A page without its frame.
#[derive(Debug)]
pub struct Page {
    pub tab: Option<Tab>,
    pub title: String,
    pub body: Markup,
}

pub type Shown = Result<Page, Failure>;

/// The page at a path.
pub fn show(site: &Site, visit: &Visit, path: &str, query: &Fields) -> Shown {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        ["" | "waiting"] => waiting::show(site, visit, query),
        ["waiting", kind, id] => decide::show(site, visit, kind, id, query),
        ["runs"] => runs::show(site, query),
        ["runs", id] => run::show(site, id),
        ["runs", id, name] => run::text(site, id, name, query),
        ["tests"] => tests_kept::show(site, query),
        ["agents"] => agents::show(site, query),
        ["agents", id] => agents::session(site, id),
        ["agents", id, "diff"] => agents::diff(site, id, query),
        ["tools"] => tools::show(site),
        ["usage"] => usage::show(site, query),
        _ => Err(Failure::nowhere()),
    }
}

/// The page about this host.
pub fn host(site: &Site, examined: Option<(std::time::Duration, Doctor)>) -> Shown {
    doctor::show(site, examined)
}
