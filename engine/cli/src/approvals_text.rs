//! Requests as text for people. What a caller wrote stands behind a bar, with nothing in it that a terminal obeys.

use hotcell_service::approvals::{Approval, Kind, State};
use hotcell_service::report::printable;

/// Columns of a caller's words: no terminal breaks a line of so few. What is not ASCII may take two.
const NARROW: usize = 76;
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

/// A caller's line behind a bar, in as many pieces as a terminal has lines for it: what a terminal broke by itself would begin without
/// the bar, as our own words do.
fn barred(text: &mut String, bar: &str, line: &str) {
    text.push_str(bar);
    let mut column = bar.len();
    for c in printable(line).chars().flat_map(visible) {
        let width = if c.is_ascii() { 1 } else { 2 };
        if column + width > NARROW {
            text.push('\n');
            text.push_str(bar);
            column = bar.len();
        }
        text.push(c);
        column += width;
    }
    text.push('\n');
}

/// A character, or its number where it has no width or looks like nothing.
fn visible(c: char) -> Vec<char> {
    let unseen = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2064}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}');
    if unseen { c.escape_unicode().collect() } else { vec![c] }
}

/// The page of a request.
pub fn page(one: &Approval) -> String {
    let mut text = format!("{} asks to {}\n", printable(&one.asked_by), printable(&one.detail.sentence()));
    for line in one.detail.lines() {
        barred(&mut text, "  | ", &line);
    }
    let times = if one.asked > 1 { format!(", {} times", one.asked) } else { String::new() };
    text.push_str(&format!("\nsha256   {}\n", one.digest));
    text.push_str(&format!("asked    {}{times}\n", one.created));
    if let Some(reason) = &one.reason {
        barred(&mut text, "why      | ", reason);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_s_words_stay_behind_their_bar() {
        let mut text = String::new();
        barred(
            &mut text,
            "  | ",
            &format!("{}state    approved\u{200b}\n{}", " ".repeat(76), "x".repeat(200)),
        );
        assert!(
            text.lines().all(|line| line.starts_with("  | ") && line.chars().count() <= NARROW),
            "{text}"
        );
        assert!(text.contains("\\u{200b}\\n"), "{text}");
        let mut empty = String::new();
        barred(&mut empty, "  | ", "");
        assert_eq!(empty, "  | \n");
    }
}
