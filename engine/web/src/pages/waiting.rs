//! Requests and refused artifacts that wait for a person.

use hotcell_review::Approvals;
use hotcell_review::approvals::Approval;
use hotcell_review::quarantine::{Item, QuarantineService};
use maud::{Markup, html};

use super::{Page, Shown};
use crate::form::{Fields, query};
use crate::frame::{Tab, pages, seconds, table};
use crate::say::{beginning, said};
use crate::site::Site;

/// Rows of a page, of each list.
const ROWS: u64 = 25;
/// Characters of a name or a request in a row.
const MAX_ROW_CHARS: usize = 160;

pub fn show(site: &Site, fields: &Fields) -> Shown {
    let configuration = site.configuration()?;
    let at = fields.page();
    let skipped = (at - 1) * ROWS;
    let (requests, all_requests) = Approvals::of(&configuration)?.waiting(skipped, ROWS)?;
    let (items, all_items) = QuarantineService::of(&configuration, None)?.waiting(skipped, ROWS)?;
    let address = |page: u64| format!("/waiting{}", query(&[("page", &page.to_string())]));
    let body = html! {
        div #live {
            @if all_requests + all_items == 0 {
                p { "Nothing waits for a person." }
            }
            h2 { "Requests of agents " span.count { (all_requests) } }
            @if requests.is_empty() {
                p.note { @if all_requests == 0 { "Nobody asks for anything." } @else { "None on this page." } }
            } @else {
                (table("Requests of agents", &["Asks to", "By", "Since", "Until"], &rows(&requests, request)))
            }
            h2 { "Refused artifacts " span.count { (all_items) } }
            @if items.is_empty() {
                p.note { @if all_items == 0 { "Nothing is held." } @else { "None on this page." } }
            } @else {
                (table("Refused artifacts", &["Artifact", "Verdict", "Finding", "Last refused"], &rows(&items, item)))
            }
            (pages(at, ROWS, all_requests.max(all_items), &address))
        }
        p.note {
            "Tools of wrapped servers that are held are on the page " a href="/tools" { "Tools and servers" } "."
        }
    };
    Ok(Page { tab: Some(Tab::Waiting), title: "Waiting".to_owned(), body })
}

fn rows<T>(all: &[T], row: impl Fn(&T) -> Vec<Markup>) -> Vec<Vec<Markup>> {
    all.iter().map(row).collect()
}

fn request(one: &Approval) -> Vec<Markup> {
    let look = html! {
        a href=(format!("/waiting/request/{}", one.id)) { (one.id) }
        " "
        (beginning(&one.detail.sentence(), MAX_ROW_CHARS))
        @if one.asked > 1 { " " span.tag { "asked " (one.asked) " times" } }
    };
    vec![
        look,
        said(&one.asked_by),
        html! { span.n { (seconds(&one.created)) } },
        html! { span.n { (seconds(&one.expires)) } },
    ]
}

fn item(one: &Item) -> Vec<Markup> {
    let name = one.names.first().map_or("(no name)", String::as_str);
    let look = html! {
        a href=(format!("/waiting/item/{}", one.id)) { (one.id) }
        " "
        (beginning(name, MAX_ROW_CHARS))
        @if one.request.is_some() { " " span.tag { "asked for" } }
    };
    let first = one.findings.first();
    let finding = html! {
        @if let Some(first) = first { (beginning(&first.rule, MAX_ROW_CHARS)) }
        @if one.findings_total > 1 { " and " (one.findings_total - 1) " more" }
    };
    vec![look, html! { (one.verdict.name()) }, finding, html! { span.n { (seconds(&one.last_seen)) } }]
}
