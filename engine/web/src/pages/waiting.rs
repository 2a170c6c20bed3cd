//! Requests, refused artifacts, tools of servers and suggested policies that wait for a person.

use hotcell_config::Configuration;
use hotcell_learn::Suggested;
use hotcell_review::Approvals;
use hotcell_review::approvals::Approval;
use hotcell_review::quarantine::{Item, QuarantineService};
use hotcell_state::report::ErrorReport;
use maud::{Markup, html};

use super::decide::is_pickable;
use super::{Page, Shown};
use crate::form::{Fields, query};
use crate::frame::{Tab, Visit, pages, seconds, table};
use crate::say::{beginning, said};
use crate::seal::Purpose;
use crate::site::{Site, WrappedServer};
use crate::subject::{Kind, Subject};

/// Rows of a page, of each list.
const ROWS: u64 = 25;
/// Maximum number of servers with held tools.
const MAX_SERVERS: usize = 50;
/// Maximum number of suggestions.
const MAX_SUGGESTED: usize = 50;
/// Characters of a name or a request in a row.
const MAX_ROW_CHARS: usize = 160;

pub fn show(site: &Site, visit: &Visit, fields: &Fields) -> Shown {
    let configuration = site.configuration()?;
    let at = fields.page();
    let skipped = (at - 1) * ROWS;
    let (requests, all_requests) = Approvals::of(&configuration)?.waiting(skipped, ROWS)?;
    let (items, all_items) = QuarantineService::of(&configuration, None)?.waiting(skipped, ROWS)?;
    let held = site.held()?;
    let suggested = site.suggested()?;
    let address = |page: u64| format!("/waiting{}", query(&[("page", &page.to_string())]));
    let body = html! {
        div #live {
            @if all_requests + all_items + held.len() as u64 + suggested.len() as u64 == 0 {
                p { "Nothing waits for a person." }
            }
            h2 { "Requests of agents " span.count { (all_requests) } }
            @if requests.is_empty() {
                p.note { @if all_requests == 0 { "Nobody asks for anything." } @else { "None on this page." } }
            } @else {
                @if visit.decides() && requests.iter().any(is_pickable) {
                    form method="post" action="/waiting/deny" {
                        (table("Requests of agents", &["Asks to", "By", "Since", "Until", "Pick"], &picked(site, visit, &configuration, &requests)?))
                        div.box.no {
                            label { "Reason (may be empty)" input name="reason" maxlength="1000" autocomplete="off"; }
                            button.no { "Deny the picked ones" }
                            span.note { "Picked requests are of one kind. A yes is for one request, on its page." }
                        }
                    }
                } @else {
                    (table("Requests of agents", &["Asks to", "By", "Since", "Until"], &rows(&requests, request)))
                }
            }
            h2 { "Refused artifacts " span.count { (all_items) } }
            @if items.is_empty() {
                p.note { @if all_items == 0 { "Nothing is held." } @else { "None on this page." } }
            } @else {
                (table("Refused artifacts", &["Artifact", "Verdict", "Finding", "Last refused"], &rows(&items, item)))
            }
            @if !held.is_empty() && at == 1 {
                h2 { "Tools of servers " span.count { (held.len()) } }
                (table("Tools of servers", &["Server", "New", "Changed"], &rows(&held[..held.len().min(MAX_SERVERS)], server)))
                @if held.len() > MAX_SERVERS { p.note { (held.len() - MAX_SERVERS) " more: hotcell mcp servers list" } }
            }
            @if !suggested.is_empty() && at == 1 {
                h2 { "Suggested policies " span.count { (suggested.len()) } }
                (table("Suggested policies", &["For", "Rules", "Since"], &rows(&suggested[..suggested.len().min(MAX_SUGGESTED)], suggestion)))
                @if suggested.len() > MAX_SUGGESTED { p.note { (suggested.len() - MAX_SUGGESTED) " more, when these are decided" } }
            }
            (pages(at, ROWS, all_requests.max(all_items), &address))
        }
    };
    Ok(Page { tab: Some(Tab::Waiting), title: "Waiting".to_owned(), body })
}

fn rows<T>(all: &[T], row: impl Fn(&T) -> Vec<Markup>) -> Vec<Vec<Markup>> {
    all.iter().map(row).collect()
}

/// Rows with a box to pick: its value has the token of what the request was when it was shown.
fn picked(
    site: &Site,
    visit: &Visit,
    configuration: &Configuration,
    all: &[Approval],
) -> Result<Vec<Vec<Markup>>, ErrorReport> {
    let mut rows = Vec::new();
    for one in all {
        let mut row = request(one);
        row.push(html! {});
        if is_pickable(one) {
            let shown = Subject::read(site, configuration, Kind::Request, &one.id)?.shown();
            let token = site.seal.seal(&visit.session, Purpose::Seen, &shown, "");
            row[4] = html! {
                input type="checkbox" name="pick" value=(format!("{}.{token}", one.id)) aria-label=(format!("Pick {}", one.id));
            };
        }
        rows.push(row);
    }
    Ok(rows)
}

fn suggestion(one: &Suggested) -> Vec<Markup> {
    vec![
        html! { a href=(format!("/waiting/suggestion/{}", one.id)) { (beginning(&one.title, MAX_ROW_CHARS)) } },
        html! { (one.rules.len()) },
        html! { span.n { (seconds(&one.since)) } },
    ]
}

fn server(one: &WrappedServer) -> Vec<Markup> {
    vec![
        html! { a href=(format!("/waiting/tools/{}", one.name)) { (said(&one.name)) } },
        html! { (one.held.len() - one.changed.len()) },
        html! { (one.changed.len()) },
    ]
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
