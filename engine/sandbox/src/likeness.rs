//! Names that a mistyped word may stand for.
//!
//! A name is suggested only if it is like the word: it is the word in another spelling of capitals and hyphens, begins with it, differs
//! from it in few characters, is written out where the word is an abbreviation, or has the word as one of its parts. Any other suggestion
//! would be a guess.

/// Maximum length of a compared name, in characters: a longer word is not a typo, and the comparison takes time and memory for each.
const MAX_COMPARED_CHARS: usize = 128;

/// Kind of likeness of a word to a name, the closest first, each with a distance within its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// Differs only in capitals, hyphens, underscores and blanks.
    Spelling,
    /// The name begins with the word; number of characters that follow.
    Beginning(usize),
    /// Few edits lead from the word to the name; their number.
    Typo(usize),
    /// The name without some of its characters; its length.
    Abbreviation(usize),
    /// The word begins with the name; number of characters that follow.
    Longer(usize),
    /// All parts of one between hyphens, underscores, dots and slashes are parts of the other, in any order, as in `hotcell.run_code` and
    /// `run_code`; number of further characters.
    Part(usize),
}

/// The candidate that is most like a mistyped word, the first of several; `None` where no candidate is like it.
pub fn likely<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = letters(word)?;
    let ranked = candidates.into_iter().filter_map(|name| Some((likeness(word, &letters, name)?, name)));
    ranked.min_by_key(|(likeness, _)| *likeness).map(|(_, name)| name)
}

/// Characters that are compared, in small letters; `None` for a text too long to be a mistyped name.
fn letters(name: &str) -> Option<Vec<char>> {
    let letters = name.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).flat_map(char::to_lowercase);
    let letters: Vec<char> = letters.take(MAX_COMPARED_CHARS + 1).collect();
    (letters.len() <= MAX_COMPARED_CHARS).then_some(letters)
}

fn likeness(word: &str, typed: &[char], name: &str) -> Option<Likeness> {
    let known = letters(name)?;
    if typed.is_empty() || known.is_empty() {
        return None;
    }
    if typed == known {
        return Some(Likeness::Spelling);
    }
    // One character says too little.
    if typed.len() < 2 || known.len() < 2 {
        return None;
    }
    if known.starts_with(typed) {
        return Some(Likeness::Beginning(known.len() - typed.len()));
    }
    if let Some(edits) = typo(typed, &known) {
        return Some(Likeness::Typo(edits));
    }
    if is_abbreviation(typed, &known) {
        return Some(Likeness::Abbreviation(known.len()));
    }
    if typed.starts_with(&known) && known.len() * 3 >= typed.len() {
        return Some(Likeness::Longer(typed.len() - known.len()));
    }
    has_same_parts(word, name).then(|| Likeness::Part(typed.len().abs_diff(known.len())))
}

/// Whether all parts of the word are parts of the name, or all of the name's are the word's.
fn has_same_parts(word: &str, name: &str) -> bool {
    let parts = |text: &str| -> Vec<String> {
        let all = text.split(['-', '_', '.', '/', ' ']).filter(|part| !part.is_empty());
        all.map(str::to_lowercase).collect()
    };
    let (word, name) = (parts(word), parts(name));
    let within =
        |few: &[String], many: &[String]| !few.is_empty() && few.iter().all(|part| many.contains(part));
    within(&word, &name) || within(&name, &word)
}

/// Edits (added, left out, replaced or swapped characters) between two names, if they are at most a third of the longer one. Names of the same
/// characters in another order may differ in half of them, and names of two characters in the second.
fn typo(typed: &[char], known: &[char]) -> Option<usize> {
    let longer = typed.len().max(known.len());
    let sorted = |name: &[char]| {
        let mut letters = name.to_vec();
        letters.sort_unstable();
        letters
    };
    let most = match longer {
        2 if typed[0] == known[0] => 1,
        _ if typed.len() == known.len() && sorted(typed) == sorted(known) => longer / 2,
        _ => longer / 3,
    };
    // The difference of the lengths is the least number of edits.
    if typed.len().abs_diff(known.len()) > most {
        return None;
    }
    let edits = strsim::generic_damerau_levenshtein(typed, known);
    (edits <= most).then_some(edits)
}

