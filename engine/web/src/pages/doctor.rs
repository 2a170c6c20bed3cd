//! The layers and profiles that this host can enforce.

use std::time::Duration;

use hotcell_sandbox::doctor::{Availability, Doctor};
use hotcell_sandbox::outcome::LayerState;
use hotcell_sandbox::text::counted;
use maud::{Markup, html};

use super::{Page, Shown};
use crate::frame::{Failure, Tab, seconds, table};
use crate::say::{beginning, said};
use crate::site::{Attacks, Site};

/// Maximum number of attacks in the table.
const MAX_ATTACKS: usize = 200;
/// Maximum length of a title or reason, in characters.
const MAX_TITLE_CHARS: usize = 300;

pub fn show(site: &Site, examined: Option<(Duration, Doctor)>) -> Shown {
    let Some((age, report)) = examined else {
        let message = "This host was not examined.".to_owned();
        return Err(Failure { status: 503, title: "Interrupted", message, hint: None });
    };
    let layers: Vec<_> = report
        .layers
        .iter()
        .map(|(layer, found)| {
            let mark = if found.state == LayerState::On { "good" } else { "bad" };
            vec![
                html! { (layer.name()) },
                html! { span.state.(mark) { (said(&String::from(found.state.clone()))) } },
                said(&found.tried),
                said(&found.answer),
                html! { @if let Some(mend) = &found.mend { (said(mend)) } },
            ]
        })
        .collect();
    let profiles: Vec<_> = report
        .profiles
        .iter()
        .map(|(name, availability)| {
            let mark = if *availability == Availability::Available { "good" } else { "bad" };
            vec![said(name), html! { span.state.(mark) { (said(&String::from(availability.clone()))) } }]
        })
        .collect();
    let host = &report.host;
    let body = html! {
        p {
            "Linux " (said(&host.kernel)) " on " (said(&host.arch)) ", as " (said(&host.user))
            @if let Some(container) = &host.container { ", in " (said(container)) }
            ". Found out by trying, " (counted(age.as_secs(), "second")) " ago."
        }
        h2 { "Profiles" }
        (table("Profiles", &["Profile", "State"], &profiles))
        h2 { "Layers" }
        (table("Layers", &["Layer", "State", "Tried", "Answer", "To mend"], &layers))
        (attacks((site.sources.attacks)()?.as_ref()))
    };
    Ok(Page { tab: Some(Tab::Doctor), title: "This host".to_owned(), body })
}

/// The attack table: what was tried on this host, and what stopped it.
fn attacks(found: Option<&Attacks>) -> Markup {
    let Some(found) = found else {
        return html! {
            h2 { "Attack table" }
            p.note { "No attacks were tried here: " code { "hotcell doctor --attack" } " runs hostile programs, also with each layer removed." }
        };
    };
    // First those that need a look.
    let mut all: Vec<_> = found.rows.iter().collect();
    all.sort_by_key(|(number, _, _, good, _)| (*good, *number));
    let rows: Vec<_> = all
        .iter()
        .take(MAX_ATTACKS)
        .map(|(number, title, standing, good, why)| {
            let mark = if *good { "good" } else { "bad" };
            vec![
                html! { (number) },
                beginning(title, MAX_TITLE_CHARS),
                html! { span.state.n.(mark) { (said(standing)) } },
                beginning(why, MAX_TITLE_CHARS),
            ]
        })
        .collect();
    html! {
        h2 { "Attack table" }
        p {
            @if found.good { strong { "All attacks were stopped." } } @else { strong { "Not every attack was stopped, or was tried." } }
            " Tried " (seconds(&found.date)) " by hotcell " (said(&found.of[0])) " on Linux " (said(&found.of[1])) ": "
            @for (at, (words, count)) in found.counts.iter().enumerate() { @if at > 0 { ", " } (count) " " (said(words)) }
            "."
        }
        (table("Attack table", &["No.", "Attack", "Result", "Why"], &rows))
        @if all.len() > MAX_ATTACKS { p.note { (all.len() - MAX_ATTACKS) " more" } }
    }
}
