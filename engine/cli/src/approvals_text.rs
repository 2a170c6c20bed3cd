//! Requests as text for people. What a caller wrote stands behind a bar, with nothing in it that a terminal obeys.

use hotcell_service::approvals::{Approval, Kind, State};
use hotcell_service::report::printable;

/// Columns of a table.
const WIDTH: usize = 100;

/// A table of requests.
pub fn table(all: &[&Approval]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!("{:<8}  {:<8}  {:<16}  ASKS TO\n", "ID", "STATE", "BY");
    for one in all {
        let by = short(&printable(&one.asked_by), 16);
        let line = format!(
            "{:<8}  {:<8}  {by:<16}  {}",
            one.id,
            one.state.name(),
            printable(&one.detail.sentence())
        );
        text.push_str(&short(&line, WIDTH));
        text.push('\n');
    }
    text
}

fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
    }
}

/// The page of a request.
pub fn page(one: &Approval) -> String {
    let mut text = format!("{} asks to {}\n", printable(&one.asked_by), printable(&one.detail.sentence()));
    for line in one.detail.lines() {
        text.push_str(&format!("  | {}\n", printable(&line)));
    }
    let times = if one.asked > 1 { format!(", {} times", one.asked) } else { String::new() };
    text.push_str(&format!("\nsha256   {}\n", one.digest));
    text.push_str(&format!("asked    {}{times}\n", one.created));
    if let Some(reason) = &one.reason {
        text.push_str(&format!("why      | {}\n", printable(reason)));
    }
    let until = match one.state {
        State::Pending | State::Approved => format!(", until {}", one.expires),
        State::Denied | State::Expired | State::Used => String::new(),
    };
    text.push_str(&format!("state    {}{until}\n", one.state.name()));
    if let Some(word) = &one.decision {
        let reason = if word.reason.is_empty() { String::new() } else { format!(": {}", word.reason) };
        text.push_str(&format!("decided  {} by {} ({}){reason}\n", word.time, word.by, word.channel));
    }
    if let Some(look) = one.detail.look() {
        text.push_str(&format!("more     {look}\n"));
    }
    if one.state == State::Pending {
        text.push_str(&format!(
            "\nhotcell approvals approve {0}   or   hotcell approvals deny {0}\n",
            one.id
        ));
    }
    text
}

/// What a yes means.
pub fn approved(one: &Approval) -> String {
    let what = match one.kind {
        Kind::Release => "run",
        Kind::Grant | Kind::Network | Kind::Protected => "call",
    };
    format!(
        "{} is approved until {}: the same {what} of {} works once, exactly so\n",
        one.id,
        one.expires,
        printable(&one.asked_by)
    )
}
