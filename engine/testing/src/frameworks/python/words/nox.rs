//! `noxfile.py`: only what its text shows for certain. Calls `session.run(…)` with literal words, in the
//! plain body of a session.

use super::{Place, Words, text};
use crate::frameworks::javascript::shell::Word;
use crate::project::Project;

/// Maximum length of a call, in bytes.
const MAX_CALL_BYTES: usize = 8 << 10;

/// Reads the sessions; `None` when none of them runs tests.
#[must_use]
pub fn read(project: &dyn Project) -> Option<Words> {
    let text = text(project, "noxfile.py")?;
    let chosen = names(&text, "nox.options.sessions");
    let mut all: Vec<(String, Words)> = sessions(&text);
    if let Some(chosen) = &chosen {
        all.retain(|(name, _)| chosen.iter().any(|known| known.split('-').next() == Some(name.as_str())));
    }
    let at = all
        .iter()
        .position(|(_, words)| !words.starts.is_empty())
        .or_else(|| all.iter().position(|(_, words)| words.tests()))?;
    let (name, mut words) = all.remove(at);
    words.source = format!("noxfile.py, session {name}");
    for (name, other) in all {
        if let Some(start) =
            other.starts.iter().find(|start| words.starts.iter().all(|known| known.words != start.words))
        {
            words.left.push(format!("{} (session {name})", super::text_of(&start.words)));
        }
    }
    Some(words)
}

/// Texts of a list that is assigned in the first column.
fn names(text: &str, name: &str) -> Option<Vec<String>> {
    let at = text
        .lines()
        .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('=')))?;
    let start = at.as_ptr() as usize - text.as_ptr() as usize;
    let value = text[start..].split_once('=')?.1;
    let mut reader = Reader { text: value, at: 0 };
    reader.list()
}

/// Every session and its commands.
fn sessions(text: &str) -> Vec<(String, Words)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut decorated = None;
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        if line.starts_with("@nox.session") || line.starts_with("@session") {
            // A decorator may span several lines.
            let call: String = lines[at - 1..].iter().take(20).copied().collect::<Vec<_>>().join("\n");
            decorated = Some(named(&call));
            continue;
        }
        let Some(rest) = line.strip_prefix("def ") else {
            if decorated.is_some() && line.starts_with(|c: char| c.is_alphabetic()) {
                decorated = None;
            }
            continue;
        };
        let end = lines[at..]
            .iter()
            .position(|line| line.starts_with(|c: char| !c.is_whitespace() && c != ')' && c != '#'));
        let end = end.map_or(lines.len(), |end| at + end);
        if let Some(name) = decorated.take() {
            let own = rest.split('(').next().unwrap_or_default().to_owned();
            found.push((name.unwrap_or(own), body(&lines[at..end].join("\n"))));
        }
        at = end;
    }
    found
}

/// Name given by a decorator.
fn named(call: &str) -> Option<String> {
    let head = call.split("def ").next()?;
    let rest = head.split_once("name=")?.1;
    Reader { text: rest, at: 0 }.literal()
}

/// Commands in the body of a session.
fn body(text: &str) -> Words {
    let mut words = Words::default();
    let mut place = Place::default();
    let mut lists: Vec<(String, Vec<String>)> = Vec::new();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let first =
        text.lines().find(|line| !line.trim().is_empty() && !line.trim_start().starts_with([')', '#']));
    let plain = first.map_or(4, depth);
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let statement = line.trim_start();
        let here = &text[start + (line.len() - statement.len())..];
        if let Some(rest) = statement.strip_prefix("session.chdir(").filter(|_| depth(line) == plain) {
            if let Some(folder) =
                (Reader { text: rest, at: 0 }).literal().and_then(|to| super::tox::folder(&place.folder, &to))
            {
                place.folder = folder;
            }
        } else if let Some(rest) = here.strip_prefix("session.env[") {
            let mut reader = Reader { text: rest, at: 0 };
            if let Some(name) = reader.literal()
                && reader.sign("]").is_some()
                && reader.sign("=").is_some()
                && let Some(value) = reader.literal()
            {
                place.variables.push((name, value));
            }
        } else if let Some((name, rest)) = here.split_once('=').filter(|(name, _)| {
            !name.trim().is_empty() && name.trim().bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        }) {
            let mut reader = Reader { text: rest, at: 0 };
            reader.posargs();
            if let Some(list) = reader.list() {
                lists.retain(|(known, _)| known != name.trim());
                lists.push((name.trim().to_owned(), list));
            }
        } else if let Some(rest) =
            ["session.run(", "session.run_always("].iter().find_map(|call| here.strip_prefix(call))
        {
            let certain = depth(line) == plain;
            let mut reader = Reader { text: &rest[..rest.floor_char_boundary(MAX_CALL_BYTES)], at: 0 };
            match reader.call(&lists) {
                Some((list, variables)) if certain => {
                    let mut own = place.clone();
                    own.variables.extend(variables);
                    let list: Vec<Word> = list.iter().map(|text| Word::literal(text)).collect();
                    words.take(&list, &own);
                }
                Some((list, _)) => {
                    // A condition elsewhere decides if the command runs.
                    let list: Vec<Word> = list.iter().map(|text| Word::literal(text)).collect();
                    let mut other = Words::default();
                    other.take(&list, &place);
                    if other.tests() {
                        words.left.push(super::text_of(&list));
                    }
                }
                None => {
                    let line = statement.trim_end();
                    if line.contains("test") {
                        words.left.push(crate::text::clip(line, 200));
                    }
                }
            }
        }
    }
    words
}

