//! `hotcell runs suggested`: the policies that wait, on the command line as on the page.

use std::fmt::Write as _;

use hotcell_guard::quarantine::Channel;
use hotcell_learn::Suggested;
use hotcell_state::ids::{PrefixMatch, resolve_prefix};
use hotcell_state::report::{Code, ErrorReport, barred, printable};
use hotcell_web::SuggestionDecision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SERVER, decide, list};
use crate::args::{Common, SuggestedCommand};
use crate::context::{configuration, state};
use crate::exit;
use crate::exit::printed;
use crate::terminal::notes;

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.suggestions/1";

/// Suggested policies that wait for a person, or the one that was decided on.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SuggestionList {
    /// Always `hotcell.suggestions/1`.
    pub schema: String,
    /// Suggestions, the oldest first, then those of wrapped servers by name.
    pub suggestions: Vec<Suggested>,
}

/// Runs the command; returns its exit status.
///
/// # Errors
/// [`ErrorReport`] when there is no such suggestion, or it cannot be decided.
pub fn suggested(common: &Common, command: &SuggestedCommand) -> Result<u8, ErrorReport> {
    let configuration = configuration(common, None)?;
    let all = list(&state(common, &configuration))?;
    let (shown, words) = match command {
        SuggestedCommand::List => {
            if all.is_empty() && !common.json && !common.quiet {
                notes::say("no suggested policy waits; hotcell learn --review leaves one");
            }
            let words = table(&all);
            (all, words)
        }
        SuggestedCommand::Show { id } => {
            let one = find(all, id)?;
            let words = page(&one);
            (vec![one], words)
        }
        SuggestedCommand::Take { id, reason, shown } | SuggestedCommand::Dismiss { id, reason, shown } => {
            let one = find(all, id)?;
            if let Some(shown) = shown.as_deref().filter(|shown| !one.shown.eq_ignore_ascii_case(shown)) {
                let why =
                    format!("{} is not what was shown as {shown:?}: its digest is {}", one.id, one.shown);
                return Err(ErrorReport::new(Code::Refused, why)
                    .field("--shown")
                    .hint(format!("hotcell runs suggested show {} shows it", one.id)));
            }
            let yes = matches!(command, SuggestedCommand::Take { .. });
            let decision = SuggestionDecision {
                id: one.id.clone(),
                shown: one.shown.clone(),
                yes,
                reason: reason.clone(),
                channel: Channel::Cli,
            };
            decide(&configuration, &decision)?;
            let words = match (yes, one.id.starts_with(SERVER)) {
                (true, true) => {
                    format!("{} has these grants from its next start on:\n{}", one.title, bars(&one.text))
                }
                (true, false) => format!("{} is taken. {}\n", one.id, printable(&one.whom)),
                (false, true) => format!("{} is dismissed, until it is denied that again\n", one.id),
                (false, false) => format!("{} is dismissed\n", one.id),
            };
            (vec![one], words)
        }
    };
    let result = if common.json {
        exit::print_json(&SuggestionList { schema: SCHEMA.to_owned(), suggestions: shown })
    } else {
        exit::print_text(&words)
    };
    Ok(printed(result, 0))
}

fn find(mut all: Vec<Suggested>, id: &str) -> Result<Suggested, ErrorReport> {
    let ids: Vec<_> = all.iter().map(|one| one.id.clone()).collect();
    let unknown = |why: String| ErrorReport::new(Code::UnknownName, why).field("ID");
    // Names of servers may have capitals.
    if let Some(at) = ids.iter().position(|known| known == id) {
        return Ok(all.swap_remove(at));
    }
    match resolve_prefix(id, &ids) {
        PrefixMatch::One(whole) => {
            let at = ids.iter().position(|id| *id == whole).unwrap_or_default();
            Ok(all.swap_remove(at))
        }
        PrefixMatch::Several(among) => {
            Err(unknown(format!("{id:?} could be {}", among.join(", "))).hint("give more digits"))
        }
        PrefixMatch::None(near) => {
            let hint = near.map(|near| format!("did you mean {near}? "));
            let hint = hint.unwrap_or_default() + "hotcell runs suggested list lists them";
            Err(unknown(format!("no suggested policy {id:?} waits")).hint(hint))
        }
    }
}

fn table(all: &[Suggested]) -> String {
    let Some(width) = all.iter().map(|one| one.id.chars().count()).max() else { return String::new() };
    let mut text = format!("{:width$}  {:24}  {:>5}  FOR\n", "ID", "SINCE", "RULES");
    for one in all {
        let (rules, title) = (one.rules.len(), printable(&one.title));
        let _ = writeln!(text, "{:width$}  {:24}  {rules:>5}  {title}", printable(&one.id), one.since);
    }
    text
}

fn page(one: &Suggested) -> String {
    let mut text = format!("{} since {}\n", printable(&one.id), one.since);
    for (name, value) in [("yes", &one.allows), ("for", &one.whom), ("wanted by", &one.wanted_by)] {
        let _ = writeln!(text, "{name:10} {}", printable(value));
    }
    for [rule, opens, wanted] in &one.rules {
        let _ = writeln!(
            text,
            "rule       {}\n           opens {}\n           {}",
            printable(rule),
            printable(opens),
            printable(wanted)
        );
    }
    for [what, why] in &one.refused {
        let _ = writeln!(text, "left out   {}: {}", printable(what), printable(why));
    }
    let _ = write!(text, "text\n{}shown      {}\n", bars(&one.text), one.shown);
    text
}

fn bars(text: &str) -> String {
    barred(text, "  | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(id: &str) -> Suggested {
        Suggested {
            id: id.to_owned(),
            title: "a\u{202e}b".to_owned(),
            since: "2026-01-01T00:00:00Z".to_owned(),
            rules: vec![["network a:443".to_owned(), "all\x1b[2J".to_owned(), "x, 1 times".to_owned()]],
            text: "network = [\"a:443\"]\n\x1b[2J\n".to_owned(),
            ..Suggested::default()
        }
    }

    #[test]
    fn suggestions_are_found_by_their_beginning() {
        let all = || vec![one("aa11bb22cc33"), one("aa55bb22cc33"), one("server-files"), one("server-Big")];
        for (id, want) in [
            ("aa11", Ok("aa11bb22cc33")),
            ("server-f", Ok("server-files")),
            ("server-Big", Ok("server-Big")),
            ("aa", Err("could be")),
            ("x", Err("no suggested policy")),
            ("", Err("no suggested policy")),
        ] {
            let found = find(all(), id);
            match want {
                Ok(want) => assert_eq!(found.unwrap().id, want),
                Err(word) => assert!(found.unwrap_err().message.contains(word), "{id:?}"),
            }
        }
    }

    #[test]
    fn words_of_programs_are_printed_harmlessly() {
        let (table, page) = (table(&[one("aa11bb22cc33")]), page(&one("aa11bb22cc33")));
        for text in [&table, &page] {
            assert!(!text.contains(['\x1b', '\u{202e}']), "{text}");
        }
        assert!(page.contains("network = [\"a:443\"]"), "{page}");
    }
}
