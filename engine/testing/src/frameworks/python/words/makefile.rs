//! The target `test` of a `Makefile`: its recipe with the file's variables expanded. Pure.

use std::collections::BTreeMap;

use super::{Place, Words, text};
use crate::frameworks::javascript::shell::{self, Word};
use crate::project::Project;

/// Targets that run tests, the likeliest first.
const TARGETS: [&str; 5] = ["test", "tests", "check", "unittest", "unit"];
/// Maximum nesting of targets and variables.
const MAX_NESTING_DEPTH: usize = 8;

/// Rules by the names of their targets.
#[derive(Debug, Default)]
pub(crate) struct Makefile {
    variables: BTreeMap<String, String>,
    /// Prerequisites and recipe.
    rules: BTreeMap<String, (Vec<String>, Vec<String>)>,
}

/// Reads the target; `None` when there is no such target.
#[must_use]
pub fn read(project: &dyn Project) -> Option<Words> {
    let (file, text) = ["GNUmakefile", "Makefile", "makefile"]
        .iter()
        .find_map(|file| Some((*file, text(project, file)?)))?;
    let makefile = parse(&text);
    let target = TARGETS.iter().find(|target| makefile.rules.contains_key(**target))?;
    let mut words = Words { source: format!("{file}, target {target}"), ..Words::default() };
    makefile.follow(target, &mut words, &mut Vec::new());
    Some(words)
}

fn parse(text: &str) -> Makefile {
    let mut makefile = Makefile::default();
    let mut open: Vec<String> = Vec::new();
    let joined = text.replace("\\\r\n", "\\\n");
    let mut lines = joined.lines().peekable();
    while let Some(line) = lines.next() {
        let mut line = line.trim_end().to_owned();
        while line.ends_with('\\') && lines.peek().is_some() {
            line.pop();
            line = format!("{} {}", line.trim_end(), lines.next().unwrap_or_default().trim());
        }
        if let Some(recipe) = line.strip_prefix('\t') {
            for target in &open {
                if let Some((_, lines)) = makefile.rules.get_mut(target) {
                    lines.push(recipe.trim().to_owned());
                }
            }
            continue;
        }
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        if let Some((name, sign, value)) = assignment(line) {
            let known = makefile.variables.entry(name.to_owned()).or_default();
            match sign {
                "+=" if !known.is_empty() => *known = format!("{known} {value}"),
                "?=" if !known.is_empty() => {}
                _ => value.clone_into(known),
            }
            continue;
        }
        open.clear();
        if let Some((targets, rest)) =
            line.split_once(':').filter(|(targets, _)| !targets.contains(['$', '=']))
        {
            let (before, recipe) = rest.trim_start_matches(':').split_once(';').unwrap_or((rest, ""));
            let before: Vec<String> = before.split_whitespace().map(str::to_owned).collect();
            for target in targets.split_whitespace() {
                let rule = makefile.rules.entry(target.to_owned()).or_default();
                rule.0.extend(before.clone());
                rule.1.extend((!recipe.trim().is_empty()).then(|| recipe.trim().to_owned()));
                open.push(target.to_owned());
            }
        }
    }
    makefile
}

/// Name, operator and value of an assignment.
fn assignment(line: &str) -> Option<(&str, &'static str, &str)> {
    let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))?;
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let sign = ["::=", ":=", "?=", "+=", "="].into_iter().find(|sign| rest.starts_with(sign))?;
    (!name.is_empty()).then(|| (name, sign, rest[sign.len()..].trim()))
}

impl Makefile {
    /// Adds a rule with a recipe of lines for a shell.
    pub(crate) fn rule(&mut self, target: &str, recipe: Vec<String>) {
        self.rules.insert(target.to_owned(), (Vec::new(), recipe));
    }

    /// Sorts in what a target runs.
    pub(crate) fn target(&self, target: &str, words: &mut Words) {
        self.follow(target, words, &mut Vec::new());
    }

    fn follow(&self, target: &str, words: &mut Words, open: &mut Vec<String>) {
        if open.len() >= MAX_NESTING_DEPTH || open.iter().any(|known| known == target) {
            return;
        }
        let Some((before, recipe)) = self.rules.get(target) else { return };
        open.push(target.to_owned());
        for target in before {
            self.follow(target, words, open);
        }
        for line in recipe {
            let line = line.trim_start_matches(['@', '-', '+', ' ']);
            match self.expand(line, 0) {
                Some(line) => self.line(&line, words, open),
                None => words.left.push(crate::text::clip(line, 200)),
            }
        }
    }

    /// A recipe line with the file's variables expanded; `None` when make itself would run a command.
    fn expand(&self, line: &str, depth: usize) -> Option<String> {
        let mut out = String::new();
        let mut rest = line;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let close = match rest.chars().next()? {
                '$' => {
                    out.push('$');
                    rest = &rest[1..];
                    continue;
                }
                '(' => ')',
                '{' => '}',
                _ => return None,
            };
            let (name, after) = rest[1..].split_once(close)?;
            rest = after;
            if name == "MAKE" {
                out.push_str("make");
                continue;
            }
            if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
                || depth >= MAX_NESTING_DEPTH
            {
                return None;
            }
            match (self.variables.get(name), name) {
                (Some(value), _) => out.push_str(&self.expand(value, depth + 1)?),
                (None, "PYTHON") => out.push_str("python3"),
                (None, "CURDIR") => out.push_str(super::TOP),
                (None, _) => {}
            }
        }
        out.push_str(rest);
        (out.len() < 1 << 16).then_some(out)
    }

    fn line(&self, line: &str, words: &mut Words, open: &mut Vec<String>) {
        let mut place = Place::default();
        for (_, pipeline) in shell::parse(line) {
            let Some(simple) = pipeline.first.as_ref() else {
                words.left.push(crate::text::clip(&pipeline.text, 200));
                continue;
            };
            let known = |place: &Place, word: &Word| {
                shell::value(word, &|name| {
                    place
                        .variables
                        .iter()
                        .rev()
                        .find(|(known, _)| known == name)
                        .map(|(_, value)| value.clone())
                })
            };
            let mut own = place.clone();
            let mut unknown = false;
            for (name, value) in &simple.variables {
                match known(&own, value) {
                    Some(value) => own.variables.push((name.clone(), value)),
                    None => unknown = true,
                }
            }
            let program = simple.words.first().map(|word| word.text.as_str()).unwrap_or_default();
            match program {
                "" => place = own,
                "cd" => {
                    let to = simple.words.get(1).filter(|word| !word.open()).map(|word| word.text.clone());
                    match to.and_then(|to| super::tox::folder(&place.folder, &to)) {
                        Some(folder) => place.folder = folder,
                        None => {
                            words.left.push(crate::text::clip(line, 200));
                            return;
                        }
                    }
                }
                "export" => {
                    for word in &simple.words[1..] {
                        if let Some((name, value)) = shell::variable(word)
                            && let Some(value) = known(&place, &value)
                        {
                            place.variables.push((name, value));
                        }
                    }
                }
                "make" | "gmake" if place.folder.is_empty() => {
                    for word in simple.words[1..].iter().filter(|word| !word.text.starts_with('-')) {
                        self.follow(&word.text, words, open);
                    }
                }
                _ if unknown || simple.words.iter().any(|word| word.replaced) => {
                    words.left.push(crate::text::clip(&pipeline.text, 200));
                }
                _ => words.take(&simple.words, &own),
            }
        }
    }
}
