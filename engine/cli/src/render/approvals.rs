//! Requests as text for people. Text from a caller is shown behind a bar, without anything that a terminal
//! interprets.

use hotcell_review::approvals::{Approval, Kind, State};
use hotcell_state::report::{barred_within, printable};

/// Columns for a caller's text: few enough that no terminal wraps a line. Characters beyond ASCII may take
/// two.
const TEXT_WIDTH: usize = 76;
/// Maximum number of characters of a caller's text that are shown by default.
const MAX_TEXT_CHARS: usize = 16_000;
/// Width of a table in columns.
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

/// The page of a request; with `all`, including the whole of the caller's text.
pub fn page(one: &Approval, all: bool) -> String {
    let mut text = format!("{} asks to {}\n", printable(&one.asked_by), printable(&one.detail.sentence()));
    let mut room = if all { usize::MAX } else { MAX_TEXT_CHARS };
    let mut left = 0;
    for line in one.detail.lines() {
        let characters = line.chars().count() + 1;
        let shown: String = line.chars().take(room).collect();
        left += characters.saturating_sub(room);
        if room > 0 {
            text.push_str(&barred_within(&shown, "  | ", TEXT_WIDTH));
        }
        room = room.saturating_sub(characters);
    }
    if left > 0 {
        text.push_str(&format!("  {left} more characters: hotcell approvals show {} --all\n", one.id));
    }
    let times = if one.asked > 1 { format!(", {} times", one.asked) } else { String::new() };
    text.push_str(&format!("\nsha256   {}\n", one.digest));
    text.push_str(&format!("asked    {}{times}\n", one.created));
    if let Some(reason) = &one.reason {
        text.push_str(&barred_within(reason, "why      | ", TEXT_WIDTH));
    }
    let until = match one.state {
        State::Pending | State::Approved => format!(", until {}", one.expires),
        State::Denied | State::Expired | State::Used => String::new(),
    };
    text.push_str(&format!("state    {}{until}\n", one.state.name()));
    if let Some(word) = &one.decision {
        let reason = if word.reason.is_empty() { String::new() } else { format!(": {}", word.reason) };
        let line = format!("decided  {} by {} ({}){reason}", word.time, word.by, word.channel);
        text.push_str(&(printable(&line) + "\n"));
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

/// Explains the effect of an approval.
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
    fn caller_text_stays_behind_bar() {
        let words = format!("{}state    approved\u{200b}\n{}", " ".repeat(76), "x".repeat(200));
        let text = barred_within(&words, "  | ", TEXT_WIDTH);
        assert!(
            text.lines().all(|line| line.starts_with("  | ") && line.chars().count() <= TEXT_WIDTH),
            "{text}"
        );
        assert!(text.contains("\\u{200b}\n"), "{text}");
        assert_eq!(barred_within("", "  | ", TEXT_WIDTH), "  | \n");
    }
}
