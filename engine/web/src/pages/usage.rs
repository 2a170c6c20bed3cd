//! Tokens and cost of language models.

use hotcell_models::ledger::{By, LedgerReader, Usage};
use hotcell_state::report::{Code, ErrorReport};
use maud::{Markup, html};

use super::{Page, Shown};
use crate::chart::{Bar, bars};
use crate::form::Fields;
use crate::frame::{Tab, table};
use crate::say::beginning;
use crate::site::Site;

/// Maximum number of rows.
const MAX_ROWS: usize = 200;
/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 100;
/// Keys by which usage is counted, with their names.
const KEYS: [(&str, &str, By); 4] = [
    ("day", "Day", By::Day),
    ("model", "Model", By::Model),
    ("role", "Role", By::Role),
    ("session", "Session", By::Session),
];

pub fn show(site: &Site, fields: &Fields) -> Shown {
    let (key, name, by) = KEYS.into_iter().find(|(key, ..)| *key == fields.get("by")).unwrap_or(KEYS[0]);
    let bad = |e: hotcell_models::ledger::LedgerError| ErrorReport::new(Code::State, e.to_string());
    let reader = match site.folder()? {
        Some(folder) => LedgerReader::open(&folder).map_err(bad)?,
        None => LedgerReader::empty(),
    };
    let report = reader.report(by, None).map_err(bad)?;
    let rows: Vec<_> = report.rows.iter().take(MAX_ROWS).map(row).chain([row(&report.total)]).collect();
    let body = html! {
        nav.pages aria-label="Counted by" {
            "Counted by "
            @for (one, name, _) in KEYS {
                a href=(format!("/usage?by={one}")) aria-current=[(one == key).then_some("true")] { (name) } " "
            }
        }
        @if report.rows.is_empty() {
            p { "No calls of models are kept." }
        } @else {
            @if key == "day" { (tokens(&report.rows)) (costs(&report.rows)) }
            (table("Usage", &[name, "Calls", "Input", "Cached", "Output", "Tokens", "Cost"], &rows))
            p.note { "The last row is the sum." }
            @if report.rows.len() > MAX_ROWS { p.note { (report.rows.len() - MAX_ROWS) " more: hotcell usage" } }
        }
    };
    Ok(Page { tab: Some(Tab::Usage), title: "Usage".to_owned(), body })
}

fn row(one: &Usage) -> Vec<Markup> {
    let cost = html! {
        @if one.calls > one.free + one.unknown { "$" (format!("{:.4}", one.dollars)) }
        @if one.free > 0 { " " (one.free) " free" }
        @if one.unknown > 0 { " " (one.unknown) " of unknown cost" }
    };
    let name = if one.key.is_empty() { "-" } else { &one.key };
    vec![
        beginning(name, MAX_NAME_CHARS),
        html! { (one.calls) },
        html! { (one.fresh) },
        html! { (one.cached) },
        html! { (one.output) },
        html! { (one.tokens) @if one.uncounted > 0 { "+" } },
        cost,
    ]
}

fn tokens(rows: &[Usage]) -> Markup {
    #[expect(clippy::cast_precision_loss, reason = "a bar has 80 heights")]
    let bar = |one: &Usage| Bar {
        value: one.tokens as f64,
        label: format!("{}: {} tokens", one.key, one.tokens),
        bad: false,
    };
    let all: Vec<_> = rows.iter().map(bar).collect();
    let most = rows.iter().map(|one| one.tokens).max().unwrap_or(0);
    bars("Tokens by day", &format!("{most} tokens"), &all)
}

fn costs(rows: &[Usage]) -> Markup {
    let bar = |one: &Usage| Bar {
        value: one.dollars,
        label: format!("{}: ${:.4}", one.key, one.dollars),
        bad: false,
    };
    let all: Vec<_> = rows.iter().map(bar).collect();
    let most = rows.iter().map(|one| one.dollars).fold(0.0, f64::max);
    if most > 0.0 {
        bars("Known cost by day", &format!("${most:.4}"), &all)
    } else {
        html! {}
    }
}
