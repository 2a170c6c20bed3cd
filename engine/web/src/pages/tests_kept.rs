//! Runs of `hotcell test`. Their reports go to the caller and are not kept, which the page says.

use hotcell_state::history::RunFilter;
use maud::html;

use super::runs::{history, list, of_history};
use super::{Page, Shown, flaky};
use crate::form::{Fields, query};
use crate::frame::{Tab, pages};
use crate::site::Site;

/// Rows of a page.
const ROWS: u64 = 50;
/// Beginning of the command of such a run as it is stored.
const COMMAND: &str = "[\"test\",";

pub fn show(site: &Site, fields: &Fields) -> Shown {
    let at = fields.page();
    let (mut rows, mut total) = (Vec::new(), 0);
    if let Some(history) = history(site)? {
        let filter = RunFilter { begins: Some(COMMAND), ..RunFilter::default() };
        (rows, total) = history.page(&filter, (at - 1) * ROWS, ROWS).map_err(|error| of_history(&error))?;
    }
    let address = |page: u64| format!("/tests{}", query(&[("page", &page.to_string())]));
    let body = html! {
        div #live {
            (flaky::section(site)?)
            h2 { "All test runs" }
            p.note {
                "hotcell keeps how a test run ended. Single tests are in its receipt: " code { "hotcell test --receipt FILE" }
                ", or " code { "always = true" } " in the table " code { "receipts" } " of the configuration."
            }
            @if total == 0 {
                p { "No test runs are kept." }
            } @else {
                (list("Test runs", &rows))
                (pages(at, ROWS, total, &address))
            }
        }
    };
    Ok(Page { tab: Some(Tab::Tests), title: "Tests".to_owned(), body })
}
