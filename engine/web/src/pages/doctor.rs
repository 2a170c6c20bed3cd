//! The layers and profiles that this host can enforce.

use std::time::Duration;

use hotcell_sandbox::doctor::{Availability, Doctor};
use hotcell_sandbox::outcome::LayerState;
use maud::html;

use super::{Page, Shown};
use crate::frame::{Failure, Tab, table};
use crate::say::said;

pub fn show(examined: Option<(Duration, Doctor)>) -> Shown {
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
            ". Found out by trying, " (age.as_secs()) " seconds ago; "
            code { "hotcell doctor --attack" } " tries attacks too."
        }
        h2 { "Profiles" }
        (table("Profiles", &["Profile", "State"], &profiles))
        h2 { "Layers" }
        (table("Layers", &["Layer", "State", "Tried", "Answer", "To mend"], &layers))
    };
    Ok(Page { tab: Some(Tab::Doctor), title: "This host".to_owned(), body })
}