/// Whether the word is the name without some characters, as `cols` of `columns`: in order, from the first one, at least three, and at least a
/// third of the name, so that few words are one by chance.
fn is_abbreviation(typed: &[char], known: &[char]) -> bool {
    let mut rest = known.iter();
    typed.len() >= 3
        && typed.len() * 3 >= known.len()
        && typed.first() == known.first()
        && typed.iter().all(|wanted| rest.any(|letter| letter == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENTS: [&str; 8] =
        ["cline", "claude-desktop", "claude-code", "codex", "cursor", "gemini-cli", "goose", "vscode"];
    const CAPABILITIES: [&str; 8] = ["read", "write", "net", "env", "config", "secret", "sandbox", "guard"];
    const ARGUMENTS: [&str; 6] =
        ["columns", "rows", "environment", "workspace_id", "timeout_seconds", "filter"];

    #[test]
    fn suggested_names_are_like_the_word() {
        for (word, names, want) in [
            ("claude", &CLIENTS[..], Some("claude-code")),
            ("gem", &CLIENTS, Some("gemini-cli")),
            ("clime", &CLIENTS, Some("cline")),
            ("code", &CLIENTS, Some("codex")),
            ("vs-code", &CLIENTS, Some("vscode")),
            ("VSCode", &CLIENTS, Some("vscode")),
            ("windsurf", &CLIENTS, None),
            ("q", &CLIENTS, None),
            ("", &CLIENTS, None),
            ("-", &CLIENTS, None),
            ("foo", &CAPABILITIES, None),
            ("bar", &CAPABILITIES, None),
            ("cpu", &CAPABILITIES, None),
            ("exec", &CAPABILITIES, None),
            ("reed", &CAPABILITIES, Some("read")),
            ("raed", &CAPABILITIES, Some("read")),
            ("nett", &CAPABILITIES, Some("net")),
            ("network", &CAPABILITIES, Some("net")),
            ("cfg", &CAPABILITIES, Some("config")),
            ("secrets", &CAPABILITIES, Some("secret")),
            ("cols", &ARGUMENTS, Some("columns")),
            ("col", &ARGUMENTS, Some("columns")),
            ("row", &ARGUMENTS, Some("rows")),
            ("env", &ARGUMENTS, Some("environment")),
            ("workspaceId", &ARGUMENTS, Some("workspace_id")),
            ("wid", &ARGUMENTS, None),
            ("seconds", &ARGUMENTS, Some("timeout_seconds")),
            ("hotcell.run_code", &["run_code", "run_tests"], Some("run_code")),
            ("mcp__hotcell__run_tests", &["run_code", "run_tests"], Some("run_tests")),
            ("create_session", &["session_close", "session_create"], Some("session_create")),
            ("exec_shell", &["run_code", "run_tests"], None),
            ("fix_tests", &["fix_failing_tests", "review"], Some("fix_failing_tests")),
            ("golan", &["go", "rust"], Some("go")),
            ("gopher", &["go", "rust"], Some("go")),
            ("gophers", &["go", "rust"], None),
            ("gox", &["go", "rust"], Some("go")),
            ("cobol", &["go", "python", "c"], None),
            ("ruby", &["rust", "python"], None),
            ("pipy", &["pypi", "npm"], Some("pypi")),
            ("di", &["id", "to"], Some("id")),
            ("ab", &["aa"], Some("aa")),
            ("js", &["ts"], None),
            ("HOME", &["PROFILE", "GUARD"], None),
        ] {
            assert_eq!(likely(word, names.iter().copied()), want, "{word}");
        }
        // The comparison takes time and memory for each character of either.
        let long = "ö".repeat(8 << 20);
        assert_eq!(likely(&long, CLIENTS), None);
        assert_eq!(likely("codex", [&*long, "codec"]), Some("codec"));
        assert_eq!(likely("codex", []), None);
    }

    #[test]
    fn one_slip_of_any_longer_name_finds_it() {
        for names in [&CLIENTS[..], &CAPABILITIES, &ARGUMENTS] {
            for name in names.iter().filter(|name| name.len() > 3) {
                for at in 0..name.len() {
                    let mut dropped = (*name).to_owned();
                    dropped.remove(at);
                    let mut doubled = (*name).to_owned();
                    doubled.insert(at, name.as_bytes()[at].into());
                    let mut replaced = (*name).to_owned();
                    replaced.replace_range(at..=at, "z");
                    let mut swapped = name.as_bytes().to_vec();
                    swapped.swap(at, (at + 1).min(name.len() - 1));
                    let swapped = String::from_utf8(swapped).unwrap();
                    for word in [dropped, doubled, replaced, swapped, name.to_uppercase()] {
                        assert_eq!(likely(&word, names.iter().copied()), Some(*name), "{word}");
                    }
                }
            }
        }
    }

    #[test]
    fn strangers_are_not_suggested() {
        // Words of other letters than the names, in every length.
        for names in [&CLIENTS[..], &CAPABILITIES, &ARGUMENTS] {
            for length in 0..40 {
                for letter in ['z', 'q', 'é', '0', '/'] {
                    let word = letter.to_string().repeat(length);
                    assert_eq!(likely(&word, names.iter().copied()), None, "{word}");
                }
            }
        }
    }
}