/// Words of a call, and the variables that it sets.
type Called = (Vec<String>, Vec<(String, String)>);

/// Parses the arguments of a call.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            if rest.starts_with('#') {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(c) = rest.chars().next().filter(|c| c.is_whitespace()) {
                self.at += c.len_utf8();
            } else {
                return;
            }
        }
    }

    fn sign(&mut self, sign: &str) -> Option<()> {
        self.blanks();
        self.text[self.at..].starts_with(sign).then(|| self.at += sign.len())
    }

    fn name(&mut self) -> Option<String> {
        self.blanks();
        let rest = &self.text[self.at..];
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len());
        (end > 0).then(|| {
            self.at += end;
            rest[..end].to_owned()
        })
    }

    /// A string literal, with directly following ones; `None` if Python would insert something.
    fn literal(&mut self) -> Option<String> {
        let mut out: Option<String> = None;
        loop {
            self.blanks();
            let rest = &self.text[self.at..];
            let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) else { return out };
            if rest.starts_with("\"\"\"") || rest.starts_with("'''") {
                return None;
            }
            let end = rest[1..].find([quote, '\\', '\n'])?;
            if !rest[1 + end..].starts_with(quote) {
                return None;
            }
            out.get_or_insert_default().push_str(&rest[1..=end]);
            self.at += end + 2;
        }
    }

    /// `session.posargs or`, before the default arguments.
    fn posargs(&mut self) -> bool {
        let start = self.at;
        let there = self.name().as_deref() == Some("session.posargs");
        if there && self.name().as_deref() != Some("or") {
            return true;
        }
        if !there {
            self.at = start;
        }
        there
    }

    fn list(&mut self) -> Option<Vec<String>> {
        self.blanks();
        let close = match self.text[self.at..].chars().next()? {
            '[' => "]",
            '(' => ")",
            _ => return None,
        };
        self.at += 1;
        let mut out = Vec::new();
        loop {
            if self.sign(close).is_some() {
                return Some(out);
            }
            out.push(self.literal()?);
            if self.sign(",").is_none() {
                self.sign(close)?;
                return Some(out);
            }
        }
    }

    /// Words of a call and the variables that it sets; `None` when a word is not a literal.
    fn call(&mut self, lists: &[(String, Vec<String>)]) -> Option<Called> {
        let (mut words, mut variables) = (Vec::new(), Vec::new());
        loop {
            if self.sign(")").is_some() {
                return Some((words, variables));
            }
            if self.sign("*").is_some() {
                let wrapped = self.sign("(").is_some();
                let start = self.at;
                if self.posargs() {
                    words.extend(self.list().unwrap_or_default());
                } else {
                    self.at = start;
                    match self.list() {
                        Some(list) => words.extend(list),
                        None => {
                            let name = self.name()?;
                            words.extend(lists.iter().find(|(known, _)| *known == name)?.1.clone());
                        }
                    }
                }
                if wrapped {
                    self.sign(")")?;
                }
            } else if let Some(text) = self.literal() {
                words.push(text);
            } else {
                let name = self.name()?;
                if name == "env" {
                    self.sign("=")?;
                    self.sign("{")?;
                    while self.sign("}").is_none() {
                        let key = self.literal()?;
                        self.sign(":")?;
                        variables.push((key, self.literal()?));
                        if self.sign(",").is_none() {
                            self.sign("}")?;
                            break;
                        }
                    }
                } else {
                    self.sign("=")?;
                    if self.list().is_none() {
                        self.name()?;
                    }
                }
            }
            if self.sign(",").is_none() {
                self.sign(")")?;
                return Some((words, variables));
            }
        }
    }
}
